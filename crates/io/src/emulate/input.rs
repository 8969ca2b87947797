//! An input at the end of a bad link, by the times of its packets.

use std::collections::VecDeque;
use std::sync::Arc;

use weir_packet::{Frame, FramePool, Time};

use super::frames::add;
use super::{Link, LinkSettings};
use crate::port::{InputPort, PortCounters, PortError, Received};

/// Packets read ahead.
const AHEAD: usize = 64;

/// An input whose packets come through a link. Their times are those of their
/// arrival, so the result is the same whenever it is read.
pub struct EmulatedInput {
    inner: Box<dyn InputPort>,
    link: Link<Frame>,
    ahead: VecDeque<Frame>,
    fetched: Vec<Frame>,
    ended: bool,
    came: (u64, u64),
}

impl std::fmt::Debug for EmulatedInput {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EmulatedInput").finish_non_exhaustive()
    }
}

impl EmulatedInput {
    /// Puts a link of these settings in front of an input; `number` tells links
    /// of the same settings apart.
    pub fn new(inner: Box<dyn InputPort>, settings: LinkSettings, number: u8) -> EmulatedInput {
        EmulatedInput {
            inner,
            link: Link::new(settings, 2 * u64::from(number)),
            ahead: VecDeque::with_capacity(AHEAD),
            fetched: Vec::with_capacity(AHEAD),
            ended: false,
            came: (0, 0),
        }
    }
}

impl InputPort for EmulatedInput {
    fn receive(
        &mut self,
        pool: &mut FramePool,
        into: &mut Vec<Frame>,
        max: usize,
    ) -> Result<Received, PortError> {
        let memory = Arc::clone(pool.memory());
        let full = into.len().saturating_add(max);
        loop {
            if self.ahead.is_empty() && !self.ended {
                let received = self.inner.receive(pool, &mut self.fetched, AHEAD);
                self.ahead.extend(self.fetched.drain(..));
                self.ended = received? == Received::End;
            }
            let next = self.ahead.front().map(|frame| memory.meta(frame).time);
            // Takes the packets that arrive before the next one is sent; at the end all.
            let until = match next {
                Some(time) => time,
                None if self.ended => Time(u64::MAX),
                None => return Ok(Received::More),
            };
            while into.len() < full {
                let Some((due, mut frame)) = self.link.arrived(until) else {
                    break;
                };
                let meta = memory.meta_mut(&mut frame);
                meta.time = due;
                self.came.0 += 1;
                self.came.1 += u64::from(meta.len);
                into.push(frame);
            }
            if into.len() >= full {
                return Ok(Received::More);
            }
            let Some(frame) = self.ahead.pop_front() else {
                return Ok(Received::End);
            };
            self.link.put(until, pool, frame);
        }
    }

    fn end(&mut self) -> bool {
        self.ended = !self.inner.end();
        !(self.ended && self.ahead.is_empty() && self.link.is_empty())
    }

    fn counters(&self) -> PortCounters {
        let mut counters = self.inner.counters();
        (counters.packets, counters.bytes) = self.came;
        add(&mut counters, self.link.counts(), 0);
        counters
    }

    fn progress(&self) -> Option<f64> {
        self.inner.progress()
    }
}
