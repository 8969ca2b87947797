//! What the kernel has for live ports and for memory that processes share, one
//! interface of its a file. All `unsafe` of these is here; what is given out is safe to use, and what
//! the kernel says (lengths, indices, offsets) is checked before it is used.

pub(crate) mod bpf;
pub(crate) mod confine;
pub(crate) mod ethtool;
pub(crate) mod fanout;
pub(crate) mod interface;
pub(crate) mod link_counts;
mod mapping;
pub(crate) mod memfd;
pub(crate) mod offload;
pub(crate) mod packet_ring;
pub(crate) mod ring;
pub(crate) mod scheduler;
pub(crate) mod signals;
pub(crate) mod socket;
pub(crate) mod timex;
pub(crate) mod tun;
pub(crate) mod whole;
pub(crate) mod xsk;
