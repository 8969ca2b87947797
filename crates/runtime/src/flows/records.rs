//! A table of records found by key: a hash index, a state block per record, and rarely
//! used data in a separate array. One table holds the flows; each wider scope (host,
//! prefix) has a table of its own.

use weir_nf::host::{Blocks, FlowHead, StageLayout};
use weir_packet::{Advise, Arena, FlowKey};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use super::index::Index;

/// Set in an index entry that is the number of an alias, not of a record.
pub(crate) const ALIAS: u32 = 1 << 31;

/// Data of a record that packets do not touch, kept apart to save cache lines.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(crate) struct Cold {
    /// Time of the first packet, in nanoseconds.
    pub(crate) opened: u64,
    /// Head of the record's list of aliases: number plus one; 0 for none.
    pub(crate) aliases: u32,
    /// Record of the next wider scope, plus one; 0 for none.
    pub(crate) parent: u32,
    /// Reference count: records of finer scopes and aliases that refer to this one.
    pub(crate) holders: u32,
    pub(crate) unused: [u32; 3],
}

/// A table of records.
#[derive(Debug)]
pub(crate) struct Records {
    pub(crate) index: Index,
    pub(crate) blocks: Blocks,
    pub(crate) cold: Arena<Cold>,
    /// Numbers of closed records; the last one is reused first.
    free: Vec<u32>,
    /// Lowest record number not used so far.
    next_unused: u32,
    /// The record at which [`Records::longest_idle`] stopped, as the hand of a clock.
    hand: u32,
}

impl Records {
    /// Memory of `max` records and `extra` further index entries, in bytes.
    pub(crate) fn bytes(max: u32, extra: u32, layout: &StageLayout) -> u64 {
        let record = layout.lines() * 64 + size_of::<Cold>() + size_of::<u32>();
        Index::bytes(max as usize + extra as usize) + u64::from(max) * record as u64
    }

    /// At most `max` records; the index has room for `extra` further entries.
    pub(crate) fn new(max: u32, extra: u32, layout: &StageLayout, advise: Advise) -> Records {
        let max = max.clamp(1, ALIAS - 1);
        Records {
            index: Index::new(max as usize + extra as usize, advise),
            blocks: Blocks::new(max as usize, layout, advise),
            cold: Arena::zeroed(max as usize, advise),
            free: Vec::with_capacity(max as usize),
            next_unused: 0,
            hand: 0,
        }
    }

    /// State blocks only, for a later stage: the first stage gives the numbers of
    /// records, so there is no index and no cold data.
    pub(crate) fn fed(max: u32, layout: &StageLayout, advise: Advise) -> Records {
        let max = max.clamp(1, ALIAS - 1);
        Records {
            index: Index::new(1, weir_packet::no_advice),
            blocks: Blocks::new(max as usize, layout, advise),
            cold: Arena::zeroed(0, weir_packet::no_advice),
            free: Vec::new(),
            next_unused: 0,
            hand: 0,
        }
    }

    /// Opens record `record` of a [`Records::fed`] table: sets key, id and bits, and
    /// clears the rest. False if the number is out of range or in use.
    pub(crate) fn take(&mut self, record: u32, key: &FlowKey, id: u64, bits: u8) -> bool {
        if record as usize >= self.blocks.count() || self.is_live(record) {
            return false;
        }
        self.blocks.clear(record);
        let head = self.blocks.head_mut(record);
        head.key = *key;
        head.id = id;
        head.bits = bits;
        self.next_unused = self.next_unused.max(record + 1);
        true
    }

    /// Record numbers used so far are below this.
    pub(crate) fn used(&self) -> u32 {
        self.next_unused
    }

    /// Records in use. Not for [`Records::fed`], where closed records are not counted.
    pub(crate) fn len(&self) -> usize {
        self.next_unused as usize - self.free.len()
    }

    /// True if no further record can be opened.
    pub(crate) fn is_full(&self) -> bool {
        self.free.is_empty() && self.next_unused as usize == self.cold.len()
    }

    /// Finds the record of `key`. Does not follow aliases.
    pub(crate) fn find(&self, key: &FlowKey, hash: u64) -> Option<u32> {
        self.index.find(hash, |record| {
            record & ALIAS == 0 && self.blocks.head(record).key == *key
        })
    }

    /// Opens a record for `key`: live, last seen at `now`, its state cleared. `None` if
    /// the table or its index is full.
    pub(crate) fn open(&mut self, key: &FlowKey, hash: u64, id: u64, now: u64) -> Option<u32> {
        let record = match self.free.pop() {
            Some(record) => record,
            None if (self.next_unused as usize) < self.cold.len() => {
                self.next_unused += 1;
                self.next_unused - 1
            }
            None => return None,
        };
        if !self.index.insert(hash, record) {
            self.free.push(record);
            return None;
        }
        self.blocks.clear(record);
        let head = self.blocks.head_mut(record);
        head.key = *key;
        head.id = id;
        head.bits = FlowHead::LIVE;
        head.last_seen = now;
        self.cold[record as usize] = Cold {
            opened: now,
            aliases: 0,
            parent: 0,
            holders: 0,
            unused: [0; 3],
        };
        Some(record)
    }

    /// Closes a record and frees its number. `hash` is that of its key.
    pub(crate) fn close(&mut self, record: u32, hash: u64) {
        self.index.remove(hash, record);
        self.blocks.head_mut(record).bits = 0;
        self.free.push(record);
    }

    /// True if the record is in use.
    pub(crate) fn is_live(&self, record: u32) -> bool {
        record < self.next_unused && self.blocks.head(record).bits & FlowHead::LIVE != 0
    }

    /// True if the record is in use and has this key and id.
    pub(crate) fn holds(&self, record: u32, key: &FlowKey, id: u64) -> bool {
        let named = |head: &FlowHead| head.id == id && head.key == *key;
        self.is_live(record) && named(self.blocks.head(record))
    }

    /// All records in use, in the order of their numbers.
    pub(crate) fn live(&self) -> impl Iterator<Item = u32> + '_ {
        self.live_from(0)
    }

    /// Records in use from number `first` on.
    pub(crate) fn live_from(&self, first: u32) -> impl Iterator<Item = u32> + '_ {
        (first..self.next_unused).filter(|&record| self.is_live(record))
    }

    /// A record to evict: the longest idle one of the next `sample` records, without
    /// those for which `busy` is true. The next call continues where this one stopped.
    pub(crate) fn longest_idle(&mut self, sample: u32, busy: impl Fn(u32) -> bool) -> Option<u32> {
        let mut best: Option<(u64, u32)> = None;
        for _ in 0..sample.min(self.next_unused) {
            self.hand = if self.hand + 1 >= self.next_unused {
                0
            } else {
                self.hand + 1
            };
            if self.is_live(self.hand) && !busy(self.hand) {
                let last = self.blocks.head(self.hand).last_seen;
                if best.is_none_or(|(oldest, _)| last < oldest) {
                    best = Some((last, self.hand));
                }
            }
        }
        best.map(|(_, record)| record)
    }
}
