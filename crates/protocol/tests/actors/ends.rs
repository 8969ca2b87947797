//! Ticks, ends, and what is forgotten.

use weir_nf::RuntimeId;
use weir_packet::{Disposition, frame_flags};
use weir_protocol::View;
use weir_protocol::actors::ActorCount;
use weir_protocol::ids::{Clock, UnitId};
use weir_protocol::message::{Message, MoveMode, Open, Origin};

use crate::bed::{Bed, FRESH, IDLE_MS, MS, SWITCH, closed, out, planned, unit, view};

const U: UnitId = unit(4);
const ONE: View = view(1);

fn end(clock: u64) -> Message {
    Message::End {
        unit: U,
        view: ONE,
        clock: Clock(clock),
    }
}

/// Lets the unit fall idle until it asks for a tick.
fn idle(bed: &mut Bed) {
    bed.tick(1);
    for _ in 0..8 {
        bed.later(u64::from(IDLE_MS));
        bed.tick(1);
        let said = bed.said(1);
        if !said.is_empty() {
            let tick = Message::Tick { unit: U, view: ONE };
            assert_eq!(said, [(SWITCH, tick)]);
            return;
        }
    }
    panic!("no tick was asked for");
}

fn tick(bed: &mut Bed, clock: u64) -> Disposition {
    let mut frame = bed.frame((U, ONE, clock), frame_flags::TICK, b"");
    let memory = bed.pool.memory().clone();
    memory.meta_mut(&mut frame).time = bed.now;
    let got = bed.burst(1, vec![frame]);
    got.last().expect("a tick is answered").disposition
}

#[test]
fn an_idle_unit_ends_when_the_switch_grants_it() {
    let mut bed = Bed::new(1);
    bed.start(1, U, ONE, 3);
    idle(&mut bed);
    assert_eq!(tick(&mut bed, 4), Disposition::Applied);
    assert_eq!(bed.state(1, U), None);
    assert_eq!(bed.said_to(1, SWITCH), end(4));
    // not granted yet: asked again, at growing distances
    bed.later(10);
    bed.tick(1);
    assert_eq!(bed.said_to(1, SWITCH), end(4));
    bed.later(10);
    bed.tick(1);
    assert_eq!(bed.said(1), []);
    bed.tell(
        1,
        SWITCH,
        Message::Forget {
            unit: U,
            below: view(7),
            ended: true,
        },
    );
    assert_eq!(bed.count(1, ActorCount::Ended), 1);
    assert_eq!(bed.at(1).report().units, 0);
    assert_eq!(bed.at(1).next_deadline(), None);
    assert_eq!(bed.data(1, (U, ONE, 2), FRESH, b"c--"), []);
    assert_eq!(bed.count(1, ActorCount::StalePacket), 1);
    bed.end();
}

#[test]
fn a_unit_that_gets_a_packet_instead_lives_on() {
    let mut bed = Bed::new(1);
    bed.start(1, U, ONE, 3);
    idle(&mut bed);
    tick(&mut bed, 4);
    let _ = bed.said(1);
    assert_eq!(bed.data(1, (U, ONE, 5), 0, b"c--"), [out(ONE, 5, 1)]);
    bed.later(100);
    bed.tick(1);
    assert_eq!(bed.said(1), []);
    bed.end();
}

#[test]
fn a_tick_that_finds_nothing_due_ends_nothing() {
    let mut bed = Bed::new(1);
    bed.start(1, U, ONE, 3);
    assert_eq!(tick(&mut bed, 4), Disposition::Applied);
    assert!(bed.state(1, U).is_some());
    assert_eq!(bed.said(1), []);
    bed.end();
}

#[test]
fn the_timers_of_a_view_that_ends_stand_still() {
    let mut bed = Bed::new(1);
    bed.start(1, U, ONE, 3);
    bed.tell(1, SWITCH, closed(U, (ONE, view(2)), 5, 2));
    for _ in 0..8 {
        bed.later(u64::from(IDLE_MS));
        bed.tick(1);
    }
    assert_eq!(bed.said(1), []);
    bed.end();
}

