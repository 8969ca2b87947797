//! The rules that may match, out of many.
//!
//! A tree cuts the space of addresses, ports and protocols in two again and again (after HiCuts,
//! Gupta and McKeown 1999), until few rules are left in a part. A search goes down to its part and
//! tries the rules there in their order. The tree only leaves out rules that can't match: which
//! rule matches is [`Compiled::matches`] alone.

use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::net::IpAddr;

use super::facts::Facts;
use super::table::{AXES, Compiled, Taken};

/// Rules in a part that are tried one by one.
const FEW: usize = 8;
/// Most cuts on the way to a part.
const DEEPEST: u32 = 40;
/// Rules in all parts together, for each rule: one that many parts have is in each of them.
const COPIES: usize = 16;
/// Most places that are looked at for a cut.
const PLACES: usize = 1_024;

/// A part of the space: the first and the last value on each axis.
type Part = [(u128, u128); AXES];

/// All values of each axis.
const WHOLE: Part = [
    (0, u128::MAX),
    (0, u128::MAX),
    (0, u16::MAX as u128),
    (0, u16::MAX as u128),
    (0, u8::MAX as u128),
];

#[derive(Clone, Copy, Debug)]
enum Node {
    /// Values of the axis below `at` are in node `below`, others in the one after it.
    Cut { axis: u8, at: u128, below: u32 },
    /// The rules `first..last` of the list.
    Rules { first: u32, last: u32 },
}

/// The tree.
#[derive(Debug)]
pub(super) struct Index {
    nodes: Vec<Node>,
    /// Numbers of rules, part by part, in ascending order in each.
    rules: Vec<u16>,
    /// Rules that take packets which are not IP.
    of_link: Vec<u16>,
}

struct Builder<'a> {
    taken: &'a [Taken],
    index: Index,
    /// Parts that may be cut.
    open: BinaryHeap<Open>,
    /// Rules in all parts so far, and how many there may be.
    copies: usize,
    most: usize,
}

/// A part that may be cut: the one with the most rules is first.
struct Open {
    rules: Vec<u16>,
    node: usize,
    part: Part,
    depth: u32,
}

impl Ord for Open {
    fn cmp(&self, other: &Open) -> Ordering {
        (self.rules.len(), self.node).cmp(&(other.rules.len(), other.node))
    }
}

impl PartialOrd for Open {
    fn partial_cmp(&self, other: &Open) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Open {
    fn eq(&self, other: &Open) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Open {}

impl Index {
    /// Of these rules.
    pub(super) fn new(rules: &[Compiled]) -> Index {
        let taken: Vec<Taken> = rules.iter().map(Compiled::taken).collect();
        let numbers = |of: fn(&Compiled) -> bool| -> Vec<u16> {
            let all = rules.iter().enumerate();
            all.filter(|(_, rule)| of(rule))
                .map(|(number, _)| number as u16)
                .collect()
        };
        let mut builder = Builder {
            taken: &taken,
            index: Index {
                nodes: Vec::new(),
                rules: Vec::new(),
                of_link: numbers(Compiled::may_take_non_ip),
            },
            open: BinaryHeap::new(),
            copies: rules.len(),
            most: COPIES * rules.len(),
        };
        builder.add(WHOLE, numbers(|_| true), 0);
        while let Some(open) = builder.open.pop() {
            builder.divide(open);
        }
        builder.index
    }

    /// The first rule that matches, with its number.
    pub(super) fn find<'r>(
        &self,
        rules: &'r [Compiled],
        facts: &Facts,
    ) -> Option<(u16, &'r Compiled)> {
        let few = match facts.ip {
            Some(ends) => self.part(ends, facts),
            None => &self.of_link,
        };
        few.iter().find_map(|&number| {
            let rule = rules.get(usize::from(number))?;
            rule.matches(facts).then_some((number, rule))
        })
    }

    /// The rules of the part that a packet is in.
    fn part(&self, (source, destination): (IpAddr, IpAddr), facts: &Facts) -> &[u16] {
        // A rule that asks for a port takes no packet without one: any part will do.
        let (from, to) = facts.ports.unwrap_or_default();
        let at = [
            number(source),
            number(destination),
            from.into(),
            to.into(),
            facts.proto.into(),
        ];
        let mut node = 0;
        loop {
            match self.nodes.get(node) {
                Some(&Node::Cut {
                    axis,
                    at: cut,
                    below,
                }) => {
                    let is_below = at.get(usize::from(axis)).is_some_and(|value| *value < cut);
                    node = below as usize + usize::from(!is_below);
                }
                Some(&Node::Rules { first, last }) => {
                    let rules = self.rules.get(first as usize..last as usize);
                    return rules.unwrap_or(&[]);
                }
                None => return &[],
            }
        }
    }
}

fn number(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(a) => a.to_ipv6_mapped().into(),
        IpAddr::V6(a) => a.into(),
    }
}

