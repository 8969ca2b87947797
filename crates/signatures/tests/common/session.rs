//! Flows and streams for tests: only what the captures of the tests need. The network function has the real
//! ones.

use std::collections::BTreeMap;
use std::net::IpAddr;

use weir_signatures::*;

use super::capture::{self, Captured};
use super::dissected::{Dissected, Next};

#[derive(Default)]
struct Direction {
    /// Sequence number of the next byte, when the connection is followed.
    next: Option<u32>,
    bytes: Vec<u8>,
    state: StreamState,
    seen: bool,
}

#[derive(Default)]
struct Flow {
    client: Option<(IpAddr, u16)>,
    sides: [Direction; 2],
    bits: FlowVars,
    syns: [bool; 2],
    established: bool,
    spoke: Option<usize>,
    /// The last packet's, by direction.
    context: [Option<FlowContext>; 2],
    app: Dissected,
}

/// Protocol and the two ends, the smaller first.
type Key = (u8, (IpAddr, u16), (IpAddr, u16));

/// Inspection of one capture.
pub struct Run<'a> {
    set: &'a RuleSet,
    midstream: bool,
    /// Segments are cut to this many bytes.
    cut: usize,
    flows: BTreeMap<Key, Flow>,
    scratch: Scratch,
    /// Alerts per rule.
    pub alerts: BTreeMap<u32, usize>,
}

const FIN: u8 = 1;
const SYN: u8 = 2;
const RST: u8 = 4;
const ACK: u8 = 16;

impl<'a> Run<'a> {
    pub fn new(set: &'a RuleSet, midstream: bool, cut: usize) -> Self {
        Run {
            set,
            midstream,
            cut,
            flows: BTreeMap::new(),
            scratch: Scratch::new(set.len()),
            alerts: BTreeMap::new(),
        }
    }

