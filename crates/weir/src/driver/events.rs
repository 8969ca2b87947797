//! The file that events go to.

use std::fs::File;
use std::io::{self, ErrorKind, Read as _, Seek as _, SeekFrom, Write};
use std::os::fd::AsFd as _;
use std::os::unix::fs::FileTypeExt as _;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use crate::exit::Failure;
use crate::say::say;

/// Octets that are gathered before they are written.
const GATHERED: usize = 1 << 18;
/// Octets that a pipe takes at once where it has room at all (POSIX's `PIPE_BUF`).
const PIPE_BUF: usize = 4096;
/// How soon a reader that was slow is offered more.
const RETRY: Duration = Duration::from_millis(1);
/// How long the end of a run waits for a reader that takes nothing.
const PATIENCE: Duration = Duration::from_secs(1);

pub(crate) struct EventFile {
    path: String,
    sink: Box<dyn Write>,
    /// The sink of a live run where that is no regular file: whoever reads from
    /// it may be slow, and packets don't wait for them.
    stream: Option<Arc<File>>,
    /// How long a stream that has no room is waited for.
    patience: Duration,
    /// Lines that are not written yet. The first may be the rest of one.
    waiting: Vec<u8>,
    /// Lines that [`EventFile::offer_lines`] could not keep.
    lost: u64,
    /// Since the last write failed nothing was written.
    stuck: bool,
    /// When it was last tried to write.
    tried: Instant,
    /// That it failed was said.
    said: bool,
}

impl EventFile {
    /// A new file in the place of what is there. Writing waits for whoever reads
    /// from it.
    pub(crate) fn create(path: &Path) -> Result<EventFile, Failure> {
        let name = path.display().to_string();
        let sink: Box<dyn Write> = if path.as_os_str() == "-" {
            Box::new(io::stdout())
        } else {
            let file = File::create(path).map_err(|error| cannot_create(&name, &error))?;
            Box::new(file)
        };
        Ok(EventFile::of(name, sink))
    }

