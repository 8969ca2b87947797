//! The side buffers of a flow: what is in which, and how long they may be.

/// First of the side buffers that hold windows; those before hold bytes that
/// wait for earlier ones.
pub(super) const WINDOWS: usize = 2;
/// The side buffer of the parser.
pub(super) const PARSER: usize = 4;
/// The side buffer of what waits for records.
pub(super) const WAITING: usize = 5;
/// Side buffers of a flow.
pub(super) const COUNT: u8 = 6;
/// Most bytes in a side buffer.
pub(super) const BUFFER_BYTES: u32 = 256 * 1024;

const _: () = assert!(WAITING + 1 == COUNT as usize);
