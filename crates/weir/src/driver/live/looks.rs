//! Checks of the loop beside packets: signals, limits, commands.

use std::io::Write as _;
use std::os::fd::{AsFd as _, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

use weir_ctl::command::CommandHandler;
use weir_io::live::{EndSignals, LiveClock};

use crate::exit::Failure;
use crate::program;
use crate::service::Service;

use super::super::events::EventFile;
use super::group::Group;
use super::ports::LivePorts;

/// How often is looked, at least.
const LOOK: Duration = Duration::from_millis(100);

/// Time in which further signals are the first one's: some senders, GNU
/// `timeout` for one, send to the process and to its group.
const ONE_SIGNAL: Duration = Duration::from_millis(50);

/// Message to the starter when the run ends as it should: a failure from then on is no
/// reason to start it again.
pub(crate) const ENDED: &[u8; 1] = b"e";

/// Checks signals, the time, the interfaces, events to be flushed. Any other periodic check
/// of a run belongs here.
pub(crate) struct Looks {
    /// Of the thread that takes them for the process.
    signals: Option<EndSignals>,
    /// The workers that end together with this one.
    group: Option<Arc<Group>>,
    /// The process that started this run, which ends with it.
    starter: Option<UnixStream>,
    /// Of the thread that takes the signals; a starter tells for itself.
    service: Option<Service>,
    until: Option<Instant>,
    /// The switch hands over to the next one.
    hands_over: bool,
    /// When a signal came.
    signalled: Option<Instant>,
    looked: Instant,
    /// That of packets.
    pub(super) clock: LiveClock,
    /// Commands to this thread; away while they are carried out.
    pub(super) handler: Option<CommandHandler>,
}

impl Looks {
    /// Ends the run at a signal, after so long, or when its starter's stream
    /// ends.
    pub(crate) fn new(
        signals: EndSignals,
        most: Option<Duration>,
        starter: Option<UnixStream>,
        clock: LiveClock,
        handler: CommandHandler,
    ) -> Looks {
        let now = Instant::now();
        Looks {
            signals: Some(signals),
            group: None,
            service: starter.is_none().then(Service::of_process),
            starter,
            until: most.map(|most| now + most),
            hands_over: false,
            signalled: None,
            looked: now,
            clock,
            handler: Some(handler),
        }
    }

    /// Of a worker beside the one that takes the signals.
    pub(crate) fn of_worker(group: Arc<Group>, clock: LiveClock, handler: CommandHandler) -> Looks {
        Looks {
            signals: None,
            group: Some(group),
            service: None,
            starter: None,
            until: None,
            hands_over: false,
            signalled: None,
            looked: Instant::now(),
            clock,
            handler: Some(handler),
        }
    }

    /// Ends the run together with these workers.
    pub(crate) fn in_group(mut self, group: Arc<Group>) -> Looks {
        self.group = Some(group);
        self
    }

    /// Descriptors that wake the loop, to the end of `into`.
    pub(super) fn descriptors<'a>(&'a self, into: &mut Vec<BorrowedFd<'a>>) {
        into.extend(self.signals.as_ref().map(|signals| signals.as_fd()));
        into.extend(self.starter.as_ref().map(|starter| starter.as_fd()));
        into.extend(self.handler.as_ref().and_then(CommandHandler::descriptor));
    }

    /// The run ends at the next look.
    pub(super) fn hand_over(&mut self) {
        self.hands_over = true;
    }

    /// Packets flow from now on.
    pub(super) fn begin(&self) {
        if let Some(service) = &self.service {
            service.ready();
        }
    }

    /// How long the loop may sleep.
    pub(super) fn until_next(&self) -> Duration {
        let left = self
            .until
            .map(|until| until.saturating_duration_since(Instant::now()));
        let signs = self.service.as_ref().map_or(LOOK, Service::longest);
        left.map_or(LOOK, |left| left.min(LOOK)).min(signs)
    }

    /// Looks: true where the run is to end.
    ///
    /// # Errors
    ///
    /// An interface is gone.
    pub(super) fn look(
        &mut self,
        ports: &mut LivePorts,
        events: Option<&mut EventFile>,
    ) -> Result<bool, Failure> {
        let now = Instant::now();
        let signal = self.signals.as_ref().is_some_and(EndSignals::came);
        if signal {
            self.signalled = Some(now);
        }
        let stopping = self.group.as_ref().is_some_and(|group| group.is_stopping());
        if signal || stopping || self.hands_over || self.until.is_some_and(|until| now >= until) {
            return Ok(true);
        }
        if let Some(service) = &mut self.service {
            service.alive();
        }
        if now - self.looked >= LOOK {
            self.looked = now;
            if self.starter.as_ref().is_some_and(is_over) {
                return Ok(true);
            }
            ports.check()?;
            if let Some(events) = events {
                events.try_flush();
            }
        }
        Ok(false)
    }

    /// The run is about to end: from here on another signal kills, but not one that is the
    /// first's.
    pub(super) fn let_signals_kill(&mut self) {
        let is_over = |at: Instant| at.elapsed() >= ONE_SIGNAL;
        if self.signalled.is_some_and(is_over) {
            self.release();
        }
    }

    fn release(&mut self) {
        if let Some(signals) = self.signals.take() {
            signals.came();
            signals.release();
        }
    }

    /// The run ends, and its starter is told whether it does as it should. A
    /// signal that was sent twice is one; another kills.
    pub(super) fn end(&mut self, well: bool) {
        if let Some(starter) = self.starter.as_mut().filter(|_| well) {
            // One that is gone does not need to know.
            let _ = starter.write_all(ENDED);
        }
        let told = self.signals.as_ref().is_some_and(EndSignals::came);
        if self.hands_over && (told || self.signalled.is_some()) {
            // Who ends the run meanwhile wants no other program.
            *program::next() = None;
        }
        // Where another program takes its place, the service goes on.
        if let Some(service) = self.service.as_mut().filter(|_| !self.hands_over) {
            service.stopping();
        }
        self.release();
    }
}

/// True where a stream has ended, on which nothing is said any more.
fn is_over(stream: &UnixStream) -> bool {
    let wait = rustix::event::Timespec::default();
    let mut fds = [rustix::event::PollFd::new(
        stream,
        rustix::event::PollFlags::IN,
    )];
    matches!(rustix::event::poll(&mut fds, Some(&wait)), Ok(ready) if ready > 0)
}
