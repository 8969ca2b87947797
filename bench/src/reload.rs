//! Cost of changed rules under traffic: each open flow is looked up once more, by its next packet.
//!
//! A firewall with so many rules and 1M open flows (`quick`: 50k). Packets pass, then one rule is
//! changed and as many packets as there are flows pass, each flow's once, in order: all of them are
//! looked up. Time is the thread's.

use serde_json::json;
use weir_graph::{ChainFile, changes};
use weir_nf::NoSources;
use weir_nf::host::NewFunction;
use weir_runtime::Runtime;

use crate::chain;
use crate::clock::timed;
use crate::line::{self, Line, Traffic};
use crate::log::Log;
use crate::stats::Spread;

/// Rules of the firewalls that are measured.
const RULES: [usize; 3] = [100, 1_000, 10_000];
/// Changes of each.
const ROUNDS: usize = 5;
/// Open flows, and with `quick`.
const FLOWS: u32 = 1_000_000;
const FEW_FLOWS: u32 = 50_000;

/// A firewall with so many rules, none of which a packet of the generator meets; `last` is the port
/// of the last one.
fn firewall(rules: usize, last: u16) -> Result<ChainFile, String> {
    let mut text = "chain: bench\nnfs:\n  - firewall:\n      rules:\n".to_owned();
    let mut dice = 1u32;
    for number in 0..rules {
        dice = dice.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let port = match number + 1 == rules {
            true => last,
            false => 20_000 + (dice >> 17) as u16,
        };
        let [_, a, b, c] = dice.to_be_bytes();
        let from = match number % 4 {
            0 => "any".to_owned(),
            1 => format!("10.{a}.0.0/16"),
            _ => format!("10.{a}.{b}.0/24"),
        };
        let to = match number % 3 {
            0 => "any".to_owned(),
            _ => format!("198.18.{c}.0/24"),
        };
        text.push_str(&format!(
            "        - drop tcp from {from} to {to} port {port}\n"
        ));
    }
    chain::file(&text, &mut NoSources)
}

/// The functions that differ.
fn between(before: &ChainFile, after: &ChainFile) -> Result<Vec<NewFunction>, String> {
    let changes = changes(before, after).map_err(|why| why.join("; "))?;
    Ok(changes.into_iter().map(|change| change.new).collect())
}

struct Bench {
    line: Line,
    runtime: Runtime,
    traffic: Traffic,
}

impl Bench {
    fn new(file: &ChainFile, flows: u32) -> Result<Bench, String> {
        let stage = file.chains.first().map(|chain| &chain.stage);
        let traffic = Traffic {
            flows,
            settings: "size=64,proto=tcp".to_owned(),
        };
        let mut line = Line::new()?;
        let mut runtime = line::runtime(stage.ok_or("no chain")?)?;
        traffic.open(&mut line, &mut runtime)?;
        Ok(Bench {
            line,
            runtime,
            traffic,
        })
    }

    /// Nanoseconds per packet, each flow's in turn.
    fn pass(&mut self) -> Result<f64, String> {
        let packets = self.traffic.flows as usize;
        let mut source = self.traffic.opening()?;
        let (ns, done) = timed(|| self.line.pass(&mut source, &mut self.runtime, packets));
        done?;
        Ok(ns as f64 / packets as f64)
    }

    /// How often rules were searched.
    fn lookups(&self) -> u64 {
        let report = self.runtime.report();
        let counters = report
            .functions
            .iter()
            .flat_map(|function| &function.counters);
        let mut counters = counters.filter(|(name, _)| *name == "lookups");
        counters.next().map_or(0, |(_, count)| *count)
    }
}

/// Milliseconds to build a file, nanoseconds for an engine to take it, and per packet before and
/// while all flows are looked up.
pub(crate) fn table(quick: bool) -> Result<(), String> {
    let flows = if quick { FEW_FLOWS } else { FLOWS };
    let mut log = Log::create("reload.jsonl")?;
    println!("{flows} open flows; medians of {ROUNDS}\n");
    println!(
        "| rules | build ms | taken µs | ns/packet | while looked up | looked up, ns more |\n|--:|--:|--:|--:|--:|--:|"
    );
    for rules in RULES {
        let (built, files) = timed(|| Ok::<_, String>([firewall(rules, 1)?, firewall(rules, 2)?]));
        let files = files?;
        let mut bench = Bench::new(&files[0], flows)?;
        let (mut steady, mut renewed, mut taken) = (Vec::new(), Vec::new(), Vec::new());
        for round in 0..ROUNDS {
            let (now, next) = (&files[round % 2], &files[(round + 1) % 2]);
            steady.push(bench.pass()?);
            let new = between(now, next)?;
            let searched = bench.lookups();
            let (ns, replaced) = timed(|| bench.runtime.replace(&new));
            if replaced != 1 {
                return Err("the firewall was not replaced".to_owned());
            }
            taken.push(ns as f64 / 1e3);
            renewed.push(bench.pass()?);
            if bench.lookups() != searched + u64::from(flows) {
                return Err("not all flows were looked up once".to_owned());
            }
        }
        line::check(&bench.runtime.report(), &bench.traffic)?;
        let build = built as f64 / 2e6;
        let more: Vec<f64> = renewed.iter().zip(&steady).map(|(a, b)| a - b).collect();
        let medians = [&taken, &steady, &renewed, &more].map(|samples| Spread::of(samples).median);
        println!(
            "| {rules} | {build:.1} | {:.1} | {:.1} | {:.1} | {:.1} |",
            medians[0], medians[1], medians[2], medians[3]
        );
        log.line(&json!({
            "rules": rules, "flows": flows, "build_ms": build, "taken_us": taken,
            "steady_ns": steady, "renewed_ns": renewed,
        }))?;
    }
    log.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_rule_is_another_one() {
        let new = between(&firewall(100, 1).unwrap(), &firewall(100, 2).unwrap()).unwrap();
        assert_eq!(new.len(), 1);
    }
}
