//! What is in a folder of certificates, for `weir pki show`.

use std::fmt::Write as _;
use std::path::Path;
use std::time::SystemTime;

use crate::certificate::Certificate;
use crate::set::Set;
use crate::{IdentityError, Peer, files};

/// What is in a folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Described {
    /// Who its certificate names, from when and until when; `None` where there is no certificate, or
    /// one that names nobody of weir.
    pub certificate: Option<(Peer, SystemTime, SystemTime)>,
    /// The authorities of `ca.pem`.
    pub authorities: Vec<Authority>,
    /// The folder has the key of an authority.
    pub is_authority: bool,
    /// What is wrong with it, and the fix.
    pub problem: Option<IdentityError>,
}

/// One of the authorities.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Authority {
    /// The cluster that it is of, if it says so.
    pub cluster: Option<String>,
    /// From when it is valid.
    pub from: SystemTime,
    /// When it expires.
    pub expires: SystemTime,
    /// SHA-256 of its certificate, in hexadecimal digits.
    pub fingerprint: String,
}

/// Says what is in a folder, be it fit for use or not. It reads the keys too, and shows none.
///
/// # Errors
///
/// There is neither a `cert.pem` nor a `ca.pem`.
pub fn describe(folder: &Path) -> Result<Described, IdentityError> {
    let there = |name: &str| folder.join(name).symlink_metadata().is_ok();
    if !there(files::CERTIFICATE) && !there(files::AUTHORITIES) {
        return Err(IdentityError::file(
            folder,
            format!(
                "there is neither a {} nor a {}",
                files::CERTIFICATE,
                files::AUTHORITIES
            ),
        ));
    }
    let is_authority = there(files::AUTHORITY_KEY);
    let problem = match is_authority && !there(files::CERTIFICATE) {
        true => super::open(folder).err(),
        false => Set::read(folder).err(),
    };
    Ok(Described {
        certificate: certificate(folder),
        authorities: authorities(folder),
        is_authority,
        problem,
    })
}

fn certificate(folder: &Path) -> Option<(Peer, SystemTime, SystemTime)> {
    let chain = files::certificates(&folder.join(files::CERTIFICATE)).ok()?;
    let facts = Certificate::read(chain.first()?).ok()?;
    Some((facts.peer().ok()?, facts.not_before, facts.not_after))
}

fn authorities(folder: &Path) -> Vec<Authority> {
    let all = files::certificates(&folder.join(files::AUTHORITIES));
    let all = all.unwrap_or_default().into_iter();
    all.filter_map(|der| {
        let facts = Certificate::read(&der).ok()?;
        Some(Authority {
            cluster: facts.cluster().ok().map(str::to_owned),
            from: facts.not_before,
            expires: facts.not_after,
            fingerprint: hexadecimal(ring::digest::digest(&ring::digest::SHA256, &der).as_ref()),
        })
    })
    .collect()
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}
