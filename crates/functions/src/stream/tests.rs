//! A stream is the same however it is cut, ordered and repeated.

use proptest::prelude::*;
use weir_nf::BufferPool;

use super::*;

/// A reader with its buffer.
struct Reader {
    state: StreamState,
    pool: BufferPool,
    handle: u64,
    limits: Limits,
    data: Vec<u8>,
    gaps: Vec<u64>,
    ends: usize,
}

impl Reader {
    fn new(limits: Limits) -> Reader {
        Reader {
            state: StreamState::default(),
            pool: BufferPool::new(1 << 18),
            handle: 0,
            limits,
            data: Vec::new(),
            gaps: Vec::new(),
            ends: 0,
        }
    }

    fn segment(&mut self, seq: u32, flags: u8, payload: &[u8]) {
        self.run(Some(Segment {
            seq,
            ack: 0,
            flags,
            payload,
            cut: 0,
        }));
    }

    fn run(&mut self, segment: Option<Segment<'_>>) {
        let mut changed = false;
        let mut buffer = self.pool.open(&mut self.handle, 1 << 18, &mut changed);
        let (data, gaps, ends) = (&mut self.data, &mut self.gaps, &mut self.ends);
        let mut position = self.state.offset();
        let mut consumer = |chunk: Chunk<'_>| match chunk {
            Chunk::Data { offset, bytes } => {
                assert_eq!(offset, position);
                assert!(!bytes.is_empty());
                position += bytes.len() as u64;
                data.extend(bytes);
            }
            Chunk::Gap(n) => {
                position += n;
                gaps.push(n);
            }
            Chunk::End => *ends += 1,
        };
        match segment {
            Some(segment) => self
                .state
                .segment(&segment, &self.limits, &mut buffer, &mut consumer),
            None => self.state.flush(&self.limits, &mut buffer, &mut consumer),
        }
    }

    fn text(&self) -> &str {
        core::str::from_utf8(&self.data).unwrap()
    }
}

#[test]
fn bytes_in_order_swapped_repeated_and_overlapping() {
    let mut reader = Reader::new(Limits::default());
    reader.segment(u32::MAX - 2, SYN, b""); // the numbers wrap around
    let first = u32::MAX - 1;
    reader.segment(first, ACK, b"GET ");
    reader.segment(first.wrapping_add(6), ACK, b"HTTP");
    assert_eq!((reader.text(), reader.state.is_waiting()), ("GET ", true));
    reader.segment(first.wrapping_add(2), ACK, b"XX/ XX"); // the first copy counts
    reader.segment(first, ACK, b"GET ");
    assert_eq!(reader.text(), "GET / HTTP");
    reader.segment(first.wrapping_add(9), ACK, b"x"); // keep-alive
    reader.segment(first.wrapping_add(10), ACK | FIN, b"/1");
    reader.segment(first.wrapping_add(12), ACK, b"beyond the end");
    assert_eq!((reader.text(), reader.ends), ("GET / HTTP/1", 1));
    assert_eq!((reader.handle, reader.gaps.len()), (0, 0));
}

#[test]
fn syn_with_data_and_late_syn() {
    let mut reader = Reader::new(Limits::default());
    reader.segment(99, SYN, b"hello");
    reader.segment(105, ACK, b" world");
    assert_eq!(reader.text(), "hello world");
    let mut reader = Reader::new(Limits::default());
    reader.segment(105, ACK, b" world");
    reader.segment(99, SYN, b"hello");
    assert_eq!(reader.text(), "hello world");
}

#[test]
fn a_stream_under_way_waits_for_its_first_bytes() {
    let mut reader = Reader::new(Limits::default());
    reader.segment(104, ACK, b"/ HTTP");
    reader.segment(100, ACK, b"GET ");
    assert_eq!(reader.text(), "");
    reader.segment(110, ACK, b"/1.1 and more");
    assert_eq!(reader.text(), "GET / HTTP/1.1 and more");
    let mut reader = Reader::new(Limits::default());
    reader.segment(100, ACK, b"short");
    assert_eq!(reader.text(), "");
    reader.run(None);
    assert_eq!((reader.text(), reader.ends), ("short", 1));
}

