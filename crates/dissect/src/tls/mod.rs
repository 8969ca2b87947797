//! TLS handshakes (RFC 5246, RFC 8446) as far as they are sent in the clear: hellos and certificates.

mod certificate;
mod der;
mod fingerprint;
mod hello;
mod parser;

pub(crate) use parser::Tls;
