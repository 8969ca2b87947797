use std::sync::atomic::{AtomicU32, Ordering};

use proptest::prelude::*;
use weir_packet::{
    Disposition, FrameMeta, FramePool, MemberId, MemoryLayout, Side, Time, frame_flags,
};

use super::*;
use crate::shared::spsc::words_for;
use crate::shared::{RingInput, RingOutput, Waker, Words, attach_memory, input, output};
use crate::stage::{StageInput as _, StageOutput as _};

const FRAMES: u32 = 1_400;

fn pool() -> FramePool {
    let layout = MemoryLayout {
        small_frames: FRAMES,
        large_frames: 2,
        ..MemoryLayout::default()
    };
    FramePool::new(PacketMemory::checked(layout, weir_packet::no_advice)).unwrap()
}

fn settings() -> BorderSettings {
    BorderSettings {
        stage: 3..=4,
        exits: vec![0, 5],
        writes: true,
        makes: true,
        waits_for_start: true,
        most_wait: Duration::from_secs(1),
        stall: STALL,
    }
}

fn tenant(pool: &FramePool) -> Tenant {
    let layout = tenant_layout(pool.memory().layout());
    Tenant::new(layout, Waker::new().unwrap()).unwrap()
}

/// A border with someone behind it, and that one's rings.
fn border(pool: &mut FramePool, settings: BorderSettings) -> (Border, [SharedFile; 2]) {
    let mut border = Border::new(settings, pool.memory());
    let tenant = tenant(pool);
    let files = tenant.files().clone();
    border.admit(tenant);
    border.begin();
    border.settle(pool);
    (border, files)
}

type SharedFile = crate::shared::SharedMapping;

fn packet(pool: &mut FramePool, n: u64) -> Frame {
    let mut meta = FrameMeta::received(Time(n), 0);
    (meta.sequence, meta.unit, meta.clock, meta.next) = (n, 77, n, 3);
    (meta.port, meta.chain, meta.dlt) = (2, 9, 1);
    let bytes = [n as u8; 60];
    pool.copy(&bytes, meta).unwrap()
}

/// One that is not for the stage.
fn passing(pool: &mut FramePool, n: u64) -> Frame {
    let mut frame = packet(pool, n);
    pool.memory().clone().meta_mut(&mut frame).next = 6;
    frame
}

fn notice(pool: &mut FramePool, n: u64) -> Frame {
    let mut frame = packet(pool, n);
    pool.memory().clone().meta_mut(&mut frame).kind = FrameKind::Notice;
    frame
}

/// A neighbour that does as it should.
struct Honest {
    memory: Arc<PacketMemory>,
    pool: FramePool,
    input: RingInput,
    output: RingOutput,
    status: Words,
    done: u32,
}

impl Honest {
    fn new(border: &Border, files: &[SharedFile; 2]) -> Honest {
        let tenant = border.tenant.as_ref().unwrap();
        let (layout, places) = (*tenant.layout(), tenant.places());
        let file = || files[0].clone();
        use std::os::fd::AsFd as _;
        let fd = file().as_fd().try_clone_to_owned().unwrap();
        let memory = attach_memory(fd, layout, MemberId::new(1).unwrap()).unwrap();
        let ring = |n: usize| {
            files[1]
                .words(places.rings[n], words_for(BORDER_PLACES))
                .unwrap()
        };
        let waker = || Waker::new().unwrap();
        let mut supply = input(ring(2), &memory, MemberId::MAIN).unwrap();
        let mut pool = FramePool::empty(Arc::clone(&memory));
        let mut spare = Vec::new();
        supply.take(&mut spare, 1_000);
        pool.give_all(&mut spare);
        Honest {
            input: input(ring(0), &memory, MemberId::MAIN).unwrap(),
            output: output(ring(1), &memory, waker()).unwrap(),
            status: files[1].words(places.status, STATUS_WORDS).unwrap(),
            pool,
            memory,
            done: 0,
        }
    }

    /// Takes all; `each` says whether it goes on.
    fn work(&mut self, mut each: impl FnMut(&PacketMemory, &mut Frame) -> bool) -> usize {
        let mut frames = Vec::new();
        let taken = self.input.take(&mut frames, 1_000);
        let mut left = Vec::new();
        for mut frame in frames {
            match each(&self.memory, &mut frame) {
                true => left.push(frame),
                false => self.pool.give(frame),
            }
        }
        self.output.give(&mut left);
        assert!(left.is_empty());
        self.done += taken as u32;
        self.status[DONE].store(self.done, Ordering::Release);
        taken
    }

