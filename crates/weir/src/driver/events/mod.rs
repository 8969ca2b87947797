//! Writing events: what a slow, full or absent target means for the run.

mod export;
mod lines;
mod outlet;
mod target;

use std::path::Path;
use std::time::{Duration, Instant};

use weir_io::live::Hangups;
use weir_nf::EventLimiter;

use crate::exit::Failure;
use crate::say::say;

use outlet::Outlet;
pub(crate) use target::Target;

/// How often SIGHUP is looked for.
const LOOK: Duration = Duration::from_millis(100);

/// The targets of a run's events: each gets all of them.
pub(crate) struct EventFile {
    outlets: Vec<Outlet>,
    /// SIGHUP has the targets opened again, for log rotation.
    hangups: Option<Hangups>,
    looked: Instant,
    /// Keeps back what functions want written only now and then.
    limiter: EventLimiter,
    /// Lines that the limiter has let pass.
    passed: Vec<u8>,
}

impl EventFile {
    /// For a run over captures: it waits for its readers and fails without them.
    /// Lines of a regular file come behind those that it has. `None` without a target.
    pub(crate) fn create(targets: &[impl AsRef<Path>]) -> Result<Option<EventFile>, Failure> {
        EventFile::open(targets, Outlet::create)
    }

    /// For a run between interfaces, which no reader holds up. A socket that no
    /// program listens on is connected to later. `None` without a target.
    pub(crate) fn live(targets: &[impl AsRef<Path>]) -> Result<Option<EventFile>, Failure> {
        EventFile::open(targets, Outlet::live)
    }

    fn open(
        targets: &[impl AsRef<Path>],
        open: impl Fn(Target) -> Result<Outlet, Failure>,
    ) -> Result<Option<EventFile>, Failure> {
        let outlets = targets.iter().map(|text| {
            let mut target = Target::parse(text.as_ref())?;
            target.look_up()?;
            open(target)
        });
        let outlets = outlets.collect::<Result<Vec<Outlet>, Failure>>()?;
        if outlets.is_empty() {
            return Ok(None);
        }
        let mut events = EventFile::of(outlets);
        let hangups = Hangups::open();
        events.hangups = Some(
            hangups.map_err(|error| Failure::outside(format!("can't wait for SIGHUP: {error}")))?,
        );
        Ok(Some(events))
    }

    fn of(outlets: Vec<Outlet>) -> EventFile {
        EventFile {
            outlets,
            hangups: None,
            looked: Instant::now(),
            limiter: EventLimiter::default(),
            passed: Vec::new(),
        }
    }

    /// Writes whole lines; waits for the readers.
    pub(crate) fn write_lines(&mut self, lines: &[u8]) -> Result<(), Failure> {
        self.limit(lines);
        self.look()?;
        let passed = &self.passed;
        let written = self.outlets.iter_mut().map(|outlet| outlet.write(passed));
        let written: Vec<Result<(), Failure>> = written.collect();
        if written.iter().any(Result::is_err) {
            // The run ends in failure: the other targets get what waits for them.
            let others = self.outlets.iter_mut().zip(&written);
            for (outlet, _) in others.filter(|(_, written)| written.is_ok()) {
                let _ = outlet.finish();
            }
        }
        written.into_iter().collect()
    }

    pub(crate) fn finish(&mut self) -> Result<(), Failure> {
        each(&mut self.outlets, Outlet::finish)
    }

    /// As [`EventFile::write_lines`], without waiting: lines that there is no
    /// room for are lost and counted.
    pub(crate) fn offer_lines(&mut self, lines: &[u8]) {
        if lines.is_empty() {
            return;
        }
        self.limit(lines);
        for outlet in &mut self.outlets {
            outlet.offer(&self.passed);
        }
    }

    fn limit(&mut self, lines: &[u8]) {
        self.passed.clear();
        self.limiter.pass(lines, &mut self.passed);
    }

    /// What of the lines was kept back.
    pub(crate) fn limiter(&self) -> &EventLimiter {
        &self.limiter
    }

    /// Writes what waits. To be called again from time to time.
    pub(crate) fn try_flush(&mut self) {
        if let Err(failure) = self.look() {
            say(format_args!("warning: {}", failure.why()));
        }
        self.outlets.iter_mut().for_each(Outlet::try_flush);
    }

    /// Opens the targets again where SIGHUP asked for that.
    fn look(&mut self) -> Result<(), Failure> {
        if self.looked.elapsed() < LOOK {
            return Ok(());
        }
        self.looked = Instant::now();
        match self.hangups.as_ref().is_some_and(Hangups::came) {
            true => self.reopen(),
            false => Ok(()),
        }
    }

    fn reopen(&mut self) -> Result<(), Failure> {
        each(&mut self.outlets, Outlet::reopen)
    }

    /// No more packets come: from here on a reader that takes something now and
    /// then is waited for, so that it gets the last events.
    pub(crate) fn wait_for_reader(&mut self) {
        self.outlets.iter_mut().for_each(Outlet::wait_for_reader);
    }

    /// The end of a run that offered lines: how many were lost, those included
    /// that still wait and can't be written. One that two targets lack counts twice.
    pub(crate) fn settle(&mut self) -> u64 {
        self.outlets.iter_mut().map(Outlet::settle).sum()
    }

    /// The failure that lines were lost.
    pub(crate) fn loss(&self) -> Result<(), Failure> {
        let losses: Vec<String> = self.outlets.iter().filter_map(Outlet::loss).collect();
        match losses.is_empty() {
            true => Ok(()),
            false => Err(Failure::outside(losses.join("; "))),
        }
    }
}

/// Does the same with all of them, also where one fails; gives the first failure.
fn each(
    outlets: &mut [Outlet],
    work: impl FnMut(&mut Outlet) -> Result<(), Failure>,
) -> Result<(), Failure> {
    outlets.iter_mut().map(work).fold(Ok(()), Result::and)
}

#[cfg(test)]
mod tests;
