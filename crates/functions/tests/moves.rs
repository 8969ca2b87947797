//! Units that move between two engines at random, over real captures: the same
//! packets leave, with the same events, as from one engine; and those are the
//! packets that leave an engine which is alone.

mod support;

use std::collections::{BTreeMap, BTreeSet};

use support::{load, traces};
use weir_functions::{
    firewall::Firewall, http_classifier::HttpClassifier, ids::Ids, kinds,
    load_balancer::LoadBalancer, monitor::Monitor, nat44::Nat44, url_counter::UrlCounter,
};
use weir_nf::host::{FlowOptions, Settings, Stage, Timeouts};
use weir_nf::packet::{
    Disposition, FrameMeta, FramePool, LinkType, MemoryLayout, Side, Time, frame_flags,
};
use weir_nf::{NetworkFunction, NoSources, SetUp};
use weir_runtime::harness::Harness;
use weir_runtime::notes::{self, Note};
use weir_runtime::{Classifier, Runtime, RuntimeConfig};

const CAPTURES: [&str; 4] = [
    "a-mixed/pcapplusplus__example.pcap",
    "a-mixed/snabb__sanitized4k.pcap",
    "a-mixed/try-zeek__sumstat.pcap",
    "a-mixed/malcolm-test-artifacts__Modicon.pcap",
];

/// Chains: functions with their settings.
const CHAINS: [&[(&str, &str)]; 8] = [
    &[("firewall", FIREWALL)],
    &[("nat44", NAT)],
    &[("nat44", NAT_PER_CONNECTION)],
    &[("http-classifier", "{}"), ("url-counter", "{}")],
    &[("load-balancer", BALANCER)],
    &[("ids", IDS)],
    &[("ids", IDS_MESSAGES)],
    &[("firewall", FIREWALL), ("monitor", "{}"), ("nat44", NAT)],
];

const FIREWALL: &str =
    r#"{ "rules": ["drop tcp flags syn,fin", "reject udp in", "accept"], "log-default": true }"#;
const NAT: &str = r#"{
    "pool": "198.18.0.0/31", "log": true,
    "inside": "0.0.0.0/1,128.0.0.0/2,192.0.0.0/6,196.0.0.0/7"
}"#;
const NAT_PER_CONNECTION: &str = r#"{
    "pool": "198.18.0.0/31", "mapping": "address-and-port-dependent",
    "inside": "0.0.0.0/1,128.0.0.0/2,192.0.0.0/6,196.0.0.0/7"
}"#;
const BALANCER: &str = r#"{
    "services": [{
        "vip": "10.0.0.1,192.168.1.1,192.168.0.1,198.189.255.75,10.0.2.2",
        "backends": [{ "address": "198.18.1.1" }, { "address": "198.18.1.2" }]
    }]
}"#;
const IDS: &str = r#"{
    "midstream": true,
    "rules": "alert tcp any any -> any any (content:\"HTTP/1\"; sid:1;)\nalert tcp any any -> any any (content:\"a\"; content:\"e\"; distance:1; sid:2;)\nalert tcp any any -> any any (content:!\"Host\"; content:\"GET \"; sid:3;)\nalert tcp any any -> any any (content:\"zqzq\"; flowbits:set,a; sid:4;)\nalert udp any any -> any any (content:\"|00 01|\"; sid:5;)\nalert ip any any -> any any (ttl:>1; sid:6;)\n"
}"#;

const IDS_MESSAGES: &str = r#"{
    "midstream": true,
    "rules": "alert tcp any any -> any any (content:\"/\"; http_uri; sid:1;)\nalert tcp any any -> any any (flow:to_client; file_data; content:\"the\"; sid:2;)\nalert tcp any any -> any any (flow:to_client; http.header; content:\"gzip\"; file.data; content:\"html\"; sid:3;)\nalert udp any any -> any any (dns.query; content:\"a\"; sid:4;)\nalert tcp any any -> any any (tls.sni; content:\".\"; sid:5;)\n"
}"#;

