//! A cluster of runtimes as what works behind the ports, with a script under
//! way.

use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use weir_ctl::command::{
    CommandSender, HandingOver, MoveUnits, Moving, PartReport, Replacement, Resize, Resizing,
    RuntimePlaceCounts, ScalingCounts, SwitchCounts,
};
use weir_exec::{ExecError, Parker, Parks as _, Round};
use weir_graph::ChainFile;
use weir_packet::{Frame, FramePool, Side, Time};
use weir_protocol::RuntimeId;
use weir_protocol::message::Selection;

use crate::args::Run;
use crate::driver::{Cluster, Executor, HANDED_OVER};
use crate::say::say;

use super::audit;
use super::player::{Player, move_mode};
use super::resize::Leaving;
use super::scaling::Scaler;
use super::summary::{Ended, More};

/// How long nothing may be let out at the end before what is still on its way is
/// given up: where the path loses packets and keeps no copies, some never come. That
/// something is tried again and again does not count.
const PATIENCE: Duration = Duration::from_secs(5);
/// Interval in which it is looked at what was let out.
const LOOK: Duration = Duration::from_millis(20);
/// Longest time in which runtimes end all flows.
const FINISH: Duration = Duration::from_secs(15);
/// The same where some have not answered for [`PATIENCE`].
const FINISH_STUCK: Duration = Duration::from_secs(2);
/// How much later a thread, which can't be killed, is no longer waited for.
const THREADS: Duration = Duration::from_secs(15);

/// No runtime is asked for anything any more: all end soon.
const ABOUT_TO_END: &str = "this instance is about to end";

/// Switch and runtimes, and the script that moves flows among them.
pub(super) struct Played {
    cluster: Cluster,
    player: Player,
    leaving: Leaving,
    scaler: Option<Scaler>,
    /// Packets taken in.
    taken: u64,
    turns: Option<Turns>,
    /// No packet comes any more.
    stopped: Option<Progress>,
    /// The runtimes were told to finish; when they are no longer waited for.
    finishing: Option<Instant>,
    /// At the end the runtimes are left to another switch, with all flows.
    hands_over: bool,
}

/// What was let out when no packet came any more, and since when it is the same.
#[derive(Clone, Copy)]
struct Progress {
    seen: [u64; 3],
    since: Instant,
    looked: Instant,
}

impl Progress {
    fn new(seen: [u64; 3]) -> Progress {
        let now = Instant::now();
        Progress {
            seen,
            since: now,
            looked: now,
        }
    }

