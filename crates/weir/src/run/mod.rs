//! `weir run`: packets from ports through chains to ports.

mod alone;
pub(crate) mod apart;
mod audit;
mod cluster;
mod cluster_summary;
mod frames;
mod guard;
mod input;
mod line;
mod live;
mod network;
mod onlook;
mod pipeline;
pub(crate) mod placement;
mod plan;
mod played;
mod player;
mod ports;
mod summary;
mod table;
mod wires;
mod workers;

use std::path::Path;

use weir_nf::host::{Kind, Stage};
use weir_runtime::{RunAtStart, RuntimeConfig};

use crate::args::{Format, Run};
use crate::control::Control;
use crate::driver::inbox::{Inbox, Post};
use crate::exit::{Failure, Outcome};
use crate::observe::Unseen;
use crate::say::say;
use crate::{chains, control, output, seed};

use input::Input;
use line::Line;
use onlook::Watched;
pub(crate) use onlook::{Onlooker, input_names, places};
pub(crate) use ports::{Also, Ports, once};
use summary::Summary;

/// Bytes of events that a chain keeps until they are written, once per batch.
const EVENT_BYTES: usize = 4 << 20;

pub(crate) fn run(args: &Run, kinds: &[Kind]) -> Outcome {
    run_with(args, kinds, None, Watched(None))
}

/// Runs packets of captures through a chain while somebody looks on, who has
/// armed watches `at_start`.
pub(crate) fn run_watched(
    args: &Run,
    kinds: &[Kind],
    at_start: RunAtStart,
    onlooker: &mut dyn Onlooker,
) -> Outcome {
    run_with(args, kinds, Some(at_start), Watched(Some(onlooker)))
}

fn run_with(
    args: &Run,
    kinds: &[Kind],
    at_start: Option<RunAtStart>,
    mut watched: Watched<'_>,
) -> Outcome {
    hold_hangups()?;
    weir_exec::check_cores(&args.cores).map_err(Failure::usage)?;
    let seed = args.seed.unwrap_or_else(seed::random);
    let file = chains::load(&args.chain, &args.templates, &args.set, seed, kinds)?;
    let written = &placement::applied(args, &file)?;
    let args = &written.with(&file.threads);
    chains::check_cores(&args.cores, &args.chain)?;
    let also = Also {
        chain: &args.chain,
        script: args.script.as_deref(),
        events: args.events.as_deref(),
    };
    let ports = Ports::parse(&args.input, &args.out, &file, also)?;
    live::check(args, &ports)?;
    network::check(args, &file, &ports)?;
    if guard::wanted(args, &file, &ports) {
        return guard::run(args, &ports);
    }
    let config = RuntimeConfig {
        at_start,
        ..config_of(args, seed)
    };
    // To the compiler cores of the command line are not those of the file,
    // before which come a chain's own.
    let plans = plan::plans(written, &file)?;
    let only = plans.iter().map(plan::only_stage);
    let Some(stages) = only
        .map(Option::<&Stage>::cloned)
        .collect::<Option<Vec<_>>>()
    else {
        frames::check_one_stage(args)?;
        if ports.are_live() {
            return live::pipeline(args, &file, plans, &ports, config);
        }
        return pipeline::run(args, &file, plans, &ports, config, &mut watched);
    };
    if ports.are_live() {
        return live::run(args, &file, &stages, &plans, &ports, config);
    }
    if let Some(runtimes) = args.runtimes {
        return cluster::run(
            args,
            runtimes,
            &file,
            &stages,
            &ports,
            config,
            None,
            &mut watched,
        );
    }
    if let Some(workers) = args.workers {
        return workers::run(args, workers, &file, &stages, &ports, config, &mut watched);
    }
    if let Some(core) = alone::core(args, &plans)? {
        weir_exec::pin(core).map_err(Failure::outside)?;
    }
    let executor = alone::executor(args, &stages, config, ports.memory())?;
    // What is written is created last: an input that can't be read empties
    // nothing.
    let input = Input::open(&ports)?;
    let mut line = Line::open(executor, input, args, &file, &ports)?;
    line.be_asked(args, &file, &ports, "files", Vec::new())?;
    let (mut of_run, ended) = line.drive(args, &mut watched)?;
    alone::sum_up(
        line.executor,
        args,
        &file,
        &plans,
        &ports.inputs,
        &mut of_run,
    );
    line::conclude(args, &ports, of_run, ended, seed, &mut watched)
}

