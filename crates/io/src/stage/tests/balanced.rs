//! Several instances of a stage.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use weir_packet::{FrameKind, Place};

use super::super::by_flow::instance_of;
use super::world::{Stage, Traffic, Work, World};
use super::*;

/// Drops packets by their numbers; passes on all that is no packet.
pub(super) fn dropping() -> Work {
    Box::new(|memory, frames, bin| {
        let dropped = |frame: &Frame| {
            let meta = memory.meta(frame);
            meta.kind == FrameKind::Packet && drops(meta.sequence)
        };
        bin.extend(frames.extract_if(.., |frame| dropped(frame)));
    })
}

fn drops(sequence: u64) -> bool {
    sequence.is_multiple_of(3) || sequence % 100 < 15
}

/// Numbers that have to come out, per flow or all together.
pub(super) fn kept(
    entered: &[(Place, FrameKind, u8)],
    by_flow: bool,
) -> BTreeMap<u32, Vec<(u64, FrameKind)>> {
    let mut kept: BTreeMap<u32, Vec<_>> = BTreeMap::new();
    for (sequence, (place, kind, _)) in entered.iter().enumerate() {
        if *kind != FrameKind::Packet || !drops(sequence as u64) {
            let flow = if by_flow { place.record } else { 0 };
            kept.entry(flow).or_default().push((sequence as u64, *kind));
        }
    }
    kept
}

pub(super) fn came(
    left: &[(FrameMeta, Vec<u8>)],
    by_flow: bool,
) -> BTreeMap<u32, Vec<(u64, FrameKind)>> {
    let mut came: BTreeMap<u32, Vec<_>> = BTreeMap::new();
    for (meta, _) in left {
        let flow = if by_flow { meta.place().record } else { 0 };
        came.entry(flow)
            .or_default()
            .push((meta.sequence, meta.kind));
    }
    came
}

/// Packets that each instance was shown: number, kind, record.
type Shown = Arc<Mutex<Vec<Vec<(u64, FrameKind, u32)>>>>;

/// Instances that drop, and note what they are shown.
fn noting(queues: Vec<QueuePorts>, shown: &Shown) -> Vec<Stage> {
    *shown.lock().expect("one thread") = vec![Vec::new(); queues.len()];
    let stages = queues.into_iter().enumerate().map(|(number, queue)| {
        let (shown, mut drops) = (Arc::clone(shown), dropping());
        let work: Work = Box::new(move |memory, frames, bin| {
            let mut shown = shown.lock().expect("one thread");
            shown[number].extend(frames.iter().map(|frame| {
                let meta = memory.meta(frame);
                (meta.sequence, meta.kind, meta.place().record)
            }));
            drops(memory, frames, bin);
        });
        Stage::of(queue, work)
    });
    stages.collect()
}

/// No packet passed a notice, in front of the instances or behind them, and
/// notices are in order.
pub(super) fn barred(left: &[(FrameMeta, Vec<u8>)]) {
    let (mut notice, mut latest) = (None, None);
    for (meta, _) in left {
        assert!(Some(meta.sequence) > notice, "{} came late", meta.sequence);
        if meta.kind == FrameKind::Notice {
            assert!(Some(meta.sequence) > latest, "something came early");
            notice = Some(meta.sequence);
        }
        latest = latest.max(Some(meta.sequence));
    }
}

