//! TCP streams put in order, for functions that read what a connection says.
//!
//! A [`StreamState`] follows one direction of one connection. It is plain old
//! data; bytes that arrive ahead of their turn wait in a side buffer, and
//! bytes in order go to the consumer straight out of the packet. Nothing here
//! reads a clock or makes a packet, so applying the same segments again gives
//! the same stream.
//!
//! The rules:
//!
//! - Of bytes that arrive twice the first copy counts (the policy that
//!   Suricata calls *first*): what was handed on is never taken back, and what
//!   waits is not overwritten.
//! - A connection whose SYN was not seen is picked up where its first bytes
//!   are. While fewer than [`Limits::hold`] bytes are there, they wait for
//!   earlier ones, so that a swapped first segment costs nothing.
//! - A hole is given up as lost ([`Chunk::Gap`]) when the window or the buffer
//!   is full, when the peer acknowledged the bytes behind it and they did not
//!   come within the next few segments, or when the flow ends.
//! - A reset is told as an end, but bytes that follow in sequence are still
//!   handed on: a forged reset must not blind the reader.

mod segment;
mod store;
#[cfg(test)]
mod tests;

pub use segment::Segment;
use segment::distance;
use weir_nf::Buffer;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// TCP's FIN flag.
pub const FIN: u8 = 0x01;
/// TCP's SYN flag.
pub const SYN: u8 = 0x02;
/// TCP's RST flag.
pub const RST: u8 = 0x04;
/// TCP's ACK flag.
pub const ACK: u8 = 0x10;

/// Segments that may arrive after the peer acknowledged a hole before it is
/// given up: a capture may show an acknowledgement before what it is about.
const PATIENCE: u8 = 16;
/// Segments for which the first bytes of a connection that was under way are
/// held at most.
const MOST_HELD: u8 = 16;
/// How far ahead of the stream a segment may lie, where the peer is heard,
/// before it is taken for a forgery.
const FAR: u32 = 1 << 20;

/// Limits of a stream's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes from the first missing one to the end of the last waiting one.
    pub window: u32,
    /// Bytes without a SYN before them that wait for earlier ones; 0 for none.
    pub hold: u32,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            window: 64 * 1024,
            hold: 16,
        }
    }
}

/// One direction of one connection.
#[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct StreamState {
    /// Bytes handed on or given up so far.
    offset: u64,
    /// Sequence number of the next byte.
    next: u32,
    /// Sequence number after the last byte, once a FIN was seen.
    fin: u32,
    /// Highest acknowledgement by the peer.
    acked: u32,
    /// Bytes of the first waiting range that were handed on.
    taken: u32,
    /// Ranges that wait in the buffer.
    ranges: u16,
    /// Segments since there is something to wait for.
    waited: u8,
    flags: u8,
    pad: [u8; 4],
}

mod flag {
    pub(super) const STARTED: u8 = 1;
    pub(super) const HOLDING: u8 = 2;
    pub(super) const FIN: u8 = 4;
    pub(super) const ENDED: u8 = 8;
    pub(super) const ACKED: u8 = 16;
    pub(super) const RESET: u8 = 32;
}

impl StreamState {
    /// Tells it field by field.
    pub(crate) fn show(&self, shown: &mut weir_nf::Shown) {
        let stands = match self.flags {
            flags if flags & flag::RESET != 0 => "reset",
            flags if flags & flag::ENDED != 0 => "ended",
            flags if flags & flag::FIN != 0 => "fin seen",
            flags if flags & flag::HOLDING != 0 => "held",
            flags if flags & flag::STARTED != 0 => "started",
            _ => "new",
        };
        shown
            .text("stream", stands)
            .number("offset", self.offset)
            .number("next_seq", self.next)
            .number("waiting_ranges", self.ranges);
    }
}

/// A piece of a stream, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Chunk<'a> {
    /// Bytes, and how many came (or were lost) before them.
    Data {
        /// Position of the first one in the stream, from 0.
        offset: u64,
        /// The bytes.
        bytes: &'a [u8],
    },
    /// So many bytes are lost.
    Gap(u64),
    /// The sender closed or reset the stream.
    End,
}

