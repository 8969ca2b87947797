//! `weir sim`: seeds of the simulator, on several threads.

mod lease;
mod plants;
mod report;
mod threads;

use std::time::Instant;

use weir_io::port::{PortSpec, Received};
use weir_packet::{FramePool, MemoryLayout, PacketMemory, Side};
use weir_sim::campaign::Campaign;
use weir_sim::chain::Chain;
use weir_sim::plan::Plan;
use weir_sim::plants::Bug;
use weir_sim::run::run;
use weir_sim::settings::{Mode, Settings};
use weir_sim::trace::Trace;
use weir_sim::traffic::Recorded;

use crate::args::Sim;
use crate::exit::{Exit, Failure, Outcome};

use report::Report;
use threads::seeds;

pub(crate) fn sim(args: &Sim) -> Outcome {
    quiet_panics();
    if args.lease {
        return lease::lease(args);
    }
    if args.plants {
        return plants::find_all(args);
    }
    let settings = settings(args)?;
    let recorded = args.input.as_deref().map(read).transpose()?;
    let recorded = recorded.as_deref();
    if args.trace {
        return trace(args, &settings, recorded);
    }
    let start = Instant::now();
    let add = |sum: &mut Campaign, seed| sum.add_seed(seed, &settings, recorded);
    let sum = seeds(args, add, Campaign::merge)?;
    let report = Report::new(args, &settings, &sum, start.elapsed());
    report.print(args, &settings, recorded)
}

/// A panic of the code under test is told once, as the violation that it is.
fn quiet_panics() {
    std::panic::set_hook(Box::new(|info| {
        if std::env::var_os("RUST_BACKTRACE").is_some() {
            let trace = std::backtrace::Backtrace::force_capture();
            eprintln!("{info}\n{trace}");
        }
    }));
}

/// The mode: with an option that only links have seeds are not of rings.
fn mode(args: &Sim) -> Result<Option<Mode>, Failure> {
    let of_links = [
        ("--hosts", args.hosts.is_some_and(|hosts| hosts > 0)),
        ("--heartbeats", args.heartbeats == Some(true)),
        ("--chains", args.chains > 1),
    ];
    let given = of_links.iter().find(|(_, is_given)| *is_given);
    match (args.mode, given) {
        (Some(Mode::Ring), Some((option, _))) => Err(Failure::usage(format!(
            "runtimes on one host have no hosts or heartbeats, and one chain: leave out \
             `{option}`, or take `--mode links`"
        ))),
        (None, Some(_)) => Ok(Some(Mode::Links)),
        (mode, _) => Ok(mode),
    }
}

fn settings(args: &Sim) -> Result<Settings, Failure> {
    let chain = args.chain.as_deref().map(|name| {
        Chain::from_name(name).ok_or_else(|| {
            let names: Vec<_> = Chain::ALL.iter().map(|c| c.name()).collect();
            let names = names.join(", ");
            Failure::usage(format!("there is no chain `{name}`; there are {names}"))
        })
    });
    let plant = args.plant.as_deref().map(|name| {
        Bug::all().find(|bug| bug.name() == name).ok_or_else(|| {
            let names: Vec<_> = Bug::all().map(Bug::name).collect();
            let names = names.join(", ");
            Failure::usage(format!("there is no plant `{name}`; there are {names}"))
        })
    });
    Ok(Settings {
        faults: args.faults,
        some_faults: !args.every_fault,
        mode: mode(args)?,
        replication: args.replication,
        runtimes: args.runtimes,
        hosts: args.hosts,
        loggers: args.loggers,
        heartbeats: args.heartbeats,
        flowlets: args.flowlets,
        compare: args.compare,
        take_back: args.take_back,
        flows: args.flows,
        packets: args.packets,
        moves: args.moves,
        chain: chain.transpose()?,
        chains: args.chains,
        plain_links: args.plain_links,
        plant: plant.transpose()?,
    })
}

/// Reads all packets of a port.
fn read(port: &str) -> Result<Vec<Recorded>, Failure> {
    let (_, spec) = PortSpec::parse(port).map_err(|e| Failure::usage(e.to_string()))?;
    let outside = |error: weir_io::port::PortError| Failure::outside(error.to_string());
    let mut input = spec.open_input(0, Side::Inside).map_err(outside)?;
    let memory = PacketMemory::new(MemoryLayout::default(), weir_io::advise_large_pages);
    let Some(mut pool) = FramePool::new(memory) else {
        return Err(Failure::outside("packet memory was taken twice"));
    };
    let mut recorded = Vec::new();
    let mut frames = Vec::with_capacity(64);
    let mut first = None;
    loop {
        let received = input.receive(&mut pool, &mut frames, 64).map_err(outside)?;
        for frame in frames.drain(..) {
            let (meta, bytes) = pool.memory().read(&frame);
            let first = *first.get_or_insert(meta.time);
            // A frame of the simulation holds what an Ethernet carries.
            if bytes.len() <= 1_514 {
                recorded.push(Recorded {
                    at: meta.time.since(first),
                    side: meta.side,
                    link: meta.link,
                    bytes: bytes.to_vec(),
                });
            }
            pool.give(frame);
        }
        if received == Received::End {
            return Ok(recorded);
        }
    }
}

/// Prints what happens in a seed.
fn trace(args: &Sim, settings: &Settings, recorded: Option<&[Recorded]>) -> Outcome {
    let plan = Plan::draw(args.seed, settings, recorded);
    let (outcome, trace) = run(settings, &plan, Trace::kept()).map_err(Failure::outside)?;
    let failed = outcome.violation.as_ref().and_then(|v| v.unit);
    // Earlier lives in the same place may matter.
    let place = args.unit.or(failed.map(|unit| unit.slot()));
    for line in trace.lines() {
        if place.is_none_or(|place| line.unit.is_none_or(|unit| unit.slot() == place)) {
            crate::output::line(&report::line(line))?;
        }
    }
    match outcome.violation {
        None => Ok(Exit::Done),
        Some(violation) => {
            crate::output::line(&report::violation(args.seed, &violation))?;
            Ok(Exit::Failed)
        }
    }
}
