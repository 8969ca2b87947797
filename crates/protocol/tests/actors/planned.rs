//! Planned views: push, pull, and what comes in another order.

use weir_nf::RuntimeId;
use weir_packet::Disposition;
use weir_protocol::actors::ActorCount;
use weir_protocol::ids::{Clock, UnitId};
use weir_protocol::message::{Message, MoveMode, Open};
use weir_protocol::plant::Plant;

use crate::bed::{Bed, FRESH, Got, Kind, SWITCH, batch, clocks, closed, held, image, out};
use crate::bed::{planned, runtime, unit, view};

const U: UnitId = unit(0);
const OLD: weir_protocol::View = view(1);
const NEW: weir_protocol::View = view(2);

fn forget() -> Message {
    Message::Forget {
        unit: U,
        below: NEW,
        ended: false,
    }
}

#[test]
fn a_unit_moves_with_its_state_and_goes_on() {
    let mut bed = Bed::new(2);
    bed.start(1, U, OLD, 5);
    let state = bed.state(1, U);
    bed.tell(2, SWITCH, Message::Open(planned(U, (OLD, NEW), 5, 1)));
    assert_eq!(bed.data(2, (U, NEW, 6), 0, b"c--"), []);
    bed.tell(1, SWITCH, closed(U, (OLD, NEW), 5, 2));
    // gone at once, kept as a copy
    assert_eq!((bed.state(1, U), bed.at(1).report().stored), (None, 1));
    let said = bed.carry();
    assert_eq!(said, [(2, held(U, NEW))]);
    assert_eq!(bed.got(2), [out(NEW, 6, 6)]);
    assert_eq!(bed.data(2, (U, NEW, 7), 0, b"c--"), [out(NEW, 7, 7)]);
    let all = vec![&b"c--"[..]; 7];
    assert_eq!(bed.state(2, U), Some(bed.reference(U, &all)));
    assert_ne!(bed.state(2, U), state);
    assert!(bed.at(1).report().stored_bytes > 0);
    bed.tell(1, SWITCH, forget());
    let report = bed.at(1).report();
    assert_eq!(
        (report.stored, report.stored_bytes, report.units),
        (0, 0, 0)
    );
    // a straggler of the first view makes no new actor
    assert_eq!(bed.data(1, (U, OLD, 1), FRESH, b"c--"), []);
    assert_eq!(bed.at(1).report().units, 0);
    assert_eq!(bed.count(1, ActorCount::StalePacket), 1);
    bed.end();
}

#[test]
fn the_source_goes_on_until_the_base_and_no_further() {
    let mut bed = Bed::new(2);
    bed.start(1, U, OLD, 3);
    bed.tell(1, SWITCH, closed(U, (OLD, NEW), 5, 2));
    assert_eq!(bed.said(1), []);
    assert_eq!(bed.data(1, (U, OLD, 4), 0, b"c--"), [out(OLD, 4, 4)]);
    assert_eq!(bed.data(1, (U, OLD, 6), 0, b"c--"), []);
    assert_eq!(bed.count(1, ActorCount::PacketRefused), 1);
    assert_eq!(bed.data(1, (U, OLD, 5), 0, b"c--"), [out(OLD, 5, 5)]);
    let image = image(bed.said_to(1, runtime(2)));
    assert_eq!(image.clock, Clock(5));
    assert_eq!(image.state, Some(bed.reference(U, &[&b"c--"[..]; 5])));
    assert_eq!(image.outputs.len(), 5);
    bed.end();
}

#[test]
fn a_gap_before_the_base_is_filled_first() {
    let mut bed = Bed::new(2);
    bed.start(1, U, OLD, 3);
    bed.data(1, (U, OLD, 5), 0, b"c--");
    bed.tell(1, SWITCH, closed(U, (OLD, NEW), 5, 2));
    bed.said(1);
    let got = bed.data(1, (U, OLD, 4), 0, b"c--");
    assert_eq!(got, [out(OLD, 4, 4), out(OLD, 5, 5)]);
    assert_eq!(image(bed.said_to(1, runtime(2))).clock, Clock(5));
    bed.end();
}

#[test]
fn outputs_that_were_not_let_out_go_along_and_are_said_in_the_new_view() {
    let mut bed = Bed::new(2);
    bed.start(1, U, OLD, 5);
    bed.tell(1, SWITCH, closed(U, (OLD, NEW), 5, 2));
    let open = Open {
        out: Clock(3),
        ..planned(U, (OLD, NEW), 5, 1)
    };
    bed.tell(2, SWITCH, Message::Open(open));
    let mut said = bed.carry();
    assert_eq!(said.pop(), Some((2, held(U, NEW))));
    let (by, entries) = said.pop().expect("outputs are said");
    let entries = batch(entries);
    assert_eq!((by, entries.view, clocks(&entries)), (2, NEW, vec![4, 5]));
    bed.end();
}

