//! Same meaning: random chains and templates, by random plans, over generated
//! packets and captures, make what the chains as written make. `WEIR_MEANING`
//! says more:
//!
//! - a number is a seed to run alone;
//! - `FROM..TO` are seeds to run, however long it takes;
//! - `nightly` is 3,000 seeds, and every capture.

mod support;

use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use support::dice::Dice;
use support::inputs::{captures, crafted, generated, of_capture, profile, with_sides};
use support::planned::{Made, Order, Packets, as_written, by_line, by_threads, is_line, same};
use support::scene::{STOCK, Scene, options};
use support::traces;
use weir_graph::Chain;
use weir_graph::compile::{Options, Step, compile};

/// Seeds of a run that is not told.
const SEEDS: u64 = 200;
/// Most time that they may take.
const MOST: Duration = Duration::from_secs(40);
/// Packets of a capture.
const PACKETS: usize = 1_500;

/// What was tried.
#[derive(Debug, Default)]
struct Tried {
    chains: usize,
    refused_chains: usize,
    /// Why, of some.
    refusals: Vec<String>,
    plans: usize,
    refused_plans: usize,
    merged: usize,
    hoisted: usize,
    cut: usize,
    parallel: usize,
    balanced: usize,
    threads: usize,
    captures: usize,
    packets: usize,
    kinds: BTreeSet<String>,
}

fn check(
    chain: &Chain,
    options: &Options,
    packets: &Packets,
    written: &Made,
    dice: &mut Dice,
    tried: &mut Tried,
) {
    let mut plan = match compile(&chain.stage.chain, &chain.graph, options) {
        Ok(plan) => plan,
        Err(faults) => {
            assert!(faults.iter().all(|fault| !fault.bug), "{faults:?}");
            tried.refused_plans += 1;
            return;
        }
    };
    // Cores say how a chain is cut. This machine may have others.
    for step in &mut plan.steps {
        match step {
            Step::Stage(stage) => stage.core = None,
            Step::Parallel(stages) => stages.iter_mut().for_each(|stage| stage.core = None),
        }
    }
    let order = Order::of(&plan);
    let merged = plan.graph.nodes.iter().filter(|n| n.same_as.is_some());
    tried.plans += 1;
    tried.merged += merged.count();
    tried.hoisted += usize::from(plan.graph.nodes.len() > chain.graph.nodes.len());
    tried.cut += usize::from(plan.steps.len() > 1);
    tried.parallel += usize::from(plan.steps.iter().any(|step| step.stages().len() > 1));
    let mut stages = plan.steps.iter().flat_map(Step::stages);
    tried.balanced += usize::from(stages.any(|stage| stage.instances > 1));
    let line = is_line(&plan);
    if line {
        let planned = by_line(chain, &plan, packets, dice.next());
        same(written, &planned, order, "stage after stage");
    }
    if !line || plan.steps.len() > 1 && dice.one_in(8) {
        let (planned, threads) = by_threads(chain, plan, packets);
        same(written, &planned, order, "with threads");
        tried.threads += usize::from(threads > 1);
    }
}

