//! The classifier: units, names, fragments, limits.

mod common;

use common::Probe;
use weir_nf::host::{AliasRequest, FlowOptions, OnMalformed, Stage};
use weir_nf::packet::{
    Direction, FlowKey, Frame, FrameMeta, FramePool, LinkType, MemoryLayout, Side, Time,
};
use weir_nf::prelude::NetworkFunction;
use weir_runtime::harness::{Craft, Harness};
use weir_runtime::{Classifier, RuntimeConfig, SnapshotError};

/// A classifier fed by hand.
struct Rig {
    classifier: Classifier,
    pool: FramePool,
    input: Vec<Frame>,
    now: Time,
}

fn stage<N: NetworkFunction<Settings = ()>>(flows: FlowOptions) -> Stage {
    let builder = Harness::builder().flows(flows).with::<N>(());
    builder.expect("no settings").stage()
}

fn rig(stage: &Stage) -> Rig {
    let layout = MemoryLayout {
        small_frames: 256,
        large_frames: 2,
        ..MemoryLayout::default()
    };
    Rig {
        classifier: Classifier::new(stage, RuntimeConfig::default()).expect("the stage is right"),
        pool: FramePool::with_layout(layout),
        input: Vec::new(),
        now: Time::from_secs(1_000),
    }
}

fn small(max: u32) -> FlowOptions {
    FlowOptions {
        max,
        held_fragments: 4,
        ..FlowOptions::default()
    }
}

impl Rig {
    fn queue(&mut self, side: Side, bytes: &[u8]) {
        let mut meta = FrameMeta::received(self.now, bytes.len() as u32);
        (meta.side, meta.link) = (side, LinkType::Ethernet);
        (meta.unit, meta.clock, meta.view) = (99, 99, 99);
        let frame = self.pool.copy(bytes, meta).expect("a frame is free");
        self.input.push(frame);
    }

    /// Units of what comes out, each with the packet's last octet.
    fn flush(&mut self) -> Vec<(u64, u8)> {
        let mut output = Vec::new();
        self.classifier
            .classify(&mut self.pool, &mut self.input, &mut output);
        assert!(self.input.is_empty());
        let memory = self.pool.memory().clone();
        let units = output.iter().map(|frame| {
            let (meta, bytes) = memory.read(frame);
            assert_eq!((meta.clock, meta.view), (0, 0));
            assert!(self.classifier.is_live(meta.unit));
            (meta.unit, bytes.last().copied().unwrap_or(0))
        });
        let units = units.collect();
        self.pool.give_all(&mut output);
        let report = self.classifier.report();
        assert!(report.balances(), "{report:?}");
        assert_eq!(report.held as usize, self.pool.outstanding());
        units
    }

    fn send(&mut self, side: Side, bytes: &[u8]) -> Option<u64> {
        self.queue(side, bytes);
        self.flush().first().map(|(unit, _)| *unit)
    }

    fn udp(&mut self, from: &str, to: &str) -> u64 {
        self.send(Side::Inside, &Craft::udp(from, to).build())
            .expect("it comes out")
    }

    fn drops(&self) -> Vec<(String, u64)> {
        self.classifier.report().drops
    }
}

fn key(from: &str, to: &str) -> FlowKey {
    let end = |text: &str| {
        let socket: std::net::SocketAddr = text.parse().expect("an address and a port");
        (socket.ip(), socket.port())
    };
    let ((from, from_port), (to, to_port)) = (end(from), end(to));
    FlowKey::new(from, from_port, to, to_port, 17, 0, 0).0
}

fn alias(key: FlowKey, open: bool) -> AliasRequest {
    AliasRequest {
        flow: 0,
        key,
        client: Direction::Forward,
        side: Side::Inside,
        open,
    }
}

fn one_end(end: &str) -> FlowKey {
    let socket: std::net::SocketAddr = end.parse().expect("an address and a port");
    FlowKey::one_end(socket.ip(), socket.port(), 17, 0, 0).0
}

const CLIENT: &str = "10.0.0.1:1000";
const OTHER: &str = "10.0.0.1:1001";
const STRANGER: &str = "10.0.0.2:1000";
const SERVER: &str = "192.0.2.1:53";
const PUBLIC: &str = "198.51.100.1:4000";

