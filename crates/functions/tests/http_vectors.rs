//! Messages of llhttp's test suite, read whole and in pieces.

mod support;

use std::path::Path;

use proptest::prelude::*;
use weir_dissect::http::head::{RequestHead, ResponseHead};
use weir_dissect::http::message::{HeadAt, MessageState, Step};

/// A message as far as both sides tell it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Message {
    method: String,
    url: String,
    status: u16,
    body: Vec<u8>,
}

/// Reads a stream in pieces of `size` bytes.
fn read(input: &[u8], size: usize) -> Vec<Message> {
    read_pieces(input.chunks(size))
}

fn read_pieces<'a>(pieces: impl Iterator<Item = &'a [u8]>) -> Vec<Message> {
    let mut state = MessageState::default();
    let mut messages: Vec<Message> = Vec::new();
    let mut store = Vec::new();
    for mut piece in pieces {
        loop {
            let step = state.step(&mut piece, &mut store, 1 << 16, 1 << 12);
            let head = match step {
                Step::More => break,
                Step::Request(head) | Step::Response(head) => head,
                Step::Body(bytes) => {
                    messages.last_mut().unwrap().body.extend(bytes);
                    continue;
                }
                Step::End => continue,
                Step::TooLong => panic!("no input has a line that long"),
            };
            let bytes = match head {
                HeadAt::Packet(bytes) => bytes.to_vec(),
                HeadAt::Stored { len, whole } => {
                    assert!(whole);
                    let at = store.len() - len as usize;
                    store.split_off(at)
                }
            };
            let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
            if matches!(step, Step::Request(_)) {
                let request = RequestHead::parse(&bytes);
                messages.push(Message {
                    method: text(request.line.method),
                    url: text(request.line.target),
                    ..Message::default()
                });
                state.body(request.body());
            } else {
                let response = ResponseHead::parse(&bytes);
                messages.push(Message {
                    status: response.line.status,
                    ..Message::default()
                });
                state.body(response.body(b"GET"));
            }
        }
    }
    messages
}

/// Undoes the escapes of the suite's input blocks.
fn input_of(block: &str) -> Vec<u8> {
    let text = block.strip_suffix('\n').unwrap_or(block);
    let text = text.replace("\\\n", "").replace('\n', "\r\n");
    let mut out = Vec::new();
    let mut rest = text.as_bytes();
    while let Some((&b, tail)) = rest.split_first() {
        rest = tail;
        let escaped = match (b, tail.first()) {
            (b'\\', Some(b'r')) => b'\r',
            (b'\\', Some(b'n')) => b'\n',
            (b'\\', Some(b't')) => b'\t',
            (b'\\', Some(b'f')) => 0x0c,
            _ => {
                out.push(b);
                continue;
            }
        };
        out.push(escaped);
        rest = &tail[1..];
    }
    out
}

/// The messages that a log block tells of.
fn expected_of(log: &str) -> Vec<Message> {
    let mut messages: Vec<Message> = Vec::new();
    let mut whole = 0;
    for line in log.lines() {
        if line.ends_with("message begin") {
            messages.push(Message::default());
        }
        if line.contains("headers complete") {
            whole = messages.len();
        }
        let Some(message) = messages.last_mut() else {
            continue;
        };
        if let Some(status) = line.split("status=").nth(1) {
            let digits = status.split(' ').next().unwrap();
            message.status = digits.parse().unwrap();
        }
        let Some((name, value)) = line
            .split_once("span[")
            .and_then(|(_, rest)| rest.split_once("]="))
        else {
            continue;
        };
        let value = match value {
            "cr" => "\r".to_owned(),
            "lf" => "\n".to_owned(),
            "tab" => "\t".to_owned(),
            quoted => quoted.trim_matches('"').to_owned(),
        };
        match name {
            "method" => message.method += &value,
            "url" => message.url += &value,
            "body" => message.body.extend(value.as_bytes()),
            _ => {}
        }
    }
    // A head without its end is no message yet.
    messages.truncate(whole);
    messages
}

