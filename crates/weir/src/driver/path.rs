//! A bad path between switch and runtimes, emulated: loss, delay, reordering
//! and duplication, from a seed.
//!
//! Frames suffer all of it, an entry as a whole; messages, which travel on
//! reliable streams, are only late.

use weir_io::emulate::Link;
pub use weir_io::emulate::{LinkCounts as PathCounts, LinkSettings as PathSettings};
use weir_packet::{Frame, FramePool, Time};

/// One direction of a path. What is under way is bounded by the packets that
/// the switch keeps.
#[derive(Debug)]
pub(super) struct Path {
    link: Link<Vec<Frame>>,
}

impl Path {
    /// `number` tells the paths of a cluster apart.
    pub(super) fn new(settings: PathSettings, number: u64) -> Path {
        let settings = PathSettings {
            limit: u32::MAX,
            ..settings
        };
        Path {
            link: Link::new(settings, number),
        }
    }

    /// Sends frames: those of an entry stay together.
    pub(super) fn send(&mut self, now: Time, pool: &mut FramePool, frames: &mut Vec<Frame>) {
        let mut entry = Vec::new();
        for frame in frames.drain(..) {
            let disposition = pool.memory().meta(&frame).disposition;
            entry.push(frame);
            if disposition == weir_packet::Disposition::Pending || disposition.closes() {
                self.send_one(now, pool, std::mem::take(&mut entry));
            }
        }
        // An entry always ends in the burst that it begins in.
        pool.give_all(&mut entry);
    }

    fn send_one(&mut self, now: Time, pool: &mut FramePool, frames: Vec<Frame>) {
        let length = |frame: &Frame| pool.memory().meta(frame).len as usize;
        let octets = frames.iter().map(length).sum();
        let lost = self
            .link
            .send(now, octets, frames, |frames| copies(pool, frames));
        if let Some(mut frames) = lost {
            pool.give_all(&mut frames);
        }
    }

    /// Frames that have arrived by now, at the end of `into`.
    pub(super) fn arrived(&mut self, now: Time, into: &mut Vec<Frame>) {
        while let Some((_, frames)) = self.link.arrived(now) {
            into.extend(frames);
        }
    }

    /// True where nothing is on its way.
    pub(super) fn is_empty(&self) -> bool {
        self.link.is_empty()
    }

    /// What it did.
    pub(super) fn counts(&self) -> PathCounts {
        self.link.counts()
    }
}

/// Copies of all frames, or none.
fn copies(pool: &mut FramePool, frames: &[Frame]) -> Option<Vec<Frame>> {
    let memory = pool.memory().clone();
    let mut all = Vec::with_capacity(frames.len());
    for frame in frames {
        let (meta, bytes) = memory.read(frame);
        match pool.copy(bytes, *meta) {
            Ok(copy) => all.push(copy),
            Err(_) => {
                pool.give_all(&mut all);
                return None;
            }
        }
    }
    Some(all)
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_packet::{Disposition, FrameMeta, MemoryLayout};

    #[test]
    fn frames_are_lost_doubled_and_late_as_often_as_asked_and_entries_stay_whole() {
        let mut pool = FramePool::with_layout(MemoryLayout::default());
        let settings = "loss=10%,duplicate=10%,reorder=10%,delay=1ms,seed=3";
        let mut path = Path::new(settings.parse().unwrap(), 0);
        let mut came = Vec::new();
        for round in 0..1_000u64 {
            let mut frames: Vec<Frame> = [Disposition::Notes, Disposition::Out]
                .iter()
                .map(|disposition| {
                    let mut meta = FrameMeta::received(Time(round), 0);
                    (meta.disposition, meta.clock) = (*disposition, round);
                    pool.copy(&round.to_be_bytes(), meta).unwrap()
                })
                .collect();
            path.send(Time(round), &mut pool, &mut frames);
            path.arrived(Time(round), &mut frames);
            assert!(frames.is_empty(), "nothing is there before its delay");
        }
        path.arrived(Time(u64::MAX), &mut came);
        assert!(path.is_empty());
        let clocks: Vec<u64> = came.iter().map(|f| pool.memory().meta(f).clock).collect();
        assert!(clocks.chunks(2).all(|entry| entry[0] == entry[1]));
        let counts = path.counts();
        assert_eq!(
            clocks.len() as u64,
            2 * (1_000 + counts.duplicated - counts.lost)
        );
        for n in [counts.lost, counts.duplicated, counts.reordered] {
            assert!((60..140).contains(&n), "{counts:?}");
        }
        assert!(clocks.windows(2).any(|pair| pair[0] > pair[1]));
        pool.give_all(&mut came);
        assert_eq!(pool.outstanding(), 0);
    }
}
