//! Savings of the compiler: edge firewall → monitoring → application firewall
//! over HTTP, as it is compiled, as it is written, and with a stage per NF
//! joined by rings, each of which parses and looks flows up for itself (µNF's
//! configuration i).

use serde_json::json;
use weir_graph::compile::{Graph, Options, compile};
use weir_graph::{Chain, Input, load, render};
use weir_io::port::{GeneratorInput, InputPort, Null, OutputPort};
use weir_io::stage::{PointInput, PointOutput, StageInput, StageOutput, point};
use weir_nf::host::{Stage, Target};
use weir_packet::{Frame, FramePool};
use weir_runtime::{FunctionReport, Runtime};

use crate::chain::{self, Texts};
use crate::clock::timed;
use crate::line::{self, BATCH, Traffic};
use crate::log::Log;
use crate::stats::Spread;

const FLOWS: u32 = 1_000;
const PACKETS: usize = 1 << 18;
const ROUNDS: usize = 11;

/// How the chain is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    /// All passes.
    Plan,
    /// No pass: each processor is called where it is written.
    Written,
    /// A runtime per NF.
    PerNf,
}

impl Form {
    const ALL: [Form; 3] = [Form::Plan, Form::Written, Form::PerNf];

    const fn name(self) -> &'static str {
        match self {
            Form::Plan => "plan",
            Form::Written => "written",
            Form::PerNf => "per-nf",
        }
    }
}

/// The chain file; the firewall's rules are those of the other benchmarks.
fn chain() -> Result<Chain, String> {
    let rules: String = chain::rules()
        .map(|rule| format!("        - {rule}\n"))
        .collect();
    let text = format!(
        "chain: office\nnfs:\n  - edge-firewall:\n      default: drop\n      rules:\n{rules}\
         \x20 - monitoring: {{urls: true}}\n  - application-firewall\n"
    );
    let input = Input {
        name: "office.yaml",
        text: &text,
        kinds: weir_functions::kinds(),
        overrides: &[],
        seed: 1,
    };
    let file = load(&input, &mut Texts(&[])).map_err(|errors| render(&errors))?;
    file.chains
        .into_iter()
        .next()
        .ok_or_else(|| "there is no chain".to_owned())
}

/// The stages of a form: one, or one per NF.
fn stages(chain: &Chain, form: Form) -> Result<Vec<Stage>, String> {
    let options = match form {
        Form::Plan => Options::default(),
        Form::Written => Options::as_written(),
        Form::PerNf => return per_nf(&chain.stage, &chain.graph),
    };
    let plan = compile(&chain.stage.chain, &chain.graph, &options)
        .map_err(|faults| faults.iter().map(ToString::to_string).collect::<String>())?;
    let steps = plan.stages(&chain.stage)?;
    Ok(steps.into_iter().flatten().collect())
}

/// The chain cut behind each NF. Links lead to the next NF, or none can be
/// told from the ring's other end.
fn per_nf(written: &Stage, graph: &Graph) -> Result<Vec<Stage>, String> {
    let mut stages: Vec<Stage> = Vec::new();
    let mut start = 0;
    while let Some(first) = graph.nodes.get(start) {
        let end = graph.nodes[start..]
            .iter()
            .position(|node| node.instance != first.instance)
            .map_or(graph.nodes.len(), |more| start + more);
        let mut stage = written.clone();
        stage.nodes = written.nodes[start..end].to_vec();
        for node in &mut stage.nodes {
            for target in &mut node.next {
                *target = match *target {
                    Target::Node(to) if to < end => Target::Node(to - start),
                    Target::Node(to) if to == end => Target::Out,
                    Target::Node(_) => return Err("a link leads past the next NF".to_owned()),
                    other => other,
                };
            }
        }
        stages.push(stage);
        start = end;
    }
    Ok(stages)
}

/// Runtimes in a row, with a ring between each two, on one thread.
struct Row {
    pool: FramePool,
    sink: Null,
    runtimes: Vec<Runtime>,
    rings: Vec<(PointOutput, PointInput)>,
    input: Vec<Frame>,
    output: Vec<Frame>,
}

impl Row {
    fn new(stages: &[Stage]) -> Result<Row, String> {
        Ok(Row {
            pool: line::pool()?,
            sink: Null::default(),
            runtimes: stages.iter().map(line::runtime).collect::<Result<_, _>>()?,
            rings: (1..stages.len()).map(|_| point(8 * BATCH)).collect(),
            input: Vec::with_capacity(2 * BATCH),
            output: Vec::with_capacity(16 * BATCH),
        })
    }

    #[inline(never)]
    fn pass(&mut self, source: &mut impl InputPort, packets: usize) -> Result<(), String> {
        let mut left = packets;
        while left > 0 {
            let batch = left.min(BATCH);
            source
                .receive(&mut self.pool, &mut self.input, batch)
                .map_err(|error| error.to_string())?;
            for number in 0..self.runtimes.len() {
                self.runtimes[number].process(&mut self.pool, &mut self.input, &mut self.output);
                if let Some((output, input)) = self.rings.get_mut(number) {
                    output.give(&mut self.output);
                    input.take(&mut self.input, 8 * BATCH);
                }
            }
            self.sink
                .send(&mut self.pool, &mut self.output)
                .map_err(|error| error.to_string())?;
            left -= batch;
        }
        Ok(())
    }

