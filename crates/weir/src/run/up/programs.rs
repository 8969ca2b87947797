//! The program that switches and agents of a run are started with: that of the first process, or one
//! that a switch has handed over to.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd as _;
use std::process::Command;
use std::sync::{Arc, Mutex, PoisonError};

use crate::program;

/// Shared between the threads that start processes.
#[derive(Clone, Debug)]
pub(super) struct ProgramsOfRun(Arc<Mutex<Two>>);

#[derive(Debug)]
struct Two {
    current: File,
    former: Option<File>,
    /// A switch that is the current one has not begun yet.
    is_new: bool,
}

/// A program to start.
#[derive(Debug)]
pub(super) struct Started(File);

impl Started {
    /// A command that starts it.
    pub(super) fn command(&self) -> Command {
        Command::new(format!("/proc/self/fd/{}", self.0.as_raw_fd()))
    }
}

impl ProgramsOfRun {
    /// The program of this process.
    pub(super) fn own() -> io::Result<ProgramsOfRun> {
        let two = Two {
            current: program::open_own()?,
            former: None,
            is_new: false,
        };
        Ok(ProgramsOfRun(Arc::new(Mutex::new(two))))
    }

    /// The one that runs, and the one before.
    pub(super) fn current(&self) -> io::Result<(Started, Option<File>)> {
        let two = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let former = two.former.as_ref().map(File::try_clone).transpose()?;
        Ok((Started(two.current.try_clone()?), former))
    }

    /// Another one runs from here on.
    pub(super) fn change(&self, next: File) {
        let mut two = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let former = std::mem::replace(&mut two.current, next);
        (two.former, two.is_new) = (Some(former), true);
    }

    /// A switch runs.
    pub(super) fn has_begun(&self) {
        let mut two = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        two.is_new = false;
    }

    /// Where no switch that is the current one has begun, the one before runs again: true then.
    pub(super) fn go_back(&self) -> bool {
        let mut two = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let former = two.former.take().filter(|_| two.is_new);
        let goes_back = former.is_some();
        if let Some(former) = former {
            two.current = former;
        }
        two.is_new = false;
        goes_back
    }
}
