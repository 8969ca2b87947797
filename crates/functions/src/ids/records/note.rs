//! Fields of messages, copied for a record.

use weir_dissect::{Field, Message, Notice, Number};

/// Bytes of one value; longer ones are cut.
const LONGEST: usize = 4096;
/// Bytes of a note; it ends at the first part that does not fit.
const MOST: usize = 16 * 1024;
/// Tags from here on are numbers, and from there on notices.
const NUMBER: u8 = 128;
const NOTICE: u8 = 192;
/// The tag that ends a note that would have been longer.
const CUT: u8 = 255;
/// Bytes of a tag and a length.
const PART: usize = 3;

const _: () = assert!(Field::ALL.len() < NUMBER as usize);
const _: () = assert!(Number::ALL.len() < (NOTICE - NUMBER) as usize);
const _: () = assert!(Notice::ALL.len() < (CUT - NOTICE) as usize);
const _: () = assert!(LONGEST <= u16::MAX as usize);

/// A sum over all names that tags stand for, in their order: another release may have others.
pub(super) const NAMES: u32 = {
    let mut sum = 0;
    let mut place = 0;
    while place < Field::ALL.len() {
        sum = summed(sum, Field::ALL[place].name());
        place += 1;
    }
    place = 0;
    while place < Number::ALL.len() {
        sum = summed(sum, Number::ALL[place].name());
        place += 1;
    }
    place = 0;
    while place < Notice::ALL.len() {
        sum = summed(sum, Notice::ALL[place].name());
        place += 1;
    }
    sum
};

/// FNV-1a over a name and its end.
const fn summed(mut sum: u32, name: &str) -> u32 {
    let bytes = name.as_bytes();
    let mut place = 0;
    while place <= bytes.len() {
        let byte = if place < bytes.len() { bytes[place] } else { 0 };
        sum = (sum ^ byte as u32).wrapping_mul(0x0100_0193);
        place += 1;
    }
    sum
}

/// Fields and numbers of a message in its order: a tag, a length and bytes, one behind another.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in super::super) struct Note {
    bytes: Vec<u8>,
    /// It ends with [`CUT`]: nothing is added any more.
    cut: bool,
}

/// A field or a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part<'a> {
    Value(Field, &'a [u8]),
    Number(Number, i64),
    Notice(Notice),
}

impl Note {
    /// The given fields and numbers of a message.
    pub(super) fn of(message: &Message<'_>, fields: &[Field], numbers: &[Number]) -> Note {
        let mut note = Note::default();
        // Numbers first: they are short, and say how to read the rest.
        for &(number, value) in message.numbers() {
            if numbers.contains(&number) {
                note.put(Part::Number(number, value));
            }
        }
        for value in message.values() {
            if fields.contains(&value.field) {
                note.put(Part::Value(value.field, value.bytes));
            }
        }
        note
    }

