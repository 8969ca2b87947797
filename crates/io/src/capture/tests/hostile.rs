//! Broken captures: cut off anywhere, lying, or noise.

use proptest::collection::vec;
use proptest::prelude::*;

use super::super::{CaptureError, PcapWriter, PcapngWriter, Resolution};
use super::{Body, enhanced, interface, read_all, section};

const DATA: [&[u8]; 4] = [&[1; 60], &[], &[3; 1], &[4; 131]];

fn small_pcap() -> Vec<u8> {
    let mut writer = PcapWriter::new(Vec::new(), 1, Resolution::Micro).unwrap();
    for data in DATA {
        writer.write(1, 60, data).unwrap();
    }
    writer.finish().unwrap()
}

fn small_pcapng() -> Vec<u8> {
    let mut writer = PcapngWriter::new(Vec::new()).unwrap();
    for (index, data) in DATA.into_iter().enumerate() {
        let interface = writer.interface(&format!("i{}", index % 2), 1).unwrap();
        writer.write(interface, 1, 60, data, Some("why")).unwrap();
    }
    writer.finish().unwrap()
}

#[test]
fn a_capture_cut_at_any_byte_gives_its_whole_packets() {
    for (file, blocks) in [(small_pcap(), false), (small_pcapng(), true)] {
        // Ends of packets, found by reading ever longer beginnings that end cleanly.
        let mut whole = 0;
        let mut clean_ends = 0;
        for end in 0..=file.len() {
            let (records, error) = read_all(&file[..end]);
            match error {
                None => {
                    whole = records.len();
                    clean_ends += 1;
                }
                Some(CaptureError::Empty) => assert_eq!(end, 0),
                Some(CaptureError::Truncated { at, packets }) => {
                    assert_eq!((at, packets), (end as u64, records.len() as u64));
                }
                Some(other) => panic!("cut at {end}: {other}"),
            }
            assert_eq!(records.len(), whole, "cut at {end}");
            for (record, data) in records.iter().zip(DATA) {
                assert_eq!(record.data, data);
            }
        }
        assert_eq!(whole, DATA.len());
        // After the header, after each packet, and in pcapng after both interfaces.
        assert_eq!(clean_ends, 1 + DATA.len() + if blocks { 2 } else { 0 });
    }
}

fn corrupt(file: &[u8], packets_before: u64, offset: usize, word: &str) {
    match read_all(file).1 {
        Some(CaptureError::Corrupt {
            offset: at,
            packets,
            what,
        }) => {
            assert_eq!((at, packets), (offset as u64, packets_before), "{what}");
            assert!(what.contains(word), "{what}");
        }
        other => panic!("{word}: {other:?}"),
    }
}

#[test]
fn lying_lengths_are_corrupt() {
    let mut pcap = small_pcap();
    pcap[24 + 16 + 60 + 8..][..4].copy_from_slice(&0x0100_0001u32.to_le_bytes());
    corrupt(&pcap, 1, 24 + 16 + 60, "16777217 captured bytes");

    let head = [section(true), interface(true, 1, |body| body)].concat();
    let at = head.len();
    let with = |block: Vec<u8>| [head.clone(), enhanced(true, 0, 1, 1, &[1]), block].concat();
    let at = at + enhanced(true, 0, 1, 1, &[1]).len();

    let mut odd = enhanced(true, 0, 1, 9, &[0; 9]);
    odd[7] += 1;
    corrupt(&with(odd), 1, at, "multiples of 4");
    let mut short = enhanced(true, 0, 1, 9, &[0; 9]);
    short[7] = 8;
    corrupt(&with(short), 1, at, "multiples of 4");
    let mut different = enhanced(true, 0, 1, 9, &[0; 9]);
    let last = different.len() - 1;
    different[last] += 4;
    corrupt(&with(different), 1, at, "ends with");
    let mut long = enhanced(true, 0, 1, 9, &[0; 9]);
    long[4] = 0x10;
    corrupt(&with(long), 1, at, "bytes, more than");
    let claims = Body::new(true)
        .u32(0)
        .u32(0)
        .u32(0)
        .u32(u32::MAX)
        .u32(9)
        .data(&[0; 9]);
    corrupt(&with(claims.block(6)), 1, at, "4294967295 captured bytes");
    corrupt(
        &with(enhanced(true, 1, 1, 9, &[0; 9])),
        1,
        at,
        "interface 1",
    );
    corrupt(
        &with(Body::new(true).u32(0).block(6)),
        1,
        at,
        "below 32 bytes",
    );
    corrupt(
        &with(Body::new(true).u32(0).block(1)),
        1,
        at,
        "below 20 bytes",
    );
    corrupt(
        &with(Body::new(true).u32(10).data(&[0; 8]).block(3)),
        1,
        at,
        "simple packet",
    );
    let mut unknown = Body::new(true).data(&[0; 40]).block(77);
    unknown[51] = 1;
    corrupt(&with(unknown), 1, at, "ends with 1");
    // A new section forgets the interfaces of the one before.
    let fresh = [section(false), enhanced(false, 0, 1, 1, &[1])].concat();
    corrupt(&with(fresh), 1, at + section(false).len(), "interface 0");
    let mut order = section(true);
    order[8] = 0;
    corrupt(&order, 0, 0, "byte-order magic");
    let tiny = Body::new(true)
        .u32(0x1a2b_3c4d)
        .u32(0x0001_0000)
        .block(0x0a0d_0d0a);
    corrupt(&tiny, 0, 0, "shorter than 28");
}