impl Builder<'_> {
    /// Adds the node of a part.
    fn add(&mut self, part: Part, rules: Vec<u16>, depth: u32) {
        let node = self.index.nodes.len();
        self.index.nodes.push(Node::Rules { first: 0, last: 0 });
        self.open.push(Open {
            rules,
            node,
            part,
            depth,
        });
    }

    /// Cuts a part in two, or leaves it as it is.
    fn divide(&mut self, open: Open) {
        let Open {
            rules,
            node,
            part,
            depth,
        } = open;
        let cut = match rules.len() > FEW && depth < DEEPEST {
            true => self.cut(&part, &rules),
            false => None,
        };
        let Some((axis, at)) = cut else {
            let first = self.index.rules.len() as u32;
            self.index.rules.extend(&rules);
            let last = self.index.rules.len() as u32;
            self.index.nodes[node] = Node::Rules { first, last };
            return;
        };
        let (mut below, mut above) = (part, part);
        (below[axis].1, above[axis].0) = (at - 1, at);
        let of = |part: &Part| -> Vec<u16> {
            let meets = |rule: &u16| self.meets(*rule, axis, part[axis]);
            rules.iter().copied().filter(meets).collect()
        };
        let (under, over) = (of(&below), of(&above));
        // A rule that takes no value of the axis is in neither.
        self.copies = self.copies - rules.len() + under.len() + over.len();
        self.index.nodes[node] = Node::Cut {
            axis: axis as u8,
            at,
            below: self.index.nodes.len() as u32,
        };
        self.add(below, under, depth + 1);
        self.add(above, over, depth + 1);
    }

    /// Whether a rule takes values of a range.
    fn meets(&self, rule: u16, axis: usize, (first, last): (u128, u128)) -> bool {
        let taken = &self.taken[usize::from(rule)][axis];
        taken.iter().any(|&(a, b)| a <= last && first <= b)
    }

    /// The axis and place of the cut that leaves the fewest rules in the larger half; `None` where
    /// no cut leaves a tenth out of it, or there are too many copies.
    fn cut(&self, part: &Part, rules: &[u16]) -> Option<(usize, u128)> {
        // Each may be in both halves.
        if self.copies + rules.len() > self.most {
            return None;
        }
        let mut best: Option<(usize, (usize, u128))> = None;
        for (axis, &(first, last)) in part.iter().enumerate() {
            let Some(at) = self.middle(axis, (first, last), rules) else {
                continue;
            };
            let count = |range| {
                rules
                    .iter()
                    .filter(|rule| self.meets(**rule, axis, range))
                    .count()
            };
            let larger = count((first, at - 1)).max(count((at, last)));
            if best.is_none_or(|(least, _)| larger < least) {
                best = Some((larger, (axis, at)));
            }
        }
        best.filter(|(larger, _)| 10 * larger <= 9 * rules.len())
            .map(|(_, cut)| cut)
    }

    /// The middle one of the places where a rule begins or ends within the part.
    fn middle(&self, axis: usize, (first, last): (u128, u128), rules: &[u16]) -> Option<u128> {
        let step = rules.len().div_ceil(PLACES);
        let some = rules.iter().step_by(step);
        let ends = some.flat_map(|rule| &self.taken[usize::from(*rule)][axis]);
        let places = ends.flat_map(|&(a, b)| [Some(a), b.checked_add(1)]);
        let mut places: Vec<u128> = (places.flatten())
            .filter(|place| first < *place && *place <= last)
            .collect();
        places.sort_unstable();
        places.get(places.len() / 2).copied()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use std::sync::Arc;
    use weir_nf::NamedSet;
    use weir_nf::packet::{AddressSet, Side};

    use super::super::facts::state;
    use super::super::rule::Rule;
    use super::*;

    /// A set with some of the addresses of [`facts`].
    fn some() -> NamedSet {
        let set = AddressSet::new(10, 1);
        for entry in ["10.1.0.0/16", "10.2.3.1", "2001:db8:1::/48"] {
            let mut change = set.change().unwrap();
            assert_eq!(change.insert(&entry.parse().unwrap()), Ok(true));
        }
        NamedSet {
            name: "some".into(),
            set: Arc::new(set),
        }
    }

    fn compiled(rules: &[String]) -> Vec<Compiled> {
        let compile = |(number, text): (usize, &String)| {
            let rule =
                Rule::parse(text).unwrap_or_else(|fault| panic!("{text}: {}", fault.message));
            let made = Compiled::with_sets(number, &rule, &|_| Ok(some()));
            made.unwrap_or_else(|error| panic!("{text}: {}", error.message))
        };
        rules.iter().enumerate().map(compile).collect()
    }

    /// The first rule that matches, tried one after another.
    fn linear(rules: &[Compiled], facts: &Facts) -> Option<u16> {
        let found = rules.iter().position(|rule| rule.matches(facts));
        found.map(|number| number as u16)
    }

    fn addresses() -> impl Strategy<Value = String> {
        let v4 = (0..4u8, 0..4u8, 8..=32u8).prop_map(|(a, b, length)| {
            let net = std::net::Ipv4Addr::new(10, a, b, 0);
            let mask = u32::MAX.checked_shl(32 - u32::from(length)).unwrap_or(0);
            format!(
                "{}/{length}",
                std::net::Ipv4Addr::from(u32::from(net) & mask)
            )
        });
        let v6 = (0..4u16).prop_map(|a| format!("2001:db8:{a:x}::/48"));
        let some = prop_oneof![
            v4.clone(),
            v4.clone(),
            v6,
            v4.clone().prop_map(|net| format!("not {net}")),
            v4.prop_map(|net| format!("@some,{net}")),
            Just("@some".to_owned()),
            Just("not @some".to_owned()),
        ];
        prop_oneof![Just("any".to_owned()), some]
    }

    fn ports() -> impl Strategy<Value = String> {
        prop_oneof![
            Just(String::new()),
            (0..8u16).prop_map(|port| format!(" port {port}")),
            (0..8u16, 0..8u16).prop_map(|(a, b)| format!(" port {}-{}", a.min(b), a.max(b))),
            (0..8u16).prop_map(|port| format!(" port not {port}")),
            Just(" port not 0-65535".to_owned()),
        ]
    }

    fn rule() -> impl Strategy<Value = String> {
        let protocol = prop_oneof![Just("tcp"), Just("udp"), Just("tcp,udp")];
        let ip = (protocol, addresses(), ports(), addresses(), ports()).prop_map(
            |(protocol, a, from, b, to)| format!("accept {protocol} from {a}{from} to {b}{to}"),
        );
        prop_oneof![
            8 => ip,
            1 => Just("drop icmp".to_owned()),
            1 => Just("drop ethertype 0x0806".to_owned()),
            1 => Just("drop vlan 7".to_owned()),
        ]
    }

    fn facts() -> impl Strategy<Value = Facts> {
        let v4 = (0..4u8, 0..4u8, 0..2u8).prop_map(|(a, b, c)| IpAddr::from([10, a, b, c]));
        let v6 = (0..4u16).prop_map(|a| IpAddr::from([0x2001, 0xdb8, a, 0, 0, 0, 0, 1]));
        let ends = prop_oneof![
            4 => (v4.clone(), v4).prop_map(Some),
            1 => (v6.clone(), v6).prop_map(Some),
            1 => Just(None),
        ];
        let proto = prop_oneof![Just(6u8), Just(17), Just(1), Just(58)];
        let ports = prop_oneof![4 => (0..8u16, 0..8u16).prop_map(Some), 1 => Just(None)];
        (ends, proto, ports, prop_oneof![Just(0u16), Just(7)]).prop_map(
            |(ip, proto, ports, vlan)| Facts {
                state: state::NEW,
                side: Side::Inside,
                ip,
                proto,
                ports,
                icmp_type: None,
                tcp_flags: None,
                vlan,
                ethertype: if ip.is_some() { 0x0800 } else { 0x0806 },
                macs: None,
            },
        )
    }

    proptest! {
        /// Whatever the rules, the search finds what trying them one after another finds.
        #[test]
        fn a_search_finds_the_first_rule_that_matches(
            rules in prop::collection::vec(rule(), 0..120),
            packets in prop::collection::vec(facts(), 1..60),
        ) {
            let rules = compiled(&rules);
            let index = Index::new(&rules);
            for facts in &packets {
                let found = index.find(&rules, facts).map(|(number, _)| number);
                prop_assert_eq!(found, linear(&rules, facts), "{:?}", facts);
            }
        }
    }

    fn sizes(index: &Index) -> (usize, usize) {
        let parts = index.nodes.iter().filter_map(|node| match node {
            Node::Rules { first, last } => Some((last - first) as usize),
            Node::Cut { .. } => None,
        });
        (parts.max().unwrap_or(0), index.rules.len())
    }

    /// Ten thousand rules cost a search no more than some dozens; rules that are all alike take no
    /// more memory than there is for copies.
    #[test]
    fn parts_are_small_and_copies_bounded() {
        let networks: Vec<String> = (0..10_000u32)
            .map(|n| {
                format!(
                    "drop tcp from 10.{}.{}.0/24 to any port {}",
                    n / 250,
                    n % 250,
                    n % 60_000 + 1
                )
            })
            .collect();
        let (largest, all) = sizes(&Index::new(&compiled(&networks)));
        assert!(
            largest <= FEW && all < 2 * networks.len(),
            "{largest}, {all}"
        );

        // Each second one is for all addresses.
        let wide: Vec<String> = (0..4_000u32)
            .map(|n| match n % 2 {
                0 => format!("drop tcp from any to any port {}", n + 1),
                _ => format!("drop tcp from 10.{}.{}.7 to any", n / 250, n % 250),
            })
            .collect();
        let (largest, all) = sizes(&Index::new(&compiled(&wide)));
        assert!(
            largest < 1_000 && all <= COPIES * wide.len(),
            "{largest}, {all}"
        );

        let alike = vec!["accept tcp to any port 80".to_owned(); 1_000];
        assert_eq!(sizes(&Index::new(&compiled(&alike))), (1_000, 1_000));
    }
}
