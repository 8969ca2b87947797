//! Starts a stage's process, and says when it has died too often.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use weir_io::shared::{Channel, SharedMapping};

use super::super::super::cluster::ClusterError;
use super::wire::{self, Hello};

/// Deaths within [`LIFE`] after which a stage is not started again.
const MOST_DEATHS: usize = 8;
/// Deaths likewise before it was ever ready.
const MOST_FALSE_STARTS: usize = 2;
/// How far back deaths are counted.
pub(super) const LIFE: Duration = Duration::from_secs(30);

/// How a stage's process is started.
#[derive(Clone, Debug)]
pub struct StageCommand {
    /// The program, which calls [`super::StageProcess::begin`] with its standard
    /// input.
    pub program: OsString,
    /// Its arguments.
    pub arguments: Vec<OsString>,
}

pub(super) fn outside(error: std::io::Error) -> ClusterError {
    ClusterError(format!("stages in processes: {error}"))
}

impl StageCommand {
    /// Starts the process of the stage `name`, which is told `hello` and of the
    /// flows that are open, and given these files. Messages from it are no longer than
    /// `longest`.
    ///
    /// # Errors
    ///
    /// Where the machine has no process or no memory for it.
    pub(super) fn start(
        &self,
        name: &str,
        hello: &mut Hello,
        files: [BorrowedFd<'_>; 4],
        told: &[u8],
        longest: usize,
    ) -> Result<(Child, Channel), ClusterError> {
        let (ours, theirs) = UnixStream::pair().map_err(outside)?;
        hello.told = told.len();
        let told = SharedMapping::of_bytes("weir-flows", told).map_err(outside)?;
        let [a, b, c, d] = files;
        let bytes = serde_json::to_vec(hello).map_err(|e| ClusterError(e.to_string()))?;
        let mut channel = Channel::new(ours, longest);
        // Before it is started: the socket holds it until it is read.
        channel
            .send(wire::HELLO, &bytes, &[a, b, c, d, told.as_fd()], false)
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
        let child = command
            .spawn()
            .map_err(|error| ClusterError(format!("can't start a process for {name}: {error}")))?;
        Ok((child, channel))
    }
}

/// When processes of a stage died.
#[derive(Debug, Default)]
pub(super) struct Deaths(VecDeque<Instant>);

impl Deaths {
    /// One died at `now`: true where that is too often for another. `ready` says
    /// that it had been at work.
    pub(super) fn add(&mut self, now: Instant, ready: bool) -> bool {
        self.0.push_back(now);
        self.0
            .retain(|then| now.saturating_duration_since(*then) < LIFE);
        self.0.len() > MOST_DEATHS || !ready && self.0.len() > MOST_FALSE_STARTS
    }

    /// How many there were lately.
    pub(super) fn lately(&self) -> usize {
        self.0.len()
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
        let mut unready = Deaths::default();
        assert!(!unready.add(now, false) && !unready.add(now, false));
        assert!(unready.add(now, false));
    }
}
