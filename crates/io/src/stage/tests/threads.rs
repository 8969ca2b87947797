//! The same ports between real threads.

use std::sync::{Arc, Mutex};
use std::thread;

use super::balanced::{barred, came, dropping, kept};
use super::parallel::{check, first_branch, reading_branch, settings, writing_branch};
use super::world::{Stage, Traffic};
use super::*;
use crate::Idle;

const FRAMES: u64 = if cfg!(miri) { 150 } else { 20_000 };

/// Packets in, packets out.
type Seen = (
    Vec<(weir_packet::Place, weir_packet::FrameKind, u8)>,
    Vec<(FrameMeta, Vec<u8>)>,
);

/// Runs a thread per stage, one as the source and one as the sink; all frames
/// must be back in the end.
fn run(
    mut pool: FramePool,
    source: Box<dyn StageOutput>,
    stages: Vec<Stage>,
    mut sink: Box<dyn StageInput>,
) -> Seen {
    let shares: Vec<FramePool> = stages.iter().map(|_| pool.share(0, 0)).collect();
    let threads: Vec<_> = (stages.into_iter().zip(shares))
        .map(|(mut stage, mut share)| {
            thread::spawn(move || {
                let mut idle = Idle::default();
                while !stage.is_over() {
                    idle.after(stage.step(&mut share, 32));
                }
                (share, stage.lenders)
            })
        })
        .collect();
    let sink_share = pool.share(0, 0);
    // Frames that stages drop stay with them until the end.
    let (mut back, mut home) = point(4_096);
    let sink = thread::spawn(move || {
        let (mut left, mut frames) = (Vec::new(), Vec::new());
        let mut idle = Idle::default();
        while !sink.is_over() {
            let taken = sink.take(&mut frames, 32);
            for frame in &frames {
                let (meta, bytes) = sink_share.memory().read(frame);
                left.push((*meta, bytes.to_vec()));
            }
            while !frames.is_empty() {
                back.give(&mut frames);
            }
            idle.after(taken > 0);
        }
        (left, sink_share)
    });
    let traffic = Traffic::of(FRAMES);
    let (mut entered, mut frames) = (Vec::new(), Vec::new());
    let mut choices = Choices(7);
    let mut output = source;
    let mut idle = Idle::default();
    let mut made = 0;
    while made < FRAMES || !frames.is_empty() {
        let mut came = Vec::new();
        home.take(&mut came, 64);
        pool.give_all(&mut came);
        while frames.len() < 32 && made < FRAMES {
            let Some(frame) = traffic.frame(&mut pool, &mut choices, made) else {
                break;
            };
            let meta = pool.memory().meta(&frame);
            entered.push((meta.place(), meta.kind, meta.next));
            frames.push(frame);
            made += 1;
        }
        idle.after(output.give(&mut frames) > 0);
    }
    let mut lenders: Vec<Lender> = output.close().into_iter().collect();
    for thread in threads {
        let (share, lent) = thread.join().expect("a stage ends");
        pool.join(share);
        lenders.extend(lent);
    }
    let (left, sink_share) = sink.join().expect("the sink ends");
    pool.join(sink_share);
    let mut came = Vec::new();
    home.take(&mut came, usize::MAX);
    assert!(home.is_over());
    pool.give_all(&mut came);
    for lender in lenders {
        pool.join(lender.into_pool());
    }
    assert_eq!(pool.outstanding(), 0);
    (entered, left)
}

#[test]
fn a_parallel_step() {
    for places in [1, 3, 128] {
        let mut pool = pool(512);
        let share = pool.share(128, 2);
        let ports = parallel(&settings(places), share).expect("ports");
        let seen = Arc::new(Mutex::default());
        let mut work = vec![reading_branch(&seen), writing_branch(), first_branch()];
        let stages = ports.queues.into_iter();
        let stages = stages.map(|queue| Stage::of(queue, work.pop().expect("three")));
        let (branch, sync) = (Box::new(ports.branch), Box::new(ports.sync));
        let (entered, left) = run(pool, branch, stages.collect(), sync);
        check(&entered, &left, &seen.lock().expect("over"));
    }
}

/// More frames than stages can drop, since they keep those.
fn roomy() -> FramePool {
    FramePool::with_layout(MemoryLayout {
        small_frames: FRAMES as u32,
        small_bytes: 1_216,
        large_frames: 4,
        large_bytes: 4_096,
    })
}

#[test]
fn instances_by_flow() {
    for places in [1, 128] {
        let mut pool = roomy();
        let share = pool.share(64, 3);
        let ports = balanced_by_flow(3, places, share).expect("ports");
        let stages = ports.queues.into_iter();
        let stages = stages.map(|queue| Stage::of(queue, dropping())).collect();
        let (entered, left) = run(pool, ports.output, stages, ports.input);
        assert_eq!(came(&left, true), kept(&entered, true));
        barred(&left);
    }
}

#[test]
fn instances_in_turn() {
    for places in [2, 128] {
        let mut pool = roomy();
        let share = pool.share(64, 3);
        let ports = balanced_in_turn(3, places, 16, share).expect("ports");
        let stages = ports.queues.into_iter();
        let stages = stages.map(|queue| Stage::of(queue, dropping())).collect();
        let (entered, left) = run(pool, ports.output, stages, ports.input);
        assert_eq!(came(&left, false), kept(&entered, false));
    }
}