fn stage(chain: &[(&str, &str)], timeouts: Timeouts) -> Stage {
    let (mut pools, mut warnings) = (Vec::new(), Vec::new());
    let mut builder = Harness::builder().flows(FlowOptions {
        max: 1 << 14,
        timeouts,
        held_fragments: 0,
        buffer_bytes: 16 << 20,
        ..FlowOptions::default()
    });
    for (name, settings) in chain {
        let all = kinds();
        let kind = all.iter().find(|kind| kind.descriptor.name == *name);
        let kind = kind.unwrap_or_else(|| panic!("there is no {name}"));
        let settings = settings_of(name, settings);
        let mut sources = NoSources;
        let mut set_up = SetUp::new(&mut sources, &mut pools, &mut warnings, 7);
        let made = (kind.make)(settings, &mut set_up);
        builder = builder.with_processor(made.unwrap_or_else(|e| panic!("{name}: {e}")));
    }
    let mut stage = builder.stage();
    stage.pools = pools;
    stage
}

fn settings_of(name: &str, json: &str) -> Settings {
    fn typed<N: NetworkFunction>(json: &str) -> Settings
    where
        N::Settings: Send,
    {
        let settings: N::Settings = serde_json::from_str(json).expect("the settings can be read");
        Box::new(settings)
    }
    match name {
        "firewall" => typed::<Firewall>(json),
        "nat44" => typed::<Nat44>(json),
        "http-classifier" => typed::<HttpClassifier>(json),
        "url-counter" => typed::<UrlCounter>(json),
        "load-balancer" => typed::<LoadBalancer>(json),
        "ids" => typed::<Ids>(json),
        "monitor" => typed::<Monitor>(json),
        other => panic!("no settings for {other}"),
    }
}

/// Time-outs so short that flows end within the captures.
const SHORT: Timeouts = Timeouts {
    tcp_opening: 1_000,
    tcp_established: 4_000,
    tcp_closing: 1_000,
    tcp_closed: 300,
    udp: 2_000,
    icmp: 1_000,
    other: 1_000,
    reuse: true,
};

#[derive(Clone, Debug)]
struct Numbered {
    meta: FrameMeta,
    bytes: Vec<u8>,
}

/// What a packet came to, but for the ports it took.
type Entry = Vec<(Disposition, Side, Vec<u8>, Vec<String>)>;

#[derive(Debug)]
struct Engine {
    runtime: Runtime,
    pool: FramePool,
}

fn config(follows: bool) -> RuntimeConfig {
    RuntimeConfig {
        seed: 3,
        event_bytes: 1 << 20,
        follows,
        ..RuntimeConfig::default()
    }
}

impl Engine {
    fn new(stage: &Stage, follows: bool) -> Engine {
        Engine {
            runtime: Runtime::new(stage, config(follows)).expect("the stage runs"),
            pool: FramePool::with_layout(MemoryLayout::default()),
        }
    }

    /// Applies packets; gives for each its entry, and the frames to do
    /// something with.
    fn apply(&mut self, packets: &[&Numbered]) -> Vec<Entry> {
        let mut input = Vec::new();
        for packet in packets {
            input.push(self.pool.copy(&packet.bytes, packet.meta).expect("a frame"));
        }
        let mut frames = Vec::new();
        self.runtime.apply(&mut self.pool, &mut input, &mut frames);
        let memory = self.pool.memory().clone();
        let mut entries = vec![Entry::new()];
        for frame in frames {
            let (meta, bytes) = memory.read(&frame);
            let entry = entries.last_mut().expect("there is one");
            let (bytes, said) = match meta.disposition {
                Disposition::Notes => (Vec::new(), words(bytes)),
                Disposition::Dropped | Disposition::Applied => (Vec::new(), Vec::new()),
                _ => (bytes.to_vec(), Vec::new()),
            };
            entry.push((meta.disposition, meta.side, bytes, said));
            if meta.disposition.closes() {
                entries.push(Entry::new());
            }
            self.pool.give(frame);
        }
        assert_eq!(entries.pop(), Some(Entry::new()));
        assert_eq!(entries.len(), packets.len());
        assert_eq!(self.pool.outstanding(), 0);
        assert!(self.runtime.report().balances());
        entries
    }
}

