//! The process of a share, which outlives the agent that has started it.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixDatagram;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, ExitStatus, Stdio};

use rustix::fs::FlockOperation;
use rustix::io::FdFlags;
use rustix::process::{Pid, PidfdFlags, Signal};

use super::folder::ShareFolder;
use super::log::Log;

/// Most octets of what a process says of itself.
const LONGEST: usize = 1_024;

/// A process of a share that lives, or did a moment ago.
#[derive(Debug)]
pub(super) struct Process {
    number: u32,
    /// Stands for the process also where its number is another's by now.
    handle: OwnedFd,
    /// Where this agent has started it.
    child: Option<Child>,
    /// Can be locked when all processes of the share are over.
    running: File,
    notify: UnixDatagram,
    log: Log,
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
    /// Starts the share of a host. It writes its number itself: should this agent die before it has kept
    /// that, the next one finds it.
    pub(super) fn start(
        folder: &ShareFolder,
        composition: &str,
        host: &str,
    ) -> io::Result<Process> {
        let running = folder.running()?;
        rustix::fs::flock(&running, FlockOperation::NonBlockingLockExclusive)
            .map_err(|_| io::Error::other("processes of it live that no agent looks after"))?;
        folder.forget_process()?;
        let (notify, log) = (listen(folder)?, Log::open(&folder.log())?);
        let said = Log::writer(&folder.log())?;
        // The processes that it starts inherit the lock, too: it is free when all are over.
        let inherited = running.try_clone()?;
        rustix::io::fcntl_setfd(&inherited, FdFlags::empty())?;
        let child = Command::new("/proc/self/exe")
            .arg("up")
            .arg(folder.composition(composition))
            .args(["--host", host, "--quiet", "--key"])
            .arg(folder.key())
            .arg("--process-file")
            .arg(folder.process_file())
            .arg("--ledger")
            .arg(folder.ledger())
            .env("NOTIFY_SOCKET", folder.notify())
            .env_remove("WATCHDOG_USEC")
            .env_remove("WATCHDOG_PID")
            .stdin(Stdio::null())
            // A file outlives this agent, as they do.
            .stdout(said.try_clone()?)
            .stderr(said)
            // Signals of a terminal are for the agent alone.
            .process_group(0)
            .spawn()?;
        drop(inherited);
        let number = child.id();
        Ok(Process {
            number,
            handle: handle_of(number)?,
            child: Some(child),
            running: folder.running()?,
            notify,
            log,
        })
    }

    /// The process that an agent before this one has started, if it lives.
    pub(super) fn adopt(folder: &ShareFolder) -> io::Result<Option<Process>> {
        let running = folder.running()?;
        let Some(number) = folder.process().filter(|_| is_locked(&running)) else {
            return Ok(None);
        };
        // Where it is dead, the kernel ends what it has started: the next start waits for that.
        let Ok(handle) = handle_of(number) else {
            return Ok(None);
        };
        Ok(Some(Process {
            number,
            handle,
            child: None,
            running,
            notify: listen(folder)?,
            log: Log::open(&folder.log())?,
        }))
    }

    pub(super) fn number(&self) -> u32 {
        self.number
    }

    /// Has the agent's log have what it has said.
    pub(super) fn pass_on(&mut self, name: &str) -> io::Result<()> {
        self.log.pass_on(name)
    }

    /// What it has said was wrong, last.
    pub(super) fn error(&mut self) -> Option<String> {
        self.log.error()
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
        // One that is over needs none.
        let _ = rustix::process::pidfd_send_signal(&self.handle, signal);
    }
}

/// True while any process of the share lives.
pub(super) fn lives(folder: &ShareFolder) -> bool {
    folder.running().is_ok_and(|running| is_locked(&running))
}

fn handle_of(number: u32) -> io::Result<OwnedFd> {
    let process = Pid::from_raw(number.cast_signed()).ok_or(io::ErrorKind::NotFound)?;
    Ok(rustix::process::pidfd_open(process, PidfdFlags::empty())?)
}

/// The socket on which a process speaks to whoever is its agent.
fn listen(folder: &ShareFolder) -> io::Result<UnixDatagram> {
    let path = folder.notify();
    match std::fs::remove_file(&path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let bound = UnixDatagram::bind(&path);
    let notify = bound.map_err(|error| {
        let path = path.display();
        io::Error::other(format!(
            "can't listen on {path}: {error} (a shorter `--state` may help)"
        ))
    })?;
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
