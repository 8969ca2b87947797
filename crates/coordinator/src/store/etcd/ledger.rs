//! Reports of ledgers on their way to etcd.
//!
//! Agents report every two seconds; etcd keeps each change of a key until it is compacted. So reports are
//! gathered here, and written a minute later, an hour's rows of a ledger and tenant in one value of 1 MiB at
//! most.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use prost::Message as _;
use tokio::sync::Mutex;
use weir_api::v1;

use crate::store::kept::{KEPT_HOURS, PRUNE, news, row};

use super::link::{Link, PART, PARTS_AT_A_TIME, delete, put};
use super::term::Term;
use super::wire::{KeyValue, RequestOp};

/// Writes in one transaction: etcd takes 128.
const MOST_WRITES: usize = 64;
/// Interval in which reports are written. Agents repeat what is not written yet to the coordinator that
/// leads next.
const FLUSH: Duration = Duration::from_secs(60);

/// A composition and an hour.
type Hour = (String, u64);
/// A key in etcd, with its hour.
type Place = (Hour, Vec<u8>);

/// The rows of a key in etcd.
#[derive(Debug, Default)]
struct Value {
    rows: BTreeMap<String, v1::LedgerEntry>,
    /// Octets of the encoded rows, if all their numbers were the largest ones.
    octets: usize,
}

/// Rows that were read or reported.
#[derive(Debug, Default)]
struct Rows {
    /// By composition and hour, then by key in etcd, then by row.
    hours: BTreeMap<Hour, BTreeMap<Vec<u8>, Value>>,
    /// Keys whose rows are not written yet.
    changed: BTreeSet<Place>,
    /// The newest hour of all rows.
    newest: u64,
    /// The newest hour when old ones were removed last.
    pruned: u64,
}

impl Rows {
    /// Adds a row of a key; true where it is new, or has a greater number. Rows that were `read` have no bound.
    ///
    /// # Errors
    ///
    /// The rows of the key no longer fit into one value: this one is not added.
    fn add(&mut self, key: &[u8], entry: &v1::LedgerEntry, read: bool) -> Result<bool, String> {
        let keys = self.hours.entry(hour_of(entry)).or_default();
        let value = keys.entry(key.to_vec()).or_default();
        let name = row(entry);
        let Some(now) = news(value.rows.get(&name), entry) else {
            return Ok(false);
        };
        if !value.rows.contains_key(&name) {
            let octets = value.octets + most_octets(&now);
            if octets > PART && !read {
                return Err(format!(
                    "a ledger of composition `{}` has more than {PART} octets of rows for tenant `{}` in one \
                     hour: this one is not kept",
                    entry.composition, entry.tenant
                ));
            }
            value.octets = octets;
        }
        value.rows.insert(name, now);
        Ok(true)
    }

    /// Adds a row that was reported: where it is new, its key is to be written.
    fn report(&mut self, key: Vec<u8>, entry: &v1::LedgerEntry) -> Result<(), String> {
        if self.add(&key, entry, false)? {
            self.newest = self.newest.max(entry.hour);
            self.changed.insert((hour_of(entry), key));
        }
        Ok(())
    }

    /// The first and the last hour that these entries name and that is not known, for each composition.
    fn unknown(&self, entries: &[v1::LedgerEntry]) -> BTreeMap<String, (u64, u64)> {
        let mut unknown: BTreeMap<String, (u64, u64)> = BTreeMap::new();
        for (name, hour) in entries.iter().map(hour_of) {
            if self.hours.contains_key(&(name.clone(), hour)) {
                continue;
            }
            let (first, last) = unknown.entry(name).or_insert((hour, hour));
            (*first, *last) = ((*first).min(hour), (*last).max(hour));
        }
        unknown
    }

