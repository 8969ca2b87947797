//! Runtimes in processes of their own, on packet memory that all of them have.
//!
//! The main process has the ports and the switches; [`Home`] is its side of one place of a
//! runtime, and [`RuntimeProcess`] the process. Between the two are rings: of data frames and
//! of entries for each chain, of messages, and of free frames. A process that dies gets a
//! successor in its place, under a new id; its frames come back.

mod child;
mod home;
mod wire;

pub use child::RuntimeProcess;

pub(super) use home::{HelloOf, Home, Starting, ring_words, wire_process};
pub(in super::super) use wire::HELLO;

use weir_protocol::in_process::FRAMES_ON_THE_WAY;

/// Places of a ring of frames.
const FRAMES: u32 = FRAMES_ON_THE_WAY as u32;
const _: () = assert!(FRAMES_ON_THE_WAY.is_power_of_two());
/// Places of a ring of free frames.
const SUPPLY: u32 = 512;
/// Words of a ring of messages. A longer message goes through it in pieces.
const MESSAGES: u32 = 1 << 16;
/// Longest message, in bytes: that of the protocol and what stands before it.
const LONGEST_MESSAGE: usize = weir_protocol::codec::HEAD + weir_protocol::codec::MAX_BODY + 64;