    /// True where nothing was let out for too long.
    fn is_stuck(&mut self, now: Instant, seen: impl FnOnce() -> [u64; 3]) -> bool {
        if now - self.looked >= LOOK {
            self.looked = now;
            let seen = seen();
            let [before, ways, moves] = &mut self.seen;
            // What is under way may go up and down without end: it counts where it is less
            // than it ever was.
            if seen[0] != *before || seen[1] < *ways || seen[2] < *moves {
                self.since = now;
            }
            *before = seen[0];
            *ways = seen[1].min(*ways);
            *moves = seen[2].min(*moves);
        }
        now - self.since > PATIENCE
    }
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
            leaving: Leaving::default(),
            scaler: None,
            taken: 0,
            turns: None,
            stopped: None,
            finishing: None,
            hands_over: false,
        }
    }

    /// At the end the runtimes are left to another switch, with all flows.
    pub(super) fn handing_over(self, hands_over: bool) -> Played {
        Played { hands_over, ..self }
    }

    /// Runtimes are started and drained as their load asks for.
    pub(super) fn scaled(self, scaler: Option<Scaler>) -> Played {
        Played { scaler, ..self }
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
        // What runtimes have that were left to another switch, or to none, can't come back.
        if self.finishing.is_some() {
            of_run.leaked(end.leaked);
        }
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
        // Without a runtime they wait for its successor, as what is not read yet does.
        if turns.held.is_empty() || self.cluster.in_flight() > 0 || self.cluster.room() == 0 {
            return;
        }
        self.take_held();
    }

    fn take_held(&mut self) {
        let Some(turns) = &mut self.turns else { return };
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
    /// out, or none was let out for too long.
    ///
    /// # Errors
    ///
    /// A runtime's thread does not end.
    fn wind_down(&mut self, worked: bool) -> Result<(), ExecError> {
        let Some(progress) = &mut self.stopped else {
            return Ok(());
        };
        let now = Instant::now();
        if let Some(until) = self.finishing {
            // A switch that stood still finds them over, and not late.
            return match now < until || self.cluster.is_over() {
                true => Ok(()),
                false => Err(self.unfinished()),
            };
        }
        // Nobody is left who could let anything out.
        let stuck =
            progress.is_stuck(now, || self.cluster.progress()) || self.cluster.is_deserted();
        let waits = worked || self.holds_back();
        let quiet = !waits && self.player.end(self.taken) && self.cluster.is_quiet();
        if quiet || stuck {
            if !quiet {
                self.give_up();
            }
            if self.hands_over {
                self.cluster.leave_place();
                return Err(ExecError(HANDED_OVER.to_owned()));
            }
            let most = if quiet { FINISH } else { FINISH_STUCK };
            self.finishing = Some(now + most + THREADS);
            self.cluster.stop_all(most);
        }
        Ok(())
    }

    /// Says what does not come any more.
    fn give_up(&mut self) {
        // They are counted as those are that are on their way.
        self.take_held();
        let (left, moves) = (self.cluster.in_flight(), self.cluster.moves_under_way());
        let mut what = Vec::new();
        if left > 0 {
            what.push(format!("{left} packets are still on their way"));
        }
        if moves > 0 {
            what.push(format!("{moves} moves of flows are not done"));
        }
        if what.is_empty() {
            return;
        }
        let why = match self.cluster.is_deserted() {
            true => "no runtime is left".to_owned(),
            false => format!("nothing was let out for {} s", PATIENCE.as_secs()),
        };
        let said = format!("{}: {why}, and they are given up", what.join(" and "));
        say(format_args!("warning: {said}"));
        self.player.warnings.push(said);
    }

    fn unfinished(&self) -> ExecError {
        let ids = self.cluster.unfinished();
        let ids: Vec<String> = ids.iter().map(ToString::to_string).collect();
        ExecError(format!(
            "runtime {} does not end: its last counts and events are missing",
            ids.join(", ")
        ))
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

    fn may_go_on(&self) -> Result<(), ExecError> {
        self.cluster.keep_place()
    }

    fn step(&mut self, out: &mut Vec<Frame>, events: &mut Vec<u8>) -> Result<Round, ExecError> {
        self.release();
        self.player
            .play(&mut self.cluster, self.taken)
            .map_err(|failure| ExecError(failure.message))?;
        self.leaving.attend(&mut self.cluster);
        // At the end nobody comes or goes any more.
        if let (Some(scaler), None) = (&mut self.scaler, self.stopped) {
            scaler.attend(&mut self.cluster, &mut self.leaving);
        }
        let round = self.cluster.advance(out, events)?;
        self.wind_down(round.worked)?;
        Ok(round)
    }

    fn runtimes(&self) -> Vec<RuntimePlaceCounts> {
        self.cluster.places()
    }

    fn move_units(&mut self, wanted: &MoveUnits) -> Moving {
        if self.stopped.is_some() {
            return Some(Err(ABOUT_TO_END.to_owned()));
        }
        for (id, way) in [(wanted.from, "from"), (wanted.to, "to")] {
            if self.cluster.has_ended(RuntimeId(id)) {
                let why = format!(
                    "runtime {id}, to move {way}, is over: `weir get runtimes` shows who runs in \
                     its place"
                );
                return Some(Err(why));
            }
        }
        let between = (RuntimeId(wanted.from), RuntimeId(wanted.to));
        let what = wanted.count.map_or(Selection::All, Selection::Number);
        let mode = move_mode(wanted.mode);
        let moved = self.cluster.move_units(None, between, &what, mode);
        Some(moved.map_err(|why| why.to_string()))
    }

    fn resize(&mut self, wanted: &Resize) -> Resizing {
        if self.stopped.is_some() {
            return Some(Err(ABOUT_TO_END.to_owned()));
        }
        if let (Some(scaler), Resize::Scale(count, _)) = (&self.scaler, wanted)
            && let Err(why) = scaler.allows(*count)
        {
            return Some(Err(why));
        }
        let begun = self.leaving.begin(&mut self.cluster, wanted);
        if begun.is_ok() {
            self.leaving.note_request(&self.cluster, wanted);
        }
        Some(begun)
    }

    fn hand_over(&mut self) -> HandingOver {
        if self.stopped.is_some() {
            return Some(Err(ABOUT_TO_END.to_owned()));
        }
        let handing_over = self.cluster.may_hand_over();
        self.hands_over |= handing_over.is_ok();
        Some(handing_over)
    }

    fn replace(&mut self, new: &Arc<Replacement>) {
        self.cluster.replace(new);
    }

    fn switches(&self) -> Vec<SwitchCounts> {
        self.cluster.switches()
    }

    fn scaling(&self) -> Option<ScalingCounts> {
        self.scaler.as_ref().map(Scaler::counts)
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

    fn descriptors<'a>(&'a self, into: &mut Vec<BorrowedFd<'a>>) {
        self.cluster.descriptors(into);
    }

    fn reports(&mut self) -> Vec<PartReport> {
        self.cluster.reports()
    }

    fn stop(&mut self) {
        if self.stopped.is_none() {
            self.leaving.end();
            self.stopped = Some(Progress::new(self.cluster.progress()));
        }
    }

    fn is_over(&self) -> bool {
        self.finishing.is_some() && self.cluster.is_over()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::driver::ClusterBed;

    /// Repeats and timers are no progress: that something was let out is.
    #[test]
    fn patience_is_counted_by_what_is_let_out() {
        let start = Instant::now();
        let mut progress = Progress::new([10, 4, 0]);
        let mut now = start;
        let mut look = |seen: [u64; 3], fifths: u32| {
            now += PATIENCE * fifths / 5 + LOOK;
            progress.is_stuck(now, || seen)
        };
        assert!(!look([10, 4, 0], 4));
        assert!(!look([11, 4, 0], 4), "one was let out");
        assert!(!look([11, 3, 0], 4), "one fewer is on its way");
        // A tick comes and goes.
        assert!(!look([11, 4, 0], 2));
        assert!(!look([11, 3, 0], 2));
        assert!(look([11, 4, 0], 2));
    }

    /// It neither waits for anything nor calls what the dead had a fault of weir.
    #[test]
    fn a_run_without_runtimes_ends_at_once_and_misses_no_frame() {
        let mut bed = ClusterBed::deserted();
        assert!(bed.cluster.is_deserted());
        // To nobody.
        bed.cluster.pass_time(Time(9));
        let script = weir_graph::Script::default();
        let player = Player::new(script, &bed.file);
        let mut played = Played::new(bed.cluster, player);
        let (mut out, mut events) = (Vec::new(), Vec::new());
        let start = Instant::now();
        while !played.is_over() {
            assert!(start.elapsed() < PATIENCE, "it hangs");
            played.stop();
            played.step(&mut out, &mut events).unwrap();
            played.pool().give_all(&mut out);
        }
        let end = played.cluster.end();
        assert_eq!(end.leaked, 0);
        assert_eq!(end.deaths.len(), 1, "{:?}", end.deaths);
        assert!(
            end.deaths[0].contains("none takes its place"),
            "{:?}",
            end.deaths
        );
        assert!(end.reports[0].balances(), "{:?}", end.reports);
    }
}
