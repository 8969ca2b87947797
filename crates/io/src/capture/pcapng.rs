//! The pcapng format (draft-ietf-opsawg-pcapng), read and written.

use std::io::{Read, Write};

use super::block::{Order, Scale};
use super::format::{Found, Interface, Stop};
use super::input::Input;
use super::output::Output;
use super::pcap::written_length;
use super::{CaptureError, MAX_READ_FRAME, MAX_WRITTEN_FRAME};

const SECTION_HEADER: u32 = 0x0a0d_0d0a;
const INTERFACE_DESCRIPTION: u32 = 1;
const INTERFACE_STATISTICS: u32 = 5;
const OBSOLETE_PACKET: u32 = 2;
const SIMPLE_PACKET: u32 = 3;
const ENHANCED_PACKET: u32 = 6;
const BYTE_ORDER: u32 = 0x1a2b_3c4d;

const OPT_END: u16 = 0;
const OPT_COMMENT: u16 = 1;
const SHB_USER_APPLICATION: u16 = 4;
const IF_NAME: u16 = 2;
const IF_DESCRIPTION: u16 = 3;
const ISB_IFDROP: u16 = 5;
const IF_TSRESOL: u16 = 9;
const IF_TSOFFSET: u16 = 14;

/// Type and length before the body, length after it.
const FRAMING: usize = 12;
/// Longest block that is looked into: a packet and 1 MiB for its options.
const MAX_BLOCK: usize = MAX_READ_FRAME + (1 << 20);
/// A file with more is taken as an attempt to fill the memory.
const MAX_INTERFACES: usize = 65_536;

/// How the time stamps of an interface count.
#[derive(Clone, Copy)]
struct Clock {
    scale: Scale,
    offset_s: i64,
}

pub(super) struct PcapngFormat {
    order: Order,
    /// Index of the section's first interface among those of all sections.
    first_interface: usize,
    /// One per interface of all sections.
    clocks: Vec<Clock>,
    last_time_ns: u64,
}

/// Octets of the longest block of no interest that is read whole before it is passed over.
const WHOLE: usize = 1 << 20;

impl PcapngFormat {
    pub(super) fn recognises(magic: [u8; 4]) -> bool {
        u32::from_le_bytes(magic) == SECTION_HEADER
    }

    pub(super) fn new() -> Self {
        Self {
            order: Order::Little,
            first_interface: 0,
            clocks: Vec::new(),
            last_time_ns: 0,
        }
    }

    /// Reads the first section header.
    pub(super) fn open<R: Read>(&mut self, input: &mut Input<R>) -> Result<(), Stop> {
        let length = self.block_length(input)?;
        self.section(input, length)
    }

    pub(super) fn next<R: Read>(
        &mut self,
        input: &mut Input<R>,
        interfaces: &mut Vec<Interface>,
    ) -> Result<Option<Found>, Stop> {
        loop {
            if !input.fill(8)? {
                return if input.window().is_empty() {
                    Ok(None)
                } else {
                    Err(Stop::Truncated)
                };
            }
            // The type of a section header reads the same in both orders.
            let Some(kind) = self.order.u32(input.window(), 0) else {
                return Err(Stop::Truncated);
            };
            let length = self.block_length(input)?;
            match kind {
                SECTION_HEADER => self.section(input, length)?,
                INTERFACE_DESCRIPTION => self.interface(input, length, interfaces)?,
                ENHANCED_PACKET | OBSOLETE_PACKET => {
                    return self.packet(kind, input, length).map(Some);
                }
                SIMPLE_PACKET => return self.simple_packet(input, length, interfaces).map(Some),
                _ => self.skip(input, length)?,
            }
        }
    }

    /// The length of the block that begins here. A section header sets the byte order for it.
    fn block_length<R: Read>(&mut self, input: &mut Input<R>) -> Result<u32, Stop> {
        if !input.fill(8)? {
            return Err(Stop::Truncated);
        }
        if self.order.u32(input.window(), 0) == Some(SECTION_HEADER) {
            if !input.fill(FRAMING)? {
                return Err(Stop::Truncated);
            }
            self.order = [Order::Little, Order::Big]
                .into_iter()
                .find(|order| order.u32(input.window(), 8) == Some(BYTE_ORDER))
                .ok_or_else(|| corrupt(input, "a section header without byte-order magic"))?;
        }
        let length = self.order.u32(input.window(), 4).ok_or(Stop::Truncated)?;
        if (length as usize) < FRAMING || !length.is_multiple_of(4) {
            let what = format!("a block claims the length {length} (multiples of 4 from 12 up)");
            return Err(corrupt(input, what));
        }
        Ok(length)
    }

