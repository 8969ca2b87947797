//! The coordinator of several hosts: compositions that are wanted come in, and each host's agent hears
//! what its share of them is.
//!
//! - [`state`] decides, without I/O: what each host has to run, and how all stands.
//! - [`store`] keeps what was taken.
//! - [`service`] is what a coordinator serves: operators and agents call it.
//! - [`host`] is an agent's side.
//!
//! Nothing that a host runs waits for a coordinator: neither a packet, nor a move, nor a fail-over.

pub mod address;
mod carry;
pub mod files;
pub mod host;
pub mod private;
mod random;
pub mod service;
pub mod state;
pub mod store;

pub use address::{Access, Address};
