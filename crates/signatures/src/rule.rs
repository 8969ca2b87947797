//! The typed tree of a rule.

use std::sync::Arc;

use crate::app_protocol::AppProtocol;
use crate::application::AppTest;
use crate::bit_kind::FlowbitKind;
use crate::buffers::{Buffer, Origin, Phase};
use crate::compare::Compare;
use crate::condition::{Condition, Section};
use crate::content::Content;
use crate::data::{AddressTest, DataTest, Reputations};
use crate::events::{AppEvent, DecodeEvent, StreamEvent};
use crate::flow_vars::FlowInt;
use crate::numbers::{AppNumber, NumberTest};
use crate::ranges::{AddressSet, PortSet};
use crate::shared_bits::SharedBit;
use crate::threshold::Threshold;

/// Actions of rules, in the order in which Suricata evaluates them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Action {
    /// Nothing more is to be reported about what the rule matches.
    Pass,
    /// Drop the packet, and report.
    Drop,
    /// Refuse the connection, and report (`reject`, `rejectsrc`, `rejectdst`, `rejectboth`).
    Reject,
    /// Report.
    Alert,
}

/// The protocol of a rule's header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protocol {
    /// TCP; contents are looked for in the stream, or in packets where the rule asks for it.
    Tcp,
    /// TCP, packets only (`tcp-pkt`).
    TcpPacket,
    /// TCP, reassembled stream only (`tcp-stream`).
    TcpStream,
    /// UDP.
    Udp,
    /// ICMP of either IP version (`icmp`).
    Icmp,
    /// ICMP for IPv4 (`icmpv4`).
    Icmpv4,
    /// ICMP for IPv6 (`icmpv6`).
    Icmpv6,
    /// Any protocol over IPv4 or IPv6 (`ip`, `pkthdr` is not supported).
    Ip,
    /// Any protocol over IPv4 (`ip4`, `ipv4`).
    Ipv4,
    /// Any protocol over IPv6 (`ip6`, `ipv6`).
    Ipv6,
    /// SCTP.
    Sctp,
}

/// Target of the attack, as the `target` keyword names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Target {
    /// The packet's source (`src_ip`).
    Source,
    /// The packet's destination (`dest_ip`).
    Destination,
}

/// Direction within a flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// From the side that opened the flow.
    ToServer,
    /// Towards the side that opened the flow.
    ToClient,
}

/// Conditions of the `flow` keyword. The default has none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FlowCondition {
    /// `established` (true) or `not_established` (false).
    pub established: Option<bool>,
    /// `to_server`/`from_client` or `to_client`/`from_server`.
    pub direction: Option<Direction>,
    /// `stateless`: accepted, asks for nothing.
    pub stateless: bool,
    /// `no_stream`: packets only.
    pub no_stream: bool,
    /// `only_stream`: the reassembled stream only.
    pub only_stream: bool,
    /// `only_frag` (true): only datagrams put together from fragments; `no_frag` (false): none of these.
    pub fragment: Option<bool>,
}

/// One `flowbits` keyword (other than `noalert`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FlowbitOperation {
    /// Operation on the bits.
    pub kind: FlowbitKind,
    /// The names; more than one only for [`FlowbitKind::IsSet`] and [`FlowbitKind::IsNotSet`], of which
    /// one is enough.
    pub names: Vec<String>,
}

/// How the flags of a header are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FlagsMode {
    /// Exactly these flags are set.
    Exact,
    /// These flags are set, others may be (`+`).
    All,
    /// One of these flags is set (`*`).
    Any,
    /// Not all of these flags are set (`!`).
    Not,
}

/// Whose bytes `stream_size` counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StreamSide {
    /// Those of the client.
    Client,
    /// Those of the server.
    Server,
    /// Those of both must fit.
    Both,
    /// Those of one of them must fit.
    Either,
}