#[test]
fn order_holds_for_each_flow_and_notices_come_to_all() {
    for seed in 0..if cfg!(miri) { 3 } else { 300 } {
        let mut choices = Choices(seed);
        let mut pool = pool(16 + choices.below(30) as u32);
        let (instances, places) = (2 + choices.below(3), 1 + choices.below(6));
        let share = pool.share((instances - 1 + choices.below(4)) as u32, 3);
        let ports = balanced_by_flow(instances, places, share).expect("ports");
        let shown = Shown::default();
        let stages = noting(ports.queues, &shown);
        let traffic = Traffic {
            long: 20 * (seed as usize % 2),
            notices: [2, 9, 100][seed as usize % 3],
            ..Traffic::of(400)
        };
        let mut world = World::new(seed, pool, traffic, ports.output, stages, ports.input);
        world.run();
        assert_eq!(came(&world.left, true), kept(&world.entered, true));
        barred(&world.left);
        // Each instance saw its flows' packets and all notices, in order.
        let shown = shown.lock().expect("over");
        for (number, shown) in shown.iter().enumerate() {
            let entered = world.entered.iter().enumerate();
            let expected = entered.filter_map(|(sequence, (place, kind, _))| {
                let told = match kind {
                    FrameKind::Notice if number > 0 => FrameKind::NoticeCopy,
                    FrameKind::Packet if instance_of(place.record.into(), instances) != number => {
                        return None;
                    }
                    kind => *kind,
                };
                Some((sequence as u64, told, place.record))
            });
            assert!(shown.iter().copied().eq(expected), "seed {seed}");
        }
        assert_eq!(world.missing(), 0, "seed {seed}");
    }
}

#[test]
fn a_flow_stays_with_one_instance() {
    let mut pool = pool(32);
    let share = pool.share(4, 2);
    let ports = balanced_by_flow(3, 8, share).expect("ports");
    let (mut output, mut queues) = (ports.output, ports.queues);
    let mut frames = Vec::new();
    let flows = [4, Place::NO_FLOW, 5, 4, 3, 5, 6, 7, 8];
    for (number, record) in flows.into_iter().enumerate() {
        let mut frame = packet(&mut pool, number as u64);
        let memory = pool.memory().clone();
        let meta = memory.meta_mut(&mut frame);
        // Two flows of a unit.
        meta.unit = if record == 8 { 4 } else { record.into() };
        meta.set_place(Place {
            record,
            ..Place::NONE
        });
        frames.push(frame);
    }
    assert_eq!(output.give(&mut frames), flows.len());
    let mut used = 0;
    for (number, queue) in queues.iter_mut().enumerate() {
        queue.input.take(&mut frames, 9);
        let instance = |flow: u32| match flow {
            Place::NO_FLOW => 0,
            8 => instance_of(4, 3),
            flow => instance_of(flow.into(), 3),
        };
        let numbered = (0..)
            .zip(flows)
            .filter(|(_, flow)| instance(*flow) == number);
        let numbered: Vec<u64> = numbered.map(|(packet, _)| packet).collect();
        used += usize::from(!numbered.is_empty());
        assert_eq!(numbers(&mut pool, &mut frames), numbered);
    }
    assert!(used > 1);
    queues.pop();
    assert!(output.is_gone());
}

#[test]
fn what_an_instance_has_no_room_for_waits_with_all_behind_it() {
    let mut pool = pool(16);
    let share = pool.share(2, 2);
    let mut ports = balanced_by_flow(2, 2, share).expect("ports");
    let mut frame = |number: u64, record, kind| {
        let mut frame = packet(&mut pool, number);
        let memory = pool.memory().clone();
        let meta = memory.meta_mut(&mut frame);
        meta.kind = kind;
        meta.unit = u64::from(record);
        meta.set_place(Place {
            record,
            ..Place::NONE
        });
        frame
    };
    use FrameKind::{Notice, Packet};
    let other = (1..).find(|unit| instance_of(*unit, 2) == 1).expect("one") as u32;
    let of = [(0, Packet), (0, Packet), (0, Packet), (other, Packet)];
    let mut frames: Vec<Frame> = (0..).zip(of).map(|(n, (r, k))| frame(n, r, k)).collect();
    assert_eq!(ports.output.give(&mut frames), 2);
    assert_eq!(ports.output.give(&mut frames), 0);
    let refused = Refused {
        bursts: 1,
        frames: 2,
    };
    assert_eq!((frames.len(), ports.output.refused()), (2, refused));
    // A notice waits for room everywhere, and is with all or with none.
    let mut told = vec![frame(9, 1, Notice)];
    assert_eq!(ports.output.give(&mut told), 0);
    assert_eq!(ports.queues[1].input.waiting(), 0);
    assert_eq!(ports.output.counts(), PortCounts::default());
    let mut first = Vec::new();
    ports.queues[0].input.take(&mut first, 1);
    assert_eq!(ports.output.give(&mut told), 1);
    let counts = ports.output.counts();
    assert_eq!((counts.copies, counts.copied_bytes), (1, 8));
    ports.queues[1].input.take(&mut first, 9);
    assert_eq!(pool.memory().meta(&first[1]).kind, FrameKind::NoticeCopy);
    frames.append(&mut first);
    pool.give_all(&mut frames);
}

