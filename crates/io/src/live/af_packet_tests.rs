//! Packets that no other test's interface sends. Needs root; says SKIPPED without. All traffic
//! stays in a namespace that the test makes.

use std::fs::File;
use std::io::Write as _;
use std::process::Command;

use weir_packet::{MemoryLayout, Side};

use super::*;
use crate::live::LiveClock;
use crate::sys::interface::Interfaces;
use crate::sys::tun;

/// A namespace, while the value lives.
struct Namespace(String);

impl Namespace {
    fn new(name: &str) -> Option<Namespace> {
        let name = format!("weir-{name}-{}", std::process::id());
        let made = Command::new("ip").args(["netns", "add", &name]).status();
        made.is_ok_and(|status| status.success())
            .then_some(Namespace(name))
    }

    /// Runs on a thread inside.
    fn run(&self, work: impl FnOnce() + Send) {
        let file = File::open(format!("/run/netns/{}", self.0)).unwrap();
        let kind = rustix::thread::LinkNameSpaceType::Network;
        std::thread::scope(|scope| {
            scope.spawn(|| {
                rustix::thread::move_into_link_name_space(file.as_fd(), Some(kind)).unwrap();
                work();
            });
        });
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        let _ = Command::new("ip").args(["netns", "del", &self.0]).status();
    }
}

/// A datagram of so many octets, with a header of what is left to a card.
fn datagram(octets: u16, left: [u8; 10]) -> Vec<u8> {
    let mut packet = left.to_vec();
    packet.extend([2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0]);
    packet.extend([0x45, 0]);
    packet.extend((28 + octets).to_be_bytes());
    packet.extend([0, 1, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
    packet.extend([0, 9, 0, 10]);
    packet.extend((8 + octets).to_be_bytes());
    packet.extend([0, 0]);
    packet.resize(packet.len() + usize::from(octets), b'x');
    packet
}

/// Datagrams to be cut as virtual machines once had it: a kind of segments that
/// the kernel takes from them and can't describe to a packet socket.
fn undescribed() -> Vec<u8> {
    to_be_cut(3, 3_000)
}

/// So many octets, to be cut into datagrams of 1,000.
fn to_be_cut(kind: u8, octets: u16) -> Vec<u8> {
    let mut left = [1, kind, 42, 0, 0, 0, 34, 0, 6, 0];
    left[4..6].copy_from_slice(&1_000u16.to_le_bytes());
    datagram(octets, left)
}

fn port_of(interface: &str) -> PacketPort {
    Interfaces::open().unwrap().set_up(interface).unwrap();
    let options = LiveOptions {
        number: 0,
        side: Side::Inside,
        busy_poll: false,
        clock: LiveClock::start(),
    };
    PacketPort::open("af-packet:ring0", interface, options).unwrap()
}

/// Has the test's work done in a namespace of its own, with a pool.
pub(in crate::live) fn in_namespace(name: &str, work: impl FnOnce(&mut FramePool) + Send) {
    let Some(namespace) = Namespace::new(name) else {
        let _ = std::io::Write::write_all(
            &mut std::io::stderr(),
            b"SKIPPED: needs root, for a network namespace\n",
        );
        return;
    };
    namespace.run(|| work(&mut FramePool::with_layout(MemoryLayout::default())));
}

pub(in crate::live) fn ip(words: &str) {
    let done = Command::new("ip").args(words.split(' ')).status();
    assert!(done.unwrap().success(), "ip {words}");
}

/// Packets too long for a slot lie in a queue beside the ring: the two stay in
/// step when the interface is set down meanwhile.
#[test]
fn the_queue_keeps_step_with_the_ring_when_the_interface_is_set_down() {
    in_namespace("queue", |pool| {
        let mut tap = tun::open_with_offload_headers("ring0").unwrap();
        let mut port = port_of("ring0");
        let mut frames = Vec::new();
        for parts in [3u16, 2, 5] {
            if tap.write_all(&to_be_cut(5, parts * 1_000)).is_err() {
                let _ = std::io::Write::write_all(
                    &mut std::io::stderr(),
                    b"SKIPPED: this kernel takes no segments of UDP from a TAP\n",
                );
                return;
            }
            if parts == 3 {
                ip("link set ring0 down");
            }
            for _ in 0..3 {
                port.receive(pool, &mut frames, 64).unwrap();
            }
            assert_eq!(frames.len(), usize::from(parts));
            pool.give_all(&mut frames);
            ip("link set ring0 up");
        }
    });
}

#[test]
fn segments_that_are_left_at_the_end_are_counted() {
    in_namespace("left", |pool| {
        let mut tap = tun::open_with_offload_headers("ring0").unwrap();
        let mut port = port_of("ring0");
        if tap.write_all(&to_be_cut(5, 3_000)).is_err() {
            let _ = std::io::Write::write_all(
                &mut std::io::stderr(),
                b"SKIPPED: this kernel takes no segments of UDP from a TAP\n",
            );
            return;
        }
        let mut frames = Vec::new();
        port.receive(pool, &mut frames, 1).unwrap();
        assert_eq!(frames.len(), 1);
        pool.give_all(&mut frames);
        port.close(pool);
        let counters = InputPort::counters(&port);
        assert_eq!(counters.drops, [(PortDrop::SegmentUnfinished, 2)]);
        assert_eq!(counters.dropped_bytes, 2 * 1_042);
    });
}

/// All that came since the kernel was last asked was dropped, and the ring is empty;
/// but it was full, and has been read since.
#[test]
fn a_ring_that_was_full_is_not_jammed() {
    in_namespace("full", |pool| {
        let mut tap = tun::open_with_offload_headers("ring0").unwrap();
        let mut port = port_of("ring0");
        let dropped = |port: &PacketPort| InputPort::counters(port).dropped();
        let mut more =
            |count| (0..count).for_each(|_| tap.write_all(&datagram(10, [0; 10])).unwrap());
        let mut fills = 0;
        while dropped(&port) == 0 && fills < 100 {
            more(1_000);
            fills += 1;
        }
        let before = dropped(&port);
        more(100);
        let mut frames = Vec::new();
        loop {
            port.receive(pool, &mut frames, 64).unwrap();
            if frames.is_empty() {
                break;
            }
            pool.give_all(&mut frames);
        }
        port.check().unwrap();
        let counters = InputPort::counters(&port);
        assert_eq!(counters.noticed, [], "{counters:?}");
        assert!(
            before > 0 && counters.dropped() >= before + 100,
            "{counters:?}"
        );
    });
}

#[test]
fn a_ring_that_the_kernel_has_jammed_is_made_anew() {
    in_namespace("ring", |pool| {
        let mut tap = tun::open_with_offload_headers("ring0").unwrap();
        let mut port = port_of("ring0");
        let mut frames = Vec::new();
        let mut passes = |tap: &mut File, port: &mut PacketPort| {
            tap.write_all(&datagram(100, [0; 10])).unwrap();
            port.receive(pool, &mut frames, 64).unwrap();
            let came = frames.len();
            pool.give_all(&mut frames);
            came
        };
        assert_eq!(passes(&mut tap, &mut port), 1);
        port.check().unwrap();
        assert_eq!(passes(&mut tap, &mut port), 1);
        // A kernel may refuse it; then nothing is jammed.
        if tap.write_all(&undescribed()).is_ok() {
            for _ in 0..10 {
                passes(&mut tap, &mut port);
                port.check().unwrap();
            }
        }
        let noticed = InputPort::counters(&port).noticed;
        assert_eq!(passes(&mut tap, &mut port), 1, "{noticed:?}");
    });
}

/// A frame of so many octets, of a protocol that nobody has.
fn frame(octets: usize, number: u32, tagged: bool) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2];
    frame.extend(if tagged { [0x81, 0] } else { [0x88, 0xb5] });
    if tagged {
        frame.extend([0, 5, 0x88, 0xb5]);
    }
    frame.extend(number.to_be_bytes());
    frame.resize(octets, number as u8);
    frame
}

