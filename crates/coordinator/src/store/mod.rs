//! What coordinators keep: the compositions that were taken, and what ledgers have reported.
//!
//! A composition is on the disk before any host hears of it. One coordinator has a file of its own
//! (`embedded`); several have an etcd, and one of them leads (`etcd`).

mod embedded;
mod etcd;
mod kept;
mod version;

use std::path::{Path, PathBuf};

use weir_api::v1;

use crate::private::{self, Scratch};
use crate::state::Taken;

use embedded::Embedded;
use etcd::EtcdStore;
pub use etcd::{EtcdPlace, EtcdTls};
use kept::Kept;

/// One of several coordinators, which wants to lead.
#[derive(Debug)]
pub struct Candidate(etcd::Candidate);

/// The result of an attempt to lead.
#[derive(Debug)]
pub enum Attempt {
    /// It leads now, and has the store.
    Leads(Store),
    /// Another coordinator leads, and says this of itself.
    StandsBy(String),
}

/// The result of an import.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Imported {
    /// The store has had something: nothing is taken.
    Nothing,
    /// All was taken.
    All,
    /// All but some rows of ledgers, which do not fit: why the last one does not.
    AllBut(String),
}

impl Candidate {
    /// A candidate; `says` is what coordinators that stand by tell of it while it leads. One that `imports`
    /// calls [`Store::import`] before anything else once it leads; no other leads while an import is not
    /// finished.
    ///
    /// # Errors
    ///
    /// A name of a member is none, a certificate can't be read, or no thread can be started.
    pub fn new(place: &EtcdPlace, says: &str, imports: bool) -> Result<Candidate, String> {
        etcd::Candidate::new(place, says, imports).map(Candidate)
    }

    /// Leads, where nobody else does. It waits for etcd, some 5 seconds for each of its questions; not from
    /// within a runtime.
    ///
    /// # Errors
    ///
    /// etcd does not answer, refuses, or has what no coordinator has written.
    pub fn attempt(&self) -> Result<Attempt, String> {
        Ok(match self.0.attempt()? {
            Ok(etcd) => Attempt::Leads(Store::in_etcd(etcd)?),
            Err(leader) => Attempt::StandsBy(leader),
        })
    }
}

/// The store of the coordinator that leads, or of the only one.
#[derive(Debug)]
pub struct Store {
    place: Place,
    scratch: Scratch,
}