/// Result of [`StreamState::step`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step<'p> {
    /// These bytes of the packet are next.
    Data(&'p [u8]),
    /// Bytes that waited are next: read them with [`StreamState::stored`] and
    /// take them with [`StreamState::take`].
    Stored,
    /// So many bytes are lost.
    Gap(u64),
    /// The sender closed or reset the stream.
    End,
    /// Nothing more can be said until the next segment.
    Done,
}

/// Rest of a segment that is still to be worked on.
#[derive(Clone, Copy, Debug)]
pub struct Pending<'p> {
    seq: u32,
    payload: &'p [u8],
    cut: u32,
    flush: bool,
}

impl Pending<'_> {
    /// No segment: the flow ends and whatever waits is to be handed on.
    pub fn flush() -> Pending<'static> {
        Pending {
            seq: 0,
            payload: &[],
            cut: 0,
            flush: true,
        }
    }
}

impl StreamState {
    /// Bytes handed on or given up so far.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// Bytes of the stream up to the end of a segment, or those handed on if they are more.
    pub fn end_of(&self, segment: &Segment<'_>) -> u64 {
        let end = segment.seq.wrapping_add(segment.payload.len() as u32);
        // Sequence numbers run modulo 2^32; one behind the next byte is of bytes that were handed on.
        let ahead = end.wrapping_sub(self.next) as i32;
        let ahead = if self.flags & flag::STARTED == 0 {
            0
        } else {
            ahead.max(0)
        };
        self.offset + u64::from(ahead.unsigned_abs())
    }

    /// True where bytes wait for earlier ones.
    #[inline]
    pub fn is_waiting(&self) -> bool {
        self.ranges != 0
    }

    /// True where `segment` can't change anything: a bare acknowledgement
    /// while nothing waits.
    #[inline]
    pub fn is_idle_for(&self, segment: &Segment<'_>) -> bool {
        segment.payload.is_empty()
            && segment.cut == 0
            && segment.flags & (SYN | FIN | RST) == 0
            && self.ranges == 0
    }

    #[inline]
    fn has(&self, flags: u8) -> bool {
        self.flags & flags != 0
    }

    /// The peer acknowledged everything before `ack`. Needed only while
    /// something waits ([`StreamState::is_waiting`]).
    pub fn acknowledged(&mut self, ack: u32) {
        if self.has(flag::STARTED)
            && distance(ack, self.next) > 0
            && (!self.has(flag::ACKED) || distance(ack, self.acked) > 0)
        {
            self.acked = ack;
            self.flags |= flag::ACKED;
        }
    }

