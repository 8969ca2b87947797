//! HTTP/1 messages out of one direction of a connection, piece by piece.
//!
//! [`MessageState`] is plain old data; the head that is being put together is
//! at the end of a [`Store`]. A head that lies in one packet is never
//! copied. After bytes that are no message, lost bytes inside a head, or a body
//! whose framing is lost, the machine looks for the next first line of a
//! message, which may stand behind other bytes.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use super::ending::{Ending, HeadOf, head_end};
use super::head::Body;
use super::line::{RESPONSE, Start, classify_line, start_within, starts_with_ignoring_case};
use super::store::{Store, tail};

/// Reading state of one direction of a connection.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(C)]
pub struct MessageState {
    /// Bytes left of the body or chunk; while its size is read, the size.
    left: u64,
    /// Bytes at the end of the store that belong to the unfinished head.
    partial: u32,
    /// Bytes passed without a message.
    probed: u32,
    mode: u8,
    /// Mode in which reading goes on after a head that was too long; of a body without a head, whether a line
    /// begins.
    after: u8,
    flags: u8,
    /// Bytes of a trailer's line, as far as they matter (up to 2); of a body,
    /// whether any came.
    seen: u8,
    /// Place in the line of the head at hand: [`Ending`].
    ending: u8,
    /// 1 once a message began; unlike [`flag::KNOWN`] for good.
    begun: u8,
    pad: [u8; 2],
}

mod mode {
    /// A message may start here, or has started.
    pub(super) const START: u8 = 0;
    pub(super) const GARBAGE: u8 = 1;
    pub(super) const LENGTH: u8 = 2;
    pub(super) const CHUNK_SIZE: u8 = 3;
    pub(super) const CHUNK: u8 = 4;
    pub(super) const CHUNK_END: u8 = 5;
    pub(super) const TRAILER: u8 = 6;
    pub(super) const UNTIL_CLOSE: u8 = 7;
    pub(super) const IGNORE: u8 = 8;
    /// The rest of a head that was too long.
    pub(super) const SKIP_HEAD: u8 = 9;
    /// A body without a head in front of it.
    pub(super) const WITHOUT_HEAD: u8 = 10;
    /// The rest of a line that was too long, and of no message.
    pub(super) const SKIP_LINE: u8 = 11;
}

mod flag {
    /// A body was announced behind a status that has none.
    pub(super) const FORBIDDEN: u8 = 2;
    /// The first line must show its version: what came before was no HTTP.
    pub(super) const STRICT: u8 = 1;
    pub(super) const REQUEST: u8 = 4;
    pub(super) const RESPONSE: u8 = 8;
    /// This direction has spoken HTTP.
    pub(super) const KNOWN: u8 = 16;
    /// The head given last ended before its blank line.
    pub(super) const BROKEN: u8 = 32;
    /// The head given last was cut because of its size.
    pub(super) const TOO_LONG: u8 = 64;
    /// The chunk size's digits are over.
    pub(super) const EXTENSION: u8 = 128;
}

/// Longest line kept while looking for a message, and at least while its start is not told from other bytes.
const LONGEST_GARBAGE: u32 = 16 * 1024;

/// A head that is complete, or as complete as it will ever be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeadAt<'p> {
    /// In the packet, whole.
    Packet(&'p [u8]),
    /// The last `len` bytes of the store.
    Stored {
        /// How many bytes.
        len: u32,
        /// False where the end is missing.
        whole: bool,
    },
}

/// Result of [`MessageState::step`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step<'p> {
    /// All input is used.
    More,
    /// A request's head; say with [`MessageState::body`] what follows.
    Request(HeadAt<'p>),
    /// A response's head; say with [`MessageState::body`] what follows.
    Response(HeadAt<'p>),
    /// Bytes of the body.
    Body(&'p [u8]),
    /// The message is complete.
    End,
    /// A first line longer than the limit was thrown away.
    TooLong,
}

fn take<'p>(input: &mut &'p [u8], count: usize) -> &'p [u8] {
    let (head, rest) = input.split_at(count.min(input.len()));
    *input = rest;
    head
}

/// Most bytes of a line that are kept while it is not known whether it begins a message.
fn longest_line(limit: u32) -> usize {
    limit.max(LONGEST_GARBAGE) as usize
}

