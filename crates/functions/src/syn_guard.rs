//! A bound on the half-open TCP connections of each client.

use schemars::JsonSchema;
use serde::Deserialize;
use weir_nf::packet::protocol::ip;
use weir_nf::packet::tcp::flag;
use weir_nf::prelude::*;
use weir_nf::tcp_seen;

/// Settings of [`SynGuard`].
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Settings {
    /// Half-open connections that one client may have at a time; 128 if missing.
    pub max_half_open: u32,
    /// Record an event when connections of a client begin to be refused; the next one
    /// when that has ended and begins again.
    pub log: bool,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            max_half_open: 128,
            log: false,
        }
    }
}

/// State of one client.
#[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Client {
    /// Its connections that are half open.
    half_open: u32,
    /// 1 while connections are refused: one event tells of it.
    refusing: u32,
}

impl State for Client {}

/// State of one connection.
#[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Connection {
    /// 1 while it is counted in [`Client::half_open`].
    counted: u32,
}

impl State for Connection {}

/// The function.
#[derive(Debug)]
pub struct SynGuard {
    most: u32,
    log: bool,
}

weir_nf::labels! {
    /// Drop reasons.
    enum Reason: Counter<Packets> {
        /// Its client has as many half-open connections as it may.
        TooManyHalfOpen = "too_many_half_open",
    }
}

weir_nf::labels! {
    /// Counters.
    enum Count: Counter<Flows> {
        /// Half-open connections whose client answered the server.
        Completed = "completed",
        /// Half-open connections that ended without that.
        Abandoned = "abandoned",
    }
}

impl SynGuard {
    /// The connection is half open no more.
    fn release(flow: &mut Flow<'_, Self>) {
        flow.flow_state.counted = 0;
        flow.state.half_open = flow.state.half_open.saturating_sub(1);
    }

    fn refuse(&self, flow: &mut Flow<'_, Self>, cx: &mut Context<'_>) -> Verdict {
        if flow.state.refusing == 0 {
            flow.state.refusing = 1;
            if self.log && cx.wants_events() {
                cx.event("drop", &flow.info)
                    .object("drop")
                    .text("reason", "too_many_half_open")
                    .number("half_open", u64::from(flow.state.half_open))
                    .end();
            }
        }
        Verdict::Drop(Reason::TooManyHalfOpen.into())
    }
}

impl NetworkFunction for SynGuard {
    type Settings = Settings;
    type State = Client;
    type Stats = ();
    type FlowState = Connection;

    const DESCRIPTOR: Descriptor = Descriptor {
        manual: "\
Bounds the TCP connections of one client address that are half open: begun by a SYN,
without the client's answer to the server's. A client that has `max-half-open` of them
may begin no other; its SYNs are dropped as `too_many_half_open` until one of those is
complete or over. So a flood of SYNs from one address fills neither servers' backlogs
nor the flow tables behind this function. Connections that are complete are never
touched, nor what was under way already when weir came.

A flood from forged addresses has one client per SYN; it is bounded by `flows.max` and
`tcp-opening`. What is counted is a state per client and flow: all flows of a client
live together.",
        needs: Needs::Flow,
        scope: Scope::Fields(Fields::CLIENT_ADDRESS),
        reads: Parts::NETWORK.and(Parts::TRANSPORT),
        drops: Reason::TABLE,
        counters: Count::TABLE,
        events: true,
        cycles: 20,
        ..Descriptor::new("syn-guard", "bounds each client's half-open connections")
    };

    fn new(settings: Settings, _: &mut SetUp<'_>) -> Result<SynGuard, SettingsError> {
        if settings.max_half_open == 0 {
            let error = SettingsError::new("max-half-open", "0 lets no connection begin");
            return Err(error.help("use 1 or more"));
        }
        Ok(SynGuard {
            most: settings.max_half_open,
            log: settings.log,
        })
    }

    fn show(&self, state: &Client, (): &(), shown: &mut Shown) {
        shown
            .number("half_open", u64::from(state.half_open))
            .flag("refusing", state.refusing == 1);
    }

    fn show_flow(&self, state: &Connection, shown: &mut Shown) {
        shown.flag("counted", state.counted == 1);
    }

    fn process(
        &self,
        packet: &mut Packet<'_>,
        flow: &mut Flow<'_, Self>,
        cx: &mut Context<'_>,
    ) -> Verdict {
        let info = flow.info;
        if info.key().proto() != ip::TCP {
            return Verdict::Pass;
        }
        // Neither a segment before the SYN nor a FIN behind it completes a connection: a client
        // could send one to escape.
        const OVER: u16 = tcp_seen::HANDSHAKE | tcp_seen::RESET;
        let seen = info.tcp_seen();
        let half_open = seen & (tcp_seen::SYN | OVER) == tcp_seen::SYN;
        let opens = packet.headers().tcp_flags & (flag::SYN | flag::ACK) == flag::SYN;
        match (flow.flow_state.counted == 1, half_open) {
            (false, true) if !info.to_server() || !opens => Verdict::Pass,
            (false, true) if flow.state.half_open >= self.most => self.refuse(flow, cx),
            (false, true) => {
                flow.flow_state.counted = 1;
                flow.state.half_open += 1;
                if flow.state.refusing == 1 {
                    flow.state.refusing = 0;
                }
                Verdict::Pass
            }
            (true, false) => {
                SynGuard::release(flow);
                let is_reset = seen & tcp_seen::RESET != 0;
                cx.count(
                    if is_reset {
                        Count::Abandoned
                    } else {
                        Count::Completed
                    },
                    1,
                );
                Verdict::Pass
            }
            _ => Verdict::Pass,
        }
    }

