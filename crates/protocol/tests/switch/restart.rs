//! A switch that starts again.

use weir_nf::host::{AliasRequest, NO_FLOW};
use weir_packet::{Direction, Disposition, FlowKey, Side};
use weir_protocol::message::{Claim, Message, Origin};
use weir_protocol::settings::SwitchSettings;
use weir_protocol::switch::{SwitchCount, SwitchDrop};
use weir_protocol::{Clock, Peer, UnitId, View};

use crate::rig::{Rig, rt, stage};
use crate::{claims, each_burst, settings, settled};

/// A claim of a unit of one flow, with its state.
fn claim_of((unit, key): (UnitId, FlowKey), owner: bool, view: View, clock: u64) -> Claim {
    Claim {
        unit,
        view,
        owner,
        clock: Clock(clock),
        state: true,
        key: None,
        flows: vec![(key, false)],
        aliases: Vec::new(),
    }
}

#[test]
fn a_restarted_switch_goes_on_from_the_best_claims() {
    let (mut rig, unit, owner) = settled(each_burst(), 3);
    rig.send(1, 2);
    let key = rig.switch.classifier().key_of(unit.0).unwrap();
    let frames = rig.queue(owner);
    let old = rig.see(&frames[0]).view;
    // Two of generation 2, and the entry of packet 2 was not let out.
    let mut again = Rig::of(
        &stage(),
        SwitchSettings {
            generation: 2,
            ..each_burst()
        },
        0,
    );
    let all = [rt(1), rt(2), rt(3)];
    again.switch.recover(again.now, &all);
    assert!(again.switch.is_recovering());
    again.send(1, 3);
    again.send(5, 50);
    assert_eq!(again.switch.report().held, 2);
    let claim = |owner, view, clock| claim_of((unit, key), owner, view, clock);
    let replica = owner % 3 + 1;
    let third = 6 - owner - replica;
    assert!(matches!(
        again.to(third)[..],
        [Message::Recover {
            generation: 2,
            from: 0,
            most: 64,
        }]
    ));
    again.say(third, claims(vec![claim(true, View(old.0 - 1), 9)]));
    again.say(replica, claims(vec![claim(false, old, 1)]));
    again.pass(11);
    assert!(matches!(
        again.to(owner).last(),
        Some(Message::Recover { .. })
    ));
    again.say(owner, claims(vec![claim(true, old, 2)]));
    assert!(!again.switch.is_recovering());
    again.pass(0);
    let open = again.open(owner).unwrap();
    assert_eq!((open.unit, open.old, open.base), (unit, old, Clock(2)));
    assert_eq!(open.view.generation(), 2);
    assert_eq!(open.origin, Origin::Resumed { source: rt(owner) });
    let mine = again.queue(owner);
    let seen = again.see(&mine[0]);
    assert_eq!((seen.unit, seen.clock, seen.tag), (unit, Clock(3), 3));
    let speaker = open.replica.unwrap().0;
    // What was of the old generation is refused.
    let mut copies = vec![again.frame(1, 8)];
    let memory = again.pool.memory().clone();
    let meta = memory.meta_mut(&mut copies[0]);
    (meta.unit, meta.view, meta.clock) = (unit.0, old.0, 3);
    again.answer(owner, copies, Disposition::Out);
    assert_eq!(again.count(SwitchCount::EntryOldView), 1);
    again.answer(speaker, mine, Disposition::Out);
    assert!(again.out().contains(&3));
    let forgets = again.messages();
    assert!(forgets.iter().any(|(to, m)| *to == Peer::Runtime(rt(third))
        && matches!(m, Message::Forget { below, .. } if *below == open.view)));
    again.say(owner, claims(Vec::new()));
    assert_eq!(again.count(SwitchCount::ClaimLate), 1);
    again.end();
    rig.drop_all(frames);
    rig.end();
}