    fn make(&mut self, meta: FrameMeta, bytes: &[u8]) {
        let frame = self.pool.copy(bytes, meta).unwrap();
        self.output.give(&mut vec![frame]);
    }
}

fn all_back(pool: &mut FramePool, border: &mut Border, mut taken: Vec<Frame>) {
    pool.give_all(&mut taken);
    border.clear(pool);
    assert_eq!((pool.outstanding(), border.frames()), (0, 0));
    assert_eq!(pool.memory().doubled().0, 0);
}

#[test]
fn packets_go_over_and_come_back_as_what_they_were() {
    let mut pool = pool();
    let (mut border, files) = border(&mut pool, settings());
    let mut tenant = Honest::new(&border, &files);
    let now = Instant::now();
    let mut frames: Vec<Frame> = (1..=40).map(|n| packet(&mut pool, n)).collect();
    // One that is not for the stage, and a notice.
    pool.memory().clone().meta_mut(&mut frames[4]).next = 6;
    pool.memory().clone().meta_mut(&mut frames[9]).kind = FrameKind::Notice;
    assert_eq!(border.give(&mut frames, now), 40);
    let mut seen = 0;
    let worked = tenant.work(|memory, frame| {
        seen += 1;
        let (meta, room) = memory.split_mut(frame);
        assert_eq!((meta.unit, meta.chain, meta.port, meta.dlt), (77, 9, 2, 1));
        assert_eq!(meta.kind == FrameKind::Notice, meta.sequence == 10);
        // Its word on what is not its own is not heard.
        (meta.unit, meta.clock, meta.time, meta.chain) = (1, 2, Time(3), 4);
        (meta.view, meta.flags, meta.disposition) = (5, 4, Disposition::Dropped);
        meta.next = 5;
        let start = usize::from(meta.start);
        if meta.sequence == 20 {
            room[start..start + 70].fill(0xee);
            meta.len = 70;
        }
        if meta.sequence == 10 {
            room[start..].fill(0);
        }
        !meta.sequence.is_multiple_of(3)
    });
    assert_eq!((worked, seen), (39, 39));
    let mut out = Vec::new();
    border.take(&mut out, 1_000);
    let memory = Arc::clone(pool.memory());
    let order: Vec<u64> = out.iter().map(|f| memory.meta(f).sequence).collect();
    let wanted: Vec<u64> = (1..=40).filter(|n| n % 3 != 0).collect();
    assert_eq!(order, wanted);
    for frame in &out {
        let (meta, bytes) = memory.read(frame);
        let n = meta.sequence;
        assert_eq!((meta.unit, meta.clock, meta.time), (77, n, Time(n)));
        assert_eq!((meta.chain, meta.flags, meta.view), (9, 0, 0));
        assert_eq!(meta.disposition, Disposition::Pending);
        match n {
            5 => assert_eq!(meta.next, 6),
            10 => assert_eq!((meta.next, bytes), (3, &[10; 60][..])),
            20 => assert_eq!((meta.next, bytes, meta.wire_len), (5, &[0xee; 70][..], 70)),
            n => assert_eq!((meta.next, bytes), (5, &[n as u8; 60][..])),
        }
    }
    let counts = *border.counts();
    assert_eq!((counts.came, counts.lent, counts.went), (39, 38, 26));
    assert_eq!(counts.dropped, 13);
    border.close();
    assert!(border.is_over() && tenant.input.is_over());
    all_back(&mut pool, &mut border, out);
}

#[test]
fn what_is_read_only_stays_as_it_was() {
    let mut pool = pool();
    let only = BorderSettings {
        writes: false,
        ..settings()
    };
    let (mut border, files) = border(&mut pool, only);
    let mut tenant = Honest::new(&border, &files);
    border.give(&mut vec![packet(&mut pool, 1)], Instant::now());
    tenant.work(|memory, frame| {
        let (meta, room) = memory.split_mut(frame);
        (meta.len, meta.start, meta.next) = (u32::MAX, u16::MAX, 0);
        room.fill(0xff);
        true
    });
    let mut out = Vec::new();
    assert_eq!(border.take(&mut out, 9), 1);
    assert_eq!(pool.memory().bytes(&out[0]), [1; 60]);
    all_back(&mut pool, &mut border, out);
}

