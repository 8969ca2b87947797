//! Workers that pass packets to one another, without ports.

use std::collections::BTreeMap;
use std::sync::Arc;

use weir_functions::monitor::Monitor;
use weir_packet::{FrameMeta, LinkType, MemoryLayout, Time};
use weir_runtime::RuntimeConfig;
use weir_runtime::harness::{Craft, Harness};

use super::*;

const WORKERS: usize = 3;
const PACKETS: u64 = 6_000;
const PAIRS: u64 = 40;

/// Workers that run a monitor, and their frames.
fn workers(config: RuntimeConfig) -> (Arc<Group>, Vec<Peer>) {
    let stage = Harness::builder().with::<Monitor>(Default::default());
    let stage = stage.unwrap().stage();
    let group = Arc::new(Group::new(WORKERS).unwrap());
    // Each has enough to fill its queues to both others.
    let mut all = FramePool::with_layout(MemoryLayout {
        small_frames: 8_192,
        ..MemoryLayout::default()
    });
    let each = (all.available() - all.available_large()) as u32 / WORKERS as u32;
    let mut pools: Vec<FramePool> = (1..WORKERS).map(|_| all.share(each, 10)).collect();
    pools.insert(0, all);
    let peer = |((number, queues), pool)| {
        let mut runtime = Runtime::new(&stage, config).unwrap();
        runtime.be_worker(number as u32);
        let steering = Steering::new(&stage, WORKERS as u32, 5);
        let group = Arc::clone(&group);
        Peer::new(number, pool, vec![runtime], vec![steering], queues, group)
    };
    let queues = Queues::between(WORKERS, 1).into_iter().enumerate();
    let peers = queues.zip(pools).map(peer).collect();
    (group, peers)
}

/// Has a worker take packets of all pairs of hosts, both directions, as they may come
/// to any queue: for each that leaves, where it arrived, its pair and its number.
fn work(mut peer: Peer) -> (Vec<(u8, u64, u64)>, usize, PeerEnd) {
    let (mut out, mut lines) = (Vec::new(), Vec::new());
    let mut left = Vec::new();
    let mut frames = Vec::new();
    let arrived_at = peer.number() as u8;
    let mut next = 0;
    while !peer.is_over() {
        let room = !peer.group.is_stopping() && peer.room() > 0 && peer.pool().available() > 200;
        for number in (next..PACKETS).take(if room { 64 } else { 0 }) {
            let pair = number % PAIRS;
            let (client, server) = (format!("10.0.0.{pair}:7"), "192.0.2.1:53");
            let packet = match number % 3 {
                0 => Craft::udp(server, &client).build(),
                _ => Craft::udp(&client, server).build(),
            };
            let mut meta = FrameMeta::received(Time::from_secs(1), packet.len() as u32);
            (meta.link, meta.port, meta.sequence) = (LinkType::Ethernet, arrived_at, number);
            frames.push(peer.pool().copy(&packet, meta).unwrap());
            next = number + 1;
        }
        peer.take(0, &mut frames);
        if next == PACKETS || peer.group.is_stopping() {
            peer.stop();
        }
        peer.step(&mut out, &mut lines).unwrap();
        let memory = Arc::clone(peer.pool().memory());
        left.extend(out.iter().map(|frame| {
            let meta = memory.meta(frame);
            (meta.port, meta.sequence % PAIRS, meta.sequence)
        }));
        peer.pool().give_all(&mut out);
    }
    let events = lines.split(|byte| *byte == b'\n');
    let events = events.filter(|line| line.starts_with(b"{")).count();
    (left, events, peer.end())
}

