//! A path between two ends of a stream that loses, doubles, delays and
//! changes frames, under virtual time.

use std::collections::BTreeMap;

/// Numbers from a seed.
#[derive(Clone, Debug)]
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Random {
        Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 16
    }

    pub(crate) fn below(&mut self, n: u64) -> u64 {
        self.next() % n.max(1)
    }

    /// True this many times in a hundred.
    pub(crate) fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    pub(crate) fn bytes(&mut self, n: u64) -> Vec<u8> {
        (0..n).map(|_| self.next() as u8).collect()
    }
}

/// How bad a path is, each in hundredths.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Faults {
    pub(crate) loss: u64,
    pub(crate) double: u64,
    pub(crate) change: u64,
    /// Most nanoseconds of delay over the least.
    pub(crate) jitter: u64,
}

/// One direction.
#[derive(Debug)]
pub(crate) struct Link {
    faults: Faults,
    random: Random,
    /// Frames by when they arrive, and whether they were changed.
    arriving: BTreeMap<(u64, u64), (Vec<u8>, bool)>,
    sent: u64,
    /// Frames of which the path made a changed copy, and second copies.
    pub(crate) changed: u64,
    pub(crate) doubled: u64,
}

const LEAST_DELAY: u64 = 50_000;

impl Link {
    pub(crate) fn new(faults: Faults, seed: u64) -> Link {
        Link {
            faults,
            random: Random::new(seed),
            arriving: BTreeMap::new(),
            sent: 0,
            changed: 0,
            doubled: 0,
        }
    }

    pub(crate) fn send(&mut self, now: u64, frame: Vec<u8>) {
        if self.random.chance(self.faults.double) {
            self.doubled += 1;
            self.carry(now, frame.clone());
        }
        if self.random.chance(self.faults.change) {
            self.changed += 1;
            let mut changed = frame.clone();
            self.change(&mut changed);
            let at = now + LEAST_DELAY + self.random.below(self.faults.jitter + 1);
            self.arrive(at, changed, true);
            // The change replaces the frame, or is made of a copy.
            if self.random.chance(50) {
                return;
            }
        }
        if !self.random.chance(self.faults.loss) {
            self.carry(now, frame);
        }
    }

    fn carry(&mut self, now: u64, frame: Vec<u8>) {
        let at = now + LEAST_DELAY + self.random.below(self.faults.jitter + 1);
        self.arrive(at, frame, false);
    }

    fn arrive(&mut self, at: u64, frame: Vec<u8>, changed: bool) {
        self.sent += 1;
        self.arriving.insert((at, self.sent), (frame, changed));
    }

    /// A frame that is surely another one behind its Ethernet addresses, which
    /// are the network's own.
    fn change(&mut self, frame: &mut Vec<u8>) {
        let at = 12 + self.random.below(frame.len() as u64 - 12) as usize;
        match self.random.below(4) {
            0 => frame.truncate(at),
            1 => frame.push(self.random.next() as u8),
            2 => frame[at] ^= 1 << self.random.below(8),
            _ => {
                // One octet, and perhaps others.
                frame[at] ^= 0x5a;
                for _ in 0..self.random.below(9) {
                    let other = 12 + self.random.below(frame.len() as u64 - 12) as usize;
                    if other != at {
                        frame[other] = self.random.next() as u8;
                    }
                }
            }
        }
    }

    pub(crate) fn next_arrival(&self) -> Option<u64> {
        self.arriving.keys().next().map(|&(at, _)| at)
    }

    /// The next frame that has arrived by `now`, and whether it was changed.
    pub(crate) fn receive(&mut self, now: u64) -> Option<(Vec<u8>, bool)> {
        if self.next_arrival()? > now {
            return None;
        }
        self.arriving.pop_first().map(|(_, frame)| frame)
    }
}
