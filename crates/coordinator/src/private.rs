//! Folders and files that their owner alone can open: keys of links are in them.

use std::fs::{self, DirBuilder, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

/// Makes a folder, and those above it, where they are not there. Mode 0700.
///
/// # Errors
///
/// It can't be made.
pub fn folder(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)
}

/// Options to read and write a file, which is made with mode 0600 where it is not there.
pub fn file() -> OpenOptions {
    let mut options = OpenOptions::new();
    options
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600);
    options
}

/// A folder for files that are checked; it is removed with this.
#[derive(Debug)]
pub(crate) struct Scratch(PathBuf);

impl Scratch {
    /// Makes the folder anew. The one above it must be there.
    pub(crate) fn new(path: PathBuf) -> io::Result<Scratch> {
        // A coordinator that was killed has left its own there, where the path is the same.
        match fs::remove_dir_all(&path) {
            Err(why) if why.kind() != io::ErrorKind::NotFound => return Err(why),
            _ => DirBuilder::new().mode(0o700).create(&path)?,
        }
        Ok(Scratch(path))
    }

    /// Makes a folder with a random name, so that no other user can make it first.
    pub(crate) fn within(folder: &Path) -> io::Result<Scratch> {
        let mut name = [0; 8];
        crate::random::fill(&mut name)?;
        Scratch::new(folder.join(format!("weir-scratch-{:016x}", u64::from_ne_bytes(name))))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    /// The folder, made again where somebody has tidied it away.
    ///
    /// # Errors
    ///
    /// It can't be made, or somebody else has made one there.
    pub(crate) fn kept(&self) -> io::Result<&Path> {
        match DirBuilder::new().mode(0o700).create(&self.0) {
            Err(why) if why.kind() == io::ErrorKind::AlreadyExists => {
                let found = fs::symlink_metadata(&self.0)?;
                let is_own = found.uid() == rustix::process::geteuid().as_raw();
                match found.is_dir() && is_own {
                    true => Ok(&self.0),
                    false => Err(io::Error::other(format!(
                        "{} is another user's",
                        self.0.display()
                    ))),
                }
            }
            made => made.map(|()| self.0.as_path()),
        }
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // Nobody waits for it: an error is of no consequence here.
        let _ = fs::remove_dir_all(&self.0);
    }
}
