//! One set of the book: what its file has, and what commands have said of entries.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::time::Instant;

use weir_graph::SetDefinition;
use weir_packet::Prefix;

use super::told::{Listed, NotChanged, Numbers, SetCounts, Wanted};

/// What commands have said of an entry; of others the file says whether they are in the set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Said {
    /// It is there, until then.
    Added(Option<Instant>),
    /// It is not, though the file has it.
    Removed,
}

#[derive(Debug)]
pub(super) struct Set {
    pub(super) definition: SetDefinition,
    pub(super) said: BTreeMap<Prefix, Said>,
    /// Entries that go, in the order in which they do.
    pub(super) due: BTreeSet<(Instant, Prefix)>,
    /// Entries of the file that are not in the set, and added ones that the file has not.
    removed: usize,
    extra: usize,
    pub(super) counts: SetCounts,
    /// Why it can't change.
    pub(super) fixed: Option<String>,
}

impl Set {
    pub(super) fn new(definition: SetDefinition, fixed: Option<String>) -> Set {
        Set {
            definition,
            said: BTreeMap::new(),
            due: BTreeSet::new(),
            removed: 0,
            extra: 0,
            counts: SetCounts::default(),
            fixed,
        }
    }

    fn in_file(&self, prefix: &Prefix) -> bool {
        self.definition.entries.binary_search(prefix).is_ok()
    }

    /// True where the entry is in the set.
    fn has(&self, prefix: &Prefix) -> bool {
        match self.said.get(prefix) {
            Some(Said::Added(_)) => true,
            Some(Said::Removed) => false,
            None => self.in_file(prefix),
        }
    }

    /// Number of entries.
    pub(super) fn len(&self) -> usize {
        self.definition.entries.len() - self.removed + self.extra
    }

    /// Notes what is said of an entry from here on.
    fn say(&mut self, prefix: &Prefix, said: Option<Said>) {
        let in_file = self.in_file(prefix);
        let before = match said {
            Some(said) => self.said.insert(*prefix, said),
            None => self.said.remove(prefix),
        };
        if let Some(Said::Added(Some(when))) = before {
            self.due.remove(&(when, *prefix));
        }
        if let Some(Said::Added(Some(when))) = said {
            self.due.insert((when, *prefix));
        }
        let count = |said: Option<Said>| match said {
            Some(Said::Removed) => (1, 0),
            Some(Said::Added(_)) if !in_file => (0, 1),
            _ => (0, 0),
        };
        let ((was_removed, was_extra), (removed, extra)) = (count(before), count(said));
        self.removed = self.removed + removed - was_removed;
        self.extra = self.extra + extra - was_extra;
    }

    /// Adds an entry. False where it was there.
    pub(super) fn add(&mut self, prefix: Prefix, until: Option<Instant>) -> bool {
        let is_new = !self.has(&prefix);
        self.say(&prefix, Some(Said::Added(until)));
        is_new
    }

    /// Removes an entry. False where it was not there.
    pub(super) fn remove(&mut self, prefix: &Prefix) -> bool {
        let was_there = self.has(prefix);
        let said = self.in_file(prefix).then_some(Said::Removed);
        self.say(prefix, said);
        was_there
    }

    /// Removes all entries: how many there were.
    pub(super) fn flush(&mut self) -> u64 {
        let count = self.len();
        self.due.clear();
        let all = self.definition.entries.iter();
        self.said = all.map(|entry| (*entry, Said::Removed)).collect();
        (self.removed, self.extra) = (self.said.len(), 0);
        count as u64
    }

    /// Removes what is due: what is no longer in the set.
    pub(super) fn expire(&mut self, now: Instant) -> Vec<Prefix> {
        let mut gone = Vec::new();
        while let Some(&(when, prefix)) = self.due.first() {
            if when > now {
                break;
            }
            self.say(&prefix, None);
            // The file may have it as well.
            if !self.in_file(&prefix) {
                gone.push(prefix);
            }
            self.counts.expired += 1;
        }
        gone
    }

    /// Whether there is room for what comes.
    pub(super) fn check_room(&mut self, wanted: &Wanted) -> Result<(), NotChanged> {
        let most = self.definition.most;
        let entries = match wanted.flush {
            true => 0,
            false => self.len(),
        };
        if entries + wanted.add.len() <= most {
            return Ok(());
        }
        let gone: BTreeSet<&Prefix> = wanted.remove.iter().collect();
        let stays = |prefix: &Prefix| !wanted.flush && self.has(prefix) && !gone.contains(prefix);
        let left = match wanted.flush {
            true => 0,
            false => entries - gone.iter().filter(|prefix| self.has(prefix)).count(),
        };
        let come: BTreeSet<&Prefix> = wanted.add.iter().filter(|prefix| !stays(prefix)).collect();
        if left + come.len() <= most {
            return Ok(());
        }
        let more = come.len() as u64;
        self.counts.refused += more;
        Err(NotChanged::Full {
            more,
            entries: entries as u64,
            most: most as u64,
        })
    }