/// SIGHUP ends no process of a run, the engines and stages included that this
/// one starts: it opens the event file again ([`driver::EventFile`]).
fn hold_hangups() -> Result<(), Failure> {
    let held = weir_io::live::Hangups::open();
    held.map(drop)
        .map_err(|error| Failure::outside(format!("can't hold SIGHUP: {error}")))
}

/// What engines are given.
fn config_of(args: &Run, seed: u64) -> RuntimeConfig {
    RuntimeConfig {
        seed,
        advise: weir_io::advise_large_pages,
        cycles: weir_io::cycles,
        event_bytes: if args.events.is_some() {
            EVENT_BYTES
        } else {
            0
        },
        audit: args.audit,
        ..RuntimeConfig::default()
    }
}

/// An inbox for a thread; the failure says that there is none to be had.
fn inbox(sleeps: bool) -> Result<(Post, Inbox), Failure> {
    Inbox::new(sleeps)
        .map_err(|error| Failure::outside(format!("can't make an event descriptor: {error}")))
}

/// Opens the control socket where one is wanted, and says where it is.
fn control(
    args: &Run,
    file: &weir_graph::ChainFile,
    mode: &str,
    ports: &Ports,
    posts: Vec<Post>,
    unseen: Vec<Unseen>,
) -> Result<Option<Control>, Failure> {
    let wanted = control::Wanted {
        path: args.control.clone(),
        name: args.name.clone(),
        metrics: args.metrics,
    };
    let of = |ports: &[ports::RunPort]| ports.iter().map(ports::RunPort::info).collect();
    let about = control::About {
        file,
        chain: &args.chain,
        mode,
        unseen,
        inputs: of(&ports.inputs),
        outputs: of(&ports.outputs),
    };
    let control = wanted.open(about, posts)?;
    if let Some(control) = control.as_ref().filter(|_| !args.quiet) {
        if let Some(path) = control.path() {
            say(format_args!("control socket: {}", path.display()));
        }
        if let Some(address) = control.metrics() {
            say(format_args!("metrics: http://{address}/metrics"));
        }
    }
    Ok(control)
}

/// Prints what the run did.
fn print(args: &Run, ports: &Ports, summary: Summary) -> Result<(), Failure> {
    for warning in &summary.warnings {
        say(format_args!("warning: {warning}"));
    }
    let text = match args.output {
        Format::Json => format!("{:#}", summary.to_json()),
        Format::Text => table::render(&summary),
    };
    // Packets or events on standard output are for another program.
    if ports.write_to_standard_output() || args.events.as_deref() == Some(Path::new("-")) {
        say(format_args!("{}", text.trim_end()));
        Ok(())
    } else {
        output::line(&text)
    }
}

/// A bar on standard error, if that is a terminal and somebody wants it.
fn progress(args: &Run) -> indicatif::ProgressBar {
    if args.quiet {
        return indicatif::ProgressBar::hidden();
    }
    let bar = indicatif::ProgressBar::new(1_000);
    if let Ok(style) =
        indicatif::ProgressStyle::with_template("{bar:40} {percent:>3} % {msg} {eta}")
    {
        bar.set_style(style);
    }
    bar
}

fn show(bar: &indicatif::ProgressBar, input: &Input) {
    let packets: u64 = input.ports().map(|port| port.counters().packets).sum();
    let known: Vec<f64> = input
        .ports()
        .filter_map(weir_io::port::InputPort::progress)
        .collect();
    if let Some(least) = known.iter().copied().reduce(f64::min) {
        bar.set_position((least * 1_000.0) as u64);
    }
    bar.set_message(format!("{packets} packets"));
}
