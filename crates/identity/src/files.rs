//! Files of certificates and keys: read with a limit, written whole or not at all.

use std::fs::{self, File, OpenOptions};
use std::io::{Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};

use crate::IdentityError;

/// A certificate, and those between it and the authority.
pub(crate) const CERTIFICATE: &str = "cert.pem";
/// The key of the certificate.
pub(crate) const KEY: &str = "key.pem";
/// The authorities.
pub(crate) const AUTHORITIES: &str = "ca.pem";
/// The key of an authority.
pub(crate) const AUTHORITY_KEY: &str = "ca-key.pem";

/// Most bytes of one file.
const MOST: u64 = 1 << 20;

/// What tells a file from the one that was there before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stamp {
    device: u64,
    inode: u64,
    length: u64,
    /// Seconds and nanoseconds.
    pub(crate) modified: (i64, i64),
}

impl Stamp {
    /// That of the file that is there now, if there is one.
    pub(crate) fn of(path: &Path) -> Option<Stamp> {
        let there = fs::metadata(path).ok()?;
        Some(Stamp {
            device: there.dev(),
            inode: there.ino(),
            length: there.len(),
            modified: (there.mtime(), there.mtime_nsec()),
        })
    }
}

/// Reads a file that anybody may see.
pub(crate) fn read(path: &Path) -> Result<Vec<u8>, IdentityError> {
    read_if(path, |_| Ok(()))
}

/// Reads a key, which nobody but its owner may be able to read.
fn read_secret(path: &Path) -> Result<Vec<u8>, IdentityError> {
    read_if(path, |mode| match mode & 0o077 {
        0 => Ok(()),
        _ => Err(IdentityError::file(
            path,
            format!(
                "others may read this key: run `chmod 600 {}`, and issue a new one if somebody has",
                path.display()
            ),
        )),
    })
}

fn read_if(
    path: &Path,
    may: impl Fn(u32) -> Result<(), IdentityError>,
) -> Result<Vec<u8>, IdentityError> {
    let failed = |error: std::io::Error| IdentityError::io("read", path, &error);
    // To open a pipe would wait for its writer.
    if !fs::metadata(path).map_err(failed)?.is_file() {
        return Err(IdentityError::file(path, "this is no file"));
    }
    let file = File::open(path).map_err(failed)?;
    may(file.metadata().map_err(failed)?.mode())?;
    let mut bytes = Vec::new();
    file.take(MOST + 1)
        .read_to_end(&mut bytes)
        .map_err(failed)?;
    if bytes.len() as u64 > MOST {
        let why = format!("this is too long: a file has at most {MOST} bytes");
        return Err(IdentityError::file(path, why));
    }
    Ok(bytes)
}

/// Reads certificates, of which there is at least one.
pub(crate) fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, IdentityError> {
    let bytes = read(path)?;
    let all: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&bytes).collect();
    let all = all.map_err(|error| IdentityError::file(path, format!("this is no PEM: {error}")))?;
    if all.is_empty() {
        return Err(IdentityError::file(
            path,
            "there is no certificate in it (`-----BEGIN CERTIFICATE-----`)",
        ));
    }
    Ok(all)
}

/// Reads a key.
pub(crate) fn key(path: &Path) -> Result<PrivateKeyDer<'static>, IdentityError> {
    PrivateKeyDer::from_pem_slice(&read_secret(path)?).map_err(|error| {
        let why = format!("there is no private key in it, in PEM without a passphrase: {error}");
        IdentityError::file(path, why)
    })
}

/// Makes a folder of its owner's alone, if it is not there.
pub(crate) fn folder(path: &Path) -> Result<(), IdentityError> {
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(path)
        .map_err(|error| IdentityError::io("make the folder", path, &error))
}

/// Keeps other writers out of a folder for as long as the result lives.
pub(crate) fn lock(path: &Path) -> Result<File, IdentityError> {
    let folder =
        File::open(path).map_err(|error| IdentityError::io("open the folder", path, &error))?;
    match folder.try_lock() {
        Ok(()) => Ok(folder),
        Err(fs::TryLockError::WouldBlock) => Err(IdentityError::file(
            path,
            "another process writes there now: try again",
        )),
        Err(fs::TryLockError::Error(error)) => {
            Err(IdentityError::io("lock the folder", path, &error))
        }
    }
}

/// A file that is to be: its name, mode and content.
pub(crate) type ToBe<'a> = (&'a str, u32, &'a str);

/// Writes a file that is not there yet, to the disk.
pub(crate) fn create(path: &Path, mode: u32, content: &str) -> Result<(), IdentityError> {
    OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(mode)
        .open(path)
        .and_then(|mut file| {
            file.write_all(content.as_bytes())?;
            file.sync_all()
        })
        .map_err(|error| IdentityError::io("write", path, &error))
}

/// Writes files into a folder that this process has locked. All of them are on the disk under other
/// names before the first one gets its own, and each one is whole at any time.
pub(crate) fn write_all(folder: &Path, files: &[ToBe<'_>]) -> Result<(), IdentityError> {
    let mut made = Made(Vec::new());
    for (name, mode, content) in files {
        let path = folder.join(format!(".{name}.new"));
        // One may be left of a process that was killed; nobody else writes here now.
        let _ = fs::remove_file(&path);
        made.0.push((path.clone(), folder.join(name)));
        create(&path, *mode, content)?;
    }
    for (from, to) in &made.0 {
        fs::rename(from, to).map_err(|error| IdentityError::io("write", to, &error))?;
    }
    File::open(folder)
        .and_then(|folder| folder.sync_all())
        .map_err(|error| IdentityError::io("write", folder, &error))
}

/// Files under other names, which go if they have not got their own.
struct Made(Vec<(PathBuf, PathBuf)>);

impl Drop for Made {
    fn drop(&mut self) {
        for (path, _) in &self.0 {
            let _ = fs::remove_file(path);
        }
    }
}
