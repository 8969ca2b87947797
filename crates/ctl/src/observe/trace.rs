//! Traced packets, from the engines to the client.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use rtrb::{Consumer, Producer, RingBuffer};
use weir_api::v1;
use weir_packet::FlowKey;
use weir_packet::filter::Filter;
use weir_runtime::Runtime;
use weir_runtime::watch::{PacketTrace, Seen, Taken, Tracer};

use super::convert;
use super::matches::matches;

/// Parts of packets that wait per engine until they are taken.
const WAITING: usize = 1_024;

/// The packets to trace.
#[derive(Clone, Debug)]
pub struct TraceSpec {
    /// Selects the packets.
    pub filter: Filter,
    /// How many packets.
    pub packets: u64,
    /// The first one, and then those of its flow.
    pub flow: bool,
    /// All that functions remember.
    pub full: bool,
}

/// State shared by the engines.
struct Shared {
    spec: TraceSpec,
    /// Packets that were seen.
    seen: AtomicU64,
    /// Parts that found no room.
    lost: AtomicU64,
    /// Nobody wants more.
    closed: AtomicBool,
    followed: OnceLock<FlowKey>,
    rings: Mutex<Vec<Consumer<Part>>>,
}

/// A part of a packet: from an engine of this process, or as another process
/// told it.
enum Part {
    Seen(Box<PacketTrace>),
    Told(Box<v1::PacketTrace>),
}

/// A trace under way. Dropped, it takes itself off.
pub struct Traces {
    shared: Arc<Shared>,
    /// Packets whose first part has come: port and number.
    known: HashSet<(u32, u64)>,
    /// Later parts that were taken before their packets' first ones.
    early: Vec<v1::PacketTrace>,
}

/// Arms a trace in an engine.
#[derive(Clone)]
pub struct TraceArm(Arc<Shared>);

impl TraceArm {
    pub(super) fn arm(&self, slot: u8, runtime: &mut Runtime) {
        let (queue, taken) = RingBuffer::new(WAITING);
        let tracer = EngineTracer {
            shared: Arc::clone(&self.0),
            queue,
        };
        if runtime.trace(slot, Box::new(tracer)).is_ok() {
            self.0.listen(taken);
        }
    }

    /// For an engine of another process.
    pub fn feed(&self) -> TraceFeed {
        let (queue, taken) = RingBuffer::new(WAITING);
        self.0.listen(taken);
        TraceFeed {
            shared: Arc::clone(&self.0),
            queue,
        }
    }

    /// The request that the trace was made for.
    pub fn spec(&self) -> &TraceSpec {
        &self.0.spec
    }
}

/// Feeds a trace with what an engine of another process has seen.
pub struct TraceFeed {
    shared: Arc<Shared>,
    queue: Producer<Part>,
}

impl TraceFeed {
    /// A part of a packet. Never waits: one that finds no room is lost.
    pub fn put(&mut self, part: v1::PacketTrace) {
        if self.queue.push(Part::Told(Box::new(part))).is_err() {
            self.lose(1);
        }
    }

    /// So many more parts were lost over there.
    pub fn lose(&mut self, parts: u64) {
        self.shared.lost.fetch_add(parts, Ordering::Relaxed);
    }
}

impl Shared {
    fn take_all(&self, ports: &[String], mut each: impl FnMut(v1::PacketTrace)) {
        let mut rings = self.rings.lock().unwrap_or_else(PoisonError::into_inner);
        for ring in rings.iter_mut() {
            while let Ok(part) = ring.pop() {
                each(match part {
                    Part::Seen(trace) => convert::packet(*trace, ports),
                    Part::Told(trace) => {
                        let name = ports.get(trace.port as usize);
                        v1::PacketTrace {
                            port_name: name.cloned().unwrap_or_default(),
                            ..*trace
                        }
                    }
                });
            }
        }
    }

    fn listen(&self, ring: Consumer<Part>) {
        let mut rings = self.rings.lock().unwrap_or_else(PoisonError::into_inner);
        rings.push(ring);
    }
}

