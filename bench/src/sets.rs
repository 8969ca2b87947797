//! Cost of sets of addresses: a look-up, a change, and a new flow whose rules name a set.
//!
//! Addresses that are looked for are spread over all of IPv4, as those of an attack are, and are not
//! in the set, or are all in it. Changes are of random entries of a set that is full but for one
//! part in eight. A new flow is that of a firewall with one rule that no packet meets: a prefix, or
//! a set of so many entries. Time is the thread's.

use std::net::{IpAddr, Ipv4Addr};

use serde_json::json;
use weir_graph::ChainFile;
use weir_nf::NoSources;
use weir_packet::{AddressSet, Prefix};

use crate::chain;
use crate::clock::timed;
use crate::line::{self, Line, Traffic};
use crate::log::Log;
use crate::stats::Spread;

/// Entries of the sets that are measured.
const ENTRIES: [u32; 3] = [1_000, 100_000, 1_000_000];
const ROUNDS: usize = 5;
/// Look-ups, and changes, of each round.
const LOOKS: u32 = 2_000_000;
const CHANGES: u32 = 100_000;
/// Flows that are opened.
const FLOWS: u32 = 500_000;

/// The address of a number: all are different, and none is the generator's.
fn address(number: u32) -> Ipv4Addr {
    // An odd factor: numbers stay apart.
    let spread = number.wrapping_mul(0x9e37_79b1);
    let [_, rest @ ..] = spread.to_be_bytes();
    let [a, b, c] = rest;
    Ipv4Addr::new(20 + (number >> 24) as u8, a, b, c)
}

fn host(number: u32) -> Result<Prefix, String> {
    Prefix::new(address(number).into(), 32).map_err(|error| error.to_string())
}

fn fill(set: &AddressSet, entries: u32) -> Result<(), String> {
    let mut change = set.change().ok_or("it is changed elsewhere")?;
    for number in 0..entries {
        let come = change.insert(&host(number)?);
        if come != Ok(true) {
            return Err(format!("entry {number}: {come:?}"));
        }
    }
    change.set_version(1);
    Ok(())
}

/// Nanoseconds for a look-up of addresses of these numbers.
fn looks(set: &AddressSet, first: u32, count: u32, found: bool) -> Result<f64, String> {
    let mut dice = 1u32;
    let (ns, hits) = timed(|| {
        let mut hits = 0u32;
        for _ in 0..LOOKS {
            dice = dice.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let number = first + ((u64::from(dice) * u64::from(count)) >> 32) as u32;
            hits += u32::from(set.contains(IpAddr::V4(address(number))));
        }
        hits
    });
    match hits == if found { LOOKS } else { 0 } {
        true => Ok(ns as f64 / f64::from(LOOKS)),
        false => Err(format!("{hits} of {LOOKS} were found")),
    }
}

/// Nanoseconds for one entry that goes, and one that comes in its place.
fn changes(set: &AddressSet, entries: u32) -> Result<f64, String> {
    let mut change = set.change().ok_or("it is changed elsewhere")?;
    let mut pairs = Vec::new();
    for number in 0..CHANGES {
        pairs.push((host(number % entries)?, host(0x0080_0000 + number)?));
    }
    let (ns, right) = timed(|| {
        pairs.iter().all(|(old, new)| {
            change.remove(old) && change.insert(new) == Ok(true) && {
                change.remove(new) && change.insert(old) == Ok(true)
            }
        })
    });
    match right {
        true => Ok(ns as f64 / f64::from(CHANGES) / 4.0),
        false => Err("an entry did not come or go".to_owned()),
    }
}

/// A firewall whose only rule no packet meets.
fn firewall(from: &str, most: u32) -> Result<ChainFile, String> {
    let text = format!(
        "sets: [{{name: blocked, most: {most}}}]\nchain: bench\nnfs:\n  - firewall:\n      rules:\n        \
         - drop from {from}\n"
    );
    chain::file(&text, &mut NoSources)
}

/// Nanoseconds for the first packet of a flow.
fn opened(file: &ChainFile) -> Result<f64, String> {
    let stage = file.chains.first().map(|chain| &chain.stage);
    let traffic = Traffic {
        flows: FLOWS,
        settings: "size=64,proto=udp".to_owned(),
    };
    let mut line = Line::new()?;
    let mut runtime = line::runtime(stage.ok_or("no chain")?)?;
    let (ns, done) = timed(|| traffic.open(&mut line, &mut runtime));
    done?;
    line::check(&runtime.report(), &traffic)?;
    Ok(ns as f64 / f64::from(FLOWS))
}

/// Nanoseconds per look-up, change and new flow.
pub(crate) fn table() -> Result<(), String> {
    let mut log = Log::create("sets.jsonl")?;
    println!("medians of {ROUNDS}\n");
    println!(
        "| entries | look-up, not in it, ns | in it, ns | change, ns | new flow, a prefix, ns | new flow, the set, ns | more, ns |\n|--:|--:|--:|--:|--:|--:|--:|"
    );
    for entries in ENTRIES {
        let set = AddressSet::new((entries + entries / 8) as usize, 1);
        fill(&set, entries)?;
        let (plain, named) = (
            firewall("203.0.113.0/24", 1)?,
            firewall("@blocked", entries)?,
        );
        let live = named.sets.first().ok_or("no set")?;
        fill(&live.set.set, entries)?;
        let mut samples: [Vec<f64>; 6] = Default::default();
        for _ in 0..ROUNDS {
            let (prefix, in_set) = (opened(&plain)?, opened(&named)?);
            let round = [
                looks(&set, 0x0080_0000, 0x0070_0000, false)?,
                looks(&set, 0, entries, true)?,
                changes(&set, entries)?,
                prefix,
                in_set,
                in_set - prefix,
            ];
            for (all, one) in samples.iter_mut().zip(round) {
                all.push(one);
            }
        }
        let medians = samples.each_ref().map(|all| Spread::of(all).median);
        let shown = medians.map(|median| format!("{median:.1}"));
        println!("| {entries} | {} |", shown.join(" | "));
        let [misses, hits, changes, prefix, in_set, _] = &samples;
        log.line(&json!({
            "entries": entries, "miss_ns": misses, "hit_ns": hits, "change_ns": changes,
            "new_flow_prefix_ns": prefix, "new_flow_set_ns": in_set,
        }))?;
    }
    log.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_different() {
        let set = AddressSet::new(10_000, 1);
        fill(&set, 10_000).unwrap();
        assert!(!set.contains(address(0x0080_0000).into()));
        assert!(!set.contains(Ipv4Addr::new(10, 0, 0, 1).into()));
        assert!(changes(&set, 10_000).is_ok());
    }
}
