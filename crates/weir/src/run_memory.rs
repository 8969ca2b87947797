//! Memory of a run that outlives its processes, in a file without a name (memfd_create(2)).
//!
//! The first process makes it. Those that it starts, and those that these start, find it by an
//! environment variable; a process that becomes another program hands its file on.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd as _;
use std::process::Command;
use std::sync::OnceLock;

use rustix::fs::MemfdFlags;

/// See the module.
#[derive(Debug)]
pub(crate) struct RunMemory {
    /// Its value is the path of the file.
    variable: &'static str,
    held: OnceLock<Held>,
}

#[derive(Debug)]
struct Held {
    file: File,
    path: String,
}

impl RunMemory {
    /// Memory that processes find by this variable; this one has none yet.
    pub(crate) const fn found_by(variable: &'static str) -> RunMemory {
        RunMemory {
            variable,
            held: OnceLock::new(),
        }
    }

    /// A file for it, which this process does not hold yet.
    ///
    /// # Errors
    ///
    /// No memory or descriptor is left.
    pub(crate) fn create(name: &str) -> io::Result<File> {
        let memory = rustix::fs::memfd_create(name, MemfdFlags::CLOEXEC);
        Ok(File::from(memory?))
    }

    /// Holds a file: a new one, or that of the program before. The first one stays.
    pub(crate) fn hold(&self, file: File) {
        let path = format!("/proc/{}/fd/{}", std::process::id(), file.as_raw_fd());
        self.held.get_or_init(|| Held { file, path });
    }

    /// Has this process hold that of the one that has started it, if it has any.
    ///
    /// # Errors
    ///
    /// There is one, and it can't be opened: that of a program with capabilities of its file is root's.
    pub(crate) fn inherit(&self) -> io::Result<()> {
        let Ok(path) = std::env::var(self.variable) else {
            return Ok(());
        };
        let file = OpenOptions::new().read(true).write(true).open(&path)?;
        self.held.get_or_init(|| Held { file, path });
        Ok(())
    }

    /// Has a process find it.
    pub(crate) fn pass_on(&self, command: &mut Command) {
        match self.held.get() {
            Some(held) => command.env(self.variable, &held.path),
            None => command.env_remove(self.variable),
        };
    }

    /// Its file; `None` where this process holds none.
    pub(crate) fn file(&self) -> Option<&File> {
        self.held.get().map(|held| &held.file)
    }

    /// A descriptor of its own for the file.
    ///
    /// # Errors
    ///
    /// No descriptor is left.
    pub(crate) fn descriptor(&self) -> io::Result<Option<File>> {
        self.file().map(File::try_clone).transpose()
    }
}
