//! A target of events with the lines that it has not taken yet.

use std::borrow::Cow;
use std::io::{self, ErrorKind};
use std::time::{Duration, Instant};

use super::lines;
use super::target::{Sink, TOO_LONG, Target, slow};
use crate::exit::Failure;
use crate::say::say;

/// Octets that are gathered before they are written.
pub(super) const GATHERED: usize = 1 << 18;
/// How soon a slow reader is offered more.
const RETRY: Duration = Duration::from_millis(1);
/// How soon a target that is gone is opened again.
pub(super) const REOPEN: Duration = Duration::from_millis(500);
/// How long the end of a run waits for a reader that takes nothing.
const PATIENCE: Duration = Duration::from_secs(1);

/// A target, and what waits for it.
pub(super) struct Outlet {
    target: Target,
    /// `None` where a socket's listener is gone.
    sink: Option<Sink>,
    /// Writers wait for a slow reader, and a failure ends the run.
    waits: bool,
    /// How long a reader that has left no room is waited for.
    pub(super) patience: Duration,
    /// Lines that are not written yet.
    pub(super) waiting: Vec<u8>,
    /// `waiting` begins within a line, whose first part is written.
    begun: bool,
    /// Lines that could not be kept.
    pub(super) lost: u64,
    /// The last write failed.
    pub(super) stuck: bool,
    tried: Instant,
    /// The last attempt to open a target that was gone.
    opened: Instant,
    warned: bool,
}

impl Outlet {
    /// For a run over captures: it waits for its reader and fails without it.
    /// Lines of a regular file come behind those that it has.
    pub(super) fn create(target: Target) -> Result<Outlet, Failure> {
        let sink = target.open(true);
        let sink = sink.map_err(|error| cannot_open(&target, &error))?;
        Ok(Outlet::of(target, Some(sink), true))
    }

    /// For a run between interfaces, which no reader holds up. A socket that no
    /// program listens on is connected to later.
    pub(super) fn live(target: Target) -> Result<Outlet, Failure> {
        let mut outlet = match target.open(false) {
            Ok(sink) => Outlet::of(target, Some(sink), false),
            Err(error) if target.has_listener() => {
                let mut outlet = Outlet::of(target, None, false);
                outlet.warn(&error);
                outlet
            }
            Err(error) => return Err(cannot_open(&target, &error)),
        };
        outlet.stuck = outlet.sink.is_none();
        Ok(outlet)
    }

    pub(super) fn of(target: Target, sink: Option<Sink>, waits: bool) -> Outlet {
        let now = Instant::now();
        Outlet {
            target,
            sink,
            waits,
            patience: Duration::ZERO,
            waiting: Vec::with_capacity(GATHERED),
            begun: false,
            lost: 0,
            stuck: false,
            tried: now,
            opened: now,
            warned: false,
        }
    }

    /// Writes whole lines; waits for the reader.
    pub(super) fn write(&mut self, lines: &[u8]) -> Result<(), Failure> {
        let lines = self.wanted(lines);
        self.waiting.extend_from_slice(&lines);
        match self.waiting.len() >= GATHERED {
            true => self.finish(),
            false => Ok(()),
        }
    }

    pub(super) fn finish(&mut self) -> Result<(), Failure> {
        self.flush().map_err(|error| self.failure(&error))
    }

    /// Without waiting: lines that there is no room for are lost and counted.
    pub(super) fn offer(&mut self, lines: &[u8]) {
        let lines = &*self.wanted(lines);
        if self.waiting.len() + lines.len() > GATHERED && self.may_try() {
            self.try_flush();
        }
        // Lines are kept or lost whole.
        if self.stuck && self.waiting.len() + lines.len() > GATHERED {
            self.lost += lines::count(lines);
            if !lines.is_empty() {
                self.warn(&slow());
            }
        } else {
            self.waiting.extend_from_slice(lines);
        }
    }

