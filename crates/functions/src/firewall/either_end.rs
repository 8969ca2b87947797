//! Connections whose first packet here came from the end that did not open
//! them.

use weir_nf::packet::{HeaderFlags, tcp};
use weir_nf::prelude::*;

use super::facts::{Facts, begins_in_the_middle, packet_facts, state};
use super::rule::Action;
use super::{
    ACCEPT, Count, DEFAULT_RULE, Firewall, JOINED, Midstream, PASSED, Remembered, TURNED, report,
    verdict_of,
};

/// A verdict, the name of its rule, and whether it is logged.
type Found<'a> = (Remembered, &'a str, bool);

impl Firewall {
    /// The verdict on TCP whose first packet here is its server's, in the middle
    /// of the connection: after a restart a download must go on although its
    /// client waits. Rules that accept it as the client opened it let the
    /// server's segments pass, except those with SYN: an outsider who sends a
    /// segment first can open nothing with it.
    pub(super) fn joined(
        &self,
        packet: &Packet<'_>,
        flow: &FlowInfo<'_>,
        facts: &Facts,
        found: Remembered,
    ) -> Option<Found<'_>> {
        const OPENS_OR_ENDS: u8 = tcp::flag::SYN | tcp::flag::RST;
        if facts.state != state::NEW || !begins_in_the_middle(packet, flow) {
            return None;
        }
        let opens_or_ends = packet.headers().tcp_flags & OPENS_OR_ENDS != 0;
        if !flow.to_server() && opens_or_ends {
            // The server's, as the engine takes it; but such a segment is judged as
            // its sender's own opening.
            return Some(self.by_sender(facts, found));
        }
        if opens_or_ends {
            return None;
        }
        let of = |index: u16, flags| Remembered {
            rule: index,
            verdict: JOINED,
            flags,
            ..found
        };
        if !flow.to_server() {
            // The engine knows already which end is the client.
            let rule = self.rules.get(usize::from(found.rule));
            let (name, log) = rule.map_or(("default", false), |rule| (&rule.name, rule.log));
            return (found.verdict == ACCEPT).then(|| (of(found.rule, found.flags), name, log));
        }
        if found.verdict == ACCEPT {
            return None;
        }
        let (index, action, name, log) = self.find_turned(facts);
        (action == Action::Accept).then(|| (of(index, found.flags | TURNED), name, log))
    }

    /// The verdict on a connection as if the other end had opened it.
    fn by_sender(&self, facts: &Facts, found: Remembered) -> Found<'_> {
        let (rule, action, name, log) = self.find_turned(facts);
        let remembered = Remembered {
            rule,
            verdict: verdict_of(action),
            flags: found.flags | TURNED,
            ..found
        };
        (remembered, name, log)
    }

    /// The rule for a connection in the other direction, and whether it logs.
    fn find_turned(&self, facts: &Facts) -> (u16, Action, &str, bool) {
        let turned = Facts {
            side: facts.side.opposite(),
            ip: facts.ip.map(|(a, b)| (b, a)),
            ports: facts.ports.map(|(a, b)| (b, a)),
            macs: facts.macs.map(|(a, b)| (b, a)),
            ..*facts
        };
        match self.find(&turned) {
            Some((index, rule)) => (index, rule.action, rule.name.as_str(), rule.log),
            None => {
                let default = self.settings.default;
                let log = self.settings.log_default && default != Action::Accept;
                (DEFAULT_RULE, default, "default", log)
            }
        }
    }

    /// A packet of a connection that was joined in its middle.
    #[cold]
    pub(super) fn pass_joined(
        &self,
        packet: &Packet<'_>,
        flow: &mut Flow<'_, Self>,
        cx: &mut Context<'_>,
    ) -> Verdict {
        let headers = packet.headers();
        let flags = headers.tcp_flags;
        if !headers.is_tcp() || headers.is_later_fragment() {
            return Verdict::Pass;
        }
        if flow.state.is_clients(&flow.info) {
            // A reset is what a host without the connection answers.
            if flags & tcp::flag::RST == 0 {
                flow.state.verdict = ACCEPT;
            }
            return Verdict::Pass;
        }
        if flags & tcp::flag::SYN == 0 || self.opens(packet, flow, cx) {
            return Verdict::Pass;
        }
        self.refuse(packet, verdict_of(self.settings.default), cx)
    }

    /// True if a packet against the direction of a refused connection opens an accepted one:
    /// nothing of the other end has come through. Both ends may send first (UDP through two
    /// firewalls; TCP that is older than this firewall).
    #[cold]
    pub(super) fn opens(
        &self,
        packet: &Packet<'_>,
        flow: &mut Flow<'_, Self>,
        cx: &mut Context<'_>,
    ) -> bool {
        let headers = packet.headers();
        if !self.is_current(&flow.state)
            || flow.state.flags & PASSED != 0
            || flow.state.is_clients(&flow.info)
            || headers.flags.contains(HeaderFlags::ICMP_ERROR)
            || headers.is_later_fragment()
        {
            return false;
        }
        let mut facts = packet_facts(packet);
        let strict = self.settings.midstream == Midstream::Drop;
        if headers.is_tcp() && strict && headers.tcp_flags & 0x17 != 2 {
            facts.state = state::INVALID;
        }
        let current = self.current();
        let (index, action, name, log) = match self.find(&facts) {
            Some((index, rule)) => (index, rule.action, rule.name.as_str(), rule.log),
            None if facts.state == state::INVALID => return false,
            None => (DEFAULT_RULE, self.settings.default, "default", false),
        };
        if action != Action::Accept {
            return false;
        }
        cx.count(Count::Lookups, 1);
        cx.tally(name.as_bytes(), 1);
        if log {
            report(&flow.info, cx, ACCEPT, name);
        }
        flow.state.rule = index;
        flow.state.verdict = ACCEPT;
        flow.state.generation = self.stamp(ACCEPT, current);
        flow.state.flags ^= TURNED;
        true
    }
}
