//! How many packets of a run's inputs were taken in: kept in memory that outlives the process, so
//! that the next switch of a cluster goes on behind them.

use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use weir_io::shared::{SharedMapping, Words};

/// Words of the number: its upper half, its lower half, and the upper one again. A process that is
/// killed while it writes leaves the two upper ones different.
const WORDS: usize = 3;
/// Bytes of a word.
const WORD: usize = 4;

/// See the module. Clones are the same one.
#[derive(Clone, Debug)]
pub(crate) struct Mark {
    words: Arc<Words>,
    file: SharedMapping,
}

impl Mark {
    /// One that says that nothing was taken in.
    pub(crate) fn create() -> io::Result<Mark> {
        Mark::over(SharedMapping::create("weir-mark", WORDS * WORD)?)
    }

    /// That of another process.
    pub(crate) fn attach(file: OwnedFd) -> io::Result<Mark> {
        Mark::over(SharedMapping::attach(file)?)
    }

    fn over(file: SharedMapping) -> io::Result<Mark> {
        let words = Arc::new(file.words(0, WORDS)?);
        Ok(Mark { words, file })
    }

    /// To be passed to another process.
    pub(crate) fn file(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }

    /// Packets taken in. Of a writer that was killed at the border of two upper halves, which is
    /// once in 4 billion packets, the lower bound.
    pub(crate) fn read(&self) -> u64 {
        let [upper, lower, again] =
            [0, 1, 2].map(|at| u64::from(self.words[at].load(Ordering::Acquire)));
        match upper == again {
            true => upper << 32 | lower,
            false => upper.max(again) << 32,
        }
    }

    /// So many were taken in.
    pub(crate) fn write(&self, packets: u64) {
        let upper = (packets >> 32) as u32;
        self.words[0].store(upper, Ordering::Release);
        self.words[1].store(packets as u32, Ordering::Release);
        self.words[2].store(upper, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_mapping_reads_what_was_written() {
        let mark = Mark::create().unwrap();
        let other = Mark::attach(mark.file().try_clone_to_owned().unwrap()).unwrap();
        for packets in [0, 1, 7, u64::from(u32::MAX), 1 << 32, u64::MAX - 1] {
            mark.write(packets);
            assert_eq!(other.read(), packets);
        }
    }
}
