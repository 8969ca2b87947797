//! Held against one another: what a switch keeps in two places, and what is left of it.
//!
//! A count that is off by one here does no harm for days, and then no move begins any more, or no
//! port block is free. Tests and the simulator ask; programs do not, for it walks over all units.

use std::collections::{BTreeMap, BTreeSet};

use weir_packet::FlowKey;

use super::Switch;
use super::runtimes::Slot;
use super::units::{Unit, mark};
use crate::flowlets::Flowlets;
use crate::ids::{UnitId, View};

/// What the units say of members and lists.
#[derive(Debug, Default)]
struct Sums {
    /// By runtime: units owned, copies kept, views waited for.
    holders: BTreeMap<Slot, [u32; 3]>,
    without_replica: u32,
    pending: usize,
    unsettled: u32,
    preparing: u32,
    nodes: usize,
    unheld: usize,
}

impl Switch {
    /// A place where the switch's books disagree, in words; `None` unless weir has a bug.
    pub fn audit(&self) -> Option<String> {
        let mut sums = Sums::default();
        for place in 0..self.units.top() {
            let unit = self.units.at(place);
            if unit.id == 0 {
                continue;
            }
            if let Some(text) = self.audit_unit(unit, &mut sums) {
                return Some(format!("unit {}.{}: {text}", place, unit.id >> 32));
            }
        }
        self.audit_sums(&sums)
            .or_else(|| self.audit_lists())
            .or_else(|| self.forgets.audit())
            .or_else(|| self.kept.audit())
            .or_else(|| self.flowlets.as_ref().and_then(Flowlets::audit))
            .or_else(|| self.audit_names())
    }

    fn audit_unit(&self, unit: &Unit, sums: &mut Sums) -> Option<String> {
        let mut note = |slot: Slot, what: usize| {
            if slot != 0
                && let Some(count) = sums.holders.entry(slot).or_default().get_mut(what)
            {
                *count += 1;
            }
        };
        note(unit.owner, 0);
        note(unit.replica, 1);
        if let Some(pending) = self.pendings.get(unit.pending) {
            note(pending.old_owner, 2);
            note(pending.old_replica, 2);
            sums.pending += 1;
            sums.unsettled += u32::from(pending.old != View::NONE);
        } else if unit.pending != 0 {
            return Some("its view that is not settled has no record".to_owned());
        }
        sums.without_replica += u32::from(unit.owner != 0 && unit.replica == 0);
        sums.preparing += u32::from(unit.has(mark::PREPARING));
        if unit.out > unit.sent {
            return Some(format!("{} are let out of {}", unit.out, unit.sent));
        }
        // Where no walk is on, nobody waits for one.
        let is_due = self.recovery.is_none()
            && self.settings.acknowledge
            && !self.sweep.is_unfinished()
            && self.needs_view(unit.id as u32);
        if is_due {
            return Some("it needs a view, and nobody looks after it".to_owned());
        }
        let (nodes, unheld) = match self.kept.audit_unit(unit) {
            Ok(counts) => counts,
            Err(text) => return Some(text),
        };
        sums.nodes += nodes;
        sums.unheld += unheld;
        None
    }

