//! DNS messages (RFC 1035), as datagrams and behind lengths on TCP.
//!
//! A name is its labels joined by dots, without a last dot, upper and lower case as sent (Suricata 7). Names
//! in a message cost work in proportion to the message: a pointer leads only backwards, at most 16 of them,
//! and a section gives at most 512 records.

use std::net::IpAddr;

use crate::detect::is_dns;
use crate::field::{Field, Notice, Number, Protocol};
use crate::limits::Limits;
use crate::snapshot::{Reader, SnapshotError, put_bytes, put_u8};
use crate::values::{Sink, Values};

/// Records of a section that are read; what follows is passed over.
const MOST_RECORDS: usize = 512;
/// Strings of a `TXT` record that are read.
const MOST_STRINGS: usize = 64;
/// Bytes of a name, with its dots (RFC 1035 section 2.3.4; twice that, as Suricata is generous, too).
const LONGEST_NAME: usize = 512;
/// Pointers in one name.
const MOST_POINTERS: usize = 16;
/// Datagrams that are no DNS before a flow is given up.
const MOST_BAD: u8 = 4;

/// State of a connection or of a flow of datagrams.
#[derive(Debug, Default, Clone, PartialEq)]
pub(crate) struct Dns {
    /// The unfinished message of each direction, with its length; TCP only.
    streams: [Vec<u8>; 2],
    /// Messages in a row that were none, and directions whose framing is lost.
    bad: u8,
    lost: [bool; 2],
}

impl Dns {
    pub(crate) fn is_over(&self) -> bool {
        self.bad >= MOST_BAD || self.lost == [true, true]
    }

    pub(crate) fn datagram(&mut self, to_server: bool, bytes: &[u8], sink: &mut Sink<'_, '_>) {
        if !is_dns(bytes) {
            self.bad = self.bad.saturating_add(1);
            return;
        }
        self.bad = 0;
        message(to_server, bytes, sink);
    }

    pub(crate) fn data(&mut self, to_server: bool, mut bytes: &[u8], sink: &mut Sink<'_, '_>) {
        let side = usize::from(to_server);
        let (Some(stream), Some(lost)) = (self.streams.get_mut(side), self.lost.get_mut(side))
        else {
            return;
        };
        while !bytes.is_empty() && !*lost {
            let wanted = match stream.get(..2) {
                Some(&[high, low]) => 2 + usize::from(u16::from_be_bytes([high, low])),
                _ => 2,
            };
            let missing = wanted.saturating_sub(stream.len());
            let (piece, rest) = bytes.split_at(missing.min(bytes.len()));
            stream.extend_from_slice(piece);
            bytes = rest;
            if stream.len() < wanted || wanted == 2 && !is_empty_message(stream) {
                continue;
            }
            let whole = stream.get(2..).unwrap_or(&[]);
            if is_dns(whole) {
                message(to_server, whole, sink);
            } else {
                *lost = true;
            }
            *stream = Vec::new();
        }
    }

    /// Where the next message begins is not known.
    pub(crate) fn gap(&mut self, to_server: bool) {
        let side = usize::from(to_server);
        if let (Some(stream), Some(lost)) = (self.streams.get_mut(side), self.lost.get_mut(side)) {
            *stream = Vec::new();
            *lost = true;
        }
    }

    pub(crate) fn save(&self, out: &mut Vec<u8>) {
        put_u8(out, self.bad);
        for (stream, lost) in self.streams.iter().zip(self.lost) {
            put_u8(out, lost.into());
            put_bytes(out, stream);
        }
    }

    pub(crate) fn load(reader: &mut Reader<'_>) -> Result<Dns, SnapshotError> {
        let mut dns = Dns {
            bad: reader.u8()?,
            ..Dns::default()
        };
        for (stream, lost) in dns.streams.iter_mut().zip(&mut dns.lost) {
            *lost = reader.u8()? != 0;
            *stream = reader.bytes(Limits::DNS)?;
        }
        Ok(dns)
    }
}

/// A message without bytes behind its length.
fn is_empty_message(stream: &[u8]) -> bool {
    stream == [0, 0]
}

fn word(bytes: &[u8], at: usize) -> Option<u16> {
    match bytes.get(at..at + 2) {
        Some(&[high, low]) => Some(u16::from_be_bytes([high, low])),
        _ => None,
    }
}

fn message(to_server: bool, bytes: &[u8], sink: &mut Sink<'_, '_>) {
    let values = &mut *sink.values;
    values.clear();
    let flags = word(bytes, 2).unwrap_or(0);
    let response = flags & 0x8000 != 0;
    values.number(Number::DnsId, word(bytes, 0).unwrap_or(0));
    values.number(Number::DnsFlags, flags);
    values.number(Number::DnsIsResponse, u8::from(response));
    values.number(Number::DnsOpcode, flags >> 11 & 15);
    values.number(Number::DnsRcode, flags & 15);
    if flags & 0x40 != 0 {
        values.notice(Notice::DnsZFlagSet);
    }
    match (response, to_server) {
        (true, true) => values.notice(Notice::DnsNotRequest),
        (false, false) => values.notice(Notice::DnsNotResponse),
        _ => {}
    }
    if records(bytes, sink).is_none() {
        sink.values.notice(Notice::DnsMalformed);
    }
    sink.head((Protocol::Dns, to_server), true);
}