    /// Takes over what etcd has of hours that are not known; those of `entries` are known then. Returns what is wrong
    /// with a value that can't be read: reports of agents replace it.
    fn learn(&mut self, found: &[KeyValue], entries: &[v1::LedgerEntry]) -> Option<String> {
        let mut wrong = None;
        let mut read: Vec<(&[u8], v1::LedgerEntry)> = Vec::new();
        for found in found {
            match written(found) {
                Ok(rows) => read.extend(rows.into_iter().map(|row| (found.key.as_slice(), row))),
                Err(why) => wrong = Some(why),
            }
        }
        // Known hours may have news, which this must not hide; those of one read belong together.
        read.retain(|(_, row)| !self.hours.contains_key(&hour_of(row)));
        for (key, row) in read {
            // Rows that were read are never refused.
            let _ = self.add(key, &row, true);
        }
        for entry in entries {
            self.hours.entry(hour_of(entry)).or_default();
        }
        wrong
    }

    /// The keys to be written, with their values.
    fn changed_values(&self) -> Vec<(Place, Vec<u8>)> {
        let value = |(hour, key): &Place| {
            let value = self.hours.get(hour).and_then(|keys| keys.get(key));
            let entries = value.map(|value| value.rows.values().cloned().collect());
            let report = v1::LedgerReport {
                entries: entries.unwrap_or_default(),
            };
            ((hour.clone(), key.clone()), report.encode_to_vec())
        };
        self.changed.iter().map(value).collect()
    }

    /// Forgets hours that are written, but for the newest two: agents report those again.
    fn forget_old(&mut self) {
        let newest = self.newest;
        let changed: BTreeSet<&Hour> = self.changed.iter().map(|(hour, _)| hour).collect();
        self.hours
            .retain(|hour, _| hour.1 + 1 >= newest || changed.contains(hour));
    }
}

/// Gathers the reports of a term, and writes them.
#[derive(Debug)]
pub(super) struct Ledgers {
    link: Arc<Link>,
    term: Arc<Term>,
    /// Held while etcd is read or written, so that no older value is written over a newer one.
    rows: Mutex<Rows>,
    /// Why the last flush has failed, and why a row was not taken.
    trouble: std::sync::Mutex<[Option<String>; 2]>,
}

impl Ledgers {
    pub(super) fn new(link: Arc<Link>, term: Arc<Term>) -> Ledgers {
        Ledgers {
            link,
            term,
            rows: Mutex::default(),
            trouble: std::sync::Mutex::default(),
        }
    }

    /// Adds what an agent has reported. Hours that are not known are read first. A row that can't be kept holds up
    /// no other one, and is no reason for the agent to say it again: gives why, where there is one.
    pub(super) async fn add(&self, entries: &[v1::LedgerEntry]) -> Result<Option<String>, String> {
        let mut rows = self.rows.lock().await;
        let keys = &self.link.keys;
        // One read for all hours of a composition: an agent that connects reports months.
        let mut found = Vec::new();
        for (name, (first, last)) in rows.unknown(entries) {
            let between = (keys.hour(&name, first).0, keys.hour(&name, last).1);
            found.extend(self.link.range(between, PARTS_AT_A_TIME).await?);
        }
        let mut wrong = rows.learn(&found, entries);
        for entry in entries {
            wrong = rows.report(keys.ledger(entry), entry).err().or(wrong);
        }
        if wrong.is_some() {
            let [_, of_row] = &mut *self.troubles();
            of_row.clone_from(&wrong);
        }
        Ok(wrong)
    }

    /// All that was reported of a composition; what is not written yet is written first.
    pub(super) async fn of(&self, composition: &str) -> Result<Vec<v1::LedgerEntry>, String> {
        self.flush().await?;
        let between = self.link.keys.hours(composition);
        let found = self.link.range(between, PARTS_AT_A_TIME).await?;
        let rows: Vec<Vec<_>> = found.iter().map(written).collect::<Result<_, _>>()?;
        Ok(rows.concat())
    }

