//! The switch, with runtimes played by hand.

mod leases;
mod restart;
mod rig;
mod window;

use rig::{Rig, rt, stage};
use weir_nf::PoolId;
use weir_packet::{Fate, Frame, frame_flags};
use weir_protocol::message::{FlowSpace, Message, MoveMode, Origin, Refusal, Selection};
use weir_protocol::settings::{Dispatch, Replication, SwitchSettings};
use weir_protocol::switch::{MoveError, SwitchCount, SwitchDrop};
use weir_protocol::{Clock, Peer, UnitId, View};

const FRESH: u8 = frame_flags::FRESH;
const REPEATED: u8 = frame_flags::REPEATED;

fn settings() -> SwitchSettings {
    SwitchSettings {
        kept: 256,
        ..SwitchSettings::default()
    }
}

fn each_burst() -> SwitchSettings {
    SwitchSettings {
        replication: Replication::EachBurst,
        ..settings()
    }
}

/// A rig with one settled unit, of flow 1; its owner's number.
fn settled(settings: SwitchSettings, runtimes: u32) -> (Rig, UnitId, u32) {
    let mut rig = Rig::new(settings, runtimes);
    rig.send(1, 1);
    let owner = rig.who()[0];
    let frames = rig.lane(owner);
    let unit = rig.see(&frames[0]).unit;
    let speaker = match settings.replication {
        Replication::None => owner,
        Replication::EachBurst => rig.open(owner).unwrap().replica.unwrap().0,
    };
    rig.answer(speaker, frames, Fate::Out);
    assert_eq!(rig.out(), [1]);
    rig.messages();
    (rig, unit, owner)
}

fn replica_of(rig: &mut Rig, owner: u32) -> u32 {
    rig.open(owner).unwrap().replica.unwrap().0
}

fn move_to(rig: &mut Rig, from: u32, to: u32, mode: MoveMode) -> Result<u32, MoveError> {
    let now = rig.now;
    let from = Some(rt(from));
    rig.switch
        .move_units(now, from, rt(to), &Selection::All, mode)
}

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
        let frames = rig.lane(number);
        let seen = rig.seen(&frames);
        assert_eq!(seen.len(), 6);
        assert!(seen.iter().all(|s| s.flags == FRESH));
        assert_eq!(rig.clocks(&frames), [1, 1, 2, 2, 3, 3]);
        units.extend(seen.iter().map(|s| s.unit));
        rig.answer(number, frames, Fate::Out);
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
    let frames = rig.lane(rig.who()[0]);
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
fn a_planned_move_keeps_every_packet_and_the_order() {
    let (mut rig, unit, source) = settled(settings(), 2);
    let target = 3 - source;
    rig.send(1, 2);
    rig.send(1, 3);
    assert_eq!(move_to(&mut rig, source, target, MoveMode::Push), Ok(1));
    let open = rig.open(target).unwrap();
    assert_eq!((open.base, open.out), (Clock(3), Clock(1)));
    assert_eq!(open.origin, Origin::Planned { source: rt(source) });
    let closed = rig.to(source);
    assert!(matches!(
        closed[..],
        [Message::Closed { at: Clock(3), mode: MoveMode::Push, new, .. }] if new == open.view
    ));
    rig.send(1, 4);
    rig.send(1, 5);
    let theirs = rig.lane(target);
    assert_eq!(rig.clocks(&theirs), [4, 5]);
    assert!(rig.seen(&theirs).iter().all(|s| s.view == open.view));
    // The target's come first and wait.
    rig.answer(target, theirs, Fate::Out);
    assert_eq!(rig.out(), [] as [u8; 0]);
    assert_eq!(rig.count(SwitchCount::Parked), 2);
    rig.serve(source);
    assert_eq!(rig.out(), [2, 3, 4, 5]);
    assert_eq!(rig.count(SwitchCount::LetOutClosing), 2);
    assert_eq!(rig.count(SwitchCount::ParkedLetOut), 2);
    // Settled by the entry of packet 4: the source may forget.
    let told = rig.to(source);
    let forget = Message::Forget {
        unit,
        below: open.view,
        ended: false,
    };
    assert!(told.contains(&forget), "{told:?}");
    let report = rig.switch.report();
    assert_eq!(report.hand_overs.durations.count(), 1);
    assert_eq!((report.unsettled, report.held), (0, 0));
    assert_eq!(rig.switch.owner_of(unit), Some(rt(target)));
    rig.end();
}

