//! Flowlets: which runtime gets the next packets of a unit (SNF §4, §5).
//!
//! A unit's packets are cut into *flowlets*, at gaps and at sizes. Where one begins, the unit may
//! go to another runtime: its last packets are done by then, and a copy of the state may be there
//! already. [`Flowlets`] decides; it knows neither views nor messages. The switch, which opens the
//! view, asks it per packet whether a flowlet begins ([`Flowlets::begins`]), at the beginning of
//! one for a runtime ([`Flowlets::pick`]), and between flowlets who is to get a copy
//! ([`Flowlets::due`], [`Flowlets::likely`]).
//!
//! Decisions that the paper leaves open:
//!
//! - No timer per flow: units that had packets stand in one queue. Its front is looked at when its
//!   time has come, and goes to the back if there was another packet meanwhile. That is one look
//!   per unit and half gap at most.
//! - A unit's rate is its bytes since the last gap over the time since then and one gap. So long
//!   is a flowlet's room kept free: until the gap behind it is over. Were it the flowlet's
//!   duration alone, runtimes would look twice as full as they are, and packets back to back like
//!   a flow of line rate.
//! - A new unit's rate is the average of units' first flowlets, not of all: most units are small,
//!   most flowlets are of large ones.
//! - A runtime's load is what was measured there or, if that is more, what flowlets under way are
//!   estimated to bring (`loads.rs`).
//! - The paper's pseudocode prints the test of capacity the wrong way round. Here a runtime is a
//!   candidate if load + demand ≤ target; one that has the state, up to its capacity. The
//!   unit's own runtime has measured what the unit brings: there it is not added once more.
//! - A flowlet that begins since the one before reached its size stays where it is if there is
//!   room: no copy can have gone ahead.
//! - Where no runtime has room, the least loaded one gets the flowlet, and one that has the state
//!   sooner than others (by α).
//! - Runtimes that the load does not need are drained, from the last on: having the state does not
//!   count there. Otherwise all would be half full when the load falls, and none could be let go.

pub mod adapt;
mod counts;
mod loads;
mod settings;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, VecDeque};

use weir_packet::{Advise, Arena, Time, prefetch};
use weir_telemetry::Counts;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

pub use counts::FlowletCount;
pub use settings::{FlowletSettings, FlowletSettingsError, MOST_COPIES, Packing};

use adapt::Adapt;
use loads::Loads;

/// Number of a runtime at its switch, from 1; 0 is none.
pub type Slot = u16;

/// Units looked at in vain in one call of [`Flowlets::due`], at most.
const LOOKS: u32 = 64;

/// Runtimes are not needed if the others can do their work, filled to this much less than
/// [`FlowletSettings::start_at`].
const DRAIN_BELOW: u32 = 10;

/// Parts in 100 of its capacity up to which a runtime keeps a unit whose flowlet was cut by size:
/// a little too much for some hundred microseconds costs less than to wait for the state.
const AT_CUT: u64 = 125;

/// Gaps in which a quiet unit's packets are waited for before its copies are given up.
const PATIENCE: u64 = 8;

/// Gaps after which half of a run of packets without a gap is forgotten.
const LONG_RUN: u64 = 16;

/// Marks on a record.
mod mark {
    /// The unit stands in the queue of those that had packets.
    pub(super) const QUEUED: u8 = 1;
    /// Its flowlet is under way: its rate is promised to its runtime.
    pub(super) const ACTIVE: u8 = 2;
    /// Copies were asked for after its last packet.
    pub(super) const COPIED: u8 = 4;
    /// Its rate was measured, not taken from others'.
    pub(super) const MEASURED: u8 = 8;
    /// The unit has had a flowlet.
    pub(super) const KNOWN: u8 = 16;
    /// Its last flowlet ended without a gap.
    pub(super) const CUT: u8 = 32;
    /// It was looked at for copies since its last packet.
    pub(super) const LOOKED: u8 = 64;
}

