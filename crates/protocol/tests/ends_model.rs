//! A model of how units end: ends, names, expiry and restarts of the switch.
//!
//! A random walk over one flow with two names (its key and an alias), four
//! runtimes and a network that delays, reorders, loses and doubles. It leaves
//! out how states travel (moves are one step) and keeps what decides about
//! ends: who still has which copy, who forgets when, what a restarted switch
//! is told, and which names lead where. Each rule of [`Rules`] can be left
//! out; then the walk finds a violation. With all of them it finds none.
//!
//! `cargo test -p weir-protocol --test ends_model` walks 20,000 runs;
//! `WEIR_MODEL_RUNS=2000000 cargo test --release -p weir-protocol --test ends_model`
//! walks as many as are asked for: none of two million broke the whole rules,
//! and each rule that is left out breaks within the first ten. The walk has
//! found two details that the code keeps: a replica of the ended view that is
//! behind forgets before its owner, and a flow's names leave together.

use std::collections::{BTreeMap, BTreeSet};

/// What a runtime claims: view, whether it owns the unit, itself and its copy.
type Claimed = (View, bool, Runtime, Actor);

type Unit = u64;
type View = u64;
type Runtime = usize;

const RUNTIMES: usize = 4;
const STEPS: usize = 160;

/// What is under test.
#[derive(Clone, Copy, Debug)]
struct Rules {
    /// A runtime claims its newest view, also one without state.
    claims_without_state: bool,
    /// A unit ends, and its last holders forget, after older holders have
    /// acknowledged that they forgot.
    ordered_forgetting: bool,
    /// A name of an ended flow stays with its unit while a number is in flight
    /// that may be of the flow.
    names_stay: bool,
}

const MENDED: Rules = Rules {
    claims_without_state: true,
    ordered_forgetting: true,
    names_stay: true,
};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Name {
    Key,
    Alias,
}

/// A unit's state at one runtime, of one view.
#[derive(Clone, Copy, Debug)]
struct Actor {
    clock: u64,
    open: bool,
    owner: bool,
}

/// What a packet does to the flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Data,
    /// It ends the flow.
    Last,
    /// A numbered tick: what has been idle ends.
    Tick,
}

/// What an entry says of the flow's names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Notes {
    named: bool,
    ended: bool,
}

#[derive(Clone, Copy, Debug)]
enum Message {
    Packet(Runtime, Unit, View, u64, Kind),
    Store(Runtime, Unit, View, u64, bool, Notes),
    Entry(Unit, View, u64, Notes),
    Forget(Runtime, Unit, View),
    Forgot(Runtime, Unit, View),
    End(Unit, View, u64),
}

/// What the switch knows of a unit.
#[derive(Clone, Debug)]
struct Known {
    view: View,
    owner: Runtime,
    replica: Runtime,
    sent: u64,
    out: u64,
    packets: BTreeMap<u64, (Kind, Name)>,
}

/// A name whose flow has ended.
#[derive(Clone, Copy, Debug)]
struct Leaving {
    until: u64,
    /// A packet came by it since.
    used: bool,
}

#[derive(Clone, Debug, Default)]
struct Switch {
    next_view: View,
    next_unit: Unit,
    units: BTreeMap<Unit, Known>,
    names: BTreeMap<Name, (Unit, Option<Leaving>)>,
    /// Runtimes that have not acknowledged yet that they forgot views below.
    forgets: BTreeMap<(Unit, Runtime), View>,
    /// Holders that are told after those: all that forget the unit last.
    last: BTreeMap<Unit, (View, Vec<Runtime>)>,
}

struct Walk {
    rules: Rules,
    random: u64,
    /// The flow's key, too, goes with its end: units are wider than flows.
    wide: bool,
    switch: Switch,
    actors: Vec<BTreeMap<(Unit, View), Actor>>,
    net: Vec<Message>,
    /// What was let out, and what was ended, as seen from outside.
    out: BTreeMap<Unit, u64>,
    ended: BTreeSet<Unit>,
    violation: Option<&'static str>,
}

