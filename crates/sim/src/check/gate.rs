//! Checks of entries: as runtimes make them, as the gate lets them out, and as they leave.

use weir_nf::{PoolId, PortLease};
use weir_packet::{Disposition, FrameMeta, frame_flags};
use weir_protocol::message::{Entry, Part};
use weir_protocol::settings::Replication;
use weir_protocol::{Clock, RuntimeId, UnitId, View};
use weir_runtime::notes::{self, Note};

use super::bindings::{Doubled, Turn};
use super::outside::Sighting;
use super::show::{is_again, is_tick, show_entry, show_unit, show_view};
use super::{Checker, Cluster, Invariant, Leaving};

impl Checker {
    /// A runtime made entries (or passes them on).
    pub(crate) fn produced(
        &mut self,
        from: RuntimeId,
        (unit, view): (UnitId, View),
        entries: &[Entry],
    ) {
        for entry in entries {
            self.produced_entry(from, unit, view, entry);
        }
    }

    fn produced_entry(&mut self, from: RuntimeId, id: UnitId, view: View, entry: &Entry) {
        let Some(unit) = self.units.get_mut(&id) else {
            return;
        };
        // A packet that went astray may begin an actor where nobody wants one.
        if !unit.speakers.contains(&(view, from)) {
            return;
        }
        if entry.clock.0 <= unit.out {
            if let Some(taken) = &mut unit.taken {
                taken.note(view, entry);
            }
            return;
        }
        match unit.entries.get(&(view, entry.clock)) {
            Some(known) if is_again(known, entry) => {}
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

    /// A data frame that the switch sends, for the first time or again; true for
    /// a packet's first time.
    pub(crate) fn sent(&mut self, meta: &FrameMeta, bytes: &[u8]) -> bool {
        let id = UnitId(meta.unit);
        let Some(unit) = self.units.get_mut(&id) else {
            return false;
        };
        if self.lossless && meta.flags & frame_flags::LOST != 0 && !unit.outlived {
            let text = format!("{} is called lost, and nobody who had it died", meta.clock);
            self.violated(Invariant::ExactlyOnce, Some(id), text);
            return false;
        }
        // A repeat that was on its way out while the entry came in.
        if meta.clock <= unit.out {
            return false;
        }
        let known = unit.numbered.entry(meta.clock).or_default();
        if meta.flags & frame_flags::LOST != 0 {
            known.lost = true;
            return false;
        }
        let Some(part) = &known.part else {
            let tick = meta.flags & frame_flags::TICK != 0;
            self.tally.numbered += u64::from(!tick);
            if !tick {
                self.tally.bytes += bytes.len() as u64;
            }
            known.part = Some(part_of(meta, bytes));
            return !tick;
        };
        let same = part.bytes == bytes && (part.time == meta.time || is_tick(part));
        if !same {
            let text = format!("number {} is given to two packets", meta.clock);
            self.violated(Invariant::ExactlyOnce, Some(id), text);
        }
        false
    }

    /// Nothing of a unit leaves while packets that came by a name it took are on
    /// their way.
    fn overtaken(&mut self, id: UnitId, clock: Clock) {
        let others = &self.units;
        let overtaken = self.aliases.overtakes(id, |of| {
            let other = others.get(&of)?;
            (!other.ended).then_some(other.out)
        });
        if let Some(of) = overtaken {
            let text = format!(
                "{} leaves before what came by a name to {}",
                clock.0,
                show_unit(of)
            );
            self.violated(Invariant::Order, Some(id), text);
        }
    }

    pub(super) fn let_out(&mut self, id: UnitId, view: View, clock: Clock, cluster: &dyn Cluster) {
        self.overtaken(id, clock);
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
        unit.taken = None;
        let known = unit.numbered.remove(&clock.0);
        let made = unit.entries.remove(&(view, clock));
        unit.forget_entries();
        // An owner's own word does not say what its replica holds.
        let is_periodic = matches!(self.replication, Replication::Every(_));
        if view == unit.current.view && !(is_periodic && unit.current.replica.is_some()) {
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
        if part.flags & (frame_flags::TICK | frame_flags::LOST) == 0 {
            self.applied(id, part.time);
        }
        let had = is_tick(&part) && self.reference.has_flows(id);
        if let Some(text) = self.reference.compare(id, view, &part, &made) {
            let text = format!("entry {} of view {}: {text}", clock.0, show_view(view));
            self.violated(Invariant::Equivalence, Some(id), text);
        }
        if let Some(text) = self.doubled() {
            let text = format!("entry {} of view {}: {text}", clock.0, show_view(view));
            self.violated(Invariant::Bindings, Some(id), text);
        }
        if had && !self.reference.has_flows(id) {
            self.expired(id);
        }
    }

    /// A port that an entry leased since the last call, and that another live unit has.
    pub(super) fn doubled(&mut self) -> Option<Doubled> {
        let doubled = self.reference.take_doubled()?;
        Some(doubled).filter(|doubled| self.is_fault(doubled))
    }

    /// False while the other unit awaits its view after a restart: it may have freed the port in
    /// an entry that was not let out. Its port is compared when the view opens.
    pub(super) fn is_fault(&self, doubled: &Doubled) -> bool {
        let other = self.units.get(&doubled.other());
        other.is_none_or(|other| !other.awaits_view())
    }

    /// Ports that entries lease which somebody made, and which may be let out yet.
    pub(crate) fn ports_to_come(&self) -> impl Iterator<Item = (UnitId, (PoolId, PortLease))> + '_ {
        self.units.iter().flat_map(|(id, unit)| {
            let made = unit.entries.iter();
            let to_come = made.filter(|((view, clock), _)| {
                clock.0 > unit.out && unit.may_let_out(*view, clock.0).is_some()
            });
            let ports = to_come.flat_map(|(_, entry)| Turn::of(entry).leased().to_vec());
            ports.map(|port| (*id, port))
        })
    }

    fn count(&mut self, part: &Part, made: &Entry) {
        if part.flags & frame_flags::TICK != 0 {
            self.tally.ticks += 1;
            return;
        }
        let disposition = made.parts.last().map(|p| p.disposition);
        let count = match disposition {
            Some(Disposition::Out) => &mut self.tally.out,
            Some(Disposition::Dropped) => &mut self.tally.dropped,
            Some(Disposition::Turned) => &mut self.tally.turned,
            _ => &mut self.tally.lost,
        };
        *count += 1;
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
                        if !self.aliases.is_known(&request.key, id) && !adrift {
                            let text = format!(
                                "{} leaves before its alias {} is registered",
                                made.clock.0, request.key
                            );
                            self.violated(Invariant::Equivalence, Some(id), text);
                        }
                    }
                    Ok(Note::Event(line)) => self.events.extend_from_slice(line),
                    Ok(Note::EmitsLost { count }) => self.tally.emits_lost += u64::from(count),
                    Ok(_) => {}
                    Err(_) => {
                        let text = format!("entry {} has notes that are none", made.clock.0);
                        self.violated(Invariant::Equivalence, Some(id), text);
                    }
                }
            }
        }
    }

    /// An entry ends names of its own unit only.
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

    /// A packet has left the switch; `seen` says which of the plan's it is, if
    /// it is one.
    pub(crate) fn left(
        &mut self,
        (unit, clock): (UnitId, Clock),
        bytes: &[u8],
        seen: Option<Sighting>,
    ) {
        if let Some((invariant, text)) = seen.and_then(|seen| self.outside.leaves(seen)) {
            self.violated(invariant, Some(unit), text);
        }
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
}

/// A packet as it was numbered.
pub(super) fn part_of(meta: &FrameMeta, bytes: &[u8]) -> Part {
    Part {
        disposition: meta.disposition,
        time: meta.time,
        sequence: meta.sequence,
        flags: meta.flags & !frame_flags::REPEATED,
        side: meta.side,
        port: meta.port,
        link: meta.link,
        dlt: meta.dlt,
        wire_len: meta.wire_len,
        path: 0,
        bytes: bytes.to_vec(),
    }
}
