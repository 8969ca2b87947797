//! IPFIX messages (RFC 7011): flows, in both directions as one record (RFC 5103), and NAT
//! mappings (RFC 8158).

use std::io::{self, Read, Seek, SeekFrom};
use std::net::{IpAddr, Ipv4Addr};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use super::super::lines;
use super::record::{Flow, Nat, Record, milliseconds};

/// Octets of a message at most: what passes any IPv6 path in one packet (RFC 8200 §5), without
/// the headers of IPv6 and UDP.
const LONGEST: usize = 1_280 - 48;
/// How often templates are sent again over UDP (RFC 7011 §8.4).
const AGAIN: Duration = Duration::from_secs(60);
/// The set of templates.
const TEMPLATES: u16 = 2;
/// The enterprise whose elements count the reverse direction (RFC 5103 §6.1).
const REVERSE: u32 = 29_305;

/// An information element, its octets; true where it counts the reverse direction.
type Element = (u16, u16, bool);

const FLOW_V4: (u16, [Element; 15]) = (256, flow([(8, 4, false), (12, 4, false)]));
const FLOW_V6: (u16, [Element; 15]) = (257, flow([(27, 16, false), (28, 16, false)]));

/// A flow's elements, between these addresses.
const fn flow([source, destination]: [Element; 2]) -> [Element; 15] {
    [
        (152, 8, false), // flowStartMilliseconds
        (153, 8, false), // flowEndMilliseconds
        source,
        destination,
        (7, 2, false),   // sourceTransportPort
        (11, 2, false),  // destinationTransportPort
        (4, 1, false),   // protocolIdentifier
        (353, 8, false), // layer2OctetTotalCount
        (86, 8, false),  // packetTotalCount
        (6, 2, false),   // tcpControlBits
        (353, 8, true),
        (86, 8, true),
        (6, 2, true),
        (148, 8, false), // flowId
        (136, 1, false), // flowEndReason
    ]
}

/// A mapping: RFC 8158's NAT44 BIB entry.
const NAT44: (u16, [Element; 7]) = (
    258,
    [
        (323, 8, false), // observationTimeMilliseconds
        (230, 1, false), // natEvent
        (4, 1, false),   // protocolIdentifier
        (8, 4, false),   // sourceIPv4Address
        (225, 4, false), // postNATSourceIPv4Address
        (7, 2, false),   // sourceTransportPort
        (227, 2, false), // postNAPTSourceTransportPort
    ],
);

/// Octets of a record.
const fn length(elements: &[Element]) -> usize {
    let (mut octets, mut at) = (0, 0);
    while at < elements.len() {
        octets += elements[at].1 as usize;
        at += 1;
    }
    octets
}

/// Octets of the longest record with the header of its set.
const MOST: usize = length(&FLOW_V6.1) + 4;
const _: () = assert!(16 + 300 + MOST < LONGEST, "templates and a record fit");

/// True of an event that there is a template for.
pub(super) fn takes(line: &[u8]) -> bool {
    let record = serde_json::from_slice::<Record<'_>>(line);
    record.is_ok_and(|record| Told::of(&record).is_some())
}

/// An event that has a template.
enum Told<'a> {
    Flow(&'a Flow<'a>, [IpAddr; 2]),
    /// With its natEvent by IANA's numbers (NAT44 BIB create and delete), and its addresses.
    Mapping(&'a Nat<'a>, u8, [Ipv4Addr; 2]),
}

impl Told<'_> {
    fn of<'a>(record: &'a Record<'_>) -> Option<Told<'a>> {
        match (&*record.event_type, &record.flow, &record.nat) {
            ("flow", Some(flow), _) => {
                let (source, destination) = (record.src_ip?, record.dest_ip?);
                let is_one = source.is_ipv4() == destination.is_ipv4();
                is_one.then_some(Told::Flow(flow, [source, destination]))
            }
            ("nat", _, Some(nat)) => {
                let event = match &*nat.event {
                    "create" => 8,
                    "delete" => 9,
                    _ => return None,
                };
                match (nat.internal_ip, nat.external_ip) {
                    (IpAddr::V4(internal), IpAddr::V4(external)) => {
                        Some(Told::Mapping(nat, event, [internal, external]))
                    }
                    _ => None,
                }
            }
            _ => None,
        }
    }
}

