//! Reports of ledgers on their way to etcd.
//!
//! Agents report every two seconds; etcd keeps each change of a key until it is compacted. So reports are
//! gathered here, and written a minute later, an hour's rows of a ledger and tenant in one value.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use prost::Message as _;
use tokio::sync::Mutex;
use weir_api::v1;

use crate::store::kept::{KEPT_HOURS, PRUNE, news, row};

use super::link::{AT_A_TIME, Link, PART, READ, delete, put};
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

/// Rows that were read or reported.
#[derive(Debug, Default)]
struct Rows {
    /// By composition and hour, then by key in etcd, then by row.
    hours: BTreeMap<Hour, BTreeMap<Vec<u8>, BTreeMap<String, v1::LedgerEntry>>>,
    /// Keys whose rows are not written yet.
    changed: BTreeSet<Place>,
    /// The newest hour of all rows.
    newest: u64,
    /// The newest hour when old ones were removed last.
    pruned: u64,
}

impl Rows {
    /// Adds a row of a key; true where it says something new.
    fn add(&mut self, key: &[u8], entry: &v1::LedgerEntry) -> bool {
        let keys = self.hours.entry(hour_of(entry)).or_default();
        let rows = keys.entry(key.to_vec()).or_default();
        let news = news(rows.get(&row(entry)), entry);
        let is_new = news.is_some();
        if let Some(now) = news {
            rows.insert(row(entry), now);
        }
        is_new
    }

    /// Adds a row that was reported: where it is new, its key is to be written.
    fn report(&mut self, key: Vec<u8>, entry: &v1::LedgerEntry) {
        if self.add(&key, entry) {
            self.newest = self.newest.max(entry.hour);
            self.changed.insert((hour_of(entry), key));
        }
    }

    /// The keys to be written, with their values.
    fn changed_values(&self) -> Vec<(Place, Vec<u8>)> {
        let value = |(hour, key): &Place| {
            let rows = self.hours.get(hour).and_then(|keys| keys.get(key));
            let entries = rows.map(|rows| rows.values().cloned().collect());
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
}

impl Ledgers {
    pub(super) fn new(link: Arc<Link>, term: Arc<Term>) -> Ledgers {
        Ledgers {
            link,
            term,
            rows: Mutex::default(),
        }
    }

    /// Adds what an agent has reported. Hours that are not known are read first.
    pub(super) async fn add(&self, entries: &[v1::LedgerEntry]) -> Result<(), String> {
        let mut rows = self.rows.lock().await;
        let keys = &self.link.keys;
        for entry in entries {
            let hour = hour_of(entry);
            if !rows.hours.contains_key(&hour) {
                let between = keys.hour(&hour.0, hour.1);
                for found in self.link.range(between, AT_A_TIME).await? {
                    for written in written(&found) {
                        rows.add(&found.key, &written);
                    }
                }
                rows.hours.entry(hour).or_default();
            }
            rows.report(keys.ledger(entry), entry);
        }
        Ok(())
    }

    /// All that was reported of a composition; what is not written yet is written first.
    pub(super) async fn of(
        &self,
        composition: &str,
        until: Instant,
    ) -> Result<Vec<v1::LedgerEntry>, String> {
        self.flush(until).await?;
        let between = self.link.keys.hours(composition);
        let found = self.link.range(between, AT_A_TIME).await?;
        Ok(found.iter().flat_map(written).collect())
    }

    /// Writes all that is not written yet, and removes old hours once a day.
    pub(super) async fn flush(&self, until: Instant) -> Result<(), String> {
        let mut rows = self.rows.lock().await;
        let mut batch: Vec<(Place, Vec<u8>)> = Vec::new();
        let mut octets = 0;
        for value in rows.changed_values() {
            octets += value.1.len();
            if batch.len() == MOST_WRITES || (octets > PART && !batch.is_empty()) {
                octets = value.1.len();
                self.write(&mut rows, std::mem::take(&mut batch), until)
                    .await?;
            }
            batch.push(value);
        }
        if !batch.is_empty() {
            self.write(&mut rows, batch, until).await?;
        }
        rows.forget_old();
        if rows.newest >= rows.pruned + PRUNE {
            let oldest = rows.newest.saturating_sub(KEPT_HOURS);
            self.prune(oldest, until).await?;
            rows.pruned = rows.newest;
        }
        Ok(())
    }

    async fn write(
        &self,
        rows: &mut Rows,
        batch: Vec<(Place, Vec<u8>)>,
        until: Instant,
    ) -> Result<(), String> {
        let (places, writes): (Vec<Place>, Vec<RequestOp>) = (batch.into_iter())
            .map(|(place, value)| {
                let write = put(place.1.clone(), value);
                (place, write)
            })
            .unzip();
        self.link.write(&self.term, writes, until).await?;
        for place in places {
            rows.changed.remove(&place);
        }
        Ok(())
    }

    /// Removes hours before this one, of each composition that ever had some.
    async fn prune(&self, oldest: u64, until: Instant) -> Result<(), String> {
        let keys = &self.link.keys;
        let (mut from, to) = keys.ledgers();
        loop {
            let until_read = until.min(Instant::now() + READ);
            let first = self.link.first_key((from, to.clone()), until_read).await?;
            let Some(composition) = first.and_then(|first| keys.composition_of(&first)) else {
                return Ok(());
            };
            let (begin, end) = keys.hours(&composition);
            let old = (begin, keys.hour(&composition, oldest).0);
            self.link
                .write(&self.term, vec![delete(old)], until)
                .await?;
            from = end;
        }
    }
}

/// Writes reports now and then, for as long as the term lasts.
pub(super) async fn flush_now_and_then(ledgers: Arc<Ledgers>) {
    let flushing = async {
        loop {
            tokio::time::sleep(FLUSH).await;
            // It is tried again, and whoever asks for a bill hears of it.
            let _ = ledgers.flush(Instant::now() + FLUSH).await;
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

/// The rows of a value.
fn written(found: &KeyValue) -> Vec<v1::LedgerEntry> {
    let report = v1::LedgerReport::decode(found.value.as_slice());
    report.unwrap_or_default().entries
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
        assert!(ledger.add(&[1], &entry(500, 5)));
        ledger.report(vec![1], &entry(500, 9));
        assert!(!ledger.add(&[1], &entry(500, 7)));
        let values = ledger.changed_values();
        assert_eq!(values.len(), 1);
        let rows = v1::LedgerReport::decode(values[0].1.as_slice()).unwrap();
        assert_eq!(rows.entries, [entry(500, 9)]);
        // What is not written yet is not forgotten, however old.
        ledger.report(vec![2], &entry(510, 1));
        assert_eq!(ledger.changed.len(), 2);
        ledger.forget_old();
        assert_eq!(ledger.hours.len(), 2);
        ledger.changed.clear();
        ledger.forget_old();
        assert_eq!(ledger.hours.len(), 1);
        assert!(ledger.changed_values().is_empty());
    }
}
