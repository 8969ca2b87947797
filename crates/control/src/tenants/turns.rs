//! Each tenant's part of a runtime's time: the one that has had least, by its weight, is next
//! (start-time fair queueing; Goyal, Vin and Cheng, 1996).
//!
//! Each tenant has a clock of its own, which goes on by the time that it has had, divided by its
//! weight. Those whose clocks are far ahead wait; one that wanted nothing is set to the least of
//! the others, so that it can't save time up. The time of a packet is measured, and a turn has as
//! many packets as take [`SLICE`]: a tenant whose functions are slow makes the others wait that
//! long, and not for a whole batch.

use super::shares::weights;

/// Time of a turn, in ns.
const SLICE: u64 = 50_000;
/// How far a clock may be ahead of the least one, in the time of weight 1: a turn.
const AHEAD: u64 = SLICE * SCALE;
/// Units of a clock per nanosecond, so that weights divide it well.
const SCALE: u64 = 1_000;
/// A turn is charged at most this multiple of its expected time: if the thread is stopped or
/// preempted meanwhile, the rest is charged to no tenant.
const SURPRISE: u64 = 4;
/// Part of a measured time that the average takes: a sixteenth.
const SMOOTH: u32 = 4;

/// See the module. Times are in nanoseconds.
#[derive(Clone, Debug)]
pub struct Turns {
    chains: Vec<Chain>,
    /// Clock and weight, by tenant.
    tenants: Vec<(u64, u32)>,
    /// The least clock of those that have something to do.
    least: u64,
}

#[derive(Clone, Debug)]
struct Chain {
    tenant: usize,
    /// Time of a packet, on average; 0 before the first.
    cost: u64,
}

impl Turns {
    /// For chains of these tenants with these weights.
    pub fn new(shares: &[(u16, u32)]) -> Turns {
        let chain = |(tenant, _): &(u16, u32)| Chain {
            tenant: usize::from(*tenant),
            cost: 0,
        };
        Turns {
            chains: shares.iter().map(chain).collect(),
            tenants: weights(shares).into_iter().map(|it| (0, it)).collect(),
            least: 0,
        }
    }

    /// A round begins: packets wait in the chains for which `waits` is true.
    pub fn begin(&mut self, waits: impl Fn(usize) -> bool) {
        let chains = self.chains.iter().enumerate();
        let waiting = chains.filter(|(number, _)| waits(*number));
        let clocks = waiting.filter_map(|(_, chain)| self.tenants.get(chain.tenant));
        // A ring is empty for a moment now and then, also where more is to come: nothing is forgotten.
        let Some(least) = clocks.map(|(clock, _)| *clock).min() else {
            return;
        };
        // Never back: one that comes again starts where those are that were there.
        self.least = self.least.max(least);
        for (clock, _) in &mut self.tenants {
            *clock = (*clock).max(self.least);
        }
    }

    /// Packets that a chain may have in this round, at most `most`: none where its tenant is ahead
    /// of one that waits.
    pub fn packets(&self, chain: usize, most: usize) -> usize {
        let Some(of) = self.chains.get(chain) else {
            return most;
        };
        let clock = self.tenants.get(of.tenant).map_or(0, |(clock, _)| *clock);
        if clock - self.least > AHEAD {
            return 0;
        }
        // One, to measure it, where none was.
        let fits = SLICE.checked_div(of.cost).unwrap_or(1);
        most.min(usize::try_from(fits).unwrap_or(usize::MAX).max(1))
    }

