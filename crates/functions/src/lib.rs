//! The network functions that come with weir, one file each, and the list of
//! them that chain files may name.

pub mod asset;
pub mod classifier;
pub mod compression;
pub mod counter;
pub mod filter;
pub mod firewall;
#[cfg(test)]
mod hand_over;
pub mod http;
pub mod http_classifier;
pub mod ids;
pub mod ip_check;
mod length;
pub mod load_balancer;
pub mod mac_swap;
pub mod monitor;
mod name;
pub mod nat44;
pub mod nop;
mod outer;
pub mod policer;
mod registry;
mod rewrite;
pub mod size_histogram;
pub mod stream;
pub mod syn_guard;
pub mod ttl;
pub mod udp_whitelist;
pub mod url_counter;
pub mod url_validator;
pub mod words;

pub use registry::{find, kinds};
