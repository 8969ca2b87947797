//! What a router counts.

use std::net::IpAddr;

use weir_packet::MacAddr;

use crate::neighbours::NeighbourState;

macro_rules! reasons {
    ($($(#[$doc:meta])* $variant:ident = $name:literal => $meaning:literal,)+) => {
        /// Why a router dropped a packet.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(u8)]
        pub enum Reason {
            $($(#[$doc])* $variant,)+
        }

        impl Reason {
            /// All of them, in the order of their numbers.
            pub const ALL: [Reason; [$($name),+].len()] = [$(Reason::$variant),+];

            /// The name, in summaries.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Reason::$variant => $name,)+
                }
            }

            /// What it means, in a sentence for operators.
            pub const fn meaning(self) -> &'static str {
                match self {
                    $(Reason::$variant => $meaning,)+
                }
            }
        }
    };
}

reasons! {
    /// No Ethernet frame.
    NotEthernet = "not_ethernet" => "It is no Ethernet frame.",
    /// A header is cut or contradicts itself, or its checksum is wrong (RFC
    /// 1812 section 5.2.2).
    Malformed = "malformed" => "One of its headers is cut or contradicts itself, or its checksum is wrong.",
    /// The frame is for another station; the port is promiscuous.
    OtherStation = "other_station" => "Its frame is for another station; the port takes all frames.",
    /// A VLAN tag: the port of a router is one untagged link.
    Tagged = "tagged" => "It has a VLAN tag: the port of a router is one untagged link.",
    /// Neither IP nor ARP.
    NotIp = "not_ip" => "It is neither IP nor ARP, which is all that a router forwards or answers.",
    /// To a single host, but in a frame for many (RFC 1812 section 5.3.4).
    LinkBroadcast = "link_broadcast" => "It is for a single host, but in a frame for many.",
    /// To a group: none is joined, none is routed.
    Multicast = "multicast" => "It is for a group: none is joined, none is routed.",
    /// To all hosts of a network; not forwarded (RFC 2644).
    Broadcast = "broadcast" => "It is for all hosts of a network, which is not forwarded.",
    /// From or to an address that can't be on a wire (RFC 1812 section 5.3.7).
    Martian = "martian" => "Its source or destination is an address that can't be on a wire.",
    /// From or to a link-local address, which stays on its link (RFC 3927
    /// section 7, RFC 4291 section 2.5.6).
    LinkLocal = "link_local" => "Its source or destination is a link-local address, which stays on its link.",
    /// The sender chose the way (RFC 7126 section 4.3, RFC 5095).
    SourceRoute = "source_route" => "Its sender chose the way it is to go, which is not heeded.",
    /// Its time to live or hop limit is up.
    TtlExceeded = "ttl_exceeded" => "Its time to live, or hop limit, is up at the router.",
    /// No route leads there.
    NoRoute = "no_route" => "No route of the router leads to where it is to go.",
    /// It would leave on the side where it came in, past the chain.
    SameSide = "same_side" => "It would leave on the side where it came in, past the chain.",
    /// It is larger than the next link's MTU and must not be fragmented.
    TooBig = "too_big" => "It is larger than the next link's MTU and must not be fragmented.",
    /// It is for the router, which has no service.
    ToRouter = "to_router" => "It is for the router itself, which has no such service.",
    /// An ICMP redirect: routes are those of the configuration (RFC 1812 section
    /// 5.2.7.2), and no host behind the router is its sender's neighbour.
    Redirect = "redirect" => "It is an ICMP redirect, and the router's routes are those of the chain file.",
    /// The chain left it for an address of its own functions.
    ToOwned = "to_owned" => "The chain left it for an address of its own functions (a NAT's, say).",
    /// An ARP packet that is none (RFC 826).
    BadArp = "bad_arp" => "It is an ARP packet that contradicts itself.",
    /// Neighbour discovery that fails a check (RFC 4861 sections 6.1, 7.1).
    BadDiscovery = "bad_discovery" => "It is neighbour discovery that fails a check.",
    /// ARP or neighbour discovery of a port without a wire: who asks and answers
    /// there is not here.
    NoWire = "no_wire" => "It is ARP or neighbour discovery of a link that is played: nobody there is here.",
    /// No slot is free for the next hop.
    NeighboursFull = "neighbours_full" => "No place is free to ask for its next hop.",
    /// Too many packets wait for neighbours.
    HoldFull = "hold_full" => "Too many packets wait for neighbours that were asked for.",
    /// The next hop does not answer.
    Unresolved = "unresolved" => "Its next hop does not answer.",
    /// There is no frame for its fragments.
    NoFrame = "no_frame" => "There is no frame for its fragments.",
    /// weir stopped while it waited.
    Stopped = "stopped" => "The run ended while it waited for a neighbour.",
}

/// Numbers of reasons.
pub(crate) const REASONS: usize = Reason::ALL.len();

/// What a router has done. Every packet is in one number of each sum:
///
/// - in: `received = to_chain + arp + discovery + echo + Σ dropped_before`
/// - out: `from_chain + made + fragments = sent + waiting + fragmented +
///   Σ dropped_behind`
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Frames that ports gave.
    pub received: u64,
    /// Packets that went to the chain.
    pub to_chain: u64,
    /// ARP packets that were taken.
    pub arp: u64,
    /// Neighbour solicitations and advertisements that were taken.
    pub discovery: u64,
    /// Echo requests that were answered.
    pub echo: u64,
    /// Packets that came back from the chain.
    pub from_chain: u64,
    /// Packets that the router made for the wire.
    pub made: u64,
    /// Packets that were given to ports.
    pub sent: u64,
    /// Packets that were cut into fragments, and the fragments.
    pub fragmented: u64,
    /// See `fragmented`.
    pub fragments: u64,
    /// Questions for neighbours that were asked.
    pub asked: u64,
    /// Questions of neighbours that were answered.
    pub answered: u64,
    /// ICMP errors that were made.
    pub errors: u64,
    /// Of those, the ones that went through the chain, which translates them.
    pub errors_through_chain: u64,
    /// ICMP errors that were not made, for there were too many.
    pub errors_limited: u64,
    /// Neighbours that changed their hardware address.
    pub moved: u64,
    /// Claims of others to an address of the router's (RFC 5227 sections 2.1.1
    /// and 2.4, RFC 4862 section 5.4); see [`crate::Router::conflicts`].
    pub conflicts: u64,
    /// Answers, questions or errors for which there was no frame.
    pub unmade: u64,
    before: [u64; REASONS],
    behind: [u64; REASONS],
}

