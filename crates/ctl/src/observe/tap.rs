//! Copies of packets, from the engines to the client.

use std::fmt::Write as _;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use rtrb::{Consumer, Producer, RingBuffer};
use weir_api::v1;
use weir_packet::filter::Filter;
use weir_runtime::Runtime;
use weir_runtime::watch::{Seen, Taken, Tap, TapPoint, Tapped, Tapper};

use super::matches::matches;

/// Copies per engine: those that wait to be taken and those that are empty.
const COPIES: usize = 1_024;
/// Octets for which a copy has room from the start.
const ROOM: usize = 2_048;
/// Packets, and about how many octets, of one message.
const PACKETS: usize = 256;
const OCTETS: usize = 256 << 10;
/// Octets of a packet that are copied at most: what a capture may hold.
pub const LONGEST: u32 = 262_144;

/// A request for a tap.
#[derive(Clone, Debug)]
pub struct TapSpec {
    /// The points to tap; at most as many as an engine takes.
    pub points: Vec<TapPoint>,
    /// Selects the packets.
    pub filter: Filter,
    /// How many packets; 0 for no end.
    pub packets: u64,
    /// Octets of each.
    pub snap_len: u32,
}

/// A copy of a packet.
#[derive(Debug, Default)]
pub struct Copied {
    /// Number of its point among those of the tap.
    pub point: usize,
    /// Nanoseconds since 1970.
    pub time_ns: u64,
    /// Link type, as captures number them.
    pub link_type: u32,
    /// Octets of the packet on the wire.
    pub wire_len: u32,
    /// Its first octets, at most as many as the tap asks for.
    pub data: Vec<u8>,
    /// A word on it, as a drop's reason; empty for none.
    pub comment: String,
}

struct Shared {
    spec: TapSpec,
    /// Copies that were made or would have been.
    seen: AtomicU64,
    /// Packets that found no empty copy, by point.
    lost: Vec<AtomicU64>,
    closed: AtomicBool,
    rings: Mutex<Vec<Ring>>,
}

/// The taker's end of one engine.
struct Ring {
    full: Consumer<Copied>,
    empty: Producer<Copied>,
}

/// Arms a tap in an engine.
#[derive(Clone)]
pub struct TapArm(Arc<Shared>);

impl TapArm {
    pub(super) fn arm(&self, number: u64, runtime: &mut Runtime) {
        let (copies, ring) = Copies::of(&self.0);
        let tap = Tap {
            number,
            points: self.0.spec.points.clone(),
            tapper: Box::new(EngineTapper(copies)),
        };
        if runtime.tap(tap).is_ok() {
            self.0.listen(ring);
        }
    }

    /// For an engine of another process.
    pub fn feed(&self) -> TapFeed {
        let (copies, ring) = Copies::of(&self.0);
        self.0.listen(ring);
        TapFeed(copies)
    }

    /// The request that the tap was made for.
    pub fn spec(&self) -> &TapSpec {
        &self.0.spec
    }
}

/// Feeds a tap with the copies of an engine of another process.
pub struct TapFeed(Copies);

impl TapFeed {
    /// A copy. Never waits: one that finds no room is lost.
    pub fn put(&mut self, packet: v1::Tapped) {
        let copies = &mut self.0;
        let point = packet.point as usize;
        if copies.is_over() {
            return;
        }
        copies.put(point, |copy| {
            *copy = Copied {
                point,
                time_ns: packet.time_ns,
                link_type: packet.link_type,
                wire_len: packet.wire_len,
                data: packet.data,
                comment: packet.comment,
            };
        });
    }

    /// So many more packets of a point were lost over there.
    pub fn lose(&mut self, point: usize, packets: u64) {
        if !self.0.is_over() {
            self.0.lose(point, packets);
        }
    }
}

/// A tap under way. Dropped, it takes itself off.
pub struct Taps {
    shared: Arc<Shared>,
    taken: u64,
}

impl Taps {
    /// A tap that no engine knows yet.
    pub fn new(spec: TapSpec) -> Taps {
        let lost = spec.points.iter().map(|_| AtomicU64::new(0)).collect();
        Taps {
            shared: Arc::new(Shared {
                spec,
                seen: AtomicU64::new(0),
                lost,
                closed: AtomicBool::new(false),
                rings: Mutex::new(Vec::new()),
            }),
            taken: 0,
        }
    }

    /// The handle that arms the tap in an engine.
    pub fn arm(&self) -> TapArm {
        TapArm(Arc::clone(&self.shared))
    }