    /// Why a row was not taken, once; else why reports are not written now; `None` while all are.
    pub(super) fn trouble(&self) -> Option<String> {
        let [of_flush, of_row] = &mut *self.troubles();
        of_row.take().or_else(|| of_flush.clone())
    }

    fn troubles(&self) -> std::sync::MutexGuard<'_, [Option<String>; 2]> {
        self.trouble.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes all that is not written yet, and removes old hours once a day.
    pub(super) async fn flush(&self) -> Result<(), String> {
        let mut rows = self.rows.lock().await;
        let mut batch: Vec<(Place, Vec<u8>)> = Vec::new();
        let mut octets = 0;
        for value in rows.changed_values() {
            octets += value.1.len();
            if batch.len() == MOST_WRITES || (octets > PART && !batch.is_empty()) {
                octets = value.1.len();
                self.write(&mut rows, std::mem::take(&mut batch)).await?;
            }
            batch.push(value);
        }
        if !batch.is_empty() {
            self.write(&mut rows, batch).await?;
        }
        rows.forget_old();
        if rows.newest >= rows.pruned + PRUNE {
            let oldest = rows.newest.saturating_sub(KEPT_HOURS);
            // What can't be removed goes with a later flush: bills do not wait for it.
            if self.prune(oldest).await.is_ok() {
                rows.pruned = rows.newest;
            }
        }
        Ok(())
    }

    async fn write(&self, rows: &mut Rows, batch: Vec<(Place, Vec<u8>)>) -> Result<(), String> {
        let (places, writes): (Vec<Place>, Vec<RequestOp>) = (batch.into_iter())
            .map(|(place, value)| {
                let write = put(place.1.clone(), value);
                (place, write)
            })
            .unzip();
        self.link.write(&self.term, writes).await?;
        for place in places {
            rows.changed.remove(&place);
        }
        Ok(())
    }

    /// Removes hours before this one, of each composition that ever had some.
    async fn prune(&self, oldest: u64) -> Result<(), String> {
        let keys = &self.link.keys;
        let (mut from, to) = keys.ledgers();
        loop {
            let first = self.link.first_key((from, to.clone())).await?;
            let Some(composition) = first.and_then(|first| keys.composition_of(&first)) else {
                return Ok(());
            };
            let (begin, end) = keys.hours(&composition);
            let old = (begin, keys.hour(&composition, oldest).0);
            self.link.write(&self.term, vec![delete(old)]).await?;
            from = end;
        }
    }
}

/// Writes reports now and then, for as long as the term lasts.
pub(super) async fn flush_now_and_then(ledgers: Arc<Ledgers>) {
    let flushing = async {
        loop {
            tokio::time::sleep(FLUSH).await;
            // It is tried again.
            let failed = ledgers.flush().await.err();
            let [of_flush, _] = &mut *ledgers.troubles();
            *of_flush = failed;
        }
    };
    tokio::select! {
        () = flushing => {}
        _ = ledgers.term.over() => {}
    }
}

fn hour_of(entry: &v1::LedgerEntry) -> Hour {
    (entry.composition.clone(), entry.hour)
}

/// Octets of a row in a value, if all its numbers were the largest ones.
fn most_octets(entry: &v1::LedgerEntry) -> usize {
    let most = v1::LedgerEntry {
        packets: u64::MAX,
        bytes: u64::MAX,
        dropped: u64::MAX,
        sampled_ns: u64::MAX,
        sampled: u64::MAX,
        ..entry.clone()
    };
    // With its tag and its length.
    most.encoded_len() + 4
}

