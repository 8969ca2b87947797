//! From packets to HTTP messages: what all functions that read HTTP share.

use weir_nf::Buffer;
use weir_nf::prelude::*;

use weir_dissect::http::head::Body;
use weir_dissect::http::message::{self, HeadAt, MessageState, cut_tail};
use weir_dissect::http::store::{Store, StoreFull};

use crate::stream::{self, ACK, FIN, Limits, Pending, RST, SYN, Segment, StreamState};

/// Side buffers of a function that reads HTTP: two for bytes that wait for
/// earlier ones, two for heads.
pub(crate) const BUFFERS: u8 = 4;
/// Number of the first side buffer for heads; that of the other direction is
/// the next one.
pub(crate) const HEADS: usize = 2;
/// Most bytes in a side buffer.
pub(crate) const BUFFER_BYTES: u32 = 256 * 1024;
/// Waiting bytes that are copied at a time.
const PIECE: usize = 2048;

/// A side buffer as the store of heads.
struct Kept<'a, 'b>(&'a mut Buffer<'b>);

impl Store for Kept<'_, '_> {
    fn bytes(&self) -> &[u8] {
        self.0.as_slice()
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        self.0.as_mut_slice()
    }

    fn shorten(&mut self, len: usize) {
        if len < self.0.len() {
            // Shrinking needs no memory and so can't fail.
            let _ = self.0.resize(len);
        }
    }

    fn append(&mut self, bytes: &[u8]) -> Result<(), StoreFull> {
        self.0.extend(bytes).map_err(|_| StoreFull)
    }
}

/// Both directions of a connection: 0 is that of the flow's first packet.
#[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Connection {
    sides: [SideState; 2],
}

/// One direction of a connection.
#[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct SideState {
    stream: StreamState,
    message: MessageState,
}

impl Connection {
    /// Tells it field by field.
    pub(crate) fn show(&self, shown: &mut weir_nf::Shown) {
        for (side, name) in self.sides.iter().zip(["side_0", "side_1"]) {
            shown.within(name, |shown| {
                side.stream.show(shown);
                let message = &side.message;
                shown
                    .text("reading", message.reading())
                    .flag("is_http", message.is_known())
                    .number("left", message.left())
                    .number("head_bytes", message.head_bytes());
            });
        }
    }

    fn side(&self, side: usize) -> &SideState {
        &self.sides[side & 1]
    }

    fn side_mut(&mut self, side: usize) -> &mut SideState {
        &mut self.sides[side & 1]
    }

    /// The other protocol that a message announced may be HTTP again.
    pub(crate) fn redetect(&mut self, side: usize) {
        self.side_mut(side).message.redetect();
    }

    /// The body that the last request announced will not come.
    pub(crate) fn body_withheld(&mut self, side: usize) {
        self.side_mut(side).message.body_withheld();
    }
}

/// Limits of a function that reads HTTP.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HttpLimits {
    pub(crate) stream: Limits,
    /// Bytes of a head.
    pub(crate) head: u32,
    /// Bytes in which a first message must show up.
    pub(crate) probe: u32,
}

/// A function that reads HTTP.
pub(crate) trait Reader: NetworkFunction {
    fn connection(state: &Self::State) -> &Connection;
    fn connection_mut(state: &mut Self::State) -> &mut Connection;
    fn limits(&self) -> &HttpLimits;

    /// A request's head from the sender `side`. The bytes of a stored head are
    /// thrown away afterwards unless [`Next::keep`] is set.
    fn request(
        &self,
        side: usize,
        head: HeadAt<'_>,
        flow: &mut Flow<'_, Self>,
        cx: &mut Context<'_>,
    ) -> Next;

    /// A response's head from the sender `side`; by default it is thrown away.
    fn response(
        &self,
        side: usize,
        head: HeadAt<'_>,
        flow: &mut Flow<'_, Self>,
        cx: &mut Context<'_>,
    ) -> Next {
        let _ = (side, head, flow, cx);
        Next {
            body: Body::UntilClose,
            keep: false,
        }
    }