/// A condition on the flags of a header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FlagsTest {
    /// How they are compared.
    pub mode: FlagsMode,
    /// The flags asked for.
    pub flags: u8,
    /// Flags that are ignored.
    pub ignored: u8,
}

impl FlagsTest {
    /// True if a header with these flags meets it.
    pub fn holds(self, present: u8) -> bool {
        let (present, flags) = (present & !self.ignored, self.flags);
        match self.mode {
            FlagsMode::Exact => present == flags,
            FlagsMode::All => present & flags == flags,
            FlagsMode::Any => present & flags != 0,
            FlagsMode::Not => present & flags != flags,
        }
    }
}

/// An IPv4 option that `ipopts` can ask for (numbers of the IANA registry).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IpOption {
    /// The option of this type number is present.
    Type(u8),
    /// Any option is present.
    Any,
}

/// A condition on header fields or on the size of the payload: something only a packet has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PacketTest {
    /// `decode-event`.
    Event(DecodeEvent),
    /// `stream-event`.
    StreamEvent(StreamEvent),
    /// `tcp.mss`: the maximum segment size of a SYN's option.
    TcpMss(Compare),
    /// `icmpv6.mtu`: of Packet Too Big (RFC 4443 section 3.2).
    Icmpv6Mtu(Compare),
    /// `stream_size`: bytes of a TCP connection, its SYN among them, this packet included.
    StreamSize(StreamSide, Compare),
    /// `dsize`: bytes of payload.
    PayloadSize(Compare),
    /// `flags`, `tcp.flags`: the low eight flags of the TCP header (RFC 9293 §3.1).
    TcpFlags(FlagsTest),
    /// `itype`: ICMP type.
    IcmpType(Compare),
    /// `icode`: ICMP code.
    IcmpCode(Compare),
    /// `icmp_id`: identifier of an ICMP echo and its like.
    IcmpId(u16),
    /// `icmp_seq`: sequence number of an ICMP echo and its like.
    IcmpSequence(u16),
    /// `ipopts`: an IPv4 option.
    IpOption(IpOption),
    /// `sameip`: source and destination are one address.
    SameAddresses,
    /// `fragbits`: the flags of the IPv4 header, more fragments lowest (RFC 791 section 3.1).
    FragmentBits(FlagsTest),
    /// `fragoffset`: fragment offset of the IPv4 header, in units of 8 bytes.
    FragmentOffset(Compare),
    /// `tos`: the second byte of the IPv4 header.
    TypeOfService(Compare),
    /// `ttl`: time to live or hop limit.
    Ttl(Compare),
    /// `ip_proto`: number of the protocol over IP.
    IpProtocol(Compare),
    /// `id`: identification field of IPv4.
    IpId(u16),
    /// `seq`: TCP sequence number.
    TcpSequence(u32),
    /// `ack`: TCP acknowledgement number.
    TcpAcknowledgement(u32),
    /// `window`: TCP window, not scaled.
    TcpWindow {
        /// The window asked for.
        value: u16,
        /// Any other window is asked for.
        negated: bool,
    },
}

