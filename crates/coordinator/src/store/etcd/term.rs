//! A term: the time in which one of several coordinators leads.
//!
//! It has a lease of etcd, and the key `leader` has that lease. Every write is done only where that key is
//! still the one that this term has made: one that leads no longer writes nothing, whatever it believes. And
//! every write puts that key once more, and is done only at the version of it that comes next: a write that
//! was sent twice, since etcd did not answer in time, is done once, and never after a later one.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::watch;

/// How long a coordinator leads without a word of etcd, in seconds: the next one waits as long.
pub(super) const LEASE: Duration = Duration::from_secs(5);

/// A term, which ends once, and for a reason.
#[derive(Debug)]
pub(super) struct Term {
    number: i64,
    lease: i64,
    /// etcd takes the lease for alive until then, at least.
    lasts: Mutex<Instant>,
    /// The version of the key `leader`; held during a write. `None` once a write was left in the middle.
    version: tokio::sync::Mutex<Option<i64>>,
    over: watch::Sender<Option<String>>,
}

impl Term {
    /// One whose lease was asked for at a time, and lasts from then.
    pub(super) fn new(number: i64, lease: i64, asked: Instant, lasts: Duration) -> Term {
        Term {
            number,
            lease,
            lasts: Mutex::new(asked + lasts),
            // As it was made.
            version: tokio::sync::Mutex::new(Some(1)),
            over: watch::Sender::new(None),
        }
    }

    /// The revision of etcd in which it began: a later term has a greater one.
    pub(super) fn number(&self) -> i64 {
        self.number
    }

    pub(super) fn lease(&self) -> i64 {
        self.lease
    }

    /// The version of the key `leader`, for a write; it waits for writes before it. Whoever writes takes it out,
    /// and puts it back once it is known again.
    pub(super) async fn version(&self) -> tokio::sync::MutexGuard<'_, Option<i64>> {
        self.version.lock().await
    }

    /// etcd has said that the lease lasts, counted from when it was asked; zero ends the term.
    pub(super) fn goes_on(&self, asked: Instant, lasts: Duration) {
        match lasts {
            Duration::ZERO => self.end("its lease is over"),
            lasts => {
                let mut until = self.lasts.lock().unwrap_or_else(PoisonError::into_inner);
                *until = (*until).max(asked + lasts);
            }
        }
    }

    pub(super) fn lasts_until(&self) -> Instant {
        *self.lasts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// False from when another coordinator may lead.
    pub(super) fn leads(&self, now: Instant) -> bool {
        self.over.borrow().is_none() && now < self.lasts_until()
    }

    /// Ends it; the first reason counts.
    pub(super) fn end(&self, why: &str) {
        self.over.send_if_modified(|over| {
            let first = over.is_none();
            if first {
                *over = Some(why.to_owned());
            }
            first
        });
    }

    /// Waits until it is over: why.
    pub(super) async fn over(&self) -> String {
        let mut over = self.over.subscribe();
        // The sender is here: there is no end without a reason.
        match over.wait_for(Option::is_some).await {
            Ok(why) => why.clone().unwrap_or_default(),
            Err(_) => String::new(),
        }
    }
}

#[cfg(test)]
#[path = "term_tests.rs"]
mod tests;
