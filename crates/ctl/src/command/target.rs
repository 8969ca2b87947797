//! A thread as commands see it.

use std::sync::Arc;

use weir_packet::{FlowKey, Time};

use super::compare::Comparing;
use super::counts::ThreadCounts;
use super::moves::{MoveUnits, Moving};
use super::part::Visit;
use super::replace::Replacement;
use super::resize::{HandingOver, Resize, Resizing};

/// A thread that commands are carried out on.
pub trait CommandTarget {
    /// Its counts.
    fn counts(&mut self) -> ThreadCounts;
    /// Its runtimes, one after another.
    fn parts(&mut self, visit: &mut Visit<'_>);
    /// How many more flows a switch may be asked to end now.
    fn room_for_ends(&self) -> usize {
        usize::MAX
    }
    /// Asks the switch to end a flow of a unit: true where there is one to ask.
    fn ask_for_end(&mut self, chain: usize, unit: u64, key: FlowKey) -> bool {
        let _ = (chain, unit, key);
        false
    }
    /// How far the comparison of copies is. With `begin` one begins, unless one is under way.
    fn compare(&mut self, begin: bool) -> Comparing {
        let _ = begin;
        None
    }
    /// Has the switch move units, where there is one.
    fn move_units(&mut self, wanted: &MoveUnits) -> Moving {
        let _ = wanted;
        None
    }
    /// Starts or drains runtimes, where there is a switch.
    fn resize(&mut self, wanted: &Resize) -> Resizing {
        let _ = wanted;
        None
    }
    /// Has the switch hand over to the next one, and end.
    fn hand_over(&mut self) -> HandingOver {
        None
    }
    /// Functions were replaced in the thread's own runtimes: whatever else it has of them is, too.
    fn replace(&mut self, new: &Arc<Replacement>) {
        let _ = new;
    }
    /// Takes events that a command has caused to where they go.
    fn take_events(&mut self);
    /// The time, where packets carry the machine's; `None` where that of the last
    /// packet counts.
    fn now(&self) -> Option<Time>;
}