/// A number that came back would be taken for an earlier life's, and refused.
#[test]
fn a_place_is_given_up_after_its_last_life() {
    for stage in [stage::<Probe<0>>(small(3)), stage::<Probe<1>>(small(3))] {
        let mut rig = rig(&stage);
        let before_last = u64::from(u32::MAX - 1) << 32;
        let flows = [(key(CLIENT, SERVER), false)];
        let restored = rig.classifier.restore(before_last, None, &flows, &[]);
        assert_eq!(restored, Ok(()));
        rig.classifier.remove_unit(before_last, &mut Vec::new());
        let last = rig.udp(CLIENT, SERVER);
        assert_eq!(last, u64::from(u32::MAX) << 32, "its last life");
        rig.classifier.remove_unit(last, &mut Vec::new());
        let again = rig.classifier.restore(last, None, &flows, &[]);
        assert_eq!(again, Err(SnapshotError::Full));
        // The other places live on, none of them twice.
        let mut seen = std::collections::BTreeSet::new();
        for _ in 0..4 {
            let [a, b] = [CLIENT, STRANGER].map(|client| rig.udp(client, SERVER));
            for unit in [a, b] {
                assert!(seen.insert(unit) && unit as u32 != 0 && unit >> 32 < 10);
                rig.classifier.remove_unit(unit, &mut Vec::new());
            }
        }
    }
}

#[test]
fn a_place_has_many_lives() {
    let mut rig = rig(&stage::<Probe<0>>(small(8)));
    let first = rig.udp(CLIENT, SERVER);
    assert_eq!((first as u32, first >> 32), (0, 1));
    assert_eq!(rig.udp(SERVER, CLIENT), first);
    assert_eq!(rig.classifier.key_of(first), Some(key(CLIENT, SERVER)));
    let second = rig.udp(OTHER, SERVER);
    assert_eq!((second as u32, second >> 32), (1, 1));

    let mut freed = Vec::new();
    rig.classifier.remove_unit(first, &mut freed);
    assert!(!rig.classifier.is_live(first));
    assert_eq!(rig.classifier.unit_of(&key(CLIENT, SERVER)), None);
    assert_eq!(rig.classifier.live_units().collect::<Vec<_>>(), [second]);
    rig.classifier.remove_unit(first, &mut freed); // no more than once

    let third = rig.udp(STRANGER, SERVER);
    assert_eq!((third as u32, third >> 32), (0, 2));
    assert!(freed.is_empty());
    let report = rig.classifier.report();
    assert_eq!((report.flows.seen, report.flows.active), (3, 2));
}

#[test]
fn what_has_no_flow_is_the_liaisons() {
    for malformed in [OnMalformed::Drop, OnMalformed::Pass] {
        let mut rig = rig(&stage::<Probe<0>>(FlowOptions {
            malformed,
            ..small(8)
        }));
        let liaison = rig.classifier.liaison();
        assert_eq!((liaison as u32, liaison >> 32), (8, 1));
        assert_eq!(rig.classifier.places(), 9);
        assert!(rig.classifier.is_live(liaison));
        let arp = [&[0xff; 12][..], &[8, 6], &[0; 28]].concat();
        assert_eq!(rig.send(Side::Inside, &arp), Some(liaison));
        let mut cut = Craft::udp(CLIENT, SERVER).build();
        cut.truncate(20);
        let passed = rig.send(Side::Inside, &cut);
        let report = rig.classifier.report();
        assert_eq!(report.malformed.len(), 1, "{report:?}");
        if malformed == OnMalformed::Pass {
            assert_eq!(passed, Some(liaison));
            assert!(report.drops.is_empty());
        } else {
            assert_eq!(passed, None);
            assert_eq!(report.dropped(), 1);
        }
        // It never ends, and is no unit among the others.
        rig.classifier.remove_unit(liaison, &mut Vec::new());
        assert!(rig.classifier.is_live(liaison));
        assert_eq!(rig.classifier.key_of(liaison), None);
        assert_eq!(rig.classifier.live_units().count(), 0);
    }
}

#[test]
fn a_stage_without_flows_has_the_liaison_only() {
    use weir_nf::prelude::*;
    struct Plain;
    impl NetworkFunction for Plain {
        type Settings = ();
        type State = ();
        type Stats = ();
        type FlowState = ();
        const DESCRIPTOR: Descriptor = Descriptor {
            needs: Needs::Transport,
            ..Descriptor::new("plain", "Keeps nothing")
        };
        fn new((): (), _: &mut SetUp<'_>) -> Result<Self, SettingsError> {
            Ok(Plain)
        }
    }
    let mut rig = rig(&stage::<Plain>(small(8)));
    assert_eq!(rig.classifier.places(), 1);
    assert_eq!(rig.classifier.liaison(), 1 << 32);
    assert_eq!(rig.udp(CLIENT, SERVER), 1 << 32);
    let mut cut = Craft::udp(CLIENT, SERVER).build();
    cut.truncate(20);
    assert_eq!(rig.send(Side::Inside, &cut), None);
    assert_eq!(rig.classifier.report().dropped(), 1);
    assert_eq!(rig.classifier.unit_of(&key(CLIENT, SERVER)), None);
    let flows = [(key(CLIENT, SERVER), false)];
    assert_eq!(
        rig.classifier.restore(1 << 32, None, &flows, &[]),
        Err(SnapshotError::NoFlow)
    );
}

