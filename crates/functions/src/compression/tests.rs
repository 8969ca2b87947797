//! Packets through both ends come out as they went in; nothing else comes out.

use proptest::prelude::*;
use weir_nf::host::Target;
use weir_nf::packet::{LinkType, ParseOptions, Side, checksum, parse};
use weir_runtime::harness::{Craft, Harness};

use super::format::Decoded;
use super::*;

const SERVER: &str = "192.0.2.1:80";
const CLIENT: &str = "10.0.0.1:40000";
const TEXT: &[u8] = b"GET /index.html HTTP/1.1\r\nHost: www.example.org\r\nAccept: text/html, \
text/plain, text/css, text/sgml, */*;q=0.01\r\nAccept-Language: en\r\nAccept-Encoding: gzip\r\n\r\n";

/// Bytes that nothing makes shorter.
fn noise(length: usize, seed: u64) -> Vec<u8> {
    let mut state = seed | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 24) as u8
    };
    (0..length).map(|_| next()).collect()
}

/// Payloads of all sorts: noise, text, and what looks coded.
fn payload() -> impl Strategy<Value = Vec<u8>> {
    let noise = proptest::collection::vec(any::<u8>(), 0..300);
    let text = proptest::collection::vec("[a-e]{1,9}", 0..200).prop_map(|w| w.concat().into());
    let plain = prop_oneof![noise, text];
    let kind = prop_oneof![
        Just(vec![]),
        any::<u8>().prop_map(|k| vec![k]),
        (16u8..32).prop_map(|k| vec![k])
    ];
    prop_oneof![
        plain.clone(),
        (kind, plain.clone()).prop_map(|(kind, rest)| [&MAGIC[..], &kind, &rest].concat()),
        plain.prop_map(|payload| {
            match Encoder::new().encode(&payload, true, Marks::default()) {
                Coded::Compressed(bytes) | Coded::Stored(bytes) => bytes.to_vec(),
                Coded::Plain => payload,
            }
        }),
    ]
}

fn compressible() -> impl Strategy<Value = Vec<u8>> {
    let word = proptest::collection::vec(any::<u8>(), 1..20);
    (word, 40usize..60).prop_map(|(word, times)| word.repeat(times))
}

fn marks() -> impl Strategy<Value = Marks> {
    any::<(bool, bool)>().prop_map(|(transport_ones, network_ones)| Marks {
        transport_ones,
        network_ones,
    })
}

