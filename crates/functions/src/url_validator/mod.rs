//! The function `url-validator`: attacks in the URLs of HTTP requests.

mod normalize;
mod patterns;
mod settings;

use weir_nf::prelude::*;

use crate::http::Reading;
use crate::http::reader::{
    BUFFER_BYTES, BUFFERS, Connection, HEADS, HttpLimits, Next, Reader, direction_of, finish,
    head_bytes, packet,
};
use patterns::{Finding, Patterns};
pub use settings::{Action, Settings};
use weir_dissect::http::head::{Body, RequestHead};
use weir_dissect::http::line::starts_with_ignoring_case;
use weir_dissect::http::message::HeadAt;

/// Most bytes of a form that are looked at.
const FORM_BYTES: usize = 8 * 1024;

/// Finds attacks in URLs.
#[derive(Debug)]
pub struct UrlValidator {
    action: Action,
    form_body: bool,
    patterns: Patterns,
    reading: Reading,
    limits: HttpLimits,
}

/// State of [`UrlValidator`] for one connection. A form that is being collected is in the side
/// buffer of its sender's heads.
#[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct UrlValidatorState {
    connection: Connection,
    /// 1 once an attack was found and the connection is blocked.
    blocked: u8,
    /// Per direction: 1 while a form is collected.
    collecting: [u8; 2],
    pad: [u8; 5],
}

impl State for UrlValidatorState {
    const VERSION: u16 = 1;
}

weir_nf::labels! {
    /// Drop reasons.
    enum Reason: Counter<Packets> {
        /// The URL that its flow asked for looks like an attack.
        Blocked = "blocked",
    }
}

weir_nf::labels! {
    /// Counters.
    enum Count: Counter<Packets> {
        /// Requests that were looked at.
        Requests = "requests": Counter<Times>,
        /// Requests that look like an attack.
        Alerts = "alerts": Counter<Times>,
    }
}

impl NetworkFunction for UrlValidator {
    type Settings = Settings;
    type State = UrlValidatorState;
    type Stats = ();
    type FlowState = ();

    const DESCRIPTOR: Descriptor = Descriptor {
        manual: "Looks for attacks in the targets of HTTP/1.x requests, on any TCP port and across \
segments, and records an `alert` event (gid 1; 1000001 SQL injection, 1000002 cross-site scripting, \
1000003 path traversal, 1000004 patterns of the settings). With `action: drop` the packet that completes \
the request and all that follow on the connection are dropped as `blocked`.\n\n\
Before the comparison percent-encoding is undone (also twice), `+` becomes a space, letters become lower \
case, and SQL comments and runs of white space become one space. Patterns of SQL injection: union select, \
union all select, union distinct select, (select , ;select , ; select , ;drop , ; drop , ;insert into, \
; insert into, ;delete from, ; delete from, ;update , ; update , ;exec, ; exec, information_schema, \
sqlite_master, xp_cmdshell, sleep( behind and/or/select/comma, benchmark(, pg_sleep(, waitfor delay, \
load_file(, into outfile, into dumpfile, extractvalue(, updatexml(, '-- , ' -- , and a condition on two \
numbers or two quoted texts behind or, and, having, ||, &&.\n\n\
Limits: no full SQL parser; heads longer than `reading.head-limit` are judged by what fits; cookies and \
other fields are not looked at.",
        needs: Needs::Flow,
        reads: Parts::NETWORK.and(Parts::TRANSPORT).and(Parts::PAYLOAD),
        drops: Reason::TABLE,
        counters: Count::TABLE,
        buffers: BUFFERS,
        buffer_bytes: BUFFER_BYTES,
        events: true,
        cycles: 60,
        ..Descriptor::new(
            "url-validator",
            "finds SQL injection and other attacks in URLs",
        )
    };

