//! Which runtime gets a flow's packets. The switch that asks is a later part;
//! the question is fixed now, so that policies and what feeds them agree.

use weir_packet::{FlowKey, Time};

use crate::{Cluster, RuntimeId};

/// Facts that a policy gets about the flow whose packet is at hand.
#[derive(Clone, Copy, Debug)]
pub struct Recent<'a> {
    /// Key of the unit.
    pub key: &'a FlowKey,
    /// Runtime that has its state, if it has one.
    pub owner: Option<RuntimeId>,
    /// Ingress time of its last packet before this one; `None` for the first.
    pub last: Option<Time>,
    /// Packets since the owner got it.
    pub packets: u64,
    /// Bytes since the owner got it.
    pub bytes: u64,
}

/// How busy the runtimes are; both lists are in the order of
/// [`Cluster::runtimes`].
#[derive(Clone, Copy, Debug)]
pub struct Load<'a> {
    /// The runtimes of the stage.
    pub cluster: Cluster<'a>,
    /// Share of each runtime's capacity in use, in thousandths.
    pub busy: &'a [u32],
    /// Units that each runtime owns.
    pub units: &'a [u32],
}

/// Picks the owner of a flow. It may be asked at any packet, so that flows can
/// move between bursts of theirs (flowlets); a policy that keeps flows where
/// they are answers [`Recent::owner`]. It has no clock of its own: `now` is the
/// packet's ingress time.
pub trait DispatchPolicy: Send {
    /// The runtime for this packet and those after it; `None` where there is
    /// no runtime.
    fn pick(&mut self, flow: &Recent<'_>, load: &Load<'_>, now: Time) -> Option<RuntimeId>;
}

/// New flows go to the runtimes in turn, and stay as long as theirs runs.
#[derive(Clone, Copy, Debug, Default)]
pub struct RoundRobin {
    next: usize,
}

impl DispatchPolicy for RoundRobin {
    fn pick(&mut self, flow: &Recent<'_>, load: &Load<'_>, _: Time) -> Option<RuntimeId> {
        let runtimes = load.cluster.runtimes;
        if let Some(owner) = flow.owner
            && runtimes.contains(&owner)
        {
            return Some(owner);
        }
        let turn = self.next.checked_rem(runtimes.len())?;
        self.next = turn + 1;
        runtimes.get(turn).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn new_flows_go_round_and_old_ones_stay_while_their_runtime_runs() {
        let key = FlowKey::default();
        let three = [RuntimeId(1), RuntimeId(4), RuntimeId(9)];
        let mut policy = RoundRobin::default();
        let mut pick = |owner: Option<u32>, runtimes: &[RuntimeId]| {
            let flow = Recent {
                key: &key,
                owner: owner.map(RuntimeId),
                last: None,
                packets: 0,
                bytes: 0,
            };
            let cluster = Cluster {
                here: RuntimeId(1),
                runtimes,
            };
            let load = Load {
                cluster,
                busy: &[],
                units: &[],
            };
            policy.pick(&flow, &load, Time::ZERO).map(|id| id.0)
        };
        let new: Vec<_> = (0..4).map(|_| pick(None, &three)).collect();
        assert_eq!(new, [Some(1), Some(4), Some(9), Some(1)]);
        assert_eq!(pick(Some(9), &three), Some(9));
        // 9 is gone: its flows get the next in turn
        assert_eq!(pick(Some(9), &three[..2]), Some(4));
        assert_eq!(pick(None, &three[..1]), Some(1));
        assert_eq!(pick(None, &[]), None);
    }
}
