//! Hosts that a run looks after, as they stand: written by the thread that starts their agents, read
//! by the control interface.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// The state of one host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostState {
    /// Its name.
    pub name: String,
    /// Address of its agent; `None` for the host of the switch.
    pub agent: Option<SocketAddr>,
    /// Number of its agent's process, or of the switch's; 0 where there is none now.
    pub process: u32,
    /// How its process stands.
    pub state: HostPhase,
    /// Times that its agent died.
    pub deaths: u64,
    /// Start of the state.
    pub since: Instant,
    /// The switch on it, where several hosts have one.
    pub switch: Option<SwitchState>,
}

/// How a host's process stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostPhase {
    /// It runs.
    Ready,
    /// It is being started, also after a death.
    Starting,
    /// Another machine looks after it.
    NotWatched,
}

impl HostPhase {
    /// The state, for people.
    pub fn word(self) -> &'static str {
        match self {
            HostPhase::Ready => "ready",
            HostPhase::Starting => "starting",
            HostPhase::NotWatched => "not watched",
        }
    }
}

/// A switch of several.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SwitchState {
    /// Number of its process; 0 where there is none now.
    pub process: u32,
    /// It is the one that runs; the others stand by.
    pub runs: bool,
}

impl SwitchState {
    /// What it does, for people.
    pub fn word(self) -> &'static str {
        match self.runs {
            true => "runs",
            false => "stands by",
        }
    }
}

/// The hosts of a run, shared. By default there are none.
#[derive(Clone, Debug, Default)]
pub struct Hosts(Arc<Mutex<Vec<HostState>>>);

impl Hosts {
    /// These hosts.
    pub fn new(hosts: Vec<HostState>) -> Hosts {
        Hosts(Arc::new(Mutex::new(hosts)))
    }

    /// All of them as they stand.
    pub fn list(&self) -> Vec<HostState> {
        self.locked().clone()
    }

    /// Changes the state of the host at a place of the list; the new one begins now.
    pub fn change(&self, place: usize, change: impl FnOnce(&mut HostState)) {
        if let Some(host) = self.locked().get_mut(place) {
            change(host);
            host.since = Instant::now();
        }
    }

    /// A list that a panic left is as good as before: each state is written at once.
    fn locked(&self) -> MutexGuard<'_, Vec<HostState>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
