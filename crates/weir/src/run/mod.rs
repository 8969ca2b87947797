//! `weir run`: packets from ports through chains to ports.

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
mod plan;
mod played;
mod player;
mod ports;
mod summary;
mod table;
mod wires;
mod workers;

use std::path::Path;
use std::time::Instant;

use weir_io::port::Received;
use weir_nf::host::{Kind, Stage};
use weir_packet::FramePool;
use weir_runtime::{Lie, RunAtStart, Runtime, RuntimeConfig};

use crate::args::{Format, Run};
use crate::control::Control;
use crate::driver::inbox::{Chains, Inbox, Shows, StageReport, ThreadCounts};
use crate::exit::{Exit, Failure};
use crate::{Outcome, chains, control, driver, output, seed};

use audit::Audit;
use driver::{CHAINS, Dispatcher, EventFile};
use input::Input;
use onlook::Watched;
pub(crate) use onlook::{Onlooker, input_names, places};
pub(crate) use ports::{Also, Ports};
use summary::{Ended, More, Summary};
pub(crate) use table::thousands;

/// Packets taken from the inputs at a time.
const BATCH: usize = 64;
/// Batches after which questions are looked for.
const LOOK: u64 = 64;
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
    driver::check_cores(&args.cores).map_err(Failure::usage)?;
    let seed = args.seed.unwrap_or_else(seed::random);
    let file = chains::load(&args.chain, &args.templates, &args.set, seed, kinds)?;
    let also = Also {
        chain: &args.chain,
        script: args.script.as_deref(),
        events: args.events.as_deref(),
    };
    let ports = Ports::parse(&args.input, &args.out, &file, also)?;
    live::check(args, &ports)?;
    check_asked(args)?;
    network::check(args, &file, &ports)?;
    if guard::wanted(args, &file, &ports) {
        return guard::run(args, &ports);
    }
    let config = RuntimeConfig {
        at_start,
        ..config_of(args, seed)
    };
    let plans = plan::plans(args, &file)?;
    let only = plans.iter().map(plan::only_stage);
    let Some(stages) = only
        .map(Option::<&Stage>::cloned)
        .collect::<Option<Vec<_>>>()
    else {
        frames::check_one_stage(args)?;
        if ports.are_live() {
            return live::pipeline(args, &file, plans, &ports, config);
        }
        refuse_asked(args, "a plan of several stages", "`--plan rtc`")?;
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
    if let Some(core) = plans.first().and_then(plan::first_core) {
        driver::pin(core).map_err(Failure::outside)?;
    }
    let memory = frames::memory(args, ports.memory());
    let Some(pool) = FramePool::new(memory) else {
        return Err(Failure::outside("packet memory was taken twice"));
    };
    let mut runtimes = Vec::new();
    for stage in &stages {
        let runtime = Runtime::new(stage, config)
            .map_err(|error| Failure::chain(format!("error: {error}")))?;
        runtimes.push(runtime);
    }
    // What is written is created last: an input that can't be read empties
    // nothing.
    let input = Input::open(&ports)?;
    let events = args.events.as_deref().map(EventFile::create).transpose()?;
    let mut engine = Engine {
        pool,
        input,
        outputs: ports.open_outputs()?,
        dispatcher: Dispatcher::new(&file),
        runtimes,
        events,
        inbox: None,
        told: Vec::new(),
    };
    let (post, inbox) = control::inbox(false)?;
    engine.inbox = Some(inbox);
    let control = control(args, &file, "files", &ports, vec![post])?;
    let progress = progress(args);
    let start = Instant::now();
    let ended = engine.drive(&progress, &mut watched);
    let elapsed = start.elapsed();
    drop(control);
    progress.finish_and_clear();
    if watched.is_on() {
        ended?;
        return Ok(Exit::Done);
    }
    let counters = engine.input.ports().map(weir_io::port::InputPort::counters);
    let mut reports: Vec<_> = engine.runtimes.iter().map(Runtime::report).collect();
    for (report, chain) in reports.iter_mut().zip(&file.chains) {
        pipeline::in_order_of(report, chain);
    }
    let lies: Vec<Lie> = engine
        .runtimes
        .iter()
        .flat_map(Runtime::lies)
        .cloned()
        .collect();
    let mut more: Vec<Box<dyn More>> = vec![Box::new(plan::PlanSummary::of(&plans))];
    if args.audit {
        more.push(Box::new(Audit(lies.clone())));
    }
    let mut of_run = Ended {
        reports,
        inputs: counters.collect(),
        outputs: engine.outputs.counters(),
        refused: engine.dispatcher.refused,
        elapsed,
        more,
        warnings: audit::warnings(&lies),
    };
    of_run.leaked(engine.pool.outstanding());
    frames::report(&mut of_run, engine.pool.memory(), &ports.inputs);
    print(args, &ports, Summary::of(of_run, &ports, seed))?;
    ended?;
    Ok(Exit::Done)
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

/// Refuses what can't be had where threads can't be asked: `--runtimes` has them
/// behind a switch.
fn check_asked(args: &Run) -> Result<(), Failure> {
    match args.runtimes {
        Some(_) => refuse_asked(args, "--runtimes", "--workers"),
        None => Ok(()),
    }
}

/// The same for one way of running, with what can be had instead.
fn refuse_asked(args: &Run, way: &str, instead: &str) -> Result<(), Failure> {
    let asked = [
        (args.control.is_some(), "--control"),
        (args.name.is_some(), "--name"),
        (args.metrics.is_some(), "--metrics"),
    ];
    let asked = asked.iter().find(|(given, _)| *given);
    match asked {
        Some((_, option)) => Err(Failure::usage(format!(
            "{option} can't be used with {way} yet, whose threads can't be asked: leave it out, \
             or use {instead}"
        ))),
        None => Ok(()),
    }
}

/// Opens the control socket where one is wanted, and says where it is.
fn control(
    args: &Run,
    file: &weir_graph::ChainFile,
    mode: &str,
    ports: &Ports,
    posts: Vec<driver::inbox::Post>,
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
        inputs: of(&ports.inputs),
        outputs: of(&ports.outputs),
    };
    let control = wanted.open(about, posts)?;
    if let Some(control) = control.as_ref().filter(|_| !args.quiet) {
        if let Some(path) = control.path() {
            eprintln!("control socket: {}", path.display());
        }
        if let Some(address) = control.metrics() {
            eprintln!("metrics: http://{address}/metrics");
        }
    }
    Ok(control)
}

