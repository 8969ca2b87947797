//! Assignment of packets to units: by the switch's flowlets, or by one decision per flow.

use weir_packet::{Time, no_advice};
use weir_protocol::flowlets::{FlowletCount, FlowletSettings, Flowlets, MOST_COPIES, Slot};

use super::meter::Meter;
use super::trace::Packet;

/// How work is given out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    /// A flow's first packet decides, for its life.
    Vanilla,
    /// So too, and flows are moved away from overloaded units every so many nanoseconds.
    Smart(u64),
    /// Flowlets, by the code that the switch runs.
    Flowlet(FlowletSettings),
}

impl Mode {
    pub(super) fn name(&self) -> String {
        match self {
            Mode::Vanilla => "vanilla".to_owned(),
            Mode::Smart(every) => format!("smart {} ms", every / 1_000_000),
            Mode::Flowlet(_) => "flowlet".to_owned(),
        }
    }
}

/// Where a packet goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Placement {
    pub(super) slot: Slot,
    /// It begins a flow or flowlet.
    pub(super) begins: bool,
    /// It begins after a gap.
    pub(super) after_gap: bool,
    /// A copy of the state was sent to the unit ahead.
    pub(super) copied: bool,
}

/// A flow's unit and history, as a packet of it finds them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Known {
    /// Its unit; 0: it is new.
    pub(super) owner: Slot,
    /// It may be moved.
    pub(super) settled: bool,
    /// Its unit's state is better than none: false with a store that everyone reads.
    pub(super) owner_has_state: bool,
}

/// The deciding part of a switch.
#[derive(Debug)]
pub(super) enum Assigner {
    Flowlet(Box<Flowlets>),
    PerFlow(Box<PerFlow>),
}

impl Assigner {
    pub(super) fn new(
        mode: &Mode,
        flows: u32,
        (capacity, most): (u64, u16),
        seed: u64,
    ) -> Result<Assigner, String> {
        let every = match mode {
            Mode::Flowlet(settings) => {
                let flowlets = Flowlets::new(*settings, flows as usize, seed, no_advice);
                let mut flowlets = flowlets.map_err(|error| error.to_string())?;
                (1..=most).for_each(|slot| flowlets.admit(slot));
                return Ok(Assigner::Flowlet(Box::new(flowlets)));
            }
            Mode::Vanilla => None,
            Mode::Smart(every) => Some(*every),
        };
        Ok(Assigner::PerFlow(Box::new(PerFlow {
            meter: Meter::new(most),
            capacity,
            every,
            next: every.unwrap_or(u64::MAX),
            flows: vec![Flow::default(); flows as usize],
            seen: Vec::new(),
            overfull: 0,
        })))
    }

    pub(super) fn advance(&mut self, now: u64) {
        match self {
            Assigner::Flowlet(flowlets) => flowlets.advance(Time(now)),
            Assigner::PerFlow(flows) => flows.meter.advance(now),
        }
    }

    /// Decides for a packet, and counts it.
    pub(super) fn packet(&mut self, packet: &Packet, usable: &[Slot], known: Known) -> Placement {
        match self {
            Assigner::Flowlet(flowlets) => in_flowlets(flowlets, packet, usable, known),
            Assigner::PerFlow(flows) => flows.packet(packet, usable, known.owner),
        }
    }

    /// The next flow whose state is to go ahead.
    pub(super) fn due(&mut self, now: u64) -> Option<u32> {
        match self {
            Assigner::Flowlet(flowlets) => flowlets.due(Time(now)),
            Assigner::PerFlow(_) => None,
        }
    }

    /// Where to: 0 fills the rest.
    pub(super) fn likely(
        &mut self,
        flow: u32,
        usable: &[Slot],
        owner: Slot,
    ) -> [Slot; MOST_COPIES] {
        match self {
            Assigner::Flowlet(flowlets) => flowlets.likely(flow, usable, [owner, 0]),
            Assigner::PerFlow(_) => [0; MOST_COPIES],
        }
    }

