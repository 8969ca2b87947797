//! The checker's record of a unit.

use std::collections::{BTreeMap, BTreeSet};

use weir_packet::frame_flags;
use weir_protocol::journal::Start;
use weir_protocol::message::Entry;
use weir_protocol::{Clock, RuntimeId, UnitId, View};

use super::Reference;
use super::numbered::Numbered;
use super::taken::Taken;

/// A view and who holds its state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Holders {
    pub(crate) view: View,
    pub(crate) base: u64,
    pub(crate) owner: RuntimeId,
    pub(crate) replica: Option<RuntimeId>,
    pub(crate) start: Start,
    /// The member whose state the owner goes on from; the owner where there is none.
    pub(crate) holder: RuntimeId,
}

impl Holders {
    /// A holder that is left.
    pub(crate) fn left(&self, is_gone: impl Fn(RuntimeId) -> bool) -> Option<RuntimeId> {
        let mut holders = [Some(self.owner), self.replica].into_iter().flatten();
        holders.find(|holder| !is_gone(*holder))
    }
}

/// A unit.
#[derive(Clone, Debug)]
pub(crate) struct UnitRecord {
    pub(crate) current: Holders,
    pub(crate) settled: Option<Holders>,
    /// The last settled view before a switch restart, until a view is settled
    /// after it.
    pub(crate) before: Option<Holders>,
    /// Owners and replicas of all views: the gate takes entries of no others.
    pub(crate) speakers: BTreeSet<(View, RuntimeId)>,
    /// The view that each view goes on from; `None` of one that begins from no state.
    came_from: BTreeMap<View, Option<View>>,
    /// Last number given.
    pub(crate) sent: u64,
    /// The greatest number that a switch before has given.
    pub(crate) sent_most: u64,
    /// Last number let out.
    pub(crate) out: u64,
    /// Numbers after `out`.
    pub(crate) numbered: BTreeMap<u64, Numbered>,
    /// Entries after `out` that somebody made.
    pub(crate) entries: BTreeMap<(View, Clock), Entry>,
    pub(crate) ended: bool,
    /// All who had its state are gone, and no packet has come since.
    pub(crate) lost: bool,
    /// A switch gave it up, and no view was settled since.
    pub(crate) given_up: bool,
    /// The same, and that switch is gone.
    pub(crate) given_up_before: bool,
    /// An older copy has won after it was lost: what its state should be
    /// nobody can tell.
    pub(crate) adrift: bool,
    /// The switch has restarted and does not know of it yet.
    pub(crate) unclaimed: bool,
    /// Its current view goes on in the place of an owner that has died.
    pub(crate) outlived: bool,
    /// At the last restart a view was open that was not settled: who has the best
    /// claim, has it alone.
    pub(crate) lone: bool,
    /// The switch that took it from claims has opened no view of it yet.
    pub(crate) unopened: bool,
    /// Packets that a restart took from claims, until something is let out after it.
    pub(crate) taken: Option<Taken>,
}

impl UnitRecord {
    /// True where the switch has the unit, and its state is not lost.
    pub(crate) const fn is_live(&self) -> bool {
        !(self.ended || self.lost || self.unclaimed)
    }

    pub(crate) fn new(holders: Holders) -> UnitRecord {
        let mut unit = UnitRecord {
            current: holders,
            settled: None,
            before: None,
            speakers: BTreeSet::new(),
            came_from: BTreeMap::new(),
            sent: holders.base,
            sent_most: 0,
            out: holders.base,
            numbered: BTreeMap::new(),
            entries: BTreeMap::new(),
            ended: false,
            lost: false,
            given_up: false,
            given_up_before: false,
            adrift: false,
            unclaimed: false,
            outlived: false,
            lone: false,
            unopened: false,
            taken: None,
        };
        unit.open(holders);
        unit
    }

    /// True where what somebody has made of numbers that are not let out has ended the unit's last
    /// flow: in the current view, or in another one that is not settled.
    pub(crate) fn may_have_ended(&self, id: UnitId, reference: &mut Reference) -> bool {
        let state = reference.state(id);
        let views = self.came_from.keys().rev();
        let mut views = views.take_while(|view| self.settled.is_none_or(|s| **view >= s.view));
        let ends = views.any(|view| {
            let ends = self.ends_in(*view, id, reference);
            // A state of its own is taken back.
            ends || !reference.go_back(id, state.as_deref(), self.out)
        });
        // The entries were tried, not let out: a port that they lease is no fault.
        let _ = reference.take_doubled();
        ends
    }

    /// True where the packets after those let out end the last flow in this view. The reference
    /// goes on with them.
    fn ends_in(&self, view: View, id: UnitId, reference: &mut Reference) -> bool {
        for (clock, known) in &self.numbered {
            if !reference.has_flows(id) {
                break;
            }
            let made = self.entry_of(view, Clock(*clock));
            let Some((part, made)) = made.and_then(|made| Some((known.applied(&made)?, made)))
            else {
                break;
            };
            reference.apply(id, view, &part, &made);
        }
        !reference.has_flows(id)
    }

