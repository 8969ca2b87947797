//! `weir sim --plants`: each planted bug is looked for until it is found.

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use serde_json::json;
use weir_sim::plants::{Bug, find, near};

use super::report::short;
use crate::args::{Format, Sim};
use crate::exit::{Exit, Failure, Outcome};
use crate::output;

/// Time for which a planted bug is looked for, at most.
pub(super) const LONGEST: Duration = Duration::from_secs(400);

pub(crate) fn find_all(args: &Sim) -> Outcome {
    let mut rows = Vec::new();
    let mut missed = false;
    for plant in Bug::all() {
        let start = Instant::now();
        // `--seed`, from 1 on, moves the seeds along.
        let first = near(plant).saturating_add(args.seed.saturating_sub(1));
        let sum = find(plant, first, || start.elapsed() < LONGEST).map_err(Failure::outside)?;
        if !args.quiet {
            eprintln!("{}: {} seeds", plant.name(), sum.seeds);
        }
        missed |= sum.failed.is_empty();
        rows.push((plant, sum));
    }
    match args.output {
        Format::Json => {
            let rows: Vec<_> = rows
                .iter()
                .map(|(plant, sum)| {
                    let found = sum.failed.first();
                    json!({
                        "plant": plant.name(),
                        "seed": found.map(|f| f.seed),
                        "seeds": sum.seeds,
                        "invariant": found.map(|f| f.violation.invariant.name()),
                        "text": found.map(|f| f.violation.text.as_str()),
                    })
                })
                .collect();
            output::json(&rows)?;
        }
        Format::Text => {
            let mut text = String::new();
            for (plant, sum) in &rows {
                let found = sum.failed.first();
                let what = found.map_or_else(|| "not found".to_owned(), short);
                let seed = found.map_or(0, |f| f.seed);
                // Writing to a string can't fail.
                let _ = writeln!(
                    text,
                    "{:<22} seed {seed:>5} after {:>5} seeds  {what}",
                    plant.name(),
                    sum.seeds
                );
            }
            output::line(&text)?;
        }
    }
    Ok(if missed { Exit::Failed } else { Exit::Done })
}