    fn flow_end(&self, flow: &mut Flow<'_, Self>, _: CloseReason, cx: &mut Context<'_>) {
        if flow.flow_state.counted == 1 {
            SynGuard::release(flow);
            cx.count(Count::Abandoned, 1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_runtime::harness::{Craft, Harness};

    const SERVER: &str = "192.0.2.1:80";

    fn guard(most: u32) -> Harness {
        Harness::of::<SynGuard>(Settings {
            max_half_open: most,
            log: true,
        })
    }

    fn send(harness: &mut Harness, client: &str, flags: &str) -> usize {
        let there = flags != "SA";
        let (from, to) = if there {
            (client, SERVER)
        } else {
            (SERVER, client)
        };
        let side = if there { Side::Inside } else { Side::Outside };
        let packet = Craft::tcp(from, to).flags(flags).build();
        harness.send_from(side, &packet).len()
    }

    #[test]
    fn a_client_has_so_many_half_open_connections_and_others_have_theirs() {
        let mut harness = guard(2);
        assert_eq!(send(&mut harness, "10.0.0.1:1", "S"), 1);
        assert_eq!(send(&mut harness, "10.0.0.1:2", "S"), 1);
        assert_eq!(send(&mut harness, "10.0.0.1:3", "S"), 0);
        assert_eq!(send(&mut harness, "10.0.0.1:4", "S"), 0);
        assert_eq!(send(&mut harness, "10.0.0.2:3", "S"), 1);
        let events = harness.events();
        assert_eq!(events.len(), 1, "one tells of it: {events:?}");
        assert!(events[0].contains("\"half_open\":2"));
        // a SYN that is sent again is the same connection
        assert_eq!(send(&mut harness, "10.0.0.1:1", "S"), 1);
        // one is complete: there is room for one
        assert_eq!(send(&mut harness, "10.0.0.1:1", "SA"), 1);
        assert_eq!(send(&mut harness, "10.0.0.1:3", "S"), 0);
        assert_eq!(send(&mut harness, "10.0.0.1:1", "A"), 1);
        assert_eq!(send(&mut harness, "10.0.0.1:3", "S"), 1);
        assert_eq!(send(&mut harness, "10.0.0.1:4", "S"), 0);
        // the complete one is never touched
        assert_eq!(send(&mut harness, "10.0.0.1:1", "A"), 1);
        assert_eq!(harness.counter("syn-guard", "completed"), 1);
        harness.finish();
    }

    #[test]
    fn connections_that_are_given_up_are_counted_no_more() {
        let mut harness = guard(1);
        for client in ["10.0.0.1:1", "10.0.0.1:2", "10.0.0.1:3"] {
            assert_eq!(send(&mut harness, client, "S"), 1);
            assert_eq!(send(&mut harness, "10.0.0.1:9", "S"), 0);
            // another flow of the client, so that its state lives on
            let other = Craft::udp("10.0.0.1:5", "192.0.2.9:53").build();
            harness.advance_ms(120_000);
            assert_eq!(harness.send(&other).len(), 1);
            harness.pass_ms(121_000);
        }
        assert_eq!(harness.counter("syn-guard", "abandoned"), 3);
        harness.finish();
    }

    #[test]
    fn what_was_under_way_is_not_half_open() {
        let mut harness = guard(1);
        for port in 1..5 {
            assert_eq!(send(&mut harness, &format!("10.0.0.1:{port}"), "A"), 1);
        }
        assert_eq!(send(&mut harness, "10.0.0.1:9", "S"), 1);
        harness.finish();
    }

    #[test]
    fn a_client_moves_with_all_that_is_counted() {
        let mut here = guard(2);
        assert_eq!(send(&mut here, "10.0.0.1:1", "S"), 1);
        assert_eq!(send(&mut here, "10.0.0.1:2", "S"), 1);
        let key = here.runtime().open_flow(0).unwrap().key;
        let bytes = here.runtime().export(&key).unwrap();
        let mut there = guard(2);
        there.runtime().install(&bytes).unwrap();
        assert_eq!(there.runtime().states(), here.runtime().states());
        assert_eq!(send(&mut there, "10.0.0.1:3", "S"), 0);
        assert_eq!(send(&mut there, "10.0.0.1:1", "SA"), 1);
        assert_eq!(send(&mut there, "10.0.0.1:1", "A"), 1);
        assert_eq!(send(&mut there, "10.0.0.1:3", "S"), 1);
        there.finish();
        here.finish();
        assert_eq!(there.counter("syn-guard", "abandoned"), 2);
    }

    #[test]
    fn zero_is_refused() {
        let settings = Settings {
            max_half_open: 0,
            log: false,
        };
        let error = Harness::builder().with::<SynGuard>(settings).err();
        assert!(error.is_some_and(|error| error.path == "max-half-open"));
    }

    #[test]
    fn no_segment_beside_the_handshake_hides_a_half_open_connection() {
        let mut harness = guard(1);
        assert_eq!(send(&mut harness, "10.0.0.1:1", "A"), 1);
        assert_eq!(send(&mut harness, "10.0.0.1:1", "S"), 1);
        assert_eq!(send(&mut harness, "10.0.0.1:2", "A"), 1);
        assert_eq!(send(&mut harness, "10.0.0.1:2", "S"), 0);
        assert_eq!(send(&mut harness, "10.0.0.1:1", "FA"), 1);
        assert_eq!(send(&mut harness, "10.0.0.1:3", "S"), 0);
        harness.finish();
    }
}