#[test]
fn a_full_table_refuses_and_ends_nothing() {
    let mut rig = rig(&stage::<Probe<0>>(small(2)));
    let first = rig.udp(CLIENT, SERVER);
    let second = rig.udp(OTHER, SERVER);
    rig.now = rig.now.plus(1 << 60); // years later
    assert_eq!(
        rig.send(Side::Inside, &Craft::udp(STRANGER, SERVER).build()),
        None
    );
    assert_eq!(rig.drops(), [("flow_table_full".to_owned(), 1)]);
    assert_eq!(rig.udp(CLIENT, SERVER), first);
    assert_eq!(rig.udp(OTHER, SERVER), second);
    rig.classifier.remove_unit(first, &mut Vec::new());
    assert_eq!(rig.udp(STRANGER, SERVER), 2 << 32);
}

#[test]
fn flows_of_one_scope_key_are_one_unit() {
    let mut rig = rig(&stage::<Probe<1>>(small(8)));
    let unit = rig.udp(CLIENT, SERVER);
    assert_eq!(rig.udp(OTHER, SERVER), unit);
    assert_eq!(rig.udp(SERVER, OTHER), unit);
    assert_ne!(rig.udp(STRANGER, SERVER), unit);
    let scope = rig.classifier.key_of(unit).expect("it has a key");
    assert_eq!(scope.b().0, "10.0.0.1".parse::<std::net::IpAddr>().unwrap());
    assert_eq!(rig.classifier.unit_of(&scope), Some(unit));
    let mut flows = Vec::new();
    rig.classifier.flows_of(unit, &mut flows);
    flows.sort();
    let mut expected = [key(CLIENT, SERVER), key(OTHER, SERVER)];
    expected.sort();
    assert_eq!(flows, expected);

    // The flows end and the unit lives on, under its scope key.
    let mut freed = Vec::new();
    for flow in expected {
        rig.classifier.end_flow(unit, &flow, &mut freed);
        assert_eq!(rig.classifier.unit_of(&flow), None);
    }
    assert!(rig.classifier.is_live(unit));
    let report = rig.classifier.report();
    assert_eq!((report.flows.active, report.flows.units), (1, 2));
    assert_eq!(rig.udp(CLIENT, SERVER), unit);
    rig.classifier.remove_unit(unit, &mut freed);
    assert_eq!(rig.classifier.unit_of(&scope), None);
    let next = rig.udp(CLIENT, SERVER);
    assert_eq!((next as u32, next >> 32), (unit as u32, 2));
}

/// By their ports these segments are those of a server of two clients.
#[test]
fn a_function_tells_clients_whatever_their_ports() {
    let to = |server: &str| Craft::tcp(CLIENT, server).flags("A").build();
    for (side, units) in [(Side::Inside, 1), (Side::Outside, 2)] {
        let mut rig = rig(&stage::<Probe<1>>(small(8)));
        let servers = ["192.0.2.1:40000", "192.0.2.2:40000"];
        let seen = servers.map(|server| rig.send(side, &to(server)).expect("it comes out"));
        let distinct = std::collections::BTreeSet::from(seen).len();
        assert_eq!(distinct, units, "{side:?}");
    }
}

#[test]
fn a_scope_of_a_functions_own_asks_the_function() {
    let mut rig = rig(&stage::<Probe<3>>(small(8)));
    let ten = rig.udp(CLIENT, SERVER);
    assert_eq!(rig.udp("10.9.9.9:5", SERVER), ten);
    assert_ne!(rig.udp("11.0.0.1:5", SERVER), ten);
    // Restored without its key, which only the function could make, it gets it
    // from outside.
    let scope = rig.classifier.key_of(ten).expect("it has a key");
    rig.classifier.remove_unit(ten, &mut Vec::new());
    let flows = [(key(CLIENT, SERVER), true)];
    rig.classifier
        .restore(ten, None, &flows, &[])
        .expect("its place is free");
    assert_eq!(rig.classifier.key_of(ten), None);
    assert!(rig.classifier.set_key(ten, &scope));
    assert!(!rig.classifier.set_key(ten, &scope));
    assert_eq!(rig.udp("10.9.9.9:5", SERVER), ten);
}

