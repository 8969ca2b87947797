//! Tests of packet memory, pools and their shares.

use super::*;
use crate::{Time, no_advice};

fn tiny() -> MemoryLayout {
    MemoryLayout {
        small_frames: 4,
        small_bytes: 512,
        large_frames: 2,
        large_bytes: 4096,
    }
}

#[test]
fn frames_hold_what_was_written_and_do_not_overlap() {
    let mut pool = FramePool::with_layout(tiny());
    let memory = pool.memory().clone();
    let frames: Vec<Frame> = (0..6u8)
        .map(|i| {
            let bytes = vec![i; if i < 4 { 300 } else { 3_000 }];
            pool.copy(&bytes, FrameMeta::received(Time(u64::from(i)), 0))
                .unwrap()
        })
        .collect();
    assert_eq!(
        pool.copy(&[0; 10], FrameMeta::default()).err(),
        Some(NoFrame::Exhausted)
    );
    for (i, frame) in frames.iter().enumerate() {
        assert!(memory.bytes(frame).iter().all(|&b| b == i as u8));
        assert_eq!(memory.meta(frame).time, Time(i as u64));
    }
    assert_eq!(pool.outstanding(), 6);
    frames.into_iter().for_each(|frame| pool.give(frame));
    assert_eq!(pool.outstanding(), 0);
}

#[test]
fn a_packet_larger_than_every_frame_is_named() {
    let mut pool = FramePool::with_layout(tiny());
    let largest = tiny().largest_packet();
    assert_eq!(
        pool.copy(&vec![0; largest + 1], FrameMeta::default()).err(),
        Some(NoFrame::TooLarge)
    );
    let frame = pool.copy(&vec![7; largest], FrameMeta::default()).unwrap();
    assert_eq!(pool.memory().bytes(&frame).len(), largest);
    pool.give(frame);
}

#[test]
fn small_packets_take_large_frames_when_small_ones_run_out() {
    let mut pool = FramePool::with_layout(tiny());
    let frames: Vec<Frame> = (0..6).map(|_| pool.take(64).unwrap()).collect();
    assert_eq!(pool.take(64).err(), Some(NoFrame::Exhausted));
    frames.into_iter().for_each(|frame| pool.give(frame));
}

#[test]
#[should_panic(expected = "memory it came from")]
fn a_frame_of_another_memory_is_refused() {
    let mut one = FramePool::with_layout(tiny());
    let two = FramePool::with_layout(tiny());
    let frame = one.take(10).unwrap();
    two.memory().bytes(&frame);
}

#[test]
fn a_memory_gives_its_frames_out_once() {
    let memory = PacketMemory::new(tiny(), no_advice);
    assert!(FramePool::new(memory.clone()).is_some());
    assert!(FramePool::new(memory).is_none());
}

#[test]
fn frames_and_pools_move_between_threads() {
    fn is_send<T: Send>() {}
    is_send::<Frame>();
    is_send::<FramePool>();
}

#[test]
fn a_share_begins_with_frames_of_its_pool() {
    let mut pool = FramePool::with_layout(tiny());
    let held = pool.take(10).unwrap();
    let mut share = pool.share(2, 1);
    assert_eq!((share.available(), pool.available()), (3, 2));
    assert_eq!((share.outstanding(), pool.outstanding()), (0, 1));
    // There are no more than there are.
    let rest = pool.share(9, 9);
    assert_eq!((rest.available(), pool.available()), (2, 0));
    assert_eq!(pool.take(10).err(), Some(NoFrame::Exhausted));

    // Another pool may take back a frame.
    share.give(held);
    assert_eq!((share.surplus(), pool.surplus()), (1, -1));
    assert_eq!(FramePool::outstanding_of([&pool, &share, &rest]), 0);
    let frames: Vec<Frame> = (0..4).map(|_| share.take(10).unwrap()).collect();
    assert_eq!(FramePool::outstanding_of([&pool, &share, &rest]), 4);
    frames.into_iter().for_each(|frame| pool.give(frame));
    assert_eq!((share.outstanding(), pool.outstanding()), (3, 0));

    pool.join(share);
    pool.join(rest);
    assert_eq!((pool.available(), pool.outstanding()), (6, 0));
    assert_eq!(pool.surplus(), 0);
}

#[test]
fn spare_frames_go_to_a_pool_that_has_fewer() {
    let mut pool = FramePool::with_layout(tiny());
    let mut share = pool.share(3, 1);
    let mut spare = Vec::new();
    share.take_spare(2, &mut spare);
    assert_eq!((spare.len(), share.surplus()), (2, -2));
    assert_eq!(FramePool::outstanding_of([&pool, &share]), 2);
    pool.give_all(&mut spare);
    assert_eq!((pool.surplus(), share.surplus()), (2, -2));
    assert_eq!(FramePool::outstanding_of([&pool, &share]), 0);
    // Large ones stay.
    share.take_spare(9, &mut spare);
    assert_eq!((spare.len(), share.available()), (1, 1));
    pool.give_all(&mut spare);
    pool.join(share);
    assert_eq!(pool.outstanding(), 0);
}

