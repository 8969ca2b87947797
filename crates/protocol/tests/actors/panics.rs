//! What is left of a runtime whose function has panicked.

use std::panic::{AssertUnwindSafe, catch_unwind};

use weir_nf::RuntimeId;
use weir_packet::Frame;
use weir_protocol::UnitId;
use weir_protocol::message::Message;

use crate::bed::{Bed, FRESH, Kind, REPEATED, SWITCH, unit, view};

/// A burst of packets that emit, in which the function panics at `at`; then, with
/// `is_odd`, a repeated packet that has the run before it applied at once.
fn no_frame_is_lost(at: u64, is_odd: bool, forget_outputs: bool) {
    let mut bed = Bed::of(
        1,
        Kind {
            forget_outputs,
            ..Kind::default()
        },
    );
    let (unit, view) = (unit(2), view(1));
    let mut frames = Vec::new();
    for clock in 1..=150 {
        let payload: &[u8] = if clock == at { b"p--" } else { b"e--" };
        frames.push(bed.frame((unit, view, clock), FRESH, payload));
        if is_odd && clock == at + 1 {
            frames.push(bed.frame((unit, view, 1), REPEATED, b"e--"));
        }
    }
    panics_and_loses_nothing(bed, frames);
}

fn panics_and_loses_nothing(mut bed: Bed, mut frames: Vec<Frame>) {
    let now = bed.now;
    let actors = bed.actors.get_mut(&1).expect("the runtime is on the bed");
    let burst = || actors.frames(now, &mut bed.pool, &mut frames);
    let end = catch_unwind(AssertUnwindSafe(burst));
    assert!(end.is_err());
    actors.give_back(&mut bed.pool);
    bed.pool.give_all(&mut frames);
    assert_eq!(bed.pool.outstanding(), 0, "frames leaked");
}

#[test]
fn a_panic_takes_no_frame_with_it() {
    for at in [1, 20, 31, 100, 149] {
        for is_odd in [false, true] {
            no_frame_is_lost(at, is_odd, false);
            no_frame_is_lost(at, is_odd, true);
        }
    }
}

/// The first packet of a unit comes into a place that another one had: what came before it
/// is applied first.
#[test]
fn nor_does_one_before_the_first_packet_of_a_unit() {
    let mut bed = Bed::new(1);
    bed.start(1, unit(2), view(1), 3);
    let next = UnitId(2 << 32 | 2);
    let frames = vec![
        bed.frame((unit(5), view(2), 1), FRESH, b"p--"),
        bed.frame((next, view(3), 1), FRESH, b"c--"),
        bed.frame((next, view(3), 2), FRESH, b"c--"),
    ];
    panics_and_loses_nothing(bed, frames);
}

/// A packet of a unit that moves by reprocessing is applied alone.
#[test]
fn nor_does_one_before_a_packet_that_is_copied() {
    let mut bed = Bed::new(2);
    bed.start(1, unit(7), view(3), 3);
    let prepare = Message::Prepare {
        unit: unit(7),
        view: view(3),
        to: RuntimeId(2),
    };
    bed.tell(1, SWITCH, prepare);
    bed.carry();
    let frames = vec![
        bed.frame((unit(5), view(2), 1), FRESH, b"p--"),
        bed.frame((unit(7), view(3), 4), 0, b"c--"),
        bed.frame((unit(7), view(3), 5), 0, b"c--"),
    ];
    panics_and_loses_nothing(bed, frames);
}
