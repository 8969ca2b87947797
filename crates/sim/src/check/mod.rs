//! The invariants of the protocol, checked at each step of the switch.
//!
//! The checker reads the switch's journal, the frames that it sends, the
//! entries that runtimes make, and what leaves. It keeps no opinion of its own
//! on how the protocol should get there.

mod aliases;
mod bindings;
mod dependence;
mod flows;
mod gate;
mod homes;
mod invariant;
mod ledger;
mod numbered;
mod outside;
mod protection;
mod reference;
mod requests;
mod show;
mod taken;
mod unit;
mod views;

use std::collections::BTreeMap;

use weir_packet::FlowKey;
use weir_protocol::journal::{Done, Start};
use weir_protocol::message::Part;
use weir_protocol::settings::Replication;
use weir_protocol::{Clock, RuntimeId, UnitId, View};

use aliases::Aliases;
use homes::Homes;
pub use invariant::{Invariant, Violation};
pub(crate) use ledger::Ledger;
use outside::Outside;
pub(crate) use outside::{Kind, Sighting};
pub(crate) use reference::Reference;
pub(crate) use show::{show_entry, show_unit, show_view};
pub(crate) use unit::{Holders, UnitRecord};

/// Counts of the run so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Packets (not ticks) numbered.
    pub numbered: u64,
    /// Entries let out, ticks included.
    pub let_out: u64,
    /// Packets let out that go on.
    pub out: u64,
    /// Those that functions dropped.
    pub dropped: u64,
    /// Those that come back to the switch.
    pub turned: u64,
    /// Those of which no copy was kept.
    pub lost: u64,
    /// Packets that functions made.
    pub emitted: u64,
    /// Those that they could not make, as entries say.
    pub emits_lost: u64,
    /// Bytes of the packets that got numbers.
    pub bytes: u64,
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
    /// Of those, that went on at a replica behind its owner's claim.
    pub behind: u64,
    /// Units ended.
    pub ended: u64,
    /// States compared at the end.
    pub states: u64,
}

impl Tally {
    /// Adds another chain's counts.
    pub(crate) fn add(&mut self, other: &Tally) {
        let all = [
            (&mut self.numbered, other.numbered),
            (&mut self.let_out, other.let_out),
            (&mut self.out, other.out),
            (&mut self.dropped, other.dropped),
            (&mut self.turned, other.turned),
            (&mut self.lost, other.lost),
            (&mut self.emitted, other.emitted),
            (&mut self.emits_lost, other.emits_lost),
            (&mut self.bytes, other.bytes),
            (&mut self.ticks, other.ticks),
            (&mut self.owner_lost, other.owner_lost),
            (&mut self.switch_restart, other.switch_restart),
            (&mut self.views, other.views),
            (&mut self.moved, other.moved),
            (&mut self.resumed, other.resumed),
            (&mut self.claimed, other.claimed),
            (&mut self.behind, other.behind),
            (&mut self.ended, other.ended),
            (&mut self.states, other.states),
        ];
        for (count, more) in all {
            *count += more;
        }
    }
}

/// A frame that must leave next.
#[derive(Clone, Debug)]
pub(crate) struct Leaving {
    unit: UnitId,
    clock: Clock,
    part: Part,
}

/// The members that are gone, as far as the world knows.
pub(crate) trait Cluster {
    /// The runtime is dead, or the switch was told so.
    fn is_gone(&self, runtime: RuntimeId) -> bool;
    /// A switch was told at some time that the runtime is dead, or did not know of it, and no
    /// runtime in service has heard of that.
    fn is_suspicion_lost(&self, runtime: RuntimeId) -> bool;
    /// The clock up to which the runtime holds the view's state and outputs;
    /// `None` where it is dead or has nothing.
    fn stored(&self, runtime: RuntimeId, unit: UnitId, view: View) -> Option<Clock>;
    /// The clock after which the switch has all packets of the unit; `None` where
    /// no switch runs that knows it.
    fn packets_since(&self, unit: UnitId) -> Option<Clock>;
    /// The host that the runtime runs on, where somebody said.
    fn host(&self, runtime: RuntimeId) -> Option<u32>;
    /// It keeps copies and owns no unit.
    fn is_logger(&self, runtime: RuntimeId) -> bool;
    /// There is a runtime that takes units.
    fn has_runtimes(&self) -> bool;
    /// The unit that the switch has a name for.
    fn unit_of_name(&self, key: &FlowKey) -> Option<UnitId>;
    /// The runtime takes units, as far as the switch was told.
    fn takes_units(&self, runtime: RuntimeId) -> bool;
}

