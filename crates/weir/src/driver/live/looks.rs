//! What the loop looks at now and then, beside packets.

use std::os::fd::{AsFd as _, BorrowedFd};
use std::time::{Duration, Instant};

use weir_io::live::{EndSignals, LiveClock};

use crate::exit::Failure;

use super::super::events::EventFile;
use super::super::inbox::Inbox;
use super::ports::LivePorts;

/// How often is looked, at least.
const LOOK: Duration = Duration::from_millis(100);

/// Signals, the time, whether the interfaces are there, events to be flushed.
/// What else asks something of a run under way belongs here.
pub(crate) struct Looks {
    signals: EndSignals,
    until: Option<Instant>,
    looked: Instant,
    /// That of packets.
    pub(super) clock: LiveClock,
    /// Questions of others; away while they are answered.
    pub(super) inbox: Option<Inbox>,
}

impl Looks {
    /// Ends the run at a signal, or after so long.
    pub(crate) fn new(
        signals: EndSignals,
        most: Option<Duration>,
        clock: LiveClock,
        inbox: Inbox,
    ) -> Looks {
        let now = Instant::now();
        Looks {
            signals,
            until: most.map(|most| now + most),
            looked: now,
            clock,
            inbox: Some(inbox),
        }
    }

    /// Descriptors that wake the loop, to the end of `into`.
    pub(super) fn descriptors<'a>(&'a self, into: &mut Vec<BorrowedFd<'a>>) {
        into.push(self.signals.as_fd());
        into.extend(self.inbox.as_ref().and_then(Inbox::descriptor));
    }

    /// How long the loop may sleep.
    pub(super) fn until_next(&self) -> Duration {
        let left = self
            .until
            .map(|until| until.saturating_duration_since(Instant::now()));
        left.map_or(LOOK, |left| left.min(LOOK))
    }

    /// Looks: true where the run is to end.
    ///
    /// # Errors
    ///
    /// An interface is gone, or events can't be written.
    pub(super) fn look(
        &mut self,
        ports: &mut LivePorts,
        events: Option<&mut EventFile>,
    ) -> Result<bool, Failure> {
        let now = Instant::now();
        if self.signals.came() || self.until.is_some_and(|until| now >= until) {
            return Ok(true);
        }
        if now - self.looked >= LOOK {
            self.looked = now;
            ports.check()?;
            if let Some(events) = events {
                events.finish()?;
            }
        }
        Ok(false)
    }

    /// The run ends: a signal that was sent twice is one; another kills.
    pub(super) fn end(&self) {
        self.signals.came();
        self.signals.release();
    }
}