/// One rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    /// Action of the rule.
    pub action: Action,
    /// Protocol of the header; of an application's protocol the one below it, `Ip` where there are several.
    pub protocol: Protocol,
    /// Application protocols, of the header and of `app-layer-protocol`: each condition must hold.
    pub applications: Vec<AppTest>,
    /// Addresses on the left of the arrow.
    pub source: AddressSet,
    /// Ports on the left of the arrow.
    pub source_ports: PortSet,
    /// Addresses on the right of the arrow.
    pub destination: AddressSet,
    /// Ports on the right of the arrow.
    pub destination_ports: PortSet,
    /// The arrow is `<>`: source and destination may be exchanged.
    pub bidirectional: bool,
    /// `msg`; empty when the rule has none.
    pub message: String,
    /// `sid`, at least 1.
    pub sid: u32,
    /// `gid`; default 1.
    pub gid: u32,
    /// `rev`; default 0.
    pub rev: u32,
    /// `classtype`.
    pub classtype: Option<String>,
    /// `priority`, 1 (most urgent) to 255.
    pub priority: Option<u8>,
    /// `reference`s: system and id, as written.
    pub references: Vec<(String, String)>,
    /// `metadata`, one entry per part between commas, as written.
    pub metadata: Vec<String>,
    /// `target`.
    pub target: Option<Target>,
    /// How many of its matches are reported (`threshold`, `detection_filter`); all without it.
    pub threshold: Option<Threshold>,
    /// `flow`.
    pub flow: FlowCondition,
    /// `flowbits`, in the order of the rule.
    pub flowbits: Vec<FlowbitOperation>,
    /// `flowint`, in the order of the rule.
    pub flowints: Vec<FlowInt>,
    /// The `xbits` and `hostbits` keywords, in order. Whoever writes alerts applies them, since only there the alerts of
    /// all flows meet.
    pub shared_bits: Vec<SharedBit>,
    /// `noalert` or `flowbits:noalert`: a match has its effects but is not reported.
    pub noalert: bool,
    /// `alert`: a rule that passes tells of it as well.
    pub alert: bool,
    /// Conditions on numbers of one message, all of which must hold.
    pub numbers: Vec<NumberTest>,
    /// `app-layer-event`: events of one message, which must have all.
    pub events: Vec<AppEvent>,
    /// Contents in the order of the rule.
    pub contents: Vec<Content>,
    /// Conditions by buffer, in the order of the rule, if it has any beside contents of the payload with
    /// written places: those of the payload are then here as well as in `contents`. Empty otherwise.
    pub sections: Vec<Section>,
    /// Conditions on packets.
    pub tests: Vec<PacketTest>,
    /// Conditions on addresses beyond those of the header.
    pub addresses: Vec<AddressTest>,
    /// Line on which the rule starts, counted from 1.
    pub line: usize,
    /// The rule as written, continued lines joined.
    pub text: String,
}

/// The part of a message in which a number is known.
fn phase_of(number: AppNumber) -> Phase {
    match number {
        AppNumber::FileSize => Phase::Body,
        _ => Phase::Head,
    }
}

impl Rule {
    /// True if whether a match is told depends on what other flows have set.
    pub fn tests_shared(&self) -> bool {
        self.shared_bits.iter().any(|bit| !bit.kind.writes())
    }

    /// True if a match is told; one that is not may still change shared bits.
    pub fn is_told(&self) -> bool {
        match self.action {
            Action::Pass => self.alert,
            _ => !self.noalert,
        }
    }

    /// The conditions that need the values of files, which are to be [loaded](DataTest::load) before rules are
    /// compiled.
    pub fn data_tests(&mut self) -> impl Iterator<Item = &mut DataTest> {
        let addresses = self.addresses.iter_mut().filter_map(|test| match test {
            AddressTest::Data(_, test) => Some(test),
            AddressTest::Reputation(..) => None,
        });
        let mut found: Vec<&mut DataTest> = addresses.collect();
        for section in &mut self.sections {
            collect_data(&mut section.conditions, &mut found);
        }
        found.into_iter()
    }

    /// Gives the conditions of `iprep` the scores that they look into.
    ///
    /// # Errors
    ///
    /// There is no category of that name.
    pub fn load_reputations(&mut self, scores: &Arc<Reputations>) -> Result<(), String> {
        self.addresses.iter_mut().try_for_each(|test| match test {
            AddressTest::Data(..) => Ok(()),
            AddressTest::Reputation(_, test) => test.load(scores),
        })
    }

    /// Of each condition of `iprep` a number that other scores do not have; `None` where it has no scores.
    pub(crate) fn reputation_fingerprints(&self) -> Vec<Option<u64>> {
        let addresses = self.addresses.iter().filter_map(|test| match test {
            AddressTest::Data(..) => None,
            AddressTest::Reputation(_, test) => Some(test.fingerprint()),
        });
        addresses.collect()
    }