#[test]
fn turns_keep_the_order_of_all_packets() {
    for seed in 0..if cfg!(miri) { 3 } else { 300 } {
        let mut choices = Choices(seed);
        let mut pool = pool(20 + choices.below(30) as u32);
        let instances = 2 + choices.below(2);
        let share = pool.share(3 + choices.below(5) as u32, 3);
        let (places, turn) = (2 + choices.below(6), choices.below(9));
        let ports = balanced_in_turn(instances, places, turn, share).expect("ports");
        let stages = ports.queues.into_iter();
        let stages = stages.map(|queue| Stage::of(queue, dropping())).collect();
        let traffic = Traffic {
            long: 20 * (seed as usize % 2),
            ..Traffic::of(400)
        };
        let mut world = World::new(seed, pool, traffic, ports.output, stages, ports.input);
        world.run();
        assert_eq!(came(&world.left, false), kept(&world.entered, false));
        assert_eq!(world.missing(), 0, "seed {seed}");
    }
}

#[test]
fn all_instances_have_turns_and_all_notices() {
    let mut pool = pool(64);
    let share = pool.share(10, 2);
    let ports = balanced_in_turn(2, 16, 2, share).expect("ports");
    let (mut output, mut queues, mut input) = (ports.output, ports.queues, ports.input);
    let memory = pool.memory().clone();
    let mut frames: Vec<Frame> = (0..7).map(|n| packet(&mut pool, n)).collect();
    memory.meta_mut(&mut frames[3]).kind = FrameKind::Notice;
    assert_eq!(output.give(&mut frames), 7);
    let mut kinds = Vec::new();
    let mut burst = Vec::new();
    for queue in &mut queues {
        queue.input.take(&mut burst, 99);
        let told = |frame: &Frame| (memory.meta(frame).sequence, memory.meta(frame).kind);
        kinds.push(burst.iter().map(told).collect::<Vec<_>>());
        queue.output.give(&mut burst);
    }
    use FrameKind::{Notice, NoticeCopy, Packet, TurnEnd};
    assert_eq!(
        kinds[0],
        [
            (0, Packet),
            (1, Packet),
            (0, TurnEnd),
            (3, NoticeCopy),
            (4, Packet),
            (5, Packet),
            (0, TurnEnd)
        ]
    );
    assert_eq!(
        kinds[1],
        [(2, Packet), (3, Notice), (0, TurnEnd), (6, Packet)]
    );
    input.take(&mut burst, 99);
    assert_eq!(numbers(&mut pool, &mut burst), [0, 1, 2, 3, 4, 5, 6]);
    let lender = output.close().expect("it lends");
    pool.join(lender.into_pool());
    assert_eq!(pool.outstanding(), 0);
}

#[test]
fn instances_that_could_never_go_on_are_refused() {
    let refused = |instances, places, small, large| {
        balanced_in_turn(instances, places, 4, pool(64).share(small, large)).err()
    };
    assert_eq!(refused(2, 2, 2, 2), None);
    assert_eq!(refused(1, 2, 2, 2), Some(StageError::TooFew));
    assert_eq!(
        refused(2, 1, 2, 2),
        Some(StageError::QueueTooShort { needed: 2 })
    );
    assert_eq!(
        refused(3, 2, 2, 3),
        Some(StageError::PoolTooSmall { needed: 3 })
    );
    let refused = |instances, small, large| {
        balanced_by_flow(instances, 1, pool(64).share(small, large)).err()
    };
    assert_eq!(refused(3, 2, 2), None);
    assert_eq!(refused(1, 2, 2), Some(StageError::TooFew));
    assert_eq!(
        refused(3, 1, 2),
        Some(StageError::PoolTooSmall { needed: 2 })
    );
}
