//! The file that events go to.

use std::fs::File;
use std::io::{self, ErrorKind, Read as _, Seek as _, SeekFrom, Write};
use std::path::Path;

use crate::exit::Failure;
use crate::say::say;

/// Octets that are gathered before they are written.
const GATHERED: usize = 1 << 18;

pub(crate) struct EventFile {
    path: String,
    sink: Box<dyn Write>,
    /// Lines that are not written yet. The first may be the rest of one.
    waiting: Vec<u8>,
    /// Lines that [`EventFile::offer_lines`] could not keep.
    lost: u64,
    /// Since the last write failed nothing was written.
    stuck: bool,
    /// That it failed was said.
    said: bool,
}

impl EventFile {
    /// A new file in the place of what is there.
    pub(crate) fn create(path: &Path) -> Result<EventFile, Failure> {
        let name = path.display().to_string();
        let sink: Box<dyn Write> = if path.as_os_str() == "-" {
            Box::new(io::stdout())
        } else {
            let file = File::create(path).map_err(|error| {
                Failure::outside(format!("can't create the event file {name}: {error}"))
            })?;
            Box::new(file)
        };
        Ok(EventFile::of(name, sink))
    }

    /// As [`EventFile::create`], but what is there stays, and a line that was
    /// begun there by one who died in it is not gone on with.
    pub(crate) fn append(path: &Path) -> Result<EventFile, Failure> {
        if path.as_os_str() == "-" {
            return EventFile::create(path);
        }
        let name = path.display().to_string();
        let file = File::options().append(true).create(true).open(path);
        let file = file.map_err(|error| {
            Failure::outside(format!("can't write to the event file {name}: {error}"))
        })?;
        let torn = file.metadata().is_ok_and(|about| about.is_file()) && is_torn(path);
        let mut events = EventFile::of(name, Box::new(file));
        if torn {
            events.waiting.push(b'\n');
        }
        Ok(events)
    }

    fn of(path: String, sink: Box<dyn Write>) -> EventFile {
        EventFile {
            path,
            sink,
            waiting: Vec::with_capacity(GATHERED),
            lost: 0,
            stuck: false,
            said: false,
        }
    }

    /// Writes whole lines.
    pub(crate) fn write_lines(&mut self, lines: &[u8]) -> Result<(), Failure> {
        self.waiting.extend_from_slice(lines);
        match self.waiting.len() >= GATHERED {
            true => self.finish(),
            false => Ok(()),
        }
    }

    pub(crate) fn finish(&mut self) -> Result<(), Failure> {
        self.flush().map_err(|error| self.failure(&error))
    }

    /// As [`EventFile::write_lines`], for a run that goes on without: lines that
    /// there is no room for are counted as lost.
    pub(crate) fn offer_lines(&mut self, lines: &[u8]) {
        if self.waiting.len() + lines.len() > GATHERED && !self.stuck {
            self.try_flush();
        }
        // What could not be written is kept, so that no line is torn.
        if self.stuck && self.waiting.len() + lines.len() > GATHERED {
            self.lost += count(lines);
        } else {
            self.waiting.extend_from_slice(lines);
        }
    }

    /// Writes what waits; where it can't it warns, once, and is to be called
    /// again some time later.
    pub(crate) fn try_flush(&mut self) {
        let flushed = self.flush();
        self.stuck = flushed.is_err();
        if let Err(error) = flushed
            && !self.said
        {
            self.said = true;
            let failure = self.failure(&error);
            say(format_args!(
                "warning: {}; packets pass on, and events that there is no room for are lost \
                 until it can be written to",
                failure.why()
            ));
        }
    }

    /// The end of a run that offered lines: how many were lost, with those that
    /// still wait and can't be written.
    pub(crate) fn settle(&mut self) -> u64 {
        self.try_flush();
        self.lost += count(&self.waiting);
        self.waiting.clear();
        self.lost
    }

    /// The failure that lines were lost.
    pub(crate) fn loss(&self) -> Result<(), Failure> {
        match self.lost {
            0 => Ok(()),
            lost => Err(Failure::outside(format!(
                "{lost} events could not be written to {}",
                self.path
            ))),
        }
    }

