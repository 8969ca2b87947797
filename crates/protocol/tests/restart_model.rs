//! A model of a restart of the switch that meets the death of a runtime.
//!
//! One unit with outputs that wait for its replica, three runtimes, a few packets, one
//! restart, one death. All orders of deliveries, claims and notices are walked through.
//! What is let out must follow from what was let out before, the unit is never lost, and
//! whatever is numbered is answered. Each rule of [`Rules`] can be left out; then the walk
//! finds a violation (docs/handover.md, "After a restart of the switch").

use std::collections::{BTreeMap, BTreeSet, HashSet};

const RUNTIMES: usize = 3;
/// Packets that come; their numbers from 1 name them. Three are 350,000 states, which took
/// two minutes on a busy machine and broke nothing.
const PACKETS: u8 = 2;
/// What stands for a packet that nobody has.
const LOST: u8 = 0;
/// Views of the second switch are above those of the first.
const SECOND: u8 = 10;

#[derive(Clone, Copy, Debug)]
struct Rules {
    /// A replica that is behind the best claim is a holder.
    behind_holds: bool,
    /// The switch says of what it lacks that it is lost.
    behind_is_told: bool,
    /// The switch numbers on from the best claim, not from what its other holder has.
    best_claim_is_base: bool,
    /// Who has answered takes nothing of older views any more.
    fenced: bool,
}

const ALL: Rules = Rules {
    behind_holds: true,
    behind_is_told: true,
    best_claim_is_base: true,
    fenced: true,
};

