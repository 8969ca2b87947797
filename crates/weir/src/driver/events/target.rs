//! The target of events: a file, a FIFO, a Unix socket, or standard output.

use std::fmt;
use std::fs::File;
use std::io::{self, ErrorKind, Read as _, Seek as _, SeekFrom, Write as _};
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::fs::FileTypeExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, socket_with};

/// Octets that a pipe takes at once where it has room at all (POSIX's `PIPE_BUF`).
const PIPE_BUF: usize = 4096;
/// Before the path of a socket.
const SOCKET: &str = "unix:";

/// The argument of `--events`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    /// `-`.
    StandardOutput,
    /// A regular file, a FIFO or a device.
    Path(PathBuf),
    /// `unix:PATH`: a socket that another program listens on. Stream or
    /// datagram, as that program made it; a datagram is one line.
    Socket(PathBuf),
}

impl Target {
    pub(crate) fn parse(text: &Path) -> Target {
        match text.to_str() {
            Some("-") => Target::StandardOutput,
            Some(text) if text.starts_with(SOCKET) => {
                Target::Socket(text.trim_start_matches(SOCKET).into())
            }
            _ => Target::Path(text.to_owned()),
        }
    }

    /// The path of a file, which no port may have as well.
    pub(crate) fn file(&self) -> Option<&Path> {
        match self {
            Target::Path(path) => Some(path),
            Target::StandardOutput => Some(Path::new("-")),
            Target::Socket(_) => None,
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
        }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Target::StandardOutput => f.write_str("-"),
            Target::Path(path) => path.display().fmt(f),
            Target::Socket(path) => write!(f, "{SOCKET}{}", path.display()),
        }
    }
}

fn open_path(path: &Path, waits: bool) -> io::Result<File> {
    let is_fifo = std::fs::metadata(path).is_ok_and(|about| about.file_type().is_fifo());
    if is_fifo && !waits {
        // Opened for writing only, it would wait for a reader, or fail.
        let flags = OFlags::RDWR | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = rustix::fs::open(path, flags, Mode::empty())?;
        return Ok(file.into());
    }
    let unfinished = ends_within_a_line(path);
    let mut file = File::options().append(true).create(true).open(path)?;
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
}

impl Sink {
    /// A sink that takes everything at once, or fails.
    #[cfg(test)]
    pub(super) fn of(out: Box<dyn io::Write + Send>) -> Sink {
        Sink {
            out,
            polled: None,
            datagrams: false,
        }
    }

    pub(super) fn stream(file: File, waits: bool) -> Sink {
        let file = Arc::new(file);
        Sink {
            out: Box::new(Arc::clone(&file)),
            polled: (!waits).then_some(file),
            datagrams: false,
        }
    }

    fn stream_unless_regular(file: File, waits: bool) -> Sink {
        let regular = file.metadata().is_ok_and(|about| about.is_file());
        Sink::stream(file, waits || regular)
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
        let mut part = lines;
        if let Some(stream) = &self.polled {
            if !has_room(stream, patience)? {
                return Err(slow());
            }
            part = part.get(..PIPE_BUF).unwrap_or(part);
        }
        if self.datagrams {
            let end = lines.iter().position(|octet| *octet == b'\n');
            part = end.and_then(|end| lines.get(..=end)).unwrap_or(lines);
        }
        loop {
            match self.out.write(part) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(octets) => return Ok(octets),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Err(slow()),
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
