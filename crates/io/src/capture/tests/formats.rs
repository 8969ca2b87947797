//! Formats written out by hand, and write → read round trips.

use proptest::collection::vec;
use proptest::prelude::*;

use super::super::block::Scale;
use super::super::{
    CaptureError, CaptureReader, MAX_WRITTEN_FRAME, OwnedRecord, PcapWriter, PcapngWriter,
    Resolution,
};
use super::{Body, block, enhanced, interface, read_all, section};

const SECOND: u64 = 1_000_000_000;

/// A pcap file of one packet with the bytes 1, 2, 3.
fn pcap(big: bool, magic: u32, minor: u16, link: u32, lengths: [u32; 2], extra: usize) -> Vec<u8> {
    let body = Body::new(big)
        .u32(magic)
        .u16(2)
        .u16(minor)
        .u32(0)
        .u32(0)
        .u32(65_535);
    let body = body
        .u32(link)
        .u32(10)
        .u32(5)
        .u32(lengths[0])
        .u32(lengths[1]);
    let mut file = body.bytes;
    file.resize(file.len() + extra, 0xee);
    file.extend([1, 2, 3]);
    file
}

fn only(file: &[u8]) -> OwnedRecord {
    let (mut records, error) = read_all(file);
    assert!(error.is_none(), "{error:?}");
    assert_eq!(records.len(), 1);
    records.remove(0)
}

#[test]
fn what_an_interface_has_lost_is_a_block_that_readers_pass_over() {
    let mut writer = crate::capture::PcapngWriter::new(Vec::new()).unwrap();
    let drops = writer
        .interface_at("drops", Some("what is dropped"), 1, 96)
        .unwrap();
    writer
        .write(drops, 5, 60, &[7; 60], Some("dropped: why"))
        .unwrap();
    writer.statistics(drops, 9, 0x0102_0304).unwrap();
    assert!(writer.statistics(drops + 1, 9, 1).is_err());
    let file = writer.finish().unwrap();
    // Interface statistics (type 5), with isb_ifdrop (option 5, 8 octets).
    let option = [5u8, 0, 8, 0, 4, 3, 2, 1, 0, 0, 0, 0];
    assert!(file.windows(option.len()).any(|window| window == option));
    let mut reader = crate::capture::CaptureReader::open(file.as_slice()).unwrap();
    assert_eq!(reader.next().unwrap().unwrap().data, [7; 60]);
    assert!(reader.next().unwrap().is_none());
    let interface = &reader.interfaces()[0];
    assert_eq!(
        (interface.name.as_deref(), interface.snap_len),
        (Some("drops"), 96)
    );
}

#[test]
fn pcap_of_every_kind() {
    for big in [false, true] {
        let kinds = [
            (0xa1b2_c3d4, 5_000, 0),
            (0xa1b2_3c4d, 5, 0),
            (0xa1b2_cd34, 5_000, 8),
        ];
        for (magic, fraction, extra) in kinds {
            let file = pcap(big, magic, 4, 0x3400_0071, [3, 100], extra);
            let record = only(&file);
            assert_eq!(record.time_ns, 10 * SECOND + fraction);
            assert_eq!(
                (record.wire_len, record.dlt),
                (100, 113),
                "upper link bits are no type"
            );
            assert_eq!(record.data, [1, 2, 3]);
        }
    }
    // Lengths of versions before 2.3 come the other way round, those of 2.3 in both.
    for (minor, lengths) in [(2, [100, 3]), (3, [100, 3]), (3, [3, 100])] {
        let record = only(&pcap(false, 0xa1b2_c3d4, minor, 1, lengths, 0));
        assert_eq!((record.wire_len, record.data.len()), (100, 3));
    }
}

