//! What the calls of the service have in common: the state, the store, and the ways to agents.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::{mpsc, oneshot, watch};
use tonic::{Status, Streaming};
use weir_api::v1;

use crate::state::{Facts, Session, State, Taken};
use crate::store::Store;

/// Messages that wait for an agent; one that takes none any more is cut off.
pub(super) const MOST_WAITING: usize = 64;

/// Reads compositions, as this program knows them.
pub trait Reader: Send + Sync + 'static {
    /// Reads a composition, `file`, and all that it names, in a folder, and checks it whole.
    ///
    /// # Errors
    ///
    /// What is wrong with it, by line.
    fn read(&self, folder: &Path, file: &Path) -> Result<Facts, String>;
}

/// What the calls of a service have in common.
pub(super) struct Shared {
    state: Mutex<State>,
    pub(super) store: Arc<Store>,
    pub(super) reader: Arc<dyn Reader>,
    began: Instant,
    /// The way to each agent.
    pub(super) agents: Mutex<BTreeMap<Session, mpsc::Sender<Result<v1::HostTold, Status>>>>,
    /// Those who wait for an agent's answer, by its number.
    pub(super) tries: Mutex<BTreeMap<u64, (Session, oneshot::Sender<v1::HostTried>)>>,
    /// Those who wait for a connection to an instance, by its number.
    pub(super) opens: Mutex<BTreeMap<u64, Open>>,
    /// Numbers of sessions, tries and connections.
    numbers: AtomicU64,
    /// Changed with whatever has happened.
    pub(super) noted: watch::Sender<u64>,
    /// Held while a composition is checked, kept and taken.
    pub(super) one_change: tokio::sync::Mutex<()>,
}

impl Shared {
    /// With what the store has: the greatest revision, and all compositions.
    pub(super) fn new(
        store: Arc<Store>,
        reader: Arc<dyn Reader>,
        (revision, kept): (u64, Vec<Taken>),
    ) -> Shared {
        Shared {
            state: Mutex::new(State::restore(revision, kept)),
            store,
            reader,
            began: Instant::now(),
            agents: Mutex::default(),
            tries: Mutex::default(),
            opens: Mutex::default(),
            numbers: AtomicU64::new(1),
            noted: watch::Sender::new(0),
            one_change: tokio::sync::Mutex::new(()),
        }
    }

    pub(super) fn now(&self) -> Duration {
        self.began.elapsed()
    }

    pub(super) fn number(&self) -> u64 {
        self.numbers.fetch_add(1, Ordering::Relaxed)
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        locked(&self.state)
    }

    /// Changes the state, tells agents what follows, and those who watch.
    pub(super) fn change<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        let mut state = self.state();
        let answer = change(&mut state);
        // Sent while the state is held: two orders to an agent come as they were made.
        for (session, mut shares) in state.orders() {
            (shares.store, shares.term) = (self.store.id().to_vec(), self.store.term());
            self.tell(session, v1::host_told::What::Shares(shares));
        }
        drop(state);
        self.noted.send_modify(|noted| *noted += 1);
        answer
    }

    /// Tells an agent something. One that does not listen is cut off: it asks again when it is back.
    pub(super) fn tell(&self, session: Session, what: v1::host_told::What) -> bool {
        let mut agents = locked(&self.agents);
        let told = v1::HostTold { what: Some(what) };
        // Where another coordinator may lead, that one has the word.
        let sent = self.store.leads()
            && agents
                .get(&session)
                .is_some_and(|agent| agent.try_send(Ok(told)).is_ok());
        if !sent {
            agents.remove(&session);
        }
        sent
    }
}

/// What a panic left is as good as before: each change is whole.
pub(super) fn locked<T>(what: &Mutex<T>) -> MutexGuard<'_, T> {
    what.lock().unwrap_or_else(PoisonError::into_inner)
}

/// An agent's end of a connection to an instance, which it carries.
pub(super) struct Connection {
    pub(super) messages: Streaming<v1::Carried>,
    pub(super) outlet: mpsc::Sender<Result<v1::Carried, Status>>,
}

/// Somebody who waits for a connection to an instance.
pub(super) struct Open {
    pub(super) session: Session,
    /// The host that is to carry it.
    pub(super) host: String,
    pub(super) asked: oneshot::Sender<Connection>,
}
