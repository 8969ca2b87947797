//! A timing wheel that finds idle flows, so that their memory can be freed.
//!
//! Packet time alone decides if a flow is idle, not the wheel. Each record is
//! in the slot of the second in which it may become idle; packets do not move it. When a
//! slot is due, the caller compares the record's last packet, and inserts the record again
//! or ends the flow.

/// Slots of one second each, about 2.3 hours. A record due later goes into the last slot,
/// and the caller inserts it again from there.
const SLOTS: usize = 8_192;
/// No record; as a slot: not in the wheel.
const NIL: u32 = u32::MAX;

#[derive(Clone, Copy, Debug)]
struct Link {
    next: u32,
    previous: u32,
    slot: u32,
}

/// The wheel: a doubly linked list of records for each slot.
#[derive(Debug)]
pub(crate) struct Wheel {
    /// First record of each slot.
    heads: Vec<u32>,
    /// Indexed by record.
    links: Vec<Link>,
    /// A bit per slot that has a record.
    used: [u64; SLOTS / 64],
    /// Second up to which slots have been emptied; 0 before the first packet.
    second: u64,
}

impl Wheel {
    /// Memory of a wheel for `records` records, in bytes, without its slots (33 KiB).
    pub(crate) fn bytes(records: usize) -> u64 {
        (records * size_of::<Link>()) as u64
    }

    /// For records 0 to `records` − 1.
    pub(crate) fn new(records: usize) -> Wheel {
        Wheel {
            heads: vec![NIL; SLOTS],
            links: vec![
                Link {
                    next: NIL,
                    previous: NIL,
                    slot: NIL
                };
                records
            ],
            used: [0; SLOTS / 64],
            second: 0,
        }
    }

    /// Inserts a record that is due at `nanoseconds` of packet time, rounded up to a second.
    /// It must not be in the wheel already.
    pub(crate) fn insert(&mut self, record: u32, nanoseconds: u64) {
        let due = nanoseconds.div_ceil(1_000_000_000);
        let due = due.clamp(self.second + 1, self.second + SLOTS as u64 - 1);
        let slot = (due % SLOTS as u64) as u32;
        let head = self.heads[slot as usize];
        self.links[record as usize] = Link {
            next: head,
            previous: NIL,
            slot,
        };
        if head != NIL {
            self.links[head as usize].previous = record;
        }
        self.heads[slot as usize] = record;
        self.used[slot as usize / 64] |= 1 << (slot % 64);
    }

    /// Removes a record, if it is in the wheel.
    pub(crate) fn remove(&mut self, record: u32) {
        let Link {
            next,
            previous,
            slot,
        } = self.links[record as usize];
        if slot == NIL {
            return;
        }
        if previous == NIL {
            self.heads[slot as usize] = next;
            if next == NIL {
                self.used[slot as usize / 64] &= !(1 << (slot % 64));
            }
        } else {
            self.links[previous as usize].next = next;
        }
        if next != NIL {
            self.links[next as usize].previous = previous;
        }
        self.links[record as usize].slot = NIL;
    }

    /// Earliest time, in nanoseconds, at which [`Wheel::due`] may return a record; `None` if
    /// the wheel is empty.
    pub(crate) fn next(&self) -> Option<u64> {
        let words = self.used.len();
        let first = (self.second % SLOTS as u64) as usize;
        // The current slot's word is read twice: first for the slots from it on, last for
        // those before it.
        for step in 0..=words {
            let at = (first / 64 + step) % words;
            let seen = match step {
                0 => u64::MAX << (first % 64),
                _ if step == words => !(u64::MAX << (first % 64)),
                _ => u64::MAX,
            };
            let used = self.used[at] & seen;
            if used != 0 {
                let slot = at * 64 + used.trailing_zeros() as usize;
                let ahead = (slot + SLOTS - first) % SLOTS;
                return Some((self.second + ahead as u64) * 1_000_000_000);
            }
        }
        None
    }

    /// Removes and returns a record that is due by `now` (nanoseconds), if there is one.
    pub(crate) fn due(&mut self, now: u64) -> Option<u32> {
        let second = now / 1_000_000_000;
        if self.second == 0 || second > self.second + SLOTS as u64 {
            // The first packet, or a silence longer than the wheel: go round once, not
            // once per turn that was missed.
            self.second = self.second.max(second.saturating_sub(SLOTS as u64));
        }
        loop {
            let record = self.heads[(self.second % SLOTS as u64) as usize];
            if record != NIL {
                self.remove(record);
                return Some(record);
            }
            if self.second >= second {
                return None;
            }
            self.second += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: u64 = 1_000_000_000;

    #[test]
    fn records_come_up_in_their_second_and_not_before() {
        let mut wheel = Wheel::new(10);
        assert_eq!(wheel.due(1_000 * S), None);
        wheel.insert(1, 1_005 * S);
        wheel.insert(2, 1_003 * S - 1);
        wheel.insert(3, 1_005 * S);
        wheel.insert(4, 99_999 * S); // beyond the wheel's span
        wheel.remove(3);
        assert_eq!(wheel.due(1_002 * S), None);
        assert_eq!(wheel.next(), Some(1_003 * S));
        assert_eq!(wheel.due(1_003 * S), Some(2));
        assert_eq!(wheel.next(), Some(1_005 * S));
        assert_eq!(wheel.due(1_004 * S), None);
        assert_eq!(wheel.due(1_005 * S), Some(1));
        assert_eq!(wheel.due(1_005 * S), None);
        assert_eq!(wheel.due(9_000 * S), None);
        assert_eq!(wheel.due(99_999 * S), Some(4));
        assert_eq!(wheel.due(99_999 * S), None);
        assert_eq!(wheel.next(), None);
        for ahead in [1, 62, 63, 64, 65, 4_000, SLOTS as u64 - 1] {
            wheel.insert(7, (99_999 + ahead) * S);
            assert_eq!(wheel.next(), Some((99_999 + ahead) * S));
            wheel.remove(7);
            assert_eq!(wheel.next(), None);
        }
    }

    #[test]
    fn a_long_silence_brings_every_record_up_once() {
        let mut wheel = Wheel::new(100);
        wheel.due(5 * S);
        for record in 0..100 {
            wheel.insert(record, (6 + u64::from(record)) * S);
        }
        let mut seen: Vec<u32> = core::iter::from_fn(|| wheel.due(1_000_000 * S)).collect();
        seen.sort_unstable();
        assert_eq!(seen, (0..100).collect::<Vec<_>>());
    }

    #[test]
    fn time_that_runs_backwards_changes_nothing() {
        let mut wheel = Wheel::new(2);
        wheel.due(50 * S);
        wheel.insert(0, 60 * S);
        assert_eq!(wheel.due(10 * S), None);
        assert_eq!(wheel.due(60 * S), Some(0));
    }
}