    /// The whole block in the window, with the length after its body checked.
    fn whole<R: Read>(&self, input: &mut Input<R>, length: u32) -> Result<(), Stop> {
        let length = length as usize;
        if length > MAX_BLOCK {
            let what = format!("a block claims {length} bytes, more than {MAX_BLOCK} possible");
            return Err(corrupt(input, what));
        }
        if !input.fill(length)? {
            return Err(Stop::Truncated);
        }
        let trailing = input.window().get(length - 4..).unwrap_or_default();
        self.same_length(trailing, input.position(), length as u32)
    }

    fn same_length(&self, trailing: &[u8], offset: u64, expected: u32) -> Result<(), Stop> {
        let trailing = self.order.u32(trailing, 0).unwrap_or_default();
        if trailing != expected {
            let what = format!("a block begins with length {expected} and ends with {trailing}");
            return Err(Stop::Corrupt(offset, what));
        }
        Ok(())
    }

    fn section<R: Read>(&mut self, input: &mut Input<R>, length: u32) -> Result<(), Stop> {
        self.whole(input, length)?;
        let window = input.window();
        let version = (self.order.u16(window, 12), self.order.u16(window, 14));
        if length < 28 {
            return Err(corrupt(input, "a section header shorter than 28 bytes"));
        }
        let (Some(1), Some(_)) = version else {
            let (major, minor) = (version.0.unwrap_or(0), version.1.unwrap_or(0));
            return Err(Stop::UnknownVersion(input.position(), major, minor));
        };
        self.first_interface = self.clocks.len();
        input.take(length as usize);
        Ok(())
    }

    fn interface<R: Read>(
        &mut self,
        input: &mut Input<R>,
        length: u32,
        interfaces: &mut Vec<Interface>,
    ) -> Result<(), Stop> {
        self.whole(input, length)?;
        if interfaces.len() >= MAX_INTERFACES {
            let what = format!("more than {MAX_INTERFACES} interfaces");
            return Err(corrupt(input, what));
        }
        let block = input.window();
        let (Some(dlt), Some(snap_len), Some(mut options)) = (
            self.order.u16(block, 8),
            self.order.u32(block, 12),
            block.get(16..length as usize - 4),
        ) else {
            return Err(corrupt(input, "an interface description below 20 bytes"));
        };
        let mut clock = Clock {
            scale: Scale::Multiply(1_000),
            offset_s: 0,
        };
        let mut name = None;
        while let Some((code, value, rest)) = option(self.order, options) {
            match (code, value) {
                (IF_NAME, text) => {
                    let text = String::from_utf8_lossy(text);
                    name = Some(text.trim_end_matches('\0').to_owned());
                }
                (IF_TSRESOL, &[resolution]) => clock.scale = Scale::from_tsresol(resolution),
                (IF_TSOFFSET, seconds) if seconds.len() == 8 => {
                    clock.offset_s = self.order.i64(seconds, 0).unwrap_or(0);
                }
                _ => {}
            }
            options = rest;
        }
        interfaces.push(Interface {
            dlt: u32::from(dlt),
            snap_len,
            name,
        });
        self.clocks.push(clock);
        input.take(length as usize);
        Ok(())
    }

    /// Index among the interfaces of all sections of interface `id` of this section.
    fn index<R: Read>(&self, input: &Input<R>, id: u32) -> Result<(usize, Clock), Stop> {
        let index = self.first_interface.saturating_add(id as usize);
        match self.clocks.get(index) {
            Some(&clock) => Ok((index, clock)),
            None => {
                let what = format!("a packet of interface {id}, which the section has not");
                Err(corrupt(input, what))
            }
        }
    }

    fn packet<R: Read>(
        &mut self,
        kind: u32,
        input: &mut Input<R>,
        length: u32,
    ) -> Result<Found, Stop> {
        const BEFORE: usize = 28;
        self.whole(input, length)?;
        let block = input.window();
        let id = if kind == ENHANCED_PACKET {
            self.order.u32(block, 8)
        } else {
            self.order.u16(block, 8).map(u32::from)
        };
        let (Some(id), Some(high), Some(low), Some(captured), Some(wire_len)) = (
            id,
            self.order.u32(block, 12),
            self.order.u32(block, 16),
            self.order.u32(block, 20),
            self.order.u32(block, 24),
        ) else {
            return Err(corrupt(input, "a packet block below 32 bytes"));
        };
        let room = (length as usize).checked_sub(BEFORE + 4);
        let after = room.and_then(|room| room.checked_sub(captured as usize));
        let Some(after) = after else {
            let what = format!("a packet block of {length} bytes claims {captured} captured bytes");
            return Err(corrupt(input, what));
        };
        let (index, clock) = self.index(input, id)?;
        let units = u64::from(high) << 32 | u64::from(low);
        self.last_time_ns = clock.scale.nanoseconds(units, clock.offset_s);
        Ok(Found {
            time_ns: self.last_time_ns,
            wire_len,
            interface: index as u32,
            before: BEFORE,
            length: captured as usize,
            after: after + 4,
        })
    }

