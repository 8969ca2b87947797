//! Calls that concern no single flow: the coordinator's, and where functions would
//! rather have their flows.

use weir_nf::Cluster;
use weir_packet::{Frame, PacketMemory, Time};

use super::{ActorCount, Actors};
use crate::ids::{Peer, UnitId};
use crate::message::{Message, MoveMode, Workload};

impl Actors {
    /// Calls that a coordinator, or a switch in its place, may make.
    pub(super) fn call(&mut self, from: Peer, message: Message) {
        match message {
            Message::PollWorkload => {
                self.counts.add(ActorCount::WorkloadTold);
                let workload = Message::Workload(self.workload());
                self.outbox.messages.push((from, workload));
            }
            Message::NotifyClusterCfg { runtimes } => {
                self.counts.add(ActorCount::ClusterTold);
                self.cluster(&runtimes);
            }
            _ => self.counts.add(ActorCount::MessageRefused),
        }
    }

    /// The load, as a coordinator hears it.
    pub fn workload(&self) -> Workload {
        Workload {
            packets: self.packets,
            drops: self.drops + self.counts.get(ActorCount::HoldOverflow),
            units: self.live,
            busy: self.busy,
        }
    }

    /// The unit of the burst's packets whose functions are asked this time.
    pub(super) fn whose_turn(
        &mut self,
        memory: &PacketMemory,
        ahead: &[Frame],
        count: usize,
    ) -> Option<UnitId> {
        if self.cluster.len() < 2 {
            return None;
        }
        self.turn = self.turn.wrapping_add(1);
        let frame = ahead.get(self.turn % count)?;
        let unit = memory.meta(frame).unit;
        self.engine.expect_preference_of(unit);
        Some(UnitId(unit))
    }

    /// Asks the functions where the unit should live, and the switch to move
    /// it there.
    pub(super) fn ask_preference(&mut self, now: Time, unit: UnitId) {
        let Some(hot) = self.table.live(unit).filter(|hot| !hot.is_closing()) else {
            return;
        };
        let cluster = Cluster {
            here: self.settings.id,
            runtimes: &self.cluster,
        };
        let Some(to) = self.engine.preferred_owner_of(unit.0, &cluster) else {
            return;
        };
        if to == self.settings.id || !self.cluster.contains(&to) {
            return;
        }
        let until = now.plus(self.settings.repeat_after);
        let cold = self.cold.entry(unit).or_default();
        if cold
            .preferred
            .is_some_and(|(last, until)| last == to && until > now)
        {
            return;
        }
        cold.preferred = Some((to, until));
        self.counts.add(ActorCount::MovePreferred);
        self.tell_switch(Message::Move {
            unit,
            view: hot.view,
            to,
            mode: MoveMode::Push,
        });
        self.arm(unit, until);
    }
}
