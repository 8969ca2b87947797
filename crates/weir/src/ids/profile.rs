//! `weir ids profile`: what each rule costs over a capture.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fs::File;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use weir_functions::ids::{Ids, OnUnsupported, Rule, Settings, Watch};
use weir_io::capture::CaptureReader;
use weir_nf::host::FlowOptions;
use weir_packet::{LinkType, MemoryLayout, Side, Time};
use weir_runtime::harness::Harness;

use crate::args::{Format, IdsProfile, ProfileOrder};
use crate::chains;
use crate::exit::{Exit, Failure, Outcome};
use crate::output::{self, thousands};
use crate::say::say;

use super::rules::{files, values, wrong};

/// Packets that go through together.
const BURST: usize = 64;

/// The cost of one rule.
#[derive(Clone, Debug, Default)]
struct RuleCost {
    gid: u32,
    sid: u32,
    tried: u64,
    matched: u64,
    took: Duration,
    longest: Duration,
}

/// The costs of rules, as attempts are told.
#[derive(Debug)]
struct Profile {
    start: Instant,
    costs: Mutex<BTreeMap<(u32, u32), RuleCost>>,
}

impl Profile {
    fn new() -> Profile {
        Profile {
            start: Instant::now(),
            costs: Mutex::default(),
        }
    }

    fn costs(&self) -> Vec<RuleCost> {
        let costs = self.costs.lock().unwrap_or_else(PoisonError::into_inner);
        costs.values().cloned().collect()
    }
}