    /// The copies that engines have made since the last call, until `each` says
    /// that it wants no more.
    pub fn take(&mut self, mut each: impl FnMut(&Copied) -> bool) {
        let mut rings = self
            .shared
            .rings
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let most = self.shared.spec.packets;
        for ring in rings.iter_mut() {
            // Not more than there is room for: all engines have their turn.
            for _ in 0..COPIES {
                let Ok(copy) = ring.full.pop() else { break };
                let mut more = true;
                if most == 0 || self.taken < most {
                    self.taken += 1;
                    more = each(&copy);
                }
                let _ = ring.empty.push(copy);
                if !more {
                    return;
                }
            }
        }
    }

    /// Copies for one message.
    pub fn some(&mut self) -> Vec<v1::Tapped> {
        let mut packets = Vec::new();
        let mut octets = 0;
        self.take(|copy| {
            octets += copy.data.len();
            packets.push(v1::Tapped {
                point: copy.point as u32,
                time_ns: copy.time_ns,
                link_type: copy.link_type,
                wire_len: copy.wire_len,
                data: copy.data.clone(),
                comment: copy.comment.clone(),
            });
            packets.len() < PACKETS && octets < OCTETS
        });
        packets
    }

    /// True where all packets that were asked for have been taken.
    pub fn is_full(&self) -> bool {
        let most = self.shared.spec.packets;
        most != 0 && self.taken >= most
    }

    /// Packets that were not copied since nobody took those before away, by
    /// point.
    pub fn lost(&self) -> Vec<u64> {
        let lost = self.shared.lost.iter();
        lost.map(|lost| lost.load(Ordering::Relaxed)).collect()
    }
}

impl Drop for Taps {
    fn drop(&mut self) {
        self.shared.closed.store(true, Ordering::Relaxed);
    }
}

impl Shared {
    fn listen(&self, ring: Ring) {
        let mut rings = self.rings.lock().unwrap_or_else(PoisonError::into_inner);
        rings.push(ring);
    }
}

/// The end of one engine.
struct Copies {
    shared: Arc<Shared>,
    full: Producer<Copied>,
    empty: Consumer<Copied>,
}

impl Copies {
    /// With empty ones, and the taker's end.
    fn of(shared: &Arc<Shared>) -> (Copies, Ring) {
        let (full, take) = RingBuffer::new(COPIES);
        let (mut give, empty) = RingBuffer::new(COPIES);
        for _ in 0..COPIES {
            let copy = Copied {
                data: Vec::with_capacity(ROOM.min(shared.spec.snap_len as usize)),
                comment: String::with_capacity(64),
                ..Copied::default()
            };
            // There are as many places as copies.
            let _ = give.push(copy);
        }
        let copies = Copies {
            shared: Arc::clone(shared),
            full,
            empty,
        };
        let ring = Ring {
            full: take,
            empty: give,
        };
        (copies, ring)
    }

    fn is_over(&self) -> bool {
        let most = self.shared.spec.packets;
        self.shared.closed.load(Ordering::Relaxed)
            || most != 0 && self.shared.seen.load(Ordering::Relaxed) >= most
    }

    fn put(&mut self, point: usize, fill: impl FnOnce(&mut Copied)) {
        let Ok(mut copy) = self.empty.pop() else {
            return self.lose(point, 1);
        };
        self.shared.seen.fetch_add(1, Ordering::Relaxed);
        fill(&mut copy);
        // There are as many places as copies.
        let _ = self.full.push(copy);
    }

    fn lose(&self, point: usize, packets: u64) {
        if let Some(lost) = self.shared.lost.get(point) {
            lost.fetch_add(packets, Ordering::Relaxed);
        }
    }
}

struct EngineTapper(Copies);

impl Tapper for EngineTapper {
    fn wants(&mut self, seen: &Seen<'_>) -> bool {
        self.0.is_over() || matches(&self.0.shared.spec.filter, seen)
    }

    fn put(&mut self, packet: &Tapped<'_>) -> Taken {
        let copies = &mut self.0;
        if copies.is_over() {
            return Taken::Enough;
        }
        let snapped = packet
            .bytes
            .len()
            .min(copies.shared.spec.snap_len as usize)
            .min(LONGEST as usize);
        copies.put(packet.point, |copy| {
            copy.point = packet.point;
            copy.time_ns = packet.meta.time.0;
            copy.link_type = match packet.meta.dlt {
                // A link type without a number is written as DLT_USER0 (147).
                0 => packet.meta.link.to_dlt().unwrap_or(147),
                dlt => u32::from(dlt),
            };
            copy.wire_len = packet.meta.wire_len.max(packet.bytes.len() as u32);
            copy.data.clear();
            copy.data
                .extend_from_slice(packet.bytes.get(..snapped).unwrap_or_default());
            copy.comment.clear();
            if let Some(comment) = &packet.comment {
                // Writing to a `String` can't fail.
                let _ = write!(copy.comment, "{comment}");
            }
        });
        Taken::More
    }
}