#[test]
fn a_moved_unit_is_settled_by_held_and_its_past_is_refused() {
    let (mut rig, unit, source) = settled(settings(), 2);
    let target = 3 - source;
    rig.send(1, 2);
    let late = rig.lane(source);
    let old = rig.see(&late[0]).view;
    move_to(&mut rig, source, target, MoveMode::Pull).unwrap();
    let view = rig.open(target).unwrap().view;
    rig.say(source, Message::Held { unit, view });
    assert_eq!(rig.count(SwitchCount::MessageNotOwner), 1);
    rig.say(target, Message::Held { unit, view });
    assert_eq!(rig.count(SwitchCount::SettledByHeld), 1);
    rig.messages();
    // What the source still says of the old view is refused, and answered.
    rig.answer(source, late, Fate::Out);
    assert_eq!(rig.out(), [] as [u8; 0]);
    assert_eq!(rig.count(SwitchCount::EntryOldView), 1);
    assert_eq!(
        rig.to(source),
        [Message::Forget {
            unit,
            below: view,
            ended: false
        }]
    );
    assert!(old < view);
    // The packet is repeated to the new owner, which has put it out already.
    rig.pass(11);
    let frames = rig.lane(target);
    assert_eq!(rig.seen(&frames)[0].flags, REPEATED);
    assert_eq!(rig.seen(&frames)[0].view, view);
    rig.answer(target, frames, Fate::Out);
    assert_eq!(rig.out(), [2]);
    rig.end();
}

#[test]
fn a_refused_view_goes_back_to_the_source() {
    let (mut rig, unit, source) = settled(settings(), 2);
    let target = 3 - source;
    rig.send(1, 2);
    move_to(&mut rig, source, target, MoveMode::Push).unwrap();
    rig.send(1, 3);
    let theirs = rig.lane(target);
    let view = rig.open(target).unwrap().view;
    let why = Refusal::Layout;
    rig.say(target, Message::Refuse { unit, view, why });
    assert_eq!(rig.count(SwitchCount::MoveFailed), 1);
    rig.messages();
    // The source goes on: packet 2 (again) and 3, in the new view.
    let frames = rig.lane(source);
    assert_eq!(rig.clocks(&frames), [2, 2, 3]);
    rig.answer(target, theirs, Fate::Out);
    rig.answer(source, frames, Fate::Out);
    // The first copy of 2 was of the old view.
    assert_eq!(rig.out(), [2, 3]);
    assert_eq!(rig.count(SwitchCount::EntryOldView), 2);
    let told = rig.to(target);
    assert!(told.iter().any(|m| matches!(m, Message::Forget { .. })));
    rig.end();
}

#[test]
fn a_source_that_keeps_no_outputs_is_waited_for() {
    let lossless = SwitchSettings {
        acknowledge: false,
        ..settings()
    };
    // A refusal: the next view opens when all of the old one is out.
    let (mut rig, unit, source) = settled(lossless, 2);
    let target = 3 - source;
    rig.send(1, 2);
    let last = rig.lane(source);
    move_to(&mut rig, source, target, MoveMode::Push).unwrap();
    rig.send(1, 3);
    let view = rig.open(target).unwrap().view;
    let why = Refusal::Full;
    rig.say(target, Message::Refuse { unit, view, why });
    assert!(rig.lane(source).is_empty());
    rig.answer(source, last, Fate::Out);
    let frames = rig.lane(source);
    assert_eq!(rig.clocks(&frames), [3]);
    rig.answer(source, frames, Fate::Out);
    assert_eq!(rig.out(), [2, 3]);
    assert!(
        rig.messages()
            .iter()
            .all(|(_, m)| !matches!(m, Message::Out { .. }))
    );
    rig.end();
    // Held: settled when all of the old one is out.
    let (mut rig, unit, source) = settled(lossless, 2);
    let target = 3 - source;
    rig.send(1, 2);
    let last = rig.lane(source);
    move_to(&mut rig, source, target, MoveMode::Push).unwrap();
    let view = rig.open(target).unwrap().view;
    rig.say(target, Message::Held { unit, view });
    assert_eq!(rig.switch.report().unsettled, 1);
    rig.answer(source, last, Fate::Out);
    assert_eq!(rig.switch.report().unsettled, 0);
    assert_eq!(rig.out(), [2]);
    rig.end();
}

