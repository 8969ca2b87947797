//! Reports of ledgers on their way to etcd.
//!
//! Agents report every two seconds; etcd keeps each change of a key until it is compacted. So reports are
//! put together here, and written a minute later, an hour's rows of a tenant in one value.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use prost::Message as _;
use weir_api::v1;

use crate::store::kept::{KEPT_HOURS, PRUNE, later, row};

use super::client::Failed;
use super::link::{AT_A_TIME, Link, PART, READ, delete, put};
use super::term::Term;
use super::wire::{self, RangeRequest, RangeResponse, RequestOp};

/// Writes in one transaction: etcd takes 128.
const MOST_WRITES: usize = 64;

/// A composition and an hour.
type Hour = (String, u64);
/// A key in etcd, with its hour.
type Place = (Hour, Vec<u8>);

/// Rows that were read or reported.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    /// By composition and hour, then by key in etcd, then by row.
    hours: BTreeMap<Hour, BTreeMap<Vec<u8>, BTreeMap<String, v1::LedgerEntry>>>,
    /// Keys whose rows are not written yet.
    changed: BTreeSet<Place>,
    /// The newest hour that there was, and the one in which old ones were looked for.
    newest: u64,
    pruned: u64,
}

impl Ledger {
    /// Takes a row, where the hour's are known; true where it says something new.
    fn take(&mut self, key: Vec<u8>, entry: &v1::LedgerEntry) -> bool {
        let hour = (entry.composition.clone(), entry.hour);
        let rows = self.hours.entry(hour.clone()).or_default();
        let rows = rows.entry(key.clone()).or_default();
        let known = rows.get(&row(entry));
        let now = known.map_or_else(|| entry.clone(), |known| later(known, entry));
        let is_new = known != Some(&now);
        rows.insert(row(entry), now);
        if is_new {
            self.changed.insert((hour, key));
            self.newest = self.newest.max(entry.hour);
        }
        is_new
    }

    /// The value of a key: all its rows.
    fn value(&self, (hour, key): &Place) -> Vec<u8> {
        let rows = self.hours.get(hour).and_then(|keys| keys.get(key));
        let entries = rows.map(|rows| rows.values().cloned().collect());
        let report = v1::LedgerReport {
            entries: entries.unwrap_or_default(),
        };
        report.encode_to_vec()
    }

    /// What is to be written: keys, and their values.
    fn values(&self) -> Vec<(Place, Vec<u8>)> {
        let value = |place: &Place| (place.clone(), self.value(place));
        self.changed.iter().map(value).collect()
    }

    /// Forgets hours that are written, but for the newest of each composition: those are reported again.
    fn forget_old(&mut self) {
        let newest = self.newest;
        let changed: BTreeSet<&Hour> = self.changed.iter().map(|(hour, _)| hour).collect();
        self.hours
            .retain(|hour, _| hour.1 + 1 >= newest || changed.contains(hour));
    }
}

fn locked(ledger: &Mutex<Ledger>) -> MutexGuard<'_, Ledger> {
    ledger.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Takes what an agent has reported. Hours that are not known are read first.
pub(super) async fn add(
    link: &Link,
    ledger: &Mutex<Ledger>,
    entries: &[v1::LedgerEntry],
) -> Result<(), String> {
    let mut hours: BTreeMap<Hour, Vec<&v1::LedgerEntry>> = BTreeMap::new();
    for entry in entries {
        let hour = (entry.composition.clone(), entry.hour);
        hours.entry(hour).or_default().push(entry);
    }
    for (hour, entries) in hours {
        let is_known = locked(ledger).hours.contains_key(&hour);
        let found = match is_known {
            true => Vec::new(),
            false => {
                link.range(link.keys.hour(&hour.0, hour.1), AT_A_TIME)
                    .await?
            }
        };
        let mut ledger = locked(ledger);
        // Another report may have come meanwhile: the greater numbers count.
        for found in found {
            let rows = v1::LedgerReport::decode(found.value.as_slice());
            for written in rows.unwrap_or_default().entries {
                let was_changed = ledger.changed.contains(&(hour.clone(), found.key.clone()));
                ledger.take(found.key.clone(), &written);
                if !was_changed {
                    ledger.changed.remove(&(hour.clone(), found.key.clone()));
                }
            }
        }
        ledger.hours.entry(hour).or_default();
        for entry in entries {
            ledger.take(link.keys.ledger(entry), entry);
        }
    }
    Ok(())
}

