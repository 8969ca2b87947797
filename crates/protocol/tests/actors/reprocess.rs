//! Early states and copies.

use weir_nf::RuntimeId;
use weir_packet::{Disposition, frame_flags};
use weir_protocol::View;
use weir_protocol::actors::ActorCount;
use weir_protocol::ids::{Clock, UnitId};
use weir_protocol::message::{Message, MoveMode};

use crate::bed::{Bed, FRESH, Kind, SWITCH, batch, clocks, held, out, planned, runtime};
use crate::bed::{stage_of, unit, view};
use crate::functions::Ports;

const U: UnitId = unit(7);
const OLD: View = view(3);
const NEW: View = view(4);

fn prepare() -> Message {
    Message::Prepare {
        unit: U,
        view: OLD,
        to: RuntimeId(2),
    }
}

fn wanted(mode: MoveMode) -> Message {
    Message::Move {
        unit: U,
        view: OLD,
        to: RuntimeId(2),
        mode,
    }
}

fn closed(at: u64) -> Message {
    Message::Closed {
        unit: U,
        old: OLD,
        at: Clock(at),
        new: NEW,
        to: RuntimeId(2),
        mode: MoveMode::Reprocess,
    }
}

/// A source with 3 packets applied whose early state is at runtime 2.
fn begun() -> Bed {
    let mut bed = Bed::new(2);
    bed.start(1, U, OLD, 3);
    bed.tell(1, SWITCH, prepare());
    assert_eq!(bed.carry(), [(1, wanted(MoveMode::Reprocess))]);
    assert_eq!(bed.state(2, U), bed.state(1, U));
    bed
}

#[test]
fn copies_of_what_changes_bring_the_target_up_to_date() {
    let mut bed = begun();
    assert_eq!(bed.data(1, (U, OLD, 4), 0, b"c--"), [out(OLD, 4, 4)]);
    assert_eq!(bed.data(1, (U, OLD, 5), 0, b"q--"), [out(OLD, 5, 4)]);
    assert_eq!(
        bed.data(1, (U, OLD, 6), 0, b"d--")[0].disposition,
        Disposition::Dropped
    );
    bed.data(1, (U, OLD, 7), 0, b"e--");
    bed.data(1, (U, OLD, 8), 0, b"q--");
    assert_eq!(bed.carry(), []);
    assert_eq!(bed.count(1, ActorCount::CopySent), 3);
    assert_eq!(bed.count(2, ActorCount::CopyApplied), 3);
    // nothing of a copy leaves
    assert_eq!(bed.got(2), []);
    bed.tell(2, SWITCH, Message::Open(planned(U, (OLD, NEW), 8, 1)));
    bed.tell(1, SWITCH, closed(8));
    assert_eq!(bed.carry().last(), Some(&(2, held(U, NEW))));
    assert_eq!(bed.count(2, ActorCount::Reprocessed), 1);
    let all: [&[u8]; 8] = [
        b"c--", b"c--", b"c--", b"c--", b"q--", b"d--", b"e--", b"q--",
    ];
    assert_eq!(bed.state(2, U), Some(bed.reference(U, &all)));
    assert_eq!(bed.data(2, (U, NEW, 9), 0, b"c--"), [out(NEW, 9, 7)]);
    assert_eq!(bed.at(1).report().stored, 1);
    bed.end();
}

#[test]
fn the_end_of_the_copies_may_come_before_the_view_is_open() {
    let mut bed = begun();
    bed.data(1, (U, OLD, 4), 0, b"c--");
    bed.tell(1, SWITCH, closed(4));
    assert_eq!(bed.carry(), []);
    assert_eq!(bed.count(2, ActorCount::StateAhead), 1);
    bed.tell(2, SWITCH, Message::Open(planned(U, (OLD, NEW), 4, 1)));
    assert_eq!(bed.carry().last(), Some(&(2, held(U, NEW))));
    assert_eq!(bed.count(2, ActorCount::Reprocessed), 1);
    bed.end();
}

#[test]
fn outputs_go_along_with_the_last_copy() {
    let mut bed = begun();
    bed.data(1, (U, OLD, 4), 0, b"c--");
    let mut open = planned(U, (OLD, NEW), 4, 1);
    open.out = Clock(2);
    bed.tell(2, SWITCH, Message::Open(open));
    bed.tell(1, SWITCH, closed(4));
    let said = bed.carry();
    let entries = batch(said[0].1.clone());
    assert_eq!((entries.view, clocks(&entries)), (NEW, vec![3, 4]));
    bed.end();
}

