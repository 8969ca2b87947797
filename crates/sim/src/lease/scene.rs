//! What a seed draws before its run begins.

use crate::random::Random;

/// Leases that faults may last for.
const TROUBLE: (u64, u64) = (8, 30);
/// Leases for which a run goes on when somebody has the place for good.
const AFTER: u64 = 8;
/// Leases until a contender that is alone has the place. It may ask once before voters that have just
/// started promise anything, and waits then.
const ALONE: u64 = 5;
/// Leases until one of several has the place, and all promises.
const ELECTED: u64 = 14;
/// Leases for which a tenant asks that has lost its own.
const WITHOUT: u64 = 2;
/// Leases from when a contender begins to ask until it may do so again.
const ROUND: u64 = 3;
/// Rounds in which contenders ask at the same time, at most.
const ROUNDS: u64 = 3;

/// What may happen to processes and their links.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Two processes do not reach each other, or only one way.
    CutPair,
    /// One process reaches nobody, or nobody reaches it.
    CutOne,
    /// A contender dies.
    Crash,
    /// A contender stands still.
    Stop,
    /// A voter dies, and forgets.
    CrashVoter,
    /// A voter stands still.
    StopVoter,
    /// A contender does not want the place any more.
    Leave,
    /// A contender hears of a dead one.
    Dead,
    /// A voter hears of a generation.
    Know,
}

impl Kind {
    pub(super) const ALL: [Kind; 9] = [
        Kind::CutPair,
        Kind::CutOne,
        Kind::Crash,
        Kind::Stop,
        Kind::CrashVoter,
        Kind::StopVoter,
        Kind::Leave,
        Kind::Dead,
        Kind::Know,
    ];
}

/// The settings of a run.
#[derive(Clone, Debug)]
pub(super) struct Scene {
    pub(super) voters: usize,
    /// Hosts with a contender each, one start after another.
    pub(super) places: usize,
    pub(super) length: u64,
    pub(super) interval: u64,
    /// When faults end.
    pub(super) faults_end: u64,
    /// Messages lost of a thousand.
    pub(super) loss: u64,
    /// Messages that come twice of a thousand.
    pub(super) twice: u64,
    /// Messages that come late of a thousand.
    pub(super) late: u64,
    /// How late they come at most.
    pub(super) latest: u64,
    /// How long a message takes at most otherwise.
    pub(super) delay: u64,
    /// Time from one fault to the next, on average.
    pub(super) gap: u64,
    /// Faults that come.
    pub(super) kinds: Vec<Kind>,
    /// A voter that starts hears of the newest generation that a contender has held.
    pub(super) told: bool,
    /// A contender has the place before faults begin, and reaches a majority without faults from then on.
    pub(super) guarded: bool,
    /// It has it against others, which ask at the same time.
    pub(super) contested: bool,
    /// When it has it.
    pub(super) guard: u64,
}

impl Scene {
    pub(super) fn draw(random: &mut Random) -> Scene {
        let length = match random.below(4) {
            0 => 1_000_000_000,
            1 => random.within(1_000_000, 10_000_000),
            2 => random.within(1_000_000, 60_000_000_000),
            _ => 60_000_000_000,
        };
        let interval = length / random.within(4, 12);
        let voters = match random.below(3) {
            0 => 3,
            _ => random.within(1, 7) as usize,
        };
        let rate = |random: &mut Random, most| match random.below(3) {
            0 => 0,
            1 => random.below(most / 8),
            _ => random.below(most),
        };
        let (loss, twice) = (rate(random, 400), rate(random, 300));
        let late = rate(random, 300);
        let delay = match random.below(3) {
            0 => interval / 16,
            1 => interval,
            _ => random.within(1, length),
        };
        let every = random.chance(200);
        let kinds = Kind::ALL.into_iter();
        let kinds = kinds.filter(|_| every || random.chance(400)).collect();
        let (guarded, contested) = (random.chance(250), random.chance(500));
        let guard = match (guarded, contested) {
            (true, true) => ELECTED * length,
            (true, false) => ALONE * length,
            _ => 0,
        };
        Scene {
            voters,
            places: random.within(1, 4) as usize,
            length,
            interval,
            faults_end: guard + length * random.within(TROUBLE.0, TROUBLE.1),
            loss,
            twice,
            late,
            latest: random.within(1, 4 * length),
            delay,
            gap: random.within(length / 4, 2 * length),
            kinds,
            told: random.chance(400),
            guarded,
            contested,
            guard,
        }
    }

    pub(super) fn majority(&self) -> usize {
        self.voters / 2 + 1
    }

    /// How long a message takes at most where there is no fault.
    pub(super) fn quick(&self) -> u64 {
        (self.interval / 16).max(1)
    }

    /// Time from the end of faults until somebody has the place, at most.
    ///
    /// A tenant that has lost its lease asks for [`WITHOUT`] leases, so that voters promise it the place until a
    /// lease later. A contender that begins to ask just before that asks for a lease in vain, and waits for two
    /// at most: by then it finds the place free. Where several ask at the same time, each asks for a lease
    /// and waits for one to two, again.
    pub(super) fn patience(&self) -> u64 {
        (WITHOUT + 1 + ROUND + 1) * self.length + ROUNDS * ROUND * self.length
    }

    /// Time that a run goes on when somebody has the place for good.
    pub(super) fn after(&self) -> u64 {
        AFTER * self.length
    }
}
