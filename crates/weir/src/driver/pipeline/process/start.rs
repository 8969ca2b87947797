//! Starts a stage's process, and says when it has died too often.

use std::ffi::OsString;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use weir_io::live::goes_first;
use weir_io::shared::{Channel, SharedMapping};

use super::wire::{self, Hello};
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
    /// Starts the process of the stage `name`. It gets `hello`, the notices of the open
    /// flows, these files, and the socket for commands. Its messages have at most
    /// `longest` bytes.
    ///
    /// # Errors
    ///
    /// The machine has no process or no memory left.
    pub(super) fn start(
        &self,
        name: &str,
        hello: &mut Hello,
        files: [BorrowedFd<'_>; 4],
        command_socket: Option<BorrowedFd<'_>>,
        open_flows: &[u8],
        longest: usize,
    ) -> Result<(Child, Channel), ExecError> {
        let (ours, theirs) = UnixStream::pair().map_err(outside)?;
        hello.open_flows_bytes = open_flows.len();
        hello.first = goes_first() && !hello.tenant;
        let open_flows = SharedMapping::of_bytes("weir-flows", open_flows).map_err(outside)?;
        let files = files
            .into_iter()
            .chain([open_flows.as_fd()])
            .chain(command_socket);
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
            // The environment may hold secrets of the operator.
            command.env_clear();
            command.stdout(Stdio::null()).stderr(Stdio::null());
        }
        let child = started_aside(|| command.spawn())
            .map_err(|error| ExecError(format!("can't start a process for {name}: {error}")))?;
        Ok((child, channel))
    }
}

/// Of a trusted stage: the run waits for it, so it is started again at once.
pub(super) const TRUSTED: RestartPolicy = RestartPolicy {
    first_at_once: true,
    pause: Duration::ZERO,
    longest: Duration::ZERO,
    forget: Forget::Older(LIFE),
    most: Some(MOST_DEATHS),
    most_false_starts: Some(MOST_FALSE_STARTS),
};

/// Of a stage that is not trusted. Each start costs time of the ports' thread,
/// so one that dies at once is left alone for a while, each time for longer.
pub(super) const TENANT: RestartPolicy = RestartPolicy {
    pause: Duration::from_secs(1),
    longest: LONGEST_PAUSE,
    forget: Forget::OnceUpFor(LIFE),
    ..TRUSTED
};

/// The cause of a process's death, for people: `of signal 9`.
pub(super) fn cause(status: &ExitStatus) -> String {
    match (status.signal(), status.code()) {
        (Some(signal), _) => format!("of signal {signal}"),
        (None, Some(code)) => format!("with exit code {code}"),
        _ => "somehow".to_owned(),
    }
}
