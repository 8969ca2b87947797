//! The invariants of the protocol, checked at each step of the switch.
//!
//! The checker reads the switch's journal, the frames that it sends, the
//! entries that runtimes make, and what leaves. It keeps no opinion of its own
//! on how the protocol should get there.

mod aliases;
mod reference;
mod unit;

use std::collections::BTreeMap;

use weir_packet::{Disposition, frame_flags};
use weir_protocol::journal::{Done, Start};
use weir_protocol::message::{Entry, EntryBatch, Part};
use weir_protocol::settings::Replication;
use weir_protocol::{Clock, RuntimeId, UnitId, View};
use weir_runtime::notes::{self, Note};

use aliases::Aliases;
pub(crate) use reference::{Reference, comparable};
pub(crate) use unit::{Holders, UnitRecord};

/// What must not happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Invariant {
    /// Packets in = packets out − emitted + dropped + held; no frame is lost.
    Conservation,
    /// A packet is let out once, and lost only where it may be.
    ExactlyOnce,
    /// In the order of their clocks.
    Order,
    /// Nothing of a view is let out that is not the current one.
    OneView,
    /// Nothing is let out that no replica holds.
    OutputCommit,
    /// Outputs and states are those of one runtime.
    Equivalence,
    /// All that is asked for comes to an end.
    Stuck,
    /// What makes no sense is refused.
    BadInput,
    /// A fault of the code that it noticed itself.
    Panic,
}

impl Invariant {
    /// Its name in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Invariant::Conservation => "I1 conservation",
            Invariant::ExactlyOnce => "I2 exactly once",
            Invariant::Order => "I3 order",
            Invariant::OneView => "I4 one view",
            Invariant::OutputCommit => "I5 output commit",
            Invariant::Equivalence => "I6 equivalence",
            Invariant::Stuck => "stuck",
            Invariant::BadInput => "bad input",
            Invariant::Panic => "panic",
        }
    }
}

/// An invariant that does not hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// Which.
    pub invariant: Invariant,
    /// When, in nanoseconds from the start.
    pub at: u64,
    /// Whose, if it is one unit's.
    pub unit: Option<UnitId>,
    /// What happened.
    pub text: String,
}

/// What was counted on the way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Packets (not ticks) numbered.
    pub numbered: u64,
    /// Entries let out, ticks included.
    pub let_out: u64,
    /// Packets let out, by disposition: out, dropped, turned, lost.
    pub dispositions: [u64; 4],
    /// Packets that functions made.
    pub emitted: u64,
    /// Ticks let out.
    pub ticks: u64,
    /// Packets that died with all holders of their unit.
    pub owner_lost: u64,
    /// Packets whose outputs died with the switch.
    pub switch_restart: u64,
    /// Views opened.
    pub views: u64,
    /// Views opened as planned: owner changes.
    pub moved: u64,
    /// Views resumed after a failure.
    pub resumed: u64,
    /// Views claimed after a restart of the switch.
    pub claimed: u64,
    /// Units ended.
    pub ended: u64,
    /// States compared at the end.
    pub states: u64,
}

/// A frame that must leave next.
#[derive(Clone, Debug)]
pub(crate) struct Leaving {
    unit: UnitId,
    clock: Clock,
    part: Part,
}

/// Who is gone, as far as the world knows.
pub(crate) trait Cluster {
    /// The runtime is dead, or the switch was told so.
    fn is_gone(&self, runtime: RuntimeId) -> bool;
    /// The clock up to which the runtime holds the view's state and outputs;
    /// `None` where it is dead or has nothing.
    fn stored(&self, runtime: RuntimeId, unit: UnitId, view: View) -> Option<Clock>;
}

/// The checker of a run.
pub(crate) struct Checker {
    replication: Replication,
    pub(crate) reference: Reference,
    pub(crate) units: BTreeMap<UnitId, UnitRecord>,
    aliases: Aliases,
    highest: View,
    leaving: std::collections::VecDeque<Leaving>,
    events: Vec<u8>,
    pub(crate) tally: Tally,
    /// After a failure that no single replica covers units may be lost.
    pub(crate) lenient: bool,
    now: u64,
    violation: Option<Violation>,
}

impl Checker {
    pub(crate) fn new(replication: Replication, reference: Reference) -> Checker {
        Checker {
            replication,
            reference,
            units: BTreeMap::new(),
            aliases: Aliases::default(),
            highest: View::NONE,
            leaving: std::collections::VecDeque::new(),
            events: Vec::new(),
            tally: Tally::default(),
            lenient: false,
            now: 0,
            violation: None,
        }
    }

