//! Order and doubling as the hosts outside see them: by conversation, direction
//! and ends, whatever unit the switch took a packet for.

use std::collections::BTreeMap;

use super::invariant::Invariant;
use crate::traffic::Ends;

/// The packets of the plan that have left.
#[derive(Debug, Default)]
pub(super) struct Outside {
    /// A bit per packet of the plan.
    left: Vec<u64>,
    /// Number of the last packet that left, per flow as a host sees it:
    /// conversation, kind, and what the server answers to.
    last: BTreeMap<(u32, Kind, Option<Ends>), u64>,
}

/// Transport of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    Tcp,
    Udp,
    Echo,
    /// A fragment that comes before its first is held, and may be overtaken; of
    /// recorded packets nobody knows the flow.
    Unordered,
}

/// A packet of the plan that leaves, as it came in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sighting {
    /// Its number in the plan, from 1: packets of a conversation come in in
    /// this order.
    pub(crate) number: u64,
    /// Its conversation.
    pub(crate) flow: u32,
    /// The form of its packets: a conversation's packets of one kind are one flow.
    pub(crate) kind: Kind,
    /// The ends of an answer: a server that answers to other ends than before
    /// (its client's next mapping, say) speaks in another flow. `None` of what the
    /// client sent.
    pub(crate) answer: Option<Ends>,
}

impl Outside {
    /// A packet leaves; gives what is wrong with that.
    pub(super) fn leaves(&mut self, seen: Sighting) -> Option<(Invariant, String)> {
        let (word, bit) = (seen.number as usize / 64, 1 << (seen.number % 64));
        if self.left.len() <= word {
            self.left.resize(word + 1, 0);
        }
        let known = self.left.get_mut(word)?;
        let doubled = *known & bit != 0;
        *known |= bit;
        let direction = if seen.answer.is_none() { "out" } else { "back" };
        if doubled {
            let text = format!(
                "packet {} of flow {} ({direction}) leaves twice",
                seen.number, seen.flow
            );
            return Some((Invariant::ExactlyOnce, text));
        }
        if seen.kind == Kind::Unordered {
            return None;
        }
        let last = self
            .last
            .entry((seen.flow, seen.kind, seen.answer))
            .or_default();
        if *last > seen.number {
            let text = format!(
                "packet {} of flow {} ({direction}) leaves after packet {last}",
                seen.number, seen.flow
            );
            return Some((Invariant::Order, text));
        }
        *last = seen.number;
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_and_doubling_are_by_conversation_and_direction() {
        let ends = crate::traffic::ends(crate::chain::Chain::Count, 1);
        let mut next = ends;
        next.client_port += 1;
        let packet = |number, flow, to_server: bool| Sighting {
            number,
            flow,
            answer: (!to_server).then_some(ends),
            kind: Kind::Tcp,
        };
        let mut outside = Outside::default();
        for seen in [packet(3, 1, true), packet(2, 1, false), packet(1, 2, true)] {
            assert_eq!(outside.leaves(seen), None);
        }
        let (invariant, text) = outside.leaves(packet(1, 1, true)).unwrap();
        assert_eq!(invariant, Invariant::ExactlyOnce, "{text}");
        assert_eq!(outside.leaves(packet(64, 2, true)), None);
        let (invariant, text) = outside.leaves(packet(63, 2, true)).unwrap();
        assert_eq!(invariant, Invariant::Order, "{text}");
        assert_eq!(outside.leaves(packet(65, 2, false)), None);
        let (invariant, text) = outside.leaves(packet(62, 2, false)).unwrap();
        assert_eq!(invariant, Invariant::Order, "{text}");
        let elsewhere = Sighting {
            answer: Some(next),
            ..packet(61, 2, false)
        };
        assert_eq!(outside.leaves(elsewhere), None);
        for kind in [Kind::Unordered, Kind::Udp] {
            let other = Sighting {
                kind,
                ..packet(50 + kind as u64, 2, true)
            };
            assert_eq!(outside.leaves(other), None);
        }
    }
}
