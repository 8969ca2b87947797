//! First views, repeats and gaps.

use weir_packet::{Disposition, frame_flags};
use weir_protocol::actors::ActorCount;
use weir_protocol::ids::{Clock, UnitId};
use weir_protocol::message::{Message, Open, Origin};

use crate::bed::{Bed, FRESH, Got, Kind, MS, REPEATED, SWITCH, batch, clocks, held, out};
use crate::bed::{planned, unit, view};

const U: UnitId = unit(3);

#[test]
fn a_first_view_needs_no_message_and_every_packet_is_answered() {
    let mut bed = Bed::new(1);
    let payloads: [&[u8]; 5] = [b"c--", b"d--", b"e--", b"a--", b"q--"];
    let mut frames = Vec::new();
    for (number, payload) in payloads.iter().enumerate() {
        frames.push(bed.frame((U, view(1), number as u64 + 1), FRESH, payload));
    }
    let got = bed.burst(1, frames);
    let dispositions: Vec<_> = got.iter().map(|got| (got.clock, got.disposition)).collect();
    assert_eq!(
        dispositions,
        [
            (1, Disposition::Out),
            (2, Disposition::Dropped),
            (3, Disposition::Emitted),
            (3, Disposition::Out),
            (4, Disposition::Notes),
            (4, Disposition::Out),
            (5, Disposition::Out),
        ]
    );
    assert_eq!(got.last().map(|got| got.count), Some(4));
    assert_eq!(bed.count(1, ActorCount::Fresh), 1);
    let report = bed.at(1).report();
    assert_eq!((report.units, report.kept, report.packets), (1, 5, 5));
    bed.tell(
        1,
        SWITCH,
        Message::Out {
            unit: U,
            view: view(1),
            out: Clock(4),
        },
    );
    assert_eq!(bed.at(1).report().kept, 1);
    assert_eq!(bed.state(1, U), Some(bed.reference(U, &payloads)));
    bed.end();
}

#[test]
fn nothing_is_kept_where_nothing_can_be_lost() {
    let mut bed = Bed::of(
        1,
        Kind {
            forget_outputs: true,
            ..Kind::default()
        },
    );
    assert_eq!(bed.start(1, U, view(1), 70).len(), 70);
    let report = bed.at(1).report();
    assert_eq!((report.kept, report.units), (0, 1));
    assert_eq!(bed.said(1), []);
    bed.end();
}

#[test]
fn a_packet_that_comes_again_changes_nothing_and_its_entry_is_said_again() {
    let mut bed = Bed::new(1);
    bed.start(1, U, view(1), 3);
    let before = bed.state(1, U);
    assert_eq!(bed.data(1, (U, view(1), 2), FRESH, b"c--"), []);
    assert_eq!(bed.said(1), []);
    assert_eq!(bed.data(1, (U, view(1), 2), REPEATED, b"c--"), []);
    let again = batch(bed.said_to(1, SWITCH));
    assert_eq!((clocks(&again), again.view), (vec![1, 2, 3], view(1)));
    // once in a while
    assert_eq!(bed.data(1, (U, view(1), 3), REPEATED, b"c--"), []);
    assert_eq!(bed.said(1), []);
    bed.later(20);
    assert_eq!(bed.data(1, (U, view(1), 3), REPEATED, b"c--"), []);
    assert_eq!(bed.said(1).len(), 1);
    assert_eq!(bed.state(1, U), before);
    assert_eq!(bed.count(1, ActorCount::Duplicate), 4);
    assert_eq!(bed.count(1, ActorCount::SaidAgain), 2);
    bed.end();
}

#[test]
fn what_comes_after_a_gap_waits_and_the_gap_is_asked_for() {
    let mut bed = Bed::new(1);
    bed.start(1, U, view(1), 2);
    bed.tick(1);
    assert_eq!(bed.data(1, (U, view(1), 5), 0, b"c--"), []);
    let asked = Message::Repeat {
        unit: U,
        view: view(1),
        after: Clock(2),
    };
    assert_eq!(bed.said_to(1, SWITCH), asked);
    assert_eq!(bed.data(1, (U, view(1), 4), 0, b"c--"), []);
    assert_eq!(bed.said(1), []);
    let at = bed.at(1).next_deadline();
    assert_eq!(at, Some(bed.now.plus(10 * MS)));
    bed.later(10);
    bed.tick(1);
    assert_eq!(bed.said_to(1, SWITCH), asked);
    let got = bed.data(1, (U, view(1), 3), 0, b"c--");
    let each: Vec<Got> = (3..=5).map(|n| out(view(1), n, n as u8)).collect();
    assert_eq!(got, each);
    bed.later(10);
    bed.tick(1);
    assert_eq!(bed.said(1), []);
    // the plain path again
    assert_eq!(
        bed.data(1, (U, view(1), 6), 0, b"c--"),
        [out(view(1), 6, 6)]
    );
    assert_eq!(bed.count(1, ActorCount::Gap), 2);
    bed.end();
}

