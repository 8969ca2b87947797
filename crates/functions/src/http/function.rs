//! The function `http`: one event per transaction.

use schemars::JsonSchema;
use serde::Deserialize;
use weir_nf::prelude::*;
use weir_nf::{Event, SideBuffers};

use super::reader::{
    BUFFER_BYTES, BUFFERS, Connection, HEADS, HttpLimits, Next, Reader, direction_of, finish,
    head_bytes, packet,
};
use super::settings::Reading;
use weir_dissect::http::ending::{HeadOf, head_end};
use weir_dissect::http::head::{RequestHead, ResponseHead};
use weir_dissect::http::message::HeadAt;

/// Settings of [`Http`].
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Settings {
    /// Ports on which HTTP is looked for, and limits of the reader.
    pub reading: Reading,
}

/// Reports HTTP transactions.
#[derive(Debug)]
pub struct Http {
    reading: Reading,
    limits: HttpLimits,
}

/// State of [`Http`] for one connection. The heads of requests that wait for their responses are
/// in the side buffer of their sender, oldest first, before the head that is being put together.
#[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct HttpState {
    connection: Connection,
    queues: [Queue; 2],
}

impl State for HttpState {
    const VERSION: u16 = 1;
}

/// Requests of one sender.
#[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Queue {
    /// Bytes of heads that wait.
    bytes: u32,
    /// Heads that wait.
    waiting: u16,
    /// Responses to come to requests that were reported without them.
    reported: u16,
}

/// Bytes of heads that may wait for responses; with the largest head they fit
/// a buffer.
const MOST_WAITING: u32 = BUFFER_BYTES / 4;

weir_nf::labels! {
    /// Counters.
    enum Count: Counter<Packets> {
        /// Requests that were read.
        Requests = "requests": Counter<Times>,
        /// Responses that were read.
        Responses = "responses": Counter<Times>,
        /// Requests that were reported without a response.
        Unanswered = "unanswered": Counter<Times>,
        /// Responses whose request was not seen.
        OrphanResponses = "orphan_responses": Counter<Times>,
        /// Bytes of streams that were not seen.
        LostBytes = "lost_bytes": Counter<Bytes>,
        /// Heads longer than `head-limit`.
        TooLong = "too_long": Counter<Times>,
    }
}

impl NetworkFunction for Http {
    type Settings = Settings;
    type State = HttpState;
    type Stats = ();
    type FlowState = ();

    const DESCRIPTOR: Descriptor = Descriptor {
        manual: "Reads HTTP/1.x in TCP connections on any port and records an `http` event per \
transaction with Suricata's fields (hostname, url, http_user_agent, http_content_type, http_refer, \
http_method, protocol, status, redirect, length). Every request is reported: with its response when the \
response's head is complete, or alone when the flow ends, when too many wait, or when a part of it is \
lost. A response whose request was not seen is reported alone.\n\n\
Segments are put in order within a bounded window. Keep-alive, pipelining, chunked bodies with trailers, \
1xx responses, HEAD, 204, 304, CONNECT and upgrades, folded fields, bare line feeds, HTTP/0.9 requests \
and bytes between messages are understood (RFC 9110, RFC 9112). Where bytes are lost inside a body whose \
length is known they are skipped by count; elsewhere reading goes on at the next first line. \
`length` is the response's Content-Length.\n\n\
Limits: bodies are not decoded; HTTP/2 and TLS are not read; of a head longer than `head-limit` only \
what fits is read.",
        needs: Needs::Flow,
        reads: Parts::NETWORK.and(Parts::TRANSPORT).and(Parts::PAYLOAD),
        counters: Count::TABLE,
        buffers: BUFFERS,
        buffer_bytes: BUFFER_BYTES,
        events: true,
        cycles: 80,
        ..Descriptor::new("http", "reports HTTP requests and responses")
    };

    fn new(settings: Settings, _: &mut SetUp<'_>) -> Result<Http, SettingsError> {
        let limits = settings.reading.limits()?;
        Ok(Http {
            reading: settings.reading,
            limits,
        })
    }

    fn process(
        &self,
        seen: &mut Packet<'_>,
        flow: &mut Flow<'_, Self>,
        cx: &mut Context<'_>,
    ) -> Verdict {
        if seen.headers().is_tcp() && self.reading.wants(flow.info.key()) {
            packet(self, seen, flow, cx);
        }
        Verdict::Pass
    }

