//! Frames that no process of the cluster has sent, or that come once more.

use weir_packet::ethernet::EthernetView;
use weir_packet::protocol::ethertype;
use weir_packet::{FrameMeta, frame_flags};
use weir_protocol::actors::ActorCount;
use weir_protocol::message::Message;
use weir_protocol::settings::Replication;
use weir_protocol::stream::{ProcessStart, StreamSettings, Streams};
use weir_protocol::wire::{Hop, OVERHEAD, encode_data};
use weir_protocol::{Clock, Key, Peer, RuntimeId, UnitId, View};

use crate::cluster::{Cluster, KEY, pool};
use crate::common::link::Random;

fn is_data(bytes: &[u8]) -> bool {
    EthernetView::new(bytes).is_ok_and(|view| view.ethertype() == ethertype::NSH)
}

/// A cluster in the midst of its work: flows at both runtimes, some moved,
/// copies at replicas.
fn busy(replication: Replication) -> Cluster {
    let mut cluster = Cluster::new(2, replication);
    for round in 1..=3 {
        for flow in 1..=6 {
            assert_eq!(cluster.packet(flow), Some(round));
        }
    }
    assert_eq!(cluster.move_all(1, 2), 3);
    for flow in 1..=6 {
        assert_eq!(cluster.packet(flow), Some(4));
        assert_eq!(cluster.owner_of(flow), 2);
    }
    cluster
}

/// The cluster goes on as if nothing had happened.
fn goes_on(mut cluster: Cluster) {
    cluster.later(50);
    for flow in 1..=6 {
        assert_eq!(cluster.packet(flow), Some(5));
    }
    cluster.end();
}

/// One change that a receiver must notice.
fn mutate(random: &mut Random, frame: &[u8]) -> Vec<u8> {
    let mut bytes = frame.to_vec();
    // The packet in a data frame has checksums of its own, and forwarders
    // change the TTL in octets 14 and 15.
    let (first, end) = match is_data(frame) {
        true => (16, OVERHEAD),
        false => (12, frame.len()),
    };
    let mut place = || first + random.below((end - first) as u64) as usize;
    let (one, other) = (place(), place());
    let (short, long) = (1 + random.below(40), random.below(300));
    match random.below(6) {
        0 => bytes.truncate(random.below(frame.len() as u64) as usize),
        1 => bytes.extend(random.bytes(short)),
        2 => bytes = random.bytes(long),
        3 => bytes[one] = bytes[one].wrapping_add(1 + random.below(255) as u8),
        4 => {
            bytes[one] ^= 1 << random.below(8);
            if other != one {
                bytes[other] = random.next() as u8;
            }
        }
        _ => bytes[one] ^= 1 << random.below(8),
    }
    bytes
}

#[test]
fn mutated_and_random_frames_change_nothing() {
    for replication in [Replication::None, Replication::EachBurst] {
        let mut cluster = busy(replication);
        let seen = cluster.seen.clone();
        assert!(seen.iter().any(|(_, bytes)| is_data(bytes)));
        assert!(seen.iter().any(|(_, bytes)| !is_data(bytes)));
        let before = cluster.state();
        let mut random = Random::new(11);
        let (tries, mut refused) = (30_000, 0);
        for _ in 0..tries {
            let (to, frame) = &seen[random.below(seen.len() as u64) as usize];
            let bytes = mutate(&mut random, frame);
            assert!(!cluster.deliver(*to, &bytes), "{to:?} took {bytes:02x?}");
            assert!(cluster.is_silent());
            refused += 1;
            if refused % 1_000 == 0 {
                assert_eq!(cluster.state(), before);
            }
        }
        // Every one under a name, and many names.
        assert_eq!(cluster.refused.values().sum::<u64>(), tries);
        println!("{:?}", cluster.refused);
        for name in [
            "rejected_code",
            "rejected_malformed",
            "rejected_not_actor",
            "rejected_other_destination",
            "rejected_other_source",
            "data_bad_tag",
            "data_bad_path",
            "weir_truncated",
            "weir_bad_version",
            "weir_bad_value",
        ] {
            assert!(cluster.refused.contains_key(name), "{name}");
        }
        assert_eq!(cluster.state(), before);
        goes_on(cluster);
    }
}

