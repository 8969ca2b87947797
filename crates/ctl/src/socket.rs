//! The path of the control socket, which only its owner can reach.
//!
//! The folder is of mode 0700 and the socket of mode 0600 before anybody can
//! connect. While an instance looks for the place of its socket it holds a lock
//! on the folder, so that two that start at once don't take each other's for a
//! dead one's.

use std::ffi::OsStr;
use std::fs;
use std::io::ErrorKind;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::FlockOperation;
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};

/// Connections that may wait to be accepted.
const BACKLOG: i32 = 16;
/// Most instances of one chain that are told apart by a number.
const MOST: u32 = 1_000;
/// How long weir waits for the folder's `flock`: any reader of the folder can
/// hold it for ever.
const PATIENCE: Duration = Duration::from_secs(2);
/// How often weir tries to get it.
const TRY: Duration = Duration::from_millis(10);
/// Name of the socket of a coordinator: those of instances end in `.sock`.
const COORDINATOR: &str = "coordinator.socket";
/// Longest name of an instance.
const LONGEST: usize = 64;

/// Why a control socket can't be had, or found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SocketError {
    /// The message, with all advice but the remedy.
    why: String,
    remedy: Option<Remedy>,
}

/// A step that the caller may offer beside the message, as its own argument or setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Remedy {
    /// Give the path of the socket, or another one.
    Path,
    /// Give the instance a name of its own.
    Name,
}

impl SocketError {
    fn path(why: String) -> SocketError {
        SocketError {
            why,
            remedy: Some(Remedy::Path),
        }
    }

    /// The step that helps beside those of the message.
    pub fn remedy(&self) -> Option<Remedy> {
        self.remedy
    }
}

impl From<String> for SocketError {
    fn from(why: String) -> SocketError {
        SocketError { why, remedy: None }
    }
}

impl std::fmt::Display for SocketError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.why)
    }
}

impl std::error::Error for SocketError {}

/// A socket that listens. Its file goes with it.
#[derive(Debug)]
pub struct Socket {
    path: PathBuf,
    /// Device and number of its file.
    file: Option<(u64, u64)>,
    listener: Option<OwnedFd>,
}

/// The folder of this user's control sockets.
///
/// # Errors
///
/// There is none: says what to do.
pub fn folder() -> Result<PathBuf, SocketError> {
    let own = std::env::var_os("XDG_RUNTIME_DIR").filter(|path| Path::new(path).is_absolute());
    match own {
        Some(own) => Ok(Path::new(&own).join("weir")),
        None if rustix::process::geteuid().is_root() => Ok("/run/weir".into()),
        None => Err(SocketError::path(
            "there is no folder for control sockets: set XDG_RUNTIME_DIR".to_owned(),
        )),
    }
}

/// True unless nothing listens on this socket. A full queue and a socket of
/// another user count as alive. Does not block.
fn is_alive(path: &Path) -> bool {
    let Ok(address) = SocketAddrUnix::new(path) else {
        return false;
    };
    let connected = unix_socket().and_then(|socket| rustix::net::connect(&socket, &address));
    !matches!(connected, Err(Errno::CONNREFUSED | Errno::NOENT))
}

fn unix_socket() -> Result<OwnedFd, Errno> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)
}

/// The path of the socket of this user's coordinator.
///
/// # Errors
///
/// There is no folder for control sockets.
pub fn of_coordinator() -> Result<PathBuf, SocketError> {
    Ok(folder()?.join(COORDINATOR))
}

/// The path of the socket of this user's instance of a name.
///
/// # Errors
///
/// An instance can't have the name, or there is no folder for control sockets.
pub fn of_instance(name: &str) -> Result<PathBuf, SocketError> {
    if !is_name(name) {
        return Err(format!(
            "an instance can't be called `{}`: names have letters, digits, `-`, `_` and `.`, \
             begin with a letter or digit, and are at most {LONGEST} long",
            name.escape_debug()
        )
        .into());
    }
    Ok(folder()?.join(format!("{name}.sock")))
}

