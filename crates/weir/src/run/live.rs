//! `weir run` with interfaces: packets of both directions, until it is told to
//! end.

use std::time::Instant;

use weir_graph::ChainFile;
use weir_io::live::{EndSignals, LiveClock, LiveOptions, live_layout};
use weir_nf::host::Stage;
use weir_packet::{FramePool, PacketMemory};
use weir_runtime::{Runtime, RuntimeConfig};

use super::plan::PlanSummary;
use super::ports::Ports;
use super::print;
use super::summary::{Ended, Summary};
use super::wires::Sorted;
use super::{network, pipeline};
use crate::args::{Format, Run};
use crate::driver::inbox::Post;
use crate::driver::live::{Alone, Live, LivePorts, Looks, Way};
use crate::driver::{ChainPlan, Crew, Dispatcher, EventFile};
use crate::exit::{Exit, Failure};
use crate::{Outcome, control, doctor};

/// Refuses what does not go together with interfaces, or without.
pub(super) fn check(args: &Run, ports: &Ports) -> Result<(), Failure> {
    if !ports.are_live() {
        return match args.duration {
            None => Ok(()),
            Some(_) => Err(Failure::usage(
                "--for is for runs with interfaces: others end with their inputs",
            )),
        };
    }
    for (given, option) in [
        (args.runtimes.is_some(), "--runtimes"),
        (args.workers.is_some(), "--workers"),
    ] {
        if given {
            return Err(Failure::usage(format!(
                "interfaces can't be used with {option} yet: leave it out"
            )));
        }
    }
    Ok(())
}

/// Refuses interfaces for a plan of several stages.
pub(super) fn check_one_stage(ports: &Ports) -> Result<(), Failure> {
    if ports.are_live() {
        return Err(Failure::usage(
            "interfaces can't be used with a plan of several stages yet: `--plan rtc` makes it one",
        ));
    }
    Ok(())
}

pub(super) fn run(
    args: &Run,
    file: &ChainFile,
    stages: &[Stage],
    plans: &[ChainPlan],
    ports: &Ports,
    config: RuntimeConfig,
) -> Outcome {
    let sorted = looked_at(args, file, ports)?;
    let layout = live_layout(sorted.live.iter().filter_map(|port| port.spec.live()))
        .map_err(|error| Failure::outside(error.to_string()))?;
    let memory = PacketMemory::new(layout, weir_io::advise_large_pages);
    let Some(pool) = FramePool::new(memory) else {
        return Err(Failure::outside("packet memory was taken twice"));
    };
    let mut runtimes = Vec::new();
    for stage in stages {
        let runtime = Runtime::new(stage, config)
            .map_err(|error| Failure::chain(format!("error: {error}")))?;
        runtimes.push(runtime);
    }
    let crew = Alone::new(pool, runtimes);
    let ran = drive(
        args,
        file,
        sorted,
        signals()?,
        config.seed,
        crew,
        Vec::new(),
    )?;
    let mut reports: Vec<_> = ran.crew.runtimes.iter().map(Runtime::report).collect();
    for (report, chain) in reports.iter_mut().zip(&file.chains) {
        pipeline::in_order_of(report, chain);
    }
    let mut ran = ran;
    let leaked = ran.crew.pool().outstanding();
    if leaked > 0 {
        ran.of_run.warnings.push(format!(
            "{leaked} frames were not given back: this is a fault of weir"
        ));
    }
    ran.of_run.reports = reports;
    ran.of_run.more.push(Box::new(PlanSummary::of(plans)));
    let (said, sorted, ended) = (ran.said, ran.sorted, ran.ended);
    let mut summary = Summary::of(ran.of_run, &sorted.all(), config.seed);
    if matches!(args.output, Format::Text) {
        summary.warnings.retain(|warning| !said.contains(warning));
    }
    print(args, &sorted.all(), summary)?;
    ended?;
    Ok(Exit::Done)
}