/// Prints what the run did.
fn print(args: &Run, ports: &Ports, summary: Summary) -> Result<(), Failure> {
    for warning in &summary.warnings {
        eprintln!("warning: {warning}");
    }
    let text = match args.output {
        Format::Json => format!("{:#}", summary.to_json()),
        Format::Text => table::render(&summary),
    };
    // Packets or events on standard output are for another program.
    if ports.write_to_standard_output() || args.events.as_deref() == Some(Path::new("-")) {
        eprintln!("{}", text.trim_end());
        Ok(())
    } else {
        output::line(&text)
    }
}

/// All that packets pass through.
struct Engine {
    pool: FramePool,
    input: Input,
    outputs: ports::Outputs,
    dispatcher: Dispatcher,
    runtimes: Vec<Runtime>,
    events: Option<EventFile>,
    /// Away while it is answered.
    inbox: Option<Inbox>,
    /// For later stages, which there are none of.
    told: Vec<weir_packet::Frame>,
}

impl Shows for Engine {
    fn counts(&mut self) -> ThreadCounts {
        let inputs = self.input.ports();
        ThreadCounts {
            name: "chains".to_owned(),
            reports: StageReport::alone(&self.runtimes),
            inputs: inputs.map(weir_io::port::InputPort::counters).collect(),
            outputs: self.outputs.counters(),
            refused: self.dispatcher.refused,
            frames: (self.pool.available() + self.pool.outstanding()) as u64,
            frames_free: self.pool.available() as u64,
            ..ThreadCounts::default()
        }
    }

    fn chains(&mut self) -> Option<Chains<'_>> {
        Some(Chains {
            runtimes: &mut self.runtimes,
            pool: &mut self.pool,
            output: &mut self.told,
        })
    }

    fn take_events(&mut self) {
        // What can't be written now fails with the next batch's.
        if let Some(events) = &mut self.events {
            for runtime in &mut self.runtimes {
                let _ = events.write(runtime.events());
            }
        }
    }

    fn now(&self) -> Option<weir_packet::Time> {
        None
    }
}

impl Engine {
    /// Moves packets until the inputs end.
    fn drive(
        &mut self,
        progress: &indicatif::ProgressBar,
        watched: &mut Watched<'_>,
    ) -> Result<(), Failure> {
        let mut input = Vec::with_capacity(2 * BATCH);
        let mut output = Vec::with_capacity(16 * BATCH);
        let mut batches = 0u64;
        let ended = loop {
            self.pool.set_holder(0);
            let received = self.input.receive(&mut self.pool, &mut input, BATCH);
            self.pool.memory().hold(&input, CHAINS);
            self.pool.set_holder(CHAINS);
            let failed = received
                .as_ref()
                .err()
                .map(|error| Failure::outside(error.to_string()));
            self.pass(&mut input, &mut output)?;
            if !watched.look()? {
                break None;
            }
            batches += 1;
            if batches.is_multiple_of(LOOK) || self.inbox.as_ref().is_some_and(Inbox::is_busy) {
                self.answer();
            }
            if batches.is_multiple_of(1_024) {
                show(progress, &self.input);
            }
            match received {
                Err(_) => break failed,
                Ok(Received::End) => break None,
                Ok(Received::More) => {}
            }
        };
        for runtime in &mut self.runtimes {
            runtime.finish(&mut self.pool);
            if let Some(events) = &mut self.events {
                events.write(runtime.events())?;
            }
        }
        watched.look()?;
        self.outputs.finish()?;
        if let Some(events) = &mut self.events {
            events.finish()?;
        }
        ended.map_or(Ok(()), Err)
    }

    /// Answers what is asked, or a part of it.
    fn answer(&mut self) {
        if let Some(mut inbox) = self.inbox.take() {
            inbox.answer(self);
            self.inbox = Some(inbox);
        }
    }

    /// Takes a batch through its chains and out.
    fn pass(
        &mut self,
        input: &mut Vec<weir_packet::Frame>,
        output: &mut Vec<weir_packet::Frame>,
    ) -> Result<(), Failure> {
        if let [runtime] = self.runtimes.as_mut_slice()
            && self.dispatcher.is_trivial()
        {
            runtime.process(&mut self.pool, input, output);
        } else {
            self.dispatcher.sort(&mut self.pool, input);
            for (runtime, batch) in self.runtimes.iter_mut().zip(self.dispatcher.batches()) {
                runtime.process(&mut self.pool, batch, output);
            }
        }
        if let Some(events) = &mut self.events {
            for runtime in &mut self.runtimes {
                events.write(runtime.events())?;
            }
        }
        self.outputs.send(&mut self.pool, output)
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
