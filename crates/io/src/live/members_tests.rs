//! Ports that several workers own. Needs root; says SKIPPED without. All traffic stays
//! in a namespace that the test makes.

use std::process::Command;
use std::sync::Arc;

use weir_packet::{Craft, FrameMeta, MemoryLayout, Side};

use super::af_packet::tests::{in_namespace, ip};
use super::*;
use crate::port::PortCounters;

const FLOWS: u8 = 200;
/// Small frames of a member.
const FRAMES: u32 = 16_384;

fn options() -> LiveOptions {
    LiveOptions {
        number: 0,
        side: Side::Inside,
        busy_poll: false,
        clock: LiveClock::start(),
    }
}

fn ethtool(words: &str) -> bool {
    let done = Command::new("ethtool").args(words.split(' ')).status();
    done.is_ok_and(|status| status.success())
}

/// A pair of interfaces, `here` with so many queues and `there` with four to send on,
/// both up; false where that can't be.
fn pair(queues: u32) -> bool {
    ip(
        "link add here numrxqueues 4 numtxqueues 4 type veth peer name there numrxqueues 4 numtxqueues 4",
    );
    if !(ethtool(&format!("-L here rx {queues} tx {queues}")) && ethtool("-L there rx 4 tx 4")) {
        let _ = std::io::Write::write_all(
            &mut std::io::stderr(),
            b"SKIPPED: needs ethtool, and a veth whose queues can be set\n",
        );
        return false;
    }
    for name in ["here", "there"] {
        ip(&format!("link set {name} up"));
    }
    true
}

/// So many pools over one memory.
fn pools(count: usize) -> Vec<FramePool> {
    let layout = MemoryLayout {
        small_bytes: 2_048,
        small_frames: FRAMES * count as u32,
        ..MemoryLayout::default()
    };
    let mut all = FramePool::with_layout(layout);
    let mut pools: Vec<FramePool> = (1..count).map(|_| all.share(FRAMES, 1)).collect();
    pools.push(all);
    pools
}

/// A datagram of one of many flows, by the first octet of its source port.
fn datagram(flow: u8) -> Vec<u8> {
    let source = format!("10.0.0.1:{}", u16::from_be_bytes([flow, 9]));
    Craft::udp(&source, "10.0.0.2:10").payload(&[7; 18]).build()
}

fn send(port: &mut dyn LivePort, pool: &mut FramePool, flows: impl Iterator<Item = u8>) {
    let mut copy = |flow| pool.copy(&datagram(flow), FrameMeta::default()).unwrap();
    let mut frames: Vec<_> = flows.map(&mut copy).collect();
    port.send(pool, &mut frames).unwrap();
}

/// The flows of the datagrams that have come, and the numbers of their packets.
fn came(port: &mut dyn LivePort, pool: &mut FramePool) -> Vec<(u8, u64)> {
    let mut frames = Vec::new();
    port.receive(pool, &mut frames, 10_000).unwrap();
    let memory = Arc::clone(pool.memory());
    let ours = |frame: &&weir_packet::Frame| memory.bytes(frame).starts_with(&[2, 0, 0, 0, 0, 2]);
    let read = |frame| (memory.bytes(frame)[34], memory.meta(frame).sequence);
    let found = frames.iter().filter(ours).map(read).collect();
    pool.give_all(&mut frames);
    found
}

fn spec(text: &str) -> LiveSpec {
    LiveSpec::parse(text).unwrap().unwrap()
}