#[test]
fn a_share_is_scarce_by_what_it_began_with() {
    let mut pool = FramePool::with_layout(MemoryLayout {
        small_frames: 20,
        ..tiny()
    });
    let mut share = pool.share(4, 0);
    let first = share.take(10).unwrap();
    assert!(!share.is_scarce(&first));
    let more = [share.take(10).unwrap(), share.take(10).unwrap()];
    assert!(share.is_scarce(&first));
    assert!(!pool.is_scarce(&first));
    more.into_iter().chain([first]).for_each(|f| share.give(f));
}

#[test]
fn frames_in_a_ports_rings_are_not_missed() {
    let mut pool = FramePool::with_layout(MemoryLayout {
        small_frames: 20,
        ..tiny()
    });
    pool.set_aside(14);
    let rings: Vec<Frame> = (0..14).map(|_| pool.take(10).unwrap()).collect();
    let waits = [0; 3].map(|_| pool.take(10).unwrap());
    assert!(!pool.is_scarce(&waits[0]) && !pool.is_low(&waits[0]));
    let more = pool.take(10).unwrap();
    assert!(
        pool.is_scarce(&more),
        "less than half of what is not in rings"
    );
    rings.into_iter().chain(waits).for_each(|f| pool.give(f));
    pool.set_aside(-14);
    assert!(!pool.is_scarce(&more));
    pool.give(more);
}

#[test]
#[should_panic(expected = "its own memory")]
fn a_share_of_another_memory_is_refused() {
    let mut one = FramePool::with_layout(tiny());
    one.join(FramePool::with_layout(tiny()));
}

#[test]
fn two_threads_pass_frames_and_send_spare_ones_back() {
    use std::sync::mpsc::sync_channel;

    const ROUNDS: usize = if cfg!(miri) { 30 } else { 3_000 };
    let mut pool = FramePool::with_layout(MemoryLayout {
        small_frames: 16,
        ..tiny()
    });
    let mut share = pool.share(8, 1);
    let (to_sink, packets) = sync_channel::<Frame>(4);
    let (to_source, spare) = sync_channel::<Vec<Frame>>(16);
    let sink = std::thread::spawn(move || {
        let memory = share.memory().clone();
        let mut sum = 0;
        for mut frame in packets {
            sum += u64::from(memory.bytes(&frame)[0]) + memory.meta(&frame).sequence;
            memory.split_mut(&mut frame).1.fill(0xff);
            share.give(frame);
            let surplus = share.surplus();
            if surplus >= 4 {
                let mut batch = Vec::with_capacity(4);
                share.take_spare(4, &mut batch);
                to_source.send(batch).unwrap();
            }
        }
        (share, sum)
    });
    let mut sum = 0;
    for round in 0..ROUNDS {
        while let Ok(mut batch) = spare.try_recv() {
            pool.give_all(&mut batch);
        }
        while pool.available() == 0 {
            pool.give_all(&mut spare.recv().unwrap());
        }
        let meta = FrameMeta {
            sequence: round as u64,
            ..FrameMeta::received(Time(0), 0)
        };
        let frame = pool.copy(&[round as u8; 100], meta).unwrap();
        assert_eq!(pool.memory().bytes(&frame), [round as u8; 100]);
        sum += u64::from(round as u8) + round as u64;
        to_sink.send(frame).unwrap();
    }
    drop(to_sink);
    let (share, received) = sink.join().unwrap();
    assert_eq!(received, sum);
    for mut batch in spare {
        pool.give_all(&mut batch);
    }
    assert_eq!(FramePool::outstanding_of([&pool, &share]), 0);
    pool.join(share);
    assert_eq!((pool.outstanding(), pool.surplus()), (0, 0));
}

#[test]
fn frames_have_numbers_and_marks_of_their_own() {
    let mut pool = FramePool::with_layout(tiny());
    let memory = pool.memory().clone();
    let frames: Vec<Frame> = [10, 10, 10, 10, 2_000, 2_000]
        .map(|len| pool.take(len).unwrap())
        .into();
    let numbers: Vec<u32> = frames.iter().map(|frame| memory.number(frame)).collect();
    assert_eq!(numbers, [0, 1, 2, 3, 4, 5]);

    let marks = memory.marks();
    let mut origins = Vec::new();
    for number in numbers {
        let origin = marks.expect(number, 0b101);
        assert_eq!(origin.number(), number);
        marks.mark(origin, 2);
        assert_eq!(marks.of(number).missing(), 1);
        marks.mark(origin, 0);
        marks.mark(origin, 15);
        let state = marks.of(number);
        assert_eq!((state.expected, state.marked), (0b101, 0x8005));
        assert_eq!(state.missing(), 0);
        marks.set_origin(5 - number, Some(origin));
        origins.push(origin);
    }
    marks.reset(3);
    assert_eq!(marks.of(3), crate::MarkState::default());
    assert_eq!(marks.of(4).expected, 5);
    assert_eq!(marks.origin(1), Some(origins[4]));
    marks.set_origin(1, None);
    assert_eq!((marks.origin(1), marks.origin(5)), (None, Some(origins[0])));
    frames.into_iter().for_each(|frame| pool.give(frame));
}

