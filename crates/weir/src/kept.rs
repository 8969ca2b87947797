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

use rustix::fs::MemfdFlags;
use serde::{Deserialize, Serialize};

use crate::snapshot::Snapshot;

/// The variable by which processes of a run find its texts: a path.
const VARIABLE: &str = "WEIR_TEXTS";

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
    fn read(&self) -> io::Result<Slots> {
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        file.lock_shared()?;
        let read = slots_of(&mut file);
        file.unlock()?;
        read
    }

    /// Changes what is kept, while no other process reads or writes it.
    fn change(&self, what: impl FnOnce(&mut Slots)) -> io::Result<()> {
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        file.lock()?;
        let changed = slots_of(&mut file).and_then(|mut slots| {
            what(&mut slots);
            write(&mut file, &slots)
        });
        file.unlock()?;
        changed
    }
}

fn slots_of(file: &mut File) -> io::Result<Slots> {
    let mut bytes = Vec::new();
    file.rewind()?;
    file.read_to_end(&mut bytes)?;
    serde_json::from_slice(&bytes).map_err(io::Error::other)
}

fn write(file: &mut File, slots: &Slots) -> io::Result<()> {
    let bytes = serde_json::to_vec(slots)?;
    file.set_len(0)?;
    file.rewind()?;
    file.write_all(&bytes)
}

/// Keeps texts for the processes that this one starts.
pub(crate) fn keep(current: Snapshot) -> io::Result<()> {
    let memory = rustix::fs::memfd_create("weir-texts", MemfdFlags::CLOEXEC);
    let mut file = File::from(memory?);
    let slots = Slots {
        current,
        next: None,
    };
    write(&mut file, &slots)?;
    adopt(file);
    Ok(())
}

/// Has this process use the texts of the one that has started it, if it has any.
///
/// # Errors
///
/// There are, and they can't be opened: those of a program with capabilities of its file are root's.
pub(crate) fn inherit() -> io::Result<()> {
    let Ok(path) = std::env::var(VARIABLE) else {
        return Ok(());
    };
    let file = OpenOptions::new().read(true).write(true).open(&path)?;
    KEPT.get_or_init(|| Kept {
        file: Mutex::new(file),
        path,
    });
    Ok(())
}

/// Their file, for the program that this process becomes; `None` where none are kept.
pub(crate) fn file() -> io::Result<Option<File>> {
    let file = |kept: &Kept| {
        let file = kept.file.lock().unwrap_or_else(PoisonError::into_inner);
        file.try_clone()
    };
    KEPT.get().map(file).transpose()
}

/// Keeps what the program before has kept.
pub(crate) fn adopt(file: File) {
    let path = format!("/proc/{}/fd/{}", std::process::id(), file.as_raw_fd());
    KEPT.get_or_init(|| Kept {
        file: Mutex::new(file),
        path,
    });
}

/// Has a process find them.
pub(crate) fn pass_on(command: &mut Command) {
    match KEPT.get() {
        Some(kept) => command.env(VARIABLE, &kept.path),
        None => command.env_remove(VARIABLE),
    };
    crate::set_log::pass_on(command);
}

/// The texts that run, where they are kept.
pub(crate) fn current() -> io::Result<Option<Snapshot>> {
    let slots = KEPT.get().map(Kept::read).transpose()?;
    Ok(slots.map(|slots| slots.current))
}

/// The texts that were read for a reload.
pub(crate) fn next() -> io::Result<Option<Snapshot>> {
    let slots = KEPT.get().map(Kept::read).transpose()?;
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

/// Those that were offered are not taken.
pub(crate) fn forget() -> io::Result<()> {
    change(|slots| slots.next = None)
}

fn change(what: impl FnOnce(&mut Slots)) -> io::Result<()> {
    KEPT.get().map_or(Ok(()), |kept| kept.change(what))
}