#[test]
fn a_copy_that_is_missing_is_made_good_by_the_state() {
    let mut bed = begun();
    bed.data(1, (U, OLD, 4), 0, b"c--");
    let lost = bed.said(1);
    assert_eq!(lost.len(), 1);
    bed.data(1, (U, OLD, 5), 0, b"c--");
    assert_eq!(bed.carry(), []);
    assert_eq!(bed.count(2, ActorCount::CopiesLost), 1);
    assert_eq!(bed.state(2, U), None);
    bed.tell(2, SWITCH, Message::Open(planned(U, (OLD, NEW), 5, 1)));
    bed.tell(1, SWITCH, closed(5));
    assert_eq!(bed.carry().last(), Some(&(2, held(U, NEW))));
    assert_eq!(bed.count(2, ActorCount::PullSent), 1);
    assert_eq!(bed.count(2, ActorCount::StateInstalled), 1);
    let all = [&b"c--"[..]; 5];
    assert_eq!(bed.state(2, U), Some(bed.reference(U, &all)));
    bed.end();
}

#[test]
fn the_last_copy_missing_is_noticed_at_the_end() {
    let mut bed = begun();
    bed.data(1, (U, OLD, 4), 0, b"c--");
    let _ = bed.said(1);
    bed.tell(2, SWITCH, Message::Open(planned(U, (OLD, NEW), 4, 1)));
    bed.tell(1, SWITCH, closed(4));
    assert_eq!(bed.carry().last(), Some(&(2, held(U, NEW))));
    assert_eq!(bed.count(2, ActorCount::CopiesLost), 1);
    assert_eq!(bed.data(2, (U, NEW, 5), 0, b"c--"), [out(NEW, 5, 5)]);
    bed.end();
}

#[test]
fn a_flow_that_ends_at_the_source_ends_at_the_target() {
    let mut bed = begun();
    // times come from clocks, in milliseconds
    let late = 4 + 2 * u64::from(crate::bed::IDLE_MS);
    let mut tick = bed.frame((U, OLD, 4), frame_flags::TICK, b"");
    let memory = bed.pool.memory().clone();
    memory.meta_mut(&mut tick).time = bed.now.plus(late * crate::bed::MS);
    bed.burst(1, vec![tick]);
    assert_eq!((bed.state(1, U), bed.carry().len()), (None, 1));
    assert_eq!(bed.state(2, U), None);
    bed.tell(2, SWITCH, Message::Open(planned(U, (OLD, NEW), 4, 1)));
    bed.tell(1, SWITCH, closed(4));
    assert_eq!(bed.carry().last(), Some(&(2, held(U, NEW))));
    assert_eq!(bed.count(2, ActorCount::Reprocessed), 1);
    bed.end();
}

#[test]
fn a_move_that_never_comes_is_forgotten_by_both() {
    let mut bed = begun();
    bed.later(1_000);
    bed.tick(1);
    bed.tick(2);
    assert_eq!(bed.count(1, ActorCount::CopyingGivenUp), 1);
    assert_eq!(bed.count(2, ActorCount::EarlyGivenUp), 1);
    assert_eq!(bed.state(2, U), None);
    let _ = bed.said(1);
    assert_eq!(bed.data(1, (U, OLD, 4), 0, b"c--"), [out(OLD, 4, 4)]);
    assert_eq!(bed.said(1), []);
    bed.end();
}

#[test]
fn what_takes_ports_is_moved_in_one_step() {
    let mut bed = Bed::new(0);
    for id in [1, 2] {
        bed.add(id, Kind::default(), &stage_of::<Ports>(64));
    }
    bed.tell(1, SWITCH, crate::leases::grant(0));
    bed.data(1, (U, OLD, 1), FRESH, b"c--");
    let _ = bed.said(1);
    bed.tell(1, SWITCH, prepare());
    assert_eq!(bed.said_to(1, SWITCH), wanted(MoveMode::Push));
    assert_eq!(bed.count(1, ActorCount::CopyingImpossible), 1);
    bed.end();
}

#[test]
fn an_early_state_of_an_older_view_is_not_taken() {
    let mut bed = begun();
    let stale = Message::State {
        unit: U,
        old: view(1),
        new: View::NONE,
        image: weir_protocol::message::Image {
            clock: Clock(1),
            state: None,
            since: Clock(1),
            outputs: Vec::new(),
        },
    };
    bed.start(2, unit(9), view(8), 2);
    let other = match stale {
        Message::State {
            old, new, image, ..
        } => Message::State {
            unit: unit(9),
            old,
            new,
            image,
        },
        other => other,
    };
    let state = bed.state(2, unit(9));
    bed.tell(2, runtime(1), other);
    assert_eq!(bed.count(2, ActorCount::MessageStale), 1);
    assert_eq!(bed.state(2, unit(9)), state);
    bed.end();
}

/// At the end of a run the flows of a unit end where it is, and nowhere else.
#[test]
fn an_early_state_does_not_end_with_the_run() {
    let mut bed = begun();
    bed.finish(2);
    assert_eq!(bed.state(2, U), None);
    assert!(bed.state(1, U).is_some());
    bed.end();
}