impl Walk {
    fn new(rules: Rules, seed: u64) -> Walk {
        let mut walk = Walk {
            rules,
            random: seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1,
            wide: false,
            switch: Switch {
                next_view: 1,
                next_unit: 1,
                ..Switch::default()
            },
            actors: vec![BTreeMap::new(); RUNTIMES],
            net: Vec::new(),
            out: BTreeMap::new(),
            ended: BTreeSet::new(),
            violation: None,
        };
        walk.wide = walk.below(2) == 0;
        walk
    }

    fn below(&mut self, bound: usize) -> usize {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        (self.random.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) as usize % bound.max(1)
    }

    fn violated(&mut self, what: &'static str) {
        self.violation.get_or_insert(what);
    }

    fn run(mut self) -> Option<&'static str> {
        for _ in 0..STEPS {
            match self.below(100) {
                0..25 => self.packet(),
                25..75 => self.deliver(),
                75..80 => self.repeat(),
                80..86 => self.move_unit(),
                86..90 => self.expire(),
                90..97 => self.ask_ends(),
                _ => self.restart(),
            }
            if self.violation.is_some() {
                return self.violation;
            }
        }
        None
    }

    // ---- the switch

    fn packet(&mut self) {
        let name = [Name::Key, Name::Alias][self.below(2)];
        let kind = [Kind::Data, Kind::Data, Kind::Last][self.below(3)];
        let in_flight = self.is_in_flight(name, 0);
        let unit = match self.switch.names.get_mut(&name) {
            Some((unit, leaving)) => {
                if let Some(leaving) = leaving {
                    leaving.used = true;
                }
                *unit
            }
            // An alias that nobody has is a stranger's packet, and no flow.
            None if name == Name::Alias && !in_flight => return,
            None => self.begin(name),
        };
        if self.is_in_flight(name, unit) {
            self.violated("packets of one name are in flight in two units");
        }
        self.number(unit, kind, name);
    }

    /// True where a packet by this name is in flight in another unit than `but`.
    fn is_in_flight(&self, name: Name, but: Unit) -> bool {
        let others = self.switch.units.iter().filter(|(id, _)| **id != but);
        let mut packets = others.flat_map(|(_, known)| known.packets.values());
        packets.any(|(kind, by)| *by == name && *kind != Kind::Tick)
    }

    fn begin(&mut self, name: Name) -> Unit {
        let unit = self.switch.next_unit;
        self.switch.next_unit += 1;
        let view = self.take_view();
        let owner = self.below(RUNTIMES);
        let replica = (owner + 1 + self.below(RUNTIMES - 1)) % RUNTIMES;
        let known = Known {
            view,
            owner,
            replica,
            sent: 0,
            out: 0,
            packets: BTreeMap::new(),
        };
        self.switch.units.insert(unit, known);
        self.switch.names.insert(name, (unit, None));
        self.install(unit, view, (owner, replica), 0, false);
        unit
    }

    fn take_view(&mut self) -> View {
        let view = self.switch.next_view;
        self.switch.next_view += 1;
        view
    }

    fn install(
        &mut self,
        unit: Unit,
        view: View,
        (owner, replica): (Runtime, Runtime),
        clock: u64,
        open: bool,
    ) {
        for (at, is_owner) in [(owner, true), (replica, false)] {
            let actor = Actor {
                clock,
                open,
                owner: is_owner,
            };
            self.actors[at].insert((unit, view), actor);
        }
    }

    fn number(&mut self, unit: Unit, kind: Kind, name: Name) {
        let Some(known) = self.switch.units.get_mut(&unit) else {
            return;
        };
        known.sent += 1;
        known.packets.insert(known.sent, (kind, name));
        let packet = Message::Packet(known.owner, unit, known.view, known.sent, kind);
        self.net.push(packet);
    }

    /// What was not answered is sent again.
    fn repeat(&mut self) {
        for (unit, known) in &self.switch.units {
            if let Some((clock, (kind, _))) = known.packets.first_key_value() {
                let packet = Message::Packet(known.owner, *unit, known.view, *clock, *kind);
                self.net.push(packet);
            }
        }
        for ((unit, to), below) in &self.switch.forgets {
            self.net.push(Message::Forget(*to, *unit, *below));
        }
    }

    fn forget(&mut self, to: Runtime, unit: Unit, below: View) {
        let known = self.switch.forgets.entry((unit, to)).or_insert(below);
        *known = below.max(*known);
        self.net.push(Message::Forget(to, unit, below));
    }

    fn forgot(&mut self, from: Runtime, unit: Unit, below: View) {
        if self.switch.forgets.get(&(unit, from)) == Some(&below) {
            self.switch.forgets.remove(&(unit, from));
        }
        self.last_of(unit);
    }

    fn waits(&self, unit: Unit) -> bool {
        let mut forgets = self.switch.forgets.keys();
        forgets.any(|(of, _)| *of == unit)
    }

    /// Older holders have forgotten: the last ones may.
    fn last_of(&mut self, unit: Unit) {
        if self.waits(unit) {
            return;
        }
        if let Some((below, holders)) = self.switch.last.remove(&unit) {
            for holder in holders {
                self.forget(holder, unit, below);
            }
        }
    }

    /// The unit is over: `older` forget, and `holders` forget last.
    fn end(&mut self, unit: Unit, older: Vec<Runtime>, holders: Vec<Runtime>) {
        self.switch.units.remove(&unit);
        self.switch.names.retain(|_, (of, _)| *of != unit);
        self.ended.insert(unit);
        let below = self.switch.next_view;
        for holder in older {
            self.forget(holder, unit, below);
        }
        self.switch.last.insert(unit, (below, holders));
        if self.rules.ordered_forgetting {
            self.last_of(unit);
        } else if let Some((below, holders)) = self.switch.last.remove(&unit) {
            for holder in holders {
                self.forget(holder, unit, below);
            }
        }
    }

    fn end_asked(&mut self, unit: Unit, view: View, clock: u64) {
        let Some(known) = self.switch.units.get(&unit) else {
            return;
        };
        let is_quiet = known.view == view && clock == known.sent && clock == known.out;
        let is_last = !self.rules.ordered_forgetting || !self.waits(unit);
        if is_quiet && is_last {
            let holders = vec![known.owner, known.replica];
            self.end(unit, Vec::new(), holders);
        }
    }

    fn entry(&mut self, unit: Unit, view: View, clock: u64, notes: Notes) {
        let Some(known) = self.switch.units.get_mut(&unit) else {
            return;
        };
        if known.view != view || clock != known.out + 1 {
            return;
        }
        known.out = clock;
        known.packets.remove(&clock);
        let (sent, out) = (known.sent, known.out);
        self.out.insert(unit, out);
        if notes.named {
            for name in [Name::Key, Name::Alias] {
                match self.switch.names.get(&name) {
                    Some((other, _)) if *other != unit => {
                        self.violated("a name is refused, and the packet leaves");
                    }
                    _ => {
                        self.switch.names.insert(name, (unit, None));
                    }
                }
            }
        }
        if notes.ended {
            let until = if self.rules.names_stay { sent } else { out };
            let wide = self.wide;
            for (name, (of, leaving)) in &mut self.switch.names {
                if *of == unit && (wide || *name == Name::Alias) {
                    *leaving = Some(Leaving { until, used: false });
                }
            }
        }
        self.let_names_go(unit, sent, out);
    }

    /// A flow's names go together, or a packet by one of them would open the
    /// flow again in this unit while another name leads to the next.
    fn let_names_go(&mut self, unit: Unit, sent: u64, out: u64) {
        let names = self.switch.names.values();
        let is_used = names
            .filter(|(of, _)| *of == unit)
            .any(|(_, leaving)| leaving.is_some_and(|it| it.used));
        self.switch.names.retain(|_, (of, leaving)| {
            let Some(it) = leaving.as_mut().filter(|it| *of == unit && it.until <= out) else {
                return true;
            };
            if is_used {
                (it.until, it.used) = (sent, false);
            }
            it.until > out
        });
    }

    fn move_unit(&mut self) {
        let units: Vec<Unit> = self.switch.units.keys().copied().collect();
        let Some(&unit) = units.get(self.below(units.len())) else {
            return;
        };
        let known = self.switch.units[&unit].clone();
        let key = (unit, known.view);
        let Some(actor) = self.actors[known.owner].get(&key).copied() else {
            return;
        };
        if known.sent != known.out || actor.clock != known.sent {
            return;
        }
        let (from, from_replica) = (known.owner, known.replica);
        let to = self.below(RUNTIMES);
        let replica = (to + 1 + self.below(RUNTIMES - 1)) % RUNTIMES;
        let view = self.take_view();
        self.install(unit, view, (to, replica), actor.clock, actor.open);
        if let Some(known) = self.switch.units.get_mut(&unit) {
            (known.view, known.owner, known.replica) = (view, to, replica);
        }
        for older in [from, from_replica] {
            self.forget(older, unit, view);
        }
    }

    fn expire(&mut self) {
        let units: Vec<Unit> = self.switch.units.keys().copied().collect();
        if let Some(&unit) = units.get(self.below(units.len())) {
            self.number(unit, Kind::Tick, Name::Key);
        }
    }

    fn restart(&mut self) {
        // Who speaks of older views is not heard, nor is who speaks to them.
        self.net.clear();
        self.switch = Switch {
            next_view: self.switch.next_view,
            next_unit: self.switch.next_unit,
            ..Switch::default()
        };
        let mut claims: BTreeMap<Unit, Vec<(View, bool, Runtime, Actor)>> = BTreeMap::new();
        for runtime in 0..RUNTIMES {
            let mut best: BTreeMap<Unit, (View, Actor)> = BTreeMap::new();
            for ((unit, view), actor) in &self.actors[runtime] {
                if actor.open || self.rules.claims_without_state {
                    best.insert(*unit, (*view, *actor));
                }
            }
            for (unit, (view, actor)) in best {
                let claim = (view, actor.owner, runtime, actor);
                claims.entry(unit).or_default().push(claim);
            }
        }
        let mut units: Vec<(Unit, Vec<Claimed>)> = claims.into_iter().collect();
        for (_, claims) in &mut units {
            claims.sort_by_key(|claim| core::cmp::Reverse((claim.0, claim.1, claim.3.clock)));
        }
        units.sort_by_key(|(_, claims)| core::cmp::Reverse(claims[0].0));
        for (unit, claims) in units {
            self.restore(unit, &claims);
        }
    }

    fn restore(&mut self, unit: Unit, claims: &[(View, bool, Runtime, Actor)]) {
        let (_, _, holder, best) = claims[0];
        if !best.open {
            // The replica of the same view may be behind and have state: it
            // forgets before its owner.
            let with_state = |open: bool| {
                let claims = claims.iter().filter(move |claim| claim.3.open == open);
                claims.map(|claim| claim.2).collect::<Vec<Runtime>>()
            };
            return self.end(unit, with_state(true), with_state(false));
        }
        if self.ended.contains(&unit) {
            return self.violated("a restart revives a unit that has ended");
        }
        if self.out.get(&unit).is_some_and(|out| best.clock < *out) {
            return self.violated("a restart goes back behind what was let out");
        }
        if self.switch.names.contains_key(&Name::Key) {
            return self.violated("a restart finds one flow in two units");
        }
        let view = self.take_view();
        let replica = (holder + 1 + self.below(RUNTIMES - 1)) % RUNTIMES;
        let known = Known {
            view,
            owner: holder,
            replica,
            sent: best.clock,
            out: best.clock,
            packets: BTreeMap::new(),
        };
        self.switch.units.insert(unit, known);
        for name in [Name::Key, Name::Alias] {
            self.switch.names.insert(name, (unit, None));
        }
        self.install(unit, view, (holder, replica), best.clock, true);
        for claim in claims {
            self.forget(claim.2, unit, view);
        }
    }

    // ---- the runtimes

    fn ask_ends(&mut self) {
        for runtime in 0..RUNTIMES {
            for ((unit, view), actor) in &self.actors[runtime] {
                if actor.owner && !actor.open {
                    self.net.push(Message::End(*unit, *view, actor.clock));
                }
            }
        }
    }

    fn apply(&mut self, at: Runtime, unit: Unit, view: View, clock: u64, kind: Kind) {
        let Some(actor) = self.actors[at].get_mut(&(unit, view)) else {
            return;
        };
        if !actor.owner || clock > actor.clock + 1 {
            return;
        }
        let mut notes = Notes {
            named: false,
            ended: false,
        };
        if clock == actor.clock + 1 {
            actor.clock = clock;
            notes.named = kind != Kind::Tick && !actor.open;
            notes.ended = kind == Kind::Last || kind == Kind::Tick && actor.open;
            actor.open = kind == Kind::Data;
            let open = actor.open;
            if let Some(known) = self.switch.units.get(&unit).filter(|k| k.view == view) {
                let store = Message::Store(known.replica, unit, view, clock, open, notes);
                self.net.push(store);
            }
        }
    }

    fn store(&mut self, at: Runtime, unit: Unit, view: View, clock: u64, open: bool, notes: Notes) {
        let Some(actor) = self.actors[at].get_mut(&(unit, view)) else {
            return;
        };
        if actor.owner || clock > actor.clock + 1 {
            return self
                .net
                .push(Message::Store(at, unit, view, clock, open, notes));
        }
        if clock == actor.clock + 1 {
            (actor.clock, actor.open) = (clock, open);
        }
        self.net.push(Message::Entry(unit, view, clock, notes));
    }

    fn forgetting(&mut self, at: Runtime, unit: Unit, below: View) {
        self.actors[at].retain(|(of, view), _| *of != unit || *view >= below);
        self.net.push(Message::Forgot(at, unit, below));
    }

    // ---- the network

    fn deliver(&mut self) {
        if self.net.is_empty() {
            return;
        }
        let at = self.below(self.net.len());
        let message = self.net[at];
        let luck = self.below(10);
        // Entries and what owners tell replicas ride on streams: not lost.
        let streams = matches!(message, Message::Store(..) | Message::Entry(..));
        if luck > 0 || streams {
            self.net.swap_remove(at);
        }
        if luck == 1 && !streams {
            return;
        }
        match message {
            Message::Packet(at, unit, view, clock, kind) => {
                self.apply(at, unit, view, clock, kind);
            }
            Message::Store(at, unit, view, clock, open, notes) => {
                self.store(at, unit, view, clock, open, notes);
            }
            Message::Entry(unit, view, clock, notes) => {
                let known = self.switch.units.get(&unit);
                if known.is_some_and(|k| k.view == view && clock > k.out + 1) {
                    self.net.push(message);
                } else {
                    self.entry(unit, view, clock, notes);
                }
            }
            Message::Forget(at, unit, below) => self.forgetting(at, unit, below),
            Message::Forgot(from, unit, below) => self.forgot(from, unit, below),
            Message::End(unit, view, clock) => self.end_asked(unit, view, clock),
        }
    }
}

fn runs() -> u64 {
    let asked = std::env::var("WEIR_MODEL_RUNS").ok();
    asked.and_then(|runs| runs.parse().ok()).unwrap_or(20_000)
}

/// Runs until the first violation: its number, and what it is.
fn first_violation(rules: Rules) -> Option<(u64, &'static str)> {
    (1..=runs()).find_map(|seed| Some((seed, Walk::new(rules, seed).run()?)))
}

#[test]
fn with_all_rules_nothing_is_violated() {
    assert_eq!(first_violation(MENDED), None);
}

#[test]
fn each_rule_is_needed() {
    let without = [
        Rules {
            claims_without_state: false,
            ..MENDED
        },
        Rules {
            ordered_forgetting: false,
            ..MENDED
        },
        Rules {
            names_stay: false,
            ..MENDED
        },
    ];
    for rules in without {
        let found = first_violation(rules);
        println!("{rules:?}: {found:?}");
        assert!(found.is_some(), "{rules:?}");
    }
}
