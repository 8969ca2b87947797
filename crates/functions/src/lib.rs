//! The network functions that come with weir, one file each, and the list of
//! them that chain files may name.

mod registry;
pub mod stream;

pub use registry::{find, kinds};
