//! Messages between the main process and a stage's process.

use serde::{Deserialize, Serialize};
use weir_nf::CloseReason;
use weir_nf::host::Stage;
use weir_packet::MemoryLayout;
use weir_runtime::{FlowReport, FunctionReport, Lie, Report};
use weir_telemetry::{Counters as _, Label as _};

/// Kinds of messages: to the stage's process the first, from it the others.
pub(super) const HELLO: u8 = 1;
pub(super) const READY: u8 = 2;
/// Lines of events.
pub(super) const EVENTS: u8 = 3;
/// Counts so far ([`Said`]).
pub(super) const REPORT: u8 = 4;
/// The last of those: all flows have ended.
pub(super) const END: u8 = 5;
/// The stage can't be run: why.
pub(super) const FAILED: u8 = 6;

/// Longest message: all events of a burst, many times.
pub(super) const LONGEST: usize = 64 << 20;

/// Longest message of events: more are cut behind a line. A stage that has many
/// flows to end says far more at its end than is heard of a tenant at once.
pub(super) const LONGEST_EVENTS: usize = 1 << 20;

/// Cuts lines into messages of at most so many bytes; a line is never cut.
pub(super) fn in_messages(mut lines: &[u8], most: usize) -> impl Iterator<Item = &[u8]> {
    core::iter::from_fn(move || {
        let end = |part: &[u8]| part.iter().rposition(|byte| *byte == b'\n');
        let first = || lines.iter().position(|byte| *byte == b'\n');
        let whole = match lines.get(..most) {
            Some(part) if lines.len() > most => end(part).or_else(first),
            _ => None,
        };
        let at = whole.map_or(lines.len(), |newline| newline + 1);
        let (message, rest) = lines.split_at(at);
        lines = rest;
        (!message.is_empty()).then_some(message)
    })
}

/// Words of a stage's status, in the rings' memory.
pub(super) const STATUS_WORDS: usize = 32;
/// Free frames that the process's pool has.
pub(super) const FREE: usize = 0;
/// Messages that the process sent.
pub(super) const MAIL: usize = 16;

/// The first message to a stage's process: its settings, and offsets into shared
/// memory. It carries these files, in this order: packet memory, rings, the
/// process's own waker, the waker of the next reader, the open flows
/// ([`weir_runtime::Runtime::learn`]), and the socket for commands
/// ([`super::command_wire`]), which a tenant does not get.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Hello {
    pub(super) member: u8,
    /// The packet memory: small frames and their bytes, large ones and theirs.
    pub(super) layout: [u32; 4],
    /// Number of the chain, and of the step in its plan.
    pub(super) chain: usize,
    pub(super) step: usize,
    /// Stands for the plan, which the process compiles itself.
    pub(super) plan: u64,
    pub(super) seed: u64,
    /// MemberId of the stage before.
    pub(super) from: u8,
    /// Offsets of the rings: packets in, packets out, free frames in and out.
    pub(super) rings: [usize; 4],
    /// Offset of the stage's status.
    pub(super) status: usize,
    /// Bytes of the notices of open flows, which come as a file.
    pub(super) open_flows_bytes: usize,
    pub(super) yield_after: u32,
    pub(super) prefetch: usize,
    pub(super) core: Option<usize>,
    /// Its thread goes before all others of its core.
    pub(super) first: bool,
    /// It is not trusted: what it is given is its own, behind a border.
    pub(super) tenant: bool,
}

impl Hello {
    pub(super) fn layout(&self) -> MemoryLayout {
        let [small_frames, small_bytes, large_frames, large_bytes] = self.layout;
        MemoryLayout {
            small_frames,
            small_bytes,
            large_frames,
            large_bytes,
        }
    }
}

pub(super) fn layout_words(layout: &MemoryLayout) -> [u32; 4] {
    [
        layout.small_frames,
        layout.small_bytes,
        layout.large_frames,
        layout.large_bytes,
    ]
}

/// Counts of a stage's process.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Said {
    pub(super) report: SaidReport,
    pub(super) lies: Vec<SaidLie>,
    /// Frames in its pool, to be told from those that it lost.
    pub(super) free: usize,
    pub(super) refused: [u64; 2],
    pub(super) busy_ns: u64,
    /// Numbers in its rings that named no frame.
    pub(super) bad: u64,
}

