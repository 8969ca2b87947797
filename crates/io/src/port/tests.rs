//! Ports over real files.

use std::fs;
use std::path::PathBuf;

use weir_packet::{Frame, FrameMeta, FramePool, LinkType, MemoryLayout, Side, Time};

use super::*;

fn layout(small_frames: u32, large_frames: u32) -> MemoryLayout {
    MemoryLayout {
        small_frames,
        large_frames,
        ..MemoryLayout::default()
    }
}

fn temporary(name: &str) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("weir-ports-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    folder.join(name)
}

fn packet(time: u64, link: LinkType, bytes: &[u8]) -> (FrameMeta, Vec<u8>) {
    let mut meta = FrameMeta::received(Time(time), bytes.len() as u32);
    meta.link = link;
    (meta, bytes.to_vec())
}

fn write(path: &std::path::Path, packets: Vec<(FrameMeta, Vec<u8>)>) -> PortCounters {
    let mut pool = FramePool::with_layout(layout(64, 4));
    let mut frames = Vec::new();
    MemoryInput::new(packets)
        .receive(&mut pool, &mut frames, 64)
        .unwrap();
    let mut output = CaptureOutput::create(path).unwrap();
    output.send(&mut pool, &mut frames).unwrap();
    output.finish(&mut pool).unwrap();
    assert_eq!(pool.outstanding(), 0);
    output.counters()
}

/// Reads everything, `batch` packets at a time.
fn read(port: &mut dyn InputPort, pool: &mut FramePool, batch: usize) -> Vec<(FrameMeta, Vec<u8>)> {
    let mut all = Vec::new();
    let mut frames: Vec<Frame> = Vec::new();
    for _ in 0..10_000 {
        let received = port.receive(pool, &mut frames, batch).unwrap();
        for frame in frames.drain(..) {
            let (meta, bytes) = pool.memory().read(&frame);
            all.push((*meta, bytes.to_vec()));
            pool.give(frame);
        }
        if received == Received::End {
            return all;
        }
    }
    panic!("the input never ends");
}

#[test]
fn what_is_written_is_read_again_in_both_formats() {
    for name in ["round.pcap", "round.pcapng"] {
        let path = temporary(name);
        let packets: Vec<_> = (0..50u8)
            .map(|i| {
                packet(
                    1_700_000_000_123_456_789 + u64::from(i),
                    LinkType::Ethernet,
                    &[i; 60],
                )
            })
            .collect();
        assert_eq!(write(&path, packets.clone()).packets, 50);
        let mut input = CaptureInput::open(&path, 3, Side::Outside).unwrap();
        let mut pool = FramePool::with_layout(layout(8, 1));
        let back = read(&mut input, &mut pool, 5);
        assert_eq!(back.len(), 50);
        for (i, ((meta, bytes), (wanted, sent))) in back.iter().zip(&packets).enumerate() {
            assert_eq!(
                (bytes, meta.time, meta.link),
                (sent, wanted.time, wanted.link)
            );
            assert_eq!(
                (meta.sequence, meta.port, meta.side),
                (i as u64 + 1, 3, Side::Outside)
            );
        }
    }
}

#[test]
fn a_pcap_keeps_one_link_type_and_counts_the_others() {
    let packets = vec![
        packet(1, LinkType::RawIp, &[0x45; 20]),
        packet(2, LinkType::Ethernet, &[0; 60]),
        packet(3, LinkType::RawIp, &[0x45; 20]),
    ];
    let counters = write(&temporary("mixed.pcap"), packets.clone());
    assert_eq!(
        (
            counters.packets,
            counters.drops.get(PortDrop::OutputLinkType)
        ),
        (2, 1)
    );
    let counters = write(&temporary("mixed.pcapng"), packets);
    assert_eq!((counters.packets, counters.dropped()), (3, 0));
}

#[test]
fn a_packet_beyond_every_frame_is_counted_and_the_rest_goes_on() {
    let path = temporary("large.pcap");
    write(
        &path,
        vec![
            packet(1, LinkType::Ethernet, &[1; 100]),
            packet(2, LinkType::Ethernet, &[2; 80_000]),
            packet(3, LinkType::Ethernet, &[3; 100]),
        ],
    );
    let mut input = CaptureInput::open(&path, 0, Side::Inside).unwrap();
    let mut pool = FramePool::with_layout(layout(8, 0));
    let back = read(&mut input, &mut pool, 64);
    assert_eq!(
        back.iter()
            .map(|(meta, _)| meta.sequence)
            .collect::<Vec<_>>(),
        [1, 3]
    );
    assert_eq!(input.counters().drops, [(PortDrop::FrameTooLarge, 1)]);
    assert_eq!(input.counters().dropped_bytes, 80_000);
}