    fn audit_sums(&self, sums: &Sums) -> Option<String> {
        for slot in self.runtimes.slots() {
            let Some(runtime) = self.runtimes.get(slot) else {
                continue;
            };
            let right = sums.holders.get(&slot).copied().unwrap_or_default();
            let says = [runtime.owns, runtime.copies, runtime.waits];
            if says != right {
                let id = runtime.id.0;
                return Some(format!(
                    "r{id} owns, copies and is waited for {says:?} times, {right:?} is right"
                ));
            }
        }
        let alone = self.runtimes.slots();
        let alone = alone.filter_map(|slot| self.runtimes.get(slot));
        let alone: u32 = alone.map(|runtime| runtime.alone).sum();
        let pairs = [
            (
                "units of runtimes without a replica",
                alone as usize,
                sums.without_replica as usize,
            ),
            (
                "units without a replica",
                self.runtimes.without_replica as usize,
                sums.without_replica as usize,
            ),
            (
                "records of views",
                self.pendings.records().count(),
                sums.pending,
            ),
            (
                "unsettled views",
                self.pendings.unsettled as usize,
                sums.unsettled as usize,
            ),
            (
                "units that prepare",
                self.moves.preparing as usize,
                sums.preparing as usize,
            ),
            ("packets on their way", self.kept.count(), sums.nodes),
            ("packets for a state", self.kept.unheld_count(), sums.unheld),
        ];
        let wrong = pairs.iter().find(|(_, says, right)| says != right);
        wrong.map(|(what, says, right)| format!("{what}: {says}, {right} are right"))
    }

    /// Units that are marked as waiting in a list are in it.
    fn audit_lists(&self) -> Option<String> {
        let views: BTreeSet<(UnitId, View)> = self
            .timers
            .views
            .iter()
            .map(|(_, id, view)| (*id, *view))
            .collect();
        let queued: BTreeSet<UnitId> = self.moves.queue().collect();
        let ticks: BTreeSet<UnitId> = self.ticks.iter().copied().collect();
        let orphans: BTreeSet<u64> = self.timers.orphans.iter().map(|(_, id)| *id).collect();
        let acks: BTreeSet<u32> = self.acks.iter().copied().collect();
        let lacks = |place: u32| {
            let unit = self.units.at(place);
            let id = unit.id();
            let waits = unit.pending != 0 || unit.has(mark::PREPARING);
            let lists = [
                ("repeats", waits, views.contains(&(id, unit.view()))),
                ("moves", unit.has(mark::QUEUED), queued.contains(&id)),
                ("ticks", unit.has(mark::TICK), ticks.contains(&id)),
                (
                    "orphans",
                    unit.has(mark::ORPHAN),
                    orphans.contains(&unit.id),
                ),
                (
                    "acknowledgements",
                    unit.has(mark::ACK),
                    acks.contains(&place),
                ),
                (
                    "leaving names",
                    unit.has(mark::LEAVING),
                    self.leaving.has(id),
                ),
            ];
            let missing = lists.iter().find(|(_, marked, there)| *marked && !there);
            missing.map(|(list, ..)| format!("unit {place}.{} is not in {list}", id.0 >> 32))
        };
        let mut places = (0..self.units.top()).filter(|place| self.units.at(*place).id != 0);
        places.find_map(lacks)
    }

    /// Ports have as many names as aliases lie on them.
    fn audit_names(&self) -> Option<String> {
        if self.recovery.is_some() || !self.late_names_is_empty() {
            return None;
        }
        let units = self.classifier.live_units();
        let names: Vec<FlowKey> = units
            .flat_map(|id| self.classifier.aliases_of(id))
            .collect();
        self.lessor.audit(&names)
    }

    /// What is left of units that are over, each with its number; nothing but what belongs
    /// to the unit of packets without a flow, where no unit lives.
    pub fn left_over(&self) -> Vec<(&'static str, usize)> {
        let liaison = UnitId(self.classifier.liaison());
        vec![
            ("moves that prepare", self.moves.preparing as usize),
            ("units that others forget", self.forgets.units()),
            ("units that wait for names", self.takeovers.count()),
            ("units that names leave", self.leaving.others(liaison)),
            ("claims of other holders", self.leftovers.others(liaison)),
            ("ports that units hold", self.lessor.held_but(liaison)),
            ("ends that are said again", self.ends_said.len()),
            ("port blocks of nobody", self.lost_blocks()),
        ]
    }

    /// Blocks whose holder is gone, and that no runtime may get.
    fn lost_blocks(&self) -> usize {
        let blocks = self.lessor.blocks();
        blocks.filter(|block| self.is_lost(block)).count()
    }
}