#[test]
fn what_it_makes_leaves_behind_what_it_was_made_of() {
    let mut pool = pool();
    let (mut border, files) = border(&mut pool, settings());
    let mut tenant = Honest::new(&border, &files);
    let now = Instant::now();
    let on = |memory: &PacketMemory, frame: &mut Frame| {
        memory.meta_mut(frame).next = 5;
        true
    };
    let mut frames: Vec<Frame> = (1..=4).map(|n| packet(&mut pool, n)).collect();
    border.give(&mut frames, now);
    tenant.work(on);
    let mut meta = FrameMeta::received(Time(1 << 50), 0);
    (meta.port, meta.side, meta.chain, meta.unit, meta.next) = (2, Side::Outside, 1, 5, 3);
    tenant.make(meta, b"made");
    // It comes behind them although nobody took them yet.
    border.hear();
    border.give(&mut vec![packet(&mut pool, 5)], now);
    tenant.work(on);
    let mut out = Vec::new();
    border.take(&mut out, 9);
    let memory = Arc::clone(pool.memory());
    let order: Vec<u64> = out.iter().map(|f| memory.meta(f).sequence).collect();
    assert_eq!(order, [1, 2, 3, 4, 0, 5]);
    let (meta, bytes) = memory.read(&out[4]);
    assert_eq!(
        (bytes, meta.chain, meta.unit, meta.next),
        (&b"made"[..], 9, 0, 0)
    );
    assert_eq!((meta.time, meta.side), (Time(4), Side::Outside));
    assert_eq!(meta.flags, frame_flags::EMITTED);
    assert_eq!(border.counts().made, 1);
    // From a port that no packet came by.
    let mut meta = FrameMeta::received(Time(1), 0);
    meta.port = 3;
    tenant.make(meta, b"x");
    border.hear();
    assert_eq!(border.offence(), Some(Offence::BadMade));
    all_back(&mut pool, &mut border, out);
}

/// One that does one thing wrong is not heard any further, and what it had is
/// dropped.
#[test]
fn each_offence_is_found() {
    let write = |files: &[SharedFile; 2], at: usize, value: u32| {
        files[1].words(at, 1).unwrap()[0].store(value, Ordering::Release);
    };
    type Wrong =
        fn(&RingPlaces, &[SharedFile; 2], &mut Honest, &dyn Fn(&[SharedFile; 2], usize, u32));
    let cases: [(Offence, Wrong); 9] = [
        (Offence::NoSuchFrame, |p, f, _, w| {
            w(f, p.rings[1] + 128 * 4, 1);
            w(f, p.rings[1], 1);
        }),
        (Offence::NotLent, |p, f, _, w| {
            w(
                f,
                p.rings[1] + 128 * 4,
                0xffff * 33 % (2_000 * 33) / 33 * 33,
            );
            w(f, p.rings[1], 1);
        }),
        (Offence::NotLent, |p, f, t, w| {
            t.work(|_, _| true);
            let first = f[1].words(p.rings[1] + 128 * 4, 1).unwrap()[0].load(Ordering::Relaxed);
            w(f, p.rings[1] + 129 * 4, first);
        }),
        (Offence::NotLent, |p, f, t, w| {
            // Twice, by the two ways.
            t.work(|_, _| true);
            let first = f[1].words(p.rings[1] + 128 * 4, 1).unwrap()[0].load(Ordering::Relaxed);
            w(f, p.rings[3] + 128 * 4, first);
            w(f, p.rings[3], 1);
        }),
        (Offence::BadPosition, |p, f, _, w| w(f, p.rings[1], 513)),
        (Offence::BadPosition, |p, f, _, w| {
            w(f, p.rings[3], u32::MAX)
        }),
        (Offence::BadPosition, |p, f, _, w| {
            w(f, p.status + DONE * 4, 99)
        }),
        (Offence::BadNext, |_, _, t, _| {
            t.work(|memory, frame| {
                memory.meta_mut(frame).next = 4;
                true
            });
        }),
        (Offence::BadRange, |_, _, t, _| {
            t.work(|memory, frame| {
                memory.meta_mut(frame).len = u32::MAX;
                memory.meta_mut(frame).next = 5;
                true
            });
        }),
    ];
    for (number, (offence, wrong)) in cases.into_iter().enumerate() {
        let mut pool = pool();
        let (mut border, files) = border(&mut pool, settings());
        let mut tenant = Honest::new(&border, &files);
        let mut frames: Vec<Frame> = (1..=3).map(|n| packet(&mut pool, n)).collect();
        for frame in &mut frames {
            // An honest tenant leaves it as it is: it leaves the chain.
            pool.memory().clone().meta_mut(frame).next = 3;
        }
        border.give(&mut frames, Instant::now());
        let places = border.tenant.as_ref().unwrap().places();
        if number == 2 || number == 3 {
            // As if it had said where they go.
            border.exits.insert(3);
        }
        wrong(&places, &files, &mut tenant, &write);
        let mut out = Vec::new();
        border.take(&mut out, 9);
        assert_eq!(border.offence(), Some(offence), "{number}");
        assert_eq!(border.counts().offences[offence as usize], 1);
        let counts = *border.counts();
        assert_eq!(counts.went + counts.died + counts.refused, 3, "{number}");
        // Another takes its place.
        border.admit(self::tenant(&pool));
        border.begin();
        assert_eq!(
            border.give(&mut vec![packet(&mut pool, 9)], Instant::now()),
            1
        );
        all_back(&mut pool, &mut border, out);
    }
}

