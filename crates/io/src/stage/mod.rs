//! Ports between the stages of a plan, hidden from processors: a stage takes
//! frames from one [`StageInput`] and gives them to one [`StageOutput`], and
//! does not know how many stages there are before, beside or behind it.
//!
//! | port | what it does |
//! |---|---|
//! | [`point()`] | a ring from one stage to the next |
//! | [`Branch`] | the same packets to several stages: frames to the first, copies to the others |
//! | [`Marker`] | the end of each further branch: marks the packets it is done with |
//! | [`Sync`] | behind the first branch: a packet goes on when all have marked it |
//! | [`ByFlow`], [`MergeFlows`] | to several instances of a stage by flow, and back |
//! | [`InTurn`], [`MergeTurns`] | the same burst by burst, in the same turns back |
//!
//! [`parallel`], [`balanced_by_flow`] and [`balanced_in_turn`] wire them with rings
//! between threads.
//!
//! A thread's loop is the same for all of them:
//!
//! ```
//! use weir_io::stage::{StageInput, StageOutput, point};
//! use weir_packet::{FrameMeta, FramePool, MemoryLayout};
//!
//! let mut pool = FramePool::with_layout(MemoryLayout::default());
//! let (mut upstream, mut input) = point(256);
//! let (mut output, mut downstream) = point(256);
//! upstream.give(&mut vec![pool.copy(b"packet", FrameMeta::default())?]);
//! drop(upstream); // its stage is over
//!
//! let mut burst = Vec::with_capacity(64);
//! while !(burst.is_empty() && input.is_over()) {
//!     if burst.is_empty() {
//!         input.take(&mut burst, 64);
//!         // ... the stage works on the burst ...
//!     }
//!     output.give(&mut burst); // what has no room stays: back pressure
//! }
//! drop(output); // and so the end goes on to the next stage
//!
//! downstream.take(&mut burst, 64);
//! assert_eq!(burst.len(), 1);
//! assert!(downstream.is_over());
//! pool.give_all(&mut burst);
//! # Ok::<(), weir_packet::NoFrame>(())
//! ```
//!
//! # What an implementation holds to
//!
//! - Frames come out in the order in which they were given, except where a
//!   port says otherwise.
//! - No port drops a frame. One that waits for room stays with the caller,
//!   which takes no further input until it is gone.
//! - What was written to a frame before it was given is seen by whom it is
//!   given to.
//! - Nothing is allocated per packet.
//! - An end that is dropped, by a panic of its thread too, is seen by the
//!   other: [`StageInput::is_over`], [`StageOutput::is_gone`]. Frames that the
//!   dropped end held are lost with it.
//!
//! Rings between processes are further implementations ([`crate::shared`]): a
//! frame is an offset into the packet memory that both map.

mod branch;
mod by_flow;
mod counts;
mod error;
mod in_turn;
mod lender;
mod marker;
mod point;
mod pressure;
mod regions;
mod return_queue;
mod sync;
#[cfg(test)]
mod tests;
mod wiring;

use std::fmt::Debug;

use weir_packet::Frame;

pub use branch::Branch;
pub use by_flow::{ByFlow, MergeFlows};
pub use counts::PortCounts;
pub use error::StageError;
pub use in_turn::{InTurn, MergeTurns};
pub use lender::{Lender, ReturnPath};
pub use marker::Marker;
pub use point::{PointInput, PointOutput, point};
pub(crate) use pressure::Pressure;
pub use pressure::Refused;
pub use regions::Regions;
pub use sync::Sync;
pub use wiring::{
    Balanced, FurtherBranch, Parallel, ParallelSettings, QueuePorts, balanced_by_flow,
    balanced_in_turn, parallel,
};

/// Port from which a stage takes its frames.
pub trait StageInput: Send + Debug {
    /// Moves up to `max` frames to the end of `into`, and says how many. None
    /// where nothing is there now.
    fn take(&mut self, into: &mut Vec<Frame>, max: usize) -> usize;

    /// Frames that wait here, about: more may have come meanwhile, and some
    /// may not be ready yet.
    fn waiting(&self) -> usize;

    /// True where the other side is gone and all that it gave was taken:
    /// nothing will come any more. Once true it stays so.
    fn is_over(&self) -> bool;

    /// Counts so far.
    fn counts(&self) -> PortCounts {
        PortCounts::default()
    }

    /// The reader is about to sleep: where the other side is another process,
    /// that is to wake it ([`crate::shared::Waker`]). False where it may not
    /// sleep, since something is there or nothing will come any more.
    fn prepare_park(&mut self) -> bool {
        true
    }

    /// The reader is awake again.
    fn unpark(&mut self) {}
}

/// Port to which a stage gives its frames.
pub trait StageOutput: Send + Debug {
    /// Moves frames out of `frames`, in order, as far as there is room, and
    /// says how many. The others stay in `frames`, in order, to be given again
    /// before any later ones.
    fn give(&mut self, frames: &mut Vec<Frame>) -> usize;

    /// So many frames the next [`StageOutput::give`] takes at least. A port
    /// that copies frames may take fewer, where none is left for copies of
    /// their size; such a port is no queue of another port.
    fn room(&self) -> usize;

    /// True where the other side is gone: nothing is taken any more. The
    /// caller decides what to do with the frames.
    fn is_gone(&self) -> bool;

    /// Frames that had no room when they were first given.
    fn refused(&self) -> Refused;

    /// Counts so far.
    fn counts(&self) -> PortCounts {
        PortCounts::default()
    }

    /// Ends it, as dropping it does: the other side sees the end. Gives the
    /// pool that the port lent frames of, which can be closed when all threads
    /// that have such frames are over ([`Lender::into_pool`]).
    #[must_use = "the frames of a lender that is dropped are lost"]
    fn close(self: Box<Self>) -> Option<Lender> {
        None
    }
}
