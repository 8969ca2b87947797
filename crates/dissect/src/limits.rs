//! Bounds of what is kept of a flow.

/// Bounds of what is kept of a flow; [`Limits::bytes_per_flow`] sums them up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of a message's head: start line and headers. A longer one is read as far as that.
    pub head: usize,
    /// Bytes of a body, compressed and decompressed; as Suricata's `request-body-limit` and
    /// `response-body-limit` (100 KiB). What follows is passed over.
    pub body: usize,
}

impl Limits {
    /// Bytes of a line of a command or reply, and of a banner.
    pub const LINE: usize = 2048;
    /// Bytes of each direction that are kept until the protocol is known.
    pub const PROBE: usize = 1024;
    /// Bytes of a DNS message on TCP, with its length.
    pub(crate) const DNS: usize = 65_535 + 2;
    /// Bytes of a TLS handshake message, its header included.
    pub const HANDSHAKE: usize = 64 * 1024;
    /// Bytes of a line that HTTP keeps while it looks for a message.
    pub(crate) const GARBAGE: usize = 16 * 1024;

    /// Most bytes that a flow keeps in memory: in HTTP, both directions have a head, a compressed body and
    /// what it decompressed to. 497 KiB by default. Memory while decompressing comes on top, once for each
    /// [`crate::Scratch`].
    pub fn bytes_per_flow(&self) -> usize {
        let http = 2 * (self.head.max(Limits::GARBAGE) * 2 + 2 * self.body);
        http.max(2 * Limits::DNS)
            .max(4 * (2 * Limits::LINE) + self.body)
            + 1024
    }

    /// Most bytes of a flow's snapshot: in HTTP, both directions have a head and a body; in TLS both have a
    /// handshake message, and the server's hello is kept. 249 KiB by default.
    pub const fn snapshot_bytes(&self) -> usize {
        let http = 2 * (max(self.head, Limits::GARBAGE) + self.body);
        max(http, 3 * Limits::HANDSHAKE) + 1024
    }
}

impl Limits {
    /// The limits without any settings.
    pub const DEFAULT: Limits = Limits {
        head: 24 * 1024,
        body: 100 * 1024,
    };
}

impl Default for Limits {
    fn default() -> Limits {
        Limits::DEFAULT
    }
}

const fn max(a: usize, b: usize) -> usize {
    if a > b { a } else { b }
}
