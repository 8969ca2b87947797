//! What graphs and stages gain and cost (design: µNF): `weir-bench graph …`.

mod hot_thread;
mod scale_out;
mod sharing;

/// Runs the benchmark called so.
pub(crate) fn run(what: &[&str]) -> Result<(), String> {
    match what {
        ["scale-out"] => scale_out::table(),
        ["sharing"] => sharing::table(),
        [] => {
            scale_out::table()?;
            println!();
            sharing::table()
        }
        other => Err(format!(
            "there is no benchmark `graph {}`: write `graph scale-out` or `graph sharing`",
            other.join(" ")
        )),
    }
}