#[derive(Debug)]
enum Place {
    Embedded(Embedded),
    Etcd(EtcdStore),
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
        private::folder(folder).map_err(|why| failed(&why))?;
        Ok(Store {
            place: Place::Embedded(Embedded::open(folder).map_err(|why| failed(&why))?),
            scratch: Scratch::new(folder.join("scratch")).map_err(|why| failed(&why))?,
        })
    }

    /// The store of the coordinator that leads.
    fn in_etcd(etcd: EtcdStore) -> Result<Store, String> {
        // The service manager's folder is this process's alone; others may write into that of all.
        let own = std::env::var("RUNTIME_DIRECTORY").unwrap_or_default();
        let own = own.split(':').next().filter(|own| !own.is_empty());
        let folder = own.map_or_else(std::env::temp_dir, PathBuf::from);
        let scratch = match own {
            Some(_) => Scratch::new(folder.join("coordinator-scratch")),
            None => Scratch::within(&folder),
        };
        match scratch {
            Ok(scratch) => Ok(Store {
                place: Place::Etcd(etcd),
                scratch,
            }),
            Err(why) => {
                etcd.resign();
                Err(format!(
                    "can't make a folder in {}: {why}",
                    folder.display()
                ))
            }
        }
    }

    /// Takes all that a store in a folder has, and its name, so that hosts go on with what they run.
    ///
    /// # Errors
    ///
    /// This store is in a folder, too; the other one can't be read, or has a coordinator; or etcd takes
    /// nothing. What was taken by then is taken again the next time.
    pub fn import(&mut self, folder: &Path) -> Result<Imported, String> {
        let failed = |why: String| format!("can't import {}: {why}", folder.display());
        let Place::Etcd(etcd) = &mut self.place else {
            return Err(failed("this store is in a folder itself".to_owned()));
        };
        if etcd.has_had_some().map_err(failed)? {
            return Ok(Imported::Nothing);
        }
        if !folder.join(embedded::FILE).is_file() {
            return Err(failed("no coordinator has had that folder".to_owned()));
        }
        let from = Embedded::open(folder).map_err(failed)?;
        Ok(match etcd.import(&from).map_err(failed)? {
            None => Imported::All,
            Some(why) => Imported::AllBut(why),
        })
    }

    /// The folder for files that are checked.
    pub(crate) fn scratch(&self) -> std::io::Result<&Path> {
        self.scratch.kept()
    }

    /// A name that no other store has.
    pub fn id(&self) -> [u8; 16] {
        match &self.place {
            Place::Embedded(embedded) => embedded.id(),
            Place::Etcd(etcd) => etcd.id(),
        }
    }

    /// Number of the term in which this coordinator leads: later ones have greater numbers. 0 of one that
    /// is the only one.
    pub fn term(&self) -> u64 {
        match &self.place {
            Place::Embedded(_) => 0,
            Place::Etcd(etcd) => etcd.term(),
        }
    }

    /// False from when another coordinator may lead.
    pub fn leads(&self) -> bool {
        match &self.place {
            Place::Embedded(_) => true,
            Place::Etcd(etcd) => etcd.leads(),
        }
    }

    /// Waits until the term is over, which that of the only coordinator never is: why.
    pub async fn over(&self) -> String {
        match &self.place {
            Place::Embedded(_) => std::future::pending().await,
            Place::Etcd(etcd) => etcd.over().await,
        }
    }

    /// Why reports of ledgers can't be written to etcd, or why one was left out; `None` while all is well.
    pub fn trouble(&self) -> Option<String> {
        match &self.place {
            Place::Embedded(_) => None,
            Place::Etcd(etcd) => etcd.trouble(),
        }
    }

    /// Lets another coordinator lead at once; not from within a runtime.
    pub fn resign(&self) {
        match &self.place {
            Place::Embedded(_) => {}
            Place::Etcd(etcd) => etcd.resign(),
        }
    }

    /// The greatest revision that there was, and all compositions.
    ///
    /// # Errors
    ///
    /// It can't be read, or has what no coordinator writes.
    pub fn load(&self) -> Result<(u64, Vec<Taken>), String> {
        let (revision, all) = match &self.place {
            Place::Embedded(embedded) => embedded.load(),
            Place::Etcd(etcd) => etcd.load(),
        }?;
        let all = all.into_iter().map(|(name, kept)| {
            let taken = kept.taken();
            taken.map_err(|why| format!("the store's composition `{name}` can't be read: {why}"))
        });
        Ok((revision, all.collect::<Result<_, _>>()?))
    }

    /// Keeps a composition; when it returns it is on the disk, of most members where it is in etcd.
    ///
    /// # Errors
    ///
    /// It can't be written.
    pub fn put(&self, taken: &Taken) -> Result<(), String> {
        let name = taken.wanted.facts.name.as_str();
        let prices = taken.wanted.facts.prices.as_ref();
        let kept = Kept::of(taken);
        let what = (taken.revision, &kept);
        match &self.place {
            Place::Embedded(embedded) => embedded.put(name, what, prices),
            Place::Etcd(etcd) => etcd.put(name, what, prices),
        }
    }

    /// Keeps a composition no longer.
    ///
    /// # Errors
    ///
    /// It can't be written.
    pub fn remove(&self, name: &str) -> Result<(), String> {
        match &self.place {
            Place::Embedded(embedded) => embedded.remove(name),
            Place::Etcd(etcd) => etcd.remove(name),
        }
    }

    /// Adds what an agent has reported of ledgers. Of two reports about one number the greater counts, so
    /// that one may come twice, or late. When it returns it is on the disk; of an etcd within a minute,
    /// and the coordinator that leads next hears it again.
    ///
    /// # Errors
    ///
    /// It can't be written: all of it may be said again.
    pub fn put_ledger(&self, entries: &[v1::LedgerEntry]) -> Result<(), String> {
        match &self.place {
            Place::Embedded(embedded) => embedded.put_ledger(entries),
            Place::Etcd(etcd) => etcd.put_ledger(entries),
        }
    }

    /// All that was reported of a composition's ledgers.
    ///
    /// # Errors
    ///
    /// It can't be read.
    pub fn ledger(&self, composition: &str) -> Result<Vec<v1::LedgerEntry>, String> {
        match &self.place {
            Place::Embedded(embedded) => embedded.ledger(composition),
            Place::Etcd(etcd) => etcd.ledger(composition),
        }
    }

    /// The prices of a composition, those it had where it is deleted.
    ///
    /// # Errors
    ///
    /// They can't be read.
    pub fn prices(&self, composition: &str) -> Result<Option<v1::Prices>, String> {
        match &self.place {
            Place::Embedded(embedded) => embedded.prices(composition),
            Place::Etcd(etcd) => etcd.prices(composition),
        }
    }
}