#[test]
fn nobody_waits_for_ever() {
    let mut pool = pool();
    let (mut border, _files) = border(&mut pool, settings());
    let mut now = Instant::now();
    let mut frames: Vec<Frame> = (1..=600).map(|n| packet(&mut pool, n)).collect();
    let given = border.give(&mut frames, now);
    assert!((400..600).contains(&given), "{given}");
    // For as long as there is credit they wait.
    now += Duration::from_millis(900);
    assert_eq!(border.give(&mut frames, now), 0);
    now += Duration::from_millis(200);
    let left = frames.len();
    assert_eq!(border.give(&mut frames, now), left);
    assert_eq!(border.counts().stalled, left as u64);
    // Notices still find room; when that is used up, too, nobody is told any
    // more who does not listen.
    let mut told = 0;
    while border.offence().is_none() {
        assert!(!border.is_stalled(now));
        let mut frames = vec![notice(&mut pool, 1)];
        while !frames.is_empty() {
            border.give(&mut frames, now);
        }
        told += 1;
        assert!(told < 200);
    }
    assert_eq!(border.offence(), Some(Offence::Stalled));
    let mut out = Vec::new();
    assert_eq!(border.take(&mut out, 1_000), told);
    all_back(&mut pool, &mut border, out);
}

#[test]
fn one_that_keeps_what_it_has_is_found_out() {
    let mut pool = pool();
    let (mut border, _files) = border(&mut pool, settings());
    let now = Instant::now();
    border.give(&mut vec![packet(&mut pool, 1)], now);
    assert!(!border.is_stalled(now));
    assert!(!border.is_stalled(now + STALL));
    assert!(border.is_stalled(now + STALL + Duration::from_millis(1)));
    border.close();
    assert!(!border.is_over());
    border.expel_for(Offence::Stalled);
    let mut out = Vec::new();
    assert_eq!((border.take(&mut out, 9), border.is_over()), (0, true));
    assert_eq!(border.counts().died, 1);
    border.give_up();
    all_back(&mut pool, &mut border, out);
}

/// Acts of a hostile neighbour on the words that it has.
#[derive(Clone, Debug)]
enum Deed {
    Write(bool, u32, u32),
    GiveBack(u8, u32),
    SayDone(u32),
    Give(u8),
    Take(u8),
    Begin,
    Ready,
    Later(u8),
}

