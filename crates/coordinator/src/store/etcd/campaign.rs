//! How one of several coordinators comes to lead.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::runtime::Handle;
use tokio::sync::oneshot;

use super::Etcd;
use super::client::{Client, EtcdPlace, Failed};
use super::keys::Keys;
use super::term::{LEASE, Term};
use super::wire::{
    self, Compare, LeaseGrantRequest, LeaseGrantResponse, LeaseRequest, LeaseRevokeResponse,
    PutRequest, RangeRequest, RangeResponse, Request, TxnRequest, TxnResponse,
};
use crate::store::Store;

/// How long an attempt may take.
const ATTEMPT: Duration = Duration::from_secs(5);
/// Interval in which etcd is asked to have a lease go on.
const KEEP: Duration = Duration::from_secs(1);

const _: () = assert!(KEEP.as_millis() * 3 < LEASE.as_millis());

/// One that wants to lead.
#[derive(Debug)]
pub struct Candidate {
    link: Arc<Link>,
    /// What others hear of who leads.
    says: String,
}

/// What an attempt has come to.
#[derive(Debug)]
pub enum Attempt {
    /// It leads now, and has the store.
    Leads(Store),
    /// Another one leads: what that says of itself.
    StandsBy(String),
}

impl Candidate {
    /// One that says this of itself to those who stand by.
    ///
    /// # Errors
    ///
    /// A name of a member is none, a certificate can't be read, or no thread can be started.
    pub fn new(place: &EtcdPlace, says: &str) -> Result<Candidate, String> {
        Ok(Candidate {
            link: Arc::new(Link::new(place)?),
            says: says.to_owned(),
        })
    }

    /// Leads, where nobody else does. It waits for etcd, 5 seconds at most.
    ///
    /// # Errors
    ///
    /// etcd does not answer, refuses, or has what no coordinator has written.
    pub fn attempt(&self) -> Result<Attempt, String> {
        let link = &self.link;
        let attempt = link.wait(link.attempt(&self.says));
        let term = match attempt.map_err(|why| why.to_string())? {
            Ok(term) => Arc::new(term),
            Err(leader) => return Ok(Attempt::StandsBy(leader)),
        };
        let keeper = keep(link.clone(), term.clone());
        link.handle.spawn(keeper);
        let begun = Etcd::begin(link.clone(), term.clone()).and_then(Store::in_etcd);
        if let Err(why) = &begun {
            // Another one may have more luck.
            term.end(why);
            link.wait(link.revoke(term.lease()));
        }
        begun.map(Attempt::Leads)
    }
}

/// A way to an etcd, with a thread that has the connections.
#[derive(Debug)]
pub(super) struct Link {
    pub(super) client: Client,
    pub(super) keys: Keys,
    pub(super) handle: Handle,
    /// The thread ends when this is dropped.
    _ends: oneshot::Sender<()>,
}

impl Link {
    fn new(place: &EtcdPlace) -> Result<Link, String> {
        let failed = |why: std::io::Error| format!("can't start the thread of etcd: {why}");
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(failed)?;
        let handle = runtime.handle().clone();
        let client = {
            let _within = handle.enter();
            Client::new(place)?
        };
        let (ends, ended) = oneshot::channel::<()>();
        let thread = std::thread::Builder::new().name("etcd".to_owned());
        thread
            .spawn(move || {
                // Dropped or sent: it ends.
                let _ = runtime.block_on(ended);
            })
            .map_err(failed)?;
        Ok(Link {
            client,
            keys: Keys::new(&place.prefix),
            handle,
            _ends: ends,
        })
    }

    /// Waits for what is asked; not from within a runtime.
    pub(super) fn wait<T>(&self, asking: impl Future<Output = T>) -> T {
        self.handle.block_on(asking)
    }

    /// A new term, or what the one who leads says of itself.
    async fn attempt(&self, says: &str) -> Result<Result<Term, String>, Failed> {
        let until = Instant::now() + ATTEMPT;
        if let Some(leader) = self.leader(until).await? {
            return Ok(Err(leader));
        }
        let leader = self.keys.leader();
        let asked = Instant::now();
        let grant = LeaseGrantRequest {
            ttl: i64::try_from(LEASE.as_secs()).unwrap_or(i64::MAX),
        };
        let granted: LeaseGrantResponse = self.client.call(wire::LEASE_GRANT, grant, until).await?;
        let lease = granted.id;
        let lasts = Duration::from_secs(u64::try_from(granted.ttl).unwrap_or_default());
        let put = PutRequest {
            key: leader.clone(),
            value: says.as_bytes().to_vec(),
            lease,
        };
        let txn = TxnRequest {
            compare: vec![Compare::made_in(leader, 0)],
            success: vec![Request::Put(put).into()],
            failure: Vec::new(),
        };
        // Where an answer is lost the key goes with its lease, and the next attempt finds that.
        let made: TxnResponse = self.client.call(wire::TXN, txn, until).await?;
        let number = made.header.map_or(0, |header| header.revision);
        match made.succeeded && number > 0 {
            true => Ok(Ok(Term::new(number, lease, asked, lasts))),
            false => {
                // Another one was faster.
                self.revoke(lease).await;
                let leader = self.leader(until).await?;
                Ok(Err(leader.unwrap_or_else(|| "nobody yet".to_owned())))
            }
        }
    }

    /// What the one who leads says of itself, where there is one.
    async fn leader(&self, until: Instant) -> Result<Option<String>, Failed> {
        let asked = RangeRequest {
            key: self.keys.leader(),
            ..RangeRequest::default()
        };
        let there: RangeResponse = self.client.call(wire::RANGE, asked, until).await?;
        let leader = there.kvs.first();
        Ok(leader.map(|leader| String::from_utf8_lossy(&leader.value).into_owned()))
    }

    /// Ends a lease. Where that fails it ends by itself.
    pub(super) async fn revoke(&self, lease: i64) {
        let until = Instant::now() + KEEP;
        let asked = LeaseRequest { id: lease };
        let _: Result<LeaseRevokeResponse, Failed> =
            self.client.call(wire::LEASE_REVOKE, asked, until).await;
    }
}

/// Has a term go on, for as long as etcd lets it.
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
