//! What the coordinator that leads keeps in etcd.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use prost::Message as _;
use weir_api::v1;

use crate::store::embedded::Embedded;
use crate::store::kept::Kept;
use crate::store::version::Version;

use super::keys::Between;
use super::ledger::{self, Ledger};
use super::link::{AT_A_TIME, Link, PART, READ, delete, put};
use super::term::Term;
use super::wire::{KeyValue, RequestOp};

/// How long a write may take; when it has no answer then, the term is over: nobody knows whether it was
/// done.
const WRITE: Duration = Duration::from_secs(15);
/// Parts that are read at a time.
const PARTS_AT_A_TIME: i64 = 16;
/// Interval in which reports of ledgers are written. What is not written yet is said again by agents to
/// the coordinator that leads next.
const FLUSH: Duration = Duration::from_secs(60);

/// Where a composition is. Fields may be added; none changes its meaning or number.
#[derive(Clone, PartialEq, prost::Message)]
struct Record {
    /// Names the parts.
    #[prost(bytes = "vec", tag = "1")]
    put: Vec<u8>,
    /// Octets of all parts together.
    #[prost(uint64, tag = "2")]
    octets: u64,
}

/// The store of the coordinator that leads.
#[derive(Debug)]
pub(crate) struct EtcdStore {
    link: Arc<Link>,
    term: Arc<Term>,
    id: [u8; 16],
    ledger: Arc<Mutex<Ledger>>,
}

impl EtcdStore {
    /// Goes on with what is there, or begins a store.
    pub(super) fn begin(link: Arc<Link>, term: Arc<Term>) -> Result<EtcdStore, String> {
        let mut etcd = EtcdStore {
            link,
            term,
            id: [0; 16],
            ledger: Arc::default(),
        };
        crate::random::fill(&mut etcd.id).map_err(|why| why.to_string())?;
        match etcd.get(etcd.link.keys.version())? {
            None => {
                let own = Version::OWN.to_string().into_bytes();
                let version = put(etcd.link.keys.version(), own);
                let id = put(etcd.link.keys.id(), etcd.id.to_vec());
                etcd.write(vec![version, id])?;
            }
            Some(version) => {
                let version = String::from_utf8_lossy(&version).into_owned();
                let number = version.parse().map_err(|_| wrong("version"))?;
                Version::check(number)?;
                let id = etcd.get(etcd.link.keys.id())?;
                let id = id.and_then(|id| id.try_into().ok());
                etcd.id = id.ok_or_else(|| wrong("id"))?;
            }
        }
        let flush = flush_now_and_then(etcd.link.clone(), etcd.term.clone(), etcd.ledger.clone());
        etcd.link.handle.spawn(flush);
        Ok(etcd)
    }

    pub(crate) fn id(&self) -> [u8; 16] {
        self.id
    }

    /// Number of the term: a later one has a greater number.
    pub(crate) fn term(&self) -> u64 {
        u64::try_from(self.term.number()).unwrap_or_default()
    }

    /// False from when another coordinator may lead.
    pub(crate) fn leads(&self) -> bool {
        self.term.leads(Instant::now())
    }

    /// Waits until the term is over: why.
    pub(crate) async fn over(&self) -> String {
        self.term.over().await
    }

    /// Has another one lead from now on, and keeps what is not written yet.
    pub(crate) fn resign(&self) {
        self.link.wait(async {
            if self.term.leads(Instant::now()) {
                let until = Instant::now() + READ;
                // What can't be written is said again by agents.
                let _ = ledger::flush(&self.link, &self.term, &self.ledger, until).await;
            }
            self.term.end("it has resigned");
            self.link.revoke(self.term.lease()).await;
        });
    }

    /// The greatest revision that there was, and all compositions by name.
    pub(crate) fn load(&self) -> Result<(u64, Vec<(String, Kept)>), String> {
        let keys = &self.link.keys;
        let revision = match self.get(keys.revision())? {
            None => 0,
            Some(text) => {
                let text = String::from_utf8_lossy(&text).into_owned();
                text.parse().map_err(|_| wrong("revision"))?
            }
        };
        let mut all = Vec::new();
        let (from, to) = keys.compositions();
        for found in self.range((from.clone(), to), AT_A_TIME)? {
            let name = found.key.strip_prefix(from.as_slice()).unwrap_or_default();
            let name = String::from_utf8_lossy(name).into_owned();
            let record = Record::decode(found.value.as_slice()).map_err(|_| wrong(&name))?;
            let parts = self.range(keys.parts(&name, &record.put), PARTS_AT_A_TIME)?;
            let octets: Vec<u8> = parts.into_iter().flat_map(|part| part.value).collect();
            if octets.len() as u64 != record.octets {
                return Err(wrong(&name));
            }
            let kept = Kept::decode(octets.as_slice()).map_err(|_| wrong(&name))?;
            all.push((name, kept));
        }
        Ok((revision, all))
    }

