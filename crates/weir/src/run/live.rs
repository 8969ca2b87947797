//! `weir run` with interfaces: packets of both directions, until it is told to
//! end.

use std::os::fd::{AsFd as _, BorrowedFd};
use std::time::{Duration, Instant};

use weir_graph::ChainFile;
use weir_io::live::{EndSignals, LiveClock, LiveOptions, LivePort, Waiter, live_layout};
use weir_io::port::{InputPort, OutputPort, PortCounters, PortSpec};
use weir_nf::host::Stage;
use weir_packet::{Frame, FramePool, PacketMemory, Side};
use weir_runtime::{Runtime, RuntimeConfig};

use super::dispatch::Dispatcher;
use super::events::EventFile;
use super::pipeline;
use super::plan::PlanSummary;
use super::ports::{Ports, RunPort};
use super::summary::{Ended, Summary};
use super::{BATCH, print};
use crate::args::{Format, Run};
use crate::driver::ChainPlan;
use crate::exit::{Exit, Failure};
use crate::{Outcome, doctor};

/// How often signals, the time and the interfaces are looked at, at least.
const LOOK: Duration = Duration::from_millis(100);
/// Rounds with packets after which the time is looked at.
const ROUNDS: u32 = 256;
/// How long packets that have come may still be taken at the end.
const DRAIN: Duration = Duration::from_millis(100);

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
    let ports = Sorted::of(args, ports)?;
    let specs = doctor::once(
        ports
            .live
            .iter()
            .filter_map(|port| port.spec.live().cloned()),
    );
    for warning in doctor::before_run(specs, file, &args.cores, args.force)? {
        eprintln!("warning: {warning}");
    }
    let layout = live_layout(ports.live.iter().filter_map(|port| port.spec.live()))
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
    let signals = EndSignals::open()
        .map_err(|error| Failure::outside(format!("can't wait for signals: {error}")))?;
    let mut engine = Engine {
        pool,
        live: Vec::new(),
        others: Vec::new(),
        towards: [ports.towards(Side::Inside), ports.towards(Side::Outside)],
        input: Vec::with_capacity(BATCH),
        output: Vec::with_capacity(4 * BATCH),
        queues: [Vec::with_capacity(BATCH), Vec::with_capacity(BATCH)],
        dispatcher: Dispatcher::new(file),
        runtimes,
        events: None,
        signals,
    };
    engine.open(&ports)?;
    engine.events = args.events.as_deref().map(EventFile::create).transpose()?;
    let said = engine.introduce(args, &ports);

    let start = Instant::now();
    let mut ended = engine.drive(args.duration.map(|time| start + time));
    let elapsed = start.elapsed();
    ended = ended.and(engine.finish());
    let mut reports: Vec<_> = engine.runtimes.iter().map(Runtime::report).collect();
    for (report, chain) in reports.iter_mut().zip(&file.chains) {
        pipeline::in_order_of(report, chain);
    }
    let of_run = Ended {
        reports,
        inputs: engine.live.iter().map(|port| came_in(&**port)).collect(),
        outputs: engine.outputs(),
        refused: engine.dispatcher.refused,
        elapsed,
        more: vec![Box::new(PlanSummary::of(plans))],
        warnings: engine.warnings(),
    };
    let mut summary = Summary::of(of_run, &ports.all(), config.seed);
    if matches!(args.output, Format::Text) {
        summary.warnings.retain(|warning| !said.contains(warning));
    }
    print(args, &ports.all(), summary)?;
    ended?;
    Ok(Exit::Done)
}

/// The ports of a run with interfaces.
struct Sorted {
    /// Interfaces, each once.
    live: Vec<RunPort>,
    /// Where else packets go.
    others: Vec<RunPort>,
    /// For each side its first output as written, live or not.
    first: [Option<Target>; 2],
}

/// Where packets go: an interface or another output, by its number.
#[derive(Clone, Copy, Debug)]
enum Target {
    Live(usize),
    Other(usize),
}

