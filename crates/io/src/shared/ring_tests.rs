//! Tests of rings between processes; the processes are threads with views of
//! their own.

use std::os::fd::AsFd as _;
use std::sync::atomic::Ordering::Relaxed;

use proptest::prelude::*;
use weir_packet::{FrameMeta, FramePool, MemoryLayout};

use super::super::{SharedMapping, attach_memory, packet_memory, reclaim, spsc};
use super::*;

const LAYOUT: MemoryLayout = MemoryLayout {
    small_frames: 256,
    small_bytes: 5 * 64,
    large_frames: 2,
    large_bytes: 9 * 64,
};

struct Two {
    pool: FramePool,
    other: FramePool,
    there: SharedMapping,
    back: SharedMapping,
    member: MemberId,
    waker: Waker,
}

fn ring(places: u32) -> SharedMapping {
    SharedMapping::create("ring", spsc::words_for(places) * 4).unwrap()
}

fn words(ring: &SharedMapping, places: u32) -> Words {
    ring.words(0, spsc::words_for(places)).unwrap()
}

const PLACES: u32 = 64;

impl Two {
    fn new() -> Two {
        let made = packet_memory(LAYOUT).unwrap();
        let member = MemberId::new(1).unwrap();
        let file = made.file().as_fd().try_clone_to_owned().unwrap();
        let other = attach_memory(file, LAYOUT, member).unwrap();
        Two {
            pool: FramePool::new(made.memory).unwrap(),
            other: FramePool::empty(other),
            there: ring(PLACES),
            back: ring(PLACES),
            member,
            waker: Waker::new().unwrap(),
        }
    }

    fn output(&self) -> RingOutput {
        output(
            words(&self.there, PLACES),
            self.pool.memory(),
            self.waker.clone(),
        )
        .unwrap()
    }

    fn input(&self) -> RingInput {
        input(
            words(&self.there, PLACES),
            self.other.memory(),
            MemberId::MAIN,
        )
        .unwrap()
    }
}

#[test]
fn frames_go_round_and_none_is_lost_or_doubled() {
    let Two {
        mut pool,
        other,
        there,
        back,
        member,
        waker,
    } = Two::new();
    const COUNT: u32 = 40_000;
    let mut to = output(words(&there, PLACES), pool.memory(), waker.clone()).unwrap();
    let peer = {
        let home = Waker::new().unwrap();
        let mut from = input(words(&there, PLACES), other.memory(), MemberId::MAIN).unwrap();
        let mut to = output(words(&back, PLACES), other.memory(), home.clone()).unwrap();
        std::thread::spawn(move || {
            let (mut frames, mut naps) = (Vec::new(), 0);
            loop {
                let over = from.is_over();
                from.take(&mut frames, 32);
                if frames.is_empty() {
                    if over {
                        return naps;
                    }
                    naps += 1;
                    // Without a time-out, nearly: a lost wake-up would show.
                    waker.sleep(&mut from, &[], Duration::from_secs(60));
                }
                for frame in &mut frames {
                    other.memory().meta_mut(frame).clock += 1;
                }
                while !frames.is_empty() {
                    if to.give(&mut frames) == 0 {
                        std::thread::yield_now();
                    }
                }
            }
        })
    };
    let mut from = input(words(&back, PLACES), pool.memory(), member).unwrap();
    let (mut frames, mut home, mut sent, mut came) = (Vec::new(), Vec::new(), 0u32, 0u32);
    while came < COUNT {
        while frames.len() < 32 && sent < COUNT {
            let mut meta = FrameMeta::default();
            meta.sequence = u64::from(sent);
            let Ok(frame) = pool.copy(&sent.to_le_bytes(), meta) else {
                break;
            };
            frames.push(frame);
            sent += 1;
        }
        to.give(&mut frames);
        from.take(&mut home, 32);
        for frame in home.drain(..) {
            let (meta, bytes) = pool.memory().read(&frame);
            assert_eq!((meta.sequence, meta.clock), (u64::from(came), 1));
            assert_eq!(bytes, came.to_le_bytes());
            came += 1;
            pool.give(frame);
        }
        if came.is_multiple_of(1_000) {
            // Let the other fall asleep.
            std::thread::sleep(Duration::from_micros(200));
        }
    }
    drop(to);
    let naps = peer.join().unwrap();
    assert!(naps > 1, "it slept {naps} times");
    assert!(from.is_over() && from.bad() == 0);
    assert_eq!(pool.outstanding(), 0);
}

