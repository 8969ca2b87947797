//! The pcap format (draft-ietf-opsawg-pcap), read and written.

use std::io::{Read, Write};

use super::block::Order;
use super::format::{Found, Interface, Stop};
use super::input::Input;
use super::output::Output;
use super::{CaptureError, MAX_READ_FRAME, MAX_WRITTEN_FRAME};

const MAGIC_MICRO: u32 = 0xa1b2_c3d4;
const MAGIC_NANO: u32 = 0xa1b2_3c4d;
/// Alexey Kuznetzov's modified pcap: each record header has 8 bytes more.
const MAGIC_MODIFIED: u32 = 0xa1b2_cd34;
const FILE_HEADER: usize = 24;
/// The link type; the bits above say how long the frame check sequence is.
const LINK_TYPE_MASK: u32 = 0x03ff_ffff;

/// Unit of the fraction of a second in a pcap file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resolution {
    /// Microseconds, read by every tool.
    Micro,
    /// Nanoseconds.
    Nano,
}

/// How the two lengths of a record are laid out; old versions differ.
#[derive(Clone, Copy)]
enum Lengths {
    CapturedFirst,
    WireFirst,
    /// Version 2.3 was written in both ways: the smaller one is the captured length.
    Either,
}

pub(super) struct PcapFormat {
    order: Order,
    nanoseconds_per_unit: u64,
    record_header: usize,
    lengths: Lengths,
}

impl PcapFormat {
    /// Reads the file header, if `magic` is one of pcap.
    pub(super) fn open<R: Read>(
        magic: [u8; 4],
        input: &mut Input<R>,
        interfaces: &mut Vec<Interface>,
    ) -> Result<Option<Self>, Stop> {
        let known = |magic| match magic {
            MAGIC_MICRO => Some((1_000, 16)),
            MAGIC_NANO => Some((1, 16)),
            MAGIC_MODIFIED => Some((1_000, 24)),
            _ => None,
        };
        let little = known(u32::from_le_bytes(magic)).map(|kind| (Order::Little, kind));
        let big = known(u32::from_be_bytes(magic)).map(|kind| (Order::Big, kind));
        let Some((order, (nanoseconds_per_unit, record_header))) = little.or(big) else {
            return Ok(None);
        };
        if !input.fill(FILE_HEADER)? {
            return Err(Stop::Truncated);
        }
        let header = input.take(FILE_HEADER);
        let (Some(major), Some(minor), Some(snap_len), Some(link)) = (
            order.u16(header, 4),
            order.u16(header, 6),
            order.u32(header, 16),
            order.u32(header, 20),
        ) else {
            return Err(Stop::Truncated);
        };
        let lengths = match (major, minor) {
            (2, 0..=2) => Lengths::WireFirst,
            (2, 3) => Lengths::Either,
            (2, _) => Lengths::CapturedFirst,
            _ => return Err(Stop::UnknownVersion(0, major, minor)),
        };
        interfaces.push(Interface {
            dlt: link & LINK_TYPE_MASK,
            snap_len,
            name: None,
        });
        Ok(Some(Self {
            order,
            nanoseconds_per_unit,
            record_header,
            lengths,
        }))
    }

    pub(super) fn next<R: Read>(&mut self, input: &mut Input<R>) -> Result<Option<Found>, Stop> {
        if !input.fill(self.record_header)? {
            return if input.window().is_empty() {
                Ok(None)
            } else {
                Err(Stop::Truncated)
            };
        }
        let window = input.window();
        let (Some(seconds), Some(fraction), Some(first), Some(second)) = (
            self.order.u32(window, 0),
            self.order.u32(window, 4),
            self.order.u32(window, 8),
            self.order.u32(window, 12),
        ) else {
            return Err(Stop::Truncated);
        };
        let (captured, wire_len) = match self.lengths {
            Lengths::CapturedFirst => (first, second),
            Lengths::WireFirst => (second, first),
            Lengths::Either => (first.min(second), first.max(second)),
        };
        let length = captured as usize;
        if length > MAX_READ_FRAME {
            let what = format!(
                "a packet claims {length} captured bytes, more than {MAX_READ_FRAME} possible"
            );
            return Err(Stop::Corrupt(input.position(), what));
        }
        if !input.fill(self.record_header + length)? {
            return Err(Stop::Truncated);
        }
        let time_ns = u64::from(seconds) * 1_000_000_000
            + u64::from(fraction).saturating_mul(self.nanoseconds_per_unit);
        Ok(Some(Found {
            time_ns,
            wire_len,
            interface: 0,
            before: self.record_header,
            length,
            after: 0,
        }))
    }
}