    /// Bytes of a body.
    fn body(&self, side: usize, bytes: &[u8], flow: &mut Flow<'_, Self>, cx: &mut Context<'_>) {
        let _ = (side, bytes, flow, cx);
    }

    /// The end of a message.
    fn message_end(&self, side: usize, flow: &mut Flow<'_, Self>, cx: &mut Context<'_>) {
        let _ = (side, flow, cx);
    }

    /// So many bytes were lost.
    fn gap(&self, bytes: u64, cx: &mut Context<'_>) {
        let _ = (bytes, cx);
    }

    /// A first line was longer than the limit.
    fn too_long(&self, cx: &mut Context<'_>) {
        let _ = cx;
    }
}

/// Bytes that follow a head.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Next {
    pub(crate) body: Body,
    /// The stored head stays in its buffer.
    pub(crate) keep: bool,
}

/// The bytes of a head.
pub(crate) fn head_bytes<'b, N: NetworkFunction>(
    side: usize,
    head: HeadAt<'b>,
    flow: &Flow<'_, N>,
    cx: &'b Context<'_>,
) -> &'b [u8] {
    match head {
        HeadAt::Packet(bytes) => bytes,
        HeadAt::Stored { len, .. } => {
            let all = flow.buffered(HEADS + side, cx);
            all.get(all.len().saturating_sub(len as usize)..)
                .unwrap_or(&[])
        }
    }
}

/// Direction of packets of `side`.
pub(crate) fn direction_of(side: usize, info: &FlowInfo<'_>) -> Direction {
    let client = info.client_direction();
    if side == 0 { client } else { client.opposite() }
}

/// Reads one packet.
#[inline]
pub(crate) fn packet<N: Reader>(
    function: &N,
    packet: &Packet<'_>,
    flow: &mut Flow<'_, N>,
    cx: &mut Context<'_>,
) {
    let Some(segment) = Segment::of(packet) else {
        return;
    };
    let side = usize::from(!flow.info.to_server());
    let connection = N::connection(&flow.state);
    let peer_waits = connection.side(1 - side).stream.is_waiting();
    if peer_waits && segment.flags & ACK != 0 {
        let peer = N::connection_mut(&mut flow.state).side_mut(1 - side);
        peer.stream.acknowledged(segment.ack);
    }
    let own = N::connection(&flow.state).side(side);
    let dull = segment.flags & (SYN | FIN | RST) == 0 && own.message.is_ignored();
    if own.stream.is_idle_for(&segment) || (dull && !own.stream.is_waiting()) {
        return;
    }
    let limits = &function.limits().stream;
    let Some((state, mut buffer)) = flow.parts(side, cx) else {
        return;
    };
    let stream = &mut N::connection_mut(state).side_mut(side).stream;
    let mut pending = stream.arrive(&segment, limits, &mut buffer);
    run(function, side, &mut pending, flow, cx);
}

/// Reads what is left when the flow ends.
pub(crate) fn finish<N: Reader>(function: &N, flow: &mut Flow<'_, N>, cx: &mut Context<'_>) {
    for side in 0..2 {
        run(function, side, &mut Pending::flush(), flow, cx);
        // The stream may have ended before, and HTTP gone on after a reset.
        end(function, side, flow, cx);
    }
}

fn run<N: Reader>(
    function: &N,
    side: usize,
    pending: &mut Pending<'_>,
    flow: &mut Flow<'_, N>,
    cx: &mut Context<'_>,
) {
    let limits = &function.limits().stream;
    loop {
        let Some((state, mut buffer)) = flow.parts(side, cx) else {
            return;
        };
        let stream = &mut N::connection_mut(state).side_mut(side).stream;
        match stream.step(pending, limits, &mut buffer) {
            stream::Step::Data(bytes) => feed(function, side, bytes, flow, cx),
            stream::Step::Stored => waiting(function, side, flow, cx),
            stream::Step::Gap(count) => gap(function, side, count, flow, cx),
            stream::Step::End => end(function, side, flow, cx),
            stream::Step::Done => return,
        }
    }
}