#[test]
fn an_empty_pool_holds_a_file_back_and_loses_nothing() {
    let path = temporary("back-pressure.pcap");
    write(
        &path,
        (0..40u8)
            .map(|i| packet(u64::from(i), LinkType::Ethernet, &[i; 60]))
            .collect(),
    );
    let mut input = CaptureInput::open(&path, 0, Side::Inside).unwrap();
    let mut pool = FramePool::with_layout(layout(3, 0));
    let back = read(&mut input, &mut pool, 64);
    assert_eq!(
        back.iter().map(|(_, bytes)| bytes[0]).collect::<Vec<_>>(),
        (0..40).collect::<Vec<_>>()
    );
}

#[test]
fn a_truncated_capture_gives_what_it_has_and_says_so() {
    let path = temporary("cut.pcap");
    write(
        &path,
        (0..10u8)
            .map(|i| packet(u64::from(i), LinkType::Ethernet, &[i; 60]))
            .collect(),
    );
    let whole = fs::read(&path).unwrap();
    fs::write(&path, &whole[..whole.len() - 30]).unwrap();
    let mut input = CaptureInput::open(&path, 0, Side::Inside).unwrap();
    let mut pool = FramePool::with_layout(layout(64, 0));
    assert_eq!(read(&mut input, &mut pool, 64).len(), 9);
    let why = input.counters().cut_short.unwrap();
    assert!(
        why.contains("truncated") && why.contains("cut.pcap"),
        "{why}"
    );
}

#[test]
fn inputs_are_merged_by_time_and_equal_times_in_order() {
    let input = |times: &[u64], tag: u8| -> Box<dyn InputPort> {
        Box::new(MemoryInput::new(
            times
                .iter()
                .map(|&t| packet(t, LinkType::Ethernet, &[tag; 20])),
        ))
    };
    // Large packets and few frames: the inputs must not hold them all.
    let mut merged = MergedInput::new(vec![
        input(&[1, 4, 4, 9], 1),
        input(&[2, 4, 8], 2),
        input(&[], 3),
    ]);
    let mut pool = FramePool::with_layout(layout(4, 0));
    let (mut order, mut frames) = (Vec::new(), Vec::new());
    for _ in 0..100 {
        let received = merged.receive(&mut pool, &mut frames, 2).unwrap();
        for frame in frames.drain(..) {
            let (meta, bytes) = pool.memory().read(&frame);
            order.push((meta.time.0, bytes[0]));
            pool.give(frame);
        }
        if received == Received::End {
            break;
        }
    }
    assert_eq!(
        order,
        [(1, 1), (2, 2), (4, 1), (4, 1), (4, 2), (8, 2), (9, 1)]
    );
    assert_eq!(pool.outstanding(), 0);
}

/// After `end` the packets that were fetched ahead still come, and no others.
#[test]
fn merged_inputs_that_are_over_have_a_packet_each_left_at_most() {
    let input = |times: &[u64]| -> Box<dyn InputPort> {
        let packets = times.iter();
        Box::new(MemoryInput::new(
            packets.map(|&t| packet(t, LinkType::Ethernet, &[1; 20])),
        ))
    };
    let mut merged = MergedInput::new(vec![input(&[1, 3, 5]), input(&[2, 4, 6])]);
    let mut pool = FramePool::with_layout(layout(8, 0));
    let mut frames = Vec::new();
    assert_eq!(
        merged.receive(&mut pool, &mut frames, 1).unwrap(),
        Received::More
    );
    assert!(!merged.is_over());
    merged.end();
    assert!(merged.is_over());
    while merged.receive(&mut pool, &mut frames, 8).unwrap() == Received::More {}
    let times: Vec<u64> = frames
        .iter()
        .map(|f| pool.memory().meta(f).time.0)
        .collect();
    assert_eq!(times, [1, 2]);
    pool.give_all(&mut frames);
}

#[test]
fn the_generator_marks_answers_as_from_the_other_side() {
    let (_, spec) = PortSpec::parse("gen:flows=3,packets=60,proto=tcp,life=tcp,seed=1").unwrap();
    let mut input = spec.open_input(2, Side::Inside).unwrap();
    let mut pool = FramePool::with_layout(layout(64, 0));
    let all = read(&mut *input, &mut pool, 16);
    assert_eq!(all.len(), 60);
    for side in [Side::Inside, Side::Outside] {
        assert!(all.iter().any(|(meta, _)| meta.side == side));
    }
    assert!(all.iter().all(|(meta, _)| meta.port == 2));
}

#[test]
fn a_file_that_is_written_is_not_emptied() {
    let path = temporary("written.pcapng");
    let first = CaptureOutput::create(&path).unwrap();
    fs::write(&path, b"packets").unwrap();
    let error = CaptureOutput::create(&path).unwrap_err().to_string();
    assert!(error.contains("another run writes it"), "{error}");
    assert_eq!(fs::read(&path).unwrap(), b"packets");
    drop(first);
    drop(CaptureOutput::create(&path).unwrap());
    let _ = fs::remove_file(&path);
}

