//! No bytes make a parser or a snapshot panic, and messages do not depend on cuts there either.

mod common;

use common::{Flow, Run, messages};
use proptest::prelude::*;
use weir_dissect::{Dissector, Limits, Scratch};

/// Beginnings that lead into each parser, and pieces of each protocol.
const PIECES: [&[u8]; 22] = [
    b"GET /%41/../x?y=%zz HTTP/1.1\r\nHost: A.b:8\r\n",
    b"POST / HTTP/1.1\r\nContent-Length: 5\r\n\r\n",
    b"Transfer-Encoding: chunked\r\nContent-Encoding: gzip, br\r\n\r\n",
    b"HTTP/1.1 200 OK\r\n",
    b"Content-Encoding: deflate\r\nContent-Length: 9\r\n\r\n",
    b"5\r\nhello\r\n0\r\n\r\n",
    b"\x1f\x8b\x08\0\0\0\0\0\0\x03",
    b"\0\x1d\x12\x34\x01\0\0\x01\0\0\0\0\0\0\x03www\x07example\x03org\0\0\x01\0\x01",
    b"\0\x1d\x12\x34\x81\x80\0\x01\0\x01\0\0\0\0\xc0\x0c\x03www",
    b"\x16\x03\x01\0\x30\x01\0\0\x2c\x03\x03",
    b"\x16\x03\x03\0\x30\x02\0\0\x2c\x03\x03",
    b"\x0b\0\0\x0a\0\0\x07\0\0\x04\x30\x02\x30\0",
    b"\x14\x03\x03\0\x01\x01",
    b"SSH-2.0-OpenSSH_9.2 x\r\n",
    b"220 mail ESMTP\r\n",
    b"EHLO x\r\nMAIL FROM:<a@b>\r\nDATA\r\n",
    b"354 go\r\n",
    b"text\r\n..dot\r\n.\r\nBDAT 3 LAST\r\n",
    b"220 FTP\r\n",
    b"USER a\r\nPASS b\r\n",
    b"234 ok\r\n",
    b"\r\n\r\n",
];

fn bytes() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        4 => (0..PIECES.len()).prop_map(|at| PIECES[at].to_vec()),
        1 => proptest::collection::vec(any::<u8>(), 0..60),
    ];
    proptest::collection::vec(piece, 1..6).prop_map(|pieces| pieces.concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn garbage_is_read_the_same_in_pieces(
        pieces in proptest::collection::vec((any::<bool>(), bytes()), 1..6),
        seed in 1..u64::MAX,
        small in any::<bool>(),
    ) {
        let limits = if small { Limits { head: 60, body: 10 } } else { Limits::default() };
        let flow = Flow { tcp: true, pieces, ..Flow::default() };
        let whole = messages(&flow, Run { limits, seed: None });
        prop_assert_eq!(&whole, &messages(&flow, Run { limits, seed: Some(seed) }));
        let datagrams = Flow { tcp: false, ..flow };
        messages(&datagrams, Run { limits, seed: None });
    }

    #[test]
    fn gaps_anywhere_are_survived(
        pieces in proptest::collection::vec((any::<bool>(), bytes(), 0..100u64), 1..8),
    ) {
        let (mut dissector, mut scratch) = (Dissector::new(), Scratch::default());
        let limits = Limits::default();
        let mut take = |message: &weir_dissect::Message<'_>| { let _ = common::text(message); };
        for (to_server, bytes, gap) in &pieces {
            dissector.stream(*to_server, bytes, &limits, &mut scratch, &mut take);
            if *gap < 30 {
                dissector.gap(*to_server, *gap + 1, &limits, &mut scratch, &mut take);
            }
        }
        for to_server in [true, false] {
            dissector.end(to_server, &limits, &mut scratch, &mut take);
        }
    }

    #[test]
    fn snapshots_that_were_changed_are_refused_or_read(
        pieces in proptest::collection::vec((any::<bool>(), bytes()), 1..4),
        changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..6),
        cut in any::<prop::sample::Index>(),
    ) {
        let (mut dissector, mut scratch) = (Dissector::new(), Scratch::default());
        let limits = Limits::default();
        let mut take = |_: &weir_dissect::Message<'_>| {};
        for (to_server, bytes) in &pieces {
            dissector.stream(*to_server, bytes, &limits, &mut scratch, &mut take);
        }
        let mut saved = Vec::new();
        dissector.save(&mut saved);
        for (at, byte) in &changes {
            let at = at.index(saved.len());
            saved[at] = *byte;
        }
        if changes.len() % 2 == 1 {
            saved.truncate(cut.index(saved.len()));
        }
        if let Ok(mut dissector) = Dissector::load(&saved, &limits, &mut scratch) {
            for (to_server, bytes) in &pieces {
                dissector.stream(*to_server, bytes, &limits, &mut scratch, &mut take);
                dissector.gap(*to_server, 3, &limits, &mut scratch, &mut take);
                dissector.end(*to_server, &limits, &mut scratch, &mut take);
            }
        }
    }
}