    /// The lines that the target's form can say.
    fn wanted<'a>(&self, lines: &'a [u8]) -> Cow<'a, [u8]> {
        if self.target.takes_all() {
            return Cow::Borrowed(lines);
        }
        let wanted = lines::each(lines).filter(|line| self.target.takes(line));
        let wanted: Vec<&[u8]> = wanted.collect();
        Cow::Owned(wanted.concat())
    }

    /// A full disk stays full for a while; a pipe may have room soon.
    fn may_try(&self) -> bool {
        let reader = self.sink.as_ref().is_some_and(Sink::has_reader);
        !self.stuck || reader && self.tried.elapsed() >= RETRY
    }

    /// Writes what waits and warns once where it can't.
    pub(super) fn try_flush(&mut self) {
        let flushed = self.flush();
        self.stuck = flushed.is_err();
        self.tried = Instant::now();
        match flushed {
            // Nothing is lost yet.
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(error) => self.warn(&error),
            Ok(()) => {}
        }
    }

    /// Opens the target again.
    pub(super) fn reopen(&mut self) -> Result<(), Failure> {
        // Lines from before the signal belong to the file from before it.
        let _ = self.flush();
        if matches!(self.target, Target::StandardOutput) {
            return Ok(());
        }
        match self.target.open(self.waits) {
            Ok(sink) => {
                self.abandon_line();
                self.sink = Some(sink);
                self.warned = false;
                Ok(())
            }
            // The file that was open takes further events.
            Err(error) => Err(cannot_open(&self.target, &error)),
        }
    }

    fn warn(&mut self, error: &io::Error) {
        if !self.warned {
            self.warned = true;
            let failure = self.failure(error);
            say(format_args!(
                "warning: {}; packets pass on, and events that there is no room for are lost \
                 until it can be written to",
                failure.why()
            ));
        }
    }

    /// From here on a reader that takes something now and then is waited for.
    pub(super) fn wait_for_reader(&mut self) {
        self.patience = PATIENCE;
        self.stuck = false;
    }

    /// Ends the outlet. Gives the number of lines that were lost, with those that still wait and
    /// can't be written.
    pub(super) fn settle(&mut self) -> u64 {
        self.try_flush();
        self.lost += lines::count(&self.waiting);
        self.waiting.clear();
        if self.stuck {
            self.sink = None;
        }
        self.lost
    }

    /// Says how many lines were lost; `None` where none was.
    pub(super) fn loss(&self) -> Option<String> {
        let lost = (self.lost > 0).then_some(self.lost)?;
        Some(format!(
            "{lost} events could not be written to {}",
            self.target
        ))
    }

    /// Writes what waits. A listener that has gone since the last write is noticed by this one:
    /// the next one is looked for at once.
    fn flush(&mut self) -> io::Result<()> {
        let mut result = self.write_waiting();
        let is_gone = !self.waits && self.sink.is_none() && self.opened.elapsed() >= REOPEN;
        if result.is_err() && is_gone {
            result = self.write_waiting();
        }
        if result.is_err() {
            // The reader is not waited for twice.
            self.patience = Duration::ZERO;
        }
        result
    }

    /// Lines that were written before a failure don't wait any more.
    fn write_waiting(&mut self) -> io::Result<()> {
        let mut written = 0;
        let result = loop {
            let rest = self.waiting.get(written..).unwrap_or_default();
            if rest.is_empty() {
                break Ok(());
            }
            if self.sink.is_none() && self.opened.elapsed() >= REOPEN {
                self.opened = Instant::now();
                self.sink = self.target.open(self.waits).ok();
            }
            let Some(sink) = &mut self.sink else {
                break Err(gone());
            };
            match sink.write(rest, self.patience) {
                Ok(octets) => written += octets,
                Err(error) if error.raw_os_error() == TOO_LONG => {
                    written += lines::first_length(rest);
                    self.lost += 1;
                }
                Err(error) => break Err(error),
            }
        };
        if let Some(last) = written.checked_sub(1) {
            self.begun = self.waiting.get(last) != Some(&b'\n');
        }
        self.waiting.drain(..written);
        if let Err(error) = &result {
            let slow = error.kind() == ErrorKind::WouldBlock;
            if !slow && self.target.has_listener() && self.sink.take().is_some() {
                // The next listener would get the rest of a line.
                self.abandon_line();
            }
        }
        result
    }

    /// Drops the rest of a line that is written in part.
    fn abandon_line(&mut self) {
        if std::mem::take(&mut self.begun) {
            self.waiting.drain(..lines::first_length(&self.waiting));
            self.lost += 1;
        }
    }

    fn failure(&self, error: &io::Error) -> Failure {
        let help = match error.kind() {
            ErrorKind::StorageFull => "; free some space or write to another disk",
            _ => "",
        };
        Failure::outside(format!(
            "can't write events to {}: {error}{help}",
            self.target
        ))
    }
}

fn cannot_open(target: &Target, error: &io::Error) -> Failure {
    let help = match target.has_listener() {
        true => "; start the program that listens there first",
        false => "",
    };
    Failure::outside(format!("can't open the event file {target}: {error}{help}"))
}

fn gone() -> io::Error {
    io::Error::new(ErrorKind::NotConnected, "no program listens there")
}