impl Sorted {
    fn of(args: &Run, ports: &Ports) -> Result<Sorted, Failure> {
        let mut sorted = Sorted {
            live: Vec::new(),
            others: Vec::new(),
            first: [None; 2],
        };
        for port in &ports.inputs {
            if port.spec.live().is_some() {
                sorted.add(port)?;
            } else if port.spec != PortSpec::Null {
                return Err(Failure::usage(format!(
                    "port `{}`: captures and the generator can't come in beside interfaces: their \
                     packets have other times",
                    port.text
                )));
            }
        }
        // The output that is there because none was named is none.
        let outputs = ports.outputs.iter().filter(|_| !args.out.is_empty());
        for port in outputs {
            let target = match port.spec.live() {
                Some(_) => Target::Live(sorted.add(port)?),
                None => {
                    sorted.others.push(port.clone());
                    Target::Other(sorted.others.len() - 1)
                }
            };
            sorted.first[port.side as usize].get_or_insert(target);
        }
        for (number, port) in sorted.live.iter().enumerate() {
            sorted.first[port.side as usize].get_or_insert(Target::Live(number));
        }
        // Packets towards a side that has nothing are counted and forgotten.
        if sorted.others.is_empty() && sorted.first.iter().any(Option::is_none) {
            let mut null = sorted.live[0].clone();
            null.side = null.side.opposite();
            null.name = null.side.name().to_owned();
            null.text = "null".to_owned();
            null.spec = PortSpec::Null;
            sorted.others.push(null);
        }
        Ok(sorted)
    }

    /// Adds an interface: its number. It may be named as input and output of
    /// one port.
    fn add(&mut self, port: &RunPort) -> Result<usize, Failure> {
        let interface = |port: &RunPort| port.spec.live().map(|l| l.interface().to_owned());
        let same = |other: &RunPort| interface(other) == interface(port);
        match self.live.iter().position(same) {
            None => {
                self.live.push(port.clone());
                Ok(self.live.len() - 1)
            }
            Some(number) => {
                let other = &self.live[number];
                if other.name == port.name && other.spec == port.spec {
                    return Ok(number);
                }
                Err(Failure::usage(format!(
                    "ports `{}` and `{}` are one interface: it has one side and one kind",
                    other.text, port.text
                )))
            }
        }
    }

    fn towards(&self, side: Side) -> Target {
        self.first[side as usize].unwrap_or(Target::Other(0))
    }

    /// The ports as the summary shows them.
    fn all(&self) -> Ports {
        let outputs = self.live.iter().chain(&self.others);
        Ports {
            inputs: self.live.clone(),
            outputs: outputs.cloned().collect(),
        }
    }
}

/// What came in by a port; its other half is [`InputPort`]'s namesake.
fn came_in(port: &dyn LivePort) -> PortCounters {
    InputPort::counters(port)
}

/// All that packets pass through.
struct Engine {
    pool: FramePool,
    live: Vec<Box<dyn LivePort>>,
    others: Vec<Box<dyn OutputPort>>,
    /// Where packets leave, by side.
    towards: [Target; 2],
    /// Packets that came in, and those that leave.
    input: Vec<Frame>,
    output: Vec<Frame>,
    /// Packets to leave, by side.
    queues: [Vec<Frame>; 2],
    dispatcher: Dispatcher,
    runtimes: Vec<Runtime>,
    events: Option<EventFile>,
    signals: EndSignals,
}

impl Engine {
    fn open(&mut self, ports: &Sorted) -> Result<(), Failure> {
        let outside = |error: weir_io::port::PortError| Failure::outside(error.to_string());
        let clock = LiveClock::start();
        for (number, port) in ports.live.iter().enumerate() {
            let options = LiveOptions {
                number: number as u8,
                side: port.side,
                clock,
            };
            if let Some(live) = port.spec.live() {
                let opened = live.open(options, &mut self.pool).map_err(outside)?;
                self.live.push(opened);
            }
        }
        for port in &ports.others {
            self.others.push(port.spec.open_output().map_err(outside)?);
        }
        Ok(())
    }

