//! The service: calls in, the state machine's orders out.

mod agents;
mod apply;
mod caller;
mod coordinator;
mod instances;
mod listen;

use std::collections::BTreeMap;
use std::future::Future;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::{mpsc, oneshot, watch};
use tokio_stream::wrappers::ReceiverStream;
use tonic::Status;
use tonic::transport::Server;
use weir_api::v1;
use weir_api::v1::coordinator_server::CoordinatorServer;

use crate::state::{Facts, Session, State};
use crate::store::Store;

use agents::Connection;
pub use listen::Listener;

/// Longest message: the files of a composition, and what is around them.
const MOST_OCTETS: usize = crate::files::MOST_OCTETS + (1 << 20);
/// Messages that wait for an agent; one that takes none any more is cut off.
const MOST_WAITING: usize = 64;

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
struct Shared {
    state: Mutex<State>,
    store: Store,
    reader: Arc<dyn Reader>,
    began: Instant,
    /// The way to each agent.
    agents: Mutex<BTreeMap<Session, mpsc::Sender<Result<v1::HostTold, Status>>>>,
    /// Those who wait for an agent's answer, by its number.
    tries: Mutex<BTreeMap<u64, (Session, oneshot::Sender<v1::HostTried>)>>,
    /// Those who wait for a connection to an instance, by its number, each with the agent's host.
    opens: Mutex<BTreeMap<u64, (Session, oneshot::Sender<Connection>)>>,
    /// Numbers of sessions, tries and connections.
    numbers: AtomicU64,
    /// Changed with whatever has happened.
    noted: watch::Sender<u64>,
    /// Held while a composition is checked, kept and taken.
    one_change: tokio::sync::Mutex<()>,
}

impl Shared {
    fn now(&self) -> Duration {
        self.began.elapsed()
    }

    fn number(&self) -> u64 {
        self.numbers.fetch_add(1, Ordering::Relaxed)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        locked(&self.state)
    }

    /// Changes the state, tells agents what follows, and those who watch.
    fn change<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        let mut state = self.state();
        let answer = change(&mut state);
        // Sent while the state is held: two orders to an agent come as they were made.
        for (session, mut shares) in state.orders() {
            shares.store = self.store.id().to_vec();
            self.tell(session, v1::host_told::What::Shares(shares));
        }
        drop(state);
        self.noted.send_modify(|noted| *noted += 1);
        answer
    }

    /// Tells an agent something. One that does not listen is cut off: it asks again when it is back.
    fn tell(&self, session: Session, what: v1::host_told::What) -> bool {
        let mut agents = locked(&self.agents);
        let told = v1::HostTold { what: Some(what) };
        let sent = agents
            .get(&session)
            .is_some_and(|agent| agent.try_send(Ok(told)).is_ok());
        if !sent {
            agents.remove(&session);
        }
        sent
    }
}

/// What a panic left is as good as before: each change is whole.
fn locked<T>(what: &Mutex<T>) -> MutexGuard<'_, T> {
    what.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Serves until `stopped` is ready. Nothing that hosts run depends on it.
///
/// # Errors
///
/// The store can't be read.
pub async fn serve(
    store: Store,
    listeners: Vec<Listener>,
    reader: Arc<dyn Reader>,
    stopped: impl Future<Output = ()>,
) -> Result<(), String> {
    let (revision, kept) = store.load()?;
    let shared = Arc::new(Shared {
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
    });
    let service = CoordinatorServer::new(coordinator::Service(shared.clone()))
        .max_decoding_message_size(MOST_OCTETS)
        .max_encoding_message_size(MOST_OCTETS);
    let served = Server::builder()
        .http2_keepalive_interval(Some(Duration::from_secs(10)))
        .http2_keepalive_timeout(Some(Duration::from_secs(10)))
        .add_service(service)
        .add_service(instances::Instances::new(shared))
        .serve_with_incoming(ReceiverStream::new(listen::accept(listeners)));
    tokio::select! {
        served = served => served.map_err(|error| format!("can't serve: {error}")),
        () = stopped => Ok(()),
    }
}
