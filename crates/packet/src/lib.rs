//! Packets for weir: frames in packet memory, header formats, checksums, flow
//! keys.
//!
//! Reading goes in two steps. [`parse()`] walks the headers of a
//! packet once and gives their offsets as [`Headers`]; the per-format views
//! ([`ipv4::Ipv4View`], [`tcp::TcpView`], ...) then read or write fields at
//! those offsets. [`flow_key`] turns the same [`Headers`] into
//! the key under which the packet's flow is kept. A packet that cannot be read
//! ends under one [`Malformed`] reason; nothing here panics on outside input.
//!
//! Bytes live in [`PacketMemory`]; the right to one frame of it is a [`Frame`];
//! a network function sees a [`Packet`].

#![deny(unsafe_code)]

pub mod actor_frame;
pub mod arp;
pub mod checksum;
pub mod dissect;
pub mod ethernet;
pub mod filter;
pub mod fragment;
pub mod geneve;
pub mod gre;
pub mod headers;
pub mod icmp;
pub mod icmpv6;
pub mod ipv4;
pub mod ipv6;
pub mod key;
pub mod link;
pub mod malformed;
pub mod mpls;
pub mod nsh;
pub mod parse;
pub mod pppoe;
pub mod protocol;
pub mod sctp;
pub mod shares;
pub mod tcp;
pub mod udp;
pub mod vlan;
pub mod vxlan;
pub mod weir_header;

mod address_set;

#[allow(unsafe_code)]
mod arena;
mod byte_set;
/// The atomic types of [`marks`] and [`reserve`], which their models replace.
mod atomic {
    pub(crate) use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};
}
mod craft;
mod foreign;
mod frame;
mod internal;
#[allow(unsafe_code)]
pub mod lanes;
mod layout;
mod ledger;
mod lent;
mod link_header;
#[allow(unsafe_code)]
mod mapping;
mod marks;
#[allow(unsafe_code)]
mod members;
#[allow(unsafe_code)]
mod memory;
mod packet;
mod packet_key;
#[allow(unsafe_code)]
pub mod prefetch;
mod prefix;
mod quoted;
mod read;
mod reserve;
mod time;
mod tunnel;
mod walk;
mod wire;

pub use address_set::{AddressSet, Changes, SetFull};
pub use arena::{Advise, Arena, no_advice};
pub use byte_set::ByteSet;
pub use craft::Craft;
pub use ethernet::MacAddr;
pub use foreign::SaidMeta;
pub use fragment::FragmentKey;
pub use frame::{
    Disposition, Frame, FrameKind, FrameMeta, HEADROOM, META_BYTES, PATH_BITS, Place, Side,
    frame_flags,
};
pub use headers::{HeaderFlags, Headers};
pub use internal::Internal;
pub use key::{Direction, FlowKey, IcmpKey, KeyOptions};
pub use layout::MemoryLayout;
pub use ledger::Holder;
pub use lent::Lent;
pub use link::LinkType;
pub use malformed::Malformed;
pub use mapping::{Mapping, MappingTooSmall, MemberId};
pub use marks::{MOST_BRANCHES, MarkState, Marks, Origin};
pub use members::Taker;
pub use memory::{FramePool, NoFrame, PacketMemory};
pub use packet::Packet;
pub use packet_key::{KeyOutcome, flow_key};
pub use parse::{
    Depth, PLAINEST, PLAINEST_L4, ParseOptions, classify, key_of_plainest, parse, parse_generally,
    parse_into, parse_plainest,
};
pub use prefix::{Prefix, PrefixError, Prefixes};
pub use quoted::Quoted;
pub use time::{NoTime, Time, civil_from_days, days_from_civil};
pub use wire::BufferTooSmall;