    pub fn packet(&mut self, packet: &Captured) {
        let transport = &packet.transport;
        let word = |at: usize| {
            transport
                .get(at..at + 4)
                .map_or(0, |four| u32::from_be_bytes(four.try_into().unwrap()))
        };
        let has_ports = matches!(packet.protocol, view::TCP | view::UDP);
        let (source_port, destination_port) = match word(0) {
            ports if has_ports => ((ports >> 16) as u16, ports as u16),
            _ => (0, 0),
        };
        let (from, to) = (
            (packet.source, source_port),
            (packet.destination, destination_port),
        );
        let key = (packet.protocol, from.min(to), from.max(to));
        let flow = self.flows.entry(key).or_default();
        let flags = if packet.protocol == view::TCP {
            transport.get(13).copied().unwrap_or(0)
        } else {
            0
        };
        // An answer to a connection request comes from the server, though it may be the first packet.
        let client = if flags & (SYN | ACK) == SYN | ACK && packet.protocol == view::TCP {
            to
        } else {
            from
        };
        let to_server = *flow.client.get_or_insert(client) == from;
        let side = usize::from(!to_server);
        let mut payload = capture::payload(packet).unwrap_or_default();
        let mut in_stream = false;
        let was_established = match packet.protocol {
            view::TCP => flow.established,
            _ => {
                flow.sides[side].seen = true;
                flow.sides.iter().all(|side| side.seen)
            }
        };
        let mut sequence = word(4);
        if packet.protocol == view::TCP {
            if flags & SYN != 0 {
                flow.syns[side] = true;
                flow.sides[side]
                    .next
                    .get_or_insert(sequence.wrapping_add(1));
                sequence = sequence.wrapping_add(1);
            } else if self.midstream || flow.syns == [true, true] && flags & ACK != 0 {
                flow.established = true;
            }
            if self.midstream {
                flow.sides[side].next.get_or_insert(sequence);
            }
            in_stream = flow.sides[side].next.is_some() && flags & RST == 0 && !payload.is_empty();
        }
        let context = FlowContext {
            source: packet.source,
            destination: packet.destination,
            source_port,
            destination_port,
            protocol: packet.protocol,
            to_server,
            established: was_established || self.midstream && flow.established,
            application: Application::Undecided,
        };
        let first_in_direction =
            !std::mem::replace(&mut flow.sides[side].seen, true) || packet.protocol != view::TCP;
        let icmp = matches!(packet.protocol, view::ICMP | view::ICMPV6);
        if icmp {
            payload = transport.get(8..).unwrap_or_default();
        }
        let is_echo = icmp && matches!(transport.first(), Some(0 | 8 | 128 | 129));
        let view = PacketView {
            flow: context,
            payload,
            in_stream,
            first_in_direction,
            first_decided: false,
            events: DecodeEvents::NONE,
            stream_bytes: None,
            stream_events: StreamEvents::NONE,
            reassembled: false,
            ttl: packet.ttl,
            ip_id: packet.ip_id,
            ip_options: &packet.ip_options,
            network_header: &packet.network,
            transport_header: transport
                .get(..transport.len() - payload.len())
                .unwrap_or(transport),
            tcp: (packet.protocol == view::TCP).then(|| TcpFields {
                flags,
                sequence: word(4),
                acknowledgement: word(8),
                window: (word(12) & 0xffff) as u16,
            }),
            icmp: icmp.then(|| IcmpFields {
                kind: transport.first().copied().unwrap_or(0),
                code: transport.get(1).copied().unwrap_or(0),
                id: is_echo.then_some((word(4) >> 16) as u16),
                sequence: is_echo.then_some(word(4) as u16),
            }),
        };
        let alerts = &mut self.alerts;
        let mut count = |alert: &Alert<'_>| *alerts.entry(alert.rule.sid).or_default() += 1;
        let scratch = &mut self.scratch;
        if !in_stream || flow.sides[side].next != Some(sequence) {
            self.set
                .inspect_packet(&view, &mut flow.bits, scratch, &mut count);
            return;
        }
        if flow.spoke == Some(1 - side) {
            // The other side's message is complete.
            let mut other = context;
            std::mem::swap(&mut other.source, &mut other.destination);
            std::mem::swap(&mut other.source_port, &mut other.destination_port);
            other.to_server = !to_server;
            let Direction { bytes, state, .. } = &mut flow.sides[1 - side];
            let end = StreamBytes {
                window: bytes,
                new_from: bytes.len(),
                offset: 0,
                last: true,
            };
            self.set
                .inspect_stream(&other, state, &end, &mut flow.bits, scratch, &mut count);
        }
        flow.spoke = Some(side);
        flow.context[side] = Some(context);
        let Direction {
            bytes, state, next, ..
        } = &mut flow.sides[side];
        *next = Some(sequence.wrapping_add(payload.len() as u32));
        let pieces = payload.chunks(self.cut).count();
        for (number, piece) in payload.chunks(self.cut).enumerate() {
            let new_from = bytes.len();
            bytes.extend_from_slice(piece);
            let last = flags & FIN != 0 && number + 1 == pieces;
            let new = StreamBytes {
                window: bytes,
                new_from,
                offset: 0,
                last,
            };
            if number == 0 {
                self.set
                    .inspect_segment(&view, state, &new, &mut flow.bits, scratch, &mut count);
            } else {
                self.set
                    .inspect_stream(&context, state, &new, &mut flow.bits, scratch, &mut count);
            }
            if self.set.needs_messages() {
                let next = Next {
                    context: FlowContext {
                        established: flow.established,
                        ..context
                    },
                    bytes: Some(piece),
                };
                let app = &mut flow.app;
                app.give(self.set, &next, &mut flow.bits, scratch, &mut count);
            }
        }
    }

    /// The capture is over, and with it all messages.
    pub fn finish(&mut self) {
        for flow in self.flows.values_mut() {
            for side in 0..2 {
                let Some(context) = flow.context[side].filter(|_| flow.spoke == Some(side)) else {
                    continue;
                };
                let Direction { bytes, state, .. } = &mut flow.sides[side];
                let end = StreamBytes {
                    window: bytes,
                    new_from: bytes.len(),
                    offset: 0,
                    last: true,
                };
                let alerts = &mut self.alerts;
                let mut count = |alert: &Alert<'_>| *alerts.entry(alert.rule.sid).or_default() += 1;
                let (bits, scratch) = (&mut flow.bits, &mut self.scratch);
                self.set
                    .inspect_stream(&context, state, &end, bits, scratch, &mut count);
                if self.set.needs_messages() {
                    let next = Next {
                        context,
                        bytes: None,
                    };
                    flow.app.give(self.set, &next, bits, scratch, &mut count);
                }
            }
        }
    }
}
