//! The packet that a watch is asked about, and its answer.

use weir_nf::Phase;
use weir_packet::{Direction, FlowKey, FrameMeta, Headers};

use super::record::PacketTrace;

/// A packet as a watch is asked whether it wants it.
#[derive(Debug)]
pub struct Seen<'a> {
    /// Its metadata.
    pub meta: &'a FrameMeta,
    /// Its bytes, as they are here.
    pub bytes: &'a [u8],
    /// Its headers; `None` where it is malformed.
    pub headers: Option<&'a Headers>,
    /// The key that its headers make here.
    pub key: Option<FlowKey>,
    /// The flow it belongs to, where that is open already.
    pub flow: Option<SeenFlow>,
    /// Name of the chain.
    pub chain: &'a str,
}

/// The flow of a packet that is [`Seen`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SeenFlow {
    /// Its key: that of its first packet, whatever addresses this one carries.
    pub key: FlowKey,
    /// The packet's direction, under that key.
    pub direction: Direction,
    /// The packet goes from client to server.
    pub to_server: bool,
    /// Number of the flow.
    pub id: u64,
    /// The phase of the connection: `open`, `answered`, `established`,
    /// `closing` or `closed`.
    pub phase: &'static str,
}

/// A watch's answer to a packet it was given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Taken {
    /// It goes on.
    More,
    /// It has enough, or nobody listens any more: it is taken off.
    Enough,
}

/// Receives traces of packets. It is called within a burst and must not block.
pub trait Tracer: Send {
    /// True where this packet, which has just come in, is to be traced.
    fn wants(&mut self, seen: &Seen<'_>) -> bool;
    /// A traced packet has gone its way here.
    fn put(&mut self, trace: PacketTrace) -> Taken;
    /// True where unchanged state is to be recorded as well.
    fn is_full(&self) -> bool {
        false
    }
}

pub(super) fn phase_name(phase: Phase) -> &'static str {
    match phase {
        Phase::Open => "open",
        Phase::Answered => "answered",
        Phase::Established => "established",
        Phase::Closing => "closing",
        Phase::Closed => "closed",
    }
}
