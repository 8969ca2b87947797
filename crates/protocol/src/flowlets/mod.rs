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
//! - A flowlet's rate is its bytes over its duration, and over one gap at least: packets back to
//!   back are no flow of line rate.
//! - A runtime's load is what was measured there or, if that is more, what flowlets under way are
//!   estimated to bring ([`loads`]).
//! - The paper's pseudocode prints the test of capacity the wrong way round. Here a runtime is a
//!   candidate if load + demand ≤ capacity.

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

/// Units looked at in one call of [`Flowlets::due`], at most.
const LOOKS: u32 = 64;

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
}

/// A unit's flowlet: half a cache line. All zero: there was none yet.
#[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C, align(32))]
struct Record {
    /// Time of its last packet.
    last: u64,
    /// Time of the flowlet's first packet.
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
    rest: [u8; 5],
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
    /// Units that had packets, with the time at which to look at them again.
    quiet: VecDeque<(Time, u32)>,
    /// Measured flowlets, and their bytes per second summed up: a new unit's estimate.
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
            record.marks &= !mark::COPIED;
            self.loads.count(slot, bytes);
        }
    }

    /// Ends a unit's flowlet: its rate is measured, and its runtime has room again.
    pub fn end(&mut self, place: u32) {
        self.stop(place);
        let gap = self.settings.gap;
        let Some(record) = self.records.get_mut(place as usize) else {
            return;
        };
        if record.bytes == 0 {
            return;
        }
        let duration = record.last.saturating_sub(record.began).max(gap);
        let rate = u64::from(record.bytes) * 1_000_000_000 / duration;
        let rate = u32::try_from(rate).unwrap_or(u32::MAX);
        // An EWMA of the last flowlet and the last estimate (SNF §4.2).
        record.rate = match record.marks & mark::MEASURED {
            0 => rate,
            _ => record.rate / 2 + rate / 2 + (record.rate & rate & 1),
        };
        record.marks |= mark::MEASURED;
        record.bytes = 0;
        let (number, sum) = &mut self.measured;
        *number += 1;
        *sum += u64::from(rate);
        if *number >= 1 << 20 {
            // What is long past counts less.
            (*number, *sum) = (*number / 2, *sum / 2);
        }
    }

    /// The estimated rate of a unit's next flowlet in bytes per second. One of which nothing is
    /// known has the average of all flowlets so far.
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
        let demand = u64::from(self.demand(place));
        let room = self.settings.room();
        let alpha = match self.settings.packing {
            Packing::Greedy => u64::from(self.adapt.alpha()),
            Packing::BestFit => 0,
            Packing::Hash => return self.pick_by_hash(place, usable, holders),
        };
        let mut best: Option<(u64, Slot)> = None;
        let mut least: Option<(u64, Slot)> = None;
        for &slot in usable {
            let load = self.loads.of(slot);
            let has_state = self.has_state(place, slot, holders);
            // Parts in 10,000 of the room; α is in parts of 100.
            let score = load * 10_000 / room.max(1) + alpha * 100 * u64::from(has_state);
            if load + demand <= room && best.is_none_or(|(before, _)| score > before) {
                best = Some((score, slot));
            }
            if least.is_none_or(|(before, _)| load < before) {
                least = Some((load, slot));
            }
        }
        let (_, slot) = best.or_else(|| {
            self.counts.add(FlowletCount::Overfull);
            least
        })?;
        let has_state = self.has_state(place, slot, holders);
        Some(Pick { slot, has_state })
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
        let half = self.settings.half();
        let Some(record) = self.records.get_mut(place as usize) else {
            return;
        };
        record.began = now.0;
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

    /// What was copied of a unit's state is not its last state any more.
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
            if idle >= gap {
                record.marks &= !mark::QUEUED;
                self.stop(place);
            } else if idle < half {
                self.quiet.push_back((Time(record.last).plus(half), place));
            } else {
                let is_due = self.adapt.copies() > 0 && record.marks & mark::COPIED == 0;
                self.quiet.push_back((Time(record.last).plus(gap), place));
                if is_due {
                    return Some(place);
                }
            }
        }
        None
    }

    /// Runtimes that are likely to get the unit's next flowlet: drawn of `usable` ones but
    /// `owner` with weights inverse to their place in the order (SNF §5). They are noted as having
    /// a copy; 0 fills the rest.
    pub fn likely(&mut self, place: u32, usable: &[Slot], owner: Slot) -> [Slot; MOST_COPIES] {
        let mut picked = [0; MOST_COPIES];
        let wanted = usize::from(self.adapt.copies()).min(MOST_COPIES);
        let mut number = 0;
        while number < wanted {
            let open = |slot: Slot, picked: &[Slot]| slot != owner && !picked.contains(&slot);
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
        let (load, room) = self.fullness(usable);
        load * 100 > room * u64::from(self.settings.start_at)
    }

    /// Bytes per second of all runtimes, and what they can do.
    pub fn fullness(&self, usable: &[Slot]) -> (u64, u64) {
        let load = usable.iter().map(|&slot| self.loads.of(slot)).sum();
        (load, usable.len() as u64 * self.settings.room())
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