    /// The first violation.
    pub(crate) fn violation(&self) -> Option<&Violation> {
        self.violation.as_ref()
    }

    pub(crate) fn at(&mut self, now: u64) {
        self.now = now;
    }

    pub(crate) fn violated(&mut self, invariant: Invariant, unit: Option<UnitId>, text: String) {
        if self.violation.is_none() {
            self.violation = Some(Violation {
                invariant,
                at: self.now,
                unit,
                text,
            });
        }
    }

    /// A runtime made entries (or passes them on).
    pub(crate) fn produced(&mut self, from: RuntimeId, batch: &EntryBatch) {
        for entry in &batch.entries {
            self.produced_entry(from, batch.unit, batch.view, entry);
        }
    }

    fn produced_entry(&mut self, from: RuntimeId, id: UnitId, view: View, entry: &Entry) {
        let Some(unit) = self.units.get_mut(&id) else {
            return;
        };
        // A packet that went astray may begin an actor where nobody wants one.
        if entry.clock.0 <= unit.out || !unit.speakers.contains(&(view, from)) {
            return;
        }
        match unit.entries.get(&(view, entry.clock)) {
            Some(known) if same(known, entry) => {}
            Some(known) => {
                let text = format!(
                    "runtime {} sends another entry {} of view {}: {} instead of {}",
                    from.0,
                    entry.clock.0,
                    show_view(view),
                    show_entry(entry),
                    show_entry(known),
                );
                self.violated(Invariant::OneView, Some(id), text);
            }
            None => {
                unit.entries.insert((view, entry.clock), entry.clone());
            }
        }
    }

    /// A data frame that the switch sends.
    pub(crate) fn sent(&mut self, id: UnitId, view: View, clock: Clock, part: &Part) {
        let Some(unit) = self.units.get_mut(&id) else {
            return;
        };
        let mut part = part.clone();
        part.flags &= !frame_flags::REPEATED;
        let lost = part.flags & frame_flags::LOST != 0;
        let known = unit.numbered.entry(clock.0).or_default();
        if lost {
            known.lost = true;
        } else if known.part.is_none() {
            let tick = part.flags & frame_flags::TICK != 0;
            self.tally.numbered += u64::from(!tick);
            known.part = Some(part);
        } else if known
            .part
            .as_ref()
            .is_some_and(|p| p.bytes != part.bytes || p.time != part.time && !is_tick(p))
            && clock.0 > unit.out
        {
            let text = format!("number {} is given to two packets", clock.0);
            self.violated(Invariant::ExactlyOnce, Some(id), text);
        }
        let _ = view;
    }

    /// A line of the switch's journal.
    pub(crate) fn done(&mut self, done: &Done, cluster: &dyn Cluster) {
        match *done {
            Done::Numbered { unit, clock, .. } => {
                let Some(record) = self.units.get_mut(&unit) else {
                    let text = format!("number {} before the unit's first view", clock.0);
                    return self.violated(Invariant::Order, Some(unit), text);
                };
                if clock.0 != record.sent + 1 {
                    let text = format!("number {} follows {}", clock.0, record.sent);
                    self.violated(Invariant::Order, Some(unit), text);
                } else {
                    record.sent = clock.0;
                    record.numbered.entry(clock.0).or_default();
                }
            }
            Done::Opened {
                unit,
                view,
                base,
                owner,
                replica,
                from,
            } => {
                let holders = Holders {
                    view,
                    base: base.0,
                    owner,
                    replica,
                    start: from,
                };
                self.opened(unit, holders);
            }
            Done::Settled { unit, view } => {
                if let Some(record) = self.units.get_mut(&unit)
                    && record.current.view == view
                {
                    record.settle();
                }
            }
            Done::Alias { unit, key } => {
                if let Some(other) = self.aliases.add(key, unit) {
                    let text = format!("{key} is an alias of unit {} too", show_unit(other));
                    self.violated(Invariant::Equivalence, Some(unit), text);
                }
            }
            Done::LetOut { unit, view, clock } => self.let_out(unit, view, clock, cluster),
            Done::OwnerLost { unit, first, last } => self.owner_lost(unit, first, last, cluster),
            Done::Ended { unit } => self.ended(unit),
        }
    }