#[test]
fn a_target_that_hears_nothing_asks_and_asks_again() {
    let mut bed = Bed::new(2);
    bed.start(1, U, OLD, 5);
    bed.tell(2, SWITCH, Message::Open(planned(U, (OLD, NEW), 5, 1)));
    assert_eq!(bed.said(2), []);
    let pull = Message::Pull {
        unit: U,
        old: OLD,
        new: NEW,
        at: Clock(5),
    };
    for _ in 0..3 {
        bed.now = bed.at(2).next_deadline().expect("it asks again");
        bed.tick(2);
        assert_eq!(bed.said_to(2, runtime(1)), pull);
    }
    assert_eq!(bed.count(2, ActorCount::PullRepeated), 2);
    // the source has not heard that its view ends, and believes the switch alone
    let before = bed.state(1, U);
    bed.tell(1, runtime(2), pull.clone());
    assert_eq!(bed.count(1, ActorCount::PullEarly), 1);
    assert_eq!((bed.said(1), bed.state(1, U)), (vec![], before));
    let ends = Message::Closed {
        unit: U,
        old: OLD,
        at: Clock(5),
        new: NEW,
        to: RuntimeId(2),
        mode: MoveMode::Pull,
    };
    bed.tell(1, SWITCH, ends);
    // remembers that it was asked
    let state = bed.said_to(1, runtime(2));
    // and answers as often as it is asked
    bed.tell(1, runtime(2), pull);
    assert_eq!(bed.said_to(1, runtime(2)), state);
    assert_eq!(bed.count(1, ActorCount::PullAnswered), 2);
    bed.tell(2, runtime(1), state.clone());
    assert_eq!(bed.said_to(2, SWITCH), held(U, NEW));
    bed.tell(2, runtime(1), state);
    assert_eq!(bed.said(2), []);
    assert_eq!(bed.count(2, ActorCount::MessageStale), 1);
    bed.end();
}

#[test]
fn in_mode_pull_the_source_waits_to_be_asked() {
    let mut bed = Bed::new(2);
    bed.start(1, U, OLD, 5);
    let closed = Message::Closed {
        unit: U,
        old: OLD,
        at: Clock(5),
        new: NEW,
        to: RuntimeId(2),
        mode: MoveMode::Pull,
    };
    bed.tell(1, SWITCH, closed);
    assert_eq!(bed.said(1), []);
    bed.tell(2, SWITCH, Message::Open(planned(U, (OLD, NEW), 5, 1)));
    bed.now = bed.at(2).next_deadline().expect("it asks");
    bed.tick(2);
    assert_eq!(bed.carry(), [(2, held(U, NEW))]);
    bed.end();
}

#[test]
fn a_state_may_come_before_its_view_is_open() {
    let mut bed = Bed::new(2);
    bed.start(1, U, OLD, 5);
    bed.tell(1, SWITCH, closed(U, (OLD, NEW), 5, 2));
    assert_eq!(bed.carry(), []);
    assert_eq!(bed.count(2, ActorCount::StateAhead), 1);
    assert_eq!(bed.data(2, (U, NEW, 6), 0, b"c--"), []);
    bed.tell(2, SWITCH, Message::Open(planned(U, (OLD, NEW), 5, 1)));
    assert_eq!(bed.said_to(2, SWITCH), held(U, NEW));
    assert_eq!(bed.got(2), [out(NEW, 6, 6)]);
    bed.end();
}

#[test]
fn an_opening_that_is_repeated_is_answered_again() {
    let mut bed = Bed::new(2);
    bed.start(1, U, OLD, 5);
    let open = Message::Open(planned(U, (OLD, NEW), 5, 1));
    bed.tell(2, SWITCH, open.clone());
    bed.tell(2, SWITCH, open.clone());
    bed.tell(1, SWITCH, closed(U, (OLD, NEW), 5, 2));
    bed.tell(1, SWITCH, closed(U, (OLD, NEW), 5, 2));
    let said = bed.carry();
    assert_eq!(said.last(), Some(&(2, held(U, NEW))));
    bed.tell(2, SWITCH, open);
    let said = bed.carry();
    assert_eq!(said.last(), Some(&(2, held(U, NEW))));
    assert_eq!(bed.count(2, ActorCount::StateInstalled), 1);
    bed.end();
}

#[test]
fn no_state_is_an_answer_too() {
    let mut bed = Bed::new(2);
    // what has no flow: its unit never has a state
    let arp = bed.frame((U, OLD, 1), FRESH, b"c--");
    let memory = bed.pool.memory().clone();
    let mut arp = arp;
    let (meta, room) = memory.split_mut(&mut arp);
    let start = usize::from(meta.start);
    room[start + 12..start + 14].copy_from_slice(&0x88b6u16.to_be_bytes());
    assert_eq!(bed.burst(1, vec![arp]).len(), 1);
    bed.tell(1, SWITCH, closed(U, (OLD, NEW), 1, 2));
    bed.tell(2, SWITCH, Message::Open(planned(U, (OLD, NEW), 1, 1)));
    let said = bed.carry();
    assert_eq!(said.last(), Some(&(2, held(U, NEW))));
    assert_eq!(bed.count(2, ActorCount::NothingInstalled), 1);
    bed.end();
}