#[test]
fn without_replication_a_death_loses_the_unit_by_name() {
    let (mut rig, unit, owner) = settled(settings(), 2);
    rig.send(1, 2);
    rig.send(1, 3);
    let late = rig.lane(owner);
    rig.suspect(owner);
    assert_eq!(rig.dropped(SwitchDrop::OwnerLost), 2);
    assert_eq!(rig.count(SwitchCount::UnitLost), 1);
    // What it still says counts for nothing.
    rig.answer(owner, late, Fate::Out);
    assert_eq!(rig.out(), [] as [u8; 0]);
    // The next packet starts from no state.
    rig.send(1, 4);
    let other = 3 - owner;
    let open = rig.open(other).unwrap();
    assert_eq!(open.origin, Origin::Nothing { after_loss: true });
    assert_eq!((open.unit, open.base), (unit, Clock(3)));
    let frames = rig.lane(other);
    let seen = rig.see(&frames[0]);
    assert_eq!(seen.clock, Clock(4));
    assert_eq!(seen.flags, FRESH | frame_flags::AFTER_LOSS);
    rig.answer(other, frames, Fate::Out);
    assert_eq!(rig.out(), [4]);
    rig.end();
}

#[test]
fn nothing_is_lost_with_a_first_view_that_let_nothing_out() {
    let mut rig = Rig::new(settings(), 2);
    rig.send(1, 1);
    rig.send(1, 2);
    let owner = rig.who()[0];
    let late = rig.lane(owner);
    rig.suspect(owner);
    let other = 3 - owner;
    let frames = rig.lane(other);
    assert_eq!(rig.clocks(&frames), [1, 2]);
    assert!(
        rig.seen(&frames)
            .iter()
            .all(|s| s.flags == FRESH | REPEATED)
    );
    rig.answer(owner, late, Fate::Out);
    rig.answer(other, frames, Fate::Out);
    assert_eq!(rig.out(), [1, 2]);
    rig.end();
}

#[test]
fn a_replica_goes_on_after_a_death() {
    let (mut rig, unit, owner) = settled(each_burst(), 3);
    // One of its packets is stored by the replica, one is on its way.
    rig.send(1, 2);
    rig.send(1, 3);
    let mut frames = rig.lane(owner);
    let stored = frames.remove(0);
    rig.drop_all(frames);
    // Entries of an owner that has a replica must come from the replica.
    let before = rig.count(SwitchCount::EntryNotOwner);
    let view = rig.see(&stored).view;
    let copy = copy_of(&mut rig, &stored);
    rig.answer(owner, vec![copy], Fate::Out);
    assert_eq!(rig.count(SwitchCount::EntryNotOwner), before + 1);
    rig.suspect(owner);
    let (replica, open) = (1..=3)
        .filter(|n| *n != owner)
        .find_map(|n| Some((n, rig.open(n)?)))
        .unwrap();
    assert_eq!(
        open.origin,
        Origin::Resumed {
            source: rt(replica)
        }
    );
    assert_eq!((open.old, open.base), (view, Clock(1)));
    let third = open.replica.unwrap().0;
    assert!(third != replica && third != owner);
    // The entry that it stored for the dead one is not let out any more.
    rig.answer(replica, vec![stored], Fate::Out);
    assert_eq!(rig.out(), [] as [u8; 0]);
    let frames = rig.lane(replica);
    assert_eq!(rig.clocks(&frames), [2, 3]);
    rig.answer(third, frames, Fate::Out);
    assert_eq!(rig.out(), [2, 3]);
    assert_eq!(rig.count(SwitchCount::ResumedAtReplica), 1);
    assert_eq!(rig.switch.owner_of(unit), Some(rt(replica)));
    rig.end();
}

