//! An authority of weir's own: what `weir pki` does.
//!
//! An authority is a folder with `ca.pem` and `ca-key.pem`. What it issues goes to a folder of its
//! own, which [`Credentials`](crate::Credentials) reads.

mod describe;

use std::path::Path;
use std::time::{Duration, SystemTime};

use rcgen::string::Ia5String;
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, PublicKeyData as _, SanType,
};
use rustls_pki_types::CertificateDer;

use crate::certificate::Certificate;
use crate::peer::check_cluster;
use crate::time::utc;
use crate::{IdentityError, Peer, Role, files, set};

pub use describe::{Authority, Described, describe};

/// Certificates are valid from so long before they are made: clocks differ.
const SKEW: Duration = Duration::from_secs(300);
/// Longest lifetime: a hundred years.
const LONGEST: Duration = Duration::from_secs(100 * 366 * 86_400);

/// What [`create`] has made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Created {
    /// The cluster that it is the authority of.
    pub cluster: String,
    /// When it expires.
    pub expires: SystemTime,
}

/// What [`issue`] has made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Issued {
    /// Who it names.
    pub peer: Peer,
    /// When it expires: after its lifetime, or with its authority.
    pub expires: SystemTime,
    /// An older certificate of the same peer was there.
    pub renewed: bool,
}

fn made(what: &str, error: &rcgen::Error) -> IdentityError {
    IdentityError::new(format!("can't make {what}: {error}"))
}

/// From a moment ago to the end of a lifetime.
fn span(lifetime: Duration) -> Result<(SystemTime, SystemTime), IdentityError> {
    let now = SystemTime::now();
    let span = now.checked_sub(SKEW).zip(now.checked_add(lifetime));
    span.filter(|_| !lifetime.is_zero() && lifetime <= LONGEST)
        .ok_or_else(|| IdentityError::new("a lifetime is more than 0 and at most 100 years"))
}

/// What all certificates have: a name for people, one URI, a time.
fn params(
    common_name: &str,
    uri: &str,
    from: SystemTime,
    to: SystemTime,
) -> Result<CertificateParams, IdentityError> {
    let failed = |error: rcgen::Error| made("a certificate", &error);
    let mut params = CertificateParams::default();
    params.distinguished_name.remove(DnType::CommonName);
    params
        .distinguished_name
        .push(DnType::CommonName, common_name);
    params.subject_alt_names = vec![SanType::URI(Ia5String::try_from(uri).map_err(failed)?)];
    params.not_before = from.into();
    params.not_after = to.into();
    params.use_authority_key_identifier_extension = true;
    Ok(params)
}

/// Makes the authority of a cluster: `ca.pem` and `ca-key.pem` (mode 0600) in a folder, which is
/// made if it is missing. The key is an ECDSA one on P-256.
///
/// # Errors
///
/// One of the files is there already; the name can't be a cluster's; the lifetime is 0 or longer
/// than 100 years.
pub fn create(folder: &Path, cluster: &str, lifetime: Duration) -> Result<Created, IdentityError> {
    check_cluster(cluster)?;
    let (from, expires) = span(lifetime)?;
    let key = KeyPair::generate().map_err(|error| made("a key", &error))?;
    let uri = format!("spiffe://{cluster}");
    let mut params = params(&format!("weir authority of {cluster}"), &uri, from, expires)?;
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    let certificate = params
        .self_signed(&key)
        .map_err(|error| made("a certificate", &error))?;
    files::folder(folder)?;
    let _lock = files::lock(folder)?;
    let all = [
        (files::AUTHORITY_KEY, 0o600, key.serialize_pem()),
        (files::AUTHORITIES, 0o644, certificate.pem()),
    ];
    for (name, ..) in &all {
        let path = folder.join(name);
        if path.symlink_metadata().is_ok() {
            return Err(IdentityError::file(
                &path,
                "it is there already, and certificates may depend on it: take another folder",
            ));
        }
    }
    for (name, mode, content) in &all {
        files::create(&folder.join(name), *mode, content)?;
    }
    Ok(Created {
        cluster: cluster.to_owned(),
        expires,
    })
}

/// An authority's folder, read.
struct Opened {
    issuer: Issuer<'static, KeyPair>,
    cluster: String,
    expires: SystemTime,
    /// The text of `ca.pem`, all authorities of it.
    bundle: String,
}

