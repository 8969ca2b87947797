//! Errors of capture files, with their remedies.

use std::fmt;
use std::io;

/// Why a capture file can't be read (further) or written.
#[derive(Debug)]
#[non_exhaustive]
pub enum CaptureError {
    /// Reading failed.
    Read {
        /// Bytes read before the failure.
        at: u64,
        /// The error of the system.
        source: io::Error,
    },
    /// Writing failed, for example because the disk is full.
    Write {
        /// Bytes of the file that were handed to the system before the failure.
        at: u64,
        /// The error of the system.
        source: io::Error,
    },
    /// The file has no bytes at all.
    Empty,
    /// The file is compressed.
    Compressed {
        /// The compression that its first bytes announce.
        format: &'static str,
        /// A command that unpacks it.
        unpack: &'static str,
    },
    /// The file is neither pcap nor pcapng.
    NotACapture {
        /// Its first bytes.
        magic: [u8; 4],
    },
    /// A pcap or pcapng file of a version that this reader does not know.
    UnknownVersion {
        /// Offset of the header or section, in bytes from the start of the file.
        offset: u64,
        /// Major version.
        major: u16,
        /// Minor version.
        minor: u16,
    },
    /// The file ends in the middle of a record. All whole packets before it were given out.
    Truncated {
        /// Length of the file in bytes: where it ends too early.
        at: u64,
        /// Whole packets read before.
        packets: u64,
    },
    /// A field contradicts the format. All packets before it were given out.
    Corrupt {
        /// Offset of the record or block, in bytes from the start of the file.
        offset: u64,
        /// Whole packets read before.
        packets: u64,
        /// The contradiction.
        what: String,
    },
    /// The frame is longer than capture files can carry ([`MAX_WRITTEN_FRAME`](super::MAX_WRITTEN_FRAME)).
    FrameTooLong {
        /// Its length in bytes.
        length: usize,
    },
    /// The time does not fit a pcap file, whose seconds end in February 2106.
    TimeTooLate {
        /// Nanoseconds since 1970.
        time_ns: u64,
    },
    /// The link type does not fit the format (16 bits in pcapng, 26 in pcap).
    LinkTypeTooLarge {
        /// The link type asked for.
        dlt: u32,
    },
    /// The number was never given out by [`PcapngWriter::interface`](super::PcapngWriter::interface).
    UnknownInterface {
        /// The number.
        interface: u32,
    },
    /// A name or comment is longer than the 65,535 bytes of a pcapng option.
    TextTooLong {
        /// Its length in bytes.
        length: usize,
    },
}

impl CaptureError {
    /// True where nothing is wrong: the source has no more bytes now, and reading goes on later.
    pub fn is_wait(&self) -> bool {
        matches!(self, Self::Read { source, .. } if source.kind() == io::ErrorKind::WouldBlock)
    }
}

impl fmt::Display for CaptureError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Read { at, source } => {
                write!(f, "reading the capture failed after {at} bytes: {source}")
            }
            Self::Write { at, source } => {
                write!(f, "writing the capture failed after {at} bytes: {source}")?;
                if source.kind() == io::ErrorKind::StorageFull {
                    write!(f, "; free some space or write to another disk")?;
                }
                Ok(())
            }
            Self::Empty => write!(
                f,
                "the capture is empty (0 bytes, not even a header): record it again"
            ),
            Self::Compressed { format, unpack } => write!(
                f,
                "compressed capture ({format}): unpack it first, for example with `{unpack}`"
            ),
            Self::NotACapture { magic } => {
                let [a, b, c, d] = magic;
                write!(
                    f,
                    "neither a pcap nor a pcapng file (it begins with the bytes \
                     {a:02x} {b:02x} {c:02x} {d:02x}): convert it first, for example with \
                     `editcap -F pcapng`"
                )
            }
            Self::UnknownVersion {
                offset,
                major,
                minor,
            } => write!(
                f,
                "unknown format version {major}.{minor} at byte {offset}: convert the capture \
                 with `editcap -F pcap`"
            ),
            Self::Truncated { at, packets } => write!(
                f,
                "the capture is truncated: it ends at byte {at}, in the middle of a record, \
                 after {packets} whole packets, which can be used"
            ),
            Self::Corrupt {
                offset,
                packets,
                what,
            } => write!(
                f,
                "the capture is corrupt at byte {offset}, after {packets} whole packets: {what}; \
                 the packets before can be used, the rest must be recorded or copied again"
            ),
            Self::FrameTooLong { length } => write!(
                f,
                "a frame of {length} bytes does not fit a capture file, which carries at most {} \
                 bytes: write fewer bytes of it",
                super::MAX_WRITTEN_FRAME
            ),
            Self::TimeTooLate { time_ns } => write!(
                f,
                "the time {}.{:09} s does not fit a pcap file, which ends in 2106: write pcapng",
                time_ns / 1_000_000_000,
                time_ns % 1_000_000_000
            ),
            Self::LinkTypeTooLarge { dlt } => {
                write!(
                    f,
                    "link type {dlt} does not fit the capture format: use a registered one"
                )
            }
            Self::UnknownInterface { interface } => write!(
                f,
                "interface {interface} was not added to this capture: add it before its packets"
            ),
            Self::TextTooLong { length } => write!(
                f,
                "a name or comment of {length} bytes does not fit a pcapng option: \
                 at most 65535 bytes"
            ),
        }
    }
}

impl std::error::Error for CaptureError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Read { source, .. } | Self::Write { source, .. } => Some(source),
            _ => None,
        }
    }
}
