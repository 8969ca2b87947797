//! A cluster of runtimes as what works behind the ports, with a script under
//! way.

use std::time::{Duration, Instant};

use weir_ctl::command::{CommandSender, PartReport, RuntimePlaceCounts, SwitchCounts};
use weir_exec::{ExecError, Parker, Parks as _, Round};
use weir_graph::ChainFile;
use weir_packet::{Frame, FramePool, Side, Time};

use crate::args::Run;
use crate::driver::{Cluster, Executor};

use super::audit;
use super::player::Player;
use super::summary::{Ended, More};

/// How long nothing may happen at the end before what is still on its way is
/// given up: where the path loses packets and keeps no copies, some never come.
const PATIENCE: Duration = Duration::from_secs(5);

/// Switch and runtimes, and the script that moves flows among them.
pub(super) struct Played {
    cluster: Cluster,
    player: Player,
    /// Packets taken in.
    taken: u64,
    turns: Option<Turns>,
    /// No packet comes any more; the last time at which something happened.
    stopped: Option<Instant>,
    /// The runtimes were told to finish.
    finishing: bool,
    gave_up: bool,
}

/// Holds back packets of one side until those of the other are out.
///
/// Needed if a function gives flows aliases: a packet from the other side may
/// answer one that is still under way, whose alias is not known yet. A network
/// never delivers such an answer too early, but captures of two sides are read
/// faster than packets pass.
#[derive(Default)]
struct Turns {
    /// Side of the packets taken in last.
    side: Option<Side>,
    /// Packets of the other one, with their chains.
    held: Vec<(usize, Vec<Frame>)>,
}

impl Played {
    pub(super) fn new(cluster: Cluster, mut player: Player) -> Played {
        player.start();
        Played {
            cluster,
            player,
            taken: 0,
            turns: None,
            stopped: None,
            finishing: false,
            gave_up: false,
        }
    }

    /// For captures of both sides that are read as fast as they can be.
    pub(super) fn in_turns(mut self, file: &ChainFile) -> Played {
        let mut nodes = file.chains.iter().flat_map(|chain| &chain.stage.nodes);
        let gives_names = nodes.any(|node| node.processor.descriptor().aliases);
        self.turns = gives_names.then(Turns::default);
        self
    }

    /// Command channels of the runtimes.
    pub(super) fn command_senders(&self) -> Vec<CommandSender> {
        self.cluster.command_senders()
    }

    /// Adds what switch and runtimes did.
    pub(super) fn sum_up(mut self, args: &Run, more: Option<Box<dyn More>>, of_run: &mut Ended) {
        of_run.warnings.append(&mut self.player.warnings);
        let mut end = self.cluster.end();
        of_run.warnings.extend(end.deaths.iter().cloned());
        of_run.leaked(end.leaked);
        of_run.reports = end.reports.clone();
        of_run.more.extend(more);
        audit::add(args, std::mem::take(&mut end.lies), of_run);
        of_run.more.push(Box::new(end));
    }

    /// True where these packets must wait for those of the other side.
    fn must_wait(&mut self, chain: usize, frames: &mut Vec<Frame>) -> bool {
        let (Some(turns), Some(first)) = (&mut self.turns, frames.first()) else {
            return false;
        };
        let side = Some(self.cluster.pool.memory().meta(first).side);
        let before = turns
            .side
            .replace(self.cluster.pool.memory().meta(first).side);
        let turned = before.is_some() && before != side;
        if turned || !turns.held.is_empty() {
            turns.held.push((chain, std::mem::take(frames)));
            return true;
        }
        false
    }

    /// Takes in what waited, once the packets before it are out.
    fn release(&mut self) {
        let Some(turns) = &mut self.turns else { return };
        if turns.held.is_empty() || self.cluster.in_flight() > 0 {
            return;
        }
        for (chain, mut frames) in turns.held.drain(..) {
            self.taken += frames.len() as u64;
            self.cluster.take(chain, &mut frames);
        }
    }

    fn holds_back(&self) -> bool {
        self.turns
            .as_ref()
            .is_some_and(|turns| !turns.held.is_empty())
    }

    /// Once no packet comes any more: ends the runtimes when all packets are
    /// out, or nothing has happened for too long.
    fn wind_down(&mut self, worked: bool) {
        let Some(since) = &mut self.stopped else {
            return;
        };
        if worked {
            *since = Instant::now();
        }
        let given_up = since.elapsed() > PATIENCE;
        if self.finishing || worked || self.holds_back() {
            return;
        }
        let quiet = self.player.end(self.taken) && self.cluster.is_quiet();
        if given_up && !quiet && !self.gave_up {
            self.gave_up = true;
            let left = self.cluster.in_flight();
            self.player.warnings.push(format!(
                "{left} packets were still on their way when nothing happened any more"
            ));
        }
        if quiet || given_up {
            self.finishing = true;
            self.cluster.stop_all();
        }
    }
}

impl Executor for Played {
    fn pool(&mut self) -> &mut FramePool {
        &mut self.cluster.pool
    }

    fn room(&self) -> usize {
        if self.holds_back() {
            return 0;
        }
        self.cluster.room().min(self.player.room(self.taken))
    }

    fn take(&mut self, chain: usize, frames: &mut Vec<Frame>) {
        if self.must_wait(chain, frames) {
            return;
        }
        self.taken += frames.len() as u64;
        self.cluster.take(chain, frames);
    }

    fn step(&mut self, out: &mut Vec<Frame>, events: &mut Vec<u8>) -> Result<Round, ExecError> {
        self.release();
        self.player
            .play(&mut self.cluster, self.taken)
            .map_err(|failure| ExecError(failure.message))?;
        let round = self.cluster.advance(out, events)?;
        self.wind_down(round.worked);
        Ok(round)
    }

    fn runtimes(&self) -> Vec<RuntimePlaceCounts> {
        self.cluster.places()
    }

    fn switches(&self) -> Vec<SwitchCounts> {
        self.cluster.switches()
    }

    fn parker(&self) -> Option<&Parker> {
        Some(self.cluster.parker())
    }

    fn pass_time(&mut self, now: Time) -> bool {
        self.cluster.pass_time(now);
        false
    }

    fn prepare_park(&mut self) -> bool {
        self.cluster.reads().prepare_park()
    }

    fn unpark(&mut self) {
        self.cluster.reads().unpark();
    }

    fn reports(&mut self) -> Vec<PartReport> {
        self.cluster.reports()
    }

    fn stop(&mut self) {
        self.stopped.get_or_insert_with(Instant::now);
    }

    fn is_over(&self) -> bool {
        self.finishing && self.cluster.is_over()
    }
}
