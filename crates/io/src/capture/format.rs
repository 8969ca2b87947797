//! Facts that the reader takes from either format.

use std::io;

/// Interface on which packets were captured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interface {
    /// Link type (`LINKTYPE_*` of the tcpdump.org registry).
    pub dlt: u32,
    /// Most bytes captured of one packet; 0 is no limit.
    pub snap_len: u32,
    /// Name, where the file has one (pcapng).
    pub name: Option<String>,
}

/// A format's description of a packet that lies in the input's window.
pub(super) struct Found {
    pub(super) time_ns: u64,
    pub(super) wire_len: u32,
    pub(super) interface: u32,
    /// Bytes of the window before the packet.
    pub(super) before: usize,
    pub(super) length: usize,
    /// Bytes of the window after the packet that belong to its record.
    pub(super) after: usize,
}

/// Why a format stops.
pub(super) enum Stop {
    /// The input ends within a record.
    Truncated,
    /// A field contradicts the format: where its record begins, and what is wrong.
    Corrupt(u64, String),
    UnknownVersion(u64, u16, u16),
    Read(io::Error),
}

impl From<io::Error> for Stop {
    fn from(error: io::Error) -> Self {
        Self::Read(error)
    }
}
