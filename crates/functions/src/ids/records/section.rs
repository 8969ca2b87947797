//! A section of a DNS response: the records that belong together.

use weir_dissect::{Field, Number};
use weir_nf::Event;

use super::dns_names::{name_of_type, write_type};
use super::members::list;
use super::note::{Note, Part};

/// The records of a section.
pub(super) struct Section<'n> {
    note: &'n Note,
    name: Field,
    data: Field,
    /// Of each record.
    kinds: Vec<i64>,
    ttls: Vec<i64>,
}

/// One data of a record, of which `TXT` may have several.
struct Entry<'n> {
    owner: &'n [u8],
    kind: Option<i64>,
    ttl: Option<i64>,
    data: &'n [u8],
}

impl Entry<'_> {
    /// True where the data is known; that of `TXT` may be empty.
    fn is_shown(&self) -> bool {
        const TXT: i64 = 16;
        !self.data.is_empty() || self.kind == Some(TXT)
    }
}

impl<'n> Section<'n> {
    pub(super) fn answers(note: &'n Note) -> Section<'n> {
        let fields = (Field::DnsAnswerName, Field::DnsAnswerData);
        let numbers = (Number::DnsAnswerType, Number::DnsAnswerTtl);
        Section::of(note, fields, numbers)
    }

    pub(super) fn authorities(note: &'n Note) -> Section<'n> {
        let fields = (Field::DnsAuthorityName, Field::DnsAuthorityData);
        let numbers = (Number::DnsAuthorityType, Number::DnsAuthorityTtl);
        Section::of(note, fields, numbers)
    }

    fn of(
        note: &'n Note,
        (name, data): (Field, Field),
        (kind, ttl): (Number, Number),
    ) -> Section<'n> {
        Section {
            note,
            name,
            data,
            kinds: note.numbers(kind).collect(),
            ttls: note.numbers(ttl).collect(),
        }
    }

    fn entries(&self) -> impl Iterator<Item = Entry<'n>> {
        let mut owner: &[u8] = &[];
        let mut number = 0;
        self.note.parts().filter_map(move |part| match part {
            Part::Value(field, bytes) if field == self.name => {
                owner = bytes;
                number += 1;
                None
            }
            Part::Value(field, data) if field == self.data && number > 0 => {
                let of = |list: &[i64]| list.get(number - 1).copied();
                Some(Entry {
                    owner,
                    kind: of(&self.kinds),
                    ttl: of(&self.ttls),
                    data,
                })
            }
            _ => None,
        })
    }

    /// An array of all records; nothing where there is none.
    pub(super) fn write(&self, name: &str, event: &mut Event<'_>) {
        let mut entries = self.entries().peekable();
        if entries.peek().is_none() {
            return;
        }
        event.array(name);
        for entry in entries {
            event.element().bytes("rrname", entry.owner);
            if let Some(kind) = entry.kind {
                write_type(event, kind);
            }
            if let Some(ttl) = entry.ttl {
                event.number("ttl", ttl.max(0) as u64);
            }
            if entry.is_shown() {
                event.bytes("rdata", entry.data);
            }
            event.end();
        }
        event.end();
    }

    /// The data of all records of one type together, types in the order in which they come.
    pub(super) fn write_grouped(&self, event: &mut Event<'_>) {
        let known = || {
            let entries = self.entries().filter(Entry::is_shown);
            entries.filter_map(|entry| Some((name_of_type(entry.kind?)?, entry.data)))
        };
        let mut names: Vec<&str> = Vec::new();
        for (name, _) in known() {
            if !names.contains(&name) {
                names.push(name);
            }
        }
        if names.is_empty() {
            return;
        }
        event.object("grouped");
        for name in names {
            let data = known().filter(|(of, _)| *of == name);
            list(event, name, data.map(|(_, data)| data));
        }
        event.end();
    }
}
