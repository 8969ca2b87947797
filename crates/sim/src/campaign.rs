//! Many seeds, one sum.

use std::collections::BTreeMap;

use crate::check::{Tally, Violation};
use crate::plan::Plan;
use crate::run::run_in;
use crate::settings::Settings;
use crate::trace::Trace;
use crate::traffic::Recorded;
use crate::world::Outcome;
use crate::world::pools::Pools;

/// A seed that failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failed {
    /// The seed.
    pub seed: u64,
    /// The invariant that did not hold, with its place.
    pub violation: Violation,
}

/// The sum of many runs.
#[derive(Clone, Debug, Default)]
pub struct Campaign {
    /// Seeds that were run.
    pub seeds: u64,
    /// Packets that were planned.
    pub packets: u64,
    /// Owner changes that were asked for.
    pub moves: u64,
    /// Seeds that failed, by seed.
    pub failed: Vec<Failed>,
    /// The checkers' counts.
    pub tally: BTreeMap<&'static str, u64>,
    /// The counts of switches, actors and streams.
    pub counts: BTreeMap<String, u64>,
    /// The worlds' counts.
    pub world: BTreeMap<&'static str, u64>,
    /// Least owner changes (planned views) of a seed.
    pub least_moved: Option<u64>,
    /// Virtual time of all, in nanoseconds.
    pub time: u64,
    /// Packet memory of the last run.
    pools: Pools,
}

impl Campaign {
    /// Runs a seed and adds it; true where all invariants held.
    ///
    /// # Errors
    ///
    /// The chain can't be built: a fault of this crate.
    pub fn add_seed(
        &mut self,
        seed: u64,
        settings: &Settings,
        recorded: Option<&[Recorded]>,
    ) -> Result<bool, String> {
        let plan = Plan::draw(seed, settings, recorded);
        let (outcome, _) = run_in(settings, &plan, Trace::default(), &mut self.pools)?;
        let held = outcome.violation.is_none();
        self.add(&plan, outcome);
        Ok(held)
    }

    fn add(&mut self, plan: &Plan, outcome: Outcome) {
        self.seeds += 1;
        for plan in [plan].into_iter().chain(&plan.others) {
            self.packets += plan.packets.len() as u64;
            self.moves += plan.moves() as u64;
        }
        self.time += outcome.time;
        let moved = outcome.tally.moved;
        self.least_moved = Some(self.least_moved.map_or(moved, |least| least.min(moved)));
        for (name, count) in named(&outcome.tally) {
            *self.tally.entry(name).or_default() += count;
        }
        for (name, count) in outcome.counts {
            *self.counts.entry(name).or_default() += count;
        }
        for (name, count) in outcome.world {
            *self.world.entry(name).or_default() += count;
        }
        if let Some(violation) = outcome.violation {
            self.failed.push(Failed {
                seed: plan.seed,
                violation,
            });
        }
    }

    /// Adds another campaign's sums.
    pub fn merge(&mut self, other: Campaign) {
        self.seeds += other.seeds;
        self.packets += other.packets;
        self.moves += other.moves;
        self.time += other.time;
        self.least_moved = match (self.least_moved, other.least_moved) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        };
        for (name, count) in other.tally {
            *self.tally.entry(name).or_default() += count;
        }
        for (name, count) in other.counts {
            *self.counts.entry(name).or_default() += count;
        }
        for (name, count) in other.world {
            *self.world.entry(name).or_default() += count;
        }
        self.failed.extend(other.failed);
        self.failed.sort_by_key(|failed| failed.seed);
    }

    /// The events that can happen and never did in all the runs.
    pub fn never(&self) -> Vec<&str> {
        let zero = self.counts.iter().filter(|(_, count)| **count == 0);
        let names = zero.map(|(name, _)| name.as_str());
        names.filter(|name| !NOT_HERE.contains(name)).collect()
    }
}

/// Counters that stay at zero in a simulation without planted bugs; each has a test
/// beside its code.
const NOT_HERE: [&str; 30] = [
    // Only a peer that has the key and errs does that.
    "stream.messages_broken",
    "stream.messages_refused_too_long",
    "stream.rejected_acknowledgement",
    "stream.rejected_payload",
    // Messages are taken at once.
    "stream.rejected_unread",
    "stream.rejected_out_of_window",
    // A copy that differs breaks the books, and one that is behind is so for a few milliseconds,
    // not for the 50 until it is asked about again.
    "actors.compare_differs",
    "actors.compare_behind",
    // All runtimes have tables of one size, and there is room for all flows.
    "actors.refused_full",
    // A forged packet has to begin an actor where a planned move then leads:
    // in less than one of 1,000 seeds.
    "actors.astray",
    // The switch's memory holds all that it keeps and all that arrives.
    "switch.entry_no_frame",
    // The table of names has room for all.
    "switch.alias_refused",
    // A late packet has to open a flow under the key that its client's next
    // connection takes as an alias: once in some hundred seeds of the chain `web`;
    // both units have to ask for a name of the other: still rarer.
    "switch.name_taken",
    "switch.name_waited",
    "switch.name_yielded",
    // An entry has to wait at the gate for its turn while a view opens: in less
    // than one of 200 seeds.
    "switch.parked_refused",
    // A frame has to be overtaken by all of a replay window: once in 100 seeds
    // at best.
    "stream.rejected_too_old",
    // A late answer has to open a flow under the name that the next packet of
    // its client gets: in less than one of 100 seeds.
    "switch.port_held",
    // The world keeps in mind who was suspected.
    "switch.suspected_before",
    // When the faults are over everyone answers, long before that.
    "switch.answer_given_up",
    // States and outputs of the simulator's chains are shorter than a message.
    "actors.emitted_too_long",
    "actors.outputs_missing",
    "actors.refused_too_long",
    "actors.state_too_long",
    // Pools of runtimes hold all that their switch keeps.
    "actors.held_for_frames",
    // A question has to be asked again and come when its view is settled.
    "actors.logger_lacks",
    // Two runtimes are left but by `all-runtimes`, which is not among the faults of a campaign.
    "switch.heir_awaited",
    "switch.first_awaits",
    // Ticks without room wait instead.
    "switch.tick_refused",
    // Between hosts a repeat that finds no frame comes in the next round: ring mode owes it.
    "switch.repeat_owed",
];

/// The checker's counts, by name.
pub fn named(tally: &Tally) -> [(&'static str, u64); 18] {
    [
        ("numbered", tally.numbered),
        ("let_out", tally.let_out),
        ("out", tally.out),
        ("dropped", tally.dropped),
        ("turned", tally.turned),
        ("lost", tally.lost),
        ("emitted", tally.emitted),
        ("emits_lost", tally.emits_lost),
        ("ticks", tally.ticks),
        ("owner_lost", tally.owner_lost),
        ("switch_restart", tally.switch_restart),
        ("behind", tally.behind),
        ("views", tally.views),
        ("moved", tally.moved),
        ("resumed", tally.resumed),
        ("claimed", tally.claimed),
        ("ended", tally.ended),
        ("states_compared", tally.states),
    ]
}
