//! How one of several coordinators comes to lead.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::client::{EtcdPlace, Failed};
use super::link::Link;
use super::store::EtcdStore;
use super::term::{LEASE, Term};
use super::wire::{
    self, Compare, LeaseGrantRequest, LeaseGrantResponse, PutRequest, Request, TxnRequest,
    TxnResponse,
};

/// How long an attempt may take.
const ATTEMPT: Duration = Duration::from_secs(5);
/// Interval in which etcd is asked to have a lease go on.
const KEEP: Duration = Duration::from_secs(1);

const _: () = assert!(KEEP.as_millis() * 3 < LEASE.as_millis());

/// A coordinator that wants to lead.
#[derive(Debug)]
pub(crate) struct Candidate {
    link: Arc<Link>,
    /// Its name, which coordinators that stand by tell while it leads.
    says: String,
    /// True of one that will import, or goes on with an import.
    imports: bool,
}

impl Candidate {
    pub(crate) fn new(place: &EtcdPlace, says: &str, imports: bool) -> Result<Candidate, String> {
        Ok(Candidate {
            link: Arc::new(Link::new(place)?),
            says: says.to_owned(),
            imports,
        })
    }

    /// The store, where nobody else leads, or the name of the coordinator that leads.
    pub(crate) fn attempt(&self) -> Result<Result<EtcdStore, String>, String> {
        let link = &self.link;
        let attempt = link.wait(self.begin());
        let term = match attempt.map_err(|why| why.to_string())? {
            Ok(term) => Arc::new(term),
            Err(leader) => return Ok(Err(leader)),
        };
        let keeper = keep(link.clone(), term.clone());
        link.handle.spawn(keeper);
        let begun = EtcdStore::begin(link.clone(), term.clone(), self.imports);
        if let Err(why) = &begun {
            // Another one may have more luck.
            term.end(why);
            link.wait(link.revoke(term.lease()));
        }
        begun.map(Ok)
    }

    /// A new term, or the name of the coordinator that leads.
    async fn begin(&self) -> Result<Result<Term, String>, Failed> {
        let until = Instant::now() + ATTEMPT;
        if let Some(leader) = self.leader(until).await? {
            return Ok(Err(leader));
        }
        let leader = self.link.keys.leader();
        let asked = Instant::now();
        let grant = LeaseGrantRequest {
            ttl: i64::try_from(LEASE.as_secs()).unwrap_or(i64::MAX),
        };
        let granted: LeaseGrantResponse = self
            .link
            .client
            .call(wire::LEASE_GRANT, grant, until)
            .await?;
        let lease = granted.id;
        let lasts = Duration::from_secs(u64::try_from(granted.ttl).unwrap_or_default());
        let put = PutRequest {
            key: leader.clone(),
            value: self.says.as_bytes().to_vec(),
            lease,
            ..PutRequest::default()
        };
        let txn = TxnRequest {
            compare: vec![Compare::made_in(leader, 0)],
            success: vec![Request::Put(put).into()],
            failure: Vec::new(),
        };
        let made: Result<TxnResponse, Failed> = self.link.client.call(wire::TXN, txn, until).await;
        let made = match made {
            Ok(made) => made,
            Err(why) => {
                // The key may be there: it goes with its lease.
                self.link.revoke(lease).await;
                return Err(why);
            }
        };
        let number = made.header.map_or(0, |header| header.revision);
        match made.succeeded && number > 0 {
            true => Ok(Ok(Term::new(number, lease, asked, lasts))),
            false => {
                // Another one was faster.
                self.link.revoke(lease).await;
                let leader = self.leader(until).await?;
                Ok(Err(leader.unwrap_or_else(|| "nobody yet".to_owned())))
            }
        }
    }

    /// The name of the coordinator that leads, where one does.
    async fn leader(&self, until: Instant) -> Result<Option<String>, Failed> {
        let leader = self.link.get(self.link.keys.leader(), until).await?;
        Ok(leader.map(|leader| String::from_utf8_lossy(&leader).into_owned()))
    }
}

/// Keeps the lease of a term alive, for as long as etcd lets it.
async fn keep(link: Arc<Link>, term: Arc<Term>) {
    let keeping = async {
        loop {
            tokio::time::sleep(KEEP).await;
            let (asked, until) = (Instant::now(), term.lasts_until());
            match link.client.keep_alive(term.lease(), until).await {
                Ok(lasts) => term.goes_on(asked, lasts),
                // It may have room again before the lease is over.
                Err(_) if Instant::now() < until => {}
                Err(why) => term.end(&format!("etcd was silent for as long as its lease: {why}")),
            }
        }
    };
    tokio::select! {
        () = keeping => {}
        _ = term.over() => {}
    }
}
