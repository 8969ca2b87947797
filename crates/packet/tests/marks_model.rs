//! The marks of frames, and the reserve of free ones, under all orders of their threads' steps that the
//! memory model allows: `RUSTFLAGS="--cfg loom" cargo test -p weir-packet
//! --release --test marks_model`.

#![allow(unexpected_cfgs)]
#![cfg(loom)]

mod atomic {
    pub(crate) use loom::sync::atomic::{AtomicU32, AtomicU64, Ordering};
}
#[allow(dead_code, unreachable_pub)]
#[path = "../src/marks.rs"]
mod marks;
#[allow(dead_code, unreachable_pub)]
#[path = "../src/reserve.rs"]
mod reserve;

use loom::sync::Arc;
use loom::sync::atomic::{AtomicU32, Ordering::Relaxed};
use loom::thread;

use marks::Marks;

/// What branches wrote into their copies: nothing but the marks orders it.
fn copies() -> Arc<[AtomicU32; 2]> {
    Arc::new([AtomicU32::new(0), AtomicU32::new(0)])
}

#[test]
fn who_sees_all_marks_sees_what_all_branches_wrote() {
    loom::model(|| {
        let (marks, copies) = (Arc::new(Marks::new(1)), copies());
        let origin = marks.expect(0, 0b11);
        for branch in 0..2u8 {
            let (marks, copies) = (marks.clone(), copies.clone());
            thread::spawn(move || {
                copies[usize::from(branch)].store(7, Relaxed);
                marks.mark(origin, branch);
            });
        }
        let state = loop {
            let state = marks.of(0);
            if state.missing() == 0 {
                break state;
            }
            // What one branch wrote is there, whatever the other does.
            for branch in 0..2 {
                if state.marked & (1 << branch) != 0 {
                    assert_eq!(copies[branch].load(Relaxed), 7);
                }
            }
            thread::yield_now();
        };
        assert_eq!(state.marked, 0b11);
        for copy in copies.iter() {
            assert_eq!(copy.load(Relaxed), 7);
        }
        // No mark comes any more: the next use begins anew.
        marks.reset(0);
        assert_eq!(marks.of(0).marked, 0);
    });
}

#[test]
fn a_later_mark_tells_that_the_earlier_ones_are_made() {
    loom::model(|| {
        let marks = Arc::new(Marks::new(2));
        let first = marks.expect(0, 1);
        let second = marks.expect(1, 1);
        let branch = {
            let marks = marks.clone();
            thread::spawn(move || {
                marks.mark(first, 0);
                marks.mark(second, 0);
            })
        };
        // As the sync port looks: at the later one, then again at the first.
        if marks.of(1).missing() == 0 {
            assert_eq!(marks.of(0).missing(), 0);
        }
        branch.join().unwrap();
    });
}

/// Two take and push back batches at the same time: each frame is in one place.
#[test]
fn a_frame_of_the_reserve_is_taken_once() {
    loom::model(|| {
        let reserve = Arc::new(reserve::Reserve::new(3));
        reserve.push([0, 1]);
        reserve.push([2]);
        let other = {
            let reserve = reserve.clone();
            thread::spawn(move || {
                let mut mine = Vec::new();
                reserve.pop(|number| mine.push(number));
                // Back in another order, as batches are mixed in a pool.
                if let Some(last) = mine.pop() {
                    reserve.push([last]);
                }
                mine
            })
        };
        let mut mine = Vec::new();
        reserve.pop(|number| mine.push(number));
        let mut all = other.join().unwrap();
        all.append(&mut mine);
        while reserve.pop(|number| all.push(number)) {}
        all.sort_unstable();
        assert_eq!(all, [0, 1, 2]);
        assert_eq!(reserve.count(), 0);
    });
}
