//! Messages from the process of `weir up` to that of its switch.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use weir_ctl::hosts::{HostPhase, HostState, SwitchState};

/// Kind of the first message, a [`Begin`], with the file of the inputs' mark, standard input, and the
/// program before, if there is one.
pub(super) const BEGIN: u8 = 0;
/// Kind of a [`HostTold`].
pub(super) const HOST: u8 = 1;
/// Kind of a [`HappenedTold`].
pub(super) const HAPPENED: u8 = 2;
/// Kind of a [`DiedTold`].
pub(super) const DIED: u8 = 3;
/// Behind the number of a process whose inputs have ended, in its file (`--process-file`).
pub(crate) const OVER_WORD: &str = "over";
/// Octets of the longest message.
pub(super) const LONGEST: usize = 1 << 20;

/// What a switch needs to begin.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Begin {
    /// Key that it shares with the agents.
    pub(super) key: [u8; 16],
    pub(super) seed: u64,
    /// All hosts, in the order of the composition.
    pub(super) hosts: Vec<HostTold>,
    /// Name of the switch's host.
    pub(super) host: String,
    /// Time since the first switch was started.
    pub(super) since: Duration,
    /// The end of the switch before.
    pub(super) died: Option<String>,
    /// A number that no other switch has, and that of the one before.
    pub(super) start: u32,
    pub(super) before: Option<u32>,
    /// The program before is the third file.
    #[serde(default)]
    pub(super) has_former: bool,
    /// The ledger is the file behind that.
    #[serde(default)]
    pub(super) has_ledger: bool,
    /// The program that this switch is has taken the place of another one: which, for people.
    #[serde(default)]
    pub(super) upgraded: Option<String>,
}

/// A host as it stands.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct HostTold {
    /// Its place in the composition.
    pub(super) place: usize,
    pub(super) name: String,
    pub(super) agent: Option<SocketAddr>,
    pub(super) process: u32,
    /// `None` where another machine looks after it.
    pub(super) is_ready: Option<bool>,
    pub(super) deaths: u64,
    /// Age of the state.
    pub(super) age: Duration,
    /// Number of its switch's process, and whether that runs, where several hosts have one.
    pub(super) switch: Option<(u32, bool)>,
}

/// Something that has happened to a host.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct HappenedTold {
    pub(super) host: String,
    /// Why its agent has died; `None` where it is ready.
    pub(super) died: Option<String>,
}

/// The switch of another host has died.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct DiedTold {
    pub(super) host: String,
    pub(super) why: String,
    /// The number of its start.
    pub(super) start: u32,
}

impl HostTold {
    pub(super) fn of(place: usize, host: HostState) -> HostTold {
        HostTold {
            place,
            name: host.name,
            agent: host.agent,
            process: host.process,
            is_ready: match host.state {
                HostPhase::Ready => Some(true),
                HostPhase::Starting => Some(false),
                HostPhase::NotWatched => None,
            },
            deaths: host.deaths,
            age: host.since.elapsed(),
            switch: host.switch.map(|its| (its.process, its.runs)),
        }
    }

    pub(super) fn state(self) -> HostState {
        HostState {
            name: self.name,
            agent: self.agent,
            process: self.process,
            state: match self.is_ready {
                Some(true) => HostPhase::Ready,
                Some(false) => HostPhase::Starting,
                None => HostPhase::NotWatched,
            },
            deaths: self.deaths,
            since: Instant::now()
                .checked_sub(self.age)
                .unwrap_or_else(Instant::now),
            switch: (self.switch).map(|(process, runs)| SwitchState { process, runs }),
        }
    }
}