#[test]
fn a_restored_unit_has_the_scope_key_that_is_told() {
    for stage in [stage::<Probe<3>>(small(8)), stage::<Probe<1>>(small(8))] {
        let mut rig = rig(&stage);
        let unit = rig.udp(CLIENT, SERVER);
        let scope = rig.classifier.key_of(unit).expect("it has a key");
        rig.classifier.remove_unit(unit, &mut Vec::new());
        // The flow that is left was opened from outside and tells another key.
        let outside = key(STRANGER, "203.0.113.7:9");
        let client_is_b = outside.b().0 == "203.0.113.7".parse::<std::net::IpAddr>().unwrap();
        let flows = [(outside, client_is_b)];
        let restored = rig.classifier.restore(unit, Some(&scope), &flows, &[]);
        assert_eq!(restored, Ok(()));
        assert_eq!(rig.classifier.key_of(unit), Some(scope));
        assert_eq!(rig.udp(OTHER, SERVER), unit, "by its scope");
        // A second one of the key lives without it.
        let flows = [(key("10.0.0.1:7", "203.0.113.7:9"), false)];
        let second = 9 << 32 | 5;
        let restored = rig.classifier.restore(second, Some(&scope), &flows, &[]);
        assert_eq!(restored, Ok(()));
        assert_eq!(rig.classifier.key_of(second), None);
        assert_eq!(rig.udp("10.0.0.1:7", "203.0.113.7:9"), second);
        assert_eq!(rig.udp("10.0.0.1:8", SERVER), unit);
    }
    // A unit that is one flow has that flow's key.
    let mut rig = rig(&stage::<Probe<0>>(small(8)));
    let (flow, other) = (key(CLIENT, SERVER), key(OTHER, SERVER));
    let flows = [(flow, false)];
    let restored = rig
        .classifier
        .restore(1 << 32 | 1, Some(&other), &flows, &[]);
    assert_eq!(restored, Ok(()));
    assert_eq!(rig.classifier.key_of(1 << 32 | 1), Some(flow));
}

#[test]
fn a_packet_under_an_alias_is_its_units() {
    let mut rig = rig(&stage::<Probe<0>>(small(8)));
    let unit = rig.udp(CLIENT, SERVER);
    let flow = key(CLIENT, SERVER);
    let name = key(PUBLIC, SERVER);
    assert!(rig.classifier.add_alias(unit, &flow, &alias(name, false)));
    assert!(rig.classifier.add_alias(unit, &flow, &alias(name, false)));
    assert!(rig.classifier.add_alias(unit, &flow, &alias(flow, false)));
    assert_eq!(rig.udp(SERVER, PUBLIC), unit);
    assert_eq!(rig.classifier.unit_of(&name), Some(unit));
    assert_eq!(rig.classifier.report().flows.aliases, 1);

    // A unit that has ended can't have it, nor a unit of one flow an open one. A
    // second flow is one more name.
    let other = rig.udp(OTHER, SERVER);
    let theirs = key(OTHER, SERVER);
    assert!(
        !rig.classifier
            .add_alias(unit + (1 << 32), &flow, &alias(theirs, false))
    );
    assert!(
        !rig.classifier
            .add_alias(unit, &flow, &alias(one_end(PUBLIC), true))
    );
    let again = key(STRANGER, SERVER);
    assert!(!rig.classifier.add_flow(unit, &theirs));
    assert!(rig.classifier.add_flow(unit, &again));
    assert_eq!(rig.classifier.unit_of(&again), Some(unit));
    assert!(rig.classifier.end_alias(unit, &again));
    assert_eq!(rig.classifier.report().flows.aliases_refused, 2);

    // Another unit takes it, and it is taken back.
    assert!(
        rig.classifier
            .add_alias(other, &theirs, &alias(name, false))
    );
    assert_eq!(rig.classifier.alias_of(&name), Some(other));
    assert_eq!(rig.udp(SERVER, PUBLIC), other);
    assert!(rig.classifier.add_alias(unit, &flow, &alias(name, false)));
    assert_eq!(rig.classifier.report().flows.aliases, 1);

    // The flow ends: the alias is free, the key stays with the unit.
    let mut freed = Vec::new();
    rig.classifier.end_flow(unit, &flow, &mut freed);
    assert_eq!(freed, [name]);
    assert_eq!(rig.udp(CLIENT, SERVER), unit);
    assert_ne!(rig.udp(SERVER, PUBLIC), unit);
}

