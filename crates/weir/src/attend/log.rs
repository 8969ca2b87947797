//! What a share's processes say: in a file, which outlives the agent, and in the agent's own log.

use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use crate::say::say;

/// Octets beyond which the file begins anew: the agent's log has them all.
const MOST: u64 = 1 << 20;
/// Most octets that are passed on at a time.
const AT_A_TIME: u64 = 64 << 10;

/// The reader of such a file.
#[derive(Debug)]
pub(super) struct Log {
    file: File,
    /// Octets that were passed on.
    read: u64,
    /// The beginning of a line that has no end yet.
    rest: String,
    /// The last line that said what was wrong.
    error: Option<String>,
}

impl Log {
    /// Reads what is said from now on.
    pub(super) fn open(path: &Path) -> io::Result<Log> {
        let mut options = OpenOptions::new();
        let file = options
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(path)?;
        let read = file.metadata()?.len();
        Ok(Log {
            file,
            read,
            rest: String::new(),
            error: None,
        })
    }

    /// An end of the file for a process to write to.
    pub(super) fn writer(path: &Path) -> io::Result<File> {
        OpenOptions::new()
            .append(true)
            .create(true)
            .mode(0o600)
            .open(path)
    }

    /// Passes on what is new.
    pub(super) fn pass_on(&mut self, name: &str) -> io::Result<()> {
        let there = self.file.metadata()?.len();
        if there == self.read {
            return Ok(());
        }
        if there < self.read {
            // Somebody has cut it.
            self.read = 0;
        }
        self.file.seek(SeekFrom::Start(self.read))?;
        let mut octets = Vec::new();
        (&self.file).take(AT_A_TIME).read_to_end(&mut octets)?;
        self.read += octets.len() as u64;
        self.rest.push_str(&String::from_utf8_lossy(&octets));
        while let Some((line, rest)) = self.rest.split_once('\n') {
            say(format_args!("{name}: {line}"));
            if let Some((_, error)) = line.split_once("error: ") {
                self.error = Some(error.to_owned());
            }
            self.rest = rest.to_owned();
        }
        if self.rest.len() as u64 > AT_A_TIME {
            say(format_args!("{name}: {}", std::mem::take(&mut self.rest)));
        }
        if self.read == there && there > MOST {
            // Writers append: what comes next is the beginning.
            self.file.set_len(0)?;
            self.read = 0;
        }
        Ok(())
    }

    /// What was wrong, as far as it was said.
    pub(super) fn error(&mut self) -> Option<String> {
        self.error.take()
    }
}
