use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use proptest::prelude::*;
use weir_nf::NamedSet;
use weir_packet::AddressSet;

use super::*;

fn prefixes(texts: &[&str]) -> Vec<Prefix> {
    texts.iter().map(|text| text.parse().unwrap()).collect()
}

fn host(number: u8) -> Prefix {
    Prefix::new([192, 0, 2, number].into(), 32).unwrap()
}

fn definition(entries: &BTreeSet<Prefix>, most: usize, set: Option<NamedSet>) -> SetDefinition {
    let set = set.unwrap_or_else(|| NamedSet {
        name: "blocked".into(),
        set: Arc::new(AddressSet::new(most, 1)),
    });
    SetDefinition {
        file: None,
        entries: entries.iter().copied().collect(),
        most,
        timeout: None,
        set,
    }
}

fn book(entries: &BTreeSet<Prefix>, most: usize, log: Option<Kept>) -> (Book, NamedSet) {
    book_at(entries, most, log, Duration::ZERO)
}

/// The book of a process that starts so much later.
fn book_at(
    entries: &BTreeSet<Prefix>,
    most: usize,
    log: Option<Kept>,
    later: Duration,
) -> (Book, NamedSet) {
    let definition = definition(entries, most, None);
    let set = definition.set.clone();
    let mut changes = set.set.change().unwrap();
    let sorted: Vec<Prefix> = entries.iter().copied().collect();
    changes.become_of(&sorted).unwrap();
    drop(changes);
    let log = log.map(|log| Box::new(log) as Box<dyn SetLog>);
    let now = (Instant::now() + later, now_ms() + later.as_millis() as u64);
    (Book::begin(&[definition], |_| None, log, now).unwrap(), set)
}

/// A log that outlives its book.
#[derive(Clone, Debug, Default)]
struct Kept(Arc<Mutex<String>>);

impl SetLog for Kept {
    fn read(&mut self) -> io::Result<String> {
        Ok(self.0.lock().unwrap().clone())
    }

    fn write(&mut self, lines: &str, instead: bool) -> io::Result<()> {
        let mut text = self.0.lock().unwrap();
        if instead {
            text.clear();
        }
        text.push_str(lines);
        Ok(())
    }
}

fn in_set(set: &NamedSet) -> BTreeSet<Prefix> {
    set.set.entries().collect()
}

fn listed(book: &Book) -> BTreeSet<Prefix> {
    let mut all = BTreeSet::new();
    let mut after = None;
    loop {
        let (some, more) = book.list("blocked", after, 3).unwrap();
        after = some.last().map(|entry| entry.prefix);
        all.extend(some.into_iter().map(|entry| entry.prefix));
        if !more {
            return all;
        }
    }
}

/// Entries that expired before a process died take no room from live ones.
#[test]
fn entries_that_are_over_do_not_come_back() {
    let log = Kept::default();
    let soon = now_ms() + 20;
    let mut lines = String::new();
    for number in 0..4 {
        lines.push_str(&added_line("blocked", &host(number), Some(soon)));
    }
    for number in 4..8 {
        lines.push_str(&added_line("blocked", &host(number), None));
    }
    // The process died while it wrote the last one.
    lines.push_str("a blocked 192.0.2.9");
    log.0.lock().unwrap().push_str(&lines);
    std::thread::sleep(Duration::from_millis(30));
    let (mut next, set) = book(&BTreeSet::new(), 4, Some(log.clone()));
    let live: BTreeSet<Prefix> = (4..8).map(host).collect();
    assert_eq!(in_set(&set), live);
    assert_eq!(listed(&next), live);
    let wanted = Wanted {
        flush: false,
        remove: vec![host(4)],
        add: Vec::new(),
        timeout: None,
    };
    next.change("blocked", &wanted).unwrap();
    // The next line is one of its own, and not the end of the half one.
    assert!(
        log.0
            .lock()
            .unwrap()
            .ends_with("\nr blocked 192.0.2.4/32\n")
    );
    let (_, set) = book(&BTreeSet::new(), 4, Some(log));
    assert_eq!(in_set(&set).len(), 3);
}

#[derive(Clone, Debug)]
enum Step {
    Change {
        flush: bool,
        remove: Vec<u8>,
        add: Vec<u8>,
        timeout: Option<u64>,
    },
    Expire(u64),
    Reload(BTreeSet<u8>),
    /// Another process takes the place of this one.
    Next,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let some = || prop::collection::vec(0..12u8, 0..4);
    let timeout = prop_oneof![3 => Just(None), 1 => (1..9u64).prop_map(Some)];
    let change = (prop::bool::weighted(0.05), some(), some(), timeout);
    let step = prop_oneof![
        10 => change.prop_map(|(flush, remove, add, timeout)| Step::Change { flush, remove, add, timeout }),
        2 => (1..9u64).prop_map(Step::Expire),
        2 => prop::collection::btree_set(0..12u8, 0..8).prop_map(Step::Reload),
        1 => Just(Step::Next),
    ];
    prop::collection::vec(step, 0..40)
}

/// What is said of an entry, as one would write it down.
#[derive(Clone, Copy, PartialEq)]
enum Model {
    Added(Option<u64>),
    Removed,
}

fn is_in(file: &BTreeSet<u8>, said: &BTreeMap<u8, Model>, n: u8) -> bool {
    match said.get(&n) {
        Some(Model::Added(_)) => true,
        Some(Model::Removed) => false,
        None => file.contains(&n),
    }
}

