//! The target of events: a file, a FIFO, a Unix socket, standard output, or a collector.

use std::fmt;
use std::fs::File;
use std::io::{self, ErrorKind, Read as _, Seek as _, SeekFrom, Write as _};
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, socket_with};

use super::export::{Encoder, Export};
use super::lines;
use crate::exit::Failure;

/// Octets that a pipe takes at once where it has room at all (POSIX's `PIPE_BUF`).
const PIPE_BUF: usize = 4096;
/// A datagram longer than the socket's buffer.
pub(super) const TOO_LONG: Option<i32> = Some(Errno::MSGSIZE.raw_os_error());
/// Before the path of a socket.
const SOCKET: &str = "unix:";

/// The argument of `--events`.
#[derive(Debug)]
pub(crate) enum Target {
    /// `-`.
    StandardOutput,
    /// A regular file, a FIFO or a device.
    Path(PathBuf),
    /// `unix:PATH`: a socket that another program listens on. Stream or
    /// datagram, as that program made it; a datagram is one line.
    Socket(PathBuf),
    /// In another form than lines, for a collector.
    Export(Export),
}

impl Target {
    /// Reads a target.
    ///
    /// # Errors
    ///
    /// A collector whose address can't be read.
    pub(crate) fn parse(path: &Path) -> Result<Target, Failure> {
        let Some(text) = path.to_str() else {
            return Ok(Target::Path(path.to_owned()));
        };
        if text == "-" {
            return Ok(Target::StandardOutput);
        }
        if let Some(socket) = text.strip_prefix(SOCKET) {
            return Ok(Target::Socket(socket.into()));
        }
        match Export::parse(text) {
            None => Ok(Target::Path(path.to_owned())),
            Some(export) => export
                .map(Target::Export)
                .map_err(|error| Failure::usage(format!("--events {text}: {error}"))),
        }
    }

    /// Looks the name of a collector up, which may take a while: before packets come.
    ///
    /// # Errors
    ///
    /// It has no address.
    pub(super) fn look_up(&mut self) -> Result<(), Failure> {
        let Target::Export(export) = self else {
            return Ok(());
        };
        let found = export.look_up();
        found.map_err(|error| Failure::outside(format!("--events {export}: {error}")))
    }

    /// The path of a file, which no port may have as well.
    pub(crate) fn file(&self) -> Option<&Path> {
        match self {
            Target::Path(path) => Some(path),
            Target::StandardOutput => Some(Path::new("-")),
            Target::Socket(_) => None,
            Target::Export(export) => export.file(),
        }
    }

    /// True where its form can say every event.
    pub(super) fn takes_all(&self) -> bool {
        match self {
            Target::Export(export) => export.takes_all(),
            Target::StandardOutput | Target::Path(_) | Target::Socket(_) => true,
        }
    }

    /// True where its form can say this event.
    pub(super) fn takes(&self, line: &[u8]) -> bool {
        self.takes_all() || matches!(self, Target::Export(export) if export.takes(line))
    }

    /// True where another program listens, now or later.
    pub(super) fn has_listener(&self) -> bool {
        match self {
            Target::Socket(_) => true,
            Target::StandardOutput | Target::Path(_) => false,
            Target::Export(export) => export.file().is_none(),
        }
    }

    /// Opens it for writers that may wait (`waits`), or must not.
    ///
    /// # Errors
    ///
    /// Those of the system; `ConnectionRefused` and `NotFound` for a socket
    /// that no program listens on.
    pub(super) fn open(&self, waits: bool) -> io::Result<Sink> {
        match self {
            // Without the buffer of the standard library, which holds lines back.
            Target::StandardOutput => {
                let file = io::stdout().as_fd().try_clone_to_owned()?.into();
                Ok(Sink::stream_unless_regular(file, waits))
            }
            Target::Path(path) => {
                let file = open_path(path, waits)?;
                Ok(Sink::stream_unless_regular(file, waits))
            }
            Target::Socket(path) => connect(path, waits),
            Target::Export(export) => {
                let sink = match export.file() {
                    Some(path) => Sink::stream_unless_regular(open_messages(path, waits)?, waits),
                    None => Sink::stream(export.connect(waits)?.into(), waits),
                };
                Ok(Sink {
                    datagrams: export.is_datagrams(),
                    unanswered: export.is_datagrams(),
                    ..sink.by(export.encoder())
                })
            }
        }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Target::StandardOutput => f.write_str("-"),
            Target::Path(path) => path.display().fmt(f),
            Target::Socket(path) => write!(f, "{SOCKET}{}", path.display()),
            Target::Export(export) => export.fmt(f),
        }
    }
}