fn words(bytes: &[u8]) -> Vec<String> {
    let word = |note: Note<'_>| match note {
        Note::Event(line) => String::from_utf8_lossy(line).into_owned(),
        other => format!("{other:?}"),
    };
    notes::read(bytes)
        .map(|note| word(note.expect("the notes are whole")))
        .collect()
}

/// One engine and what a switch does around it, packet by packet. Gives the
/// packets as they were numbered, ticks included, and their entries.
struct Switch {
    names: Classifier,
    pool: FramePool,
    clocks: BTreeMap<u64, u64>,
    engine: Engine,
    numbered: Vec<Numbered>,
    entries: Vec<Entry>,
    freed: u64,
}

impl Switch {
    fn new(stage: &Stage) -> Switch {
        let mut engine = Engine::new(stage, true);
        let leases = engine.runtime.leases_mut();
        leases.grant_all();
        Switch {
            names: Classifier::new(stage, config(false)).expect("the stage runs"),
            pool: FramePool::with_layout(MemoryLayout::default()),
            clocks: BTreeMap::new(),
            engine,
            numbered: Vec::new(),
            entries: Vec::new(),
            freed: 0,
        }
    }

    fn take(&mut self, packet: &Numbered) {
        let due = packet.meta.time;
        let mut units = Vec::new();
        self.engine.runtime.due_units(due, 64, &mut units);
        assert_eq!(units.len(), units.iter().collect::<BTreeSet<_>>().len());
        for unit in units {
            let mut meta = FrameMeta::received(due, 0);
            meta.flags = frame_flags::TICK;
            meta.unit = unit;
            self.number(Numbered {
                meta,
                bytes: Vec::new(),
            });
        }
        let mut input = vec![self.pool.copy(&packet.bytes, packet.meta).expect("a frame")];
        let mut output = Vec::new();
        self.names.classify(&mut self.pool, &mut input, &mut output);
        let memory = self.pool.memory().clone();
        for frame in output {
            let (meta, bytes) = memory.read(&frame);
            let packet = Numbered {
                meta: *meta,
                bytes: bytes.to_vec(),
            };
            self.pool.give(frame);
            self.number(packet);
        }
    }

    fn number(&mut self, mut packet: Numbered) {
        let unit = packet.meta.unit;
        let clock = self.clocks.entry(unit).or_default();
        *clock += 1;
        packet.meta.clock = *clock;
        packet.meta.view = 1;
        let mut frames = Vec::new();
        let engine = &mut self.engine;
        let mut input = vec![
            engine
                .pool
                .copy(&packet.bytes, packet.meta)
                .expect("a frame"),
        ];
        engine
            .runtime
            .apply(&mut engine.pool, &mut input, &mut frames);
        let memory = engine.pool.memory().clone();
        let mut entry = Entry::new();
        let mut again = None;
        for frame in frames {
            let (meta, bytes) = memory.read(&frame);
            let mut said = Vec::new();
            let mut kept = Vec::new();
            match meta.disposition {
                Disposition::Notes => {
                    said = words(bytes);
                    for note in notes::read(bytes).flatten() {
                        match note {
                            Note::Alias { flow, request } => {
                                assert!(self.names.add_alias(unit, &flow, &request));
                            }
                            Note::FlowEnded { key } => {
                                let mut freed = Vec::new();
                                self.names.end_flow(unit, &key, &mut freed);
                                self.freed += freed.len() as u64;
                            }
                            Note::FlowOpened { key, .. } => {
                                assert!(self.names.add_flow(unit, &key));
                            }
                            Note::AliasEnded { key } => {
                                assert!(self.names.end_alias(unit, &key));
                                self.freed += 1;
                            }
                            _ => {}
                        }
                    }
                }
                Disposition::Turned => {
                    kept = bytes.to_vec();
                    again = Some(Numbered {
                        meta: *meta,
                        bytes: bytes.to_vec(),
                    });
                }
                Disposition::Dropped | Disposition::Applied => {}
                _ => kept = bytes.to_vec(),
            }
            entry.push((meta.disposition, meta.side, kept, said));
            self.engine.pool.give(frame);
        }
        let is_tick = packet.meta.flags & frame_flags::TICK != 0;
        self.numbered.push(packet);
        self.entries.push(entry);
        if is_tick && !self.engine.runtime.has_unit(unit) {
            let mut freed = Vec::new();
            self.names.remove_unit(unit, &mut freed);
            self.engine.runtime.forget_unit(unit);
            self.clocks.remove(&unit);
        }
        if let Some(packet) = again {
            self.take(&packet);
        }
    }
}

