//! The folder of a host's agent: of each composition a folder with its files, its key, and what is known
//! of its process.
//!
//! ```text
//! edge/share          what the coordinator said, without the files
//! edge/files.3        files of a revision
//! edge/files          a link to those that processes read, which is changed in one step
//! edge/try.7          files that an instance is asked about
//! edge/log            what its processes have said lately
//! edge/process        number of the process, which it writes itself
//! edge/key            key of the links, for `weir up --key`
//! edge/standing       what the process has said of itself
//! edge/notify         the socket on which it says so
//! edge/running        locked while any process of it lives
//! ```
//!
//! Beside it is the folder of its ledgers, with one of each composition (docs/billing.md).

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use rustix::fs::FlockOperation;
use serde::{Deserialize, Serialize};
use weir_api::{Message as _, v1};
use weir_coordinator::{files, private};

use crate::run::up::OVER_WORD;

/// Name of the file that an agent locks.
const LOCK: &str = ".lock";

/// The folder of a host's agent, which no other one has.
#[derive(Debug)]
pub(super) struct Folder {
    path: PathBuf,
    _lock: File,
}

/// The folder of one composition.
#[derive(Clone, Debug)]
pub(super) struct ShareFolder(PathBuf);

/// What is known of a process, for the next agent.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Standing {
    /// Its number.
    pub(super) process: u32,
    /// The epoch that it was started for.
    pub(super) epoch: u64,
    /// Revision of the configuration that its switch has, should it have one.
    pub(super) running: u64,
    /// What it has said last.
    pub(super) status: String,
    /// The epoch whose inputs have ended.
    pub(super) over: u64,
}

impl Folder {
    /// Opens it; it is made where it is not there, and its owner alone may look into it.
    pub(super) fn open(path: &Path) -> Result<Folder, String> {
        let failed = |why: io::Error| format!("can't use the folder {}: {why}", path.display());
        // Files are named to other processes.
        let path = std::path::absolute(path).map_err(failed)?;
        private::folder(&path).map_err(failed)?;
        let lock = private::file().open(path.join(LOCK)).map_err(failed)?;
        if rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive).is_err() {
            return Err(format!("another agent has the folder {}", path.display()));
        }
        Ok(Folder { path, _lock: lock })
    }

    /// Its path.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// The folder of a composition. The name was checked.
    pub(super) fn of(&self, composition: &str) -> ShareFolder {
        ShareFolder(self.path.join(composition))
    }

    /// The folder of the ledgers, one for each composition. It is beside this one, since ledgers stay when
    /// compositions go; names of hosts have no dot.
    pub(super) fn ledgers(&self) -> PathBuf {
        ledgers_beside(&self.path)
    }

    /// The folder of a composition, for a thread that has the path alone.
    pub(super) fn of_path(path: &Path, composition: &str) -> ShareFolder {
        ShareFolder(path.join(composition))
    }

    /// The folders of all compositions.
    pub(super) fn all(&self) -> io::Result<Vec<ShareFolder>> {
        let mut all = Vec::new();
        for entry in fs::read_dir(&self.path)? {
            let path = entry?.path();
            if path.is_dir() {
                all.push(ShareFolder(path));
            }
        }
        all.sort_by(|one, other| one.0.cmp(&other.0));
        Ok(all)
    }
}

/// The folder of ledgers beside that of a host's agent.
fn ledgers_beside(path: &Path) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".ledgers");
    path.with_file_name(name)
}

impl ShareFolder {
    /// The folder of its ledgers.
    pub(super) fn ledger(&self) -> PathBuf {
        let host = self.0.parent().unwrap_or(Path::new(""));
        ledgers_beside(host).join(self.0.file_name().unwrap_or_default())
    }

