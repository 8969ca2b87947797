//! What a coordinator keeps: the compositions that it has taken, in a file of its own (redb).
//!
//! A composition is on the disk before any host hears of it.

use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use prost::Message as _;
use redb::backends::FileBackend;
use redb::{Database, ReadableDatabase as _, ReadableTable as _, TableDefinition};
use weir_api::v1;

use crate::state::{Facts, Taken, Wanted};

/// By name, each a [`Kept`].
const COMPOSITIONS: TableDefinition<'_, &str, &[u8]> = TableDefinition::new("compositions");
/// Numbers by name.
const NUMBERS: TableDefinition<'_, &str, u64> = TableDefinition::new("numbers");
/// The greatest revision that there was, also of what is deleted by now.
const REVISION: &str = "revision";
/// Version of what the tables have.
const VERSION: &str = "version";
/// Of this program.
const OWN_VERSION: u64 = 1;
/// Octets by name.
const OCTETS: TableDefinition<'_, &str, &[u8]> = TableDefinition::new("octets");
/// Random octets that name this store.
const ID: &str = "id";
/// Numbers of ledgers, by composition, hour, ledger, tenant, chain and function.
const LEDGER: TableDefinition<'_, &str, &[u8]> = TableDefinition::new("ledger");
/// Prices by composition; those of one that is deleted stay, as its numbers do.
const PRICES: TableDefinition<'_, &str, &[u8]> = TableDefinition::new("prices");
/// Hours that the ledger keeps: 400 days. Older ones go when a newer one comes.
const KEPT_HOURS: u64 = 400 * 24;
/// The hour up to which the ledger was looked through for old ones.
const PRUNED: &str = "pruned";
/// Hours between two such looks.
const PRUNE: u64 = 24;
/// Name of the file.
const FILE: &str = "coordinator.redb";

/// A composition as it is kept. Fields may be added; none changes its meaning or number.
#[derive(Clone, PartialEq, prost::Message)]
struct Kept {
    /// With its files and its key.
    #[prost(message, tag = "1")]
    share: Option<v1::Share>,
    #[prost(string, repeated, tag = "2")]
    hosts: Vec<String>,
    #[prost(btree_map = "string, string", tag = "3")]
    keys: BTreeMap<String, String>,
    #[prost(string, repeated, tag = "4")]
    switches: Vec<String>,
    #[prost(string, repeated, tag = "5")]
    addresses: Vec<String>,
    #[prost(message, tag = "6")]
    prices: Option<v1::Prices>,
}

/// The store of one coordinator.
#[derive(Debug)]
pub struct Store {
    /// `None` after an error that could not be mended yet.
    database: Mutex<Option<Database>>,
    file: PathBuf,
    scratch: PathBuf,
    id: [u8; 16],
}

impl Store {
    /// Opens the store in a folder, which is made if it is not there; only its owner may look into it,
    /// since it has the keys of links.
    ///
    /// # Errors
    ///
    /// It can't be opened: another coordinator has it, say, or a newer version wrote it.
    pub fn open(folder: &Path) -> Result<Store, String> {
        let failed = |why: &dyn std::fmt::Display| {
            format!("can't open the store in {}: {why}", folder.display())
        };
        let mut private = fs::DirBuilder::new();
        private.recursive(true).mode(0o700);
        private.create(folder).map_err(|why| failed(&why))?;
        let file = folder.join(FILE);
        let database = database(&file).map_err(|why| failed(&why))?;
        // What one that was killed has left of its checks.
        let scratch = folder.join("scratch");
        match fs::remove_dir_all(&scratch) {
            Err(why) if why.kind() != std::io::ErrorKind::NotFound => return Err(failed(&why)),
            _ => private.create(&scratch).map_err(|why| failed(&why))?,
        }
        let mut id = [0; 16];
        crate::random::fill(&mut id).map_err(|why| failed(&why))?;
        let (version, id) = prepare(&database, id).map_err(|why| failed(&why))?;
        match version {
            OWN_VERSION => Ok(Store {
                database: Mutex::new(Some(database)),
                file,
                scratch,
                id,
            }),
            other => Err(failed(&format!(
                "it is of version {other}, and this weir knows version {OWN_VERSION}: run a newer one"
            ))),
        }
    }

    /// A folder for files that are looked at and go again.
    pub(crate) fn scratch(&self) -> &Path {
        &self.scratch
    }

    /// A name that no other store has.
    pub fn id(&self) -> [u8; 16] {
        self.id
    }

