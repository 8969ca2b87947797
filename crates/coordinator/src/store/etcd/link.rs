//! Reads and writes of an etcd.

use std::time::{Duration, Instant};

use tokio::runtime::Handle;
use tokio::sync::oneshot;

use super::client::{Client, EtcdPlace, Failed};
use super::keys::{Between, Keys};
use super::term::Term;
use super::wire::{
    self, Compare, DeleteRangeRequest, KeyValue, LeaseRequest, LeaseRevokeResponse, PutRequest,
    RangeRequest, RangeResponse, Request, RequestOp, TxnRequest, TxnResponse,
};

/// Octets of a value: with its key it fits into one write of etcd (1.5 MiB as etcd is delivered).
pub(super) const PART: usize = 1 << 20;
/// Values of up to [`PART`] octets that are read at a time.
pub(super) const PARTS_AT_A_TIME: i64 = 16;
/// Keys that are read at a time, where their values are small.
pub(super) const AT_A_TIME: i64 = 1_000;
/// How long the end of a lease may take.
const REVOKE: Duration = Duration::from_secs(1);
/// How long a write may take; when it has no answer then, the term is over: nobody knows whether it was done.
const WRITE: Duration = Duration::from_secs(15);
/// How long a read may take.
pub(super) const READ: Duration = Duration::from_secs(5);

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
    pub(super) fn new(place: &EtcdPlace) -> Result<Link, String> {
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

    /// Blocks until `asking` is done; not from within a runtime.
    pub(super) fn wait<T>(&self, asking: impl Future<Output = T>) -> T {
        self.handle.block_on(asking)
    }

    /// Ends a lease. Where that fails it ends by itself.
    pub(super) async fn revoke(&self, lease: i64) {
        let until = Instant::now() + REVOKE;
        let asked = LeaseRequest { id: lease };
        let _: Result<LeaseRevokeResponse, Failed> =
            self.client.call(wire::LEASE_REVOKE, asked, until).await;
    }

    /// The value of a key.
    pub(super) async fn get(
        &self,
        key: Vec<u8>,
        until: Instant,
    ) -> Result<Option<Vec<u8>>, Failed> {
        let asked = RangeRequest::of(key);
        let found: RangeResponse = self.client.call(wire::RANGE, asked, until).await?;
        Ok(found.kvs.into_iter().next().map(|found| found.value))
    }

    /// The first key of a range, where there is one.
    pub(super) async fn first_key(
        &self,
        (key, range_end): Between,
    ) -> Result<Option<Vec<u8>>, String> {
        let until = Instant::now() + READ;
        let asked = RangeRequest {
            key,
            range_end,
            limit: 1,
            keys_only: true,
        };
        let found: Result<RangeResponse, Failed> =
            self.client.call(wire::RANGE, asked, until).await;
        let found = found.map_err(|why| why.to_string())?;
        Ok(found.kvs.into_iter().next().map(|found| found.key))
    }

    /// Reads all keys of a range, `limit` of them at a time.
    pub(super) async fn range(
        &self,
        (mut from, to): Between,
        limit: i64,
    ) -> Result<Vec<KeyValue>, String> {
        let mut all = Vec::new();
        loop {
            let asked = RangeRequest {
                key: from,
                range_end: to.clone(),
                limit,
                keys_only: false,
            };
            let until = Instant::now() + READ;
            let answer: Result<RangeResponse, Failed> =
                self.client.call(wire::RANGE, asked, until).await;
            let answer = answer.map_err(|why| why.to_string())?;
            all.extend(answer.kvs);
            match all.last() {
                // The next key is the last one with a zero behind it.
                Some(last) if answer.more => from = [last.key.as_slice(), &[0]].concat(),
                _ => return Ok(all),
            }
        }
    }

    /// Writes all of this in one transaction, where the term still lasts; once, and in the order of calls.
    ///
    /// # Errors
    ///
    /// etcd refuses it, and nothing of it was done; the term lasts. Or the term is over, and the next one finds what
    /// was done.
    pub(super) async fn write(&self, term: &Term, what: Vec<RequestOp>) -> Result<(), String> {
        let mut last = term.version().await;
        let Some(version) = last.take() else {
            return Err(Link::ends(term, "a write was left in the middle"));
        };
        let txn = self.fenced(term, version, what);
        let until = Instant::now() + WRITE;
        let written: Result<TxnResponse, Failed> = tokio::select! {
            biased;
            why = term.over() => Err(Failed::Silent(why)),
            written = self.client.call(wire::TXN, txn, until) => written,
        };
        match written {
            Ok(written) if written.succeeded || is_done(&written, term, version) => {
                *last = Some(version + 1);
                Ok(())
            }
            Ok(_) => Err(Link::ends(term, "another coordinator leads")),
            Err(Failed::Refused(why)) => {
                // An etcd without room does a write, and then says that it has none.
                let now = self.version(term).await;
                *last = now;
                match now {
                    Some(now) if now == version => Err(why),
                    Some(now) if now == version + 1 => Ok(()),
                    _ => Err(Link::ends(term, &why)),
                }
            }
            Err(Failed::Silent(why)) => Err(Link::ends(term, &why)),
        }
    }

    /// The version of the key `leader` while it is the term's.
    async fn version(&self, term: &Term) -> Option<i64> {
        let (asked, until) = (RangeRequest::of(self.keys.leader()), Instant::now() + READ);
        let found: RangeResponse = self.client.call(wire::RANGE, asked, until).await.ok()?;
        version_in(&found, term)
    }

    /// A transaction that is done where the key `leader` is the term's and has that version, which it changes;
    /// else it reads the key.
    fn fenced(&self, term: &Term, version: i64, mut what: Vec<RequestOp>) -> TxnRequest {
        let leader = self.keys.leader();
        let again = PutRequest {
            key: leader.clone(),
            ignore_value: true,
            ignore_lease: true,
            ..PutRequest::default()
        };
        what.push(Request::Put(again).into());
        let read = RangeRequest::of(leader.clone());
        TxnRequest {
            compare: vec![
                Compare::made_in(leader.clone(), term.number()),
                Compare::version(leader, version),
            ],
            success: what,
            failure: vec![Request::Range(read).into()],
        }
    }

    fn ends(term: &Term, why: &str) -> String {
        term.end(why);
        format!("this coordinator leads no longer ({why}): ask the one that leads how it stands")
    }
}

/// True of a refused transaction that was done before: it was sent more than once, and no other write of the
/// term was under way.
pub(super) fn is_done(refused: &TxnResponse, term: &Term, version: i64) -> bool {
    let read = refused.responses.iter().filter_map(|it| it.range.as_ref());
    read.filter_map(|range| version_in(range, term))
        .any(|now| now == version + 1)
}

/// The version of the key `leader` as it was read, where it is the term's.
fn version_in(read: &RangeResponse, term: &Term) -> Option<i64> {
    let leader = read.kvs.first()?;
    (leader.create_revision == term.number()).then_some(leader.version)
}

/// Puts a value at a key.
pub(super) fn put(key: Vec<u8>, value: Vec<u8>) -> RequestOp {
    let what = PutRequest {
        key,
        value,
        ..PutRequest::default()
    };
    Request::Put(what).into()
}

/// Removes keys.
pub(super) fn delete((key, range_end): Between) -> RequestOp {
    Request::DeleteRange(DeleteRangeRequest { key, range_end }).into()
}