/// Reads an authority: its key, and that certificate of `ca.pem` which has it.
fn open(folder: &Path) -> Result<Opened, IdentityError> {
    let key_path = folder.join(files::AUTHORITY_KEY);
    let path = folder.join(files::AUTHORITIES);
    let key = KeyPair::try_from(&files::key(&key_path)?)
        .map_err(|error| IdentityError::file(&key_path, format!("it can't be used: {error}")))?;
    let provider = rustls::crypto::ring::default_provider().into();
    let all = set::authorities(&path, &provider)?.all;
    let own = key.subject_public_key_info();
    let (der, facts) = all
        .into_iter()
        .find(|(_, facts)| facts.public_key == own)
        .ok_or_else(|| {
            let why = format!(
                "no certificate in it has the key of {}",
                files::AUTHORITY_KEY
            );
            IdentityError::file(&path, why)
        })?;
    let now = SystemTime::now();
    if now > facts.not_after || now < facts.not_before {
        let (from, to) = (utc(facts.not_before), utc(facts.not_after));
        return Err(IdentityError::file(
            &path,
            format!("this authority is valid from {from} to {to} only: make another"),
        ));
    }
    let cluster = facts.cluster().map_err(|why| {
        let why = format!("this authority names no cluster (spiffe://CLUSTER): {why}");
        IdentityError::file(&path, why)
    })?;
    let bundle = String::from_utf8(files::read(&path)?)
        .map_err(|_| IdentityError::file(&path, "it has bytes that are no text"))?;
    Ok(Opened {
        cluster: cluster.to_owned(),
        expires: facts.not_after,
        issuer: Issuer::from_ca_cert_der(&der, key)
            .map_err(|error| IdentityError::file(&path, format!("it can't be used: {error}")))?,
        bundle,
    })
}

/// Issues a certificate: `ca.pem`, `cert.pem` and `key.pem` (mode 0600) in a folder, which is made
/// if it is missing. An older certificate of the same peer there is renewed, with a new key: a
/// process that runs takes the new ones by [`Credentials::refresh`](crate::Credentials::refresh),
/// whenever it calls that.
///
/// All authorities in the `ca.pem` of `authority` go along, that with the key first or not. So one
/// authority can take the place of another.
///
/// # Errors
///
/// The authority is missing, wrong or expired; the folder is that of the authority, or has the
/// certificate of somebody else; the name or the lifetime can't be.
pub fn issue(
    authority: &Path,
    folder: &Path,
    role: Role,
    name: &str,
    lifetime: Duration,
) -> Result<Issued, IdentityError> {
    let opened = open(authority)?;
    let peer = Peer::new(&opened.cluster, role, name)?;
    let (from, to) = span(lifetime)?;
    let expires = to.min(opened.expires);
    files::folder(folder)?;
    let _lock = files::lock(folder)?;
    let renewed = check_place(folder, &peer)?;
    let key = KeyPair::generate().map_err(|error| made("a key", &error))?;
    let mut params = params(name, &peer.to_string(), from, expires)?;
    params.is_ca = IsCa::ExplicitNoCa;
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    if role.serves() {
        params
            .extended_key_usages
            .push(ExtendedKeyUsagePurpose::ServerAuth);
    }
    let certificate = params
        .signed_by(&key, &opened.issuer)
        .map_err(|error| made("a certificate", &error))?;
    files::write_all(
        folder,
        &[
            (files::AUTHORITIES, 0o644, &opened.bundle),
            (files::KEY, 0o600, &key.serialize_pem()),
            (files::CERTIFICATE, 0o644, &certificate.pem()),
        ],
    )?;
    Ok(Issued {
        peer,
        expires,
        renewed,
    })
}

/// Looks whether a certificate may be written to a folder: true where it renews one.
fn check_place(folder: &Path, peer: &Peer) -> Result<bool, IdentityError> {
    if folder.join(files::AUTHORITY_KEY).symlink_metadata().is_ok() {
        return Err(IdentityError::file(
            folder,
            "the key of an authority is there, which is to stay by itself: take another folder",
        ));
    }
    let path = folder.join(files::CERTIFICATE);
    if path.symlink_metadata().is_err() {
        return Ok(false);
    }
    let there = files::certificates(&path)?;
    let there = there
        .first()
        .ok_or("there is no certificate in it".to_owned());
    match there.and_then(|der: &CertificateDer<'_>| Certificate::read(der)?.peer()) {
        Ok(there) if there == *peer => Ok(true),
        Ok(there) => Err(IdentityError::file(
            &path,
            format!("this is the certificate of {there}, and not of {peer}: take another folder"),
        )),
        Err(why) => Err(IdentityError::file(
            &path,
            format!("this is somebody else's certificate ({why}): take another folder"),
        )),
    }
}
