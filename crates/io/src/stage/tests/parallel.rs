//! Branch, marker and sync.

use std::sync::{Arc, Mutex};

use weir_packet::{FrameKind, ParseOptions};

use super::world::{Stage, Traffic, Work, World, udp};
use super::*;

pub(super) const EXIT: u8 = 9;

pub(super) fn settings(places: usize) -> ParallelSettings {
    let payload = Regions {
        payload: true,
        ..Regions::NONE
    };
    ParallelSettings {
        places,
        group: 1..=3,
        further: vec![
            FurtherBranch {
                entry: 2,
                writes: payload,
            },
            FurtherBranch {
                entry: 3,
                writes: Regions::NONE,
            },
        ],
        exit: Some(EXIT),
        parse: ParseOptions::default(),
    }
}

/// Counts the time to live of packets for this branch down.
pub(super) fn first_branch() -> Work {
    Box::new(|memory, frames, _| {
        for frame in frames {
            if memory.meta(frame).kind == FrameKind::Packet && memory.meta(frame).next == 1 {
                let (meta, room) = memory.split_mut(frame);
                room[usize::from(meta.start) + 8] -= 1;
                meta.next = 2;
            }
        }
    })
}

/// Turns the bits of the payload's end.
pub(super) fn writing_branch() -> Work {
    Box::new(|memory, frames, _| {
        for frame in frames {
            if memory.meta(frame).kind == FrameKind::Packet {
                assert_eq!(memory.meta(frame).next, 2);
                let (meta, room) = memory.split_mut(frame);
                let start = usize::from(meta.start);
                let bytes = &mut room[start..start + meta.len as usize];
                bytes[36..].iter_mut().for_each(|byte| *byte = !*byte);
                // Not declared, and so not taken over.
                bytes[8] = 1;
            } else {
                assert_eq!(memory.meta(frame).kind, FrameKind::NoticeCopy);
            }
        }
    })
}

/// Notes what it sees.
pub(super) fn reading_branch(seen: &Arc<Mutex<Vec<(u64, FrameKind)>>>) -> Work {
    let seen = Arc::clone(seen);
    Box::new(move |memory, frames, _| {
        let mut seen = seen.lock().expect("one thread");
        for frame in frames.iter() {
            let (meta, bytes) = memory.read(frame);
            assert_eq!(bytes, udp(meta.sequence, bytes.len() - 28));
            seen.push((meta.sequence, meta.kind));
        }
    })
}

/// The packet as it has to come out.
pub(super) fn expected(sequence: u64, len: usize, branched: bool, written: bool) -> Vec<u8> {
    let mut bytes = udp(sequence, len - 28);
    if branched {
        bytes[8] -= 1;
    }
    if written {
        bytes[36..].iter_mut().for_each(|byte| *byte = !*byte);
    }
    bytes
}

#[test]
fn packets_go_on_in_order_when_all_have_marked_them() {
    for seed in 0..if cfg!(miri) { 3 } else { 300 } {
        let mut choices = Choices(seed);
        let places = 1 + choices.below(6);
        let mut pool = pool(12 + choices.below(30) as u32);
        let share = pool.share(2 + choices.below(6) as u32, 2);
        let ports = parallel(&settings(places), share).expect("ports");
        let seen = Arc::default();
        let mut work = vec![reading_branch(&seen), writing_branch(), first_branch()];
        let queues = ports.queues.into_iter();
        let stages = queues
            .map(|queue| Stage::of(queue, work.pop().expect("three")))
            .collect();
        let mut world = World::new(
            seed,
            pool,
            Traffic {
                long: 20 * (seed as usize % 2),
                ..Traffic::of(400)
            },
            Box::new(ports.branch),
            stages,
            Box::new(ports.sync),
        );
        world.run();
        check(&world.entered, &world.left, &seen.lock().expect("over"));
        assert_eq!(world.missing(), 0, "seed {seed}");
    }
}

