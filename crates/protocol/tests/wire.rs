//! Data frames: there and back, every changed octet refused, and read
//! by tshark as NSH.

use std::process::Command;

use proptest::collection::vec;
use proptest::prelude::*;
use weir_packet::ethernet::MacAddr;
use weir_packet::nsh::NshViewMut;
use weir_packet::{
    Disposition, Frame, FrameMeta, FramePool, LinkType, Malformed, MemoryLayout, Side, Time,
};
use weir_protocol::Key;
use weir_protocol::wire::{Hop, OVERHEAD, WireError, decode_data, encode_data};

const KEY: Key = Key(*b"sixteen secrets!");

fn pool() -> FramePool {
    FramePool::with_layout(MemoryLayout {
        small_frames: 4,
        small_bytes: 2112,
        large_frames: 0,
        large_bytes: 2112,
    })
}

fn example(pool: &mut FramePool) -> Frame {
    let mut meta = FrameMeta::received(Time(1_700_000_000_123_456_789), 0);
    meta.sequence = 77;
    meta.unit = 5 << 32 | 3;
    meta.view = 1 << 32 | 42;
    meta.clock = 1_000;
    meta.flags = 8;
    meta.chain = 7;
    // UDP from 10.0.0.1:1000 to 10.0.0.2:53.
    let packet = [
        0x45, 0, 0, 28, 0, 1, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2, //
        0x03, 0xe8, 0x00, 0x35, 0, 8, 0, 0,
    ];
    pool.copy(&packet, meta).expect("a frame")
}

fn hop() -> Hop {
    Hop {
        to: MacAddr([2, 0, 0, 0, 0, 1]),
        from: MacAddr([2, 0, 0, 0, 0, 2]),
        stage: 3,
        source: 11,
        replica: 12,
    }
}

fn encode_example() -> Vec<u8> {
    let mut pool = pool();
    let frame = example(&mut pool);
    let mut bytes = Vec::new();
    encode_data(pool.memory(), &frame, &hop(), &KEY, &mut bytes).expect("it fits");
    pool.give(frame);
    bytes
}

fn refused(bytes: &[u8]) -> WireError {
    let mut pool = pool();
    let error = decode_data(&mut pool, &KEY, bytes).expect_err("refused");
    assert_eq!(pool.outstanding(), 0);
    error
}

/// All that travels; `start` is the pool's own.
fn fields(meta: &FrameMeta) -> impl PartialEq + std::fmt::Debug {
    (
        (meta.time, meta.sequence, meta.unit, meta.clock, meta.view),
        (meta.len, meta.wire_len, meta.chain, meta.tenant, meta.port),
        (meta.side, meta.link, meta.flags, meta.dlt, meta.disposition),
    )
}

proptest! {
    #[test]
    fn there_and_back(
        numbers: (u64, u64, u64, u32, u16, u16, u8, u16),
        view: u64, clock in 0u64..1 << 48, disposition in 0u8..7, outside: bool, flags: u8,
        link in 0u8..12, stage in 0u8..255, ends: ([u8; 6], [u8; 6], u16, u16),
        packet in vec(any::<u8>(), 0..1500),
    ) {
        let (time, sequence, unit, wire_len, chain, tenant, port, dlt) = numbers;
        let mut pool = pool();
        let mut meta = FrameMeta::received(Time(time), 0);
        meta.sequence = sequence;
        meta.unit = unit;
        meta.chain = chain;
        meta.tenant = tenant;
        meta.port = port;
        meta.dlt = dlt;
        meta.view = view;
        meta.clock = clock;
        meta.disposition = Disposition::from_u8(disposition).expect("a disposition");
        meta.side = if outside { Side::Outside } else { Side::Inside };
        meta.flags = flags;
        meta.link = LinkType::from_u8(link);
        meta.wire_len = wire_len;
        let frame = pool.copy(&packet, meta).expect("a frame");
        let hop = Hop { to: MacAddr(ends.0), from: MacAddr(ends.1), stage, source: ends.2, replica: ends.3 };
        let mut bytes = Vec::new();
        encode_data(pool.memory(), &frame, &hop, &KEY, &mut bytes).expect("it fits");
        prop_assert_eq!(bytes.len(), OVERHEAD + packet.len());
        let (back, from) = decode_data(&mut pool, &KEY, &bytes).expect("a data frame");
        let memory = pool.memory().clone();
        prop_assert_eq!(from, hop);
        prop_assert_eq!(memory.bytes(&back), &packet[..]);
        prop_assert_eq!(fields(memory.meta(&back)), fields(memory.meta(&frame)));
        pool.give(back);
        pool.give(frame);
    }

    #[test]
    fn random_frames_are_refused(mut bytes in vec(any::<u8>(), 0..200), shaped: bool) {
        if shaped {
            // Past the checks of the outer form.
            let good = encode_example();
            let n = bytes.len().min(good.len());
            bytes[..n.min(40)].copy_from_slice(&good[..n.min(40)]);
        }
        let mut pool = pool();
        prop_assert!(decode_data(&mut pool, &KEY, &bytes).is_err());
        prop_assert_eq!(pool.outstanding(), 0);
    }
}

#[test]
fn each_bit_of_both_headers_and_the_packet_is_covered() {
    let good = encode_example();
    assert!(good.len() > OVERHEAD);
    for at in 0..good.len() {
        for bit in 0..8 {
            let mut bytes = good.clone();
            bytes[at] ^= 1 << bit;
            let mut pool = pool();
            let read = decode_data(&mut pool, &KEY, &bytes);
            // Not covered: Ethernet addresses, and the TTL, which forwarders
            // count down.
            let free = at < 12 || at == 14 && bit < 4 || at == 15 && bit >= 6;
            assert_eq!(read.is_ok(), free, "octet {at} bit {bit}: {read:?}");
            if let Ok((frame, _)) = read {
                pool.give(frame);
            }
        }
    }
}

