//! Changes of an interface under its port. Needs root; says SKIPPED without.
//! All traffic stays in a namespace that the test makes.

use std::process::Command;

use rustix::thread::{CapabilitySet, capabilities, set_capabilities};
use weir_packet::{Craft, MemoryLayout, Side};

use super::super::af_packet::PacketPort;
use super::super::af_packet::tests::ip;
use super::super::{LiveClock, LiveSpec};
use super::*;

fn options() -> LiveOptions {
    LiveOptions {
        number: 0,
        side: Side::Inside,
        busy_poll: false,
        clock: LiveClock::start(),
    }
}

fn port_of(mode: XdpMode, pool: &mut FramePool) -> XdpPort {
    XdpPort::open("xdp:here", "here", None, mode, options(), pool).unwrap()
}

/// In a namespace, with frames as XDP sockets take them.
fn in_namespace(name: &str, work: impl FnOnce(&mut FramePool) + Send) {
    super::super::af_packet::tests::in_namespace(name, |_| {
        let layout = MemoryLayout {
            small_bytes: 2_048,
            ..MemoryLayout::default()
        };
        work(&mut FramePool::with_layout(layout));
    });
}

fn ethtool(words: &str) -> bool {
    let done = Command::new("ethtool").args(words.split(' ')).status();
    done.is_ok_and(|status| status.success())
}

#[test]
fn queues_that_are_added_lead_past_nobody() {
    in_namespace("queues", |pool| {
        ip(
            "link add here numrxqueues 2 numtxqueues 2 type veth peer name there numrxqueues 2 numtxqueues 2",
        );
        if !(ethtool("-L here rx 1 tx 1") && ethtool("-L there rx 1 tx 1")) {
            let _ = std::io::Write::write_all(
                &mut std::io::stderr(),
                b"SKIPPED: needs ethtool, and a veth whose queues can be set\n",
            );
            return;
        }
        for name in ["here", "there"] {
            ip(&format!("link set {name} up"));
        }
        // In the other mode a veth does not tell the queue.
        let mut port = port_of(XdpMode::Native, pool);
        // Everything that the kernel is given.
        let mut kernel = PacketPort::open("af-packet:here", "here", options()).unwrap();
        let mut sender = PacketPort::open("af-packet:there", "there", options()).unwrap();
        let mut send = |pool: &mut FramePool| {
            let mut frames = Vec::new();
            for number in 0..100u8 {
                // Datagrams of many flows, to be spread over queues.
                let source = format!("10.0.0.1:{}", u16::from_be_bytes([number, 9]));
                let packet = Craft::udp(&source, "10.0.0.2:10").payload(&[7; 18]).build();
                frames.push(pool.copy(&packet, FrameMeta::default()).unwrap());
            }
            sender.send(pool, &mut frames).unwrap();
        };
        let came = |port: &mut dyn InputPort, pool: &mut FramePool| {
            let mut frames = Vec::new();
            port.receive(pool, &mut frames, 1_000).unwrap();
            let memory = Arc::clone(pool.memory());
            let ours = |frame: &&Frame| memory.bytes(frame).starts_with(&[2, 0, 0, 0, 0, 2]);
            let count = frames.iter().filter(ours).count() as u64;
            pool.give_all(&mut frames);
            count
        };
        send(pool);
        assert_eq!(came(&mut port, pool), 100);
        assert!(ethtool("-L here rx 2"));
        // It is looked for once a second; and again, where the kernel refused.
        let all = capabilities(None).unwrap();
        let mut less = all;
        less.effective = CapabilitySet::empty();
        set_capabilities(None, less).unwrap();
        (0..LOOKS).for_each(|_| port.check().unwrap());
        let news = port.news().unwrap();
        assert!(news.contains("may go past weir"), "{news}");
        assert!(port.warnings().contains(&news));
        (0..LOOKS).for_each(|_| port.check().unwrap());
        assert_eq!(port.news(), None, "said once");
        set_capabilities(None, all).unwrap();
        (0..LOOKS).for_each(|_| port.check().unwrap());
        assert!(ethtool("-L there tx 2"));
        send(pool);
        let received = came(&mut port, pool);
        let counters = InputPort::counters(&port);
        let dropped: u64 = counters.dropped();
        assert!(received < 100, "some come on the new queue");
        assert!(counters.drops.get(PortDrop::NewQueue) > 0);
        // Others' packets, as interfaces come up, may be among them.
        assert!(received + dropped >= 100, "{received} {counters:?}");
        assert_eq!(came(&mut kernel, pool), 0, "past weir");
        assert!(port.warnings().iter().any(|said| said.contains("2 queues")));
        port.close(pool);
    });
}

