//! Threads that end in the middle.

use std::sync::Arc;

use weir_packet::FrameKind;

use super::balanced::{barred, came, dropping, kept};
use super::parallel::{EXIT, expected, first_branch, reading_branch, settings, writing_branch};
use super::world::{Stage, Traffic, World};
use super::*;

/// Takes the thread of a stage away, with all that it has.
fn end(world: &mut World, stage: usize) {
    let (_, nowhere) = point(1);
    let (output, _) = point(1);
    let ports = QueuePorts {
        input: Box::new(nowhere),
        output: Box::new(output),
    };
    drop(core::mem::replace(
        &mut world.stages[stage],
        Stage::idle(ports),
    ));
}

#[test]
fn packets_go_on_without_a_branch_that_is_gone() {
    for seed in 0..if cfg!(miri) { 3 } else { 200 } {
        let mut choices = Choices(seed);
        // Enough frames for those that are lost with the branch.
        let mut pool = pool(80);
        let share = pool.share(40, 2);
        let ports = parallel(&settings(1 + choices.below(6)), share).expect("ports");
        let mut work = vec![
            reading_branch(&Arc::default()),
            writing_branch(),
            first_branch(),
        ];
        let stages = ports.queues.into_iter();
        let stages = stages.map(|queue| Stage::of(queue, work.pop().expect("three")));
        let mut world = World::new(
            seed,
            pool,
            Traffic::of(300),
            Box::new(ports.branch),
            stages.collect(),
            Box::new(ports.sync),
        );
        for _ in 0..choices.below(3_000) {
            world.step();
        }
        let before = world.left.len();
        let ended = 1 + choices.below(2);
        end(&mut world, ended);
        world.run();

        assert_eq!(world.left.len(), world.entered.len(), "seed {seed}");
        let mut without = 0;
        for (number, (meta, bytes)) in world.left.iter().enumerate() {
            let (_, kind, next) = world.entered[number];
            let branched = kind == FrameKind::Packet && next == 1;
            assert_eq!(meta.sequence, number as u64);
            assert_eq!(meta.next, if branched { EXIT } else { next });
            let whole = expected(meta.sequence, bytes.len(), branched, branched);
            if *bytes != whole {
                // Only what the branch that ended writes is not there, from
                // some packet on.
                assert!(ended == 1 && number >= before);
                let rest = expected(meta.sequence, bytes.len(), branched, false);
                assert_eq!(*bytes, rest);
                without += 1;
            } else if branched {
                assert_eq!(without, 0, "seed {seed}, {number}");
            }
        }
        // Copies that were with the branch, and no frame of a packet.
        assert!(world.missing() <= 40);
    }
}

#[test]
fn what_the_sync_port_does_without_is_counted() {
    let mut pool = pool(32);
    let share = pool.share(20, 2);
    let ports = parallel(&settings(8), share).expect("ports");
    let (mut upstream, mut sync) = (ports.branch, ports.sync);
    let mut queues = ports.queues;
    let memory = pool.memory().clone();
    let mut frames: Vec<Frame> = (0..3).map(|n| packet(&mut pool, n)).collect();
    for frame in &mut frames {
        memory.meta_mut(frame).next = 1;
    }
    upstream.give(&mut frames);
    for queue in [0, 2] {
        queues[queue].input.take(&mut frames, 9);
        queues[queue].output.give(&mut frames);
    }
    // The branch that writes is through with one packet.
    queues[1].input.take(&mut frames, 1);
    queues[1].output.give(&mut frames);
    assert_eq!(sync.take(&mut frames, 9), 1);
    assert_eq!(sync.take(&mut frames, 9), 0);
    assert!(!sync.is_over());
    queues.remove(1);
    assert_eq!(sync.take(&mut frames, 9), 2);
    let counts = sync.counts();
    assert_eq!((counts.joined, counts.branch_lost), (3, 2));
    assert_eq!((counts.branch_dropped, counts.stray), (0, 0));
    // Those that come later are not copied for it any more.
    assert_eq!(numbers(&mut pool, &mut frames), [0, 1, 2]);
    let mut frames = vec![packet(&mut pool, 3)];
    memory.meta_mut(&mut frames[0]).next = 1;
    upstream.give(&mut frames);
    assert_eq!(upstream.counts().copies, 7);
}