#[test]
fn a_forwarder_may_count_the_ttl_down() {
    let mut bytes = encode_example();
    let mut nsh = NshViewMut::new(&mut bytes[14..]).expect("a header");
    assert_eq!(nsh.decrement_ttl(), Some(62));
    let mut pool = pool();
    let (frame, from) = decode_data(&mut pool, &KEY, &bytes).expect("a data frame");
    assert_eq!(from, hop());
    pool.give(frame);
}

#[test]
fn faults_have_names() {
    let good = encode_example();
    let with = |at: usize, octet: u8| {
        let mut bytes = good.clone();
        bytes[at] = octet;
        refused(&bytes)
    };
    let mut pool = pool();
    assert_eq!(
        decode_data(&mut pool, &Key([0; 16]), &good).err(),
        Some(WireError::Tag)
    );
    assert_eq!(with(13, 0), WireError::NotData);
    assert_eq!(with(14, 0x4f), Malformed::NshBadVersion.into());
    assert_eq!(with(14, 0x2f), WireError::Foreign);
    assert_eq!(with(16, 2), Malformed::WrongKind.into());
    assert_eq!(with(17, 1), WireError::Foreign);
    assert_eq!(with(18, 1), WireError::Path);
    assert_eq!(with(21, 0), WireError::Path);
    assert_eq!(with(38, 2), Malformed::WeirBadVersion.into());
    assert_eq!(with(39, 7), Malformed::WeirBadValue.into());
    assert_eq!(
        refused(&good[..good.len() - 1]),
        Malformed::WeirTruncated.into()
    );
    assert_eq!(refused(&good[..20]), Malformed::NshTruncated.into());
    assert_eq!(refused(&good[..9]), Malformed::EthernetTruncated.into());

    let mut frame = example(&mut pool);
    let memory = pool.memory().clone();
    let mut out = Vec::new();
    let mut encode = |frame: &Frame, hop: &Hop| encode_data(&memory, frame, hop, &KEY, &mut out);
    let last = Hop {
        stage: 255,
        ..hop()
    };
    assert_eq!(encode(&frame, &last), Err(WireError::Path));
    memory.meta_mut(&mut frame).view = u64::MAX;
    memory.meta_mut(&mut frame).clock = 1 << 48;
    assert_eq!(encode(&frame, &hop()), Err(WireError::Range));
    assert!(out.is_empty());

    let mut held = vec![frame];
    while let Ok((frame, _)) = decode_data(&mut pool, &KEY, &good) {
        held.push(frame);
    }
    assert_eq!(held.len(), 4);
    assert_eq!(
        decode_data(&mut pool, &KEY, &good).err(),
        Some(WireError::NoFrame)
    );
    pool.give_all(&mut held);
}

/// A capture file (little endian, microseconds, Ethernet) with one frame.
fn capture(frame: &[u8]) -> Vec<u8> {
    let mut file = Vec::new();
    for word in [0xa1b2_c3d4_u32, 4 << 16 | 2, 0, 0, 65_535, 1, 0, 0] {
        file.extend(word.to_le_bytes());
    }
    file.extend((frame.len() as u32).to_le_bytes());
    file.extend((frame.len() as u32).to_le_bytes());
    file.extend(frame);
    file
}

#[test]
fn tshark_reads_nsh() {
    let path = std::env::temp_dir().join(format!("weir-nsh-{}.pcap", std::process::id()));
    std::fs::write(&path, capture(&encode_example())).expect("a file");
    let fields = [
        "nsh.version",
        "nsh.ttl",
        "nsh.length",
        "nsh.mdtype",
        "nsh.nextproto",
        "nsh.spi",
        "nsh.si",
        "nsh.contextheader",
        "_ws.malformed",
    ];
    let mut tshark = Command::new("tshark");
    tshark
        .arg("-r")
        .arg(&path)
        .args(["-T", "fields", "-E", "separator=|"]);
    for field in fields {
        tshark.args(["-e", field]);
    }
    let ran = tshark.output();
    let removed = std::fs::remove_file(&path);
    let output = match ran {
        Ok(output) => output,
        Err(error) => {
            let text = format!("SKIPPED: tshark can't be run here: {error}\n");
            let _ = std::io::Write::write_all(&mut std::io::stderr(), text.as_bytes());
            return;
        }
    };
    removed.expect("a file");
    let text = String::from_utf8_lossy(&output.stdout);
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{complaint}");
    let got: Vec<&str> = text.trim_end_matches('\n').split('|').collect();
    assert_eq!(got.len(), fields.len(), "{text} {complaint}");
    // Versions differ in whether they print a number in hexadecimal.
    let number = |text: &str| match text.strip_prefix("0x") {
        Some(digits) => u32::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    };
    let numbers: Vec<_> = got[..7].iter().map(|text| number(text)).collect();
    assert_eq!(numbers, [0, 63, 6, 1, 254, 7, 252].map(Some), "{text}");
    let context: String = got[7].chars().filter(char::is_ascii_hexdigit).collect();
    // View 1 << 32 | 42, clock 1,000, source 11, replica 12, flags 8.
    assert_eq!(context, "00010000002a00000003e8000b000c08");
    assert_eq!(got[8], "", "{text}");
}
