//! Samples of what packets cost, for the bill.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::command::{Counted, ThreadCounts};
use crate::ledger::count::{Samples, hour};

use super::asked::{Asked, Counts};

/// Interval of samples.
const SAMPLE: Duration = Duration::from_secs(1);
/// Time before the first one: short runs have one, too.
const FIRST: Duration = Duration::from_millis(200);

/// Takes samples of what packets cost, again and again.
pub(super) async fn sample(asked: Arc<Asked>) {
    let Some(billed) = &asked.billed else { return };
    let mut sampler = Sampler::new(Samples::new(billed.ledger.clone()));
    tokio::time::sleep(FIRST).await;
    loop {
        // Where threads are too busy to answer, the next look finds what this one has not.
        if let Ok(counts) = asked.counts().await {
            sampler.look(&counts, asked.senders().len(), |chain| {
                asked
                    .chains()
                    .get(chain)
                    .map(|written| written.name.as_str())
            });
        }
        tokio::time::sleep(SAMPLE).await;
    }
}

/// Packets and cycles.
type Work = (u64, u64);

/// What runtimes have done since they were last looked at.
struct Sampler {
    samples: Samples,
    /// By command channel, chain and function.
    before: BTreeMap<(u32, usize, String), Work>,
    began: (Instant, u64),
}

impl Sampler {
    fn new(samples: Samples) -> Sampler {
        Sampler {
            samples,
            before: BTreeMap::new(),
            began: (Instant::now(), weir_io::cycles()),
        }
    }

    /// Adds what has been done since the last look; `channels` are those of all threads, the ports' last.
    fn look<'a>(
        &mut self,
        counts: &Counts,
        channels: usize,
        name: impl Fn(usize) -> Option<&'a str>,
    ) {
        let ns = self.began.0.elapsed().as_nanos();
        let cycles = u128::from(weir_io::cycles().wrapping_sub(self.began.1)).max(1);
        let hour = hour();
        let mut rows: BTreeMap<usize, Work> = BTreeMap::new();
        // The ports' thread has what runtimes did that are over: that was sampled while they ran.
        let runtimes = counts.threads.iter();
        let runtimes = runtimes.filter(|thread| thread.channel as usize + 1 < channels);
        for thread in runtimes {
            for (key, now) in works(thread) {
                let before = self.before.insert(key.clone(), now).unwrap_or_default();
                let grown = (now.0.checked_sub(before.0), now.1.checked_sub(before.1));
                // A runtime that has taken another one's place begins with nothing.
                let (packets, spent) = match grown {
                    (Some(packets), Some(spent)) => (packets, spent),
                    _ => now,
                };
                let Some(row) = name(key.1).and_then(|chain| self.samples.row(chain, &key.2))
                else {
                    continue;
                };
                // Functions that share a row are passed by the same packets.
                let sum = rows.entry(row).or_default();
                *sum = (sum.0.max(packets), sum.1.saturating_add(spent));
            }
            for (row, (packets, spent)) in std::mem::take(&mut rows) {
                let spent = u128::from(spent) * ns / cycles;
                let spent = u64::try_from(spent).unwrap_or(u64::MAX);
                self.samples.add(hour, row, packets, spent);
            }
        }
    }
}

/// The work of a thread, by chain and function; the empty name is the engine's.
fn works(thread: &ThreadCounts) -> impl Iterator<Item = ((u32, usize, String), Work)> {
    let stages = thread.reports.iter();
    let stages = stages.filter(|part| matches!(part.part, Counted::Stage(_)));
    stages.flat_map(|part| {
        let key = |function: &str| (thread.channel, part.chain, function.to_owned());
        let functions = part.report.functions.iter();
        let functions = functions.map(move |it| (key(&it.name), (it.packets, it.cycles)));
        let engine = (part.report.packets_in, part.report.engine_cycles);
        functions.chain([(key(""), engine)])
    })
}

#[cfg(test)]
mod tests {
    use weir_packet::Time;
    use weir_protocol::switch::Meter;
    use weir_runtime::{FunctionReport, Report};

    use super::*;
    use crate::command::PartReport;
    use crate::ledger::Ledger;
    use crate::ledger::count::Bookkeeper;
    use crate::ledger::names::{BilledChain, Names};

    fn thread(channel: u32, packets: u64, cycles: u64) -> ThreadCounts {
        let function = FunctionReport {
            name: "nat".to_owned(),
            packets,
            cycles,
            ..FunctionReport::default()
        };
        let report = Report {
            packets_in: packets,
            engine_cycles: 2 * cycles,
            functions: vec![function],
            ..Report::default()
        };
        ThreadCounts {
            channel,
            reports: vec![PartReport {
                chain: 0,
                part: Counted::Stage(0),
                report,
            }],
            ..ThreadCounts::default()
        }
    }

    #[test]
    fn samples_are_what_runtimes_did_since_the_last_one() {
        let chain = BilledChain {
            name: "edge",
            tenant: "acme",
            functions: vec!["nat"],
        };
        let ledger = Ledger::create(Names::of_chains("one", [chain]), [1, 2]).unwrap();
        let mut books = Bookkeeper::new(ledger.clone(), [("edge", vec!["nat"])]);
        books.at(Time(0));
        books.add(0, &Meter::default());
        let mut sampler = Sampler::new(Samples::new(ledger.clone()));
        let mut look = |threads: Vec<ThreadCounts>| {
            let counts = Counts {
                threads,
                ..Counts::default()
            };
            sampler.look(&counts, 3, |_| Some("edge"));
        };
        look(vec![thread(0, 10, 0), thread(1, 5, 0)]);
        // The second runtime was killed, and another one is in its place; the ports' thread tells of
        // the one that is over.
        look(vec![thread(0, 30, 0), thread(1, 2, 0), thread(2, 5, 0)]);
        let sampled: Vec<(usize, u64)> = (ledger.records().iter())
            .map(|record| (record.row, record.usage.sampled))
            .collect();
        assert_eq!(sampled, [(0, 37), (1, 37)]);
    }
}
