//! Settings of records and of optional alert fields.

use schemars::JsonSchema;
use serde::Deserialize;
use weir_dissect::Protocol;
use weir_signatures::AppProtocols;

use super::super::protocols;

/// A kind of record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum RecordKind {
    /// HTTP/1: a request and its response.
    Http,
    /// DNS: a query, or an answer.
    Dns,
    /// TLS: both hellos and the server's certificate.
    Tls,
    /// SSH: both banners.
    Ssh,
    /// SMTP: a mail.
    Smtp,
    /// FTP: a command and its replies.
    Ftp,
    /// A file in a body of HTTP, or in a mail.
    Fileinfo,
    /// Anomalies of packets, streams and messages.
    Anomaly,
}

/// An optional field of an alert.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum AlertField {
    /// The transaction that it is about, where the flow is parsed: an object `http`, `dns`, `tls`, ...
    App,
    /// The rule's `metadata`.
    Metadata,
    /// The newest 4 KiB of the stream, or the packet's payload, in base64.
    Payload,
    /// The same with a dot for each byte that is not printable.
    PayloadPrintable,
    /// The packet's frame in base64.
    Packet,
}

/// A hash of files in `fileinfo` records.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum FileHash {
    /// MD5 (RFC 1321).
    Md5,
    /// SHA-1 (FIPS 180-4).
    Sha1,
    /// SHA-256 (FIPS 180-4).
    Sha256,
}

/// The records, alert fields and hashes that the settings enable.
#[derive(Clone, Debug, Default)]
pub(in super::super) struct Recording {
    kinds: Vec<RecordKind>,
    fields: Vec<AlertField>,
    hashes: Vec<FileHash>,
    /// Rules look at names of files, which may be those of requests.
    names: bool,
}

impl Recording {
    pub(in super::super) fn new(
        kinds: &[RecordKind],
        fields: &[AlertField],
        hashes: &[FileHash],
        names: bool,
    ) -> Recording {
        Recording {
            kinds: kinds.to_vec(),
            fields: fields.to_vec(),
            hashes: hashes.to_vec(),
            names,
        }
    }

    /// True where records of any kind are written.
    pub(in super::super) fn writes_any(&self) -> bool {
        !self.kinds.is_empty()
    }

    /// True where records of this kind are written.
    pub(in super::super) fn has(&self, kind: RecordKind) -> bool {
        self.kinds.contains(&kind)
    }

    /// True where alerts have this field.
    pub(in super::super) fn shows(&self, field: AlertField) -> bool {
        self.fields.contains(&field)
    }

    pub(super) fn hashes(&self, hash: FileHash) -> bool {
        self.hashes.contains(&hash)
    }

    /// True where transactions of this protocol are noted.
    pub(in super::super) fn notes(&self, protocol: Protocol) -> bool {
        let of_http = self.names || self.has(RecordKind::Fileinfo);
        self.has(kind(protocol))
            || self.shows(AlertField::App)
            || protocol == Protocol::Http && of_http
            || protocol == Protocol::Smtp && self.has(RecordKind::Fileinfo)
    }

    /// True where rules look at names of files.
    pub(in super::super) fn names(&self) -> bool {
        self.names
    }

    /// Protocols whose messages are read for records.
    pub(in super::super) fn protocols(&self) -> AppProtocols {
        let wanted = Protocol::ALL.into_iter().filter(|protocol| {
            self.has(kind(*protocol))
                || self.has(RecordKind::Anomaly)
                || matches!(protocol, Protocol::Http | Protocol::Smtp)
                    && self.has(RecordKind::Fileinfo)
        });
        let wanted = wanted.map(protocols::of_rules);
        wanted.fold(AppProtocols::NONE, AppProtocols::with)
    }
}

/// The kind of record that a transaction of this protocol gives.
pub(super) fn kind(protocol: Protocol) -> RecordKind {
    match protocol {
        Protocol::Http => RecordKind::Http,
        Protocol::Dns => RecordKind::Dns,
        Protocol::Tls => RecordKind::Tls,
        Protocol::Ssh => RecordKind::Ssh,
        Protocol::Smtp => RecordKind::Smtp,
        Protocol::Ftp => RecordKind::Ftp,
    }
}
