//! Events: JSON lines with the field names of Suricata's EVE.
//!
//! A line is written straight into a buffer reserved at start, so an event
//! costs no allocation; the driver empties the buffer between bursts. A line
//! that does not fit is taken back whole and counted.

use core::fmt::Write as _;
use std::net::IpAddr;

use weir_packet::{Direction, FlowKey, Time};

use crate::gate::{self, GateStep};
use crate::host::BURST;
use crate::limit::{EventLimit, MARK};

/// The lines of one runtime that the driver has not taken yet.
#[derive(Debug)]
pub struct EventLog {
    text: Vec<u8>,
    capacity: usize,
    recorded: u64,
    lost: u64,
    enabled: bool,
    bursts: Option<Box<OfBursts>>,
}

/// The numbers by which an event names what it is about.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct EventIds {
    pub(crate) flow: Option<u64>,
    pub(crate) unit: Option<u64>,
}

/// Notes about lines that are taken burst by burst.
#[derive(Debug)]
struct OfBursts {
    /// For each line: the packet of the burst that caused it, and its end.
    lines: Vec<(u8, u32)>,
    /// Bytes of each packet's lines.
    spent: [u32; BURST],
    /// Most of them.
    share: u32,
}

/// Most bytes of lines that one packet of a burst may cause.
const SHARE: usize = 16 << 10;
/// Most lines of a burst.
const LINES: usize = 16_384;

impl EventLog {
    /// Room for `capacity` bytes of lines between two visits of the driver.
    pub fn new(capacity: usize) -> EventLog {
        EventLog {
            text: Vec::with_capacity(capacity),
            capacity,
            recorded: 0,
            lost: 0,
            enabled: true,
            bursts: None,
        }
    }

    /// A log that is emptied after each burst. Each packet has a share of it
    /// (16 KiB), so that none loses an event because of another.
    pub(crate) fn of_bursts() -> EventLog {
        EventLog {
            bursts: Some(Box::new(OfBursts {
                lines: Vec::with_capacity(LINES),
                spent: [0; BURST],
                share: SHARE as u32,
            })),
            ..EventLog::new(BURST * (SHARE + 64))
        }
    }

    /// A log that counts events and keeps none of their text.
    pub fn counting() -> EventLog {
        EventLog {
            enabled: false,
            ..EventLog::new(0)
        }
    }

    /// Whole lines, each ending in a newline.
    pub fn lines(&self) -> &[u8] {
        &self.text
    }

    /// True where its lines should be taken before much more is recorded.
    pub fn is_half_full(&self) -> bool {
        self.enabled && self.text.len() > self.capacity / 2
    }

    /// Forgets the lines (the driver has written them).
    pub fn clear(&mut self) {
        self.text.clear();
        if let Some(bursts) = &mut self.bursts {
            bursts.lines.clear();
            bursts.spent = [0; BURST];
            bursts.share = SHARE as u32;
        }
    }

    /// The first packet of the next burst is alone in it: the whole log is
    /// its share, until [`EventLog::clear`].
    pub fn give_whole(&mut self) {
        if let Some(bursts) = &mut self.bursts {
            bursts.share = self.capacity as u32;
        }
    }

    /// The lines that `packet` of the burst caused, where that is noted.
    pub fn lines_of(&self, packet: usize) -> impl Iterator<Item = &[u8]> {
        let lines = self.bursts.as_ref().map_or(&[][..], |b| &b.lines[..]);
        let mut start = 0;
        lines.iter().filter_map(move |&(cause, end)| {
            let line = self.text.get(start..end as usize);
            start = end as usize;
            line.filter(|_| usize::from(cause) == packet)
        })
    }

    /// Counts an event whose text nobody wants.
    pub(crate) fn count_one(&mut self) {
        self.recorded += 1;
    }

    /// Counts lines that were recorded and could not be taken.
    pub fn count_lost(&mut self, lines: u64) {
        self.recorded -= lines.min(self.recorded);
        self.lost += lines;
    }

    /// Counts what `other`, which stood in for this log, was told.
    pub fn count_as(&mut self, other: &EventLog) {
        self.recorded += other.recorded + other.lost;
    }

    /// Events recorded so far.
    pub fn recorded(&self) -> u64 {
        self.recorded
    }

    /// Events lost because the buffer was full.
    pub fn lost(&self) -> u64 {
        self.lost
    }

    /// True where lines are kept, so that a network function may spare itself
    /// costly text.
    pub fn is_enabled(&self) -> bool {
        self.enabled
    }

