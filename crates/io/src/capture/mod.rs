//! Capture files: pcap and pcapng, read and written.
//!
//! [`CaptureReader`] finds out by itself which of the two formats it has, in either byte order.
//! [`PcapWriter`] and [`PcapngWriter`] write files that Wireshark and tcpdump open.
//! [`resegment()`] cuts the TCP segments of a capture anew, to try whether something that reads
//! streams depends on where the segments happened to be cut.
//!
//! All three work on [`std::io`] and bytes; link types are the numbers of the tcpdump.org
//! registry as found in the file (`LINKTYPE_*`: 1 Ethernet, 101 raw IP, 113 Linux cooked).
//!
//! ```
//! use weir_io::capture::{CaptureReader, PcapWriter, Resolution};
//!
//! # fn main() -> Result<(), weir_io::capture::CaptureError> {
//! let mut writer = PcapWriter::new(Vec::new(), 1, Resolution::Nano)?;
//! writer.write(1_700_000_000_000_000_001, 60, &[0; 60])?;
//! let file = writer.finish()?;
//!
//! let mut reader = CaptureReader::open(file.as_slice())?;
//! while let Some(record) = reader.next()? {
//!     assert_eq!(record.time_ns, 1_700_000_000_000_000_001);
//!     assert_eq!(record.data.len(), 60);
//! }
//! # Ok(())
//! # }
//! ```

mod block;
mod error;
mod format;
mod input;
mod output;
mod pcap;
mod pcapng;
mod reader;
mod resegment;
mod tcp_segment;

#[cfg(test)]
mod tests;

pub use error::CaptureError;
pub use format::Interface;
pub use pcap::{PcapWriter, Resolution};
pub use pcapng::PcapngWriter;
pub use reader::{CaptureReader, Record};
pub use resegment::{OwnedRecord, ResegmentOptions, resegment};

/// Longest frame that is written, in bytes: what libpcap and Wireshark accept.
pub const MAX_WRITTEN_FRAME: usize = 262_144;

/// Longest packet that is read, in bytes; a file that claims more is corrupt.
pub const MAX_READ_FRAME: usize = 16 << 20;
