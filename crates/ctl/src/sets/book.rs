//! The book of a run's sets: what its file has, what commands have added and removed, and when
//! entries go. It changes the sets themselves, into which engines of this process look.

use std::fmt;
use std::io;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use weir_graph::SetDefinition;
use weir_packet::Prefix;

use super::set::{Said, Set};
use super::told::{Done, Listed, NotChanged, Numbers, Wanted};
use super::{SetChange, What};

/// A log of the changes of sets. It outlives the process that writes it, and the next one starts from it.
pub trait SetLog: Send + fmt::Debug {
    /// All lines written so far.
    ///
    /// # Errors
    ///
    /// It can't be had.
    fn read(&mut self) -> io::Result<String>;

    /// Writes some lines behind the others, or in the place of all.
    ///
    /// # Errors
    ///
    /// They can't be kept.
    fn write(&mut self, lines: &str, instead: bool) -> io::Result<()>;
}

/// The sets of a run.
#[derive(Debug)]
pub struct Book {
    sets: Vec<Set>,
    /// The number of the newest change.
    version: u64,
    log: Option<Box<dyn SetLog>>,
    /// Lines of the log.
    lines: usize,
}

/// Lines of a log beyond which it is written anew, where it says each thing many times.
const LINES: usize = 10_000;

fn now_ms() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.map_or(0, |now| now.as_millis() as u64)
}

impl Book {
    /// The sets of a file, with what `log` says was done with them before. `fixed` says why a set
    /// can't change, of those that can't.
    ///
    /// # Errors
    ///
    /// The log can't be read.
    pub fn new(
        definitions: &[SetDefinition],
        fixed: impl Fn(&str) -> Option<String>,
        log: Option<Box<dyn SetLog>>,
    ) -> io::Result<Book> {
        Book::begin(definitions, fixed, log, (Instant::now(), now_ms()))
    }

    /// The same at this moment, by both clocks.
    fn begin(
        definitions: &[SetDefinition],
        fixed: impl Fn(&str) -> Option<String>,
        log: Option<Box<dyn SetLog>>,
        now: (Instant, u64),
    ) -> io::Result<Book> {
        let sets = definitions.iter();
        let sets = sets.map(|of| Set::new(of.clone(), fixed(&of.set.name)));
        let mut book = Book {
            sets: sets.collect(),
            // Greater than any of a process before this one, and than what the sets have.
            version: (definitions.iter())
                .map(|of| of.set.set.version())
                .fold(now_ms().saturating_mul(1_000), u64::max),
            log: None,
            lines: 0,
        };
        if let Some(mut log) = log {
            let text = log.read()?;
            // The last line may be half a one: its command was not answered.
            let whole = text.rfind('\n').map_or("", |end| &text[..=end]);
            if whole.len() < text.len() {
                log.write(whole, true)?;
            }
            book.restore(whole, now);
            book.log = Some(log);
        }
        Ok(book)
    }

    /// Does again what a log says.
    fn restore(&mut self, lines: &str, (now, now_ms): (Instant, u64)) {
        for line in lines.lines() {
            self.lines += 1;
            let mut words = line.split(' ');
            let (Some(what), Some(name)) = (words.next(), words.next()) else {
                continue;
            };
            let prefix = words.next().and_then(|word| word.parse::<Prefix>().ok());
            let until: Option<u64> = words.next().and_then(|word| word.parse().ok());
            let Some(number) = self.number(name) else {
                continue;
            };
            let Some(set) = self.sets.get_mut(number) else {
                continue;
            };
            match (what, prefix) {
                ("f", _) => drop(set.flush()),
                ("r", Some(prefix)) => drop(set.remove(&prefix)),
                ("a", Some(prefix)) => {
                    let left = until.map(|ms| Duration::from_millis(ms.saturating_sub(now_ms)));
                    set.add(prefix, left.map(|left| now + left));
                }
                _ => {}
            }
        }
        // Expired entries would take the room of live ones.
        for set in &mut self.sets {
            set.expire(now);
        }
        for number in 0..self.sets.len() {
            self.settle(number);
        }
    }

    /// Has a set be what the book says.
    fn settle(&mut self, number: usize) {
        let Some(set) = self.sets.get(number) else {
            return;
        };
        let wanted = set.entries();
        let table = &set.definition.set.set;
        let is_same =
            table.len() == wanted.len() && wanted.iter().all(|entry| table.has_entry(entry));
        if is_same {
            return;
        }
        self.version += 1;
        if let Some(mut changes) = table.change() {
            // A file that has more entries now has them in the place of the last added.
            let _ = changes.become_of(&wanted);
            changes.set_version(self.version);
        }
    }

