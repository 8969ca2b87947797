//! Watches: what an operator wants to see of packets on their way.
//!
//! A **trace** follows single packets: everything that becomes of each is
//! recorded as a [`PacketTrace`]. A **tap** copies packets at points. Both are
//! off until somebody asks, and cost then one branch per burst (and one per
//! function and burst, which the audit has anyway).
//!
//! A burst is a speed-up and no semantics, so a packet that is traced is given
//! a burst of its own: whatever is different after it, it has caused. Packets
//! that a trace follows are marked ([`weir_packet::FrameMeta::watched`]), so
//! that later stages and a packet's second way through the chain know them
//! whatever functions have made of their headers. Taps don't change bursts.
//!
//! The driver decides where traces and copies go: it gives a [`Tracer`] or [`Tapper`]
//! that must not wait.

mod arm;
mod current;
mod observe;
mod offer;
mod record;
mod seen;
mod tap;
mod trace;
mod watches;

pub use arm::TooManyWatches;
pub use record::{DispositionTrace, FieldChange, FlowTrace, Made, PacketTrace, Step, StepVerdict};
pub use seen::{Seen, SeenFlow, Taken, Tracer};
pub use tap::{Comment, Tap, TapPoint, Tapped, Tapper};
pub use watches::{MOST_TAPS, MOST_TRACES, engine_drops};
pub(crate) use watches::{Observers, Why};