/// What a seed is tried with.
enum From<'a> {
    Any(&'a [PathBuf]),
    Capture(&'a PathBuf),
}

fn input(dice: &mut Dice, from: &From<'_>, tried: &mut Tried) -> (String, Packets) {
    let (name, mut packets) = match from {
        From::Capture(path) => (path.display().to_string(), of_capture(path, PACKETS)),
        From::Any(captures) => match dice.roll(5) {
            0 | 1 => ("crafted".to_owned(), crafted(dice, 900)),
            2 if !captures.is_empty() => {
                let path = dice.pick(captures);
                tried.captures += 1;
                (path.display().to_string(), of_capture(path, PACKETS))
            }
            _ => {
                let setting = profile(dice);
                let packets = generated(&setting);
                (setting, packets)
            }
        },
    };
    if dice.one_in(2) {
        with_sides(&mut packets);
    }
    (name, packets)
}

/// One seed: a chain, an input, and some plans of it.
fn one(seed: u64, from: &From<'_>, tried: &mut Tried) {
    let mut dice = Dice::new(seed);
    let scene = Scene::random(&mut dice);
    let chain = match scene.load() {
        Ok(chain) => chain,
        Err(faults) => {
            tried.refused_chains += 1;
            if tried.refusals.len() < 20 {
                let fault = faults.lines().next().unwrap_or("");
                tried.refusals.push(fault.to_owned());
            }
            return;
        }
    };
    tried.chains += 1;
    let templates = chain.instances.iter().map(|i| i.template.clone());
    let kinds = chain.graph.nodes.iter().map(|node| node.kind.clone());
    tried.kinds.extend(kinds.chain(templates));
    let (input, packets) = input(&mut dice, from, tried);
    tried.packets += packets.len();
    let mut chosen = None;
    let outcome = catch_unwind(AssertUnwindSafe(|| {
        let written = as_written(&chain, &packets);
        for _ in 0..4 {
            let options = options(&mut dice, &chain.graph);
            chosen = Some(options.clone());
            check(&chain, &options, &packets, &written, &mut dice, tried);
        }
    }));
    if let Err(panic) = outcome {
        eprintln!("\n{}", scene.chain);
        for template in &scene.templates {
            eprintln!("{template}");
        }
        eprintln!("{chosen:#?}\ninput: {input}");
        let mut plan = String::new();
        if let Some(Ok(found)) = chosen.map(|o| compile("random", &chain.graph, &o)) {
            for node in &found.graph.nodes {
                plan.push_str(&format!(
                    "{} = {:?} → {:?}\n",
                    node.name, node.same_as, node.next
                ));
            }
            plan.push_str(&format!("{:?}\n", found.steps));
        }
        eprintln!("{plan}seed {seed}: again with");
        let all = matches!(from, From::Capture(_)).then_some("nightly");
        let again = all.map_or(seed.to_string(), str::to_owned);
        eprintln!("  WEIR_MEANING={again} cargo test -p weir --test plan_meaning\n");
        std::panic::resume_unwind(panic);
    }
}

fn seeds() -> (std::ops::Range<u64>, bool) {
    let Ok(text) = std::env::var("WEIR_MEANING") else {
        return (0..SEEDS, true);
    };
    if text == "nightly" {
        return (0..3_000, false);
    }
    let number = |text: &str| text.parse::<u64>().expect("WEIR_MEANING: a number");
    match text.split_once("..") {
        Some((from, to)) => (number(from)..number(to), false),
        None => (number(&text)..number(&text) + 1, false),
    }
}

#[test]
fn every_plan_makes_what_the_chain_as_written_does() {
    let start = Instant::now();
    let mut all = Vec::new();
    if let Some(traces) = traces() {
        captures(&traces.join("traces"), &mut all);
    }
    let (range, bounded) = seeds();
    let many = range.end - range.start >= SEEDS;
    let mut tried = Tried::default();
    let mut over = None;
    for seed in range {
        if bounded && start.elapsed() > MOST {
            over = Some(seed);
            break;
        }
        one(seed, &From::Any(&all), &mut tried);
    }
    if std::env::var("WEIR_MEANING").is_ok_and(|text| text == "nightly") {
        for (number, path) in all.iter().enumerate() {
            // Until chains of two seeds could be loaded.
            let before = tried.chains;
            for seed in 1_000_000 * (number as u64 + 1).. {
                one(seed, &From::Capture(path), &mut tried);
                if tried.chains >= before + 2 {
                    break;
                }
            }
        }
    }
    eprintln!("{tried:?} in {:?}", start.elapsed());
    if let Some(seed) = over {
        eprintln!("stopped before seed {seed}: {MOST:?} are over");
    } else if many {
        let counts = [
            tried.merged,
            tried.hoisted,
            tried.cut,
            tried.parallel,
            tried.balanced,
            tried.threads,
        ];
        assert!(counts.iter().all(|count| *count > 5), "{tried:?}");
        assert!(tried.refused_chains < 2 * tried.chains, "{tried:?}");
        let missing: Vec<&str> = STOCK.iter().map(|s| s.name).collect();
        let missing: Vec<&str> = missing
            .into_iter()
            .filter(|name| !tried.kinds.contains(*name))
            .collect();
        assert_eq!(missing, [""; 0], "functions and templates in no chain");
    }
}

#[test]
fn each_function_can_be_in_a_chain() {
    let names: BTreeSet<&str> = STOCK.iter().map(|stock| stock.name).collect();
    let listed = support::run(["nf", "list", "--output", "json"]).json();
    let listed: BTreeSet<&str> = listed
        .as_array()
        .unwrap()
        .iter()
        .map(|nf| nf["name"].as_str().unwrap())
        .collect();
    assert_eq!(names, listed);
}
