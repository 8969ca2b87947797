//! Targets that are full, slow, gone or rotated.

use std::fs::File;
use std::io::{self, BufRead as _, ErrorKind, Read as _, Write};
use std::os::unix::net::{UnixDatagram, UnixListener};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use rustix::fs::Mode;

use super::outlet::{GATHERED, REOPEN};
use super::target::Sink;
use super::*;

/// An event file of a live run.
fn to(sink: Sink) -> EventFile {
    let target = Target::Path("here".into());
    EventFile::of(vec![Outlet::of(target, Some(sink), false)])
}

fn live(target: &Path) -> EventFile {
    EventFile::live(&[target]).unwrap().unwrap()
}

fn create(target: &Path) -> EventFile {
    EventFile::create(&[target]).unwrap().unwrap()
}

/// A path of this test's own.
fn path_of(name: &str) -> PathBuf {
    std::env::temp_dir().join(format!("weir-{name}-{}", std::process::id()))
}

/// A disk with so much room.
#[derive(Clone, Default)]
struct Disk(Arc<Mutex<(usize, Vec<u8>)>>);

impl Write for Disk {
    fn write(&mut self, octets: &[u8]) -> io::Result<usize> {
        let mut disk = self.0.lock().unwrap();
        let some = octets.len().min(disk.0 - disk.1.len());
        if some == 0 {
            return Err(ErrorKind::StorageFull.into());
        }
        disk.1.extend_from_slice(&octets[..some]);
        Ok(some)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_full_disk_loses_whole_lines_counts_them_and_is_written_to_when_it_has_room() {
    let disk = Disk::default();
    disk.0.lock().unwrap().0 = 1_005;
    let mut events = to(Sink::of(Box::new(disk.clone())));
    let line = |number: u32| format!("{{\"event\": {number:>88}}}\n").into_bytes();
    assert_eq!(line(0).len(), 100);
    let most = GATHERED as u32 / 100;
    for number in 0..most + 500 {
        events.offer_lines(&line(number));
        if number % 1_000 == 0 {
            events.try_flush();
        }
    }
    assert!(events.outlets[0].lost > 0 && events.outlets[0].stuck);
    disk.0.lock().unwrap().0 = usize::MAX;
    events.try_flush();
    events.offer_lines(&line(7));
    let lost = events.settle();
    let written = disk.0.lock().unwrap().1.clone();
    let lines: Vec<_> = written.split_inclusive(|octet| *octet == b'\n').collect();
    assert!(lines.iter().all(|line| line.len() == 100));
    assert_eq!(lines.len() as u64 + lost, u64::from(most) + 501);
    assert_eq!(lines.last(), Some(&line(7).as_slice()));
    assert!(events.loss().is_err());
}

#[test]
fn what_waits_at_the_end_and_cannot_be_written_is_lost_and_counted() {
    let disk = Disk::default();
    let mut events = to(Sink::of(Box::new(disk)));
    events.offer_lines(b"one\ntwo\n");
    assert_eq!(events.settle(), 2);
    assert_eq!(events.settle(), 2);
}

#[test]
fn a_line_that_was_begun_is_not_gone_on_with() {
    let path = path_of("events");
    for (there, then) in [
        ("", "new\n"),
        ("old\n", "old\nnew\n"),
        ("old\nto", "old\nto\nnew\n"),
    ] {
        std::fs::write(&path, there).unwrap();
        let mut events = live(&path);
        events.write_lines(b"new\n").unwrap();
        events.finish().unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), then);
    }
    std::fs::remove_file(&path).unwrap();
}

/// Offers so many lines of 100 octets.
fn offer(events: &mut EventFile, lines: u32) {
    for number in 0..lines {
        let line = format!("{{\"event\": {number:>88}}}\n");
        events.offer_lines(line.as_bytes());
        if number % 1_000 == 0 {
            events.try_flush();
        }
    }
}

#[test]
fn a_pipe_that_nobody_reads_from_is_not_waited_for_and_one_that_is_read_gets_all() {
    let (mut reader, writer) = io::pipe().unwrap();
    let file = File::from(std::os::fd::OwnedFd::from(writer));
    let mut events = to(Sink::stream(file, false));
    offer(&mut events, 10_000);
    assert!(events.outlets[0].lost > 0 && events.outlets[0].stuck);
    // Somebody reads: what waits is for them, and what comes at the end.
    let reader = std::thread::spawn(move || {
        let mut all = Vec::new();
        reader.read_to_end(&mut all).map(|_| all)
    });
    events.wait_for_reader();
    // However slow this machine is.
    events.outlets[0].patience = Duration::from_secs(60);
    let before = events.outlets[0].lost;
    offer(&mut events, 10_000);
    assert_eq!(events.settle(), before);
    drop(events);
    let all = reader.join().unwrap().unwrap();
    let lines: Vec<_> = all.split_inclusive(|octet| *octet == b'\n').collect();
    assert!(lines.iter().all(|line| line.len() == 100));
    assert_eq!(lines.len() as u64 + before, 20_000);
}