    pub(crate) fn begin(
        &mut self,
        kind: &str,
        time: Time,
        ids: &EventIds,
        packet: u64,
        (cause, muted): (u8, bool),
    ) -> Event<'_> {
        let start = self.text.len();
        let mut event = Event {
            start,
            full: !self.enabled || muted,
            muted,
            cause,
            depth: 1,
            arrays: 0,
            first: true,
            time,
            log: self,
        };
        event.raw(b"{");
        event.quoted("timestamp");
        event.raw(b":\"");
        event.print(format_args!("{time}"));
        event.raw(b"\"");
        event.first = false;
        if let Some(id) = ids.flow {
            event.number("flow_id", id);
        }
        if let Some(id) = ids.unit {
            event.number("unit_id", id);
        }
        if packet != 0 {
            event.number("pcap_cnt", packet);
        }
        event.text("event_type", kind);
        event
    }
}

/// One event being written; it is recorded when it goes out of scope.
#[derive(Debug)]
pub struct Event<'a> {
    log: &'a mut EventLog,
    start: usize,
    full: bool,
    first: bool,
    depth: u8,
    /// The open arrays: bit n stands for depth n.
    arrays: u32,
    /// Place in the burst of the packet that caused it.
    cause: u8,
    time: Time,
    /// Not even counted.
    muted: bool,
}