#[test]
fn an_alias_takes_a_key_over_from_a_flow_that_got_nowhere() {
    let mut rig = rig(&stage::<Probe<0>>(small(8)));
    // Somebody sends to the public address before the mapping is made.
    let early = rig.udp(SERVER, PUBLIC);
    let unit = rig.udp(CLIENT, SERVER);
    let (flow, name) = (key(CLIENT, SERVER), key(PUBLIC, SERVER));
    assert!(rig.classifier.add_alias(unit, &flow, &alias(name, false)));
    assert_eq!(rig.udp(SERVER, PUBLIC), unit);
    assert!(rig.classifier.is_live(early));
    let mut flows = Vec::new();
    rig.classifier.flows_of(early, &mut flows);
    assert_eq!(flows, [name]);

    // Both end in any order; the key is the alias's until that goes.
    let mut freed = Vec::new();
    rig.classifier.end_flow(early, &name, &mut freed);
    rig.classifier.remove_unit(early, &mut freed);
    assert!(freed.is_empty());
    assert_eq!(rig.udp(SERVER, PUBLIC), unit);
    rig.classifier.remove_unit(unit, &mut freed);
    assert_eq!(freed, [name]);
    assert_eq!(rig.classifier.report().flows.active, 0);
}

#[test]
fn an_open_alias_opens_flows_in_its_unit() {
    let mut rig = rig(&stage::<Probe<1>>(small(8)));
    let unit = rig.udp(CLIENT, SERVER);
    let (flow, end) = (key(CLIENT, SERVER), one_end(PUBLIC));
    assert!(rig.classifier.add_alias(unit, &flow, &alias(end, true)));
    let from_outside = Craft::udp("203.0.113.7:9", PUBLIC).build();
    assert_eq!(rig.send(Side::Outside, &from_outside), Some(unit));
    assert_eq!(rig.udp("203.0.113.7:9", PUBLIC), unit); // known now
    // From inside it is another client's flow (RFC 4787 REQ-9).
    assert_ne!(rig.udp(STRANGER, PUBLIC), unit);
    assert_eq!(rig.classifier.report().flows.active, 3);

    // The alias is the unit's, not the flow's.
    let mut freed = Vec::new();
    rig.classifier.end_flow(unit, &flow, &mut freed);
    assert!(freed.is_empty());
    assert!(rig.classifier.end_alias(unit, &end));
    assert!(!rig.classifier.end_alias(unit, &end));
    let again = Craft::udp("203.0.113.8:9", PUBLIC).build();
    assert_ne!(rig.send(Side::Outside, &again), Some(unit));
    assert!(rig.classifier.add_alias(unit, &flow, &alias(end, true)));
    rig.classifier.remove_unit(unit, &mut freed);
    assert_eq!(freed, [end]);
}

#[test]
fn a_flow_that_only_its_owner_knows_comes_with_its_alias_or_by_itself() {
    let mut rig = rig(&stage::<Probe<1>>(small(8)));
    let unit = rig.udp(CLIENT, SERVER);
    let name = key(PUBLIC, SERVER);
    let flow = key(OTHER, SERVER);
    assert!(rig.classifier.add_alias(unit, &flow, &alias(name, false)));
    assert_eq!(rig.classifier.unit_of(&flow), Some(unit));
    assert_eq!(rig.udp(SERVER, PUBLIC), unit);
    // Without its alias the server's packet would open a flow of the server's.
    let late = key("10.0.0.1:1002", SERVER);
    assert!(rig.classifier.add_flow(unit, &late));
    assert_eq!(rig.udp(SERVER, "10.0.0.1:1002"), unit);
    let other = rig.udp(STRANGER, SERVER);
    // Another unit's flow of this key is found by the names that it asks for.
    let name = key(PUBLIC, OTHER);
    assert!(rig.classifier.add_alias(other, &late, &alias(name, false)));
    assert_eq!(rig.classifier.unit_of(&late), Some(unit));
    assert_eq!(rig.classifier.unit_of(&name), Some(other));
}

/// Found by seed 21667791377: a server's packet took a client's key for another unit; the
/// client's flow ended and began anew, and its output left without a name.
#[test]
fn a_flow_whose_key_another_unit_has_gets_names() {
    let mut rig = rig(&stage::<Probe<1>>(small(8)));
    let unit = rig.udp(CLIENT, SERVER);
    let other = rig.udp(STRANGER, SERVER);
    let (flow, theirs, name) = (
        key(CLIENT, SERVER),
        key(STRANGER, SERVER),
        key(PUBLIC, SERVER),
    );
    let mut freed = Vec::new();
    assert!(
        rig.classifier
            .add_alias(other, &theirs, &alias(flow, false))
    );
    rig.classifier.end_flow(unit, &flow, &mut freed);
    for again in 0..2 {
        assert!(rig.classifier.add_flow(unit, &flow), "{again}");
    }
    assert!(rig.classifier.add_alias(unit, &flow, &alias(name, false)));
    assert_eq!(rig.udp(SERVER, PUBLIC), unit);
    assert_eq!(rig.udp(CLIENT, SERVER), other, "the alias goes before");
    rig.classifier.end_flow(unit, &flow, &mut freed);
    assert_eq!(freed, [name]);
    // Nor does it take a flow's key from another unit.
    assert!(rig.classifier.add_flow(unit, &theirs));
    assert_eq!(rig.udp(STRANGER, SERVER), other);
    rig.classifier.remove_unit(unit, &mut freed);
    assert_eq!(rig.classifier.unit_of(&theirs), Some(other));
}

