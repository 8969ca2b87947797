//! Counts of an engine in a process of its own, as text.

use serde::{Deserialize, Serialize};
use weir_nf::CloseReason;
use weir_nf::host::Stage;
use weir_runtime::{FlowReport, FunctionReport, Lie, Report};
use weir_telemetry::{Counters as _, Label as _};

/// Counts of a stage's process.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(in super::super) struct Said {
    pub(in super::super) report: SaidReport,
    pub(in super::super) lies: Vec<SaidLie>,
    /// Frames in its pool, to be told from those that it lost.
    pub(in super::super) free: usize,
    pub(in super::super) refused: [u64; 2],
    pub(in super::super) busy_ns: u64,
    /// Numbers in its rings that named no frame.
    pub(in super::super) bad: u64,
}

pub(in super::super) type Counts = Vec<(String, u64)>;

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(in super::super) struct SaidReport {
    pub(in super::super) chain: String,
    /// In the order of the table of [`Report`].
    pub(in super::super) numbers: Vec<u64>,
    pub(in super::super) drops: Counts,
    pub(in super::super) malformed: Counts,
    pub(in super::super) tracked: bool,
    /// In the order of the table of [`FlowReport`].
    pub(in super::super) flows: Vec<u64>,
    pub(in super::super) ended: Counts,
    pub(in super::super) functions: Vec<SaidFunction>,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(in super::super) struct SaidFunction {
    pub(in super::super) name: String,
    /// In the order of the table of [`FunctionReport`].
    pub(in super::super) numbers: Vec<u64>,
    pub(in super::super) counters: Vec<u64>,
    pub(in super::super) tally: Counts,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(in super::super) struct SaidLie {
    pub(in super::super) function: String,
    pub(in super::super) what: String,
    pub(in super::super) packet: u64,
}

impl Said {
    pub(in super::super) fn new(report: &Report, lies: &[Lie]) -> Said {
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
    pub(in super::super) fn report(&self, stage: &Stage) -> Report {
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

    /// Violations of descriptors by functions of these stages.
    pub(in super::super) fn lies<'a>(
        &self,
        stages: impl IntoIterator<Item = &'a Stage, IntoIter: Clone>,
    ) -> Vec<Lie> {
        let stages = stages.into_iter();
        let lies = self.lies.iter().filter_map(|lie| {
            let mut nodes = stages.clone().flat_map(|stage| &stage.nodes);
            let node = nodes.find(|node| node.name == lie.function)?;
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
