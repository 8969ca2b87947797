//! Planned moves: asked for, refused, waited for, drained.

use weir_nf::PoolId;
use weir_packet::Disposition;
use weir_protocol::message::{Message, MoveMode, Origin, Refusal, Selection};
use weir_protocol::settings::SwitchSettings;
use weir_protocol::switch::{MoveError, SwitchCount};
use weir_protocol::{Clock, UnitId, View};

use crate::rig::{Rig, rt};
use crate::{REPEATED, each_burst, move_to, settings, settled};

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
    let theirs = rig.queue(target);
    assert_eq!(rig.clocks(&theirs), [4, 5]);
    assert!(rig.seen(&theirs).iter().all(|s| s.view == open.view));
    // The target's come first and wait.
    rig.answer(target, theirs, Disposition::Out);
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
    let late = rig.queue(source);
    let old = rig.see(&late[0]).view;
    move_to(&mut rig, source, target, MoveMode::Pull).unwrap();
    let view = rig.open(target).unwrap().view;
    rig.say(source, Message::Held { unit, view });
    assert_eq!(rig.count(SwitchCount::MessageNotOwner), 1);
    rig.say(target, Message::Held { unit, view });
    assert_eq!(rig.count(SwitchCount::SettledByHeld), 1);
    rig.messages();
    // What the source still says of the old view is refused, and answered.
    rig.answer(source, late, Disposition::Out);
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
    let frames = rig.queue(target);
    assert_eq!(rig.seen(&frames)[0].flags, REPEATED);
    assert_eq!(rig.seen(&frames)[0].view, view);
    rig.answer(target, frames, Disposition::Out);
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
    let theirs = rig.queue(target);
    let view = rig.open(target).unwrap().view;
    let why = Refusal::Layout;
    rig.say(target, Message::Refuse { unit, view, why });
    assert_eq!(rig.count(SwitchCount::MoveFailed), 1);
    rig.messages();
    // The source goes on: packet 2 (again) and 3, in the new view.
    let frames = rig.queue(source);
    assert_eq!(rig.clocks(&frames), [2, 2, 3]);
    rig.answer(target, theirs, Disposition::Out);
    rig.answer(source, frames, Disposition::Out);
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
    let last = rig.queue(source);
    move_to(&mut rig, source, target, MoveMode::Push).unwrap();
    rig.send(1, 3);
    let view = rig.open(target).unwrap().view;
    let why = Refusal::Full;
    rig.say(target, Message::Refuse { unit, view, why });
    assert!(rig.queue(source).is_empty());
    rig.answer(source, last, Disposition::Out);
    let frames = rig.queue(source);
    assert_eq!(rig.clocks(&frames), [3]);
    rig.answer(source, frames, Disposition::Out);
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
    let last = rig.queue(source);
    move_to(&mut rig, source, target, MoveMode::Push).unwrap();
    let view = rig.open(target).unwrap().view;
    rig.say(target, Message::Held { unit, view });
    assert_eq!(rig.switch.report().unsettled, 1);
    rig.answer(source, last, Disposition::Out);
    assert_eq!(rig.switch.report().unsettled, 0);
    assert_eq!(rig.out(), [2]);
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
        let frames = self.queue(owner);
        let view = self.see(&frames[0]).view;
        self.answer(owner, frames, Disposition::Out);
        view.0
    }
}

#[test]
fn a_drained_runtime_has_nothing_and_leaves() {
    let mut rig = Rig::new(each_burst(), 3);
    for flow in 1..=6 {
        rig.send(flow, flow);
    }
    for number in 1..=3 {
        let open = rig.switch.outbox.messages.clone();
        let frames = rig.queue(number);
        for frame in frames {
            let unit = rig.see(&frame).unit;
            let replica = open.iter().find_map(|(_, m)| match m {
                Message::Open(open) if open.unit == unit => open.replica,
                _ => None,
            });
            rig.answer(replica.unwrap().0, vec![frame], Disposition::Out);
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
        let frames = rig.queue(rig.who()[0]);
        rig.drop_all(frames);
    }
    rig.switch.leave(now, rt(1));
    rig.say(1, Message::LeaseWanted { pool: PoolId(0) });
    assert_eq!(rig.count(SwitchCount::MessageFromStranger), 1);
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

/// The target of a move drains before the unit is there, and so does its owner:
/// the unit does not stay where nothing may stay.
#[test]
fn a_unit_leaves_a_drained_runtime_though_its_target_drains_too() {
    // It waits for an early snapshot.
    let (mut rig, unit, source) = settled(settings(), 3);
    let target = source % 3 + 1;
    let third = 6 - source - target;
    move_to(&mut rig, source, target, MoveMode::Reprocess).unwrap();
    let now = rig.now;
    rig.switch.drain(now, rt(source), MoveMode::Push).unwrap();
    rig.switch.drain(now, rt(target), MoveMode::Push).unwrap();
    for _ in 0..20 {
        rig.pass(11);
        rig.messages();
    }
    assert_eq!(rig.switch.owner_of(unit), Some(rt(third)));
    assert_eq!(rig.count(SwitchCount::PreparedInVain), 1);
    rig.end();
    // It waits for its view to be settled.
    let (mut rig, unit, source) = settled(settings(), 3);
    move_to(&mut rig, source, target, MoveMode::Push).unwrap();
    let view = rig.open(target).unwrap().view;
    move_to(&mut rig, target, third, MoveMode::Push).unwrap();
    let now = rig.now;
    rig.switch.drain(now, rt(target), MoveMode::Push).unwrap();
    rig.switch.drain(now, rt(third), MoveMode::Push).unwrap();
    rig.pass(1);
    rig.say(target, Message::Held { unit, view });
    rig.pass(1);
    assert_eq!(rig.switch.owner_of(unit), Some(rt(source)));
    let view = rig.open(source).unwrap().view;
    rig.say(source, Message::Held { unit, view });
    assert!(rig.switch.is_drained(rt(target)));
    rig.end();
}
