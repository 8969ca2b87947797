//! Small functions to try the engine with.
#![allow(dead_code, unreachable_pub, missing_docs)]

pub mod line;

use weir_nf::prelude::*;

/// State of [`Probe`].
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(C)]
pub struct Seen {
    pub packets: u64,
    pub first_ms: u64,
    pub random: u64,
}
impl State for Seen {
    const VERSION: u16 = 3;
}

/// What [`Probe`] does; chosen by the first byte of a packet's payload.
pub const PASS: u8 = 0;
pub const DROP: u8 = 1;
pub const LABEL: u8 = 2;
pub const TURN: u8 = 3;
pub const EMIT: u8 = 4;
pub const BUFFER: u8 = 5;
pub const REFUSE: u8 = 6;
pub const QUIET: u8 = 7;
pub const NOTHING: u8 = 8;
/// Asks for [`alias_of`] the client's end, for the flow or for its unit.
pub const ALIAS: u8 = 9;
pub const OPEN_ALIAS: u8 = 10;
/// Emits three packets.
pub const EMIT_MANY: u8 = 11;

/// The end under which a client is known outside.
pub fn alias_of(client: std::net::IpAddr, port: u16) -> (std::net::IpAddr, u16) {
    let std::net::IpAddr::V4(client) = client else {
        return (client, port);
    };
    let last = client.octets()[3];
    ([198, 51, 100, last].into(), port)
}

/// Tells in an event what it sees of each packet, and obeys the payload.
#[derive(Debug)]
pub struct Probe<const SCOPE: u8>;

const fn scope_of(number: u8) -> Scope {
    match number {
        1 => Scope::Fields(Fields::CLIENT_ADDRESS),
        2 => Scope::Fields(Fields::CLIENT_ADDRESS.and(Fields::SERVER_ADDRESS)),
        3 => Scope::Own("first-octet"),
        _ => Scope::Flow,
    }
}

weir_nf::labels! {
    /// Drop reasons.
    enum Reason: Counter<Packets> {
        /// It asked for it.
        Asked = "asked",
        /// Its flow was refused.
        Refused = "refused",
    }
}

weir_nf::labels! {
    /// Counters.
    enum Count: Counter<Packets> {
        /// Flows that were opened.
        Opened = "opened",
        /// Flows that were closed.
        Closed = "closed",
        /// Packets without a flow.
        Alone = "alone",
    }
}

impl<const SCOPE: u8> NetworkFunction for Probe<SCOPE> {
    type Settings = ();
    type State = Seen;
    type Stats = [u64; 2];
    type FlowState = ();
    const DESCRIPTOR: Descriptor = Descriptor {
        needs: Needs::Flow,
        scope: scope_of(SCOPE),
        drops: Reason::TABLE,
        labels: &["other"],
        counters: Count::TABLE,
        emits: true,
        aliases: true,
        buffers: 2,
        buffer_bytes: 4_096,
        ..Descriptor::new(
            match SCOPE {
                1 => "by-client",
                2 => "by-pair",
                3 => "by-octet",
                _ => "probe",
            },
            "Tells what it sees",
        )
    };

    fn new(_: (), _: &mut SetUp<'_>) -> Result<Self, SettingsError> {
        Ok(Probe)
    }

    fn is_client(&self, source: std::net::IpAddr, side: Side) -> bool {
        let inside = matches!(source, std::net::IpAddr::V4(a) if a.octets()[0] == 10);
        SCOPE == 1 && side == Side::Inside && inside
    }

    fn open(
        &self,
        packet: &Packet<'_>,
        _: &FlowInfo<'_>,
        cx: &mut Context<'_>,
    ) -> Result<Seen, DropReason> {
        if packet.payload().first() == Some(&REFUSE) {
            return Err(Reason::Refused.into());
        }
        cx.count(Count::Opened, 1);
        Ok(Seen {
            packets: 0,
            first_ms: cx.now().0 / 1_000_000,
            random: 0,
        })
    }