    /// True after a restart of the switch until a view opens: what the unit has is not known.
    pub(crate) fn awaits_view(&self) -> bool {
        self.unclaimed || self.unopened
    }

    /// A view opens.
    pub(crate) fn open(&mut self, holders: Holders) {
        let from = match holders.start {
            Start::Claimed(of) => Some(of),
            Start::Planned | Start::Resumed => self.settled.or(self.before).map(|h| h.view),
            Start::Nothing | Start::AfterLoss => None,
        };
        self.came_from.insert(holders.view, from);
        self.current = holders;
        self.unopened = false;
        let both = [Some(holders.owner), holders.replica];
        let both = both.into_iter().flatten();
        self.speakers.extend(both.map(|who| (holders.view, who)));
    }

    /// The view of an entry, if the rule of the gate allows it: the current
    /// one, or the last settled one up to where it was closed as planned.
    pub(crate) fn may_let_out(&self, view: View, clock: u64) -> Option<Holders> {
        if view == self.current.view {
            return Some(self.current);
        }
        self.settled.filter(|settled| {
            settled.view == view
                && self.current.start == Start::Planned
                && clock <= self.current.base
        })
    }

    /// Forgets entries that are done with.
    pub(crate) fn forget_entries(&mut self) {
        let out = self.out;
        if !self.entries.is_empty() {
            self.entries.retain(|(_, clock), _| clock.0 > out);
        }
        while self
            .numbered
            .first_key_value()
            .is_some_and(|(clock, _)| *clock <= out)
        {
            self.numbered.pop_first();
        }
    }

    /// The view is settled.
    pub(crate) fn settle(&mut self) {
        self.settled = Some(self.current);
        self.before = None;
        self.given_up = false;
        self.given_up_before = false;
    }

    /// A restarted switch goes on after `base`; gives the number of packets
    /// that are lost with that.
    pub(crate) fn go_back(&mut self, base: u64) -> u64 {
        let is_packet = |known: &Numbered| {
            let part = known.part.as_ref();
            part.is_some_and(|part| part.flags & frame_flags::TICK == 0)
        };
        let lost = self.numbered.split_off(&(base + 1));
        self.numbered.clear();
        self.entries.clear();
        self.sent_most = self.sent_most.max(self.sent);
        self.out = base;
        self.sent = base;
        self.before = self.settled.take().or(self.before);
        lost.values().filter(|known| is_packet(known)).count() as u64
    }

    /// The entry of a number as the view has it: made in it, or in a view that it goes on
    /// from. A view that was given up in between has another state.
    pub(crate) fn entry_of(&self, view: View, clock: Clock) -> Option<Entry> {
        let made = |of: View| self.entries.get(&(of, clock)).cloned();
        made(view).or_else(|| self.entry_of(self.origin(view)?, clock))
    }

    /// True where a claim of `of` has packets that no switch knows any more: a restart in between
    /// took a claim of a newer view, with fewer, and all who had a state of that view are gone.
    /// This claim's owner was not told, and has all that was let out.
    pub(crate) fn was_taken_back(
        &self,
        opened: Holders,
        of: View,
        has_state: impl Fn(View, RuntimeId) -> bool,
    ) -> bool {
        let speakers = self.speakers.iter();
        let mut newer = speakers.filter(|(view, _)| of < *view && *view < opened.view);
        let mut unknown = self.out + 1..=opened.base;
        unknown.any(|clock| !self.numbered.contains_key(&clock))
            && opened.base <= self.sent_most
            && newer.clone().next().is_some()
            && !newer.any(|(view, holder)| has_state(*view, *holder))
    }

    /// The first view of this life.
    pub(crate) fn first_view(&self) -> View {
        let first = self.came_from.first_key_value();
        first.map_or(View::NONE, |(view, _)| *view)
    }

    /// What every view's owner has made of a number.
    pub(crate) fn entries_at(&self, clock: Clock) -> Vec<(View, Entry)> {
        let all = self.entries.iter();
        let of_clock = all.filter(|((_, at), _)| *at == clock);
        of_clock
            .map(|((view, _), made)| (*view, made.clone()))
            .collect()
    }

    /// The view that a view goes on from.
    pub(crate) fn origin(&self, view: View) -> Option<View> {
        self.came_from.get(&view).copied().flatten()
    }

    /// True where the view is `other`, or goes on from it.
    pub(crate) fn goes_on_from(&self, view: View, other: View) -> bool {
        view == other
            || self
                .origin(view)
                .is_some_and(|origin| self.goes_on_from(origin, other))
    }
}