#[test]
fn a_mark_of_an_earlier_round_is_none() {
    let pool = FramePool::with_layout(tiny());
    let marks = pool.memory().marks();
    let first = marks.expect(2, 0b11);
    marks.mark(first, 0);
    assert!(marks.is_current(first));
    // Its packet was dropped, and the frame is branched with another.
    let second = marks.expect(2, 0b11);
    assert_eq!(marks.of(2).marked, 0);
    marks.mark(first, 1);
    assert_eq!(marks.of(2).missing(), 0b11);
    assert!(!marks.is_current(first) && marks.is_current(second));
    marks.mark(second, 1);
    assert_eq!(marks.of(2).missing(), 0b01);
    marks.reset(2);
    marks.mark(second, 0);
    assert_eq!(marks.of(2), crate::MarkState::default());
    // There is no such frame.
    let none = marks.expect(6, 1);
    marks.mark(none, 1);
    assert!(!marks.is_current(none));
    assert_eq!(marks.of(6), crate::MarkState::default());
}

#[test]
#[should_panic(expected = "memory it came from")]
fn a_frame_of_another_memory_has_no_number() {
    let mut one = FramePool::with_layout(tiny());
    let two = FramePool::with_layout(tiny());
    let frame = one.take(10).unwrap();
    two.memory().number(&frame);
}

#[test]
fn the_reserve_brings_frames_from_one_thread_to_another() {
    let layout = MemoryLayout {
        small_frames: 1_000,
        ..tiny()
    };
    let rounds = if cfg!(miri) { 50 } else { 3_000 };
    let mut pool = FramePool::with_layout(layout);
    let memory = pool.memory().clone();
    // Two only take and give away marked frames, two only need frames.
    let mut threads = Vec::new();
    for worker in 0..4u64 {
        let mut share = pool.share(200, 0);
        threads.push(std::thread::spawn(move || {
            let mut took = 0;
            for round in 0..rounds {
                if worker < 2 {
                    let count = 1 + (round % 64) as usize;
                    while share.available() < count {
                        if share.from_reserve() == 0 {
                            std::thread::yield_now();
                            break;
                        }
                    }
                    share.to_reserve(count);
                } else {
                    took += share.from_reserve();
                    let mut out = Vec::new();
                    while let Ok(mut frame) = share.take(1) {
                        let (meta, _) = share.memory().split_mut(&mut frame);
                        meta.sequence = worker;
                        out.push(frame);
                    }
                    for frame in &out {
                        assert_eq!(share.memory().meta(frame).sequence, worker);
                    }
                    share.give_all(&mut out);
                    share.to_reserve(50);
                }
            }
            (share, took)
        }));
    }
    let mut took = 0;
    for thread in threads {
        let (share, more) = thread.join().unwrap();
        pool.join(share);
        took += more;
    }
    assert!(took > 0);
    while pool.from_reserve() > 0 {}
    assert_eq!((memory.in_reserve(), pool.outstanding()), (0, 0));
    let mut all: Vec<usize> = pool.small.iter().map(Frame::offset).collect();
    all.sort_unstable();
    all.dedup();
    assert_eq!(all.len(), 1_000, "each frame is there once");
}

#[test]
fn the_ledger_names_who_leaked_and_who_gave_twice() {
    let mut pool = FramePool::new(PacketMemory::checked(tiny(), no_advice)).unwrap();
    let memory = pool.memory().clone();
    pool.set_holder(1);
    let [mut a, mut b] = [3, 4].map(|holder| {
        let mut share = pool.share(1, 0);
        share.set_holder(holder);
        share
    });
    let frame = a.take(1).unwrap();
    let leaked = b.take(1).unwrap();
    let large = pool.take(3_000).unwrap();
    assert_eq!(memory.held(), [(1, 1), (3, 1), (4, 1)]);
    memory.hold([&large], 9);
    assert_eq!(memory.held(), [(3, 1), (4, 1), (9, 1)]);
    // A second descriptor, which safe code can't make.
    let twice = Frame {
        line: frame.line,
        memory: frame.memory,
    };
    b.give(frame);
    a.give(twice);
    assert_eq!(memory.doubled(), (1, vec![(4, 3)]));
    assert_eq!((a.available(), b.available()), (0, 1), "it is in one pool");
    pool.give(large);
    let Frame { .. } = leaked;
    assert_eq!(memory.held(), [(4, 1)]);
    let plain = FramePool::with_layout(tiny());
    assert_eq!(
        (plain.memory().held(), plain.memory().doubled().0),
        (vec![], 0)
    );
}
