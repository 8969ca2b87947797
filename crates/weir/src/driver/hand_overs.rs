//! How long hand-overs take: from the messages that the switch sends.

use std::collections::HashMap;

use weir_packet::Time;
use weir_protocol::message::Origin;
use weir_protocol::{Message, UnitId, View};

use super::histogram::Histogram;

/// Hand-overs of all chains: a planned view from its opening to the moment in
/// which it is settled.
#[derive(Debug, Default)]
pub struct HandOvers {
    /// Those that are under way: their views and when they opened.
    open: HashMap<(usize, UnitId), (View, Time)>,
    /// Most under way at a time.
    pub open_most: usize,
    /// Those that are done, by how long they took.
    pub durations: Histogram,
}

impl HandOvers {
    /// Looks at a message of a chain's switch.
    pub(super) fn see(&mut self, now: Time, chain: usize, message: &Message) {
        match message {
            // It is repeated until the view is settled; the first one counts.
            Message::Open(open) => {
                if let Origin::Planned { .. } = open.origin {
                    let begun = self
                        .open
                        .entry((chain, open.unit))
                        .or_insert((open.view, now));
                    if begun.0 < open.view {
                        *begun = (open.view, now);
                    }
                    self.open_most = self.open_most.max(self.open.len());
                }
            }
            // Once the view is settled those before it can be forgotten.
            Message::Forget { unit, below, .. } => {
                if let Some((view, begun)) = self.open.get(&(chain, *unit))
                    && view <= below
                {
                    self.durations.add(now.0.saturating_sub(begun.0));
                    self.open.remove(&(chain, *unit));
                }
            }
            _ => {}
        }
    }

    /// Those under way.
    pub fn under_way(&self) -> usize {
        self.open.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_protocol::message::Open;
    use weir_protocol::{Clock, RuntimeId};

    #[test]
    fn a_hand_over_lasts_from_its_first_open_to_its_first_forget() {
        let mut seen = HandOvers::default();
        let open = |view, origin| {
            Message::Open(Open {
                unit: UnitId(7),
                view: View(view),
                old: View(view - 1),
                base: Clock(3),
                out: Clock(3),
                origin,
                replica: None,
                every: 0,
            })
        };
        let source = RuntimeId(1);
        let forget = |below| Message::Forget {
            unit: UnitId(7),
            below: View(below),
            ended: false,
        };
        seen.see(Time(50), 0, &open(4, Origin::Resumed { source }));
        assert_eq!(seen.under_way(), 0);
        seen.see(Time(100), 0, &open(5, Origin::Planned { source }));
        seen.see(Time(150), 0, &open(5, Origin::Planned { source }));
        seen.see(Time(180), 0, &forget(4));
        assert_eq!((seen.under_way(), seen.durations.count()), (1, 0));
        seen.see(Time(200), 0, &forget(5));
        seen.see(Time(300), 0, &forget(5));
        assert_eq!((seen.under_way(), seen.durations.count()), (0, 1));
        assert_eq!(seen.durations.max(), 100);
    }
}