impl Traces {
    /// A trace that no engine knows yet.
    pub fn new(spec: TraceSpec) -> Traces {
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

    /// The handle that arms the trace in an engine.
    pub fn arm(&self) -> TraceArm {
        TraceArm(Arc::clone(&self.shared))
    }

    /// Parts of packets that engines have seen since the last call, of no more
    /// packets than were asked for. `ports` are the names of the ingress ports,
    /// by number.
    pub fn take(&mut self, ports: &[String], mut each: impl FnMut(v1::PacketTrace)) {
        let before = std::mem::take(&mut self.early);
        let shared = Arc::clone(&self.shared);
        shared.take_all(ports, |trace| {
            let name = (trace.port, trace.sequence);
            let first = trace.first_function == 0 && !trace.again;
            if first && (self.known.len() as u64) < shared.spec.packets {
                self.known.insert(name);
            }
            if self.known.contains(&name) {
                each(trace);
            } else if !first {
                self.early.push(trace);
            }
        });
        // A first part was put before a later one, but perhaps into a ring that
        // had been looked at already: it is known by now, or never will be.
        for trace in before {
            if self.known.contains(&(trace.port, trace.sequence)) {
                each(trace);
            }
        }
    }

    /// The same for who hands all of it on: of which packets somebody wants to
    /// hear is known where their first parts are.
    pub fn take_all(&self, each: impl FnMut(v1::PacketTrace)) {
        self.shared.take_all(&[], each);
    }

    /// True where all packets that were asked for have been seen.
    pub fn is_full(&self) -> bool {
        self.known.len() as u64 >= self.shared.spec.packets
    }

    /// Parts of packets that could not be handed on.
    pub fn lost(&self) -> u64 {
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
    queue: Producer<Part>,
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
        let first = u64::from(trace.first_function == 0 && !trace.again);
        self.shared.seen.fetch_add(first, Ordering::Relaxed);
        if self.queue.push(Part::Seen(Box::new(trace))).is_err() {
            self.shared.lost.fetch_add(1, Ordering::Relaxed);
            // Another packet takes its place, or the trace would never end.
            self.shared.seen.fetch_sub(first, Ordering::Relaxed);
        }
        Taken::More
    }

    fn is_full(&self) -> bool {
        self.shared.spec.full
    }
}

#[cfg(test)]
mod tests {
    use weir_packet::{FrameMeta, Side, Time};
    use weir_runtime::watch::DispositionTrace;

    use super::*;

    fn first_part(sequence: u64) -> PacketTrace {
        PacketTrace {
            chain: String::new(),
            first_function: 0,
            time: Time::ZERO,
            port: 0,
            side: Side::Inside,
            sequence,
            again: false,
            under_switch: false,
            summary: String::new(),
            headers: Vec::new(),
            malformed: None,
            flow: None,
            ended: Vec::new(),
            steps: Vec::new(),
            disposition: DispositionTrace::Held,
            leaves: None,
            cycles: 0,
        }
    }

    #[test]
    fn a_packet_whose_first_part_is_lost_is_made_up_for() {
        let mut traces = Traces::new(TraceSpec {
            filter: Filter::all(),
            packets: 2,
            flow: false,
            full: false,
        });
        let (queue, taken) = RingBuffer::new(1);
        traces.shared.rings.lock().unwrap().push(taken);
        let mut tracer = EngineTracer {
            shared: Arc::clone(&traces.shared),
            queue,
        };
        let meta = FrameMeta::received(Time::ZERO, 0);
        let seen = Seen {
            meta: &meta,
            bytes: &[],
            headers: None,
            key: None,
            flow: None,
            chain: "",
        };
        let mut names = Vec::new();
        for sequence in 1..=2 {
            tracer.put(first_part(sequence));
        }
        traces.take(&[], |trace| names.push(trace.sequence));
        assert_eq!((traces.lost(), traces.is_full()), (1, false));
        assert!(tracer.wants(&seen));
        tracer.put(first_part(3));
        assert!(!tracer.wants(&seen));
        traces.take(&[], |trace| names.push(trace.sequence));
        assert!(traces.is_full());
        assert_eq!(names, [1, 3]);
    }
}