    fn opened(&mut self, id: UnitId, holders: Holders) {
        self.tally.views += 1;
        if holders.view <= self.highest {
            let text = format!(
                "view {} opens after {}",
                show_view(holders.view),
                show_view(self.highest)
            );
            self.violated(Invariant::OneView, Some(id), text);
        }
        self.highest = self.highest.max(holders.view);
        let known = self.units.get_mut(&id);
        if holders.start == Start::Nothing {
            // A restarted switch may give a unit's number again that it never
            // heard of. A first view that nothing was let out of may be opened
            // once more.
            if let Some(old) = known.filter(|u| !u.ended && !u.unclaimed) {
                if old.out == 0 && holders.base == 0 {
                    old.open(holders);
                    old.settled = None;
                    return;
                }
                let text = format!("a unit with {} packets begins anew", old.sent);
                self.violated(Invariant::ExactlyOnce, Some(id), text);
            }
            self.reference.forget(id);
            self.aliases.forget(id);
            self.units.insert(id, UnitRecord::new(holders));
            return;
        }
        let Some(unit) = known else {
            let text = "a view of an unknown unit opens".to_owned();
            return self.violated(Invariant::OneView, Some(id), text);
        };
        let base = holders.base;
        let before = unit.current;
        let settled = unit.settled;
        unit.open(holders);
        unit.unclaimed = false;
        unit.lost = false;
        match holders.start {
            Start::Planned => {
                self.tally.moved += 1;
                if base != unit.sent || settled.map(|s| s.view) != Some(before.view) {
                    let text = format!(
                        "a planned view opens at {base} of {}, after view {} that is{} settled",
                        unit.sent,
                        show_view(before.view),
                        if settled.map(|s| s.view) == Some(before.view) {
                            ""
                        } else {
                            " not"
                        },
                    );
                    self.violated(Invariant::OneView, Some(id), text);
                }
            }
            Start::Resumed => {
                self.tally.resumed += 1;
                if base != unit.out {
                    let text = format!("a view resumes at {base}, {} was let out", unit.out);
                    self.violated(Invariant::ExactlyOnce, Some(id), text);
                }
            }
            // In the same life of the switch it is a failure like any other.
            Start::Claimed if before.view.generation() == holders.view.generation() => {
                if base != unit.out {
                    let text = format!("a view resumes at {base}, {} was let out", unit.out);
                    self.violated(Invariant::ExactlyOnce, Some(id), text);
                }
            }
            Start::Claimed => self.claimed(id, holders),
            Start::AfterLoss | Start::Nothing => {
                if base != unit.out {
                    let text = format!("after a loss a view opens at {base}, not {}", unit.out);
                    self.violated(Invariant::ExactlyOnce, Some(id), text);
                }
            }
        }
    }

    /// What was applied and not let out before the switch's restart is lost;
    /// the reference applies it too.
    fn claimed(&mut self, id: UnitId, holders: Holders) {
        self.tally.claimed += 1;
        let Some(unit) = self.units.get_mut(&id) else {
            return;
        };
        let (out, base) = (unit.out, holders.base);
        // Design §6: "If both holders died too, an older copy may win: more
        // faults than promised." A switch gave the unit up, by name, with all
        // who held its last settled view; who had it before may have slept, and
        // claims it from the next switch.
        if unit.given_up_before {
            self.tally.switch_restart += unit.go_back(base);
            unit.adrift = true;
            self.reference.forget(id);
            self.aliases.forget(id);
            return;
        }
        if base < out {
            if !self.lenient {
                let text = format!("a restart goes back to {base}, {out} was let out");
                self.violated(Invariant::ExactlyOnce, Some(id), text);
            }
            return;
        }
        let adrift = unit.adrift;
        for clock in out + 1..=base {
            let made = unit.entry_of_any_view(Clock(clock));
            let known = unit.numbered.remove(&clock);
            let applied = known.zip(made).and_then(|(k, m)| Some((k.applied(&m)?, m)));
            let Some((part, made)) = applied else {
                let text = format!("a restart goes on after {clock}, which nobody applied");
                return self.violated(Invariant::ExactlyOnce, Some(id), text);
            };
            self.tally.switch_restart += u64::from(!is_tick(&part));
            // Its names came with the claim.
            self.aliases.note(id, &made);
            if adrift {
                continue;
            }
            if let Some(text) = self.reference.compare(id, holders.view, &part, &made) {
                let text = format!("entry {clock} before the restart: {text}");
                return self.violated(Invariant::Equivalence, Some(id), text);
            }
        }
        self.tally.switch_restart += unit.go_back(base);
    }

