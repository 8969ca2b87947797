//! Names that end before their unit, the ports that they had, and the keys of
//! wide units.

use crate::claims;
use crate::rig::{Rig, rt};
use weir_nf::host::{AliasRequest, FlowOptions, NO_FLOW, Stage};
use weir_nf::prelude::*;
use weir_nf::{PoolId, PoolSpec, PortLease, PortSpace};
use weir_packet::{Direction, Disposition, Frame, FrameMeta, LinkType, Side};
use weir_protocol::message::{Claim, Message};
use weir_protocol::settings::SwitchSettings;
use weir_protocol::switch::{SwitchCount, SwitchDrop};
use weir_protocol::{Clock, Peer, UnitId};
use weir_runtime::harness::{Craft, Harness};
use weir_runtime::notes::{self, Note};

/// Keeps something of each network of clients, and lets all pass.
#[derive(Debug)]
struct Clients;

#[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct Nothing(u64);
impl State for Nothing {
    const VERSION: u16 = 1;
}

impl NetworkFunction for Clients {
    type Settings = ();
    type State = Nothing;
    type Stats = ();
    type FlowState = ();
    const DESCRIPTOR: Descriptor = Descriptor {
        needs: Needs::Flow,
        scope: Scope::Own("clients-by-octet"),
        aliases: true,
        ..Descriptor::new("clients", "keeps something of each network of clients")
    };

    fn new((): (), _: &mut SetUp<'_>) -> Result<Clients, SettingsError> {
        Ok(Clients)
    }

    fn scope_key(&self, _: &Packet<'_>, flow: &FlowInfo<'_>) -> Option<FlowKey> {
        let (address, _) = flow.key().source(flow.client_direction());
        let std::net::IpAddr::V4(address) = address else {
            return None;
        };
        let [one, two, three, last] = address.octets();
        let network = [one, two, three, last / 10 * 10].into();
        Some(FlowKey::new(network, 0, network, 0, 0, 0, 0).0)
    }
}

pub(crate) fn wide() -> Stage {
    let flows = FlowOptions {
        max: 64,
        ..FlowOptions::default()
    };
    let builder = Harness::builder().flows(flows).with::<Clients>(());
    Stage {
        pools: vec![PoolSpec {
            addresses: vec!["192.0.2.7".parse().expect("an address")],
            first: 1_024,
            last: 1_535,
            block: 256,
        }],
        ..builder.expect("no settings").stage()
    }
}

