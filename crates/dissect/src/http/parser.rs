//! Both directions of an HTTP connection: requests and their responses, with bodies.

use zerocopy::{FromBytes, IntoBytes};

use super::ending::HeadOf;
use super::fields::{codings, put_request, put_response};
use super::head::{Body, RequestHead, ResponseHead};
use super::message::{HeadAt, MessageState, Step, cut_tail};
use crate::coding::{Codings, Decoder, Outcome, SURE};
use crate::field::{Field, Notice, Number, Protocol};
use crate::limits::Limits;
use crate::snapshot::{Reader, SnapshotError, put_bytes, put_u8, put_u32};
use crate::values::{Phase, Sink, Value};

/// Requests without a response that are remembered; later ones count as `GET`.
const MOST_ASKED: usize = 64;
/// Bytes without a message after which a direction is taken for another protocol.
const PROBE: u32 = 4096;
/// Compressed bytes before the first attempt to decompress a body that goes on.
const FIRST_DECODE: usize = SURE;

mod flag {
    /// A message's head was handed out and its end was not.
    pub(super) const OPEN: u16 = 1;
    /// The body is longer than is kept.
    pub(super) const FULL: u16 = 2;
    /// Bytes of the body were lost.
    pub(super) const GAP: u16 = 4;
    /// The body is not of its coding.
    pub(super) const BAD: u16 = 8;
    /// The message is a response that is not final.
    pub(super) const INTERIM: u16 = 16;
    /// The request waits for `100 Continue`.
    pub(super) const EXPECTS: u16 = 32;
    /// The message is a response.
    pub(super) const RESPONSE: u16 = 64;
    /// The message ended before its body did.
    pub(super) const SHORT: u16 = 128;
    /// The head is longer than is read.
    pub(super) const HEAD_CUT: u16 = 256;
}

/// How a request bears on its response.
mod asked {
    pub(super) const OTHER: u8 = 0;
    pub(super) const HEAD: u8 = 1;
    pub(super) const CONNECT: u8 = 2;
}

/// One direction.
#[derive(Debug, Default, Clone, PartialEq)]
struct Side {
    message: MessageState,
    /// The head that is put together.
    store: Vec<u8>,
    /// The head of the message whose body is read.
    head: Vec<u8>,
    /// The body as sent, where it is compressed.
    coded: Vec<u8>,
    /// The body.
    body: Vec<u8>,
    codings: Codings,
    flags: u16,
    /// Bytes of the body as sent.
    length: u32,
    /// Bytes of the body that were handed out.
    handed: u32,
    /// Compressed bytes at which the body is decompressed next.
    decode_at: u32,
}

/// State of a connection.
#[derive(Debug, Default, Clone, PartialEq)]
pub(crate) struct Http {
    /// To the server, to the client.
    sides: [Side; 2],
    asked: Vec<u8>,
}

/// Limits, decoder and output of one call.
pub(crate) struct Means<'a, 'v, 't> {
    pub(crate) limits: &'a Limits,
    pub(crate) decoder: &'a mut Decoder,
    pub(crate) sink: Sink<'v, 't>,
}

impl Http {
    fn side(&mut self, to_server: bool) -> &mut Side {
        let [up, down] = &mut self.sides;
        if to_server { up } else { down }
    }

    /// True where neither direction is HTTP.
    pub(crate) fn is_over(&self) -> bool {
        self.sides.iter().all(|side| side.message.is_ignored())
    }

    pub(crate) fn data(
        &mut self,
        to_server: bool,
        mut bytes: &[u8],
        means: &mut Means<'_, '_, '_>,
    ) {
        let limit = means.limits.head as u32;
        bytes = self.begin_without_head(to_server, bytes, means);
        loop {
            let side = self.side(to_server);
            match side.message.step(&mut bytes, &mut side.store, limit, PROBE) {
                Step::More => break,
                step => self.handle(to_server, step, means),
            }
        }
        let side = self.side(to_server);
        if side.flags & flag::OPEN == 0 {
            return;
        }
        if side.message.is_in_body() {
            side.decode_when_due(means);
            side.give_body(to_server, false, means);
        } else {
            // The framing of its body was lost.
            side.break_off(to_server, means);
        }
    }

