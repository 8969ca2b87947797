//! Any two byte streams as an application protocol: messages do not depend on how the streams are cut, nor
//! on snapshots and restores between the pieces, and a state stays within its bounds.
//!
//! An input is a byte that says how to cut, then pieces: a byte that says who sends (bit 0) and whether
//! bytes are lost before it (bit 7), the length in two bytes, the bytes. A target puts an opening in front
//! that leads into its parser.

use weir_dissect::{Dissector, Limits, Message, Phase, Protocol, Scratch};

use crate::input::Input;

/// Bounds that are reached often.
const LIMITS: Limits = Limits {
    head: 400,
    body: 300,
};

struct Piece<'a> {
    to_server: bool,
    lost: bool,
    bytes: &'a [u8],
}

/// HTTP and its compressed bodies.
pub fn http(data: &[u8]) {
    check(data, Protocol::Http, b"GET / HTTP/1.1\r\n\r\n", true);
}

/// DNS on TCP and, with the same bytes, on UDP.
pub fn dns(data: &[u8]) {
    const QUERY: &[u8] =
        b"\0\x1d\x12\x34\x01\0\0\x01\0\0\0\0\0\0\x03www\x07example\x03org\0\0\x01\0\x01";
    check(data, Protocol::Dns, QUERY, true);
    let (mut dissector, mut scratch) = (Dissector::new(), Scratch::default());
    let query = QUERY.get(2..).unwrap_or(&[]);
    dissector.datagram(true, query, &mut scratch, &mut |_| {});
    for piece in pieces(data).1 {
        dissector.datagram(piece.to_server, piece.bytes, &mut scratch, &mut |_| {});
    }
}

/// TLS.
pub fn tls(data: &[u8]) {
    check(data, Protocol::Tls, b"\x16\x03\x01\0\x04\x01\0\0\0", true);
}

/// SSH.
pub fn ssh(data: &[u8]) {
    check(data, Protocol::Ssh, b"SSH-2.0-x\r\n", true);
}

/// SMTP.
pub fn smtp(data: &[u8]) {
    check(data, Protocol::Smtp, b"220 x ESMTP\r\n", false);
}

/// FTP.
pub fn ftp(data: &[u8]) {
    check(data, Protocol::Ftp, b"220 FTP\r\n", false);
}

fn pieces(data: &[u8]) -> (u64, Vec<Piece<'_>>) {
    let mut input = Input(data);
    let seed = u64::from(input.u8());
    let mut pieces = Vec::new();
    while !input.is_empty() && pieces.len() < 32 {
        let how = input.u8();
        pieces.push(Piece {
            to_server: how & 1 == 0,
            lost: how & 0x80 != 0,
            bytes: input.chunk(),
        });
    }
    (seed, pieces)
}

fn check(data: &[u8], protocol: Protocol, opening: &[u8], to_server: bool) {
    let (seed, mut pieces) = pieces(data);
    let opening = Piece {
        to_server,
        lost: false,
        bytes: opening,
    };
    pieces.insert(0, opening);
    let whole = messages(&pieces, protocol, None);
    let cut = messages(&pieces, protocol, Some(seed * 2 + 1));
    assert_eq!(whole, cut, "messages depend on cuts");
}

