//! What the coordinator that leads keeps in etcd.

use std::sync::Arc;
use std::time::Instant;

use prost::Message as _;
use weir_api::v1;

use crate::store::embedded::Embedded;
use crate::store::kept::{Kept, hex};
use crate::store::version::Version;

use super::keys::Between;
use super::ledger::{Ledgers, flush_now_and_then};
use super::link::{AT_A_TIME, Link, PART, PARTS_AT_A_TIME, READ, delete, put};
use super::term::Term;
use super::wire::{KeyValue, RequestOp};

/// The parts of a composition. Fields may be added; none changes its meaning or number.
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
    ledgers: Arc<Ledgers>,
}

impl EtcdStore {
    /// Goes on with what is there, or begins a store. One that `imports` also goes on with an import that was
    /// not finished.
    pub(super) fn begin(
        link: Arc<Link>,
        term: Arc<Term>,
        imports: bool,
    ) -> Result<EtcdStore, String> {
        let ledgers = Arc::new(Ledgers::new(link.clone(), term.clone()));
        let mut etcd = EtcdStore {
            link,
            term,
            id: [0; 16],
            ledgers,
        };
        let keys = &etcd.link.keys;
        match etcd.number(keys.version(), "version")? {
            None => {
                crate::random::fill(&mut etcd.id).map_err(|why| why.to_string())?;
                let own = Version::OWN.to_string().into_bytes();
                let version = put(keys.version(), own);
                etcd.write(vec![version, put(keys.id(), etcd.id.to_vec())])?;
            }
            Some(version) => {
                Version::check(version)?;
                let id = etcd.get(keys.id())?;
                let id = id.and_then(|id| id.try_into().ok());
                etcd.id = id.ok_or_else(|| wrong("id"))?;
                if !imports && etcd.get(keys.importing())?.is_some() {
                    return Err(
                        "an import into this etcd was not finished: start a coordinator with \
                         `--import FOLDER` again"
                            .to_owned(),
                    );
                }
            }
        }
        let flush = flush_now_and_then(etcd.ledgers.clone());
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

    /// Writes what is not written yet, and lets another coordinator lead.
    pub(crate) fn resign(&self) {
        self.link.wait(async {
            if self.term.leads(Instant::now()) {
                // What can't be written is said again by agents.
                let _ = tokio::time::timeout(READ, self.ledgers.flush()).await;
            }
            self.term.end("it has resigned");
            self.link.revoke(self.term.lease()).await;
        });
    }

    /// The greatest revision that there was, and all compositions by name.
    pub(crate) fn load(&self) -> Result<(u64, Vec<(String, Kept)>), String> {
        let keys = &self.link.keys;
        let revision = self.number(keys.revision(), "revision")?.unwrap_or(0);
        let mut all = Vec::new();
        let mut named = Vec::new();
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
            named.push(keys.parts(&name, &record.put));
            all.push((name, kept));
        }
        // A full etcd removes nothing: they go another time.
        let _ = self.remove_parts_but(named);
        Ok((revision, all))
    }

    /// Removes parts that no record names: a coordinator died while it put them.
    fn remove_parts_but(&self, mut named: Vec<Between>) -> Result<(), String> {
        named.sort();
        let (mut from, to) = self.link.keys.parts_of_all();
        let mut others = Vec::new();
        for (begin, end) in named {
            others.push((from, begin));
            from = end;
        }
        others.push((from, to));
        for other in others {
            let first = self.link.first_key(other.clone());
            if self.link.wait(first)?.is_some() {
                self.write(vec![delete(other)])?;
            }
        }
        Ok(())
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

    /// Writes a composition's parts: their name, and the record that refers to them.
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

    /// True where it has had a composition: nothing can be imported then.
    pub(crate) fn has_had_some(&self) -> Result<bool, String> {
        Ok(self.get(self.link.keys.revision())?.is_some())
    }

    /// Takes all that another store has, and its name, so that hosts go on with what they run. Gives why a row of
    /// a ledger was left out, where one was.
    pub(crate) fn import(&mut self, from: &Embedded) -> Result<Option<String>, String> {
        let keys = &self.link.keys;
        let (revision, all) = from.load()?;
        // An import that was not finished may have been of another folder.
        self.write(vec![
            put(keys.importing(), hex(&from.id()).into_bytes()),
            delete(keys.compositions()),
            delete(keys.parts_of_all()),
            delete(keys.all_prices()),
            delete(keys.ledgers()),
        ])?;
        for (name, kept) in &all {
            let (_, record) = self.put_parts(name, kept)?;
            self.write(vec![put(keys.composition(name), record)])?;
        }
        for (name, prices) in from.all_prices()? {
            self.write(vec![put(keys.prices(&name), prices)])?;
        }
        let mut left_out = None;
        from.all_ledgers(AT_A_TIME as usize, |some| {
            left_out = self.link.wait(self.ledgers.add(some))?.or(left_out.take());
            Ok(())
        })?;
        self.link.wait(self.ledgers.flush())?;
        // Last: one that is ended before begins again.
        self.write(vec![
            put(keys.id(), from.id().to_vec()),
            put(keys.revision(), revision.to_string().into_bytes()),
            delete((keys.importing(), Vec::new())),
        ])?;
        self.id = from.id();
        Ok(left_out)
    }

    /// Why reports of ledgers are not written now; `None` while they are.
    pub(crate) fn trouble(&self) -> Option<String> {
        self.ledgers.trouble()
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
        self.link.wait(self.ledgers.add(entries)).map(drop)
    }

    /// All that was reported of a composition.
    pub(crate) fn ledger(&self, composition: &str) -> Result<Vec<v1::LedgerEntry>, String> {
        self.link.wait(self.ledgers.of(composition))
    }

    /// The prices of a composition.
    pub(crate) fn prices(&self, composition: &str) -> Result<Option<v1::Prices>, String> {
        let found = self.get(self.link.keys.prices(composition))?;
        let prices = found.map(|prices| v1::Prices::decode(prices.as_slice()));
        prices.transpose().map_err(|_| wrong("prices"))
    }

    fn get(&self, key: Vec<u8>) -> Result<Option<Vec<u8>>, String> {
        let found = self.link.get(key, Instant::now() + READ);
        self.link.wait(found).map_err(|why| why.to_string())
    }

    /// A number that is written as text.
    fn number(&self, key: Vec<u8>, name: &str) -> Result<Option<u64>, String> {
        let Some(text) = self.get(key)? else {
            return Ok(None);
        };
        let number = String::from_utf8_lossy(&text).parse();
        number.map(Some).map_err(|_| wrong(name))
    }

    fn range(&self, between: Between, limit: i64) -> Result<Vec<KeyValue>, String> {
        self.link.wait(self.link.range(between, limit))
    }

    fn write(&self, what: Vec<RequestOp>) -> Result<(), String> {
        self.link.wait(self.link.write(&self.term, what))
    }
}

/// The error for a value that no coordinator writes.
fn wrong(what: &str) -> String {
    format!("what etcd has of `{what}` is not what a coordinator writes")
}