    /// Out of bytes that [`Note::bytes`] gave.
    pub(super) fn read(bytes: &[u8]) -> Note {
        let mut note = Note {
            bytes: bytes.to_vec(),
            cut: false,
        };
        let cut = note.tags().any(|(tag, _)| tag == CUT);
        note.cut = cut;
        note
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    pub(super) fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    pub(super) fn put(&mut self, part: Part<'_>) {
        let number;
        let (tag, value) = match part {
            Part::Value(field, bytes) => (field as u8, bytes.get(..LONGEST).unwrap_or(bytes)),
            Part::Number(name, value) => {
                number = value.to_le_bytes();
                (NUMBER + name as u8, &number[..])
            }
            Part::Notice(notice) => (NOTICE + notice as u8, &[][..]),
        };
        if self.cut {
            return;
        }
        // A note ends at the first part that does not fit: later parts belong to it, as data to its owner.
        if self.bytes.len() + PART + value.len() > MOST - PART {
            self.bytes.extend_from_slice(&[CUT, 0, 0]);
            self.cut = true;
            return;
        }
        self.bytes.push(tag);
        self.bytes
            .extend_from_slice(&(value.len() as u16).to_le_bytes());
        self.bytes.extend_from_slice(value);
    }

    /// Adds the notice, if the message has it.
    pub(super) fn notice(&mut self, message: &Message<'_>, notice: Notice) {
        if message.notices().contains(&notice) && !self.has(notice) {
            self.put(Part::Notice(notice));
        }
    }

    /// True where the notice is in it.
    pub(super) fn has(&self, notice: Notice) -> bool {
        self.parts().any(|part| part == Part::Notice(notice))
    }

    /// Adds the fields of another note behind these.
    pub(super) fn add(&mut self, other: &Note) {
        for part in other.parts() {
            self.put(part);
        }
    }

    fn tags(&self) -> impl Iterator<Item = (u8, &[u8])> {
        let mut rest = &self.bytes[..];
        core::iter::from_fn(move || {
            let ([tag, low, high], behind) = rest.split_first_chunk::<PART>()?;
            let length = u16::from_le_bytes([*low, *high]);
            let (value, behind) = behind.split_at_checked(length.into())?;
            rest = behind;
            Some((*tag, value))
        })
    }

    /// All of it, in order.
    pub(super) fn parts(&self) -> impl Iterator<Item = Part<'_>> {
        self.tags().map_while(|(tag, value)| {
            let place = |first| usize::from(tag - first);
            Some(match tag {
                ..NUMBER => Part::Value(*Field::ALL.get(place(0))?, value),
                NUMBER..NOTICE => {
                    let value = i64::from_le_bytes(value.try_into().ok()?);
                    Part::Number(*Number::ALL.get(place(NUMBER))?, value)
                }
                NOTICE.. => Part::Notice(*Notice::ALL.get(place(NOTICE))?),
            })
        })
    }

    /// The first value of a field.
    pub(super) fn get(&self, field: Field) -> Option<&[u8]> {
        self.values(field).next()
    }

    /// All values of a field.
    pub(super) fn values(&self, field: Field) -> impl Iterator<Item = &[u8]> {
        self.parts().filter_map(move |part| match part {
            Part::Value(name, bytes) if name == field => Some(bytes),
            _ => None,
        })
    }

    /// All values of a number.
    pub(super) fn numbers(&self, number: Number) -> impl Iterator<Item = i64> {
        self.parts().filter_map(move |part| match part {
            Part::Number(name, value) if name == number => Some(value),
            _ => None,
        })
    }

    /// The first value of a number.
    pub(super) fn number(&self, number: Number) -> Option<i64> {
        self.numbers(number).next()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_put_is_there_in_order_up_to_the_bounds() {
        let mut note = Note::default();
        note.put(Part::Value(Field::HttpUri, b"/a"));
        note.put(Part::Number(Number::HttpBodyLength, -3));
        note.put(Part::Value(Field::HttpUri, &[b'x'; LONGEST + 1]));
        let read = Note::read(note.bytes());
        let uris: Vec<usize> = read.values(Field::HttpUri).map(<[u8]>::len).collect();
        assert_eq!(uris, [2, LONGEST]);
        assert_eq!(read.number(Number::HttpBodyLength), Some(-3));
        for _ in 0..10 {
            note.put(Part::Value(Field::HttpUri, &[b'x'; LONGEST]));
        }
        assert!(note.bytes().len() <= MOST);
        // A shorter part behind one that did not fit would be taken for its.
        let whole = note.clone();
        note.put(Part::Value(Field::HttpHost, b"h"));
        assert_eq!(note, whole);
        assert_eq!(Note::read(note.bytes()), whole);
        // An unknown tag ends the note.
        assert_eq!(Note::read(&[127, 1, 0, 7]).parts().count(), 0);
        assert_eq!(Note::read(&[0, 9, 0, 7]).parts().count(), 0);
    }
}