/// What a run with interfaces leaves behind.
struct Ran<C> {
    crew: C,
    sorted: Sorted,
    /// Without the reports.
    of_run: Ended,
    /// Warnings that were printed when it began.
    said: Vec<String>,
    ended: Result<(), Failure>,
}

/// The ports in their order, once the machine was found fit for them; what is
/// not as it should be is said aloud.
fn looked_at(args: &Run, file: &ChainFile, ports: &Ports) -> Result<Sorted, Failure> {
    let sorted = Sorted::of(args, ports)?;
    for warning in doctor::before_run(ports.live(), file, &args.cores, args.force)? {
        eprintln!("warning: {warning}");
    }
    Ok(sorted)
}

/// Takes the signals that end a run. They are to be taken before threads are
/// started, which would be killed by them.
fn signals() -> Result<EndSignals, Failure> {
    EndSignals::open().map_err(|error| Failure::outside(format!("can't wait for signals: {error}")))
}

/// Opens the ports, moves packets until the end, and closes them. `posts` are
/// of the crew's own threads.
fn drive<C: Crew>(
    args: &Run,
    file: &ChainFile,
    sorted: Sorted,
    signals: EndSignals,
    seed: u64,
    mut crew: C,
    mut posts: Vec<Post>,
) -> Result<Ran<C>, Failure> {
    let clock = LiveClock::start();
    let (layer, odd) = network::layer(file, &sorted, seed, clock)?;
    let ports = open(&sorted, crew.pool(), clock)?;
    let events = args.events.as_deref().map(EventFile::create).transpose()?;
    let (post, inbox) = control::inbox(true)?;
    posts.push(post);
    let control = super::control(args, file, "live", &sorted.all(), posts)?;
    let said = introduce(args, &sorted, &ports, &odd);
    let mut live = Live::new(
        crew,
        ports,
        layer,
        Dispatcher::new(file),
        Looks::new(signals, args.duration, clock, inbox),
        events,
    );
    let start = Instant::now();
    let mut ended = live.drive();
    let elapsed = start.elapsed();
    // Nothing answers any more.
    drop(control);
    ended = ended.and(live.finish());
    let (inputs, outputs) = live.counters();
    let of_run = Ended {
        reports: Vec::new(),
        inputs,
        outputs,
        refused: live.dispatcher.refused,
        elapsed,
        more: network::summary(live.layer.report(), &sorted)
            .into_iter()
            .collect(),
        warnings: odd.into_iter().chain(live.ports.warnings()).collect(),
    };
    Ok(Ran {
        crew: live.crew,
        sorted,
        of_run,
        said,
        ended,
    })
}

fn open(ports: &Sorted, pool: &mut FramePool, clock: LiveClock) -> Result<LivePorts, Failure> {
    let outside = |error: weir_io::port::PortError| Failure::outside(error.to_string());
    let mut open = Vec::new();
    for (number, port) in ports.live.iter().enumerate() {
        let options = LiveOptions {
            number: number as u8,
            side: port.side,
            clock,
        };
        if let Some(live) = port.spec.live() {
            open.push(Way::Both(live.open(options, pool).map_err(outside)?));
        }
    }
    for port in &ports.others {
        open.push(Way::Out(port.spec.open_output().map_err(outside)?));
    }
    Ok(LivePorts::new(open))
}

/// Says what the ports really are; gives the warnings that were said.
fn introduce(args: &Run, sorted: &Sorted, ports: &LivePorts, odd: &[String]) -> Vec<String> {
    if !args.quiet {
        for (port, live) in sorted.live.iter().zip(ports.live()) {
            eprintln!("{} ({}): {}", port.name, port.text, live.mode());
        }
    }
    let mut said = odd.to_vec();
    said.extend(ports.warnings());
    for warning in &said {
        eprintln!("warning: {warning}");
    }
    if !args.quiet {
        match args.duration {
            Some(time) => eprintln!("running for {} s", time.as_secs_f64()),
            None => eprintln!("running until SIGINT or SIGTERM"),
        }
    }
    said
}
