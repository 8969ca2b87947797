//! Any story of packets through a switch's classifier, with any aliases, ends
//! and restores between them: units have places of their own, names lead to
//! units that live, what ends takes its names along, no frame is lost.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use weir_nf::host::{AliasRequest, Stage};
use weir_packet::{
    Direction, FlowKey, Frame, FrameMeta, FramePool, LinkType, MemoryLayout, Side, Time,
};
use weir_runtime::{Classifier, RuntimeConfig};

use crate::engine::stages;
use crate::input::Input;
use crate::traffic::{self, Arrival, Step};

/// The first byte chooses the chain, a chunk is what is done to units between
/// the packets, the rest is a story ([`traffic::steps`]).
pub fn run(data: &[u8]) {
    let mut input = Input(data);
    let stages = stages();
    let stage = &stages[usize::from(input.u8()) % stages.len()];
    let mut deeds = Input(input.chunk());
    let mut bench = Bench::new(stage);
    for step in traffic::steps(&mut input, 256) {
        bench.step(step);
        if !deeds.is_empty() {
            bench.flush();
            bench.act(&mut deeds);
        }
    }
    bench.flush();
    while !deeds.is_empty() {
        bench.act(&mut deeds);
    }
    bench.finish();
}

/// A unit that was removed, as a runtime would claim it.
struct Claim {
    unit: u64,
    flows: Vec<(FlowKey, bool)>,
    aliases: Vec<(FlowKey, AliasRequest)>,
}

/// A classifier with little memory, fed by hand.
struct Bench {
    classifier: Classifier,
    pool: FramePool,
    input: Vec<Frame>,
    now: Time,
    arrived: Option<Arrival>,
    left: Option<(Side, LinkType, Vec<u8>)>,
    /// Aliases that units have, with their flow's key.
    aliases: BTreeMap<FlowKey, (u64, FlowKey, AliasRequest)>,
    /// Units that live, and those that have lived.
    live: BTreeSet<u64>,
    lived: BTreeSet<u64>,
    removed: Option<Claim>,
}

impl Bench {
    fn new(stage: &Stage) -> Bench {
        let config = RuntimeConfig {
            seed: 7,
            ..RuntimeConfig::default()
        };
        let layout = MemoryLayout {
            small_frames: 192,
            large_frames: 3,
            large_bytes: 65_536 + 5 * 64,
            ..MemoryLayout::default()
        };
        Bench {
            classifier: Classifier::new(stage, config).expect("the chain was checked"),
            pool: FramePool::with_layout(layout),
            input: Vec::new(),
            now: Time::from_secs(1_700_000_000),
            arrived: None,
            left: None,
            aliases: BTreeMap::new(),
            live: BTreeSet::new(),
            lived: BTreeSet::new(),
            removed: None,
        }
    }

    fn step(&mut self, step: Step) {
        match step {
            Step::Packet(arrival) => {
                self.arrive(&arrival);
                self.arrived = Some(arrival);
            }
            Step::Again(side) => {
                if let Some(mut arrival) = self.arrived.take() {
                    arrival.side = side;
                    self.arrive(&arrival);
                    self.arrived = Some(arrival);
                }
            }
            Step::Answer(flags) => self.react(|bytes, link| traffic::answer(bytes, link, flags)),
            Step::Error(code) => self.react(|bytes, link| traffic::error(bytes, link, code)),
            Step::Wait(ms) => self.now = self.now.plus(ms * 1_000_000),
            Step::Back(ms) => self.now = Time(self.now.0.saturating_sub(ms * 1_000_000)),
            Step::Flush => self.flush(),
        }
    }

    fn react(&mut self, make: impl FnOnce(&[u8], LinkType) -> Option<Vec<u8>>) {
        self.flush();
        if let Some((from, link, bytes)) = &self.left
            && *link == LinkType::Ethernet
            && let Some(bytes) = make(bytes, *link)
        {
            let arrival = Arrival {
                side: from.opposite(),
                link: *link,
                bytes,
                sound: true,
            };
            self.arrive(&arrival);
        }
    }

    fn arrive(&mut self, arrival: &Arrival) {
        let mut meta = FrameMeta::received(self.now, arrival.bytes.len() as u32);
        meta.side = arrival.side;
        meta.link = arrival.link;
        // Without a frame the port drops it.
        if let Ok(frame) = self.pool.copy(&arrival.bytes, meta) {
            self.input.push(frame);
        }
        if self.input.len() >= 100 {
            self.flush();
        }
    }

