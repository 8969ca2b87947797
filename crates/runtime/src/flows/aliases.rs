//! Further names of a flow or a unit.

use weir_packet::{Direction, FlowKey, Side};

/// One alias.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Alias {
    pub(crate) key: FlowKey,
    /// Flow record, or for an open alias record of the finest wider scope.
    pub(crate) owner: u32,
    /// Next alias of the owner, plus one; 0 for none.
    pub(crate) next: u32,
    /// Direction of the client's packets under `key`.
    pub(crate) client: Direction,
    pub(crate) open: bool,
    /// Of an open alias: packets from this side do not follow it.
    pub(crate) side: Side,
}

/// A bounded store of aliases.
#[derive(Debug, Default)]
pub(crate) struct Aliases {
    all: Vec<Alias>,
    free: Vec<u32>,
    max: usize,
}

impl Aliases {
    /// Bytes that so many take.
    pub(crate) fn bytes(max: u32) -> u64 {
        u64::from(max) * (size_of::<Alias>() + size_of::<u32>()) as u64
    }

    pub(crate) fn new(max: u32) -> Aliases {
        Aliases {
            all: Vec::with_capacity(max as usize),
            free: Vec::with_capacity(max as usize),
            max: max as usize,
        }
    }

    pub(crate) fn get(&self, number: u32) -> &Alias {
        &self.all[number as usize]
    }

    pub(crate) fn prefetch(&self, number: u32) {
        weir_packet::prefetch::read(self.all.as_ptr().wrapping_add(number as usize));
    }

    pub(crate) fn add(&mut self, alias: Alias) -> Option<u32> {
        if let Some(number) = self.free.pop() {
            self.all[number as usize] = alias;
            return Some(number);
        }
        if self.all.len() == self.max {
            return None;
        }
        self.all.push(alias);
        Some((self.all.len() - 1) as u32)
    }

    pub(crate) fn remove(&mut self, number: u32) {
        self.free.push(number);
    }

    /// True where a function of the stage may ask for aliases.
    pub(crate) fn may_be_asked(&self) -> bool {
        self.max > 0
    }

    pub(crate) fn len(&self) -> usize {
        self.all.len() - self.free.len()
    }
}
