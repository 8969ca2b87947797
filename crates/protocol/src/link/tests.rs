use weir_packet::{FrameMeta, MemoryLayout};

use super::*;
use crate::heartbeat::Beat;

const KEY: Key = Key([9; 16]);
const MS: u64 = 1_000_000;

fn settings() -> LinkSettings {
    LinkSettings {
        key: KEY,
        network: 77,
        stream: StreamSettings::DEFAULT,
        beats: HeartbeatSettings::default(),
        grace: 0,
    }
}

/// What becomes of a datagram of an end.
type Network<'a> = dyn FnMut(usize, &[u8]) -> Vec<Vec<u8>> + 'a;

/// Two ends, and a network that may do something to each datagram.
struct Pair {
    ends: [Link; 2],
    pools: [FramePool; 2],
    frames: [Vec<Frame>; 2],
    now: Time,
}

impl Pair {
    fn new() -> Pair {
        let (a, b) = (ProcessStart(1), ProcessStart(2));
        let pool = || {
            FramePool::with_layout(MemoryLayout {
                small_frames: 64,
                large_frames: 4,
                ..MemoryLayout::default()
            })
        };
        Pair {
            ends: [
                Link::new(Time(MS), a, b, settings()),
                Link::new(Time(MS), b, a, settings()),
            ],
            pools: [pool(), pool()],
            frames: [Vec::new(), Vec::new()],
            now: Time(MS),
        }
    }

    /// A step of 0.1 ms: what each has to say goes through `network`, which gives the
    /// datagrams that come.
    fn step(&mut self, network: &mut Network<'_>) {
        self.now = self.now.plus(MS / 10);
        for from in 0..2 {
            let mut batch = Batch::default();
            self.ends[from].poll(self.now, &mut batch);
            self.deliver(from, &batch, network);
        }
    }

    fn deliver(&mut self, from: usize, batch: &Batch, network: &mut Network<'_>) {
        let to = 1 - from;
        for datagram in batch.iter() {
            for comes in network(from, datagram) {
                let (pool, frames) = (&mut self.pools[to], &mut self.frames[to]);
                let _ = self.ends[to].receive(self.now, pool, &comes, frames);
            }
        }
    }
}

fn all(_: usize, datagram: &[u8]) -> Vec<Vec<u8>> {
    vec![datagram.to_vec()]
}

#[test]
fn messages_and_packets_of_any_length_arrive() {
    let mut pair = Pair::new();
    let long = vec![5; 200_000];
    for bytes in [&b"short"[..], &[3; 9_000], &long] {
        let mut meta = FrameMeta::received(Time(5), bytes.len() as u32);
        (meta.unit, meta.view, meta.clock) = (3, 1 << 50, 1 << 44);
        let frame = pair.pools[0].copy(bytes, meta).unwrap();
        let memory = pair.pools[0].memory().clone();
        let mut batch = Batch::default();
        pair.ends[0].send_frames(&memory, std::slice::from_ref(&frame), &mut batch);
        pair.deliver(0, &batch, &mut all);
        pair.pools[0].give(frame);
    }
    for message in [&b"one"[..], &[7; 100_000], b""] {
        assert!(pair.ends[0].send(message));
    }
    let mut messages = Vec::new();
    for _ in 0..200 {
        pair.step(&mut all);
        let (pool, frames) = (&mut pair.pools[1], &mut pair.frames[1]);
        while let Some(message) = pair.ends[1].poll_message(pool, frames) {
            messages.push(message.len());
        }
    }
    assert_eq!(messages, [3, 100_000, 0]);
    let memory = pair.pools[1].memory().clone();
    let lengths = pair.frames[1].iter().map(|f| memory.bytes(f).len());
    assert_eq!(lengths.collect::<Vec<_>>(), [5, 9_000, 200_000]);
    for frame in &pair.frames[1] {
        let meta = memory.meta(frame);
        assert_eq!((meta.unit, meta.view, meta.clock), (3, 1 << 50, 1 << 44));
    }
    assert_eq!(pair.ends[0].counts().get(LinkCount::LongSent), 1);
    assert!(pair.ends[0].is_idle() && pair.ends[0].round_trip().is_some());
}

#[test]
fn silence_in_one_direction_is_told_from_both() {
    let mut pair = Pair::new();
    for _ in 0..100 {
        pair.step(&mut all);
    }
    assert!(!pair.ends[0].is_silent() && !pair.ends[1].is_silent());
    let mut one_way = |from: usize, datagram: &[u8]| match from {
        0 => all(0, datagram),
        _ => Vec::new(),
    };
    for _ in 0..100 {
        pair.step(&mut one_way);
    }
    // The second is heard by nobody, and hears that.
    assert!(pair.ends[0].is_silent() && pair.ends[1].is_silent());
}

