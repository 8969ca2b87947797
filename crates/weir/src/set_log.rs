//! What commands have done with sets of addresses, kept for the process that takes the main one's
//! place: the next switch of `weir up`, the next engine of a bump that fails open, the program that a switch
//! becomes.
//!
//! It is in memory of the first process, as the run's texts are ([`crate::kept`]).

use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::os::fd::AsRawFd as _;
use std::process::Command;
use std::sync::OnceLock;

use rustix::fs::MemfdFlags;
use weir_ctl::sets::SetLog;

/// The variable by which processes of a run find it: a path.
const VARIABLE: &str = "WEIR_SETS";

static KEPT: OnceLock<Kept> = OnceLock::new();

#[derive(Debug)]
struct Kept {
    file: File,
    path: String,
}

/// Keeps one for the processes that this one starts.
pub(crate) fn keep() -> io::Result<()> {
    let memory = rustix::fs::memfd_create("weir-sets", MemfdFlags::CLOEXEC);
    adopt(File::from(memory?));
    Ok(())
}

/// Goes on with that of the program before.
pub(crate) fn adopt(file: File) {
    let path = format!("/proc/{}/fd/{}", std::process::id(), file.as_raw_fd());
    KEPT.get_or_init(|| Kept { file, path });
}

/// Its file, for the program that this process becomes; `None` where none is kept.
pub(crate) fn file() -> io::Result<Option<File>> {
    let kept = KEPT.get();
    kept.map(|kept| kept.file.try_clone()).transpose()
}

/// Has this process use that of the one that has started it, if it has any.
///
/// # Errors
///
/// There is one, and it can't be opened.
pub(crate) fn inherit() -> io::Result<()> {
    let Ok(path) = std::env::var(VARIABLE) else {
        return Ok(());
    };
    let file = OpenOptions::new().read(true).write(true).open(&path)?;
    KEPT.get_or_init(|| Kept { file, path });
    Ok(())
}

/// Has a process find it.
pub(crate) fn pass_on(command: &mut Command) {
    match KEPT.get() {
        Some(kept) => command.env(VARIABLE, &kept.path),
        None => command.env_remove(VARIABLE),
    };
}

/// What commands do from here on is written there; `None` where none is kept.
///
/// # Errors
///
/// No descriptor is left.
#[cfg(feature = "control")]
pub(crate) fn log() -> io::Result<Option<Box<dyn SetLog>>> {
    let file = file()?;
    Ok(file.map(|file| Box::new(Log(file)) as Box<dyn SetLog>))
}

#[cfg(feature = "control")]
#[derive(Debug)]
struct Log(File);

#[cfg(feature = "control")]
impl SetLog for Log {
    fn read(&mut self) -> io::Result<String> {
        let mut text = String::new();
        self.0.rewind()?;
        self.0.read_to_string(&mut text)?;
        Ok(text)
    }

    fn write(&mut self, lines: &str, instead: bool) -> io::Result<()> {
        if instead {
            self.0.set_len(0)?;
        }
        self.0.seek(SeekFrom::End(0))?;
        self.0.write_all(lines.as_bytes())
    }
}