    fn simple_packet<R: Read>(
        &mut self,
        input: &mut Input<R>,
        length: u32,
        interfaces: &[Interface],
    ) -> Result<Found, Stop> {
        const BEFORE: usize = 12;
        self.whole(input, length)?;
        let (index, _) = self.index(input, 0)?;
        let (Some(wire_len), Some(interface)) =
            (self.order.u32(input.window(), 8), interfaces.get(index))
        else {
            return Err(corrupt(input, "a simple packet block without interface"));
        };
        // The block does not say how much was captured: all, up to the interface's limit.
        let captured = match interface.snap_len {
            0 => wire_len,
            limit => wire_len.min(limit),
        };
        let room = (length as usize).checked_sub(BEFORE + 4);
        let after = room.and_then(|room| room.checked_sub(captured as usize));
        let Some(after) = after else {
            let what =
                format!("a simple packet block of {length} bytes for a packet of {captured}");
            return Err(corrupt(input, what));
        };
        Ok(Found {
            time_ns: self.last_time_ns,
            wire_len,
            interface: index as u32,
            before: BEFORE,
            length: captured as usize,
            after: after + 4,
        })
    }

    /// Skips a block of no interest; it may be longer than what is kept in memory.
    fn skip<R: Read>(&self, input: &mut Input<R>, length: u32) -> Result<(), Stop> {
        // Whole, it can be gone back to where the source has only a part of it for now.
        if length as usize <= WHOLE {
            self.whole(input, length)?;
            input.take(length as usize);
            return Ok(());
        }
        let offset = input.position();
        if !input.skip(u64::from(length) - 4)? || !input.fill_patiently(4)? {
            return Err(Stop::Truncated);
        }
        let trailing = input.take(4);
        self.same_length(trailing, offset, length)
    }
}

fn corrupt<R: Read>(input: &Input<R>, what: impl Into<String>) -> Stop {
    Stop::Corrupt(input.position(), what.into())
}

/// The first option of a list: its code, its value, and the rest; `None` at the end of the list
/// or where it breaks off (options never decide over a packet's bytes).
fn option(order: Order, list: &[u8]) -> Option<(u16, &[u8], &[u8])> {
    let code = order.u16(list, 0)?;
    let length = order.u16(list, 2)? as usize;
    if code == OPT_END {
        return None;
    }
    let value = list.get(4..4 + length)?;
    let rest = list.get(4 + length.next_multiple_of(4)..);
    Some((code, value, rest.unwrap_or_default()))
}

/// Writes a pcapng file, little endian, with nanosecond time stamps.
///
/// Call [`finish`](Self::finish) at the end: only it reports that the last bytes did not fit the
/// disk.
///
/// ```
/// # use weir_io::capture::{CaptureError, PcapngWriter};
/// # fn main() -> Result<(), CaptureError> {
/// let mut writer = PcapngWriter::new(Vec::new())?;
/// let inside = writer.interface("inside", 1)?;
/// let outside = writer.interface("outside", 1)?;
/// writer.write(inside, 1_000, 60, &[0; 60], None)?;
/// writer.write(outside, 2_000, 60, &[0; 60], Some("dropped: firewall"))?;
/// let file = writer.finish()?;
/// # Ok(())
/// # }
/// ```
pub struct PcapngWriter<W: Write> {
    output: Output<W>,
    interfaces: Vec<(String, u32)>,
    /// One block, put together before it is written; used again.
    block: Vec<u8>,
}

impl<W: Write> PcapngWriter<W> {
    /// Begins a file.
    ///
    /// # Errors
    ///
    /// [`CaptureError::Write`] if `writer` fails.
    pub fn new(writer: W) -> Result<Self, CaptureError> {
        let mut this = Self {
            output: Output::new(writer),
            interfaces: Vec::new(),
            block: Vec::new(),
        };
        this.begin(SECTION_HEADER);
        this.block.extend(BYTE_ORDER.to_le_bytes());
        this.block.extend(1u16.to_le_bytes());
        this.block.extend(0u16.to_le_bytes());
        this.block.extend((-1i64).to_le_bytes()); // length of the section: not known yet
        this.option(SHB_USER_APPLICATION, b"weir")?;
        this.end_options();
        this.end()?;
        Ok(this)
    }