fn packets(folder: &std::path::Path) -> Vec<Numbered> {
    let mut all = Vec::new();
    let mut start = 0;
    for name in CAPTURES {
        let records = load(&folder.join("traces").join(name));
        let first = records.first().map_or(0, |record| record.time_ns);
        let mut last = start;
        for record in records {
            last = last.max(start + record.time_ns.saturating_sub(first));
            let mut meta = FrameMeta::received(Time(last), 0);
            meta.link = LinkType::from_dlt(record.dlt);
            meta.sequence = all.len() as u64 + 1;
            if all.len() % 3 == 2 {
                meta.side = Side::Outside;
            }
            all.push(Numbered {
                meta,
                bytes: record.data,
            });
        }
        start = last + 1;
    }
    all
}

/// Numbers that look random and are the same in each run.
struct Dice(u64);

impl Dice {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(0x5851_f42d_4c95_7f2d)
            .wrapping_add(0x1405_7b7e_f767_814f);
        (self.0 >> 33) % n
    }
}

fn leases(entry: &Entry) -> impl Iterator<Item = (weir_nf::PoolId, weir_nf::PortLease)> + '_ {
    use weir_nf::{PoolId, PortLease, PortSpace};
    let said = entry.iter().flat_map(|part| &part.3);
    said.filter(|note| note.starts_with("Leased")).map(|note| {
        let numbers: Vec<u16> = note
            .split(|c: char| !c.is_ascii_digit())
            .filter_map(|digits| digits.parse().ok())
            .collect();
        let space = match note {
            _ if note.contains("Tcp") => PortSpace::Tcp,
            _ if note.contains("Udp") => PortSpace::Udp,
            _ => PortSpace::Icmp,
        };
        let lease = PortLease {
            address: numbers[1],
            port: numbers[2],
            space,
        };
        (PoolId(numbers[0] as u8), lease)
    })
}