/// Bytes that the encoder sends for a payload.
fn sent(encoder: &mut Encoder, payload: &[u8], compress: bool, marks: Marks) -> Vec<u8> {
    match encoder.encode(payload, compress, marks) {
        Coded::Plain => payload.to_vec(),
        Coded::Compressed(bytes) => {
            assert!(compress && bytes.len() < payload.len());
            bytes.to_vec()
        }
        Coded::Stored(bytes) => {
            assert!(payload.starts_with(&MAGIC) && bytes.len() == payload.len() + 1);
            bytes.to_vec()
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn payloads_come_back(payload in payload(), compress in any::<bool>(), marks in marks()) {
        let (mut encoder, mut decoder) = (Encoder::new(), Decoder::new());
        let once = sent(&mut encoder, &payload, compress, marks);
        // Two pairs, one within the other.
        let twice = sent(&mut encoder, &once, compress, Marks::default());
        if once.len() < payload.len() {
            prop_assert!(twice.len() <= payload.len(), "the inner pair's saving pays for both");
        }
        let back = decoder.decode(&twice).unwrap().map_or(twice.clone(), |d| d.payload.to_vec());
        prop_assert_eq!(&back, &once);
        match decoder.decode(&back).unwrap() {
            None => prop_assert_eq!(&back, &payload),
            Some(decoded) => {
                prop_assert_eq!(decoded.payload, &payload[..]);
                prop_assert_eq!(decoded.marks, marks);
            }
        }
    }

    #[test]
    fn damage_is_found(payload in compressible(), at in any::<usize>(), change in 1u8..) {
        let mut coded = sent(&mut Encoder::new(), &payload, true, Marks::default());
        prop_assert!(coded.len() < payload.len());
        let at = at % coded.len();
        coded[at] ^= change;
        let mut decoder = Decoder::new();
        match decoder.decode(&coded) {
            Err(_) => {}
            Ok(None) => prop_assert!(at < MAGIC.len()),
            // The marks, or another way to say the same.
            Ok(Some(decoded)) if decoded.compressed => prop_assert_eq!(decoded.payload, payload),
            Ok(Some(_)) => prop_assert_eq!(at, MAGIC.len(), "the kind says stored now"),
        }
        // And cut short.
        if let Ok(Some(decoded)) = decoder.decode(&coded[..at]) {
            prop_assert!(!decoded.compressed);
        }
    }

    #[test]
    fn anything_can_be_decoded_or_refused(rest in proptest::collection::vec(any::<u8>(), 0..200), kind in 0u8..40) {
        let mut decoder = Decoder::new();
        for coded in [[&MAGIC[..], &rest].concat(), [&MAGIC[..], &[kind], &rest].concat()] {
            if let Ok(decoded) = decoder.decode(&coded) {
                prop_assert!(decoded.is_some_and(|d| d.payload.len() <= 65_535));
            }
        }
    }
}

#[test]
fn the_form_is_the_one_described() {
    let payload = [b'a'; 200];
    let coded = [
        &MAGIC[..],
        // Version 1, both marks, compressed; 200 bytes; their check.
        &[0x1d, 0, 200],
        &CHECK_OF_200_A.to_be_bytes(),
        // LZ4: one literal, 194 bytes from one byte back, five literals.
        &[0x1f, b'a', 1, 0, 175, 0x50, b'a', b'a', b'a', b'a', b'a'],
    ]
    .concat();
    let marks = Marks {
        transport_ones: true,
        network_ones: true,
    };
    let expected = Decoded {
        payload: &payload,
        marks,
        compressed: true,
    };
    assert_eq!(Decoder::new().decode(&coded), Ok(Some(expected)));
    // There is more than one block for the same bytes; all before it is given.
    let made = sent(&mut Encoder::new(), &payload, true, marks);
    assert_eq!(made[..11], coded[..11]);
    let stored = [&MAGIC[..], &[0x10], b"rest"].concat();
    let payload = [&MAGIC[..], b"rest"].concat();
    assert_eq!(
        Encoder::new().encode(&payload, true, Marks::default()),
        Coded::Stored(&stored)
    );
}

/// Computed apart from this program, by the definition in `format`.
const CHECK_OF_200_A: u32 = 0x41f7_4e70;

#[test]
fn each_fault_has_its_name() {
    let mut decoder = Decoder::new();
    let good = sent(&mut Encoder::new(), &[b'a'; 200], true, Marks::default());
    let mut fault = |change: &dyn Fn(&mut Vec<u8>)| {
        let mut coded = good.clone();
        change(&mut coded);
        decoder.decode(&coded).unwrap_err()
    };
    assert_eq!(fault(&|c| c.truncate(4)), Fault::Truncated);
    assert_eq!(fault(&|c| c.truncate(10)), Fault::Truncated);
    assert_eq!(fault(&|c| c[4] = 0x21), Fault::Version);
    assert_eq!(fault(&|c| c[4] = 0x12), Fault::Version);
    assert_eq!(fault(&|c| c[6] = 10), Fault::Length);
    // The block makes 200 bytes; more and fewer are declared.
    assert_eq!(fault(&|c| c[5] = 0xff), Fault::Data);
    assert_eq!(fault(&|c| c[6] = 199), Fault::Data);
    assert_eq!(fault(&|c| c[13] = 9), Fault::Data);
    assert_eq!(fault(&|c| c[12] = b'b'), Fault::Check);
    assert_eq!(fault(&|c| c[7] ^= 1), Fault::Check);
}

#[test]
fn the_longest_payloads_are_kept() {
    let (mut encoder, mut decoder) = (Encoder::new(), Decoder::new());
    for length in [65_533, 65_534, 65_535] {
        let plain = vec![7; length];
        let coded = sent(&mut encoder, &plain, true, Marks::default());
        let back = decoder.decode(&coded).unwrap();
        assert_eq!(back.is_some(), length < 65_535);
        assert_eq!(back.map_or(coded.clone(), |d| d.payload.to_vec()), plain);
    }
    let noise = [&MAGIC[..], &noise(65_000, 5)].concat();
    let coded = sent(&mut encoder, &noise, true, Marks::default());
    assert_eq!(coded.len(), 65_005);
    assert_eq!(decoder.decode(&coded).unwrap().unwrap().payload, noise);
}

fn compressor(settings: CompressorSettings) -> Harness {
    Harness::of::<PayloadCompressor>(settings)
}

fn decompressor() -> Harness {
    Harness::of::<PayloadDecompressor>(DecompressorSettings::default())
}

/// The only packet that comes out for `frame`.
fn one(harness: &mut Harness, frame: &[u8]) -> Vec<u8> {
    let out = harness.send(frame);
    assert_eq!(out.len(), 1);
    out[0].clone()
}

fn checksums(frame: &[u8]) -> (checksum::Verdict, checksum::Verdict) {
    let headers = parse(frame, LinkType::Ethernet, &ParseOptions::default()).expect("well-formed");
    (
        checksum::check_ipv4(frame, &headers),
        checksum::check_transport(frame, &headers),
    )
}

#[test]
fn a_request_is_shorter_between_the_ends() {
    use checksum::Verdict::{Good, Unchecked};
    let (mut near, mut far) = (compressor(Default::default()), decompressor());
    let six = ("[2001:db8::1]:40000", "[2001:db8::2]:8080");
    let body = TEXT.repeat(3);
    let frames = [
        (Craft::tcp(CLIENT, SERVER).payload(&body), Good),
        (Craft::tcp(SERVER, CLIENT).payload(&body).vlan(7), Good),
        (Craft::tcp(six.0, six.1).payload(&body), Unchecked),
        (
            Craft::tcp(six.1, six.0)
                .options(&[1, 1, 1, 0])
                .payload(&body),
            Unchecked,
        ),
    ];
    for (craft, ipv4) in &frames {
        let frame = craft.build();
        let between = one(&mut near, &frame);
        assert!(between.len() < frame.len() / 2, "{}", between.len());
        assert_eq!(checksums(&between), (*ipv4, Good));
        assert_eq!(one(&mut far, &between), frame);
        // A trailer stays behind the datagram.
        let long = [&frame[..], b"trailer"].concat();
        let between = one(&mut near, &long);
        assert!(between.ends_with(b"trailer") && between.len() < long.len() / 2);
        assert_eq!(one(&mut far, &between), long);
    }
    assert_eq!(near.counter("payload-compressor", "compressed"), 8);
    assert_eq!(far.counter("payload-decompressor", "decompressed"), 8);
    let bytes = |h: &Harness, f: &str| ["bytes_in", "bytes_out"].map(|c| h.counter(f, c));
    let [before, between] = bytes(&near, "payload-compressor");
    assert_eq!(before, 8 * body.len() as u64);
    assert_eq!(bytes(&far, "payload-decompressor"), [between, before]);
    near.finish();
    far.finish();
}

#[test]
fn what_is_not_looked_at_passes_both_ends() {
    let body = TEXT.repeat(3);
    let coded = sent(&mut Encoder::new(), &body, true, Marks::default());
    let (mut near, mut far) = (compressor(Default::default()), decompressor());
    let packet = Craft::tcp(CLIENT, SERVER).payload(&body).build();
    let llc = {
        let mut frame = packet.clone();
        let length = (frame.len() - 14 + 8) as u16;
        frame[12..14].copy_from_slice(&length.to_be_bytes());
        frame.splice(14..14, [0xaa, 0xaa, 3, 0, 0, 0, 8, 0]);
        frame
    };
    let pppoe = {
        let mut frame = packet.clone();
        let [a, b] = ((frame.len() - 14 + 2) as u16).to_be_bytes();
        frame[12..14].copy_from_slice(&[0x88, 0x64]);
        frame.splice(14..14, [0x11, 0, 0, 1, a, b, 0, 0x21]);
        frame
    };
    for payload in [&body, &coded] {
        let frames = [
            Craft::udp(CLIENT, SERVER).payload(payload).build(),
            Craft::tcp(CLIENT, "192.0.2.1:81").payload(payload).build(),
            Craft::tcp(CLIENT, SERVER).flags("S").build(),
            packet[..packet.len() - 50].to_vec(),
        ];
        for frame in frames.iter().chain([&llc, &pppoe]) {
            assert_eq!(one(&mut near, frame), *frame);
            assert_eq!(one(&mut far, frame), *frame);
        }
        let first = Craft::tcp(CLIENT, SERVER).fragment(0x2000).payload(payload);
        assert_eq!(one(&mut near, &first.build()), first.build());
        assert_eq!(one(&mut far, &first.build()), first.build());
    }
    for (direction, to, from) in [
        (Towards::ToServer, true, false),
        (Towards::ToClient, false, true),
    ] {
        let mut near = compressor(CompressorSettings {
            direction,
            ..Default::default()
        });
        let shorter = |near: &mut Harness, source, destination| {
            let frame = Craft::tcp(source, destination).payload(&body).build();
            one(near, &frame).len() < frame.len()
        };
        assert_eq!(shorter(&mut near, CLIENT, SERVER), to);
        assert_eq!(shorter(&mut near, SERVER, CLIENT), from);
    }
}

#[test]
fn sizes_decide_what_is_tried() {
    let settings = || CompressorSettings {
        smallest: 100,
        largest: 200,
        ..Default::default()
    };
    let mut near = compressor(settings());
    for (length, shorter) in [(99, false), (100, true), (200, true), (201, false)] {
        let frame = Craft::tcp(CLIENT, SERVER).payload(&vec![1; length]).build();
        assert_eq!(
            one(&mut near, &frame).len() < frame.len(),
            shorter,
            "{length}"
        );
    }
    assert_eq!(near.counter("payload-compressor", "not_tried"), 2);
    // Too small or not, what looks coded must be told apart.
    let frame = Craft::tcp(CLIENT, SERVER).payload(&MAGIC).build();
    let between = one(&mut near, &frame);
    assert_eq!(between.len(), frame.len() + 1);
    assert_eq!(one(&mut decompressor(), &between), frame);
    assert_eq!(near.counter("payload-compressor", "escaped"), 1);
    let refused = |settings| {
        let builder = Harness::builder().with::<PayloadCompressor>(settings);
        builder.map(|_| ()).unwrap_err().path
    };
    assert_eq!(
        refused(CompressorSettings {
            smallest: 2_000,
            ..settings()
        }),
        "smallest"
    );
    assert_eq!(
        refused(CompressorSettings {
            ports: vec![],
            ..settings()
        }),
        "ports"
    );
}

#[test]
fn a_full_frame_ends_in_a_counted_drop() {
    // 65,535 bytes of IP: one more can't be declared.
    let payload = [&MAGIC[..], &noise(65_535 - 40 - 4, 3)].concat();
    let frame = Craft::tcp(CLIENT, SERVER).payload(&payload).build();
    let mut near = compressor(Default::default());
    assert!(near.send(&frame).is_empty());
    assert_eq!(
        near.finish().drops,
        [("payload-compressor.no_room".to_owned(), 1)]
    );
    // A short packet that says it holds 60,000 bytes, in a small frame.
    let bomb = sent(&mut Encoder::new(), &[0; 60_000], true, Marks::default());
    let mut far = decompressor();
    let send = |far: &mut Harness, payload: &[u8]| {
        far.send(&Craft::tcp(CLIENT, SERVER).payload(payload).build())
            .len()
    };
    assert_eq!(send(&mut far, &bomb), 0);
    assert_eq!(send(&mut far, &bomb[..8]), 0);
    assert_eq!(
        send(&mut far, &[&bomb[..4], &[0x33], &bomb[5..]].concat()),
        0
    );
    assert_eq!(send(&mut far, &[&bomb[..5], &[0], &bomb[6..]].concat()), 0);
    assert_eq!(
        send(&mut far, &[&bomb[..5], &[200], &bomb[6..]].concat()),
        0
    );
    assert_eq!(
        send(&mut far, &[&bomb[..7], &[!bomb[7]], &bomb[8..]].concat()),
        0
    );
    let mut drops = far.finish().drops;
    drops.sort();
    let expected = [
        ("bad_check", 1),
        ("bad_data", 1),
        ("bad_length", 1),
        ("no_room", 1),
        ("truncated", 1),
        ("unknown_version", 1),
    ];
    assert_eq!(
        drops,
        expected.map(|(name, n)| (format!("payload-decompressor.{name}"), n))
    );
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..ProptestConfig::default() })]

    /// Checksums survive: each of ones' complement's zeros, right ones, wrong ones.
    #[test]
    fn frames_come_back(
        payload in payload(),
        six in any::<bool>(),
        vlan in any::<bool>(),
        options in 0usize..3,
        trailer in proptest::collection::vec(any::<u8>(), 0..30),
        sums in any::<[Option<u16>; 2]>(),
        zeros in any::<[bool; 2]>(),
        cut in 0usize..40,
    ) {
        let (from, to) = if six {
            ("[2001:db8::1]:40000", "[2001:db8::2]:80")
        } else {
            (CLIENT, SERVER)
        };
        let mut craft = Craft::tcp(from, to).payload(&payload).options(&[1, 1, 1, 0].repeat(options));
        if vlan {
            craft = craft.vlan(9);
        }
        let mut frame = craft.build();
        frame.extend(&trailer);
        let l3 = if vlan { 18 } else { 14 };
        let l4 = l3 + if six { 40 } else { 20 };
        for (at, (sum, zero)) in [l3 + 10, l4 + 16].into_iter().zip(sums.into_iter().zip(zeros)) {
            if six && at == l3 + 10 {
                continue;
            }
            if let Some(sum) = sum {
                let sum = if zero { 0u16.wrapping_sub(sum & 1) } else { sum };
                frame[at..at + 2].copy_from_slice(&sum.to_be_bytes());
            }
        }
        if cut > 30 {
            frame.truncate(frame.len().saturating_sub(cut).max(l4 + 32));
        }
        let (mut near, mut far) = (compressor(Default::default()), decompressor());
        let between = one(&mut near, &frame);
        prop_assert!(between.len() <= frame.len() + 1);
        prop_assert_eq!(&one(&mut far, &between), &frame);
        // Both in one chain: what the first does must be seen by the second.
        let mut chain = Harness::builder()
            .with::<PayloadCompressor>(Default::default()).unwrap()
            .with::<PayloadDecompressor>(Default::default()).unwrap()
            .links(vec![Target::Out])
            .build();
        prop_assert_eq!(&one(&mut chain, &frame), &frame);
        chain.queue_link(Side::Outside, LinkType::RawIp, &frame[l3..]);
        prop_assert_eq!(&chain.flush()[0].bytes[..], &frame[l3..]);
    }
}
