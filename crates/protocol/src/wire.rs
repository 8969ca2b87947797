//! Data frames between hosts: Ethernet, network service header (RFC 8300),
//! weir's header ([`weir_packet::weir_header`]), packet.
//!
//! - The service path is the chain. The service index is 255 − stage, so that
//!   it counts down along the chain as RFC 8300 §2.3 wants; 0 is refused.
//! - The header ends at the runtime: no one forwards it, so its TTL starts at 63
//!   and is not looked at. A switch that passed a frame on to the unit's home
//!   switch would be a forwarder and count it down
//!   ([`weir_packet::nsh::NshViewMut::decrement_ttl`]).
//! - View, clock and flags are in the fixed context, the rest of
//!   [`FrameMeta`] in weir's header: there too what the context has no room for,
//!   the upper 16 bits of the view (its switch's generation) and bits 40 to 47
//!   of the clock.
//! - A keyed tag of 64 bits covers both headers, without the TTL, and the packet:
//!   nothing that a function or the protocol acts on can be forged or hit by a
//!   broken link. It costs one pass of SipHash-2-4 over the packet at each end
//!   (docs/wire.md has the figures). A frame that comes twice needs no more: its
//!   clock says so.
//!
//! A frame is [`OVERHEAD`] bytes longer than its packet and is not fragmented:
//! links between hosts need that much more MTU than Ethernet ports.

use core::fmt;

use weir_packet::ethernet::{EthernetRepr, EthernetView, MacAddr};
use weir_packet::nsh::{INITIAL_TTL, NshContext, NshRepr, NshViewMut, next};
use weir_packet::protocol::ethertype;
use weir_packet::weir_header::WeirRepr;
use weir_packet::{Frame, FrameMeta, FramePool, Malformed, NoFrame, PacketMemory};

use crate::auth::Key;
use crate::ids::Clock;

/// Offset of NSH.
const NSH: usize = EthernetView::SIZE;

/// Offset of weir's header.
const WEIR: usize = NSH + NshRepr::LEN;

/// Bytes in front of the packet.
pub const OVERHEAD: usize = WEIR + WeirRepr::LEN;

/// Bits of view and clock in the fixed context; those above are in weir's header.
const VIEW_LOW_BITS: u32 = 48;
const CLOCK_LOW_BITS: u32 = 40;
const VIEW_LOW: u64 = (1 << VIEW_LOW_BITS) - 1;
const CLOCK_LOW: u64 = (1 << CLOCK_LOW_BITS) - 1;

const _: () = assert!(Clock::LAST.0 >> CLOCK_LOW_BITS <= u8::MAX as u64);

/// Range of the tag, the last field of weir's header.
const TAG: core::ops::Range<usize> = OVERHEAD - 8..OVERHEAD;

/// Fields of a data frame beside the packet and its metadata.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Hop {
    /// Ethernet address that it goes to.
    pub to: MacAddr,
    /// Ethernet address that it comes from.
    pub from: MacAddr,
    /// Stage of the chain, from 0 to 254.
    pub stage: u8,
    /// Owner of the unit before the packet's view: the low 16 bits of its
    /// [`crate::RuntimeId`], a hint; 0 says nothing.
    pub source: u16,
    /// The member that keeps a copy, likewise.
    pub replica: u16,
}

/// Why bytes are no data frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WireError {
    /// Another EtherType than 0x894F.
    NotData,
    /// A header can't be read.
    Malformed(Malformed),
    /// The network service header is not one of weir's data frames: it is for
    /// operations and maintenance, or announces something else.
    Foreign,
    /// The service path is no chain (over 65,535), or the index is 0.
    Path,
    /// The tag is wrong: changed, or made by someone without the key.
    Tag,
    /// The clock has more bits than there is room for.
    Range,
    /// The packet is longer than every frame.
    TooLarge,
    /// No frame is free.
    NoFrame,
}

impl WireError {
    /// The name under which frames with this fault are counted.
    pub const fn name(self) -> &'static str {
        match self {
            WireError::NotData => "data_other_ethertype",
            WireError::Malformed(fault) => fault.reason(),
            WireError::Foreign => "data_foreign",
            WireError::Path => "data_bad_path",
            WireError::Tag => "data_bad_tag",
            WireError::Range => "data_out_of_range",
            WireError::TooLarge => "frame_too_large",
            WireError::NoFrame => "no_frame",
        }
    }
}

impl fmt::Display for WireError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl core::error::Error for WireError {}

impl From<Malformed> for WireError {
    fn from(fault: Malformed) -> WireError {
        WireError::Malformed(fault)
    }
}

impl From<NoFrame> for WireError {
    fn from(why: NoFrame) -> WireError {
        match why {
            NoFrame::TooLarge => WireError::TooLarge,
            NoFrame::Exhausted => WireError::NoFrame,
        }
    }
}

/// The tag of two headers (and what it is to be written over) and a packet.
fn tag(key: &Key, headers: &[u8; OVERHEAD], packet: &[u8]) -> u64 {
    let mut covered = [0; OVERHEAD - NSH];
    for (place, octet) in covered.iter_mut().zip(headers.iter().skip(NSH)) {
        *place = *octet;
    }
    if let Some(tag) = covered.last_chunk_mut::<8>() {
        *tag = [0; 8];
    }
    // The TTL lies over two octets, between version and length.
    if let Ok(mut nsh) = NshViewMut::new(&mut covered) {
        let first = nsh.first();
        nsh.set_first(first & !0x0fc0);
    }
    key.tag_of(&covered, packet)
}