/// A unit's flowlet: half a cache line. All zero: there was none yet.
#[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C, align(32))]
struct Record {
    /// Time of its last packet.
    last: u64,
    /// Time of the first packet since the last gap.
    began: u64,
    /// Bytes of the flowlet.
    bytes: u32,
    /// Estimated rate of the unit's flowlets in bytes per second.
    rate: u32,
    /// The runtime that it was placed at.
    slot: Slot,
    /// See [`mark`].
    marks: u8,
    /// Nothing.
    rest: u8,
    /// Bytes since the last gap, without those of the flowlet.
    run: u32,
}

const _: () = assert!(size_of::<Record>() == 32);

/// The choice for a flowlet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pick {
    /// The runtime.
    pub slot: Slot,
    /// It had the state, as owner or by a copy.
    pub has_state: bool,
}

/// Flowlets of one switch, by place of their units.
#[derive(Debug)]
pub struct Flowlets {
    settings: FlowletSettings,
    records: Arena<Record>,
    /// By place: runtimes with a copy of the state after the last packet; 0 for none. Valid
    /// while [`mark::COPIED`] is there.
    copies: Vec<[Slot; MOST_COPIES]>,
    loads: Loads,
    /// Time of the burst.
    now: u64,
    /// Units that had packets, with the time at which to look at them again.
    quiet: VecDeque<(Time, u32)>,
    /// First flowlets of units, and their bytes per second summed up: a new unit's estimate.
    measured: (u64, u64),
    adapt: Adapt,
    random: u64,
    counts: Counts<FlowletCount>,
}

impl Flowlets {
    /// For as many units as there are `places`. All memory of the data path is reserved here.
    ///
    /// # Errors
    ///
    /// Settings that make no sense.
    pub fn new(
        settings: FlowletSettings,
        places: usize,
        seed: u64,
        advise: Advise,
    ) -> Result<Flowlets, FlowletSettingsError> {
        settings.check()?;
        Ok(Flowlets {
            records: Arena::zeroed(places, advise),
            copies: vec![[0; MOST_COPIES]; places],
            loads: Loads::new(),
            now: 0,
            quiet: VecDeque::with_capacity(1_024),
            measured: (0, 0),
            adapt: Adapt::new(&settings),
            random: seed | 1,
            counts: Counts::default(),
            settings,
        })
    }

    /// A runtime may be given flowlets from now on.
    pub fn admit(&mut self, slot: Slot) {
        self.loads.admit(slot);
    }

    /// Asks for the record of a unit.
    #[inline]
    pub fn prefetch(&self, place: u32) {
        prefetch::read(self.records.as_ptr().wrapping_add(place as usize));
    }

    /// True if a packet of a unit begins a flowlet. Changes nothing.
    #[inline]
    pub fn begins(&self, place: u32, now: Time, bytes: u32) -> bool {
        self.records.get(place as usize).is_some_and(|record| {
            record.marks & mark::KNOWN == 0
                || now.0.saturating_sub(record.last) >= self.settings.gap
                || record.bytes.saturating_add(bytes) > self.settings.size
        })
    }

    /// Counts a packet, after [`Flowlets::begin`] if it begins a flowlet. `slot` is the unit's
    /// owner.
    #[inline]
    pub fn count(&mut self, place: u32, now: Time, slot: Slot, bytes: u32) {
        if let Some(record) = self.records.get_mut(place as usize) {
            record.last = now.0;
            record.bytes = record.bytes.saturating_add(bytes);
            record.marks &= !(mark::COPIED | mark::LOOKED);
            self.loads.count(slot, bytes);
        }
    }

