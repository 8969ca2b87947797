//! The executor: what runs where, and how.
//!
//! A [`Node`] does one part of the work on packets: a runtime, a stage, a
//! carrier between two ports. A [`worker`] is a thread that steps its nodes
//! round after round: it has them take commands, steps them, parks where none
//! of them has work, and collects their reports at the end. A [`Team`] starts
//! workers, waits until they are ready, joins them and says why one died. Which
//! node is on which thread of which process is a [`Placement`], plain data; when
//! what died is started again is a [`RestartPolicy`].
//!
//! A node is told something from outside over a [command channel](command_channel).
//!
//! Nodes on different threads are joined by [queues](queue) of one writer and
//! one reader, and share one packet memory whose free frames are evened out
//! through its reserve ([`frames`]).
//!
//! This is a driver: it may use threads and clocks. It knows no command line,
//! no control interface and no chain.

mod command;
mod cores;
pub mod edge;
mod error;
pub mod frames;
mod node;
mod park;
pub mod placement;
pub mod queue;
mod restart;
mod supervise;
pub mod worker;

pub use command::{CommandReceiver, CommandSender, NotSent, command_channel};
pub use cores::{check_cores, nth_core, pin, ranges, started_aside, step_aside};
pub use error::ExecError;
pub use node::{Node, Round};
pub use park::{IdleStrategy, NEVER_PARK, Parker, Parks, Wakers, asleep};
pub use placement::Placement;
pub use restart::{Forget, RestartPolicy, Restarts};
pub use supervise::{Team, cause_of};