impl Counts {
    pub(crate) fn drop_before(&mut self, reason: Reason) {
        if let Some(count) = self.before.get_mut(reason as usize) {
            *count += 1;
        }
    }

    pub(crate) fn drop_behind(&mut self, reason: Reason) {
        if let Some(count) = self.behind.get_mut(reason as usize) {
            *count += 1;
        }
    }

    /// Adds what another router of the same ports has done: both sums hold of both
    /// together.
    pub fn add(&mut self, other: &Counts) {
        let Counts {
            received,
            to_chain,
            arp,
            discovery,
            echo,
            from_chain,
            made,
            sent,
            fragmented,
            fragments,
            asked,
            answered,
            errors,
            errors_through_chain,
            errors_limited,
            moved,
            conflicts,
            unmade,
            before,
            behind,
        } = other;
        for (sum, more) in [
            (&mut self.received, received),
            (&mut self.to_chain, to_chain),
            (&mut self.arp, arp),
            (&mut self.discovery, discovery),
            (&mut self.echo, echo),
            (&mut self.from_chain, from_chain),
            (&mut self.made, made),
            (&mut self.sent, sent),
            (&mut self.fragmented, fragmented),
            (&mut self.fragments, fragments),
            (&mut self.asked, asked),
            (&mut self.answered, answered),
            (&mut self.errors, errors),
            (&mut self.errors_through_chain, errors_through_chain),
            (&mut self.errors_limited, errors_limited),
            (&mut self.moved, moved),
            (&mut self.conflicts, conflicts),
            (&mut self.unmade, unmade),
        ] {
            *sum += more;
        }
        let drops = self.before.iter_mut().chain(&mut self.behind);
        for (sum, more) in drops.zip(before.iter().chain(behind)) {
            *sum += more;
        }
    }

    /// Packets dropped before the chain.
    pub fn dropped_before(&self, reason: Reason) -> u64 {
        self.before.get(reason as usize).copied().unwrap_or(0)
    }

    /// Packets dropped behind the chain.
    pub fn dropped_behind(&self, reason: Reason) -> u64 {
        self.behind.get(reason as usize).copied().unwrap_or(0)
    }

    /// Packets dropped at all, by reason; those that are none are left out.
    pub fn drops(&self) -> impl Iterator<Item = (&'static str, u64)> + '_ {
        Reason::ALL.into_iter().filter_map(|reason| {
            let count = self.dropped_before(reason) + self.dropped_behind(reason);
            (count > 0).then_some((reason.name(), count))
        })
    }

    /// Whether both sums hold, with so many packets that wait.
    pub fn balance(&self, waiting: u64) -> bool {
        let sum = |drops: &[u64]| drops.iter().sum::<u64>();
        let taken = self.to_chain + self.arp + self.discovery + self.echo;
        self.received == taken + sum(&self.before)
            && self.from_chain + self.made + self.fragments
                == self.sent + waiting + self.fragmented + sum(&self.behind)
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
    /// What is known of it.
    pub state: NeighbourState,
}
