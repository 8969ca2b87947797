//! What is left of a runtime whose function has panicked.

use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::bed::{Bed, FRESH, Kind, REPEATED, unit, view};

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