/// Writes the tag of a data frame that someone else made or changed. For tests
/// and tools that have the key; bytes too short for the headers stay.
pub fn seal(key: &Key, bytes: &mut [u8]) {
    if let Some((headers, packet)) = bytes.split_first_chunk_mut::<OVERHEAD>() {
        let tag = tag(key, headers, packet).to_be_bytes();
        if let Some(place) = headers.get_mut(TAG) {
            place.copy_from_slice(&tag);
        }
    }
}

/// Appends a frame as it travels between hosts.
///
/// # Errors
///
/// [`WireError::Range`]: the clock does not fit (48 bits);
/// [`WireError::Path`]: a stage of 255. Nothing was appended then.
pub fn encode_data(
    memory: &PacketMemory,
    frame: &Frame,
    hop: &Hop,
    key: &Key,
    out: &mut Vec<u8>,
) -> Result<(), WireError> {
    let (meta, packet) = memory.read(frame);
    let index = 255 - hop.stage;
    if index == 0 {
        return Err(WireError::Path);
    }
    if meta.clock > Clock::LAST.0 {
        return Err(WireError::Range);
    }
    let context = NshContext {
        view: meta.view & VIEW_LOW,
        clock: meta.clock & CLOCK_LOW,
        source: hop.source,
        replica: hop.replica,
        flags: meta.flags,
    };
    let context = context.to_bytes().ok_or(WireError::Range)?;
    let ethernet = EthernetRepr {
        destination: hop.to,
        source: hop.from,
        ethertype: ethertype::NSH,
    };
    let nsh = NshRepr {
        oam: false,
        ttl: INITIAL_TTL,
        next_protocol: next::EXPERIMENT,
        path: u32::from(meta.chain),
        index,
        context,
    };
    let weir = WeirRepr {
        disposition: meta.disposition,
        side: meta.side,
        port: meta.port,
        link: meta.link,
        clock_high: (meta.clock >> CLOCK_LOW_BITS) as u8,
        dlt: meta.dlt,
        unit: meta.unit,
        time: meta.time,
        sequence: meta.sequence,
        wire_len: meta.wire_len,
        length: packet.len() as u32,
        tenant: meta.tenant,
        view_high: (meta.view >> VIEW_LOW_BITS) as u16,
        tag: 0,
    };
    let mut headers = [0; OVERHEAD];
    let (link, rest) = headers.split_at_mut(NSH);
    let (service, own) = rest.split_at_mut(NshRepr::LEN);
    let written = (ethernet.emit(link), nsh.emit(service), weir.emit(own));
    debug_assert!(matches!(written, (Ok(_), Ok(_), Ok(_))), "there is room");
    let start = out.len();
    out.extend_from_slice(&headers);
    out.extend_from_slice(packet);
    seal(key, out.get_mut(start..).unwrap_or_default());
    Ok(())
}

/// Reads a data frame into a frame of `pool`, with all of its metadata, and
/// says where it came from.
///
/// # Errors
///
/// See [`WireError`]; no frame was taken then.
pub fn decode_data(
    pool: &mut FramePool,
    key: &Key,
    bytes: &[u8],
) -> Result<(Frame, Hop), WireError> {
    let ethernet = EthernetRepr::parse(bytes)?;
    if ethernet.ethertype != ethertype::NSH {
        return Err(WireError::NotData);
    }
    let nsh = NshRepr::parse(bytes.get(NSH..).unwrap_or(&[]))?;
    if nsh.oam || nsh.next_protocol != next::EXPERIMENT {
        return Err(WireError::Foreign);
    }
    let chain = u16::try_from(nsh.path).map_err(|_| WireError::Path)?;
    if nsh.index == 0 {
        return Err(WireError::Path);
    }
    let weir = WeirRepr::parse(bytes.get(WEIR..).unwrap_or(&[]))?;
    let (headers, packet) = bytes
        .split_first_chunk::<OVERHEAD>()
        .ok_or(Malformed::WeirTruncated)?;
    // Bits that formats leave free are covered too: there is one form only.
    if tag(key, headers, packet) != weir.tag {
        return Err(WireError::Tag);
    }
    let context = NshContext::from_bytes(nsh.context);
    let mut meta = FrameMeta::received(weir.time, weir.length);
    meta.wire_len = weir.wire_len;
    meta.sequence = weir.sequence;
    meta.unit = weir.unit;
    meta.view = u64::from(weir.view_high) << VIEW_LOW_BITS | context.view;
    meta.clock = u64::from(weir.clock_high) << CLOCK_LOW_BITS | context.clock;
    meta.flags = context.flags;
    meta.disposition = weir.disposition;
    meta.side = weir.side;
    meta.port = weir.port;
    meta.link = weir.link;
    meta.dlt = weir.dlt;
    meta.chain = chain;
    meta.tenant = weir.tenant;
    let frame = pool.copy(packet, meta)?;
    let hop = Hop {
        to: ethernet.destination,
        from: ethernet.source,
        stage: 255 - nsh.index,
        source: context.source,
        replica: context.replica,
    };
    Ok((frame, hop))
}
