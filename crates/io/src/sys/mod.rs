//! The kernel's interfaces for live ports and for memory that processes share, one per file. All
//! `unsafe` code for them is here; the types given out are safe to use, and values from the kernel
//! (lengths, indices, offsets) are checked before use.

pub(crate) mod bpf;
pub(crate) mod confine;
pub(crate) mod datagrams;
pub(crate) mod ethtool;
pub(crate) mod fanout;
pub(crate) mod interface;
pub(crate) mod link_counts;
mod mapping;
pub(crate) mod memfd;
pub(crate) mod offload;
pub(crate) mod packet_ring;
pub(crate) mod ring;
pub(crate) mod robust;
pub(crate) mod scheduler;
pub(crate) mod signals;
pub(crate) mod socket;
pub(crate) mod timex;
pub(crate) mod tun;
pub(crate) mod whole;
pub(crate) mod xsk;
