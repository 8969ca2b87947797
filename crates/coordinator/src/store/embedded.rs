//! The store of the only coordinator: a file of its own (redb).

use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use prost::Message as _;
use redb::backends::FileBackend;
use redb::{Database, ReadableDatabase as _, ReadableTable as _, TableDefinition};
use weir_api::v1;

use super::kept::{KEPT_HOURS, Kept, PRUNE, hex, news};
use super::version::Version;
use crate::private;

/// By name, each a [`Kept`].
const COMPOSITIONS: TableDefinition<'_, &str, &[u8]> = TableDefinition::new("compositions");
/// Numbers by name.
const NUMBERS: TableDefinition<'_, &str, u64> = TableDefinition::new("numbers");
/// The greatest revision that there was, also of what is deleted by now.
const REVISION: &str = "revision";
/// Version of what the tables have.
const VERSION: &str = "version";
/// Octets by name.
const OCTETS: TableDefinition<'_, &str, &[u8]> = TableDefinition::new("octets");
/// Random octets that name this store.
const ID: &str = "id";
/// Numbers of ledgers, by composition, hour, ledger, tenant, chain and function.
const LEDGER: TableDefinition<'_, &str, &[u8]> = TableDefinition::new("ledger");
/// Prices by composition; those of one that is deleted stay, as its numbers do.
const PRICES: TableDefinition<'_, &str, &[u8]> = TableDefinition::new("prices");
/// The hour up to which the ledger was looked through for old ones.
const PRUNED: &str = "pruned";
/// Name of the file.
pub(super) const FILE: &str = "coordinator.redb";

/// A file with a database.
#[derive(Debug)]
pub(super) struct Embedded {
    /// `None` after an error that could not be mended yet.
    database: Mutex<Option<Database>>,
    file: PathBuf,
    id: [u8; 16],
}

impl Embedded {
    /// Opens the file in a folder, which is there.
    pub(super) fn open(folder: &Path) -> Result<Embedded, String> {
        let file = folder.join(FILE);
        let database = database(&file)?;
        let mut id = [0; 16];
        crate::random::fill(&mut id).map_err(|why| why.to_string())?;
        let (version, id) = prepare(&database, id).map_err(|why| why.to_string())?;
        Version::check(version)?;
        Ok(Embedded {
            database: Mutex::new(Some(database)),
            file,
            id,
        })
    }

    pub(super) fn id(&self) -> [u8; 16] {
        self.id
    }

    /// The greatest revision that there was, and all compositions by name.
    pub(super) fn load(&self) -> Result<(u64, Vec<(String, Kept)>), String> {
        let (revision, all) = self.read(|reading| {
            let numbers = reading.open_table(NUMBERS)?;
            let revision = numbers
                .get(REVISION)?
                .map_or(0, |revision| revision.value());
            Ok((revision, all_of(reading, COMPOSITIONS)?))
        })?;
        let all = all.into_iter().map(|(name, kept)| {
            let kept = Kept::decode(&kept[..]);
            let kept = kept.map_err(|why| format!("composition `{name}`: {why}"))?;
            Ok((name, kept))
        });
        Ok((revision, all.collect::<Result<_, String>>()?))
    }

    /// Keeps a composition; when it returns it is on the disk.
    pub(super) fn put(
        &self,
        name: &str,
        (revision, kept): (u64, &Kept),
        prices: Option<&v1::Prices>,
    ) -> Result<(), String> {
        let prices = prices.map(|prices| prices.encode_to_vec());
        let kept = kept.encode_to_vec();
        self.write(|writing| {
            let mut compositions = writing.open_table(COMPOSITIONS)?;
            compositions.insert(name, kept.as_slice())?;
            let mut all = writing.open_table(PRICES)?;
            match prices {
                Some(prices) => all.insert(name, prices.as_slice())?,
                None => all.remove(name)?,
            };
            let mut numbers = writing.open_table(NUMBERS)?;
            numbers.insert(REVISION, revision)?;
            Ok(())
        })
    }

    /// Keeps a composition no longer.
    pub(super) fn remove(&self, name: &str) -> Result<(), String> {
        self.write(|writing| {
            writing.open_table(COMPOSITIONS)?.remove(name)?;
            Ok(())
        })
    }

