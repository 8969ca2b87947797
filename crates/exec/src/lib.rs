//! The executor: what runs where, and how.
//!
//! A [`Node`] does one part of the work on packets: a runtime, a stage, a
//! carrier between two ports. A [`worker`] is a thread that steps its nodes
//! round after round: it has them take commands, steps them, parks where none
//! of them has work, and collects their reports at the end. [`Threads`] starts
//! workers, waits until they are ready, joins them and says why one died.
//!
//! Nodes on different threads are joined by [queues](queue) of one writer and
//! one reader, and share one packet memory whose free frames are evened out
//! through its reserve ([`frames`]).
//!
//! This is a driver: it may use threads and clocks. It knows no command line,
//! no control interface and no chain.

mod cores;
pub mod frames;
mod node;
mod park;
pub mod queue;
mod supervise;
pub mod worker;

pub use cores::{check_cores, nth_core, pin, ranges, started_aside, step_aside};
pub use node::{Node, Round};
pub use park::{NEVER_PARK, Parker, Parks, Wakers};
pub use supervise::{ExecError, Ready, Threads};
