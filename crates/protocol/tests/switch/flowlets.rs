//! Flowlets at the switch: who is asked for copies, and how the state comes over.

use weir_packet::Disposition;
use weir_protocol::flowlets::{FlowletCount, FlowletSettings};
use weir_protocol::message::{Message, MoveMode};
use weir_protocol::settings::SwitchSettings;

use super::rig::{MS, Rig, rt};
use super::{settings, settled};

/// No runtime has room, and the state is worth nothing: each flowlet goes to the other runtime.
fn to_and_fro() -> SwitchSettings {
    let flowlets = FlowletSettings {
        gap: 2 * MS,
        capacity: 1_000,
        alpha: 0,
        adapts: false,
        ..FlowletSettings::DEFAULT
    };
    SwitchSettings {
        flowlets: Some(flowlets),
        ..settings()
    }
}

fn later(rig: &mut Rig, ms: u64) {
    rig.now = rig.now.plus(ms * MS);
    rig.switch.tick(rig.now, &mut rig.pool);
}

fn count(rig: &Rig, what: FlowletCount) -> u64 {
    rig.switch
        .flowlets()
        .map_or(0, |flowlets| flowlets.counts().get(what))
}

/// How the source of the last move sends the state.
fn mode(told: &[Message]) -> Option<MoveMode> {
    told.iter().find_map(|message| match message {
        Message::Closed { mode, .. } => Some(*mode),
        _ => None,
    })
}

#[test]
fn a_flowlet_follows_the_copy_that_went_ahead() {
    let (mut rig, unit, owner) = settled(to_and_fro(), 2);
    let other = 3 - owner;
    later(&mut rig, 1);
    let told = rig.to(owner);
    let asked = told.iter().find_map(|message| match message {
        Message::SendAhead {
            unit: of,
            clock,
            to,
            ..
        } => Some((*of, clock.0, to.clone())),
        _ => None,
    });
    assert_eq!(asked, Some((unit, 1, vec![rt(other)])), "{told:?}");
    later(&mut rig, 2);
    rig.send(1, 2);
    assert_eq!(rig.who(), [other]);
    assert_eq!(mode(&rig.to(owner)), Some(MoveMode::Pull));
    assert_eq!(count(&rig, FlowletCount::CopyUsed), 1);
    assert_eq!(count(&rig, FlowletCount::MovedReady), 1);
    // Its view is not settled: the next flowlet stays.
    later(&mut rig, 3);
    rig.send(1, 3);
    assert_eq!(count(&rig, FlowletCount::Bound), 1);
    let frames = rig.queue(other);
    rig.answer(other, frames, Disposition::Out);
    assert_eq!(rig.out(), [2, 3]);
    rig.messages();
    rig.end();
}

#[test]
fn what_was_not_let_out_has_to_come_with_the_state() {
    let (mut rig, _, owner) = settled(to_and_fro(), 2);
    let other = 3 - owner;
    rig.send(1, 2);
    let first = rig.queue(owner);
    later(&mut rig, 3);
    assert_eq!(
        count(&rig, FlowletCount::CopyAsked),
        0,
        "a packet is on its way"
    );
    rig.send(1, 3);
    assert_eq!(rig.who(), [other]);
    assert_eq!(mode(&rig.to(owner)), Some(MoveMode::Push));
    assert_eq!(count(&rig, FlowletCount::MovedWaiting), 1);
    rig.answer(owner, first, Disposition::Out);
    let frames = rig.queue(other);
    rig.answer(other, frames, Disposition::Out);
    assert_eq!(rig.out(), [2, 3]);
    rig.messages();
    rig.end();
}

#[test]
fn a_runtime_without_packets_becomes_idle() {
    let (mut rig, _, owner) = settled(to_and_fro(), 2);
    let now = rig.now;
    let (_, more, _) = rig.switch.flowlet_need(now).unwrap();
    assert!(more, "a packet is more than it can do");
    rig.now = rig.now.plus(500 * MS);
    for _ in 0..4 {
        later(&mut rig, 3);
    }
    let now = rig.now;
    let ((load, _), more, idle) = rig.switch.flowlet_need(now).unwrap();
    assert_eq!((load, more, idle.len()), (0, false, 2), "owner {owner}");
    rig.messages();
    rig.end();
}
