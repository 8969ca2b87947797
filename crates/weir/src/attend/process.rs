//! The process of a share, which outlives the agent that has started it.

use std::fs::File;
use std::io;
use std::os::unix::net::UnixDatagram;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, ExitStatus, Stdio};

use rustix::fs::FlockOperation;
use rustix::io::FdFlags;
use rustix::process::{Pid, Signal};

use super::folder::ShareFolder;

/// Most octets of what a process says of itself.
const LONGEST: usize = 1_024;

/// A process of a share that lives, or did a moment ago.
#[derive(Debug)]
pub(super) struct Process {
    number: u32,
    /// Where this agent has started it.
    child: Option<Child>,
    /// Can be locked when all processes of the share are over.
    running: File,
    notify: UnixDatagram,
}

/// The end of a process.
#[derive(Debug)]
pub(super) enum End {
    /// Of one that this agent has started.
    Status(ExitStatus),
    /// Of one that an agent before it has started.
    Unknown,
}

impl Process {
    /// Starts the share of a host.
    pub(super) fn start(
        folder: &ShareFolder,
        composition: &str,
        host: &str,
    ) -> io::Result<Process> {
        let running = folder.running()?;
        rustix::fs::flock(&running, FlockOperation::NonBlockingLockExclusive)
            .map_err(|_| io::Error::other("processes of it live that no agent looks after"))?;
        let notify = listen(folder)?;
        // The processes that it starts inherit the lock, too: it is free when all are over.
        let inherited = running.try_clone()?;
        rustix::io::fcntl_setfd(&inherited, FdFlags::empty())?;
        let child = Command::new("/proc/self/exe")
            .arg("up")
            .arg(folder.composition(composition))
            .args(["--host", host, "--quiet", "--key"])
            .arg(folder.key())
            .env("NOTIFY_SOCKET", folder.notify())
            .env_remove("WATCHDOG_USEC")
            .env_remove("WATCHDOG_PID")
            .stdin(Stdio::null())
            // A summary at its end is for the agent's log.
            .stdout(io::stderr())
            // Signals of a terminal are for the agent alone.
            .process_group(0)
            .spawn()?;
        drop(inherited);
        Ok(Process {
            number: child.id(),
            child: Some(child),
            running: folder.running()?,
            notify,
        })
    }

    /// The process that an agent before this one has started, if it lives.
    pub(super) fn adopt(folder: &ShareFolder, number: u32) -> io::Result<Option<Process>> {
        let running = folder.running()?;
        if number == 0 || !is_locked(&running) {
            return Ok(None);
        }
        Ok(Some(Process {
            number,
            child: None,
            running,
            notify: listen(folder)?,
        }))
    }

    pub(super) fn number(&self) -> u32 {
        self.number
    }

    /// What it has said of itself since it was asked last: the newest status.
    pub(super) fn said(&self) -> Option<String> {
        let mut octets = [0; LONGEST];
        let mut newest = None;
        while let Ok(count) = self.notify.recv(&mut octets) {
            let said = String::from_utf8_lossy(octets.get(..count).unwrap_or_default());
            let status = said.lines().find_map(|line| line.strip_prefix("STATUS="));
            newest = status.map(str::to_owned).or(newest);
        }
        newest
    }

    /// Its end, once all that it has started is over, too.
    pub(super) fn ended(&mut self) -> io::Result<Option<End>> {
        let status = match &mut self.child {
            None => None,
            Some(child) => match child.try_wait()? {
                None => return Ok(None),
                status => status,
            },
        };
        match is_locked(&self.running) {
            true => Ok(None),
            false => Ok(Some(status.map_or(End::Unknown, End::Status))),
        }
    }

    /// Asks it to end, or ends it.
    pub(super) fn signal(&self, signal: Signal) {
        // The lock says that it lives, or one of its own: its number is no other's yet.
        if let Some(process) = Pid::from_raw(self.number.cast_signed()) {
            let _ = rustix::process::kill_process(process, signal);
        }
    }
}

/// The socket on which a process speaks to whoever is its agent.
fn listen(folder: &ShareFolder) -> io::Result<UnixDatagram> {
    let path = folder.notify();
    match std::fs::remove_file(&path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let notify = UnixDatagram::bind(&path)?;
    notify.set_nonblocking(true)?;
    Ok(notify)
}

fn is_locked(running: &File) -> bool {
    let locked = rustix::fs::flock(running, FlockOperation::NonBlockingLockExclusive);
    if locked.is_ok() {
        let _ = rustix::fs::flock(running, FlockOperation::Unlock);
    }
    locked.is_err()
}