fn deed() -> impl Strategy<Value = Deed> {
    prop_oneof![
        (any::<bool>(), any::<u32>(), any::<u32>()).prop_map(|(f, a, v)| Deed::Write(f, a, v)),
        (any::<u8>(), 0..600u32).prop_map(|(ring, n)| Deed::GiveBack(ring, n)),
        (0..40u32).prop_map(Deed::SayDone),
        any::<u8>().prop_map(Deed::Give),
        any::<u8>().prop_map(Deed::Take),
        Just(Deed::Begin),
        Just(Deed::Ready),
        any::<u8>().prop_map(Deed::Later),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// Whatever a neighbour does, packets come out in their order as what they
    /// were, each once, and all frames come back.
    #[test]
    fn a_neighbour_harms_nothing_but_its_own(deeds in prop::collection::vec(deed(), 1..120)) {
        let mut pool = pool();
        let (mut border, mut files) = border(&mut pool, settings());
        let memory = Arc::clone(pool.memory());
        let mut now = Instant::now();
        let (mut n, mut last, mut tail) = (0, 0, [0u32; 4]);
        let mut out = Vec::new();
        for deed in deeds {
            let places = ring_places();
            match deed {
                Deed::Write(memory, at, value) => {
                    let file = &files[usize::from(memory)];
                    let words: &[AtomicU32] = &file.words(0, file.len() / 4).unwrap();
                    words[at as usize % words.len()].store(value, Ordering::Relaxed);
                }
                Deed::GiveBack(ring, number) => {
                    let ring = [1, 1, 3][usize::from(ring) % 3];
                    let words = files[1].words(places.rings[ring], words_for(512)).unwrap();
                    words[128 + (tail[ring] as usize & 511)].store(number % 2_050 * 33, Ordering::Relaxed);
                    tail[ring] = tail[ring].wrapping_add(1);
                    words[0].store(tail[ring], Ordering::Release);
                }
                Deed::SayDone(more) => {
                    let status = files[1].words(places.status, STATUS_WORDS).unwrap();
                    status[DONE].fetch_add(more, Ordering::Release);
                }
                Deed::Give(count) => {
                    let one = |i| match i % 7 {
                        5 => passing(&mut pool, n + i + 1),
                        6 => notice(&mut pool, n + i + 1),
                        _ => packet(&mut pool, n + i + 1),
                    };
                    let mut frames: Vec<Frame> = (0..u64::from(count % 70)).map(one).collect();
                    n += frames.len() as u64;
                    while !frames.is_empty() && border.give(&mut frames, now) > 0 {}
                    pool.give_all(&mut frames);
                }
                Deed::Take(count) => {
                    border.take(&mut out, usize::from(count));
                }
                Deed::Begin => {
                    border.expel();
                    let tenant = self::tenant(&pool);
                    (files, tail) = (tenant.files().clone(), [0; 4]);
                    border.admit(tenant);
                }
                Deed::Ready => border.begin(),
                Deed::Later(ms) => {
                    now += Duration::from_millis(ms.into());
                    border.mind(now);
                }
            }
            for frame in out.drain(..) {
                let (meta, bytes) = memory.read(&frame);
                if meta.flags & frame_flags::EMITTED == 0 {
                    prop_assert!(meta.sequence > last && meta.sequence <= n);
                    prop_assert_eq!((meta.unit, meta.clock), (77, meta.sequence));
                    last = meta.sequence;
                }
                prop_assert!(meta.chain == 9 && (meta.next != 3 || meta.kind.is_notice()));
                prop_assert_eq!(bytes.len(), meta.len as usize);
                pool.give(frame);
            }
            border.settle(&mut pool);
            prop_assert_eq!(pool.outstanding(), border.frames());
            let counts = border.counts();
            let with = border.tenant.as_deref().map_or(0, Tenant::has);
            prop_assert!(with <= 2_066);
            let ended = counts.went - counts.made + counts.dropped + counts.stalled + counts.gone + counts.refused + counts.died;
            prop_assert!(ended <= counts.came);
        }
        border.clear(&mut pool);
        prop_assert_eq!(pool.outstanding(), 0);
        prop_assert_eq!(memory.doubled().0, 0);
    }
}

fn ring_places() -> RingPlaces {
    let ring = (words_for(BORDER_PLACES) * 4).next_multiple_of(128);
    RingPlaces {
        rings: [0, ring, 2 * ring, 3 * ring],
        status: 4 * ring,
    }
}

/// A tenant makes packets of the frames of those that it dropped, also before
/// its word on these was looked at.
#[test]
fn frames_of_what_was_dropped_are_good_for_what_is_made() {
    let mut pool = pool();
    let (mut border, files) = border(&mut pool, settings());
    let mut tenant = Honest::new(&border, &files);
    let now = Instant::now();
    border.give(&mut (1..=4).map(|n| packet(&mut pool, n)).collect(), now);
    tenant.work(|_, _| false);
    // As it is where the main side has read its word before.
    let said = tenant.status[DONE].swap(0, Ordering::Release);
    let mut meta = FrameMeta::received(Time(2), 0);
    (meta.port, meta.flags) = (2, frame_flags::EMITTED);
    tenant.make(meta, b"made");
    let mut out = Vec::new();
    border.take(&mut out, 9);
    assert_eq!((out.len(), border.offence()), (1, None));
    tenant.status[DONE].store(said, Ordering::Release);
    border.take(&mut out, 9);
    assert_eq!((out.len(), border.offence()), (1, None));
    let counts = *border.counts();
    assert_eq!((counts.dropped, counts.made, counts.went), (4, 1, 1));
    all_back(&mut pool, &mut border, out);
}

/// Under load, and with as little patience as there is between interfaces.
#[test]
fn nobody_is_ended_for_starting_and_it_hears_what_it_missed() {
    let mut pool = pool();
    let live = BorderSettings {
        waits_for_start: false,
        most_wait: Duration::from_millis(20),
        ..settings()
    };
    let mut border = Border::new(live, pool.memory());
    let first = tenant(&pool);
    let files = first.files().clone();
    border.admit(first);
    let mut now = Instant::now();
    let mut out = Vec::new();
    let mut n = 0;
    // More notices than its ring holds, and more of all than the window does.
    for _ in 0..1_000 {
        let mut frames = vec![
            packet(&mut pool, n + 1),
            notice(&mut pool, n + 2),
            passing(&mut pool, n + 3),
        ];
        n += 3;
        assert_eq!(border.give(&mut frames, now), 3);
        now += Duration::from_millis(5);
        border.mind(now);
        assert_eq!(border.take(&mut out, 100), 2, "nobody waits for it");
        pool.give_all(&mut out);
        border.settle(&mut pool);
    }
    let counts = *border.counts();
    assert_eq!((border.offence(), counts.gone), (None, 1_000));
    assert_eq!(
        (counts.came, counts.went, counts.told_bytes),
        (2_000, 1_000, 0)
    );
    // When it is ready it is told all of it, in order, before it is lent
    // anything.
    border.begin();
    let mut honest = Honest::new(&border, &files);
    let mut said = Vec::new();
    for turn in 0.. {
        honest.work(|memory, frame| {
            let meta = memory.meta(frame);
            said.push((meta.sequence, meta.kind == FrameKind::Notice));
            meta.sequence % 2 == 0
        });
        border.hear();
        if said.len() == 1_000 {
            break;
        }
        assert!(turn < 10, "{}", said.len());
    }
    assert!(said.iter().all(|(_, notice)| *notice));
    assert!(said.is_sorted_by(|a, b| a.0 < b.0));
    assert_eq!(border.give(&mut vec![packet(&mut pool, n + 1)], now), 1);
    assert_eq!(
        honest.work(|_, frame| {
            let _ = frame;
            false
        }),
        1
    );
    border.hear();
    let counts = *border.counts();
    assert_eq!(
        (border.offence(), counts.dropped, counts.told_bytes),
        (None, 1, 60_000)
    );
    border.close();
    assert_eq!(border.take(&mut out, 9), 0);
    assert!(border.is_over());
    all_back(&mut pool, &mut border, out);
}

/// Its packets wait in a run of captures, for as long as the budget lasts, which
/// one that is new has a little of in any case.
#[test]
fn captures_wait_for_a_start_by_the_budget() {
    let mut pool = pool();
    let (mut border, _files) = border(&mut pool, settings());
    border.expel();
    border.admit(tenant(&pool));
    let mut now = Instant::now();
    let mut frames = vec![packet(&mut pool, 1)];
    assert_eq!(border.give(&mut frames, now), 0);
    now += Duration::from_millis(900);
    assert_eq!(border.give(&mut frames, now), 0);
    now += Duration::from_millis(200);
    assert_eq!(border.give(&mut frames, now), 1);
    assert_eq!((border.counts().gone, border.credit), (1, Duration::ZERO));
    border.begin();
    assert_eq!(border.credit, SUCCESSOR_CREDIT);
    all_back(&mut pool, &mut border, Vec::new());
}

/// It gives back one packet at a time, as late as it can without standing still.
#[test]
fn what_passes_does_not_wait_for_drops_one_by_one() {
    let mut pool = pool();
    let (mut border, files) = border(&mut pool, settings());
    let mut tenant = Honest::new(&border, &files);
    let begin = Instant::now();
    let mut now = begin;
    let mut frames: Vec<Frame> = (1..=100).map(|n| packet(&mut pool, n)).collect();
    frames.push(passing(&mut pool, 101));
    assert_eq!(border.give(&mut frames, now), 101);
    let mut theirs = Vec::new();
    tenant.input.take(&mut theirs, 1_000);
    theirs.reverse();
    let mut out = Vec::new();
    while out.is_empty() {
        now += Duration::from_millis(100);
        border.mind(now);
        assert!(!border.is_stalled(now));
        // It drops one.
        tenant.pool.give(theirs.pop().unwrap());
        tenant.done += 1;
        tenant.status[DONE].store(tenant.done, Ordering::Release);
        border.take(&mut out, 9);
    }
    let waited = now - begin;
    assert!(
        waited <= settings().most_wait + Duration::from_millis(300),
        "{waited:?}"
    );
    let counts = *border.counts();
    assert_eq!((border.offence(), counts.went), (None, 1));
    assert_eq!(counts.dropped + counts.stalled, 100);
    // Its treatment of the others does not matter, but they are given back.
    tenant.output.give(&mut theirs);
    tenant.done = 100;
    tenant.status[DONE].store(tenant.done, Ordering::Release);
    border.take(&mut out, 9);
    assert_eq!((border.offence(), out.len()), (None, 1));
    // One that is quick enough is not charged, though there is always something
    // that waits.
    let credit = border.credit;
    for n in 0..100 {
        let mut frames = vec![
            packet(&mut pool, 102 + 2 * n),
            passing(&mut pool, 103 + 2 * n),
        ];
        border.give(&mut frames, now);
        now += GRACE / 2;
        border.mind(now);
        if n % 2 == 0 {
            continue;
        }
        tenant.work(|_, _| false);
        border.take(&mut out, 9);
    }
    assert!(border.credit >= credit, "{:?} {credit:?}", border.credit);
    all_back(&mut pool, &mut border, out);
}

#[test]
fn one_that_hangs_is_found_out_when_nobody_waits_for_it_any_more() {
    let mut pool = pool();
    let (mut border, _files) = border(&mut pool, settings());
    let now = Instant::now();
    border.give(&mut vec![packet(&mut pool, 1), passing(&mut pool, 2)], now);
    assert!(!border.is_stalled(now));
    border.mind(now);
    border.mind(now + Duration::from_secs(2));
    let mut out = Vec::new();
    assert_eq!((border.take(&mut out, 9), border.waiting), (1, 0));
    assert!(border.is_stalled(now + STALL + Duration::from_secs(1)));
    all_back(&mut pool, &mut border, out);
}

/// It gives all back, and never says that it is done with anything.
#[test]
fn what_it_is_lent_is_bounded_though_it_says_nothing() {
    let mut pool = pool();
    let (mut border, files) = border(&mut pool, settings());
    let mut tenant = Honest::new(&border, &files);
    let mut now = Instant::now();
    let mut out = Vec::new();
    for n in 0..100u64 {
        let mut frames = (1..=64).map(|i| packet(&mut pool, n * 64 + i)).collect();
        while border.give(&mut frames, now) > 0 {}
        pool.give_all(&mut frames);
        now += Duration::from_millis(1);
        tenant.work(|memory, frame| {
            memory.meta_mut(frame).next = 5;
            true
        });
        tenant.status[DONE].store(0, Ordering::Release);
        border.take(&mut out, 1_000);
        pool.give_all(&mut out);
        border.settle(&mut pool);
    }
    assert_eq!((border.lent.len(), border.offence()), (MOST_LENT, None));
    assert!(!border.is_stalled(now));
    assert!(border.is_stalled(now + 2 * STALL));
    all_back(&mut pool, &mut border, out);
}
