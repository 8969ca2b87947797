//! The function `url-counter`: how often each URL was asked for.

use schemars::JsonSchema;
use serde::Deserialize;
use weir_nf::prelude::*;

use crate::http::Reading;
use crate::http::reader::{
    BUFFER_BYTES, BUFFERS, Connection, HttpLimits, Next, Reader, finish, head_bytes, packet,
};
use weir_dissect::http::head::RequestHead;
use weir_dissect::http::message::HeadAt;

/// Settings of [`UrlCounter`].
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Settings {
    /// Count by host and path; without it by path alone.
    pub host: bool,
    /// Let the query (from `?`) be a part of what is counted.
    pub query: bool,
    /// Ports on which HTTP is looked for, and limits of the reader.
    pub reading: Reading,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            host: true,
            query: false,
            reading: Reading::default(),
        }
    }
}

/// Counts requests per URL.
#[derive(Debug)]
pub struct UrlCounter {
    host: bool,
    query: bool,
    reading: Reading,
    limits: HttpLimits,
}

/// State of [`UrlCounter`] for one connection.
#[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct UrlCounterState {
    connection: Connection,
}

impl State for UrlCounterState {
    const VERSION: u16 = 1;
}

weir_nf::labels! {
    /// Counters.
    enum Count: Counter<Packets> {
        /// Requests that were read.
        Requests = "requests": Counter<Times>,
        /// URLs that were new.
        Urls = "urls": Counter<Times>,
        /// Requests for URLs that the table had no place for.
        Overflow = "overflow": Counter<Times>,
    }
}

/// Longest name that is counted; longer ones are cut.
const NAME: usize = weir_nf::LONGEST_TALLY_NAME;

impl NetworkFunction for UrlCounter {
    type Settings = Settings;
    type State = UrlCounterState;
    type Stats = ();
    type FlowState = ();

    const DESCRIPTOR: Descriptor = Descriptor {
        manual: "Counts HTTP/1.x requests per URL (host and path, without the query unless told otherwise) \
in a table of 16,384 names, which the summary shows. Requests are read on any TCP port and across \
segments, as `http` does. Names longer than 120 bytes are cut; hosts are counted in lower case.\n\n\
When the table is full, requests for new URLs are counted as `overflow` and stand under \"other\". The \
table is a counter, not a state: a crash may lose what was counted since it was last copied.",
        needs: Needs::Flow,
        reads: Parts::NETWORK.and(Parts::TRANSPORT).and(Parts::PAYLOAD),
        counters: Count::TABLE,
        tally: 16_384,
        buffers: BUFFERS,
        buffer_bytes: BUFFER_BYTES,
        cycles: 60,
        ..Descriptor::new("url-counter", "counts HTTP requests per URL")
    };

    fn new(settings: Settings, _: &mut SetUp<'_>) -> Result<UrlCounter, SettingsError> {
        let limits = settings.reading.limits()?;
        Ok(UrlCounter {
            host: settings.host,
            query: settings.query,
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

    fn show(&self, state: &UrlCounterState, (): &(), shown: &mut Shown) {
        state.connection.show(shown);
    }

    fn close(&self, flow: &mut Flow<'_, Self>, _: CloseReason, cx: &mut Context<'_>) {
        finish(self, flow, cx);
    }
}

impl Reader for UrlCounter {
    fn connection(state: &UrlCounterState) -> &Connection {
        &state.connection
    }

    fn connection_mut(state: &mut UrlCounterState) -> &mut Connection {
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
        let request = RequestHead::parse(head_bytes(side, head, flow, cx));
        let body = request.body();
        let (name, len) = self.name(&request);
        cx.count(Count::Requests, 1);
        match cx.tally(name.get(..len).unwrap_or(&name), 1) {
            Some(0) => cx.count(Count::Urls, 1),
            Some(_) => {}
            None => cx.count(Count::Overflow, 1),
        }
        Next { body, keep: false }
    }
}

impl UrlCounter {
    fn name(&self, request: &RequestHead<'_>) -> ([u8; NAME], usize) {
        let (mut name, mut len) = ([0; NAME], 0);
        let mut add = |bytes: &[u8], lower: bool| {
            for (place, &b) in name.iter_mut().skip(len).zip(bytes) {
                *place = if lower { b.to_ascii_lowercase() } else { b };
                len += 1;
            }
        };
        if self.host {
            add(request.hostname().unwrap_or(&[]), true);
        }
        let path = request.path_and_query();
        let path = match path.iter().position(|&b| b == b'?') {
            Some(at) if !self.query => path.get(..at).unwrap_or(path),
            _ => path,
        };
        // CONNECT names a host and no path.
        if !(self.host && request.line.method == b"CONNECT") {
            add(if path.is_empty() { b"/" } else { path }, false);
        }
        (name, len)
    }
}