#[test]
fn a_full_disk_and_other_bad_places_are_clear_errors() {
    let full = temporary("full.pcap");
    let _ = fs::remove_file(&full);
    std::os::unix::fs::symlink("/dev/full", &full).unwrap();
    let mut pool = FramePool::with_layout(layout(64, 4));
    let mut output = CaptureOutput::create(&full).unwrap();
    let mut failed = None;
    for _ in 0..64 {
        let mut frames = vec![pool.copy(&[0; 60_000], FrameMeta::default()).unwrap()];
        if let Err(error) = output.send(&mut pool, &mut frames) {
            failed = Some(error.to_string());
            break;
        }
    }
    let failed = failed.expect("the disk is full");
    assert!(
        failed.contains("full.pcap") && failed.contains("free some space"),
        "{failed}"
    );
    assert_eq!(pool.outstanding(), 0);
    let no = |path: &str| {
        CaptureOutput::create(std::path::Path::new(path))
            .unwrap_err()
            .to_string()
    };
    assert!(no("/tmp/x.txt").contains(".pcapng"));
    assert!(no("/nowhere/x.pcap").contains("/nowhere/x.pcap"));
    let gone = CaptureInput::open(std::path::Path::new("/nowhere/x.pcap"), 0, Side::Inside);
    assert!(gone.unwrap_err().to_string().contains("can't open"));
}

#[test]
fn a_file_is_not_read_and_written_at_once() {
    let path = temporary("both.pcap");
    write(&path, vec![packet(1, LinkType::Ethernet, &[1; 60])]);
    let link = temporary("link.pcap");
    let _ = fs::remove_file(&link);
    std::os::unix::fs::symlink(&path, &link).unwrap();
    let (file, linked, other) = (
        PortSpec::Capture(path),
        PortSpec::Capture(link),
        PortSpec::Capture(temporary("new.pcap")),
    );
    assert!(
        check_apart([&file], [&linked])
            .unwrap_err()
            .to_string()
            .contains("input of the same run")
    );
    assert!(
        check_apart([&file], [&other, &other])
            .unwrap_err()
            .to_string()
            .contains("same file")
    );
    assert!(check_apart([&file, &linked], [&other, &PortSpec::Null, &PortSpec::Null]).is_ok());
}

/// A pipe at which nothing is for now is a port without packets, not one that stands still; cut
/// anywhere, its packets come whole.
#[test]
fn a_pipe_that_is_empty_for_now_holds_nobody_up() {
    use std::io::Write as _;

    let folder = temporary("pipe");
    let _ = std::fs::remove_file(&folder);
    rustix::fs::mknodat(
        rustix::fs::CWD,
        &folder,
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::from_raw_mode(0o600),
        0,
    )
    .unwrap();
    // A header, and three packets of 60 bytes.
    let mut bytes = vec![0xd4, 0xc3, 0xb2, 0xa1, 2, 0, 4, 0];
    bytes.extend([0; 8]);
    bytes.extend(65_535u32.to_le_bytes());
    bytes.extend(1u32.to_le_bytes());
    for packet in 0..3u8 {
        for word in [u32::from(packet), 0, 60, 60] {
            bytes.extend(word.to_le_bytes());
        }
        bytes.extend([packet; 60]);
    }
    let path = folder.clone();
    let (ask, asked) = std::sync::mpsc::channel::<usize>();
    let writer = std::thread::spawn(move || {
        let mut pipe = std::fs::OpenOptions::new().write(true).open(path).unwrap();
        let mut rest = bytes.as_slice();
        for count in asked {
            let (now, later) = rest.split_at(count.min(rest.len()));
            pipe.write_all(now).unwrap();
            rest = later;
        }
    });
    // The header alone, then in the middle of the first packet, of the second one's header, the rest.
    ask.send(24).unwrap();
    let mut port = super::CaptureInput::open(&folder, 0, Side::Inside).unwrap();
    let mut pool = FramePool::with_layout(layout(64, 4));
    let mut receive = |wanted: usize| {
        let mut frames = Vec::new();
        let until = std::time::Instant::now() + std::time::Duration::from_secs(20);
        while frames.len() < wanted && std::time::Instant::now() < until {
            let received = port.receive(&mut pool, &mut frames, 64).unwrap();
            assert_eq!(received, Received::More);
        }
        // One call more finds nothing, and returns.
        let received = port.receive(&mut pool, &mut frames, 64).unwrap();
        let first: Vec<u8> = frames.iter().map(|f| pool.memory().bytes(f)[0]).collect();
        pool.give_all(&mut frames);
        (received, first)
    };
    assert_eq!(receive(0), (Received::More, vec![]));
    ask.send(40).unwrap();
    assert_eq!(receive(0), (Received::More, vec![]));
    ask.send(46).unwrap();
    assert_eq!(receive(1), (Received::More, vec![0]));
    ask.send(1_000).unwrap();
    assert_eq!(receive(2), (Received::More, vec![1, 2]));
    drop(ask);
    writer.join().unwrap();
    assert_eq!(receive(0), (Received::End, vec![]));
    std::fs::remove_file(&folder).unwrap();
}
