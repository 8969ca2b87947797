//! Cost of switch, entry and gate on a clean path: `weir-bench switch`.

mod single;
mod threads;

use std::time::Instant;

use serde_json::json;

use crate::chain::{self, Texts};
use crate::clock::timed;
use crate::line::{self, Line, Traffic};
use crate::log::Log;
use crate::stats::Spread;

pub(crate) use single::Single;

/// Packets of a round.
const PACKETS: usize = 1 << 18;
const ROUNDS: usize = 7;
/// Net nanoseconds that switch, entry and gate may cost a packet.
const TARGET: f64 = 40.0;

/// A chain and its traffic.
struct Work {
    name: &'static str,
    chain: &'static [&'static str],
    traffic: Traffic,
}

fn works() -> Vec<Work> {
    let work = |name, chain, flows, settings: &str| Work {
        name,
        chain,
        traffic: Traffic {
            flows,
            settings: settings.to_owned(),
        },
    };
    vec![
        work("engine 1k", &["flow-nop"], 1_000, "size=64"),
        work("engine 100k", &["flow-nop"], 100_000, "size=64"),
        work(
            "firewall+http+balancer 100k",
            &["firewall", "http", "load-balancer"],
            100_000,
            "size=512,payload=http,proto=tcp,dst=198.18.0.80/32",
        ),
    ]
}

/// The whole table.
pub(crate) fn table() -> Result<(), String> {
    let mut log = Log::create("switch.jsonl")?;
    println!(
        "one thread, ns of its time per packet, medians of {ROUNDS} rounds, generator and sink in all"
    );
    println!(
        "{:28} {:>8} {:>8} {:>9} {:>15} {:>7}",
        "work", "runtimes", "engine", "with", "more (quartiles)", "target"
    );
    for work in works() {
        for runtimes in 1..=4 {
            let (plain, with, more) = on_one_thread(&work, runtimes)?;
            println!(
                "{:28} {runtimes:>8} {:>8.1} {:>9.1} {:>5.1} ({:.1}–{:.1}) {TARGET:>7}",
                work.name,
                plain.median,
                with.median,
                more.median,
                more.lower_quartile,
                more.upper_quartile,
            );
            log.line(&json!({
                "what": "switch, one thread", "work": work.name, "runtimes": runtimes,
                "engine_ns": plain.median, "with_ns": with.median, "more_ns": more.median,
                "more_quartiles_ns": [more.lower_quartile, more.upper_quartile], "target_ns": TARGET,
            }))?;
        }
    }
    println!();
    println!("threads, ns on the wall per packet, medians of {ROUNDS} rounds");
    println!(
        "{:28} {:>8} {:>8} {:>9} {:>6}",
        "work", "runtimes", "engine", "cluster", "ratio"
    );
    for work in works() {
        for runtimes in 1..=4 {
            let (plain, cluster) = on_threads(&work, runtimes)?;
            println!(
                "{:28} {runtimes:>8} {:>8.1} {:>9.1} {:>6.2}",
                work.name,
                plain.median,
                cluster.median,
                cluster.median / plain.median
            );
            log.line(&json!({
                "what": "switch, threads", "work": work.name, "runtimes": runtimes,
                "engine_ns": plain.median, "cluster_ns": cluster.median,
                "quartiles_ns": [cluster.lower_quartile, cluster.upper_quartile],
            }))?;
        }
    }
    log.finish()
}

fn on_one_thread(work: &Work, runtimes: u32) -> Result<(Spread, Spread, Spread), String> {
    let stage = chain::stage(work.chain, &mut Texts(&[]))?;
    let flows = work.traffic.flows as usize;
    let mut runtime = line::runtime(&stage)?;
    let mut plain_line = Line::new()?;
    work.traffic.open(&mut plain_line, &mut runtime)?;
    let mut single = Single::new(&stage, runtimes)?;
    single.pass(&mut work.traffic.opening()?, flows)?;
    let (mut to_plain, mut to_single) = (work.traffic.uniform()?, work.traffic.uniform()?);
    plain_line.pass(&mut to_plain, &mut runtime, PACKETS / 4)?;
    single.pass(&mut to_single, PACKETS / 4)?;
    let (mut plain, mut with, mut more) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let (before, done) = timed(|| plain_line.pass(&mut to_plain, &mut runtime, PACKETS));
        done?;
        let (after, done) = timed(|| single.pass(&mut to_single, PACKETS));
        done?;
        let per = |ns: u64| ns as f64 / PACKETS as f64;
        plain.push(per(before));
        with.push(per(after));
        more.push(per(after) - per(before));
    }
    single.check((flows + PACKETS / 4 + ROUNDS * PACKETS) as u64)?;
    line::check(&runtime.report(), &work.traffic)?;
    Ok((Spread::of(&plain), Spread::of(&with), Spread::of(&more)))
}

fn on_threads(work: &Work, runtimes: u32) -> Result<(Spread, Spread), String> {
    let stage = chain::stage(work.chain, &mut Texts(&[]))?;
    let flows = work.traffic.flows as usize;
    let mut runtime = line::runtime(&stage)?;
    let mut plain_line = Line::new()?;
    work.traffic.open(&mut plain_line, &mut runtime)?;
    let mut cluster = threads::cluster(&stage, runtimes)?;
    threads::pass(&mut cluster, &mut work.traffic.opening()?, flows)?;
    let (mut to_plain, mut to_cluster) = (work.traffic.uniform()?, work.traffic.uniform()?);
    let (mut plain, mut with) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let start = Instant::now();
        plain_line.pass(&mut to_plain, &mut runtime, PACKETS)?;
        plain.push(start.elapsed().as_nanos() as f64 / PACKETS as f64);
        let took = threads::pass(&mut cluster, &mut to_cluster, PACKETS)?;
        with.push(took as f64 / PACKETS as f64);
    }
    let (end, _) = cluster.finish().map_err(|error| error.to_string())?;
    if end.lost() > 0 || end.gate.reordered > 0 || end.leaked > 0 {
        return Err(format!("packets were lost or reordered: {end:?}"));
    }
    Ok((Spread::of(&plain), Spread::of(&with)))
}

/// Opens flows in a cluster, one packet each.
pub(crate) fn open(
    cluster: &mut weir::driver::Cluster,
    source: &mut weir_io::port::GeneratorInput,
    flows: usize,
) -> Result<(), String> {
    threads::pass(cluster, source, flows).map(drop)
}