    fn number(&self, name: &str) -> Option<usize> {
        let mut sets = self.sets.iter();
        sets.position(|set| *set.definition.set.name == *name)
    }

    fn find(&self, name: &str) -> Result<usize, NotChanged> {
        self.number(name).ok_or_else(|| {
            let names = self.sets.iter();
            NotChanged::Unknown(
                names
                    .map(|set| set.definition.set.name.to_string())
                    .collect(),
            )
        })
    }

    /// Changes a set: what became of it, and the changes that other processes are told.
    ///
    /// # Errors
    ///
    /// It was not changed.
    pub fn change(
        &mut self,
        name: &str,
        wanted: &Wanted,
    ) -> Result<(Done, Vec<SetChange>), NotChanged> {
        let number = self.find(name)?;
        let Some(set) = self.sets.get_mut(number) else {
            return Err(NotChanged::Unknown(Vec::new()));
        };
        if let Some(why) = &set.fixed {
            return Err(NotChanged::Fixed(why.clone()));
        }
        set.check_room(wanted)?;
        let own = set
            .definition
            .timeout
            .map(|ms| Duration::from_millis(ms.into()));
        let timeout = match wanted.timeout {
            None => own,
            Some(timeout) => Some(timeout).filter(|timeout| !timeout.is_zero()),
        };
        self.write_down(name, wanted, timeout)?;
        let Some(set) = self.sets.get_mut(number) else {
            return Err(NotChanged::Unknown(Vec::new()));
        };
        let (mut done, mut changes) = (Done::default(), Vec::new());
        if wanted.flush {
            done.removed += set.flush();
            changes.push(What::Clear);
        }
        let gone = wanted.remove.iter().filter(|prefix| set.remove(prefix));
        let gone: Vec<Prefix> = gone.copied().collect();
        done.absent = (wanted.remove.len() - gone.len()) as u64;
        done.removed += gone.len() as u64;
        let until = timeout.map(|timeout| Instant::now() + timeout);
        let come = wanted.add.iter().filter(|prefix| set.add(**prefix, until));
        let come: Vec<Prefix> = come.copied().collect();
        done.known = (wanted.add.len() - come.len()) as u64;
        done.added = come.len() as u64;
        set.counts.added += done.added;
        set.counts.removed += done.removed;
        changes.push(What::Remove(gone));
        changes.push(What::Add(come));
        let told = self.carry_out(number, changes);
        done.entries = self.sets.get(number).map_or(0, |set| set.len() as u64);
        self.tidy();
        Ok((done, told))
    }

    /// Removes what is due: the changes that other processes are told.
    pub fn expire(&mut self, now: Instant) -> Vec<SetChange> {
        let mut told = Vec::new();
        for number in 0..self.sets.len() {
            let Some(set) = self.sets.get_mut(number) else {
                continue;
            };
            let gone = set.expire(now);
            if !gone.is_empty() {
                told.extend(self.carry_out(number, vec![What::Remove(gone)]));
            }
        }
        told
    }

    /// When the next entry is due.
    pub fn next_due(&self) -> Option<Instant> {
        let firsts = self.sets.iter().filter_map(|set| set.due.first());
        firsts.map(|(when, _)| *when).min()
    }

    /// Why the sets of a changed file can't take the place of these, a sentence each: of sets that
    /// can't change, and of those that would have too many entries.
    pub fn refusals(&self, definitions: &[SetDefinition]) -> Vec<String> {
        let pairs = self.sets.iter().zip(definitions);
        pairs.filter_map(|(set, new)| set.refusal(new)).collect()
    }

    /// Takes the sets of a changed file, which are those of before with other entries: the changes
    /// that other processes are told.
    pub fn reload(&mut self, definitions: &[SetDefinition]) -> Vec<SetChange> {
        let mut told = Vec::new();
        for (number, new) in definitions.iter().enumerate() {
            let Some(set) = self.sets.get_mut(number) else {
                break;
            };
            let (gone, come) = set.redefine(new);
            if gone.is_empty() && come.is_empty() {
                continue;
            }
            told.extend(self.carry_out(number, vec![What::Remove(gone), What::Add(come)]));
        }
        // A removal that was logged for an entry would apply again when the file has the entry again.
        self.write_anew();
        told
    }

