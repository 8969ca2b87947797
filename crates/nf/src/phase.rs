//! Phases of a connection, and events seen of it.

/// Phase of a connection.
///
/// TCP: see the variants. Other protocols are `Open` until a packet of the
/// other direction makes them `Established`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Phase {
    /// The client only has spoken (TCP: SYN, or a connection that was under
    /// way already).
    #[default]
    Open = 0,
    /// Both sides have spoken (TCP: SYN and SYN+ACK seen, the client's ACK is
    /// awaited).
    Answered = 1,
    /// TCP: the three-way handshake is complete, or packets with ACK were seen
    /// both ways on a connection that was under way already.
    Established = 2,
    /// TCP: one FIN was seen.
    Closing = 3,
    /// TCP: both FINs, or a reset, were seen.
    Closed = 4,
}

impl Phase {
    /// Its name: `open`, `answered`, `established`, `closing` or `closed`.
    pub const fn name(self) -> &'static str {
        match self {
            Phase::Open => "open",
            Phase::Answered => "answered",
            Phase::Established => "established",
            Phase::Closing => "closing",
            Phase::Closed => "closed",
        }
    }

    /// From the number that stands for it in a state block.
    pub const fn from_u8(value: u8) -> Phase {
        match value {
            1 => Phase::Answered,
            2 => Phase::Established,
            3 => Phase::Closing,
            4 => Phase::Closed,
            _ => Phase::Open,
        }
    }
}

/// Events seen of a TCP connection, as bits of [`crate::FlowInfo::tcp_seen`].
pub mod tcp_seen {
    /// A SYN from the client.
    pub const SYN: u16 = 1;
    /// A SYN+ACK from the server, after the SYN.
    pub const SYN_ACK: u16 = 2;
    /// The client's ACK after both: the three-way handshake is complete.
    pub const HANDSHAKE: u16 = 4;
    /// A FIN from the client. Where something is missing before it, it may not be
    /// the client's: the phase follows it once the server acknowledges it.
    pub const FIN_CLIENT: u16 = 8;
    /// The same from the server.
    pub const FIN_SERVER: u16 = 16;
    /// A reset, at the number that its receiver expects.
    pub const RESET: u16 = 32;
    /// The first packet was no SYN: the connection was under way already.
    pub const MIDSTREAM: u16 = 64;
    /// A packet with ACK from the client.
    pub const ACK_CLIENT: u16 = 128;
    /// A packet with ACK from the server.
    pub const ACK_SERVER: u16 = 256;
    /// The last thing said was a reset or FIN in the window, but not at the number
    /// that its receiver expects: it may not be the other end's (RFC 5961).
    pub const RESET_DOUBTED: u16 = 512;
    /// Of this packet alone: a reset outside of the window. Its receiver ignores
    /// it, and so does [`Phase`](super::Phase).
    pub const RESET_OUTSIDE: u16 = 1024;
    /// All of them.
    pub const ALL: u16 = 2047;
}