#[test]
fn each_flow_has_one_worker_and_its_order_wherever_its_packets_arrive() {
    let config = RuntimeConfig {
        event_bytes: 64 << 10,
        ..RuntimeConfig::default()
    };
    let (_, peers) = workers(config);
    let threads: Vec<_> = peers
        .into_iter()
        .map(|peer| std::thread::spawn(move || work(peer)))
        .collect();
    let done: Vec<_> = threads.into_iter().map(|t| t.join().unwrap()).collect();
    let mut owners: BTreeMap<u64, usize> = BTreeMap::new();
    let (mut packets, mut steered, mut events) = (0, 0, 0);
    let mut ends = Vec::new();
    for (worker, (left, lines, end)) in done.into_iter().enumerate() {
        let mut last: BTreeMap<(u8, u64), u64> = BTreeMap::new();
        for (arrived_at, pair, number) in &left {
            assert_eq!(
                *owners.entry(*pair).or_insert(worker),
                worker,
                "pair {pair}"
            );
            let before = last.insert((*arrived_at, *pair), *number);
            assert!(before < Some(*number), "{before:?} {number}");
        }
        assert_eq!(end.packets, left.len() as u64);
        assert_eq!(end.reports[0].packets_in, end.packets);
        packets += end.packets;
        steered += end.steered;
        events += lines;
        ends.push(end);
    }
    let all = WORKERS as u64 * PACKETS;
    assert_eq!(packets, all);
    assert_eq!(owners.len() as u64, PAIRS);
    assert!(steered > all / 4 && steered < all, "{steered}");
    // The first worker is given all events: each flow has one when it ends.
    assert_eq!(events as u64, PAIRS);
    assert_eq!(PeerEnd::gather(ends), Gathered::default());
}

#[test]
fn a_worker_that_panics_holds_up_nobody() {
    let (group, mut peers) = workers(RuntimeConfig::default());
    let last = peers.pop().unwrap();
    let guarded = Arc::clone(&group);
    let dies = std::thread::spawn(move || {
        let _guard = super::super::group::PanicGuard {
            group: &guarded,
            worker: last.number(),
        };
        panic!("planted");
    });
    assert!(dies.join().is_err());
    assert!(group.is_stopping(), "the others are told");
    let threads: Vec<_> = peers
        .into_iter()
        .map(|peer| std::thread::spawn(move || drop(work(peer))))
        .collect();
    for thread in threads {
        thread.join().unwrap();
    }
}

/// Queues a packet of each pair for the worker that has its flow.
fn take_one_of_each_pair(peer: &mut Peer) {
    let mut frames = Vec::new();
    for pair in 0..PAIRS {
        let packet = Craft::udp(&format!("10.0.0.{pair}:7"), "192.0.2.1:53").build();
        let mut meta = FrameMeta::received(Time::from_secs(1), packet.len() as u32);
        meta.link = LinkType::Ethernet;
        frames.push(peer.pool().copy(&packet, meta).unwrap());
    }
    peer.take(0, &mut frames);
}

/// Ends a worker, whose run stops: true where nothing holds it up.
fn ends(peer: &mut Peer) -> bool {
    let (mut out, mut lines) = (Vec::new(), Vec::new());
    (0..1_000).any(|_| {
        peer.stop();
        peer.step(&mut out, &mut lines).unwrap();
        peer.pool().give_all(&mut out);
        peer.is_over()
    })
}

#[test]
fn packets_for_a_worker_that_failed_hold_up_nobody_and_are_counted() {
    let (group, mut peers) = workers(RuntimeConfig::default());
    let (mut out, mut lines) = (Vec::new(), Vec::new());
    while peers[0].room() > 0 {
        take_one_of_each_pair(&mut peers[0]);
        peers[0].step(&mut out, &mut lines).unwrap();
        peers[0].pool().give_all(&mut out);
    }
    group.stop();
    assert!(!ends(&mut peers[0]), "the others may still take them");
    let steered = peers[0].steered;
    group.be_over(1);
    group.be_over(2);
    assert!(ends(&mut peers[0]));
    let gathered = PeerEnd::gather(peers.into_iter().map(Peer::end).collect());
    assert_eq!(gathered.missing, 0);
    assert_eq!(gathered.unprocessed as u64, steered);
}

#[test]
fn events_for_a_worker_that_failed_hold_up_nobody_and_are_counted() {
    let config = RuntimeConfig {
        event_bytes: 64 << 10,
        ..RuntimeConfig::default()
    };
    let (group, mut peers) = workers(config);
    take_one_of_each_pair(&mut peers[1]);
    let flows = peers[1].packets;
    assert!(flows > 0);
    while group.has_room_for_events() {
        group.events().add(&[b'\n'; 1 << 20]);
    }
    group.stop();
    group.be_over(0);
    group.be_over(2);
    assert!(ends(&mut peers[1]));
    let reports = peers.remove(1).end().reports;
    // One of each flow, when it ends.
    assert_eq!(reports[0].events_lost, flows);
}