    /// A chain has had `ns`, in which it has done so many packets.
    pub fn used(&mut self, chain: usize, ns: u64, packets: usize) {
        let Some(of) = self.chains.get_mut(chain) else {
            return;
        };
        let expected = of.cost.saturating_mul(packets as u64).max(SLICE);
        let ns = ns.min(SURPRISE * expected);
        if let Some(each) = ns.checked_div(packets as u64) {
            let average = match of.cost {
                0 => each,
                cost => cost - (cost >> SMOOTH) + (each >> SMOOTH),
            };
            of.cost = average.max(1);
        }
        if let Some((clock, weight)) = self.tenants.get_mut(of.tenant) {
            *clock += ns * SCALE / u64::from(*weight);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A chain as the bed runs it: ns per packet, and how many come in a millisecond.
    struct Load {
        cost: u64,
        comes: u64,
    }

    struct Bed {
        turns: Turns,
        waiting: Vec<u64>,
        /// Time and packets of each chain.
        had: Vec<(u64, u64)>,
        longest_wait: Vec<u64>,
    }

    fn run(shares: &[(u16, u32)], loads: &[Load], ms: u64) -> Bed {
        let count = loads.len();
        let mut bed = Bed {
            turns: Turns::new(shares),
            waiting: vec![0; count],
            had: vec![(0, 0); count],
            longest_wait: vec![0; count],
        };
        let (mut now, mut came) = (0, 0);
        let mut served_at = vec![0; count];
        while now < ms * 1_000_000 {
            while came <= now / 1_000_000 {
                for (waiting, load) in bed.waiting.iter_mut().zip(loads) {
                    *waiting = (*waiting + load.comes).min(4_096);
                }
                came += 1;
            }
            let waiting = bed.waiting.clone();
            bed.turns.begin(|chain| waiting[chain] > 0);
            let before = now;
            for chain in 0..count {
                let packets = bed
                    .turns
                    .packets(chain, 256)
                    .min(bed.waiting[chain] as usize);
                if packets == 0 {
                    if bed.waiting[chain] == 0 {
                        served_at[chain] = now;
                    }
                    continue;
                }
                let wait = now - served_at[chain];
                bed.longest_wait[chain] = bed.longest_wait[chain].max(wait);
                let ns = packets as u64 * loads[chain].cost;
                bed.turns.used(chain, ns, packets);
                bed.waiting[chain] -= packets as u64;
                bed.had[chain].0 += ns;
                bed.had[chain].1 += packets as u64;
                now += ns;
                served_at[chain] = now;
            }
            if now == before {
                now += 1_000;
            }
        }
        bed
    }

    fn part(bed: &Bed, chain: usize) -> f64 {
        let all: u64 = bed.had.iter().map(|(ns, _)| ns).sum();
        bed.had[chain].0 as f64 / all as f64
    }

    #[test]
    fn time_is_shared_by_weight_whatever_a_packet_costs() {
        let greedy = |cost| Load {
            cost,
            comes: 1_000_000,
        };
        for (weights, costs) in [
            ([1, 1], [300, 20_000]),
            ([3, 1], [300, 20_000]),
            ([1, 9], [1_000, 400_000]),
            ([1_000, 1], [5_000, 500]),
        ] {
            let shares = [(0, weights[0]), (1, weights[1])];
            let bed = run(&shares, &costs.map(greedy), 2_000);
            let wanted = f64::from(weights[0]) / f64::from(weights[0] + weights[1]);
            let got = part(&bed, 0);
            assert!((got - wanted).abs() < 0.02, "{weights:?} {costs:?}: {got}");
        }
    }

    #[test]
    fn what_one_does_not_want_another_gets() {
        // The first wants a tenth of the time.
        let loads = [
            Load {
                cost: 1_000,
                comes: 100,
            },
            Load {
                cost: 20_000,
                comes: 1_000_000,
            },
        ];
        let bed = run(&[(0, 1), (1, 1)], &loads, 2_000);
        assert!(bed.had[0].1 >= 100 * 1_995, "{:?}", bed.had);
        assert!((part(&bed, 1) - 0.9).abs() < 0.01, "{:?}", bed.had);
    }

    #[test]
    fn who_was_away_has_saved_nothing_up() {
        let shares = [(0, 1), (1, 1)];
        let mut turns = Turns::new(&shares);
        for _ in 0..1_000 {
            turns.begin(|chain| chain == 0);
            assert!(turns.packets(0, 256) > 0, "one that is alone never waits");
            turns.used(0, 1_000_000, 256);
        }
        // The other comes, and both want all: neither gets much before the other.
        let mut had = [0u64; 2];
        for _ in 0..100 {
            turns.begin(|_| true);
            for (chain, had) in had.iter_mut().enumerate() {
                let packets = turns.packets(chain, 256);
                if packets > 0 {
                    turns.used(chain, packets as u64 * 1_000, packets);
                    *had += packets as u64;
                }
            }
        }
        let most = had[0].abs_diff(had[1]);
        assert!(most < 1_200, "{had:?}");
    }

    #[test]
    fn slow_functions_of_one_make_others_wait_for_a_slice() {
        let loads = [
            Load {
                cost: 500,
                comes: 50,
            },
            Load {
                cost: 40_000,
                comes: 1_000_000,
            },
        ];
        let bed = run(&[(0, 1), (1, 1)], &loads, 1_000);
        // A turn of 50 µs has a packet of 40 µs: two turns of the other, and its own.
        assert!(bed.longest_wait[0] <= 150_000, "{:?}", bed.longest_wait);
        assert!(bed.had[0].1 > 49_000, "{:?}", bed.had);
    }

    /// A process that was stopped, say.
    #[test]
    fn a_thread_that_stands_still_costs_a_tenant_a_few_turns() {
        let mut turns = Turns::new(&[(0, 1), (1, 10)]);
        for chain in [0, 1] {
            turns.used(chain, 1_000, 1);
        }
        turns.used(0, 5_000_000_000, 1);
        let mut waited = 0;
        loop {
            turns.begin(|_| true);
            if turns.packets(0, 256) > 0 {
                break;
            }
            let packets = turns.packets(1, 256);
            turns.used(1, packets as u64 * 1_000, packets);
            waited += packets as u64 * 1_000;
        }
        assert!(waited <= SURPRISE * SLICE * 10, "{waited}");
    }

    #[test]
    fn chains_of_one_tenant_share_its_part() {
        let greedy = |cost| Load {
            cost,
            comes: 1_000_000,
        };
        let loads = [greedy(1_000), greedy(1_000), greedy(1_000)];
        let bed = run(&[(0, 1), (1, 1), (0, 1)], &loads, 1_000);
        assert!((part(&bed, 1) - 0.5).abs() < 0.02, "{:?}", bed.had);
    }
}