    /// The number of the interface with this name and link type, added if it is new.
    ///
    /// # Errors
    ///
    /// [`CaptureError::LinkTypeTooLarge`], [`CaptureError::TextTooLong`], which write nothing;
    /// [`CaptureError::Write`].
    pub fn interface(&mut self, name: &str, dlt: u32) -> Result<u32, CaptureError> {
        self.interface_at(name, None, dlt, MAX_WRITTEN_FRAME as u32)
    }

    /// The same with a description and a limit of captured bytes, which count
    /// where the interface is new.
    ///
    /// # Errors
    ///
    /// As [`interface`](Self::interface).
    pub fn interface_at(
        &mut self,
        name: &str,
        description: Option<&str>,
        dlt: u32,
        snap_len: u32,
    ) -> Result<u32, CaptureError> {
        let mut known = self.interfaces.iter();
        if let Some(index) = known.position(|known| known.0 == name && known.1 == dlt) {
            return Ok(index as u32);
        }
        let Ok(link) = u16::try_from(dlt) else {
            return Err(CaptureError::LinkTypeTooLarge { dlt });
        };
        self.begin(INTERFACE_DESCRIPTION);
        self.block.extend(link.to_le_bytes());
        self.block.extend([0; 2]);
        self.block.extend(snap_len.to_le_bytes());
        if !name.is_empty() {
            self.option(IF_NAME, name.as_bytes())?;
        }
        if let Some(description) = description {
            self.option(IF_DESCRIPTION, description.as_bytes())?;
        }
        self.option(IF_TSRESOL, &[9])?;
        self.end_options();
        self.end()?;
        self.interfaces.push((name.to_owned(), dlt));
        Ok(self.interfaces.len() as u32 - 1)
    }

    /// Appends a packet of `interface`: `time_ns` nanoseconds since 1970, its length on the wire
    /// in bytes, its captured bytes, and a comment.
    ///
    /// # Errors
    ///
    /// [`CaptureError::UnknownInterface`], [`CaptureError::FrameTooLong`] and
    /// [`CaptureError::TextTooLong`], which write nothing; [`CaptureError::Write`] if the file
    /// can't be written further.
    pub fn write(
        &mut self,
        interface: u32,
        time_ns: u64,
        wire_len: u32,
        data: &[u8],
        comment: Option<&str>,
    ) -> Result<(), CaptureError> {
        let captured = written_length(data)?;
        if interface as usize >= self.interfaces.len() {
            return Err(CaptureError::UnknownInterface { interface });
        }
        self.begin(ENHANCED_PACKET);
        let fields = [
            interface,
            (time_ns >> 32) as u32,
            time_ns as u32,
            captured,
            wire_len,
        ];
        for field in fields {
            self.block.extend(field.to_le_bytes());
        }
        self.block.extend(data);
        self.pad();
        if let Some(comment) = comment {
            self.option(OPT_COMMENT, comment.as_bytes())?;
            self.end_options();
        }
        self.end()
    }

    /// Appends the statistics of `interface` as of `time_ns` (nanoseconds since 1970): packets that
    /// were lost for want of room (`isb_ifdrop`).
    ///
    /// # Errors
    ///
    /// [`CaptureError::UnknownInterface`], which writes nothing; [`CaptureError::Write`].
    pub fn statistics(
        &mut self,
        interface: u32,
        time_ns: u64,
        dropped: u64,
    ) -> Result<(), CaptureError> {
        if interface as usize >= self.interfaces.len() {
            return Err(CaptureError::UnknownInterface { interface });
        }
        self.begin(INTERFACE_STATISTICS);
        for field in [interface, (time_ns >> 32) as u32, time_ns as u32] {
            self.block.extend(field.to_le_bytes());
        }
        self.option(ISB_IFDROP, &dropped.to_le_bytes())?;
        self.end_options();
        self.end()
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

    fn begin(&mut self, kind: u32) {
        self.block.clear();
        self.block.extend(kind.to_le_bytes());
        self.block.extend([0; 4]); // length: set by `end`
    }

    fn option(&mut self, code: u16, value: &[u8]) -> Result<(), CaptureError> {
        let Ok(length) = u16::try_from(value.len()) else {
            let length = value.len();
            return Err(CaptureError::TextTooLong { length });
        };
        self.block.extend(code.to_le_bytes());
        self.block.extend(length.to_le_bytes());
        self.block.extend(value);
        self.pad();
        Ok(())
    }

    fn end_options(&mut self) {
        self.block.extend([0; 4]);
    }

    fn pad(&mut self) {
        let padded = self.block.len().next_multiple_of(4);
        self.block.resize(padded, 0);
    }

    fn end(&mut self) -> Result<(), CaptureError> {
        let length = (self.block.len() as u32 + 4).to_le_bytes();
        if let Some(place) = self.block.get_mut(4..8) {
            place.copy_from_slice(&length);
        }
        self.block.extend(length);
        self.output.write(&self.block)
    }
}
