//! The network functions that come with weir, one file each, and the list of
//! them that chain files may name.

pub mod asset;
pub mod filter;
pub mod ip_check;
pub mod mac_swap;
pub mod monitor;
mod name;
pub mod nop;
mod outer;
mod prefix;
mod registry;
pub mod size_histogram;
pub mod ttl;
pub mod words;

pub use registry::{find, kinds};