    /// Ends a unit's flowlet: its rate is measured, and its runtime has room again.
    pub fn end(&mut self, place: u32) {
        let gap = self.settings.gap;
        let Some(record) = self.records.get_mut(place as usize) else {
            return;
        };
        let was_cut = self.now.saturating_sub(record.last) < gap;
        record.marks = (record.marks & !mark::CUT) | (mark::CUT * u8::from(was_cut));
        self.stop(place);
        let Some(record) = self.records.get_mut(place as usize) else {
            return;
        };
        if record.bytes == 0 {
            return;
        }
        record.run = record.run.saturating_add(record.bytes);
        let time = record.last.saturating_sub(record.began) + gap;
        let rate = u64::from(record.run) * 1_000_000_000 / time;
        let rate = u32::try_from(rate).unwrap_or(u32::MAX);
        // An EWMA of the last flowlet and the last estimate (SNF §4.2).
        record.rate = match record.marks & mark::MEASURED != 0 {
            false => rate,
            // It is not over: more than was estimated counts at once, less little by little.
            true if was_cut => rate.max(record.rate - record.rate.saturating_sub(rate) / 8),
            true => record.rate / 2 + rate / 2 + (record.rate & rate & 1),
        };
        let is_first = record.marks & mark::MEASURED == 0;
        record.marks |= mark::MEASURED;
        record.bytes = 0;
        if !is_first {
            return;
        }
        let (number, sum) = &mut self.measured;
        *number += 1;
        *sum += u64::from(rate);
        if *number >= 1 << 20 {
            // What is long past counts less.
            (*number, *sum) = (*number / 2, *sum / 2);
        }
    }

    /// The estimated rate of a unit's next flowlet in bytes per second. One of which nothing is
    /// known has the average of units' first flowlets.
    pub fn demand(&self, place: u32) -> u32 {
        let (number, sum) = self.measured;
        match self.records.get(place as usize) {
            Some(record) if record.marks & mark::MEASURED != 0 => record.rate,
            _ => u32::try_from(sum / number.max(1)).unwrap_or(u32::MAX),
        }
    }

    /// The runtime for a unit's next flowlet, of `usable` ones in their order; `None` if there is
    /// none. `holders` have the state beside those with a copy: the owner, and the replica
    /// if its copy is of the last packet.
    pub fn pick(&mut self, place: u32, usable: &[Slot], holders: [Slot; 2]) -> Option<Pick> {
        if self.settings.packing == Packing::Hash {
            return self.pick_by_hash(place, usable, holders);
        }
        let needed = self.needed(usable);
        let slot = match self.stays(place, usable.get(..needed).unwrap_or(usable), holders) {
            Some(slot) => slot,
            None => self.best(place, usable, holders, needed)?,
        };
        let has_state = self.has_state(place, slot, holders);
        Some(Pick { slot, has_state })
    }

    /// The unit's runtime, if its flowlet was cut by size and there is room. Its packets follow one
    /// another closely: there was no quiet in which a copy could go ahead.
    fn stays(&self, place: u32, needed: &[Slot], holders: [Slot; 2]) -> Option<Slot> {
        let record = self.records.get(place as usize)?;
        let stays = record.marks & mark::CUT != 0
            && holders.contains(&record.slot)
            && needed.contains(&record.slot)
            && self.loads.of_with(record.slot, u64::from(record.rate))
                <= self.settings.capacity / 100 * AT_CUT;
        stays.then_some(record.slot)
    }

    /// The runtime with the best score of those with room; the least loaded one where none has.
    fn best(
        &mut self,
        place: u32,
        usable: &[Slot],
        holders: [Slot; 2],
        needed: usize,
    ) -> Option<Slot> {
        let demand = u64::from(self.demand(place));
        let (room, capacity) = (self.settings.room(), self.settings.capacity);
        // α·β, in bytes per second.
        let alpha = match self.settings.packing {
            Packing::BestFit => 0,
            _ => room / 100 * u64::from(self.adapt.alpha()),
        };
        let before = self
            .records
            .get(place as usize)
            .map_or(0, |record| record.slot);
        let mut best: Option<(u64, Slot)> = None;
        let mut least: Option<(u64, Slot)> = None;
        for (at, &slot) in usable.iter().enumerate() {
            let load = self.loads.of(slot);
            let has_state = self.has_state(place, slot, holders);
            // What the unit brought to its runtime so far is part of what was measured there.
            let full = match slot == before {
                true => self.loads.of_with(slot, demand),
                false => load + demand,
            };
            let limit = if has_state { capacity } else { room };
            let score = load + alpha * u64::from(has_state && at < needed);
            if full <= limit && best.is_none_or(|(most, _)| score > most) {
                best = Some((score, slot));
            }
            // Turned round: so much fuller may one be that has the state.
            let cost = load + alpha * u64::from(!has_state);
            if least.is_none_or(|(fewest, _)| cost < fewest) {
                least = Some((cost, slot));
            }
        }
        if best.is_none() && least.is_some() {
            self.counts.add(FlowletCount::Overfull);
        }
        best.or(least).map(|(_, slot)| slot)
    }