impl Watch for Profile {
    fn now(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    fn tried(&self, rule: &Rule, took: u64, matched: bool) {
        let took = Duration::from_nanos(took);
        let mut costs = self.costs.lock().unwrap_or_else(PoisonError::into_inner);
        let cost = costs.entry((rule.gid, rule.sid)).or_default();
        (cost.gid, cost.sid) = (rule.gid, rule.sid);
        cost.tried += 1;
        cost.matched += u64::from(matched);
        cost.took += took;
        cost.longest = cost.longest.max(took);
    }
}

/// What was measured.
struct Measured {
    costs: Vec<RuleCost>,
    packets: u64,
    /// Packets that are longer than a frame.
    skipped: u64,
    seconds: f64,
    alerts: u64,
    /// Why the capture could not be read to its end.
    torn: Option<Failure>,
}

pub(super) fn profile(args: &IdsProfile) -> Outcome {
    let profile = Arc::new(Profile::new());
    let mut harness = harness(args, &profile)?;
    let mut measured = run(&args.input, &mut harness)?;
    measured.costs = profile.costs();
    measured.costs.sort_by_key(|cost| match args.by {
        ProfileOrder::Time => Reverse(cost.took.as_nanos()),
        ProfileOrder::Longest => Reverse(cost.longest.as_nanos()),
        ProfileOrder::Tried => Reverse(u128::from(cost.tried)),
        ProfileOrder::Matched => Reverse(u128::from(cost.matched)),
    });
    match args.output {
        Format::Text => output::line(&text(&measured, args.top))?,
        Format::Json => output::json(&value(&measured, args.top))?,
    }
    match measured.torn {
        Some(why) => Err(why),
        None => Ok(Exit::Done),
    }
}

/// The function alone, with the rules, as a chain with no other function has it.
fn harness(args: &IdsProfile, profile: &Arc<Profile>) -> Result<Harness, Failure> {
    let rules = &args.rules;
    let settings = Settings {
        rule_files: files(rules)?,
        disable_files: rules.disable.clone(),
        enable_files: rules.enable.clone(),
        drop_files: rules.drop.clone(),
        modify_files: rules.modify.clone(),
        threshold_files: rules.thresholds.clone(),
        classification_file: rules.classification.clone(),
        reputation_categories: rules.reputation_categories.clone(),
        reputation_files: rules.reputations.clone(),
        vars: values(rules)?,
        unsupported: OnUnsupported::Skip,
        midstream: args.midstream,
        watch: Some(profile.clone()),
        ..Settings::default()
    };
    let builder =
        chains::with_files(|files| Harness::builder().with_sources::<Ids>(settings, files));
    let builder = builder.map_err(|error| wrong(&error))?;
    for warning in builder.warnings() {
        say(format_args!("warning: {warning}"));
    }
    let flows = FlowOptions {
        inner: true,
        buffer_bytes: 64 << 20,
        ..FlowOptions::default()
    };
    Ok(builder.flows(flows).build())
}

/// Sends the capture through.
fn run(path: &Path, harness: &mut Harness) -> Result<Measured, Failure> {
    let failed = |why: &dyn std::fmt::Display| {
        Failure::outside(format!("can't read {}: {why}", path.display()))
    };
    let file = File::open(path).map_err(|why| failed(&why))?;
    let mut reader = CaptureReader::open(file).map_err(|why| failed(&why))?;
    let mut measured = Measured {
        costs: Vec::new(),
        packets: 0,
        skipped: 0,
        seconds: 0.0,
        alerts: 0,
        torn: None,
    };
    let longest = MemoryLayout::default().largest_packet();
    let mut queued = 0;
    let flush = |harness: &mut Harness, measured: &mut Measured| {
        let start = Instant::now();
        harness.flush();
        measured.seconds += start.elapsed().as_secs_f64();
        measured.alerts += harness.events().len() as u64;
    };
    loop {
        let record = match reader.next() {
            Ok(Some(record)) => record,
            Ok(None) => break,
            Err(why) => {
                measured.torn = Some(failed(&why));
                break;
            }
        };
        if record.data.len() > longest {
            measured.skipped += 1;
            continue;
        }
        harness.set_time(Time(record.time_ns));
        harness.queue_link(Side::Inside, LinkType::from_dlt(record.dlt), record.data);
        measured.packets += 1;
        queued += 1;
        if queued == BURST {
            queued = 0;
            flush(harness, &mut measured);
        }
    }
    flush(harness, &mut measured);
    // Rules are tried at the ends of flows as well.
    let start = Instant::now();
    harness.finish();
    measured.seconds += start.elapsed().as_secs_f64();
    measured.alerts += harness.events().len() as u64;
    Ok(measured)
}

fn text(measured: &Measured, top: usize) -> String {
    let tried: f64 = measured
        .costs
        .iter()
        .map(|cost| cost.took.as_secs_f64())
        .sum();
    let mut text = format!(
        "{} packets in {:.3} s with the clocks, {:.3} s of it in {} rules that were tried; {} alerts\n",
        thousands(measured.packets),
        measured.seconds,
        tried,
        thousands(measured.costs.len() as u64),
        thousands(measured.alerts),
    );
    if measured.skipped > 0 {
        text += &format!(
            "{} packets are longer than a frame: left out\n",
            measured.skipped
        );
    }
    text += &format!(
        "\n{:>14} {:>10} {:>10} {:>10} {:>7} {:>10} {:>10}\n",
        "RULE", "TRIED", "MATCHED", "TIME (us)", "SHARE", "MEAN (us)", "MOST (us)"
    );
    for cost in measured.costs.iter().take(top) {
        let micros = cost.took.as_secs_f64() * 1e6;
        text += &format!(
            "{:>14} {:>10} {:>10} {micros:>10.0} {:>6.1}% {:>10.2} {:>10.2}\n",
            format!("{}:{}", cost.gid, cost.sid),
            thousands(cost.tried),
            thousands(cost.matched),
            100.0 * cost.took.as_secs_f64() / tried.max(f64::MIN_POSITIVE),
            micros / cost.tried as f64,
            cost.longest.as_secs_f64() * 1e6,
        );
    }
    text
}

fn value(measured: &Measured, top: usize) -> Value {
    let row = |cost: &RuleCost| {
        json!({
            "gid": cost.gid,
            "sid": cost.sid,
            "tried": cost.tried,
            "matched": cost.matched,
            "ns": cost.took.as_nanos() as u64,
            "longest_ns": cost.longest.as_nanos() as u64,
        })
    };
    let rules: Vec<Value> = measured.costs.iter().take(top).map(row).collect();
    json!({
        "packets": measured.packets,
        "skipped": measured.skipped,
        "seconds": measured.seconds,
        "alerts": measured.alerts,
        "rules_tried": measured.costs.len(),
        "rules": rules,
    })
}
