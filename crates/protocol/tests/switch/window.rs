//! A window that is full of views which wait for what it holds up.

use weir_packet::{Disposition, Time};
use weir_protocol::UnitId;
use weir_protocol::message::{Message, MoveMode, Origin};
use weir_protocol::settings::SwitchSettings;
use weir_protocol::switch::{SwitchCount, SwitchDrop};

use crate::rig::{Rig, rt, stage_of};
use crate::{each_burst, move_to, replica_of, settings, settled};

#[test]
fn a_death_is_dealt_with_while_the_window_is_full() {
    let few = SwitchSettings {
        window: 2,
        ..settings()
    };
    let mut rig = Rig::new(few, 3);
    for flow in 1..=9 {
        rig.send(flow, flow);
    }
    (1..=3).for_each(|number| rig.serve(number));
    rig.out();
    // The window is full of moves to the third, which dies; so does the
    // second, whose units come first in the table or last.
    move_to(&mut rig, 1, 3, MoveMode::Push).unwrap();
    assert_eq!(rig.switch.report().unsettled, 2);
    rig.suspect(3);
    rig.suspect(2);
    for _ in 0..10 {
        for (_, message) in rig.messages() {
            if let Message::Open(open) = message
                && open.origin == (Origin::Resumed { source: rt(1) })
            {
                let (unit, view) = (open.unit, open.view);
                rig.say(1, Message::Held { unit, view });
            }
        }
        rig.pass(0);
    }
    assert_eq!(rig.switch.report().unsettled, 0);
    assert_eq!(rig.count(SwitchCount::UnitLost), 6);
    assert_eq!(rig.count(SwitchCount::MoveFailed), 2);
    assert!(rig.switch.is_drained(rt(2)) && rig.switch.is_drained(rt(3)));
    rig.end();
}

/// A walk over many units holds the packets of others up for the time of one step. It looks at as
/// many places in each as the documentation says, and at all in the end.
#[test]
fn the_walk_after_a_death_takes_its_steps() {
    const UNITS: u16 = 5_000;
    const STRIDE: u32 = 4_096;
    let mut rig = Rig::of(&stage_of(2 * u32::from(UNITS)), settings(), 1);
    for flow in 0..UNITS {
        let [high, low] = flow.to_be_bytes();
        let frame = rig.frame_from(&format!("10.1.{high}.{low}:1000"), 0);
        let now = rig.now;
        rig.switch.ingress(now, &mut rig.pool, &mut vec![frame]);
        rig.serve(1);
        rig.messages();
        assert_eq!(rig.out().len(), 1);
    }
    // Each is lost with the only runtime.
    let units: Vec<UnitId> = rig.switch.live_units().collect();
    let early = units.iter().filter(|unit| unit.slot() < STRIDE).count() as u64;
    let lost = units.len() as u64;
    assert!(0 < early && early < lost);
    let now = rig.now;
    rig.switch.suspect(now, &mut rig.pool, rt(1));
    // The first step is taken at once.
    let mut after = vec![rig.count(SwitchCount::UnitLost)];
    while rig.switch.next_deadline() == Some(Time::ZERO) {
        rig.switch.tick(now, &mut rig.pool);
        after.push(rig.count(SwitchCount::UnitLost));
    }
    assert_eq!(after, [early, lost]);
    rig.end();
}

#[test]
fn both_of_a_pair_die_while_their_views_fill_the_window() {
    let few = SwitchSettings {
        window: 1,
        ..each_burst()
    };
    let (mut rig, _, owner) = settled(few, 3);
    rig.send(1, 2);
    let frames = rig.queue(owner);
    rig.drop_all(frames);
    rig.suspect(owner);
    // The view that follows is open and not settled: its holders die too.
    let open = (1..=3).find_map(|n| rig.open(n)).unwrap();
    let Origin::Resumed { source } = open.origin else {
        panic!("{open:?}");
    };
    rig.suspect(source.0);
    assert_eq!(rig.switch.report().unsettled, 0);
    assert_eq!(rig.dropped(SwitchDrop::OwnerLost), 1);
    rig.end();
}

#[test]
fn a_unit_with_a_packet_on_its_way_waits_for_no_window() {
    let few = SwitchSettings {
        window: 1,
        ..each_burst()
    };
    let mut rig = Rig::new(few, 3);
    let mut units = Vec::new();
    for flow in 1..=9 {
        rig.send(flow, flow);
        let owner = rig.who()[0];
        let frames = rig.queue(owner);
        let unit = rig.see(&frames[0]).unit;
        let replica = replica_of(&mut rig, owner);
        rig.answer(replica, frames, Disposition::Out);
        units.push((unit, owner));
    }
    rig.out();
    rig.messages();
    let (last, dead) = units[8];
    assert_ne!(units.iter().position(|(_, owner)| *owner == dead), Some(8));
    rig.send(9, 10);
    let frames = rig.queue(dead);
    rig.drop_all(frames);
    rig.suspect(dead);
    let mut opened = Vec::new();
    for (_, message) in rig.messages() {
        if let Message::Open(open) = message {
            opened.push(open.unit);
        }
    }
    opened.dedup();
    assert_eq!(opened, [last]);
    assert_eq!(rig.switch.report().unsettled, 1);
    rig.end();
}