#[test]
fn where_units_live_does_not_matter() {
    let Some(folder) = traces() else { return };
    let packets = packets(&folder);
    assert!(packets.len() > 10_000, "the captures are there");
    for chain in CHAINS {
        let stage = stage(chain, SHORT);
        let mut switch = Switch::new(&stage);
        for packet in &packets {
            switch.take(packet);
        }
        let ticks = switch
            .numbered
            .iter()
            .filter(|p| p.meta.flags & frame_flags::TICK != 0);
        let ticks = ticks.count();
        assert!(ticks > 100, "{chain:?}: {ticks} ticks");
        let mut engines = [Engine::new(&stage, true), Engine::new(&stage, true)];
        let mut at: BTreeMap<u64, usize> = BTreeMap::new();
        let mut dice = Dice(7);
        let (mut from, mut moved, mut bytes) = (0, 0u64, Vec::new());
        while from < switch.numbered.len() {
            let to = (from + 1 + dice.below(40) as usize).min(switch.numbered.len());
            for (number, engine) in engines.iter_mut().enumerate() {
                let here = |p: &Numbered| at.get(&p.meta.unit).copied().unwrap_or(0) == number;
                let mine: Vec<usize> = (from..to).filter(|&i| here(&switch.numbered[i])).collect();
                for &i in &mine {
                    for (pool, lease) in leases(&switch.entries[i]) {
                        engine.runtime.leases_mut().script(pool, lease);
                    }
                }
                let sent: Vec<&Numbered> = mine.iter().map(|&i| &switch.numbered[i]).collect();
                let entries = engine.apply(&sent);
                for (&i, entry) in mine.iter().zip(&entries) {
                    assert_eq!(
                        *entry, switch.entries[i],
                        "{chain:?}: packet {:?} of unit {:#x}",
                        switch.numbered[i].meta.clock, switch.numbered[i].meta.unit
                    );
                }
                assert_eq!(engine.runtime.leases().scripted(), 0);
            }
            for _ in 0..dice.below(4) {
                let any = from + dice.below((to - from) as u64) as usize;
                let unit = switch.numbered[any].meta.unit;
                let place = at.entry(unit).or_default();
                bytes.clear();
                if engines[*place]
                    .runtime
                    .export_unit(unit, &mut bytes)
                    .is_ok()
                {
                    assert!(engines[*place].runtime.forget_unit(unit));
                    *place = 1 - *place;
                    engines[*place]
                        .runtime
                        .install_unit(unit, &bytes)
                        .unwrap_or_else(|e| panic!("{chain:?}: {e}"));
                    moved += 1;
                }
            }
            from = to;
        }
        assert!(moved > 300, "{chain:?}: {moved} moves");
        // Both engines have in the end what the one has.
        let flows = |engine: &Engine| engine.runtime.active_flows();
        assert_eq!(
            flows(&engines[0]) + flows(&engines[1]),
            flows(&switch.engine)
        );
        let mut units: BTreeSet<u64> = switch.numbered.iter().map(|p| p.meta.unit).collect();
        units.retain(|&unit| switch.engine.runtime.has_unit(unit));
        for unit in units {
            let (mut one, mut other) = (Vec::new(), Vec::new());
            let place = at.get(&unit).copied().unwrap_or(0);
            switch
                .engine
                .runtime
                .export_unit(unit, &mut one)
                .expect("it is there");
            engines[place]
                .runtime
                .export_unit(unit, &mut other)
                .expect("it is there");
            assert_eq!(one, other, "{chain:?}: unit {unit:#x}");
        }
        let name = chain
            .iter()
            .map(|(name, _)| *name)
            .collect::<Vec<_>>()
            .join("+");
        let sizes = switch.entries.iter().map(Vec::len).sum::<usize>();
        eprintln!(
            "{name}: {} packets, {ticks} ticks, {moved} moves, {sizes} frames of entries, {} names freed",
            packets.len(),
            switch.freed
        );
    }
}

#[test]
fn an_engine_under_a_switch_does_what_one_alone_does() {
    let Some(folder) = traces() else { return };
    let packets = packets(&folder);
    for chain in CHAINS {
        let stage = stage(chain, Timeouts::NONE);
        let mut switch = Switch::new(&stage);
        let mut alone = Engine::new(&stage, false);
        let memory = alone.pool.memory().clone();
        let mut left = 0;
        for (number, packet) in packets.iter().enumerate() {
            let before = switch.entries.len();
            switch.take(packet);
            let mut out: Vec<_> = switch.entries[before..]
                .iter()
                .flatten()
                .filter(|part| matches!(part.0, Disposition::Out | Disposition::Emitted))
                .map(|part| (part.1, part.2.clone()))
                .collect();
            let mut input = vec![
                alone
                    .pool
                    .copy(&packet.bytes, packet.meta)
                    .expect("a frame"),
            ];
            let mut output = Vec::new();
            alone
                .runtime
                .process(&mut alone.pool, &mut input, &mut output);
            let mut expected: Vec<_> = output
                .iter()
                .map(|frame| (memory.meta(frame).side, memory.bytes(frame).to_vec()))
                .collect();
            alone.pool.give_all(&mut output);
            // Alone, emitted packets come last.
            out.sort_unstable();
            expected.sort_unstable();
            assert_eq!(out, expected, "{chain:?}: packet {number}");
            left += out.len();
        }
        assert!(left > packets.len() / 4, "{chain:?}: {left} packets left");
    }
}