#[test]
fn gauges_ride_on_beats_and_old_beats_say_nothing() {
    let mut pair = Pair::new();
    let mut kept: Vec<Vec<u8>> = Vec::new();
    let gauges = |ends| Gauges {
        packet_time: Time(99),
        ends,
    };
    pair.ends[0].set_gauges(gauges(4));
    for _ in 0..20 {
        pair.step(&mut |from, datagram| {
            if from == 0 {
                kept.push(datagram.to_vec());
            }
            all(from, datagram)
        });
    }
    assert_eq!(pair.ends[1].told(), gauges(4));
    pair.ends[0].set_gauges(gauges(5));
    for _ in 0..20 {
        pair.step(&mut |from, datagram| {
            if from == 0 {
                kept.push(datagram.to_vec());
            }
            all(from, datagram)
        });
    }
    // The newest one, too, where it comes twice.
    for datagram in kept.iter().rev() {
        let (pool, frames) = (&mut pair.pools[1], &mut pair.frames[1]);
        let again = pair.ends[1].receive(pair.now, pool, datagram, frames);
        assert_eq!(again, Err(LinkReject::Old));
    }
    assert_eq!(pair.ends[1].told(), gauges(5));
}

/// Every change of any datagram is refused, and of another cluster or another pair.
#[test]
fn what_is_changed_or_of_others_is_refused() {
    let mut pair = Pair::new();
    let mut datagrams: Vec<Vec<u8>> = Vec::new();
    assert!(pair.ends[0].send(b"message"));
    let frame = pair.pools[0]
        .copy(b"packet", FrameMeta::received(Time(1), 6))
        .unwrap();
    let memory = pair.pools[0].memory().clone();
    let mut batch = Batch::default();
    pair.ends[0].send_frames(&memory, std::slice::from_ref(&frame), &mut batch);
    datagrams.extend(batch.iter().map(<[u8]>::to_vec));
    batch.clear();
    pair.ends[0].poll(Time(9 * MS), &mut batch);
    datagrams.extend(batch.iter().map(<[u8]>::to_vec));
    assert_eq!(datagrams.len(), 3, "data, beat, stream");
    for datagram in &datagrams {
        for at in 0..datagram.len() {
            // Reserved octets and the network's number are nobody's business, nor are
            // Ethernet addresses, nor the TTL of a service header.
            let free = at != 3 && (at < 20 || matches!(at, 22 | 23));
            let mut changed = datagram.clone();
            changed[at] ^= 0x10;
            let (pool, frames) = (&mut pair.pools[1], &mut pair.frames[1]);
            let taken = pair.ends[1].receive(pair.now, pool, &changed, frames);
            assert!(free || taken.is_err(), "octet {at} of {datagram:?}");
        }
        for len in 0..datagram.len() {
            let (pool, frames) = (&mut pair.pools[1], &mut pair.frames[1]);
            let cut = datagram.get(..len).unwrap();
            assert!(pair.ends[1].receive(pair.now, pool, cut, frames).is_err());
        }
    }
    let mut other = settings();
    other.key = Key([8; 16]);
    let mut stranger = Link::new(Time(MS), ProcessStart(1), ProcessStart(2), other);
    let mut third = Link::new(Time(MS), ProcessStart(3), ProcessStart(2), settings());
    for link in [&mut stranger, &mut third] {
        let mut batch = Batch::default();
        link.poll(Time(9 * MS), &mut batch);
        for datagram in batch.iter() {
            let (pool, frames) = (&mut pair.pools[1], &mut pair.frames[1]);
            assert!(
                pair.ends[1]
                    .receive(pair.now, pool, datagram, frames)
                    .is_err()
            );
        }
    }
    pair.pools[0].give(frame);
}

#[test]
fn control_frames_are_read_as_they_were_written() {
    let head = Head {
        source: ProcessStart(7),
        destination: ProcessStart(0),
        number: 3,
    };
    let gauges = Gauges {
        packet_time: Time(u64::MAX),
        ends: 9,
    };
    for control in [
        Control::Beat(Beat { hears: true }, gauges),
        Control::Beat(Beat { hears: false }, Gauges::default()),
        Control::Hello(b"{}"),
        Control::Welcome,
        Control::Gone(b"it died"),
    ] {
        let batch = control::datagram(5, &KEY, head, control);
        let datagram = batch.iter().next().unwrap();
        let frame = control::unwrap(datagram).unwrap();
        assert_eq!(control::read(&KEY, frame), Ok((head, control)));
        assert_eq!(control::read(&Key([0; 16]), frame), Err(LinkReject::Code));
    }
}