/// Opens a file to write behind what it has, without waiting for the reader of a FIFO.
fn open_at_end(path: &Path, waits: bool) -> io::Result<File> {
    let is_fifo = std::fs::metadata(path).is_ok_and(|about| about.file_type().is_fifo());
    if is_fifo && !waits {
        // Opened for writing only, it would wait for a reader, or fail.
        let flags = OFlags::RDWR | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = rustix::fs::open(path, flags, Mode::empty())?;
        return Ok(file.into());
    }
    File::options().append(true).create(true).open(path)
}

/// Opens a file of messages behind the last whole one: what a writer that died left of one
/// would hide those behind it. One that this or another process writes is left as it is.
fn open_messages(path: &Path, waits: bool) -> io::Result<File> {
    let file = open_at_end(path, waits)?;
    let about = file.metadata()?;
    // Its writer holds the lock until it closes the file.
    let is_alone = about.is_file() && file.try_lock().is_ok();
    if is_alone
        && let Ok(mut read) = File::open(path)
        && read.metadata()?.ino() == about.ino()
        && let Some(whole) = super::export::whole_messages(&mut read)?
    {
        file.set_len(whole)?;
    }
    Ok(file)
}

fn open_path(path: &Path, waits: bool) -> io::Result<File> {
    let unfinished = ends_within_a_line(path);
    let mut file = open_at_end(path, waits)?;
    if unfinished {
        // A writer that died left a part of a line.
        file.write_all(b"\n")?;
    }
    Ok(file)
}

fn ends_within_a_line(path: &Path) -> bool {
    if !std::fs::metadata(path).is_ok_and(|about| about.is_file()) {
        return false;
    }
    let mut last = [b'\n'];
    // A file that can't be read may still be written to.
    let _ = File::open(path).and_then(|mut file| {
        file.seek(SeekFrom::End(-1))?;
        file.read_exact(&mut last)
    });
    last != [b'\n']
}

/// Connects to a stream socket, else to a datagram socket.
fn connect(path: &Path, waits: bool) -> io::Result<Sink> {
    let address = SocketAddrUnix::new(path)?;
    // A listener whose backlog is full would hold a blocking socket up.
    let flags = match waits {
        true => SocketFlags::CLOEXEC,
        false => SocketFlags::CLOEXEC | SocketFlags::NONBLOCK,
    };
    let of = |kind| -> Result<OwnedFd, Errno> {
        let socket = socket_with(AddressFamily::UNIX, kind, flags, None)?;
        rustix::net::connect(&socket, &address)?;
        Ok(socket)
    };
    match of(SocketType::STREAM) {
        Ok(socket) => Ok(Sink::stream(socket.into(), waits)),
        Err(Errno::PROTOTYPE) => Ok(Sink {
            datagrams: true,
            ..Sink::stream(of(SocketType::DGRAM)?.into(), waits)
        }),
        Err(error) => Err(error.into()),
    }
}

/// An open target.
pub(super) struct Sink {
    out: Box<dyn io::Write + Send>,
    /// Asked for room before each write, since a reader may be slow.
    polled: Option<Arc<File>>,
    /// Each line is a message of its own.
    datagrams: bool,
    /// Over UDP, which tells of nothing that is lost.
    unanswered: bool,
    /// The messages that are written instead of lines, for a collector.
    encoded: Option<Encoded>,
}

/// Encodes lines as messages. A message that waits for room stays the same until it is written or
/// the session ends.
struct Encoded {
    encoder: Encoder,
    message: Vec<u8>,
    /// Octets of the message that are written.
    written: usize,
    /// Octets of the lines that it was made of.
    taken: usize,
}

