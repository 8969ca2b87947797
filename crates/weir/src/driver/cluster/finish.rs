//! Ends a cluster, and adds up what its parts counted.

use weir_ctl::command::{Counted, PartReport, SwitchCounts, around};
use weir_exec::{ExecError, frames};
use weir_protocol::Switch;
use weir_protocol::in_process::BURST;

use super::Cluster;
use super::end::{ClusterEnd, RuntimeEnd, of_switch, settle};

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
        let gone = self
            .ends
            .iter()
            .flat_map(|end| end.reports.iter().enumerate());
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
            SwitchCounts {
                units: report.units,
                unprotected: report.unprotected,
                unsettled: report.unsettled,
                lost: report.hand_overs.units_lost,
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
        self.stop_all();
        while !self.is_over() {
            self.step(&mut out, &mut events, true)?;
            self.pool.give_all(&mut out);
        }
        Ok((self.end(), events))
    }

    /// Sums up, when all runtimes are over.
    pub fn end(&mut self) -> ClusterEnd {
        let mut end = ClusterEnd {
            gate: self.gate,
            hand_overs: core::mem::take(&mut self.hand_overs),
            ..ClusterEnd::default()
        };
        self.ends.sort_by_key(|worker| worker.id);
        for worker in self.ends.drain(..) {
            end.lies.extend(worker.lies);
            for (chain, report) in worker.reports.iter().enumerate() {
                match end.reports.get_mut(chain) {
                    Some(sum) => sum.add(report),
                    None => end.reports.push(report.clone()),
                }
            }
            for (name, n) in worker.counts {
                end.add_count(&name, n);
            }
            end.runtimes.push(RuntimeEnd {
                id: worker.id,
                packets: worker.packets,
                units: worker.units,
                busy: worker.busy,
                held_most: worker.held_most,
                died: worker.died,
            });
        }
        self.sum_up_switches(&mut end);
        end.deaths = core::mem::take(&mut self.deaths);
        end.pages = self.pages.take();
        let layout = self.pool.memory().layout();
        let all = (layout.small_frames + layout.large_frames) as usize;
        end.leaked = all.saturating_sub(self.pool.available());
        end
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
            if let Some(report) = end.reports.get_mut(number) {
                report.add_internal(&std::mem::take(&mut self.internal));
                around(report, &of_switch(&chain.switch));
                if !self.deaths.is_empty() {
                    settle(report);
                }
            }
        }
    }
}