impl Event<'_> {
    fn raw(&mut self, bytes: &[u8]) {
        // Room is left for the closing braces of every open object.
        let reserve = usize::from(self.depth) + 2;
        if self.full || self.log.text.len() + bytes.len() + reserve > self.log.capacity {
            self.full = true;
        } else {
            self.log.text.extend_from_slice(bytes);
        }
    }

    fn print(&mut self, arguments: core::fmt::Arguments<'_>) {
        struct Sink<'e, 'a>(&'e mut Event<'a>);
        impl core::fmt::Write for Sink<'_, '_> {
            fn write_str(&mut self, s: &str) -> core::fmt::Result {
                self.0.raw(s.as_bytes());
                Ok(())
            }
        }
        // `Sink` never fails: a full log is noted in `full`.
        let _ = Sink(self).write_fmt(arguments);
    }

    fn quoted(&mut self, text: &str) {
        self.raw(b"\"");
        self.escaped(text.as_bytes());
        self.raw(b"\"");
    }

    fn escaped(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let plain = bytes
                .iter()
                .position(|&b| b < 0x20 || b == b'"' || b == b'\\' || b >= 0x7f)
                .unwrap_or(bytes.len());
            let (head, rest) = bytes.split_at(plain);
            self.raw(head);
            let Some(&b) = rest.first() else { break };
            bytes = match b {
                b'"' => {
                    self.raw(b"\\\"");
                    &rest[1..]
                }
                b'\\' => {
                    self.raw(b"\\\\");
                    &rest[1..]
                }
                b'\n' => {
                    self.raw(b"\\n");
                    &rest[1..]
                }
                b'\r' => {
                    self.raw(b"\\r");
                    &rest[1..]
                }
                b'\t' => {
                    self.raw(b"\\t");
                    &rest[1..]
                }
                _ => match utf8_prefix(rest) {
                    Some(length) if b >= 0x80 => {
                        self.raw(&rest[..length]);
                        &rest[length..]
                    }
                    // Bytes that are not text are shown as the code points
                    // of the same number: still JSON, and nothing is hidden.
                    _ => {
                        self.print(format_args!("\\u{:04x}", b));
                        &rest[1..]
                    }
                },
            };
        }
    }

    fn comma(&mut self) {
        if !core::mem::take(&mut self.first) {
            self.raw(b",");
        }
    }

    fn name(&mut self, name: &str) {
        self.comma();
        self.quoted(name);
        self.raw(b":");
    }

    /// Adds a text.
    pub fn text(&mut self, name: &str, value: &str) -> &mut Self {
        self.bytes(name, value.as_bytes())
    }

    /// Adds bytes from a packet as a text; what is not UTF-8 or not printable
    /// is escaped.
    pub fn bytes(&mut self, name: &str, value: &[u8]) -> &mut Self {
        self.name(name);
        self.raw(b"\"");
        self.escaped(value);
        self.raw(b"\"");
        self
    }

    /// Adds a number.
    pub fn number(&mut self, name: &str, value: u64) -> &mut Self {
        self.name(name);
        self.print(format_args!("{value}"));
        self
    }

    /// Adds a truth value.
    pub fn flag(&mut self, name: &str, value: bool) -> &mut Self {
        self.name(name);
        self.raw(if value { b"true" } else { b"false" });
        self
    }

    /// Adds an instant, as text.
    pub fn time(&mut self, name: &str, value: Time) -> &mut Self {
        self.name(name);
        self.print(format_args!("\"{value}\""));
        self
    }

    /// Adds an address, as text.
    pub fn address(&mut self, name: &str, value: IpAddr) -> &mut Self {
        self.name(name);
        self.print(format_args!("\"{value}\""));
        self
    }

    /// Of all events of the run with this `key` only so many are written. The key prints
    /// no quote, backslash or control character; it begins with what tells these events
    /// from those of other functions.
    pub fn limit(&mut self, limit: EventLimit, key: impl core::fmt::Display) -> &mut Self {
        let before = self.log.text.len();
        self.print(format_args!(
            "{}{limit} {} {key}\",",
            MARK.trim_start_matches('{'),
            self.time.0 / 1_000
        ));
        // Where the limiter looks.
        self.put_first(before);
        self
    }

    /// The event is written only where the tests among these steps hold for the run's bits, and it changes bits;
    /// one that is not `told` is there for its changes alone. Call it after
    /// [`limit`](Self::limit): the gate is the first field.
    pub fn gate<K: core::fmt::Display>(
        &mut self,
        told: bool,
        steps: impl Iterator<Item = GateStep<K>>,
    ) -> &mut Self {
        let before = self.log.text.len();
        let told = if told { "told" } else { "silent" };
        self.print(format_args!(
            "{}{told} {};",
            gate::MARK.trim_start_matches('{'),
            self.time.0 / 1_000
        ));
        for step in steps {
            self.print(format_args!("{step};"));
        }
        self.print(format_args!("\","));
        self.put_first(before);
        self
    }

    /// What was written since is the event's first field.
    fn put_first(&mut self, before: usize) {
        let added = self.log.text.len() - before;
        if !self.full
            && let Some(behind) = self.log.text.get_mut(self.start + 1..)
        {
            behind.rotate_right(added);
        }
    }

    /// Adds anything that prints, as text (it must print no quote, backslash
    /// or control character).
    pub fn display(&mut self, name: &str, value: impl core::fmt::Display) -> &mut Self {
        self.name(name);
        self.print(format_args!("\"{value}\""));
        self
    }

    /// Runs `write`; where the line no longer fits then, takes back what it added and returns false.
    pub fn optional(&mut self, write: impl FnOnce(&mut Self)) -> bool {
        if self.full {
            return true;
        }
        let before = (self.log.text.len(), self.depth, self.arrays, self.first);
        write(self);
        let most = self.log.bursts.as_ref().map_or(usize::MAX, |bursts| {
            let spent = bursts.spent.get(usize::from(self.cause)).copied();
            bursts.share.saturating_sub(spent.unwrap_or(0)) as usize
        });
        let length = self.log.text.len() - self.start + usize::from(self.depth) + 1;
        if !self.full && length <= most {
            return true;
        }
        self.full = false;
        self.log.text.truncate(before.0);
        (self.depth, self.arrays, self.first) = (before.1, before.2, before.3);
        false
    }

    /// Opens an object; [`Event::end`] closes it.
    pub fn object(&mut self, name: &str) -> &mut Self {
        self.name(name);
        self.open(b"{", false)
    }

    /// Opens an array; [`Event::end`] closes it.
    pub fn array(&mut self, name: &str) -> &mut Self {
        self.name(name);
        self.open(b"[", true)
    }

    /// Opens an object that is an element of the array at hand; [`Event::end`] closes it.
    pub fn element(&mut self) -> &mut Self {
        self.comma();
        self.open(b"{", false)
    }

    /// Adds a text to the array at hand, of bytes as in [`Event::bytes`].
    pub fn item(&mut self, value: &[u8]) -> &mut Self {
        self.comma();
        self.raw(b"\"");
        self.escaped(value);
        self.raw(b"\"");
        self
    }

    fn open(&mut self, bracket: &[u8], is_array: bool) -> &mut Self {
        debug_assert!(self.depth < 31, "events are flat");
        self.depth += 1;
        self.arrays |= u32::from(is_array) << self.depth;
        self.raw(bracket);
        self.first = true;
        self
    }

    /// Closes the innermost object or array.
    pub fn end(&mut self) -> &mut Self {
        if self.depth > 1 {
            let bracket = self.bracket();
            self.arrays &= !(1 << self.depth);
            self.depth -= 1;
            if !self.full {
                self.log.text.push(bracket);
            }
            self.first = false;
        }
        self
    }

    /// The bracket that closes what is open.
    fn bracket(&self) -> u8 {
        match self.arrays >> self.depth & 1 {
            0 => b'}',
            _ => b']',
        }
    }

    /// Adds `src_ip`, `src_port`, `dest_ip`, `dest_port`, `proto` of a packet
    /// that travels in `direction`.
    pub fn endpoints(&mut self, key: &FlowKey, direction: Direction) -> &mut Self {
        self.ends(
            key.source(direction),
            key.destination(direction),
            key.proto(),
        )
    }

    /// The same out of addresses, ports and protocol; ports are left out where the protocol has none.
    pub fn ends(
        &mut self,
        (source, source_port): (IpAddr, u16),
        (destination, destination_port): (IpAddr, u16),
        protocol: u8,
    ) -> &mut Self {
        let ports = matches!(protocol, 6 | 17 | 132);
        self.address("src_ip", source);
        if ports {
            self.number("src_port", u64::from(source_port));
        }
        self.address("dest_ip", destination);
        if ports {
            self.number("dest_port", u64::from(destination_port));
        }
        match protocol {
            1 => self.text("proto", "ICMP"),
            6 => self.text("proto", "TCP"),
            17 => self.text("proto", "UDP"),
            58 => self.text("proto", "IPv6-ICMP"),
            132 => self.text("proto", "SCTP"),
            other => self.display("proto", other),
        }
    }
}

