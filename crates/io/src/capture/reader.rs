//! The reader of both formats: finds out which one it has, then hands out packets.

use std::io::Read;

use super::CaptureError;
use super::format::{Interface, Stop};
use super::input::Input;
use super::pcap::PcapFormat;
use super::pcapng::PcapngFormat;

/// One captured packet, borrowed from the reader until the next call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record<'a> {
    /// When it was captured, in nanoseconds since 1970. A pcapng simple packet has no time of
    /// its own and gets that of the packet before it (0 if none); times outside 1970 to 2554
    /// become the nearest end of that range.
    pub time_ns: u64,
    /// Its length on the wire in bytes, as the file says (usually at least `data.len()`).
    pub wire_len: u32,
    /// Link type (`LINKTYPE_*` of the tcpdump.org registry) of its interface.
    pub dlt: u32,
    /// Index into [`CaptureReader::interfaces`].
    pub interface: u32,
    /// The captured bytes.
    pub data: &'a [u8],
}

enum Format {
    Pcap(PcapFormat),
    Pcapng(PcapngFormat),
}

/// Reads a pcap or pcapng file of either byte order.
///
/// The reader buffers by itself: give it the bare file. Once its buffer has grown to the longest
/// record (256 KiB at first) a packet costs no allocation.
pub struct CaptureReader<R> {
    input: Input<R>,
    format: Format,
    interfaces: Vec<Interface>,
    packets: u64,
    ended: bool,
}

impl<R: Read> CaptureReader<R> {
    /// Reads the header of a capture.
    ///
    /// # Errors
    ///
    /// [`CaptureError::Empty`], [`Compressed`](CaptureError::Compressed),
    /// [`NotACapture`](CaptureError::NotACapture), [`Truncated`](CaptureError::Truncated),
    /// [`Corrupt`](CaptureError::Corrupt), [`UnknownVersion`](CaptureError::UnknownVersion) or
    /// [`Read`](CaptureError::Read).
    pub fn open(reader: R) -> Result<Self, CaptureError> {
        let mut input = Input::new(reader);
        let mut interfaces = Vec::new();
        match open_format(&mut input, &mut interfaces) {
            Ok(format) => Ok(Self {
                input,
                format,
                interfaces,
                packets: 0,
                ended: false,
            }),
            Err(Opening::Refused(error)) => Err(error),
            Err(Opening::Stopped(stop)) => Err(stopped(stop, &input, 0)),
        }
    }

    /// The next packet, or `None` at the end of the file and after an error.
    ///
    /// # Errors
    ///
    /// [`CaptureError::Truncated`], [`Corrupt`](CaptureError::Corrupt),
    /// [`UnknownVersion`](CaptureError::UnknownVersion) or [`Read`](CaptureError::Read), once,
    /// after all whole packets before the trouble were given out. Where the source would have to wait
    /// ([`CaptureError::is_wait`]), reading may go on.
    #[expect(
        clippy::should_implement_trait,
        reason = "an iterator can't lend its buffer"
    )]
    pub fn next(&mut self) -> Result<Option<Record<'_>>, CaptureError> {
        if self.ended {
            return Ok(None);
        }
        let found = match &mut self.format {
            Format::Pcap(format) => format.next(&mut self.input),
            Format::Pcapng(format) => format.next(&mut self.input, &mut self.interfaces),
        };
        let found = match found {
            Ok(Some(found)) => found,
            Ok(None) => {
                self.ended = true;
                return Ok(None);
            }
            Err(stop) => {
                let error = stopped(stop, &self.input, self.packets);
                // Behind one that tells to wait the next call goes on where this one was.
                self.ended = !error.is_wait();
                return Err(error);
            }
        };
        self.packets += 1;
        let whole = found.before + found.length + found.after;
        let record = self.input.take(whole);
        let data = record.get(found.before..found.before + found.length);
        let dlt = self.interfaces.get(found.interface as usize);
        Ok(Some(Record {
            time_ns: found.time_ns,
            wire_len: found.wire_len,
            dlt: dlt.map_or(0, |interface| interface.dlt),
            interface: found.interface,
            data: data.unwrap_or_default(),
        }))
    }

    /// The interfaces met so far, of all sections, in the order of the file. A pcap file has one.
    pub fn interfaces(&self) -> &[Interface] {
        &self.interfaces
    }

    /// Whole packets given out so far.
    pub fn packets(&self) -> u64 {
        self.packets
    }

    /// Bytes of the file dealt with so far.
    pub fn position(&self) -> u64 {
        self.input.position()
    }
}

enum Opening {
    Refused(CaptureError),
    Stopped(Stop),
}

impl From<Stop> for Opening {
    fn from(stop: Stop) -> Self {
        Self::Stopped(stop)
    }
}

fn open_format<R: Read>(
    input: &mut Input<R>,
    interfaces: &mut Vec<Interface>,
) -> Result<Format, Opening> {
    let enough = input.fill(4).map_err(Stop::Read)?;
    let window = input.window();
    if window.is_empty() {
        return Err(Opening::Refused(CaptureError::Empty));
    }
    if let Some((format, unpack)) = compression(window) {
        return Err(Opening::Refused(CaptureError::Compressed {
            format,
            unpack,
        }));
    }
    let Some(magic) = window.first_chunk::<4>().copied().filter(|_| enough) else {
        return Err(Opening::Stopped(Stop::Truncated));
    };
    if let Some(format) = PcapFormat::open(magic, input, interfaces)? {
        Ok(Format::Pcap(format))
    } else if PcapngFormat::recognises(magic) {
        let mut format = PcapngFormat::new();
        format.open(input)?;
        Ok(Format::Pcapng(format))
    } else {
        Err(Opening::Refused(CaptureError::NotACapture { magic }))
    }
}

/// Compressed captures are refused by name: unpacking is another tool's work.
fn compression(start: &[u8]) -> Option<(&'static str, &'static str)> {
    match start {
        [0x1f, 0x8b, ..] => Some(("gzip", "gzip -d FILE")),
        [0x28, 0xb5, 0x2f, 0xfd, ..] => Some(("zstd", "zstd -d FILE")),
        [0xfd, b'7', b'z', b'X', ..] => Some(("xz", "xz -d FILE")),
        [0x04, 0x22, 0x4d, 0x18, ..] => Some(("lz4", "lz4 -d FILE")),
        [b'B', b'Z', b'h', ..] => Some(("bzip2", "bzip2 -d FILE")),
        _ => None,
    }
}

fn stopped<R: Read>(stop: Stop, input: &Input<R>, packets: u64) -> CaptureError {
    match stop {
        Stop::Truncated => CaptureError::Truncated {
            at: input.bytes_read(),
            packets,
        },
        Stop::Corrupt(offset, what) => CaptureError::Corrupt {
            offset,
            packets,
            what,
        },
        Stop::UnknownVersion(offset, major, minor) => CaptureError::UnknownVersion {
            offset,
            major,
            minor,
        },
        Stop::Read(source) => CaptureError::Read {
            at: input.bytes_read(),
            source,
        },
    }
}