#[test]
fn the_end_of_a_unit_without_state_is_asked_for_until_it_comes() {
    let mut bed = Bed::new(1);
    // a lost first packet: nothing is made of it
    let open = Open {
        origin: Origin::Nothing { after_loss: false },
        ..planned(U, (view(0), ONE), 0, 0)
    };
    bed.tell(1, SWITCH, Message::Open(open));
    assert_eq!(bed.said(1).len(), 1);
    bed.data(1, (U, ONE, 1), FRESH | frame_flags::LOST, b"c--");
    assert_eq!(bed.said(1), []);
    // at growing distances, up to one that stays
    let (mut last, mut waits) = (bed.now.0, Vec::new());
    while waits.len() < 20 {
        bed.now = bed.at(1).next_deadline().expect("it asks again");
        bed.tick(1);
        for (_, message) in bed.said(1) {
            assert_eq!(message, end(1));
            waits.push(bed.now.0 - last);
            last = bed.now.0;
        }
    }
    assert!(waits.is_sorted(), "{waits:?}");
    assert_eq!(waits.iter().filter(|wait| **wait > 200 * MS).count(), 15);
    assert!(waits[19] < 4_000 * MS, "{waits:?}");
    let ended = Message::Forget {
        unit: U,
        below: view(7),
        ended: true,
    };
    bed.tell(1, SWITCH, ended);
    assert_eq!(bed.at(1).next_deadline(), None);
    bed.end();
}

#[test]
fn older_views_are_forgotten_and_newer_ones_stay() {
    let mut bed = Bed::new(1);
    bed.start(1, U, view(5), 3);
    for (below, stays) in [(4, 1), (5, 1), (6, 0)] {
        bed.tell(
            1,
            SWITCH,
            Message::Forget {
                unit: U,
                below: view(below),
                ended: false,
            },
        );
        assert_eq!(bed.at(1).report().units, stays);
    }
    assert_eq!(bed.state(1, U), None);
    bed.end();
}

#[test]
fn functions_say_where_they_want_to_be() {
    let mut bed = Bed::new(1);
    let runtimes = vec![RuntimeId(2), RuntimeId(1)];
    bed.tell(1, SWITCH, Message::NotifyClusterCfg { runtimes });
    bed.data(1, (U, ONE, 1), FRESH, b"m\x02-");
    let wish = Message::Move {
        unit: U,
        view: ONE,
        to: RuntimeId(2),
        mode: MoveMode::Push,
    };
    assert_eq!(bed.said_to(1, SWITCH), wish);
    bed.data(1, (U, ONE, 2), FRESH, b"c--");
    assert_eq!(bed.said(1), []);
    bed.now = bed.now.plus(20 * MS);
    bed.tick(1);
    bed.data(1, (U, ONE, 3), FRESH, b"c--");
    assert_eq!(bed.said_to(1, SWITCH), wish);
    // of a runtime that does not run nothing is said
    bed.data(1, (U, ONE, 4), FRESH, b"m\x09-");
    assert_eq!(bed.said(1), []);
    bed.end();
}

#[test]
fn the_word_of_an_end_may_come_after_another_life_has_begun() {
    let ended = |unit| Message::Forget {
        unit,
        below: view(9),
        ended: true,
    };
    let mut bed = Bed::new(1);
    bed.start(1, U, ONE, 2);
    bed.tell(1, SWITCH, ended(U));
    // a lower view than the end's word names, and another life
    let next = UnitId(2 << 32 | u64::from(U.slot()));
    assert_eq!(bed.start(1, next, view(5), 2).len(), 2);
    bed.tell(1, SWITCH, ended(U));
    assert_eq!(bed.data(1, (next, view(5), 3), 0, b"c--").len(), 1);
    // the first life stays over
    assert_eq!(bed.data(1, (U, view(3), 1), FRESH, b"c--"), []);
    bed.end();
}