/// What is said after a change.
fn model(
    file: &BTreeSet<u8>,
    said: &BTreeMap<u8, Model>,
    (flush, remove): (bool, &[u8]),
    (add, until): (&[u8], Option<u64>),
) -> BTreeMap<u8, Model> {
    let mut next = said.clone();
    if flush {
        next = file.iter().map(|n| (*n, Model::Removed)).collect();
    }
    for n in remove {
        next.remove(n);
        if file.contains(n) {
            next.insert(*n, Model::Removed);
        }
    }
    next.extend(add.iter().map(|n| (*n, Model::Added(until))));
    next
}

proptest! {
    /// Whatever is asked for, the set, its copies in other processes, what is listed and what the
    /// next process has are what the file and the commands say.
    #[test]
    fn all_say_the_same(steps in steps(), first in prop::collection::btree_set(0..12u8, 0..8)) {
        const MOST: usize = 9;
        const HOUR: u64 = 3_600;
        let of = |numbers: &BTreeSet<u8>| numbers.iter().map(|n| host(*n)).collect::<BTreeSet<_>>();
        let kept = Kept::default();
        let (mut file, mut said) = (first.clone(), BTreeMap::<u8, Model>::new());
        let (mut book, mut set) = book(&of(&file), MOST, Some(kept.clone()));
        let (_, copy) = self::book(&of(&file), MOST, None);
        let mut copies = super::super::SetCopies::new([copy.clone()].into_iter().collect());
        // Time-outs are hours, so that none is over but by `Expire`.
        let (start, mut hour) = (Instant::now(), 0u64);
        for step in steps {
            let mut told = Vec::new();
            match step {
                Step::Change { flush, remove, add, timeout } => {
                    let next = model(&file, &said, (flush, &remove), (&add, timeout.map(|t| hour + t)));
                    let count = (0..12).filter(|n| is_in(&file, &next, *n)).count();
                    let wanted = Wanted {
                        flush,
                        remove: remove.iter().map(|n| host(*n)).collect(),
                        add: add.iter().map(|n| host(*n)).collect(),
                        // Those of later hours are later.
                        timeout: timeout.map(|after| Duration::from_secs((hour + after) * HOUR)),
                    };
                    match book.change("blocked", &wanted) {
                        Ok((done, changes)) => {
                            prop_assert!(count <= MOST);
                            prop_assert_eq!(done.entries, count as u64);
                            said = next;
                            told = changes;
                        }
                        Err(why) => {
                            let is_full = matches!(why, NotChanged::Full { .. });
                            prop_assert!(is_full && count > MOST, "{:?}", why);
                        }
                    }
                }
                Step::Expire(hours) => {
                    hour += hours;
                    said.retain(|_, said| !matches!(said, Model::Added(Some(until)) if *until <= hour));
                    told = book.expire(start + Duration::from_secs(hour * HOUR + 60));
                }
                Step::Reload(new) => {
                    let mut next = said.clone();
                    next.retain(|n, said| *said != Model::Removed || new.contains(n));
                    let count = (0..12).filter(|n| is_in(&new, &next, *n)).count();
                    let definition = definition(&of(&new), MOST, Some(set.clone()));
                    let refused = book.refusals(std::slice::from_ref(&definition));
                    prop_assert_eq!(refused.is_empty(), count <= MOST || new == file, "{:?}", refused);
                    if refused.is_empty() {
                        (file, said) = (new, next);
                        told = book.reload(&[definition]);
                    }
                }
                Step::Next => {
                    let later = Duration::from_secs(hour * HOUR + 60);
                    (book, set) = book_at(&of(&file), MOST, Some(kept.clone()), later);
                    copies.begin();
                    // It may have outlived the one before.
                    told = SetChange::whole(0, &set.set);
                    told.extend(book.expire(start + Duration::from_secs(hour * HOUR + 60)));
                }
            }
            for change in told {
                prop_assert_eq!(copies.take(change), Ok(()));
            }
            let wanted: BTreeSet<Prefix> =
                (0..12).filter(|n| is_in(&file, &said, *n)).map(host).collect();
            prop_assert_eq!(in_set(&set), wanted.clone());
            prop_assert_eq!(in_set(&copy), wanted.clone());
            prop_assert_eq!(listed(&book), wanted);
        }
    }
}

#[test]
fn a_log_that_says_things_often_is_written_anew() {
    let kept = Kept::default();
    let (mut book, _) = book(&BTreeSet::new(), 9, Some(kept.clone()));
    let add = |texts: &[&str]| Wanted {
        add: prefixes(texts),
        ..Wanted::default()
    };
    for _ in 0..LINES {
        book.change("blocked", &add(&["192.0.2.1", "::1"])).unwrap();
    }
    let lines = kept.0.lock().unwrap().lines().count();
    assert!(lines < LINES + 20, "{lines}");
    // Half a line was not answered for.
    kept.0.lock().unwrap().push_str("a blocked 192.0.2.2");
    let (next, set) = self::book(&BTreeSet::new(), 9, Some(kept));
    assert_eq!(
        in_set(&set),
        prefixes(&["192.0.2.1", "::1"]).into_iter().collect()
    );
    assert_eq!(next.numbers().next().unwrap().counts.entries, 2);
}