fn copy_of(rig: &mut Rig, frame: &Frame) -> Frame {
    let memory = rig.pool.memory().clone();
    let (meta, bytes) = memory.read(frame);
    rig.pool.copy(bytes, *meta).unwrap()
}

#[test]
fn a_replica_that_dies_is_replaced() {
    let mut rig = Rig::new(each_burst(), 3);
    rig.send(1, 1);
    let owner = rig.who()[0];
    let replica = replica_of(&mut rig, owner);
    let frames = rig.lane(owner);
    rig.answer(replica, frames, Fate::Out);
    rig.send(1, 2);
    rig.suspect(replica);
    let open = rig.open(owner).unwrap();
    assert_eq!(open.origin, Origin::Resumed { source: rt(owner) });
    let third = open.replica.unwrap().0;
    assert_eq!(third, 6 - owner - replica);
    let frames = rig.lane(owner);
    assert_eq!(rig.clocks(&frames), [2, 2]);
    rig.answer(third, frames, Fate::Out);
    assert_eq!(rig.out(), [1, 2]);
    assert_eq!(rig.count(SwitchCount::ReplicaChanged), 1);
    // The last two die one after the other: without a view that is settled
    // between them the unit is gone.
    rig.suspect(third);
    rig.suspect(owner);
    assert_eq!(rig.count(SwitchCount::UnitLost), 1);
    rig.send(1, 3);
    assert_eq!(rig.dropped(SwitchDrop::NoRuntime), 1);
    rig.end();
}

#[test]
fn one_runtime_has_no_replica_until_another_joins() {
    let mut rig = Rig::new(each_burst(), 1);
    rig.send(1, 1);
    rig.serve(1);
    assert_eq!(rig.out(), [1]);
    let now = rig.now;
    rig.switch.join(now, rt(2));
    rig.pass(0);
    let open = rig.open(1).unwrap();
    assert_eq!(open.replica, Some(rt(2)));
    assert_eq!(open.origin, Origin::Resumed { source: rt(1) });
    rig.say(
        2,
        Message::Held {
            unit: open.unit,
            view: open.view,
        },
    );
    assert_eq!(rig.switch.report().unsettled, 0);
    // An id names one start of a process.
    rig.switch.join(now, rt(2));
    assert_eq!(rig.switch.outbox.lanes.len(), 2);
    rig.end();
}

#[test]
fn the_source_of_a_move_dies() {
    // With a replica it resumes, wherever the target is.
    let (mut rig, _, owner) = settled(each_burst(), 4);
    rig.send(1, 2);
    let target = owner % 4 + 1;
    move_to(&mut rig, owner, target, MoveMode::Push).unwrap();
    rig.messages();
    rig.send(1, 3);
    rig.suspect(owner);
    assert_eq!(rig.count(SwitchCount::ResumedAtReplica), 1);
    let (replica, open) = (1..=4).find_map(|n| Some((n, rig.open(n)?))).unwrap();
    let frames = rig.lane(replica);
    // If the replica is the target it has got packet 3 once before.
    assert!(rig.clocks(&frames).ends_with(&[2, 3]));
    rig.answer(open.replica.unwrap().0, frames, Fate::Out);
    assert_eq!(rig.out(), [2, 3]);
    rig.end();
    // Without, the unit is lost with it.
    let (mut rig, _, owner) = settled(settings(), 2);
    move_to(&mut rig, owner, 3 - owner, MoveMode::Push).unwrap();
    rig.send(1, 2);
    rig.suspect(owner);
    assert_eq!(rig.dropped(SwitchDrop::OwnerLost), 1);
    rig.end();
}

