//! One router for each worker that owns a part of the ports.
//!
//! All have the same configuration, and each forwards, answers and asks by itself. What
//! neighbours say (ARP, neighbour discovery) comes to one worker only, wherever the
//! kernel or the card sends it: that worker answers it, and gives each of the others a
//! copy, of which they learn. The first worker alone announces the addresses.

use std::sync::Arc;

use rtrb::{Consumer, Producer, RingBuffer};
use weir_ctl::command::LayerReport;
use weir_packet::{Frame, FramePool};

use super::group::Group;
use super::layer::{Departures, Layer};
use super::router::Routed;

/// Copies of what neighbours said on their way to a worker. What finds no room is left
/// out: whoever needs a neighbour asks, and asks again.
const ROOM: usize = 256;

/// A worker's ends of the queues between routers.
pub(crate) struct Hearsay {
    number: usize,
    group: Arc<Group>,
    /// By worker; none to itself.
    to: Vec<Option<Producer<Frame>>>,
    from: Vec<Consumer<Frame>>,
}

impl Hearsay {
    /// The ends of each worker.
    pub(crate) fn between(group: &Arc<Group>) -> Vec<Hearsay> {
        let mut all: Vec<Hearsay> = (0..group.count())
            .map(|number| Hearsay {
                number,
                group: Arc::clone(group),
                to: Vec::new(),
                from: Vec::new(),
            })
            .collect();
        for from in 0..all.len() {
            for to in 0..all.len() {
                let producer = (from != to).then(|| {
                    let (producer, consumer) = RingBuffer::new(ROOM);
                    all[to].from.push(consumer);
                    producer
                });
                all[from].to.push(producer);
            }
        }
        all
    }

    /// Gives each other worker a copy of a frame, and the frame back to the pool.
    fn tell(&mut self, pool: &mut FramePool, frame: Frame) {
        let mut told = 0;
        for (worker, queue) in self.to.iter_mut().enumerate() {
            let Some(queue) = queue.as_mut().filter(|queue| !queue.is_full()) else {
                continue;
            };
            let memory = Arc::clone(pool.memory());
            let Ok(copy) = pool.copy(memory.bytes(&frame), *memory.meta(&frame)) else {
                continue;
            };
            match queue.push(copy) {
                Ok(()) => told |= 1 << worker,
                Err(rtrb::PushError::Full(copy)) => pool.give(copy),
            }
        }
        pool.give(frame);
        self.group.wake(told);
    }

    /// The next frame that another worker was told.
    fn heard(&mut self) -> Option<Frame> {
        self.from.iter_mut().find_map(|queue| queue.pop().ok())
    }
}

/// A router among those of the other workers.
pub(crate) struct Routers {
    router: Routed,
    hearsay: Hearsay,
}

impl Routers {
    /// A worker's router.
    pub(crate) fn new(mut router: Routed, hearsay: Hearsay) -> Routers {
        router.be_one_of_several(hearsay.number == 0);
        Routers { router, hearsay }
    }

    fn tell(&mut self, pool: &mut FramePool) {
        for frame in self.router.told() {
            self.hearsay.tell(pool, frame);
        }
    }
}

impl Layer for Routers {
    fn arrived(
        &mut self,
        port: usize,
        pool: &mut FramePool,
        frames: &mut Vec<Frame>,
        out: &mut Departures,
    ) {
        self.router.arrived(port, pool, frames, out);
        self.tell(pool);
    }

    fn leaving(&mut self, pool: &mut FramePool, frames: &mut Vec<Frame>, out: &mut Departures) {
        self.router.leaving(pool, frames, out);
    }

    fn own(&mut self, into: &mut Vec<Frame>) {
        self.router.own(into);
    }

    fn tick(&mut self, pool: &mut FramePool, out: &mut Departures) {
        while let Some(frame) = self.hearsay.heard() {
            self.router.overhear(pool, frame);
        }
        self.router.tick(pool, out);
    }

    fn close(&mut self, pool: &mut FramePool) {
        while let Some(frame) = self.hearsay.heard() {
            pool.give(frame);
        }
        self.router.close(pool);
    }

    fn report(&self) -> LayerReport {
        self.router.report()
    }

    fn warnings(&self) -> Vec<String> {
        self.router.warnings()
    }
}
