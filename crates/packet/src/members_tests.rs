//! Tests of memory in several processes; here they are two views of one
//! mapping.

use core::ptr::NonNull;
use std::sync::Arc;

use super::*;
use crate::{Arena, FrameMeta, FramePool, Time, no_advice};

const LAYOUT: MemoryLayout = MemoryLayout {
    small_frames: 40,
    small_bytes: 5 * 64,
    large_frames: 3,
    large_bytes: 9 * 64,
};

/// One memory for all who have it.
#[derive(Clone, Debug)]
struct Page(Arc<Arena<[u64; 8]>>);

impl Page {
    fn new() -> Page {
        let lines = PacketMemory::bytes_in_mapping(&LAYOUT).div_ceil(64);
        Page(Arc::new(Arena::zeroed(lines, no_advice)))
    }
}

// SAFETY: the arena lives as long as the last of them, and the tests touch it
// through packet memories only.
unsafe impl Mapping for Page {
    fn start(&self) -> NonNull<u8> {
        NonNull::new(self.0.raw().cast()).unwrap()
    }
    fn len(&self) -> usize {
        PacketMemory::bytes_in_mapping(&LAYOUT)
    }
}

fn two() -> (FramePool, FramePool, MemberId) {
    let page = Page::new();
    let member = MemberId::new(7).unwrap();
    let main = PacketMemory::in_mapping(LAYOUT, Box::new(page.clone()), MemberId::MAIN).unwrap();
    let other = PacketMemory::in_mapping(LAYOUT, Box::new(page), member).unwrap();
    assert!(FramePool::new(Arc::clone(&other)).is_none(), "frames twice");
    (
        FramePool::new(main).unwrap(),
        FramePool::empty(other),
        member,
    )
}

#[test]
fn a_frame_goes_there_and_back_with_its_bytes() {
    let (mut pool, mut other, member) = two();
    assert_eq!((pool.available(), other.available()), (43, 0));
    for len in [60, 300] {
        let meta = FrameMeta::received(Time(5), 0);
        let frame = pool.copy(&vec![3; len], meta).unwrap();
        let number = pool.memory().hand_over(frame);
        let frame = other.memory().take_over(number, MemberId::MAIN).unwrap();
        assert_eq!(other.memory().bytes(&frame), vec![3; len]);
        assert!(
            other.memory().take_over(number, MemberId::MAIN).is_none(),
            "taken twice"
        );
        assert_eq!(pool.memory().belonging_to(member), 1);
        // It may stay in the other's pool for a while.
        other.give(frame);
        let frame = other.take(len).unwrap();
        let number = other.memory().hand_over(frame);
        let frame = pool.memory().take_over(number, member).unwrap();
        pool.give(frame);
    }
    assert_eq!((pool.outstanding(), other.outstanding()), (0, 0));
    assert_eq!(pool.memory().belonging_to(MemberId::MAIN), 43);
}

#[test]
fn numbers_that_make_no_sense_are_refused() {
    let (mut pool, other, member) = two();
    let frame = pool.take(1).unwrap();
    let good = pool.memory().hand_over(frame);
    let end = PacketMemory::bytes_in_mapping(&LAYOUT) as u32 / 64;
    for number in (0..2 * end).chain([u32::MAX, u32::MAX - 1, 1 << 31]) {
        // Of another member, or of one's own, nothing can be had.
        assert!(other.memory().take_over(number, member).is_none());
        assert!(pool.memory().take_over(number, member).is_none());
        assert!(pool.memory().take_over(number, MemberId::MAIN).is_none());
        let starts = number < 200 && number % 5 == 0
            || (200..227).contains(&number) && (number - 200) % 9 == 0;
        if number != good && !starts {
            assert!(other.memory().take_over(number, MemberId::MAIN).is_none());
        }
    }
    let frame = other.memory().take_over(good, MemberId::MAIN).unwrap();
    assert_eq!(frame.offset(), good as usize * 64);
    let Frame { .. } = frame; // lost on purpose
    let small = PacketMemory::bytes_in_mapping(&LAYOUT) - 1;
    #[derive(Debug)]
    struct Short(Page, usize);
    // SAFETY: as of a page, a part of which it is.
    unsafe impl Mapping for Short {
        fn start(&self) -> NonNull<u8> {
            self.0.start()
        }
        fn len(&self) -> usize {
            self.1
        }
    }
    let short = Box::new(Short(Page::new(), small));
    let refused = PacketMemory::in_mapping(LAYOUT, short, MemberId::MAIN).unwrap_err();
    assert_eq!((refused.needed, refused.len), (small + 1, small));
}

#[test]
fn of_many_numbers_the_good_ones_are_taken_once() {
    let (mut pool, other, _) = two();
    let good: Vec<u32> = (0..4)
        .map(|_| {
            let frame = pool.take(1).unwrap();
            pool.memory().hand_over(frame)
        })
        .collect();
    let end = PacketMemory::bytes_in_mapping(&LAYOUT) as u32 / 64;
    let numbers = [
        end,
        good[0],
        good[1],
        good[1],
        good[0] + 1,
        good[2],
        good[0],
        good[3],
        u32::MAX,
    ];
    let mut came = Vec::new();
    let taker = other.memory().taker(MemberId::MAIN).unwrap();
    assert_eq!(taker.take_all(&numbers, &mut came), 5);
    let places: Vec<u32> = came
        .iter()
        .map(|frame| frame.offset() as u32 / 64)
        .collect();
    assert_eq!(places, good);
    assert_eq!(taker.take_all(&good, &mut came), 4);
    assert!(
        other
            .memory()
            .taker(other.memory().member().unwrap())
            .is_none()
    );
}

/// The process of the other member ends at each point of its way with a frame;
/// all frames come back once.
#[test]
fn what_a_dead_process_had_comes_back() {
    let (mut pool, other, member) = two();
    let give = |pool: &mut FramePool| {
        let frame = pool.take(1).unwrap();
        pool.memory().hand_over(frame)
    };
    // Not taken; taken, with the place in the ring not given back; in hand;
    // handed on to main, which has not taken it; taken by main.
    let [waits, began, held, gone, home] = core::array::from_fn(|_| give(&mut pool));
    for number in [began, held, gone, home] {
        let frame = other.memory().take_over(number, MemberId::MAIN).unwrap();
        other.memory().hand_over(frame);
    }
    let back = pool.memory().take_over(home, member).unwrap();
    pool.give(back);
    drop(other);
    let memory = Arc::clone(pool.memory());
    // SAFETY: the other view is gone.
    unsafe { memory.hand_over_again(member, MemberId::MAIN, &[waits, began]) };
    // SAFETY: as above.
    let mut back = unsafe { memory.reclaim(member, &[gone]) };
    assert_eq!(back.iter().map(|f| f.line).collect::<Vec<_>>(), [held]);
    pool.give_all(&mut back);
    pool.give(memory.take_over(gone, member).unwrap());
    // Frames in the ring wait for the dead process's successor.
    assert_eq!(pool.outstanding(), 2);
    // SAFETY: as above.
    assert!(unsafe { memory.reclaim(member, &[]) }.is_empty());
    assert_eq!(memory.belonging_to(MemberId::MAIN), 43);
}