    /// Keeps a composition; when it returns most members of etcd have it on their disks.
    pub(crate) fn put(
        &self,
        name: &str,
        (revision, kept): (u64, &Kept),
        prices: Option<&v1::Prices>,
    ) -> Result<(), String> {
        let keys = &self.link.keys;
        let (id, record) = self.put_parts(name, kept)?;
        self.write(vec![
            put(keys.composition(name), record),
            put(keys.revision(), revision.to_string().into_bytes()),
            match prices {
                Some(prices) => put(keys.prices(name), prices.encode_to_vec()),
                None => delete((keys.prices(name), Vec::new())),
            },
        ])?;
        // Parts of puts before this one, also of those that were not finished. What can't be removed now
        // goes with the next put: this one is done.
        let ((from, to), (all, end)) = (keys.parts(name, &id), keys.all_parts(name));
        let _ = self.write(vec![delete((all, from)), delete((to, end))]);
        Ok(())
    }

    /// Writes a composition's parts: what names them, and the record that has them count.
    fn put_parts(&self, name: &str, kept: &Kept) -> Result<([u8; 8], Vec<u8>), String> {
        let octets = kept.encode_to_vec();
        let mut id = [0; 8];
        crate::random::fill(&mut id).map_err(|why| why.to_string())?;
        for (number, part) in octets.chunks(PART).enumerate() {
            let key = self.link.keys.part(name, &id, number);
            self.write(vec![put(key, part.to_vec())])?;
        }
        let record = Record {
            put: id.to_vec(),
            octets: octets.len() as u64,
        };
        Ok((id, record.encode_to_vec()))
    }

    /// Takes all that another store has, and its name, so that hosts go on with what they run; false where
    /// this one has had something.
    pub(crate) fn import(&mut self, from: &Embedded) -> Result<bool, String> {
        if self.get(self.link.keys.revision())?.is_some() {
            return Ok(false);
        }
        let (revision, all) = from.load()?;
        for (name, kept) in &all {
            let (_, record) = self.put_parts(name, kept)?;
            self.write(vec![put(self.link.keys.composition(name), record)])?;
        }
        for (name, prices) in from.all_prices()? {
            self.write(vec![put(self.link.keys.prices(&name), prices)])?;
        }
        from.all_ledgers(AT_A_TIME as usize, |some| self.put_ledger(some))?;
        self.link.wait(async {
            let until = Instant::now() + FLUSH;
            ledger::flush(&self.link, &self.term, &self.ledger, until).await
        })?;
        // Last: one that is ended before begins again.
        self.write(vec![
            put(self.link.keys.id(), from.id().to_vec()),
            put(self.link.keys.revision(), revision.to_string().into_bytes()),
        ])?;
        self.id = from.id();
        Ok(true)
    }

    /// Keeps a composition no longer; its prices stay.
    pub(crate) fn remove(&self, name: &str) -> Result<(), String> {
        let keys = &self.link.keys;
        self.write(vec![
            delete((keys.composition(name), Vec::new())),
            delete(keys.all_parts(name)),
        ])
    }

    /// Adds what an agent has reported. It is written within a minute.
    pub(crate) fn put_ledger(&self, entries: &[v1::LedgerEntry]) -> Result<(), String> {
        self.link
            .wait(ledger::add(&self.link, &self.ledger, entries))
    }

    /// All that was reported of a composition.
    pub(crate) fn ledger(&self, composition: &str) -> Result<Vec<v1::LedgerEntry>, String> {
        self.link.wait(async {
            let until = Instant::now() + WRITE;
            ledger::flush(&self.link, &self.term, &self.ledger, until).await?;
            let found = self
                .link
                .range(self.link.keys.hours(composition), AT_A_TIME)
                .await?;
            let rows = found.into_iter().flat_map(|found| {
                let report = v1::LedgerReport::decode(found.value.as_slice());
                report.unwrap_or_default().entries
            });
            Ok(rows.collect())
        })
    }

    /// The prices of a composition.
    pub(crate) fn prices(&self, composition: &str) -> Result<Option<v1::Prices>, String> {
        let found = self.get(self.link.keys.prices(composition))?;
        Ok(found.and_then(|prices| v1::Prices::decode(prices.as_slice()).ok()))
    }

    fn get(&self, key: Vec<u8>) -> Result<Option<Vec<u8>>, String> {
        let found = self.range((key, Vec::new()), 1)?;
        Ok(found.into_iter().next().map(|found| found.value))
    }

    fn range(&self, between: Between, limit: i64) -> Result<Vec<KeyValue>, String> {
        self.link.wait(self.link.range(between, limit))
    }

    fn write(&self, what: Vec<RequestOp>) -> Result<(), String> {
        let until = Instant::now() + WRITE;
        self.link.wait(self.link.write(&self.term, what, until))
    }
}

/// Writes reports of ledgers, for as long as the term lasts.
async fn flush_now_and_then(link: Arc<Link>, term: Arc<Term>, ledger: Arc<Mutex<Ledger>>) {
    let flushing = async {
        loop {
            tokio::time::sleep(FLUSH).await;
            let until = Instant::now() + FLUSH;
            // It is tried again, and whoever asks for a bill hears of it.
            let _ = ledger::flush(&link, &term, &ledger, until).await;
        }
    };
    tokio::select! {
        () = flushing => {}
        _ = term.over() => {}
    }
}

/// What no coordinator writes.
fn wrong(what: &str) -> String {
    format!("what etcd has of `{what}` is not what a coordinator writes")
}