    fn new(settings: Settings, _: &mut SetUp<'_>) -> Result<UrlValidator, SettingsError> {
        let limits = settings.reading.limits()?;
        Ok(UrlValidator {
            action: settings.action,
            form_body: settings.form_body,
            patterns: Patterns::new(&settings)?,
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
        if flow.state.blocked != 0 {
            return Verdict::Drop(Reason::Blocked.into());
        }
        if seen.headers().is_tcp() && self.reading.wants(flow.info.key()) {
            packet(self, seen, flow, cx);
            if flow.state.blocked != 0 {
                return Verdict::Drop(Reason::Blocked.into());
            }
        }
        Verdict::Pass
    }

    fn show(&self, state: &UrlValidatorState, (): &(), shown: &mut Shown) {
        shown.flag("blocked", state.blocked != 0);
        state.connection.show(shown);
        let names = ["side_0.collecting", "side_1.collecting"];
        for (name, collecting) in names.into_iter().zip(state.collecting) {
            shown.flag(name, collecting != 0);
        }
    }

    fn close(&self, flow: &mut Flow<'_, Self>, _: CloseReason, cx: &mut Context<'_>) {
        if flow.state.blocked == 0 {
            finish(self, flow, cx);
        }
    }
}

impl Reader for UrlValidator {
    fn connection(state: &UrlValidatorState) -> &Connection {
        &state.connection
    }

    fn connection_mut(state: &mut UrlValidatorState) -> &mut Connection {
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
        let request = RequestHead::parse(head_bytes(side, head, flow, cx));
        let body = request.body();
        let finding = self.patterns.search(request.line.target);
        let form = self.form_body
            && body != Body::None
            && request.fields.content_type.is_some_and(|kind| {
                starts_with_ignoring_case(kind, b"application/x-www-form-urlencoded")
            });
        if let Some(finding) = finding {
            self.raise(side, Some(head), &finding, flow, cx);
        }
        if flow.state.collecting[side & 1] != 0 {
            // Bytes were lost before the end of the last form.
            let stored = match head {
                HeadAt::Packet(_) => 0,
                HeadAt::Stored { len, .. } => len as usize,
            };
            if let Some(mut store) = flow.buffer(HEADS + side, cx) {
                let left = store.len().saturating_sub(stored);
                store.consume(left);
            }
        }
        if flow.state.collecting[side & 1] != u8::from(form) {
            flow.state.collecting[side & 1] = u8::from(form);
        }
        Next { body, keep: false }
    }

    fn body(&self, side: usize, bytes: &[u8], flow: &mut Flow<'_, Self>, cx: &mut Context<'_>) {
        if flow.state.collecting[side & 1] == 0 {
            return;
        }
        let Some(mut form) = flow.buffer(HEADS + side, cx) else {
            return;
        };
        let room = FORM_BYTES.saturating_sub(form.len()).min(bytes.len());
        let stored = form.extend(bytes.get(..room).unwrap_or(&[])).is_ok();
        if !stored || room < bytes.len() {
            self.judge_form(side, flow, cx);
        }
    }

    fn message_end(&self, side: usize, flow: &mut Flow<'_, Self>, cx: &mut Context<'_>) {
        self.judge_form(side, flow, cx);
    }
}

impl UrlValidator {
    fn judge_form(&self, side: usize, flow: &mut Flow<'_, Self>, cx: &mut Context<'_>) {
        if flow.state.collecting[side & 1] == 0 {
            return;
        }
        flow.state.collecting[side & 1] = 0;
        let finding = self.patterns.search(flow.buffered(HEADS + side, cx));
        if let Some(finding) = finding {
            self.raise(side, None, &finding, flow, cx);
        }
        if let Some(mut form) = flow.buffer(HEADS + side, cx) {
            form.clear();
        }
    }

    fn raise(
        &self,
        side: usize,
        head: Option<HeadAt<'_>>,
        finding: &Finding<'_>,
        flow: &mut Flow<'_, Self>,
        cx: &mut Context<'_>,
    ) {
        cx.count(Count::Alerts, 1);
        let action = match self.action {
            Action::Alert => "allowed",
            Action::Drop => {
                flow.state.blocked = 1;
                "blocked"
            }
        };
        let direction = direction_of(side, &flow.info);
        let (mut event, buffers) = flow.event("alert", direction, cx);
        event
            .object("alert")
            .text("action", action)
            .number("gid", 1)
            .number("signature_id", finding.class.id())
            .number("rev", 1)
            .text("signature", finding.class.signature())
            .text("category", "Web Application Attack")
            .number("severity", 1)
            .text("pattern", finding.pattern)
            .end();
        let Some(head) = head else {
            return;
        };
        let bytes = match head {
            HeadAt::Packet(bytes) => bytes,
            HeadAt::Stored { len, .. } => {
                let all = buffers.get(HEADS + side);
                all.get(all.len().saturating_sub(len as usize)..)
                    .unwrap_or(&[])
            }
        };
        let request = RequestHead::parse(bytes);
        event.object("http");
        if let Some(host) = request.hostname() {
            event.bytes("hostname", host);
        }
        event
            .bytes("url", request.line.target)
            .bytes("http_method", request.line.method)
            .end();
    }
}