impl Encoded {
    fn by(encoder: Encoder) -> Encoded {
        Encoded {
            encoder,
            message: Vec::new(),
            written: 0,
            taken: 0,
        }
    }
}

impl Sink {
    /// A sink that takes everything at once, or fails.
    #[cfg(test)]
    pub(super) fn of(out: Box<dyn io::Write + Send>) -> Sink {
        Sink {
            out,
            polled: None,
            datagrams: false,
            unanswered: false,
            encoded: None,
        }
    }

    pub(super) fn stream(file: File, waits: bool) -> Sink {
        let file = Arc::new(file);
        Sink {
            out: Box::new(Arc::clone(&file)),
            polled: (!waits).then_some(file),
            datagrams: false,
            unanswered: false,
            encoded: None,
        }
    }

    fn stream_unless_regular(file: File, waits: bool) -> Sink {
        let regular = file.metadata().is_ok_and(|about| about.is_file());
        Sink::stream(file, waits || regular)
    }

    /// Writes messages of this form in the place of lines.
    pub(super) fn by(self, encoder: Encoder) -> Sink {
        Sink {
            encoded: Some(Encoded::by(encoder)),
            ..self
        }
    }

    /// True where a reader decides how much room there is.
    pub(super) fn has_reader(&self) -> bool {
        self.polled.is_some()
    }

    /// Writes a part of `lines`, which are not empty; waits for room for at
    /// most `patience`. Gives the octets written.
    ///
    /// # Errors
    ///
    /// `WouldBlock` where there is no room, and those of the system.
    pub(super) fn write(&mut self, lines: &[u8], patience: Duration) -> io::Result<usize> {
        let Some(mut encoded) = self.encoded.take() else {
            let octets = match self.datagrams {
                true => lines::first_length(lines),
                false => lines.len(),
            };
            return self.write_some(lines.get(..octets).unwrap_or(lines), patience);
        };
        let written = self.write_encoded(&mut encoded, lines, patience);
        self.encoded = Some(encoded);
        written
    }

    /// Lines are written when their whole message is.
    fn write_encoded(
        &mut self,
        encoded: &mut Encoded,
        lines: &[u8],
        patience: Duration,
    ) -> io::Result<usize> {
        if encoded.message.is_empty() {
            encoded.taken = encoded.encoder.encode(lines, &mut encoded.message);
        }
        while let Some(rest @ [_, ..]) = encoded.message.get(encoded.written..) {
            match self.write_some(rest, patience) {
                Ok(octets) => encoded.written += octets,
                // It is given up with its line.
                Err(error) if error.raw_os_error() == TOO_LONG => {
                    encoded.message.clear();
                    return Err(error);
                }
                // The rest of it goes on later, or the session is over.
                Err(error) => return Err(error),
            }
        }
        encoded.message.clear();
        encoded.written = 0;
        Ok(encoded.taken)
    }

    /// Writes a part of some octets, or all of a datagram.
    fn write_some(&mut self, octets: &[u8], patience: Duration) -> io::Result<usize> {
        let mut part = octets;
        if let Some(stream) = &self.polled {
            if !has_room(stream, patience)? {
                return Err(slow());
            }
            if !self.datagrams {
                part = part.get(..PIPE_BUF).unwrap_or(part);
            }
        }
        let mut is_told = false;
        loop {
            match self.out.write(part) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(octets) => return Ok(octets),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Err(slow()),
                Err(error) if self.unanswered && error.raw_os_error() != TOO_LONG => {
                    // The first error is an answer to an earlier datagram.
                    if core::mem::replace(&mut is_told, true) {
                        return match error.kind() {
                            ErrorKind::ConnectionRefused => Ok(part.len()),
                            _ => Err(error),
                        };
                    }
                }
                Err(error) => return Err(error),
            }
        }
    }
}

/// The reader has left no room.
pub(super) fn slow() -> io::Error {
    io::Error::new(ErrorKind::WouldBlock, "the reader does not keep up")
}

/// True where a write of [`PIPE_BUF`] octets would not block, now or within
/// `most`; a write that would fail does not block. Standard output may be shared
/// with other processes, so it can't be made non-blocking.
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
