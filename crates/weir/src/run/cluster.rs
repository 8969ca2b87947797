//! `weir run --runtimes`: ports, chains' selectors, a script, and a cluster
//! between them.

use std::time::{Duration, Instant};

use weir_graph::{ChainFile, Script};
use weir_io::port::{InputPort, Received};
use weir_nf::host::Stage;
use weir_packet::{Frame, MemoryLayout, Side, Time};
use weir_runtime::RuntimeConfig;

use crate::args::Run;
use crate::driver::inbox::{Inbox, Shows, ThreadCounts};
use crate::driver::{Cluster, ClusterSettings, Visit};
use crate::exit::{Exit, Failure};
use crate::{Outcome, chains, control};

use super::input::Input;
use super::line::failure;
use super::onlook::Watched;
use super::player::Player;
use super::ports::{Outputs, Ports};
use super::summary::{Ended, More, Summary};
use super::{BATCH, LOOK, print, progress, show};
use crate::driver::{Dispatcher, EventFile};

/// Packets kept to be sent again where the path may lose some.
const KEPT_ON_A_BAD_PATH: u32 = 16_384;

#[allow(clippy::too_many_arguments)] // each is a part of the run
pub(super) fn run(
    args: &Run,
    runtimes: u32,
    file: &ChainFile,
    stages: &[Stage],
    ports: &Ports,
    config: RuntimeConfig,
    more: Option<Box<dyn More>>,
    watched: &mut Watched<'_>,
) -> Outcome {
    let script = script(args, runtimes, file)?;
    let settings = settings(args, runtimes, &script, config, ports.memory());
    let input = Input::open(ports)?;
    let cluster = Cluster::start(stages, settings).map_err(failure)?;
    let mut posts = cluster.posts();
    let events = args.events.as_deref().map(EventFile::create).transpose()?;
    let mut line = Line {
        cluster,
        player: Player::new(script, file),
        input,
        outputs: ports.open_outputs()?,
        dispatcher: Dispatcher::new(file),
        events,
        inbox: None,
        taken: 0,
        turns: ports.inputs.len() > 1 && gives_names(file),
        side: None,
    };
    let (post, inbox) = control::inbox(false)?;
    posts.push(post);
    line.inbox = Some(inbox);
    let control = super::control(args, file, "runtimes", ports, posts, Vec::new())?;
    let progress = progress(args);
    let start = Instant::now();
    line.player.start();
    let ended = line.drive(&progress, watched);
    // Nothing answers any more.
    drop(control);
    let (end, last_lines) = line.cluster.finish().map_err(failure)?;
    let closed = line.close(&last_lines);
    let elapsed = start.elapsed();
    progress.finish_and_clear();
    if watched.is_on() {
        watched.look()?;
        ended?;
        return Ok(Exit::Done);
    }
    let reports = end.reports.clone();
    let of_run = Ended {
        reports,
        inputs: line.input.ports().map(InputPort::counters).collect(),
        outputs: line.outputs.counters(),
        refused: line.dispatcher.refused,
        elapsed,
        more: more
            .into_iter()
            .chain([Box::new(end) as Box<dyn More>])
            .collect(),
        warnings: line.player.warnings,
    };
    print(args, ports, Summary::of(of_run, ports, config.seed))?;
    ended?;
    closed?;
    Ok(Exit::Done)
}

/// The script of a run; an empty one without.
pub(super) fn script(args: &Run, runtimes: u32, file: &ChainFile) -> Result<Script, Failure> {
    match &args.script {
        Some(path) => chains::load_script(path, runtimes, file),
        None => Ok(Script::default()),
    }
}

/// The settings of a cluster.
pub(super) fn settings(
    args: &Run,
    runtimes: u32,
    script: &Script,
    engine: RuntimeConfig,
    memory: MemoryLayout,
) -> ClusterSettings {
    let kept = match args.path {
        Some(_) => KEPT_ON_A_BAD_PATH,
        None => 0,
    };
    ClusterSettings {
        runtimes,
        most_runtimes: runtimes + script.added,
        cores: args.cores.clone(),
        path: args.path,
        kept: args.kept.unwrap_or(kept),
        dispatch: args.dispatch.into(),
        engine,
        memory,
        wakeful: args.never_sleeps(),
        ..ClusterSettings::default()
    }
}

/// How long nothing may happen at the end before what is still on its way is
/// given up: some is for good where the path loses packets and none are kept.
pub(super) const PATIENCE: Duration = Duration::from_secs(5);

/// All that packets pass through.
struct Line {
    cluster: Cluster,
    player: Player,
    input: Input,
    outputs: Outputs,
    dispatcher: Dispatcher,
    events: Option<EventFile>,
    /// Away while it is answered.
    inbox: Option<Inbox>,
    /// Packets taken in.
    taken: u64,
    /// Whether packets of one side wait until those of the other are out.
    turns: bool,
    /// Side of the packets taken in last.
    side: Option<Side>,
}

