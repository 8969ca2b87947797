//! Ports that can't be made.

use std::fmt;

/// Why ports could not be made: faults of the caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StageError {
    /// A parallel step or a balanced stage of one, which needs no such port.
    TooFew,
    /// More branches than a packet has marks for
    /// ([`weir_packet::MOST_BRANCHES`] beside the first).
    TooManyBranches {
        /// Branches beside the first.
        branches: usize,
    },
    /// The pool has not the frames that one packet may need, of either size:
    /// the port would wait for ever.
    PoolTooSmall {
        /// Frames needed of each size that the memory has.
        needed: usize,
    },
    /// A queue that can't hold a turn's end behind a packet.
    QueueTooShort {
        /// Places needed.
        needed: usize,
    },
}

impl fmt::Display for StageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StageError::TooFew => write!(f, "at least two queues are needed side by side"),
            StageError::TooManyBranches { branches } => write!(
                f,
                "{branches} branches beside the first; a packet has marks for {}",
                weir_packet::MOST_BRANCHES
            ),
            StageError::PoolTooSmall { needed } => write!(
                f,
                "the pool for copies needs at least {needed} frames of each size that the packet \
                 memory has"
            ),
            StageError::QueueTooShort { needed } => {
                write!(f, "a queue needs at least {needed} places")
            }
        }
    }
}

impl std::error::Error for StageError {}