impl OfBursts {
    /// Notes a line; false where it is too much for its packet.
    fn note(&mut self, cause: u8, len: usize, end: usize) -> bool {
        let spent = self.spent.get_mut(usize::from(cause));
        debug_assert!(spent.is_some(), "a packet of a burst");
        let Some(spent) = spent else { return false };
        let sum = spent.saturating_add(len as u32);
        if sum > self.share || self.lines.len() >= LINES {
            return false;
        }
        *spent = sum;
        self.lines.push((cause, end as u32));
        true
    }
}

impl Drop for Event<'_> {
    fn drop(&mut self) {
        if !self.full {
            // `raw` left room for these.
            while self.depth > 0 {
                let bracket = self.bracket();
                self.log.text.push(bracket);
                self.depth -= 1;
            }
            self.log.text.push(b'\n');
            let end = self.log.text.len();
            self.full = match &mut self.log.bursts {
                Some(bursts) => !bursts.note(self.cause, end - self.start, end),
                None => false,
            };
        }
        if self.full {
            self.log.text.truncate(self.start);
        }
        if self.muted {
            return;
        }
        if self.full && self.log.enabled {
            self.log.lost += 1;
        } else {
            self.log.recorded += 1;
        }
    }
}

fn utf8_prefix(bytes: &[u8]) -> Option<usize> {
    (2..=4.min(bytes.len()))
        .find(|&n| core::str::from_utf8(&bytes[..n]).is_ok_and(|s| s.chars().count() == 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_json_whatever_the_bytes() {
        let mut log = EventLog::new(4096);
        let ids = EventIds {
            flow: Some(7),
            unit: None,
        };
        log.begin("http", Time::from_secs(1), &ids, 3, (0, false))
            .object("http")
            .bytes("url", b"/a\"b\\\n\x00\xff\xc3\xa9")
            .number("status", 200)
            .array("parts")
            .item(b"a\"")
            .element()
            .number("n", 1)
            .end()
            .element()
            .end()
            .end()
            .end()
            .flag("done", true)
            .array("open")
            .element();
        assert_eq!(
            core::str::from_utf8(log.lines()).unwrap(),
            "{\"timestamp\":\"1970-01-01T00:00:01.000000+0000\",\"flow_id\":7,\"pcap_cnt\":3,\
             \"event_type\":\"http\",\"http\":{\"url\":\"/a\\\"b\\\\\\n\\u0000\\u00ffé\",\"status\":200,\
             \"parts\":[\"a\\\"\",{\"n\":1},{}]},\"done\":true,\"open\":[{}]}\n"
        );
    }

    #[test]
    fn what_is_optional_is_taken_back_alone() {
        for (mut log, room) in [(EventLog::new(300), 300), (EventLog::of_bursts(), SHARE)] {
            let mut event = log.begin("a", Time::ZERO, &EventIds::default(), 0, (0, false));
            assert!(event.optional(|event| {
                event.text("x", "short");
            }));
            assert!(!event.optional(|event| {
                event.object("o").array("a").item(&vec![b'y'; room]);
            }));
            assert!(event.optional(|event| {
                event.number("n", 1);
            }));
            drop(event);
            let line = core::str::from_utf8(log.lines()).unwrap();
            let end = "\"event_type\":\"a\",\"x\":\"short\",\"n\":1}\n";
            assert!(line.ends_with(end), "{line}");
            assert_eq!((log.recorded(), log.lost()), (1, 0));
        }
    }

    #[test]
    fn a_line_that_does_not_fit_is_taken_back_whole() {
        let mut log = EventLog::new(200);
        log.begin("a", Time::ZERO, &EventIds::default(), 0, (0, false))
            .text("x", "short");
        let before = log.lines().to_vec();
        log.begin("b", Time::ZERO, &EventIds::default(), 0, (0, false))
            .object("o")
            .text("x", &"long".repeat(50));
        assert_eq!(log.lines(), before);
        assert_eq!((log.recorded(), log.lost()), (1, 1));
    }
}
