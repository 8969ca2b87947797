//! Copies that go ahead of flowlets: taken if they are right, and worth nothing else.

use weir_nf::RuntimeId;
use weir_protocol::actors::ActorCount;
use weir_protocol::ids::{Clock, UnitId, View};
use weir_protocol::message::{Image, Message, MoveMode, Open};

use crate::bed::{Bed, SWITCH, held, planned, runtime, unit, view};

const U: UnitId = unit(0);
const OLD: View = view(7);
const NEW: View = view(9);

fn send_ahead(clock: u64) -> Message {
    Message::SendAhead {
        unit: U,
        view: OLD,
        clock: Clock(clock),
        to: vec![RuntimeId(2)],
    }
}

fn closed_to_pull() -> Message {
    Message::Closed {
        unit: U,
        old: OLD,
        at: Clock(5),
        new: NEW,
        to: RuntimeId(2),
        mode: MoveMode::Pull,
    }
}

/// The copy that runtime 1, which owns the unit, sends ahead after packet 5.
fn copy(bed: &mut Bed) -> Image {
    bed.start(1, U, OLD, 5);
    bed.tell(1, SWITCH, send_ahead(5));
    match bed.said_to(1, runtime(2)) {
        Message::Ahead {
            unit: U,
            view: OLD,
            image,
        } => image,
        other => panic!("no copy: {other:?}"),
    }
}

fn ahead(view: View, image: Image) -> Message {
    Message::Ahead {
        unit: U,
        view,
        image,
    }
}

#[test]
fn with_the_right_copy_nothing_is_asked() {
    let mut bed = Bed::new(2);
    let image = copy(&mut bed);
    assert_eq!(
        (image.clock, image.since, image.outputs.len()),
        (Clock(5), Clock(5), 0)
    );
    bed.tell(2, runtime(1), ahead(OLD, image));
    assert_eq!(bed.at(2).copies_ahead(), 1);
    assert_eq!(bed.state(2, U), None, "a copy is no actor");
    bed.tell(2, SWITCH, Message::Open(planned(U, (OLD, NEW), 5, 1)));
    assert_eq!(bed.said(2), [(SWITCH, held(U, NEW))]);
    let all = bed.reference(U, &[&b"c--"[..]; 5]);
    assert_eq!(bed.state(2, U), Some(all));
    bed.tell(1, SWITCH, closed_to_pull());
    assert_eq!(bed.said(1), [], "nobody has asked");
    assert_eq!(bed.count(2, ActorCount::AheadUsed), 1);
    assert_eq!(bed.at(2).copies_ahead(), 0);
    bed.end();
}

#[test]
fn a_copy_that_comes_after_its_view_is_taken_too() {
    let mut bed = Bed::new(2);
    let image = copy(&mut bed);
    bed.tell(2, SWITCH, Message::Open(planned(U, (OLD, NEW), 5, 1)));
    assert_eq!(bed.said(2), []);
    bed.tell(2, runtime(1), ahead(OLD, image));
    assert_eq!(bed.said(2), [(SWITCH, held(U, NEW))]);
    bed.end();
}

#[test]
fn a_copy_that_is_wrong_in_anything_is_not_taken() {
    let right = planned(U, (OLD, NEW), 5, 1);
    let unsaid = Open {
        out: Clock(4),
        ..right
    };
    // From whom, of which view, after which packet, and the view that opens.
    for (from, of, clock, open) in [
        (3, OLD, 5, right),
        (1, view(6), 5, right),
        (1, OLD, 4, right),
        (1, OLD, 6, right),
        (1, OLD, 5, unsaid),
    ] {
        for comes_late in [false, true] {
            let mut bed = Bed::new(3);
            let image = Image {
                clock: Clock(clock),
                since: Clock(clock),
                ..copy(&mut bed)
            };
            let come = |bed: &mut Bed, image| bed.tell(2, runtime(from), ahead(of, image));
            if !comes_late {
                come(&mut bed, image.clone());
            }
            bed.tell(2, SWITCH, Message::Open(open));
            if comes_late {
                come(&mut bed, image);
            }
            let what = format!("{from} {of:?} {clock} late: {comes_late}");
            assert_eq!(bed.said(2), [], "{what}");
            assert_eq!(bed.state(2, U), None, "{what}");
            assert_eq!(bed.count(2, ActorCount::AheadUsed), 0, "{what}");
            // The source is asked, and has it.
            bed.tell(1, SWITCH, closed_to_pull());
            bed.later(50);
            bed.tick(2);
            let said = bed.carry();
            assert!(said.contains(&(2, held(U, NEW))), "{what}: {said:?}");
            bed.end();
        }
    }
}

#[test]
fn a_unit_that_has_gone_on_is_not_copied() {
    let mut bed = Bed::new(2);
    bed.start(1, U, OLD, 5);
    for clock in [4, 6] {
        bed.tell(1, SWITCH, send_ahead(clock));
    }
    assert_eq!(bed.said(1), []);
    assert_eq!(bed.count(1, ActorCount::AheadLate), 2);
    bed.end();
}

#[test]
fn what_is_no_copy_is_refused() {
    let mut bed = Bed::new(2);
    let image = copy(&mut bed);
    let wrong = Image {
        since: Clock(3),
        ..image
    };
    bed.tell(2, runtime(1), ahead(OLD, wrong));
    assert_eq!(bed.count(2, ActorCount::MessageRefused), 1);
    assert_eq!(bed.at(2).copies_ahead(), 0);
    bed.end();
}