/// Writes all that is not written yet, and has old hours go once a day.
pub(super) async fn flush(
    link: &Link,
    term: &Term,
    ledger: &Mutex<Ledger>,
    until: Instant,
) -> Result<(), String> {
    let values = locked(ledger).values();
    let mut writes: Vec<(Place, Vec<u8>)> = Vec::new();
    let mut octets = 0;
    for value in values {
        octets += value.1.len();
        if writes.len() == MOST_WRITES || (octets > PART && !writes.is_empty()) {
            write_some(link, term, ledger, std::mem::take(&mut writes), until).await?;
            octets = value.1.len();
        }
        writes.push(value);
    }
    if !writes.is_empty() {
        write_some(link, term, ledger, writes, until).await?;
    }
    let (newest, pruned) = {
        let mut ledger = locked(ledger);
        ledger.forget_old();
        (ledger.newest, ledger.pruned)
    };
    if newest >= pruned + PRUNE {
        prune(link, term, newest.saturating_sub(KEPT_HOURS), until).await?;
        locked(ledger).pruned = newest;
    }
    Ok(())
}

async fn write_some(
    link: &Link,
    term: &Term,
    ledger: &Mutex<Ledger>,
    values: Vec<(Place, Vec<u8>)>,
    until: Instant,
) -> Result<(), String> {
    let writes: Vec<RequestOp> = values
        .iter()
        .map(|((_, key), value)| put(key.clone(), value.clone()))
        .collect();
    link.write(term, writes, until).await?;
    let mut ledger = locked(ledger);
    // A row that has changed meanwhile is written again.
    for (place, value) in values {
        if ledger.value(&place) == value {
            ledger.changed.remove(&place);
        }
    }
    Ok(())
}

/// Removes hours before this one, of each composition that ever had some.
async fn prune(link: &Link, term: &Term, oldest: u64, until: Instant) -> Result<(), String> {
    let (mut from, to) = link.keys.ledgers();
    loop {
        let asked = RangeRequest {
            key: from,
            range_end: to.clone(),
            limit: 1,
            keys_only: true,
        };
        let until_read = until.min(Instant::now() + READ);
        let found: Result<RangeResponse, Failed> =
            link.client.call(wire::RANGE, asked, until_read).await;
        let found = found.map_err(|why| why.to_string())?;
        let Some(first) = found.kvs.first() else {
            return Ok(());
        };
        let Some(composition) = link.keys.composition_of(&first.key) else {
            return Ok(());
        };
        let (begin, end) = link.keys.hours(&composition);
        let old = (begin, link.keys.hour(&composition, oldest).0);
        link.write(term, vec![delete(old)], until).await?;
        from = end;
    }
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
        let mut ledger = Ledger::default();
        assert!(ledger.take(vec![1], &entry(500, 5)));
        assert!(ledger.take(vec![1], &entry(500, 9)));
        assert!(!ledger.take(vec![1], &entry(500, 7)));
        let values = ledger.values();
        assert_eq!(values.len(), 1);
        let rows = v1::LedgerReport::decode(values[0].1.as_slice()).unwrap();
        assert_eq!(rows.entries, [entry(500, 9)]);
        // What is not written yet is not forgotten, however old.
        assert!(ledger.take(vec![2], &entry(510, 1)));
        ledger.forget_old();
        assert_eq!(ledger.hours.len(), 2);
        ledger.changed.clear();
        ledger.forget_old();
        assert_eq!(ledger.hours.len(), 1);
        assert!(ledger.values().is_empty());
    }
}
