//! The network functions that come with weir.
