//! Point to point.

use super::*;
use crate::Idle;

#[test]
fn what_has_no_room_stays_and_is_counted_once() {
    let mut pool = pool(16);
    let (mut output, mut input) = point(3);
    let mut frames: Vec<Frame> = (0..5).map(|n| packet(&mut pool, n)).collect();
    assert_eq!((output.room(), output.give(&mut frames)), (3, 3));
    assert_eq!((output.give(&mut frames), frames.len()), (0, 2));
    let refused = output.refused();
    assert_eq!((refused.bursts, refused.frames), (1, 2));
    assert_eq!(input.waiting(), 3);

    let mut got = Vec::new();
    assert_eq!(input.take(&mut got, 2), 2);
    assert_eq!((output.give(&mut frames), frames.len()), (2, 0));
    drop(output);
    assert!(!input.is_over());
    assert_eq!(input.take(&mut got, 9), 3);
    assert!(input.is_over());
    assert_eq!(numbers(&mut pool, &mut got), [0, 1, 2, 3, 4]);
    assert_eq!(pool.outstanding(), 0);
}

#[test]
fn nothing_is_given_to_a_thread_that_is_gone() {
    let mut pool = pool(16);
    let (mut output, input) = point(8);
    drop(input);
    let mut frames = vec![packet(&mut pool, 0)];
    assert!(output.is_gone());
    assert_eq!((output.room(), output.give(&mut frames)), (0, 0));
    pool.give_all(&mut frames);
    assert_eq!(pool.outstanding(), 0);
    assert!(Box::new(output).close().is_none());
}

#[test]
fn two_threads_over_a_ring_of_one_place_and_of_many() {
    for places in [1, 2, 64] {
        let packets: u64 = if cfg!(miri) { 200 } else { 30_000 };
        let mut pool = pool(64);
        let share = pool.share(32, 0);
        let (mut output, mut input) = point(places);
        let (mut back, mut home) = point(64);
        let reader = std::thread::spawn(move || {
            let (mut frames, mut next) = (Vec::new(), 0);
            let mut idle = Idle::default();
            while !input.is_over() || !frames.is_empty() {
                let taken = input.take(&mut frames, 7);
                for frame in frames.iter().rev().take(taken).rev() {
                    assert_eq!(share.memory().meta(frame).sequence, next);
                    assert_eq!(share.memory().bytes(frame), next.to_be_bytes());
                    next += 1;
                }
                let returned = back.give(&mut frames);
                idle.after(taken + returned > 0);
            }
            (next, share)
        });
        let (mut frames, mut sent) = (Vec::new(), 0);
        let mut idle = Idle::default();
        while sent < packets || !frames.is_empty() {
            let mut came = Vec::new();
            home.take(&mut came, 64);
            pool.give_all(&mut came);
            while frames.len() < 5 && sent < packets && pool.available() > 0 {
                frames.push(packet(&mut pool, sent));
                sent += 1;
            }
            idle.after(output.give(&mut frames) > 0);
        }
        drop(output);
        let mut came = Vec::new();
        while !home.is_over() {
            home.take(&mut came, 64);
            pool.give_all(&mut came);
        }
        let (received, share) = reader.join().expect("the reader ends");
        assert_eq!(received, packets);
        pool.join(share);
        assert_eq!(pool.outstanding(), 0);
    }
}
