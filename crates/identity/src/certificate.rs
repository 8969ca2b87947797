//! What weir reads in a certificate. Signatures and chains are left to rustls.

use std::time::SystemTime;

use rustls_pki_types::CertificateDer;
use x509_parser::prelude::{FromDer as _, GeneralName, X509Certificate};

use crate::peer::{Peer, check_cluster, shortened};
use crate::time::from_timestamp;

/// Facts of a certificate.
#[derive(Clone, Debug)]
pub(crate) struct Certificate {
    /// URIs among its subject alternative names, or why they can't be told.
    uris: Result<Vec<String>, String>,
    pub(crate) not_before: SystemTime,
    pub(crate) not_after: SystemTime,
    /// It may sign others.
    pub(crate) is_authority: bool,
    /// Its public key with the algorithm (SubjectPublicKeyInfo, DER).
    pub(crate) public_key: Vec<u8>,
}

impl Certificate {
    /// Reads one.
    pub(crate) fn read(der: &CertificateDer<'_>) -> Result<Certificate, String> {
        let (rest, read) = X509Certificate::from_der(der)
            .map_err(|error| format!("is no certificate: {error}"))?;
        if !rest.is_empty() {
            return Err("is no certificate: more bytes follow it".to_owned());
        }
        let constraints = read
            .basic_constraints()
            .map_err(|error| format!("has wrong basic constraints: {error}"))?;
        Ok(Certificate {
            uris: uris(&read),
            not_before: from_timestamp(read.validity().not_before.timestamp()),
            not_after: from_timestamp(read.validity().not_after.timestamp()),
            is_authority: constraints.is_some_and(|constraints| constraints.value.ca),
            public_key: read.public_key().raw.to_vec(),
        })
    }

    /// Who it names: its only URI.
    pub(crate) fn peer(&self) -> Result<Peer, String> {
        let uri = self.uri()?;
        uri.parse::<Peer>().map_err(|error| error.to_string())
    }

    /// The cluster that an authority is of: its only URI is `spiffe://CLUSTER`.
    pub(crate) fn cluster(&self) -> Result<&str, String> {
        let uri = self.uri()?;
        let cluster = uri
            .strip_prefix("spiffe://")
            .ok_or_else(|| format!("`{}` is no SPIFFE id", shortened(uri)))?;
        check_cluster(cluster).map_err(|error| error.to_string())?;
        Ok(cluster)
    }

    fn uri(&self) -> Result<&str, String> {
        match self.uris.as_ref().map_err(Clone::clone)?.as_slice() {
            [uri] => Ok(uri),
            [] => Err("it has no URI among its subject alternative names".to_owned()),
            more => Err(format!(
                "it has {} URIs among its subject alternative names, not one",
                more.len()
            )),
        }
    }
}

fn uris(read: &X509Certificate<'_>) -> Result<Vec<String>, String> {
    let wrong = |why: String| format!("its subject alternative names are wrong: {why}");
    let names = read
        .subject_alternative_name()
        .map_err(|error| wrong(error.to_string()))?;
    let mut uris = Vec::new();
    for name in names.iter().flat_map(|names| &names.value.general_names) {
        match name {
            GeneralName::URI(uri) => uris.push((*uri).to_owned()),
            // It may be a URI that cannot be read, beside one that can.
            GeneralName::Invalid(..) => return Err(wrong("one can't be read".to_owned())),
            _ => {}
        }
    }
    Ok(uris)
}