    /// Takes a segment in; then call [`StreamState::step`] until it says
    /// [`Step::Done`].
    pub fn arrive<'p>(
        &mut self,
        segment: &Segment<'p>,
        limits: &Limits,
        buffer: &mut Buffer<'_>,
    ) -> Pending<'p> {
        let mut pending = Pending {
            seq: segment.seq,
            payload: segment.payload,
            cut: segment.cut,
            flush: false,
        };
        if segment.flags & SYN != 0 {
            pending.seq = segment.seq.wrapping_add(1);
            let fresh = self.offset == 0 && self.ranges == 0 && !self.has(flag::HOLDING);
            if !self.has(flag::STARTED) || self.has(flag::ENDED) || fresh {
                buffer.clear();
                *self = StreamState {
                    offset: self.offset,
                    next: pending.seq,
                    flags: flag::STARTED,
                    ..StreamState::default()
                };
            } else if self.has(flag::HOLDING) && distance(pending.seq, self.next) <= 0 {
                self.next = pending.seq;
                self.flags &= !flag::HOLDING;
            }
        }
        if segment.flags & RST != 0 {
            let off = distance(segment.seq, self.next);
            if self.has(flag::STARTED) && (-1..=limits.window as i32).contains(&off) {
                self.flags |= flag::RESET;
            }
            pending.payload = &[];
            pending.cut = 0;
            return pending;
        }
        let carries = !pending.payload.is_empty() || pending.cut > 0;
        if !self.has(flag::STARTED) {
            if !carries {
                return pending;
            }
            self.next = pending.seq;
            self.flags = flag::STARTED;
            if limits.hold > 0 {
                self.flags |= flag::HOLDING;
            }
        } else if self.has(flag::HOLDING) && carries && distance(pending.seq, self.next) < 0 {
            self.next = pending.seq;
        }
        if segment.flags & FIN != 0 && !self.has(flag::FIN) {
            let fin = pending
                .seq
                .wrapping_add(pending.payload.len() as u32)
                .wrapping_add(pending.cut);
            if distance(fin, self.next) >= 0 {
                self.fin = fin;
                self.flags |= flag::FIN;
            }
        }
        if self.has(flag::FIN) {
            let room = distance(self.fin, pending.seq).max(0) as usize;
            pending.payload = pending.payload.get(..room).unwrap_or(pending.payload);
        }
        if self.has(flag::HOLDING) || self.hole_is_acknowledged(buffer) {
            self.waited = self.waited.saturating_add(1);
        }
        pending
    }

    fn hole_is_acknowledged(&self, buffer: &Buffer<'_>) -> bool {
        self.has(flag::ACKED)
            && store::front(buffer.as_slice(), self.ranges)
                .is_some_and(|front| distance(self.acked, front.seq) >= 0)
    }

    /// The next piece of the stream.
    pub fn step<'p>(
        &mut self,
        pending: &mut Pending<'p>,
        limits: &Limits,
        buffer: &mut Buffer<'_>,
    ) -> Step<'p> {
        loop {
            if self.has(flag::HOLDING) && !self.settle_start(pending, limits, buffer) {
                return Step::Done;
            }
            let front = store::front(buffer.as_slice(), self.ranges);
            let mut room = None;
            if let Some(front) = front {
                let ahead = distance(front.seq.wrapping_add(self.taken), self.next);
                if ahead < 0 {
                    self.drop_taken(ahead.unsigned_abs(), buffer);
                    continue;
                }
                if ahead == 0 {
                    return Step::Stored;
                }
                room = Some(ahead as u32);
            }
            if !pending.payload.is_empty() {
                match self.place(pending, room, limits, buffer) {
                    Some(step) => return step,
                    None => continue,
                }
            }
            if pending.cut > 0 {
                // The capture lacks the rest of this segment.
                let cut = core::mem::take(&mut pending.cut);
                if pending.seq == self.next {
                    return self.skip(room.map_or(cut, |room| room.min(cut)));
                }
                continue;
            }
            if let Some(room) = room
                && (pending.flush || (self.waited > PATIENCE && self.hole_is_acknowledged(buffer)))
            {
                return self.skip(room);
            }
            let over = self.has(flag::FIN) && self.next == self.fin;
            if self.has(flag::STARTED)
                && !self.has(flag::ENDED)
                && (over || self.has(flag::RESET) || pending.flush)
            {
                self.flags |= flag::ENDED;
                return Step::End;
            }
            return Step::Done;
        }
    }

    /// Decides whether the first bytes of a connection that was under way are
    /// really its first; true where the stream may go on.
    fn settle_start(
        &mut self,
        pending: &mut Pending<'_>,
        limits: &Limits,
        buffer: &mut Buffer<'_>,
    ) -> bool {
        let direct = self.ranges == 0
            && pending.seq == self.next
            && pending.payload.len() >= limits.hold as usize;
        let mut settled = direct || pending.flush || self.has(flag::RESET | flag::FIN);
        if !settled && !pending.payload.is_empty() {
            match store::insert(pending.seq, pending.payload, &mut self.ranges, buffer) {
                Ok(()) => pending.payload = &[],
                Err(_) => settled = true,
            }
        }
        settled |= self.waited > MOST_HELD
            || store::front(buffer.as_slice(), self.ranges)
                .is_some_and(|front| front.seq == self.next && front.len >= limits.hold);
        if settled {
            self.flags &= !flag::HOLDING;
            self.waited = 0;
        }
        settled
    }

    /// Finds the place of the segment's bytes; `room` is the size of the hole
    /// before the first waiting range.
    fn place<'p>(
        &mut self,
        pending: &mut Pending<'p>,
        room: Option<u32>,
        limits: &Limits,
        buffer: &mut Buffer<'_>,
    ) -> Option<Step<'p>> {
        let ahead = distance(pending.seq, self.next);
        if ahead < 0 {
            let old = (ahead.unsigned_abs() as usize).min(pending.payload.len());
            let (_, rest) = pending.payload.split_at(old);
            pending.payload = rest;
            pending.seq = pending.seq.wrapping_add(old as u32);
            return None;
        }
        if ahead == 0 {
            let count = room.map_or(pending.payload.len(), |room| {
                pending.payload.len().min(room as usize)
            });
            let (data, rest) = pending.payload.split_at(count);
            pending.payload = rest;
            self.advance(count as u32);
            pending.seq = self.next;
            return Some(Step::Data(data));
        }
        let ahead = ahead as u32;
        let fits = ahead as usize + pending.payload.len() <= limits.window as usize;
        if fits && store::insert(pending.seq, pending.payload, &mut self.ranges, buffer).is_ok() {
            // The rest of a cut segment stays a hole.
            pending.payload = &[];
            pending.cut = 0;
            return None;
        }
        if self.has(flag::ACKED) && ahead > FAR.max(limits.window) {
            pending.payload = &[];
            pending.cut = 0;
            return None;
        }
        Some(self.skip(room.map_or(ahead, |room| room.min(ahead))))
    }

    fn advance(&mut self, count: u32) {
        self.next = self.next.wrapping_add(count);
        self.offset += u64::from(count);
    }

    fn skip<'p>(&mut self, count: u32) -> Step<'p> {
        self.advance(count);
        self.waited = 0;
        Step::Gap(u64::from(count))
    }

    /// After [`Step::Stored`]: the bytes that are next, out of the buffer's
    /// bytes.
    pub fn stored<'b>(&self, buffer: &'b [u8]) -> &'b [u8] {
        store::front_bytes(buffer, self.ranges)
            .get(self.taken as usize..)
            .unwrap_or(&[])
    }

    /// After [`Step::Stored`]: `count` of the waiting bytes were handed on.
    pub fn take(&mut self, count: usize, buffer: &mut Buffer<'_>) {
        let count = count.min(self.stored(buffer.as_slice()).len()) as u32;
        self.advance(count);
        self.drop_taken(count, buffer);
    }

    fn drop_taken(&mut self, count: u32, buffer: &mut Buffer<'_>) {
        self.taken = self.taken.saturating_add(count);
        if let Some(front) = store::front(buffer.as_slice(), self.ranges)
            && self.taken < front.len
        {
            return;
        }
        store::remove_front(&mut self.ranges, buffer);
        self.taken = 0;
        self.waited = 0;
    }

    /// All of the above at once: takes a segment in and hands the stream on
    /// in order.
    pub fn segment(
        &mut self,
        segment: &Segment<'_>,
        limits: &Limits,
        buffer: &mut Buffer<'_>,
        consumer: &mut impl FnMut(Chunk<'_>),
    ) {
        let mut pending = self.arrive(segment, limits, buffer);
        self.drain(&mut pending, limits, buffer, consumer);
    }

    /// Hands on whatever waits; for the end of a flow.
    pub fn flush(
        &mut self,
        limits: &Limits,
        buffer: &mut Buffer<'_>,
        consumer: &mut impl FnMut(Chunk<'_>),
    ) {
        self.drain(&mut Pending::flush(), limits, buffer, consumer);
    }

    fn drain(
        &mut self,
        pending: &mut Pending<'_>,
        limits: &Limits,
        buffer: &mut Buffer<'_>,
        consumer: &mut impl FnMut(Chunk<'_>),
    ) {
        loop {
            let offset = self.offset;
            match self.step(pending, limits, buffer) {
                Step::Data(bytes) => consumer(Chunk::Data { offset, bytes }),
                Step::Stored => {
                    let bytes = self.stored(buffer.as_slice());
                    let count = bytes.len();
                    consumer(Chunk::Data { offset, bytes });
                    self.take(count, buffer);
                }
                Step::Gap(count) => consumer(Chunk::Gap(count)),
                Step::End => consumer(Chunk::End),
                Step::Done => return,
            }
        }
    }
}