/// Sends these, and gives what arrived at the other end.
fn through(ports: &mut [PacketPort; 2], pool: &mut FramePool, packets: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let memory = Arc::clone(pool.memory());
    let [to, from] = ports;
    let mut burst = Vec::new();
    for packet in packets {
        burst.push(pool.copy(packet, FrameMeta::default()).unwrap());
    }
    to.send(pool, &mut burst).unwrap();
    let mut came = Vec::new();
    from.receive(pool, &mut burst, usize::MAX).unwrap();
    came.extend(burst.iter().map(|frame| memory.bytes(frame).to_vec()));
    // Others' packets as an interface comes up.
    came.retain(|packet| packet.starts_with(&[2, 0, 0, 0, 0, 1]));
    pool.give_all(&mut burst);
    came
}

/// Drops of a port's output for a reason.
fn unsent(port: &PacketPort, reason: PortDrop) -> u64 {
    OutputPort::counters(port).drops.get(reason)
}

#[test]
fn what_is_sent_arrives_as_it_was_and_what_is_not_is_counted() {
    in_namespace("send", |pool| {
        ip("link add ring0 type veth peer name ring1");
        let mut ports = ["ring0", "ring1"].map(port_of);
        // Others' packets as an interface comes up.
        std::thread::sleep(std::time::Duration::from_millis(50));
        through(&mut ports, pool, &[]);
        // More than the ring has slots, the shortest and the longest among them.
        let packets: Vec<Vec<u8>> = (0..1_500u32)
            .map(|number| match number % 3 {
                0 => frame(18 + (number as usize * 7) % 1_497, number, false),
                1 => frame(1_518, number, true),
                _ => frame([18, 1_514][number as usize % 2], number, false),
            })
            .collect();
        let mut came = through(&mut ports, pool, &packets);
        came.retain(|packet| packet.contains(&0xb5));
        assert_eq!(came.len(), packets.len());
        assert!(came == packets, "something was changed");
        let sent = OutputPort::counters(&ports[0]).packets;
        assert_eq!(sent, 1_500);

        // Too short, too long, and between them what is neither.
        let mixed = [
            frame(60, 1, false),
            vec![0; 13],
            frame(1_515, 2, false),
            frame(61, 3, false),
            frame(1_519, 4, true),
        ];
        let came = through(&mut ports, pool, &mixed);
        assert_eq!(came, [mixed[0].clone(), mixed[3].clone()]);
        assert_eq!(unsent(&ports[0], PortDrop::OutputTooLong), 2);
        assert_eq!(unsent(&ports[0], PortDrop::OutputFailed), 1);

        ip("link set ring0 down");
        let lost: Vec<_> = (0..70).map(|number| frame(60, number, false)).collect();
        assert!(through(&mut ports, pool, &lost).is_empty());
        assert_eq!(unsent(&ports[0], PortDrop::OutputDown), 70);
        ip("link set ring0 up");

        // Another MTU is noticed.
        for (mtu, longest) in [(4_000, 4_014), (1_000, 1_014)] {
            for name in ["ring0", "ring1"] {
                ip(&format!("link set {name} mtu {mtu}"));
            }
            ports.iter_mut().for_each(|port| port.check().unwrap());
            through(&mut ports, pool, &[]);
            let too_long = unsent(&ports[0], PortDrop::OutputTooLong);
            let packets = [longest, longest + 1, longest].map(|len| frame(len, mtu, false));
            let came = through(&mut ports, pool, &packets);
            assert_eq!(came, [packets[0].clone(), packets[2].clone()]);
            assert_eq!(unsent(&ports[0], PortDrop::OutputTooLong), too_long + 1);
        }
    });
}

