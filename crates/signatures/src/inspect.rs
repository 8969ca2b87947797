//! Inspection of packets and streams.

use crate::bit_kind::FlowbitKind;
use crate::buffers::Buffer;
use crate::condition::MAX_VARIABLES;
use crate::evaluate::{Area, Verdict};
use crate::flow_vars::FlowVars;
use crate::matcher::{CHUNK, Haystack, Outcome};
use crate::packet_tests::holds;
use crate::rule::{Action, Direction, Protocol, Rule};
use crate::ruleset::{Compiled, Group, RuleSet};
use crate::scratch::{Candidates, ON_PACKET, ON_STREAM, Scratch};
use crate::state::{Pending, StreamState};
use crate::view::{
    Application, FlowContext, ICMP, ICMPV6, PacketView, SCTP, StreamBytes, TCP, UDP,
};

/// The place of a rule's match.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MatchedIn {
    /// In the packet.
    Packet,
    /// In a message of an application protocol.
    Message,
    /// In the stream, up to this offset from its start.
    Stream(u64),
}

/// A rule that matched and is to be reported. A rule that is not told ([`Rule::is_told`]) is here only for its shared
/// bits.
#[derive(Debug, Clone, Copy)]
pub struct Alert<'a> {
    /// The rule. Its action says what is to be done with the packet.
    pub rule: &'a Rule,
    /// Description of its class type; its name where it has no description, empty without a class type.
    pub category: &'a str,
    /// The rule's priority, or that of its class type, or 3.
    pub priority: u8,
    /// The place of the match.
    pub matched_in: MatchedIn,
}

/// Result of an inspection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Inspection {
    /// How many alerts there were.
    pub alerts: u32,
    /// A `pass` rule matched: rules after it were not tried.
    pub passed: bool,
    /// It passes the rest of the flow as well: it matched in the stream or in a message, or asks for nothing
    /// that only a packet has.
    pub passed_flow: bool,
    /// A rule that matched writes flowbits or flowints; the flow's variables may have changed.
    pub wrote_vars: bool,
    /// Flowbits and flowints that the flow had no room for.
    pub vars_lost: u64,
}

/// Input of an inspection.
struct Subject<'a> {
    flow: &'a FlowContext,
    packet: Option<&'a PacketView<'a>>,
    stream: Option<&'a StreamBytes<'a>>,
    /// Only rules that ask what the flow speaks are tried: the others were before.
    again: bool,
}

impl<'a> Subject<'a> {
    fn of_packet(packet: &'a PacketView<'a>, again: bool) -> Self {
        Subject {
            flow: &packet.flow,
            packet: Some(packet),
            stream: None,
            again,
        }
    }

    fn of_stream(flow: &'a FlowContext, bytes: &'a StreamBytes<'a>, again: bool) -> Self {
        Subject {
            flow,
            packet: None,
            stream: Some(bytes),
            again,
        }
    }
}

/// A rule that is tried.
struct Attempt<'a> {
    rule: &'a Compiled,
    number: u32,
    /// [`ON_STREAM`], [`ON_PACKET`].
    sources: u8,
    /// Where its fast pattern was found last.
    hit: u64,
    /// Stream offset of the first new byte.
    new_from: u64,
    /// A rule that has matched in the stream is tried on the packet as well.
    also_packet: bool,
}

impl Attempt<'_> {
    /// True if the rule has matched.
    #[inline]
    fn run(
        &self,
        subject: &Subject<'_>,
        state: &mut StreamState,
        bits: &mut FlowVars,
        scratch: &mut Scratch,
        report: &mut impl FnMut(MatchedIn, &mut FlowVars),
    ) -> bool {
        let rule = self.rule;
        let of_all = rule.rule.applications.is_empty();
        if subject.again && of_all
            || !rule.speaks(subject.flow.application)
            || !rule.header_matches(subject.flow)
            || !rule.tests_hold(subject.packet)
        {
            return false;
        }
        let mut matched = false;
        if self.sources & ON_STREAM != 0
            && let Some(bytes) = subject.stream
        {
            let search = StreamSearch {
                rule,
                number: self.number,
                hit: self.hit,
                new_from: self.new_from,
                bytes,
            };
            matched = search.run(state, bits, scratch, report);
        }
        if self.sources & ON_PACKET != 0
            && (!matched || self.also_packet)
            && let Some(packet) = subject.packet
            && rule.matches_packet(packet, subject.stream, bits, scratch)
        {
            report(MatchedIn::Packet, bits);
            matched = true;
        }
        matched
    }
}

