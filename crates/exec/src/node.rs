//! Nodes: the units of work that a worker steps in turn.

use std::os::fd::BorrowedFd;
use std::time::Duration;

/// The outcome of one step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Round {
    /// There was something to do.
    pub worked: bool,
    /// Something was queued for another thread, though there was no work.
    pub gave: bool,
    /// Something is left that finds no room in a queue. No reader signals room,
    /// so the worker must not sleep for long.
    pub blocked: bool,
    /// The node has nothing left to do, ever.
    pub over: bool,
}

impl Round {
    /// Adds what another node of the same worker found.
    pub(crate) fn add(&mut self, other: Round) {
        self.worked |= other.worked;
        self.gave |= other.gave;
        self.blocked |= other.blocked;
    }
}

/// A part of the work on packets, on one worker.
///
/// A node is made on the thread of its worker and stays there, so it needs no
/// lock and need not be `Send`.
pub trait Node {
    /// The counts and frames that a finished node hands back.
    type Report;

    /// Takes in what has come and does what is due, in bounded time.
    ///
    /// # Errors
    ///
    /// The node can't go on; its worker ends.
    fn step(&mut self) -> Result<Round, String>;

    /// Answers commands that wait, or a part of one. True while an answer is
    /// under way: the worker calls it in the next round again and does not
    /// sleep.
    fn take_commands(&mut self) -> bool {
        false
    }

    /// The worker is about to sleep. False where it must not. The worker steps
    /// its nodes once more before it sleeps, and [unparks](Node::unpark) them in
    /// any case.
    fn prepare_park(&mut self) -> bool {
        true
    }

    /// The worker is awake.
    fn unpark(&mut self) {}

    /// Descriptors that wake the worker when they can be read, beside its waker.
    fn descriptors<'a>(&'a self, into: &mut Vec<BorrowedFd<'a>>) {
        let _ = into;
    }

    /// How long its worker may sleep: until the node's next deadline.
    fn longest(&self) -> Duration {
        Duration::MAX
    }

    /// Closes its queues and gives its report, after a step that was
    /// [over](Round::over).
    ///
    /// # Errors
    ///
    /// The node could not hand its report over.
    fn finish(self) -> Result<Self::Report, String>;
}