    /// A server that answers its first request with no head sends a body, as in HTTP/0.9: browsers show it.
    /// Behind a blank or a control character, and an `H`, [`MessageState`] looks for a head.
    /// Gives what is left to read.
    fn begin_without_head<'b>(
        &mut self,
        to_server: bool,
        bytes: &'b [u8],
        means: &mut Means<'_, '_, '_>,
    ) -> &'b [u8] {
        let asked = self.asked.first() == Some(&asked::OTHER);
        let side = self.side(to_server);
        if to_server || !asked || !side.message.is_fresh() {
            return bytes;
        }
        let blank = bytes.iter().take_while(|b| matches!(b, b'\r' | b'\n'));
        let rest = bytes.get(blank.count()..).unwrap_or(&[]);
        if !matches!(rest.first(), Some(byte) if *byte > b' ' && !b"Hh".contains(byte)) {
            return bytes;
        }
        side.close();
        side.flags |= flag::OPEN | flag::RESPONSE;
        side.message.begin_without_head();
        means.sink.values.clear();
        means.sink.head((Protocol::Http, to_server), false);
        rest
    }

    pub(crate) fn gap(&mut self, to_server: bool, count: u64, means: &mut Means<'_, '_, '_>) {
        let side = self.side(to_server);
        side.flags |= flag::GAP;
        let was_body = side.flags & flag::OPEN != 0;
        if let Some(step) = side.message.gap(count, &mut side.store) {
            self.handle(to_server, step, means);
        }
        let side = self.side(to_server);
        // A body whose framing was lost has ended.
        if was_body && !side.message.is_in_body() {
            side.break_off(to_server, means);
        }
    }

    pub(crate) fn end(&mut self, to_server: bool, means: &mut Means<'_, '_, '_>) {
        let side = self.side(to_server);
        if side.message.is_in_body() && !side.message.is_until_close() {
            side.flags |= flag::SHORT;
        }
        if let Some(step) = side.message.end(&mut side.store) {
            self.handle(to_server, step, means);
        }
        self.side(to_server).break_off(to_server, means);
    }

    fn handle(&mut self, to_server: bool, step: Step<'_>, means: &mut Means<'_, '_, '_>) {
        match step {
            Step::Request(head) => self.head(to_server, head, false, means),
            Step::Response(head) => self.head(to_server, head, true, means),
            Step::Body(bytes) => self.side(to_server).add_body(bytes, means.limits.body),
            Step::End => self.side(to_server).finish(to_server, means),
            Step::TooLong | Step::More => {}
        }
    }

    fn head(
        &mut self,
        to_server: bool,
        head: HeadAt<'_>,
        is_response: bool,
        means: &mut Means<'_, '_, '_>,
    ) {
        let side = self.side(to_server);
        side.break_off(to_server, means);
        side.begin(head);
        if is_response {
            side.flags |= flag::RESPONSE;
        }
        let too_long = matches!(head, HeadAt::Stored { whole: false, .. });
        let body = if is_response {
            let body = self.response(to_server);
            let side = self.side(to_server);
            if side.flags & flag::INTERIM != 0 {
                side.message.body(body);
                return;
            }
            body
        } else {
            self.request(to_server)
        };
        let side = self.side(to_server);
        let of = if is_response {
            HeadOf::Response
        } else {
            HeadOf::Request
        };
        side.codings = codings(&side.head, of);
        side.flags |= flag::OPEN;
        if too_long {
            side.flags |= flag::HEAD_CUT;
        }
        side.message.body(body);
        side.put_head(means);
        let last = matches!(body, Body::None | Body::Tunnel) || !side.message.is_in_body();
        means.sink.head((Protocol::Http, to_server), last);
        if last {
            side.close();
        }
    }

    /// Takes note of a request; says what follows it.
    fn request(&mut self, to_server: bool) -> Body {
        let side = self.side(to_server);
        let request = RequestHead::parse(&side.head);
        let asked = match request.line.method {
            b"HEAD" => asked::HEAD,
            b"CONNECT" => asked::CONNECT,
            _ => asked::OTHER,
        };
        let (body, expects) = (request.body(), request.fields.expects_continue);
        if expects {
            side.flags |= flag::EXPECTS;
        }
        if self.asked.len() < MOST_ASKED {
            self.asked.push(asked);
        }
        body
    }

    /// Joins a response with its request; says what follows it.
    fn response(&mut self, to_server: bool) -> Body {
        let method: &[u8] = match self.asked.first() {
            Some(&asked::HEAD) => b"HEAD",
            Some(&asked::CONNECT) => b"CONNECT",
            _ => b"",
        };
        let alone = self.asked.len() == 1;
        let side = self.side(to_server);
        let response = ResponseHead::parse(&side.head);
        let (body, status) = (response.body(method), response.line.status);
        let interim = response.is_interim();
        if interim && body == Body::None {
            side.flags |= flag::INTERIM;
            return body;
        }
        // The final response is still to come, though this one has a body.
        if !self.asked.is_empty() && !interim {
            self.asked.remove(0);
        }
        let asker = self.side(!to_server);
        if asker.flags & flag::EXPECTS != 0 && status >= 300 && alone {
            asker.message.body_withheld();
        }
        if body == Body::Tunnel || status == 101 {
            asker.message.redetect();
        }
        body
    }

    pub(crate) fn save(&self, out: &mut Vec<u8>) {
        put_bytes(out, &self.asked);
        for side in &self.sides {
            side.save(out);
        }
    }

    pub(crate) fn load(
        reader: &mut Reader<'_>,
        limits: &Limits,
        decoder: &mut Decoder,
    ) -> Result<Http, SnapshotError> {
        let mut http = Http {
            asked: reader.bytes(MOST_ASKED)?,
            sides: Default::default(),
        };
        for side in &mut http.sides {
            *side = Side::load(reader, limits, decoder)?;
        }
        Ok(http)
    }
}