#[test]
fn options_that_break_off_are_ignored() {
    let broken = |body: Body| body.u16(9).u16(200).u32(0);
    let file = [
        section(false),
        interface(false, 1, broken),
        enhanced(false, 0, 5, 1, &[1]),
    ];
    let (records, error) = read_all(&file.concat());
    assert!(error.is_none(), "{error:?}");
    assert_eq!(records[0].time_ns, 5_000);
}

#[test]
fn endless_interfaces_are_refused() {
    let mut file = section(false);
    for _ in 0..70_000 {
        file.extend(interface(false, 1, |body| body));
    }
    let (_, error) = read_all(&file);
    assert!(
        matches!(error, Some(CaptureError::Corrupt { .. })),
        "{error:?}"
    );
}

struct Failing(usize);

impl std::io::Read for Failing {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let file = small_pcap();
        let rest = file.get(self.0..150).unwrap_or_default();
        if rest.is_empty() {
            return Err(std::io::ErrorKind::ConnectionReset.into());
        }
        let count = rest.len().min(buffer.len());
        buffer[..count].copy_from_slice(&rest[..count]);
        self.0 += count;
        Ok(count)
    }
}

#[test]
fn a_failing_disk_is_reported_after_the_whole_packets() {
    let mut reader = super::CaptureReader::open(Failing(0)).unwrap();
    let mut packets = 0;
    let error = loop {
        match reader.next() {
            Ok(Some(_)) => packets += 1,
            Ok(None) => panic!("no error"),
            Err(error) => break error,
        }
    };
    assert!(
        matches!(error, CaptureError::Read { at: 150, .. }),
        "{error}"
    );
    assert_eq!(packets, 3);
}

/// A source that has one octet at a time, and none in between.
struct Dripping<'a> {
    rest: &'a [u8],
    dry: bool,
}

impl std::io::Read for Dripping<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        self.dry = !self.dry;
        if self.dry {
            return Err(std::io::ErrorKind::WouldBlock.into());
        }
        let count = self.rest.len().min(buffer.len()).min(1);
        let (now, later) = self.rest.split_at(count);
        buffer[..count].copy_from_slice(now);
        self.rest = later;
        Ok(count)
    }
}

/// Blocks that readers pass over are whole again, too, when their rest comes.
#[test]
fn a_source_may_have_to_wait_behind_each_octet() {
    let mut other = small_pcapng();
    // A block of a kind that nobody knows, and a packet behind it.
    other.extend(super::block(false, 0x0bad_cafe, &[7; 40]));
    other.extend(super::enhanced(false, 0, 9, 60, &[5; 60]));
    for file in [small_pcap(), other] {
        let (whole, none) = super::read_all(&file);
        assert!(none.is_none() && whole.len() >= 3);
        // The header is there, as a port waits for it.
        let header = 300.min(file.len());
        let (start, rest) = file.split_at(header);
        let source = std::io::Read::chain(start, Dripping { rest, dry: false });
        let mut reader = super::CaptureReader::open(source).unwrap();
        let mut read: Vec<super::OwnedRecord> = Vec::new();
        let mut waits = 0;
        loop {
            match reader.next() {
                Ok(Some(record)) => read.push(record.into()),
                Ok(None) => break,
                Err(error) if error.is_wait() => waits += 1,
                Err(error) => panic!("{error}"),
            }
        }
        assert_eq!(read, whole);
        assert!(waits >= rest.len(), "{waits}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn noise_never_panics(noise in vec(any::<u8>(), 0..600), kind in 0..6usize) {
        let magics: [&[u8]; 6] = [
            &[],
            &[0xd4, 0xc3, 0xb2, 0xa1, 2, 0, 4, 0],
            &[0xa1, 0xb2, 0x3c, 0x4d, 0, 2, 0, 4],
            &[0x34, 0xcd, 0xb2, 0xa1, 2, 0, 3, 0],
            &section(false),
            &section(true),
        ];
        let file = [magics[kind], &noise].concat();
        let (records, _) = read_all(&file);
        let total: usize = records.iter().map(|record| record.data.len()).sum();
        prop_assert!(total <= file.len());
    }

    #[test]
    fn flipped_bytes_never_panic(flips in vec((any::<usize>(), any::<u8>()), 1..8), ng: bool) {
        let mut file = if ng { small_pcapng() } else { small_pcap() };
        for (at, value) in flips {
            let at = at % file.len();
            file[at] = value;
        }
        let (records, _) = read_all(&file);
        let total: usize = records.iter().map(|record| record.data.len()).sum();
        prop_assert!(total <= file.len());
    }
}
