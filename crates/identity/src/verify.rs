//! Whether a peer's certificate is good: its chain (rustls), and who it names.

use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::CryptoProvider;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::server::{ParsedCertificate, WebPkiClientVerifier};
use rustls::{
    CertificateError, DigitallySignedStruct, DistinguishedName, Error, OtherError, RootCertStore,
    SignatureScheme,
};
use rustls_pki_types::{CertificateDer, ServerName, UnixTime};

use crate::certificate::Certificate;
use crate::{Peer, Refused, Role};

/// The authorities of a `ca.pem`.
#[derive(Debug)]
pub(crate) struct Authorities {
    pub(crate) all: Vec<(CertificateDer<'static>, Certificate)>,
    pub(crate) provider: Arc<CryptoProvider>,
}

impl Authorities {
    /// Those that are valid at a time. To webpki a trusted key is one for ever.
    fn roots(&self, now: UnixTime) -> Result<Arc<RootCertStore>, Error> {
        let now = UNIX_EPOCH + Duration::from_secs(now.as_secs());
        let mut roots = RootCertStore::empty();
        for (der, facts) in &self.all {
            if facts.not_before <= now && now <= facts.not_after {
                roots.add(der.clone())?;
            }
        }
        match roots.is_empty() {
            true => Err(CertificateError::UnknownIssuer.into()),
            false => Ok(Arc::new(roots)),
        }
    }

    /// Checks the chain of one that connects.
    pub(crate) fn check_client(
        &self,
        end: &CertificateDer<'_>,
        between: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<(), Error> {
        let roots = self.roots(now)?;
        let verifier =
            WebPkiClientVerifier::builder_with_provider(roots, Arc::clone(&self.provider))
                .build()
                .map_err(|error| Error::General(error.to_string()))?;
        let checked = verifier.verify_client_cert(end, between, now);
        checked.map(|_| ()).map_err(unknown)
    }

    /// Checks the chain of one that others connect to.
    pub(crate) fn check_server(
        &self,
        end: &CertificateDer<'_>,
        between: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<(), Error> {
        let roots = self.roots(now)?;
        let end = ParsedCertificate::try_from(end)?;
        let algorithms = self.provider.signature_verification_algorithms.all;
        rustls::client::verify_server_cert_signed_by_trust_anchor(
            &end, &roots, between, now, algorithms,
        )
        .map_err(unknown)
    }
}

/// A wrong signature under an authority's name is that of another authority of this name.
fn unknown(error: Error) -> Error {
    match error {
        Error::InvalidCertificate(CertificateError::BadSignature) => {
            CertificateError::UnknownIssuer.into()
        }
        error => error,
    }
}

fn refused(why: Refused) -> Error {
    CertificateError::Other(OtherError(Arc::new(why))).into()
}

/// Who a certificate names, if it is of this cluster.
pub(crate) fn named(
    der: &CertificateDer<'_>,
    cluster: &str,
) -> Result<(Peer, Certificate), Refused> {
    let facts = Certificate::read(der).map_err(Refused::NoIdentity)?;
    let peer = facts.peer().map_err(Refused::NoIdentity)?;
    match peer.cluster() == cluster {
        true => Ok((peer, facts)),
        false => Err(Refused::OtherCluster(peer.cluster().to_owned())),
    }
}

/// What a side of a connection asks of the other.
#[derive(Debug)]
pub(crate) struct Check {
    pub(crate) authorities: Arc<Authorities>,
    /// The peer's cluster must be this one.
    pub(crate) cluster: String,
    /// A server must have one of these roles. A client may have any: what it may do is asked with
    /// each command.
    pub(crate) roles: Vec<Role>,
}

impl Check {
    fn signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.authorities.provider.signature_verification_algorithms;
        rustls::crypto::verify_tls13_signature(message, cert, signed, algorithms)
    }

    fn schemes(&self) -> Vec<SignatureScheme> {
        let algorithms = &self.authorities.provider.signature_verification_algorithms;
        algorithms.supported_schemes()
    }
}

fn too_old() -> Error {
    Error::General("there is no TLS 1.2 here".to_owned())
}

impl ClientCertVerifier for Check {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        let authorities = &self.authorities;
        authorities.check_client(end_entity, intermediates, now)?;
        named(end_entity, &self.cluster).map_err(refused)?;
        Ok(ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _cert: &CertificateDer<'_>,
        _dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Err(too_old())
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.signature(message, cert, dss)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.schemes()
    }
}

impl ServerCertVerifier for Check {
    /// The name that was looked for is put aside: the id stands in its place.
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let authorities = &self.authorities;
        // Before its use: that of an operator's certificate is wrong for a server, but what is wrong
        // for those who look for the fault is its role.
        let chain = authorities.check_server(end_entity, intermediates, now);
        let is_use = |error: &Error| {
            matches!(
                error,
                Error::InvalidCertificate(
                    CertificateError::InvalidPurpose
                        | CertificateError::InvalidPurposeContext { .. }
                )
            )
        };
        match chain {
            Err(error) if !is_use(&error) => return Err(error),
            _ => {}
        }
        let (peer, _) = named(end_entity, &self.cluster).map_err(refused)?;
        if !self.roles.contains(&peer.role()) {
            return Err(refused(Refused::WrongRole(peer.role())));
        }
        chain.map(|()| ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _cert: &CertificateDer<'_>,
        _dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Err(too_old())
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.signature(message, cert, dss)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.schemes()
    }
}