/// Reads questions, answers and authorities; `None` where questions or answers can't be read to their end.
fn records(bytes: &[u8], sink: &mut Sink<'_, '_>) -> Option<()> {
    let values = &mut *sink.values;
    let mut name = Vec::with_capacity(64);
    let mut at = 12;
    for _ in 0..usize::from(word(bytes, 4)?).min(MOST_RECORDS) {
        at = read_name(bytes, at, &mut name)?;
        values.put(Field::DnsQuery, &name);
        values.number(Number::DnsRrtype, word(bytes, at)?);
        at += 4;
        bytes.get(..at)?;
    }
    let answers = word(bytes, 6)?;
    at = section((bytes, at), answers, &ANSWERS, &mut name, values)?;
    if usize::from(answers) <= MOST_RECORDS {
        // Authorities are shown and not judged: a message whose answers can be read is none that is malformed.
        let count = word(bytes, 8)?;
        let _ = section((bytes, at), count, &AUTHORITIES, &mut name, values);
    }
    Some(())
}

/// Names of what a section's records give.
struct Section {
    name: Field,
    data: Field,
    kind: Number,
    ttl: Number,
}

const ANSWERS: Section = Section {
    name: Field::DnsAnswerName,
    data: Field::DnsAnswerData,
    kind: Number::DnsAnswerType,
    ttl: Number::DnsAnswerTtl,
};
const AUTHORITIES: Section = Section {
    name: Field::DnsAuthorityName,
    data: Field::DnsAuthorityData,
    kind: Number::DnsAuthorityType,
    ttl: Number::DnsAuthorityTtl,
};

/// Reads the records of a section from `at` on; gives the offset behind it.
fn section(
    (bytes, mut at): (&[u8], usize),
    records: u16,
    section: &Section,
    name: &mut Vec<u8>,
    values: &mut Values,
) -> Option<usize> {
    for _ in 0..usize::from(records).min(MOST_RECORDS) {
        at = read_name(bytes, at, name)?;
        values.put(section.name, name);
        let (kind, data) = (word(bytes, at)?, at + 10);
        let ttl = u32::from(word(bytes, at + 4)?) << 16 | u32::from(word(bytes, at + 6)?);
        at = data + usize::from(word(bytes, at + 8)?);
        bytes.get(..at)?;
        values.number(section.kind, kind);
        values.number(section.ttl, ttl);
        put_data((section.data, kind), (bytes, data, at), name, values);
    }
    Some(at)
}

/// Adds the data of a record as text: an address, a name, or the strings of a `TXT` record.
fn put_data(
    (field, kind): (Field, u16),
    (bytes, from, to): (&[u8], usize, usize),
    name: &mut Vec<u8>,
    values: &mut Values,
) {
    let data = bytes.get(from..to).unwrap_or(&[]);
    let address = match kind {
        kind::A => <[u8; 4]>::try_from(data).ok().map(IpAddr::from),
        kind::AAAA => <[u8; 16]>::try_from(data).ok().map(IpAddr::from),
        _ => None,
    };
    let name_at = match kind {
        kind::NS | kind::CNAME | kind::SOA | kind::PTR => Some(from),
        // Behind a preference.
        kind::MX => Some(from + 2),
        _ => None,
    };
    name.clear();
    if let Some(address) = address {
        name.extend_from_slice(address.to_string().as_bytes());
    } else if name_at.is_some_and(|at| read_name(bytes, at, name).is_none_or(|end| end > to)) {
        name.clear();
    }
    let mut rest = if kind == kind::TXT { data } else { &[] };
    for _ in 0..MOST_STRINGS {
        let Some((&length, behind)) = rest.split_first() else {
            break;
        };
        let (text, behind) = behind.split_at(behind.len().min(length.into()));
        rest = behind;
        if rest.is_empty() {
            name.extend_from_slice(text);
        } else {
            values.put(field, text);
        }
    }
    values.put(field, name);
}

/// Types of records (RFC 1035 section 3.2.2, RFC 3596).
mod kind {
    pub(super) const A: u16 = 1;
    pub(super) const NS: u16 = 2;
    pub(super) const CNAME: u16 = 5;
    pub(super) const SOA: u16 = 6;
    pub(super) const PTR: u16 = 12;
    pub(super) const MX: u16 = 15;
    pub(super) const TXT: u16 = 16;
    pub(super) const AAAA: u16 = 28;
}

/// Reads the name at `at` and returns the offset behind it.
fn read_name(bytes: &[u8], mut at: usize, name: &mut Vec<u8>) -> Option<usize> {
    name.clear();
    let (mut behind, mut pointers) = (None, 0);
    loop {
        let length = usize::from(*bytes.get(at)?);
        match length >> 6 {
            0 if length == 0 => return Some(behind.unwrap_or(at + 1)),
            0 => {
                let label = bytes.get(at + 1..at + 1 + length)?;
                if !name.is_empty() {
                    name.push(b'.');
                }
                name.extend_from_slice(label);
                at += 1 + length;
            }
            3 => {
                let to = usize::from(word(bytes, at)? & 0x3fff);
                behind.get_or_insert(at + 2);
                pointers += 1;
                // Only backwards: so it ends.
                if to >= at || pointers > MOST_POINTERS {
                    return None;
                }
                at = to;
            }
            _ => return None,
        }
        if name.len() > LONGEST_NAME {
            return None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_with_pointers_end() {
        let mut name = Vec::new();
        let bytes = b"\x03www\x07Example\x03org\0\x04mail\xc0\x04\xc0\x18\xff";
        assert_eq!(read_name(bytes, 0, &mut name), Some(17));
        assert_eq!(name, b"www.Example.org");
        assert_eq!(read_name(bytes, 17, &mut name), Some(24));
        assert_eq!(name, b"mail.Example.org");
        // To itself, and beyond the end.
        assert_eq!(read_name(b"\xc0\x00", 0, &mut name), None);
        assert_eq!(read_name(bytes, 24, &mut name), None);
        assert_eq!(read_name(b"\x05ab", 0, &mut name), None);
    }
}