#[test]
fn a_stranger_by_the_same_name_changes_nothing() {
    in_namespace("name", |pool| {
        ip("link add ring0 type veth peer name ring1");
        let mut ports = ["ring0", "ring1"].map(port_of);
        ip("link set ring0 down");
        ip("link set ring0 name ring2");
        ip("link set ring2 up");
        ip("link add ring0 mtu 600 type veth peer name ring3");
        std::thread::sleep(std::time::Duration::from_millis(50));
        ports.iter_mut().for_each(|port| port.check().unwrap());
        through(&mut ports, pool, &[]);
        let packets = [frame(1_514, 1, false)];
        assert!(through(&mut ports, pool, &packets) == packets);
        assert!(ports[0].mode().ends_with("MTU 1500"));
    });
}

/// A frame of so many octets with these tags.
fn tagged(octets: usize, tags: &[[u8; 2]]) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2];
    for tag in tags {
        frame.extend([tag[0], tag[1], 0, 5]);
    }
    frame.extend([0x88, 0xb5]);
    frame.resize(octets, 7);
    frame
}

#[test]
fn tags_are_beyond_the_mtu() {
    in_namespace("tags", |pool| {
        // The receiving end takes no more than its own MTU and one tag.
        ip("link add ring0 type veth peer name ring1 mtu 1504");
        ip("link set ring0 mtu 1500");
        let mut ports = ["ring0", "ring1"].map(port_of);
        std::thread::sleep(std::time::Duration::from_millis(50));
        through(&mut ports, pool, &[]);
        let (customer, provider, old) = ([0x81, 0], [0x88, 0xa8], [0x91, 0]);
        let packets = [
            tagged(1_518, &[customer]),
            tagged(1_518, &[provider]),
            tagged(1_518, &[old]),
            tagged(1_522, &[provider, customer]),
            tagged(1_522, &[customer, customer]),
        ];
        let came = through(&mut ports, pool, &packets);
        let lengths: Vec<usize> = came.iter().map(Vec::len).collect();
        assert_eq!(lengths, [1_518, 1_518, 1_518, 1_522, 1_522]);
        assert!(came == packets, "something was changed");
        assert_eq!(unsent(&ports[0], PortDrop::OutputTooLong), 0);
        // Too long, each by one octet or one tag.
        let packets = [
            tagged(1_515, &[]),
            tagged(1_519, &[provider]),
            tagged(1_523, &[provider, customer]),
            tagged(1_526, &[provider, customer, customer]),
        ];
        assert!(through(&mut ports, pool, &packets).is_empty());
        assert_eq!(unsent(&ports[0], PortDrop::OutputTooLong), 4);
        // A larger MTU that its ring had just room for.
        ip("link set ring1 mtu 9004");
        ip("link set ring0 mtu 9000");
        ports.iter_mut().for_each(|port| port.check().unwrap());
        let packets = [tagged(9_022, &[provider, customer])];
        assert!(through(&mut ports, pool, &packets) == packets);
    });
}
