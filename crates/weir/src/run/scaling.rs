//! Has the number of runtimes follow their load (`--scaling`): what [`weir_control::Scaling`] decides
//! is carried out on a cluster that runs.

use std::collections::VecDeque;
use std::time::{Duration, Instant, SystemTime};

use weir_control::scaling::{Action, Decision};
use weir_control::{Load, Scaling};
use weir_ctl::command::{Decided, Resize, RuntimeLoad, ScalingCounts};
use weir_graph::ScriptMode;
use weir_packet::Time;
use weir_protocol::RuntimeId;

use crate::args::ScalingBy;
use crate::driver::Cluster;

use super::resize::Leaving;

/// Looks at the load between two decisions.
const LOOKS: u32 = 20;
/// Decisions that are shown to who asks.
const SHOWN: usize = 20;

/// See the module.
#[derive(Debug)]
pub(super) struct Scaler {
    scaling: Scaling,
    begun: Instant,
    looked: Instant,
    decided: Instant,
    loads: Vec<(RuntimeId, Load)>,
    started: u64,
    drained: u64,
    moved: u64,
    refused: u64,
    decisions: VecDeque<Decided>,
}

impl Scaler {
    /// # Errors
    ///
    /// Settings that make no sense.
    pub(super) fn new(by: &ScalingBy) -> Result<Scaler, String> {
        let now = Instant::now();
        Ok(Scaler {
            scaling: Scaling::new(by.0).map_err(|why| why.to_string())?,
            begun: now,
            looked: now,
            decided: now,
            loads: Vec::new(),
            started: 0,
            drained: 0,
            moved: 0,
            refused: 0,
            decisions: VecDeque::with_capacity(SHOWN),
        })
    }

    /// Looks at the load where it is time to, and does what that asks for.
    pub(super) fn attend(&mut self, cluster: &mut Cluster, leaving: &mut Leaving) {
        let now = Instant::now();
        let interval = Duration::from_nanos(self.scaling.settings().report_interval);
        let look = interval / LOOKS;
        let since = now - self.looked;
        if since < look {
            return;
        }
        self.looked = now;
        // A thread that slept for longer had nothing to hold back.
        cluster.look_at_load(since.min(2 * look));
        if now - self.decided < interval {
            return;
        }
        self.decided = now;
        self.loads = cluster.loads();
        // One that others drain is none of the cluster any more.
        let emptied = self.scaling.leaving();
        self.loads
            .retain(|(id, _)| !cluster.drains(*id) || emptied == Some(*id));
        let coming = cluster.to_come().len();
        let runtimes: Vec<RuntimeId> = self.loads.iter().map(|(id, _)| *id).collect();
        let at = u64::try_from((now - self.begun).as_nanos()).unwrap_or(u64::MAX);
        for decision in self.scaling.step(Time(at), &self.loads, &runtimes, coming) {
            self.carry_out(&decision, cluster, leaving);
        }
    }

    fn carry_out(&mut self, decision: &Decision, cluster: &mut Cluster, leaving: &mut Leaving) {
        let why = decision.why;
        let done = match decision.action {
            Action::Add => match cluster.add() {
                Ok(id) => {
                    self.started += 1;
                    let what = format!("starts runtime {}: {why}", id.0);
                    cluster.tell_scaled(what.clone());
                    Ok(what)
                }
                Err(error) => Err(format!("one more runtime can't start: {error}")),
            },
            Action::Move {
                from,
                to,
                count,
                mode,
            } => match cluster.move_some((from, to), count, mode) {
                Ok(units) => {
                    self.moved += u64::from(units);
                    Ok(format!(
                        "moves {units} units from runtime {} to runtime {}: {why}",
                        from.0, to.0
                    ))
                }
                Err(error) => Err(format!(
                    "no unit moves from runtime {} to runtime {}: {error}",
                    from.0, to.0
                )),
            },
            Action::Drain { runtime, .. } => {
                let drain = Resize::Drain(vec![runtime.0], ScriptMode::Push);
                match leaving.begin(cluster, &drain) {
                    Ok(_) => {
                        self.drained += 1;
                        let what = format!("drains runtime {}: {why}", runtime.0);
                        cluster.tell_scaled(what.clone());
                        Ok(what)
                    }
                    Err(error) => Err(format!("runtime {} is not drained: {error}", runtime.0)),
                }
            }
            // `Leaving` ends it, as it does one that an operator drains.
            Action::Remove { .. } => return,
        };
        self.refused += u64::from(done.is_err());
        if self.decisions.len() == SHOWN {
            self.decisions.pop_front();
        }
        self.decisions.push_back(Decided {
            at: SystemTime::now(),
            what: done.unwrap_or_else(|why| why),
        });
    }

    /// How it stands, for who asks.
    pub(super) fn counts(&self) -> ScalingCounts {
        let settings = self.scaling.settings();
        let load = |(id, load): &(RuntimeId, Load)| {
            let rates = self.scaling.rates(*id);
            RuntimeLoad {
                id: id.0,
                units: load.units,
                packets: rates.map(|rates| rates.packets),
                held_back: rates.unwrap_or_default().held_back,
            }
        };
        ScalingCounts {
            started: self.started,
            drained: self.drained,
            moved: self.moved,
            refused: self.refused,
            bounds: (settings.minimum, settings.maximum),
            interval: Duration::from_nanos(settings.report_interval),
            peak: self.scaling.peak(),
            loads: self.loads.iter().map(load).collect(),
            decisions: self.decisions.iter().cloned().collect(),
        }
    }
}
