//! Copies are compared with what their owners sent, all the time, as `weir verify` has it done.

use weir_protocol::actors::ActorCount;

use super::process::Body;
use super::{Invariant, World};

/// Looks between two comparisons of some units.
const LOOKS: u64 = 4;

impl World<'_> {
    /// Has each runtime ask about the copies of some of its units.
    pub(super) fn compare_copies(&mut self, look: u64) {
        if !self.plan.compare || !look.is_multiple_of(LOOKS) {
            return;
        }
        for no in 0..self.processes.len() {
            let time = self.time_at(no);
            let process = self.processes.get_mut(no);
            let process = process.filter(|its| its.paused_until.is_none());
            let Some((Body::Runtime(actors), _)) = process.and_then(|its| its.living.as_mut())
            else {
                continue;
            };
            actors.begin_comparison();
            actors.compare_some(time);
            let differ = actors.counts().get(ActorCount::CompareDiffers);
            match self.threads.is_some() {
                true => self.call(no),
                false => self.flush(no),
            }
            if differ > 0 {
                let text = format!("{} has {differ} copies that differ", self.name_of(no));
                return self.checker.violated(Invariant::Books, None, text);
            }
        }
    }
}