/// True where a function gives flows other names. A packet from the other side
/// may then be an answer to one that is still under way, and can't be known
/// before that one is out. In a network it does not come before; captures of
/// two sides are read faster than that.
fn gives_names(file: &ChainFile) -> bool {
    let mut nodes = file.chains.iter().flat_map(|chain| &chain.stage.nodes);
    nodes.any(|node| node.processor.descriptor().aliases)
}

impl Shows for Line {
    fn counts(&mut self) -> ThreadCounts {
        let pool = &self.cluster.pool;
        ThreadCounts {
            name: "switch".to_owned(),
            reports: self.cluster.reports(),
            inputs: self.input.ports().map(InputPort::counters).collect(),
            outputs: self.outputs.counters(),
            refused: self.dispatcher.refused,
            frames: (pool.available() + pool.outstanding()) as u64,
            frames_free: pool.available() as u64,
            ..ThreadCounts::default()
        }
    }

    /// The runtimes have threads of their own.
    fn parts(&mut self, _visit: &mut Visit<'_>) {}

    fn take_events(&mut self) {}

    fn now(&self) -> Option<Time> {
        None
    }
}

impl Line {
    /// Moves packets until the inputs have ended and all of them are out.
    fn drive(
        &mut self,
        progress: &indicatif::ProgressBar,
        watched: &mut Watched<'_>,
    ) -> Result<(), Failure> {
        let mut input = Vec::with_capacity(2 * BATCH);
        let mut out = Vec::with_capacity(16 * BATCH);
        let mut lines = Vec::new();
        let mut batches = 0u64;
        // Why reading has ended.
        let mut ended: Option<Result<(), Failure>> = None;
        let mut last_work = Instant::now();
        let (mut rounds, mut idle) = (0u64, true);
        loop {
            rounds += 1;
            if idle || rounds.is_multiple_of(LOOK) {
                self.answer();
            }
            self.player.play(&mut self.cluster, self.taken)?;
            self.input.look();
            let room = self.cluster.room().min(self.player.room(self.taken));
            let mut read = 0;
            let turning = !input.is_empty();
            if turning {
                if self.cluster.in_flight() == 0 {
                    read = self.take(&mut input);
                }
            } else if ended.is_none() && room > 0 {
                let pool = &mut self.cluster.pool;
                let received = self.input.receive(pool, &mut input, BATCH.min(room));
                match received {
                    Err(error) => ended = Some(Err(Failure::outside(error.to_string()))),
                    Ok(Received::End) => ended = Some(Ok(())),
                    Ok(Received::More) => {}
                }
                if !self.is_turn(&input) {
                    read = self.take(&mut input);
                }
                batches += 1;
                if batches.is_multiple_of(1_024) {
                    show(progress, &self.input);
                }
            }
            let worked = self
                .cluster
                .step(&mut out, &mut lines, read == 0)
                .map_err(failure)?;
            idle = !worked && read == 0;
            self.write(&mut out, &mut lines)?;
            if !watched.look()? && ended.is_none() {
                ended = Some(Ok(()));
            }
            let Some(why) = ended.as_ref().filter(|_| !worked && input.is_empty()) else {
                last_work = Instant::now();
                continue;
            };
            if self.player.end(self.taken) && self.cluster.is_quiet() {
                return why.clone();
            }
            if last_work.elapsed() > PATIENCE {
                let left = self.cluster.in_flight();
                self.player.warnings.push(format!(
                    "{left} packets were still on their way when nothing happened any more"
                ));
                return why.clone();
            }
        }
    }

    /// Answers what is asked, or a part of it.
    fn answer(&mut self) {
        if let Some(mut inbox) = self.inbox.take() {
            inbox.answer(self);
            self.inbox = Some(inbox);
        }
    }

    /// True where packets come from another side than those before, and have
    /// to wait for them.
    fn is_turn(&mut self, input: &[Frame]) -> bool {
        let Some(first) = input.first().filter(|_| self.turns) else {
            return false;
        };
        let side = Some(self.cluster.pool.memory().meta(first).side);
        let before = std::mem::replace(&mut self.side, side);
        before.is_some() && before != side
    }

    /// Hands packets to the chains that take them; gives their number.
    fn take(&mut self, input: &mut Vec<Frame>) -> usize {
        let taken = input.len();
        self.taken += taken as u64;
        if self.dispatcher.is_trivial() {
            self.cluster.take(0, input);
            return taken;
        }
        self.dispatcher.sort(&mut self.cluster.pool, input);
        for (chain, batch) in self.dispatcher.batches().enumerate() {
            if !batch.is_empty() {
                self.cluster.take(chain, batch);
            }
        }
        taken
    }

    fn write(&mut self, out: &mut Vec<Frame>, lines: &mut Vec<u8>) -> Result<(), Failure> {
        if let Some(events) = &mut self.events {
            events.write_lines(lines)?;
        }
        lines.clear();
        self.outputs.send(&mut self.cluster.pool, out)
    }

    /// Writes what came last and ends the outputs.
    fn close(&mut self, lines: &[u8]) -> Result<(), Failure> {
        if let Some(events) = &mut self.events {
            events.write_lines(lines)?;
        }
        self.outputs.finish(&mut self.cluster.pool)?;
        match &mut self.events {
            Some(events) => events.finish(),
            None => Ok(()),
        }
    }
}
