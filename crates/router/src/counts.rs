//! The counters of a router.

use std::net::IpAddr;

use weir_packet::MacAddr;
use weir_telemetry::{Counters as _, Counts, counters, labels};

use crate::neighbours::NeighbourState;

labels! {
    /// Why a router dropped a packet.
    #[repr(u8)]
    pub enum Reason: Counter<Packets> {
        /// It is no Ethernet frame.
        NotEthernet = "not_ethernet",
        // RFC 1812 section 5.2.2.
        /// One of its headers is cut or contradicts itself, or its checksum is wrong.
        Malformed = "malformed",
        /// Its frame is for another station; the port takes all frames.
        OtherStation = "other_station",
        /// It has a VLAN tag: the port of a router is one untagged link.
        Tagged = "tagged",
        /// It is neither IP nor ARP, which is all that a router forwards or answers.
        NotIp = "not_ip",
        // RFC 1812 section 5.3.4.
        /// It is for a single host, but in a frame for many.
        LinkBroadcast = "link_broadcast",
        /// It is for a group: none is joined, none is routed.
        Multicast = "multicast",
        // RFC 2644.
        /// It is for all hosts of a network, which is not forwarded.
        Broadcast = "broadcast",
        // RFC 1812 section 5.3.7.
        /// Its source or destination is an address that can't be on a wire.
        Martian = "martian",
        // RFC 3927 section 7, RFC 4291 section 2.5.6.
        /// Its source or destination is a link-local address, which stays on its link.
        LinkLocal = "link_local",
        // RFC 7126 section 4.3, RFC 5095.
        /// Its sender chose the way it is to go, which is not heeded.
        SourceRoute = "source_route",
        /// Its time to live, or hop limit, is up at the router.
        TtlExceeded = "ttl_exceeded",
        /// No route of the router leads to where it is to go.
        NoRoute = "no_route",
        /// It would leave on the side where it came in, past the chain.
        SameSide = "same_side",
        /// It is larger than the next link's MTU and must not be fragmented.
        TooBig = "too_big",
        /// It is for the router itself, which has no such service.
        ToRouter = "to_router",
        // RFC 1812 section 5.2.7.2.
        /// It is an ICMP redirect, and the router's routes are those of the chain file.
        Redirect = "redirect",
        /// The chain left it for an address of its own functions (a NAT's, say).
        ToOwned = "to_owned",
        // RFC 826.
        /// It is an ARP packet that contradicts itself.
        BadArp = "bad_arp",
        // RFC 4861 sections 6.1, 7.1.
        /// It is neighbour discovery that fails a check.
        BadDiscovery = "bad_discovery",
        /// It is ARP or neighbour discovery of a link that is played: nobody there is here.
        NoWire = "no_wire",
        /// No place is free to ask for its next hop.
        NeighboursFull = "neighbours_full",
        /// Too many packets wait for neighbours that were asked for.
        HoldFull = "hold_full",
        /// Its next hop does not answer.
        Unresolved = "unresolved",
        /// There is no frame for its fragments.
        NoFrame = "no_frame",
        /// The run ended while it waited for a neighbour.
        Stopped = "stopped",
    }
}

counters! {
    /// Counters of a router. Every packet is in one number of each sum:
    ///
    /// - in: `received = to_chain + arp + discovery + echo + Σ dropped_before`
    /// - out: `from_chain + made + fragments = sent + waiting + fragmented +
    ///   Σ dropped_behind`
    #[derive(Clone, Debug, Default, PartialEq, Eq)]
    pub struct RouterCounts {
        /// Frames that ports gave.
        pub received: Counter<Packets>,
        /// Packets that went to the chain.
        pub to_chain: Counter<Packets>,
        /// ARP packets that were taken.
        pub arp: Counter<Packets>,
        /// Neighbour solicitations and advertisements that were taken.
        pub discovery: Counter<Packets>,
        /// Echo requests that were answered.
        pub echo: Counter<Packets>,
        /// Packets that came back from the chain.
        pub from_chain: Counter<Packets>,
        /// Packets that the router made for the wire.
        pub made: Counter<Packets>,
        /// Packets that were cut into fragments.
        pub fragmented: Counter<Packets>,
        /// Fragments that they were cut into.
        pub fragments: Counter<Packets>,
        /// Packets that were given to ports.
        pub sent: Counter<Packets>,
        /// Packets that wait for a neighbour now.
        pub waiting: Gauge<Packets>,
        /// Questions for neighbours that were asked.
        pub asked: Counter<Times>,
        /// Questions of neighbours that were answered.
        pub answered: Counter<Times>,
        /// ICMP errors that were made.
        pub errors: Counter<Times>,
        /// Those of them that went through the chain, which translates them.
        pub errors_through_chain: Counter<Times>,
        /// ICMP errors that were not made, for there were too many.
        pub errors_limited: Counter<Times>,
        /// Neighbours that changed their hardware address.
        pub moved: Counter<Times>,
        // RFC 5227 sections 2.1.1 and 2.4, RFC 4862 section 5.4.
        /// Claims of others to an address of the router's.
        pub conflicts: Counter<Times>,
        /// Answers, questions or errors for which there was no frame.
        pub unmade: Counter<Times>,
    } and {
        before: Counts<Reason>,
        behind: Counts<Reason>,
    }
}

impl RouterCounts {
    pub(crate) fn drop_before(&mut self, reason: Reason) {
        self.before.add(reason);
    }

    pub(crate) fn drop_behind(&mut self, reason: Reason) {
        self.behind.add(reason);
    }

    /// Adds what another router of the same ports has done: both sums hold of both
    /// together.
    pub fn add(&mut self, other: &RouterCounts) {
        self.add_counters(other);
        self.before.merge(&other.before);
        self.behind.merge(&other.behind);
    }

    /// Packets dropped before the chain.
    pub fn before(&self) -> &Counts<Reason> {
        &self.before
    }

    /// Packets dropped behind the chain.
    pub fn behind(&self) -> &Counts<Reason> {
        &self.behind
    }

    /// Packets dropped at all, by reason.
    pub fn drops(&self) -> Counts<Reason> {
        let mut all = self.before.clone();
        all.merge(&self.behind);
        all
    }

    /// True if both sums hold.
    pub fn balance(&self) -> bool {
        let taken = self.to_chain + self.arp + self.discovery + self.echo;
        self.received == taken + self.before.sum()
            && self.from_chain + self.made + self.fragments
                == self.sent + self.waiting + self.fragmented + self.behind.sum()
    }
}

/// A neighbour, as it is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Neighbour {
    /// Number of the port.
    pub port: usize,
    /// Its address.
    pub address: IpAddr,
    /// Its hardware address; none where it is not known.
    pub mac: Option<MacAddr>,
    /// State of the neighbour.
    pub state: NeighbourState,
}