    fn show(&self, state: &HttpState, (): &(), shown: &mut Shown) {
        state.connection.show(shown);
        for (queue, name) in state.queues.iter().zip(["side_0", "side_1"]) {
            shown.within(name, |shown| {
                shown
                    .number("heads_waiting", queue.waiting)
                    .number("bytes_waiting", queue.bytes)
                    .number("reported_early", queue.reported);
            });
        }
    }

    fn close(&self, flow: &mut Flow<'_, Self>, _: CloseReason, cx: &mut Context<'_>) {
        finish(self, flow, cx);
        for side in 0..2 {
            self.report_waiting(side, flow, cx);
        }
    }
}

impl Reader for Http {
    fn connection(state: &HttpState) -> &Connection {
        &state.connection
    }

    fn connection_mut(state: &mut HttpState) -> &mut Connection {
        &mut state.connection
    }

    fn limits(&self) -> &HttpLimits {
        &self.limits
    }

    fn request(
        &self,
        side: usize,
        head: HeadAt<'_>,
        flow: &mut Flow<'_, Self>,
        cx: &mut Context<'_>,
    ) -> Next {
        cx.count(Count::Requests, 1);
        let body = RequestHead::parse(head_bytes(side, head, flow, cx)).body();
        let kept = match head {
            HeadAt::Packet(bytes) => flow
                .buffer(HEADS + side, cx)
                .is_some_and(|mut store| store.extend(bytes).is_ok())
                .then_some(bytes.len() as u32),
            HeadAt::Stored { len, whole } => whole.then_some(len),
        };
        let queue = &mut flow.state.queues[side & 1];
        if let Some(len) = kept
            && queue.waiting < u16::MAX
        {
            queue.bytes += len;
            queue.waiting += 1;
            if queue.bytes > MOST_WAITING {
                self.report_waiting(side, flow, cx);
            }
            return Next { body, keep: true };
        }
        // In order: what waits first. The bytes of this head, if stored, are
        // behind theirs.
        self.report_waiting(side, flow, cx);
        let queue = &mut flow.state.queues[side & 1];
        queue.reported = queue.reported.saturating_add(1);
        report(side, Some(Source::Given(head)), None, flow, cx);
        cx.count(Count::Unanswered, 1);
        Next { body, keep: false }
    }

    fn response(
        &self,
        side: usize,
        head: HeadAt<'_>,
        flow: &mut Flow<'_, Self>,
        cx: &mut Context<'_>,
    ) -> Next {
        cx.count(Count::Responses, 1);
        let asker = 1 - side;
        let queue = flow.state.queues[asker & 1];
        let response = ResponseHead::parse(head_bytes(side, head, flow, cx));
        let interim = response.is_interim();
        let switches = response.line.status == 101;
        let answers = queue.waiting > 0 && queue.reported == 0;
        let request = if answers {
            let heads = flow.buffered(HEADS + asker, cx);
            let heads = heads.get(..queue.bytes as usize).unwrap_or(heads);
            let end = head_end(heads, HeadOf::Request).unwrap_or(heads.len());
            RequestHead::parse(heads.get(..end).unwrap_or(heads))
        } else {
            RequestHead::default()
        };
        let method = request.line.method;
        // With more requests behind it, its body has come.
        let refused =
            request.fields.expects_continue && response.line.status >= 300 && queue.waiting == 1;
        let body = response.body(method);
        let tunnel = body == weir_dissect::http::head::Body::Tunnel;
        let keep = false;
        if interim {
            return Next { body, keep };
        }
        if answers {
            report(asker, Some(Source::Waiting), Some((side, head)), flow, cx);
            pop(asker, flow, cx);
        } else if queue.reported > 0 {
            flow.state.queues[asker & 1].reported -= 1;
        } else {
            cx.count(Count::OrphanResponses, 1);
            report(asker, None, Some((side, head)), flow, cx);
        }
        if refused {
            flow.state.connection.body_withheld(asker);
        }
        if tunnel || switches {
            flow.state.connection.redetect(asker);
        }
        Next { body, keep }
    }

    fn gap(&self, bytes: u64, cx: &mut Context<'_>) {
        cx.count(Count::LostBytes, bytes);
    }