    /// Adds what an agent has reported of ledgers; when it returns it is on the disk. Of two reports about
    /// one number the greater counts, so that one may come twice, or late.
    pub(super) fn put_ledger(&self, entries: &[v1::LedgerEntry]) -> Result<(), String> {
        let Some(newest) = entries.iter().map(|entry| entry.hour).max() else {
            return Ok(());
        };
        self.write(|writing| {
            let mut ledger = writing.open_table(LEDGER)?;
            for entry in entries {
                let key = ledger_key(entry);
                let known = ledger.get(key.as_str())?;
                let known = known.and_then(|it| v1::LedgerEntry::decode(it.value()).ok());
                if let Some(now) = news(known.as_ref(), entry) {
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
    pub(super) fn ledger(&self, composition: &str) -> Result<Vec<v1::LedgerEntry>, String> {
        // One that ends a name comes before all that another name could have.
        let (from, to) = (format!("{composition}\0"), format!("{composition}\x01"));
        self.read(|reading| {
            let table = reading.open_table(LEDGER)?;
            let mut all = Vec::new();
            for entry in table.range(from.as_str()..to.as_str())? {
                all.extend(v1::LedgerEntry::decode(entry?.1.value()).ok());
            }
            Ok(all)
        })
    }

    /// The prices of a composition, those it had where it is deleted.
    pub(super) fn prices(&self, composition: &str) -> Result<Option<v1::Prices>, String> {
        self.read(|reading| {
            let prices = reading.open_table(PRICES)?;
            let prices = prices.get(composition)?;
            Ok(prices.and_then(|prices| v1::Prices::decode(prices.value()).ok()))
        })
    }

    /// The prices of all compositions, those that are deleted included, by name.
    pub(super) fn all_prices(&self) -> Result<Vec<(String, Vec<u8>)>, String> {
        self.read(|reading| all_of(reading, PRICES))
    }

    /// Gives all that was ever reported of ledgers to `tell`, so many entries at a time.
    pub(super) fn all_ledgers(
        &self,
        at_a_time: usize,
        mut tell: impl FnMut(&[v1::LedgerEntry]) -> Result<(), String>,
    ) -> Result<(), String> {
        self.read(|reading| {
            let mut some = Vec::new();
            for entry in reading.open_table(LEDGER)?.iter()? {
                some.extend(v1::LedgerEntry::decode(entry?.1.value()).ok());
                if some.len() == at_a_time {
                    if let Err(why) = tell(&some) {
                        return Ok(Err(why));
                    }
                    some.clear();
                }
            }
            Ok(tell(&some))
        })?
    }

    fn read<T>(
        &self,
        what: impl FnOnce(&redb::ReadTransaction) -> Result<T, redb::Error>,
    ) -> Result<T, String> {
        let database = self.database.lock().unwrap_or_else(PoisonError::into_inner);
        let read = || {
            what(
                &database
                    .as_ref()
                    .ok_or(redb::Error::DatabaseClosed)?
                    .begin_read()?,
            )
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
    let file = private::file().open(path).map_err(|why| why.to_string())?;
    let backend = FileBackend::new(file);
    let opened = backend.and_then(|file| Database::builder().create_with_backend(file));
    opened.map_err(|why| match why {
        redb::DatabaseError::DatabaseAlreadyOpen => {
            "another coordinator has it: one folder is for one coordinator".to_owned()
        }
        why => why.to_string(),
    })
}

/// All that a table has, by name.
fn all_of(
    reading: &redb::ReadTransaction,
    table: TableDefinition<'_, &str, &[u8]>,
) -> Result<Vec<(String, Vec<u8>)>, redb::Error> {
    let mut all = Vec::new();
    for entry in reading.open_table(table)?.iter()? {
        let (name, octets) = entry?;
        all.push((name.value().to_owned(), octets.value().to_vec()));
    }
    Ok(all)
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
            numbers.insert(VERSION, Version::OWN)?;
        }
        let mut octets = writing.open_table(OCTETS)?;
        let id = octets.get(ID)?.and_then(|id| id.value().try_into().ok());
        if id.is_none() {
            octets.insert(ID, new.as_slice())?;
        }
        (version.unwrap_or(Version::OWN), id.unwrap_or(new))
    };
    writing.commit()?;
    Ok((version, id))
}

/// Where a ledger's entry is kept. Names have no control characters.
fn ledger_key(entry: &v1::LedgerEntry) -> String {
    let ledger = hex(&entry.ledger);
    format!(
        "{}\0{:010}\0{ledger}\0{}\0{}\0{}",
        entry.composition, entry.hour, entry.tenant, entry.chain, entry.function
    )
}

/// The hour of a ledger's entry.
fn hour_of(key: &str) -> Option<u64> {
    key.split('\0').nth(1)?.parse().ok()
}
