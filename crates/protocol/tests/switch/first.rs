//! New flows and where they go, packets that come in again, selections.

use weir_packet::Disposition;
use weir_protocol::message::{FlowSpace, Message, MoveMode, Selection};
use weir_protocol::settings::{Dispatch, SwitchSettings};
use weir_protocol::switch::{MoveError, SwitchCount, SwitchDrop};
use weir_protocol::{Peer, UnitId, View};

use crate::rig::{Rig, rt};
use crate::{FRESH, each_burst, settings, settled};

#[test]
fn new_flows_go_round_and_come_back_in_order() {
    let mut rig = Rig::new(settings(), 3);
    for round in 0..3 {
        for flow in 1..=6 {
            rig.send(flow, round * 10 + flow);
        }
    }
    let mut units = Vec::new();
    for number in 1..=3 {
        let frames = rig.queue(number);
        let seen = rig.seen(&frames);
        assert_eq!(seen.len(), 6);
        assert!(seen.iter().all(|s| s.flags == FRESH));
        assert_eq!(rig.clocks(&frames), [1, 1, 2, 2, 3, 3]);
        units.extend(seen.iter().map(|s| s.unit));
        rig.answer(number, frames, Disposition::Out);
    }
    units.sort();
    units.dedup();
    assert_eq!(units.len(), 6);
    assert_eq!(rig.out().len(), 18);
    assert_eq!(rig.switch.report().held, 0);
    assert_eq!(rig.count(SwitchCount::FirstOpened), 6);
    assert_eq!(rig.count(SwitchCount::SettledByEntry), 6);
    // settled: no flag any more, no message was needed but acknowledgements
    rig.send(1, 99);
    let frames = rig.queue(rig.who()[0]);
    assert_eq!(rig.see(&frames[0]).flags, 0);
    rig.drop_all(frames);
    assert!(
        rig.messages()
            .iter()
            .all(|(_, m)| matches!(m, Message::Out { .. }))
    );
    rig.end();
}

#[test]
fn dispatch_by_load_and_by_hash() {
    for dispatch in [Dispatch::LeastLoaded, Dispatch::Hash] {
        let mut owners = Vec::new();
        for _ in 0..2 {
            let mut rig = Rig::new(
                SwitchSettings {
                    dispatch,
                    ..settings()
                },
                3,
            );
            let mut of_flow = Vec::new();
            for flow in 1..=30 {
                rig.send(flow, 0);
                of_flow.push(rig.who()[0]);
                rig.serve(rig.who()[0]);
            }
            let most = (1..=3).map(|n| of_flow.iter().filter(|o| **o == n).count());
            let (least, most) = (most.clone().min().unwrap(), most.max().unwrap());
            assert!(least > 2 && (dispatch == Dispatch::Hash || most == 10));
            owners.push(of_flow);
            rig.end();
        }
        assert_eq!(owners[0], owners[1]);
    }
}

#[test]
fn selections_by_number_space_and_key() {
    let mut rig = Rig::new(settings(), 2);
    for flow in 1..=8 {
        rig.send(flow, flow);
    }
    rig.serve(1);
    rig.serve(2);
    let now = rig.now;
    let mut ask = |from: Option<u32>, to: u32, what: &Selection| {
        let from = from.map(rt);
        rig.switch
            .move_units(now, from, rt(to), what, MoveMode::Push)
    };
    assert_eq!(ask(Some(1), 2, &Selection::Number(3)), Ok(3));
    let space = FlowSpace {
        prefixes: vec!["10.0.0.0/29".parse().unwrap()],
        ports: vec![(53, 53)],
        protocols: vec![6],
    };
    assert_eq!(
        ask(None, 1, &Selection::Space(space.clone())),
        Err(MoveError::Nothing)
    );
    let space = FlowSpace {
        protocols: vec![17],
        ..space
    };
    let some = ask(None, 1, &Selection::Space(space)).unwrap();
    assert!((5..=7).contains(&some), "{some}");
    rig.end();
}

#[test]
fn a_packet_that_was_turned_enters_again() {
    let (mut rig, _, owner) = settled(settings(), 1);
    rig.send(1, 2);
    let frames = rig.queue(owner);
    rig.answer(owner, frames, Disposition::Turned);
    assert_eq!(rig.out(), [] as [u8; 0]);
    assert_eq!(rig.count(SwitchCount::Turned), 1);
    assert_eq!(rig.switch.report().held, 1);
    rig.serve(1);
    assert_eq!(rig.out(), [2]);
    assert_eq!(rig.switch.report().packets_in, 2);
    rig.end();
}

