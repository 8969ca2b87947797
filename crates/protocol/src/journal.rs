//! The journal of a switch: its actions in their order, for checkers and
//! traces. It is off in programs.

use weir_packet::FlowKey;

use crate::ids::{Clock, RuntimeId, UnitId, View};

/// One thing that a switch did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Done {
    /// A packet or a tick got its number.
    Numbered {
        /// Its unit.
        unit: UnitId,
        /// The current view.
        view: View,
        /// The number.
        clock: Clock,
    },
    /// A view was opened.
    Opened {
        /// The unit.
        unit: UnitId,
        /// The view.
        view: View,
        /// Packets after this clock belong to it.
        base: Clock,
        /// Its owner.
        owner: RuntimeId,
        /// Its replica.
        replica: Option<RuntimeId>,
        /// The state that it starts from.
        from: Start,
        /// The runtime whose state the owner goes on from, if there is one.
        holder: Option<RuntimeId>,
    },
    /// The current view is settled.
    Settled {
        /// The unit.
        unit: UnitId,
        /// The view.
        view: View,
    },
    /// A name was registered for a unit.
    Alias {
        /// The unit.
        unit: UnitId,
        /// The name.
        key: FlowKey,
    },
    /// A name passes from one unit to another: packets that come by it are numbered there.
    Taken {
        /// The unit that has it now.
        unit: UnitId,
        /// The unit that had it.
        of: UnitId,
        /// The name.
        key: FlowKey,
    },
    /// A name stays with the unit that has it, which waits for the one that
    /// asks.
    Yielded {
        /// The unit that asks.
        unit: UnitId,
        /// The unit that has it.
        of: UnitId,
        /// The name.
        key: FlowKey,
    },
    /// An entry is let out, whole: its aliases are registered, its packets and
    /// events leave next.
    LetOut {
        /// The unit.
        unit: UnitId,
        /// The entry's view.
        view: View,
        /// The packet's number.
        clock: Clock,
    },
    /// Numbered packets, the first to the last of these clocks, that nobody
    /// will apply: all who had the unit's state are gone (`owner_lost`).
    OwnerLost {
        /// The unit.
        unit: UnitId,
        /// The first.
        first: Clock,
        /// The last; below `first` where none waited.
        last: Clock,
    },
    /// The unit's end was granted.
    Ended {
        /// The unit.
        unit: UnitId,
    },
}

/// The state that a view starts from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// No state: the unit's first view.
    Nothing,
    /// No state: all who had it are gone.
    AfterLoss,
    /// The state at the base, from the last settled view's owner.
    Planned,
    /// The state of a holder of the last settled view, after a failure.
    Resumed,
    /// The state of a holder of this view, the best claim's, after the switch's
    /// restart. Entries applied in it and not let out before the restart never will
    /// be.
    Claimed(View),
}

/// The list, if it is kept.
#[derive(Debug, Default)]
pub struct Journal {
    lines: Option<Vec<Done>>,
}

impl Journal {
    /// Starts to keep it.
    pub fn start(&mut self) {
        self.lines.get_or_insert_default();
    }

    /// Writes a line, if it is kept.
    #[inline]
    pub fn note(&mut self, done: Done) {
        if let Some(lines) = &mut self.lines {
            lines.push(done);
        }
    }

    /// The lines since the last call.
    pub fn take(&mut self) -> Vec<Done> {
        self.lines.as_mut().map(core::mem::take).unwrap_or_default()
    }
}
