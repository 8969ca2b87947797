//! Changes of sets of addresses, and how copies of a set in other processes follow them
//! (docs/sets.md).
//!
//! The main process changes its sets, and tells each other process every change with the number
//! that the set's contents have after it. A process that has just come is told what is in them.

mod book;
mod set;
mod told;

use std::net::IpAddr;

use weir_nf::Sets;
use weir_packet::{AddressSet, Prefix, SetFull};

pub use book::{Book, SetLog};
pub use told::{Done, Listed, NotChanged, Numbers, SetCounts, Wanted};

/// Most entries that are told at once.
const AT_ONCE: usize = 1_000;

/// A change of a set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SetChange {
    /// Number of the set in the file.
    pub set: usize,
    /// The number of its contents from here on.
    pub version: u64,
    /// What changes.
    pub what: What,
}

/// What changes in a set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum What {
    /// These come.
    Add(Vec<Prefix>),
    /// These go.
    Remove(Vec<Prefix>),
    /// All go.
    Clear,
    /// Nothing has changed since it was loaded.
    AsLoaded,
    /// A part of what is in it; with `true` the last one: there is nothing else.
    Whole(Vec<Prefix>, bool),
}

impl What {
    /// The same in parts that fit a message; none where nothing changes.
    fn in_parts(self) -> Vec<What> {
        let cut = |entries: Vec<Prefix>, of: fn(Vec<Prefix>) -> What| {
            let parts = entries.chunks(AT_ONCE);
            parts.map(|part| of(part.to_vec())).collect()
        };
        match self {
            What::Add(entries) => cut(entries, What::Add),
            What::Remove(entries) => cut(entries, What::Remove),
            other => vec![other],
        }
    }

    fn parts(&self) -> (u8, &[Prefix]) {
        match self {
            What::Add(entries) => (1, entries),
            What::Remove(entries) => (2, entries),
            What::Clear => (3, &[]),
            What::AsLoaded => (4, &[]),
            What::Whole(entries, false) => (5, entries),
            What::Whole(entries, true) => (6, entries),
        }
    }

    fn of(kind: u8, entries: Vec<Prefix>) -> Option<What> {
        Some(match kind {
            1 => What::Add(entries),
            2 => What::Remove(entries),
            3 => What::Clear,
            4 => What::AsLoaded,
            5 | 6 => What::Whole(entries, kind == 6),
            _ => return None,
        })
    }
}

impl SetChange {
    /// The change as text, for a message.
    pub fn encode(&self) -> String {
        let (kind, entries) = self.what.parts();
        let mut text = format!("{} {} {kind}", self.set, self.version);
        for entry in entries {
            text.push(' ');
            // The shortest text that says it: numbers.
            match entry.address() {
                IpAddr::V4(a) => push(&mut text, format_args!("4{:x}", u32::from(a))),
                IpAddr::V6(a) => push(&mut text, format_args!("6{:x}", u128::from(a))),
            }
            push(&mut text, format_args!("/{}", entry.length()));
        }
        text
    }

    /// The change of a text; `None` where it makes no sense.
    pub fn decode(text: &str) -> Option<SetChange> {
        let mut words = text.split(' ');
        let set = words.next()?.parse().ok()?;
        let version = words.next()?.parse().ok()?;
        let kind = words.next()?.parse().ok()?;
        let entries = words.map(|word| {
            let (number, length) = word.split_once('/')?;
            let address: IpAddr = match number.split_at_checked(1)? {
                ("4", digits) => {
                    std::net::Ipv4Addr::from(u32::from_str_radix(digits, 16).ok()?).into()
                }
                ("6", digits) => {
                    std::net::Ipv6Addr::from(u128::from_str_radix(digits, 16).ok()?).into()
                }
                _ => return None,
            };
            Prefix::new(address, length.parse().ok()?).ok()
        });
        let what = What::of(kind, entries.collect::<Option<_>>()?)?;
        Some(SetChange { set, version, what })
    }

    /// What a process that has just come is told of a set first.
    pub fn first(set: usize, of: &AddressSet) -> Vec<SetChange> {
        match of.version() {
            0 => vec![SetChange {
                set,
                version: 0,
                what: What::AsLoaded,
            }],
            _ => SetChange::whole(set, of),
        }
    }

    /// All that is in a set. What changes meanwhile may be left out: it is told later, since it has a
    /// greater number.
    pub fn whole(set: usize, of: &AddressSet) -> Vec<SetChange> {
        let version = of.version();
        let entries: Vec<Prefix> = of.entries().collect();
        let mut parts: Vec<SetChange> = entries
            .chunks(AT_ONCE)
            .map(|part| SetChange {
                set,
                version,
                what: What::Whole(part.to_vec(), false),
            })
            .collect();
        parts.push(SetChange {
            set,
            version,
            what: What::Whole(Vec::new(), true),
        });
        parts
    }
}

fn push(text: &mut String, more: std::fmt::Arguments<'_>) {
    // Writing to a `String` can't fail.
    let _ = std::fmt::Write::write_fmt(text, more);
}

/// The sets of a process that are copies of the main process's.
#[derive(Debug)]
pub struct SetCopies {
    sets: Sets,
    /// Parts that have come of a set's contents.
    parts: Vec<Vec<Prefix>>,
    /// Which have been told since the last time that all began anew.
    told: Vec<bool>,
}

impl SetCopies {
    /// Copies, as they were loaded.
    pub fn new(sets: Sets) -> SetCopies {
        let count = sets.iter().count();
        SetCopies {
            sets,
            parts: vec![Vec::new(); count],
            told: vec![false; count],
        }
    }

