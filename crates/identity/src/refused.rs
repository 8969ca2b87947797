//! Why a peer was refused.

use std::fmt;
use std::io;

use rustls::{AlertDescription, CertificateError};

use crate::peer::{Role, shortened};

/// Why a peer was refused: a reason for counters ([`Refused::reason`]), and a message.
///
/// What the peer sent itself is shortened in messages, and has no control characters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refused {
    /// It showed no certificate.
    NoCertificate,
    /// Its certificate, or one between it and the authority, is no longer valid.
    Expired,
    /// Its certificate, or one between it and the authority, is not yet valid.
    NotYetValid,
    /// No authority of `ca.pem` has signed its certificate.
    UnknownAuthority,
    /// It belongs to this other cluster.
    OtherCluster(String),
    /// Its certificate names nobody of weir; the text says why.
    NoIdentity(String),
    /// It has this role, which is not one that was looked for.
    WrongRole(Role),
    /// Its certificate is not for this side of a connection (extended key usage).
    WrongUse,
    /// It closed the connection before the handshake was over.
    Closed,
    /// It did not end the handshake in time.
    TimedOut,
    /// It refused this side, and says so with this alert of TLS.
    ByPeer(String),
    /// It speaks no TLS 1.3, or wrongly; the text says more.
    Handshake(String),
}

impl Refused {
    /// All reasons, as [`Refused::reason`] gives them.
    pub const REASONS: [&'static str; 12] = [
        "no_certificate",
        "expired",
        "not_yet_valid",
        "unknown_authority",
        "other_cluster",
        "no_identity",
        "wrong_role",
        "wrong_use",
        "closed",
        "timed_out",
        "by_peer",
        "handshake",
    ];

    /// The place of its reason in [`Refused::REASONS`].
    pub const fn index(&self) -> usize {
        match self {
            Refused::NoCertificate => 0,
            Refused::Expired => 1,
            Refused::NotYetValid => 2,
            Refused::UnknownAuthority => 3,
            Refused::OtherCluster(_) => 4,
            Refused::NoIdentity(_) => 5,
            Refused::WrongRole(_) => 6,
            Refused::WrongUse => 7,
            Refused::Closed => 8,
            Refused::TimedOut => 9,
            Refused::ByPeer(_) => 10,
            Refused::Handshake(_) => 11,
        }
    }

    /// Its name for counters: one of [`Refused::REASONS`].
    pub const fn reason(&self) -> &'static str {
        Refused::REASONS[self.index()]
    }

    /// The reason of an error of a handshake.
    pub(crate) fn from_io(error: &io::Error) -> Refused {
        let inner = error.get_ref();
        match inner.and_then(|inner| inner.downcast_ref::<rustls::Error>()) {
            Some(error) => Refused::from_tls(error),
            None => match error.kind() {
                io::ErrorKind::UnexpectedEof
                | io::ErrorKind::ConnectionReset
                | io::ErrorKind::ConnectionAborted
                | io::ErrorKind::BrokenPipe => Refused::Closed,
                _ => Refused::Handshake(error.to_string()),
            },
        }
    }

    pub(crate) fn from_tls(error: &rustls::Error) -> Refused {
        match error {
            rustls::Error::NoCertificatesPresented => Refused::NoCertificate,
            rustls::Error::InvalidCertificate(error) => Refused::from_certificate(error),
            rustls::Error::AlertReceived(AlertDescription::UserCanceled) => Refused::Closed,
            rustls::Error::AlertReceived(alert) => Refused::ByPeer(alert_name(*alert)),
            error => Refused::Handshake(shortened(&error.to_string())),
        }
    }

    fn from_certificate(error: &CertificateError) -> Refused {
        match error {
            CertificateError::Expired | CertificateError::ExpiredContext { .. } => Refused::Expired,
            CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
                Refused::NotYetValid
            }
            CertificateError::UnknownIssuer => Refused::UnknownAuthority,
            CertificateError::InvalidPurpose | CertificateError::InvalidPurposeContext { .. } => {
                Refused::WrongUse
            }
            CertificateError::Other(other) => match other.0.downcast_ref::<Refused>() {
                Some(refused) => refused.clone(),
                None => Refused::Handshake(shortened(&other.to_string())),
            },
            error => Refused::Handshake(shortened(&error.to_string())),
        }
    }
}

/// An alert in words, as `certificate expired`.
fn alert_name(alert: AlertDescription) -> String {
    let mut words = String::new();
    for c in format!("{alert:?}").chars() {
        if c.is_ascii_uppercase() && words.ends_with(|c: char| c.is_ascii_lowercase()) {
            words.push(' ');
        }
        words.push(c.to_ascii_lowercase());
    }
    words
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refused::NoCertificate => f.write_str("the peer shows no certificate"),
            Refused::Expired => f.write_str("the peer's certificate has expired"),
            Refused::NotYetValid => f.write_str(
                "the peer's certificate is not yet valid: the clocks of the two hosts may differ",
            ),
            Refused::UnknownAuthority => {
                f.write_str("the peer's certificate is of an authority that ca.pem does not have")
            }
            Refused::OtherCluster(cluster) => {
                write!(f, "the peer is of another cluster, {cluster}")
            }
            Refused::NoIdentity(why) => {
                write!(f, "the peer's certificate names nobody of weir: {why}")
            }
            Refused::WrongRole(role) => write!(f, "the peer is not what was looked for: {role}"),
            Refused::WrongUse => f.write_str(
                "the peer's certificate is not for this side of a connection (extended key usage)",
            ),
            Refused::Closed => f.write_str("the peer closed the connection during the handshake"),
            Refused::TimedOut => f.write_str("the peer did not end the handshake in time"),
            Refused::ByPeer(alert) => write!(f, "the peer refuses this side: {alert}"),
            Refused::Handshake(why) => write!(f, "the handshake failed: {why}"),
        }
    }
}

impl std::error::Error for Refused {}
