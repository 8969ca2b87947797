//! The report of a switch.

use weir_packet::Time;

use super::{Histogram, Switch, SwitchCount, SwitchDrop};
use crate::ids::RuntimeId;
use crate::plant::Plant;
use crate::settings::Replication;

/// Counts of a switch, from its start.
#[derive(Clone, Debug, Default)]
pub struct SwitchReport {
    /// Packets taken in.
    pub packets_in: u64,
    /// Bytes of those that were numbered (turned ones each time).
    pub bytes_in: u64,
    /// Packets let out, emitted ones included.
    pub packets_out: u64,
    /// Their bytes.
    pub bytes_out: u64,
    /// Packets that functions made or could not make
    /// ([`super::SwitchDrop::EmitsLost`]).
    pub emitted: u64,
    /// Packets dropped, by reason; those of functions (counted under their
    /// reasons by the runtimes) in one. Reasons without a packet are left out.
    pub drops: Vec<(String, u64)>,
    /// Packets that are numbered and not let out, wait for claims, or are
    /// fragments without their first one.
    pub held: u64,
    /// Units that live.
    pub units: u64,
    /// Views that are open and not settled, first ones left out.
    pub unsettled: u64,
    /// Units that a replica is to keep copies of and that have none: with the
    /// death of their owner they are lost.
    pub unprotected: u64,
    /// Units that wait for a move.
    pub queued: u64,
    /// Changes of owner.
    pub hand_overs: HandOvers,
}

/// Changes of owner.
#[derive(Clone, Debug, Default)]
pub struct HandOvers {
    /// How long planned ones took from the new view to its being settled, in
    /// nanoseconds.
    pub durations: Histogram,
    /// Planned ones that failed.
    pub failed: u64,
    /// Views opened after failures.
    pub resumed: u64,
    /// Units lost.
    pub units_lost: u64,
    /// Most packets kept at a time for repeating.
    pub kept_most: u64,
    /// Most entries that waited for their turn at a time.
    pub parked_most: u64,
    /// Packets sent again.
    pub repeated: u64,
    /// Packets that could not be sent again.
    pub lost: u64,
}

/// Part of one runtime in a switch's units.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Share {
    /// Units whose current view it owns.
    pub owns: u64,
    /// Units of whose current view it is the replica.
    pub replicas: u64,
    /// Units that it owns, that are to have a replica, and have none.
    pub unprotected: u64,
}

impl SwitchReport {
    /// Packets dropped for all reasons.
    pub fn dropped(&self) -> u64 {
        self.drops.iter().map(|(_, n)| n).sum()
    }

    /// True where every packet is accounted for:
    /// `packets_in = packets_out − emitted + Σ drops + held`.
    pub fn balances(&self) -> bool {
        self.packets_in + self.emitted == self.packets_out + self.dropped() + self.held
    }
}

impl Switch {
    /// The counters and gauges so far.
    pub fn report(&self) -> SwitchReport {
        let classifier = self.classifier.report();
        let mut drops: Vec<(String, u64)> = self
            .drops
            .iter()
            .filter(|(_, n)| *n > 0)
            .map(|(drop, n)| (drop.name().to_owned(), n))
            .collect();
        drops.extend(classifier.drops);
        let waiting = self.recovery.as_ref().map_or(0, |r| r.held.len() as u64);
        let (kept_most, parked_most) = self.kept.high_water();
        let count = |what| self.counts.get(what);
        SwitchReport {
            packets_in: self.packets.taken,
            bytes_in: self.packets.bytes,
            packets_out: self.packets.out,
            bytes_out: self.packets.bytes_out,
            emitted: self.packets.emitted,
            drops,
            held: self.packets.flying + self.packets.turning + waiting + classifier.held,
            units: self.live_units().count() as u64,
            unsettled: self.unsettled(),
            unprotected: match self.settings.replication {
                Replication::None => 0,
                _ => {
                    let planted = self.settings.plant == Some(Plant::GaugeAhead);
                    u64::from(self.runtimes.without_replica) + u64::from(planted)
                }
            },
            queued: self.moves.queued() as u64,
            hand_overs: HandOvers {
                durations: self.hand_overs.clone(),
                failed: count(SwitchCount::MoveFailed),
                resumed: count(SwitchCount::ResumedAtOwner) + count(SwitchCount::ResumedAtReplica),
                units_lost: self.units_lost(),
                kept_most: kept_most as u64,
                parked_most: parked_most as u64,
                repeated: count(SwitchCount::Repeated),
                lost: self.drops.get(SwitchDrop::Lost),
            },
        }
    }