/// Outputs wait for the replica: what it lacks of the owner's claim was not let out.
#[test]
fn a_replica_behind_the_owners_claim_goes_on_when_the_owner_dies() {
    let (rig, unit, owner) = settled(each_burst(), 3);
    let key = rig.switch.classifier().key_of(unit.0).unwrap();
    let settings = SwitchSettings {
        generation: 2,
        ..each_burst()
    };
    let mut again = Rig::of(&stage(), settings, 0);
    again.switch.recover(again.now, &[rt(1), rt(2), rt(3)]);
    let old = View::first_of(1);
    let claim = |owner, clock| claim_of((unit, key), owner, old, clock);
    let replica = owner % 3 + 1;
    again.say(6 - owner - replica, claims(Vec::new()));
    again.say(replica, claims(vec![claim(false, 1)]));
    again.say(owner, claims(vec![claim(true, 4)]));
    assert_eq!(again.open(owner).unwrap().base, Clock(4));
    again.switch.suspect(again.now, &mut again.pool, rt(owner));
    let open = again.open(replica).unwrap();
    assert_eq!((open.old, open.base, open.out), (old, Clock(4), Clock(4)));
    assert_eq!(again.count(SwitchCount::UnitLost), 0);
    // It asks for what it lacks: nobody has it.
    let (view, after) = (open.view, Clock(1));
    again.say(replica, Message::Repeat { unit, view, after });
    let lost = again.queue(replica);
    let seen: Vec<_> = lost.iter().map(|frame| again.see(frame)).collect();
    let is_lost = |flags: u8| flags & weir_packet::frame_flags::LOST != 0;
    assert!(
        seen.iter()
            .all(|seen| is_lost(seen.flags) && seen.view == view)
    );
    let clocks: Vec<Clock> = seen.iter().map(|seen| seen.clock).collect();
    assert_eq!(clocks, [Clock(2), Clock(3), Clock(4)]);
    again.drop_all(lost);
    again.end();
    rig.end();
}

#[test]
fn a_restarted_switch_does_not_wait_for_the_dead_nor_hold_without_bound() {
    let few = SwitchSettings {
        recovery_held: 2,
        generation: 2,
        ..settings()
    };
    let mut rig = Rig::of(&stage(), few, 0);
    rig.switch.recover(rig.now, &[rt(1), rt(2)]);
    for tag in 1..=4 {
        rig.send(1, tag);
    }
    assert_eq!(rig.dropped(SwitchDrop::RecoveryFull), 2);
    let piece = |piece, pieces| Message::Claims {
        generation: 2,
        piece,
        pieces,
        claims: Vec::new(),
        suspected: Vec::new(),
    };
    // The last piece is no answer, nor is a number that no piece has.
    rig.say(1, piece(2, 3));
    rig.say(1, piece(0, 3));
    rig.say(1, piece(3, 3));
    rig.say(1, piece(0, u32::MAX));
    assert_eq!(rig.count(SwitchCount::ClaimImpossible), 2);
    let _ = rig.to(1);
    // More may be on its way at first.
    rig.pass(11);
    assert!(rig.to(1).is_empty());
    rig.pass(11);
    assert!(matches!(rig.to(1)[..], [Message::Recover { from: 1, .. }]));
    rig.say(1, piece(1, 3));
    rig.suspect(2);
    assert!(!rig.switch.is_recovering());
    rig.serve(1);
    assert_eq!(rig.out(), [1, 2]);
    rig.end();
}

#[test]
fn a_restarted_switch_does_not_wait_for_an_answer_that_never_ends() {
    let mut rig = Rig::of(
        &stage(),
        SwitchSettings {
            generation: 2,
            ..settings()
        },
        0,
    );
    rig.switch.recover(rig.now, &[rt(1), rt(2)]);
    rig.send(1, 1);
    let piece = |piece, pieces| Message::Claims {
        generation: 2,
        piece,
        pieces,
        claims: Vec::new(),
        suspected: Vec::new(),
    };
    rig.say(1, piece(0, 1));
    let mut asked = 0;
    while rig.switch.is_recovering() {
        // A new total each time, and one piece of it.
        rig.say(2, piece(0, 2 + asked % 2));
        rig.pass(10);
        asked += 1;
        assert!(asked < 2_000);
    }
    assert_eq!(rig.count(SwitchCount::AnswerGivenUp), 1);
    assert_eq!(rig.count(SwitchCount::Suspected), 1);
    rig.serve(1);
    assert_eq!(rig.out(), [1]);
    rig.end();
}

#[test]
fn an_older_copy_with_state_does_not_revive_a_unit_that_is_over() {
    let again = SwitchSettings {
        generation: 2,
        ..settings()
    };
    let (first, unit, _) = settled(settings(), 3);
    let key = first.switch.classifier().key_of(unit.0).unwrap();
    first.end();
    let mut rig = Rig::of(&stage(), again, 0);
    rig.switch.recover(rig.now, &[rt(1), rt(2), rt(3)]);
    let claim = |view: u64, clock: u64, owner: bool, state: bool| {
        let claim = Claim {
            unit,
            view: View(1 << View::NUMBER_BITS | view),
            owner,
            clock: Clock(clock),
            state,
            key: None,
            flows: if state {
                vec![(key, false)]
            } else {
                Vec::new()
            },
            aliases: Vec::new(),
        };
        claims(vec![claim])
    };
    // The source of a move, the owner, and its replica, which is behind.
    rig.say(1, claim(4, 6, true, true));
    rig.say(2, claim(5, 9, true, false));
    rig.say(3, claim(5, 8, false, true));
    assert!(!rig.switch.is_recovering());
    assert_eq!(rig.count(SwitchCount::Recovered), 0);
    assert_eq!(rig.count(SwitchCount::ClaimEnded), 1);
    let forgets = |messages: Vec<Message>| {
        let ended = |m: &Message| matches!(m, Message::Forget { ended: true, .. });
        messages.iter().filter(|m| ended(m)).count()
    };
    let told = [1, 2, 3].map(|number| forgets(rig.to(number)));
    assert_eq!(told, [1, 0, 1], "the owner knows that it is over");
    // Nor when it asks again.
    let end = Message::End {
        unit,
        view: View(1 << View::NUMBER_BITS | 5),
        clock: Clock(9),
    };
    rig.say(2, end);
    assert_eq!(forgets(rig.to(2)), 0);
    let below = View::first_of(2);
    rig.say(1, Message::Forgotten { unit, below });
    assert_eq!(forgets(rig.to(2)), 0);
    // The replica dies: nobody with state is left.
    rig.suspect(3);
    assert_eq!(forgets(rig.to(2)), 1);
    rig.say(2, Message::Forgotten { unit, below });
    rig.end();
}

