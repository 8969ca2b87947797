//! Any story of packets through chains of all stock functions: every packet is
//! accounted for, no frame, port or buffer is lost, and what comes out of
//! well-formed packets is well-formed.

use std::sync::OnceLock;

use weir_graph::Input as ChainInput;
use weir_nf::NoSources;
use weir_nf::host::Stage;
use weir_packet::checksum::{Verdict, check_ipv4, check_transport};
use weir_packet::{
    Frame, FrameMeta, FramePool, LinkType, MemoryLayout, ParseOptions, Side, Time, parse,
};
use weir_runtime::{Report, Runtime, RuntimeConfig};

use crate::input::Input;
use crate::traffic::{self, Arrival, Step};

/// The chains, each a file of its own, so that their NATs may share the addresses that stories
/// send to. Their tables are small, so that a short story fills them.
const CHAINS: [&str; 5] = [
    r#"
chain: readers
match: [{vlan: 1}]
flows: {max: 8, buffers: 64KiB, held-fragments: 3}
nfs:
  - ip-check: {on-bad: count, transport: true}
  - size-histogram
  - filter: {drop: [{protocol: udp, to-port: 9}]}
  - firewall:
      default: accept
      rules: [drop tcp from any to any port 22 log, reject udp to any port 7, reject tcp to any port 8]
  - policer: {rate: 1Mbit}
  - monitor
  - asset-monitor
  - http-classifier
    # All goes on to the parsers.
  - http
  - url-counter
  - url-validator: {action: drop, patterns: [abc]}
  - ids:
      rules: |
        alert tcp any any -> any any (msg:"a"; flow:established,to_server; content:"GET"; content:"union"; nocase; distance:0; sid:1;)
        alert tcp any any -> any any (msg:"b"; content:"HTTP"; flowbits:set,x; flowbits:noalert; sid:2;)
        drop udp any any -> any any (msg:"c"; content:"abc"; dsize:<50; sid:3;)
        alert tcp any any -> any any (msg:"d"; flowbits:isset,x; content:!"zz"; sid:4;)
  - flow-nop
  - nop
"#,
    r#"
chain: edge
match: [{vlan: 2}]
flows: {max: 16, when-full: refuse, buffers: 64KiB, held-fragments: 3}
nfs:
  - firewall: {default: accept, rules: [reject tcp to any port 8]}
  - nat44: {pool: 203.0.113.1, inside: 10.0.0.0/8, ports: 1024-1087, block: 64}
  - load-balancer:
      services:
        - {vip: 192.0.2.80, port: 80, protocol: tcp, backends: [{address: 198.51.100.1}, {address: 198.51.100.2, port: 8080}]}
  - ttl: {icmp: true, address: 192.0.2.1}
  - monitor
"#,
    r#"
chain: open
match: [{vlan: 3}]
flows: {max: 16, buffers: 64KiB, held-fragments: 3}
nfs:
  - nat44: {pool: 203.0.113.1, inside: 10.0.0.0/8, filtering: endpoint-independent, hairpin: true}
  - http
  - ttl
"#,
    r#"
chain: clients
match: [{vlan: 4}]
flows: {max: 8, buffers: 64KiB, malformed: pass, inner: true, zone: false}
nfs:
  - udp-whitelist: {learn: [{port: 80}, {protocol: udp, port: 53}], lifetime: 60}
  - monitor
  - ip-check: {on-bad: count}
  - http
  - asset-monitor
  - url-validator
"#,
    r#"
chain: passing
match: [{vlan: 5}]
flows: {max: 4, when-full: refuse, malformed: pass, icmp: addresses, timeouts: none}
nfs:
  - mac-swap
  - nat44: {pool: 203.0.113.0/30, inside: 10.0.0.0/8, mapping: address-and-port-dependent}
  - firewall: {default: drop, rules: [accept tcp, accept udp state established, accept icmp]}
  - ttl
"#,
];

pub(crate) fn stages() -> &'static [Stage] {
    static STAGES: OnceLock<Vec<Stage>> = OnceLock::new();
    STAGES.get_or_init(|| CHAINS.iter().map(|text| stage(text)).collect())
}

fn stage(text: &'static str) -> Stage {
    let input = ChainInput {
        name: "chain",
        text,
        kinds: weir_functions::kinds(),
        overrides: &[],
        seed: 1,
    };
    let file = match weir_graph::load(&input, &mut NoSources) {
        Ok(file) => file,
        Err(list) => panic!("{}", weir_graph::render(&list)),
    };
    let [chain] = <[_; 1]>::try_from(file.chains).unwrap_or_else(|_| panic!("one chain a file"));
    chain.stage
}

