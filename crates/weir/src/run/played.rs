//! A cluster as a crew of a run with interfaces, with a script under way.

use std::time::{Duration, Instant};

use weir_io::Waker;
use weir_packet::{Frame, FramePool};

use crate::driver::inbox::Post;
use crate::driver::{Cluster, ClusterError, Crew, PartReport};
use crate::exit::Failure;

use super::cluster::PATIENCE;
use super::line::failure;
use super::player::Player;
use super::summary::{Ended, More};

/// Switch and runtimes, and what is done with them in time.
pub(super) struct Played {
    cluster: Cluster,
    player: Player,
    /// Packets taken in.
    taken: u64,
    /// No packet comes any more; since when nothing happens.
    stopped: Option<Instant>,
    quiet: bool,
    gave_up: bool,
}

impl Played {
    pub(super) fn new(cluster: Cluster, mut player: Player) -> Played {
        player.start();
        Played {
            cluster,
            player,
            taken: 0,
            stopped: None,
            quiet: false,
            gave_up: false,
        }
    }

    /// Where the runtimes are asked.
    pub(super) fn posts(&self) -> Vec<Post> {
        self.cluster.posts()
    }

    /// Ends the runtimes and adds what they did; gives the last lines of events.
    pub(super) fn sum_up(
        mut self,
        more: Option<Box<dyn More>>,
        of_run: &mut Ended,
    ) -> Result<Vec<u8>, Failure> {
        of_run.warnings.append(&mut self.player.warnings);
        if self.gave_up {
            let left = self.cluster.in_flight();
            of_run.warnings.push(format!(
                "{left} packets were still on their way when nothing happened any more"
            ));
        }
        let (end, lines) = self.cluster.finish().map_err(failure)?;
        of_run.leaked(end.leaked);
        of_run.reports = end.reports.clone();
        of_run.more.extend(more);
        of_run.more.push(Box::new(end));
        Ok(lines)
    }
}

impl Crew for Played {
    fn pool(&mut self) -> &mut FramePool {
        &mut self.cluster.pool
    }

    fn room(&self) -> usize {
        self.cluster.room().min(self.player.room(self.taken))
    }

    fn take(&mut self, chain: usize, frames: &mut Vec<Frame>) {
        self.taken += frames.len() as u64;
        self.cluster.take(chain, frames);
    }

    fn step(
        &mut self,
        out: &mut Vec<Frame>,
        events: &mut Vec<u8>,
        may_rest: bool,
    ) -> Result<bool, ClusterError> {
        self.player
            .play(&mut self.cluster, self.taken)
            .map_err(|failure| ClusterError(failure.message))?;
        let worked = self.cluster.step(out, events, may_rest)?;
        if let Some(since) = &mut self.stopped {
            if worked {
                *since = Instant::now();
            }
            self.gave_up = since.elapsed() > PATIENCE;
            self.quiet = self.player.end(self.taken) && self.cluster.is_quiet() && !worked;
        }
        Ok(worked)
    }

    fn bed(&self) -> Option<(&Waker, Duration)> {
        self.cluster.bed()
    }

    fn reports(&mut self) -> Vec<PartReport> {
        self.cluster.reports()
    }

    fn stop(&mut self) {
        self.stopped.get_or_insert_with(Instant::now);
    }

    /// All is out. The runtimes end after it, when they tell what they did.
    fn is_over(&self) -> bool {
        self.quiet || self.gave_up
    }
}
