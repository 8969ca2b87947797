//! Packets of flows that are known and go on as they were: nearly all.

use weir_nf::host::{BURST, FlowHead, Place, UnitPlace};
use weir_packet::{Frame, PacketMemory};

use crate::flows::records::ALIAS;
use crate::flows::{FlowTable, HAS_TABLE, tcp};
use crate::look::Kinds;
use crate::runtime::Runtime;
use crate::scratch::{MAX_SCOPES, Scratch};

// The sender's place in pairs is a sum of bits: whether it is B, and whether the client is.
const _: () = assert!(FlowHead::CLIENT_IS_B == 1);

impl Runtime {
    /// The fast path. Resolves the packets of `left`, in order, up to the first whose
    /// flow is unknown, ends, or changes its TCP phase; nearly none is. Returns the
    /// packets that remain. With `FOLLOWS` a switch has given each packet its unit,
    /// clock and view: they are kept, and a flow of another unit does not match.
    pub(crate) fn resolve_known<const FOLLOWS: bool>(
        &mut self,
        memory: &PacketMemory,
        frames: &mut [Frame],
        left: u64,
        kinds: &Kinds,
    ) -> u64 {
        let Some(table) = self.counts.internal.expect(self.table.as_mut(), HAS_TABLE) else {
            return left;
        };
        let opened = match &self.follow {
            Some(follow) if FOLLOWS => &follow.opened[..],
            _ => &[],
        };
        // The first later fragment has no key; the packets from it on wait for the slow path.
        let before_later = crate::scratch::before(left & kinds.later);
        let burst = Burst {
            table,
            scratch: &mut self.scratch,
            memory,
            frames,
            opened,
        };
        let keyed = left & before_later;
        let keyed = match burst.table.scopes.is_empty() {
            true => burst.resolve::<FOLLOWS, false>(keyed),
            false => burst.resolve::<FOLLOWS, true>(keyed),
        };
        left & !before_later | keyed
    }
}

/// A burst that was looked at.
struct Burst<'a> {
    table: &'a mut FlowTable,
    scratch: &'a mut Scratch,
    memory: &'a PacketMemory,
    frames: &'a mut [Frame],
    /// Units that are opened within the burst.
    opened: &'a [u64],
}

impl Burst<'_> {
    /// [`Runtime::resolve_known`]; `WIDER` is true where there are scopes wider than the flow.
    #[inline(never)]
    fn resolve<const FOLLOWS: bool, const WIDER: bool>(self, mut keyed: u64) -> u64 {
        let Burst {
            table,
            scratch,
            memory,
            frames,
            opened,
        } = self;
        while keyed != 0 {
            let i = keyed.trailing_zeros() as usize % BURST;
            let lookup = &scratch.lookups[i];
            let flow = lookup.candidate;
            if flow & ALIAS != 0 {
                break;
            }
            let meta = memory.meta_mut(&mut frames[i]);
            if FOLLOWS && WIDER && table.root_id(flow) != Some(meta.unit) {
                break;
            }
            let head = table.flows.blocks.head_mut(flow);
            let now = meta.time.0;
            if FOLLOWS && (!WIDER && head.id != meta.unit || opened.contains(&meta.unit)) {
                break;
            }
            // The candidate is nearly always the packet's flow.
            if head.key != lookup.key || head.bits & FlowHead::LIVE == 0 || now > idle_from(head) {
                break;
            }
            let direction = lookup.direction;
            let me = usize::from((direction as u8 ^ head.bits) & FlowHead::CLIENT_IS_B);
            let is_steady = match lookup.is_ack {
                false => tcp::is_steady_without(head, &scratch.headers[i], me == 0),
                true => tcp::goes_on(head, &lookup.segment, me),
            };
            if !is_steady {
                break;
            }
            keyed &= keyed - 1;
            let clock = if FOLLOWS { meta.clock } else { head.clock + 1 };
            head.last_seen = head.last_seen.max(now);
            head.clock = clock;
            scratch.places[i] = Place {
                clock,
                flow,
                tcp: head.tcp,
                phase: head.phase,
                direction,
            };
            if !FOLLOWS {
                meta.unit = head.id;
                meta.clock = clock;
                meta.view = 1;
            }
            if WIDER {
                let units = &mut scratch.units;
                let own = (head.id, clock);
                let noted = table.enter_units(flow, own, now, |scope, place| {
                    units[scope][i] = place;
                });
                if FOLLOWS {
                    table.set_clocks(units, i, meta.clock);
                } else {
                    (meta.unit, meta.clock) = noted;
                }
            }
        }
        keyed
    }
}

/// Updates the units of packet `i`'s flow. Returns id and clock of the unit of the
/// widest scope.
#[inline(never)]
pub(crate) fn note_units(
    table: &mut FlowTable,
    units: &mut [[UnitPlace; BURST]; MAX_SCOPES],
    i: usize,
    flow: u32,
    now: u64,
) -> (u64, u64) {
    let head = table.flows.blocks.head(flow);
    let own = (head.id, head.clock);
    table.enter_units(flow, own, now, |scope, place| units[scope][i] = place)
}

/// The time after which a flow is idle for too long. A sum beyond 2^64 only sends its packets to the slow path.
#[inline(always)]
fn idle_from(head: &FlowHead) -> u64 {
    let idle = u64::from(head.idle_ms) * 1_000_000;
    head.last_seen.wrapping_add(idle)
}
