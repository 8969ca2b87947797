//! Messages of DNS as EVE has them, in version 2.

use weir_dissect::{Field, Number};
use weir_nf::Event;

use super::dns_names::{write_code, write_type};
use super::members::unsigned;
use super::note::Note;
use super::section::Section;

/// The flag of a response of DNS.
const RESPONSE: i64 = 0x8000;
/// A flag that has no meaning (RFC 1035 section 4.1.1).
const Z: i64 = 0x40;

/// A query, or an answer, of the transaction with this number. A message has one question at most.
pub(super) fn write(event: &mut Event<'_>, note: &Note, number: u32) {
    let flags = note.number(Number::DnsFlags).unwrap_or(0);
    match flags & RESPONSE {
        0 => query(event, note),
        _ => answer(event, note, flags),
    }
    event.number("tx_id", u64::from(number));
}

/// The same in an alert.
pub(super) fn write_in_alert(event: &mut Event<'_>, note: &Note, number: u32) {
    if note.number(Number::DnsFlags).unwrap_or(0) & RESPONSE != 0 {
        event.object("answer");
        write(event, note, number);
    } else {
        event.array("query").element();
        write(event, note, number);
        event.end();
    }
    event.end();
}

fn query(event: &mut Event<'_>, note: &Note) {
    event.text("type", "query");
    event.number("id", unsigned(note, Number::DnsId));
    if note.number(Number::DnsFlags).unwrap_or(0) & Z != 0 {
        event.flag("z", true);
    }
    name_and_type(event, note);
    event.number("opcode", unsigned(note, Number::DnsOpcode));
}

fn name_and_type(event: &mut Event<'_>, note: &Note) {
    if let Some(name) = note.get(Field::DnsQuery) {
        event.bytes("rrname", name);
    }
    if let Some(kind) = note.number(Number::DnsRrtype) {
        write_type(event, kind);
    }
}

fn answer(event: &mut Event<'_>, note: &Note, flags: i64) {
    event
        .number("version", 2)
        .text("type", "answer")
        .number("id", unsigned(note, Number::DnsId))
        .display("flags", format_args!("{flags:x}"))
        .flag("qr", true);
    for (bit, name) in [
        (0x400, "aa"),
        (0x200, "tc"),
        (0x100, "rd"),
        (0x80, "ra"),
        (Z, "z"),
    ] {
        if flags & bit != 0 {
            event.flag(name, true);
        }
    }
    event.number("opcode", unsigned(note, Number::DnsOpcode));
    name_and_type(event, note);
    write_code(event, unsigned(note, Number::DnsRcode));
    let answers = Section::answers(note);
    answers.write("answers", event);
    answers.write_grouped(event);
    Section::authorities(note).write("authorities", event);
}
