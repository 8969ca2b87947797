//! Messages to the service manager that started this process: ready, alive, stopping. The protocol is
//! systemd's (sd_notify(3)); without `NOTIFY_SOCKET` in the environment nothing is sent.
//!
//! The manager hears the process alone that it has started. One that this has started for its work
//! tells its parent instead ([`tell_parent`]), which passes that on ([`pass_on`]).

use std::os::fd::BorrowedFd;
use std::os::unix::net::UnixDatagram;
use std::path::PathBuf;
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use sd_notify::NotifyState;
use weir_io::shared::Channel;

/// Signs of life in the time after which the service manager takes this process for hung
/// (`WatchdogSec=`): one that comes late does no harm.
const SIGNS: u32 = 4;

/// The service manager, as the thread that tells it sees it.
#[derive(Debug)]
pub(crate) struct Service {
    /// Interval of signs of life, where some are wanted.
    interval: Option<Duration>,
    /// The last one.
    told: Instant,
    is_stopping: bool,
}

impl Service {
    /// Of this process's environment.
    pub(crate) fn of_process() -> Service {
        Service {
            interval: sd_notify::watchdog_enabled().map(|most| most / SIGNS),
            told: Instant::now(),
            is_stopping: false,
        }
    }

    /// Packets flow from now on.
    pub(crate) fn ready(&self) {
        tell(&[NotifyState::Ready]);
    }

    /// This host's share of a cluster does its part: which, the manager shows.
    pub(crate) fn ready_as(&self, part: Part) {
        let path = std::env::var_os("NOTIFY_SOCKET").map(PathBuf::from);
        let path = path.filter(|path| path.is_absolute());
        let socket = path.and_then(|path| Some((UnixDatagram::unbound().ok()?, path)));
        match socket {
            // A manager that stands still holds up nothing: it is told again.
            Some((socket, path)) if socket.set_nonblocking(true).is_ok() => {
                let text = format!("READY=1\nSTATUS={}", part.status());
                let _ = socket.send_to(text.as_bytes(), path);
            }
            // One in the abstract namespace: systemd's, which reads.
            _ => {
                let states = [NotifyState::Ready, NotifyState::Status(part.status())];
                let _ = sd_notify::notify(&states);
            }
        }
    }

    /// The thread that calls it goes on with its work. It may call in every round: without a
    /// watchdog this reads no clock.
    pub(crate) fn alive(&mut self) {
        if self
            .interval
            .is_some_and(|interval| self.told.elapsed() >= interval)
        {
            self.told = Instant::now();
            tell(&[NotifyState::Watchdog]);
        }
    }

    /// Longest time that the thread may sleep.
    pub(crate) fn longest(&self) -> Duration {
        self.interval.unwrap_or(Duration::MAX)
    }

    /// The end has begun, which is told once: from here on no sign of life is wanted.
    pub(crate) fn stopping(&mut self) {
        if !self.is_stopping {
            (self.is_stopping, self.interval) = (true, None);
            tell(&[NotifyState::Stopping]);
        }
    }
}

/// The part of a host in a cluster, as its manager hears of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// It has runtimes, or says which switch runs.
    Agent,
    /// Its switch runs.
    Runs,
    /// Its switch stands by.
    StandsBy,
    /// The inputs of its switch have ended by themselves.
    Over,
}

impl Part {
    pub(crate) const ALL: [Part; 4] = [Part::Agent, Part::Runs, Part::StandsBy, Part::Over];

    /// What the manager shows.
    pub(crate) const fn status(self) -> &'static str {
        match self {
            Part::Agent => "its agent waits for switches",
            Part::Runs => "its switch runs",
            Part::StandsBy => "its switch stands by",
            Part::Over => "the inputs of its switch have ended",
        }
    }
}

/// Kinds of messages to the parent.
const READY: u8 = b'r';
const ALIVE: u8 = b'a';
const STOPPING: u8 = b's';
const PROGRAM: u8 = b'p';
const STANDS_BY: u8 = b'b';

/// The way to the process that tells the manager for this one.
static PARENT: OnceLock<Mutex<Channel>> = OnceLock::new();

/// From here on the parent is told, which is at the other end.
pub(crate) fn tell_parent(channel: Channel) {
    // There is one parent.
    let _ = PARENT.set(Mutex::new(channel));
}

/// True of the message of a process that it is ready.
pub(crate) fn is_ready(kind: u8) -> bool {
    kind == READY
}

/// Tells the parent that this switch stands by.
pub(crate) fn tell_standing_by() {
    if let Some(parent) = PARENT.get() {
        let mut parent = parent.lock().unwrap_or_else(PoisonError::into_inner);
        // As of the other signs: one that is missed is missed.
        let _ = parent.send(STANDS_BY, &[], &[], false);
    }
}

/// True of the message of a switch that stands by.
pub(crate) fn stands_by(kind: u8) -> bool {
    kind == STANDS_BY
}

/// A parent has started this process for its work.
pub(crate) fn has_parent() -> bool {
    PARENT.get().is_some()
}

/// Gives the parent a program that it is to use from here on.
pub(crate) fn offer_program(program: BorrowedFd<'_>) {
    if let Some(parent) = PARENT.get() {
        let mut parent = parent.lock().unwrap_or_else(PoisonError::into_inner);
        // The kernel ends this process with its parent.
        let _ = parent.send(PROGRAM, &[], &[program], true);
    }
}

/// True of the message of a process that offers a program.
pub(crate) fn is_program(kind: u8) -> bool {
    kind == PROGRAM
}

/// Tells the manager what a process that this one has started has said, in a message of this kind.
pub(crate) fn pass_on(kind: u8) {
    let what = match kind {
        READY => NotifyState::Ready,
        ALIVE => NotifyState::Watchdog,
        STOPPING => NotifyState::Stopping,
        _ => return,
    };
    let _ = sd_notify::notify(&[what]);
}

fn tell(what: &[NotifyState<'_>]) {
    let Some(parent) = PARENT.get() else {
        // A manager that does not listen does its own about it.
        let _ = sd_notify::notify(what);
        return;
    };
    let mut parent = parent.lock().unwrap_or_else(PoisonError::into_inner);
    for what in what {
        let kind = match what {
            NotifyState::Ready => READY,
            NotifyState::Watchdog => ALIVE,
            _ => STOPPING,
        };
        // The kernel ends this process with its parent; one that stands still misses a sign.
        let _ = parent.send(kind, &[], &[], false);
    }
}