#[test]
fn a_lost_packet_is_applied_as_one_that_does_nothing() {
    let mut bed = Bed::new(1);
    bed.start(1, U, view(1), 2);
    let got = bed.data(1, (U, view(1), 3), frame_flags::LOST, b"c--");
    assert_eq!(got.len(), 1);
    assert_eq!(
        (got[0].disposition, got[0].clock),
        (Disposition::Applied, 3)
    );
    assert_eq!(
        bed.data(1, (U, view(1), 4), 0, b"c--"),
        [out(view(1), 4, 3)]
    );
    bed.end();
}

#[test]
fn what_stands_for_a_lost_first_packet_waits_for_the_view_to_be_opened() {
    let mut bed = Bed::new(1);
    let flags = FRESH | REPEATED | frame_flags::LOST;
    assert_eq!(bed.data(1, (U, view(4), 1), flags, b""), []);
    assert_eq!(bed.at(1).report().units, 0);
    let open = Open {
        origin: Origin::Nothing { after_loss: false },
        ..planned(U, (view(0), view(4)), 0, 0)
    };
    bed.tell(1, SWITCH, Message::Open(open));
    let got = bed.got(1);
    assert_eq!(
        (got.len(), got[0].disposition, got[0].clock),
        (1, Disposition::Applied, 1)
    );
    assert_eq!(bed.said_to(1, SWITCH), held(U, view(4)));
    bed.end();
}

#[test]
fn a_later_life_in_the_same_place_takes_it_over() {
    let mut bed = Bed::new(1);
    bed.start(1, U, view(1), 4);
    let next = UnitId(2 << 32 | u64::from(U.slot()));
    assert_eq!(bed.start(1, next, view(9), 2).len(), 2);
    assert_eq!(bed.count(1, ActorCount::Superseded), 1);
    assert!(bed.state(1, U).is_none() && bed.state(1, next).is_some());
    // what is left of the old one on the way is stale
    assert_eq!(bed.data(1, (U, view(1), 5), FRESH, b"c--"), []);
    assert_eq!(bed.count(1, ActorCount::StalePacket), 1);
    bed.end();
}

#[test]
fn packets_of_an_unknown_view_wait_for_it_and_are_dropped_if_it_never_comes() {
    let mut bed = Bed::new(1);
    assert_eq!(bed.data(1, (U, view(4), 8), 0, b"c--"), []);
    assert_eq!(bed.at(1).report().held, 1);
    let at = bed.at(1).next_deadline().expect("it is looked after");
    bed.now = at;
    bed.tick(1);
    assert_eq!(bed.at(1).report().held, 0);
    assert_eq!(bed.count(1, ActorCount::HoldDropped), 1);
    assert_eq!(bed.at(1).next_deadline(), None);
    bed.end();
}

/// A thread or a process may not run for long, and nobody would send them again.
#[test]
fn where_nothing_is_lost_they_wait_as_long_as_it_takes() {
    let kind = Kind {
        forget_outputs: true,
        ..Kind::default()
    };
    let mut bed = Bed::of(1, kind);
    assert_eq!(bed.data(1, (U, view(4), 8), 0, b"c--"), []);
    bed.now = bed.now.plus(3_600_000 * MS);
    bed.tick(1);
    assert_eq!(bed.at(1).report().held, 1);
    let open = Open {
        origin: Origin::Nothing { after_loss: true },
        ..planned(U, (view(0), view(4)), 7, 0)
    };
    bed.tell(1, SWITCH, Message::Open(open));
    assert_eq!(bed.got(1), [out(view(4), 8, 1)]);
    bed.end();
}

#[test]
fn a_view_after_a_loss_starts_from_its_base_when_it_is_open() {
    let mut bed = Bed::new(1);
    let flags = FRESH | frame_flags::AFTER_LOSS;
    assert_eq!(bed.data(1, (U, view(4), 8), flags, b"c--"), []);
    let open = Open {
        origin: Origin::Nothing { after_loss: true },
        ..planned(U, (view(0), view(4)), 7, 0)
    };
    bed.tell(1, SWITCH, Message::Open(open));
    assert_eq!(bed.got(1), [out(view(4), 8, 1)]);
    assert_eq!(bed.said_to(1, SWITCH), held(U, view(4)));
    assert_eq!(bed.count(1, ActorCount::AfterLoss), 1);
    bed.end();
}

#[test]
fn the_hold_buffer_is_bounded() {
    let mut bed = Bed::of(
        1,
        Kind {
            held: Some(4),
            ..Kind::default()
        },
    );
    for clock in 1..=6 {
        bed.data(1, (U, view(4), clock), 0, b"c--");
    }
    bed.data(1, (unit(5), view(5), 1), 0, b"c--");
    let report = bed.at(1).report();
    assert_eq!((report.held, report.held_most), (4, 4));
    assert_eq!(bed.count(1, ActorCount::HoldOverflow), 3);
    bed.end();
}
