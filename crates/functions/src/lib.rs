//! The network functions that come with weir, one file each, and the list of
//! them that chain files may name.

pub mod http;
pub mod http_classifier;
pub mod ip_check;
pub mod mac_swap;
pub mod nop;
mod outer;
mod registry;
pub mod size_histogram;
pub mod stream;
pub mod ttl;
pub mod url_counter;
pub mod url_validator;

pub use registry::{find, kinds};
