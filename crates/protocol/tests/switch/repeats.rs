//! Copies of packets, repeats, gaps.

use weir_packet::{Disposition, Frame, frame_flags};
use weir_protocol::Clock;
use weir_protocol::message::Message;
use weir_protocol::settings::SwitchSettings;
use weir_protocol::switch::{SwitchCount, SwitchDrop};

use crate::rig::{MS, Rig, rt};
use crate::{copy_of, settings, settled};

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
    let frames = rig.queue(1);
    assert_eq!(rig.clocks(&frames), [1, 2, 3, 4]);
    rig.answer(1, frames, Disposition::Out);
    rig.send(1, 7);
    rig.send(2, 21);
    let frames = rig.queue(1);
    assert_eq!(rig.clocks(&frames), [5, 1]);
    rig.answer(1, frames, Disposition::Out);
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
    let frames = rig.queue(owner);
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
    let frames = rig.queue(owner);
    assert_eq!(rig.clocks(&frames), [4, 5]);
    // They come before the gap is filled: they wait.
    rig.answer(owner, frames, Disposition::Out);
    assert_eq!(rig.out(), [] as [u8; 0]);
    rig.pass(9);
    assert!(rig.queue(owner).is_empty());
    rig.pass(2);
    let frames = rig.queue(owner);
    assert_eq!(rig.clocks(&frames), [2, 3]);
    assert_eq!(rig.seen(&frames)[0].tag, 2);
    // Twice: the second copy is a duplicate, and acknowledged again.
    let copies: Vec<Frame> = frames.iter().map(|f| copy_of(&mut rig, f)).collect();
    rig.answer(owner, frames, Disposition::Out);
    rig.messages();
    rig.answer(owner, copies, Disposition::Out);
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
    let mut frames = rig.queue(owner);
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
    let mut frames = rig.queue(owner);
    assert_eq!(rig.clocks(&frames), [2, 3, 4]);
    assert!(
        rig.seen(&frames)
            .iter()
            .all(|s| s.flags & frame_flags::LOST != 0)
    );
    let lost = frames.pop().unwrap();
    rig.drop_all(vec![lost]);
    // The one that was not lost comes first, and waits.
    rig.answer(owner, vec![third], Disposition::Out);
    rig.answer(owner, frames, Disposition::Applied);
    assert_eq!(rig.out(), [4]);
    assert_eq!(rig.dropped(SwitchDrop::Lost), 2);
    rig.end();
}

#[test]
fn entries_come_in_parts_or_torn() {
    let (mut rig, _, owner) = settled(settings(), 1);
    rig.send(1, 2);
    let own = rig.queue(owner);
    let mut side = copy_of(&mut rig, &own[0]);
    let memory = rig.pool.memory().clone();
    memory.meta_mut(&mut side).disposition = Disposition::Emitted;
    let now = rig.now;
    let mut first = vec![side];
    rig.switch
        .entries(now, &mut rig.pool, rt(owner), &mut first);
    assert_eq!(rig.out(), [] as [u8; 0]);
    rig.answer(owner, own, Disposition::Dropped);
    assert_eq!(rig.out(), [2]);
    assert_eq!(rig.dropped(SwitchDrop::Functions), 1);
    assert_eq!(rig.switch.report().emitted, 1);
    // A side frame of another clock than the packet's that follows
    rig.send(1, 3);
    rig.send(1, 4);
    let mut frames = rig.queue(owner);
    memory.meta_mut(&mut frames[0]).disposition = Disposition::Emitted;
    memory.meta_mut(&mut frames[1]).disposition = Disposition::Out;
    rig.switch
        .entries(now, &mut rig.pool, rt(owner), &mut frames);
    assert_eq!(rig.count(SwitchCount::EntryTorn), 1);
    assert_eq!(rig.out(), [] as [u8; 0]);
    // and one that was never sent
    let mut frames = vec![rig.frame(1, 9)];
    let seen = rig.switch.live_units().next().unwrap();
    let meta = memory.meta_mut(&mut frames[0]);
    (meta.unit, meta.view, meta.clock) = (seen.0, 1 << 48 | 1, 99);
    rig.answer(owner, frames, Disposition::Out);
    assert_eq!(rig.count(SwitchCount::EntryNotSent), 1);
    rig.end();
}

/// Sends one packet of flow 1 and has it answered after so many microseconds.
fn answered_after(rig: &mut Rig, owner: u32, microseconds: u64) {
    rig.send(1, 9);
    let frames = rig.queue(owner);
    rig.now = rig.now.plus(microseconds * 1_000);
    rig.answer(owner, frames, Disposition::Out);
    rig.out();
}

#[test]
fn repeats_follow_the_round_trip() {
    let settings = SwitchSettings {
        repeat_within: (MS, 100 * MS),
        ..settings()
    };
    let (mut rig, _, owner) = settled(settings, 1);
    let measured = |rig: &Rig| rig.switch.repeats_after() / 1_000;
    // Ten times as long as the way takes, at least a millisecond.
    for (trip, wait) in [
        (300, 3_000),
        (20, 1_000),
        (5_000, 50_000),
        (50_000, 100_000),
    ] {
        (0..60).for_each(|_| answered_after(&mut rig, owner, trip));
        let after = measured(&rig);
        assert!(after.abs_diff(wait) <= wait / 50, "{trip}: {after}");
    }
    (0..90).for_each(|_| answered_after(&mut rig, owner, 300));
    // One that is not answered is sent again then, and waited for twice as long.
    rig.send(1, 10);
    let lost = rig.queue(owner);
    rig.drop_all(lost);
    rig.pass(2);
    assert!(rig.queue(owner).is_empty());
    rig.pass(2);
    let again = rig.queue(owner);
    assert_eq!(again.len(), 1);
    assert!(measured(&rig) > 5_000, "{}", measured(&rig));
    // Its answer says nothing: nobody knows which of the two was answered.
    rig.answer(owner, again, Disposition::Out);
    assert!(measured(&rig) > 5_000, "{}", measured(&rig));
    answered_after(&mut rig, owner, 300);
    assert!(measured(&rig) < 3_100, "{}", measured(&rig));
    rig.out();
    rig.end();
}

#[test]
fn the_slowest_runtime_decides_until_it_is_gone() {
    let settings = SwitchSettings {
        repeat_within: (MS, 100 * MS),
        ..settings()
    };
    let mut rig = Rig::new(settings, 2);
    for _ in 0..40 {
        rig.send(1, 1);
        rig.send(2, 1);
        let (near, far) = (rig.queue(1), rig.queue(2));
        rig.now = rig.now.plus(200_000);
        rig.answer(1, near, Disposition::Out);
        rig.now = rig.now.plus(4 * MS);
        rig.answer(2, far, Disposition::Out);
    }
    assert!(rig.switch.repeats_after() > 30 * MS);
    rig.suspect(2);
    rig.send(1, 1);
    rig.serve(1);
    assert!(rig.switch.repeats_after() < 3 * MS);
    rig.out();
    rig.end();
}