/// Up to and with the next line feed.
fn take_line<'p>(input: &mut &'p [u8]) -> &'p [u8] {
    let count = input
        .iter()
        .position(|&b| b == b'\n')
        .map_or(input.len(), |at| at + 1);
    take(input, count)
}

/// Takes `count` bytes off the end.
pub fn cut_tail(store: &mut impl Store, count: u32) {
    let len = store.bytes().len().saturating_sub(count as usize);
    store.shorten(len);
}

impl MessageState {
    /// The part of the message that comes next, in words.
    pub fn reading(&self) -> &'static str {
        match self.mode {
            mode::START => "first line or head",
            mode::GARBAGE | mode::SKIP_LINE => "garbage",
            mode::LENGTH => "body by length",
            mode::CHUNK_SIZE => "chunk size",
            mode::CHUNK => "chunk",
            mode::CHUNK_END => "chunk end",
            mode::TRAILER => "trailer",
            mode::UNTIL_CLOSE => "body until close",
            mode::SKIP_HEAD => "rest of a long head",
            mode::WITHOUT_HEAD => "body without a head",
            _ => "ignored",
        }
    }

    /// True while a body, or its framing, is read.
    pub fn is_in_body(&self) -> bool {
        !matches!(
            self.mode,
            mode::START | mode::GARBAGE | mode::SKIP_LINE | mode::IGNORE
        )
    }

    /// True while a body is read that only the end of the stream ends.
    pub fn is_until_close(&self) -> bool {
        matches!(self.mode, mode::UNTIL_CLOSE | mode::WITHOUT_HEAD)
    }

    /// Bytes left of the body or chunk.
    pub fn left(&self) -> u64 {
        self.left
    }

    /// Bytes at the end of the store that belong to the unfinished head.
    pub fn head_bytes(&self) -> u32 {
        self.partial
    }

    /// True where this direction is no HTTP and nothing will be read of it.
    #[inline]
    pub fn is_ignored(&self) -> bool {
        self.mode == mode::IGNORE
    }

    /// True once a message was seen.
    pub fn is_known(&self) -> bool {
        self.has(flag::KNOWN)
    }

    /// True before the first byte of this direction, blank lines aside.
    pub(crate) fn is_fresh(&self) -> bool {
        *self == MessageState::default()
    }

    fn has(&self, flags: u8) -> bool {
        self.flags & flags != 0
    }

    /// Reads on. `limit` bounds a head, `probe` the bytes in which a first
    /// message must show up.
    pub fn step<'p>(
        &mut self,
        input: &mut &'p [u8],
        store: &mut impl Store,
        limit: u32,
        probe: u32,
    ) -> Step<'p> {
        loop {
            if self.has(flag::FORBIDDEN)
                && matches!(self.mode, mode::LENGTH | mode::CHUNK_SIZE)
                && let Some(step) = self.doubtful(input, store)
            {
                return step;
            }
            match self.mode {
                mode::LENGTH | mode::CHUNK if self.left > 0 => {
                    if input.is_empty() {
                        return Step::More;
                    }
                    let count = usize::try_from(self.left).unwrap_or(usize::MAX);
                    let bytes = take(input, count);
                    self.left -= bytes.len() as u64;
                    self.seen = 1;
                    return Step::Body(bytes);
                }
                mode::LENGTH => {
                    self.mode = mode::START;
                    return Step::End;
                }
                mode::CHUNK => {
                    self.mode = mode::CHUNK_END;
                    self.seen = 0;
                }
                mode::UNTIL_CLOSE => {
                    if input.is_empty() {
                        return Step::More;
                    }
                    return Step::Body(take(input, usize::MAX));
                }
                mode::IGNORE => {
                    *input = &[];
                    return Step::More;
                }
                _ if input.is_empty() => return Step::More,
                mode::CHUNK_SIZE => self.chunk_size(input),
                mode::CHUNK_END => self.chunk_end(input),
                mode::TRAILER => {
                    if self.blank_line(input) {
                        self.mode = mode::START;
                        return Step::End;
                    }
                }
                mode::SKIP_HEAD | mode::SKIP_LINE => self.skip(input),
                other => {
                    let step = match other {
                        mode::GARBAGE => self.garbage(input, store, (limit, probe)),
                        mode::WITHOUT_HEAD => self.without_head(input, store),
                        _ => self.start(input, store, (limit, probe)),
                    };
                    if let Some(step) = step {
                        return step;
                    }
                }
            }
        }
    }

    /// Looks whether the next response stands in the place of a body that its status forbids. `seen` counts the
    /// bytes that are those of a response's start; they are held back.
    fn doubtful<'p>(&mut self, input: &mut &'p [u8], store: &mut impl Store) -> Option<Step<'p>> {
        while self.seen == 0
            && let Some(b'\r' | b'\n') = input.first()
        {
            take(input, 1);
            self.left = self.left.saturating_sub(1);
        }
        match self.start_of_response(usize::from(self.seen), input, store) {
            None => Some(Step::More),
            Some(true) => Some(Step::End),
            Some(false) => {
                self.flags &= !flag::FORBIDDEN;
                let held = RESPONSE.get(..usize::from(self.seen)).unwrap_or(&[]);
                self.seen = 0;
                if held.is_empty() {
                    return None;
                }
                if self.mode == mode::CHUNK_SIZE {
                    // An `H` is no digit of a size.
                    self.framing_lost();
                }
                self.left = self.left.saturating_sub(held.len() as u64);
                Some(Step::Body(held))
            }
        }
    }

    /// Compares input with a response's start, of which `held` bytes were there before, and notes in `seen` how many
    /// there are. True where it is one: reading goes on with it. `None` where more input is needed.
    fn start_of_response(
        &mut self,
        mut held: usize,
        input: &mut &[u8],
        store: &mut impl Store,
    ) -> Option<bool> {
        while let Some(wanted) = RESPONSE.get(held) {
            if input.first()? != wanted {
                return Some(false);
            }
            take(input, 1);
            held += 1;
            self.seen = held as u8;
        }
        if store.append(RESPONSE).is_err() {
            return Some(false);
        }
        self.seen = 0;
        self.left = 0;
        self.partial = RESPONSE.len() as u32;
        self.flags &= !(flag::RESPONSE | flag::FORBIDDEN);
        self.mode = mode::START;
        Some(true)
    }

    /// Begins the body of a response that has no head. The body ends before a line with a response's start, or with
    /// the connection.
    pub(super) fn begin_without_head(&mut self) {
        debug_assert!(self.is_fresh(), "a head may have begun");
        self.mode = mode::WITHOUT_HEAD;
        self.begun = 1;
        self.flags |= flag::KNOWN | flag::RESPONSE;
    }

    /// Passes a body without a head. `after` is 1 at the start of a line, where `seen` counts the bytes that are
    /// those of a response's start; these are held back.
    fn without_head<'p>(
        &mut self,
        input: &mut &'p [u8],
        store: &mut impl Store,
    ) -> Option<Step<'p>> {
        if self.after == 0 {
            let line = take_line(input);
            self.after = u8::from(line.last() == Some(&b'\n'));
            return Some(Step::Body(line));
        }
        let differs = !self.start_of_response(usize::from(self.seen), input, store)?;
        self.after = 0;
        if !differs {
            return Some(Step::End);
        }
        let held = RESPONSE.get(..usize::from(self.seen)).unwrap_or(&[]);
        self.seen = 0;
        (!held.is_empty()).then_some(Step::Body(held))
    }

    /// Reads a head, and first finds out whether one begins. `None` where it is to be asked again, or another mode.
    fn start<'p>(
        &mut self,
        input: &mut &'p [u8],
        store: &mut impl Store,
        (limit, probe): (u32, u32),
    ) -> Option<Step<'p>> {
        if self.partial == 0 {
            let blank = input
                .iter()
                .take_while(|b| matches!(b, b'\r' | b'\n'))
                .count();
            take(input, blank);
            self.flags &= !(flag::REQUEST | flag::RESPONSE | flag::BROKEN | flag::TOO_LONG);
            if input.is_empty() {
                return Some(Step::More);
            }
            let line = input.get(..longest_line(limit)).unwrap_or(input);
            let start = classify_line(line, self.has(flag::STRICT));
            match start {
                Start::No => {
                    self.mode = mode::GARBAGE;
                    return None;
                }
                Start::NeedMore => {}
                Start::Request | Start::Response => {
                    let of = self.decide(start);
                    if let Some(end) = head_end(input, of).filter(|&end| end <= limit as usize) {
                        return Some(self.found(HeadAt::Packet(take(input, end))));
                    }
                }
            }
        }
        while !input.is_empty() {
            if !self.has(flag::REQUEST | flag::RESPONSE) {
                return self.first_line(input, store, (limit, probe));
            }
            let (piece, ended) = self.head_piece(input);
            if self.partial as usize + piece.len() > limit as usize || store.append(piece).is_err()
            {
                return Some(self.too_long(piece, ended, store));
            }
            self.partial += piece.len() as u32;
            if ended {
                let len = core::mem::take(&mut self.partial);
                return Some(self.found(HeadAt::Stored { len, whole: true }));
            }
        }
        Some(Step::More)
    }

    /// The next bytes of a line of the head, and whether the head ended with them.
    fn head_piece<'p>(&mut self, input: &mut &'p [u8]) -> (&'p [u8], bool) {
        // Line by line, so that a head that is too long is cut behind a line.
        let line = take_line(&mut &**input);
        let mut ending = Ending::from_byte(self.ending);
        let (length, ended) = ending.head_bytes(line);
        self.ending = ending.to_byte();
        (take(input, length), ended)
    }

    /// Reads on in a line that may begin a message. Until that is known it is kept, be it longer than a head may be:
    /// in a line that begins none one is looked for.
    fn first_line(
        &mut self,
        input: &mut &[u8],
        store: &mut impl Store,
        (limit, probe): (u32, u32),
    ) -> Option<Step<'static>> {
        let before = self.partial;
        let room = longest_line(limit).saturating_sub(before as usize);
        // Where a response may begin, its line must not be passed before that is known: more than LF ends it.
        let piece = if starts_with_ignoring_case(RESPONSE, tail(store, before)) {
            take(input, 1)
        } else {
            let line = take_line(&mut &**input);
            take(input, line.len().min(room))
        };
        let whole = piece.ends_with(b"\n");
        if store.append(piece).is_err() {
            return Some(self.drop_line(whole, store));
        }
        self.partial += piece.len() as u32;
        let full = piece.len() >= room;
        // Judging each of many tiny segments would cost the square of the line's length.
        if !whole && !full && self.partial > 64 && before / 4096 == self.partial / 4096 {
            return None;
        }
        match classify_line(tail(store, self.partial), self.has(flag::STRICT)) {
            Start::NeedMore if full => return Some(self.drop_line(whole, store)),
            Start::NeedMore => {}
            Start::No => {
                self.mode = mode::GARBAGE;
                let kept = self.partial <= LONGEST_GARBAGE;
                return self.passed((self.partial, whole, kept), store, (limit, probe));
            }
            start => {
                self.decide(start);
                if self.partial > limit {
                    return Some(self.drop_line(whole, store));
                }
                if whole {
                    self.ending = Ending::at_line().to_byte();
                }
            }
        }
        None
    }

    fn decide(&mut self, start: Start) -> HeadOf {
        let (flag, of) = match start {
            Start::Request => (flag::REQUEST, HeadOf::Request),
            _ => (flag::RESPONSE, HeadOf::Response),
        };
        self.flags |= flag;
        self.ending = Ending::in_first_line(of).to_byte();
        of
    }

    fn found<'p>(&mut self, head: HeadAt<'p>) -> Step<'p> {
        self.flags &= !flag::STRICT;
        self.flags |= flag::KNOWN;
        self.begun = 1;
        self.probed = 0;
        if self.has(flag::REQUEST) {
            Step::Request(head)
        } else {
            Step::Response(head)
        }
    }

    /// A head is too long; it may have `ended` with the piece that is beyond the bound.
    fn too_long<'p>(&mut self, piece: &[u8], ended: bool, store: &mut impl Store) -> Step<'p> {
        if let Some(head) = self.broken_head(store) {
            self.flags &= !flag::BROKEN;
            if !ended {
                self.flags |= flag::TOO_LONG;
            }
            return head;
        }
        self.drop_line(piece.ends_with(b"\n"), store)
    }

    /// Throws a line away that is too long to begin a message, with what is still to come of it unless it is `whole`.
    fn drop_line<'p>(&mut self, whole: bool, store: &mut impl Store) -> Step<'p> {
        self.forget(store);
        self.mode = if whole {
            mode::GARBAGE
        } else {
            mode::SKIP_LINE
        };
        Step::TooLong
    }

    /// Passes the rest of a head or line that was too long.
    fn skip(&mut self, input: &mut &[u8]) {
        let (ended, next) = match self.mode {
            mode::SKIP_HEAD => (self.head_piece(input).1, self.after),
            _ => (take_line(input).ends_with(b"\n"), mode::GARBAGE),
        };
        if ended {
            self.mode = next;
        }
    }

    /// The unfinished head, where its first line is there.
    fn broken_head(&mut self, store: &mut impl Store) -> Option<Step<'static>> {
        if !self.has(flag::REQUEST | flag::RESPONSE) || !tail(store, self.partial).contains(&b'\n')
        {
            return None;
        }
        let len = core::mem::take(&mut self.partial);
        let step = self.found(HeadAt::Stored { len, whole: false });
        self.flags |= flag::BROKEN;
        Some(step)
    }

    fn forget(&mut self, store: &mut impl Store) {
        if self.partial > 0 {
            cut_tail(store, core::mem::take(&mut self.partial));
        }
        self.flags &= !(flag::REQUEST | flag::RESPONSE);
    }

    /// Says what follows the head that was given last.
    pub fn body(&mut self, body: Body) {
        self.flags &= !(flag::EXTENSION | flag::FORBIDDEN);
        self.left = 0;
        self.seen = 0;
        let next = match body {
            Body::None => mode::LENGTH,
            Body::Length(length) => {
                self.left = length;
                mode::LENGTH
            }
            Body::ForbiddenLength(length) => {
                self.left = length;
                self.flags |= flag::FORBIDDEN;
                mode::LENGTH
            }
            Body::ForbiddenChunked => {
                self.flags |= flag::FORBIDDEN;
                mode::CHUNK_SIZE
            }
            Body::Chunked => mode::CHUNK_SIZE,
            Body::UntilClose => mode::UNTIL_CLOSE,
            Body::Tunnel => {
                self.redetect();
                mode::START
            }
        };
        if self.has(flag::BROKEN) {
            self.resync();
        } else if self.has(flag::TOO_LONG) {
            self.mode = mode::SKIP_HEAD;
            self.after = next;
        } else {
            self.mode = next;
        }
    }

    /// Looks for HTTP anew: the bytes that follow belong to another protocol, or to HTTP again.
    pub fn redetect(&mut self) {
        if self.mode != mode::IGNORE && self.partial == 0 {
            self.mode = mode::START;
            self.flags &= !flag::KNOWN;
            self.probed = 0;
        }
    }

    /// The body that was announced is not sent: its sender was refused before
    /// the first byte (RFC 9110 section 10.1.1).
    pub fn body_withheld(&mut self) {
        if self.mode == mode::LENGTH && self.left > 0 && self.seen == 0 {
            self.left = 0;
        }
    }

    fn resync(&mut self) {
        self.mode = mode::GARBAGE;
        self.flags |= flag::STRICT;
        self.flags &=
            !(flag::BROKEN | flag::TOO_LONG | flag::REQUEST | flag::RESPONSE | flag::FORBIDDEN);
    }

    /// So many bytes are lost. The head given, if any, is what there was of
    /// it.
    pub fn gap(&mut self, count: u64, store: &mut impl Store) -> Option<Step<'static>> {
        match self.mode {
            mode::IGNORE | mode::UNTIL_CLOSE => None,
            mode::WITHOUT_HEAD => {
                (self.seen, self.after) = (0, 0);
                None
            }
            mode::LENGTH | mode::CHUNK if count <= self.left && !self.has(flag::FORBIDDEN) => {
                self.left -= count;
                None
            }
            mode::START => {
                let head = self.broken_head(store);
                if head.is_none() {
                    self.forget(store);
                    self.resync();
                }
                head
            }
            _ => {
                self.forget(store);
                self.resync();
                None
            }
        }
    }

    /// The stream ended; the head given, if any, is what there was of it.
    pub fn end(&mut self, store: &mut impl Store) -> Option<Step<'static>> {
        match self.mode {
            mode::IGNORE => None,
            mode::START => {
                let head = self.broken_head(store);
                if head.is_none() {
                    self.forget(store);
                }
                head
            }
            mode::GARBAGE | mode::SKIP_LINE => {
                self.forget(store);
                None
            }
            _ => {
                self.mode = mode::START;
                Some(Step::End)
            }
        }
    }

    /// Passes (a part of) a line that begins with no message. The line is kept
    /// until it is whole: what precedes a message may end without a line feed.
    fn garbage(
        &mut self,
        input: &mut &[u8],
        store: &mut impl Store,
        bounds: (u32, u32),
    ) -> Option<Step<'static>> {
        let line = take_line(input);
        let count = line.len() as u32;
        let kept = self.partial + count <= LONGEST_GARBAGE && store.append(line).is_ok();
        if kept {
            self.partial += count;
        }
        let whole = line.ends_with(b"\n");
        self.passed((count, whole, kept), store, bounds)
    }

    /// `count` more bytes belong to a line that begins with no message; the line may be `whole` now, and too long to
    /// be `kept`.
    fn passed(
        &mut self,
        (count, whole, kept): (u32, bool, bool),
        store: &mut impl Store,
        (limit, probe): (u32, u32),
    ) -> Option<Step<'static>> {
        self.probed = self.probed.saturating_add(count);
        if !self.has(flag::KNOWN) && self.probed > probe {
            self.forget(store);
            self.mode = mode::IGNORE;
        } else if !kept {
            self.drop_line(whole, store);
        } else if whole {
            return self.search(store, limit);
        }
        None
    }

    /// Looks for a message inside the line that is kept.
    fn search(&mut self, store: &mut impl Store, limit: u32) -> Option<Step<'static>> {
        self.flags |= flag::STRICT;
        self.mode = mode::START;
        let text = tail(store, self.partial);
        let Some(at) = start_within(text) else {
            self.forget(store);
            return None;
        };
        let start = classify_line(text.get(at..).unwrap_or(&[]), true);
        let keep = text.len() - at;
        if keep > limit as usize {
            return Some(self.drop_line(true, store));
        }
        let (from, to) = (store.bytes().len() - keep, store.bytes().len() - text.len());
        store.bytes_mut().copy_within(from.., to);
        cut_tail(store, at as u32);
        self.partial = keep as u32;
        self.decide(start);
        // The kept text ends with LF.
        self.ending = Ending::at_line().to_byte();
        None
    }

    /// Reads a chunk's size as libhtp and browsers do: blanks in front and anything behind its digits are passed.
    fn chunk_size(&mut self, input: &mut &[u8]) {
        while let Some((&b, rest)) = input.split_first() {
            let digit = (b as char).to_digit(16);
            match (b, digit) {
                (b'\n', _) if self.seen == 0 => {} // a blank line before the size
                (b'\n', _) => {
                    *input = rest;
                    self.flags &= !flag::EXTENSION;
                    self.seen = 0;
                    self.mode = if self.left == 0 {
                        mode::TRAILER
                    } else {
                        mode::CHUNK
                    };
                    return;
                }
                _ if self.has(flag::EXTENSION) => {}
                (_, Some(digit)) if self.left >> 56 == 0 => {
                    self.left = self.left << 4 | u64::from(digit);
                    self.seen = 1;
                }
                // The size is too large, or none: this byte is the body's.
                (_, Some(_)) => return self.framing_lost(),
                _ if self.seen > 0 => self.flags |= flag::EXTENSION,
                (b'\r' | b' ' | b'\t' | 0x0b | 0x0c, _) => {}
                _ => return self.framing_lost(),
            }
            *input = rest;
        }
    }

    fn chunk_end(&mut self, input: &mut &[u8]) {
        match input.first() {
            Some(b'\r') if self.seen == 0 => self.seen = 1,
            Some(b'\n') => {
                self.seen = 0;
                self.left = 0;
                self.mode = mode::CHUNK_SIZE;
            }
            _ => return self.framing_lost(),
        }
        take(input, 1);
    }

    fn framing_lost(&mut self) {
        self.left = 0;
        self.flags &= !flag::EXTENSION;
        if self.has(flag::RESPONSE) {
            // As browsers do: what can't be a chunk is the rest of the page.
            self.mode = mode::UNTIL_CLOSE;
        } else {
            self.resync();
        }
    }

    /// Passes one line; true where it was blank.
    fn blank_line(&mut self, input: &mut &[u8]) -> bool {
        let line = take_line(input);
        match line {
            [b'\n'] if self.seen <= 1 => {
                self.seen = 0;
                true
            }
            [b'\r', b'\n'] if self.seen == 0 => true,
            [.., b'\n'] => {
                self.seen = 0;
                false
            }
            [b'\r'] if self.seen == 0 => {
                self.seen = 1;
                false
            }
            _ => {
                self.seen = 2;
                false
            }
        }
    }
}
