//! Views that open, units that are lost, end, or go through a switch restart.

use weir_packet::{FlowKey, FrameMeta, frame_flags};
use weir_protocol::journal::{Done, Start};
use weir_protocol::settings::Replication;
use weir_protocol::{Clock, RuntimeId, UnitId, View};

use super::gate::part_of;
use super::show::{is_tick, show_unit, show_view};
use super::taken::{Taken, TakenPacket};
use super::unit::{Holders, UnitRecord};
use super::{Checker, Cluster, Invariant};

impl Checker {
    pub(super) fn opened(&mut self, id: UnitId, holders: Holders, cluster: &dyn Cluster) {
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
        let is_claimed = matches!(holders.start, Start::Claimed(_));
        // Design §6: an older copy may win where both holders are gone. It is that of a runtime
        // which a switch had suspected, and which nobody told of the end.
        let is_forgotten = |unit: &UnitRecord| {
            unit.ended
                && cluster.is_suspicion_lost(holders.holder)
                && unit.current.left(|who| cluster.is_gone(who)).is_none()
        };
        if is_claimed && known.as_deref().is_some_and(is_forgotten) {
            return self.revive(id, holders);
        }
        let Some(unit) = known else {
            // All who knew of its end died before an older copy was forgotten.
            if self.lenient && is_claimed {
                return self.revive(id, holders);
            }
            let text = "a view of an unknown unit opens".to_owned();
            return self.violated(Invariant::OneView, Some(id), text);
        };
        let base = holders.base;
        let before = unit.current;
        let settled = unit.settled;
        unit.outlived = cluster.is_gone(before.owner);
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
            Start::Claimed(of) if before.view.generation() == holders.view.generation() => {
                if base != unit.out {
                    let text = format!("a view resumes at {base}, {} was let out", unit.out);
                    return self.violated(Invariant::ExactlyOnce, Some(id), text);
                }
                self.goes_on_behind(id, holders, of, cluster);
            }
            Start::Claimed(of) => {
                self.claimed(id, holders, of, cluster);
                self.goes_on_behind(id, holders, of, cluster);
                self.has_its_port_alone(id);
            }
            Start::AfterLoss | Start::Nothing => {
                if base != unit.out {
                    let text = format!("after a loss a view opens at {base}, not {}", unit.out);
                    self.violated(Invariant::ExactlyOnce, Some(id), text);
                }
            }
        }
    }

    /// A unit that has ended goes on from an older copy: what its state should be nobody can tell.
    fn revive(&mut self, id: UnitId, holders: Holders) {
        let mut record = UnitRecord::new(holders);
        record.adrift = true;
        self.reference.forget(id);
        self.aliases.forget(id);
        self.units.insert(id, record);
    }

    /// Packets applied and not let out before the switch's restart are lost; the reference
    /// applies them, too.
    fn claimed(&mut self, id: UnitId, holders: Holders, of: View, cluster: &dyn Cluster) {
        self.tally.claimed += 1;
        let base = holders.base;
        self.take_back(id, base, of);
        let Some(unit) = self.units.get_mut(&id) else {
            return;
        };
        let out = unit.out;
        // Design §6: "If both holders died too, an older copy may win: more
        // faults than promised." Who held the last settled view is gone; or a switch
        // gave the unit up, by name, with all of those, and who had it before may
        // have slept, and claims it from the next switch.
        let all_gone = |settled: Holders| settled.left(|holder| cluster.is_gone(holder)).is_none();
        let settled = unit.settled.or(unit.before);
        // That copy may be of an earlier life under the same number, and further on.
        let is_behind = base < out
            || of < unit.first_view()
            || settled.is_some_and(|settled| of < settled.view);
        let is_older = is_behind && (self.lenient || settled.is_some_and(all_gone));
        let has_state = |view: View, holder: RuntimeId| {
            !cluster.is_gone(holder) && cluster.stored(holder, id, view).is_some()
        };
        let was_taken_back = !is_behind && unit.was_taken_back(holders, of, has_state);
        if unit.given_up_before || is_older || was_taken_back {
            self.tally.switch_restart += unit.go_back(base);
            unit.adrift = true;
            unit.taken = None;
            self.reference.forget(id);
            self.aliases.forget(id);
            return;
        }
        if is_behind {
            let text = format!("a restart goes back to {base}, {out} was let out");
            return self.violated(Invariant::ExactlyOnce, Some(id), text);
        }
        let adrift = unit.adrift;
        let mut taken = unit.taken.take().unwrap_or_else(|| Taken {
            state: self.reference.state(id),
            out,
            applied: Vec::new(),
        });
        for clock in out + 1..=base {
            let made_in = unit.entries_at(Clock(clock));
            let known = unit.numbered.remove(&clock);
            let packet = known
                .and_then(|known| TakenPacket::new(|view| unit.origin(view), of, known, made_in));
            let Some(packet) = packet else {
                let text = format!("a restart goes on after {clock}, which nobody applied");
                return self.violated(Invariant::ExactlyOnce, Some(id), text);
            };
            let (part, made) = (&packet.part, &packet.made);
            self.tally.switch_restart += u64::from(!is_tick(part));
            // Its names came with the claim.
            self.aliases.claim(id, made);
            if adrift {
                continue;
            }
            let difference = self.reference.compare(id, holders.view, part, made);
            taken.applied.push(packet);
            if let Some(text) = difference {
                let text = format!("entry {clock} before the restart: {text}");
                return self.violated(Invariant::Equivalence, Some(id), text);
            }
        }
        unit.taken = Some(taken).filter(|_| !adrift);
        self.tally.switch_restart += unit.go_back(base);
        if !adrift && !self.lenient {
            self.keeps_names(id, cluster);
        }
    }

    /// No other unit has a port that the entries of its claim leased, or was given its port
    /// before it was claimed.
    fn has_its_port_alone(&mut self, id: UnitId) {
        let doubled = self.doubled().or_else(|| {
            let doubled = self.reference.doubled_of(id)?;
            Some(doubled).filter(|doubled| self.is_fault(doubled))
        });
        if let Some(text) = doubled {
            let text = format!("after the restart {text}");
            self.violated(Invariant::Bindings, Some(id), text);
        }
    }

    /// A unit that goes on after a restart has its names still, but for those that another
    /// one's flow has or that another one asked for.
    fn keeps_names(&mut self, id: UnitId, cluster: &dyn Cluster) {
        let lost = self.aliases.names_of(id).find_map(|key| {
            let of = cluster.unit_of_name(&key);
            let is_anothers = |of: UnitId| {
                self.aliases.is_foreign(&key, of) || self.reference.flows(of).contains(&key)
            };
            let is_right = of.is_some_and(|of| of == id || is_anothers(of));
            (!is_right).then_some((key, of))
        });
        if let Some((key, of)) = lost {
            let of = of.map_or_else(
                || "nobody".to_owned(),
                |of| format!("unit {}", show_unit(of)),
            );
            let text = format!("after the restart {key} leads to {of}");
            self.violated(Invariant::OneUnit, Some(id), text);
        }
    }

    /// Nothing was let out since the last restart, and this one may take a claim of
    /// less than that did, or of another view.
    fn take_back(&mut self, id: UnitId, base: u64, of: View) {
        let Some(unit) = self.units.get_mut(&id) else {
            return;
        };
        let Some(mut taken) = unit.taken.take() else {
            return;
        };
        if base >= taken.out {
            taken.applied.truncate((base - taken.out) as usize);
            for packet in &mut taken.applied {
                if packet.take_of(|view| unit.origin(view), of) {
                    self.aliases.claim(id, &packet.made);
                }
            }
            unit.out = unit.out.min(base);
            unit.taken = Some(taken);
            self.replay(id);
        } else {
            unit.taken = Some(taken);
        }
    }

    /// The unit goes on at the other holder of the view that was claimed. It may lack
    /// what no switch has let out: that is lost.
    fn goes_on_behind(&mut self, id: UnitId, holders: Holders, of: View, cluster: &dyn Cluster) {
        let Some(unit) = self.units.get_mut(&id) else {
            return;
        };
        let Some(taken) = &mut unit.taken else {
            return;
        };
        let stored = cluster.stored(holders.holder, id, of);
        let Some(stored) = stored.filter(|stored| stored.0 < holders.base) else {
            // What another holder had lost this one may have.
            if taken.applied.iter().any(|packet| !packet.lost.is_empty()) {
                self.replay(id);
            }
            return;
        };
        if stored.0 < taken.out {
            let text = format!(
                "runtime {} goes on after {}, {} was let out",
                holders.holder.0, stored.0, taken.out
            );
            return self.violated(Invariant::ExactlyOnce, Some(id), text);
        }
        self.tally.behind += 1;
        let has = (stored.0 - taken.out) as usize;
        for packet in taken.applied.iter_mut().skip(has) {
            packet.lost.push(holders.view);
        }
        self.replay(id);
    }

    /// The reference's state is that of what was taken.
    fn replay(&mut self, id: UnitId) {
        let Some(unit) = self.units.get(&id).filter(|unit| !unit.adrift) else {
            return;
        };
        let Some(taken) = &unit.taken else {
            return;
        };
        if !self
            .reference
            .go_back(id, taken.state.as_deref(), taken.out)
        {
            let text = "the reference does not take its own state".to_owned();
            return self.violated(Invariant::Equivalence, Some(id), text);
        }
        for packet in &taken.applied {
            let (mut part, mut made) = (packet.part.clone(), packet.made.clone());
            let view = unit.current.view;
            if packet
                .lost
                .iter()
                .any(|lost| unit.goes_on_from(view, *lost))
            {
                part.flags = frame_flags::LOST;
                part.bytes.clear();
                made.parts.clear();
            }
            self.reference.apply(id, unit.current.view, &part, &made);
        }
        // Ports of taken packets were compared when the packets were taken.
        let _ = self.reference.take_doubled();
    }

    pub(super) fn owner_lost(
        &mut self,
        id: UnitId,
        first: Clock,
        last: Clock,
        cluster: &dyn Cluster,
    ) {
        let Some(unit) = self.units.get_mut(&id) else {
            return;
        };
        // An older copy had won after a restart ([`Checker::claimed`]), and is gone before a
        // view of it opened.
        let base = first.0.saturating_sub(1);
        let all_gone = |holders: Holders| holders.left(|holder| cluster.is_gone(holder)).is_none();
        let is_promised = !self.lenient && !unit.before.is_some_and(all_gone);
        if unit.unopened && base < unit.out && !is_promised {
            self.tally.switch_restart += unit.go_back(base);
        }
        // A holder that could have gone on: of the last settled view, or,
        // where none was, a new owner from nothing.
        let holder = match unit.settled {
            Some(settled) => settled.left(|holder| cluster.is_gone(holder)),
            // After a restart it is the owner of the view that was claimed; before that
            // one opens nobody but the switch knows whose claim was the best.
            None if self.replication == Replication::None
                && !unit.unopened
                && (unit.before.is_none() || matches!(unit.current.start, Start::Claimed(_))) =>
            {
                Some(unit.current.owner).filter(|r| !cluster.is_gone(*r))
            }
            // Its view was claimed by both holders.
            None if self.replication == Replication::EachBurst && !unit.lone => unit
                .before
                .and_then(|before| before.left(|holder| cluster.is_gone(holder))),
            None => None,
        };
        if first.0 <= last.0 && first.0 != unit.out + 1 {
            let text = format!("{} is lost after {}", first.0, unit.out);
            self.violated(Invariant::ExactlyOnce, Some(id), text);
            return;
        }
        // Each failure left each unit a holder of its state (`can_lose`).
        let had_state = unit.settled.is_some() || unit.before.is_some();
        if self.replication != Replication::None && !self.lenient && had_state {
            let text = "lost, although no two failures met".to_owned();
            self.violated(Invariant::ExactlyOnce, Some(id), text);
            return;
        }
        let is_first = !had_state && first.0 == 1 && first.0 <= last.0;
        // The only runtime, which drains, may have refused it again and again.
        let may_be_taken = cluster.has_runtimes() || cluster.is_gone(unit.current.owner);
        if self.keeps_packets && is_first && may_be_taken {
            let text = "its first view is lost, and all its packets are kept".to_owned();
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
        if unit.sent > last.0 {
            // Numbered by a switch before this one, and gone with it.
            let gone = unit.numbered.split_off(&(last.0 + 1));
            let parts = gone.values().filter_map(|known| known.part.as_ref());
            self.tally.switch_restart += parts.filter(|part| !is_tick(part)).count() as u64;
            unit.sent = last.0;
        }
        unit.out = unit.out.max(last.0);
        unit.forget_entries();
        unit.settled = None;
        unit.lost = true;
        unit.given_up = true;
        unit.adrift = false;
        unit.taken = None;
        self.reference.forget(id);
        self.aliases.forget(id);
    }

    pub(super) fn ended(&mut self, id: UnitId) {
        self.homes.forget(id);
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
        // Requests for moves are made again by who made them.
        self.moves.clear();
        self.aliases.restart();
        for unit in self.units.values_mut().filter(|unit| !unit.ended) {
            unit.unclaimed = true;
            unit.given_up_before = unit.given_up;
        }
    }

    /// A replaced switch did something: nothing of it is let out, but runtimes may work
    /// on it until they hear of the next one.
    pub(crate) fn done_before(&mut self, done: &Done) {
        match *done {
            Done::Numbered { unit, clock, .. } => {
                if let Some(record) = self.units.get_mut(&unit).filter(|u| u.unclaimed) {
                    record.sent = record.sent.max(clock.0);
                }
            }
            Done::Opened {
                unit,
                view,
                base,
                owner,
                replica,
                from,
                holder,
            } => {
                let holders = Holders {
                    view,
                    base: base.0,
                    owner,
                    replica,
                    start: from,
                    holder: holder.unwrap_or(owner),
                };
                self.opened_before(unit, holders);
            }
            Done::Settled { unit, view } => {
                let record = self.units.get_mut(&unit).filter(|u| u.unclaimed);
                if let Some(record) = record.filter(|u| u.current.view == view) {
                    record.settled = Some(record.current);
                }
            }
            // Its holders have forgotten it, or have not heard of that yet.
            Done::Ended { unit } => {
                if let Some(record) = self.units.get_mut(&unit).filter(|u| u.unclaimed) {
                    (record.settled, record.before) = (None, None);
                }
            }
            Done::OwnerLost { unit, .. } => {
                if let Some(record) = self.units.get_mut(&unit).filter(|u| u.unclaimed) {
                    record.given_up_before = true;
                }
            }
            _ => {}
        }
    }

    fn opened_before(&mut self, id: UnitId, holders: Holders) {
        let record = self.units.entry(id).or_insert_with(|| {
            let mut record = UnitRecord::new(holders);
            record.unclaimed = true;
            record
        });
        let (view, begins) = (holders.view, holders.start == Start::Nothing);
        let is_over = record.ended && begins;
        if !(record.unclaimed || is_over) || view < record.current.view {
            return;
        }
        if begins && view != record.current.view {
            // It begins anew: what was before was another life's.
            *record = UnitRecord::new(holders);
            record.unclaimed = true;
            self.reference.forget(id);
            self.aliases.forget(id);
            return;
        }
        if let Start::Claimed(_) = holders.start {
            // Numbers after it are given again.
            record.numbered.split_off(&(holders.base + 1));
            record.sent = holders.base;
        }
        record.open(holders);
    }

    /// A data frame of a switch that was replaced.
    pub(crate) fn sent_before(&mut self, meta: &FrameMeta, bytes: &[u8]) {
        let unit = self.units.get_mut(&UnitId(meta.unit));
        let generation = View(meta.view).generation();
        let is_newest = |u: &UnitRecord| generation >= u.current.view.generation();
        let unit = unit.filter(|u| u.unclaimed && meta.clock > u.out);
        let Some(unit) = unit.filter(|u| meta.view == 0 || is_newest(u)) else {
            return;
        };
        let known = unit.numbered.entry(meta.clock).or_default();
        match meta.flags & frame_flags::LOST {
            0 => {
                known.part.get_or_insert_with(|| part_of(meta, bytes));
            }
            _ => known.lost = true,
        }
    }

    /// A restarted switch has heard all claims and knows these units. None is
    /// forgotten that somebody had; the others are no more.
    pub(crate) fn restart_is_over(
        &mut self,
        live: &[UnitId],
        unit_of: impl Fn(&FlowKey) -> Option<UnitId>,
        cluster: &dyn Cluster,
    ) {
        let mut missing = None;
        let mut gone = Vec::new();
        for (id, unit) in &mut self.units {
            if !unit.unclaimed || unit.ended {
                continue;
            }
            if live.contains(id) {
                // Its view opens with its next packet, or in the sweep.
                unit.unclaimed = false;
                unit.unopened = true;
                unit.before = unit.settled.take().or(unit.before);
                unit.lone = unit.before.map(|before| before.view) != Some(unit.current.view);
                continue;
            }
            let had = |r: RuntimeId| !cluster.is_gone(r);
            // A unit without state has nothing to lose; its last flow may have
            // ended in an entry that the switch before this one never let out.
            // An alias takes a key over from another unit's flow. A unit whose
            // flows are all hidden so is found by no packet, before the restart
            // and after it: two units can't claim one name.
            let hidden = |key: &FlowKey| self.aliases.unit_of(key).is_some_and(|of| of != *id);
            let flows = self.reference.flows(*id);
            let is_hidden = !flows.is_empty() && flows.iter().all(hidden);
            if let Some(holders) = unit.settled
                && !is_hidden
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
        self.aliases.restarted(unit_of);
        if let Some((id, out)) = missing.filter(|_| !self.lenient) {
            let text = format!("the switch's restart forgot the unit, after {out}");
            self.violated(Invariant::ExactlyOnce, Some(id), text);
        }
    }
}