#[test]
fn pcapng_sections_of_both_orders_with_all_packet_blocks() {
    let tsresol = |value: u8| move |body: Body| body.u16(9).u16(1).data(&[value]);
    let mut file = Vec::new();
    file.extend(section(true));
    file.extend(interface(true, 1, |body| body)); // microseconds
    file.extend(interface(true, 101, tsresol(9)));
    file.extend(enhanced(true, 0, 7, 60, &[1; 5]));
    file.extend(block(true, 0x8000_0001, &[9; 400_000])); // unknown, longer than the buffer
    file.extend(enhanced(true, 1, 7_000_000_001, 61, &[2; 6]));
    file.extend(section(false));
    let offset = |body: Body| {
        let body = body.u16(9).u16(1).data(&[0x80 | 10]);
        let body = body.u16(14).u16(8).i64(-2);
        body.u16(2).u16(5).data(b"veth7").u16(0).u16(0)
    };
    file.extend(interface(false, 113, offset));
    file.extend(enhanced(false, 0, 5 * 1024 + 512, 62, &[3; 7]));
    let simple = Body::new(false).u32(9).data(&[4; 9]).block(3);
    file.extend(simple);
    let obsolete = Body::new(false)
        .u16(0)
        .u16(0xffff)
        .u32(0)
        .u32(4096)
        .u32(3)
        .u32(64);
    file.extend(obsolete.data(&[5; 3]).block(2));

    let (records, error) = read_all(&file);
    assert!(error.is_none(), "{error:?}");
    let seen: Vec<_> = records
        .iter()
        .map(|r| (r.time_ns, r.wire_len, r.dlt, r.interface, r.data.clone()))
        .collect();
    let expected = vec![
        (7_000, 60, 1, 0, vec![1; 5]),
        (7_000_000_001, 61, 101, 1, vec![2; 6]),
        (3 * SECOND + SECOND / 2, 62, 113, 2, vec![3; 7]),
        (3 * SECOND + SECOND / 2, 9, 113, 2, vec![4; 9]),
        (2 * SECOND, 64, 113, 2, vec![5; 3]),
    ];
    assert_eq!(seen, expected);

    let mut reader = CaptureReader::open(file.as_slice()).unwrap();
    while reader.next().unwrap().is_some() {}
    assert_eq!(reader.interfaces().len(), 3);
    assert_eq!(reader.interfaces()[2].name.as_deref(), Some("veth7"));
}

#[test]
fn simple_packet_is_cut_at_the_snap_length() {
    let mut file = section(false);
    file.extend(Body::new(false).u16(1).u16(0).u32(6).block(1));
    file.extend(Body::new(false).u32(1_500).data(&[7; 6]).block(3));
    let record = only(&file);
    assert_eq!((record.wire_len, record.data), (1_500, vec![7; 6]));
}

#[test]
fn time_scales() {
    let cases: [(u8, u64, i64, u64); 10] = [
        (0, 3, 0, 3 * SECOND),
        (6, 3, 0, 3_000),
        (9, 3, 0, 3),
        (12, 3_999, 0, 3),
        (28, u64::MAX, 0, 1),
        (127, u64::MAX, 0, 0),
        (0x80, 3, 1, 4 * SECOND),
        (0x80 | 20, 1 << 19, 0, SECOND / 2),
        (0xff, u64::MAX, 0, 0),
        (0, u64::MAX, 0, u64::MAX), // beyond 2554
    ];
    for (tsresol, units, offset, expected) in cases {
        let scale = Scale::from_tsresol(tsresol);
        assert_eq!(
            scale.nanoseconds(units, offset),
            expected,
            "{tsresol} {units}"
        );
    }
    assert_eq!(Scale::from_tsresol(9).nanoseconds(5, -1), 0, "before 1970");
    assert_eq!(
        Scale::from_tsresol(0x80).nanoseconds(u64::MAX, i64::MAX),
        u64::MAX
    );
    assert_eq!(Scale::from_tsresol(0).nanoseconds(0, i64::MIN), 0);
}

#[test]
fn refused_files_say_what_to_do() {
    let message = |file: &[u8]| read_all(file).1.unwrap().to_string();
    assert!(message(&[0x1f, 0x8b, 8, 0]).contains("compressed capture (gzip): unpack it first"));
    assert!(message(&[0x28, 0xb5, 0x2f, 0xfd, 1]).contains("zstd"));
    assert!(message(b"").contains("empty"));
    assert!(message(b"GET / HTTP/1.1").contains("47 45 54 20"));
    let version = pcap(false, 0xa1b2_c3d4, 4, 1, [3, 3], 0);
    let mut version: Vec<u8> = version;
    version[4] = 9;
    assert!(message(&version).contains("version 9.4"));
}