#[test]
fn the_window_bounds_open_views_and_the_queue_waits() {
    let mut rig = Rig::new(
        SwitchSettings {
            window: 2,
            ..settings()
        },
        2,
    );
    for flow in 1..=10 {
        rig.send(flow, flow);
    }
    rig.serve(1);
    rig.serve(2);
    rig.out();
    rig.messages();
    assert_eq!(move_to(&mut rig, 1, 2, MoveMode::Push), Ok(5));
    let mut moved = 0;
    loop {
        let report = rig.switch.report();
        assert!(report.unsettled <= 2);
        let opens: Vec<_> = rig
            .to(2)
            .into_iter()
            .filter_map(|m| match m {
                Message::Open(open) => Some(open),
                _ => None,
            })
            .collect();
        if opens.is_empty() {
            break;
        }
        for open in opens {
            moved += 1;
            rig.say(
                2,
                Message::Held {
                    unit: open.unit,
                    view: open.view,
                },
            );
        }
    }
    assert_eq!(moved, 5);
    assert_eq!(rig.switch.report().hand_overs.durations.count(), 5);
    let error = move_to(&mut rig, 1, 2, MoveMode::Push);
    assert_eq!(error, Err(MoveError::Nothing));
    rig.end();
}

#[test]
fn a_second_request_takes_the_place_of_the_first() {
    let (mut rig, unit, owner) = settled(
        SwitchSettings {
            window: 1,
            ..settings()
        },
        3,
    );
    let (second, third) = (owner % 3 + 1, (owner + 1) % 3 + 1);
    move_to(&mut rig, owner, second, MoveMode::Push).unwrap();
    let view = rig.open(second).unwrap().view;
    // While that is open: back, then on to the third.
    let key = rig.switch.classifier().key_of(unit.0).unwrap();
    let now = rig.now;
    for to in [owner, third] {
        let what = Selection::Key(key);
        rig.switch
            .move_units(now, None, rt(to), &what, MoveMode::Push)
            .unwrap();
    }
    assert_eq!(rig.count(SwitchCount::MoveReplaced), 1);
    rig.say(second, Message::Held { unit, view });
    assert_eq!(rig.switch.owner_of(unit), Some(rt(third)));
    assert!(rig.open(third).is_some());
    rig.end();
}

#[test]
fn moves_that_can_not_be_are_refused_by_name() {
    let (mut rig, unit, owner) = settled(settings(), 3);
    let other = owner % 3 + 1;
    let all = &Selection::All;
    let now = rig.now;
    let mut ask = |from: Option<u32>, to: u32| {
        let from = from.map(rt);
        rig.switch
            .move_units(now, from, rt(to), all, MoveMode::Push)
    };
    assert_eq!(ask(None, 9), Err(MoveError::UnknownTarget));
    assert_eq!(ask(Some(9), other), Err(MoveError::UnknownSource));
    assert_eq!(ask(Some(other), other), Err(MoveError::Same));
    assert_eq!(ask(Some(other), owner), Err(MoveError::Nothing));
    let third = 6 - owner - other;
    rig.switch.drain(now, rt(third), MoveMode::Push).unwrap();
    let error = move_to(&mut rig, owner, third, MoveMode::Push);
    assert_eq!(error, Err(MoveError::Draining));
    rig.suspect(other);
    let error = move_to(&mut rig, owner, other, MoveMode::Push);
    assert_eq!(error, Err(MoveError::UnknownTarget));
    assert_eq!(
        rig.switch.drain(rig.now, rt(owner), MoveMode::Push),
        Err(MoveError::UnknownTarget)
    );
    // Runtimes ask as well, for what they own.
    let view = View(rig.see_view(unit));
    for (from, to) in [(third, owner), (owner, owner), (owner, 9), (owner, third)] {
        let mode = MoveMode::Push;
        let to = rt(to);
        rig.say(
            from,
            Message::Move {
                unit,
                view,
                to,
                mode,
            },
        );
    }
    assert_eq!(rig.count(SwitchCount::MessageNotOwner), 1);
    assert_eq!(rig.count(SwitchCount::MoveRefused), 3);
    rig.end();
}

