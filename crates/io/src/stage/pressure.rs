//! Counts of frames that a port had no room for at first.

/// Frames that a port had no room for when they were first given to it: they
/// stayed with the stage before. A port that refuses for long has a stage
/// behind it that is too slow; a scaling policy looks at the difference
/// between two times.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Refused {
    /// Calls of `give` that left frames which were new.
    pub bursts: u64,
    /// Such frames, each counted once, however often it was given again.
    pub frames: u64,
}

/// Counts [`Refused`].
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Pressure {
    refused: Refused,
    /// Frames at the head of the caller's list that are counted.
    counted: usize,
}

impl Pressure {
    /// After a call of `give` with `offered` frames that took `given`.
    #[inline]
    pub(crate) fn after(&mut self, offered: usize, given: usize) {
        let left = offered.saturating_sub(given);
        let again = self.counted.min(offered).saturating_sub(given).min(left);
        let new = left - again;
        if new > 0 {
            self.refused.bursts += 1;
            self.refused.frames += new as u64;
        }
        self.counted = left;
    }

    pub(crate) const fn refused(&self) -> Refused {
        self.refused
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_is_refused_once() {
        let mut pressure = Pressure::default();
        pressure.after(10, 10);
        assert_eq!(pressure.refused(), Refused::default());
        pressure.after(10, 4);
        let after_first = Refused {
            bursts: 1,
            frames: 6,
        };
        assert_eq!(pressure.refused(), after_first);
        // The same six, and again, as a driver that spins does.
        pressure.after(6, 0);
        pressure.after(6, 2);
        assert_eq!(pressure.refused(), after_first);
        // The four left and three new ones.
        pressure.after(7, 1);
        let after_second = Refused {
            bursts: 2,
            frames: 9,
        };
        assert_eq!(pressure.refused(), after_second);
        pressure.after(6, 6);
        pressure.after(2, 0);
        assert_eq!(pressure.refused().frames, 11);
    }
}
