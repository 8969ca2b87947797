//! `weir verify`: compares the copies of units with what their owners have sent, under traffic.

use std::time::Instant;

use serde_json::json;
use weir_api::v1;

use crate::args::{Format, Verify};
use crate::exit::{Exit, Outcome};
use crate::output;
use crate::output::{counted, thousands};

use super::table::{Table, row, text};
use super::{Client, NO_SWITCH, failure};

/// Interval between questions to the instance.
const LOOK: std::time::Duration = std::time::Duration::from_millis(20);

pub(crate) fn verify(args: &Verify) -> Outcome {
    let found = super::ask(args.shown.instance.as_deref(), async |mut client| {
        compare(&mut client, args.timeout).await
    })?;
    let sum = |of: fn(&v1::ReplicaComparison) -> u64| found.iter().map(of).sum::<u64>();
    let (differs, silent) = (sum(|its| its.differs), sum(unanswered));
    match args.shown.output {
        Format::Json => {
            let runtimes: Vec<_> = found
                .iter()
                .map(|its| {
                    json!({
                        "runtime": its.runtime,
                        "asked": its.asked,
                        "equal": its.equal,
                        "differs": its.differs,
                        "behind": its.behind,
                        "missing": its.missing,
                        "unanswered": unanswered(its),
                        "skipped": its.skipped,
                    })
                })
                .collect();
            output::json(
                &json!({ "differs": differs, "unanswered": silent, "runtimes": runtimes }),
            )?;
        }
        Format::Text => {
            output::line(text(&table(&found)).trim_end())?;
            output::line(&verdict(sum(|its| its.equal), differs, silent))?;
        }
    }
    match differs + silent {
        0 => Ok(Exit::Done),
        _ => Ok(Exit::Failed),
    }
}

/// What it comes to, for people.
fn verdict(equal: u64, differs: u64, silent: u64) -> String {
    let same = format!("{} equal", counted(equal, "copy"));
    match (differs, silent) {
        (0, 0) => format!("{same}, none differs"),
        (0, silent) => format!("{same}, none differs; {} did not answer", thousands(silent)),
        (differs, _) => format!(
            "{same}, {} differ: they were sent whole once more",
            thousands(differs)
        ),
    }
}

/// Copies that were asked about, or are to be, and have not answered.
fn unanswered(its: &v1::ReplicaComparison) -> u64 {
    let answered = its.equal + its.differs + its.behind + its.missing;
    its.left + its.asked.saturating_sub(answered)
}

/// Begins the comparison, and waits until all have answered, or for so long after the last answer.
async fn compare(
    client: &mut Client,
    timeout: std::time::Duration,
) -> Result<Vec<v1::ReplicaComparison>, crate::exit::Failure> {
    let mut begin = true;
    let mut before: Vec<v1::ReplicaComparison> = Vec::new();
    let mut moved = Instant::now();
    loop {
        let asked = client.compare_replicas(v1::CompareReplicasRequest { begin });
        let found = asked.await.map_err(|status| failure(&status))?;
        let found = found.into_inner().runtimes;
        if found.is_empty() {
            return Err(crate::exit::Failure::outside(NO_SWITCH.to_owned()));
        }
        // A runtime that has died, or has come since, has nothing to say.
        let is_done = found.iter().all(|its| unanswered(its) == 0);
        if found != before {
            moved = Instant::now();
        }
        if is_done || moved.elapsed() >= timeout {
            return Ok(found);
        }
        (begin, before) = (false, found);
        tokio::time::sleep(LOOK).await;
    }
}

fn table(found: &[v1::ReplicaComparison]) -> Table {
    let mut table = vec![row([
        "RUNTIME",
        "ASKED",
        "EQUAL",
        "DIFFERS",
        "BEHIND",
        "MISSING",
        "UNANSWERED",
        "SKIPPED",
    ])];
    for its in found {
        table.push(vec![
            its.runtime.to_string(),
            thousands(its.asked),
            thousands(its.equal),
            thousands(its.differs),
            thousands(its.behind),
            thousands(its.missing),
            thousands(unanswered(its)),
            thousands(its.skipped),
        ]);
    }
    table
}
