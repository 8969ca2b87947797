//! Messages to the service manager that started this process: ready, alive, stopping. The protocol is
//! systemd's (sd_notify(3)); without `NOTIFY_SOCKET` in the environment nothing is sent.

use std::time::{Duration, Instant};

use sd_notify::NotifyState;

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

fn tell(what: &[NotifyState<'_>]) {
    // A manager that does not listen does its own about it.
    let _ = sd_notify::notify(what);
}
