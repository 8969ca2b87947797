//! Gains and costs of graphs and stages (design: µNF): `weir-bench graph …`.

mod hot_thread;
mod less_work;
mod parallel;
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
        ["parallel"] => parallel::table(),
        ["sharing"] => sharing::table(),
        [] => {
            less_work::table()?;
            println!();
            scale_out::table()?;
            println!();
            sharing::table()?;
            println!();
            parallel::table()
        }
        other => Err(format!(
            "there is no benchmark `graph {}`: write `graph less-work`, `graph scale-out`, `graph sharing` or `graph parallel`",
            other.join(" ")
        )),
    }
}