#[test]
fn a_fifo_without_a_reader_is_opened_and_its_reader_may_come_later() {
    let path = path_of("fifo");
    let fifo = rustix::fs::FileType::Fifo;
    rustix::fs::mknodat(rustix::fs::CWD, &path, fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
    let mut events = live(&path);
    offer(&mut events, 10);
    events.try_flush();
    let mut first = [0; 100];
    File::open(&path).unwrap().read_exact(&mut first).unwrap();
    assert!(first.starts_with(b"{\"event\": "));
    offer(&mut events, 10_000);
    assert!(events.settle() > 0);
    std::fs::remove_file(&path).unwrap();
}

#[test]
fn what_a_file_has_stays_and_a_moved_file_is_left_at_a_hang_up() {
    let (path, moved) = (path_of("rotated"), path_of("rotated.1"));
    std::fs::write(&path, "old\n").unwrap();
    for is_live in [false, true] {
        let mut events = match is_live {
            false => create(&path),
            true => live(&path),
        };
        let mut write = |line: &str| match is_live {
            false => events.write_lines(line.as_bytes()).unwrap(),
            true => {
                events.offer_lines(line.as_bytes());
                events.try_flush();
            }
        };
        write("first\n");
        std::fs::rename(&path, &moved).unwrap();
        write("second\n");
        events.reopen().unwrap();
        events.offer_lines(b"third\n");
        events.finish().unwrap();
        let before = std::fs::read_to_string(&moved).unwrap();
        assert!(before.ends_with("first\nsecond\n"), "{before}");
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "third\n");
    }
    std::fs::remove_file(&path).unwrap();
    std::fs::remove_file(&moved).unwrap();
}

/// Offers `lines` until they are written, for a listener that comes.
fn offer_until_written(events: &mut EventFile, lines: &[u8]) {
    events.offer_lines(lines);
    let end = Instant::now() + 20 * REOPEN;
    while !events.outlets[0].waiting.is_empty() {
        assert!(Instant::now() < end, "nothing is written");
        std::thread::sleep(Duration::from_millis(20));
        // Far more often than `REOPEN`, as the housekeeping of a live run does.
        events.try_flush();
    }
}

#[test]
fn a_socket_whose_listener_is_gone_loses_counted_lines_until_the_next_listens() {
    let path = path_of("socket");
    let target = PathBuf::from(format!("unix:{}", path.display()));
    let mut events = live(&target);
    offer(&mut events, 5_000);
    let lost_before = events.outlets[0].lost;
    assert!(lost_before > 0 && events.outlets[0].stuck);
    let listener = UnixListener::bind(&path).unwrap();
    let reader = std::thread::spawn(move || {
        let (stream, _) = listener.accept().unwrap();
        let lines = io::BufReader::new(stream).lines();
        let first: Vec<String> = lines.take(1_000).map(Result::unwrap).collect();
        // That reader goes. What lies in its socket is lost with it.
        let (mut stream, _) = listener.accept().unwrap();
        let mut rest = String::new();
        stream.read_to_string(&mut rest).unwrap();
        (first, rest)
    });
    offer_until_written(&mut events, b"");
    offer_until_written(&mut events, b"to the second\n");
    assert!(events.outlets[0].lost >= lost_before);
    drop(events);
    let (first, rest) = reader.join().unwrap();
    assert!(first.iter().all(|line| line.len() == 99));
    assert!(rest.ends_with("to the second\n"), "{rest}");
    let whole = |line: &str| line.len() == 99 || line == "to the second";
    assert!(rest.lines().all(whole));
    std::fs::remove_file(&path).unwrap();
}

#[test]
fn each_datagram_is_a_line_and_a_slow_reader_is_not_waited_for() {
    let path = path_of("datagrams");
    let reader = UnixDatagram::bind(&path).unwrap();
    let target = PathBuf::from(format!("unix:{}", path.display()));
    let mut events = live(&target);
    events.offer_lines(b"one\nother\n");
    events.try_flush();
    let mut buffer = [0; 200];
    for line in ["one\n", "other\n"] {
        let length = reader.recv(&mut buffer).unwrap();
        assert_eq!(&buffer[..length], line.as_bytes());
    }
    offer(&mut events, 10_000);
    assert!(events.outlets[0].lost > 0 && events.outlets[0].stuck);
    assert_eq!(reader.recv(&mut buffer).unwrap(), 100);
    let longest = [vec![b'x'; 4 << 20], b"\n".to_vec()].concat();
    let mut events = live(&target);
    while reader.set_nonblocking(true).is_ok() && reader.recv(&mut buffer).is_ok() {}
    events.outlets[0].waiting.extend_from_slice(&longest);
    events.offer_lines(b"short\n");
    events.try_flush();
    assert_eq!(
        (events.outlets[0].lost, events.outlets[0].waiting.len()),
        (1, 0)
    );
    std::fs::remove_file(&path).unwrap();
}