impl Side {
    /// Keeps the head of a message that begins.
    fn begin(&mut self, head: HeadAt<'_>) {
        self.close();
        match head {
            HeadAt::Packet(bytes) => self.head.extend_from_slice(bytes),
            HeadAt::Stored { len, whole } => {
                let from = self.store.len().saturating_sub(len as usize);
                self.head
                    .extend_from_slice(self.store.get(from..).unwrap_or(&[]));
                cut_tail(&mut self.store, len);
                if !whole {
                    // Of a head that is cut the last line is none; how much there is of it depends on
                    // the segments.
                    let lines = self.head.iter().rposition(|&b| b == b'\n');
                    self.head.truncate(lines.map_or(0, |at| at + 1));
                }
            }
        }
    }

    /// Forgets the message, and gives its memory back.
    fn close(&mut self) {
        self.head.clear();
        self.coded = Vec::new();
        self.body = Vec::new();
        self.codings = Codings::default();
        (self.flags, self.length, self.handed) = (0, 0, 0);
        self.decode_at = FIRST_DECODE as u32;
    }

    fn put_head(&self, means: &mut Means<'_, '_, '_>) {
        let values = &mut *means.sink.values;
        values.clear();
        if self.head.is_empty() {
            // A response without one.
        } else if self.flags & flag::RESPONSE != 0 {
            put_response(&self.head, values);
        } else {
            put_request(&self.head, values);
        }
        values.number(Number::HttpBodyLength, self.length);
        for (bit, notice) in [
            (flag::FULL, Notice::HttpBodyLimit),
            (flag::GAP, Notice::HttpBodyGap),
            (flag::BAD, Notice::HttpBadCompression),
            (flag::SHORT, Notice::HttpBodyShort),
            (flag::HEAD_CUT, Notice::HttpHeadCut),
        ] {
            if self.flags & bit != 0 {
                values.notice(notice);
            }
        }
    }

    fn add_body(&mut self, bytes: &[u8], limit: usize) {
        self.length = self.length.saturating_add(bytes.len() as u32);
        if self.flags & (flag::GAP | flag::OPEN) != flag::OPEN {
            return;
        }
        let place = match self.codings.is_none() {
            true => &mut self.body,
            false => &mut self.coded,
        };
        // A compressed body has this bound of its own: when it is decompressed depends on the segments.
        let room = limit.saturating_sub(place.len());
        if bytes.len() > room {
            self.flags |= flag::FULL;
        }
        place.extend_from_slice(bytes.get(..room).unwrap_or(bytes));
    }

    fn decode_when_due(&mut self, means: &mut Means<'_, '_, '_>) {
        let limit = means.limits.body;
        // What is as long as it may be stays so.
        let due = self.coded.len() >= self.decode_at as usize && self.body.len() < limit;
        if !self.codings.is_none() && due {
            self.decode(limit, false, means.decoder);
        }
    }

