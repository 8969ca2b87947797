//! Control frames of a link: Ethernet, EtherType 0x88B6, and the fields below. Numbers are big
//! endian.
//!
//! | offset | octets | field |
//! |---|---|---|
//! | 0 | 2 | [`MAGIC`] |
//! | 2 | 1 | [`VERSION`] |
//! | 3 | 1 | kind |
//! | 4 | 4 | zero |
//! | 8 | 8 | process start that sends |
//! | 16 | 8 | process start that it is for; 0 where the sender does not know it |
//! | 24 | 8 | number of this frame: each of a sender has a higher one |
//! | 32 | | the body of the kind |
//! | last 16 | 16 | keyed code (SipHash-2-4, 128 bits) over all before it |

use weir_packet::Time;
use weir_packet::ethernet::{EthernetRepr, EthernetView, MacAddr};
use weir_packet::protocol::ethertype;
use weir_packet::vxlan::VxlanGpeRepr;

use super::LinkReject;
use super::batch::Batch;
use crate::auth::{self, Key};
use crate::heartbeat::Beat;
use crate::stream::ProcessStart;

/// First field.
pub const MAGIC: u16 = 0x574c;
/// Version of the format.
pub const VERSION: u8 = 1;
/// Octets in front of the body.
const HEAD: usize = 32;
/// Octets of the code.
const CODE: usize = 16;
/// Octets of a beat's body.
const BEAT: usize = 16;

const KIND_BEAT: u8 = 1;
const KIND_HELLO: u8 = 2;
const KIND_WELCOME: u8 = 3;
const KIND_GONE: u8 = 4;
const KIND_WHO: u8 = 5;
const KIND_HERE: u8 = 6;
const KIND_ASK: u8 = 7;
const KIND_TOLD: u8 = 8;
const KIND_PROGRAM: u8 = 9;
const KIND_PROGRAMS: u8 = 10;

/// Numbers that each beat tells of its sender.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Gauges {
    /// From a switch: latest time of a packet.
    pub packet_time: Time,
    /// From a switch: ends of flows that this runtime asked for and that are not numbered yet.
    pub ends: u32,
}

