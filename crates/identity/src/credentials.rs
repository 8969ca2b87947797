//! The certificate, key and authorities of a process, which may change while it runs.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tokio::net::TcpStream;

use crate::files::{self, Stamp};
use crate::set::Set;
use crate::{IdentityError, Peer, Refused, Role, Secured, handshake};

/// How often files that are being replaced are read again, and the pause before that.
const TRIES: u32 = 6;
const PAUSE: Duration = Duration::from_millis(20);
/// Files that were written within this time may be about to change once more.
const FRESH: Duration = Duration::from_secs(2);

/// The certificate, key and authorities of a folder: `cert.pem`, `key.pem` and `ca.pem`. Clones are
/// the same ones.
///
/// `ca.pem` may have several authorities, so that one can take the place of another.
///
/// ```no_run
/// use std::path::Path;
/// use weir_identity::Credentials;
///
/// let credentials = Credentials::load(Path::new("/etc/weir/identity"))?;
/// println!("this is {}", credentials.own());
/// // Now and then, and at SIGHUP:
/// match credentials.refresh() {
///     Ok(true) => println!("new certificate, until {}", weir_identity::utc(credentials.expires())),
///     Ok(false) => {}
///     Err(error) => eprintln!("still with the old certificate: {error}"),
/// }
/// # Ok::<(), weir_identity::IdentityError>(())
/// ```
#[derive(Clone)]
pub struct Credentials {
    inner: Arc<Inner>,
}

struct Inner {
    folder: PathBuf,
    /// What new connections use.
    current: RwLock<Arc<Set>>,
    /// The files that `current` was read from. Who holds it is the only one to refresh.
    stamps: Mutex<Stamps>,
}

type Stamps = [Option<Stamp>; 3];

fn stamps(folder: &Path) -> Stamps {
    [files::CERTIFICATE, files::KEY, files::AUTHORITIES].map(|name| Stamp::of(&folder.join(name)))
}

/// True if one of the files was written a moment ago.
fn are_fresh(stamps: &Stamps) -> bool {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let now = now.map_or(0, |since| since.as_secs());
    stamps.iter().flatten().any(|stamp| {
        let written = u64::try_from(stamp.modified.0).unwrap_or(0);
        now.abs_diff(written) <= FRESH.as_secs()
    })
}

/// Reads a folder whose files somebody may be replacing one after the other.
fn read(folder: &Path) -> Result<(Set, Stamps), IdentityError> {
    let mut tries = 1;
    loop {
        let before = stamps(folder);
        let set = Set::read(folder);
        let after = stamps(folder);
        let is_steady = before == after;
        match set {
            Ok(set) if is_steady => return Ok((set, after)),
            Err(error) if tries == TRIES || is_steady && !are_fresh(&after) => return Err(error),
            // It fits together, and what has come since is for the next time.
            Ok(set) if tries == TRIES => return Ok((set, before)),
            _ => {}
        }
        tries += 1;
        std::thread::sleep(PAUSE);
    }
}

impl Credentials {
    /// Reads a folder. Blocks for a tenth of a second where its files are wrong and were written just
    /// now, since the others may be about to follow.
    ///
    /// # Errors
    ///
    /// A file is missing or wrong; others than its owner may read the key; the certificate names
    /// nobody of weir, is not valid now, has another key, or is of no authority in `ca.pem`.
    pub fn load(folder: &Path) -> Result<Credentials, IdentityError> {
        let (set, stamps) = read(folder)?;
        Ok(Credentials {
            inner: Arc::new(Inner {
                folder: folder.to_owned(),
                current: RwLock::new(Arc::new(set)),
                stamps: Mutex::new(stamps),
            }),
        })
    }

    pub(crate) fn set(&self) -> Arc<Set> {
        let current = self.inner.current.read();
        Arc::clone(&current.unwrap_or_else(PoisonError::into_inner))
    }

    /// Who this side is.
    pub fn own(&self) -> Peer {
        self.set().own.clone()
    }

    /// When its certificate expires.
    pub fn expires(&self) -> SystemTime {
        self.set().expires
    }

    /// Reads the files again if they have changed: true if others are in use now. New connections
    /// use them; those that there are stay as they are. It blocks as [`Credentials::load`] does.
    ///
    /// # Errors
    ///
    /// As for [`Credentials::load`], or the new certificate names somebody else. The old ones stay in
    /// use, and the next call looks again.
    pub fn refresh(&self) -> Result<bool, IdentityError> {
        let inner = &*self.inner;
        let mut known = inner.stamps.lock().unwrap_or_else(PoisonError::into_inner);
        if *known == stamps(&inner.folder) {
            return Ok(false);
        }
        let (set, stamps) = read(&inner.folder)?;
        let own = self.own();
        if set.own != own {
            return Err(IdentityError::file(
                &inner.folder.join(files::CERTIFICATE),
                format!(
                    "this certificate is that of {}, and not of {own}: start again to be another",
                    set.own
                ),
            ));
        }
        *inner
            .current
            .write()
            .unwrap_or_else(PoisonError::into_inner) = Arc::new(set);
        *known = stamps;
        Ok(true)
    }

    /// Makes the server's side of a connection out of a stream that was accepted. The client may
    /// have any role: ask [`Secured::peer`] before doing what it says.
    ///
    /// # Errors
    ///
    /// The peer shows no certificate of this cluster, or does not end the handshake in time. The
    /// stream is closed then.
    pub async fn accept(&self, tcp: TcpStream) -> Result<Secured, Refused> {
        handshake::accept(&self.set(), tcp).await
    }

    /// Makes the client's side of a connection. The server must be of this cluster and have one of
    /// these roles.
    ///
    /// A server looks at the client's certificate last. One that refuses it says so when this side
    /// reads for the first time: as an error whose text has the alert.
    ///
    /// # Errors
    ///
    /// The server is another one, or does not end the handshake in time. The stream is closed then.
    pub async fn connect(&self, tcp: TcpStream, roles: &[Role]) -> Result<Secured, Refused> {
        handshake::connect(&self.set(), tcp, roles).await
    }
}

/// Without the key.
impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credentials")
            .field("folder", &self.inner.folder)
            .field("own", &self.own())
            .finish_non_exhaustive()
    }
}
