//! A model of who owns a name: all orders of a few packets, entries, ends, moves
//! and one restart of the switch.
//!
//! One connection has two names, its client's and its server's, and a packet by
//! either may open a unit, which may ask for the other name as its alias. The
//! model leaves out states and copies (`ends_model.rs` has them) and keeps what
//! decides about names: where a packet is numbered, when an entry may leave, and
//! what a restarted switch makes of claims. It holds where packets by one name
//! leave in the order in which they came, no entry waits for ever, and a quiet
//! switch that starts again finds each taken key where it was.

use std::collections::{BTreeSet, HashSet};

/// Packets by both names together.
const PACKETS: u8 = 4;
const UNITS: usize = 3;
const NAMES: usize = 2;

/// What is under test.
#[derive(Clone, Copy, Debug)]
struct Rules {
    /// A name passes when the entry that asks for it is next at the gate, not
    /// when that is let out.
    passes_at_gate: bool,
    /// The entry waits for the name's old owner.
    waits: bool,
    /// An entry does not take a name of a unit that waits for it.
    yields: bool,
    /// Without `yields`: an entry does not wait for a unit that waits for it.
    goes_ahead: bool,
    /// After a restart an alias goes before a key.
    alias_first: bool,
}

const RULES: Rules = Rules {
    passes_at_gate: true,
    waits: true,
    yields: true,
    goes_ahead: false,
    alias_first: true,
};

/// A numbered packet, with what its entry will say.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Packet {
    name: usize,
    number: u8,
    asks: bool,
    ends: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Unit {
    key: usize,
    view: u8,
    /// Numbered and not let out, in order.
    packets: Vec<Packet>,
    sent: u8,
    /// It has the other name as its alias, as far as its owner knows.
    alias: bool,
    over: bool,
}

