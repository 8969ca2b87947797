//! Ends of units, and ticks.

use weir_packet::{Disposition, frame_flags};
use weir_protocol::message::{Message, MoveMode};
use weir_protocol::switch::{SwitchCount, SwitchDrop};
use weir_protocol::{Clock, UnitId};

use crate::{FRESH, settings, settled};

#[test]
fn ends_are_granted_when_nothing_is_on_its_way() {
    let (mut rig, unit, owner) = settled(settings(), 2);
    rig.send(1, 2);
    let frames = rig.queue(owner);
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
    rig.answer(owner, frames, Disposition::Out);
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
    let frames = rig.queue(who);
    let seen = rig.see(&frames[0]);
    assert!(seen.unit != unit && seen.view > view && seen.flags == FRESH);
    rig.drop_all(frames);
    rig.end();
}

#[test]
fn ticks_are_numbered_one_at_a_time() {
    let (mut rig, unit, owner) = settled(settings(), 2);
    rig.send(1, 2);
    let frames = rig.queue(owner);
    let view = rig.see(&frames[0]).view;
    rig.answer(owner, frames, Disposition::Out);
    rig.say(owner, Message::Tick { unit, view });
    rig.say(owner, Message::Tick { unit, view });
    rig.say(3 - owner, Message::Tick { unit, view });
    assert_eq!(rig.count(SwitchCount::TickRefused), 1);
    let frames = rig.queue(owner);
    assert_eq!(rig.clocks(&frames), [3]);
    assert_eq!(rig.seen(&frames)[0].flags, frame_flags::TICK);
    assert_eq!(rig.switch.report().held, 0);
    // The end of a flow that somebody has asked for is one that names it.
    let key = weir_packet::FlowKey::from_words([7; 6]);
    assert!(!rig.end_flow(unit, &key), "one at a time");
    rig.answer(owner, frames, Disposition::Applied);
    assert_eq!(rig.out(), [2]);
    assert!(rig.end_flow(unit, &key) && rig.end_flow(UnitId(unit.0 + 99), &key));
    let frames = rig.queue(owner);
    assert_eq!(rig.clocks(&frames), [4]);
    assert_eq!(rig.seen(&frames)[0].flags, frame_flags::TICK);
    assert_eq!(rig.pool.memory().bytes(&frames[0]).len(), 49);
    rig.answer(owner, frames, Disposition::Applied);
    rig.say(owner, Message::Tick { unit, view });
    assert_eq!(
        rig.queue(owner)
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
fn a_unit_ends_when_older_holders_have_said_that_they_forgot() {
    let (mut rig, unit, source) = settled(settings(), 2);
    let target = 3 - source;
    crate::move_to(&mut rig, source, target, MoveMode::Push).expect("it can be moved");
    let view = rig.open(target).expect("it was opened").view;
    rig.say(target, Message::Held { unit, view });
    let below = view;
    let end = Message::End {
        unit,
        view,
        clock: Clock(1),
    };
    rig.messages();
    rig.say(target, end.clone());
    assert_eq!(rig.count(SwitchCount::EndWaits), 1);
    // What is not answered is said again.
    rig.pass(11);
    let again = rig.to(source);
    assert!(matches!(again[..], [Message::Forget { ended: false, .. }]));
    let less = weir_protocol::View(below.0 - 1);
    rig.say(source, Message::Forgotten { unit, below: less });
    rig.say(target, end.clone());
    assert_eq!(rig.count(SwitchCount::EndWaits), 2);
    rig.say(source, Message::Forgotten { unit, below });
    rig.say(target, end);
    assert_eq!(rig.count(SwitchCount::EndGranted), 1);
    let below = match rig.to(target)[..] {
        [Message::Forget { below, ended, .. }] if ended => below,
        _ => panic!("the owner is told"),
    };
    rig.say(target, Message::Forgotten { unit, below });
    assert_eq!(rig.count(SwitchCount::ForgetAnswered), 2);
    rig.pass(50);
    assert_eq!(rig.messages(), []);
    rig.end();
}