/// A control frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Control<'a> {
    /// The sender lives.
    Beat(Beat, Gauges),
    /// Switch to agent: start a runtime with these settings. Repeated until it is answered.
    Hello(&'a [u8]),
    /// Runtime to switch: it was started as asked, and is at the address that this comes from.
    Welcome,
    /// Agent to switch: the process of the runtime `destination` names is over, or can't be
    /// started; why, for people.
    Gone(&'a [u8]),
    /// Switch to agent: which runtimes are there? Repeated until it is answered.
    Who(&'a [u8]),
    /// Agent to switch: these.
    Here(&'a [u8]),
    /// Switch to agent: may it be the switch of its run, for a while?
    Ask(&'a [u8]),
    /// Agent to switch: whether it may, and which one is.
    Told(&'a [u8]),
    /// Switch to agent: which programs run there, and what is to become of them? Repeated until it is
    /// answered.
    Program(&'a [u8]),
    /// Agent to switch: these.
    Programs(&'a [u8]),
}

/// The head of a control frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// Process start that sends.
    pub source: ProcessStart,
    /// Process start that it is for, or about.
    pub destination: ProcessStart,
    /// Its number.
    pub number: u64,
}

/// The Ethernet frame in a datagram.
///
/// # Errors
///
/// [`LinkReject::Malformed`]: there is none.
pub fn unwrap(datagram: &[u8]) -> Result<&[u8], LinkReject> {
    let gpe = VxlanGpeRepr::parse(datagram).map_err(|_| LinkReject::Malformed)?;
    match gpe.next == VxlanGpeRepr::ETHERNET {
        true => datagram
            .get(VxlanGpeRepr::LEN..)
            .ok_or(LinkReject::Malformed),
        false => Err(LinkReject::Malformed),
    }
}

/// A control frame as a datagram of its own.
pub fn datagram(network: u32, key: &Key, head: Head, control: Control<'_>) -> Batch {
    let mut batch = Batch::default();
    write(key, head, control, batch.begin(network));
    batch.end();
    batch
}

/// Appends a control frame.
pub(super) fn write(key: &Key, head: Head, control: Control<'_>, out: &mut Vec<u8>) {
    let ethernet = EthernetRepr {
        destination: MacAddr([0; 6]),
        source: MacAddr([0; 6]),
        ethertype: ethertype::LINK,
    };
    let mut link = [0; EthernetView::SIZE];
    let written = ethernet.emit(&mut link);
    debug_assert!(written.is_ok(), "there is room");
    out.extend_from_slice(&link);
    let start = out.len();
    let (kind, body): (u8, &[u8]) = match control {
        Control::Beat(..) => (KIND_BEAT, &[]),
        Control::Hello(body) => (KIND_HELLO, body),
        Control::Welcome => (KIND_WELCOME, &[]),
        Control::Gone(body) => (KIND_GONE, body),
        Control::Who(body) => (KIND_WHO, body),
        Control::Here(body) => (KIND_HERE, body),
        Control::Ask(body) => (KIND_ASK, body),
        Control::Told(body) => (KIND_TOLD, body),
        Control::Program(body) => (KIND_PROGRAM, body),
        Control::Programs(body) => (KIND_PROGRAMS, body),
    };
    out.extend(MAGIC.to_be_bytes());
    out.extend([VERSION, kind, 0, 0, 0, 0]);
    out.extend(head.source.0.to_be_bytes());
    out.extend(head.destination.0.to_be_bytes());
    out.extend(head.number.to_be_bytes());
    out.extend_from_slice(body);
    if let Control::Beat(beat, gauges) = control {
        out.extend(gauges.packet_time.0.to_be_bytes());
        out.extend(gauges.ends.to_be_bytes());
        out.extend([u8::from(beat.hears), 0, 0, 0]);
    }
    let code = key.code(out.get(start..).unwrap_or(&[]), &[]);
    out.extend(code);
}

/// Reads a control frame, from the first octet of its Ethernet header.
///
/// # Errors
///
/// [`LinkReject::Malformed`], [`LinkReject::Code`].
pub fn read<'a>(key: &Key, frame: &'a [u8]) -> Result<(Head, Control<'a>), LinkReject> {
    let ethernet = EthernetView::new(frame).map_err(|_| LinkReject::Malformed)?;
    if ethernet.ethertype() != ethertype::LINK {
        return Err(LinkReject::Malformed);
    }
    let (protected, code) = ethernet
        .rest()
        .split_last_chunk::<CODE>()
        .ok_or(LinkReject::Malformed)?;
    if !auth::equal(&key.code(protected, &[]), code) {
        return Err(LinkReject::Code);
    }
    let (head, body) = protected
        .split_first_chunk::<HEAD>()
        .ok_or(LinkReject::Malformed)?;
    let long = |at: usize| {
        let octets = head.get(at..at + 8).and_then(|eight| eight.try_into().ok());
        u64::from_be_bytes(octets.unwrap_or_default())
    };
    if head[..2] != MAGIC.to_be_bytes() || head[2] != VERSION || head[4..8] != [0; 4] {
        return Err(LinkReject::Malformed);
    }
    let control = match head[3] {
        KIND_BEAT => beat(body)?,
        KIND_HELLO => Control::Hello(body),
        KIND_WELCOME if body.is_empty() => Control::Welcome,
        KIND_GONE => Control::Gone(body),
        KIND_WHO => Control::Who(body),
        KIND_HERE => Control::Here(body),
        KIND_ASK => Control::Ask(body),
        KIND_TOLD => Control::Told(body),
        KIND_PROGRAM => Control::Program(body),
        KIND_PROGRAMS => Control::Programs(body),
        _ => return Err(LinkReject::Malformed),
    };
    let head = Head {
        source: ProcessStart(long(8)),
        destination: ProcessStart(long(16)),
        number: long(24),
    };
    Ok((head, control))
}

fn beat<'a>(body: &[u8]) -> Result<Control<'a>, LinkReject> {
    let body: &[u8; BEAT] = body.try_into().map_err(|_| LinkReject::Malformed)?;
    let [
        t0,
        t1,
        t2,
        t3,
        t4,
        t5,
        t6,
        t7,
        e0,
        e1,
        e2,
        e3,
        hears @ (0 | 1),
        0,
        0,
        0,
    ] = *body
    else {
        return Err(LinkReject::Malformed);
    };
    let gauges = Gauges {
        packet_time: Time(u64::from_be_bytes([t0, t1, t2, t3, t4, t5, t6, t7])),
        ends: u32::from_be_bytes([e0, e1, e2, e3]),
    };
    let beat = Beat { hears: hears == 1 };
    Ok(Control::Beat(beat, gauges))
}
