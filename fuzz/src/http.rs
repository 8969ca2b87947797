//! Any two byte streams as HTTP: what is read does not depend on how they were
//! cut into segments, nor on the order of neighbours, nor on repetitions.

use std::sync::OnceLock;

use weir_graph::Input as ChainInput;
use weir_nf::NoSources;
use weir_nf::host::Stage;
use weir_packet::{LinkType, Side};
use weir_runtime::harness::Craft;

use crate::engine::Bench;
use crate::input::Input;
use crate::traffic::{Arrival, Step};

const CHAIN: &str = "
chain: http
flows: {max: 4, buffers: 1MiB}
nfs: [http, url-counter, url-validator]
";

/// Longest message, so that a whole one is a packet and lies in the window.
const LONGEST: usize = 1_200;

fn stage() -> &'static Stage {
    static STAGE: OnceLock<Stage> = OnceLock::new();
    STAGE.get_or_init(|| {
        let input = ChainInput {
            name: "http",
            text: CHAIN,
            kinds: weir_functions::kinds(),
            overrides: &[],
            seed: 1,
        };
        match weir_graph::load(&input, &mut NoSources) {
            Ok(mut file) => file.chains.remove(0).stage,
            Err(list) => panic!("{}", weir_graph::render(&list)),
        }
    })
}

/// What one side sends before the other does.
struct Message<'a> {
    back: bool,
    bytes: &'a [u8],
}

/// A byte that says how to cut, then messages: NUL ends a message of the
/// client, 1 one of the server.
pub fn run(data: &[u8]) {
    let mut input = Input(data);
    let seed = input.u8();
    let mut messages = Vec::new();
    let mut rest = input.0;
    while !rest.is_empty() && messages.len() < 16 {
        let end = rest.iter().position(|&b| b < 2).unwrap_or(rest.len());
        let back = rest.get(end).is_some_and(|&b| b == 1);
        let bytes = rest.get(..end.min(LONGEST)).unwrap_or(&[]);
        if !bytes.is_empty() {
            messages.push(Message { back, bytes });
        }
        rest = rest.get(end + 1..).unwrap_or(&[]);
    }
    let whole = story(&messages, |message| vec![(0, message.len())]);
    let mut random = u32::from(seed) | 1;
    let cut = story(&messages, |message| pieces(message.len(), &mut random));
    assert_eq!(whole, cut, "what was read depends on the segments");
}

/// Cuts a message: pieces of 1 to 7 bytes, some swapped with their neighbours,
/// some doubled.
fn pieces(length: usize, random: &mut u32) -> Vec<(usize, usize)> {
    let mut draw = |below: u32| {
        *random = random.wrapping_mul(0x9E37_79B1).rotate_left(9) ^ 0x55;
        (*random >> 8) % below
    };
    let mut pieces = Vec::new();
    let mut at = 0;
    while at < length {
        let end = length.min(at + 1 + draw(7) as usize);
        pieces.push((at, end));
        at = end;
    }
    for i in 1..pieces.len() {
        if draw(8) == 0 {
            pieces.swap(i - 1, i);
        } else if draw(8) == 0 {
            let again = pieces[i];
            pieces.insert(i, again);
        }
    }
    pieces
}

/// The HTTP transactions and alerts of a connection, without their times.
fn story(
    messages: &[Message<'_>],
    mut cut: impl FnMut(&[u8]) -> Vec<(usize, usize)>,
) -> Vec<String> {
    const CLIENT: &str = "10.0.0.1:40000";
    const SERVER: &str = "198.51.100.1:80";
    let mut bench = Bench::new(stage());
    let mut next = [1_000_u32, 5_000];
    let send = |bench: &mut Bench, back: bool, flags: &str, seq: u32, ack: u32, payload: &[u8]| {
        let (from, to, side) = if back {
            (SERVER, CLIENT, Side::Outside)
        } else {
            (CLIENT, SERVER, Side::Inside)
        };
        let bytes = Craft::tcp(from, to)
            .flags(flags)
            .seq(seq)
            .ack(ack)
            .payload(payload)
            .build();
        bench.step(Step::Packet(Arrival {
            side,
            link: LinkType::Ethernet,
            bytes,
            sound: true,
        }));
        bench.flush();
    };
    send(&mut bench, false, "S", next[0] - 1, 0, b"");
    send(&mut bench, true, "SA", next[1] - 1, next[0], b"");
    send(&mut bench, false, "A", next[0], next[1], b"");
    for message in messages {
        let [seq, ack] = if message.back {
            [next[1], next[0]]
        } else {
            next
        };
        for (from, to) in cut(message.bytes) {
            let payload = message.bytes.get(from..to).unwrap_or(&[]);
            send(
                &mut bench,
                message.back,
                "PA",
                seq.wrapping_add(from as u32),
                ack,
                payload,
            );
        }
        next[usize::from(message.back)] = seq.wrapping_add(message.bytes.len() as u32);
    }
    send(&mut bench, false, "FA", next[0], next[1], b"");
    send(
        &mut bench,
        true,
        "FA",
        next[1],
        next[0].wrapping_add(1),
        b"",
    );
    let report = bench.finish();
    let mut found: Vec<String> = bench.events.iter().map(|line| told(line)).collect();
    found.extend(
        report
            .functions
            .iter()
            .flat_map(|f| f.tally.clone())
            .map(|(name, n)| format!("{name}: {n}")),
    );
    found.sort();
    found
}

/// What an event says, without time and packet number: its type and all from
/// the section that the type names.
fn told(line: &str) -> String {
    let section = ["\"http\":", "\"alert\":"]
        .iter()
        .filter_map(|name| line.find(name))
        .min()
        .unwrap_or(0);
    line.get(section..).unwrap_or(line).to_owned()
}