/// Bytes that waited are copied out, since a buffer can't be read while
/// another is written.
#[cold]
fn waiting<N: Reader>(function: &N, side: usize, flow: &mut Flow<'_, N>, cx: &mut Context<'_>) {
    let mut piece = [0; PIECE];
    let Some((state, mut buffer)) = flow.parts(side, cx) else {
        return;
    };
    let stream = &mut N::connection_mut(state).side_mut(side).stream;
    let stored = stream.stored(buffer.as_slice());
    let count = stored.len().min(PIECE);
    let (Some(from), Some(to)) = (stored.get(..count), piece.get_mut(..count)) else {
        return;
    };
    to.copy_from_slice(from);
    stream.take(count, &mut buffer);
    feed(function, side, piece.get(..count).unwrap_or(&[]), flow, cx);
}

fn feed<N: Reader>(
    function: &N,
    side: usize,
    mut bytes: &[u8],
    flow: &mut Flow<'_, N>,
    cx: &mut Context<'_>,
) {
    let limits = function.limits();
    loop {
        let Some((state, mut store)) = flow.parts(HEADS + side, cx) else {
            return;
        };
        let message = &mut N::connection_mut(state).side_mut(side).message;
        match message.step(&mut bytes, &mut Kept(&mut store), limits.head, limits.probe) {
            message::Step::More => return,
            other => handle(function, side, other, flow, cx),
        }
    }
}

fn handle<N: Reader>(
    function: &N,
    side: usize,
    step: message::Step<'_>,
    flow: &mut Flow<'_, N>,
    cx: &mut Context<'_>,
) {
    match step {
        message::Step::Request(head) => {
            let next = function.request(side, head, flow, cx);
            settle(side, head, next, flow, cx);
        }
        message::Step::Response(head) => {
            let next = function.response(side, head, flow, cx);
            settle(side, head, next, flow, cx);
        }
        message::Step::Body(bytes) => function.body(side, bytes, flow, cx),
        message::Step::End => function.message_end(side, flow, cx),
        message::Step::TooLong => function.too_long(cx),
        message::Step::More => {}
    }
}

fn settle<N: Reader>(
    side: usize,
    head: HeadAt<'_>,
    next: Next,
    flow: &mut Flow<'_, N>,
    cx: &mut Context<'_>,
) {
    let Some((state, mut store)) = flow.parts(HEADS + side, cx) else {
        return;
    };
    if let HeadAt::Stored { len, .. } = head
        && !next.keep
    {
        cut_tail(&mut Kept(&mut store), len);
    }
    N::connection_mut(state)
        .side_mut(side)
        .message
        .body(next.body);
}

#[cold]
fn gap<N: Reader>(
    function: &N,
    side: usize,
    count: u64,
    flow: &mut Flow<'_, N>,
    cx: &mut Context<'_>,
) {
    function.gap(count, cx);
    let Some((state, mut store)) = flow.parts(HEADS + side, cx) else {
        return;
    };
    let message = &mut N::connection_mut(state).side_mut(side).message;
    if let Some(step) = message.gap(count, &mut Kept(&mut store)) {
        handle(function, side, step, flow, cx);
    }
}

fn end<N: Reader>(function: &N, side: usize, flow: &mut Flow<'_, N>, cx: &mut Context<'_>) {
    let Some((state, mut store)) = flow.parts(HEADS + side, cx) else {
        return;
    };
    let message = &mut N::connection_mut(state).side_mut(side).message;
    if let Some(step) = message.end(&mut Kept(&mut store)) {
        handle(function, side, step, flow, cx);
    }
}
