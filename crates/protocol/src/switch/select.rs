//! Which units a selection means.

use weir_packet::{FlowKey, Prefixes};

use super::Switch;
use super::lanes::Seat;
use crate::ids::UnitId;
use crate::message::{FlowSpace, Selection};

/// A flow space, made ready for comparing.
struct Space<'a> {
    space: &'a FlowSpace,
    prefixes: Prefixes,
}

impl Space<'_> {
    fn has(&self, key: &FlowKey) -> bool {
        let ends = [key.a(), key.b()];
        let in_ports = |port: u16| {
            self.space
                .ports
                .iter()
                .any(|&(first, last)| (first..=last).contains(&port))
        };
        (self.prefixes.is_empty() || ends.iter().any(|end| self.prefixes.contains(end.0)))
            && (self.space.ports.is_empty() || ends.iter().any(|end| in_ports(end.1)))
            && (self.space.protocols.is_empty() || self.space.protocols.contains(&key.proto()))
    }
}

impl Switch {
    /// Places of the units that `source` (0: anyone) has and `what` means;
    /// none that `target` has already.
    pub(super) fn select(&self, source: Seat, target: Seat, what: &Selection) -> Vec<u32> {
        let fits = |place: &u32| {
            let unit = self.units.at(*place);
            unit.id != 0
                && unit.owner != 0
                && unit.owner != target
                && (source == 0 || unit.owner == source)
        };
        let all = (0..self.units.top()).filter(fits);
        match what {
            Selection::All => all.collect(),
            Selection::Number(count) => {
                // Those that are on their way elsewhere only if there are no others.
                let (still, leaving): (Vec<u32>, Vec<u32>) =
                    all.partition(|&place| self.units.at(place).wanted == 0);
                still
                    .into_iter()
                    .chain(leaving)
                    .take(*count as usize)
                    .collect()
            }
            Selection::Space(space) => {
                let mut prefixes = Prefixes::default();
                space.prefixes.iter().for_each(|&p| prefixes.add(p));
                let space = Space { space, prefixes };
                let mut keys = Vec::new();
                all.filter(|&place| {
                    keys.clear();
                    let id = self.units.at(place).id;
                    self.classifier.flows_of(id, &mut keys);
                    keys.iter().any(|key| space.has(key))
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
