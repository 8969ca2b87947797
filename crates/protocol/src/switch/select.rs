//! Finds the units that a selection means.

use super::Switch;
use super::runtimes::Slot;
use crate::ids::UnitId;
use crate::message::Selection;
use crate::plant::Plant;

impl Switch {
    /// Places of the units that `source` (0: anyone) has and `what` means;
    /// none that `target` has already.
    pub(super) fn select(&self, source: Slot, target: Slot, what: &Selection) -> Vec<u32> {
        let is_planted = self.settings.plant == Some(Plant::SourceIgnored);
        let fits = |place: &u32| {
            let unit = self.units.at(*place);
            unit.id != 0
                && unit.owner != 0
                && unit.owner != target
                && (source == 0 || unit.owner == source || is_planted)
        };
        let all = (0..self.units.top()).filter(fits);
        match what {
            Selection::All => all.collect(),
            Selection::Number(count) => {
                // Units on their way elsewhere only if there are no others.
                let (still, leaving): (Vec<u32>, Vec<u32>) =
                    all.partition(|&place| self.units.at(place).wanted == 0);
                still
                    .into_iter()
                    .chain(leaving)
                    .take(*count as usize)
                    .collect()
            }
            Selection::Space(space) => {
                let mut keys = Vec::new();
                all.filter(|&place| {
                    keys.clear();
                    let id = self.units.at(place).id;
                    self.classifier.flows_of(id, &mut keys);
                    keys.iter().any(|key| space.contains(key))
                })
                .collect()
            }
            Selection::Key(key) => self
                .classifier
                .unit_of(key)
                .and_then(|id| self.units.find(UnitId(id)))
                .filter(fits)
                .into_iter()
                .collect(),
        }
    }
}