    /// Why the set can't become one of a changed file.
    pub(super) fn refusal(&self, new: &SetDefinition) -> Option<String> {
        let name = &self.definition.set.name;
        if self.definition.entries == new.entries {
            return None;
        }
        if let Some(why) = &self.fixed {
            return Some(format!("set `{name}`: {why}"));
        }
        let has = |prefix: &Prefix| new.entries.binary_search(prefix).is_ok();
        let said = self.said.iter();
        let (removed, extra) = said.fold((0, 0), |(removed, extra), (prefix, said)| match said {
            Said::Removed => (removed + usize::from(has(prefix)), extra),
            Said::Added(_) => (removed, extra + usize::from(!has(prefix))),
        });
        let count = new.entries.len() - removed + extra;
        (count > new.most).then(|| {
            format!(
                "set `{name}`: with the {extra} entries that were added at run time it would have {count}, \
                 and may have {}: remove some, or restart with a greater `most`",
                new.most
            )
        })
    }

    /// Takes the entries of a changed file: those that go, and those that come.
    pub(super) fn redefine(&mut self, new: &SetDefinition) -> (Vec<Prefix>, Vec<Prefix>) {
        let before = std::mem::replace(&mut self.definition, new.clone());
        let (mut gone, mut come) = (Vec::new(), Vec::new());
        if before.entries == self.definition.entries {
            return (gone, come);
        }
        for prefix in before.entries.iter() {
            if self.in_file(prefix) {
                continue;
            }
            match self.said.get(prefix) {
                None => gone.push(*prefix),
                // It is gone already, and nobody has to remember it.
                Some(Said::Removed) => drop(self.said.remove(prefix)),
                Some(Said::Added(_)) => {}
            }
        }
        for prefix in self.definition.entries.iter() {
            let is_new = before.entries.binary_search(prefix).is_err();
            if is_new && !self.said.contains_key(prefix) {
                come.push(*prefix);
            }
        }
        let said = self.said.iter();
        let removed = said.clone().filter(|(_, said)| **said == Said::Removed);
        let added = said.filter(|(prefix, said)| **said != Said::Removed && !self.in_file(prefix));
        (self.removed, self.extra) = (removed.count(), added.count());
        (gone, come)
    }

    /// The entries, sorted.
    pub(super) fn entries(&self) -> Vec<Prefix> {
        self.listed(None).map(|listed| listed.prefix).collect()
    }

    /// The entries behind one, in order.
    pub(super) fn listed(&self, after: Option<Prefix>) -> impl Iterator<Item = Listed> + '_ {
        let file = &self.definition.entries;
        let from = after.map_or(0, |after| file.partition_point(|entry| *entry <= after));
        let mut file = file.get(from..).unwrap_or(&[]).iter().peekable();
        let behind = (
            after.map_or(Bound::Unbounded, Bound::Excluded),
            Bound::Unbounded,
        );
        let mut said = self.said.range(behind).peekable();
        let now = Instant::now();
        std::iter::from_fn(move || {
            loop {
                let of_file = file.peek().copied();
                let of_said = said.peek().map(|(prefix, _)| *prefix);
                let next = match (of_file, of_said) {
                    (Some(a), Some(b)) => a.min(b),
                    (a, b) => a.or(b)?,
                };
                let in_file = file.next_if(|entry| *entry == next).is_some();
                let known = said.next_if(|(prefix, _)| *prefix == next);
                let (added, until) = match known.map(|(_, said)| said) {
                    Some(Said::Removed) => continue,
                    Some(Said::Added(until)) => (true, *until),
                    None => (false, None),
                };
                return Some(Listed {
                    prefix: *next,
                    in_file,
                    added,
                    left: until.map(|until| until.saturating_duration_since(now)),
                });
            }
        })
    }

    pub(super) fn numbers(&self) -> Numbers<'_> {
        Numbers {
            definition: &self.definition,
            counts: SetCounts {
                entries: self.len() as u64,
                ..self.counts.clone()
            },
            removed_from_file: self.removed as u64,
            timed: self.due.len() as u64,
            fixed: self.fixed.as_deref(),
        }
    }
}