/// The checker of a run.
pub(crate) struct Checker {
    replication: Replication,
    pub(crate) reference: Reference,
    pub(crate) units: BTreeMap<UnitId, UnitRecord>,
    aliases: Aliases,
    outside: Outside,
    homes: Homes,
    /// Moves that a switch took on, by unit: where to, and the view then.
    moves: BTreeMap<UnitId, (RuntimeId, View)>,
    highest: View,
    leaving: std::collections::VecDeque<Leaving>,
    events: Vec<u8>,
    pub(crate) tally: Tally,
    /// The journal of the current switch, in numbers.
    pub(crate) ledger: Ledger,
    /// Units without protection that could have it: for how long, in nanoseconds.
    exposed: BTreeMap<UnitId, u64>,
    /// After a failure that no single replica covers units may be lost.
    pub(crate) lenient: bool,
    /// Nothing is lost between processes: only a death loses packets.
    pub(crate) lossless: bool,
    /// The switch has each packet until it is let out, and repeats it.
    pub(crate) keeps_packets: bool,
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
            outside: Outside::default(),
            homes: Homes::default(),
            moves: BTreeMap::new(),
            highest: View::NONE,
            leaving: std::collections::VecDeque::new(),
            events: Vec::new(),
            tally: Tally::default(),
            ledger: Ledger::default(),
            exposed: BTreeMap::new(),
            lenient: false,
            lossless: false,
            keeps_packets: false,
            now: 0,
            violation: None,
        }
    }

    /// The first violation.
    pub(crate) fn violation(&self) -> Option<&Violation> {
        self.violation.as_ref()
    }

    /// Another switch begins.
    pub(crate) fn begin_ledger(&mut self) {
        self.ledger = Ledger::default();
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

    /// A line of the switch's journal.
    pub(crate) fn done(&mut self, done: &Done, cluster: &dyn Cluster) {
        self.ledger.note(done, &self.units);
        match *done {
            Done::Numbered { unit, clock, .. } => self.numbered(unit, clock),
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
                // A dead thread's last words are heard before the switch is told of its death.
                let is_chosen = !self.lossless
                    && matches!(from, Start::Nothing | Start::AfterLoss | Start::Planned);
                if is_chosen && !cluster.takes_units(owner) && cluster.has_runtimes() {
                    let text = format!("it is given to r{}, which takes no units", owner.0);
                    self.violated(Invariant::OneView, Some(unit), text);
                }
                if cluster.is_logger(owner) {
                    let text = format!("logger {} owns it", owner.0);
                    self.violated(Invariant::OneView, Some(unit), text);
                }
                self.opened(unit, holders, cluster);
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
            Done::Taken { unit, of, key } => {
                // Packets on their way to a unit died with the switch that sent them.
                let record = self.units.get(&of).filter(|record| !record.unopened);
                let until = record.map_or(0, |record| record.sent);
                self.aliases.take(key, unit, (of, until));
            }
            Done::Yielded { unit, of, key } => {
                if !self.aliases.yields(key, unit, of) {
                    let text = format!("{key} is left to {}, which does not wait", show_unit(of));
                    self.violated(Invariant::Equivalence, Some(unit), text);
                }
            }
            Done::LetOut { unit, view, clock } => self.let_out(unit, view, clock, cluster),
            Done::OwnerLost { unit, first, last } => self.owner_lost(unit, first, last, cluster),
            Done::Ended { unit } => self.ended(unit),
        }
    }

    fn numbered(&mut self, unit: UnitId, clock: Clock) {
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
}