#[test]
fn strangers_and_unknown_units_change_nothing() {
    let (mut rig, unit, owner) = settled(settings(), 2);
    let nobody = UnitId(7 << 32 | 5);
    let view = View(1 << 48 | 1);
    let mut frames = vec![rig.frame(1, 9)];
    let memory = rig.pool.memory().clone();
    let meta = memory.meta_mut(&mut frames[0]);
    (meta.unit, meta.view, meta.clock) = (nobody.0, view.0, 1);
    rig.answer(owner, frames, Disposition::Out);
    assert_eq!(rig.count(SwitchCount::EntryUnknownUnit), 1);
    assert!(matches!(
        rig.to(owner)[..],
        [Message::Forget { ended: true, .. }]
    ));
    rig.say(9, Message::Held { unit, view });
    assert_eq!(rig.count(SwitchCount::MessageFromStranger), 1);
    rig.say(owner, Message::PollWorkload);
    assert_eq!(rig.count(SwitchCount::MessageMisdirected), 1);
    let now = rig.now;
    let held = Message::Held { unit, view };
    rig.switch
        .message(now, &mut rig.pool, Peer::Switch(3), held);
    assert_eq!(rig.count(SwitchCount::MessageMisdirected), 2);
    let poll = Message::PollWorkload;
    rig.switch
        .message(now, &mut rig.pool, Peer::Coordinator, poll);
    assert!(matches!(
        rig.messages().last(),
        Some((Peer::Coordinator, Message::Workload(_)))
    ));
    rig.end();
}

#[test]
fn the_last_views_of_a_generation_are_for_failures() {
    let (mut rig, unit, owner) = settled(each_burst(), 3);
    rig.switch.begin_at_view(View::LAST_NUMBER - 1);
    // No new flow, no move.
    rig.send(9, 1);
    assert_eq!(rig.dropped(SwitchDrop::ViewsUsedUp), 1);
    let to = owner % 3 + 1;
    let asked = crate::move_to(&mut rig, owner, to, MoveMode::Push);
    assert_eq!((asked, rig.switch.owner_of(unit)), (Ok(1), Some(rt(owner))));
    rig.messages();
    // A failure has the last one; the next finds none, and the unit is lost.
    rig.suspect(owner);
    let next = rig.switch.owner_of(unit).expect("its replica");
    let view = rig.open(next.0).expect("it goes on").view;
    assert_eq!(
        (view.generation(), view.number()),
        (1, View::LAST_NUMBER - 1)
    );
    rig.suspect(next.0);
    assert_eq!(rig.count(SwitchCount::UnitLost), 1);
    assert_eq!(rig.switch.owner_of(unit), None);
    rig.end();
}

#[test]
fn units_without_a_replica_are_reported_and_get_one_on_another_host() {
    let mut rig = Rig::new(each_burst(), 1);
    rig.send(1, 1);
    let owner = 1;
    let frames = rig.queue(owner);
    let unit = rig.see(&frames[0]).unit;
    rig.answer(owner, frames, Disposition::Out);
    rig.messages();
    assert_eq!(rig.switch.report().unprotected, 1);
    let now = rig.now;
    // The first that comes shares the owner's host: better than none.
    rig.switch.set_host(rt(owner), 7);
    rig.switch.join(now, rt(2));
    rig.switch.set_host(rt(2), 7);
    rig.pass(0);
    let open = rig.open(owner).expect("a view with a replica");
    assert_eq!(open.replica, Some(rt(2)));
    assert_eq!(rig.switch.report().unprotected, 0);
    assert_eq!(rig.count(SwitchCount::ReplicaOnOneHost), 1);
    let view = open.view;
    rig.say(2, Message::Held { unit, view });
    // One of another host takes its place.
    rig.switch.join(now, rt(3));
    rig.switch.set_host(rt(3), 8);
    rig.pass(0);
    let open = rig.open(owner).expect("a view with another replica");
    assert_eq!(open.replica, Some(rt(3)));
    let view = open.view;
    rig.say(3, Message::Held { unit, view });
    rig.pass(0);
    assert_eq!(rig.switch.report().unsettled, 0);
    rig.end();
}