/// A host's flow ends while the server's next packet is on its way, which begins
/// it anew from the server's side, with the client's key for an alias.
#[test]
fn a_flow_that_is_known_by_its_alias_gets_names() {
    let mut rig = rig(&stage::<Probe<1>>(small(8)));
    let unit = rig.udp(CLIENT, SERVER);
    let (flow, name) = (key(CLIENT, SERVER), key(PUBLIC, SERVER));
    assert!(rig.classifier.add_alias(unit, &flow, &alias(name, false)));
    assert!(rig.classifier.add_alias(unit, &name, &alias(flow, false)));
    let more = key(PUBLIC, OTHER);
    assert!(rig.classifier.add_alias(unit, &name, &alias(more, false)));
    for key in [flow, name, more] {
        assert_eq!(rig.classifier.unit_of(&key), Some(unit));
    }
}

/// A flow that its owner opened under a name of another one keeps its own names
/// until it ends, whichever of the two ends first.
#[test]
fn names_of_a_flow_that_is_known_by_an_alias_end_with_it() {
    for is_first in [true, false] {
        let mut rig = rig(&stage::<Probe<1>>(small(8)));
        let unit = rig.udp(CLIENT, SERVER);
        let (flow, name) = (key(CLIENT, SERVER), key(PUBLIC, SERVER));
        let (own, mut freed) = (key(PUBLIC, OTHER), Vec::new());
        assert!(rig.classifier.add_alias(unit, &flow, &alias(name, false)));
        assert!(rig.classifier.add_flow(unit, &name));
        assert!(rig.classifier.add_alias(unit, &name, &alias(own, false)));
        let (first, second) = if is_first { (flow, name) } else { (name, flow) };
        rig.classifier.end_flow(unit, &first, &mut freed);
        assert_eq!(freed, [if is_first { name } else { own }]);
        // The name leads to the unit while one of them has it.
        assert_eq!(rig.classifier.unit_of(&name), Some(unit));
        rig.classifier.end_flow(unit, &second, &mut freed);
        assert_eq!(freed.len(), 2, "{freed:?}");
        for key in [flow, name, own] {
            assert_eq!(rig.classifier.unit_of(&key), None);
        }
    }
}

/// A balanced flow began anew from its server's side, its switch started again and took
/// that key from the claim; now the client begins it anew.
#[test]
fn a_restored_flow_that_begins_anew_under_its_alias_is_found_by_it() {
    let mut rig = rig(&stage::<Probe<0>>(small(8)));
    let (flow, name, unit) = (key(PUBLIC, SERVER), key(CLIENT, SERVER), 1 << 32 | 1);
    let aliases = [(flow, alias(name, false))];
    let restored = rig
        .classifier
        .restore(unit, None, &[(flow, false)], &aliases);
    assert_eq!(restored, Ok(()));
    let mut freed = Vec::new();
    rig.classifier.end_flow(unit, &flow, &mut freed);
    assert_eq!(freed, [name]);
    assert!(rig.classifier.add_flow(unit, &name));
    assert!(rig.classifier.add_alias(unit, &name, &alias(flow, false)));
    assert_eq!(rig.udp(CLIENT, SERVER), unit);
    assert_eq!(rig.udp(SERVER, PUBLIC), unit);
    rig.classifier.remove_unit(unit, &mut Vec::new());
    assert_eq!(rig.classifier.unit_of(&name), None);
}

/// A server's late packet had opened a flow of its own in a balanced flow's unit; the
/// switch started again and took both keys from the claim.
#[test]
fn a_flow_that_ends_takes_no_key_of_another_flow_of_its_unit() {
    let mut rig = rig(&stage::<Probe<0>>(small(8)));
    let (late, flow, unit) = (key(PUBLIC, SERVER), key(CLIENT, SERVER), 1 << 32 | 1);
    let restored = rig.classifier.restore(unit, None, &[(late, false)], &[]);
    assert_eq!(restored, Ok(()));
    assert!(rig.classifier.add_flow(unit, &flow));
    let mut names = Vec::new();
    rig.classifier.leave_flow(unit, &late, &mut names);
    rig.classifier.end_flow(unit, &late, &mut names);
    assert_eq!(names, []);
    assert_eq!(rig.udp(CLIENT, SERVER), unit);
    rig.classifier.remove_unit(unit, &mut Vec::new());
    assert_eq!(rig.classifier.unit_of(&flow), None);
}