/// Writes a pcap file, little endian, version 2.4.
///
/// Call [`finish`](Self::finish) at the end: only it reports that the last bytes did not fit the
/// disk.
pub struct PcapWriter<W: Write> {
    output: Output<W>,
    resolution: Resolution,
}

impl<W: Write> PcapWriter<W> {
    /// Begins a file of link type `dlt`.
    ///
    /// # Errors
    ///
    /// [`CaptureError::LinkTypeTooLarge`], or [`CaptureError::Write`] if `writer` fails.
    pub fn new(writer: W, dlt: u32, resolution: Resolution) -> Result<Self, CaptureError> {
        if dlt > LINK_TYPE_MASK {
            return Err(CaptureError::LinkTypeTooLarge { dlt });
        }
        let mut output = Output::new(writer);
        let magic = match resolution {
            Resolution::Micro => MAGIC_MICRO,
            Resolution::Nano => MAGIC_NANO,
        };
        output.write(&magic.to_le_bytes())?;
        output.write(&2u16.to_le_bytes())?;
        output.write(&4u16.to_le_bytes())?;
        output.write(&[0; 8])?; // time zone and accuracy: always 0
        output.write(&(MAX_WRITTEN_FRAME as u32).to_le_bytes())?;
        output.write(&dlt.to_le_bytes())?;
        Ok(Self { output, resolution })
    }

    /// Appends a packet: `time_ns` nanoseconds since 1970 (cut to the file's resolution), its
    /// length on the wire in bytes, and its captured bytes.
    ///
    /// # Errors
    ///
    /// [`CaptureError::FrameTooLong`] and [`CaptureError::TimeTooLate`], which write nothing;
    /// [`CaptureError::Write`] if the file can't be written further.
    pub fn write(&mut self, time_ns: u64, wire_len: u32, data: &[u8]) -> Result<(), CaptureError> {
        let captured = written_length(data)?;
        let Ok(seconds) = u32::try_from(time_ns / 1_000_000_000) else {
            return Err(CaptureError::TimeTooLate { time_ns });
        };
        let nanoseconds = (time_ns % 1_000_000_000) as u32;
        let fraction = match self.resolution {
            Resolution::Micro => nanoseconds / 1_000,
            Resolution::Nano => nanoseconds,
        };
        let mut header = [0; 16];
        let fields = [seconds, fraction, captured, wire_len];
        for (place, field) in header.chunks_exact_mut(4).zip(fields) {
            place.copy_from_slice(&field.to_le_bytes());
        }
        self.output.write(&header)?;
        self.output.write(data)
    }

    /// Hands what is buffered to the system.
    ///
    /// # Errors
    ///
    /// [`CaptureError::Write`].
    pub fn flush(&mut self) -> Result<(), CaptureError> {
        self.output.flush()
    }

    /// Ends the file and gives the writer back.
    ///
    /// # Errors
    ///
    /// [`CaptureError::Write`].
    pub fn finish(self) -> Result<W, CaptureError> {
        self.output.finish()
    }
}

pub(super) fn written_length(data: &[u8]) -> Result<u32, CaptureError> {
    let length = data.len();
    if length > MAX_WRITTEN_FRAME {
        return Err(CaptureError::FrameTooLong { length });
    }
    Ok(length as u32)
}