#[test]
fn turns_go_on_without_an_instance_that_is_gone() {
    for seed in 0..if cfg!(miri) { 3 } else { 200 } {
        let mut choices = Choices(seed);
        let mut pool = pool(90);
        let share = pool.share(20, 2);
        let (places, turn) = (2 + choices.below(6), choices.below(9));
        let ports = balanced_in_turn(2, places, turn, share).expect("ports");
        let stages = ports.queues.into_iter();
        let stages = stages.map(|queue| Stage::of(queue, dropping())).collect();
        let traffic = Traffic::of(300);
        let mut world = World::new(seed, pool, traffic, ports.output, stages, ports.input);
        for _ in 0..choices.below(2_000) {
            world.step();
        }
        let ended = choices.below(2);
        end(&mut world, ended);
        world.run();
        // Some are missing; what came is in order and came once.
        let (came, kept) = (came(&world.left, false), kept(&world.entered, false));
        let mut kept = kept[&0].iter();
        let mut lost = 0;
        for frame in &came[&0] {
            lost += kept.by_ref().take_while(|other| *other != frame).count();
        }
        lost += kept.count();
        assert_eq!(came[&0].last().map_or(0, |_| 1), 1);
        assert!(lost <= 2 * places + 9, "seed {seed}: {lost} lost");
        assert!(world.missing() <= 4 * places + 20);
    }
}

#[test]
fn an_instance_that_is_gone_with_its_flows_ends_the_port() {
    let mut ends = 0;
    for seed in 0..if cfg!(miri) { 3 } else { 200 } {
        let mut choices = Choices(seed);
        let mut pool = pool(90);
        let share = pool.share(12, 3);
        let (instances, places) = (2 + choices.below(2), 1 + choices.below(6));
        let ports = balanced_by_flow(instances, places, share).expect("ports");
        let stages = ports.queues.into_iter();
        let stages = stages.map(|queue| Stage::of(queue, dropping())).collect();
        let traffic = Traffic::of(300);
        let mut world = World::new(seed, pool, traffic, ports.output, stages, ports.input);
        for _ in 0..choices.below(2_000) {
            world.step();
        }
        let ended = choices.below(instances);
        let whole = world.is_over();
        end(&mut world, ended);
        // The stage before sees it at once, if it has not given all.
        ends += usize::from(world.is_gone());
        for _ in 0..choices.below(100) {
            world.step();
        }
        world.give_up();
        world.run();
        // Packets that came are in order and came once; of the other instances' flows nothing is
        // missing before them.
        barred(&world.left);
        let (came, kept) = (came(&world.left, true), kept(&world.entered, true));
        for (flow, came) in &came {
            let kept = &kept[flow];
            let packets = |list: &[(u64, FrameKind)]| -> Vec<u64> {
                let packets = list.iter().filter(|(_, kind)| *kind == FrameKind::Packet);
                packets.map(|(number, _)| *number).collect()
            };
            let (came, kept) = (packets(came), packets(kept));
            assert!(kept.starts_with(&came), "seed {seed}: {came:?} {kept:?}");
        }
        assert!(!whole || came == kept);
        let missing = world.missing();
        assert!(missing <= 4 * places + 9, "seed {seed}: {missing} missing");
    }
    assert!(ends > 10 || cfg!(miri), "{ends}");
}

#[test]
fn nothing_is_taken_where_no_reader_is_left() {
    let mut pool = pool(32);
    let share = pool.share(8, 2);
    let mut ports = balanced_in_turn(2, 4, 2, share).expect("ports");
    ports.queues.clear();
    let mut frames = vec![packet(&mut pool, 0)];
    assert!(ports.output.is_gone());
    assert_eq!((ports.output.give(&mut frames), frames.len()), (0, 1));

    let share = pool.share(8, 2);
    let mut ports = parallel(&settings(4), share).expect("ports");
    ports.queues.remove(0);
    assert!(ports.branch.is_gone());
    assert_eq!((ports.branch.give(&mut frames), frames.len()), (0, 1));
    assert!(ports.sync.is_over());
    pool.give_all(&mut frames);
}
