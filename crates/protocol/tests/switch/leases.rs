//! Blocks of ports.

use weir_nf::{PoolId, PoolSpec, PortLease, PortSpace};
use weir_packet::Disposition;
use weir_protocol::message::{Message, MoveMode};
use weir_protocol::settings::SwitchSettings;
use weir_protocol::switch::SwitchCount;
use weir_runtime::notes::Note;

use crate::rig::{Rig, rt, stage};
use crate::{move_to, settings};

fn pools() -> Vec<PoolSpec> {
    vec![PoolSpec {
        addresses: vec!["192.0.2.7".parse().unwrap()],
        first: 1_024,
        last: 1_535,
        block: 256,
    }]
}

#[test]
fn blocks_are_granted_at_joining_and_when_wanted_and_never_twice() {
    let stage = weir_nf::host::Stage {
        pools: pools(),
        ..stage()
    };
    let mut rig = Rig::of(&stage, settings(), 0);
    let mut granted = Vec::new();
    let now = rig.now;
    for number in 1..=3 {
        rig.switch.join(now, rt(number));
        for message in rig.to(number) {
            if let Message::LeaseGranted { block, .. } = message {
                granted.push((number, block));
            }
        }
    }
    assert_eq!(granted, [(1, 4), (2, 5)]);
    assert_eq!(rig.count(SwitchCount::NoBlock), 1);
    // The first dies: its block has no name, and goes to the third.
    rig.suspect(1);
    rig.messages();
    rig.say(3, Message::LeaseWanted { pool: PoolId(0) });
    assert!(matches!(
        rig.to(3)[..],
        [Message::LeaseGranted { block: 4, .. }]
    ));
    assert_eq!(rig.count(SwitchCount::BlockGrantedAgain), 1);
    rig.say(3, Message::LeaseWanted { pool: PoolId(7) });
    assert_eq!(rig.count(SwitchCount::MessageMisdirected), 1);
    rig.end();
}