/// If the driver copies nothing the rings hold all the frames that were reserved for them;
/// later fragments wait for their first ones in the others.
#[test]
fn full_rings_leave_frames_that_may_wait() {
    super::super::af_packet::tests::in_namespace("full_rings", |_| {
        for (name, other) in [("here", "there"), ("left", "right")] {
            ip(&format!(
                "link add {name} numrxqueues 4 numtxqueues 4 type veth peer name {other}"
            ));
            ip(&format!("link set {name} up"));
        }
        let specs = ["xdp:here", "xdp:left"].map(|text| LiveSpec::parse(text).unwrap().unwrap());
        let layout = super::super::live_layout(&specs).unwrap();
        let mut pool = FramePool::with_layout(layout);
        let mut ports = ["here", "left"].map(|name| {
            let port = format!("xdp:{name}");
            XdpPort::open(&port, name, None, XdpMode::Any, options(), &mut pool).unwrap()
        });
        for port in &mut ports {
            let slots = port.slots;
            for queue in &mut port.queues {
                queue.fill_to(slots, &mut pool);
            }
        }
        let frame = pool.take(60).unwrap();
        assert!(!pool.is_scarce(&frame), "{} are free", pool.available());
        pool.give(frame);
        for port in &mut ports {
            port.close(&mut pool);
        }
        assert_eq!(pool.outstanding(), 0);
        let frames: Vec<Frame> = (0..layout.small_frames / 2 + 1)
            .map(|_| pool.take(60).unwrap())
            .collect();
        assert!(
            pool.is_scarce(&frames[0]),
            "closed ports keep nothing aside"
        );
    });
}

#[test]
fn another_mtu_and_another_name_are_followed() {
    in_namespace("follow", |pool| {
        ip("link add here type veth peer name there");
        for name in ["here", "there"] {
            ip(&format!("link set {name} up"));
        }
        let mut port = port_of(XdpMode::Generic, pool);
        assert_eq!(port.chunk, 2_048);
        assert!(port.mode().ends_with(", MTU 1500"), "{}", port.mode());
        assert_eq!(port.warnings(), [] as [String; 0]);
        ip("link set here mtu 1700");
        port.check().unwrap();
        assert!(port.mode().ends_with("promiscuous, MTU 1700"));
        assert_eq!(port.warnings(), [] as [String; 0]);
        ip("link set here mtu 4000");
        port.check().unwrap();
        assert!(port.mode().ends_with("promiscuous, MTU 4000"));
        let warnings = port.warnings();
        assert!(warnings.iter().any(|said| said.contains("fit no frame")));

        // The count of its drops is found by its number.
        ip("link set here down");
        ip("link set here name elsewhere");
        assert!(port.interface.has_counts());
        // By its old name there is another by now.
        let queues = port.interface.queues;
        ip("link add here mtu 600 numrxqueues 9 type veth peer name other");
        (0..LOOKS).for_each(|_| port.check().unwrap());
        assert!(port.mode().ends_with("promiscuous, MTU 4000"));
        assert_eq!(port.interface.queues, queues);
        ip("link set elsewhere mtu 1600");
        port.check().unwrap();
        assert!(port.mode().ends_with("promiscuous, MTU 1600"));
        port.close(pool);
    });
}

#[test]
fn what_waits_to_be_sent_is_tried_again_soon() {
    let now = Time::from_secs(1);
    assert_eq!(due(false, false, now), None);
    assert_eq!(due(true, true, now), None);
    let again = due(true, false, now).unwrap();
    assert_eq!(again.0 - now.0, 200_000);
    // One that sends all asks for nothing.
    in_namespace("due", |pool| {
        ip("link add here type veth peer name there");
        for name in ["here", "there"] {
            ip(&format!("link set {name} up"));
        }
        let mut port = port_of(XdpMode::Generic, pool);
        assert_eq!(port.next_due(), None);
        // Shown to the kernel, but it was not called.
        let frame = pool.copy(&[2; 60], FrameMeta::default()).unwrap();
        let memory = Arc::clone(pool.memory());
        port.put(frame, &memory, pool).unwrap();
        let queue = port.queues.first_mut().unwrap();
        queue.socket.transmit.as_mut().unwrap().publish();
        assert!(queue.has_more_to_send());
        port.waits = true;
        assert!(port.next_due().is_some());
        port.flush().unwrap();
        assert_eq!(port.next_due(), None);
        port.close(pool);
    });
}