    /// Says what the ports really are; gives the warnings that were said.
    fn introduce(&self, args: &Run, ports: &Sorted) -> Vec<String> {
        if !args.quiet {
            for (port, live) in ports.live.iter().zip(&self.live) {
                eprintln!("{} ({}): {}", port.name, port.text, live.mode());
            }
        }
        let said: Vec<String> = self.live.iter().flat_map(|port| port.warnings()).collect();
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

    /// Moves packets until a signal comes, `until` is over, or a port can't go
    /// on.
    fn drive(&mut self, until: Option<Instant>) -> Result<(), Failure> {
        let mut waiter = Waiter::default();
        let mut rounds = 0;
        let mut looked = Instant::now();
        loop {
            if self.round()? {
                waiter.busy();
                rounds += 1;
                if rounds < ROUNDS {
                    continue;
                }
            } else if waiter.spin() {
                // The time was looked at a moment ago, or soon will be.
                continue;
            } else {
                self.sleep(&mut waiter, until)?;
            }
            rounds = 0;
            let now = Instant::now();
            if self.signals.came() || until.is_some_and(|until| now >= until) {
                break;
            }
            if now - looked >= LOOK {
                looked = now;
                for port in &mut self.live {
                    let there = port.check();
                    there.map_err(|error| Failure::outside(error.to_string()))?;
                }
                if let Some(events) = &mut self.events {
                    events.finish()?;
                }
            }
        }
        let end = Instant::now() + DRAIN;
        while self.round()? && Instant::now() < end {}
        // One that was sent twice is one; another kills.
        self.signals.came();
        self.signals.release();
        Ok(())
    }

    /// Sleeps until there is something to do.
    fn sleep(&self, waiter: &mut Waiter, until: Option<Instant>) -> Result<(), Failure> {
        let left = until.map(|until| until.saturating_duration_since(Instant::now()));
        let most = left.map_or(LOOK, |left| left.min(LOOK));
        let mut fds: Vec<BorrowedFd<'_>> = Vec::with_capacity(8);
        fds.push(self.signals.as_fd());
        for port in &self.live {
            port.descriptors(&mut fds);
        }
        waiter
            .sleep(&fds, most)
            .map_err(|error| Failure::outside(format!("can't wait for packets: {error}")))
    }

    /// Takes a batch of each interface through the chains and out: whether
    /// there was any. A batch comes from one side, as functions that give names
    /// to flows need it.
    fn round(&mut self) -> Result<bool, Failure> {
        let mut found = false;
        for number in 0..self.live.len() {
            let port = &mut self.live[number];
            let received = port.receive(&mut self.pool, &mut self.input, BATCH);
            if !self.input.is_empty() {
                found = true;
                self.pass()?;
            }
            received.map_err(|error| Failure::outside(error.to_string()))?;
        }
        Ok(found)
    }

    /// Takes what came in through its chains and out.
    fn pass(&mut self) -> Result<(), Failure> {
        let (input, output) = (&mut self.input, &mut self.output);
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
        for frame in output.drain(..) {
            let towards = self.pool.memory().meta(&frame).side.opposite();
            self.queues[towards as usize].push(frame);
        }
        for (queue, towards) in self.queues.iter_mut().zip(self.towards) {
            if queue.is_empty() {
                continue;
            }
            let sent = match towards {
                Target::Live(number) => self.live[number].send(&mut self.pool, queue),
                Target::Other(number) => self.others[number].send(&mut self.pool, queue),
            };
            sent.map_err(|error| Failure::outside(error.to_string()))?;
        }
        Ok(())
    }

    /// Ends all flows and closes all ports, whatever fails on the way: the
    /// first failure.
    fn finish(&mut self) -> Result<(), Failure> {
        let mut result = Ok(());
        for queue in &mut self.queues {
            self.pool.give_all(queue);
        }
        for runtime in &mut self.runtimes {
            runtime.finish(&mut self.pool);
            if let Some(events) = &mut self.events {
                result = result.and(events.write(runtime.events()));
            }
        }
        for port in &mut self.live {
            port.close(&mut self.pool);
        }
        for port in &mut self.others {
            let finished = port.finish();
            result = result.and(finished.map_err(|e| Failure::outside(e.to_string())));
        }
        if let Some(events) = &mut self.events {
            result = result.and(events.finish());
        }
        result
    }

    fn outputs(&self) -> Vec<PortCounters> {
        let live = self.live.iter().map(|port| OutputPort::counters(&**port));
        let others = self.others.iter().map(|port| port.counters());
        live.chain(others).collect()
    }

    fn warnings(&self) -> Vec<String> {
        let mut warnings: Vec<String> = self.live.iter().flat_map(|port| port.warnings()).collect();
        let leaked = self.pool.outstanding();
        if leaked > 0 {
            warnings.push(format!(
                "{leaked} frames were not given back: this is a fault of weir"
            ));
        }
        warnings
    }
}