/// The only runtime applies the only packet in its queue, and notes this.
fn note(rig: &mut Rig, all: &[Note<'_>]) -> UnitId {
    let mine: Vec<Frame> = rig.queue(1);
    let [frame] = &mine[..] else {
        panic!("one packet");
    };
    let mut bytes = Vec::new();
    all.iter().for_each(|note| notes::write(note, &mut bytes));
    let mut meta = *rig.pool.memory().clone().meta(frame);
    let unit = UnitId(meta.unit);
    meta.disposition = Disposition::Notes;
    let side = rig.pool.copy(&bytes, meta).expect("a frame is free");
    let now = rig.now;
    rig.switch
        .entries(now, &mut rig.pool, rt(1), &mut vec![side]);
    rig.answer(1, mine, Disposition::Out);
    unit
}

fn ports_freed(rig: &mut Rig) -> Vec<(Peer, Message)> {
    let mut messages = rig.messages();
    messages.retain(|(_, message)| matches!(message, Message::PortFreed { .. }));
    messages
}

#[test]
fn a_packet_that_could_not_be_emitted_is_a_drop_with_a_name() {
    let mut rig = Rig::of(&wide(), SwitchSettings::default(), 1);
    rig.send(1, 1);
    note(&mut rig, &[Note::EmitsLost { count: 3 }]);
    assert_eq!(rig.out(), [1]);
    assert_eq!(rig.dropped(SwitchDrop::EmitsLost), 3);
    rig.check();
}

#[test]
fn a_port_is_free_when_its_alias_ends_and_its_unit_lives_on() {
    let settings = SwitchSettings {
        kept: 256,
        ..SwitchSettings::default()
    };
    let mut rig = Rig::of(&wide(), settings, 1);
    let pool: std::net::IpAddr = "192.0.2.7".parse().expect("an address");
    let (key, client) = FlowKey::one_end(pool, 1_030, 17, 0, 0);
    let alias = Note::Alias {
        flow: key,
        request: AliasRequest {
            flow: NO_FLOW,
            key,
            client,
            side: Side::Inside,
            open: true,
        },
    };
    let lease = PortLease {
        address: 0,
        port: 1_030,
        space: PortSpace::Udp,
    };
    let leased = Note::Leased {
        pool: PoolId(0),
        lease,
    };
    rig.send(1, 1);
    let unit = note(&mut rig, &[leased, alias]);
    assert_eq!(rig.count(SwitchCount::AliasAdded), 1);
    rig.messages();
    // Another unit's owner has no say in it.
    rig.send(20, 2);
    assert_ne!(note(&mut rig, &[Note::AliasEnded { key }]), unit);
    assert_eq!(rig.count(SwitchCount::AliasGone), 0);
    rig.send(1, 3);
    assert_eq!(note(&mut rig, &[Note::AliasEnded { key }]), unit);
    assert_eq!(rig.out(), [1, 2, 3]);
    let freed = Message::PortFreed {
        pool: PoolId(0),
        lease,
    };
    assert_eq!(ports_freed(&mut rig), [(Peer::Runtime(rt(1)), freed)]);
    assert_eq!(rig.count(SwitchCount::AliasGone), 1);
    assert!(rig.switch.live_units().any(|live| live == unit));
    // It is gone, and a second end of it is nothing.
    rig.send(1, 4);
    note(&mut rig, &[Note::AliasEnded { key }]);
    assert_eq!(ports_freed(&mut rig), []);
    assert_eq!(rig.count(SwitchCount::AliasGone), 1);
    rig.end();
}

#[test]
fn a_restarted_switch_knows_the_scope_keys_that_only_functions_make() {
    let settings = |generation| SwitchSettings {
        kept: 256,
        generation,
        ..SwitchSettings::default()
    };
    let mut rig = Rig::of(&wide(), settings(1), 1);
    rig.send(11, 1);
    let unit = note(&mut rig, &[]);
    let view = rig.messages().into_iter().find_map(|(_, m)| match m {
        Message::Out { view, .. } => Some(view),
        _ => None,
    });
    rig.end();
    let mut again = Rig::of(&wide(), settings(2), 0);
    again.switch.recover(again.now, &[rt(1)]);
    let address = |last| std::net::IpAddr::from([10, 0, 0, last]);
    let server = [192, 0, 2, 1].into();
    let (flow, way) = FlowKey::new(address(11), 1_000, server, 53, 17, 0, 0);
    let claim = Claim {
        unit,
        view: view.expect("it was let out"),
        owner: true,
        clock: Clock(1),
        state: true,
        key: Some(FlowKey::new(address(10), 0, address(10), 0, 0, 0, 0).0),
        flows: vec![(flow, way == Direction::Reverse)],
        aliases: Vec::new(),
    };
    again.say(1, claims(vec![claim]));
    assert!(!again.switch.is_recovering());
    assert_eq!(again.count(SwitchCount::Recovered), 1);
    // A new flow of the network is the unit's, one of another is not.
    for (client, same) in [(12, true), (21, false)] {
        again.send(client, client);
        again.pass(0);
        let frames = again.queue(1);
        let seen = again.seen(&frames);
        assert_eq!(seen.len(), 1);
        assert_eq!(seen[0].unit == unit, same);
        again.answer(1, frames, Disposition::Out);
    }
    again.end();
}

/// A switch that has started again and hears claims of runtime 1.
fn restarted(stage: &Stage) -> Rig {
    let settings = SwitchSettings {
        kept: 256,
        generation: 2,
        ..SwitchSettings::default()
    };
    let mut rig = Rig::of(stage, settings, 0);
    rig.switch.recover(rig.now, &[rt(1)]);
    rig
}

/// Where the clients are seen outside.
const OUTSIDE: [u8; 4] = [192, 0, 2, 7];

fn flow_from(client: [u8; 4], port: u16) -> FlowKey {
    FlowKey::new(client.into(), port, [192, 0, 2, 1].into(), 53, 17, 0, 0).0
}

fn network(of: [u8; 4]) -> FlowKey {
    FlowKey::new(of.into(), 0, of.into(), 0, 0, 0, 0).0
}

/// What the flow's client is called outside by all servers.
fn open_alias(port: u16) -> AliasRequest {
    let (key, client) = FlowKey::one_end(OUTSIDE.into(), port, 17, 0, 0);
    AliasRequest {
        flow: NO_FLOW,
        key,
        client,
        side: Side::Inside,
        open: true,
    }
}

/// The claim of the first life in a place, of a view with this number.
fn claim(
    (place, view): (u64, u64),
    key: FlowKey,
    flow: FlowKey,
    aliases: &[AliasRequest],
) -> Claim {
    Claim {
        unit: UnitId(1 << 32 | place),
        view: weir_protocol::View(1 << 48 | view),
        owner: true,
        clock: Clock(3),
        state: true,
        key: Some(key),
        flows: vec![(flow, false)],
        aliases: aliases.iter().map(|alias| (flow, *alias)).collect(),
    }
}

/// The switch started again; a flow of a wide unit ends before the owner asks whether its
/// port is free. Nothing will say so later while the unit lives.
#[test]
fn a_port_whose_name_went_before_it_was_asked_for_is_free() {
    let mut rig = restarted(&wide());
    let (gone, stays) = (open_alias(1_030), open_alias(1_031));
    rig.say(
        1,
        Message::LeaseGranted {
            pool: PoolId(0),
            address: 0,
            block: 4,
        },
    );
    let flow = flow_from([10, 0, 0, 11], 1_000);
    let claim = claim((5, 1), network([10, 0, 0, 10]), flow, &[gone, stays]);
    let unit = claim.unit;
    rig.say(1, claims(vec![claim]));
    assert_eq!(rig.count(SwitchCount::Recovered), 1);
    rig.pass(0);
    rig.send(11, 1);
    assert_eq!(note(&mut rig, &[Note::AliasEnded { key: gone.key }]), unit);
    assert_eq!(rig.count(SwitchCount::AliasGone), 1);
    rig.messages();
    let lease = |port| PortLease {
        address: 0,
        port,
        space: PortSpace::Udp,
    };
    let doubts = vec![(lease(1_030), Some(unit)), (lease(1_031), Some(unit))];
    rig.say(
        1,
        Message::PortsDoubted {
            pool: PoolId(0),
            doubts,
        },
    );
    let known = Message::PortsKnown {
        pool: PoolId(0),
        free: vec![lease(1_030)],
        leased: vec![lease(1_031)],
    };
    assert_eq!(rig.messages(), [(Peer::Runtime(rt(1)), known)]);
    rig.end();
}

/// A client sends to itself by its external address: the scope key of that is the end that
/// its own open alias names (seed 13 of `nat-short`, docs/simulator.md).
#[test]
fn a_scope_key_of_another_unit_takes_no_alias_at_a_restart() {
    let mut rig = restarted(&wide());
    let open = open_alias(1_030);
    let end = open.key;
    let flow = flow_from([10, 0, 0, 11], 1_030);
    let mapped = claim((5, 1), network([10, 0, 0, 10]), flow, &[open]);
    // The newer view is restored first.
    let turned = claim((6, 2), end, flow_from(OUTSIDE, 1_030), &[]);
    let unit = mapped.unit;
    rig.say(1, claims(vec![mapped, turned]));
    assert_eq!(rig.count(SwitchCount::Recovered), 2);
    assert_eq!(rig.switch.classifier().alias_of(&end), Some(unit.0));
    assert_eq!(rig.switch.classifier().unit_of_name(&end), Some(unit.0));
    rig.pass(0);
    rig.end();
}

/// A packet by the flow's key opened another unit: the flow lives on hidden, and answers to
/// its alias lead to it (seed 21667804851 of the simulator, `--chain nat-short`).
#[test]
fn a_flow_of_a_wide_unit_whose_key_another_unit_has_keeps_its_alias() {
    let mut rig = restarted(&wide());
    let (found, hidden) = (
        flow_from([10, 0, 0, 11], 1_030),
        flow_from([10, 0, 0, 12], 1_031),
    );
    let mut old = claim((5, 1), network([10, 0, 0, 10]), found, &[open_alias(1_030)]);
    old.flows.push((hidden, false));
    let mut alias = open_alias(1_031);
    alias.open = false;
    old.aliases.push((hidden, alias));
    let newer = claim((6, 2), network([10, 0, 0, 90]), hidden, &[]);
    let units = (old.unit, newer.unit);
    rig.say(1, claims(vec![old, newer]));
    assert_eq!(rig.count(SwitchCount::Recovered), 2);
    let names = rig.switch.classifier();
    assert_eq!(names.unit_of_name(&hidden), Some(units.1.0));
    assert_eq!(names.unit_of_name(&alias.key), Some(units.0.0));
    rig.pass(0);
    rig.end();
}

/// A flow that a balancer turned to another server, and the side of it that
/// the server sees.
#[test]
fn a_unit_that_was_claimed_by_its_other_side_keeps_both_names() {
    let mut rig = restarted(&crate::rig::stage());
    let (client, unit) = ([10, 0, 0, 1].into(), UnitId(1 << 32 | 5));
    let side = |server: [u8; 4]| FlowKey::new(client, 1_000, server.into(), 53, 17, 0, 0);
    let ((asked, way), (served, _)) = (side([192, 0, 2, 1]), side([198, 51, 100, 1]));
    // After a loss the owner met the server's packets first.
    let claim = Claim {
        unit,
        view: weir_protocol::View(1 << 48 | 1),
        owner: true,
        clock: Clock(3),
        state: true,
        key: None,
        flows: vec![(served, false), (asked, way == Direction::Reverse)],
        aliases: Vec::new(),
    };
    rig.say(1, claims(vec![claim]));
    assert_eq!(rig.count(SwitchCount::Recovered), 1);
    rig.pass(0);
    // The next owner makes the name anew, from the client's packet.
    rig.send(1, 9);
    let alias = Note::Alias {
        flow: asked,
        request: AliasRequest {
            flow: NO_FLOW,
            key: served,
            client: Direction::Forward,
            side: Side::Inside,
            open: false,
        },
    };
    assert_eq!(note(&mut rig, &[alias]), unit);
    assert_eq!(rig.count(SwitchCount::AliasAdded), 1);
    assert_eq!(rig.count(SwitchCount::AliasRefused), 0);
    for key in [asked, served] {
        assert_eq!(rig.switch.classifier().unit_of(&key), Some(unit.0));
    }
    assert_eq!(rig.out(), [9]);
    rig.end();
}

/// The owner applies these packets, the first of which ends the flow.
fn ends_with(rig: &mut Rig, frames: Vec<Frame>, key: FlowKey) {
    let mut bytes = Vec::new();
    notes::write(&Note::FlowEnded { key }, &mut bytes);
    let mut meta = *rig.pool.memory().clone().meta(&frames[0]);
    meta.disposition = Disposition::Notes;
    let side = rig.pool.copy(&bytes, meta).expect("a frame is free");
    let now = rig.now;
    rig.switch
        .entries(now, &mut rig.pool, rt(1), &mut vec![side]);
    rig.answer(1, frames, Disposition::Out);
}

/// A packet from the server of client `flow`: the scope of a flow that it
/// opens is another.
fn answer_from_server(rig: &mut Rig, flow: u8, tag: u8) {
    let to = format!("10.0.0.{flow}:1000");
    let bytes = Craft::udp("192.0.2.1:53", &to).payload(&[tag]).build();
    let mut meta = FrameMeta::received(rig.now, bytes.len() as u32);
    (meta.side, meta.link) = (Side::Outside, LinkType::Ethernet);
    let mut frames = vec![rig.pool.copy(&bytes, meta).expect("a frame is free")];
    let now = rig.now;
    rig.switch.ingress(now, &mut rig.pool, &mut frames);
}

#[test]
fn a_name_stays_with_its_unit_while_a_packet_that_came_by_it_is_on_its_way() {
    let settings = SwitchSettings {
        kept: 256,
        ..SwitchSettings::default()
    };
    let mut rig = Rig::of(&wide(), settings, 1);
    rig.send(11, 1);
    let frames = rig.queue(1);
    let unit = rig.see(&frames[0]).unit;
    rig.answer(1, frames, Disposition::Out);
    let mut keys = Vec::new();
    rig.switch.classifier().flows_of(unit.0, &mut keys);
    // The flow ends with packet 2, and packet 3 of it is on its way.
    rig.send(11, 2);
    let second = rig.queue(1);
    rig.send(11, 3);
    let third = rig.queue(1);
    ends_with(&mut rig, second, keys[0]);
    assert_eq!(rig.switch.classifier().unit_of(&keys[0]), Some(unit.0));
    // Packet 4 came by the name meanwhile: when 3 is let out, 4 is on its way.
    answer_from_server(&mut rig, 11, 4);
    let fourth = rig.queue(1);
    let seen = rig.see(&fourth[0]);
    assert_eq!((seen.unit, seen.clock), (unit, Clock(4)));
    rig.answer(1, third, Disposition::Out);
    assert_eq!(rig.switch.classifier().unit_of(&keys[0]), Some(unit.0));
    rig.answer(1, fourth, Disposition::Out);
    assert_eq!(rig.switch.classifier().unit_of(&keys[0]), None);
    // Nothing of the flow is on its way: it may begin elsewhere.
    answer_from_server(&mut rig, 11, 5);
    rig.pass(0);
    let frames = rig.queue(1);
    assert_ne!(rig.see(&frames[0]).unit, unit);
    rig.answer(1, frames, Disposition::Out);
    rig.end();
}

/// The owner ends a flow, begins it anew with a packet that was on its way, and ends it
/// again (seed 77000220150, docs/simulator.md).
#[test]
fn a_name_that_leaves_twice_stays_while_a_packet_that_came_by_it_is_on_its_way() {
    let settings = SwitchSettings {
        kept: 256,
        ..SwitchSettings::default()
    };
    let mut rig = Rig::of(&wide(), settings, 1);
    let mut sent = Vec::new();
    for tag in 1..=4 {
        rig.send(11, tag);
        sent.push(rig.queue(1));
    }
    let unit = rig.see(&sent[0][0]).unit;
    let mut keys = Vec::new();
    rig.switch.classifier().flows_of(unit.0, &mut keys);
    let is_there = |rig: &Rig| rig.switch.classifier().unit_of(&keys[0]) == Some(unit.0);
    let mut sent = sent.into_iter();
    for frames in sent.by_ref().take(2) {
        ends_with(&mut rig, frames, keys[0]);
    }
    rig.send(11, 5);
    let fifth = rig.queue(1);
    for frames in sent {
        rig.answer(1, frames, Disposition::Out);
        assert!(is_there(&rig));
    }
    rig.answer(1, fifth, Disposition::Out);
    assert!(!is_there(&rig));
    rig.end();
}
