//! Decisions, with their reasons.

use core::fmt;

use weir_protocol::ids::RuntimeId;
use weir_protocol::message::MoveMode;

use super::load::Rates;

/// An action for the coordinator. It reports no result: the next workload reports show
/// it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Start one more runtime; it takes part from when it is in the cluster.
    Add,
    /// Move `count` units (`Switch::move_units` with `Selection::Number`).
    Move {
        /// The runtime that gives flows.
        from: RuntimeId,
        /// The runtime that takes them.
        to: RuntimeId,
        /// Most flows to move.
        count: u32,
        /// How.
        mode: MoveMode,
    },
    /// Give all units of the runtime to others, and no new ones to it
    /// (`Switch::drain`).
    Drain {
        /// Which.
        runtime: RuntimeId,
        /// How.
        mode: MoveMode,
    },
    /// Stop the runtime: it reports no unit. It may still keep copies for others;
    /// who carries it out waits for `Switch::is_drained`.
    Remove {
        /// Which.
        runtime: RuntimeId,
    },
}

/// An action, and why it is to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decision {
    /// The action.
    pub action: Action,
    /// Its reason.
    pub why: Why,
}

/// A reason; for people, too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// A runtime has more to do than it can.
    Overload {
        /// Which.
        runtime: RuntimeId,
        /// Its load lately.
        rates: Rates,
    },
    /// There are fewer runtimes than the minimum.
    BelowMinimum,
    /// One runtime less can do the work.
    Calm {
        /// Packets per second of all together.
        total: u64,
        /// Packets per second that one can do.
        peak: u64,
    },
    /// What runs is almost full.
    AlmostFull {
        /// Bytes per second of all together.
        load: u64,
        /// Bytes per second that all together can do.
        room: u64,
    },
    /// The runtime has nothing to do.
    Idle,
    /// The runtime owns nothing any more.
    Empty,
    /// The runtime has been told to, and owns units still.
    NotEmpty,
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Why::Overload { runtime, rates } => {
                let (id, taken) = (runtime.0, rates.packets);
                write!(f, "runtime {id} took in {taken} packets per second")?;
                if rates.drops > 0 {
                    write!(f, ", lost {}", rates.drops)?;
                }
                if rates.held_back > 0 {
                    let percent = f64::from(rates.held_back) / 10.0;
                    write!(f, ", and ports waited for it {percent} % of the time")?;
                }
                Ok(())
            }
            Why::BelowMinimum => f.write_str("there are fewer than the minimum"),
            Why::Calm { total, peak } => write!(
                f,
                "all took in {total} packets per second, and one can take {peak}"
            ),
            Why::AlmostFull { load, room } => {
                let percent = load.saturating_mul(100) / (*room).max(1);
                write!(f, "the runtimes have {percent} % of what they can do")
            }
            Why::Idle => f.write_str("it has nothing to do"),
            Why::Empty => f.write_str("it has no unit any more"),
            Why::NotEmpty => f.write_str("it still has units"),
        }
    }
}