    /// Another main process tells of them, or the same one anew.
    pub fn begin(&mut self) {
        self.parts.iter_mut().for_each(Vec::clear);
        self.told.fill(false);
    }

    /// True once all are what the main process's are.
    pub fn are_told(&self) -> bool {
        self.told.iter().all(|told| *told)
    }

    /// Changes a copy.
    ///
    /// # Errors
    ///
    /// It can't become what the main process's is.
    pub fn take(&mut self, change: SetChange) -> Result<(), String> {
        let SetChange { set, version, what } = change;
        let known = self.sets.get(set).zip(self.parts.get_mut(set));
        let (named, parts) = known.ok_or("there is no such set")?;
        let is_told = self.told.get_mut(set).ok_or("there is no such set")?;
        let copy = &named.set;
        let mut changes = copy.change().ok_or("it is changed by two at once")?;
        let full = |SetFull| format!("@{} is full: it is another one here", named.name);
        // What was there already when all was told.
        let is_old = version <= copy.version();
        match what {
            What::AsLoaded if copy.version() != 0 => {
                return Err("it has changed since it was loaded".to_owned());
            }
            What::AsLoaded => *is_told = true,
            What::Whole(entries, last) => {
                parts.extend(entries);
                if !last {
                    return Ok(());
                }
                let mut entries = std::mem::take(parts);
                entries.sort_unstable();
                entries.dedup();
                changes.become_of(&entries).map_err(full)?;
                changes.set_version(version);
                *is_told = true;
            }
            What::Add(_) | What::Remove(_) | What::Clear if is_old => {}
            What::Add(entries) => {
                let mut entries = entries.iter();
                entries.try_for_each(|entry| changes.insert(entry).map(drop).map_err(full))?;
                changes.set_version(version);
            }
            What::Remove(entries) => {
                for entry in &entries {
                    changes.remove(entry);
                }
                changes.set_version(version);
            }
            What::Clear => {
                changes.clear();
                changes.set_version(version);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use weir_nf::NamedSet;

    use super::*;

    fn prefixes(texts: &[&str]) -> Vec<Prefix> {
        texts.iter().map(|text| text.parse().unwrap()).collect()
    }

    fn sets() -> Sets {
        let named = NamedSet {
            name: "blocked".into(),
            set: Arc::new(AddressSet::new(10, 1)),
        };
        [named].into_iter().collect()
    }

    fn shown(sets: &Sets) -> Vec<String> {
        let set = &sets.get(0).unwrap().set;
        let mut entries: Vec<Prefix> = set.entries().collect();
        entries.sort_unstable();
        entries.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_change_is_read_as_it_was_written() {
        let entries = prefixes(&[
            "10.0.0.0/8",
            "192.0.2.7",
            "0.0.0.0/0",
            "2001:db8::/32",
            "::/0",
        ]);
        for what in [
            What::Add(entries.clone()),
            What::Remove(Vec::new()),
            What::Clear,
            What::AsLoaded,
            What::Whole(entries.clone(), false),
            What::Whole(entries, true),
        ] {
            let change = SetChange {
                set: 3,
                version: u64::MAX,
                what,
            };
            assert_eq!(SetChange::decode(&change.encode()), Some(change));
        }
        for wrong in [
            "",
            "0",
            "0 0",
            "0 0 9",
            "0 0 1 5aa/3",
            "0 0 1 4",
            "0 0 1 4a/33",
            "0 0 1 é",
        ] {
            assert_eq!(SetChange::decode(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_copy_becomes_what_the_other_is() {
        let (ours, theirs) = (sets(), sets());
        let mut copies = SetCopies::new(theirs.clone());
        let tell = |copies: &mut SetCopies, change: &SetChange| {
            copies.take(SetChange::decode(&change.encode()).unwrap())
        };
        for change in SetChange::first(0, &ours.get(0).unwrap().set) {
            assert_eq!(tell(&mut copies, &change), Ok(()));
        }
        assert!(copies.are_told());
        let at = |version, what| SetChange {
            set: 0,
            version,
            what,
        };
        let some = prefixes(&["10.0.0.0/8", "192.0.2.7"]);
        assert_eq!(tell(&mut copies, &at(5, What::Add(some.clone()))), Ok(()));
        assert_eq!(shown(&theirs), ["10.0.0.0/8", "192.0.2.7/32"]);
        // Told again, and out of date.
        assert_eq!(tell(&mut copies, &at(5, What::Clear)), Ok(()));
        assert_eq!(tell(&mut copies, &at(4, What::Remove(some))), Ok(()));
        assert_eq!(shown(&theirs).len(), 2);
        // Another main process does not know of it.
        copies.begin();
        assert!(!copies.are_told());
        assert!(tell(&mut copies, &at(0, What::AsLoaded)).is_err());
        let mut change = ours.get(0).unwrap().set.change().unwrap();
        change.insert(&prefixes(&["2001:db8::1"])[0]).unwrap();
        change.set_version(2);
        for change in SetChange::whole(0, &ours.get(0).unwrap().set) {
            assert_eq!(tell(&mut copies, &change), Ok(()));
        }
        assert!(copies.are_told());
        assert_eq!(shown(&theirs), ["2001:db8::1/128"]);
        assert!(tell(&mut copies, &at(9, What::Remove(Vec::new()))).is_ok());
        assert!(
            copies
                .take(SetChange {
                    set: 1,
                    ..at(9, What::Clear)
                })
                .is_err()
        );
    }
}
