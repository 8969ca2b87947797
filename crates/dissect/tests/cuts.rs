//! Messages do not depend on how the streams are cut, nor on snapshots between the pieces: real flows, and bounds met exactly.

mod common;

use common::{Flow, Run, messages};
use weir_dissect::Limits;

#[test]
fn messages_do_not_depend_on_cuts_and_snapshots() {
    let Some(traces) = common::traces::traces() else {
        return;
    };
    let small = Limits {
        head: 300,
        body: 1000,
    };
    let (mut flows, mut seen) = (0, 0);
    for file in common::captures(&traces) {
        if std::fs::metadata(&file).unwrap().len() > 1_000_000 {
            continue;
        }
        for (number, flow) in common::flows(&file).iter().enumerate() {
            if flow.pieces.is_empty() || number > 40 {
                continue;
            }
            flows += 1;
            for limits in [Limits::default(), small] {
                let whole = messages(flow, Run { limits, seed: None });
                let seed = flows as u64 * 0x9e37_79b9 + 1;
                let cut = messages(
                    flow,
                    Run {
                        limits,
                        seed: Some(seed),
                    },
                );
                seen += whole.len();
                for (whole, cut) in whole.iter().zip(&cut) {
                    assert_eq!(whole, cut, "{} flow {number} seed {seed}", file.display());
                }
                assert_eq!(
                    whole.len(),
                    cut.len(),
                    "{} flow {number} seed {seed}",
                    file.display()
                );
            }
        }
    }
    assert!(flows > 900 && seen > 3000, "{flows} flows, {seen} messages");
}

/// Checks that bytes give the same messages in any pieces, behind those that the other side `sent` before. Returns
/// the messages.
#[track_caller]
fn check_behind(sent: &[u8], (to_server, bytes): (bool, &[u8]), limits: Limits) -> Vec<String> {
    let read = |pieces: &mut dyn Iterator<Item = &[u8]>| {
        let pieces = pieces.map(|piece| (to_server, piece.to_vec()));
        let flow = Flow {
            tcp: true,
            pieces: std::iter::once((!to_server, sent.to_vec()))
                .chain(pieces)
                .collect(),
            ..Flow::default()
        };
        messages(&flow, Run { limits, seed: None })
    };
    let whole = read(&mut std::iter::once(bytes));
    for size in [1, 2, 7, 61, 1000, 5000, 10_000, 20_000] {
        assert_eq!(whole, read(&mut bytes.chunks(size)), "in pieces of {size}");
    }
    let (length, step) = (bytes.len(), bytes.len() / 300 + 1);
    for at in (1..length.min(100)).chain((1..length).rev().step_by(step)) {
        let (before, behind) = bytes.split_at(at);
        let cut = read(&mut [before, behind].into_iter());
        assert_eq!(whole, cut, "cut at {at}");
    }
    whole
}

/// The same for a client's bytes behind a server's response.
#[track_caller]
fn check(client: &[u8], limits: Limits) -> Vec<String> {
    let response = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";
    check_behind(response, (true, client), limits)
}

/// The request lines of messages.
fn requests(messages: &[String]) -> Vec<&str> {
    let lines = messages
        .iter()
        .filter(|message| message.contains(" Head\n"));
    let lines = lines.flat_map(|message| message.lines());
    lines
        .filter_map(|line| line.strip_prefix("  http.request_line true "))
        .collect()
}

fn heads(messages: &[String]) -> usize {
    let heads = messages
        .iter()
        .filter(|message| message.contains(" Head\n"));
    heads.count()
}

const SMALL: Limits = Limits { head: 60, body: 10 };
const GET: &[u8] = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n";

#[test]
fn a_line_that_may_begin_a_request_is_kept_until_it_is_junk() {
    // Line and request together are longer than a head may be.
    let junk = b"I\0\0\0\x0b\0\0\x0b\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0";
    let request = b"GET /%41/../x?y=%zz HTTP/1.1\r\nHost: A.b:8\r\n";
    let found = check(&[&junk[..], request].concat(), SMALL);
    assert_eq!(requests(&found), ["GET /%41/../x?y=%zz HTTP/1.1"]);
    assert!(found[1].ends_with("[HttpHeadCut]"), "{}", found[1]);
    // A blank line between them is none of a request.
    let found = check(&[&junk[..], b"\r\n\r", request].concat(), SMALL);
    assert_eq!(requests(&found), ["GET /%41/../x?y=%zz HTTP/1.1"]);
    let found = check(b"STRANGE x y\r\n\rGET / HTTP/1.1\r\n\r\n", SMALL);
    assert_eq!(requests(&found), ["GET / HTTP/1.1"]);
    // Only the line's end tells that it is none, and that what it has inside is a message.
    let line = [&b"COPY "[..], &[b'x'; 80], b"HTTP/1.1 200 OK\r\n\r\n"].concat();
    assert_eq!(heads(&check(&line, SMALL)), 2);
    // Such a line is kept as far as any other that is looked through.
    for length in [16_300, 16_400, 24_000, 25_000] {
        let line = [
            b"COPY ",
            &vec![b'x'; length][..],
            b"HTTP/1.1 200 OK\r\n\r\n",
        ]
        .concat();
        let found = check(&[GET, &line].concat(), Limits::default());
        assert_eq!(heads(&found), 2 + usize::from(length < 16_384), "{length}");
    }
}