    /// As [`EventFile::create`], for a run that goes on whoever reads or does
    /// not. Where `again`, what is there stays, and a line that was begun there
    /// by one who died in it is not gone on with.
    pub(crate) fn live(path: &Path, again: bool) -> Result<EventFile, Failure> {
        let name = path.display().to_string();
        let file = if path.as_os_str() == "-" {
            // Without the buffer of the library, which writes when it wants.
            io::stdout().as_fd().try_clone_to_owned().map(File::from)
        } else if std::fs::metadata(path).is_ok_and(|about| about.file_type().is_fifo()) {
            // To open it for writing only would wait for a reader, or fail.
            let flags = OFlags::RDWR | OFlags::NONBLOCK | OFlags::CLOEXEC;
            let file = rustix::fs::open(path, flags, Mode::empty());
            file.map(File::from).map_err(io::Error::from)
        } else if again {
            File::options().append(true).create(true).open(path)
        } else {
            File::create(path)
        };
        let file = file.map_err(|error| cannot_create(&name, &error))?;
        if !file.metadata().is_ok_and(|about| about.is_file()) {
            return Ok(EventFile::to_stream(name, file));
        }
        let torn = again && is_torn(path);
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
            stream: None,
            patience: Duration::ZERO,
            waiting: Vec::with_capacity(GATHERED),
            lost: 0,
            stuck: false,
            tried: Instant::now(),
            said: false,
        }
    }

    fn to_stream(path: String, file: File) -> EventFile {
        let file = Arc::new(file);
        EventFile {
            stream: Some(Arc::clone(&file)),
            ..EventFile::of(path, Box::new(file))
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
        if lines.is_empty() {
            return;
        }
        if self.waiting.len() + lines.len() > GATHERED && self.may_try() {
            self.try_flush();
        }
        // What could not be written is kept, so that no line is torn.
        if self.stuck && self.waiting.len() + lines.len() > GATHERED {
            self.lost += count(lines);
            self.warn(&slow());
        } else {
            self.waiting.extend_from_slice(lines);
        }
    }

    /// A disk that is full stays so for a while; a pipe may have room soon.
    fn may_try(&self) -> bool {
        !self.stuck || self.stream.is_some() && self.tried.elapsed() >= RETRY
    }

    /// Writes what waits; where it can't it warns, once, and is to be called
    /// again some time later.
    pub(crate) fn try_flush(&mut self) {
        let flushed = self.flush();
        self.stuck = flushed.is_err();
        self.tried = Instant::now();
        match flushed {
            // Nothing is lost yet.
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(error) => self.warn(&error),
            Ok(()) => {}
        }
    }

    fn warn(&mut self, error: &io::Error) {
        if !self.said {
            self.said = true;
            let failure = self.failure(error);
            say(format_args!(
                "warning: {}; packets pass on, and events that there is no room for are lost \
                 until it can be written to",
                failure.why()
            ));
        }
    }

    /// No more packets come: from here on a reader that takes something now and
    /// then is waited for, so that it gets the end, too.
    pub(crate) fn wait_for_reader(&mut self) {
        self.patience = PATIENCE;
        self.stuck = false;
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
            let mut rest = self.waiting.get(written..).unwrap_or_default();
            if rest.is_empty() {
                break self.sink.flush();
            }
            if let Some(stream) = &self.stream {
                match has_room(stream, self.patience) {
                    Ok(true) => rest = rest.get(..PIPE_BUF).unwrap_or(rest),
                    Ok(false) => {
                        // It is not waited for twice.
                        self.patience = Duration::ZERO;
                        break Err(slow());
                    }
                    Err(error) => break Err(error),
                }
            }
            match self.sink.write(rest) {
                Ok(0) => break Err(ErrorKind::WriteZero.into()),
                Ok(octets) => written += octets,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => break Err(slow()),
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

fn cannot_create(name: &str, error: &io::Error) -> Failure {
    Failure::outside(format!("can't create the event file {name}: {error}"))
}

/// There is no room, since nobody reads, or not fast enough.
fn slow() -> io::Error {
    io::Error::new(ErrorKind::WouldBlock, "whoever reads them does not keep up")
}

/// Whether a write of [`PIPE_BUF`] octets would not wait, now or after so long. (One that would
/// fail does not wait.) A stream that others have, too, can't be told not to let writers wait.
fn has_room(stream: &File, most: Duration) -> io::Result<bool> {
    let most = Timespec {
        tv_sec: most.as_secs() as i64,
        tv_nsec: most.subsec_nanos().into(),
    };
    loop {
        let mut fds = [PollFd::new(stream, PollFlags::OUT)];
        match poll(&mut fds, Some(&most)) {
            Ok(ready) => return Ok(ready > 0),
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
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
            let mut events = EventFile::live(&path, true).unwrap();
            events.write_lines(b"new\n").unwrap();
            events.finish().unwrap();
            assert_eq!(std::fs::read_to_string(&path).unwrap(), then);
        }
        std::fs::remove_file(&path).unwrap();
    }

    /// Offers so many lines of 100 octets.
    fn offer(events: &mut EventFile, lines: u32) {
        for number in 0..lines {
            let line = format!("{{\"event\": {number:>88}}}\n");
            events.offer_lines(line.as_bytes());
            if number % 1_000 == 0 {
                events.try_flush();
            }
        }
    }

    #[test]
    fn a_pipe_that_nobody_reads_from_is_not_waited_for_and_one_that_is_read_gets_all() {
        let (mut reader, writer) = io::pipe().unwrap();
        let file = File::from(std::os::fd::OwnedFd::from(writer));
        let mut events = EventFile::to_stream("here".to_owned(), file);
        offer(&mut events, 10_000);
        assert!(events.lost > 0 && events.stuck);
        // Somebody reads: what waits is for them, and what comes at the end.
        let reader = std::thread::spawn(move || {
            let mut all = Vec::new();
            reader.read_to_end(&mut all).map(|_| all)
        });
        events.wait_for_reader();
        // However slow this machine is.
        events.patience = Duration::from_secs(60);
        let before = events.lost;
        offer(&mut events, 10_000);
        assert_eq!(events.settle(), before);
        drop(events);
        let all = reader.join().unwrap().unwrap();
        let lines: Vec<_> = all.split_inclusive(|octet| *octet == b'\n').collect();
        assert!(lines.iter().all(|line| line.len() == 100));
        assert_eq!(lines.len() as u64 + before, 20_000);
    }

    #[test]
    fn a_fifo_without_a_reader_is_opened_and_its_reader_may_come_later() {
        let path = std::env::temp_dir().join(format!("weir-fifo-{}", std::process::id()));
        let fifo = rustix::fs::FileType::Fifo;
        rustix::fs::mknodat(rustix::fs::CWD, &path, fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        let mut events = EventFile::live(&path, false).unwrap();
        offer(&mut events, 10);
        events.try_flush();
        let mut first = [0; 100];
        File::open(&path).unwrap().read_exact(&mut first).unwrap();
        assert!(first.starts_with(b"{\"event\": "));
        offer(&mut events, 10_000);
        assert!(events.settle() > 0);
        std::fs::remove_file(&path).unwrap();
    }
}
