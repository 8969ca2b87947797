//! The texts that a run was loaded from, kept in memory for its processes.
//!
//! A process of a run loads the chains itself: an engine that is started again, the next switch of
//! `weir up`, the engine of a bump that fails open. A file that has been edited meanwhile is not in
//! force before `weir reload`, so these read the texts that run. They are in memory of the first
//! process (memfd_create(2)); the others find it by an environment variable.

use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Seek as _, Write as _};
use std::os::fd::AsRawFd as _;
use std::process::Command;
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::Duration;

use rustix::fs::MemfdFlags;
use serde::{Deserialize, Serialize};

use crate::snapshot::Snapshot;

/// The variable by which processes of a run find its texts: a path.
const VARIABLE: &str = "WEIR_TEXTS";

/// How often texts that make no sense are read again, and after which pause.
const ATTEMPTS: u32 = 10;
const PAUSE: Duration = Duration::from_millis(10);

static KEPT: OnceLock<Kept> = OnceLock::new();

/// What is kept.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Slots {
    /// The texts that run.
    current: Snapshot,
    /// Those that were read for a reload.
    next: Option<Snapshot>,
}

#[derive(Debug)]
struct Kept {
    file: Mutex<File>,
    path: String,
}

impl Kept {
    /// Another process may be writing: it is read again then.
    fn read(&self) -> io::Result<Slots> {
        let mut left = ATTEMPTS;
        loop {
            let read = self.read_once();
            left -= 1;
            if read.is_ok() || left == 0 {
                return read;
            }
            std::thread::sleep(PAUSE);
        }
    }

    fn read_once(&self) -> io::Result<Slots> {
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        let mut bytes = Vec::new();
        file.rewind()?;
        file.read_to_end(&mut bytes)?;
        serde_json::from_slice(&bytes).map_err(io::Error::other)
    }

    fn write(&self, slots: &Slots) -> io::Result<()> {
        let bytes = serde_json::to_vec(slots)?;
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        file.set_len(0)?;
        file.rewind()?;
        file.write_all(&bytes)
    }
}

/// Keeps texts for the processes that this one starts.
pub(crate) fn keep(current: Snapshot) -> io::Result<()> {
    let memory = rustix::fs::memfd_create("weir-texts", MemfdFlags::CLOEXEC);
    let file = File::from(memory?);
    let path = format!("/proc/{}/fd/{}", std::process::id(), file.as_raw_fd());
    let kept = KEPT.get_or_init(|| Kept {
        file: Mutex::new(file),
        path,
    });
    let slots = Slots {
        current,
        next: None,
    };
    kept.write(&slots)
}

/// Has a process find them.
pub(crate) fn pass_on(command: &mut Command) {
    if let Some(kept) = kept() {
        command.env(VARIABLE, &kept.path);
    }
}

/// Those of this process, or of the one that has started it.
fn kept() -> Option<&'static Kept> {
    if let Some(kept) = KEPT.get() {
        return Some(kept);
    }
    let path = std::env::var(VARIABLE).ok()?;
    let file = OpenOptions::new().read(true).write(true).open(&path).ok()?;
    Some(KEPT.get_or_init(|| Kept {
        file: Mutex::new(file),
        path,
    }))
}

/// The texts that run, where they are kept.
pub(crate) fn current() -> io::Result<Option<Snapshot>> {
    let slots = kept().map(Kept::read).transpose()?;
    Ok(slots.map(|slots| slots.current))
}

/// The texts that were read for a reload.
pub(crate) fn next() -> io::Result<Option<Snapshot>> {
    let slots = kept().map(Kept::read).transpose()?;
    Ok(slots.and_then(|slots| slots.next))
}

/// Offers texts for a reload.
pub(crate) fn offer(next: Snapshot) -> io::Result<()> {
    change(|slots| {
        slots.next = Some(Snapshot {
            composition: slots.current.composition.clone(),
            ..next
        });
    })
}

/// Those that were offered run now.
pub(crate) fn take() -> io::Result<()> {
    change(|slots| {
        if let Some(next) = slots.next.take() {
            slots.current = next;
        }
    })
}

fn change(what: impl FnOnce(&mut Slots)) -> io::Result<()> {
    let Some(kept) = kept() else { return Ok(()) };
    let mut slots = kept.read()?;
    what(&mut slots);
    kept.write(&slots)
}
