//! Deaths of owners, replicas and sources.

use weir_packet::{Disposition, frame_flags};
use weir_protocol::Clock;
use weir_protocol::message::{Message, MoveMode, Origin};
use weir_protocol::switch::{SwitchCount, SwitchDrop};

use crate::rig::{Rig, rt};
use crate::{FRESH, REPEATED, copy_of, each_burst, move_to, replica_of, settings, settled};

#[test]
fn without_replication_a_death_loses_the_unit_by_name() {
    let (mut rig, unit, owner) = settled(settings(), 2);
    rig.send(1, 2);
    rig.send(1, 3);
    let late = rig.queue(owner);
    rig.suspect(owner);
    assert_eq!(rig.dropped(SwitchDrop::OwnerLost), 2);
    assert_eq!(rig.count(SwitchCount::UnitLost), 1);
    // What it still says counts for nothing.
    rig.answer(owner, late, Disposition::Out);
    assert_eq!(rig.out(), [] as [u8; 0]);
    // The next packet starts from no state.
    rig.send(1, 4);
    let other = 3 - owner;
    let open = rig.open(other).unwrap();
    assert_eq!(open.origin, Origin::Nothing { after_loss: true });
    assert_eq!((open.unit, open.base), (unit, Clock(3)));
    let frames = rig.queue(other);
    let seen = rig.see(&frames[0]);
    assert_eq!(seen.clock, Clock(4));
    assert_eq!(seen.flags, FRESH | frame_flags::AFTER_LOSS);
    rig.answer(other, frames, Disposition::Out);
    assert_eq!(rig.out(), [4]);
    rig.end();
}

#[test]
fn nothing_is_lost_with_a_first_view_that_let_nothing_out() {
    let mut rig = Rig::new(settings(), 2);
    rig.send(1, 1);
    rig.send(1, 2);
    let owner = rig.who()[0];
    let late = rig.queue(owner);
    rig.suspect(owner);
    let other = 3 - owner;
    let frames = rig.queue(other);
    assert_eq!(rig.clocks(&frames), [1, 2]);
    assert!(
        rig.seen(&frames)
            .iter()
            .all(|s| s.flags == FRESH | REPEATED)
    );
    rig.answer(owner, late, Disposition::Out);
    rig.answer(other, frames, Disposition::Out);
    assert_eq!(rig.out(), [1, 2]);
    rig.end();
}

#[test]
fn a_first_view_that_let_nothing_out_waits_for_a_runtime() {
    let mut rig = Rig::new(settings(), 1);
    rig.send(1, 1);
    rig.send(1, 2);
    let late = rig.queue(1);
    rig.suspect(1);
    assert!(rig.count(SwitchCount::FirstAwaits) > 0);
    rig.send(1, 3);
    assert_eq!(rig.dropped(SwitchDrop::NoRuntime), 1);
    rig.pass(100);
    assert_eq!(rig.dropped(SwitchDrop::OwnerLost), 0);
    rig.switch.join(rig.now, rt(2));
    rig.pass(0);
    let frames = rig.queue(2);
    assert_eq!(rig.clocks(&frames), [1, 2]);
    rig.answer(1, late, Disposition::Out);
    rig.answer(2, frames, Disposition::Out);
    assert_eq!(rig.out(), [1, 2]);
    rig.end();
}

#[test]
fn a_replica_goes_on_after_a_death() {
    let (mut rig, unit, owner) = settled(each_burst(), 3);
    // One of its packets is stored by the replica, one is on its way.
    rig.send(1, 2);
    rig.send(1, 3);
    let mut frames = rig.queue(owner);
    let stored = frames.remove(0);
    rig.drop_all(frames);
    // Entries of an owner that has a replica must come from the replica.
    let before = rig.count(SwitchCount::EntryNotOwner);
    let view = rig.see(&stored).view;
    let copy = copy_of(&mut rig, &stored);
    rig.answer(owner, vec![copy], Disposition::Out);
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
    rig.answer(replica, vec![stored], Disposition::Out);
    assert_eq!(rig.out(), [] as [u8; 0]);
    let frames = rig.queue(replica);
    assert_eq!(rig.clocks(&frames), [2, 3]);
    rig.answer(third, frames, Disposition::Out);
    assert_eq!(rig.out(), [2, 3]);
    assert_eq!(rig.count(SwitchCount::ResumedAtReplica), 1);
    assert_eq!(rig.switch.owner_of(unit), Some(rt(replica)));
    rig.end();
}

/// An entry that came early waits at the gate when its view is over. The next owner's entry of
/// the same number takes its place, and leaves in its turn: it need not be said again.
#[test]
fn of_two_entries_that_wait_the_newer_views_stays() {
    let mut rig = Rig::new(each_burst(), 3);
    rig.send(1, 1);
    let owner = rig.who()[0];
    let replica = replica_of(&mut rig, owner);
    let frames = rig.queue(owner);
    rig.answer(replica, frames, Disposition::Out);
    assert_eq!(rig.out(), [1]);
    rig.send(1, 2);
    rig.send(1, 3);
    let mut frames = rig.queue(owner);
    let early = frames.pop().unwrap();
    rig.drop_all(frames);
    rig.answer(replica, vec![early], Disposition::Out);
    assert_eq!(rig.count(SwitchCount::Parked), 1);
    rig.suspect(owner);
    let third = 6 - owner - replica;
    let mut frames = rig.queue(replica);
    assert_eq!(rig.clocks(&frames), [2, 3]);
    let next = frames.remove(0);
    rig.answer(third, frames, Disposition::Out);
    assert_eq!(rig.count(SwitchCount::Parked), 2);
    assert_eq!(rig.out(), [] as [u8; 0]);
    rig.answer(third, vec![next], Disposition::Out);
    assert_eq!(rig.out(), [2, 3]);
    assert_eq!(rig.count(SwitchCount::ParkedRefused), 0);
    rig.end();
}

#[test]
fn a_replica_that_dies_is_replaced() {
    let mut rig = Rig::new(each_burst(), 3);
    rig.send(1, 1);
    let owner = rig.who()[0];
    let replica = replica_of(&mut rig, owner);
    let frames = rig.queue(owner);
    rig.answer(replica, frames, Disposition::Out);
    rig.send(1, 2);
    rig.suspect(replica);
    let open = rig.open(owner).unwrap();
    assert_eq!(open.origin, Origin::Resumed { source: rt(owner) });
    let third = open.replica.unwrap().0;
    assert_eq!(third, 6 - owner - replica);
    let frames = rig.queue(owner);
    assert_eq!(rig.clocks(&frames), [2, 2]);
    rig.answer(third, frames, Disposition::Out);
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
    assert_eq!(rig.switch.outbox.queues.len(), 2);
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
    let frames = rig.queue(replica);
    // If the replica is the target it has got packet 3 once before.
    assert!(rig.clocks(&frames).ends_with(&[2, 3]));
    rig.answer(open.replica.unwrap().0, frames, Disposition::Out);
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