    fn let_out(&mut self, id: UnitId, view: View, clock: Clock, cluster: &dyn Cluster) {
        let Some(unit) = self.units.get_mut(&id).filter(|unit| !unit.ended) else {
            let text = format!("entry {} of a unit that is not there", clock.0);
            return self.violated(Invariant::ExactlyOnce, Some(id), text);
        };
        if clock.0 != unit.out + 1 {
            let invariant = if clock.0 <= unit.out {
                Invariant::ExactlyOnce
            } else {
                Invariant::Order
            };
            let text = format!("{} is let out after {}", clock.0, unit.out);
            return self.violated(invariant, Some(id), text);
        }
        let Some(holders) = unit.may_let_out(view, clock.0) else {
            let text = format!(
                "{} is let out of view {}; current is {}, settled {}",
                clock.0,
                show_view(view),
                show_view(unit.current.view),
                show_view(unit.settled.map_or(View::NONE, |s| s.view)),
            );
            return self.violated(Invariant::OneView, Some(id), text);
        };
        unit.out = clock.0;
        let known = unit.numbered.remove(&clock.0);
        let made = unit.entries.remove(&(view, clock));
        unit.forget_entries();
        if view == unit.current.view {
            unit.settle();
        }
        let adrift = unit.adrift;
        self.tally.let_out += 1;
        let Some((known, made)) = known.zip(made) else {
            let text = format!(
                "{} of view {} is let out, and nobody made it",
                clock.0,
                show_view(view)
            );
            return self.violated(Invariant::ExactlyOnce, Some(id), text);
        };
        let Some(part) = known.applied(&made) else {
            let text = format!("{} is let out as lost, and was not said lost", clock.0);
            return self.violated(Invariant::ExactlyOnce, Some(id), text);
        };
        if self.replication == Replication::EachBurst
            && let Some(replica) = holders.replica
            && !cluster.is_gone(replica)
            && cluster.stored(replica, id, view) < Some(clock)
        {
            let text = format!(
                "{} of view {} is let out, and replica {} has not stored it",
                clock.0,
                show_view(view),
                replica.0
            );
            return self.violated(Invariant::OutputCommit, Some(id), text);
        }
        self.count(&part, &made);
        self.names(id, &made, adrift);
        self.ended_names(id, &made, adrift);
        self.leave(id, clock, &made);
        if adrift {
            return;
        }
        if let Some(text) = self.reference.compare(id, view, &part, &made) {
            let text = format!("entry {} of view {}: {text}", clock.0, show_view(view));
            self.violated(Invariant::Equivalence, Some(id), text);
        }
    }

    fn count(&mut self, part: &Part, made: &Entry) {
        if part.flags & frame_flags::TICK != 0 {
            self.tally.ticks += 1;
            return;
        }
        let disposition = made.parts.last().map(|p| p.disposition);
        let place = match disposition {
            Some(Disposition::Out) => 0,
            Some(Disposition::Dropped) => 1,
            Some(Disposition::Turned) => 2,
            _ => 3,
        };
        if let Some(count) = self.tally.dispositions.get_mut(place) {
            *count += 1;
        }
    }

    /// The aliases of an entry are registered before it leaves, and belong to
    /// one unit.
    fn names(&mut self, id: UnitId, made: &Entry, adrift: bool) {
        for part in made
            .parts
            .iter()
            .filter(|p| p.disposition == Disposition::Notes)
        {
            for note in notes::read(&part.bytes) {
                match note {
                    Ok(Note::Alias { request, .. }) => {
                        if self.aliases.unit_of(&request.key) != Some(id) && !adrift {
                            let text = format!(
                                "{} leaves before its alias {} is registered",
                                made.clock.0, request.key
                            );
                            self.violated(Invariant::Equivalence, Some(id), text);
                        }
                    }
                    Ok(Note::Event(line)) => self.events.extend_from_slice(line),
                    Ok(_) => {}
                    Err(_) => {
                        let text = format!("entry {} has notes that are none", made.clock.0);
                        self.violated(Invariant::Equivalence, Some(id), text);
                    }
                }
            }
        }
    }