#[test]
fn writers_refuse_what_does_not_fit() {
    let mut pcap = PcapWriter::new(Vec::new(), 1, Resolution::Micro).unwrap();
    let late = (u64::from(u32::MAX) + 1) * SECOND;
    let long = vec![0; MAX_WRITTEN_FRAME + 1];
    let refused = pcap.write(late, 0, &[]);
    assert!(matches!(refused, Err(CaptureError::TimeTooLate { .. })));
    let refused = pcap.write(0, 0, &long);
    assert!(matches!(
        refused,
        Err(CaptureError::FrameTooLong { length: 262_145 })
    ));
    assert_eq!(pcap.finish().unwrap().len(), 24);
    let refused = PcapWriter::new(Vec::new(), 1 << 26, Resolution::Micro);
    assert!(matches!(
        refused,
        Err(CaptureError::LinkTypeTooLarge { .. })
    ));

    let mut pcapng = PcapngWriter::new(Vec::new()).unwrap();
    let refused = pcapng.write(0, 0, 0, &[], None);
    assert!(matches!(
        refused,
        Err(CaptureError::UnknownInterface { interface: 0 })
    ));
    let refused = pcapng.interface("", 65_536);
    assert!(matches!(
        refused,
        Err(CaptureError::LinkTypeTooLarge { .. })
    ));
    let first = pcapng.interface("", 1).unwrap();
    let refused = pcapng.write(first, 0, 0, &[], Some(&"x".repeat(65_536)));
    assert!(matches!(
        refused,
        Err(CaptureError::TextTooLong { length: 65_536 })
    ));
    let refused = pcapng.write(first, 0, 0, &long, None);
    assert!(matches!(refused, Err(CaptureError::FrameTooLong { .. })));
    pcapng.write(first, late, 4, &[1, 2], None).unwrap();
    let record = only(&pcapng.finish().unwrap());
    assert_eq!((record.time_ns, record.wire_len), (late, 4));
}

/// A disk with room for so many bytes.
struct SmallDisk(usize);

impl std::io::Write for SmallDisk {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let count = bytes.len().min(self.0);
        self.0 -= count;
        if count == 0 && !bytes.is_empty() {
            return Err(std::io::ErrorKind::StorageFull.into());
        }
        Ok(count)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_full_disk_is_reported_with_the_place() {
    for room in [0, 1, 100_000, 299_999] {
        let written = (|| {
            let mut writer = PcapWriter::new(SmallDisk(room), 1, Resolution::Nano)?;
            for _ in 0..3_000 {
                writer.write(0, 100, &[0; 84])?;
            }
            writer.finish()
        })();
        match written {
            Err(error @ CaptureError::Write { at, .. }) => {
                assert_eq!(at, room as u64);
                assert!(error.to_string().contains("free some space"), "{error}");
            }
            other => panic!("{room}: {:?}", other.map(|disk| disk.0)),
        }
    }
}

/// Time, length on the wire, port, bytes, comment.
type Packet = (u64, u32, u32, Vec<u8>, Option<String>);

fn packets() -> impl Strategy<Value = Vec<Packet>> {
    let data = prop_oneof![vec(any::<u8>(), 0..80), vec(any::<u8>(), 60_000..90_000)];
    let comment = proptest::option::of("[ -~äß]{0,40}");
    vec((any::<u64>(), any::<u32>(), 0..5u32, data, comment), 0..30)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn pcap_reads_what_was_written(packets in packets(), nano: bool, dlt in 0..(1u32 << 26)) {
        let resolution = if nano { Resolution::Nano } else { Resolution::Micro };
        let mut writer = PcapWriter::new(Vec::new(), dlt, resolution).unwrap();
        let mut expected = Vec::new();
        for (time, wire_len, _, data, _) in packets {
            let time = time % ((u64::from(u32::MAX) + 1) * SECOND);
            writer.write(time, wire_len, &data).unwrap();
            let time_ns = if nano { time } else { time / 1_000 * 1_000 };
            expected.push(OwnedRecord { time_ns, wire_len, dlt, interface: 0, data });
        }
        let (records, error) = read_all(&writer.finish().unwrap());
        prop_assert!(error.is_none(), "{error:?}");
        prop_assert_eq!(records, expected);
    }

    #[test]
    fn pcapng_reads_what_was_written(packets in packets()) {
        let mut writer = PcapngWriter::new(Vec::new()).unwrap();
        let mut expected = Vec::new();
        for (time_ns, wire_len, port, data, comment) in packets {
            let dlt = port * 100 + 1;
            let interface = writer.interface(&format!("port{port}"), dlt).unwrap();
            writer.write(interface, time_ns, wire_len, &data, comment.as_deref()).unwrap();
            expected.push(OwnedRecord { time_ns, wire_len, dlt, interface, data });
        }
        let (records, error) = read_all(&writer.finish().unwrap());
        prop_assert!(error.is_none(), "{error:?}");
        prop_assert_eq!(records, expected);
    }
}