/// The flow's key is another unit's, which a packet by it has opened; it is found by its alias.
#[test]
fn a_unit_whose_key_another_one_has_keeps_its_alias() {
    let (server, client) = (
        "198.51.100.13".parse().unwrap(),
        "10.0.0.1".parse().unwrap(),
    );
    let virtual_address = "203.0.113.80".parse().unwrap();
    let (key, _) = FlowKey::new(client, 1_031, server, 80, 6, 0, 0);
    let (alias, _) = FlowKey::new(client, 1_031, virtual_address, 80, 6, 0, 0);
    let again = SwitchSettings {
        generation: 2,
        ..settings()
    };
    let mut rig = Rig::of(&stage(), again, 0);
    rig.switch.recover(rig.now, &[rt(1)]);
    let view = |number: u64| View(1 << View::NUMBER_BITS | number);
    let (old, new) = (UnitId(1 << 32 | 4), UnitId(1 << 32 | 7));
    let mut hidden = claim_of((old, key), true, view(4), 6);
    let request = AliasRequest {
        flow: NO_FLOW,
        key: alias,
        client: Direction::Forward,
        side: Side::Inside,
        open: false,
    };
    hidden.aliases.push((key, request));
    let newer = claim_of((new, key), true, view(9), 1);
    rig.say(1, claims(vec![hidden, newer]));
    let names = rig.switch.classifier();
    assert_eq!(names.unit_of_name(&key), Some(new.0));
    assert_eq!(names.unit_of_name(&alias), Some(old.0));
    assert_eq!(rig.switch.audit(), None);
    rig.end();
}

#[test]
fn what_the_switch_before_suspected_is_not_heard() {
    // The switch before tells the others, and those that come later.
    let (mut rig, unit, _) = settled(settings(), 3);
    let key = rig.switch.classifier().key_of(unit.0).unwrap();
    rig.suspect(1);
    let told = |messages: Vec<Message>| messages.contains(&Message::Suspect { runtime: rt(1) });
    let all = rig.messages();
    for number in [2, 3] {
        let mine = all
            .iter()
            .filter(|(to, _)| *to == Peer::Runtime(rt(number)));
        assert!(told(mine.map(|(_, message)| message.clone()).collect()));
    }
    let now = rig.now;
    rig.switch.join(now, rt(4));
    assert!(told(rig.to(4)));
    rig.end();
    // The one that starts again is told that runtime 1 is there; it lives, and
    // has a copy of a unit that has ended elsewhere meanwhile.
    let again = SwitchSettings {
        generation: 2,
        ..settings()
    };
    let mut rig = Rig::of(&stage(), again, 0);
    rig.switch.recover(rig.now, &[rt(1), rt(2)]);
    let answer = |claims: Vec<Claim>, suspected| Message::Claims {
        generation: 2,
        piece: 0,
        pieces: 1,
        claims,
        suspected,
    };
    let copy = Claim {
        unit,
        view: View(1 << View::NUMBER_BITS | 4),
        owner: true,
        clock: Clock(6),
        state: true,
        key: None,
        flows: vec![(key, false)],
        aliases: Vec::new(),
    };
    rig.say(1, answer(vec![copy], Vec::new()));
    rig.say(2, answer(Vec::new(), vec![rt(1)]));
    assert!(!rig.switch.is_recovering());
    assert_eq!(rig.count(SwitchCount::SuspectedBefore), 1);
    assert_eq!(rig.count(SwitchCount::Recovered), 0);
    // It is told on: to who joins, and it does not join again itself.
    let now = rig.now;
    rig.switch.join(now, rt(1));
    rig.switch.join(now, rt(5));
    assert!(told(rig.to(5)));
    assert_eq!(rig.count(SwitchCount::MessageMisdirected), 1);
    rig.end();
}
