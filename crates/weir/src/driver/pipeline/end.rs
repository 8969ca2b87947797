//! Counts of plans, at the end of a run.

use std::time::Duration;

use weir_io::stage::{Lender, PortCounts, Refused};
use weir_packet::FramePool;
use weir_runtime::{Lie, Report};

use super::chain_run::ChainRun;
use super::node::along_first_branch;
use super::process::{ProcessDone, ProcessEnd, account};

/// Counts of one thread of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ThreadCounts {
    /// Number of the step.
    pub step: usize,
    /// Number of the branch in the step, and of the instance.
    pub place: (usize, usize),
    /// Frames that the port behind it had no room for at first.
    pub refused: Refused,
    /// Time in which it had something to do.
    pub busy: Duration,
    /// False where it only carries frames from one port to another.
    pub is_stage: bool,
}

/// Counts of a chain's plan.
#[derive(Clone, Debug)]
pub struct ChainEnd {
    /// All stages together.
    pub report: Report,
    /// Per thread, in the order of the steps; the calling one's first.
    pub threads: Vec<ThreadCounts>,
    /// Per step, what the ports around it counted; nothing around a step of
    /// one thread.
    pub ports: Vec<PortCounts>,
    /// Violations of descriptors that an audit found.
    pub lies: Vec<Lie>,
}

/// Counts of all plans.
#[derive(Debug, Default)]
pub struct PipelineEnd {
    /// Per chain.
    pub chains: Vec<ChainEnd>,
    /// Frames that nobody gave back; 0 unless there is a bug.
    pub leaked: usize,
    /// Stages that ran in processes of their own.
    pub processes: Vec<ProcessEnd>,
    /// Page size of the packet memory; `None` unless processes shared it.
    pub pages: Option<String>,
}

impl ChainRun {
    pub(super) fn end(&mut self, pool: &mut FramePool, lenders: &mut Vec<Lender>) -> ChainEnd {
        let mut end = ChainEnd {
            report: self.runtime.report(),
            threads: vec![ThreadCounts {
                step: 0,
                place: (0, 0),
                refused: Refused::default(),
                busy: self.busy,
                is_stage: true,
            }],
            ports: vec![PortCounts::default(); self.plan.steps.len()],
            lies: self.runtime.lies().to_vec(),
        };
        let Some(mut behind) = self.behind.take() else {
            return end;
        };
        if let Some(first) = end.threads.first_mut() {
            first.refused = behind.refused;
        }
        let mut count = |step: usize, counts: &PortCounts| {
            if let Some(sum) = end.ports.get_mut(step) {
                sum.add(counts);
            }
        };
        count(1, &behind.counts);
        count(self.plan.steps.len() - 1, &behind.input.counts());
        lenders.extend(behind.lender.take());
        let mut reports = vec![end.report.clone()];
        for number in 1..self.plan.steps.len() {
            let mut sum: Option<Report> = None;
            let members = behind.members.iter_mut().filter(|m| m.step == number);
            for member in members {
                let Some(mut thread) = member.end.take() else {
                    continue;
                };
                end.threads.push(ThreadCounts {
                    step: number,
                    place: member.place,
                    refused: thread.refused,
                    busy: thread.busy,
                    is_stage: member.is_stage,
                });
                let (input, output) = &thread.counts;
                count(member.ports.0, input);
                count(member.ports.1, output);
                end.lies.append(&mut thread.lies);
                lenders.extend(thread.lender.take());
                if let Some(theirs) = thread.pool.take() {
                    pool.join(theirs);
                }
                let Some(mut report) = thread.report.take() else {
                    continue;
                };
                along_first_branch(&mut report, member.place.0);
                sum = Some(match sum {
                    None => report,
                    Some(sum) => Report::sum(&[sum, report]),
                });
            }
            let processes = behind.processes.iter_mut();
            let of_step = processes.filter(|process| process.step() == number);
            let mut done: Vec<ProcessDone> = of_step.map(|p| p.finish(pool)).collect();
            let tenants = behind.tenants.iter_mut();
            let of_step = tenants.filter(|tenant| tenant.step() == number);
            done.extend(of_step.map(|tenant| tenant.finish(pool)));
            for mut done in done {
                end.threads.push(ThreadCounts {
                    step: number,
                    place: (0, 0),
                    refused: done.refused,
                    busy: done.busy,
                    is_stage: true,
                });
                end.lies.append(&mut done.lies);
                self.processes.push((done.end, done.leaked));
                sum = Some(done.report);
            }
            reports.extend(sum);
        }
        reports.push(behind.end.report());
        end.report = Report::chain(&reports);
        // At a border nothing is lost uncounted.
        let trusted = |end: &ProcessEnd| end.border.is_none();
        let died = |end: &ProcessEnd| end.deaths > 0 && trusted(end);
        if self.processes.iter().any(|(process, _)| died(process)) {
            account(&mut end.report);
        }
        end
    }
}
