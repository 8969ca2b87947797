//! Records under keys: state blocks, an index over them, and what is needed
//! rarely beside them. Flows are kept in one, and each wider scope in another.

use weir_nf::host::{Blocks, FlowHead, StageLayout};
use weir_packet::{Advise, Arena, FlowKey};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use super::index::Index;

/// Marks an index entry as the number of an alias.
pub(crate) const ALIAS: u32 = 1 << 31;

/// What is not touched per packet.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(crate) struct Cold {
    /// Time of the first packet.
    pub(crate) opened: u64,
    /// First of its aliases, plus one; 0 for none.
    pub(crate) aliases: u32,
    /// Record of the next wider scope, plus one; 0 for none.
    pub(crate) parent: u32,
    /// Records of finer scopes and aliases that hold on to this one.
    pub(crate) holders: u32,
    pub(crate) unused: [u32; 3],
}

/// The records.
#[derive(Debug)]
pub(crate) struct Records {
    pub(crate) index: Index,
    pub(crate) blocks: Blocks,
    pub(crate) cold: Arena<Cold>,
    free: Vec<u32>,
    fresh: u32,
    hand: u32,
}

impl Records {
    /// Bytes that so many take.
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
            fresh: 0,
            hand: 0,
        }
    }

    /// Blocks for records whose numbers come from elsewhere: no index, nothing
    /// beside them.
    pub(crate) fn fed(max: u32, layout: &StageLayout, advise: Advise) -> Records {
        let max = max.clamp(1, ALIAS - 1);
        Records {
            index: Index::new(1, weir_packet::no_advice),
            blocks: Blocks::new(max as usize, layout, advise),
            cold: Arena::zeroed(0, weir_packet::no_advice),
            free: Vec::new(),
            fresh: 0,
            hand: 0,
        }
    }

    /// Makes a record of [`Records::fed`] one of this key and id, all zeros
    /// else; false where there is no such record or it is in use.
    pub(crate) fn take(&mut self, record: u32, key: &FlowKey, id: u64, bits: u8) -> bool {
        if record as usize >= self.blocks.count() || self.is_live(record) {
            return false;
        }
        self.blocks.clear(record);
        let head = self.blocks.head_mut(record);
        head.key = *key;
        head.id = id;
        head.bits = bits;
        self.fresh = self.fresh.max(record + 1);
        true
    }

    /// One more than the highest number that a record has had.
    pub(crate) fn used(&self) -> u32 {
        self.fresh
    }

    /// Records in use.
    pub(crate) fn len(&self) -> usize {
        self.fresh as usize - self.free.len()
    }

    /// True where no further record can be opened.
    pub(crate) fn is_full(&self) -> bool {
        self.free.is_empty() && self.fresh as usize == self.cold.len()
    }

    /// The record under `key` (no aliases here).
    pub(crate) fn find(&self, key: &FlowKey, hash: u64) -> Option<u32> {
        self.index.find(hash, |record| {
            record & ALIAS == 0 && self.blocks.head(record).key == *key
        })
    }

    /// A new record under `key`, all zeros but for key and id; `None` where it
    /// is full.
    pub(crate) fn open(&mut self, key: &FlowKey, hash: u64, id: u64, now: u64) -> Option<u32> {
        let record = match self.free.pop() {
            Some(record) => record,
            None if (self.fresh as usize) < self.cold.len() => {
                self.fresh += 1;
                self.fresh - 1
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

    /// Takes a record away.
    pub(crate) fn close(&mut self, record: u32, hash: u64) {
        self.index.remove(hash, record);
        self.blocks.head_mut(record).bits = 0;
        self.free.push(record);
    }

    /// True where the record is in use.
    pub(crate) fn is_live(&self, record: u32) -> bool {
        record < self.fresh && self.blocks.head(record).bits & FlowHead::LIVE != 0
    }

    /// True where the record is in use, by this key and number.
    pub(crate) fn holds(&self, record: u32, key: &FlowKey, id: u64) -> bool {
        let named = |head: &FlowHead| head.id == id && head.key == *key;
        self.is_live(record) && named(self.blocks.head(record))
    }

    /// All records in use, in the order of their numbers.
    pub(crate) fn live(&self) -> impl Iterator<Item = u32> + '_ {
        self.live_from(0)
    }

    /// Those from a number on.
    pub(crate) fn live_from(&self, first: u32) -> impl Iterator<Item = u32> + '_ {
        (first..self.fresh).filter(|&record| self.is_live(record))
    }

    /// The record without a packet for longest among the next `sample` ones,
    /// passing over those for which `busy` holds. The next call goes on where
    /// this one stopped.
    pub(crate) fn longest_idle(&mut self, sample: u32, busy: impl Fn(u32) -> bool) -> Option<u32> {
        let mut best: Option<(u64, u32)> = None;
        for _ in 0..sample.min(self.fresh) {
            self.hand = if self.hand + 1 >= self.fresh {
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
