//! What graphs and stages gain and cost (design: µNF): `weir-bench graph …`.

mod hot_thread;
mod less_work;
mod scale_out;
mod sharing;

/// Runs the benchmark called so.
pub(crate) fn run(what: &[&str]) -> Result<(), String> {
    match what {
        ["less-work"] => less_work::table(),
        ["count", form, packets] => {
            let packets = packets
                .parse()
                .map_err(|_| format!("`{packets}` is no number"))?;
            less_work::count(form, packets)
        }
        ["scale-out"] => scale_out::table(),
        ["sharing"] => sharing::table(),
        [] => {
            less_work::table()?;
            println!();
            scale_out::table()?;
            println!();
            sharing::table()
        }
        other => Err(format!(
            "there is no benchmark `graph {}`: write `graph less-work`, `graph scale-out` or `graph sharing`",
            other.join(" ")
        )),
    }
}