    /// The greatest revision that there was, and all compositions.
    ///
    /// # Errors
    ///
    /// It can't be read, or has what no coordinator writes.
    pub fn load(&self) -> Result<(u64, Vec<Taken>), String> {
        let failed = |why: redb::Error| format!("can't read the store: {why}");
        type Read = (u64, Vec<(String, Vec<u8>)>);
        let read = || -> Result<Read, redb::Error> {
            let database = self.database.lock().unwrap_or_else(PoisonError::into_inner);
            let database = database.as_ref().ok_or(redb::Error::DatabaseClosed)?;
            let reading = database.begin_read()?;
            let numbers = reading.open_table(NUMBERS)?;
            let revision = numbers
                .get(REVISION)?
                .map_or(0, |revision| revision.value());
            let mut all = Vec::new();
            for entry in reading.open_table(COMPOSITIONS)?.iter()? {
                let (name, kept) = entry?;
                all.push((name.value().to_owned(), kept.value().to_vec()));
            }
            Ok((revision, all))
        };
        let (revision, all) = read().map_err(failed)?;
        let all = all.into_iter().map(|(name, kept)| {
            let kept = Kept::decode(&kept[..]).map_err(|why| why.to_string());
            let taken = kept.and_then(taken);
            taken.map_err(|why| format!("the store's composition `{name}` can't be read: {why}"))
        });
        Ok((revision, all.collect::<Result<_, _>>()?))
    }

    /// Keeps a composition; when it returns it is on the disk.
    ///
    /// # Errors
    ///
    /// It can't be written.
    pub fn put(&self, taken: &Taken) -> Result<(), String> {
        let name = taken.wanted.facts.name.as_str();
        let prices = taken.wanted.facts.prices.as_ref();
        let prices = prices.map(|prices| prices.encode_to_vec());
        let kept = kept(taken).encode_to_vec();
        self.write(|writing| {
            let mut compositions = writing.open_table(COMPOSITIONS)?;
            compositions.insert(name, kept.as_slice())?;
            let mut all = writing.open_table(PRICES)?;
            match prices {
                Some(prices) => all.insert(name, prices.as_slice())?,
                None => all.remove(name)?,
            };
            let mut numbers = writing.open_table(NUMBERS)?;
            numbers.insert(REVISION, taken.revision)?;
            Ok(())
        })
    }

    /// Keeps a composition no longer.
    ///
    /// # Errors
    ///
    /// It can't be written.
    pub fn remove(&self, name: &str) -> Result<(), String> {
        self.write(|writing| {
            writing.open_table(COMPOSITIONS)?.remove(name)?;
            Ok(())
        })
    }

    /// Adds what an agent has reported of ledgers; when it returns it is on the disk. Of two reports about
    /// one number the greater counts, so that one may come twice, or late.
    ///
    /// # Errors
    ///
    /// It can't be written: all of it may be said again.
    pub fn put_ledger(&self, entries: &[v1::LedgerEntry]) -> Result<(), String> {
        let Some(newest) = entries.iter().map(|entry| entry.hour).max() else {
            return Ok(());
        };
        self.write(|writing| {
            let mut ledger = writing.open_table(LEDGER)?;
            for entry in entries {
                let key = ledger_key(entry);
                let known = ledger.get(key.as_str())?;
                let known = known.and_then(|it| v1::LedgerEntry::decode(it.value()).ok());
                let now = known
                    .as_ref()
                    .map_or_else(|| entry.clone(), |it| later(it, entry));
                if known.as_ref() != Some(&now) {
                    ledger.insert(key.as_str(), now.encode_to_vec().as_slice())?;
                }
            }
            let mut numbers = writing.open_table(NUMBERS)?;
            let pruned = numbers.get(PRUNED)?.map_or(0, |hour| hour.value());
            if newest >= pruned + PRUNE {
                let oldest = newest.saturating_sub(KEPT_HOURS);
                ledger.retain(|key, _| hour_of(key).is_some_and(|hour| hour >= oldest))?;
                numbers.insert(PRUNED, newest)?;
            }
            Ok(())
        })
    }

    /// All that was reported of a composition's ledgers.
    ///
    /// # Errors
    ///
    /// It can't be read.
    pub fn ledger(&self, composition: &str) -> Result<Vec<v1::LedgerEntry>, String> {
        let read = || -> Result<Vec<v1::LedgerEntry>, redb::Error> {
            let database = self.database.lock().unwrap_or_else(PoisonError::into_inner);
            let database = database.as_ref().ok_or(redb::Error::DatabaseClosed)?;
            let reading = database.begin_read()?;
            // One that ends a name comes before all that another name could have.
            let (from, to) = (format!("{composition}\0"), format!("{composition}\x01"));
            let mut all = Vec::new();
            for entry in reading
                .open_table(LEDGER)?
                .range(from.as_str()..to.as_str())?
            {
                all.extend(v1::LedgerEntry::decode(entry?.1.value()).ok());
            }
            Ok(all)
        };
        read().map_err(|why| format!("can't read the store: {why}"))
    }