    /// Classifies what is queued.
    fn flush(&mut self) {
        let mut output = Vec::new();
        self.classifier
            .classify(&mut self.pool, &mut self.input, &mut output);
        let memory = self.pool.memory().clone();
        for frame in output {
            let (meta, bytes) = memory.read(&frame);
            assert!(self.classifier.is_live(meta.unit), "a packet's unit lives");
            assert_eq!((meta.clock, meta.view), (0, 0));
            self.left = Some((meta.side, meta.link, bytes.to_vec()));
            self.pool.give(frame);
        }
        self.note_new();
        self.check();
    }

    /// Units that packets have begun were never there before.
    fn note_new(&mut self) {
        for unit in self.classifier.live_units() {
            if self.live.insert(unit) {
                assert!(self.lived.insert(unit), "{unit:#x} has lived before");
            }
        }
    }

    fn check(&self) {
        let classifier = &self.classifier;
        let units: Vec<u64> = classifier.live_units().collect();
        assert_eq!(self.live, units.iter().copied().collect());
        let mut places = BTreeSet::new();
        let (mut flows, mut all) = (Vec::new(), 0);
        for &unit in &units {
            assert!(classifier.is_live(unit) && unit >> 32 > 0);
            assert!(places.insert(unit as u32), "two units have one place");
            // The last place is the liaison's.
            assert!((unit as u32 as usize) < classifier.places() - 1);
            flows.clear();
            classifier.flows_of(unit, &mut flows);
            all += flows.len();
            for flow in &flows {
                let home = classifier.unit_of(flow);
                assert!(home.is_none_or(|home| self.live.contains(&home)));
            }
        }
        for (key, (unit, ..)) in &self.aliases {
            assert_eq!(
                classifier.unit_of(key),
                Some(*unit),
                "an alias is its unit's"
            );
        }
        let report = classifier.report();
        assert!(report.balances(), "{report:?}");
        assert_eq!(report.flows.active, all as u64);
        assert_eq!(report.flows.aliases, self.aliases.len() as u64);
        assert_eq!(self.pool.outstanding() as u64, report.held);
    }

    /// Does something to a unit.
    fn act(&mut self, deeds: &mut Input<'_>) {
        let deed = deeds.u8();
        let units: Vec<u64> = self.live.iter().copied().collect();
        let at = usize::from(deeds.u8()).checked_rem(units.len());
        // Now and then one that does not live, or the liaison.
        let unit = match (at, deed >> 4) {
            (Some(at), 0) => units[at] + (1 << 32),
            (_, 1) => self.classifier.liaison(),
            (Some(at), _) => units[at],
            (None, other) => u64::from(other),
        };
        match deed & 7 {
            0 | 1 => self.add_alias(unit, deeds),
            2 => self.end_flow(unit, deeds),
            3 => self.remove(unit),
            4 => self.restore(deeds),
            5 => {
                let key = self.key(unit, deeds);
                let freed = self.classifier.end_alias(unit, &key);
                let known = self.aliases.get(&key).is_some_and(|(u, ..)| *u == unit);
                assert_eq!(freed, known);
                if freed {
                    self.aliases.remove(&key);
                }
            }
            6 => {
                let key = self.key(unit, deeds);
                let before = self.classifier.unit_of(&key);
                if self.classifier.add_flow(unit, &key) {
                    // Packets go on to a unit that has the key by name.
                    let now = self.classifier.unit_of(&key);
                    assert!(now == Some(unit) || now == before && before.is_some());
                }
                self.note_name(key);
            }
            _ => {
                let key = self.key(unit, deeds);
                if self.classifier.set_key(unit, &key) {
                    assert_eq!(self.classifier.key_of(unit), Some(key));
                }
            }
        }
        self.check();
    }

    /// One of the unit's keys, an alias, or any key.
    fn key(&self, unit: u64, deeds: &mut Input<'_>) -> FlowKey {
        let (which, number) = (deeds.u8(), usize::from(deeds.u8()));
        let mut keys = Vec::new();
        if which & 3 == 0 {
            keys.extend(self.aliases.keys());
        } else if which & 3 == 1 {
            self.classifier.flows_of(unit, &mut keys);
        } else if which & 3 == 2 {
            for unit in self.classifier.live_units() {
                self.classifier.flows_of(unit, &mut keys);
                keys.extend(self.classifier.key_of(unit));
            }
        }
        match number.checked_rem(keys.len()) {
            Some(at) => keys[at],
            None => {
                let [a, b] = [which, deeds.u8()].map(|n| IpAddr::from([203, 0, 113, n % 4]));
                let (port, other) = (u16::from(deeds.u8() % 4), u16::from(deeds.u8() % 4));
                FlowKey::new(a, port, b, other, 17, 0, 0).0
            }
        }
    }