    /// The number of runtimes that the measured load needs, from the first on. Those behind them
    /// are drained: they get flowlets that the others have no room for.
    fn needed(&self, usable: &[Slot]) -> usize {
        let load = self.loads.of_all(usable);
        let filled = u64::from(self.settings.start_at.saturating_sub(DRAIN_BELOW).max(1));
        let each = (self.settings.capacity * filled / 100).max(1);
        usize::try_from(load.div_ceil(each))
            .unwrap_or(usize::MAX)
            .max(1)
    }

    fn pick_by_hash(&self, place: u32, usable: &[Slot], holders: [Slot; 2]) -> Option<Pick> {
        let hash = (u64::from(place) + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        let at = (hash as usize * usable.len()) >> 32;
        let slot = *usable.get(at)?;
        let has_state = self.has_state(place, slot, holders);
        Some(Pick { slot, has_state })
    }

    fn has_state(&self, place: u32, slot: Slot, holders: [Slot; 2]) -> bool {
        holders.contains(&slot) || self.has_copy(place, slot)
    }

    /// True if a copy of the state after the unit's last packet was sent to a runtime.
    pub fn has_copy(&self, place: u32, slot: Slot) -> bool {
        let record = self.records.get(place as usize);
        record.is_some_and(|record| record.marks & mark::COPIED != 0)
            && slot != 0
            && self
                .copies
                .get(place as usize)
                .is_some_and(|copies| copies.contains(&slot))
    }

    /// Begins a unit's flowlet at a runtime.
    pub fn begin(&mut self, place: u32, now: Time, slot: Slot) {
        let rate = self.demand(place);
        let (gap, half) = (self.settings.gap, self.settings.half());
        let Some(record) = self.records.get_mut(place as usize) else {
            return;
        };
        if record.marks & mark::KNOWN == 0 || now.0.saturating_sub(record.last) >= gap {
            (record.began, record.run) = (now.0, 0);
        } else if now.0.saturating_sub(record.began) > LONG_RUN * gap {
            // What is long past counts less.
            record.began += (now.0 - record.began) / 2;
            record.run /= 2;
        }
        record.last = now.0;
        record.bytes = 0;
        record.slot = slot;
        record.rate = rate;
        record.marks = record.marks & !mark::COPIED | mark::ACTIVE | mark::KNOWN;
        self.loads.promise(slot, rate);
        if record.marks & mark::QUEUED == 0 {
            record.marks |= mark::QUEUED;
            self.quiet.push_back((now.plus(half), place));
        }
    }

    /// Forgets a unit: another may have its place.
    pub fn forget(&mut self, place: u32) {
        self.stop(place);
        if let Some(record) = self.records.get_mut(place as usize) {
            // It stays in the queue, which finds it quiet.
            *record = Record {
                marks: record.marks & mark::QUEUED,
                ..Record::default()
            };
        }
    }

    /// A flowlet is not under way any more: its runtime has room again.
    fn stop(&mut self, place: u32) {
        if let Some(record) = self.records.get_mut(place as usize)
            && record.marks & mark::ACTIVE != 0
        {
            record.marks &= !mark::ACTIVE;
            self.loads.release(record.slot, record.rate);
        }
    }

    /// A unit that is due has packets on their way still: it is due again in a while, unless it
    /// has been quiet for long.
    pub fn not_yet(&mut self, place: u32, now: Time) {
        let patience = self.settings.gap.saturating_mul(PATIENCE);
        if let Some(record) = self.records.get_mut(place as usize)
            && now.0.saturating_sub(record.last) < patience
        {
            record.marks &= !mark::LOOKED;
        }
    }

    /// A unit has another owner, by whatever decision: what its flowlet promises goes there.
    pub fn moved(&mut self, place: u32, owner: Slot) {
        let Some(record) = self.records.get_mut(place as usize) else {
            return;
        };
        // Copies are of the view before.
        record.marks &= !(mark::COPIED | mark::LOOKED);
        if record.slot == owner || record.marks & mark::KNOWN == 0 {
            return;
        }
        if record.marks & mark::ACTIVE != 0 {
            self.loads.release(record.slot, record.rate);
            match owner {
                0 => record.marks &= !mark::ACTIVE,
                _ => self.loads.promise(owner, record.rate),
            }
        }
        record.slot = owner;
    }

    /// Copies of a unit's state are outdated: its clock has gone on.
    pub fn outdate(&mut self, place: u32) {
        if let Some(record) = self.records.get_mut(place as usize) {
            record.marks &= !mark::COPIED;
        }
    }

    /// When [`Flowlets::due`] has something to do next.
    pub fn next_look(&self) -> Option<Time> {
        self.quiet.front().map(|(at, _)| *at)
    }

    /// The next unit that has been quiet for long enough that its state goes ahead; `None` if
    /// there is none now, or the work of one call is done. Each unit comes once per quiet.
    pub fn due(&mut self, now: Time) -> Option<u32> {
        let (gap, half) = (self.settings.gap, self.settings.half());
        for _ in 0..LOOKS {
            let &(at, place) = self.quiet.front().filter(|(at, _)| *at <= now)?;
            self.quiet.pop_front();
            let Some(record) = self.records.get_mut(place as usize) else {
                continue;
            };
            let idle = now.0.saturating_sub(record.last);
            debug_assert!(at <= now && record.marks & mark::QUEUED != 0);
            if idle < half {
                self.quiet.push_back((Time(record.last).plus(half), place));
                continue;
            }
            // A late look is as good as one in time: the flow is quiet still.
            let is_due = record.marks & (mark::LOOKED | mark::KNOWN) == mark::KNOWN
                && self.adapt.copies() > 0
                && self.settings.packing != Packing::Hash;
            if is_due {
                record.marks |= mark::LOOKED;
                let again = Time(record.last).plus(gap).max(now.plus(half.max(1)));
                self.quiet.push_back((again, place));
            } else if idle < gap {
                self.quiet.push_back((Time(record.last).plus(gap), place));
            } else {
                record.marks &= !mark::QUEUED;
            }
            if idle >= gap {
                self.stop(place);
            }
            if is_due {
                return Some(place);
            }
        }
        None
    }

    /// Runtimes that are likely to get the unit's next flowlet: drawn of `usable` ones but the
    /// `holders`, which have the state, with weights inverse to their place in the order (SNF
    /// §5). They are noted as having a copy; 0 fills the rest.
    pub fn likely(
        &mut self,
        place: u32,
        usable: &[Slot],
        holders: [Slot; 2],
    ) -> [Slot; MOST_COPIES] {
        let mut picked = [0; MOST_COPIES];
        let wanted = usize::from(self.adapt.copies()).min(MOST_COPIES);
        let mut number = 0;
        while number < wanted {
            let open =
                |slot: Slot, picked: &[Slot]| !holders.contains(&slot) && !picked.contains(&slot);
            let weights = usable.iter().enumerate();
            let weights = weights.map(|(at, &slot)| (slot, (1_u64 << 32) / (at as u64 + 1)));
            let all: u64 = weights
                .clone()
                .filter(|(slot, _)| open(*slot, &picked))
                .map(|(_, weight)| weight)
                .sum();
            if all == 0 {
                break;
            }
            let mut drawn = self.draw() % all;
            for (slot, weight) in weights {
                if !open(slot, &picked) {
                    continue;
                }
                if drawn < weight {
                    picked[number] = slot;
                    break;
                }
                drawn -= weight;
            }
            number += 1;
            self.counts.add(FlowletCount::CopyAsked);
        }
        self.adapt.asked(number as u64);
        if let Some(copies) = self.copies.get_mut(place as usize)
            && let Some(record) = self.records.get_mut(place as usize)
        {
            *copies = picked;
            record.marks |= mark::COPIED;
        }
        picked
    }

    /// xorshift64 (Marsaglia, 2003): a choice among runtimes, no secret.
    fn draw(&mut self) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random
    }

