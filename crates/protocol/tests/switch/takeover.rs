//! Names that pass from one unit to another.

use crate::names::wide;
use crate::rig::{Rig, rt};
use crate::settings;
use weir_nf::host::{AliasRequest, NO_FLOW};
use weir_packet::{Direction, Disposition, FlowKey, Frame, Side};
use weir_protocol::UnitId;
use weir_protocol::switch::SwitchCount;
use weir_runtime::notes::{self, Note};

/// The runtime lets a packet pass; its flow asks for a name of another one.
fn ask(rig: &mut Rig, frame: Frame, key: FlowKey) {
    ask_of(rig, 1, frame, key);
}

fn ask_of(rig: &mut Rig, runtime: u32, frame: Frame, key: FlowKey) {
    let mut meta = *rig.pool.memory().clone().meta(&frame);
    let request = AliasRequest {
        flow: NO_FLOW,
        key,
        client: Direction::Forward,
        side: Side::Inside,
        open: false,
    };
    let flow = key_of(rig, UnitId(meta.unit));
    let mut bytes = Vec::new();
    notes::write(&Note::Alias { flow, request }, &mut bytes);
    meta.disposition = Disposition::Notes;
    let side = rig.pool.copy(&bytes, meta).expect("a frame is free");
    let now = rig.now;
    rig.switch
        .entries(now, &mut rig.pool, rt(runtime), &mut vec![side]);
    rig.answer(runtime, vec![frame], Disposition::Out);
}

fn key_of(rig: &Rig, unit: UnitId) -> FlowKey {
    let mut keys = Vec::new();
    rig.switch.classifier().flows_of(unit.0, &mut keys);
    keys[0]
}

/// One packet of each of two units is on its way: the frames, and the units' keys.
fn two_units() -> (Rig, [Frame; 2], [FlowKey; 2]) {
    let mut rig = Rig::of(&wide(), settings(), 1);
    let both = [(1, 1), (20, 2)].map(|(flow, tag)| {
        rig.send(flow, tag);
        let [frame] = <[Frame; 1]>::try_from(rig.queue(1)).expect("one packet");
        let unit = rig.see(&frame).unit;
        (frame, key_of(&rig, unit))
    });
    let [(first, one), (second, two)] = both;
    (rig, [first, second], [one, two])
}

#[test]
fn who_takes_a_name_waits_for_its_old_owner() {
    let (mut rig, [first, second], [key, _]) = two_units();
    let unit = rig.see(&second).unit;
    ask(&mut rig, second, key);
    assert!(rig.out().is_empty(), "packet 1 came by the name before");
    assert_eq!(rig.count(SwitchCount::NameWaited), 1);
    // What comes by the name from now on is the new owner's.
    rig.send(1, 3);
    let third = rig.queue(1);
    assert_eq!(rig.see(&third[0]).unit, unit);
    rig.answer(1, third, Disposition::Out);
    assert!(rig.out().is_empty());
    rig.answer(1, vec![first], Disposition::Out);
    assert_eq!(rig.out(), [1, 2, 3]);
    assert_eq!(rig.count(SwitchCount::NameTaken), 1);
    rig.end();
}

#[test]
fn a_unit_that_waits_keeps_its_names() {
    let (mut rig, [first, second], [one, two]) = two_units();
    let unit = rig.see(&second).unit;
    ask(&mut rig, second, one);
    ask(&mut rig, first, two);
    assert_eq!(rig.out(), [1, 2], "neither waits for ever");
    assert_eq!(rig.count(SwitchCount::NameYielded), 1);
    for key in [one, two] {
        assert_eq!(rig.switch.classifier().unit_of(&key), Some(unit.0));
    }
    rig.end();
}

#[test]
fn nobody_waits_for_a_unit_of_which_nothing_is_on_its_way() {
    let (mut rig, [first, second], [one, _]) = two_units();
    let unit = rig.see(&second).unit;
    rig.answer(1, vec![first], Disposition::Out);
    ask(&mut rig, second, one);
    assert_eq!(rig.out(), [1, 2]);
    assert_eq!(rig.count(SwitchCount::NameWaited), 0);
    assert_eq!(rig.switch.classifier().unit_of(&one), Some(unit.0));
    // An alias passes as a key does: the newest holder has it.
    rig.send(30, 3);
    let [third] = <[Frame; 1]>::try_from(rig.queue(1)).expect("one packet");
    let newest = rig.see(&third).unit;
    ask(&mut rig, third, one);
    assert_eq!(rig.out(), [3]);
    assert_eq!(rig.switch.classifier().unit_of(&one), Some(newest.0));
    assert_eq!(rig.count(SwitchCount::AliasRefused), 0);
    rig.end();
}

#[test]
fn a_lost_unit_is_not_waited_for() {
    let mut rig = Rig::of(&wide(), settings(), 2);
    rig.send(1, 1);
    let gone = rig.who()[0];
    let first = rig.queue(gone);
    let one = key_of(&rig, rig.see(&first[0]).unit);
    rig.answer(gone, first, Disposition::Out);
    assert_eq!(rig.out(), [1]);
    rig.send(1, 3);
    let third = rig.queue(gone);
    rig.drop_all(third);
    rig.send(20, 2);
    let here = rig.who()[0];
    assert_ne!(gone, here, "packets go round in turn");
    let [second] = <[Frame; 1]>::try_from(rig.queue(here)).expect("one packet");
    ask_of(&mut rig, here, second, one);
    assert!(rig.out().is_empty());
    rig.suspect(gone);
    rig.pass(1);
    let lost = rig.count(SwitchCount::UnitLost);
    assert_eq!((lost, rig.out()), (1, vec![2]));
    rig.end();
}
