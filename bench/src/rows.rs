//! The rows of the table.

use crate::chain::{self, Texts};
use crate::clock::timed;
use crate::line::{self, Line, Traffic};

/// Times that each row is measured.
pub(crate) const ROUNDS: usize = 11;
/// Packets of one round.
const PACKETS: usize = 1 << 20;

/// One row: a chain and its traffic.
pub(crate) struct Row {
    pub(crate) name: String,
    pub(crate) chain: Vec<&'static str>,
    pub(crate) traffic: Traffic,
    /// Stages that a figure is divided by.
    pub(crate) per: f64,
    /// Most net nanoseconds a packet (and stage) may cost.
    pub(crate) target: Option<f64>,
    /// Net nanoseconds of the best other system, and which.
    pub(crate) peer: &'static str,
}

/// Nanoseconds per packet, round by round.
pub(crate) struct Measured {
    /// Generator, chain and sink.
    pub(crate) total: Vec<f64>,
    /// Generator and sink.
    pub(crate) sink: Vec<f64>,
    /// The difference, per stage.
    pub(crate) net: Vec<f64>,
}

const SMALL: &str = "size=64";
const WEB: &str = "size=512,payload=http";

/// All rows, in order.
pub(crate) fn rows() -> Vec<Row> {
    let mut rows = Vec::new();
    let mut add = |name: &str, chain: &[&'static str], flows: u32, target: f64, peer| {
        let web = chain.contains(&"http-classifier");
        rows.push(Row {
            name: format!("{name} {}", short(flows)),
            chain: chain.to_vec(),
            traffic: Traffic {
                flows,
                settings: if web { WEB } else { SMALL }.to_owned(),
            },
            per: 1.0,
            target: (target > 0.0).then_some(target),
            peer,
        });
    };
    const K: u32 = 1_000;
    const M: u32 = 1_000_000;
    add("mac-swap", &["mac-swap"], K, 2.1, "2.1 FastClick, BESS");
    add(
        "ip-check+ttl",
        &["ip-check", "ttl"],
        K,
        4.2,
        "5.1 FastClick",
    );
    add("nop-x8", &["nop"; 8], K, 8.0, "0.9 FastClick");
    for (flows, target) in [(K, 12.0), (100 * K, 22.0), (M, 32.0)] {
        add("engine", &["flow-nop"], flows, target, "");
    }
    add("firewall-100", &["firewall"], K, 14.0, "35 BESS");
    add("monitor", &["monitor"], M, 44.0, "131 FastClick");
    for (flows, target, peer) in [
        (K, 17.0, "17 BESS"),
        (100 * K, 26.0, "41 BESS"),
        (M, 44.0, "120 BESS"),
    ] {
        add("nat44", &["nat44"], flows, target, peer);
    }
    for flows in [K, 100 * K, M] {
        add("nat44-apdm", &["nat44-apdm"], flows, 0.0, "");
    }
    add(
        "firewall-100+nat44",
        &["firewall", "nat44"],
        M,
        60.0,
        "149 BESS",
    );
    for (flows, target, peer) in [
        (K, 37.0, "56 FastClick"),
        (100 * K, 58.0, "116 FastClick"),
        (M, 92.0, "370 FastClick"),
    ] {
        let web = ["firewall", "monitor", "http-classifier"];
        add("web-512", &web, flows, target, peer);
    }
    for row in &mut rows {
        if row.chain == ["ip-check", "ttl"] {
            row.per = 2.0;
        }
    }
    rows
}

fn short(flows: u32) -> String {
    match flows {
        1_000_000.. => format!("{}M", flows / 1_000_000),
        _ => format!("{}k", flows / 1_000),
    }
}

impl Row {
    /// Measures it: in each round first the generator and the sink, then with the chain between
    /// them, so that what disturbs the machine disturbs both.
    pub(crate) fn measure(&self) -> Result<Measured, String> {
        let stage = chain::stage(&self.chain, &mut Texts(&[]))?;
        let mut runtime = line::runtime(&stage)?;
        let mut line = Line::new()?;
        self.traffic.open(&mut line, &mut runtime)?;
        let (mut to_sink, mut to_chain) = (self.traffic.uniform()?, self.traffic.uniform()?);
        line.sink(&mut to_sink, PACKETS / 8)?;
        line.pass(&mut to_chain, &mut runtime, PACKETS / 8)?;
        let mut measured = Measured {
            total: Vec::new(),
            sink: Vec::new(),
            net: Vec::new(),
        };
        for _ in 0..ROUNDS {
            let (sink, done) = timed(|| line.sink(&mut to_sink, PACKETS));
            done?;
            let (total, done) = timed(|| line.pass(&mut to_chain, &mut runtime, PACKETS));
            done?;
            let (sink, total) = (sink as f64 / PACKETS as f64, total as f64 / PACKETS as f64);
            measured.sink.push(sink);
            measured.total.push(total);
            measured.net.push((total - sink) / self.per);
        }
        line::check(&runtime.report(), &self.traffic)?;
        Ok(measured)
    }
}
