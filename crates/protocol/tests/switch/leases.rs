//! Blocks of ports.

use weir_nf::host::Stage;
use weir_nf::{PoolId, PoolSpec, PortLease, PortSpace};
use weir_packet::{Disposition, FlowKey};
use weir_protocol::ids::Peer;
use weir_protocol::message::{Claim, Message, MoveMode};
use weir_protocol::settings::SwitchSettings;
use weir_protocol::switch::SwitchCount;
use weir_protocol::{Clock, RuntimeId, UnitId, View};
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

fn with(pools: Vec<PoolSpec>) -> Stage {
    Stage { pools, ..stage() }
}

#[test]
fn blocks_are_granted_at_joining_and_when_wanted_and_never_twice() {
    let mut rig = Rig::of(&with(pools()), settings(), 0);
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

/// No packet and no question of the waiting runtime comes that would make the switch look.
#[test]
fn who_waits_for_a_block_gets_the_first_that_is_free() {
    let mut rig = Rig::of(&with(pools()), settings(), 0);
    let now = rig.now;
    for number in 1..=4 {
        rig.switch.join(now, rt(number));
    }
    assert_eq!(rig.count(SwitchCount::NoBlock), 2);
    rig.messages();
    rig.suspect(3);
    assert_eq!(rig.count(SwitchCount::BlockGrantedAgain), 0);
    rig.messages();
    rig.suspect(1);
    let is_its = |message: &Message| matches!(message, Message::LeaseGranted { block: 4, .. });
    let told = rig.messages();
    let told = told.iter().filter(|(_, message)| is_its(message));
    let told: Vec<_> = told.map(|(to, _)| *to).collect();
    assert_eq!(told, [Peer::Runtime(rt(4))]);
    rig.end();
}

/// Of two that a runtime waits for the first is not free still: it gets the second.
#[test]
fn who_waits_in_vain_for_one_block_holds_nobody_up() {
    let [wide] = pools().try_into().unwrap();
    let narrow = PoolSpec {
        addresses: vec!["192.0.2.8".parse().unwrap()],
        last: 1_279,
        ..wide.clone()
    };
    let mut rig = Rig::of(&with(vec![narrow, wide]), settings(), 0);
    let now = rig.now;
    for number in 1..=3 {
        rig.switch.join(now, rt(number));
    }
    // The second lacks a block of the first pool, the third one of each.
    assert_eq!(rig.count(SwitchCount::NoBlock), 3);
    rig.messages();
    rig.suspect(2);
    let granted = |message: &Message| matches!(message, Message::LeaseGranted { .. });
    let told: Vec<Message> = rig.to(3).into_iter().filter(granted).collect();
    let (pool, address, block) = (PoolId(1), 0, 5);
    assert_eq!(
        told,
        [Message::LeaseGranted {
            pool,
            address,
            block
        }]
    );
    rig.end();
}

/// Lets out the packet in the queue of `number` with notes beside it.
fn answer_with(rig: &mut Rig, number: u32, notes: &[Note<'_>]) {
    answer_all(rig, number, &[notes]);
}

/// Lets out the packets in the queue of `number` in one burst, each with notes beside it.
fn answer_all(rig: &mut Rig, number: u32, all: &[&[Note<'_>]]) {
    let memory = rig.pool.memory().clone();
    let mut frames = Vec::new();
    for (mut frame, notes) in rig.queue(number).into_iter().zip(all) {
        let mut bytes = Vec::new();
        for note in *notes {
            weir_runtime::notes::write(note, &mut bytes);
        }
        let mut meta = *memory.meta(&frame);
        meta.disposition = Disposition::Notes;
        frames.push(rig.pool.copy(&bytes, meta).unwrap());
        memory.meta_mut(&mut frame).disposition = Disposition::Out;
        frames.push(frame);
    }
    let now = rig.now;
    rig.switch
        .entries(now, &mut rig.pool, rt(number), &mut frames);
    rig.check();
}

#[test]
fn a_port_comes_back_with_its_last_name_and_a_block_with_its_last_port() {
    let mut rig = Rig::of(&with(pools()), settings(), 2);
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
    // Leased and freed in one burst: the lessor hears first that the lease is let out.
    rig.send(1, 7);
    rig.send(1, 8);
    rig.messages();
    let both: [&[Note<'_>]; 2] = [
        &[leased, Note::Alias { flow, request }],
        &[Note::FlowEnded { key: flow }],
    ];
    answer_all(&mut rig, other, &both);
    let said = rig.to(other);
    let at = |is: &dyn Fn(&Message) -> bool| said.iter().position(is);
    let freed = at(&|m| matches!(m, Message::PortFreed { .. }));
    let let_out = at(&|m| matches!(m, Message::Out { .. }));
    assert!(let_out.is_some() && let_out < freed, "{said:?}");
    rig.out();
    rig.end();
}

/// Threads repeat nothing: what such an entry leased nobody will ask for (seed 333 of the
/// simulator, `--mode ring --every-fault`).
#[test]
fn ports_of_an_entry_that_is_never_let_out_are_free() {
    for repeats in [false, true] {
        let settings = SwitchSettings {
            acknowledge: repeats,
            ..settings()
        };
        let mut rig = Rig::of(&with(pools()), settings, 2);
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
    let mut rig = Rig::of(&with(pools()), settings(), 1);
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

/// A switch of generation 2 that asks runtimes 1 and 2, over pools.
fn restarted() -> Rig {
    let again = SwitchSettings {
        generation: 2,
        ..settings()
    };
    let mut rig = Rig::of(&with(pools()), again, 0);
    rig.switch.recover(rig.now, &[rt(1), rt(2)]);
    rig.messages();
    rig
}

fn answer(claims: Vec<Claim>, suspected: Vec<RuntimeId>) -> Message {
    Message::Claims {
        generation: 2,
        piece: 0,
        pieces: 1,
        claims,
        suspected,
    }
}

const LEASE: PortLease = PortLease {
    address: 0,
    port: 1_100,
    space: PortSpace::Udp,
};

/// The switch before thought runtime 1 dead and granted its block again; runtime 1 lives, and
/// says last that it has it.
#[test]
fn a_block_that_two_claim_is_of_the_one_that_is_not_suspected() {
    let mut rig = restarted();
    let block = Message::LeaseGranted {
        pool: PoolId(0),
        address: 0,
        block: 4,
    };
    rig.say(2, block.clone());
    rig.say(1, block);
    rig.say(1, answer(vec![], vec![]));
    rig.say(2, answer(vec![], vec![rt(1)]));
    assert!(!rig.switch.is_recovering());
    rig.messages();
    // It is runtime 2's: no unit has the port.
    let doubts = vec![(LEASE, None)];
    let pool = PoolId(0);
    rig.say(2, Message::PortsDoubted { pool, doubts });
    let (free, leased) = (vec![LEASE], vec![]);
    assert_eq!(rig.to(2), [Message::PortsKnown { pool, free, leased }]);
    rig.end();
}

/// The flow's key is the name under which its port is found, and who leased the port is dead:
/// nobody says that it is leased.
#[test]
fn a_port_that_a_claimed_flow_ends_at_is_not_granted_again() {
    let mut rig = restarted();
    let external = "192.0.2.7".parse().unwrap();
    let server = "198.51.100.1".parse().unwrap();
    let (key, _) = FlowKey::new(server, 53, external, 1_100, 17, 0, 0);
    let claim = Claim {
        unit: UnitId(1 << 32 | 3),
        view: View(1 << View::NUMBER_BITS | 4),
        owner: true,
        clock: Clock(6),
        state: true,
        key: None,
        flows: vec![(key, false)],
        aliases: Vec::new(),
    };
    rig.say(1, answer(vec![claim], vec![]));
    rig.say(2, answer(vec![], vec![]));
    let mut granted = rig.to(1);
    granted.extend(rig.to(2));
    rig.say(1, Message::LeaseWanted { pool: PoolId(0) });
    rig.say(2, Message::LeaseWanted { pool: PoolId(0) });
    granted.extend(rig.to(1));
    granted.extend(rig.to(2));
    // Ports 1,024 to 1,279.
    let is_its = |message: &Message| matches!(message, Message::LeaseGranted { block: 4, .. });
    assert!(!granted.iter().any(is_its), "{granted:?}");
    assert_eq!(rig.switch.audit(), None);
    rig.end();
}

/// A server's late packet may have opened a unit under the name of a port that another unit has
/// leased anew without a name: both have the port after a restart, and it is not free before
/// both are over.
#[test]
fn a_port_that_two_units_may_have_is_free_with_the_second() {
    let mut rig = restarted();
    let (external, server) = (
        "192.0.2.7".parse().unwrap(),
        "198.51.100.1".parse().unwrap(),
    );
    let (outside, _) = FlowKey::new(server, 53, external, 1_100, 17, 0, 0);
    let (inside, _) = FlowKey::new("10.0.0.1".parse().unwrap(), 9, server, 53, 17, 0, 0);
    let claim = |place: u64, flow: FlowKey| Claim {
        unit: UnitId(1 << 32 | place),
        view: View(1 << View::NUMBER_BITS | place),
        owner: true,
        clock: Clock(6),
        state: true,
        key: None,
        flows: vec![(flow, false)],
        aliases: Vec::new(),
    };
    let (pool, block) = (PoolId(0), 4);
    let address = 0;
    rig.say(
        1,
        Message::LeaseGranted {
            pool,
            address,
            block,
        },
    );
    let both = vec![claim(3, outside), claim(4, inside)];
    let units = [both[0].unit, both[1].unit];
    rig.say(1, answer(both, vec![]));
    rig.say(2, answer(vec![], vec![]));
    let opened: Vec<View> = rig
        .to(1)
        .iter()
        .filter_map(|message| match message {
            Message::Open(open) => Some(open.view),
            _ => None,
        })
        .collect();
    let doubts = vec![(LEASE, Some(units[1]))];
    // Asked twice it is answered twice, and the unit has the port once.
    for _ in 0..2 {
        rig.messages();
        let doubts = doubts.clone();
        rig.say(1, Message::PortsDoubted { pool, doubts });
        let (free, leased) = (vec![], vec![LEASE]);
        assert_eq!(rig.to(1), [Message::PortsKnown { pool, free, leased }]);
    }
    assert_eq!(rig.count(SwitchCount::PortHeld), 1);
    assert_eq!(rig.switch.audit(), None);
    for ((unit, view), frees) in units.into_iter().zip(opened).zip([false, true]) {
        let clock = Clock(6);
        rig.say(1, Message::Held { unit, view });
        rig.say(1, Message::Forgotten { unit, below: view });
        rig.say(1, Message::End { unit, view, clock });
        let freed = Message::PortFreed { pool, lease: LEASE };
        assert_eq!(rig.to(1).contains(&freed), frees, "{unit:?}");
    }
    assert_eq!(rig.switch.live_units().count(), 0);
    assert_eq!(rig.switch.audit(), None);
    rig.end();
}

/// A stream may refuse a message: a runtime that runs low is told once more of a block that
/// nobody uses.
#[test]
fn a_block_that_nobody_uses_is_said_again() {
    let mut rig = Rig::of(&with(pools()), settings(), 0);
    let now = rig.now;
    rig.switch.join(now, rt(1));
    let granted = |messages: Vec<Message>| {
        let is_grant = |message: &Message| matches!(message, Message::LeaseGranted { .. });
        messages.into_iter().filter(is_grant).collect::<Vec<_>>()
    };
    let first = granted(rig.to(1));
    assert_eq!(first.len(), 1);
    rig.say(1, Message::LeaseWanted { pool: PoolId(0) });
    assert!(granted(rig.to(1)).contains(&first[0]));
    assert_eq!(rig.count(SwitchCount::BlockSaidAgain), 1);
    rig.end();
}

/// New flows lease faster than their packets are let out: the switch believes who asks where
/// nothing is lost on the way. Elsewhere the last grant may be on its way still.
#[test]
fn who_seems_to_have_enough_gets_more_where_nothing_is_lost() {
    for (lossless, grants) in [(true, 2), (false, 1)] {
        let mut pools = pools();
        pools[0].block = 64;
        let settings = SwitchSettings {
            lossless,
            ..settings()
        };
        let mut rig = Rig::of(&with(pools), settings, 1);
        rig.messages();
        for _ in 0..2 {
            rig.say(1, Message::LeaseWanted { pool: PoolId(0) });
        }
        let messages = rig.to(1);
        let new = messages
            .iter()
            .filter(|m| matches!(m, Message::LeaseGranted { .. }));
        let new: std::collections::BTreeSet<_> = new.map(|m| format!("{m:?}")).collect();
        // What is said again is the block of its start.
        let again = u64::from(!lossless);
        assert_eq!(new.len() as u64, grants + again, "{messages:?}");
        assert_eq!(rig.count(SwitchCount::BlockSaidAgain) > 0, !lossless);
        rig.end();
    }
}
