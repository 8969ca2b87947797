//! What commands have done with sets of addresses, kept for the process that takes the main one's
//! place: the next switch of `weir up`, the next engine of a bump that fails open, the program that a
//! switch becomes.

use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};

use weir_ctl::sets::SetLog;

use crate::run_memory::RunMemory;

/// Where it is.
pub(crate) static SET_LOG: RunMemory = RunMemory::found_by("WEIR_SETS");

/// Keeps one for the processes that this one starts.
pub(crate) fn keep() -> io::Result<()> {
    SET_LOG.hold(RunMemory::create("weir-sets")?);
    Ok(())
}

/// What commands do from here on is written there; `None` where none is kept.
///
/// # Errors
///
/// No descriptor is left.
#[cfg(feature = "control")]
pub(crate) fn log() -> io::Result<Option<Box<dyn SetLog>>> {
    let file = SET_LOG.descriptor()?;
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