    /// What an entry ends is of its own unit.
    fn ended_names(&mut self, id: UnitId, made: &Entry, adrift: bool) {
        let wrong = self.aliases.note(id, made);
        if let Some((name, other)) = wrong.filter(|_| !adrift) {
            let text = format!(
                "entry {} ends alias {name} of unit {}",
                made.clock.0,
                show_unit(other)
            );
            self.violated(Invariant::Equivalence, Some(id), text);
        }
    }

    fn leave(&mut self, unit: UnitId, clock: Clock, made: &Entry) {
        for part in &made.parts {
            if matches!(part.disposition, Disposition::Out | Disposition::Emitted) {
                self.tally.emitted += u64::from(part.disposition == Disposition::Emitted);
                self.leaving.push_back(Leaving {
                    unit,
                    clock,
                    part: part.clone(),
                });
            }
        }
    }

    /// A packet has left the switch.
    pub(crate) fn left(&mut self, unit: UnitId, clock: Clock, bytes: &[u8]) {
        let Some(next) = self.leaving.pop_front() else {
            let text = format!("a packet of entry {} leaves that is not let out", clock.0);
            return self.violated(Invariant::ExactlyOnce, Some(unit), text);
        };
        if next.unit != unit || next.clock != clock || next.part.bytes != bytes {
            let text = format!(
                "a packet of entry {} leaves where one of entry {} of unit {} was let out",
                clock.0,
                next.clock.0,
                show_unit(next.unit)
            );
            self.violated(Invariant::Equivalence, Some(unit), text);
        }
    }

    /// All that the switch let out in this step has left, with these events.
    pub(crate) fn all_left(&mut self, events: &[u8]) {
        if let Some(next) = self.leaving.pop_front() {
            let text = format!("a packet of entry {} never leaves", next.clock.0);
            self.violated(Invariant::Conservation, Some(next.unit), text);
        }
        let expected = core::mem::take(&mut self.events);
        if expected != events {
            let text = format!(
                "events {:?} leave where {:?} were let out",
                String::from_utf8_lossy(events),
                String::from_utf8_lossy(&expected)
            );
            self.violated(Invariant::Equivalence, None, text);
        }
    }

    fn owner_lost(&mut self, id: UnitId, first: Clock, last: Clock, cluster: &dyn Cluster) {
        let Some(unit) = self.units.get_mut(&id) else {
            return;
        };
        // Who could have gone on: the holders of the last settled view, or,
        // where none was, a new owner from nothing.
        let holder = match unit.settled {
            Some(s) => [Some(s.owner), s.replica]
                .into_iter()
                .flatten()
                .find(|r| !cluster.is_gone(*r)),
            None if self.replication == Replication::None => {
                Some(unit.current.owner).filter(|r| !cluster.is_gone(*r))
            }
            None => None,
        };
        if first.0 <= last.0 && first.0 != unit.out + 1 {
            let text = format!("{} is lost after {}", first.0, unit.out);
            self.violated(Invariant::ExactlyOnce, Some(id), text);
            return;
        }
        if let Some(holder) = holder {
            let text = format!("counted as lost, and runtime {} has it", holder.0);
            self.violated(Invariant::ExactlyOnce, Some(id), text);
            return;
        }
        for clock in first.0..=last.0 {
            let known = unit.numbered.remove(&clock).and_then(|k| k.part);
            let tick = known.is_some_and(|p| p.flags & frame_flags::TICK != 0);
            self.tally.owner_lost += u64::from(!tick);
        }
        unit.out = unit.out.max(last.0);
        unit.forget_entries();
        unit.settled = None;
        unit.lost = true;
        unit.given_up = true;
        unit.adrift = false;
        self.reference.forget(id);
        self.aliases.forget(id);
    }

    fn ended(&mut self, id: UnitId) {
        let Some(unit) = self.units.get_mut(&id) else {
            return;
        };
        let (out, sent) = (unit.out, unit.sent);
        unit.ended = true;
        unit.numbered.clear();
        unit.entries.clear();
        self.tally.ended += 1;
        if out != sent {
            let text = format!("the unit ends with {out} of {sent} let out");
            self.violated(Invariant::ExactlyOnce, Some(id), text);
        }
        if self.reference.has_flows(id) {
            let text = format!("the unit ends after {out}, and has a state");
            self.violated(Invariant::Equivalence, Some(id), text);
        }
        self.reference.forget(id);
        self.aliases.forget(id);
    }

    /// The switch is gone: until they are claimed units may begin anew.
    pub(crate) fn switch_is_gone(&mut self) {
        for unit in self.units.values_mut().filter(|unit| !unit.ended) {
            unit.unclaimed = true;
            unit.given_up_before = unit.given_up;
        }
    }