    /// The part of one runtime in the units; nothing of one that never joined.
    pub fn share(&self, runtime: RuntimeId) -> Share {
        let slot = self.runtimes.find(runtime);
        let Some(runtime) = slot.and_then(|slot| self.runtimes.get(slot)) else {
            return Share::default();
        };
        Share {
            owns: u64::from(runtime.owns),
            replicas: u64::from(runtime.copies),
            unprotected: match self.settings.replication {
                Replication::None => 0,
                _ => u64::from(runtime.alone),
            },
        }
    }

    /// Packets (and what else was numbered, where copies are kept) that are on
    /// their way.
    pub fn in_flight(&self) -> u64 {
        let held = self.recovery.as_ref();
        let held = held.map_or(0, |recovery| recovery.held.len() as u64);
        held + self.packets.flying.max(self.kept.count() as u64)
    }

    /// Shows the owner of each packet that is on its way, where copies are kept.
    pub fn owners_on_the_way(&self, mut each: impl FnMut(RuntimeId)) {
        for place in self.kept.on_their_way() {
            if let Some(owner) = self.runtimes.id(self.units.at(place).owner) {
                each(owner);
            }
        }
    }

    /// Bytes of packets that [`Switch::refuse`] was given.
    pub fn refused_bytes(&self) -> u64 {
        self.packets.refused
    }

    /// Packets that there is room for among those kept; without bound where none is. More
    /// would be dropped as [`SwitchDrop::UnackedFull`].
    pub fn room(&self) -> usize {
        self.kept.room()
    }

    /// Units that change their owner, or wait for it.
    pub fn moves_under_way(&self) -> u64 {
        u64::from(self.pendings.unsettled)
            + u64::from(self.moves.preparing)
            + self.moves.queued() as u64
    }

    /// Units that have no settled view: those that a switch before had are among them from when they
    /// are known. While it is asked for them, one stands for them.
    fn unsettled(&self) -> u64 {
        let restored = self.leftovers.count() as u64 + u64::from(self.is_recovering());
        u64::from(self.pendings.unsettled) + restored
    }

    /// True where every unit has its owner, and its replica where replication is on, and none changes
    /// its owner: nothing is left to do for a runtime that has died, left or come.
    pub fn is_settled(&self) -> bool {
        let replicates = self.settings.replication != Replication::None;
        let alone = replicates && self.runtimes.without_replica > 0;
        !self.is_recovering()
            && !alone
            && !self.sweep.is_unfinished()
            && self.pendings.unsettled == 0
    }

    /// Units lost with runtimes that died.
    pub fn units_lost(&self) -> u64 {
        self.counts.get(SwitchCount::UnitLost)
    }

    /// Packets of this time have come. Ticks are of this time or of the time
    /// that timers go by, whichever is later: packets of a capture bring a
    /// time of their own, and flows end by it.
    pub fn packets_at(&mut self, time: Time) {
        self.packet_time = self.packet_time.max(time);
    }

    /// Why the switch itself dropped how many packets.
    pub fn drops(&self) -> &weir_telemetry::Counts<SwitchDrop> {
        &self.drops
    }

    /// Packets that it could not take in.
    pub(super) fn dropped_at_input(&self) -> u64 {
        [
            SwitchDrop::UnackedFull,
            SwitchDrop::FramesShort,
            SwitchDrop::NoRuntime,
            SwitchDrop::RecoveryFull,
            SwitchDrop::ClockUsedUp,
            SwitchDrop::ViewsUsedUp,
        ]
        .into_iter()
        .map(|drop| self.drops.get(drop))
        .sum()
    }
}
