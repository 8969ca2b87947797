//! The files of one folder, read and checked.

use std::path::Path;
use std::sync::Arc;
use std::time::SystemTime;

use rustls::crypto::CryptoProvider;
use rustls::sign::CertifiedKey;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, UnixTime};

use crate::certificate::Certificate;
use crate::time::utc;
use crate::verify::Authorities;
use crate::{IdentityError, Peer, Refused, files};

/// A certificate, its key and the authorities, which fit together.
#[derive(Debug)]
pub(crate) struct Set {
    pub(crate) key: Arc<CertifiedKey>,
    pub(crate) own: Peer,
    pub(crate) expires: SystemTime,
    pub(crate) authorities: Arc<Authorities>,
}

impl Set {
    /// Reads and checks what a folder has now.
    pub(crate) fn read(folder: &Path) -> Result<Set, IdentityError> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let path = folder.join(files::CERTIFICATE);
        // One after the other, before anything is checked: the less time goes by between the two, the
        // seldomer somebody replaces them just then.
        let (chain, secret) = (
            files::certificates(&path),
            files::key(&folder.join(files::KEY)),
        );
        let authorities = authorities(&folder.join(files::AUTHORITIES), &provider)?;
        let chain = chain?;
        let (own, expires) = facts(&path, &chain)?;
        check_chain(&path, &chain, &own, &authorities)?;
        let key = fitting(folder, chain, secret?, &provider)?;
        Ok(Set {
            key: Arc::new(key),
            own,
            expires,
            authorities: Arc::new(authorities),
        })
    }
}

/// The authorities of a file.
pub(crate) fn authorities(
    path: &Path,
    provider: &Arc<CryptoProvider>,
) -> Result<Authorities, IdentityError> {
    let mut all = Vec::new();
    for (number, der) in (1_u32..).zip(files::certificates(path)?) {
        let wrong = |why: &str| IdentityError::file(path, format!("certificate {number} {why}"));
        let facts = Certificate::read(&der).map_err(|why| wrong(&why))?;
        if !facts.is_authority {
            return Err(wrong(
                "is that of no authority (basic constraints): leave it out",
            ));
        }
        all.push((der, facts));
    }
    Ok(Authorities {
        all,
        provider: Arc::clone(provider),
    })
}

/// Who the first certificate names, and when the first of them expires.
fn facts(
    path: &Path,
    chain: &[CertificateDer<'static>],
) -> Result<(Peer, SystemTime), IdentityError> {
    let wrong = |why: String| IdentityError::file(path, why);
    let mut own = None;
    let mut expires: Option<SystemTime> = None;
    let now = SystemTime::now();
    for der in chain {
        let facts = Certificate::read(der).map_err(|why| wrong(format!("this {why}")))?;
        if own.is_none() {
            own = Some(facts.peer().map_err(|why| {
                wrong(format!(
                    "this certificate names nobody of weir: {why}; issue one with `weir pki \
                     issue`, or with the one URI spiffe://CLUSTER/weir/ROLE/NAME"
                ))
            })?);
        }
        if now > facts.not_after {
            let since = utc(facts.not_after);
            return Err(wrong(format!(
                "this certificate has expired, at {since}: issue a new one"
            )));
        }
        if now < facts.not_before {
            let from = utc(facts.not_before);
            return Err(wrong(format!(
                "this certificate is not valid before {from}: look at this host's clock"
            )));
        }
        expires = Some(expires.map_or(facts.not_after, |first| first.min(facts.not_after)));
    }
    own.zip(expires)
        .ok_or_else(|| wrong("there is no certificate in it".to_owned()))
}

/// Checks a chain as a peer will.
fn check_chain(
    path: &Path,
    chain: &[CertificateDer<'static>],
    own: &Peer,
    authorities: &Authorities,
) -> Result<(), IdentityError> {
    let Some((end, between)) = chain.split_first() else {
        return Err(IdentityError::file(path, "there is no certificate in it"));
    };
    let now = UnixTime::now();
    let mut checked = authorities.check_client(end, between, now);
    let mut uses = "clientAuth";
    if checked.is_ok() && own.role().serves() {
        checked = authorities.check_server(end, between, now);
        uses = "clientAuth and serverAuth";
    }
    checked.map_err(|error| {
        let role = own.role();
        let why = match Refused::from_tls(&error) {
            Refused::UnknownAuthority => format!(
                "no authority of {} that is valid now has signed this certificate: put that which \
                 has there",
                files::AUTHORITIES
            ),
            Refused::WrongUse => format!(
                "this certificate is not for what {role} does: its extended key usage must have \
                 {uses}, or be absent"
            ),
            _ => format!("peers will refuse this certificate: {error}"),
        };
        IdentityError::file(path, why)
    })
}

fn fitting(
    folder: &Path,
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
    provider: &CryptoProvider,
) -> Result<CertifiedKey, IdentityError> {
    let path = folder.join(files::KEY);
    CertifiedKey::from_der(chain, key, provider).map_err(|error| {
        let why = match error {
            rustls::Error::InconsistentKeys(_) => format!(
                "this is not the key of {}: put those there that were made together",
                files::CERTIFICATE
            ),
            error => format!("this key can't be used: {error}"),
        };
        IdentityError::file(&path, why)
    })
}
