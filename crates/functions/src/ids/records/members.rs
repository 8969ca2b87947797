//! Members of objects, out of notes.

use weir_dissect::{Field, Number};
use weir_nf::Event;

use super::note::Note;

pub(super) fn values(event: &mut Event<'_>, note: &Note, names: &[(Field, &str)]) {
    for (field, name) in names {
        if let Some(value) = note.get(*field) {
            event.bytes(name, value);
        }
    }
}

pub(super) fn list<'n>(event: &mut Event<'_>, name: &str, items: impl Iterator<Item = &'n [u8]>) {
    let mut items = items.peekable();
    if items.peek().is_some() {
        event.array(name);
        for item in items {
            event.item(item);
        }
        event.end();
    }
}

/// An object with a hash, and with the string that it is of.
pub(super) fn hashes(
    event: &mut Event<'_>,
    name: &str,
    note: &Note,
    (hash, string): (Field, Field),
) {
    if note.get(hash).is_some() {
        event.object(name);
        values(event, note, &[(hash, "hash"), (string, "string")]);
        event.end();
    }
}

/// A number that is never below 0, or 0.
pub(super) fn unsigned(note: &Note, number: Number) -> u64 {
    note.number(number).unwrap_or(0).max(0) as u64
}

/// Digits and nothing else.
pub(super) fn number(digits: &[u8]) -> Option<u64> {
    let text = core::str::from_utf8(digits).ok()?;
    text.bytes().all(|b| b.is_ascii_digit()).then_some(())?;
    text.parse().ok()
}
