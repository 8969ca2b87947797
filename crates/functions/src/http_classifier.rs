//! The function `http-classifier`: HTTP or not, by a flow's first bytes.

use schemars::JsonSchema;
use serde::Deserialize;
use weir_nf::prelude::*;

use weir_dissect::http::line::{LONGEST_OPENING, Start, classify_opening};

/// Settings of [`HttpClassifier`].
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Settings {
    /// TCP ports of servers that are taken for HTTP until a flow's first bytes
    /// tell.
    pub ports: Vec<u16>,
    /// Look at a flow's first bytes; without it the ports alone decide.
    pub payload: bool,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            ports: vec![80, 3128, 8000, 8008, 8080, 8888],
            payload: true,
        }
    }
}

/// Tells HTTP from everything else.
#[derive(Debug)]
pub struct HttpClassifier {
    ports: Vec<u16>,
    payload: bool,
}

/// State of [`HttpClassifier`] for one flow.
#[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct HttpClassifierState {
    /// 0 HTTP, 1 other: the label.
    label: u8,
    /// 1 once the first bytes have told.
    decided: u8,
    /// First bytes seen so far, while they are too few, and from whom.
    len: u8,
    from_server: u8,
    first: [u8; LONGEST_OPENING],
}

impl State for HttpClassifierState {
    const VERSION: u16 = 1;
}

const OTHER: Verdict = Verdict::Label(1);
weir_nf::labels! {
    /// Counters.
    enum Count: Counter<Packets> {
        /// Flows that are HTTP.
        HttpFlows = "http_flows": Counter<Flows>,
        /// Flows that are not.
        OtherFlows = "other_flows": Counter<Flows>,
    }
}

impl NetworkFunction for HttpClassifier {
    type Settings = Settings;
    type State = HttpClassifierState;
    type Stats = ();
    type FlowState = ();

    const DESCRIPTOR: Descriptor = Descriptor {
        manual: "Sends HTTP/1.x on by `pass` and everything else by `other`. The first bytes that either \
side of a TCP flow sends decide: a known method and a space, or `HTTP/` and a digit. What was decided is \
remembered for the flow's life. Until then (the handshake), and for good with `payload: false`, the \
server's port decides. Packets that are not TCP, or belong to no flow, go by `other`.\n\n\
Limits: the first bytes are taken as they arrive (no reassembly); a request after a STARTTLS-like \
upgrade changes nothing.",
        needs: Needs::Flow,
        reads: Parts::NETWORK.and(Parts::TRANSPORT).and(Parts::PAYLOAD),
        labels: &["other"],
        counters: Count::TABLE,
        cycles: 12,
        ..Descriptor::new("http-classifier", "tells HTTP from other traffic")
    };

    fn new(settings: Settings, _: &mut SetUp<'_>) -> Result<HttpClassifier, SettingsError> {
        if !settings.payload && settings.ports.is_empty() {
            return Err(SettingsError::new(
                "ports",
                "without ports and payload nothing tells HTTP",
            )
            .help("list the ports of HTTP servers, or set payload to true"));
        }
        Ok(HttpClassifier {
            ports: settings.ports,
            payload: settings.payload,
        })
    }

    fn open(
        &self,
        packet: &Packet<'_>,
        flow: &FlowInfo<'_>,
        cx: &mut Context<'_>,
    ) -> Result<HttpClassifierState, DropReason> {
        let mut state = HttpClassifierState::default();
        let key = flow.key();
        let tcp = packet.headers().is_tcp();
        // A flow under way may have been picked up at a packet of its server.
        let http = tcp
            && [Direction::Forward, Direction::Reverse]
                .iter()
                .any(|&d| self.ports.contains(&key.destination(d).1));
        state.label = u8::from(!http);
        if !tcp || !self.payload {
            state.decided = 1;
            cx.count(
                if http {
                    Count::HttpFlows
                } else {
                    Count::OtherFlows
                },
                1,
            );
        }
        Ok(state)
    }

    #[inline(always)]
    fn show(&self, state: &HttpClassifierState, (): &(), shown: &mut Shown) {
        let class = match (state.decided, state.label) {
            (0, _) => "undecided",
            (_, 0) => "http",
            _ => "other",
        };
        shown
            .text("class", class)
            .number("opening_bytes", state.len);
    }

    fn process(
        &self,
        packet: &mut Packet<'_>,
        flow: &mut Flow<'_, Self>,
        cx: &mut Context<'_>,
    ) -> Verdict {
        if flow.state.decided == 0 {
            decide(packet, flow, cx);
        }
        if flow.state.label == 0 {
            Verdict::Pass
        } else {
            OTHER
        }
    }

    fn without_flow(&self, _: &mut Packet<'_>, _: &mut Context<'_>) -> Verdict {
        OTHER
    }
}

#[cold]
fn decide(packet: &Packet<'_>, flow: &mut Flow<'_, HttpClassifier>, cx: &mut Context<'_>) {
    let payload = packet.payload();
    if payload.is_empty() {
        return;
    }
    let from_server = u8::from(!flow.info.to_server());
    let state = &mut *flow.state;
    if state.len > 0 && state.from_server != from_server {
        return; // the first speaker's bytes decide
    }
    state.from_server = from_server;
    let start = usize::from(state.len);
    for (place, &b) in state.first.iter_mut().skip(start).zip(payload) {
        *place = b;
        state.len += 1;
    }
    let seen = state.first.get(..usize::from(state.len)).unwrap_or(&[]);
    let (label, counter) = match classify_opening(seen) {
        Start::NeedMore => return,
        Start::No => (1, Count::OtherFlows),
        Start::Request | Start::Response => (0, Count::HttpFlows),
    };
    state.label = label;
    state.decided = 1;
    cx.count(counter, 1);
}