    /// True if the rule has a condition that only a packet can meet, so that it is not tried on streams.
    pub fn needs_packet(&self) -> bool {
        !self.tests.is_empty()
            || self.flow.no_stream
            || self.flow.fragment.is_some()
            || self.sections.iter().any(is_of_packet)
            || self.protocol == Protocol::TcpPacket
    }

    /// True if the rule looks at application messages, into their buffers or for events: it is tried on them
    /// only.
    pub fn is_of_messages(&self) -> bool {
        self.message_phase().is_some()
    }

    /// The protocol of the numbers or events that the rule asks for.
    pub(crate) fn head_protocol(&self) -> Option<AppProtocol> {
        let spoken = self.applications.iter().find(|test| !test.negated);
        let spoken = spoken.and_then(|test| test.protocol);
        let number = self
            .numbers
            .first()
            .map(|test| match test.number.is_of_files() {
                true => spoken.unwrap_or(test.number.protocol()),
                false => test.number.protocol(),
            });
        number.or_else(|| self.events.first().map(|event| event.protocol()))
    }

    /// The phase of the latest application buffer or number that the rule names; events are in the head.
    pub(crate) fn message_phase(&self) -> Option<Phase> {
        let infos = self.sections.iter().filter_map(|section| section.buffer);
        infos
            .map(Buffer::info)
            .filter(|info| info.origin != Origin::Packet)
            .map(|info| info.phase)
            .chain(self.head_protocol().map(|_| Phase::Head))
            .chain(self.numbers.iter().map(|test| phase_of(test.number)))
            .max()
    }

    /// The directions (to the server, to the client) that the flow condition and all buffers allow.
    pub(crate) fn directions(&self) -> [bool; 2] {
        let mut allowed = match self.flow.direction {
            None => [true, true],
            Some(Direction::ToServer) => [true, false],
            Some(Direction::ToClient) => [false, true],
        };
        for info in self
            .sections
            .iter()
            .filter_map(|section| Some(section.buffer?.info()))
        {
            allowed = [allowed[0] && info.to_server, allowed[1] && info.to_client];
        }
        allowed
    }

    /// True if the rule looks at nothing but addresses and protocol: it is then tried once per flow and
    /// direction, as Suricata does with its IP-only rules.
    pub fn is_address_only(&self) -> bool {
        self.applications.is_empty()
            && self.contents.is_empty()
            && self.sections.is_empty()
            && self.tests.is_empty()
            && self.flow == FlowCondition::default()
            && self.source_ports.is_full()
            && self.destination_ports.is_full()
            && self
                .flowbits
                .iter()
                .all(|operation| operation.kind == FlowbitKind::Set)
    }

    /// True if the rule asks what the flow speaks, by `app-layer-protocol`, and for nothing of a packet.
    pub(crate) fn is_application_only(&self) -> bool {
        self.contents.is_empty()
            && self.sections.is_empty()
            && self.tests.is_empty()
            && !self.applications.is_empty()
            && self.applications.iter().all(|test| !test.of_header)
            && self.flow
                == FlowCondition {
                    direction: self.flow.direction,
                    ..FlowCondition::default()
                }
            && self
                .flowbits
                .iter()
                .all(|operation| operation.kind == FlowbitKind::Set)
    }
}

fn collect_data<'a>(conditions: &'a mut [Condition], found: &mut Vec<&'a mut DataTest>) {
    for condition in conditions {
        match condition {
            Condition::Data(test) => found.push(test),
            Condition::Base64(base64) => collect_data(&mut base64.decoded, found),
            _ => {}
        }
    }
}

/// True if only packets have the section's buffer.
fn is_of_packet(section: &Section) -> bool {
    section
        .buffer
        .is_some_and(|buffer| buffer.info().origin == Origin::Packet)
}

/// True if a condition is more than a content with written places.
pub(crate) fn is_beyond_contents(condition: &Condition) -> bool {
    !matches!(condition, Condition::Content(content) if content.variables.is_empty())
}
