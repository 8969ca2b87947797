//! `weir sim --lease`: seeds of leases of the place of a switch.

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use weir_sim::lease::{Campaign, Failed, Plant, find, near};

use super::plants::LONGEST;
use super::threads::seeds;
use crate::args::{Format, Sim};
use crate::exit::{Exit, Failure, Outcome};
use crate::output;

pub(super) fn lease(args: &Sim) -> Outcome {
    if args.plants {
        return find_all(args);
    }
    let plant = args.plant.as_deref().map(plant).transpose()?;
    let start = Instant::now();
    let add = |sum: &mut Campaign, seed| Ok(sum.add_seed(seed, plant));
    let sum = seeds(args, add, Campaign::merge)?;
    match args.output {
        Format::Json => output::json(&to_json(args, &sum, start.elapsed()))?,
        Format::Text => output::line(&to_text(args, &sum, start.elapsed()))?,
    }
    let is_fine = sum.failed().is_empty();
    Ok(if is_fine { Exit::Done } else { Exit::Failed })
}

fn plant(name: &str) -> Result<Plant, Failure> {
    let found = Plant::ALL.into_iter().find(|plant| plant.name() == name);
    found.ok_or_else(|| {
        let names = Plant::ALL.map(Plant::name).join(", ");
        Failure::usage(format!(
            "there is no plant `{name}` of leases; there are {names}"
        ))
    })
}

fn to_json(args: &Sim, sum: &Campaign, elapsed: Duration) -> Value {
    let failed = sum.failed().iter().map(|failed| {
        json!({
            "seed": failed.seed(),
            "invariant": failed.violation().rule().name(),
            "at_us": failed.violation().at() / 1_000,
            "text": failed.violation().text(),
            "repeat": repeat(args, failed.seed()),
        })
    });
    json!({
        "seed": args.seed,
        "seeds": sum.seeds(),
        "failed": failed.collect::<Vec<_>>(),
        "events": sum.events(),
        "tenants": sum.tenants(),
        "faults": sum.faults(),
        "longest_wait_leases": sum.waited() as f64 / 100.0,
        "elapsed_s": elapsed.as_secs_f64(),
    })
}

fn to_text(args: &Sim, sum: &Campaign, elapsed: Duration) -> String {
    let mut text = format!(
        "{} seeds, {} tenants, {} faults, {} events, {:.1} leases at most without a tenant when faults \
         were over: {} s\n",
        sum.seeds(),
        sum.tenants(),
        sum.faults(),
        sum.events(),
        sum.waited() as f64 / 100.0,
        elapsed.as_secs(),
    );
    for failed in sum.failed() {
        // Writing to a string can't fail.
        let _ = writeln!(text, "seed {}: {}", failed.seed(), failed.violation());
        let _ = writeln!(text, "  repeat: {}", repeat(args, failed.seed()));
    }
    if sum.failed().is_empty() {
        text += "no rule was broken\n";
    }
    text
}

/// The command that repeats a seed.
fn repeat(args: &Sim, seed: u64) -> String {
    let plant = args.plant.as_deref();
    let plant = plant.map_or_else(String::new, |name| format!(" --plant {name}"));
    format!("weir sim --lease --seed {seed}{plant}")
}

fn find_all(args: &Sim) -> Outcome {
    let mut rows = Vec::new();
    for plant in Plant::ALL {
        let start = Instant::now();
        let first = near(plant).saturating_add(args.seed.saturating_sub(1));
        let sum = find(plant, first, || start.elapsed() < LONGEST);
        if !args.quiet {
            eprintln!("{}: {} seeds", plant.name(), sum.seeds());
        }
        rows.push((plant, sum));
    }
    match args.output {
        Format::Json => output::json(&rows.iter().map(row).collect::<Vec<_>>())?,
        Format::Text => {
            let mut text = String::new();
            for (plant, sum) in &rows {
                let found = sum.failed().first();
                let what = found.map_or("not found".to_owned(), |f| f.violation().to_string());
                let (name, seed) = (plant.name(), found.map_or(0, Failed::seed));
                // Writing to a string can't fail.
                let _ = writeln!(
                    text,
                    "{name:<22} seed {seed:>5} after {:>5} seeds  {what}",
                    sum.seeds()
                );
            }
            output::line(&text)?;
        }
    }
    let missed = rows.iter().any(|(_, sum)| sum.failed().is_empty());
    Ok(if missed { Exit::Failed } else { Exit::Done })
}

fn row((plant, sum): &(Plant, Campaign)) -> Value {
    let found = sum.failed().first();
    json!({
        "plant": plant.name(),
        "seed": found.map(Failed::seed),
        "seeds": sum.seeds(),
        "invariant": found.map(|f| f.violation().rule().name()),
        "text": found.map(|f| f.violation().text()),
    })
}