/// The code blocks of one kind after `text`'s start, with what follows them.
fn block<'a>(text: &'a str, kind: &str) -> Option<(&'a str, &'a str)> {
    let (_, rest) = text.split_once(&format!("```{kind}\n"))?;
    rest.split_once("```")
}

/// Vectors that say something else on purpose, by their titles.
const DIFFERENT: &[(&str, &str)] = &[
    (
        "Quotes in URI",
        "quotes are escaped differently in input and log",
    ),
    ("RTSP response", "no HTTP"),
    ("ICE response", "no HTTP"),
];

fn check(file: &Path, judged: &mut usize, wrong: &mut usize) {
    let text = std::fs::read_to_string(file).unwrap();
    for section in text.split("\n#").skip(1) {
        let title = section
            .lines()
            .next()
            .unwrap()
            .trim_start_matches('#')
            .trim();
        let mut rest = section;
        while let Some((input, after)) = block(rest, "http") {
            let Some((log, after)) = block(after, "log") else {
                break;
            };
            rest = after;
            // What the suite refuses or stops at has no one right answer.
            if log.contains("error code") || log.contains("pause") || log.contains("skip body") {
                continue;
            }
            if DIFFERENT.iter().any(|(known, _)| *known == title) {
                continue;
            }
            let (input, expected) = (input_of(input), expected_of(log));
            for size in [usize::MAX, 1, 2, 3, 7] {
                let found = read(&input, size);
                if found != expected {
                    println!(
                        "{}: {title}, {size} bytes a piece: {:?}\n  expected {expected:?}\n  found {found:?}",
                        file.display(),
                        String::from_utf8_lossy(&input)
                    );
                    *wrong += 1;
                    break;
                }
            }
            *judged += 1;
        }
    }
}

#[test]
fn messages_are_those_of_llhttp() {
    let Some(traces) = support::traces() else {
        return;
    };
    let folder = traces.join("conformance/llhttp-md");
    let (mut judged, mut wrong) = (0, 0);
    for kind in ["request", "response"] {
        let mut files: Vec<_> = std::fs::read_dir(folder.join(kind))
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .collect();
        files.sort();
        for file in files {
            check(&file, &mut judged, &mut wrong);
        }
    }
    println!("{wrong} of {judged} vectors disagree");
    assert_eq!(wrong, 0);
    assert!(judged >= 40, "too few vectors: {judged}");
}

/// What streams are made of, to come upon odd neighbours.
const PARTS: &[&[u8]] = &[
    b"GET / HTTP/1.1\r\n",
    b"POST /x HTTP/1.0\n",
    b"HEAD /y\r\n",
    b"OPTIONS\n",
    b"FOO bar HTTP/1.1\r\n",
    b"HTTP/1.1 200 OK\r\n",
    b"HTTP/1.1 304 x\r\n",
    b"Content-Length: 5\r\n",
    b"Transfer-Encoding: chunked\r\n",
    b"X: y\r\n",
    b"\r\n",
    b"\n",
    b"\r",
    b"\r\n\r\n",
    b"5\r\n",
    b"0\r\n",
    b"abcde",
    b" ",
    b"G",
    b"HTTP/",
    b"\x00\xff",
    b"UNLOCK /z HTTP/1.1\r\n\r\n",
];

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, failure_persistence: None, ..ProptestConfig::default() })]

    /// However a stream is cut, the same messages are in it.
    #[test]
    fn cuts_change_nothing(
        parts in proptest::collection::vec(0..PARTS.len(), 1..30),
        cuts in proptest::collection::vec(1usize..20, 1..20),
    ) {
        let input: Vec<u8> = parts.iter().flat_map(|&i| PARTS[i].iter().copied()).collect();
        let whole = read(&input, usize::MAX);
        prop_assert_eq!(&read(&input, 1), &whole);
        let mut rest = &input[..];
        let pieces = cuts.iter().cycle().map_while(|&cut| {
            let (piece, tail) = rest.split_at(cut.min(rest.len()));
            rest = tail;
            (!piece.is_empty()).then_some(piece)
        });
        prop_assert_eq!(&read_pieces(pieces), &whole);
    }
}