/// Names and sockets of this user's instances that live, by name.
pub fn instances() -> Result<Vec<(String, PathBuf)>, SocketError> {
    let folder = folder()?;
    let entries = match fs::read_dir(&folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(format!("can't read {}: {error}", folder.display()).into()),
    };
    let paths = entries.flatten().map(|entry| entry.path());
    let sockets = paths.filter(|path| path.extension() == Some(OsStr::new("sock")));
    let mut found: Vec<_> = sockets
        .filter(|path| is_alive(path))
        .map(|path| (name_of(&path), path))
        .collect();
    found.sort();
    Ok(found)
}

fn name_of(path: &Path) -> String {
    let stem = path.file_stem().unwrap_or_default();
    stem.to_string_lossy().into_owned()
}

impl Socket {
    /// At this path, whose folder must be there. `replaces`: also where an instance listens, which
    /// has lost its place to this one.
    pub fn at(path: &Path, replaces: bool) -> Result<Socket, SocketError> {
        let folder = match path.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => folder,
            _ => Path::new("."),
        };
        let _lock = lock(folder)?;
        Socket::take(path, replaces)?.ok_or_else(|| {
            SocketError::path(format!(
                "an instance of weir already listens on {}: stop it",
                path.display()
            ))
        })
    }

    /// That of the instance of this name; `replaces` as for [`Socket::at`].
    pub fn named(name: &str, replaces: bool) -> Result<Socket, SocketError> {
        let path = of_instance(name)?;
        let _lock = lock(&made_folder()?)?;
        Socket::take(&path, replaces)?.ok_or_else(|| SocketError {
            why: format!("an instance of weir is already called {name}: stop it"),
            remedy: Some(Remedy::Name),
        })
    }

    /// That of this user's coordinator.
    pub fn of_coordinator() -> Result<Socket, SocketError> {
        let folder = made_folder()?;
        let _lock = lock(&folder)?;
        Socket::take(&folder.join(COORDINATOR), false)?.ok_or_else(|| {
            SocketError::path("a coordinator of this user runs on this host already".to_owned())
        })
    }

    /// That of a chain's next instance: the chain's name, with a number where
    /// others live.
    pub fn for_chain(stem: &str) -> Result<Socket, SocketError> {
        let fits = |c: &char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        let stem: String = stem.chars().filter(fits).take(LONGEST - 5).collect();
        let stem = if is_name(&stem) { &stem } else { "weir" };
        let folder = made_folder()?;
        let _lock = lock(&folder)?;
        for number in 1..=MOST {
            let name = match number {
                1 => format!("{stem}.sock"),
                _ => format!("{stem}-{number}.sock"),
            };
            if let Some(socket) = Socket::take(&folder.join(name), false)? {
                return Ok(socket);
            }
        }
        Err(SocketError {
            why: format!("{MOST} instances of {stem} live already: stop one"),
            remedy: Some(Remedy::Name),
        })
    }

    /// Listens here; `None` where an instance does. The socket of a dead one is
    /// replaced.
    fn take(path: &Path, replaces: bool) -> Result<Option<Socket>, SocketError> {
        let shown = path.display();
        match fs::symlink_metadata(path) {
            Ok(there) if !std::os::unix::fs::FileTypeExt::is_socket(&there.file_type()) => {
                return Err(SocketError::path(format!(
                    "{shown} is there and no socket: remove it"
                )));
            }
            Ok(_) if !replaces && is_alive(path) => return Ok(None),
            Ok(_) => fs::remove_file(path)
                .map_err(|error| format!("can't replace the dead socket {shown}: {error}"))?,
            Err(_) => {}
        }
        let failed =
            |what: &str, error: Errno| format!("can't {what} the control socket {shown}: {error}");
        let address = SocketAddrUnix::new(path).map_err(|_| {
            format!("{shown} is too long for a socket: a path has at most 107 bytes")
        })?;
        let socket = unix_socket().map_err(|error| failed("make", error))?;
        rustix::net::bind(&socket, &address).map_err(|error| failed("make", error))?;
        let mut bound = Socket {
            path: path.to_owned(),
            file: file_at(path),
            listener: None,
        };
        // Nobody can connect before it listens.
        fs::set_permissions(path, fs::Permissions::from_mode(0o600))
            .map_err(|error| format!("can't make {shown} its owner's alone: {error}"))?;
        rustix::net::listen(&socket, BACKLOG).map_err(|error| failed("listen on", error))?;
        bound.listener = Some(socket);
        Ok(Some(bound))
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The name that its file gives it.
    pub fn name(&self) -> String {
        name_of(&self.path)
    }

    /// The listener, once.
    pub fn listener(&mut self) -> Option<std::os::unix::net::UnixListener> {
        self.listener.take().map(Into::into)
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        // Somebody may have taken it away, or have the path now; then there is nothing to do.
        if self.file.is_some() && self.file == file_at(&self.path) {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Device and number of the file at a path.
fn file_at(path: &Path) -> Option<(u64, u64)> {
    let there = fs::symlink_metadata(path).ok()?;
    Some((there.dev(), there.ino()))
}

fn is_name(name: &str) -> bool {
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    name.len() <= LONGEST
        && name.chars().all(fits)
        && name.starts_with(|c: char| c.is_ascii_alphanumeric())
}

/// The folder, made if it is not there, and its owner's alone.
fn made_folder() -> Result<PathBuf, SocketError> {
    let folder = folder()?;
    let shown = folder.display();
    match fs::DirBuilder::new().mode(0o700).create(&folder) {
        Ok(()) => {}
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
        Err(error) => return Err(format!("can't make the folder {shown}: {error}").into()),
    }
    let there = fs::symlink_metadata(&folder)
        .map_err(|error| format!("can't look at the folder {shown}: {error}"))?;
    if !there.is_dir() || there.uid() != rustix::process::geteuid().as_raw() {
        return Err(SocketError::path(format!(
            "{shown} is no folder of this user's: remove it"
        )));
    }
    if there.mode() & 0o077 != 0 {
        let why = format!("others may look into {shown}: run `chmod 700 {shown}`");
        return Err(why.into());
    }
    Ok(folder)
}

/// Holds the folder for as long as the descriptor lives.
fn lock(folder: &Path) -> Result<fs::File, String> {
    let locked = fs::File::open(folder).and_then(|file| {
        let until = Instant::now() + PATIENCE;
        loop {
            match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => return Ok(file),
                Err(Errno::WOULDBLOCK | Errno::INTR) if Instant::now() < until => {
                    std::thread::sleep(TRY);
                }
                Err(Errno::WOULDBLOCK) => {
                    return Err(std::io::Error::other("another process holds a lock on it"));
                }
                Err(error) => return Err(error.into()),
            }
        }
    });
    locked.map_err(|error| {
        format!(
            "can't use the folder {} for a control socket: {error}",
            folder.display()
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_that_accepts_nobody_is_alive_and_keeps_nobody_waiting() {
        let path = std::env::temp_dir().join(format!("weir-deaf-{}.sock", std::process::id()));
        let deaf = std::os::unix::net::UnixListener::bind(&path).unwrap();
        rustix::net::listen(&deaf, 1).unwrap();
        let (done, all) = std::sync::mpsc::channel();
        let there = path.clone();
        std::thread::spawn(move || done.send((0..40).all(|_| is_alive(&there))));
        let alive = all.recv_timeout(Duration::from_secs(20));
        drop(deaf);
        let dead = is_alive(&path);
        fs::remove_file(&path).unwrap();
        assert_eq!(alive, Ok(true));
        assert!(!dead);
    }
}