    /// The prices of a composition, those it had where it is deleted.
    ///
    /// # Errors
    ///
    /// They can't be read.
    pub fn prices(&self, composition: &str) -> Result<Option<v1::Prices>, String> {
        let read = || -> Result<Option<v1::Prices>, redb::Error> {
            let database = self.database.lock().unwrap_or_else(PoisonError::into_inner);
            let database = database.as_ref().ok_or(redb::Error::DatabaseClosed)?;
            let prices = database.begin_read()?.open_table(PRICES)?;
            let prices = prices.get(composition)?;
            Ok(prices.and_then(|prices| v1::Prices::decode(prices.value()).ok()))
        };
        read().map_err(|why| format!("can't read the store: {why}"))
    }

    fn write(
        &self,
        what: impl FnOnce(&redb::WriteTransaction) -> Result<(), redb::Error>,
    ) -> Result<(), String> {
        let mut place = self.database.lock().unwrap_or_else(PoisonError::into_inner);
        // An error leaves a database that takes nothing any more, also once the disk has room again.
        if place.is_none() {
            *place =
                Some(database(&self.file).map_err(|why| format!("can't open the store: {why}"))?);
        }
        let database = &*place;
        let write = || -> Result<(), redb::Error> {
            let database = database.as_ref().ok_or(redb::Error::DatabaseClosed)?;
            let mut writing = database.begin_write()?;
            // After a kill the file is not walked as a whole, which takes minutes where it is long.
            writing.set_quick_repair(true);
            what(&writing)?;
            writing.commit()?;
            Ok(())
        };
        let written = write();
        if written.is_err() {
            *place = None;
        }
        written.map_err(|why| format!("can't write the store: {why}"))
    }
}

/// Opens the file of a store.
fn database(path: &Path) -> Result<Database, String> {
    let mut options = OpenOptions::new();
    options
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600);
    let file = options.open(path).map_err(|why| why.to_string())?;
    let backend = FileBackend::new(file);
    let opened = backend.and_then(|file| Database::builder().create_with_backend(file));
    opened.map_err(|why| match why {
        redb::DatabaseError::DatabaseAlreadyOpen => {
            "another coordinator has it: one folder is for one coordinator".to_owned()
        }
        why => why.to_string(),
    })
}

/// Has the tables be there: their version, and the name of the store, which is `new` where it has none.
fn prepare(database: &Database, new: [u8; 16]) -> Result<(u64, [u8; 16]), redb::Error> {
    let mut writing = database.begin_write()?;
    writing.set_quick_repair(true);
    let (version, id) = {
        writing.open_table(COMPOSITIONS)?;
        writing.open_table(LEDGER)?;
        writing.open_table(PRICES)?;
        let mut numbers = writing.open_table(NUMBERS)?;
        let version = numbers.get(VERSION)?.map(|version| version.value());
        if version.is_none() {
            numbers.insert(VERSION, OWN_VERSION)?;
        }
        let mut octets = writing.open_table(OCTETS)?;
        let id = octets.get(ID)?.and_then(|id| id.value().try_into().ok());
        if id.is_none() {
            octets.insert(ID, new.as_slice())?;
        }
        (version.unwrap_or(OWN_VERSION), id.unwrap_or(new))
    };
    writing.commit()?;
    Ok((version, id))
}

fn kept(taken: &Taken) -> Kept {
    let Facts {
        name,
        hosts,
        switches,
        addresses,
        keys,
        prices,
    } = taken.wanted.facts.clone();
    Kept {
        share: Some(v1::Share {
            composition: name,
            revision: taken.revision,
            epoch: taken.epoch,
            key: taken.key.to_vec(),
            files: Some(taken.wanted.files.clone()),
            put: false,
            reload: false,
        }),
        hosts,
        switches,
        addresses,
        keys,
        prices,
    }
}

/// Where a ledger's entry is kept. Names have no control characters.
fn ledger_key(entry: &v1::LedgerEntry) -> String {
    let ledger: String = (entry.ledger.iter())
        .map(|octet| format!("{octet:02x}"))
        .collect();
    format!(
        "{}\0{:010}\0{ledger}\0{}\0{}\0{}",
        entry.composition, entry.hour, entry.tenant, entry.chain, entry.function
    )
}

/// The hour of a ledger's entry.
fn hour_of(key: &str) -> Option<u64> {
    key.split('\0').nth(1)?.parse().ok()
}

