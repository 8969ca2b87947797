//! Starts a process, and says when one has died too often.

use std::ffi::OsString;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use weir_io::shared::Channel;

use weir_exec::{ExecError, Forget, RestartPolicy, started_aside};

/// Deaths that count ([`LIFE`]) beyond which a stage is not started again.
const MOST_DEATHS: usize = 8;
/// Deaths in a row, however far apart, before it was ready.
const MOST_FALSE_STARTS: usize = 2;
/// How far back deaths of a trusted stage count, and for how long a tenant must work
/// before none of its deaths count.
const LIFE: Duration = Duration::from_secs(30);
/// Longest pause before one is started again.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// How the processes of a run are started.
#[derive(Clone, Debug)]
pub struct ProcessCommand {
    /// The program, which calls [`crate::driver::EngineProcess::begin`] with its standard
    /// input.
    pub program: OsString,
    /// Its arguments.
    pub arguments: Vec<OsString>,
}

pub(in super::super) fn outside(error: std::io::Error) -> ExecError {
    ExecError(format!("processes: {error}"))
}

/// A process's start: its first message, and what goes with it.
pub(in super::super) struct Start<'a> {
    /// For people.
    pub(in super::super) name: &'a str,
    /// Kind and content of the first message.
    pub(in super::super) hello: (u8, Vec<u8>),
    /// Descriptors that go with it.
    pub(in super::super) files: &'a [BorrowedFd<'a>],
    /// Longest message that is heard of it, in bytes.
    pub(in super::super) longest: usize,
    /// It gets no environment and no output: it is trusted with neither.
    pub(in super::super) bare: bool,
}

impl ProcessCommand {
    /// Starts a process, which reads its first message from its standard input.
    ///
    /// # Errors
    ///
    /// The machine has no process or no memory left.
    pub(in super::super) fn start(&self, start: Start<'_>) -> Result<(Child, Channel), ExecError> {
        let (ours, theirs) = UnixStream::pair().map_err(outside)?;
        let mut channel = Channel::new(ours, start.longest);
        // Before it is started: the socket holds it until it is read.
        let (kind, hello) = start.hello;
        channel
            .send(kind, &hello, start.files, false)
            .map_err(outside)?;
        let mut command = Command::new(&self.program);
        command
            .args(&self.arguments)
            .stdin(Stdio::from(OwnedFd::from(theirs)))
            // Signals of the terminal are for the main process, which ends the
            // others when it has all packets out.
            .process_group(0);
        crate::kept::pass_on(&mut command);
        if start.bare {
            // The environment may hold secrets of the operator.
            command.env_clear();
            command.stdout(Stdio::null()).stderr(Stdio::null());
        }
        let child = started_aside(|| command.spawn()).map_err(|error| {
            ExecError(format!("can't start a process for {}: {error}", start.name))
        })?;
        Ok((child, channel))
    }
}

/// Of a trusted stage: the run waits for it, so it is started again at once.
pub(in super::super) const TRUSTED: RestartPolicy = RestartPolicy {
    first_at_once: true,
    pause: Duration::ZERO,
    longest: Duration::ZERO,
    forget: Forget::Older(LIFE),
    most: Some(MOST_DEATHS),
    most_false_starts: Some(MOST_FALSE_STARTS),
};

/// Of a stage that is not trusted. Each start costs time of the ports' thread,
/// so one that dies at once is left alone for a while, each time for longer.
pub(in super::super) const TENANT: RestartPolicy = RestartPolicy {
    pause: Duration::from_secs(1),
    longest: LONGEST_PAUSE,
    forget: Forget::OnceUpFor(LIFE),
    ..TRUSTED
};

/// The cause of a process's death, for people: `of signal 9`.
pub(crate) fn cause(status: &ExitStatus) -> String {
    match (status.signal(), status.code()) {
        (Some(signal), _) => format!("of signal {signal}"),
        (None, Some(code)) => format!("with exit code {code}"),
        _ => "somehow".to_owned(),
    }
}