#[test]
fn a_run_over_captures_needs_the_listener_from_the_start() {
    let target = PathBuf::from(format!("unix:{}", path_of("nobody").display()));
    let failure = EventFile::create(&[target]).err().unwrap();
    assert!(
        failure
            .why()
            .contains("start the program that listens there first")
    );
}

#[test]
fn all_targets_get_all_events() {
    let (one, other) = (path_of("first-target"), path_of("second-target"));
    let mut events = EventFile::create(&[&one, &other]).unwrap().unwrap();
    events.write_lines(b"for both\n").unwrap();
    events.finish().unwrap();
    for path in [one, other] {
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "for both\n");
        std::fs::remove_file(&path).unwrap();
    }
}

/// A collector that comes late gets what waits, whole.
#[test]
fn a_collector_may_come_later() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let target = PathBuf::from(format!("syslog:tcp:{address}"));
    let mut events = live(&target);
    let line = "{\"timestamp\":\"1970-01-01T00:00:00.000000+0000\",\"event_type\":\"x\"}\n";
    for _ in 0..5_000 {
        events.offer_lines(line.as_bytes());
        events.try_flush();
    }
    let lost = events.outlets[0].lost;
    assert!(lost > 0 && events.outlets[0].stuck);
    let kept = 5_000 - lost as usize;
    let listener = std::net::TcpListener::bind(address).unwrap();
    let reader = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut all = String::new();
        stream.read_to_string(&mut all).map(|_| all)
    });
    offer_until_written(&mut events, b"");
    assert_eq!(events.settle(), lost);
    drop(events);
    let all = reader.join().unwrap().unwrap();
    assert!(all.ends_with(line.trim_end()), "{all}");
    assert_eq!(all.matches("<174>1 1970").count(), kept);
}

/// A message goes on where it stopped when there is room again.
#[test]
fn a_full_disk_breaks_no_message() {
    let disk = Disk::default();
    disk.0.lock().unwrap().0 = 700;
    let Target::Export(export) = Target::parse(Path::new("ipfix:flows")).unwrap() else {
        panic!("it is a collector's");
    };
    let sink = Sink::of(Box::new(disk.clone())).by(export.encoder());
    let line = concat!(
        r#"{"timestamp":"1970-01-01T00:00:09.000000+0000","event_type":"nat","proto":"UDP","#,
        r#""nat":{"event":"create","internal_ip":"10.0.0.1","internal_port":1,"#,
        r#""external_ip":"192.0.2.1","external_port":2}}"#,
        "\n"
    );
    let mut outlet = Outlet::of(Target::Export(export), Some(sink), false);
    for _ in 0..200 {
        outlet.offer(line.as_bytes());
    }
    outlet.offer(b"{\"timestamp\":\"\",\"event_type\":\"http\"}\n");
    outlet.try_flush();
    assert!(outlet.stuck);
    disk.0.lock().unwrap().0 = usize::MAX;
    assert_eq!(outlet.settle(), 0);
    let written = disk.0.lock().unwrap().1.clone();
    let (mut at, mut records) = (0, 0);
    while at < written.len() {
        let be32 = |at: usize| u32::from_be_bytes(written[at..at + 4].try_into().unwrap());
        assert_eq!(be32(at) >> 16, 10, "a message begins at {at}");
        assert_eq!(be32(at + 8), records);
        let (end, mut set) = (at + (be32(at) & 0xffff) as usize, at + 16);
        while set < end {
            let length = be32(set) & 0xffff;
            if be32(set) >> 16 == 258 {
                records += (length - 4) / 22;
            }
            set += length as usize;
        }
        at = end;
    }
    assert_eq!(records, 200);
}

/// A target that fails takes nothing from the others.
#[test]
fn where_one_target_fails_the_others_have_all() {
    let (socket, path) = (path_of("gone"), path_of("whole"));
    let listener = UnixListener::bind(&socket).unwrap();
    let gone = PathBuf::from(format!("unix:{}", socket.display()));
    let mut events = EventFile::create(&[&gone, &path]).unwrap().unwrap();
    drop(listener.accept().unwrap());
    events.write_lines(b"one\n").unwrap();
    assert!(events.finish().is_err());
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "one\n");
    std::fs::remove_file(&socket).unwrap();
    std::fs::remove_file(&path).unwrap();
}

/// UDP loses what nobody takes; who listens later gets what comes then.
#[test]
fn datagrams_that_nobody_takes_end_no_run() {
    let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = socket.local_addr().unwrap();
    drop(socket);
    let mut events = create(Path::new(&format!("syslog:udp:{address}")));
    let mut say = |what: &str| {
        events.write_lines(what.as_bytes()).unwrap();
        events.finish().unwrap();
    };
    for _ in 0..50 {
        say("{}\n");
    }
    let socket = std::net::UdpSocket::bind(address).unwrap();
    say("{\"last\":1}\n");
    let mut one = [0; 1_000];
    socket
        .set_read_timeout(Some(Duration::from_secs(10)))
        .unwrap();
    let octets = socket.recv(&mut one).unwrap();
    assert!(one[..octets].ends_with(b"{\"last\":1}"));
}
