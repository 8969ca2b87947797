//! Packets for weir: frames in packet memory, header formats, checksums, flow
//! keys.
//!
//! Reading goes in two steps. [`parse`](parse::parse) walks the headers of a
//! packet once and gives their offsets as [`Headers`]; the per-format views
//! ([`ipv4::Ipv4View`], [`tcp::TcpView`], ...) then read or write fields at
//! those offsets. [`flow_key`](key::flow_key) turns the same [`Headers`] into
//! the key under which the packet's flow is kept. A packet that cannot be read
//! ends under one [`Malformed`] reason; nothing here panics on outside input.
//!
//! Bytes live in [`PacketMemory`]; the right to one frame of it is a [`Frame`];
//! a network function sees a [`Packet`].

#![deny(unsafe_code)]

pub mod checksum;
pub mod headers;
pub mod key;
pub mod link;
pub mod malformed;
pub mod parse;
pub mod protocol;

mod frame;
#[allow(unsafe_code)]
mod memory;
mod packet;
#[allow(unsafe_code)]
pub mod prefetch;
mod read;
mod time;
mod tunnel;
mod walk;

pub use frame::{Frame, FrameMeta, HEADROOM, META_BYTES, Side, frame_flags};
pub use headers::{HeaderFlags, Headers};
pub use key::{Direction, FlowKey, FragmentKey, IcmpKey, KeyOptions, KeyOutcome, flow_key};
pub use link::LinkType;
pub use malformed::Malformed;
pub use memory::{Advise, FramePool, MemoryLayout, NoFrame, PacketMemory, no_advice};
pub use packet::Packet;
pub use parse::{Depth, ParseOptions, parse};
pub use time::Time;