#[test]
fn a_unit_whose_key_another_has_is_restored_where_no_packet_finds_it() {
    let mut rig = rig(&stage::<Probe<0>>(small(8)));
    let unit = rig.udp(CLIENT, SERVER);
    let flow = key(CLIENT, SERVER);
    let hidden = 3 << 32 | 5;
    let fails = rig.classifier.restore_hidden(hidden, &key(OTHER, SERVER));
    assert!(fails.is_err(), "a key that nobody has hides nothing");
    assert!(rig.classifier.restore_hidden(hidden, &flow).is_ok());
    assert!(
        rig.classifier.restore_hidden(hidden, &flow).is_err(),
        "once"
    );
    assert!(rig.classifier.is_live(hidden));
    assert_eq!(rig.udp(SERVER, CLIENT), unit);
    rig.classifier.remove_unit(hidden, &mut Vec::new());
    assert_eq!(rig.classifier.unit_of(&flow), Some(unit));
}

/// Fragment `part` of a datagram of three, with its part as the last octet.
fn fragment(id: u16, part: u16) -> Vec<u8> {
    let more = if part < 2 { 0x2000 } else { 0 };
    let payload = [&[0u8; 15][..], &[part as u8]].concat();
    Craft::udp(CLIENT, SERVER)
        .ip_id(id)
        .fragment(more | (part * 3))
        .payload(&payload)
        .build()
}

#[test]
fn later_fragments_follow_the_first_in_any_order_and_any_burst() {
    for order in [[0, 1, 2], [1, 0, 2], [1, 2, 0], [2, 1, 0]] {
        for alone in [true, false] {
            let mut rig = rig(&stage::<Probe<0>>(small(8)));
            let whole = rig.udp("10.7.7.7:7", SERVER);
            let mut out = Vec::new();
            for part in order {
                rig.queue(Side::Inside, &fragment(5, part));
                if alone {
                    out.extend(rig.flush());
                }
            }
            // what comes after them stays after them
            rig.queue(
                Side::Inside,
                &Craft::udp("10.7.7.7:7", SERVER).payload(&[9]).build(),
            );
            out.extend(rig.flush());
            let waited = order.iter().take_while(|p| **p != 0);
            let after = order.iter().skip_while(|p| **p != 0).skip(1);
            let parts = [0].iter().chain(waited).chain(after).map(|p| *p as u8);
            let mut expected: Vec<(u64, u8)> = parts.map(|p| (1 << 32 | 1, p)).collect();
            expected.push((whole, 9));
            assert_eq!(out, expected, "{order:?} {alone}");
        }
    }
}

#[test]
fn fragments_wait_so_many_and_so_long() {
    let mut rig = rig(&stage::<Probe<0>>(small(8)));
    for id in 0..6 {
        assert_eq!(rig.send(Side::Inside, &fragment(id, 1)), None);
    }
    assert_eq!(rig.drops(), [("fragments_full".to_owned(), 2)]);
    assert_eq!(rig.classifier.report().held, 4);
    rig.now = rig.now.plus(31_000_000_000);
    rig.udp(OTHER, SERVER);
    assert_eq!(rig.classifier.report().held, 0);
    assert_eq!(rig.drops()[1], ("fragment_timeout".to_owned(), 4));
    // Its first one came too late.
    assert_eq!(rig.send(Side::Inside, &fragment(1, 0)), Some(1 << 32 | 1));
    // A unit that has ended is followed by nothing.
    assert_eq!(rig.send(Side::Inside, &fragment(1, 1)), Some(1 << 32 | 1));
    rig.classifier.remove_unit(1 << 32 | 1, &mut Vec::new());
    assert_eq!(rig.send(Side::Inside, &fragment(1, 2)), None);
    assert_eq!(rig.classifier.report().held, 1);
    rig.classifier.finish(&mut rig.pool);
    assert_eq!(rig.pool.outstanding(), 0);
    assert!(rig.classifier.report().balances());
}

