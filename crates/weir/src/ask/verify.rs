//! `weir verify`: compares the copies of units with what their owners have sent, under traffic.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use weir_api::v1;

use crate::args::{Format, Verify};
use crate::exit::{Exit, Failure, Outcome};
use crate::output;
use crate::output::thousands;

use super::table::{Table, row, text};
use super::{Client, NO_SWITCH, failure};

/// Interval between questions to the instance.
const LOOK: Duration = Duration::from_millis(20);

pub(crate) fn verify(args: &Verify) -> Outcome {
    let found = super::ask(args.shown.instance.as_deref(), async |mut client| {
        compare(&mut client, args.timeout).await
    })?;
    let sum = |of: fn(&v1::ReplicaComparison) -> u64| found.iter().map(of).sum::<u64>();
    let total = Total {
        equal: sum(|its| its.equal),
        differs: sum(|its| its.differs),
        lacks: sum(|its| its.behind + its.missing),
        unanswered: sum(unanswered),
    };
    match args.shown.output {
        Format::Json => {
            let rows: Vec<Value> = found.iter().map(json_of).collect();
            output::json(
                &json!({ "equal": total.equal, "wrong": total.wrong(), "runtimes": rows }),
            )?;
        }
        Format::Text => {
            output::line(text(&table(&found)).trim_end())?;
            output::line(&total.told())?;
        }
    }
    match total.wrong() {
        0 => Ok(Exit::Done),
        _ => Ok(Exit::Failed),
    }
}

/// The comparisons of all runtimes together.
struct Total {
    equal: u64,
    differs: u64,
    /// Copies that are not what they should be by now, or are nowhere.
    lacks: u64,
    unanswered: u64,
}

impl Total {
    fn wrong(&self) -> u64 {
        self.differs + self.lacks + self.unanswered
    }

    /// What it comes to, for people.
    fn told(&self) -> String {
        let mut parts = vec![match self.equal {
            0 if self.wrong() == 0 => "there was nothing to compare".to_owned(),
            equal => format!("{} of flows are equal", thousands(equal)),
        }];
        let others = [
            (self.differs, "differ, and are sent whole once more"),
            (self.lacks, "lack what was sent, and are sent whole"),
            (self.unanswered, "did not answer"),
        ];
        let others = others.into_iter().filter(|(copies, _)| *copies > 0);
        parts.extend(others.map(|(copies, what)| format!("{} {what}", thousands(copies))));
        if self.equal > 0 && self.wrong() == 0 {
            parts.push("none differs".to_owned());
        }
        parts.join(", ")
    }
}

fn json_of(its: &v1::ReplicaComparison) -> Value {
    json!({
        "runtime": its.runtime,
        "equal": its.equal,
        "differs": its.differs,
        "behind": its.behind,
        "missing": its.missing,
        "over": its.over,
        "unanswered": unanswered(its),
        "skipped": its.skipped,
    })
}

/// Copies that have not answered.
fn unanswered(its: &v1::ReplicaComparison) -> u64 {
    its.left + its.unanswered
}

/// Begins the comparison, and waits until it is over, or nothing has changed for so long. One that
/// dies meanwhile stays as it was when it last answered.
async fn compare(
    client: &mut Client,
    timeout: Duration,
) -> Result<Vec<v1::ReplicaComparison>, Failure> {
    let mut all: BTreeMap<u32, v1::ReplicaComparison> = BTreeMap::new();
    let mut changed = Instant::now();
    loop {
        let begin = all.is_empty();
        let asked = client.compare_replicas(v1::CompareReplicasRequest { begin });
        let asked = asked.await.map_err(|status| failure(&status))?;
        let found = asked.into_inner().runtimes;
        if begin && found.is_empty() {
            return Err(Failure::outside(NO_SWITCH));
        }
        let mut is_done = true;
        for its in found {
            // One that has come since was not asked.
            let Some(before) = (if begin {
                Some(its)
            } else {
                all.get(&its.runtime).copied()
            }) else {
                continue;
            };
            if before.round != its.round {
                return Err(Failure::outside(
                    "another comparison has begun meanwhile: give the command again",
                ));
            }
            is_done &= its.left == 0;
            if all.insert(its.runtime, its) != Some(its) {
                changed = Instant::now();
            }
        }
        if is_done || changed.elapsed() >= timeout {
            return Ok(all.into_values().collect());
        }
        tokio::time::sleep(LOOK).await;
    }
}

fn table(found: &[v1::ReplicaComparison]) -> Table {
    let mut table = vec![row([
        "RUNTIME",
        "EQUAL",
        "DIFFERS",
        "BEHIND",
        "MISSING",
        "OVER",
        "UNANSWERED",
        "SKIPPED",
    ])];
    for its in found {
        let numbers = [
            its.equal,
            its.differs,
            its.behind,
            its.missing,
            its.over,
            unanswered(its),
            its.skipped,
        ];
        let mut row = vec![its.runtime.to_string()];
        row.extend(numbers.map(thousands));
        table.push(row);
    }
    table
}
