//! Protocols of the application layer, and sets of them.

/// Protocols of the application layer whose buffers rules may name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum AppProtocol {
    /// HTTP/1 (RFC 9112).
    Http,
    /// DNS over UDP or TCP (RFC 1035).
    Dns,
    /// TLS (RFC 8446).
    Tls,
    /// SSH (RFC 4253).
    Ssh,
    /// SMTP (RFC 5321).
    Smtp,
    /// FTP, the control connection (RFC 959).
    Ftp,
}

impl AppProtocol {
    /// All of them.
    pub const ALL: [AppProtocol; 6] = [
        AppProtocol::Http,
        AppProtocol::Dns,
        AppProtocol::Tls,
        AppProtocol::Ssh,
        AppProtocol::Smtp,
        AppProtocol::Ftp,
    ];

    /// The name that rules use, in their header and in `app-layer-protocol`.
    pub fn name(self) -> &'static str {
        match self {
            AppProtocol::Http => "http",
            AppProtocol::Dns => "dns",
            AppProtocol::Tls => "tls",
            AppProtocol::Ssh => "ssh",
            AppProtocol::Smtp => "smtp",
            AppProtocol::Ftp => "ftp",
        }
    }

    /// The protocol of a name; `http1` and `ssl` are other names of `http` and `tls`.
    pub fn named(name: &str) -> Option<Self> {
        match name {
            "http1" => Some(AppProtocol::Http),
            "ssl" => Some(AppProtocol::Tls),
            name => Self::ALL.into_iter().find(|known| known.name() == name),
        }
    }
}

/// A set of application protocols.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct AppProtocols(u8);

impl AppProtocols {
    /// No protocol.
    pub const NONE: AppProtocols = AppProtocols(0);

    /// The set with this protocol added.
    #[must_use]
    pub const fn with(self, protocol: AppProtocol) -> Self {
        AppProtocols(self.0 | 1 << protocol as u8)
    }

    /// The protocols of both sets.
    #[must_use]
    pub const fn and(self, other: AppProtocols) -> AppProtocols {
        AppProtocols(self.0 | other.0)
    }

    /// True if the protocol is in the set.
    pub const fn contains(self, protocol: AppProtocol) -> bool {
        self.0 >> protocol as u8 & 1 == 1
    }
}
