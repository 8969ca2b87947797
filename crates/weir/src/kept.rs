//! The texts that a run was loaded from, kept in memory for its processes.
//!
//! A process of a run loads the chains itself: an engine that is started again, the next switch of
//! `weir up`, the engine of a bump that fails open. A file that has been edited meanwhile is not in
//! force before `weir reload`, so these read the texts that run.

use std::fs::File;
use std::io::{self, Read as _, Seek as _, Write as _};
use std::process::Command;
use std::sync::{Mutex, PoisonError};

use serde::{Deserialize, Serialize};

use crate::run_memory::RunMemory;
use crate::set_log::SET_LOG;
use crate::snapshot::Snapshot;

/// Where they are. A process of a program with capabilities of its file can't have them.
pub(crate) static TEXTS: RunMemory = RunMemory::found_by("WEIR_TEXTS");

/// Held while a thread of this process reads or writes them: all have one place in the file.
static ONE: Mutex<()> = Mutex::new(());

/// What is kept.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Slots {
    /// The texts that run.
    current: Snapshot,
    /// Those that were read for a reload.
    next: Option<Snapshot>,
}

/// Reads what is kept, if anything is.
fn read() -> io::Result<Option<Slots>> {
    let _one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    let Some(file) = TEXTS.file() else {
        return Ok(None);
    };
    file.lock_shared()?;
    let read = slots_of(file);
    file.unlock()?;
    read.map(Some)
}

/// Changes what is kept, while no other process reads or writes it.
fn change(what: impl FnOnce(&mut Slots)) -> io::Result<()> {
    let _one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    let Some(file) = TEXTS.file() else {
        return Ok(());
    };
    file.lock()?;
    let changed = slots_of(file).and_then(|mut slots| {
        what(&mut slots);
        write(file, &slots)
    });
    file.unlock()?;
    changed
}

fn slots_of(mut file: &File) -> io::Result<Slots> {
    let mut bytes = Vec::new();
    file.rewind()?;
    file.read_to_end(&mut bytes)?;
    serde_json::from_slice(&bytes).map_err(io::Error::other)
}

fn write(mut file: &File, slots: &Slots) -> io::Result<()> {
    let bytes = serde_json::to_vec(slots)?;
    file.set_len(0)?;
    file.rewind()?;
    file.write_all(&bytes)
}

/// Keeps texts for the processes that this one starts.
pub(crate) fn keep(current: Snapshot) -> io::Result<()> {
    let file = RunMemory::create("weir-texts")?;
    let slots = Slots {
        current,
        next: None,
    };
    write(&file, &slots)?;
    TEXTS.hold(file);
    Ok(())
}

/// Has a process find all that its run keeps.
pub(crate) fn pass_on(command: &mut Command) {
    TEXTS.pass_on(command);
    SET_LOG.pass_on(command);
}

/// The texts that run, where they are kept.
pub(crate) fn current() -> io::Result<Option<Snapshot>> {
    Ok(read()?.map(|slots| slots.current))
}

/// The texts that were read for a reload.
pub(crate) fn next() -> io::Result<Option<Snapshot>> {
    Ok(read()?.and_then(|slots| slots.next))
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