/// Octets of the whole messages that a file begins with, where only a part of one is behind
/// them; `None` where the file ends with a whole one, or has something else.
///
/// # Errors
///
/// Those of the file.
pub(in super::super) fn whole_messages(file: &mut (impl Read + Seek)) -> io::Result<Option<u64>> {
    let end = file.seek(SeekFrom::End(0))?;
    let mut at = 0;
    while at < end {
        let mut head = [0; 4];
        let some = (end - at).min(4) as usize;
        let head = head.get_mut(..some).unwrap_or_default();
        file.seek(SeekFrom::Start(at))?;
        file.read_exact(head)?;
        let is_part = match *head {
            [0] | [0, 10] | [0, 10, _] => true,
            [0, 10, high, low] => match u64::from(u16::from_be_bytes([high, low])) {
                ..16 => false,
                length if at + length <= end => {
                    at += length;
                    continue;
                }
                _ => true,
            },
            _ => false,
        };
        return Ok(is_part.then_some(at));
    }
    Ok(None)
}

/// A session with a collector.
pub(in super::super) struct Ipfix {
    /// Records sent before, modulo 2³².
    sequence: u32,
    /// Templates are sent again and again: over UDP.
    repeats: bool,
    /// When templates were sent last.
    templates_at: Option<Instant>,
}

impl Ipfix {
    pub(super) fn new(repeats: bool) -> Ipfix {
        Ipfix {
            sequence: 0,
            repeats,
            templates_at: None,
        }
    }

    pub(super) fn encode(&mut self, lines: &[u8], message: &mut Vec<u8>) -> usize {
        let mut sets = Sets::new(message);
        let is_due = |at: Instant| self.repeats && at.elapsed() >= AGAIN;
        let needs_templates = self.templates_at.is_none_or(is_due);
        if needs_templates {
            sets.templates();
        }
        let (mut taken, mut records) = (0, 0);
        for line in lines::each(lines) {
            if sets.message.len() + MOST > LONGEST {
                break;
            }
            taken += line.len();
            records += u32::from(sets.add(line));
        }
        // Lines of other events alone are no message.
        if records == 0 {
            message.clear();
            return taken;
        }
        if needs_templates {
            self.templates_at = Some(Instant::now());
        }
        sets.end(self.sequence);
        self.sequence = self.sequence.wrapping_add(records);
        taken
    }
}

/// Builds a message, set by set.
struct Sets<'a> {
    message: &'a mut Vec<u8>,
    /// Where the last set begins, and its number.
    last: Option<(usize, u16)>,
}