    fn process(
        &self,
        packet: &mut Packet<'_>,
        flow: &mut Flow<'_, Self>,
        cx: &mut Context<'_>,
    ) -> Verdict {
        flow.stats[0] += 1;
        let what = packet.payload().first().copied().unwrap_or(PASS);
        if what != QUIET {
            flow.state.packets += 1;
            flow.state.random = cx.random();
        }
        if what == BUFFER {
            let payload = packet.payload();
            if let Some(mut buffer) = flow.buffer(0, cx) {
                let _ = buffer.extend(payload);
            }
        }
        let (state, stats) = (*flow.state, flow.stats[0]);
        let buffered = flow.buffered(0, cx).len() as u64;
        let info = flow.info;
        cx.event(Self::DESCRIPTOR.name, &info)
            .number("n", state.packets)
            .number("clock", info.clock())
            .number("phase", info.phase() as u64)
            .number("seen", stats)
            .number("buffered", buffered)
            .number("random", state.random >> 12)
            .number("after_loss", u64::from(info.is_after_loss()))
            .number("first", u64::from(info.is_first()))
            .number("to_server", u64::from(info.to_server()));
        match what {
            DROP => Verdict::Drop(Reason::Asked.into()),
            LABEL => Verdict::Label(1),
            TURN => Verdict::Turn,
            ALIAS => {
                let (client, server) = ends(&info);
                let (outside, port) = alias_of(client.0, client.1);
                let key = info.key();
                let (zone, chain) = (key.zone(), key.chain());
                let (key, way) =
                    FlowKey::new(outside, port, server.0, server.1, key.proto(), zone, chain);
                cx.alias(key, way);
                Verdict::Pass
            }
            OPEN_ALIAS => {
                let (client, _) = ends(&info);
                let (outside, port) = alias_of(client.0, client.1);
                let key = info.key();
                let (end, _) =
                    FlowKey::one_end(outside, port, key.proto(), key.zone(), key.chain());
                cx.open_alias(end);
                Verdict::Pass
            }
            EMIT_MANY => {
                for n in 0..3 {
                    if let Some(room) = cx.emit(Side::Inside, 60) {
                        room[0] = n;
                    }
                }
                Verdict::Pass
            }
            EMIT => {
                if let Some(room) = cx.emit(Side::Outside, 60) {
                    room[0] = 0xee;
                }
                Verdict::Pass
            }
            _ => Verdict::Pass,
        }
    }

    fn without_flow(&self, _: &mut Packet<'_>, cx: &mut Context<'_>) -> Verdict {
        cx.count(Count::Alone, 1);
        let random = cx.random();
        cx.packet_event("alone").number("random", random >> 12);
        Verdict::Pass
    }

    fn close(&self, flow: &mut Flow<'_, Self>, why: CloseReason, cx: &mut Context<'_>) {
        cx.count(Count::Closed, 1);
        let info = flow.info;
        let state = *flow.state;
        cx.flow_event("closed", &info)
            .text("why", why.name())
            .text("by", Self::DESCRIPTOR.name)
            .number("n", state.packets)
            .number("first_ms", state.first_ms);
    }

    fn scope_key(&self, _: &Packet<'_>, flow: &FlowInfo<'_>) -> Option<FlowKey> {
        let (address, _) = flow.key().source(flow.client_direction());
        let std::net::IpAddr::V4(address) = address else {
            return None;
        };
        let octet = std::net::IpAddr::from([address.octets()[0], 0, 0, 0]);
        Some(FlowKey::new(octet, 0, octet, 0, 0, 0, 0).0)
    }
}

type End = (std::net::IpAddr, u16);

/// Client's and server's.
fn ends(info: &FlowInfo<'_>) -> (End, End) {
    let client = info.client_direction();
    (info.key().source(client), info.key().destination(client))
}

/// The numbers of a field over all events of a kind, in order.
pub fn numbers(events: &[String], kind: &str, field: &str) -> Vec<u64> {
    let kind = format!("\"event_type\":\"{kind}\"");
    let name = format!("\"{field}\":");
    events
        .iter()
        .filter(|line| line.contains(&kind))
        .filter_map(|line| line.split(&name).nth(1))
        .filter_map(|rest| rest.split([',', '}']).next())
        .filter_map(|value| value.parse().ok())
        .collect()
}

/// Why flows were closed, in order.
pub fn reasons(events: &[String], by: &str) -> Vec<String> {
    let by = format!("\"by\":\"{by}\"");
    events
        .iter()
        .filter(|line| line.contains("\"event_type\":\"closed\"") && line.contains(&by))
        .filter_map(|line| line.split("\"why\":\"").nth(1))
        .filter_map(|rest| rest.split('"').next().map(str::to_owned))
        .collect()
}