    /// Changes the set itself.
    fn carry_out(&mut self, number: usize, whats: Vec<What>) -> Vec<SetChange> {
        let Some(set) = self.sets.get(number) else {
            return Vec::new();
        };
        // Nobody else changes it: the book is the one way to.
        let Some(mut changes) = set.definition.set.set.change() else {
            return Vec::new();
        };
        let mut told = Vec::new();
        for what in whats.into_iter().flat_map(What::in_parts) {
            match &what {
                What::Add(entries) => {
                    for entry in entries {
                        // There is room: that was looked at before.
                        let _ = changes.insert(entry);
                    }
                }
                What::Remove(entries) => {
                    for entry in entries {
                        changes.remove(entry);
                    }
                }
                _ => changes.clear(),
            }
            self.version += 1;
            changes.set_version(self.version);
            told.push(SetChange {
                set: number,
                version: self.version,
                what,
            });
        }
        told
    }

    /// All sets, in the order of the file.
    pub fn numbers(&self) -> impl Iterator<Item = Numbers<'_>> {
        self.sets.iter().map(Set::numbers)
    }

    /// Entries of a set behind `after`, at most so many, and whether there are more.
    ///
    /// # Errors
    ///
    /// There is no such set.
    pub fn list(
        &self,
        name: &str,
        after: Option<Prefix>,
        most: usize,
    ) -> Result<(Vec<Listed>, bool), NotChanged> {
        let number = self.find(name)?;
        let set = self.sets.get(number);
        let mut listed: Vec<Listed> =
            set.map_or_else(Vec::new, |set| set.listed(after).take(most + 1).collect());
        let more = listed.len() > most;
        listed.truncate(most);
        Ok((listed, more))
    }

    /// Writes down what is about to change.
    fn write_down(
        &mut self,
        name: &str,
        wanted: &Wanted,
        timeout: Option<Duration>,
    ) -> Result<(), NotChanged> {
        if self.log.is_none() {
            return Ok(());
        }
        let mut lines = String::new();
        if wanted.flush {
            lines.push_str(&format!("f {name}\n"));
        }
        for entry in &wanted.remove {
            lines.push_str(&format!("r {name} {entry}\n"));
        }
        let until = timeout.map(|timeout| now_ms().saturating_add(timeout.as_millis() as u64));
        for entry in &wanted.add {
            lines.push_str(&added_line(name, entry, until));
        }
        self.lines += usize::from(wanted.flush) + wanted.remove.len() + wanted.add.len();
        self.put(&lines, false).map_err(|error| {
            NotChanged::NotKept(format!(
                "nothing has changed: it can't be kept for a process that takes this one's place: {error}"
            ))
        })?;
        Ok(())
    }

    /// Writes the log anew where it says each thing many times.
    fn tidy(&mut self) {
        let said: usize = self.sets.iter().map(|set| set.said.len()).sum();
        if self.log.is_some() && self.lines > LINES + 4 * said {
            self.write_anew();
        }
    }

    /// Writes into the log what is said now, and no more.
    fn write_anew(&mut self) {
        let (now, now_ms) = (Instant::now(), now_ms());
        let mut lines = String::new();
        let mut count = 0;
        for set in &self.sets {
            let name = &set.definition.set.name;
            for (entry, said) in &set.said {
                count += 1;
                match said {
                    Said::Removed => lines.push_str(&format!("r {name} {entry}\n")),
                    Said::Added(until) => {
                        let left = until.map(|until| until.saturating_duration_since(now));
                        let until = left.map(|left| now_ms + left.as_millis() as u64);
                        lines.push_str(&added_line(name, entry, until));
                    }
                }
            }
        }
        // Where it can't be written, the longer one says the same.
        if self.put(&lines, true).is_ok() {
            self.lines = count;
        }
    }

    fn put(&mut self, lines: &str, instead: bool) -> io::Result<()> {
        match &mut self.log {
            Some(log) => log.write(lines, instead),
            None => Ok(()),
        }
    }
}

fn added_line(name: &str, entry: &Prefix, until: Option<u64>) -> String {
    match until {
        Some(until) => format!("a {name} {entry} {until}\n"),
        None => format!("a {name} {entry}\n"),
    }
}

#[cfg(test)]
#[path = "book_tests.rs"]
mod tests;