/// The packets that a state contains, in order; its clock is their number.
type History = Vec<u8>;
type View = u8;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Copy {
    owner: bool,
    replica: Option<usize>,
    history: History,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Runtime {
    dead: bool,
    fence: View,
    copies: BTreeMap<View, Copy>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Message {
    Packet(usize, View, usize, u8),
    Store(usize, View, History),
    Open(usize, View, View, usize, Option<usize>),
    Repeat(View, usize),
    Entries(View, History),
}

/// A claim: view, owner, clock.
type Claim = Option<(View, bool, usize)>;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Switch {
    /// Answers, while they are gathered.
    answers: Option<[Option<Claim>; RUNTIMES]>,
    dead: [bool; RUNTIMES],
    sent: usize,
    out: usize,
    view: View,
    next: View,
    owner: usize,
    replica: Option<usize>,
    /// The last settled view and its holders, while the current one is not.
    old: Option<(View, usize, Option<usize>)>,
    packets: BTreeMap<usize, u8>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct State {
    switch: Switch,
    runtimes: [Runtime; RUNTIMES],
    net: BTreeSet<Message>,
    came: u8,
    restarted: bool,
    died: bool,
    /// What the last output that left depends on.
    seen: History,
}

type Walked = Result<State, &'static str>;

impl State {
    fn first() -> State {
        let mut runtimes: [Runtime; RUNTIMES] = Default::default();
        for (at, owner) in [(0, true), (1, false)] {
            let copy = Copy {
                owner,
                replica: owner.then_some(1),
                history: Vec::new(),
            };
            runtimes[at].copies.insert(1, copy);
        }
        State {
            switch: Switch {
                answers: None,
                dead: [false; RUNTIMES],
                sent: 0,
                out: 0,
                view: 1,
                next: 2,
                owner: 0,
                replica: Some(1),
                old: None,
                packets: BTreeMap::new(),
            },
            runtimes,
            net: BTreeSet::new(),
            came: 0,
            restarted: false,
            died: false,
            seen: Vec::new(),
        }
    }

    /// What may happen that nobody waits for.
    fn trouble(&self) -> Vec<State> {
        let mut next = Vec::new();
        if self.came < PACKETS && self.switch.answers.is_none() {
            let mut state = self.clone();
            state.came += 1;
            state.switch.sent += 1;
            let (clock, id) = (state.switch.sent, state.came);
            state.switch.packets.insert(clock, id);
            state.send_packets(clock);
            next.push(state);
        }
        if !self.restarted {
            let mut state = self.clone();
            state.restarted = true;
            state.switch.answers = Some([None; RUNTIMES]);
            state.switch.packets.clear();
            state
                .net
                .retain(|message| matches!(message, Message::Packet(..) | Message::Store(..)));
            next.push(state);
        }
        for at in 0..RUNTIMES {
            if !self.died {
                let mut state = self.clone();
                state.died = true;
                state.runtimes[at] = Runtime {
                    dead: true,
                    ..Runtime::default()
                };
                next.push(state);
            }
        }
        next
    }

    /// What goes on by itself.
    fn progress(&self, rules: Rules) -> Vec<Walked> {
        let mut next = Vec::new();
        for message in &self.net {
            let mut state = self.clone();
            state.net.remove(message);
            match state.deliver(message.clone(), rules) {
                Ok(true) => next.push(Ok(state)),
                Ok(false) => {}
                Err(what) => next.push(Err(what)),
            }
        }
        for at in 0..RUNTIMES {
            if self.runtimes[at].dead && !self.switch.dead[at] {
                let mut state = self.clone();
                state.switch.dead[at] = true;
                next.push(state.go_on(rules));
            }
            let is_asked = self
                .switch
                .answers
                .is_some_and(|answers| answers[at].is_none());
            if is_asked && !self.runtimes[at].dead {
                let mut state = self.clone();
                let newest = state.runtimes[at].copies.last_key_value();
                let claim = newest.map(|(view, copy)| (*view, copy.owner, copy.history.len()));
                if let Some(answers) = &mut state.switch.answers {
                    answers[at] = Some(claim);
                }
                if rules.fenced {
                    state.runtimes[at].fence = SECOND;
                }
                next.push(state.go_on(rules));
            }
        }
        next
    }

    /// Goes on where all have answered, and where a holder is dead.
    fn go_on(mut self, rules: Rules) -> Walked {
        if let Some(answers) = self.switch.answers {
            let dead = self.switch.dead;
            if (0..RUNTIMES).any(|at| answers[at].is_none() && !dead[at]) {
                return Ok(self);
            }
            let claims = (0..RUNTIMES).filter(|at| !dead[*at]);
            let claims = claims.filter_map(|at| Some((answers[at]??, at)));
            let mut claims: Vec<((View, bool, usize), usize)> = claims.collect();
            claims.sort_by(|a, b| b.cmp(a));
            let Some(((view, _, clock), first)) = claims.first().copied() else {
                return Err("nobody claims the unit");
            };
            let mut others = claims.iter().skip(1);
            let second =
                others.find(|((of, _, at), _)| *of == view && (rules.behind_holds || *at == clock));
            let base = match second {
                Some(((_, _, at), _)) if !rules.best_claim_is_base => clock.min(*at),
                _ => clock,
            };
            let second = second.map(|(_, at)| *at);
            let switch = &mut self.switch;
            switch.answers = None;
            (switch.sent, switch.out) = (base, base);
            switch.next = SECOND;
            (switch.view, switch.owner, switch.replica) = (view, first, second);
            switch.old = None;
            return self.open();
        }
        let switch = &self.switch;
        let is_gone = |at: usize| switch.dead[at];
        if is_gone(switch.owner) || switch.replica.is_some_and(is_gone) {
            return self.open();
        }
        Ok(self)
    }

    /// Opens a view at a holder of the last settled one.
    fn open(mut self) -> Walked {
        let switch = &mut self.switch;
        let (view, owner, replica) =
            switch
                .old
                .unwrap_or((switch.view, switch.owner, switch.replica));
        let lives = |at: &usize| !switch.dead[*at];
        let Some(holder) = [Some(owner), replica].into_iter().flatten().find(lives) else {
            return Err("the unit is lost, although one runtime died");
        };
        switch.old = Some((view, owner, replica));
        switch.view = switch.next;
        switch.next += 1;
        switch.owner = holder;
        switch.replica = (1..RUNTIMES).map(|by| (holder + by) % RUNTIMES).find(lives);
        let open = Message::Open(holder, switch.view, view, switch.out, switch.replica);
        self.net.insert(open);
        let after = self.switch.out + 1;
        self.send_packets(after);
        Ok(self)
    }

    fn send_packets(&mut self, from: usize) {
        for (clock, id) in self.switch.packets.range(from..) {
            let packet = Message::Packet(self.switch.owner, self.switch.view, *clock, *id);
            self.net.insert(packet);
        }
    }

    /// False where the message has to wait.
    fn deliver(&mut self, message: Message, rules: Rules) -> Result<bool, &'static str> {
        let runs = self.switch.answers.is_none();
        match message {
            Message::Packet(at, view, clock, id) => {
                let runtime = &mut self.runtimes[at];
                if runtime.dead || view < runtime.fence {
                    return Ok(true);
                }
                let Some(copy) = runtime.copies.get_mut(&view).filter(|copy| copy.owner) else {
                    return Ok(false);
                };
                if clock > copy.history.len() + 1 {
                    return Ok(false);
                }
                if clock == copy.history.len() + 1 {
                    copy.history.push(id);
                    self.say(at, view);
                }
            }
            Message::Store(at, view, history) => {
                let runtime = &mut self.runtimes[at];
                if !runtime.dead && view >= runtime.fence {
                    let copy = runtime.copies.entry(view).or_insert(Copy {
                        owner: false,
                        replica: None,
                        history: Vec::new(),
                    });
                    if history.len() > copy.history.len() {
                        copy.history.clone_from(&history);
                    }
                    self.net.insert(Message::Entries(view, history));
                }
            }
            Message::Open(at, view, old, base, replica) => {
                let runtime = &mut self.runtimes[at];
                if runtime.dead || view < runtime.fence {
                    return Ok(true);
                }
                let Some(copy) = runtime.copies.get(&old).cloned() else {
                    return Err("a view opens at one that has no copy");
                };
                let clock = copy.history.len();
                let copy = Copy {
                    owner: true,
                    replica,
                    ..copy
                };
                runtime.copies.insert(view, copy);
                runtime.fence = view.max(runtime.fence);
                self.say(at, view);
                if clock < base {
                    self.net.insert(Message::Repeat(view, clock));
                }
            }
            Message::Repeat(view, after) => {
                if runs && view == self.switch.view && rules.behind_is_told {
                    for clock in after + 1..=self.switch.out {
                        let lost = Message::Packet(self.switch.owner, view, clock, LOST);
                        self.net.insert(lost);
                    }
                }
            }
            Message::Entries(view, history) => {
                if runs && view == self.switch.view {
                    self.let_out(&history)?;
                }
            }
        }
        Ok(true)
    }

    /// An owner's state goes to its replica; without one its outputs to the switch.
    fn say(&mut self, at: usize, view: View) {
        if let Some(copy) = self.runtimes[at].copies.get(&view) {
            let history = copy.history.clone();
            self.net.insert(match copy.replica {
                Some(replica) => Message::Store(replica, view, history),
                None => Message::Entries(view, history),
            });
        }
    }

    /// What was stored is let out, and the view is settled.
    fn let_out(&mut self, history: &History) -> Result<(), &'static str> {
        if self.switch.old.take().is_some() {
            let view = self.switch.view;
            for runtime in &mut self.runtimes {
                runtime.copies.retain(|of, _| *of >= view);
            }
        }
        for clock in self.switch.out + 1..=history.len() {
            let (applied, before) = (&history[..clock], &self.seen);
            if !applied.starts_with(before) {
                return Err("an output does not follow from those before it");
            }
            if self.switch.packets.remove(&clock) != applied.last().copied() {
                return Err("an output is of another packet than its number's");
            }
            self.seen = applied.to_vec();
            self.switch.out = clock;
        }
        Ok(())
    }
}

/// Walks through all states: how many there are, or the first violation.
fn walk(rules: Rules) -> Result<usize, &'static str> {
    let mut known = HashSet::from([State::first()]);
    let mut left: Vec<State> = known.iter().cloned().collect();
    while let Some(state) = left.pop() {
        let progress = state.progress(rules);
        let waits = state.switch.answers.is_some() || state.switch.out < state.switch.sent;
        if waits && progress.is_empty() {
            return Err("nothing goes on, and packets wait");
        }
        for next in progress
            .into_iter()
            .chain(state.trouble().into_iter().map(Ok))
        {
            let next = next?;
            if known.insert(next.clone()) {
                left.push(next);
            }
        }
    }
    Ok(known.len())
}

#[test]
fn a_restart_and_a_death_lose_nothing_that_was_let_out() {
    let states = walk(ALL);
    println!("{states:?} states");
    assert!(states.is_ok_and(|states| states > 5_000), "{states:?}");
}

#[test]
fn each_rule_is_needed() {
    let without = [
        Rules {
            behind_holds: false,
            ..ALL
        },
        Rules {
            behind_is_told: false,
            ..ALL
        },
        Rules {
            best_claim_is_base: false,
            ..ALL
        },
        Rules {
            fenced: false,
            ..ALL
        },
    ];
    for rules in without {
        let found = walk(rules);
        println!("{rules:?}: {found:?}");
        assert!(found.is_err(), "{rules:?}");
    }
}
