//! The file that events go to.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

use crate::exit::Failure;

pub(crate) struct EventFile {
    path: String,
    writer: BufWriter<Box<dyn Write>>,
}

impl EventFile {
    pub(crate) fn create(path: &Path) -> Result<EventFile, Failure> {
        let name = path.display().to_string();
        let sink: Box<dyn Write> = if path.as_os_str() == "-" {
            Box::new(std::io::stdout())
        } else {
            let file = File::create(path).map_err(|error| {
                Failure::outside(format!("can't create the event file {name}: {error}"))
            })?;
            Box::new(file)
        };
        Ok(EventFile {
            path: name,
            writer: BufWriter::with_capacity(1 << 18, sink),
        })
    }

    /// As [`EventFile::create`], but what is there stays.
    pub(crate) fn append(path: &Path) -> Result<EventFile, Failure> {
        if path.as_os_str() == "-" {
            return EventFile::create(path);
        }
        let name = path.display().to_string();
        let file = File::options().append(true).create(true).open(path);
        let file = file.map_err(|error| {
            Failure::outside(format!("can't write to the event file {name}: {error}"))
        })?;
        Ok(EventFile {
            path: name,
            writer: BufWriter::with_capacity(1 << 18, Box::new(file)),
        })
    }

    /// Writes whole lines.
    pub(crate) fn write_lines(&mut self, lines: &[u8]) -> Result<(), Failure> {
        if lines.is_empty() {
            return Ok(());
        }
        let written = self.writer.write_all(lines);
        written.map_err(|error| self.failure(&error))
    }

    pub(crate) fn finish(&mut self) -> Result<(), Failure> {
        self.writer.flush().map_err(|error| self.failure(&error))
    }

    fn failure(&self, error: &std::io::Error) -> Failure {
        let help = match error.kind() {
            std::io::ErrorKind::StorageFull => "; free some space or write to another disk",
            _ => "",
        };
        Failure::outside(format!(
            "can't write events to {}: {error}{help}",
            self.path
        ))
    }
}