/// Lets out the packet in the queue of `number` with notes beside it.
fn answer_with(rig: &mut Rig, number: u32, notes: &[Note<'_>]) {
    let mut frames = rig.queue(number);
    let memory = rig.pool.memory().clone();
    let mut bytes = Vec::new();
    for note in notes {
        weir_runtime::notes::write(note, &mut bytes);
    }
    let mut meta = *memory.meta(&frames[0]);
    meta.disposition = Disposition::Notes;
    let side = rig.pool.copy(&bytes, meta).unwrap();
    memory.meta_mut(&mut frames[0]).disposition = Disposition::Out;
    frames.insert(0, side);
    let now = rig.now;
    rig.switch
        .entries(now, &mut rig.pool, rt(number), &mut frames);
    rig.check();
}

#[test]
fn a_port_comes_back_with_its_last_name_and_a_block_with_its_last_port() {
    let stage = weir_nf::host::Stage {
        pools: pools(),
        ..stage()
    };
    let mut rig = Rig::of(&stage, settings(), 2);
    rig.send(1, 1);
    let owner = rig.who()[0];
    let unit = rig.switch.live_units().next().unwrap();
    let flow = rig.switch.classifier().key_of(unit.0).unwrap();
    let port = if owner == 1 { 1_100 } else { 1_300 };
    let (server, outside) = ("192.0.2.1".parse().unwrap(), "192.0.2.7".parse().unwrap());
    let (key, client) = weir_packet::FlowKey::new(outside, port, server, 53, 17, 0, 0);
    let request = weir_nf::host::AliasRequest {
        flow: 0,
        key,
        client,
        side: weir_packet::Side::Inside,
        open: false,
    };
    let leased = Note::Leased {
        pool: PoolId(0),
        lease: PortLease {
            address: 0,
            port,
            space: PortSpace::Udp,
        },
    };
    let event = Note::Event(b"{}\n");
    let notes = [leased, Note::Alias { flow, request }, event];
    answer_with(&mut rig, owner, &notes);
    assert_eq!(rig.switch.outbox.events, b"{}\n");
    assert_eq!(rig.switch.classifier().unit_of(&key), Some(unit.0));
    assert_eq!(rig.count(SwitchCount::AliasAdded), 1);
    // Its flow moves, its first owner dies: the block keeps its name.
    let other = 3 - owner;
    move_to(&mut rig, owner, other, MoveMode::Push).unwrap();
    let open = rig.open(other).unwrap();
    let view = open.view;
    rig.say(other, Message::Held { unit, view });
    rig.suspect(owner);
    rig.messages();
    let want = Message::LeaseWanted { pool: PoolId(0) };
    rig.pass(50);
    rig.say(other, want.clone());
    assert_eq!(rig.count(SwitchCount::BlockGrantedAgain), 0);
    assert_eq!(rig.count(SwitchCount::NoBlock), 1);
    // The flow ends: the name goes, and now the block is free.
    rig.send(1, 2);
    answer_with(&mut rig, other, &[Note::FlowEnded { key: flow }]);
    assert_eq!(rig.count(SwitchCount::AliasGone), 1);
    assert_eq!(rig.count(SwitchCount::PortFreed), 0);
    rig.pass(50);
    rig.say(other, want);
    assert_eq!(rig.count(SwitchCount::BlockGrantedAgain), 1);
    // Nobody leased the port: its name frees nothing.
    rig.send(1, 3);
    answer_with(&mut rig, other, &[Note::Alias { flow, request }]);
    rig.send(1, 4);
    rig.messages();
    answer_with(&mut rig, other, &[Note::FlowEnded { key: flow }]);
    assert_eq!(rig.count(SwitchCount::AliasGone), 2);
    assert_eq!(rig.count(SwitchCount::PortFreed), 0);
    // A name in a block of someone who is there: the port goes back to them.
    rig.send(1, 5);
    answer_with(&mut rig, other, &[leased, Note::Alias { flow, request }]);
    rig.send(1, 6);
    rig.messages();
    answer_with(&mut rig, other, &[Note::FlowEnded { key: flow }]);
    let freed = rig.to(other);
    assert!(
        freed.iter().any(|m| matches!(
            m,
            Message::PortFreed { lease, .. } if lease.port == port && lease.address == 0
        )),
        "{freed:?}"
    );
    rig.out();
    rig.end();
}

/// Threads repeat nothing: what such an entry leased nobody will ask for (seed 333 of the
/// simulator, `--mode ring --every-fault`).
#[test]
fn ports_of_an_entry_that_is_never_let_out_are_free() {
    let stage = weir_nf::host::Stage {
        pools: pools(),
        ..stage()
    };
    for repeats in [false, true] {
        let settings = SwitchSettings {
            acknowledge: repeats,
            ..settings()
        };
        let mut rig = Rig::of(&stage, settings, 2);
        rig.send(1, 1);
        let owner = rig.who()[0];
        let lease = |port| PortLease {
            address: 0,
            port,
            space: PortSpace::Udp,
        };
        let leased = |port| Note::Leased {
            pool: PoolId(0),
            lease: lease(port),
        };
        let [own, other] = match owner {
            1 => [1_100, 1_300],
            _ => [1_300, 1_100],
        };
        answer_with(&mut rig, owner, &[leased(own)]);
        rig.messages();
        // The next one comes from a runtime that is not the owner. One of its ports is
        // leased by now, and the other lies in its own block.
        rig.send(1, 2);
        let mut frames = rig.queue(owner);
        let memory = rig.pool.memory().clone();
        let mut bytes = Vec::new();
        for port in [own, other] {
            weir_runtime::notes::write(&leased(port), &mut bytes);
        }
        let mut meta = *memory.meta(&frames[0]);
        meta.disposition = Disposition::Notes;
        let side = rig.pool.copy(&bytes, meta).unwrap();
        memory.meta_mut(&mut frames[0]).disposition = Disposition::Out;
        frames.insert(0, side);
        let now = rig.now;
        let stranger = 3 - owner;
        rig.switch
            .entries(now, &mut rig.pool, rt(stranger), &mut frames);
        assert_eq!(rig.count(SwitchCount::EntryNotOwner), 1);
        let freed = Message::PortFreed {
            pool: PoolId(0),
            lease: lease(other),
        };
        let expected = if repeats { vec![] } else { vec![freed] };
        assert_eq!(rig.to(stranger), expected);
    }
}

/// The entry that leased the port may have passed to the unit's new owner, and be let out
/// yet (seed 5081 of the simulator: two clients got one port).
#[test]
fn a_port_in_doubt_is_not_free_while_packets_of_its_unit_are_on_their_way() {
    let stage = weir_nf::host::Stage {
        pools: pools(),
        ..stage()
    };
    let mut rig = Rig::of(&stage, settings(), 1);
    rig.send(1, 1);
    let unit = rig.switch.live_units().next().unwrap();
    let frames = rig.queue(1);
    rig.messages();
    let lease = PortLease {
        address: 0,
        port: 1_100,
        space: PortSpace::Udp,
    };
    let doubted = Message::PortsDoubted {
        pool: PoolId(0),
        doubts: vec![(lease, Some(unit))],
    };
    rig.say(1, doubted.clone());
    assert_eq!(rig.to(1), []);
    rig.answer(1, frames, Disposition::Out);
    rig.messages();
    rig.say(1, doubted);
    let known = Message::PortsKnown {
        pool: PoolId(0),
        free: vec![lease],
        leased: vec![],
    };
    assert_eq!(rig.to(1), [known]);
}