    /// Time passes: to be called per burst.
    #[inline]
    pub fn advance(&mut self, now: Time) {
        self.now = now.0;
        self.loads.advance(now.0);
        if self.settings.adapts {
            self.adapt.advance(now, &mut self.counts);
        }
    }

    /// A flowlet has become what `count` says.
    pub fn note(&mut self, count: FlowletCount) {
        self.counts.add(count);
        match count {
            FlowletCount::MovedReady => self.adapt.moved(true),
            FlowletCount::MovedWaiting => self.adapt.moved(false),
            FlowletCount::CopyUsed => self.adapt.used(),
            _ => {}
        }
    }

    /// True if a unit never had a flowlet.
    pub fn is_first(&self, place: u32) -> bool {
        self.records
            .get(place as usize)
            .is_none_or(|record| record.marks & mark::KNOWN == 0)
    }

    /// Whether a flowlet that begins now does so after a gap; else its size was reached.
    pub fn is_after_gap(&self, place: u32, now: Time) -> bool {
        let last = self
            .records
            .get(place as usize)
            .map_or(0, |record| record.last);
        now.0.saturating_sub(last) >= self.settings.gap
    }

    /// Load of a runtime in bytes per second.
    pub fn load(&self, slot: Slot) -> u64 {
        self.loads.of(slot)
    }

