//! SNF §9 again: `weir-bench snf`.
//!
//! A test bed in virtual time ([`bed`]) with the flowlets that the switch runs, and with what the
//! paper compares them with. docs/benchmarks.md has figures, and says what differs.
//!
//! ```text
//! bed ─ assign ─ meter      a run: who decides, what per-flow switches measure
//!  │  └ units, trace        servers; traffic
//! figures, recovery, cost, store ─ scene, report
//! ```

mod assign;
mod bed;
mod cost;
mod figures;
mod meter;
mod recovery;
mod report;
mod scene;
mod store;
#[cfg(test)]
mod tests;
mod trace;
mod units;

use serde_json::json;

use report::Report;
use scene::Scene;

/// Times fewer flows in the quick form.
const QUICK: u32 = 64;

/// A part of the whole: its word, what it does.
type Part = (&'static str, fn(&mut Report, Scene) -> Result<(), String>);

/// All parts, in the order of the paper.
const PARTS: [Part; 10] = [
    ("traces", figures::traces),
    ("modes", figures::modes_compared),
    ("states", figures::states),
    ("attack", figures::attack),
    ("recovery", recovery::recovery),
    ("copies", figures::copies),
    ("sizes", figures::sizes),
    ("gaps", figures::gaps),
    ("cost", cost::times),
    ("bandwidth", cost::bandwidth),
];

/// `snf [quick] [seed=N] [parts=N] [PART...]`, `snf store`, `snf count WHAT NUMBER`.
pub(crate) fn run(words: &[&str]) -> Result<(), String> {
    if let ["count", what, number] = words {
        let number = number
            .parse()
            .map_err(|_| format!("`{number}` is no number"))?;
        return cost::count(what, number);
    }
    let mut scene = Scene { parts: 1, seed: 1 };
    let (mut wanted, mut is_quick) = (Vec::new(), false);
    for word in words {
        let number = |text: &str| {
            text.parse::<u64>()
                .map_err(|_| format!("`{text}` is no number"))
        };
        match word.split_once('=') {
            Some(("seed", text)) => scene.seed = number(text)?,
            Some(("parts", text)) => {
                let parts = u32::try_from(number(text)?).ok().filter(|parts| *parts > 0);
                scene.parts = parts.ok_or("`parts` is 1 to 4294967295")?;
            }
            None if *word == "quick" => (scene.parts, is_quick) = (QUICK, true),
            None if *word == "store" || PARTS.iter().any(|(name, _)| name == word) => {
                wanted.push(*word);
            }
            _ => return Err(format!("`{word}`: write {}", usage())),
        }
    }
    let Scene { parts, seed } = scene;
    let folder = if is_quick { "snf-quick" } else { "snf" };
    let mut report = Report::create(
        folder,
        &json!({"seed": seed, "parts": parts, "what": wanted}),
    )?;
    report.say(&format!(
        "SNF §9 in virtual time, seed {seed}, 1/{parts} of the paper's traces."
    ));
    for (name, part) in PARTS {
        if wanted.is_empty() || wanted.contains(&name) {
            part(&mut report, scene)?;
        }
    }
    if wanted.is_empty() || wanted.contains(&"store") {
        store::measure(&mut report)?;
    }
    report.finish()
}

fn usage() -> String {
    let parts: Vec<&str> = PARTS.iter().map(|(name, _)| *name).collect();
    format!(
        "`quick`, `seed=N`, `parts=N`, `{}` or `store`",
        parts.join("`, `")
    )
}
