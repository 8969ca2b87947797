//! Cost of the router around a chain: in by one port, out by the other, nothing between.
//!
//! Before the chain it looks at headers, route and MTU and counts the time to live down; behind it,
//! it looks for the route again, for the neighbour, and writes its hardware address. *gate*: all
//! goes to one next router. *link*: to hosts on the link, as many as flows, each looked for by its
//! address. All neighbours are known and trusted.

use std::net::{IpAddr, Ipv4Addr};

use serde_json::json;
use weir_io::port::{GeneratorInput, InputPort as _};
use weir_packet::{Frame, FramePool, MacAddr, Side, Time};
use weir_router::{Config, Limits, NeighbourConfig, PortConfig, RouteConfig, Router};

use crate::clock::timed;
use crate::line::{self, Line, Traffic};
use crate::log::Log;
use crate::rows::ROUNDS;
use crate::stats::Spread;

/// Packets of one round.
const PACKETS: usize = 1 << 20;
/// Where the generator's packets go.
const SERVERS: &str = "198.18.0.0";
/// Flows, each to a host of its own.
const FLOWS: u32 = 1_000;

/// The router's neighbours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    Gate,
    Link,
}

impl Form {
    /// All, with their names.
    pub(crate) const ALL: [(&str, Form); 2] =
        [("router-gate", Form::Gate), ("router-link", Form::Link)];

    /// That of a name.
    pub(crate) fn of(name: &str) -> Option<Form> {
        let found = Form::ALL.into_iter().find(|(of, _)| *of == name);
        found.map(|(_, form)| form)
    }

    fn router(self, mac: MacAddr) -> Result<Router, String> {
        let address = |text: &str| text.parse::<IpAddr>().map_err(|error| error.to_string());
        let servers = address(SERVERS)?;
        let gate = address("192.0.2.254")?;
        let port = |side, mac, addresses| PortConfig {
            side,
            mac,
            mtu: 1_500,
            addresses,
            wire: true,
        };
        let outside = match self {
            Form::Gate => (address("192.0.2.1")?, 24),
            Form::Link => (address("198.18.255.254")?, 16),
        };
        let written = |address: IpAddr| NeighbourConfig {
            port: 1,
            address,
            mac: MacAddr([2, 0, 0, 0, 9, 9]),
        };
        let (mut routes, mut neighbours) = (Vec::new(), Vec::new());
        match (self, servers) {
            (Form::Link, IpAddr::V4(first)) => {
                let hosts = u32::from(first)..=u32::from(first) + 0xfffd;
                neighbours.extend(hosts.map(|host| written(Ipv4Addr::from(host).into())));
            }
            _ => {
                routes.push(RouteConfig {
                    to: "0.0.0.0/0".parse().map_err(|_| "a prefix of ours")?,
                    via: Some(gate),
                    port: 1,
                });
                neighbours.push(written(gate));
            }
        }
        let config = Config {
            ports: vec![
                port(Side::Inside, mac, vec![(address("10.0.255.254")?, 16)]),
                port(Side::Outside, MacAddr([2, 0, 0, 0, 0, 2]), vec![outside]),
            ],
            routes,
            limits: Limits {
                neighbours: neighbours.len() as u32 + 4_096,
                ..Limits::default()
            },
            neighbours,
            owned: Vec::new(),
            seed: 1,
        };
        Router::new(&config).map_err(|error| error.to_string())
    }
}

/// Packets and the router that they go to.
struct Bench {
    line: Line,
    router: Router,
    source: GeneratorInput,
}

impl Bench {
    fn new(form: Form) -> Result<Bench, String> {
        let traffic = Traffic {
            flows: FLOWS,
            settings: "size=64".to_owned(),
        };
        let mut first = Vec::new();
        let mut pool = line::pool()?;
        let received = traffic.uniform()?.receive(&mut pool, &mut first, 1);
        received.map_err(|error| error.to_string())?;
        let to = first.first().map(|frame| pool.memory().bytes(frame));
        let to = to.and_then(|bytes| bytes.first_chunk::<6>().copied());
        let mac = MacAddr(to.ok_or("the generator made no packet")?);
        pool.give_all(&mut first);
        Ok(Bench {
            line: Line::new()?,
            router: form.router(mac)?,
            source: traffic.uniform()?,
        })
    }

    #[inline(never)]
    fn pass(&mut self, packets: usize) -> Result<(), String> {
        let router = &mut self.router;
        let now = Time::from_secs(1_000);
        let step = |pool: &mut FramePool, input: &mut Vec<Frame>, output: &mut Vec<Frame>| {
            router.receive(now, 0, pool, input);
            router.send(now, pool, input);
            if let Some(out) = router.output(1) {
                output.append(out);
            }
        };
        self.line.through(&mut self.source, packets, step)
    }

    fn check(&self) -> Result<(), String> {
        let counts = self.router.counts();
        match counts.received == counts.sent && counts.balance() {
            true => Ok(()),
            false => Err(format!("packets were not forwarded: {counts:?}")),
        }
    }
}

/// Sends packets through a form untimed, for callgrind.
pub(crate) fn count(form: Form, packets: usize) -> Result<(), String> {
    let mut bench = Bench::new(form)?;
    bench.pass(packets)?;
    bench.check()
}

/// The same for the generator and the sink alone.
pub(crate) fn count_sink(packets: usize) -> Result<(), String> {
    let mut bench = Bench::new(Form::Gate)?;
    bench.line.sink(&mut bench.source, packets)
}

/// Nanoseconds per packet of both forms, as [`crate::rows`] measures chains.
pub(crate) fn table() -> Result<(), String> {
    let mut log = Log::create("router.jsonl")?;
    println!("| work | total | gen | net ns/packet | quartiles |\n|---|--:|--:|--:|--:|");
    for (name, form) in Form::ALL {
        let mut bench = Bench::new(form)?;
        bench.pass(PACKETS / 8)?;
        let (mut totals, mut sinks, mut nets) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..ROUNDS {
            let (sink, done) = timed(|| bench.line.sink(&mut bench.source, PACKETS));
            done?;
            let (total, done) = timed(|| bench.pass(PACKETS));
            done?;
            let (sink, total) = (sink as f64 / PACKETS as f64, total as f64 / PACKETS as f64);
            sinks.push(sink);
            totals.push(total);
            nets.push(total - sink);
        }
        bench.check()?;
        let [total, sink, net] = [&totals, &sinks, &nets].map(|samples| Spread::of(samples));
        println!(
            "| {name} | {:.1} | {:.1} | {:.1} | {:.1}–{:.1} |",
            total.median, sink.median, net.median, net.lower_quartile, net.upper_quartile
        );
        log.line(&json!({"row": name, "total": totals, "sink": sinks, "net": nets}))?;
    }
    log.finish()
}
