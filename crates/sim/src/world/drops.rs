//! I1: the reasons why a switch drops packets. Each has a condition that the world sees.

use weir_packet::FramePool;
use weir_protocol::Switch;
use weir_protocol::switch::SwitchDrop;

use super::World;
use super::process::{Body, Process};
use crate::check::Invariant;

/// Reasons that are held against the state of the world when packets come in.
const AT_INPUT: [SwitchDrop; 3] = [
    SwitchDrop::RecoveryFull,
    SwitchDrop::NoRuntime,
    SwitchDrop::FramesShort,
];

/// Counts of a switch before a burst came in.
pub(super) struct Before {
    counted: [u64; AT_INPUT.len()],
    was_recovering: bool,
    /// Packets of the burst.
    packets: usize,
    /// Frames that were free, those of the burst taken.
    free: usize,
}

impl Before {
    pub(super) fn new(switch: &Switch, pool: &FramePool, packets: usize) -> Before {
        Before {
            counted: AT_INPUT.map(|drop| switch.drops().get(drop)),
            was_recovering: switch.is_recovering(),
            packets,
            free: pool.available(),
        }
    }
}

impl World<'_> {
    /// The reasons of what the switch has not taken in of a burst can be.
    pub(super) fn look_at_input_drops(&mut self, before: &Before) {
        let settings = self.switch_settings();
        let has_runtimes = self.processes.iter().any(Process::is_useful);
        let Some((Body::Switch(switch), pool)) = self
            .switch
            .and_then(|no| self.processes.get(no)?.living.as_ref())
        else {
            return;
        };
        let rise =
            |(drop, was): (&SwitchDrop, &u64)| (switch.drops().get(*drop) > *was).then_some(*drop);
        let risen = AT_INPUT.iter().zip(&before.counted).filter_map(rise);
        let wrong = risen.into_iter().find(|drop| match drop {
            SwitchDrop::RecoveryFull => {
                !before.was_recovering || switch.report().held < u64::from(settings.recovery_held)
            }
            SwitchDrop::NoRuntime => before.was_recovering || has_runtimes,
            // A packet takes one frame at most, for its copy. A unit that turns out to be lost in
            // the burst frees its copies, and one that resumes takes frames to send them again.
            _ => {
                let free = before.free.min(pool.available());
                before.was_recovering || free > 2 * settings.reserve as usize + before.packets
            }
        });
        if let Some(drop) = wrong {
            let text = format!("packets are dropped as {} for no reason", drop.name());
            self.checker.violated(Invariant::Conservation, None, text);
        }
    }

    /// Packets that the switch lost or dropped after it had numbered them have the journal's
    /// reasons, and none has a reason that can't be. At the end of a switch's life.
    pub(super) fn look_at_drops(&mut self) {
        let (tally, before) = (self.checker.tally, self.before);
        let kept = u64::from(self.switch_settings().kept);
        let Some(switch) = self.running_switch() else {
            return;
        };
        let counted = |drop: SwitchDrop| switch.drops().get(drop);
        let numbered = [
            (SwitchDrop::Functions, tally.dropped - before.dropped),
            (SwitchDrop::Lost, tally.lost - before.lost),
            (SwitchDrop::OwnerLost, tally.owner_lost - before.owner_lost),
            (SwitchDrop::EmitsLost, tally.emits_lost - before.emits_lost),
        ];
        let misnamed = numbered
            .iter()
            .find(|(drop, right)| counted(*drop) != *right)
            .map(|(drop, right)| {
                let (name, counted) = (drop.name(), counted(*drop));
                format!("{right} are {name}, {counted} are counted")
            });
        // Where nothing is kept it would be a place that the classifier gave and the switch lacks.
        let was_full = kept > 0 && switch.report().hand_overs.kept_most >= kept;
        let impossible = [
            (SwitchDrop::UnackedFull, !was_full),
            (SwitchDrop::ClockUsedUp, true),
            (SwitchDrop::ViewsUsedUp, true),
            (SwitchDrop::Unfinished, true),
            (SwitchDrop::OverQuota, true),
            (SwitchDrop::OverShare, true),
        ];
        let impossible = impossible
            .iter()
            .find(|(drop, never)| *never && counted(*drop) > 0)
            .map(|(drop, _)| format!("{} can't be", drop.name()));
        if let Some(text) = misnamed.or(impossible) {
            self.checker.violated(Invariant::Conservation, None, text);
        }
    }
}

/// True of a packet's reason that counts it after it was numbered.
pub(super) fn is_after_numbering(name: &str) -> bool {
    [
        SwitchDrop::Functions,
        SwitchDrop::Lost,
        SwitchDrop::OwnerLost,
        SwitchDrop::EmitsLost,
    ]
    .iter()
    .any(|drop| drop.name() == name)
}