    fn add_alias(&mut self, unit: u64, deeds: &mut Input<'_>) {
        let bits = deeds.u8();
        let flow = self.key(unit, deeds);
        let mut key = self.key(unit, deeds);
        let open = bits & 1 != 0;
        if open {
            let (address, port) = key.a();
            key = FlowKey::one_end(address, port, key.proto(), key.zone(), key.chain()).0;
        }
        let request = AliasRequest {
            flow: 0,
            key,
            client: Direction::Forward,
            side: if bits & 2 == 0 {
                Side::Inside
            } else {
                Side::Outside
            },
            open,
        };
        // The flow may have got a name first.
        let is_added = self.classifier.add_alias(unit, &flow, &request);
        self.note_name(flow);
        if is_added {
            // One that another unit had passes to this one.
            assert_eq!(self.classifier.unit_of(&key), Some(unit));
            // A flow's own key is none.
            if self.classifier.alias_of(&key) == Some(unit) {
                self.aliases.insert(key, (unit, flow, request));
            }
        }
    }

    /// A key that is asked for as a flow's is one more name of a unit that has one
    /// flow.
    fn note_name(&mut self, key: FlowKey) {
        let Some(unit) = self.classifier.alias_of(&key) else {
            return;
        };
        if self.aliases.get(&key).is_some_and(|(u, ..)| *u == unit) {
            return;
        }
        // Its one flow's own key may be another unit's by now.
        let mut flows = Vec::new();
        self.classifier.flows_of(unit, &mut flows);
        let only = flows.pop().or(self.classifier.key_of(unit)).unwrap_or(key);
        let request = AliasRequest {
            flow: 0,
            key,
            client: Direction::Forward,
            side: Side::Inside,
            open: false,
        };
        self.aliases.insert(key, (unit, only, request));
    }

    /// Aliases of the unit that went.
    fn freed(&mut self, unit: u64, freed: &[FlowKey]) {
        for key in freed {
            let gone = self.aliases.remove(key);
            assert_eq!(gone.map(|(u, ..)| u), Some(unit), "it was the unit's alias");
        }
    }

    fn end_flow(&mut self, unit: u64, deeds: &mut Input<'_>) {
        let key = self.key(unit, deeds);
        let mut freed = Vec::new();
        self.classifier.end_flow(unit, &key, &mut freed);
        self.freed(unit, &freed);
    }

    fn remove(&mut self, unit: u64) {
        let mut keys = Vec::new();
        self.classifier.flows_of(unit, &mut keys);
        let own = self.aliases.values().filter(|(u, ..)| *u == unit);
        let claim = Claim {
            unit,
            flows: keys.into_iter().map(|key| (key, false)).collect(),
            aliases: own.map(|(_, flow, request)| (*flow, *request)).collect(),
        };
        let mut freed = Vec::new();
        self.classifier.remove_unit(unit, &mut freed);
        self.freed(unit, &freed);
        let others = self.aliases.values().any(|(u, ..)| *u == unit);
        assert!(!others, "all names of a unit go with it");
        if self.live.remove(&unit) {
            self.removed = Some(claim);
        }
    }

    /// Puts back the unit that was removed last, perhaps under another number.
    fn restore(&mut self, deeds: &mut Input<'_>) {
        let Some(mut claim) = self.removed.take() else {
            return;
        };
        claim.unit = claim.unit.wrapping_add(u64::from(deeds.u8() & 3));
        let before = self.classifier.report().flows;
        match self
            .classifier
            .restore(claim.unit, None, &claim.flows, &claim.aliases)
        {
            Ok(()) => {
                assert!(self.live.insert(claim.unit));
                self.lived.insert(claim.unit);
                for (flow, request) in claim.aliases {
                    let is_named = claim.flows.iter().all(|(key, _)| *key != request.key)
                        || self.classifier.end_alias(claim.unit, &request.key)
                            && self.classifier.add_alias(claim.unit, &flow, &request);
                    // A flow's own key is none.
                    if is_named && self.classifier.alias_of(&request.key) == Some(claim.unit) {
                        self.aliases
                            .insert(request.key, (claim.unit, flow, request));
                    }
                }
            }
            Err(_) => assert_eq!(self.classifier.report().flows, before),
        }
    }

    fn finish(&mut self) {
        while let Some(unit) = self.live.first().copied() {
            self.remove(unit);
        }
        self.check();
        self.classifier.finish(&mut self.pool);
        let report = self.classifier.report();
        assert!(report.balances(), "packets are unaccounted for: {report:?}");
        let flows = &report.flows;
        assert_eq!((flows.active, flows.units, flows.aliases), (0, 0, 0));
        assert_eq!(self.pool.outstanding(), 0, "frames leaked");
    }
}