    fn decode(&mut self, limit: usize, last: bool, decoder: &mut Decoder) {
        self.decode_at = (self.coded.len() * 2).max(FIRST_DECODE) as u32;
        let outcome = decoder.decode((self.codings, &self.coded, last), limit, &mut self.body);
        self.body.shrink_to_fit();
        match outcome {
            Outcome::Full => self.flags |= flag::FULL,
            Outcome::Bad => self.flags |= flag::BAD,
            Outcome::Whole | Outcome::More => {}
        }
    }

    /// The message at hand gets no further, though its end was not seen.
    fn break_off(&mut self, to_server: bool, means: &mut Means<'_, '_, '_>) {
        self.flags |= flag::SHORT;
        self.finish(to_server, means);
        self.flags &= !flag::SHORT;
    }

    /// The message is complete, or will get no further.
    fn finish(&mut self, to_server: bool, means: &mut Means<'_, '_, '_>) {
        if self.flags & flag::OPEN == 0 {
            return;
        }
        if !self.codings.is_none() {
            self.decode(means.limits.body, true, means.decoder);
        }
        self.give_body(to_server, true, means);
        self.close();
    }

    /// Hands the body out, where there is more of it or it has ended.
    fn give_body(&mut self, to_server: bool, last: bool, means: &mut Means<'_, '_, '_>) {
        // By an eighth at least, so that a head is read again few times, however small the segments are.
        let handed = self.handed as usize;
        if !last && (self.body.len() <= handed || self.body.len() < handed + handed / 8) {
            return;
        }
        self.put_head(means);
        let complete = last && self.flags & (flag::FULL | flag::GAP) == 0;
        let value = |field, bytes| Value {
            field,
            bytes,
            old: self.handed as usize,
            complete,
        };
        let decoded = value(Field::FileData, &self.body[..]);
        let message = if self.flags & flag::RESPONSE != 0 {
            value(Field::HttpResponseBody, &self.body)
        } else if self.codings.is_none() {
            value(Field::HttpRequestBody, &self.body)
        } else {
            // Requests are looked at as they were sent.
            Value {
                old: 0,
                ..value(Field::HttpRequestBody, &self.coded)
            }
        };
        let body = [message, decoded];
        let of = (Protocol::Http, to_server);
        (means.sink.take)(&means.sink.values.message(of, Phase::Body, last, &body));
        self.handed = self.body.len() as u32;
    }

    fn save(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self.message.as_bytes());
        put_u32(out, self.flags.into());
        put_u8(out, self.codings.to_byte());
        put_u32(out, self.length);
        put_u32(out, self.handed);
        put_u32(out, self.decode_at);
        put_bytes(out, &self.store);
        put_bytes(out, &self.head);
        // Of a compressed body the rest can be computed.
        let body = if self.codings.is_none() {
            &self.body
        } else {
            &self.coded
        };
        put_bytes(out, body);
    }

    fn load(
        reader: &mut Reader<'_>,
        limits: &Limits,
        decoder: &mut Decoder,
    ) -> Result<Side, SnapshotError> {
        let bad = SnapshotError::Malformed;
        let message = reader.take(size_of::<MessageState>())?;
        let mut side = Side {
            message: MessageState::read_from_bytes(message).map_err(|_| bad)?,
            flags: u16::try_from(reader.u32()?).map_err(|_| bad)?,
            codings: Codings::from_byte(reader.u8()?).ok_or(bad)?,
            length: reader.u32()?,
            handed: reader.u32()?,
            decode_at: reader.u32()?,
            store: reader.bytes(limits.head.max(Limits::GARBAGE))?,
            head: reader.bytes(limits.head)?,
            ..Side::default()
        };
        let body = reader.bytes(limits.body)?;
        if side.message.head_bytes() as usize > side.store.len() {
            return Err(bad);
        }
        if side.codings.is_none() {
            side.body = body;
            return Ok(side);
        }
        // The state was written with the body decompressed up to the last doubling.
        side.coded = body;
        let next = side.decode_at;
        if next as usize > FIRST_DECODE {
            let all = std::mem::take(&mut side.coded);
            let done = (next as usize / 2).min(all.len());
            side.coded = all.get(..done).unwrap_or(&[]).to_vec();
            let flags = side.flags;
            side.decode(limits.body, false, decoder);
            side.flags = flags;
            side.coded = all;
            side.decode_at = next;
        }
        Ok(side)
    }
}
