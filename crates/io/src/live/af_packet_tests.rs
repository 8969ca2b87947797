//! What no other test's interface sends. Needs root; says SKIPPED without. All
//! traffic stays in a namespace that the test makes.

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

/// What is too long for a slot lies in a queue beside the ring: the two stay in
/// step when the interface is set down meanwhile.
#[test]
fn the_queue_keeps_step_with_the_ring_when_the_interface_is_set_down() {
    let Some(namespace) = Namespace::new("queue") else {
        println!("SKIPPED: needs root, for a network namespace");
        return;
    };
    namespace.run(|| {
        let mut tap = tun::open_with_offload_headers("ring0").unwrap();
        let mut port = port_of("ring0");
        let mut pool = FramePool::with_layout(MemoryLayout::default());
        let mut frames = Vec::new();
        let set = |to: &str| {
            let done = Command::new("ip")
                .args(["link", "set", "ring0", to])
                .status();
            assert!(done.unwrap().success());
        };
        for parts in [3u16, 2, 5] {
            if tap.write_all(&to_be_cut(5, parts * 1_000)).is_err() {
                println!("SKIPPED: this kernel takes no segments of UDP from a TAP");
                return;
            }
            if parts == 3 {
                set("down");
            }
            for _ in 0..3 {
                port.receive(&mut pool, &mut frames, 64).unwrap();
            }
            assert_eq!(frames.len(), usize::from(parts));
            pool.give_all(&mut frames);
            set("up");
        }
    });
}

#[test]
fn a_ring_that_the_kernel_has_jammed_is_made_anew() {
    let Some(namespace) = Namespace::new("ring") else {
        println!("SKIPPED: needs root, for a network namespace");
        return;
    };
    namespace.run(|| {
        let mut tap = tun::open_with_offload_headers("ring0").unwrap();
        let mut port = port_of("ring0");
        let mut pool = FramePool::with_layout(MemoryLayout::default());
        let mut frames = Vec::new();
        let mut passes = |tap: &mut File, port: &mut PacketPort| {
            tap.write_all(&datagram(100, [0; 10])).unwrap();
            port.receive(&mut pool, &mut frames, 64).unwrap();
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