impl Rig {
    /// The current view of a unit, as its next packet has it.
    fn see_view(&mut self, unit: UnitId) -> u64 {
        self.send(1, 77);
        let owner = self.switch.owner_of(unit).unwrap().0;
        let frames = self.lane(owner);
        let view = self.see(&frames[0]).view;
        self.answer(owner, frames, Fate::Out);
        view.0
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
fn a_drained_runtime_has_nothing_and_leaves() {
    let mut rig = Rig::new(each_burst(), 3);
    for flow in 1..=6 {
        rig.send(flow, flow);
    }
    for number in 1..=3 {
        let open = rig.switch.outbox.messages.clone();
        let frames = rig.lane(number);
        for frame in frames {
            let unit = rig.see(&frame).unit;
            let replica = open.iter().find_map(|(_, m)| match m {
                Message::Open(open) if open.unit == unit => open.replica,
                _ => None,
            });
            rig.answer(replica.unwrap().0, vec![frame], Fate::Out);
        }
    }
    rig.messages();
    let now = rig.now;
    rig.switch.drain(now, rt(1), MoveMode::Push).unwrap();
    assert!(!rig.switch.is_drained(rt(1)));
    rig.pass(0);
    for _ in 0..10 {
        for (_, message) in rig.messages() {
            if let Message::Open(open) = message {
                let speaker = open.replica.unwrap().0;
                assert_ne!(speaker, 1);
                rig.say(
                    speaker,
                    Message::Held {
                        unit: open.unit,
                        view: open.view,
                    },
                );
            }
        }
        rig.pass(0);
    }
    assert!(rig.switch.is_drained(rt(1)));
    // New flows go elsewhere.
    for flow in 20..26 {
        rig.send(flow, 0);
        assert_ne!(rig.who(), [1]);
        let frames = rig.lane(rig.who()[0]);
        rig.drop_all(frames);
    }
    rig.switch.leave(now, rt(1));
    rig.say(1, Message::LeaseWanted { pool: PoolId(0) });
    assert_eq!(rig.count(SwitchCount::MessageFromStranger), 1);
    rig.end();
}

#[test]
fn unacknowledged_packets_fill_the_memory_and_nothing_else_suffers() {
    let mut rig = Rig::new(
        SwitchSettings {
            kept: 4,
            ..settings()
        },
        1,
    );
    for tag in 1..=6 {
        rig.send(1, tag);
    }
    assert_eq!(rig.dropped(SwitchDrop::UnackedFull), 2);
    // A new flow has no room either, and gets it later.
    rig.send(2, 20);
    assert_eq!(rig.dropped(SwitchDrop::UnackedFull), 3);
    let frames = rig.lane(1);
    assert_eq!(rig.clocks(&frames), [1, 2, 3, 4]);
    rig.answer(1, frames, Fate::Out);
    rig.send(1, 7);
    rig.send(2, 21);
    let frames = rig.lane(1);
    assert_eq!(rig.clocks(&frames), [5, 1]);
    rig.answer(1, frames, Fate::Out);
    assert_eq!(rig.out(), [1, 2, 3, 4, 7, 21]);
    assert_eq!(rig.switch.report().hand_overs.kept_most, 4);
    rig.end();
}

#[test]
fn what_is_not_answered_is_sent_again_and_what_is_asked_for() {
    let (mut rig, unit, owner) = settled(settings(), 1);
    for tag in 2..=5 {
        rig.send(1, tag);
    }
    let frames = rig.lane(owner);
    let view = rig.see(&frames[0]).view;
    rig.drop_all(frames);
    rig.say(
        owner,
        Message::Repeat {
            unit,
            view,
            after: Clock(3),
        },
    );
    let frames = rig.lane(owner);
    assert_eq!(rig.clocks(&frames), [4, 5]);
    // They come before the gap is filled: they wait.
    rig.answer(owner, frames, Fate::Out);
    assert_eq!(rig.out(), [] as [u8; 0]);
    rig.pass(9);
    assert!(rig.lane(owner).is_empty());
    rig.pass(2);
    let frames = rig.lane(owner);
    assert_eq!(rig.clocks(&frames), [2, 3]);
    assert_eq!(rig.seen(&frames)[0].tag, 2);
    // Twice: the second copy is a duplicate, and acknowledged again.
    let copies: Vec<Frame> = frames.iter().map(|f| copy_of(&mut rig, f)).collect();
    rig.answer(owner, frames, Fate::Out);
    rig.messages();
    rig.answer(owner, copies, Fate::Out);
    assert_eq!(rig.out(), [2, 3, 4, 5]);
    assert_eq!(rig.count(SwitchCount::EntryDuplicate), 2);
    let out = Clock(5);
    assert_eq!(rig.to(owner), [Message::Out { unit, view, out }]);
    rig.end();
}

#[test]
fn without_copies_a_gap_is_answered_by_lost() {
    let (mut rig, unit, owner) = settled(
        SwitchSettings {
            kept: 0,
            ..settings()
        },
        1,
    );
    for tag in 2..=4 {
        rig.send(1, tag);
    }
    let mut frames = rig.lane(owner);
    let view = rig.see(&frames[0]).view;
    let third = frames.pop().unwrap();
    rig.drop_all(frames);
    rig.say(
        owner,
        Message::Repeat {
            unit,
            view,
            after: Clock(1),
        },
    );
    let mut frames = rig.lane(owner);
    assert_eq!(rig.clocks(&frames), [2, 3, 4]);
    assert!(
        rig.seen(&frames)
            .iter()
            .all(|s| s.flags & frame_flags::LOST != 0)
    );
    let lost = frames.pop().unwrap();
    rig.drop_all(vec![lost]);
    // The one that was not lost comes first, and waits.
    rig.answer(owner, vec![third], Fate::Out);
    rig.answer(owner, frames, Fate::Applied);
    assert_eq!(rig.out(), [4]);
    assert_eq!(rig.dropped(SwitchDrop::Lost), 2);
    rig.end();
}

#[test]
fn ends_are_granted_when_nothing_is_on_its_way() {
    let (mut rig, unit, owner) = settled(settings(), 2);
    rig.send(1, 2);
    let frames = rig.lane(owner);
    let view = rig.see(&frames[0]).view;
    let end = |clock| Message::End {
        unit,
        view,
        clock: Clock(clock),
    };
    rig.say(owner, end(1));
    rig.say(owner, end(2));
    rig.say(3 - owner, end(2));
    assert_eq!(rig.count(SwitchCount::EndRefused), 2);
    rig.answer(owner, frames, Fate::Out);
    rig.messages();
    rig.say(owner, end(2));
    assert_eq!(rig.count(SwitchCount::EndGranted), 1);
    assert!(matches!(
        rig.to(owner)[..],
        [Message::Forget { ended: true, .. }]
    ));
    // Late words about it are answered the same way.
    rig.say(owner, end(2));
    assert!(matches!(
        rig.to(owner)[..],
        [Message::Forget { ended: true, .. }]
    ));
    assert_eq!(rig.count(SwitchCount::MessageUnknownUnit), 1);
    rig.pass(11);
    assert_eq!(rig.to(owner).len(), 1);
    // The same key is another unit, in a view of its own.
    rig.send(1, 3);
    let who = rig.who()[0];
    let frames = rig.lane(who);
    let seen = rig.see(&frames[0]);
    assert!(seen.unit != unit && seen.view > view && seen.flags == FRESH);
    rig.drop_all(frames);
    rig.end();
}

#[test]
fn ticks_are_numbered_one_at_a_time() {
    let (mut rig, unit, owner) = settled(settings(), 2);
    rig.send(1, 2);
    let frames = rig.lane(owner);
    let view = rig.see(&frames[0]).view;
    rig.answer(owner, frames, Fate::Out);
    rig.say(owner, Message::Tick { unit, view });
    rig.say(owner, Message::Tick { unit, view });
    rig.say(3 - owner, Message::Tick { unit, view });
    assert_eq!(rig.count(SwitchCount::TickRefused), 1);
    let frames = rig.lane(owner);
    assert_eq!(rig.clocks(&frames), [3]);
    assert_eq!(rig.seen(&frames)[0].flags, frame_flags::TICK);
    assert_eq!(rig.switch.report().held, 0);
    rig.answer(owner, frames, Fate::Applied);
    assert_eq!(rig.out(), [2]);
    rig.say(owner, Message::Tick { unit, view });
    assert_eq!(
        rig.lane(owner)
            .into_iter()
            .map(|f| rig.pool.give(f))
            .count(),
        1
    );
    // A tick that is lost with its owner is no packet.
    rig.suspect(owner);
    assert_eq!(rig.dropped(SwitchDrop::OwnerLost), 0);
    rig.end();
}

#[test]
fn a_reprocessing_move_begins_with_a_snapshot() {
    let (mut rig, unit, owner) = settled(settings(), 2);
    let target = 3 - owner;
    move_to(&mut rig, owner, target, MoveMode::Reprocess).unwrap();
    let told = rig.to(owner);
    let [Message::Prepare { view, to, .. }] = told[..] else {
        panic!("{told:?}");
    };
    assert_eq!(to, rt(target));
    rig.pass(11);
    assert!(matches!(rig.to(owner)[..], [Message::Prepare { .. }]));
    rig.send(1, 2);
    let mode = MoveMode::Reprocess;
    rig.say(
        owner,
        Message::Move {
            unit,
            view,
            to,
            mode,
        },
    );
    assert_eq!(rig.open(target).unwrap().base, Clock(2));
    assert_eq!(rig.count(SwitchCount::PlannedReprocess), 1);
    rig.end();
    // Where it does not come, the move goes on without.
    let (mut rig, _, owner) = settled(settings(), 2);
    move_to(&mut rig, owner, 3 - owner, MoveMode::Reprocess).unwrap();
    for _ in 0..10 {
        rig.pass(11);
    }
    assert_eq!(rig.count(SwitchCount::PreparedInVain), 1);
    assert_eq!(rig.count(SwitchCount::PlannedPush), 1);
    rig.end();
}

#[test]
fn a_packet_that_was_turned_enters_again() {
    let (mut rig, _, owner) = settled(settings(), 1);
    rig.send(1, 2);
    let frames = rig.lane(owner);
    rig.answer(owner, frames, Fate::Turned);
    assert_eq!(rig.out(), [] as [u8; 0]);
    assert_eq!(rig.count(SwitchCount::Turned), 1);
    assert_eq!(rig.switch.report().held, 1);
    rig.serve(1);
    assert_eq!(rig.out(), [2]);
    assert_eq!(rig.switch.report().packets_in, 2);
    rig.end();
}

#[test]
fn entries_come_in_parts_or_torn() {
    let (mut rig, _, owner) = settled(settings(), 1);
    rig.send(1, 2);
    let own = rig.lane(owner);
    let mut side = copy_of(&mut rig, &own[0]);
    let memory = rig.pool.memory().clone();
    memory.meta_mut(&mut side).fate = Fate::Emitted;
    let now = rig.now;
    let mut first = vec![side];
    rig.switch
        .entries(now, &mut rig.pool, rt(owner), &mut first);
    assert_eq!(rig.out(), [] as [u8; 0]);
    rig.answer(owner, own, Fate::Dropped);
    assert_eq!(rig.out(), [2]);
    assert_eq!(rig.dropped(SwitchDrop::Functions), 1);
    assert_eq!(rig.switch.report().emitted, 1);
    // A side frame of another clock than the packet's that follows
    rig.send(1, 3);
    rig.send(1, 4);
    let mut frames = rig.lane(owner);
    memory.meta_mut(&mut frames[0]).fate = Fate::Emitted;
    memory.meta_mut(&mut frames[1]).fate = Fate::Out;
    rig.switch
        .entries(now, &mut rig.pool, rt(owner), &mut frames);
    assert_eq!(rig.count(SwitchCount::EntryTorn), 1);
    assert_eq!(rig.out(), [] as [u8; 0]);
    // and one that was never sent
    let mut frames = vec![rig.frame(1, 9)];
    let seen = rig.switch.live_units().next().unwrap();
    let meta = memory.meta_mut(&mut frames[0]);
    (meta.unit, meta.view, meta.clock) = (seen.0, 1 << 32 | 1, 99);
    rig.answer(owner, frames, Fate::Out);
    assert_eq!(rig.count(SwitchCount::EntryNotSent), 1);
    rig.end();
}

#[test]
fn strangers_and_unknown_units_change_nothing() {
    let (mut rig, unit, owner) = settled(settings(), 2);
    let nobody = UnitId(7 << 32 | 5);
    let view = View(1 << 32 | 1);
    let mut frames = vec![rig.frame(1, 9)];
    let memory = rig.pool.memory().clone();
    let meta = memory.meta_mut(&mut frames[0]);
    (meta.unit, meta.view, meta.clock) = (nobody.0, view.0, 1);
    rig.answer(owner, frames, Fate::Out);
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