#[test]
fn replayed_frames_change_nothing() {
    for replication in [Replication::None, Replication::EachBurst] {
        let mut cluster = busy(replication);
        let seen = cluster.seen.clone();
        let before = cluster.state();
        let mut random = Random::new(5);
        let (mut data, mut streams) = (0, 0);
        for n in 0..5_000 {
            // All once in their order, then any.
            let at = if n < seen.len() {
                n
            } else {
                random.below(seen.len() as u64) as usize
            };
            let (to, bytes) = &seen[at];
            let taken = cluster.deliver(*to, bytes);
            // A data frame is known by its clock: it is read, and is nothing new.
            assert_eq!(taken, is_data(bytes));
            *if taken { &mut data } else { &mut streams } += 1;
            // And to whom it was not meant for.
            let other = match to {
                Peer::Runtime(RuntimeId(1)) => Peer::Runtime(RuntimeId(2)),
                Peer::Runtime(_) => Peer::Switch(1),
                _ => Peer::Runtime(RuntimeId(1)),
            };
            if !is_data(bytes) {
                assert!(!cluster.deliver(other, bytes));
            }
        }
        assert!(cluster.is_silent());
        assert_eq!(cluster.state(), before);
        assert_eq!(cluster.refused["rejected_replayed"], streams);
        assert!(cluster.refused["rejected_other_destination"] > 0);
        let counted: u64 = [1, 2]
            .into_iter()
            .map(|id| {
                cluster.at(id, ActorCount::Duplicate) + cluster.at(id, ActorCount::StalePacket)
            })
            .sum();
        assert_eq!(counted, data, "each is counted");
        goes_on(cluster);
    }
}

#[test]
fn frames_made_without_the_key_change_nothing() {
    let mut cluster = busy(Replication::None);
    let before = cluster.state();
    let stranger = Key(*b"of another one!!");
    let (unit, view) = (cluster.unit_of(1), View(1 << 48 | 7));
    let switch = ProcessStart::of(Peer::Switch(1), 0);
    // As runtime 2, to the switch: end the unit; as the coordinator: runtime 2
    // is dead.
    let end = Message::End {
        unit,
        view,
        clock: Clock(4),
    };
    let suspect = Message::Suspect {
        runtime: RuntimeId(2),
    };
    for (from, message) in [
        (Peer::Runtime(RuntimeId(2)), end),
        (Peer::Coordinator, suspect.clone()),
    ] {
        for key in [stranger, KEY] {
            let mut forger = Streams::new(ProcessStart::of(from, 0), key);
            let stream = forger.open(switch, StreamSettings::default());
            stream.send_message(&message).expect("room");
            let frame = stream.poll_frame(cluster.now).expect("a frame");
            // With the key, a second life of runtime 2 begins its numbers
            // again: that is what ids of process starts are for. The
            // coordinator has no stream here.
            assert!(!cluster.deliver(Peer::Switch(1), &frame));
        }
    }
    assert_eq!(cluster.refused["rejected_code"], 1);
    assert_eq!(cluster.refused["rejected_replayed"], 1);
    assert_eq!(cluster.refused["rejected_other_source"], 2);

    // A packet for the unit, numbered by nobody.
    let mut pool = pool();
    let mut meta = FrameMeta::received(cluster.now, 0);
    (meta.unit, meta.view, meta.clock) = (unit.0, view.0, 5);
    meta.flags = frame_flags::FRESH;
    let frame = pool.copy(&[0x45; 40], meta).expect("a frame");
    let mut bytes = Vec::new();
    encode_data(
        pool.memory(),
        &frame,
        &Hop::default(),
        &stranger,
        &mut bytes,
    )
    .expect("it fits");
    pool.give(frame);
    assert!(!cluster.deliver(Peer::Runtime(RuntimeId(2)), &bytes));
    assert_eq!(cluster.refused["data_bad_tag"], 1);
    assert!(cluster.is_silent());
    assert_eq!(cluster.state(), before);
    goes_on(cluster);
}