fn messages(pieces: &[Piece<'_>], protocol: Protocol, mut seed: Option<u64>) -> Vec<String> {
    let mut found = Vec::new();
    let mut take = |message: &Message<'_>| found.extend(text(message));
    let (mut dissector, mut scratch) = (Dissector::new(), Scratch::default());
    for (number, piece) in pieces.iter().enumerate() {
        if piece.lost {
            dissector.gap(piece.to_server, 5, &LIMITS, &mut scratch, &mut take);
        }
        let mut rest = piece.bytes;
        while !rest.is_empty() {
            let count = seed.as_mut().map_or(rest.len(), below);
            let (bytes, behind) = rest.split_at(count.min(rest.len()));
            rest = behind;
            dissector.stream(piece.to_server, bytes, &LIMITS, &mut scratch, &mut take);
            if seed.as_mut().is_some_and(|seed| below(seed) == 1) {
                dissector = again(&dissector, &mut scratch);
            }
        }
        if number == 0 {
            assert_eq!(dissector.protocol(), Some(protocol));
        }
    }
    for to_server in [true, false] {
        dissector.end(to_server, &LIMITS, &mut scratch, &mut take);
    }
    found
}

/// 1 to 8.
fn below(seed: &mut u64) -> usize {
    *seed ^= *seed << 13;
    *seed ^= *seed >> 7;
    *seed ^= *seed << 17;
    1 + (*seed >> 11) as usize % 8
}

/// The state as it is after a move.
fn again(dissector: &Dissector, scratch: &mut Scratch) -> Dissector {
    let mut saved = Vec::new();
    dissector.save(&mut saved);
    assert!(saved.len() <= LIMITS.snapshot_bytes());
    let loaded = Dissector::load(&saved, &LIMITS, scratch).expect("what was saved can be loaded");
    assert_eq!(&loaded, dissector);
    loaded
}

/// What must not depend on cuts.
fn text(message: &Message<'_>) -> Option<String> {
    let values: Vec<_> = message.values().collect();
    let whole = message.phase == Phase::Head || message.last;
    whole.then(|| {
        let fields: Vec<_> = values
            .iter()
            .map(|v| (v.field, v.bytes, v.complete))
            .collect();
        let (numbers, notices) = (message.numbers(), message.notices());
        format!(
            "{:?} {:?} {fields:?} {numbers:?} {notices:?}",
            message.to_server, message.phase
        )
    })
}

/// Beginnings of conversations, by target.
pub(crate) fn seeds() -> Vec<(&'static str, Vec<u8>)> {
    const SEEDS: [(&str, &[&[u8]]); 6] = [
        (
            "dissect_http",
            &[
                b"POST /%41/../b?c=%zz HTTP/1.1\r\nHost: A.b:8\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
                b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 25\r\n\r\n\x1f\x8b\x08\0\0\0\0\0\0\x03\x4b\x4c\x4a\x06\0\xc2\x41\x24\x35\x03\0\0\0HTTP/1.1 204 N\r\n\r\n",
            ],
        ),
        (
            "dissect_dns",
            &[b"\0\x1d\x12\x34\x01\0\0\x01\0\0\0\0\0\0\x03www\xc0\x0c\0\x01\0\x01", b"\0\x20\x12\x34\x81\x80\0\x01\0\x01\0\0\0\0\x01a\0\0\x01\0\x01\xc0\x0c\0\x01\0\x01\0\0\0\0\0\x04\x01\x02\x03\x04"],
        ),
        (
            "dissect_tls",
            &[
                b"\x16\x03\x01\0\x2f\x01\0\0\x2b\x03\x03aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\0\0\x02\x13\x01\x01\0\0\0",
                b"\x16\x03\x03\0\x0e\x0b\0\0\x0a\0\0\x07\0\0\x04\x30\x02\x30\0",
            ],
        ),
        ("dissect_ssh", &[b"", b"hello\r\nSSH-2.0-OpenSSH_9.2 x\r\n"]),
        (
            "dissect_smtp",
            &[b"EHLO x\r\nMAIL FROM:<a@b>\r\nDATA\r\n..a\r\n.\r\nBDAT 3 LAST\r\nabcSTARTTLS\r\n", b"354 go\r\n334 x\r\n550 no\r\n"],
        ),
        ("dissect_ftp", &[b"USER a\r\nSTOR b c\r\nAUTH TLS\r\n", b"230-x\r\n234 ok\r\n"]),
    ];
    let mut seeds = Vec::new();
    for (target, texts) in SEEDS {
        let mut input = vec![7];
        for (side, text) in texts.iter().enumerate() {
            input.push(side as u8);
            input.extend((text.len() as u16).to_be_bytes());
            input.extend(*text);
        }
        seeds.push((target, input));
    }
    seeds
}