#[test]
fn holes_are_given_up_when_acknowledged_when_full_and_at_the_end() {
    let mut reader = Reader::new(Limits::default());
    reader.segment(0, SYN, b"");
    reader.segment(11, ACK, b"after");
    reader.state.acknowledged(16);
    assert_eq!(reader.text(), "");
    for i in 0..20 {
        reader.segment(16 + i, ACK, b".");
    }
    assert_eq!((&reader.gaps[..], reader.data.len()), (&[10][..], 25));

    let mut reader = Reader::new(Limits {
        window: 1_000,
        hold: 0,
    });
    reader.segment(0, SYN, b"");
    reader.segment(11, ACK, &[b'a'; 980]);
    assert!(reader.data.is_empty());
    reader.segment(991, ACK, &[b'b'; 20]);
    assert_eq!((&reader.gaps[..], reader.data.len()), (&[10][..], 1_000));

    let mut reader = Reader::new(Limits::default());
    reader.segment(0, SYN, b"");
    reader.segment(3, ACK, b"c");
    reader.segment(7, ACK, b"d");
    reader.run(None);
    assert_eq!((&reader.gaps[..], reader.text()), (&[2, 3][..], "cd"));
    assert_eq!((reader.handle, reader.ends), (0, 1));
}

#[test]
fn a_reset_ends_and_does_not_blind() {
    let mut reader = Reader::new(Limits::default());
    reader.segment(0, SYN, b"");
    reader.segment(1, ACK, b"one");
    reader.segment(5_000_000, RST, b"");
    assert_eq!(reader.ends, 0);
    reader.segment(4, RST, b"");
    assert_eq!(reader.ends, 1);
    reader.segment(4, ACK, b" two");
    assert_eq!((reader.text(), reader.ends), ("one two", 1));
}

#[test]
fn a_cut_segment_leaves_a_gap_at_once() {
    let mut reader = Reader::new(Limits::default());
    reader.segment(0, SYN, b"");
    reader.run(Some(Segment {
        seq: 1,
        ack: 0,
        flags: ACK,
        payload: b"abc",
        cut: 7,
    }));
    reader.segment(11, ACK, b"def");
    assert_eq!((&reader.gaps[..], reader.text()), (&[7][..], "abcdef"));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    /// Random cuts, order, repetitions and overlaps inside the window give
    /// the original stream, whole and once.
    #[test]
    fn any_segmentation_gives_the_same_stream(
        data in proptest::collection::vec(any::<u8>(), 1..3_000),
        start in any::<u32>(),
        cuts in proptest::collection::vec((0usize..3_000, 1usize..200), 0..60),
        step in 1usize..120,
        order in any::<u64>(),
        reach in 1usize..12,
    ) {
        let mut pieces: Vec<(usize, usize)> = (0..data.len())
            .step_by(step)
            .map(|at| (at, (at + step).min(data.len())))
            .collect();
        for &(at, len) in &cuts {
            let at = at % data.len();
            let place = (at / step + 1).min(pieces.len());
            pieces.insert(place, (at, (at + len).min(data.len())));
        }
        let mut seed = order;
        for i in 0..pieces.len() {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let j = (i + (seed >> 33) as usize % reach).min(pieces.len() - 1);
            pieces.swap(i, j);
        }
        let mut reader = Reader::new(Limits::default());
        reader.segment(start.wrapping_sub(1), SYN, b"");
        for &(from, to) in &pieces {
            reader.segment(start.wrapping_add(from as u32), ACK, &data[from..to]);
        }
        reader.segment(start.wrapping_add(data.len() as u32), ACK | FIN, b"");
        prop_assert_eq!(&reader.data, &data);
        prop_assert_eq!(reader.gaps.len(), 0);
        prop_assert_eq!((reader.ends, reader.handle), (1, 0));
    }

    /// For any segments nothing panics, positions add up and the buffer is
    /// given back.
    #[test]
    fn any_segments_at_all(
        segments in proptest::collection::vec(
            (any::<bool>(), any::<u32>(), any::<u8>(), 0usize..400, 0u32..50), 1..200),
        near in any::<u32>(),
    ) {
        let payload = [7u8; 400];
        let mut reader = Reader::new(Limits { window: 2_000, hold: 16 });
        for &(far, seq, flags, len, ack) in &segments {
            let seq = if far { seq } else { near.wrapping_add(seq % 4_000) };
            reader.state.acknowledged(near.wrapping_add(ack * 100));
            reader.segment(seq, flags, &payload[..len]);
        }
        reader.run(None);
        prop_assert_eq!(reader.handle, 0);
    }
}