impl Unit {
    fn out(&self) -> u8 {
        self.sent - self.packets.len() as u8
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Switch {
    units: Vec<Option<Unit>>,
    /// Whose each name is, and whether it is an alias there.
    owner: [Option<(usize, bool)>; NAMES],
    /// Who waits for whom, until which number.
    waits: BTreeSet<(usize, usize, u8)>,
    views: u8,
    came: [u8; NAMES],
    left: [u8; NAMES],
    moved: bool,
}

type Found = Result<(), &'static str>;

impl Switch {
    fn unit(&mut self, at: usize) -> &mut Unit {
        self.units[at].as_mut().expect("a unit that lives")
    }

    fn live(&self) -> impl Iterator<Item = (usize, &Unit)> {
        let units = self.units.iter().enumerate();
        units.filter_map(|(at, unit)| Some((at, unit.as_ref()?)))
    }

    fn next_view(&mut self) -> u8 {
        self.views += 1;
        self.views
    }

    /// A packet comes by a name and is numbered.
    fn packet(&mut self, name: usize, asks: bool, ends: bool) {
        let at = match self.owner[name] {
            Some((at, _)) => at,
            None => {
                let view = self.next_view();
                self.units.push(Some(Unit {
                    key: name,
                    view,
                    ..Unit::default()
                }));
                self.owner[name] = Some((self.units.len() - 1, false));
                self.units.len() - 1
            }
        };
        self.came[name] += 1;
        let number = self.came[name];
        let unit = self.unit(at);
        unit.sent += 1;
        unit.over = false;
        unit.packets.push(Packet {
            name,
            number,
            asks,
            ends,
        });
    }

    fn is_done(&self, (_, of, until): (usize, usize, u8)) -> bool {
        let other = self.units[of].as_ref();
        other.is_none_or(|other| other.out() >= until)
    }

    fn depends(&self, at: usize, of: usize) -> bool {
        let own = self.waits.iter().filter(|wait| wait.0 == at);
        own.into_iter()
            .any(|wait| wait.1 == of || self.depends(wait.1, of))
    }

    /// The next entry of a unit is at the gate: true where it was let out.
    fn entry(&mut self, at: usize, rules: Rules) -> Result<bool, &'static str> {
        let waits = core::mem::take(&mut self.waits);
        let kept = waits.into_iter().filter(|wait| !self.is_done(*wait));
        self.waits = kept.collect();
        let unit = self.unit(at);
        let (packet, asked) = (unit.packets[0], 1 - unit.key);
        let other = self.owner[asked].filter(|(of, _)| packet.asks && *of != at);
        let mut takes = packet.asks;
        if let Some((of, _)) = other {
            let crosses = self.depends(of, at);
            if crosses && rules.yields {
                takes = false;
            } else if rules.waits && !(crosses && rules.goes_ahead) {
                let (sent, out) = self.units[of]
                    .as_ref()
                    .map_or((0, 0), |o| (o.sent, o.out()));
                if sent > out {
                    self.waits.insert((at, of, sent));
                    if rules.passes_at_gate {
                        self.owner[asked] = Some((at, true));
                    }
                }
            }
        }
        if self.waits.iter().any(|wait| wait.0 == at) {
            return Ok(false);
        }
        if takes && self.owner[asked].is_none_or(|(of, alias)| of != at || alias) {
            self.owner[asked] = Some((at, true));
        }
        if packet.number != self.left[packet.name] + 1 {
            return Err("packets by one name leave in another order");
        }
        self.left[packet.name] += 1;
        let unit = self.unit(at);
        unit.packets.remove(0);
        unit.alias |= takes;
        unit.over |= packet.ends;
        if unit.over && unit.packets.is_empty() {
            // The flow has ended and nothing of it is on its way: its alias goes.
            unit.alias = false;
            for owner in &mut self.owner {
                *owner = owner.filter(|(of, alias)| *of != at || !alias);
            }
        }
        Ok(true)
    }

    /// The end of a unit is granted.
    fn end(&mut self, at: usize) {
        self.units[at] = None;
        for owner in &mut self.owner {
            *owner = owner.filter(|(of, _)| *of != at);
        }
    }

    /// Another switch makes names of what owners claim. What was on its way is
    /// gone, so only a quiet switch is compared.
    fn restart(&self, rules: Rules) -> Found {
        let mut claims: Vec<(bool, u8, usize)> = self
            .live()
            .filter(|(_, unit)| !unit.over)
            .map(|(at, unit)| (!(unit.alias && rules.alias_first), u8::MAX - unit.view, at))
            .collect();
        claims.sort_unstable();
        let mut owner = [None; NAMES];
        for (_, _, at) in claims {
            let Some(unit) = self.units[at].as_ref() else {
                continue;
            };
            let alias = unit.alias.then_some(1 - unit.key);
            for name in [Some(unit.key), alias].into_iter().flatten() {
                let _ = owner[name].get_or_insert(at);
            }
        }
        for (name, before) in self.owner.iter().enumerate() {
            // A name of one that is over leads nowhere, as it may.
            let Some((at, true)) = *before else { continue };
            let both_claim = self.live().filter(|(_, unit)| unit.alias).count() > 1;
            if owner[name] != Some(at) && !both_claim {
                return Err("a restart gives a taken key back");
            }
        }
        Ok(())
    }

    /// All that may happen next.
    fn next(&self, rules: Rules) -> Result<Vec<Switch>, &'static str> {
        let mut all = Vec::new();
        let (mut goes_on, mut is_quiet) = (false, true);
        for (at, unit) in self.live() {
            if unit.packets.is_empty() {
                let mut next = self.clone();
                if unit.over {
                    next.end(at);
                } else if !self.moved {
                    next.moved = true;
                    let view = next.next_view();
                    next.unit(at).view = view;
                } else {
                    continue;
                }
                all.push(next);
                continue;
            }
            is_quiet = false;
            let mut next = self.clone();
            goes_on |= next.entry(at, rules)? || next != *self;
            all.push(next);
        }
        if !goes_on && !is_quiet {
            return Err("entries wait for ever");
        }
        if is_quiet {
            self.restart(rules)?;
        }
        if self.came.iter().sum::<u8>() < PACKETS {
            for name in 0..NAMES {
                if self.owner[name].is_none() && self.units.len() == UNITS {
                    continue;
                }
                for says in 0..3 {
                    let mut next = self.clone();
                    next.packet(name, says == 1, says == 2);
                    all.push(next);
                }
            }
        }
        Ok(all)
    }
}

/// Looks at all states: how many there are, or what is wrong in one.
fn search(rules: Rules) -> Result<usize, &'static str> {
    let mut seen = HashSet::new();
    let mut open = vec![Switch::default()];
    while let Some(state) = open.pop() {
        for next in state.next(rules)? {
            if seen.insert(next.clone()) {
                open.push(next);
            }
        }
    }
    Ok(seen.len())
}

#[test]
fn the_rule_holds_in_all_states() {
    let states = search(RULES).expect("no state is wrong");
    println!("{states} states");
    assert!(states > 10_000);
}

#[test]
fn each_part_of_the_rule_is_needed() {
    let order = Err("packets by one name leave in another order");
    let unawaited = Rules {
        waits: false,
        ..RULES
    };
    assert_eq!(search(unawaited), order);
    let crossed = Rules {
        yields: false,
        ..RULES
    };
    assert_eq!(search(crossed), Err("entries wait for ever"));
    let newest_first = Rules {
        alias_first: false,
        ..RULES
    };
    let given_back = Err("a restart gives a taken key back");
    assert_eq!(search(newest_first), given_back);
}

/// The rule before this one: the name stays while its taker waits, and of two
/// that wait for one another one goes ahead.
#[test]
fn the_rule_before_breaks_the_order() {
    let before = Rules {
        passes_at_gate: false,
        yields: false,
        goes_ahead: true,
        ..RULES
    };
    assert_eq!(
        search(before),
        Err("packets by one name leave in another order")
    );
}
