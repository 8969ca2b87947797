//! Further names of flows and units.

mod common;

use std::net::IpAddr;

use common::{numbers, reasons};
use weir_nf::host::FlowOptions;
use weir_nf::prelude::*;
use weir_runtime::harness::{Craft, Harness};

/// Gives each flow's (or client's) first packet the name 198.51.100.1 with
/// the client's port on the outside.
#[derive(Debug)]
struct Namer<const OPEN: bool>;

#[derive(Clone, Copy, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct Count {
    packets: u64,
}
impl State for Count {}

impl<const OPEN: bool> NetworkFunction for Namer<OPEN> {
    type Settings = ();
    type State = Count;
    type Stats = ();
    type FlowState = ();
    const DESCRIPTOR: Descriptor = Descriptor {
        needs: Needs::Flow,
        scope: if OPEN {
            Scope::Fields(Fields::CLIENT_ADDRESS)
        } else {
            Scope::Flow
        },
        aliases: true,
        ..Descriptor::new("namer", "Names flows")
    };

    fn new(_: (), _: &mut SetUp<'_>) -> Result<Self, SettingsError> {
        Ok(Namer)
    }

    fn process(
        &self,
        packet: &mut Packet<'_>,
        flow: &mut Flow<'_, Self>,
        cx: &mut Context<'_>,
    ) -> Verdict {
        flow.state.packets += 1;
        let info = flow.info;
        if info.is_first() && packet.side() == Side::Inside {
            let key = info.key();
            let (_, port) = key.source(info.client_direction());
            let (server, server_port) = key.destination(info.client_direction());
            let outside = IpAddr::from([198, 51, 100, 1]);
            if OPEN {
                let (end, _) = FlowKey::one_end(outside, port, key.proto(), 0, 0);
                cx.open_alias(end);
            } else {
                let (name, client) =
                    FlowKey::new(outside, port, server, server_port, key.proto(), 0, 0);
                cx.alias(name, client);
            }
        }
        cx.event("packet", &info)
            .number("n", flow.state.packets)
            .number("to_server", u64::from(info.to_server()));
        Verdict::Pass
    }

    fn close(&self, flow: &mut Flow<'_, Self>, why: CloseReason, cx: &mut Context<'_>) {
        let info = flow.info;
        cx.flow_event("closed", &info)
            .text("why", why.name())
            .text("by", "namer");
    }
}

fn harness<const OPEN: bool>(max: u32) -> Harness {
    let builder = Harness::builder().flows(FlowOptions {
        max,
        ..FlowOptions::default()
    });
    builder.with::<Namer<OPEN>>(()).expect("none").build()
}

fn out(port: u16) -> Vec<u8> {
    Craft::udp(&format!("10.0.0.1:{port}"), "192.0.2.1:53").build()
}

fn back(from: &str, port: u16) -> Vec<u8> {
    Craft::udp(from, &format!("198.51.100.1:{port}")).build()
}

#[test]
fn lead_to_the_flow_in_the_right_direction_and_go_with_it() {
    let mut harness = harness::<false>(100);
    for (client, high) in [(1_000, false), (60_000, true)] {
        harness.send(&out(client));
        harness.send_from(Side::Outside, &back("192.0.2.1:53", client));
        // what the client sends under its outside name, too
        harness.send(&Craft::udp(&format!("198.51.100.1:{client}"), "192.0.2.1:53").build());
        let events = harness.events();
        assert_eq!(numbers(&events, "packet", "n"), [1, 2, 3], "{high}");
        assert_eq!(numbers(&events, "packet", "to_server"), [1, 0, 1]);
    }
    let report = harness.report();
    assert_eq!((report.flows.seen, report.flows.aliases), (2, 2));
    harness.advance_ms(400_000);
    harness.send_from(Side::Outside, &back("192.0.2.1:53", 1_000));
    let report = harness.report();
    assert_eq!((report.flows.seen, report.flows.aliases), (3, 0));
    harness.finish();
}

#[test]
fn end_a_flow_that_came_before_also_in_one_burst() {
    let mut harness = harness::<false>(100);
    harness.send_from(Side::Outside, &back("192.0.2.1:53", 1_000));
    harness.send(&out(1_000));
    assert_eq!(reasons(&harness.events(), "namer"), ["reused"]);
    harness.send_from(Side::Outside, &back("192.0.2.1:53", 1_000));
    assert_eq!(numbers(&harness.events(), "packet", "n"), [2]);
    harness.queue(Side::Outside, &back("192.0.2.1:53", 2_000));
    harness.queue(Side::Inside, &out(2_000));
    harness.flush();
    assert_eq!(harness.report().flows.aliases_refused, 0);
    assert_eq!(reasons(&harness.events(), "namer"), ["reused"]);
    harness.finish();
}

#[test]
fn that_are_open_bring_new_flows_into_the_unit() {
    let mut harness = harness::<true>(100);
    harness.send(&out(1_000));
    harness.send_from(Side::Outside, &back("203.0.113.7:9", 1_000));
    harness.send_from(Side::Outside, &back("203.0.113.8:9", 1_000));
    harness.send_from(Side::Outside, &back("203.0.113.8:9", 1_001));
    assert_eq!(numbers(&harness.events(), "packet", "n"), [1, 2, 3, 1]);
    let report = harness.report();
    assert_eq!((report.flows.seen, report.flows.units), (4, 2));
    // The unit lives as long as one of its flows, and its name with it.
    harness.advance_ms(200_000);
    harness.send_from(Side::Outside, &back("203.0.113.7:9", 1_000));
    harness.advance_ms(200_000);
    harness.send_from(Side::Outside, &back("203.0.113.9:9", 1_000));
    assert_eq!(numbers(&harness.events(), "packet", "n"), [4, 5]);
    harness.advance_ms(400_000);
    harness.send_from(Side::Outside, &back("203.0.113.9:9", 1_000));
    assert_eq!(numbers(&harness.events(), "packet", "n"), [1]);
    let report = harness.finish();
    assert_eq!((report.flows.units, report.flows.aliases), (0, 0));
}

#[test]
fn of_a_unit_that_had_to_make_room_are_gone() {
    // One flow at a time: the flow from outside evicts the unit's only one.
    let mut harness = harness::<true>(1);
    harness.send(&out(1_000));
    harness.send_from(Side::Outside, &back("203.0.113.7:9", 1_000));
    assert_eq!(numbers(&harness.events(), "packet", "n"), [1, 1]);
    assert_eq!(harness.report().flows.units, 1);
    harness.finish();
}