    /// A restarted switch has heard all claims and knows these units. None is
    /// forgotten that somebody had; the others are no more.
    pub(crate) fn restart_is_over(&mut self, live: &[UnitId], cluster: &dyn Cluster) {
        let mut missing = None;
        let mut gone = Vec::new();
        for (id, unit) in &mut self.units {
            if !unit.unclaimed || unit.ended {
                continue;
            }
            if live.contains(id) {
                // Its view opens with its next packet, or in the sweep.
                unit.unclaimed = false;
                unit.settled = None;
                continue;
            }
            let had = |r: RuntimeId| !cluster.is_gone(r);
            // What has no state has nothing to lose; its last flow may have
            // ended in an entry that the switch before this one never let out.
            if let Some(holders) = unit.settled
                && (had(holders.owner) || holders.replica.is_some_and(had))
                && !unit.may_have_ended(*id, &mut self.reference)
            {
                missing = missing.or(Some((*id, unit.out)));
            }
            gone.push(*id);
        }
        for id in gone {
            self.units.remove(&id);
            self.reference.forget(id);
            self.aliases.forget(id);
        }
        if let Some((id, out)) = missing.filter(|_| !self.lenient) {
            let text = format!("the switch's restart forgot the unit, after {out}");
            self.violated(Invariant::ExactlyOnce, Some(id), text);
        }
    }

    /// A unit that waits: numbered packets that were not let out, or a view
    /// that is not settled.
    pub(crate) fn waiting(&self) -> Option<(UnitId, String)> {
        self.units.iter().find_map(|(id, unit)| {
            if unit.ended || unit.unclaimed || unit.lost {
                return None;
            }
            let text = if unit.out < unit.sent {
                format!("{} of {} numbered packets are let out", unit.out, unit.sent)
            } else if unit.settled.map(|s| s.view) != Some(unit.current.view) && unit.sent > 0 {
                format!("view {} is not settled", show_view(unit.current.view))
            } else {
                return None;
            };
            Some((*id, text))
        })
    }

    /// True where no unit depends on a process that is gone: one more death
    /// is still one.
    pub(crate) fn is_healed(&self, cluster: &dyn Cluster) -> bool {
        self.units.values().all(|unit| {
            unit.ended
                || unit.lost
                || unit.settled.map(|s| s.view) == Some(unit.current.view)
                    && !cluster.is_gone(unit.current.owner)
                    && unit.current.replica.is_none_or(|r| !cluster.is_gone(r))
        })
    }
}

fn is_tick(part: &Part) -> bool {
    part.flags & frame_flags::TICK != 0
}

/// The same effects, whoever sends them.
fn same(one: &Entry, other: &Entry) -> bool {
    one.parts.len() == other.parts.len()
        && one
            .parts
            .iter()
            .zip(&other.parts)
            .all(|(a, b)| a.disposition == b.disposition && a.bytes == b.bytes && a.time == b.time)
}

/// A unit as people read it.
pub(crate) fn show_unit(unit: UnitId) -> String {
    format!("{}.{}", unit.slot(), unit.incarnation())
}

/// A view as people read it.
pub(crate) fn show_view(view: View) -> String {
    format!("{}.{}", view.generation(), view.0 & 0xffff_ffff)
}

/// An entry as people read it.
pub(crate) fn show_entry(entry: &Entry) -> String {
    let parts: Vec<String> = entry.parts.iter().map(show_part).collect();
    parts.join(" + ")
}

fn show_part(part: &Part) -> String {
    if part.disposition != Disposition::Notes {
        return format!("{:?} {} bytes", part.disposition, part.bytes.len());
    }
    let notes = notes::read(&part.bytes).map(|note| match note {
        Ok(Note::Event(line)) => format!("event {}", String::from_utf8_lossy(line).trim_end()),
        Ok(Note::Alias { request, .. }) => format!("alias {}", request.key),
        Ok(Note::FlowEnded { key }) => format!("end of {key}"),
        Ok(Note::FlowOpened { key, .. }) => format!("beginning of {key}"),
        Ok(Note::AliasEnded { key }) => format!("end of alias {key}"),
        Ok(Note::Leased { lease, .. }) => format!("port {}", lease.port),
        Err(_) => "no notes".to_owned(),
    });
    notes.collect::<Vec<_>>().join(", ")
}