pub(super) type Counts = Vec<(String, u64)>;

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct SaidReport {
    pub(super) chain: String,
    /// In the order of the table of [`Report`].
    pub(super) numbers: Vec<u64>,
    pub(super) drops: Counts,
    pub(super) malformed: Counts,
    pub(super) tracked: bool,
    /// In the order of the table of [`FlowReport`].
    pub(super) flows: Vec<u64>,
    pub(super) ended: Counts,
    pub(super) functions: Vec<SaidFunction>,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct SaidFunction {
    pub(super) name: String,
    /// In the order of the table of [`FunctionReport`].
    pub(super) numbers: Vec<u64>,
    pub(super) counters: Vec<u64>,
    pub(super) tally: Counts,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct SaidLie {
    pub(super) function: String,
    pub(super) what: String,
    pub(super) packet: u64,
}

impl Said {
    pub(super) fn new(report: &Report, lies: &[Lie]) -> Said {
        let functions = report.functions.iter().map(|f| SaidFunction {
            name: f.name.clone(),
            numbers: f.values(),
            counters: f.counters.iter().map(|(_, n)| *n).collect(),
            tally: f.tally.clone(),
        });
        let flows = &report.flows;
        let lies = lies.iter().map(|lie| SaidLie {
            function: lie.function.clone(),
            what: lie.what.clone(),
            packet: lie.packet,
        });
        Said {
            report: SaidReport {
                chain: report.chain.clone(),
                numbers: report.values(),
                drops: report.drops.clone(),
                malformed: report.malformed.clone(),
                tracked: flows.tracked,
                flows: flows.values(),
                ended: (flows.ended.named())
                    .map(|(why, n)| (why.to_owned(), n))
                    .collect(),
                functions: functions.collect(),
            },
            lies: lies.collect(),
            ..Said::default()
        }
    }

    /// The report, of this stage: names that the stage does not have are left
    /// out.
    pub(super) fn report(&self, stage: &Stage) -> Report {
        let said = &self.report;
        let functions = stage.nodes.iter().filter_map(|node| {
            let descriptor = node.processor.descriptor();
            let f = said.functions.iter().find(|f| f.name == node.name)?;
            let counters = descriptor.counters.iter().map(|counter| counter.name());
            let mut report = FunctionReport {
                name: node.name.clone(),
                nf: descriptor.name,
                counters: counters.zip(f.counters.iter().copied()).collect(),
                tally: f.tally.clone(),
                ..FunctionReport::default()
            };
            report.set_values(&f.numbers);
            Some(report)
        });
        let ended = said.ended.iter().filter_map(|(why, n)| {
            let why = CloseReason::named(why)?;
            Some((why, *n))
        });
        let mut flows = FlowReport {
            tracked: said.tracked,
            ended: ended.collect(),
            ..FlowReport::default()
        };
        flows.set_values(&said.flows);
        let mut report = Report {
            chain: stage.chain.clone(),
            drops: said.drops.clone(),
            malformed: said.malformed.clone(),
            functions: functions.collect(),
            flows,
            ..Report::default()
        };
        report.set_values(&said.numbers);
        report
    }

    /// Violations of descriptors by its functions.
    pub(super) fn lies(&self, stage: &Stage) -> Vec<Lie> {
        let lies = self.lies.iter().filter_map(|lie| {
            let node = stage.nodes.iter().find(|node| node.name == lie.function)?;
            Some(Lie {
                function: lie.function.clone(),
                nf: node.processor.descriptor().name,
                what: lie.what.clone(),
                packet: lie.packet,
            })
        });
        lies.collect()
    }
}

/// A number that stands for a plan: another plan's is another, most likely.
pub(super) fn number_of(plan: &weir_graph::compile::Plan) -> u64 {
    let text = format!("{:?} {:?}", plan.graph, plan.steps);
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_cut_behind_lines() {
        let cut = |lines, most| in_messages(lines, most).collect::<Vec<_>>();
        assert_eq!(cut(b"", 4), [&b""[..]; 0]);
        assert_eq!(cut(b"a\nb\n", 4), [b"a\nb\n"]);
        assert_eq!(cut(b"a\nb\ncc\n", 4), [&b"a\nb\n"[..], b"cc\n"]);
        // One that is too long goes alone, as a whole.
        assert_eq!(
            cut(b"a\nlonger\nb\n", 4),
            [&b"a\n"[..], b"longer\n", b"b\n"]
        );
        assert_eq!(cut(b"longer", 4), [b"longer"]);
    }
}
