//! Counts packets as the gate lets them out: each once, whatever fails meanwhile.

use weir_packet::PATH_BITS;

/// Packets and bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Volume {
    /// Packets.
    pub packets: u64,
    /// Their bytes, as they left; of a packet that was dropped, as it came.
    pub bytes: u64,
}

impl Volume {
    fn add(&mut self, other: Volume) {
        self.packets += other.packets;
        self.bytes += other.bytes;
    }
}

/// Totals of a chain since its switch has started. Each entry is counted when it is let out, which
/// happens once; an entry that is refused, or comes again, is not counted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Meter {
    /// Packets that left, those that functions made included.
    pub out: Volume,
    /// Packets that a function has dropped. Those that the engine drops (malformed ones, say) before
    /// the first function are not in it.
    pub dropped: Volume,
    /// Packets that each function was given, by its number in the stage; the last place is for all
    /// functions from there on.
    pub functions: [Volume; PATH_BITS],
    /// Packets of one path, which follow one another: they are added up when another path comes.
    run: (u32, Volume),
}

impl Meter {
    /// A packet that functions made leaves.
    #[inline]
    pub(super) fn emitted(&mut self, len: u32) {
        self.out.add(one(len));
    }

    /// A packet is let out that has passed the functions of `path`.
    #[inline]
    pub(super) fn left(&mut self, path: u32, len: u32) {
        self.out.add(one(len));
        self.passed(path, len);
    }

    /// A packet has ended in the functions of `path`.
    #[inline]
    pub(super) fn dropped(&mut self, path: u32, len: u32) {
        if path != 0 {
            self.dropped.add(one(len));
            self.passed(path, len);
        }
    }

    /// A packet has passed these functions.
    #[inline]
    pub(super) fn passed(&mut self, path: u32, len: u32) {
        if self.run.0 != path {
            self.add_up();
            self.run.0 = path;
        }
        self.run.1.add(one(len));
    }

    /// Adds the packets of one path to its functions.
    pub(super) fn add_up(&mut self) {
        let (mut path, volume) = self.run;
        if volume.packets == 0 {
            return;
        }
        self.run.1 = Volume::default();
        while path != 0 {
            if let Some(function) = self.functions.get_mut(path.trailing_zeros() as usize) {
                function.add(volume);
            }
            path &= path - 1;
        }
    }
}

fn one(len: u32) -> Volume {
    Volume {
        packets: 1,
        bytes: u64::from(len),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_are_counted_by_the_paths_of_packets() {
        let mut meter = Meter::default();
        meter.left(0b11, 100);
        meter.left(0b11, 50);
        meter.dropped(0b01, 40);
        meter.dropped(0, 9);
        meter.emitted(7);
        meter.passed(1 << 23, 1);
        meter.add_up();
        meter.add_up();
        let volume = |packets, bytes| Volume { packets, bytes };
        assert_eq!(meter.out, volume(3, 157));
        assert_eq!(meter.dropped, volume(1, 40));
        assert_eq!(meter.functions[0], volume(3, 190));
        assert_eq!(meter.functions[1], volume(2, 150));
        assert_eq!(meter.functions[23], volume(1, 1));
    }
}