/// Of two reports about one entry, the later: its numbers only ever grow.
fn later(one: &v1::LedgerEntry, other: &v1::LedgerEntry) -> v1::LedgerEntry {
    v1::LedgerEntry {
        packets: one.packets.max(other.packets),
        bytes: one.bytes.max(other.bytes),
        dropped: one.dropped.max(other.dropped),
        sampled_ns: one.sampled_ns.max(other.sampled_ns),
        sampled: one.sampled.max(other.sampled),
        ..one.clone()
    }
}

fn taken(kept: Kept) -> Result<Taken, String> {
    let share = kept.share.ok_or("it has no share")?;
    let key = <[u8; 16]>::try_from(share.key.as_slice());
    Ok(Taken {
        revision: share.revision,
        epoch: share.epoch,
        key: key.map_err(|_| "its key has not 16 octets")?,
        wanted: Wanted {
            facts: Facts {
                name: share.composition,
                hosts: kept.hosts,
                switches: kept.switches,
                addresses: kept.addresses,
                keys: kept.keys,
                prices: kept.prices,
            },
            files: share.files.ok_or("it has no files")?,
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn some(name: &str, revision: u64) -> Taken {
        Taken {
            revision,
            epoch: 1,
            key: [7; 16],
            wanted: Wanted {
                facts: Facts {
                    name: name.to_owned(),
                    hosts: vec!["alpha".to_owned()],
                    switches: vec!["alpha".to_owned()],
                    addresses: vec!["10.0.0.1:1".to_owned()],
                    keys: [("ports".to_owned(), "gen".to_owned())].into(),
                    prices: Some(v1::Prices {
                        currency: name.to_owned(),
                        packets: revision,
                        ..v1::Prices::default()
                    }),
                },
                files: v1::Files {
                    composition: "a.yaml".to_owned(),
                    files: vec![v1::File {
                        path: "a.yaml".to_owned(),
                        content: vec![0, 255],
                    }],
                },
            },
        }
    }

    #[test]
    fn what_is_kept_is_there_again() {
        let folder = std::env::temp_dir().join(format!("weir-store-{}", std::process::id()));
        let store = Store::open(&folder).unwrap();
        assert_eq!(store.load(), Ok((0, vec![])));
        for taken in [some("b", 1), some("a", 2), some("b", 3)] {
            store.put(&taken).unwrap();
        }
        assert_eq!(store.load(), Ok((3, vec![some("a", 2), some("b", 3)])));
        store.remove("b").unwrap();
        let why = Store::open(&folder).unwrap_err();
        assert!(why.contains("another coordinator has it"), "{why}");
        let id = store.id();
        drop(store);
        let store = Store::open(&folder).unwrap();
        assert_eq!(store.load(), Ok((3, vec![some("a", 2)])));
        assert_eq!(store.id(), id);
        // Bills are made of what is deleted, too.
        assert_eq!(store.prices("b").unwrap().unwrap().packets, 3);
        assert_eq!(store.prices("c"), Ok(None));
        drop(store);
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn a_report_of_a_ledger_may_come_twice_and_late() {
        let folder = std::env::temp_dir().join(format!("weir-ledgers-{}", std::process::id()));
        let store = Store::open(&folder).unwrap();
        let entry = |composition: &str, hour, ledger: u8, packets| v1::LedgerEntry {
            composition: composition.to_owned(),
            ledger: vec![ledger; 16],
            hour,
            tenant: "acme".to_owned(),
            chain: "edge".to_owned(),
            packets,
            bytes: 60 * packets,
            ..v1::LedgerEntry::default()
        };
        let start = 500_000;
        store
            .put_ledger(&[entry("a", start, 1, 5), entry("a", start, 2, 7)])
            .unwrap();
        store
            .put_ledger(&[entry("a", start, 1, 9), entry("ab", start, 1, 1)])
            .unwrap();
        store.put_ledger(&[entry("a", start, 1, 5)]).unwrap();
        store.put_ledger(&[]).unwrap();
        drop(store);
        let store = Store::open(&folder).unwrap();
        let kept = [entry("a", start, 1, 9), entry("a", start, 2, 7)];
        assert_eq!(store.ledger("a").unwrap(), kept);
        // What is too old goes.
        let late = entry("ab", start + KEPT_HOURS + 1, 1, 2);
        store.put_ledger(std::slice::from_ref(&late)).unwrap();
        assert_eq!(store.ledger("a"), Ok(vec![]));
        assert_eq!(store.ledger("ab"), Ok(vec![late]));
        drop(store);
        fs::remove_dir_all(&folder).unwrap();
    }
}