/// The rows of a value.
fn written(found: &KeyValue) -> Result<Vec<v1::LedgerEntry>, String> {
    let report = v1::LedgerReport::decode(found.value.as_slice());
    let key = String::from_utf8_lossy(&found.key).replace('\0', " ");
    report.map(|report| report.entries).map_err(|_| {
        format!("what etcd has at `{key}` is no ledger's rows: it is replaced by what agents report anew")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(hour: u64, packets: u64) -> v1::LedgerEntry {
        v1::LedgerEntry {
            composition: "edge".to_owned(),
            ledger: vec![1; 16],
            hour,
            tenant: "acme".to_owned(),
            chain: "web".to_owned(),
            packets,
            ..v1::LedgerEntry::default()
        }
    }

    #[test]
    fn the_greater_number_counts_and_is_written_once() {
        let mut ledger = Rows::default();
        assert_eq!(ledger.add(&[1], &entry(500, 5), false), Ok(true));
        ledger.report(vec![1], &entry(500, 9)).unwrap();
        assert_eq!(ledger.add(&[1], &entry(500, 7), false), Ok(false));
        let values = ledger.changed_values();
        assert_eq!(values.len(), 1);
        let rows = v1::LedgerReport::decode(values[0].1.as_slice()).unwrap();
        assert_eq!(rows.entries, [entry(500, 9)]);
        // What is not written yet is not forgotten, however old.
        ledger.report(vec![2], &entry(510, 1)).unwrap();
        assert_eq!(ledger.changed.len(), 2);
        ledger.forget_old();
        assert_eq!(ledger.hours.len(), 2);
        ledger.changed.clear();
        ledger.forget_old();
        assert_eq!(ledger.hours.len(), 1);
        assert!(ledger.changed_values().is_empty());
    }

    #[test]
    fn a_value_has_no_more_rows_than_etcd_takes() {
        let mut ledger = Rows::default();
        let row = |number: usize| v1::LedgerEntry {
            function: format!("{number:0250}"),
            bytes: u64::MAX,
            dropped: u64::MAX,
            sampled_ns: u64::MAX,
            sampled: u64::MAX,
            ..entry(500, u64::MAX)
        };
        let first = (0..10_000).find(|number| ledger.report(vec![1], &row(*number)).is_err());
        assert!(first.is_some_and(|number| number > 2_900), "{first:?}");
        let values = ledger.changed_values();
        let octets = values[0].1.len();
        assert!(octets <= PART && octets > PART - 10_000, "{octets}");
        // Rows that are there go on, and other keys have room.
        assert_eq!(ledger.add(&[1], &row(0), false), Ok(false));
        // Rows that etcd has are taken without a bound, so that the next write does not lose them.
        assert_eq!(ledger.add(&[1], &row(9_998), true), Ok(true));
        ledger.report(vec![2], &row(9_999)).unwrap();
    }

    #[test]
    fn what_etcd_has_does_not_hide_what_is_new() {
        let mut ledger = Rows::default();
        ledger.report(vec![1], &entry(500, 9)).unwrap();
        let reported = [entry(499, 1), entry(501, 1)];
        let unknown = ledger.unknown(&reported);
        assert_eq!(unknown["edge"], (499, 501));
        let value = |hour, packets| KeyValue {
            key: vec![1],
            value: v1::LedgerReport {
                entries: vec![entry(hour, packets)],
            }
            .encode_to_vec(),
            ..KeyValue::default()
        };
        let found = [value(499, 3), value(500, 5), value(501, 4)];
        assert_eq!(ledger.learn(&found, &reported), None);
        assert!(
            ledger
                .unknown(&[entry(499, 1), entry(500, 1), entry(501, 1)])
                .is_empty()
        );
        let packets = |hour| {
            let value = &ledger.hours[&("edge".to_owned(), hour)][&vec![1]];
            value.rows.values().map(|row| row.packets).sum::<u64>()
        };
        assert_eq!([499, 500, 501].map(packets), [3, 9, 4]);
        let mut torn = value(499, 3);
        torn.value.pop();
        // A value that can't be read hides no other one, and its hour is known.
        let mut ledger = Rows::default();
        let why = ledger.learn(&[torn, value(501, 4)], &reported).unwrap();
        assert!(why.contains("no ledger's rows"), "{why}");
        assert!(ledger.unknown(&reported).is_empty() && ledger.hours.len() == 2);
    }
}
