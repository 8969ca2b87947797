//! The load of each runtime as the switch's thread measures it, for scaling.

use std::time::Duration;

use weir_control::{Load, Need};
use weir_protocol::RuntimeId;

use super::super::wiring::place_of;
use super::Cluster;
use super::member::{Member, State};
use super::tenanted::Tenanted;

impl Cluster {
    /// Looks whether ports have to wait now, or packets were dropped since the last look because a
    /// tenant is over its part. Where so, the time since the last look counts
    /// against the runtimes that most packets wait for. Of `moves`, by source and target, are units
    /// that may be under way: packets that wait at a target for their state wait for its source.
    pub(crate) fn look_at_load(&mut self, since: Duration, moves: &[(RuntimeId, RuntimeId)]) {
        let was_over = self.tenanted.as_mut().is_some_and(Tenanted::take_was_over);
        if self.room() > 0 && !was_over {
            return;
        }
        let waiting = self.waiting();
        // Several may have too much: those that half as many wait for count, too.
        let least = (waiting.iter().max().copied().unwrap_or(0) / 2).max(1);
        let mut blamed: Vec<usize> = (0..waiting.len())
            .filter(|place| waiting.get(*place).is_some_and(|of| *of >= least))
            .collect();
        if self.moves_under_way() > 0 {
            let places = self.members.len();
            for place in &mut blamed {
                let mut moves = moves.iter();
                if let Some((from, _)) = moves.find(|(_, to)| place_of(*to, places) == *place) {
                    *place = place_of(*from, places);
                }
            }
            blamed.sort_unstable();
            blamed.dedup();
        }
        let since = u64::try_from(since.as_nanos()).unwrap_or(u64::MAX);
        for place in blamed {
            if let Some(member) = self.members.get_mut(place) {
                member.held_back = member.held_back.saturating_add(since);
            }
        }
    }

    /// Packets that wait for each place's runtime.
    fn waiting(&self) -> Vec<u64> {
        let places = self.members.len();
        let in_queues = |member: &Member| {
            let queues = member.ends.data.iter();
            queues.map(|queue| queue.waiting() as u64).sum()
        };
        let mut waiting: Vec<u64> = self.members.iter().map(in_queues).collect();
        for at in &self.chains {
            at.switch.owners_on_the_way(|owner| {
                if let Some(of) = waiting.get_mut(place_of(owner, places)) {
                    *of += 1;
                }
            });
        }
        waiting
    }

    /// What flowlets need, of all chains together.
    pub(crate) fn flowlet_need(&mut self) -> Need {
        let now = self.clock.now();
        let mut all = Need::default();
        let mut idle_for_all: Option<Vec<RuntimeId>> = None;
        for chain in &mut self.chains {
            let Some(((load, room), more, idle)) = chain.switch.flowlet_need(now) else {
                continue;
            };
            all.load += load;
            all.room += room;
            all.more |= more;
            idle_for_all = Some(match idle_for_all {
                None => idle,
                Some(mut others) => {
                    others.retain(|runtime| idle.contains(runtime));
                    others
                }
            });
        }
        all.idle = idle_for_all.unwrap_or_default();
        all
    }

    /// The loads of the runtimes that run or drain.
    pub(crate) fn loads(&self) -> Vec<(RuntimeId, Load)> {
        let members = self.members.iter();
        let up = members.filter(|member| {
            matches!(member.state, State::Runs | State::Drains)
                && !member.failed_over
                && !member.is_logger
        });
        let load = |member: &Member| {
            let id = member.ends.id;
            let units = u32::try_from(self.units_of(id)).unwrap_or(u32::MAX);
            let load = Load {
                packets: member.ends.data.iter().map(|queue| queue.sent()).sum(),
                drops: 0,
                held_back: member.held_back,
                units,
            };
            (id, load)
        };
        up.map(load).collect()
    }
}
