//! Protocols of parsers and protocols of rules: two crates name the same ones.

use weir_dissect::Protocol;
use weir_signatures::{AppProtocol, AppProtocols};

/// All protocols that parsers know.
pub(super) fn all() -> AppProtocols {
    AppProtocol::ALL
        .into_iter()
        .fold(AppProtocols::NONE, AppProtocols::with)
}

/// The rules' name of a parser's protocol.
pub(super) fn of_rules(protocol: Protocol) -> AppProtocol {
    match protocol {
        Protocol::Http => AppProtocol::Http,
        Protocol::Dns => AppProtocol::Dns,
        Protocol::Tls => AppProtocol::Tls,
        Protocol::Ssh => AppProtocol::Ssh,
        Protocol::Smtp => AppProtocol::Smtp,
        Protocol::Ftp => AppProtocol::Ftp,
    }
}

/// The parser's name of a protocol of rules.
pub(super) fn of_parsers(protocol: AppProtocol) -> Protocol {
    match protocol {
        AppProtocol::Http => Protocol::Http,
        AppProtocol::Dns => Protocol::Dns,
        AppProtocol::Tls => Protocol::Tls,
        AppProtocol::Ssh => Protocol::Ssh,
        AppProtocol::Smtp => Protocol::Smtp,
        AppProtocol::Ftp => Protocol::Ftp,
    }
}
