//! Older copies of units, and who is told to forget them.

use weir_protocol::{Actors, UnitId, View};

use super::World;
use super::links::ProcessNo;
use super::process::Process;
use crate::check::{Invariant, show_unit, show_view};

impl World<'_> {
    /// A runtime has said that it forgot: what a switch that starts again would hear of from it is
    /// of the settled view, or newer, or the switch waits for another word.
    pub(super) fn look_at_forgotten(&mut self, by: ProcessNo, unit: UnitId) {
        let Some((view, floor)) = self.kept_unasked(by, unit) else {
            return;
        };
        let name = self
            .processes
            .get(by)
            .map(Process::name)
            .unwrap_or_default();
        let text = format!(
            "{name} has view {} of unit {} still, older than {}, and the switch takes it as forgotten",
            show_view(view),
            show_unit(unit),
            show_view(floor)
        );
        self.checker.violated(Invariant::Books, Some(unit), text);
    }

    /// The view that the runtime has of the unit, and the oldest that it may have, where the switch
    /// waits for no word of it.
    fn kept_unasked(&self, by: ProcessNo, unit: UnitId) -> Option<(View, View)> {
        let switch = self.running_switch().filter(|s| !s.is_recovering())?;
        let process = self.processes.get(by)?;
        let id = process.runtime()?;
        let record = self
            .checker
            .units
            .get(&unit)
            .filter(|record| !record.adrift)?;
        let floor = match record.ended {
            true => View(u64::MAX),
            false if record.is_live() && !record.awaits_view() => record.settled?.view,
            false => return None,
        };
        let view = process
            .actors()
            .and_then(|actors| Actors::claimed(actors, unit))?;
        let is_waited_for = switch.is_to_forget(id, unit) || !switch.is_in_service(id);
        (view < floor && !is_waited_for).then_some((view, floor))
    }
}