#[test]
fn there_and_back_again() {
    let mut bed = Bed::of(
        2,
        Kind {
            forget_outputs: true,
            ..Kind::default()
        },
    );
    bed.start(1, U, OLD, 3);
    let (mut at, mut clock) = (1, 3);
    for number in 2..12 {
        let (old, new, to) = (view(number - 1), view(number), 3 - at);
        bed.tell(to, SWITCH, Message::Open(planned(U, (old, new), clock, at)));
        bed.tell(at, SWITCH, closed(U, (old, new), clock, to));
        assert_eq!(bed.carry(), [(to, held(U, new))]);
        bed.tell(
            at,
            SWITCH,
            Message::Forget {
                unit: U,
                below: new,
                ended: false,
            },
        );
        clock += 1;
        let got = bed.data(to, (U, new, clock), 0, b"c--");
        assert_eq!(got, [out(new, clock, clock as u8)]);
        at = to;
    }
    for id in [1, 2] {
        assert_eq!(bed.at(id).report().stored, 0);
        bed.tick(id);
        assert_eq!(bed.at(id).next_deadline().filter(|at| *at <= bed.now), None);
    }
    bed.end();
}

#[test]
fn many_units_move_without_mixing() {
    let mut bed = Bed::of(
        2,
        Kind {
            forget_outputs: true,
            ..Kind::default()
        },
    );
    for place in 0..40 {
        bed.start(1, unit(place), view(place + 1), place + 1);
    }
    for place in 0..40 {
        let (old, new) = (view(place + 1), view(100 + place));
        let open = planned(unit(place), (old, new), place + 1, 1);
        bed.tell(2, SWITCH, Message::Open(open));
        bed.tell(1, SWITCH, closed(unit(place), (old, new), place + 1, 2));
    }
    assert_eq!(bed.carry().len(), 40);
    for place in 0..40 {
        let name = (unit(place), view(100 + place), place + 2);
        let got = bed.data(2, name, 0, b"c--");
        assert_eq!(got, [out(name.1, name.2, place as u8 + 2)]);
    }
    assert_eq!(
        (bed.at(1).report().units, bed.at(2).report().units),
        (0, 40)
    );
    bed.end();
}

/// 400 packets wait for their state, each of which causes another one, in a
/// memory of 512 frames. Who gets all of them, and who does not.
fn held_packets_that_emit(plant: Option<Plant>) -> (usize, usize, usize) {
    let kind = Kind {
        forget_outputs: true,
        held: Some(512),
        plant,
        ..Kind::default()
    };
    let mut bed = Bed::of(2, kind);
    bed.start(1, U, OLD, 3);
    bed.tell(2, SWITCH, Message::Open(planned(U, (OLD, NEW), 3, 1)));
    for clock in 4..404 {
        assert_eq!(bed.data(2, (U, NEW, clock), 0, b"e--"), []);
    }
    bed.tell(1, SWITCH, closed(U, (OLD, NEW), 3, 2));
    bed.carry();
    let mut got = bed.got(2);
    while bed.at(2).next_deadline() == Some(weir_packet::Time::ZERO) {
        bed.tick(2);
        got.extend(bed.got(2));
    }
    let number = |disposition| {
        let of = |got: &&Got| got.disposition == disposition;
        got.iter().filter(of).count()
    };
    let numbers = (
        number(Disposition::Out),
        number(Disposition::Emitted),
        number(Disposition::Dropped),
    );
    bed.end();
    numbers
}

#[test]
fn packets_that_were_held_are_applied_as_frames_allow() {
    assert_eq!(held_packets_that_emit(None), (400, 400, 0));
    let (out, emitted, _) = held_packets_that_emit(Some(Plant::FramesUnseen));
    assert!(out < 400 || emitted < 400, "{out} {emitted}");
}

/// How long after a gap the runtime asks again, when entries take so many
/// microseconds to be let out.
fn asks_again_after(trip: u64) -> u64 {
    let kind = Kind {
        repeat_within: Some((1_000_000, 100_000_000)),
        ..Kind::default()
    };
    let mut bed = Bed::of(1, kind);
    for clock in 1..=60 {
        bed.data(1, (U, OLD, clock), FRESH, b"c--");
        bed.now = bed.now.plus(trip * 1_000);
        let out = Message::Out {
            unit: U,
            view: OLD,
            out: Clock(clock),
        };
        bed.tell(1, SWITCH, out);
    }
    bed.said(1);
    bed.data(1, (U, OLD, 62), 0, b"c--");
    assert_eq!(bed.count(1, ActorCount::RepeatAsked), 1);
    let asked = bed.now;
    while bed.count(1, ActorCount::RepeatAsked) == 1 {
        bed.now = bed.now.plus(100_000);
        bed.tick(1);
    }
    let after = bed.now.since(asked) / 1_000;
    bed.end();
    after
}

#[test]
fn what_is_missing_is_asked_for_again_after_ten_round_trips() {
    for (trip, wait) in [
        (10, 1_000),
        (400, 4_000),
        (3_000, 30_000),
        (90_000, 100_000),
    ] {
        let after = asks_again_after(trip);
        assert!(after.abs_diff(wait) <= wait / 10, "{trip}: {after}");
    }
}