#[test]
fn the_rest_of_a_line_that_is_too_long_is_passed() {
    // In the rest there would be a request.
    let long = [&b"GET /"[..], &[b'x'; 70], b"\0POST /no HTTP/1.1\r\n\r\n"].concat();
    let found = check(&[GET, &long, b"\0", GET].concat(), SMALL);
    assert_eq!(requests(&found), ["GET / HTTP/1.1"; 2]);
    let junk = [&[0; 17_000][..], b"POST /no HTTP/1.1\r\n\r\n"].concat();
    let found = check(&[GET, &junk, GET].concat(), Limits::default());
    assert_eq!(requests(&found), ["GET / HTTP/1.1"; 2]);
    // A request behind junk has the bound of any other.
    let long = [&b"\0GET /"[..], &[b'x'; 70], b" HTTP/1.1\r\n\r\n"].concat();
    let found = check(&[&long[..], GET].concat(), SMALL);
    assert_eq!(requests(&found), ["GET / HTTP/1.1"]);
}

#[test]
fn a_strange_method_has_a_bound_however_it_comes() {
    for (length, known) in [(8_000, true), (9_000, false)] {
        let line = [&b"STRANGE /"[..], &vec![b'x'; length], b" HTTP/1.1\r\n\r\n"].concat();
        let found = check(&[GET, &line, GET].concat(), Limits::default());
        assert_eq!(requests(&found).len(), 2 + usize::from(known));
    }
    // A direction that was never HTTP is given up behind so many bytes.
    let line = [&b"STRANGE "[..], &[b'x'; 4_100], b"\r\n"].concat();
    assert_eq!(
        check(&[&line[..], GET].concat(), Limits::default()).len(),
        1
    );
}

#[test]
fn the_end_of_a_head_that_is_too_long_may_be_cut() {
    for size in 58..66 {
        let mut head = b"POST / HTTP/1.1\r\nContent-Length: 3\r\nX: ".to_vec();
        head.resize(size - 4, b'x');
        head.extend(b"\r\n\r\n");
        let found = check(&[&head, &b"abc"[..], GET].concat(), SMALL);
        assert_eq!(requests(&found), ["POST / HTTP/1.1", "GET / HTTP/1.1"]);
        assert!(found[2].contains("http.request_body true abc"), "{size}");
    }
}

#[test]
fn a_compressed_body_of_a_request_is_kept_as_far_when_it_decompresses_to_too_much() {
    let coded = miniz_oxide::deflate::compress_to_vec_zlib(&vec![0; 4 << 20], 9);
    let head = format!(
        "POST / HTTP/1.1\r\nContent-Encoding: deflate\r\nContent-Length: {}\r\n\r\n",
        coded.len()
    );
    check(&[head.as_bytes(), &coded, GET].concat(), Limits::default());
}

#[test]
fn a_server_that_has_spoken_has_a_head_in_front_of_a_body() {
    // A tunnel, which may carry HTTP again.
    let requests = [b"CONNECT a:80 HTTP/1.1\r\n\r\n", GET].concat();
    let server = b"\0HTTP/1.1 200 OK\r\n\r\n\r\ntext";
    let found = check_behind(&requests, (false, server), Limits::default());
    assert_eq!(heads(&found), 3, "{found:#?}");
}

#[test]
fn a_state_behind_a_long_line_can_be_read_again() {
    // The response would be a head that is longer than a head may be, and its body goes on.
    let server = [
        b"\0HTTP/1.1 200 ",
        &[b'x'; 70][..],
        b"\r\n\r\n",
        &[b'y'; 400],
    ]
    .concat();
    let flow = Flow {
        tcp: true,
        pieces: vec![(true, GET.to_vec()), (false, server)],
        ..Flow::default()
    };
    for seed in 1..60 {
        let run = Run {
            limits: SMALL,
            seed: Some(seed),
        };
        assert_eq!(heads(&messages(&flow, run)), 1);
    }
}