/// All that went in came out, in order, with what the branches wrote.
pub(super) fn check(
    entered: &[(weir_packet::Place, FrameKind, u8)],
    left: &[(FrameMeta, Vec<u8>)],
    seen: &[(u64, FrameKind)],
) {
    assert_eq!(left.len(), entered.len());
    let mut seen = seen.iter();
    for (sequence, ((meta, bytes), (place, kind, next))) in left.iter().zip(entered).enumerate() {
        let branched = *kind == FrameKind::Packet && *next == 1;
        assert_eq!(meta.sequence, sequence as u64);
        assert_eq!((meta.place(), meta.kind), (*place, *kind));
        assert_eq!(meta.next, if branched { EXIT } else { *next });
        let bytes_expected = expected(meta.sequence, bytes.len(), branched, branched);
        assert_eq!(*bytes, bytes_expected, "{sequence}");
        let copied = match kind {
            FrameKind::Notice => Some(FrameKind::NoticeCopy),
            _ => branched.then_some(FrameKind::Packet),
        };
        if let Some(kind) = copied {
            assert_eq!(seen.next(), Some(&(meta.sequence, kind)));
        }
    }
    assert_eq!(seen.next(), None);
}

/// Three frames through a step whose second branch does something it may not.
fn through(work: Work, frames: u64) -> (Sync, FramePool, Vec<Frame>) {
    let mut pool = pool(64);
    let share = pool.share(40, 2);
    let ports = parallel(&settings(32), share).expect("ports");
    let mut upstream = ports.branch;
    let mut sync = ports.sync;
    let mut work = vec![reading_branch(&Arc::default()), work, first_branch()];
    let mut stages: Vec<Stage> = (ports.queues.into_iter())
        .map(|queue| Stage::of(queue, work.pop().expect("three")))
        .collect();
    let mut frames: Vec<Frame> = (0..frames)
        .map(|sequence| {
            let mut meta = FrameMeta::default();
            meta.sequence = sequence;
            meta.next = 1;
            meta.link = weir_packet::LinkType::RawIp;
            pool.copy(&udp(sequence, 40), meta).expect("a frame")
        })
        .collect();
    upstream.give(&mut frames);
    assert_eq!(upstream.counts().branched, 3);
    assert_eq!(upstream.counts().copied_bytes, 6 * 68);
    for stage in &mut stages {
        stage.step(&mut pool, 64);
        stage.step(&mut pool, 64);
    }
    sync.take(&mut frames, 64);
    drop(stages);
    sync.take(&mut frames, 64);
    let lender = Box::new(upstream).close().expect("it lends");
    sync.take(&mut frames, 64);
    pool.join(lender.into_pool());
    (sync, pool, frames)
}

#[test]
fn a_change_of_length_is_refused_and_counted() {
    let work: Work = Box::new(|memory, frames, _| {
        let meta = memory.meta_mut(&mut frames[1]);
        meta.len -= 4;
        // Another header length moves what is behind it.
        let (meta, room) = memory.split_mut(&mut frames[2]);
        room[usize::from(meta.start)] = 0x46;
    });
    let (sync, mut pool, mut frames) = through(work, 3);
    let counts = sync.counts();
    assert_eq!((counts.length_changed, counts.joined), (2, 3));
    for (sequence, frame) in frames.iter().enumerate() {
        let bytes = pool.memory().bytes(frame);
        assert_eq!(bytes, expected(sequence as u64, 68, true, false));
    }
    pool.give_all(&mut frames);
    assert_eq!(pool.outstanding(), 0);
}

#[test]
fn a_copy_that_a_branch_dropped_holds_nothing_up() {
    let work: Work = Box::new(|memory, frames, bin| {
        let dropped = frames.remove(0);
        memory.marks().set_origin(memory.number(&dropped), None);
        bin.push(dropped);
    });
    let (sync, mut pool, mut frames) = through(work, 3);
    let counts = sync.counts();
    assert_eq!((counts.branch_dropped, counts.branch_lost), (1, 0));
    assert_eq!((counts.joined, counts.stray), (3, 0));
    assert_eq!(numbers(&mut pool, &mut frames), [0, 1, 2]);
    assert_eq!(pool.outstanding(), 0);
}