    /// True if the runtimes are so full that one more is to be started
    /// ([`FlowletSettings::start_at`]).
    pub fn wants_more(&self, usable: &[Slot]) -> bool {
        let (load, capacity) = self.fullness(usable);
        load * 100 > capacity * u64::from(self.settings.start_at)
    }

    /// Bytes per second that were measured at all runtimes, and what they can do.
    pub fn fullness(&self, usable: &[Slot]) -> (u64, u64) {
        let capacity = usable.len() as u64 * self.settings.capacity;
        (self.loads.of_all(usable), capacity)
    }

    /// How many of the runtimes, from the last on, have no load at all: they may be let go.
    pub fn idle(&self, usable: &[Slot]) -> usize {
        let backwards = usable.iter().rev();
        backwards
            .take_while(|&&slot| self.loads.of(slot) == 0)
            .count()
    }

    /// The settings that it began with.
    pub fn settings(&self) -> &FlowletSettings {
        &self.settings
    }

    /// What `alpha` (parts per hundred) and `copies` are now.
    pub fn adapted(&self) -> (u32, u8) {
        (self.adapt.alpha(), self.adapt.copies())
    }

    /// A place where the books disagree, in words; `None` unless weir has a bug.
    pub fn audit(&self) -> Option<String> {
        let mut promised = BTreeMap::new();
        for record in self.records.iter().filter(|r| r.marks & mark::ACTIVE != 0) {
            *promised.entry(record.slot).or_insert(0) += u64::from(record.rate);
            if record.marks & mark::QUEUED == 0 {
                return Some("a flowlet is under way, and nobody looks for its end".to_owned());
            }
        }
        self.loads.audit(&promised)
    }

    /// How often what happened.
    pub fn counts(&self) -> &Counts<FlowletCount> {
        &self.counts
    }
}
