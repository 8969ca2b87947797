//! State shared by workers that each own a part of the ports.

use std::sync::atomic::{AtomicBool, Ordering};

use weir_exec::{ExecError, Parker, Wakers};
use weir_io::IdlePolicy;

use crate::exit::Failure;

use super::super::executor::EventBox;

/// Most workers: one bit each of a mask.
pub(crate) const MOST_WORKERS: u32 = 64;
/// Bytes of events that may wait for the worker that writes them. What is beyond
/// waits in the engines' logs, which count what they lose.
const EVENT_BYTES: usize = 16 << 20;

/// One worker, as the others see it.
#[derive(Debug)]
struct Place {
    /// Its own, so that a worker wakes those alone for whom it has something.
    wakers: Wakers,
    /// It takes in no more packets and has queued all that it had for others.
    quiet: AtomicBool,
    /// It has ended its flows or has failed, and takes nothing from its queues any more.
    over: AtomicBool,
}

impl Place {
    fn wake(&self) {
        // There is no other thread at its wakers.
        self.wakers.wake_others(usize::MAX);
    }
}

/// The workers of a run.
#[derive(Debug)]
pub(crate) struct Group {
    places: Box<[Place]>,
    stopping: AtomicBool,
    events: EventBox,
}

impl Group {
    /// So many workers. The first writes the events.
    ///
    /// # Errors
    ///
    /// No file descriptor is left.
    pub(crate) fn new(workers: usize) -> Result<Group, Failure> {
        let place = |_| {
            Ok(Place {
                wakers: Wakers::new(0)?,
                quiet: AtomicBool::new(false),
                over: AtomicBool::new(false),
            })
        };
        let places = (0..workers).map(place).collect::<Result<_, ExecError>>();
        let places = places.map_err(|error| Failure::outside(error.to_string()))?;
        Ok(Group {
            places,
            stopping: AtomicBool::new(false),
            events: EventBox::default(),
        })
    }

    /// How many workers there are.
    pub(crate) fn count(&self) -> usize {
        self.places.len()
    }

    /// Parks a worker.
    pub(super) fn parker(&self, worker: usize, policy: IdlePolicy) -> Option<Parker> {
        let place = self.places.get(worker)?;
        Some(Parker::new(&place.wakers, 0, policy))
    }

    /// Wakes the workers of a mask: something was queued for them.
    pub(super) fn wake(&self, workers: u64) {
        let places = self.places.iter().enumerate();
        let named = places.filter(|(number, _)| workers & (1 << number) != 0);
        named.for_each(|(_, place)| place.wake());
    }

    fn wake_all(&self) {
        self.places.iter().for_each(Place::wake);
    }

    /// True once the run is to end.
    pub(crate) fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Acquire)
    }

    /// Has all workers end the run.
    pub(crate) fn stop(&self) {
        self.stopping.store(true, Ordering::Release);
        self.wake_all();
    }

    /// A worker queues nothing more for others.
    pub(super) fn be_quiet(&self, worker: usize) {
        if let Some(place) = self.places.get(worker) {
            place.quiet.store(true, Ordering::Release);
        }
        self.wake_all();
    }

    /// True where nobody queues anything more. Queues that are empty after this
    /// stay so.
    pub(super) fn are_quiet(&self) -> bool {
        let mut all = self.places.iter();
        all.all(|place| place.quiet.load(Ordering::Acquire))
    }

    /// A worker has ended its flows and given away their events, or has failed.
    pub(crate) fn be_over(&self, worker: usize) {
        self.be_quiet(worker);
        if let Some(place) = self.places.get(worker) {
            place.over.store(true, Ordering::Release);
        }
        self.wake_all();
    }

    /// True where a worker has ended its flows or has failed.
    pub(super) fn is_over(&self, worker: usize) -> bool {
        let place = self.places.get(worker);
        place.is_some_and(|place| place.over.load(Ordering::Acquire))
    }

    /// True where all workers but the first have ended their flows or have failed.
    pub(super) fn others_are_over(&self) -> bool {
        let mut others = self.places.iter().skip(1);
        others.all(|place| place.over.load(Ordering::Acquire))
    }

    /// Lines of events on their way to the first worker.
    pub(super) fn events(&self) -> &EventBox {
        &self.events
    }

    /// Takes the lines that the first worker has not taken: it has failed.
    pub(crate) fn take_events(&self, into: &mut Vec<u8>) {
        self.events.take(into);
    }

    /// True where lines may be added.
    pub(super) fn has_room_for_events(&self) -> bool {
        self.events.bytes() < EVENT_BYTES
    }
}

/// Has the others end the run where a worker panics: dropped with its thread.
pub(crate) struct PanicGuard<'a> {
    pub(crate) group: &'a Group,
    pub(crate) worker: usize,
}

impl Drop for PanicGuard<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.group.stop();
        }
        // Nobody waits for it any more.
        self.group.be_over(self.worker);
    }
}