#[test]
fn a_mark_for_a_packet_that_the_first_branch_dropped_is_not_the_next_ones() {
    let mut pool = pool(8);
    let share = pool.share(6, 2);
    let ports = parallel(&settings(4), share).expect("ports");
    let (mut upstream, mut sync) = (ports.branch, ports.sync);
    let mut queues = ports.queues;
    let memory = pool.memory().clone();
    let mut send = |pool: &mut FramePool, sequence: u64| {
        let mut meta = FrameMeta::default();
        meta.sequence = sequence;
        meta.next = 1;
        meta.link = weir_packet::LinkType::RawIp;
        let frame = pool.copy(&udp(sequence, 40), meta).expect("a frame");
        let number = memory.number(&frame);
        assert_eq!(upstream.give(&mut vec![frame]), 1);
        number
    };
    let mut burst = Vec::new();
    // The first branch drops a packet that no other has come to yet.
    let dropped = send(&mut pool, 0);
    queues[0].input.take(&mut burst, 9);
    pool.give_all(&mut burst);
    // Its frame is branched with the next one.
    assert_eq!(send(&mut pool, 1), dropped);
    assert_eq!(memory.marks().of(dropped).marked, 0);
    queues[0].input.take(&mut burst, 9);
    queues[0].output.give(&mut burst);
    // The others come to the copies of the first: those marks are late.
    let (mut write, mut bin) = (writing_branch(), Vec::new());
    for queue in [1, 2] {
        queues[queue].input.take(&mut burst, 1);
        if queue == 1 {
            write(&memory, &mut burst, &mut bin);
        }
        queues[queue].output.give(&mut burst);
        assert_eq!(memory.marks().of(dropped).marked, 0);
        assert_eq!(sync.take(&mut burst, 9), 0);
    }
    for queue in [1, 2] {
        assert_eq!(sync.take(&mut burst, 9), 0);
        queues[queue].input.take(&mut burst, 9);
        if queue == 1 {
            write(&memory, &mut burst, &mut bin);
        }
        queues[queue].output.give(&mut burst);
    }
    assert_eq!(sync.take(&mut burst, 9), 1);
    // The part that was taken over is the packet's own.
    let mut whole = expected(1, 68, true, true);
    whole[8] += 1;
    assert_eq!(memory.bytes(&burst[0]), whole);
    let counts = sync.counts();
    assert_eq!((counts.joined, counts.stray), (1, 1));
    assert_eq!((counts.branch_dropped, counts.branch_lost), (0, 0));
    assert_eq!(numbers(&mut pool, &mut burst), [1]);
    pool.join(Box::new(upstream).close().expect("it lends").into_pool());
    assert_eq!(pool.outstanding(), 0);
}

#[test]
fn what_a_branch_makes_itself_goes_home_and_is_counted() {
    let mut pool = pool(8);
    let mut lender = Lender::new(pool.share(4, 2));
    let (to, _sync) = point(4);
    let memory = pool.memory().clone();
    let mut marker = Marker::new(memory, 0, true, Box::new(to), lender.return_path());
    let mut frames = vec![packet(&mut pool, 1)];
    assert_eq!(marker.give(&mut frames), 1);
    assert_eq!(marker.counts().foreign, 1);
    pool.join(lender.into_pool());
    assert_eq!(pool.outstanding(), 0);
}

#[test]
fn a_step_that_could_never_go_on_is_refused() {
    let refused = |further: usize, small: u32, large: u32| {
        let branch = FurtherBranch {
            entry: 2,
            writes: Regions::NONE,
        };
        let settings = ParallelSettings {
            further: vec![branch; further],
            ..settings(4)
        };
        parallel(&settings, pool(64).share(small, large)).err()
    };
    assert_eq!(refused(2, 2, 2), None);
    assert_eq!(refused(0, 2, 2), Some(StageError::TooFew));
    assert_eq!(
        refused(17, 40, 4),
        Some(StageError::TooManyBranches { branches: 17 })
    );
    for (small, large) in [(1, 2), (2, 1), (0, 2), (2, 0)] {
        let needed = Some(StageError::PoolTooSmall { needed: 2 });
        assert_eq!(refused(2, small, large), needed, "{small} {large}");
    }
}