/// The first byte chooses the chain, the rest is a story ([`traffic::steps`]).
pub fn run(data: &[u8]) {
    let mut input = Input(data);
    let stages = stages();
    let stage = &stages[usize::from(input.u8()) % stages.len()];
    let steps = traffic::steps(&mut input, 256);
    let mut bench = Bench::new(stage);
    for step in steps {
        bench.step(step);
    }
    bench.finish();
}

/// A runtime with little memory, fed by hand.
pub struct Bench {
    runtime: Runtime,
    pool: FramePool,
    input: Vec<Frame>,
    output: Vec<Frame>,
    now: Time,
    sequence: u64,
    /// Every packet so far was well-formed.
    sound: bool,
    arrived: Option<Arrival>,
    left: Option<(Side, LinkType, Vec<u8>)>,
    /// Events, a JSON line each.
    pub events: Vec<String>,
}

impl Bench {
    /// A bench for a stage.
    pub fn new(stage: &Stage) -> Bench {
        let config = RuntimeConfig {
            seed: 7,
            event_bytes: 1 << 18,
            ..RuntimeConfig::default()
        };
        let layout = MemoryLayout {
            small_frames: 192,
            large_frames: 3,
            large_bytes: 65_536 + 5 * 64,
            ..MemoryLayout::default()
        };
        Bench {
            runtime: Runtime::new(stage, config).expect("the chain was checked"),
            pool: FramePool::with_layout(layout),
            input: Vec::new(),
            output: Vec::new(),
            now: Time::from_secs(1_700_000_000),
            sequence: 0,
            sound: true,
            arrived: None,
            left: None,
            events: Vec::new(),
        }
    }

    /// One step of a story.
    pub fn step(&mut self, step: Step) {
        match step {
            Step::Packet(arrival) => {
                self.arrive(&arrival);
                self.arrived = Some(arrival);
            }
            Step::Again(side) => {
                if let Some(arrival) = self.arrived.take() {
                    self.arrive(&Arrival {
                        side,
                        ..arrival.clone()
                    });
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
        self.sequence += 1;
        let mut meta = FrameMeta::received(self.now, arrival.bytes.len() as u32);
        meta.side = arrival.side;
        meta.link = arrival.link;
        meta.sequence = self.sequence;
        // Without a frame the port drops it; the runtime never sees it.
        if let Ok(frame) = self.pool.copy(&arrival.bytes, meta) {
            self.sound &= arrival.sound;
            self.input.push(frame);
        }
        if self.input.len() >= 100 {
            self.flush();
        }
    }

    /// Runs what is queued.
    pub fn flush(&mut self) {
        self.runtime
            .process(&mut self.pool, &mut self.input, &mut self.output);
        let memory = self.pool.memory().clone();
        for frame in self.output.drain(..) {
            let (meta, bytes) = memory.read(&frame);
            if self.sound {
                well_formed(bytes, meta.link);
            }
            self.left = Some((meta.side, meta.link, bytes.to_vec()));
            self.pool.give(frame);
        }
        let log = self.runtime.events();
        let text = std::str::from_utf8(log.lines()).expect("events are text");
        for line in text.lines() {
            assert!(
                line.starts_with('{') && line.ends_with('}'),
                "an event is a JSON object: {line}"
            );
            self.events.push(line.to_owned());
        }
        log.clear();
        assert!(
            self.runtime.report().balances(),
            "{:?}",
            self.runtime.report()
        );
    }

    /// Ends all flows and checks that nothing is left over.
    pub fn finish(&mut self) -> Report {
        self.flush();
        self.runtime.finish(&mut self.pool);
        let log = self.runtime.events();
        self.events.extend(
            String::from_utf8_lossy(log.lines())
                .lines()
                .map(str::to_owned),
        );
        log.clear();
        let report = self.runtime.report();
        assert!(report.balances(), "packets are unaccounted for: {report:?}");
        assert_eq!(report.held, 0, "held at the end");
        assert_eq!(self.pool.outstanding(), 0, "frames leaked");
        let flows = &report.flows;
        assert_eq!(
            (flows.active, flows.units, flows.aliases),
            (0, 0, 0),
            "flows leaked"
        );
        assert_eq!(flows.ports_leased, 0, "ports leaked");
        assert_eq!(flows.buffer_bytes, 0, "buffers leaked");
        let ended: u64 = flows.ended.sum();
        assert_eq!(ended, flows.seen, "every flow that opened has ended");
        report
    }
}

fn well_formed(bytes: &[u8], link: LinkType) {
    let headers = parse(bytes, link, &ParseOptions::default())
        .unwrap_or_else(|fault| panic!("well-formed packets became {fault:?}: {bytes:02x?}"));
    assert_ne!(
        check_ipv4(bytes, &headers),
        Verdict::Bad,
        "IPv4 checksum: {bytes:02x?}"
    );
    assert_ne!(
        check_transport(bytes, &headers),
        Verdict::Bad,
        "checksum: {bytes:02x?}"
    );
}
