//! Any words in what a tenant has, and any numbers in its rings: whatever it
//! does, packets come out in their order as what they were but for bytes and
//! length, each once, nothing is read outside a frame, and all frames come back.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use weir_io::shared::border::{
    BORDER_PLACES, Border, BorderSettings, DONE, STATUS_WORDS, Tenant, WINDOW, tenant_layout,
};
use weir_io::shared::{SharedMapping, Waker, spsc};
use weir_packet::{
    Frame, FrameKind, FrameMeta, FramePool, MemoryLayout, PacketMemory, Time, frame_flags,
};

use crate::input::Input;

fn pool() -> FramePool {
    let layout = MemoryLayout {
        small_frames: 1_600,
        small_bytes: 5 * 64,
        large_frames: 2,
        large_bytes: 8 * 64,
    };
    let memory = PacketMemory::checked(layout, weir_packet::no_advice);
    FramePool::new(memory).expect("a new memory has its frames")
}

struct Bed {
    pool: FramePool,
    border: Border,
    files: [SharedMapping; 2],
    rings: [usize; 4],
    status: usize,
    tails: [u32; 4],
    given: u64,
    last: u64,
}

impl Bed {
    fn admit(&mut self) {
        let layout = tenant_layout(self.pool.memory().layout());
        let waker = Waker::new().expect("a descriptor");
        let tenant = Tenant::new(layout, waker).expect("memory");
        self.files = tenant.files().clone();
        (self.rings, self.status) = (tenant.places().rings, tenant.places().status);
        self.tails = [0; 4];
        self.border.admit(tenant);
    }

    fn packets(&mut self, count: u8, now: Instant) {
        let mut frames: Vec<Frame> = Vec::new();
        for n in 0..count % 80 {
            let sequence = self.given + u64::from(n) + 1;
            let mut meta = FrameMeta::received(Time(sequence), 0);
            (meta.sequence, meta.unit, meta.clock) = (sequence, 7, sequence);
            (meta.chain, meta.next) = (9, if n % 8 == 7 { 6 } else { 3 });
            if n % 16 == 15 {
                meta.kind = FrameKind::Notice;
            }
            let bytes = [n; 200];
            let len = if n % 32 == 31 { 200 } else { 60 };
            frames.extend(self.pool.copy(&bytes[..len], meta).ok());
        }
        // Numbers of those that found no frame are left out.
        self.given += u64::from(count % 80);
        while !frames.is_empty() && self.border.give(&mut frames, now) > 0 {}
        self.pool.give_all(&mut frames);
    }

    fn take(&mut self, max: u8) {
        let mut out = Vec::new();
        self.border.take(&mut out, usize::from(max));
        let memory = Arc::clone(self.pool.memory());
        for frame in out {
            let (meta, bytes) = memory.read(&frame);
            assert_eq!(bytes.len(), meta.len as usize, "the packet is in its frame");
            assert_eq!(meta.chain, 9);
            if meta.flags & frame_flags::EMITTED == 0 {
                assert!(meta.sequence > self.last && meta.sequence <= self.given);
                assert_eq!(
                    (meta.unit, meta.clock, meta.time),
                    (7, meta.sequence, Time(meta.sequence))
                );
                assert!([0, 5, 6].contains(&meta.next) || meta.kind == FrameKind::Notice);
                self.last = meta.sequence;
            } else {
                assert_eq!((meta.next, meta.sequence), (0, 0));
            }
            self.pool.give(frame);
        }
    }

    fn word(&self, file: usize, at: usize, change: impl FnOnce(&AtomicU32)) {
        let words = self.files[file].words(at, 1).expect("inside");
        change(&words[0]);
    }
}

/// Tries it.
pub fn run(data: &[u8]) {
    let mut input = Input(data);
    let pool = pool();
    let way = input.u8();
    let settings = BorderSettings {
        stage: 3..=4,
        exits: vec![0, 5],
        writes: way & 1 == 0,
        makes: way & 2 == 0,
        waits_for_start: way & 4 == 0,
        most_wait: Duration::from_millis(50),
        stall: Duration::from_secs(1),
    };
    let none = || SharedMapping::create("none", 4).expect("memory");
    let mut bed = Bed {
        border: Border::new(settings, pool.memory()),
        files: [none(), none()],
        rings: [0; 4],
        status: 0,
        tails: [0; 4],
        given: 0,
        last: 0,
        pool,
    };
    bed.admit();
    bed.border.begin();
    let mut now = Instant::now();
    while !input.is_empty() {
        match input.u8() % 10 {
            0 => bed.packets(input.u8(), now),
            1 => bed.take(input.u8()),
            // Anything, anywhere.
            2 => {
                let (file, value) = (usize::from(input.u8() & 1), input.u32());
                let words = bed.files[file].len() / 4;
                let at = input.u32() as usize % words * 4;
                bed.word(file, at, |word| word.store(value, Ordering::Relaxed));
            }
            // Its frames' metadata and first bytes.
            3 => {
                let at = usize::from(input.u16() % 1_600) * 320 + usize::from(input.u8() % 60) * 4;
                let value = input.u32();
                bed.word(0, at, |word| word.store(value, Ordering::Relaxed));
            }
            // A number in a ring of its own.
            4 | 5 => {
                let ring = if input.u8().is_multiple_of(3) { 3 } else { 1 };
                let what = u32::from(input.u16() % 2_100) * 5;
                let place = spsc::words_for(bed.tails[ring] & (BORDER_PLACES - 1));
                let at = bed.rings[ring];
                bed.word(1, at + 4 * place, |word| {
                    word.store(what, Ordering::Relaxed)
                });
                bed.tails[ring] = bed.tails[ring].wrapping_add(1);
                let tail = bed.tails[ring];
                bed.word(1, at, |word| word.store(tail, Ordering::Release));
            }
            6 => {
                assert!(DONE < STATUS_WORDS);
                let more = u32::from(input.u8());
                bed.word(1, bed.status + DONE * 4, |word| {
                    word.fetch_add(more, Ordering::Release);
                });
            }
            7 => {
                now += Duration::from_millis(20);
                bed.border.mind(now);
                let _ = bed.border.is_stalled(now);
                bed.border.settle(&mut bed.pool);
            }
            8 => {
                bed.border.expel();
                bed.admit();
            }
            _ => bed.border.begin(),
        }
        assert!(bed.pool.outstanding() <= 3 * WINDOW);
    }
    let counts = *bed.border.counts();
    let dropped = counts.dropped + counts.stalled + counts.gone;
    let ended = dropped + counts.refused + counts.died;
    assert!(counts.went + ended <= counts.came + counts.made);
    bed.border.clear(&mut bed.pool);
    assert_eq!(bed.pool.outstanding(), 0, "all frames come back");
    assert_eq!(bed.pool.memory().doubled().0, 0, "each once");
}

/// A neighbour that gives back what it was given, and then what it was not.
pub fn example() -> Vec<u8> {
    let mut bytes = vec![0, 0, 40];
    for number in 0..30u16 {
        // The frames that it is lent are the first ones behind its spare ones.
        let frame = (256 + number).to_le_bytes();
        bytes.extend([
            3, frame[0], frame[1], 15, 0, 5, 0, 0, 4, 1, frame[0], frame[1],
        ]);
    }
    bytes.extend([
        6, 30, 1, 255, 0, 20, 7, 4, 0, 0, 0, 1, 255, 8, 0, 9, 2, 1, 255, 255, 255, 255,
    ]);
    bytes
}