    /// Writes what waits. What was written before a failure does not wait any
    /// more.
    fn flush(&mut self) -> io::Result<()> {
        let mut written = 0;
        let result = loop {
            let rest = self.waiting.get(written..).unwrap_or_default();
            if rest.is_empty() {
                break self.sink.flush();
            }
            match self.sink.write(rest) {
                Ok(0) => break Err(ErrorKind::WriteZero.into()),
                Ok(octets) => written += octets,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => break Err(error),
            }
        };
        self.waiting.drain(..written);
        result
    }

    fn failure(&self, error: &io::Error) -> Failure {
        let help = match error.kind() {
            ErrorKind::StorageFull => "; free some space or write to another disk",
            _ => "",
        };
        Failure::outside(format!(
            "can't write events to {}: {error}{help}",
            self.path
        ))
    }
}

fn count(lines: &[u8]) -> u64 {
    lines.iter().filter(|octet| **octet == b'\n').count() as u64
}

/// True where a file ends within a line.
fn is_torn(path: &Path) -> bool {
    let mut last = [b'\n'];
    // One that can't be read is written to as it is.
    let _ = File::open(path).and_then(|mut file| {
        file.seek(SeekFrom::End(-1))?;
        file.read_exact(&mut last)
    });
    last != [b'\n']
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;

    /// A disk with so much room.
    #[derive(Clone, Default)]
    struct Disk(Arc<Mutex<(usize, Vec<u8>)>>);

    impl Write for Disk {
        fn write(&mut self, octets: &[u8]) -> io::Result<usize> {
            let mut disk = self.0.lock().unwrap();
            let some = octets.len().min(disk.0 - disk.1.len());
            if some == 0 {
                return Err(ErrorKind::StorageFull.into());
            }
            disk.1.extend_from_slice(&octets[..some]);
            Ok(some)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_full_disk_loses_whole_lines_counts_them_and_is_written_to_when_it_has_room() {
        let disk = Disk::default();
        disk.0.lock().unwrap().0 = 1_005;
        let mut events = EventFile::of("here".to_owned(), Box::new(disk.clone()));
        let line = |number: u32| format!("{{\"event\": {number:>88}}}\n").into_bytes();
        assert_eq!(line(0).len(), 100);
        let most = GATHERED as u32 / 100;
        for number in 0..most + 500 {
            events.offer_lines(&line(number));
            if number % 1_000 == 0 {
                events.try_flush();
            }
        }
        assert!(events.lost > 0 && events.stuck);
        disk.0.lock().unwrap().0 = usize::MAX;
        events.try_flush();
        events.offer_lines(&line(7));
        let lost = events.settle();
        let written = disk.0.lock().unwrap().1.clone();
        let lines: Vec<_> = written.split_inclusive(|octet| *octet == b'\n').collect();
        assert!(lines.iter().all(|line| line.len() == 100));
        assert_eq!(lines.len() as u64 + lost, u64::from(most) + 501);
        assert_eq!(lines.last(), Some(&line(7).as_slice()));
        assert!(events.loss().is_err());
    }

    #[test]
    fn what_waits_at_the_end_and_cannot_be_written_is_lost_and_counted() {
        let disk = Disk::default();
        let mut events = EventFile::of("here".to_owned(), Box::new(disk));
        events.offer_lines(b"one\ntwo\n");
        assert_eq!(events.settle(), 2);
        assert_eq!(events.settle(), 2);
    }

    #[test]
    fn a_line_that_was_begun_is_not_gone_on_with() {
        let path = std::env::temp_dir().join(format!("weir-events-{}", std::process::id()));
        for (there, then) in [
            ("", "new\n"),
            ("old\n", "old\nnew\n"),
            ("old\nto", "old\nto\nnew\n"),
        ] {
            std::fs::write(&path, there).unwrap();
            let mut events = EventFile::append(&path).unwrap();
            events.write_lines(b"new\n").unwrap();
            events.finish().unwrap();
            assert_eq!(std::fs::read_to_string(&path).unwrap(), then);
        }
        std::fs::remove_file(&path).unwrap();
    }
}