impl RuleSet {
    /// Tries the rules on a packet.
    ///
    /// A TCP segment that also adds to the stream is better given to
    /// [`inspect_segment`](RuleSet::inspect_segment), which keeps the order of rules across both.
    pub fn inspect_packet(
        &self,
        packet: &PacketView<'_>,
        bits: &mut FlowVars,
        scratch: &mut Scratch,
        on_alert: &mut impl FnMut(&Alert<'_>),
    ) -> Inspection {
        let subject = Subject::of_packet(packet, false);
        self.inspect(
            &subject,
            &mut StreamState::default(),
            bits,
            scratch,
            on_alert,
        )
    }

    /// Tries the rules on new bytes of a stream.
    pub fn inspect_stream(
        &self,
        flow: &FlowContext,
        state: &mut StreamState,
        bytes: &StreamBytes<'_>,
        bits: &mut FlowVars,
        scratch: &mut Scratch,
        on_alert: &mut impl FnMut(&Alert<'_>),
    ) -> Inspection {
        let subject = Subject::of_stream(flow, bytes, false);
        self.inspect(&subject, state, bits, scratch, on_alert)
    }

    /// Tries the rules on a TCP segment and on the bytes that it adds to the stream, rule by rule: a rule
    /// that matches in the stream is not tried on the packet as well (see
    /// [`CompileOptions::report_packet_and_stream`](crate::CompileOptions::report_packet_and_stream)).
    pub fn inspect_segment(
        &self,
        packet: &PacketView<'_>,
        state: &mut StreamState,
        bytes: &StreamBytes<'_>,
        bits: &mut FlowVars,
        scratch: &mut Scratch,
        on_alert: &mut impl FnMut(&Alert<'_>),
    ) -> Inspection {
        let subject = Subject {
            flow: &packet.flow,
            packet: Some(packet),
            stream: Some(bytes),
            again: false,
        };
        self.inspect(&subject, state, bits, scratch, on_alert)
    }

    /// Tries those rules that ask what the flow speaks on the packet that has decided it, which the other
    /// rules have seen.
    pub fn inspect_packet_again(
        &self,
        packet: &PacketView<'_>,
        bits: &mut FlowVars,
        scratch: &mut Scratch,
        on_alert: &mut impl FnMut(&Alert<'_>),
    ) -> Inspection {
        let subject = Subject::of_packet(packet, true);
        let mut state = StreamState::default();
        self.inspect(&subject, &mut state, bits, scratch, on_alert)
    }

    /// Tries those rules that ask what the flow speaks on all bytes of a window, when it is known at last;
    /// the other rules have seen them.
    pub fn inspect_stream_again(
        &self,
        flow: &FlowContext,
        state: &mut StreamState,
        bytes: &StreamBytes<'_>,
        bits: &mut FlowVars,
        scratch: &mut Scratch,
        on_alert: &mut impl FnMut(&Alert<'_>),
    ) -> Inspection {
        let bytes = &StreamBytes {
            new_from: 0,
            last: false,
            ..*bytes
        };
        let subject = Subject::of_stream(flow, bytes, true);
        let automaton = std::mem::take(&mut state.automaton);
        let inspection = self.inspect(&subject, state, bits, scratch, on_alert);
        // That of all bytes of the stream, of which the window may have the last ones only.
        state.automaton = automaton;
        inspection
    }

    fn inspect(
        &self,
        subject: &Subject<'_>,
        state: &mut StreamState,
        bits: &mut FlowVars,
        scratch: &mut Scratch,
        on_alert: &mut impl FnMut(&Alert<'_>),
    ) -> Inspection {
        bits.adopt(self.generation());
        let new_from = self.collect_candidates(subject, state, scratch);
        let mut inspection = Inspection::default();
        let mut place = 0;
        while let Some((number, sources, hit)) = scratch.candidates.get(place) {
            place += 1;
            let Some(rule) = self.rules.get(number as usize) else {
                continue;
            };
            let start = scratch.clock.start();
            let attempt = Attempt {
                rule,
                number,
                sources,
                hit,
                new_from,
                also_packet: self.report_packet_and_stream,
            };
            let mut report = |matched_in: MatchedIn, bits: &mut FlowVars| {
                rule.report(matched_in, bits, &mut inspection, on_alert);
            };
            let matched = attempt.run(subject, state, bits, scratch, &mut report);
            scratch.clock.stop(start, &rule.rule, matched);
            if inspection.passed {
                break;
            }
        }
        if let Some(bytes) = subject.stream
            && bytes.last
        {
            state.message_start = state.scanned;
            state.pending = Default::default();
        }
        scratch.counters.flow_vars_lost += inspection.vars_lost;
        inspection
    }

    /// Collects the rules to be tried; gives the stream offset of the first new byte.
    fn collect_candidates(
        &self,
        subject: &Subject<'_>,
        state: &mut StreamState,
        scratch: &mut Scratch,
    ) -> u64 {
        scratch.candidates.begin(self.rules.len());
        let mut new_from = 0;
        if let Some(bytes) = subject.stream {
            let index = bytes.new_from.min(bytes.window.len());
            new_from = bytes.offset.saturating_add(index as u64);
            self.scan_stream(subject.flow, state, bytes, index, scratch);
        }
        if let Some(packet) = subject.packet {
            self.scan_packet(packet, scratch);
        }
        scratch.candidates.sort();
        new_from
    }

    /// Collects the rules to be tried on a stream.
    fn scan_stream(
        &self,
        flow: &FlowContext,
        state: &mut StreamState,
        bytes: &StreamBytes<'_>,
        new_index: usize,
        scratch: &mut Scratch,
    ) {
        state.adopt(
            self.generation(),
            bytes.offset.saturating_add(new_index as u64),
        );
        let candidates = &mut scratch.candidates;
        if let Some(prefilter) = self.prefilter(Group::Stream, flow.to_server) {
            state.automaton = prefilter.scan(
                state.automaton,
                bytes.window,
                new_index,
                bytes.offset,
                &mut |rule, end, seen| {
                    // The part that was found lies in the window, so that the difference is an index.
                    if self.fast_fits(
                        rule,
                        bytes.window,
                        end.saturating_sub(bytes.offset) as usize,
                        seen,
                    ) {
                        candidates.add(rule, ON_STREAM, end);
                    }
                },
            );
        }
        state.scanned = bytes.offset.saturating_add(bytes.window.len() as u64);
        state.forget_old();
        for place in 0..state.pending.len() {
            let Some(&pending) = state.pending.get(place) else {
                continue;
            };
            let Some(number) = pending.rule.checked_sub(1) else {
                continue;
            };
            let hit = state.offset_of(pending.hit);
            let rule = self.rules.get(number as usize);
            if hit <= bytes.offset || rule.is_none() {
                // The fast pattern is not in the window any more.
                scratch.counters.waiting_expired += 1;
                if let Some(slot) = state.pending.get_mut(place) {
                    *slot = Pending::default();
                }
                continue;
            }
            let goes_on = |rule: &Compiled| {
                !rule.sections.is_empty()
                    || rule
                        .matcher
                        .may_go_on(pending.open, bytes.window, new_index)
            };
            if bytes.last || rule.is_some_and(goes_on) {
                candidates.add(number, ON_STREAM, hit);
            }
        }
        self.add_unfiltered(flow, state, bytes, new_index, candidates);
    }

    /// Collects the rules that have nothing to look for first.
    fn add_unfiltered(
        &self,
        flow: &FlowContext,
        state: &StreamState,
        bytes: &StreamBytes<'_>,
        new_index: usize,
        candidates: &mut Candidates,
    ) {
        if new_index < bytes.window.len() {
            let rules = self.with_every_byte.get(usize::from(!flow.to_server));
            for &rule in rules.into_iter().flatten() {
                candidates.add(rule, ON_STREAM, state.scanned);
            }
        }
        if bytes.last && state.scanned > state.message_start {
            let rules = self.at_message_end.get(usize::from(!flow.to_server));
            for &rule in rules.into_iter().flatten() {
                candidates.add(rule, ON_STREAM, state.scanned);
            }
        }
    }

    /// True if a rule's fast pattern, of which a part was found to end at `end`, may be there as a whole.
    fn fast_fits(&self, rule: u32, data: &[u8], end: usize, seen: u32) -> bool {
        let rule = self.rules.get(rule as usize);
        rule.is_some_and(|rule| rule.matcher.fast_fits(data, end, seen))
    }

    /// Collects the rules to be tried on a packet.
    fn scan_packet(&self, packet: &PacketView<'_>, scratch: &mut Scratch) {
        let candidates = &mut scratch.candidates;
        let flow = &packet.flow;
        self.unfiltered
            .each(flow, |rule| candidates.add(rule, ON_PACKET, 0));
        if packet.payload.is_empty() {
            return;
        }
        let groups: &[Group] = match (flow.protocol, packet.in_stream) {
            (TCP, true) => &[Group::TcpPacket],
            (TCP, false) => &[Group::Stream, Group::TcpPacket],
            _ => &[Group::Datagram],
        };
        for &group in groups {
            if let Some(prefilter) = self.prefilter(group, flow.to_server) {
                prefilter.scan_payload(packet.payload, &mut |rule, end, seen| {
                    if self.fast_fits(rule, packet.payload, end as usize, seen) {
                        candidates.add(rule, ON_PACKET, 0);
                    }
                });
            }
        }
    }
}

/// The search for one rule in a stream.
struct StreamSearch<'a> {
    rule: &'a Compiled,
    number: u32,
    hit: u64,
    new_from: u64,
    bytes: &'a StreamBytes<'a>,
}

impl StreamSearch<'_> {
    /// Reports each match; true when there was one. After a match, the rule is tried again on what lies
    /// [`CHUNK`] bytes behind it, or behind it in the next message, so that the number of alerts depends on
    /// the bytes of the stream and not on how they are cut into segments.
    fn run(
        &self,
        state: &mut StreamState,
        bits: &mut FlowVars,
        scratch: &mut Scratch,
        report: &mut impl FnMut(MatchedIn, &mut FlowVars),
    ) -> bool {
        let key = self.number + 1;
        let waiting = state.pending.iter().position(|pending| pending.rule == key);
        let waiting = waiting.and_then(|place| state.pending.get_mut(place));
        // Waiting rules are taken out; those that still wait are put back.
        let waited = waiting.map(std::mem::take);
        let fresh = match waited {
            Some(pending) => state.offset_of(pending.fresh),
            None => self.new_from,
        };
        let mut from = match state.alerted_end(self.number) {
            None => 0,
            Some(end) if end <= state.message_start => end,
            // Without contents there is no place behind which to look again.
            Some(_) if !self.rule.matcher.has_positive() => return false,
            Some(end) => end.saturating_add(CHUNK),
        };
        let mut matched = false;
        loop {
            if !self.rule.bits_hold(bits) {
                if let Some(pending) = waited.filter(|_| !matched) {
                    // The bits may change while the contents are still in the window.
                    state.wait(pending);
                }
                break;
            }
            let hay = Haystack {
                data: self.bytes.window,
                base: self.bytes.offset,
                from,
                fresh,
                hit: self.hit,
                message_start: state.message_start,
                more: !self.bytes.last,
                stream: true,
            };
            match self.rule.search(&hay, None, scratch) {
                Outcome::Found(end) => {
                    matched = true;
                    let forgot = state.remember_alert(self.number, end);
                    scratch.counters.alerts_forgotten += u64::from(forgot);
                    report(MatchedIn::Stream(end), bits);
                    from = end.saturating_add(CHUNK);
                    if from >= state.scanned || !self.rule.matcher.has_positive() {
                        break;
                    }
                }
                Outcome::Open(open) => {
                    self.wait(open, fresh, state, scratch);
                    break;
                }
                Outcome::Never => break,
            }
        }
        matched
    }

    /// The rule waits for more bytes.
    fn wait(&self, open: u32, fresh: u64, state: &mut StreamState, scratch: &mut Scratch) {
        let dropped = state.wait(Pending {
            rule: self.number + 1,
            open,
            // The low halves are all that is kept; see `StreamState::offset_of`.
            hit: self.hit as u32,
            fresh: fresh as u32,
        });
        scratch.counters.waiting_dropped += u64::from(dropped);
    }
}

impl Compiled {
    /// Protocol, direction, connection state, addresses and ports.
    #[inline]
    pub(crate) fn header_matches(&self, flow: &FlowContext) -> bool {
        // Files are looked into last.
        self.ends_match(flow) && self.rule.addresses.iter().all(|test| test.holds(flow))
    }

    #[inline]
    fn ends_match(&self, flow: &FlowContext) -> bool {
        let rule = &self.rule;
        let direction = match rule.flow.direction {
            None => true,
            Some(Direction::ToServer) => flow.to_server,
            Some(Direction::ToClient) => !flow.to_server,
        };
        if !direction
            || rule
                .flow
                .established
                .is_some_and(|wanted| wanted != flow.established)
            || !self.protocol_matches(flow)
        {
            return false;
        }
        if self.any_endpoint {
            return true;
        }
        let asks_for_ports = !rule.source_ports.is_full() || !rule.destination_ports.is_full();
        if asks_for_ports && !matches!(flow.protocol, TCP | UDP | SCTP) {
            return false;
        }
        let ends = |source: bool| {
            let (left, right) = if source {
                (
                    (flow.source, flow.source_port),
                    (flow.destination, flow.destination_port),
                )
            } else {
                (
                    (flow.destination, flow.destination_port),
                    (flow.source, flow.source_port),
                )
            };
            rule.source_ports.contains(left.1)
                && rule.destination_ports.contains(right.1)
                && rule.source.contains(left.0)
                && rule.destination.contains(right.0)
        };
        ends(true) || rule.bidirectional && ends(false)
    }

    #[inline]
    fn protocol_matches(&self, flow: &FlowContext) -> bool {
        use crate::rule::Protocol;
        match self.rule.protocol {
            Protocol::Ipv4 => flow.source.is_ipv4(),
            Protocol::Ipv6 => flow.source.is_ipv6(),
            protocol => protocol.covers(Some(flow.protocol)),
        }
    }

    /// True if the flow is known to speak what the rule asks for.
    #[inline]
    pub(crate) fn speaks(&self, application: Application) -> bool {
        let tests = &self.rule.applications;
        tests.is_empty() || tests.iter().all(|test| test.holds(application))
    }

    /// True if all conditions on the packet hold; without a packet, whether there are none.
    #[inline]
    fn tests_hold(&self, packet: Option<&PacketView<'_>>) -> bool {
        let Some(packet) = packet else {
            return !self.needs_packet;
        };
        if self
            .rule
            .flow
            .fragment
            .is_some_and(|wanted| wanted != packet.reassembled)
        {
            return false;
        }
        self.rule.tests.iter().all(|test| holds(test, packet))
    }

    #[inline]
    pub(crate) fn bits_hold(&self, bits: &FlowVars) -> bool {
        self.bit_tests
            .iter()
            .all(|test| test.bits.iter().any(|&bit| bits.is_set(bit) == test.set))
            && self.integer_tests.iter().all(|test| test.holds(bits))
    }

    /// True if the rule asks for nothing that one packet of a flow has and another one may not have.
    fn is_of_flows(&self) -> bool {
        let rule = &self.rule;
        rule.contents.is_empty()
            && self.sections.is_empty()
            && rule.tests.is_empty()
            && rule.flow.fragment.is_none()
            && rule.protocol != Protocol::TcpPacket
    }

    /// True if the rule looks at headers of packets and not at payloads.
    fn looks_at_headers_only(&self) -> bool {
        let mut sections = self.sections.iter();
        !self.sections.is_empty() && sections.all(|section| section.buffer().is_some())
    }

    /// Looks for all that the rule asks of a payload or stream.
    fn search(
        &self,
        hay: &Haystack<'_>,
        packet: Option<&PacketView<'_>>,
        scratch: &mut Scratch,
    ) -> Outcome {
        if self.sections.is_empty() {
            return self.matcher.search(hay, &mut scratch.ends);
        }
        let mut variables = [0; MAX_VARIABLES];
        let mut end = 0;
        let area = Area {
            data: hay.data,
            base: hay.base,
            from: hay.from.max(hay.base),
            more: hay.more,
        };
        for section in &self.sections {
            let area = match section.buffer() {
                None => area,
                Some(buffer) => match packet.and_then(|packet| header(packet, buffer)) {
                    Some(data) => Area {
                        data,
                        base: 0,
                        from: 0,
                        more: false,
                    },
                    None => return Outcome::Never,
                },
            };
            match section.evaluate(area, &mut variables, &mut scratch.workspace) {
                Verdict::Holds(index) => end = end.max(index),
                Verdict::Fails => return Outcome::Never,
                Verdict::Undecided => return Outcome::Open(u32::MAX),
            }
        }
        let end = if self.matcher.has_positive() {
            hay.base.saturating_add(end as u64).max(hay.from)
        } else {
            hay.base.saturating_add(hay.data.len() as u64)
        };
        Outcome::Found(end)
    }

    /// A match takes its effects.
    pub(crate) fn report(
        &self,
        matched_in: MatchedIn,
        bits: &mut FlowVars,
        inspection: &mut Inspection,
        on_alert: &mut impl FnMut(&Alert<'_>),
    ) {
        if !self.bit_writes.is_empty() || !self.integer_writes.is_empty() {
            inspection.wrote_vars = true;
            inspection.vars_lost += self.write_vars(bits);
        }
        let passes = self.rule.action == Action::Pass;
        inspection.passed |= passes;
        inspection.passed_flow |= passes && (matched_in != MatchedIn::Packet || self.is_of_flows());
        if self.rule.is_told() || !self.rule.shared_bits.is_empty() {
            inspection.alerts += 1;
            on_alert(&Alert {
                rule: &self.rule,
                category: &self.category,
                priority: self.priority,
                matched_in,
            });
        }
    }

    /// Gives how many found no room.
    fn write_vars(&self, vars: &mut FlowVars) -> u64 {
        let mut lost = 0;
        for &(kind, bit) in &self.bit_writes {
            let kept = match kind {
                FlowbitKind::Set => vars.set(bit, true),
                FlowbitKind::Unset => vars.set(bit, false),
                FlowbitKind::Toggle => vars.set(bit, !vars.is_set(bit)),
                FlowbitKind::IsSet | FlowbitKind::IsNotSet => true,
            };
            lost += u64::from(!kept);
        }
        for operation in &self.integer_writes {
            lost += u64::from(!operation.write(vars));
        }
        lost
    }

    /// True if the rule matches on the packet, its header and conditions being met.
    fn matches_packet(
        &self,
        packet: &PacketView<'_>,
        stream: Option<&StreamBytes<'_>>,
        bits: &FlowVars,
        scratch: &mut Scratch,
    ) -> bool {
        if !self.bits_hold(bits) {
            return false;
        }
        if self.rule.contents.is_empty() && self.sections.is_empty() {
            let has_new_bytes = || stream.is_some_and(|bytes| bytes.new_from < bytes.window.len());
            return (!self.address_only || packet.first_in_direction)
                && (!self.application_only || packet.first_decided)
                && (!self.stream_only || has_new_bytes());
        }
        let looks_here = match (packet.flow.protocol, packet.in_stream) {
            (TCP, true) => self.in_packets,
            _ => !self.stream_only,
        };
        let has_bytes = !packet.payload.is_empty() || self.looks_at_headers_only();
        looks_here
            && has_bytes
            && matches!(
                self.search(&Haystack::packet(packet.payload), Some(packet), scratch),
                Outcome::Found(_)
            )
    }
}

/// The bytes of a buffer that packets have.
fn header<'a>(packet: &PacketView<'a>, buffer: Buffer) -> Option<&'a [u8]> {
    let v4 = packet.flow.source.is_ipv4();
    let protocol = packet.flow.protocol;
    let (wanted, bytes) = match buffer {
        Buffer::Ipv4Header => (v4, packet.network_header),
        Buffer::Ipv6Header => (!v4, packet.network_header),
        Buffer::TcpHeader => (protocol == TCP, packet.transport_header),
        Buffer::UdpHeader => (protocol == UDP, packet.transport_header),
        Buffer::Icmpv4Header => (protocol == ICMP, packet.transport_header),
        Buffer::Icmpv6Header => (protocol == ICMPV6, packet.transport_header),
        _ => return None,
    };
    (wanted && !bytes.is_empty()).then_some(bytes)
}
