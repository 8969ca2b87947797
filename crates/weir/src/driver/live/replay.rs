//! A capture or the generator, played into a run with interfaces.

use std::collections::VecDeque;
use std::str::FromStr;

use weir_io::live::LiveClock;
use weir_io::port::{InputPort, PortCounters, PortError, Received};
use weir_packet::{Frame, FramePool, Time};

use super::super::BATCH;

/// How fast packets are played.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Speed {
    /// By their times, so many times as fast.
    Times(f64),
    /// As fast as they are taken.
    Full,
}

impl Default for Speed {
    /// As fast as they came.
    fn default() -> Speed {
        Speed::Times(1.0)
    }
}

impl FromStr for Speed {
    type Err = String;

    fn from_str(text: &str) -> Result<Speed, String> {
        if text == "full" {
            return Ok(Speed::Full);
        }
        let times = text.strip_suffix('x').and_then(|n| n.parse::<f64>().ok());
        match times.filter(|times| (0.000_1..=1_000_000.0).contains(times)) {
            Some(times) => Ok(Speed::Times(times)),
            None => Err("write `full`, or how many times as fast, as `1x` or `0.5x`".to_owned()),
        }
    }
}

/// An input that is played. Its packets come at the time of the machine's
/// clock, like those of interfaces.
pub(crate) struct Replay {
    input: Box<dyn InputPort>,
    speed: Speed,
    clock: LiveClock,
    /// The first packet's time, and when it came.
    began: Option<(Time, Time)>,
    /// Packets read that are not due yet.
    ahead: VecDeque<Frame>,
    /// Their bytes.
    ahead_bytes: u64,
    fetched: Vec<Frame>,
    ended: bool,
    /// The run ends before it.
    cut: bool,
    next: Option<Time>,
    /// Packets that were read and never came, and their bytes.
    unplayed: [u64; 2],
}

impl Replay {
    pub(crate) fn new(input: Box<dyn InputPort>, speed: Speed, clock: LiveClock) -> Replay {
        Replay {
            input,
            speed,
            clock,
            began: None,
            ahead: VecDeque::with_capacity(BATCH),
            ahead_bytes: 0,
            fetched: Vec::with_capacity(BATCH),
            ended: false,
            cut: false,
            next: None,
            unplayed: [0; 2],
        }
    }

    /// When a packet of this time is to come.
    fn due(&mut self, time: Time, now: Time) -> Time {
        let Speed::Times(times) = self.speed else {
            return now;
        };
        let (first, start) = *self.began.get_or_insert((time, now));
        // Those that are out of order come at once.
        let after = time.0.saturating_sub(first.0) as f64 / times;
        Time(start.0.saturating_add(after as u64))
    }

    /// Takes up to `max` packets that are due.
    pub(super) fn receive(
        &mut self,
        pool: &mut FramePool,
        into: &mut Vec<Frame>,
        max: usize,
    ) -> Result<(), PortError> {
        let memory = std::sync::Arc::clone(pool.memory());
        let length = |frame: &Frame| u64::from(memory.meta(frame).len);
        let now = self.clock.now();
        if self.cut || self.next.is_some_and(|next| next > now) {
            return Ok(());
        }
        if self.ahead.is_empty() && !self.ended {
            let received = self.input.receive(pool, &mut self.fetched, BATCH);
            self.ahead_bytes = self.fetched.iter().map(length).sum();
            self.ahead.extend(self.fetched.drain(..));
            self.ended = received? == Received::End;
        }
        self.next = None;
        for _ in 0..max {
            let Some(frame) = self.ahead.front() else {
                break;
            };
            let due = self.due(memory.meta(frame).time, now);
            if due > now {
                self.next = Some(due);
                break;
            }
            if let Some(mut frame) = self.ahead.pop_front() {
                self.ahead_bytes -= length(&frame);
                memory.meta_mut(&mut frame).time = now;
                into.push(frame);
            }
        }
        Ok(())
    }

    /// When the next packet is due, where that is known.
    pub(super) fn next_due(&self) -> Option<Time> {
        self.next.filter(|_| !self.cut)
    }

    /// True where all have come.
    pub(super) fn is_over(&self) -> bool {
        self.ended && self.ahead.is_empty()
    }

    /// No more comes.
    pub(super) fn end(&mut self) {
        (self.ended, self.cut) = (true, true);
    }

    /// Gives back what has not come. It is not counted: it never came in.
    pub(super) fn close(&mut self, pool: &mut FramePool) {
        let mut holds = self.input.end();
        self.ahead_bytes = 0;
        loop {
            for frame in self.ahead.drain(..).chain(self.fetched.drain(..)) {
                self.unplayed[0] += 1;
                self.unplayed[1] += u64::from(pool.memory().meta(&frame).len);
                pool.give(frame);
            }
            if !holds {
                return;
            }
            let received = self.input.receive(pool, &mut self.fetched, BATCH);
            holds = received.is_ok_and(|received| received == Received::More);
        }
    }

    pub(super) fn counters(&self) -> PortCounters {
        let mut counters = self.input.counters();
        counters.packets -= self.unplayed[0] + self.ahead.len() as u64;
        counters.bytes -= self.unplayed[1] + self.ahead_bytes;
        counters
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_io::port::MemoryInput;
    use weir_packet::{FrameMeta, MemoryLayout};

    #[test]
    fn speeds_are_read() {
        assert_eq!("full".parse(), Ok(Speed::Full));
        assert_eq!("0.5x".parse(), Ok(Speed::Times(0.5)));
        for bad in ["", "x", "0x", "-1x", "2", "fast", "nanx", "infx"] {
            assert!(bad.parse::<Speed>().is_err(), "{bad}");
        }
    }

    #[test]
    fn packets_come_by_their_times_and_carry_the_clocks() {
        let mut pool = FramePool::with_layout(MemoryLayout::default());
        let packet = |ms: u64| {
            (
                FrameMeta::received(Time(5_000_000_000 + ms * 1_000_000), 0),
                vec![0; 60],
            )
        };
        let input = MemoryInput::new([packet(0), packet(1), packet(40)]);
        let clock = LiveClock::start();
        let mut replay = Replay::new(Box::new(input), Speed::Times(2.0), clock);
        let mut frames = Vec::new();
        let began = clock.now();
        while !replay.is_over() {
            let counted = replay.counters();
            assert_eq!(counted.bytes, 60 * counted.packets, "what has come");
            replay.receive(&mut pool, &mut frames, 64).unwrap();
        }
        let times: Vec<u64> = frames
            .iter()
            .map(|f| pool.memory().meta(f).time.0)
            .collect();
        assert!(times.is_sorted() && times[0] >= began.0);
        assert!(times[2] - times[0] >= 20_000_000, "{times:?}");
        pool.give_all(&mut frames);
        assert_eq!(pool.outstanding(), 0);
    }
}