    /// What the coordinator said of it, without the files; `None` where nothing was kept.
    pub(super) fn share(&self) -> io::Result<Option<v1::Shares>> {
        match fs::read(self.0.join("share")) {
            Ok(bytes) => v1::Shares::decode(&bytes[..])
                .map(Some)
                .map_err(io::Error::other),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Holds the files of a revision, beside those that processes read.
    pub(super) fn hold(&self, revision: u64, sent: &v1::Files) -> io::Result<()> {
        private::folder(&self.0)?;
        let (whole, part) = (
            self.0.join(format!("files.{revision}")),
            self.0.join("files.new"),
        );
        remove(&part)?;
        files::write(sent, &part)?;
        // Whoever says that it holds them has them after a power cut, too. There may be thousands, so that
        // one by one would take too long.
        rustix::fs::syncfs(File::open(&part)?)?;
        remove(&whole)?;
        fs::rename(&part, &whole)
    }

    /// Keeps what the coordinator says, without the files.
    pub(super) fn keep(&self, share: &v1::Share, store: &[u8]) -> io::Result<()> {
        let key: String = share
            .key
            .iter()
            .map(|octet| format!("{octet:02x}"))
            .collect();
        self.put_file("key", key.as_bytes())?;
        let kept = v1::Shares {
            shares: vec![share.clone()],
            store: store.to_vec(),
            ..v1::Shares::default()
        };
        self.put_file("share", &kept.encode_to_vec())
    }

    /// True where the files of a revision are held.
    pub(super) fn holds(&self, revision: u64) -> bool {
        self.0.join(format!("files.{revision}")).is_dir()
    }

    /// Revision of the files that processes read; 0 where there are none.
    pub(super) fn revision(&self) -> u64 {
        let link = fs::read_link(self.0.join("files")).unwrap_or_default();
        let name = link.to_string_lossy().into_owned();
        let revision = name
            .strip_prefix("files.")
            .and_then(|text| text.parse().ok());
        revision.unwrap_or(0)
    }

    /// Has processes read the files of a revision, which are held, and forgets all others.
    pub(super) fn put(&self, revision: u64) -> io::Result<()> {
        let (name, link) = (format!("files.{revision}"), self.0.join("link.new"));
        remove_file(&link)?;
        symlink(&name, &link)?;
        fs::rename(&link, self.0.join("files"))?;
        File::open(&self.0)?.sync_all()?;
        for entry in fs::read_dir(&self.0)? {
            let entry = entry?;
            let other = entry.file_name();
            let other = other.to_string_lossy();
            if other.starts_with("files.") && other != name.as_str() {
                fs::remove_dir_all(entry.path())?;
            }
        }
        Ok(())
    }

    /// Removes files that an agent before this one has asked about.
    pub(super) fn forget_tries(&self) -> io::Result<()> {
        for entry in fs::read_dir(&self.0)? {
            let entry = entry?;
            if entry.file_name().to_string_lossy().starts_with("try.") {
                remove(&entry.path())?;
            }
        }
        Ok(())
    }

    /// Number of the process, as it has written that itself.
    pub(super) fn process(&self) -> Option<u32> {
        let text = fs::read_to_string(self.process_file()).ok()?;
        text.split_whitespace().next()?.parse().ok()
    }

    /// True where the process has written that the inputs of its switch have ended.
    pub(super) fn is_over(&self) -> bool {
        let text = fs::read_to_string(self.process_file()).unwrap_or_default();
        text.split_whitespace().nth(1) == Some(OVER_WORD)
    }

    /// The process that starts next writes it anew.
    pub(super) fn forget_process(&self) -> io::Result<()> {
        remove_file(&self.process_file())
    }

    /// Name of the composition.
    pub(super) fn name(&self) -> String {
        let name = self.0.file_name().unwrap_or_default();
        name.to_string_lossy().into_owned()
    }

    /// Keeps that nothing is wanted of it any more.
    pub(super) fn keep_end(&self, store: &[u8]) -> io::Result<()> {
        let kept = v1::Shares {
            shares: Vec::new(),
            store: store.to_vec(),
            ..v1::Shares::default()
        };
        self.put_file("share", &kept.encode_to_vec())
    }

    pub(super) fn log(&self) -> PathBuf {
        self.0.join("log")
    }

    pub(super) fn process_file(&self) -> PathBuf {
        self.0.join("process")
    }

    /// Writes other files beside those that run, for the length of a question.
    pub(super) fn put_aside(&self, number: u64, sent: &v1::Files) -> io::Result<PathBuf> {
        let aside = self.0.join(format!("try.{number}"));
        remove(&aside)?;
        files::write(sent, &aside)?;
        Ok(aside)
    }

    /// A file with these octets, which is there whole or not at all.
    fn put_file(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        let new = self.0.join(format!("{name}.new"));
        remove_file(&new)?;
        let mut file = private::file().open(&new)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        fs::rename(new, self.0.join(name))
    }

    pub(super) fn standing(&self) -> Standing {
        let text = fs::read(self.0.join("standing")).unwrap_or_default();
        serde_json::from_slice(&text).unwrap_or_default()
    }

    pub(super) fn keep_standing(&self, standing: &Standing) -> io::Result<()> {
        self.put_file("standing", &serde_json::to_vec(standing)?)
    }

    /// The composition, through the link.
    pub(super) fn composition(&self, name: &str) -> PathBuf {
        self.0.join("files").join(name)
    }

    pub(super) fn key(&self) -> PathBuf {
        self.0.join("key")
    }

    pub(super) fn notify(&self) -> PathBuf {
        self.0.join("notify")
    }

    /// The file that is locked while a process of the share lives.
    pub(super) fn running(&self) -> io::Result<File> {
        private::file().open(self.0.join("running"))
    }

    /// Nothing of it is left.
    pub(super) fn remove(&self) -> io::Result<()> {
        remove(&self.0)
    }
}

fn remove(folder: &Path) -> io::Result<()> {
    absent(fs::remove_dir_all(folder))
}

fn remove_file(path: &Path) -> io::Result<()> {
    absent(fs::remove_file(path))
}

/// What is not there is removed.
fn absent(removed: io::Result<()>) -> io::Result<()> {
    match removed {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}