    /// Flows that are to move now, and where to: by re-allocation.
    pub(super) fn moves(&mut self, now: u64, usable: &[Slot]) -> Vec<(u32, Slot)> {
        match self {
            Assigner::Flowlet(_) => Vec::new(),
            Assigner::PerFlow(flows) => flows.moves(now, usable),
        }
    }

    /// True if one more unit is to be started, by load alone.
    pub(super) fn wants_more(&self, usable: &[Slot]) -> bool {
        match self {
            Assigner::Flowlet(flowlets) => flowlets.wants_more(usable),
            Assigner::PerFlow(flows) => flows.wants_more(usable),
        }
    }

    /// How often no unit had room.
    pub(super) fn overfull(&self) -> u64 {
        match self {
            Assigner::Flowlet(flowlets) => flowlets.counts().get(FlowletCount::Overfull),
            Assigner::PerFlow(flows) => flows.overfull,
        }
    }

    /// How many of the units, from the last on, are idle.
    pub(super) fn idle(&self, usable: &[Slot]) -> usize {
        match self {
            Assigner::Flowlet(flowlets) => flowlets.idle(usable),
            Assigner::PerFlow(flows) => {
                let backwards = usable.iter().rev();
                backwards
                    .take_while(|slot| flows.meter.load(**slot) == 0)
                    .count()
            }
        }
    }

    /// The flowlets, if that is how work is given out.
    pub(super) fn flowlets(&self) -> Option<&Flowlets> {
        match self {
            Assigner::Flowlet(flowlets) => Some(flowlets),
            Assigner::PerFlow(_) => None,
        }
    }
}

/// As the switch does it for each packet.
fn in_flowlets(
    flowlets: &mut Flowlets,
    packet: &Packet,
    usable: &[Slot],
    known: Known,
) -> Placement {
    let (place, now) = (packet.flow, Time(packet.at));
    let bytes = u32::from(packet.bytes);
    let mut placement = Placement {
        slot: known.owner,
        begins: flowlets.begins(place, now, bytes),
        after_gap: false,
        copied: false,
    };
    if placement.begins {
        let is_first = known.owner == 0;
        placement.after_gap = flowlets.is_after_gap(place, now);
        flowlets.note(match (is_first, placement.after_gap) {
            (true, _) => FlowletCount::First,
            (false, true) => FlowletCount::AfterGap,
            (false, false) => FlowletCount::AfterSize,
        });
        flowlets.end(place);
        if is_first || known.settled {
            let holder = if known.owner_has_state {
                known.owner
            } else {
                0
            };
            if let Some(pick) = flowlets.pick(place, usable, [holder, 0]) {
                placement.slot = pick.slot;
                placement.copied = flowlets.has_copy(place, pick.slot);
                if !is_first {
                    note_pick(flowlets, known.owner, pick.slot, placement.copied);
                }
            }
        } else {
            flowlets.note(FlowletCount::Bound);
        }
        flowlets.begin(place, now, placement.slot);
    }
    flowlets.count(place, now, placement.slot, bytes);
    placement
}

fn note_pick(flowlets: &mut Flowlets, owner: Slot, slot: Slot, copied: bool) {
    if copied {
        flowlets.note(FlowletCount::CopyUsed);
    }
    flowlets.note(match (slot == owner, copied) {
        (true, _) => FlowletCount::Stayed,
        (false, true) => FlowletCount::MovedReady,
        (false, false) => FlowletCount::MovedWaiting,
    });
}

/// Share of what all units can do above which one more is started, in parts per hundred.
const START_AT: u64 = 90;

/// One flow, as a per-flow switch knows it.
#[derive(Clone, Copy, Debug, Default)]
struct Flow {
    began: u64,
    /// Bytes since the last re-allocation.
    bytes: u64,
    owner: Slot,
}

/// A switch that decides per flow.
#[derive(Debug)]
pub(super) struct PerFlow {
    meter: Meter,
    capacity: u64,
    every: Option<u64>,
    next: u64,
    flows: Vec<Flow>,
    /// Flows that had packets since the last re-allocation.
    seen: Vec<u32>,
    overfull: u64,
}

