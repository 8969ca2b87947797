//! Traces of packets, and copies of packets at taps, on their way from engines to
//! clients.
//!
//! The engine's side is [`weir_runtime::watch`]. Engines put what they see into
//! bounded rings, one each, and never wait; the client's side empties them. What is
//! seen is told in the messages of the control interface, whether it comes through
//! a socket or not, so that both look alike.

mod arm;
mod convert;
mod matches;
mod points;
mod tap;
mod trace;

pub use arm::Arm;
pub use convert::unfinished;
pub use points::{NamedPoint, Places, Unseen};
pub use tap::{LONGEST, TapFeed, TapSpec, Taps};
pub use trace::{TraceFeed, TraceSpec, Traces};