/// A peer that has the key and numbers packets as it likes.
#[test]
fn packets_that_make_no_sense_are_not_applied() {
    let mut cluster = busy(Replication::None);
    let unit = cluster.unit_of(1);
    let before = cluster.state();
    let mut pool = pool();
    let mut send = |cluster: &mut Cluster, unit: UnitId, view: u64, clock: u64, flags: u8| {
        let mut meta = FrameMeta::received(cluster.now, 0);
        (meta.unit, meta.view, meta.clock, meta.flags) = (unit.0, view, clock, flags);
        let frame = pool.copy(&[0x45; 40], meta).expect("a frame");
        let mut bytes = Vec::new();
        encode_data(pool.memory(), &frame, &Hop::default(), &KEY, &mut bytes).expect("it fits");
        pool.give(frame);
        assert!(cluster.deliver(Peer::Runtime(RuntimeId(2)), &bytes));
    };
    // No clock; of an older view; a place beyond all; no unit.
    let (new, fresh) = (1 << 48 | 999, frame_flags::FRESH);
    send(&mut cluster, unit, new, 0, 0);
    send(&mut cluster, unit, 1 << 48, 5, 0);
    send(&mut cluster, UnitId(1 << 32 | 0xffff_fff0), new, 1, fresh);
    send(&mut cluster, UnitId(0), new, 1, fresh);
    assert_eq!(cluster.at(2, ActorCount::PacketRefused), 3);
    assert_eq!(cluster.at(2, ActorCount::StalePacket), 1);
    assert!(cluster.is_silent());
    assert_eq!(cluster.state(), before);
    goes_on(cluster);
}

/// A peer of another version, or at fault: its stream is right, and what comes
/// out of it is no message.
#[test]
fn messages_that_can_not_be_read_change_nothing() {
    let mut cluster = busy(Replication::None);
    let before = cluster.state();
    let unit = cluster.unit_of(1);
    let mut whole = Vec::new();
    let runtimes = vec![RuntimeId(1), RuntimeId(2)];
    Message::NotifyClusterCfg { runtimes }.encode(&mut whole);
    let ended = true;
    let below = View(u64::MAX);
    Message::Forget { unit, below, ended }.encode(&mut whole);
    let mut random = Random::new(8);
    let (mut sent, mut tries) = (0, 0);
    while sent < 2_000 {
        tries += 1;
        assert!(tries < 50_000);
        let mut bytes = whole.clone();
        match random.below(3) {
            0 => {
                let length = random.below(60);
                bytes = random.bytes(length);
            }
            1 => bytes.truncate(random.below(bytes.len() as u64) as usize),
            _ => {
                let at = random.below(bytes.len() as u64) as usize;
                bytes[at] ^= 1 << random.below(8);
            }
        }
        if Message::decode_one(&bytes).is_ok() {
            continue;
        }
        sent += 1;
        let stream = cluster.streams.open(
            ProcessStart::of(Peer::Runtime(RuntimeId(2)), 0),
            StreamSettings::default(),
        );
        stream.send(&bytes).expect("room");
        cluster.carry();
        // Acknowledgements too.
        cluster.now = cluster.now.plus(1_000_000);
        cluster.carry();
    }
    let unread: u64 = (cluster.refused.iter())
        .filter(|(name, _)| name.starts_with("message_"))
        .map(|(_, n)| n)
        .sum();
    assert_eq!(unread, sent, "{:?}", cluster.refused);
    assert!(cluster.refused.len() >= 5, "{:?}", cluster.refused);
    assert_eq!(cluster.state(), before);
    goes_on(cluster);
}