impl Sets<'_> {
    fn new(message: &mut Vec<u8>) -> Sets<'_> {
        message.resize(16, 0);
        Sets {
            message,
            last: None,
        }
    }

    fn put<const N: usize>(&mut self, octets: [u8; N]) {
        self.message.extend_from_slice(&octets);
    }

    fn address(&mut self, address: IpAddr) {
        match address {
            IpAddr::V4(address) => self.put(address.octets()),
            IpAddr::V6(address) => self.put(address.octets()),
        }
    }

    /// Begins a set of this number, unless the last one is such a set.
    fn set(&mut self, number: u16) {
        if self.last.is_none_or(|(_, last)| last != number) {
            self.end_set();
            self.last = Some((self.message.len(), number));
            self.put(number.to_be_bytes());
            self.put([0; 2]);
        }
    }

    fn end_set(&mut self) {
        if let Some((at, _)) = self.last.take() {
            let length = (self.message.len() - at) as u16;
            self.patch(at + 2, length.to_be_bytes());
        }
    }

    fn patch<const N: usize>(&mut self, at: usize, octets: [u8; N]) {
        if let Some(place) = self.message.get_mut(at..at + N) {
            place.copy_from_slice(&octets);
        }
    }

    fn templates(&mut self) {
        self.set(TEMPLATES);
        self.template(FLOW_V4.0, &FLOW_V4.1);
        self.template(FLOW_V6.0, &FLOW_V6.1);
        self.template(NAT44.0, &NAT44.1);
        self.end_set();
    }

    fn template(&mut self, number: u16, elements: &[Element]) {
        self.put(number.to_be_bytes());
        self.put((elements.len() as u16).to_be_bytes());
        for &(element, octets, is_reverse) in elements {
            self.put((element | u16::from(is_reverse) << 15).to_be_bytes());
            self.put(octets.to_be_bytes());
            if is_reverse {
                self.put(REVERSE.to_be_bytes());
            }
        }
    }

    /// Adds an event's record, if there is a template for it.
    fn add(&mut self, line: &[u8]) -> bool {
        let Ok(record) = serde_json::from_slice::<Record<'_>>(line) else {
            return false;
        };
        match Told::of(&record) {
            Some(Told::Flow(flow, addresses)) => self.flow(&record, flow, addresses),
            Some(Told::Mapping(nat, event, addresses)) => {
                self.mapping(&record, nat, (event, addresses));
            }
            None => return false,
        }
        true
    }

    fn flow(&mut self, record: &Record<'_>, flow: &Flow<'_>, addresses: [IpAddr; 2]) {
        let [source, destination] = addresses;
        self.set(match source {
            IpAddr::V4(_) => FLOW_V4.0,
            IpAddr::V6(_) => FLOW_V6.0,
        });
        self.put(milliseconds(&flow.start).to_be_bytes());
        self.put(milliseconds(&flow.end).to_be_bytes());
        self.address(source);
        self.address(destination);
        self.put(record.src_port.to_be_bytes());
        self.put(record.dest_port.to_be_bytes());
        self.put([record.protocol()]);
        let flags = record.tcp.as_ref().map_or([0; 2], |tcp| tcp.flags());
        let counts = [
            (flow.bytes_toserver, flow.pkts_toserver, flags[0]),
            (flow.bytes_toclient, flow.pkts_toclient, flags[1]),
        ];
        for (octets, packets, flags) in counts {
            self.put(octets.to_be_bytes());
            self.put(packets.to_be_bytes());
            self.put(flags.to_be_bytes());
        }
        self.put(record.flow_id.to_be_bytes());
        self.put([end_reason(&flow.reason)]);
    }

    fn mapping(
        &mut self,
        record: &Record<'_>,
        nat: &Nat<'_>,
        (event, [internal, external]): (u8, [Ipv4Addr; 2]),
    ) {
        self.set(NAT44.0);
        self.put(milliseconds(&record.timestamp).to_be_bytes());
        self.put([event, record.protocol()]);
        self.put(internal.octets());
        self.put(external.octets());
        self.put(nat.internal_port.to_be_bytes());
        self.put(nat.external_port.to_be_bytes());
    }

    /// Writes the header.
    fn end(mut self, sequence: u32) {
        self.end_set();
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let now = now.map_or(0, |since| since.as_secs() as u32);
        let length = self.message.len() as u16;
        self.patch(0, 10_u16.to_be_bytes());
        self.patch(2, length.to_be_bytes());
        self.patch(4, now.to_be_bytes());
        self.patch(8, sequence.to_be_bytes());
        // The rest is observation domain 0: all that is seen here (RFC 7011 §3.1).
    }
}

/// IANA's flowEndReason of a reason that `monitor` tells.
fn end_reason(reason: &str) -> u8 {
    match reason {
        "timeout" => 1,
        "active" => 2,
        "finished" | "reset" | "reused" => 3,
        "evicted" => 5,
        // An operator ended it, or the run.
        _ => 4,
    }
}
