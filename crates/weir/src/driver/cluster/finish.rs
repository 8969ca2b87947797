//! Ends a cluster, and adds up what its parts counted.

use std::time::Duration;

use weir_ctl::command::{Counted, FlowletCounts, PartReport, SwitchCounts, around};
use weir_exec::edge::FrameReceiver;
use weir_exec::{ExecError, frames};
use weir_protocol::Switch;
use weir_protocol::flowlets::{FlowletCount, Flowlets};
use weir_protocol::in_process::BURST;
use weir_runtime::Report;

use super::super::runtime_done::{BAD_DESCRIPTORS, BAD_MESSAGES};
use super::Cluster;
use super::deaths::FINISH_PATIENCE;
use super::end::{ClusterEnd, by_functions, of_switch, settle};
use super::member::Member;

impl Cluster {
    /// Counts of the switches so far, and of the runtimes that are gone and
    /// can't be asked.
    pub(crate) fn reports(&self) -> Vec<PartReport> {
        let switches = (0..).map_while(|chain| Some((chain, self.switch(chain)?)));
        let switches = switches.map(|(chain, switch)| PartReport {
            chain,
            part: Counted::Switch,
            report: of_switch(switch),
        });
        let gone = self.ends.reports.iter().enumerate();
        let gone = gone.map(|(chain, report)| PartReport {
            chain,
            part: Counted::Stage(0),
            report: report.clone(),
        });
        switches.chain(gone).collect()
    }

    /// The switches, for who looks on.
    pub(crate) fn switches(&self) -> Vec<SwitchCounts> {
        let switches = (0..).map_while(|chain| Some((chain, self.switch(chain)?)));
        let of = |(chain, switch): (usize, &Switch)| {
            let report = switch.report();
            let moves = &report.hand_overs;
            let took = |per_mille| Duration::from_nanos(moves.durations.quantile(per_mille));
            SwitchCounts {
                queued: report.queued,
                moved: moves.durations.count(),
                move_failed: moves.failed,
                resumed: moves.resumed,
                durations: [took(500), took(990), took(1_000)],
                units: report.units,
                unprotected: report.unprotected,
                unsettled: report.unsettled,
                lost: report.hand_overs.units_lost,
                flowlets: switch
                    .flowlets()
                    .map(|flowlets| of_flowlets(switch, flowlets)),
                chain,
                replication: switch.replication().to_string(),
            }
        };
        switches.map(of).collect()
    }

    /// Ends all runtimes and with them all flows, and sums up. Gives the lines
    /// of events that this causes, too.
    ///
    /// # Errors
    ///
    /// A runtime's thread has died.
    pub fn finish(&mut self) -> Result<(ClusterEnd, Vec<u8>), ExecError> {
        let (mut out, mut events) = (Vec::new(), Vec::new());
        self.stop_all(FINISH_PATIENCE);
        while !self.is_over() {
            self.step(&mut out, &mut events, true)?;
            self.pool.give_all(&mut out);
        }
        Ok((self.end(), events))
    }

    /// Sums up, when all runtimes are over.
    pub fn end(&mut self) -> ClusterEnd {
        self.bill_rest();
        let mut end = ClusterEnd {
            gate: self.gate,
            hand_overs: core::mem::take(&mut self.hand_overs),
            ..ClusterEnd::default()
        };
        end.runtimes = self.ends.take_runtimes();
        for runtime in &mut end.runtimes {
            runtime.is_logger = self.is_logger(runtime.id);
        }
        end.lies = core::mem::take(&mut self.ends.lies);
        end.reports = core::mem::take(&mut self.ends.reports);
        // Where all have died, too.
        for stage in self.stages.iter().skip(end.reports.len()) {
            end.reports.push(Report {
                chain: stage.chain.clone(),
                ..Report::default()
            });
        }
        for (name, n) in core::mem::take(&mut self.ends.counts) {
            end.add_count(&name, n);
        }
        self.add_nonsense(&mut end);
        self.sum_up_switches(&mut end);
        end.deaths = self.deaths.take();
        end.pages = self.pages.take();
        let layout = self.pool.memory().layout();
        let all = (layout.small_frames + layout.large_frames) as usize;
        end.leaked = all.saturating_sub(self.pool.available());
        end
    }

    /// Adds what made no sense in rings from processes.
    fn add_nonsense(&self, end: &mut ClusterEnd) {
        for ends in self.members.iter().map(|member| &member.ends) {
            let frames = ends.entries.iter().map(FrameReceiver::bad).sum();
            end.add_count(BAD_DESCRIPTORS, frames);
            end.add_count(BAD_MESSAGES, ends.inbox.bad());
        }
        for home in self.members.iter().filter_map(Member::home) {
            end.add_count(BAD_DESCRIPTORS, home.bad());
        }
    }

    /// Adds what switches counted, and takes back all frames.
    fn sum_up_switches(&mut self, end: &mut ClusterEnd) {
        for member in &mut self.members {
            member
                .partial
                .iter_mut()
                .for_each(|partial| self.pool.give_all(partial));
            for queue in &mut member.ends.entries {
                while queue.drain(BURST, &mut self.entries) > 0 {
                    self.pool.give_all(&mut self.entries);
                }
            }
        }
        frames::take_reserve(&mut self.pool);
        for (number, chain) in self.chains.iter_mut().enumerate() {
            chain.switch.finish(&mut self.pool);
            end.replication.push(chain.switch.replication());
            for (what, n) in chain.switch.counts().iter() {
                end.add_count(what.name(), n);
            }
            let flowlets = chain.switch.flowlets().into_iter();
            for (what, n) in flowlets.flat_map(|flowlets| flowlets.counts().iter()) {
                end.add_count(&format!("flowlets.{}", what.name()), n);
            }
            if let Some(report) = end.reports.get_mut(number) {
                report.add_internal(&std::mem::take(&mut self.internal));
                if self.deaths.any() {
                    settle(report, by_functions(&chain.switch));
                }
                around(report, &of_switch(&chain.switch));
            }
        }
    }
}

/// Flowlets of a switch, for who looks on.
fn of_flowlets(switch: &Switch, flowlets: &Flowlets) -> FlowletCounts {
    let count = |what| flowlets.counts().get(what);
    let (alpha, copies_each) = flowlets.adapted();
    let settings = flowlets.settings();
    let loads = switch.loads().into_iter();
    FlowletCounts {
        begun: count(FlowletCount::First)
            + count(FlowletCount::AfterGap)
            + count(FlowletCount::AfterSize),
        stayed: count(FlowletCount::Stayed),
        bound: count(FlowletCount::Bound),
        moved_ready: count(FlowletCount::MovedReady),
        moved_waiting: count(FlowletCount::MovedWaiting),
        overfull: count(FlowletCount::Overfull),
        copies: count(FlowletCount::CopyAsked),
        copies_used: count(FlowletCount::CopyUsed),
        alpha,
        copies_each,
        room: settings.room(),
        loads: loads.map(|(id, load)| (id.0, load)).collect(),
    }
}