#[test]
fn nonsense_stops_its_own_ring_only() {
    let mut two = Two::new();
    let (mut to, mut from) = (two.output(), two.input());
    let mut frames = vec![two.pool.take(1).unwrap()];
    to.give(&mut frames);
    // The writer's position jumps: what it would name is not there.
    let raw = words(&two.there, PLACES);
    raw[0].store(PLACES + 7, Relaxed);
    assert_eq!(from.take(&mut frames, 32), 0);
    assert!(from.is_over());
    raw[0].store(1, Relaxed);
    assert_eq!(from.take(&mut frames, 32), 0, "it stays refused");
    // The reader's: more was read than written.
    raw[32].store(9, Relaxed);
    let mut more: Vec<Frame> = (0..100).map(|_| two.pool.take(1).unwrap()).collect();
    assert_eq!((to.give(&mut more), to.is_gone()), (0, true));
    raw[32].store(0, Relaxed);
    assert_eq!(to.give(&mut more), 0, "it stays refused");
    two.pool.give_all(&mut more);
    for words in [0, 64, 127, 128, 131, 128 + 48] {
        let words = two.there.words(0, words).unwrap();
        assert!(input(words, two.pool.memory(), two.member).is_err());
    }
}

#[test]
fn numbers_that_name_no_frame_are_counted_and_dropped() {
    let mut two = Two::new();
    let mut from = two.input();
    let mut raw = Writer::attach(words(&two.there, PLACES)).unwrap();
    let frame = two.pool.take(1).unwrap();
    let good = two.pool.memory().hand_over(frame);
    for number in [3, good, good, u32::MAX, 1 << 20] {
        raw.write([number].into_iter());
    }
    let _ = raw.publish();
    let mut frames = Vec::new();
    assert_eq!((from.take(&mut frames, 32), from.bad()), (1, 4));
    two.other.give_all(&mut frames);
}

#[test]
fn a_process_that_is_over_leaves_its_frames() {
    let mut two = Two::new();
    let mut frames: Vec<Frame> = (0..50).map(|_| two.pool.take(1).unwrap()).collect();
    let mut to = two.output();
    to.give(&mut frames);
    // It has taken 20 and given 5 on when it dies; 30 wait for the next.
    let mut from = two.input();
    from.take(&mut frames, 20);
    let mut on = output(
        words(&two.back, PLACES),
        two.other.memory(),
        two.waker.clone(),
    )
    .unwrap();
    let mut gone: Vec<Frame> = frames.drain(..5).collect();
    on.give(&mut gone);
    std::mem::forget((frames, from, on));
    let over = std::process::Command::new("true").status().unwrap();
    let (to_it, from_it) = (words(&two.there, PLACES), words(&two.back, PLACES));
    let mut back = reclaim(
        two.pool.memory(),
        two.member,
        &over,
        &[(MemberId::MAIN, &to_it)],
        &[&from_it],
    )
    .unwrap();
    assert_eq!(back.len(), 15);
    two.pool.give_all(&mut back);
    // The next one finds the ring as it was.
    let mut from = two.input();
    let mut next = Vec::new();
    assert_eq!((from.take(&mut next, 64), from.bad()), (30, 0));
    let mut home = input(from_it, two.pool.memory(), two.member).unwrap();
    let mut came = Vec::new();
    assert_eq!(home.take(&mut came, 64), 5);
    two.pool.give_all(&mut came);
    assert_eq!(two.pool.outstanding(), 30);
    drop(next);
}

proptest! {
    /// Against a queue: any mix of writing, showing, reading and giving back.
    #[test]
    fn a_ring_is_a_queue(steps in prop::collection::vec((0u8..4, 1u32..20), 1..200), start in any::<u32>()) {
        let mapping = ring(16);
        let raw = words(&mapping, 16);
        raw[0].store(start, Relaxed);
        raw[32].store(start, Relaxed);
        let mut writer = Writer::attach(words(&mapping, 16)).unwrap();
        let mut reader = Reader::attach(words(&mapping, 16)).unwrap();
        let mut queue = std::collections::VecDeque::new();
        let (mut shown, mut taken, mut next) = (0, 0, 0u32);
        for (step, count) in steps {
            match step {
                0 => {
                    let free = writer.free(count).unwrap();
                    prop_assert!(free as usize + queue.len() + taken <= 16);
                    for _ in 0..count.min(free) {
                        writer.write([next].into_iter());
                        queue.push_back(next);
                        next += 1;
                    }
                }
                1 => {
                    prop_assert!(!writer.publish());
                    shown = queue.len();
                }
                2 => {
                    let mut got = vec![0; count as usize];
                    let n = reader.read(&mut got).unwrap();
                    prop_assert!(n <= shown && (n > 0 || shown == 0));
                    for value in got.drain(..n) {
                        prop_assert_eq!(Some(value), queue.pop_front());
                    }
                    shown -= n;
                    taken += n;
                }
                _ => {
                    reader.release();
                    taken = 0;
                    let seen = spsc::peek(&raw).unwrap();
                    prop_assert_eq!(seen, queue.iter().copied().take(shown).collect::<Vec<_>>());
                }
            }
        }
    }
}
