//! Traced packets, from the engines to whoever asked.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use rtrb::{Consumer, Producer, RingBuffer};
use weir_packet::FlowKey;
use weir_packet::filter::Filter;
use weir_runtime::Runtime;
use weir_runtime::watch::{PacketTrace, Seen, Taken, Tracer};

use super::{Arm, matches};

/// Parts of packets that wait per engine until they are taken.
const WAITING: usize = 1_024;

/// What is to be traced.
#[derive(Clone, Debug)]
pub(crate) struct TraceSpec {
    pub(crate) filter: Filter,
    /// How many packets.
    pub(crate) packets: u64,
    /// The first one, and then those of its flow.
    pub(crate) flow: bool,
    /// All that functions remember.
    pub(crate) full: bool,
}

/// What the engines share.
struct Shared {
    spec: TraceSpec,
    /// Packets that were seen.
    seen: AtomicU64,
    /// Parts that found no room.
    lost: AtomicU64,
    /// Nobody wants more.
    closed: AtomicBool,
    followed: OnceLock<FlowKey>,
    rings: Mutex<Vec<Consumer<PacketTrace>>>,
}

/// A trace under way. Dropped, it takes itself off.
pub(crate) struct Traces {
    shared: Arc<Shared>,
    /// Packets whose first part has come: port and number.
    known: HashSet<(u8, u64)>,
    /// Later parts that were taken before their packets' first ones.
    early: Vec<PacketTrace>,
}

impl Traces {
    /// A trace that no engine knows yet.
    pub(crate) fn new(spec: TraceSpec) -> Traces {
        Traces {
            shared: Arc::new(Shared {
                spec,
                seen: AtomicU64::new(0),
                lost: AtomicU64::new(0),
                closed: AtomicBool::new(false),
                followed: OnceLock::new(),
                rings: Mutex::new(Vec::new()),
            }),
            known: HashSet::new(),
            early: Vec::new(),
        }
    }

    /// What arms it, in a slot that is the same in all engines.
    pub(crate) fn arm(&self, slot: u8) -> Arm {
        let shared = Arc::clone(&self.shared);
        Arc::new(move |runtime: &mut Runtime| {
            let (queue, taken) = RingBuffer::new(WAITING);
            let tracer = EngineTracer {
                shared: Arc::clone(&shared),
                queue,
            };
            if runtime.trace(slot, Box::new(tracer)).is_ok() {
                let mut rings = shared.rings.lock().unwrap_or_else(PoisonError::into_inner);
                rings.push(taken);
            }
        })
    }

    /// What engines have seen since the last call: parts of packets, not more
    /// packets than were asked for.
    pub(crate) fn take(&mut self, mut each: impl FnMut(PacketTrace)) {
        let before = std::mem::take(&mut self.early);
        let mut rings = self
            .shared
            .rings
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        for ring in rings.iter_mut() {
            while let Ok(trace) = ring.pop() {
                let name = (trace.port, trace.sequence);
                let first = trace.first_function == 0 && !trace.again;
                if first && (self.known.len() as u64) < self.shared.spec.packets {
                    self.known.insert(name);
                }
                if self.known.contains(&name) {
                    each(trace);
                } else if !first {
                    self.early.push(trace);
                }
            }
        }
        // A first part was put before a later one, but perhaps into a ring that
        // had been looked at already: it is known by now, or never will be.
        for trace in before {
            if self.known.contains(&(trace.port, trace.sequence)) {
                each(trace);
            }
        }
    }

    /// True where all packets that were asked for have been seen.
    pub(crate) fn is_full(&self) -> bool {
        self.known.len() as u64 >= self.shared.spec.packets
    }

    /// Parts of packets that could not be handed on.
    pub(crate) fn lost(&self) -> u64 {
        self.shared.lost.load(Ordering::Relaxed)
    }
}

impl Drop for Traces {
    fn drop(&mut self) {
        self.shared.closed.store(true, Ordering::Relaxed);
    }
}

/// The engine's end.
struct EngineTracer {
    shared: Arc<Shared>,
    queue: Producer<PacketTrace>,
}

impl Tracer for EngineTracer {
    fn wants(&mut self, seen: &Seen<'_>) -> bool {
        let shared = &*self.shared;
        if shared.seen.load(Ordering::Relaxed) >= shared.spec.packets
            || shared.closed.load(Ordering::Relaxed)
        {
            return false;
        }
        let own = seen.flow.map(|flow| flow.key).or(seen.key);
        if shared.spec.flow
            && let Some(followed) = shared.followed.get()
        {
            return own == Some(*followed);
        }
        if !matches(&shared.spec.filter, seen) {
            return false;
        }
        if let (true, Some(key)) = (shared.spec.flow, own) {
            return shared.followed.get_or_init(|| key) == &key;
        }
        true
    }

    fn put(&mut self, trace: PacketTrace) -> Taken {
        if self.shared.closed.load(Ordering::Relaxed) {
            return Taken::Enough;
        }
        if trace.first_function == 0 && !trace.again {
            self.shared.seen.fetch_add(1, Ordering::Relaxed);
        }
        if self.queue.push(trace).is_err() {
            self.shared.lost.fetch_add(1, Ordering::Relaxed);
        }
        Taken::More
    }

    fn is_full(&self) -> bool {
        self.shared.spec.full
    }
}