    fn too_long(&self, cx: &mut Context<'_>) {
        cx.count(Count::TooLong, 1);
    }
}

impl Http {
    /// Reports requests that wait, without their responses.
    fn report_waiting(&self, side: usize, flow: &mut Flow<'_, Self>, cx: &mut Context<'_>) {
        while flow.state.queues[side & 1].waiting > 0 {
            report(side, Some(Source::Waiting), None, flow, cx);
            pop(side, flow, cx);
            let queue = &mut flow.state.queues[side & 1];
            queue.reported = queue.reported.saturating_add(1);
            cx.count(Count::Unanswered, 1);
        }
    }
}

/// Forgets the oldest request that waits.
fn pop(side: usize, flow: &mut Flow<'_, Http>, cx: &mut Context<'_>) {
    let queued = flow.state.queues[side & 1].bytes as usize;
    let Some((state, mut store)) = flow.parts(HEADS + side, cx) else {
        return;
    };
    let queue = &mut state.queues[side & 1];
    queue.waiting = queue.waiting.saturating_sub(1);
    let heads = store.as_slice();
    let len = match head_end(heads.get(..queued).unwrap_or(heads), HeadOf::Request) {
        Some(len) if queue.waiting > 0 => len,
        _ => queued,
    };
    store.consume(len);
    queue.bytes -= len as u32;
}

/// Memory that holds a request's head.
#[derive(Clone, Copy)]
enum Source<'p> {
    /// First in the queue.
    Waiting,
    /// As the reader gave it.
    Given(HeadAt<'p>),
}

/// Records the event of a transaction; `asker` sent the request.
fn report(
    asker: usize,
    request: Option<Source<'_>>,
    response: Option<(usize, HeadAt<'_>)>,
    flow: &Flow<'_, Http>,
    cx: &mut Context<'_>,
) {
    let queued = flow.state.queues[asker & 1].bytes as usize;
    let direction = direction_of(asker, &flow.info);
    let (mut event, buffers) = flow.event("http", direction, cx);
    event.object("http");
    let request = request.map(|source| match source {
        Source::Given(head) => bytes_of(asker, head, buffers),
        Source::Waiting => {
            let heads = buffers.get(HEADS + asker);
            let heads = heads.get(..queued).unwrap_or(heads);
            heads
                .get(..head_end(heads, HeadOf::Request).unwrap_or(heads.len()))
                .unwrap_or(heads)
        }
    });
    if let Some(bytes) = request {
        write_request(&mut event, &RequestHead::parse(bytes));
    }
    if let Some((side, head)) = response {
        let head = ResponseHead::parse(bytes_of(side, head, buffers));
        if request.is_none() {
            event.bytes("protocol", head.line.version);
        }
        write_response(&mut event, &head);
    }
    event.end();
}

fn bytes_of<'b>(side: usize, head: HeadAt<'b>, buffers: SideBuffers<'b>) -> &'b [u8] {
    match head {
        HeadAt::Packet(bytes) => bytes,
        HeadAt::Stored { len, .. } => {
            let all = buffers.get(HEADS + side);
            all.get(all.len().saturating_sub(len as usize)..)
                .unwrap_or(&[])
        }
    }
}

fn write_request(event: &mut Event<'_>, head: &RequestHead<'_>) {
    if let Some(host) = head.hostname() {
        event.bytes("hostname", host);
    }
    event.bytes("url", head.line.target);
    if let Some(agent) = head.fields.user_agent {
        event.bytes("http_user_agent", agent);
    }
    if let Some(referer) = head.fields.referer {
        event.bytes("http_refer", referer);
    }
    event.bytes("http_method", head.line.method);
    let version = head.line.version;
    event.bytes(
        "protocol",
        if version.is_empty() {
            b"HTTP/0.9"
        } else {
            version
        },
    );
}

fn write_response(event: &mut Event<'_>, head: &ResponseHead<'_>) {
    if let Some(kind) = head.fields.content_type {
        let bare = kind.split(|&b| b == b';').next().unwrap_or(kind);
        event.bytes("http_content_type", bare.trim_ascii());
    }
    event.number("status", u64::from(head.line.status));
    if (300..400).contains(&head.line.status)
        && let Some(location) = head.fields.location
    {
        event.bytes("redirect", location);
    }
    if let Some(length) = head.fields.content_length {
        event.number("length", length);
    }
}