impl PerFlow {
    /// The fullest unit with room for a rate; `loads` are of `usable`.
    fn fullest(&self, loads: &[u64], rate: u64) -> Option<usize> {
        let with_room = loads.iter().enumerate();
        let with_room = with_room.filter(|(_, load)| **load + rate <= self.capacity);
        // The first one of those that are equally full.
        with_room
            .max_by_key(|(at, load)| (**load, usize::MAX - at))
            .map(|(at, _)| at)
    }

    fn loads(&self, usable: &[Slot]) -> Vec<u64> {
        usable.iter().map(|slot| self.meter.load(*slot)).collect()
    }

    fn packet(&mut self, packet: &Packet, usable: &[Slot], owner: Slot) -> Placement {
        let begins = owner == 0;
        let mut slot = owner;
        if begins {
            let rate = self.meter.demand();
            let loads = self.loads(usable);
            let least = loads.iter().enumerate().min_by_key(|(_, load)| **load);
            let least = least.map_or(0, |(at, _)| at);
            let at = self.fullest(&loads, rate);
            self.overfull += u64::from(at.is_none());
            slot = usable[at.unwrap_or(least)];
            self.meter.place(slot, rate, true);
            self.flows[packet.flow as usize].began = packet.at;
        }
        let flow = &mut self.flows[packet.flow as usize];
        flow.owner = slot;
        if self.every.is_some() {
            if flow.bytes == 0 {
                self.seen.push(packet.flow);
            }
            flow.bytes += u64::from(packet.bytes);
        }
        self.meter.count(slot, packet.at, flow.began, packet.bytes);
        Placement {
            slot,
            begins,
            after_gap: false,
            copied: false,
        }
    }

    fn wants_more(&self, usable: &[Slot]) -> bool {
        let load: u64 = self.loads(usable).iter().sum();
        load * 100 > usable.len() as u64 * self.capacity * START_AT
    }

    /// Each overloaded unit gives its largest flows away until it is not; and what the last unit
    /// has goes to the others if all of it fits below the share that starts units.
    fn moves(&mut self, now: u64, usable: &[Slot]) -> Vec<(u32, Slot)> {
        let Some(every) = self.every.filter(|_| now >= self.next) else {
            return Vec::new();
        };
        self.next += every;
        let mut flows: Vec<(u64, u32)> = Vec::with_capacity(self.seen.len());
        let mut rates = vec![0_u64; usable.len()];
        let place_of = |slot: Slot| usable.iter().position(|other| *other == slot);
        for flow in core::mem::take(&mut self.seen) {
            let record = &mut self.flows[flow as usize];
            let rate = core::mem::take(&mut record.bytes) * 1_000_000_000 / every;
            if let Some(at) = place_of(record.owner) {
                rates[at] += rate;
                flows.push((rate, flow));
            }
        }
        flows.sort_unstable_by(|one, other| other.cmp(one));
        let all: u64 = rates.iter().sum();
        let fewer = usable.len().saturating_sub(1);
        let last = (fewer > 0 && all * 100 <= fewer as u64 * self.capacity * START_AT)
            .then(|| usable[fewer]);
        let mut moves = Vec::new();
        for (rate, flow) in flows {
            let owner = self.flows[flow as usize].owner;
            let Some(at) = place_of(owner) else { continue };
            if rates[at] <= self.capacity && Some(owner) != last {
                continue;
            }
            let open = if last.is_some() { fewer } else { usable.len() };
            match self.fullest(&rates[..open], rate) {
                Some(to) if to != at => {
                    rates[at] -= rate;
                    rates[to] += rate;
                    moves.push((flow, usable[to]));
                    self.flows[flow as usize].owner = usable[to];
                    self.meter.place(usable[to], rate, false);
                }
                Some(_) => {}
                None => self.overfull += 1,
            }
        }
        moves
    }
}