#[test]
fn a_restored_unit_is_where_it_was() {
    let unit = 7 << 32 | 5;
    let (flow, name, end) = (key(CLIENT, SERVER), key(PUBLIC, SERVER), one_end(PUBLIC));
    let client_is_b = flow.b().0 == "10.0.0.1".parse::<std::net::IpAddr>().unwrap();
    let callers = key("203.0.113.7:9", PUBLIC);
    let mut rig = rig(&stage::<Probe<1>>(small(8)));
    // The flow that came through the open alias does not name the scope.
    let caller_is_b = callers.b().0 == "203.0.113.7".parse::<std::net::IpAddr>().unwrap();
    let flows = [(callers, caller_is_b), (flow, client_is_b)];
    let aliases = [(flow, alias(name, false)), (flow, alias(end, true))];
    rig.classifier
        .restore(unit, None, &flows, &aliases)
        .expect("all is free");
    assert_eq!(rig.udp(CLIENT, SERVER), unit);
    assert_eq!(rig.udp(SERVER, PUBLIC), unit);
    assert_eq!(rig.udp(OTHER, SERVER), unit, "by its scope");
    let call = Craft::udp("203.0.113.9:9", PUBLIC).build();
    assert_eq!(rig.send(Side::Outside, &call), Some(unit));

    // Nothing is there twice, and what fails changes nothing.
    let before = rig.classifier.report().flows;
    let again = [(key(STRANGER, SERVER), client_is_b)];
    let errors = [
        rig.classifier.restore(unit, None, &again, &[]),
        rig.classifier.restore(unit + (1 << 32), None, &again, &[]),
        rig.classifier.restore(unit - 1, None, &flows[1..], &[]),
        rig.classifier
            .restore(unit - 1, None, &again, &[(again[0].0, alias(name, false))]),
    ];
    assert_eq!(errors, [const { Err(SnapshotError::Exists) }; 4]);
    assert_eq!(
        rig.classifier.restore(unit - 1, None, &[], &[]),
        Err(SnapshotError::NoFlow)
    );
    let corrupt = [
        rig.classifier.restore(1, None, &again, &[]),
        rig.classifier.restore(1 << 32 | 8, None, &again, &[]),
        rig.classifier
            .restore(unit - 1, None, &[again[0], again[0]], &[]),
        rig.classifier.restore(
            unit - 1,
            None,
            &again,
            &[(flow, alias(key(OTHER, PUBLIC), false))],
        ),
    ];
    assert_eq!(corrupt, [const { Err(SnapshotError::Corrupt) }; 4]);
    assert_eq!(rig.classifier.report().flows, before);

    // A flow that another unit has stays there, and no unit is refused for it.
    let caller = [(callers, caller_is_b)];
    let second = unit - 1;
    assert_eq!(rig.classifier.restore(second, None, &caller, &[]), Ok(()));
    assert_eq!(rig.classifier.unit_of(&callers), Some(unit));
    rig.classifier.remove_unit(second, &mut Vec::new());
    assert_eq!(rig.classifier.unit_of(&callers), Some(unit));

    // The places around it are free, and the next lives are others.
    assert_eq!(rig.udp(STRANGER, SERVER), 8 << 32 | 4);
    assert_eq!(rig.udp("10.0.0.3:5", SERVER), 1 << 32);
    let mut freed = Vec::new();
    rig.classifier.remove_unit(unit, &mut freed);
    freed.sort();
    let mut expected = [name, end];
    expected.sort();
    assert_eq!(freed, expected);
    assert_eq!(rig.udp(CLIENT, SERVER), 8 << 32 | 5);
}

#[test]
fn an_alias_and_the_flow_it_was_taken_from_are_restored_in_any_order() {
    let (flow, name) = (key(CLIENT, SERVER), key(PUBLIC, SERVER));
    for alias_first in [true, false] {
        let mut rig = rig(&stage::<Probe<0>>(small(8)));
        for alias_now in [alias_first, !alias_first] {
            if alias_now {
                let aliases = [(flow, alias(name, false))];
                rig.classifier
                    .restore(1 << 32 | 1, None, &[(flow, false)], &aliases)
            } else {
                rig.classifier
                    .restore(1 << 32 | 2, None, &[(name, false)], &[])
            }
            .expect("both fit");
        }
        assert_eq!(rig.udp(SERVER, PUBLIC), 1 << 32 | 1);
        assert!(rig.classifier.is_live(1 << 32 | 2));
        assert_eq!(rig.classifier.key_of(1 << 32 | 2), Some(name));
        rig.classifier.remove_unit(1 << 32 | 2, &mut Vec::new());
        assert_eq!(rig.udp(SERVER, PUBLIC), 1 << 32 | 1);
    }
}

#[test]
fn a_stage_that_cannot_run_is_refused() {
    let mut wrong = stage::<Probe<0>>(small(8));
    wrong.nodes[0].next = vec![weir_nf::host::Target::Node(0)];
    let error = Classifier::new(&wrong, RuntimeConfig::default()).unwrap_err();
    assert!(error.0.contains("backwards"), "{error}");
}
