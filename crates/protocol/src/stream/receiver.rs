//! The receiving half: frames into order, messages out of frames.

use std::collections::{BTreeMap, VecDeque};

use weir_packet::Time;
use weir_packet::actor_frame::{ActorFrameView, flags};

use super::FRAMES_IN_FLIGHT;
use super::count::Reject;
use super::sender::LENGTH;
use super::settings::StreamSettings;

/// Frames that come in order before an acknowledgement does not wait.
const UNACKNOWLEDGED: u32 = 8;

/// The kind of a frame that came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Arrival {
    Acknowledgement,
    New,
    Duplicate,
}

/// Checks that the payload is what the flags announce.
pub(super) fn check_payload(frame: &ActorFrameView<'_>) -> Result<(), Reject> {
    let (marks, payload) = (frame.flags(), frame.payload());
    let plain = frame.fragment() == 0 && marks & (flags::FRAGMENT | flags::LAST) == 0;
    let fine = if marks & flags::DATA == 0 {
        plain && frame.sequence() == 0 && payload.is_empty()
    } else if marks & flags::FRAGMENT != 0 {
        frame.sequence() > 0 && !payload.is_empty()
    } else {
        plain && frame.sequence() > 0 && !payload.is_empty() && are_messages(payload)
    };
    if fine { Ok(()) } else { Err(Reject::Payload) }
}

/// Splits the next message off.
fn split(payload: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = payload.split_first_chunk::<LENGTH>()?;
    rest.split_at_checked(usize::from(u16::from_be_bytes(*length)))
}

fn are_messages(mut payload: &[u8]) -> bool {
    while !payload.is_empty() {
        match split(payload) {
            Some((_, rest)) => payload = rest,
            None => return false,
        }
    }
    true
}

/// A frame that came before others.
#[derive(Debug)]
struct Held {
    flags: u8,
    fragment: u16,
    payload: Vec<u8>,
}

/// The receiving half.
#[derive(Debug)]
pub(super) struct Receiver {
    /// Sequence number that comes next.
    next: u64,
    held: BTreeMap<u64, Held>,
    ready: VecDeque<Vec<u8>>,
    unread: usize,
    /// Fragments of one message so far, and how many.
    partial: Option<(u16, Vec<u8>)>,
    /// When an acknowledgement is to leave.
    due: Option<Time>,
    unacknowledged: u32,
    wait: u64,
    most_unread: usize,
    longest: usize,
}

impl Receiver {
    pub(super) fn new(settings: &StreamSettings) -> Receiver {
        Receiver {
            next: 1,
            held: BTreeMap::new(),
            ready: VecDeque::new(),
            unread: 0,
            partial: None,
            due: None,
            unacknowledged: 0,
            wait: settings.acknowledge_after,
            most_unread: settings.queue,
            longest: settings.longest,
        }
    }

    /// Takes a frame of data. Gives also how many messages were found broken.
    pub(super) fn take(
        &mut self,
        now: Time,
        frame: &ActorFrameView<'_>,
    ) -> Result<(Arrival, u64), Reject> {
        let sequence = frame.sequence();
        if sequence < self.next || self.held.contains_key(&sequence) {
            // Its acknowledgement was lost, or is late.
            self.due = Some(now);
            return Ok((Arrival::Duplicate, 0));
        }
        if sequence - self.next >= FRAMES_IN_FLIGHT {
            return Err(Reject::OutOfWindow);
        }
        if self.unread >= self.most_unread {
            return Err(Reject::Unread);
        }
        let mut broken = 0;
        let in_order = sequence == self.next && self.held.is_empty();
        if sequence == self.next {
            self.next += 1;
            broken += self.deliver(frame.flags(), frame.fragment(), frame.payload());
            while let Some(held) = self.held.remove(&self.next) {
                self.next += 1;
                broken += self.deliver(held.flags, held.fragment, &held.payload);
            }
        } else {
            self.held.insert(
                sequence,
                Held {
                    flags: frame.flags(),
                    fragment: frame.fragment(),
                    payload: frame.payload().to_vec(),
                },
            );
        }
        self.unacknowledged += 1;
        let due = if in_order && self.unacknowledged < UNACKNOWLEDGED {
            now.plus(self.wait)
        } else {
            now
        };
        self.due = Some(self.due.map_or(due, |earlier| earlier.min(due)));
        Ok((Arrival::New, broken))
    }

    /// Takes the next frame's payload; gives how many messages it breaks.
    fn deliver(&mut self, marks: u8, fragment: u16, mut payload: &[u8]) -> u64 {
        if marks & flags::FRAGMENT == 0 {
            let broken = u64::from(self.partial.take().is_some());
            while let Some((message, rest)) = split(payload) {
                self.finish(message.to_vec());
                payload = rest;
            }
            return broken;
        }
        let (expected, mut message) = self.partial.take().unwrap_or_default();
        if fragment != expected || message.len() + payload.len() > self.longest {
            return 1;
        }
        message.extend_from_slice(payload);
        if marks & flags::LAST != 0 {
            self.finish(message);
        } else {
            self.partial = Some((expected.wrapping_add(1), message));
        }
        0
    }

    fn finish(&mut self, message: Vec<u8>) {
        self.unread += message.len() + 1;
        self.ready.push_back(message);
    }

    pub(super) fn next_message(&mut self) -> Option<Vec<u8>> {
        let message = self.ready.pop_front()?;
        self.unread -= message.len() + 1;
        Some(message)
    }

    /// Last sequence number before which nothing is missing, and which of the
    /// 64 after the first missing one have come.
    pub(super) fn acknowledgement(&self) -> (u64, u64) {
        let mut bits = 0;
        for sequence in self.held.range(self.next + 1..self.next + 65) {
            bits |= 1 << (sequence.0 - self.next - 1);
        }
        (self.next - 1, bits)
    }

    pub(super) fn acknowledges_now(&self, now: Time) -> bool {
        self.due.is_some_and(|due| due <= now)
    }

    pub(super) const fn acknowledges_at(&self) -> Option<Time> {
        self.due
    }

    /// A frame with the acknowledgement has left.
    pub(super) const fn acknowledged(&mut self) {
        self.due = None;
        self.unacknowledged = 0;
    }
}
