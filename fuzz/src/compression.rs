//! Any bytes as a payload at either end of `payload-compressor` and
//! `payload-decompressor`: what goes in comes back, what no compressor made is
//! refused or becomes a packet that can be read.

use std::cell::RefCell;

use weir_functions::compression::{
    Coded, Decoder, Encoder, MAGIC, Marks, PayloadCompressor, PayloadDecompressor,
};
use weir_packet::{LinkType, ParseOptions, parse};
use weir_runtime::harness::{Craft, Harness};

use crate::input::Input;

/// Most bytes of payload.
const MOST: usize = 1_500;

struct Ends {
    encoder: Encoder,
    decoder: Decoder,
    near: Harness,
    far: Harness,
}

thread_local! {
    static ENDS: RefCell<Ends> = RefCell::new(Ends {
        encoder: Encoder::new(),
        decoder: Decoder::new(),
        near: Harness::of::<PayloadCompressor>(Default::default()),
        far: Harness::of::<PayloadDecompressor>(Default::default()),
    });
}

/// The first byte chooses: the rest is a payload, or follows what coded ones
/// begin with.
pub fn run(data: &[u8]) {
    let mut input = Input(data);
    let choice = input.u8();
    let rest = input.bytes(MOST);
    let payload = match choice % 4 {
        0 => rest.to_vec(),
        1 => [&MAGIC[..], rest].concat(),
        2 => [&MAGIC[..], &[0x11], rest].concat(),
        // What repeats itself can be compressed.
        _ => rest.repeat(MOST / rest.len().max(1)),
    };
    ENDS.with_borrow_mut(|ends| {
        back(ends, &payload, choice & 4 == 0);
        hostile(ends, &payload);
    });
}

/// What is encoded is decoded.
fn back(ends: &mut Ends, payload: &[u8], compress: bool) {
    let sent = match ends.encoder.encode(payload, compress, Marks::default()) {
        Coded::Plain => payload,
        Coded::Compressed(bytes) => {
            assert!(bytes.len() < payload.len());
            bytes
        }
        Coded::Stored(bytes) => {
            assert_eq!(bytes.len(), payload.len() + 1);
            bytes
        }
    };
    match ends.decoder.decode(sent).expect("it was encoded") {
        None => assert_eq!(sent, payload),
        Some(decoded) => assert_eq!(decoded.payload, payload),
    }
    let frame = frame(payload);
    let between = ends.near.send(&frame);
    assert_eq!(ends.far.send(&between[0]), [frame]);
}

/// What nobody encoded is decoded all the same, or refused.
fn hostile(ends: &mut Ends, payload: &[u8]) {
    let frame = frame(payload);
    let out = ends.far.send(&frame);
    let decoded = ends.decoder.decode(payload);
    assert!(out.len() <= usize::from(decoded.is_ok()));
    let Some(out) = out.first() else { return };
    let headers = parse(out, LinkType::Ethernet, &ParseOptions::default()).expect("a packet");
    match decoded {
        Ok(Some(decoded)) => assert_eq!(headers.payload_of(out), decoded.payload),
        _ => assert_eq!(*out, frame),
    }
    assert!(ends.far.report().balances());
}

fn frame(payload: &[u8]) -> Vec<u8> {
    Craft::tcp("10.0.0.1:1000", "192.0.2.1:80")
        .payload(payload)
        .build()
}

/// Coded payloads, each behind the byte that chooses.
pub(crate) fn examples() -> Vec<Vec<u8>> {
    let text = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n<p>a</p><p>b</p>".repeat(4);
    let mut encoder = Encoder::new();
    let coded = match encoder.encode(&text, true, Marks::default()) {
        Coded::Compressed(bytes) => bytes.to_vec(),
        _ => Vec::new(),
    };
    let plain = |choice: u8, bytes: &[u8]| [&[choice], bytes].concat();
    vec![
        plain(0, &text),
        plain(0, &coded),
        plain(2, coded.get(MAGIC.len() + 1..).unwrap_or(&[])),
        plain(1, &[0x10, 1, 2, 3]),
        plain(3, b"abc"),
    ]
}