/// Each packet comes to one member, several share the work, all can send, and nobody
/// reads back what another has sent. At the end all frames are back.
fn share_out(text: &str) {
    let mut pools = pools(3);
    let mut far_pool = pools.pop().unwrap();
    let mut members = spec(text).open_members(options(), &mut pools).unwrap();
    assert!(
        members[0].mode().contains("over 2 workers"),
        "{}",
        members[0].mode()
    );
    let mut far = spec("af-packet:there")
        .open(options(), &mut far_pool)
        .unwrap();
    for round in 0..2 {
        send(&mut *far, &mut far_pool, 0..FLOWS);
        let mut flows = Vec::new();
        let mut numbers = Vec::new();
        for (member, pool) in members.iter_mut().zip(&mut pools) {
            let found = came(&mut **member, pool);
            assert!(found.len() > 20, "{text}: {}", found.len());
            flows.extend(found.iter().map(|(flow, _)| *flow));
            numbers.extend(found.iter().map(|(_, number)| *number));
        }
        flows.sort_unstable();
        assert!(
            flows.iter().copied().eq(0..FLOWS),
            "{text}: each once: {flows:?}"
        );
        numbers.sort_unstable();
        numbers.dedup();
        assert_eq!(numbers.len(), usize::from(FLOWS), "{text}: numbered once");
        for (index, (member, pool)) in members.iter_mut().zip(&mut pools).enumerate() {
            let first = index as u8 * 10;
            send(&mut **member, pool, first..first + 10);
        }
        let mut back = came(&mut *far, &mut far_pool);
        back.sort_unstable();
        assert!(
            back.iter().map(|(flow, _)| *flow).eq(0..20),
            "{text} {round}: {back:?}"
        );
        for (member, pool) in members.iter_mut().zip(&mut pools) {
            assert_eq!(came(&mut **member, pool), [], "{text}: what was sent");
        }
    }
    let mut sum = PortCounters::default();
    for member in &members {
        let counted = crate::port::InputPort::counters(&**member);
        assert!(
            counted.packets > 40 && counted.dropped() == 0,
            "{counted:?}"
        );
        sum.add(&counted);
    }
    assert!(sum.packets >= 2 * u64::from(FLOWS));
    assert_eq!(sum.mode.as_deref(), Some(members[0].mode()));
    for (member, pool) in members.iter_mut().zip(&mut pools) {
        member.check().unwrap();
        member.close(pool);
    }
    far.close(&mut far_pool);
    pools.push(far_pool);
    assert_eq!(FramePool::outstanding_of(&pools), 0);
}

#[test]
fn members_share_the_packets_of_a_port() {
    in_namespace("members", |_| {
        if pair(4) {
            share_out("af-packet:here");
            share_out("xdp:here:native");
            // Nothing comes on the queue that goes past weir.
            assert!(ethtool("-L there tx 3"));
            share_out("xdp:here:3:native");
        }
    });
}

#[test]
fn more_members_than_queues_are_refused() {
    in_namespace("refused", |_| {
        if !pair(2) {
            return;
        }
        for (text, most) in [("xdp:here", 2), ("xdp:here:1", 1), ("tap:here", 1)] {
            let spec = spec(text);
            assert_eq!(spec.most_members().unwrap(), most, "{text}");
            let mut pools = pools(most as usize + 1);
            let refused = spec.open_members(options(), &mut pools).err();
            let refused = refused.unwrap().to_string();
            assert!(refused.contains("worker"), "{refused}");
            assert_eq!(FramePool::outstanding_of(&pools), 0);
        }
        // It can send on one queue only.
        assert!(ethtool("-L here rx 4 tx 1"));
        assert_eq!(spec("xdp:here").most_members().unwrap(), 1);
        assert!(spec("af-packet:here").most_members().unwrap() >= 64);
    });
}

#[test]
fn queues_that_are_added_are_counted_once_for_all_members() {
    in_namespace("added", |_| {
        if !pair(2) {
            return;
        }
        assert!(ethtool("-L there tx 2"));
        let mut pools = pools(3);
        let mut far_pool = pools.pop().unwrap();
        let opened = spec("xdp:here:native").open_members(options(), &mut pools);
        let mut members = opened.unwrap();
        let mut far = spec("af-packet:there")
            .open(options(), &mut far_pool)
            .unwrap();
        assert!(ethtool("-L here rx 4"));
        for _ in 0..20 {
            members
                .iter_mut()
                .for_each(|member| member.check().unwrap());
        }
        assert!(ethtool("-L there tx 4"));
        send(&mut *far, &mut far_pool, 0..FLOWS);
        let mut sum = PortCounters::default();
        let mut found = 0;
        for (member, pool) in members.iter_mut().zip(&mut pools) {
            found += came(&mut **member, pool).len() as u64;
            sum.add(&crate::port::InputPort::counters(&**member));
        }
        let of_new = sum.drops.get(crate::port::PortDrop::NewQueue);
        assert!(of_new > 0, "{sum:?}");
        // Others' packets, as interfaces come up, may be among them.
        let all = found + of_new;
        assert!(
            (u64::from(FLOWS)..u64::from(FLOWS) + 20).contains(&all),
            "{found} {sum:?}"
        );
        let warned = members.iter().flat_map(|member| member.warnings());
        assert_eq!(warned.filter(|said| said.contains("4 queues")).count(), 1);
        for (member, pool) in members.iter_mut().zip(&mut pools) {
            member.close(pool);
        }
        far.close(&mut far_pool);
    });
}