    fn functions(&self) -> Vec<FunctionReport> {
        self.runtimes
            .iter()
            .flat_map(|runtime| runtime.report().functions)
            .collect()
    }

    /// Errors that make a figure worthless.
    fn check(&self, packets: u64) -> Result<(), String> {
        for runtime in &self.runtimes {
            let report = runtime.report();
            if report.packets_in != packets || report.packets_out != packets {
                return Err(format!(
                    "of {packets} packets not all came through: {report:?}"
                ));
            }
        }
        Ok(())
    }
}

fn traffic() -> Traffic {
    Traffic {
        flows: FLOWS,
        settings: "size=512,payload=http,proto=tcp".to_owned(),
    }
}

/// Sends packets through one form untimed, for callgrind.
pub(super) fn count(form: &str, packets: usize) -> Result<(), String> {
    let chain = chain()?;
    let traffic = traffic();
    let stages = match Form::ALL.iter().find(|known| known.name() == form) {
        Some(form) => stages(&chain, *form)?,
        None if form == "sink" => Vec::new(),
        None => {
            return Err(format!(
                "there is no form `{form}`: sink, plan, written, per-nf"
            ));
        }
    };
    if stages.is_empty() {
        return line::Line::new()?.sink(&mut traffic.uniform()?, packets);
    }
    let mut row = Row::new(&stages)?;
    row.pass(&mut traffic.opening()?, FLOWS as usize)?;
    row.pass(&mut traffic.uniform()?, packets)?;
    row.check(packets as u64 + u64::from(FLOWS))
}

/// A form, its stages, and what runs them; its packets, and the times of its rounds.
type Measured = (Form, Vec<Stage>, Row, GeneratorInput, Vec<f64>);

/// Time and calls of each form, and of each kind of processor in it.
pub(super) fn table() -> Result<(), String> {
    let mut log = Log::create("less-work.jsonl")?;
    let chain = chain()?;
    let traffic = traffic();
    let mut rows = Vec::new();
    for form in Form::ALL {
        let stages = stages(&chain, form)?;
        let mut row = Row::new(&stages)?;
        row.pass(&mut traffic.opening()?, FLOWS as usize)?;
        rows.push((form, stages, row, traffic.uniform()?, Vec::new()));
    }
    let mut line = line::Line::new()?;
    let mut to_sink = traffic.uniform()?;
    let mut sink = Vec::new();
    for _ in 0..ROUNDS {
        let (spent, done) = timed(|| line.sink(&mut to_sink, PACKETS));
        done?;
        sink.push(spent as f64 / PACKETS as f64);
        for (_, _, row, source, samples) in &mut rows {
            let (spent, done) = timed(|| row.pass(source, PACKETS));
            done?;
            samples.push(spent as f64 / PACKETS as f64);
        }
    }
    let sink = Spread::of(&sink).median;
    println!("edge firewall (100 rules) → monitoring → application firewall, 512-byte HTTP");
    println!(
        "ns of one thread per packet, medians of {ROUNDS} rounds; generator and sink {sink:.1}"
    );
    for (form, stages, row, _, samples) in &rows {
        row.check((FLOWS as usize + ROUNDS * PACKETS) as u64)?;
        let spread = Spread::of(samples);
        let called: usize = stages
            .iter()
            .map(|stage| stage.nodes.iter().filter(|n| n.same_as.is_none()).count())
            .sum();
        println!(
            "  {:8} {:2} calls in {} {}  {:7.1} net {:7.1} ({:.1}–{:.1})",
            form.name(),
            called,
            stages.len(),
            if stages.len() == 1 {
                "stage "
            } else {
                "stages"
            },
            spread.median,
            spread.median - sink,
            spread.lower_quartile - sink,
            spread.upper_quartile - sink,
        );
        log.line(&json!({
            "form": form.name(), "calls": called, "stages": stages.len(),
            "total_ns": samples, "generator_sink_ns": sink,
        }))?;
    }
    by_kind(&chain, &rows, &mut log)?;
    log.finish()
}

/// Calls and cycles of each kind of processor, by form.
fn by_kind(chain: &Chain, rows: &[Measured], log: &mut Log) -> Result<(), String> {
    println!();
    println!("by kind of processor: calls (cycles per packet, all of a kind together)");
    print!("  {:18}", "");
    for form in Form::ALL {
        print!(" {:>14}", form.name());
    }
    println!();
    let mut kinds: Vec<&'static str> = chain
        .stage
        .nodes
        .iter()
        .map(|node| node.processor.descriptor().name)
        .collect();
    kinds.sort_unstable();
    kinds.dedup();
    for kind in kinds {
        print!("  {kind:18}");
        for (form, stages, row, _, _) in rows {
            let nodes = stages.iter().flat_map(|stage| &stage.nodes);
            let of_kind = |name: &str| name == kind;
            let calls = nodes
                .filter(|node| node.same_as.is_none() && of_kind(node.processor.descriptor().name))
                .count();
            let packets = (FLOWS as usize + ROUNDS * PACKETS) as f64;
            let cycles: f64 = row
                .functions()
                .iter()
                .filter(|function| of_kind(function.nf))
                .map(|function| function.cycles as f64)
                .sum::<f64>()
                / packets;
            print!(" {:>14}", format!("{calls} ({cycles:.0})"));
            log.line(&json!({
                "form": form.name(), "processor": kind, "calls": calls, "cycles": cycles,
            }))?;
        }
        println!();
    }
    Ok(())
}
