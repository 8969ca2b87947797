//! Starts a stage's process, and says when it has died too often.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::fmt;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use weir_io::live::goes_first;
use weir_io::shared::{Channel, SharedMapping};

use super::wire::{self, Hello};
use weir_exec::ExecError;
use weir_exec::started_aside;

/// Deaths within [`LIFE`] after which a stage is not started again.
const MOST_DEATHS: usize = 8;
/// Deaths in a row, however far apart, before it was ready.
const MOST_FALSE_STARTS: usize = 2;
/// How far back deaths are counted.
const LIFE: Duration = Duration::from_secs(30);
/// Longest pause before one is started again.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// How a stage's process is started.
#[derive(Clone, Debug)]
pub struct StageCommand {
    /// The program, which calls [`super::StageProcess::begin`] with its standard
    /// input.
    pub program: OsString,
    /// Its arguments.
    pub arguments: Vec<OsString>,
}

pub(super) fn outside(error: std::io::Error) -> ExecError {
    ExecError(format!("stages in processes: {error}"))
}

impl StageCommand {
    /// Starts the process of the stage `name`, which is told `hello` and of the
    /// flows that are open, and given these files, and the socket on which it is
    /// asked. Messages from it are no longer than `longest`.
    ///
    /// # Errors
    ///
    /// Where the machine has no process or no memory for it.
    pub(super) fn start(
        &self,
        name: &str,
        hello: &mut Hello,
        files: [BorrowedFd<'_>; 4],
        asked: Option<BorrowedFd<'_>>,
        told: &[u8],
        longest: usize,
    ) -> Result<(Child, Channel), ExecError> {
        let (ours, theirs) = UnixStream::pair().map_err(outside)?;
        hello.told = told.len();
        hello.first = goes_first() && !hello.tenant;
        let told = SharedMapping::of_bytes("weir-flows", told).map_err(outside)?;
        let files = files.into_iter().chain([told.as_fd()]).chain(asked);
        let files: Vec<BorrowedFd<'_>> = files.collect();
        let bytes = serde_json::to_vec(hello).map_err(|e| ExecError(e.to_string()))?;
        let mut channel = Channel::new(ours, longest);
        // Before it is started: the socket holds it until it is read.
        channel
            .send(wire::HELLO, &bytes, &files, false)
            .map_err(outside)?;
        let mut command = Command::new(&self.program);
        command
            .args(&self.arguments)
            .stdin(Stdio::from(OwnedFd::from(theirs)))
            // Signals of the terminal are for the main process, which ends the
            // others when it has all packets out.
            .process_group(0);
        if hello.tenant {
            // What is in there is not meant for it.
            command.env_clear();
            command.stdout(Stdio::null()).stderr(Stdio::null());
        }
        let child = started_aside(|| command.spawn())
            .map_err(|error| ExecError(format!("can't start a process for {name}: {error}")))?;
        Ok((child, channel))
    }
}

/// When processes of a stage died.
#[derive(Debug, Default)]
pub(super) struct Deaths {
    lately: VecDeque<Instant>,
    false_starts: usize,
}

impl Deaths {
    /// One died at `now`: true where that is too often for another. `ready` says
    /// that it had been at work.
    pub(super) fn add(&mut self, now: Instant, ready: bool) -> bool {
        if !ready {
            self.false_starts += 1;
            return self.false_starts > MOST_FALSE_STARTS;
        }
        self.false_starts = 0;
        self.lately.push_back(now);
        self.lately
            .retain(|then| now.saturating_duration_since(*then) < LIFE);
        self.lately.len() > MOST_DEATHS
    }
}

impl fmt::Display for Deaths {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.false_starts {
            0 => {
                let (deaths, life) = (self.lately.len(), LIFE.as_secs());
                write!(f, "{deaths} times within {life} s")
            }
            deaths => write!(f, "{deaths} times before it was ready"),
        }
    }
}

/// When a stage that is not trusted is started again. Each start costs time of
/// the thread that has the ports, so one that dies at once is left alone for a
/// while: each time for longer.
#[derive(Debug, Default)]
pub(super) struct Restarts {
    /// Deaths since one was at work for [`LIFE`].
    deaths: usize,
    false_starts: usize,
}

impl Restarts {
    /// One died that had been ready for so long, or never was: how long to
    /// wait before the next one; `None` where there is to be none.
    pub(super) fn after(&mut self, worked: Option<Duration>) -> Option<Duration> {
        match worked {
            None => self.false_starts += 1,
            Some(_) => self.false_starts = 0,
        }
        if worked.is_some_and(|worked| worked >= LIFE) {
            self.deaths = 0;
        }
        self.deaths += 1;
        if self.deaths > MOST_DEATHS || self.false_starts > MOST_FALSE_STARTS {
            return None;
        }
        // 0, 1, 2, 4, 8 …
        let seconds = (1u64 << (self.deaths - 1)) >> 1;
        Some(Duration::from_secs(seconds).min(LONGEST_PAUSE))
    }
}

/// What a process died of, for people: `of signal 9`.
pub(super) fn cause(status: &ExitStatus) -> String {
    match (status.signal(), status.code()) {
        (Some(signal), _) => format!("of signal {signal}"),
        (None, Some(code)) => format!("with exit code {code}"),
        _ => "somehow".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deaths_are_too_many_only_where_they_are_close() {
        let mut deaths = Deaths::default();
        let mut now = Instant::now();
        for _ in 0..100 {
            assert!(!deaths.add(now, true));
            now += LIFE / MOST_DEATHS as u32;
        }
        assert!((0..=MOST_DEATHS).any(|_| deaths.add(now, true)));
        assert_eq!(deaths.to_string(), "9 times within 30 s");
    }

    /// One that takes a minute to fail is no better than one that fails at once;
    /// and one that works, but dies now and then, is not taken for it.
    #[test]
    fn false_starts_are_counted_apart_and_in_a_row() {
        let mut now = Instant::now();
        let mut deaths = Deaths::default();
        for _ in 0..MOST_FALSE_STARTS + 1 {
            assert!(!deaths.add(now, true));
        }
        for _ in 0..10 {
            assert!(!deaths.add(now, false) && !deaths.add(now, false));
            now += LIFE;
            assert!(!deaths.add(now, true));
        }
        assert!(!deaths.add(now, false) && !deaths.add(now + 2 * LIFE, false));
        assert!(deaths.add(now + 4 * LIFE, false));
        assert_eq!(deaths.to_string(), "3 times before it was ready");
    }

    #[test]
    fn one_that_dies_again_and_again_is_left_alone_for_a_while() {
        let mut restarts = Restarts::default();
        let soon = Some(Duration::from_millis(1));
        let mut pauses = |worked, times| -> Vec<Option<u64>> {
            let one = |_| restarts.after(worked).map(|pause| pause.as_secs());
            (0..times).map(one).collect()
        };
        assert_eq!(pauses(soon, 4), [0, 1, 2, 4].map(Some));
        assert_eq!(pauses(Some(LIFE), 2), [0, 0].map(Some));
        assert_eq!(pauses(soon, 6), [1, 2, 4, 8, 16, 30].map(Some));
        assert_eq!(pauses(soon, 2), [Some(30), None]);
        assert_eq!(pauses(Some(LIFE), 1), [Some(0)]);
        assert_eq!(pauses(None, 3), [Some(1), Some(2), None]);
    }
}
