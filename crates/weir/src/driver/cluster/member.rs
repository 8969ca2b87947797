//! A runtime, seen from the switch's thread.

use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use weir_exec::{Forget, RestartPolicy, Restarts};
use weir_packet::{Frame, FramePool};
use weir_protocol::RuntimeId;
use weir_protocol::message::MoveMode;

use super::super::process::Relay;
use super::super::wiring::{Heir, RuntimeEnds, SwitchEnds};
use super::process::Home;

/// Places of runtimes are as many as at the start.
pub(super) const NO_MEMBER: &str = "a place of no runtime";

/// A runtime that has died gets a successor in its place, under a new id: at once the
/// first time, later after a pause, so that a bug that each packet meets does not take the
/// processor from the other runtimes.
const RUNTIME: RestartPolicy = RestartPolicy {
    first_at_once: true,
    pause: Duration::from_millis(100),
    longest: Duration::from_secs(10),
    forget: Forget::Older(Duration::from_secs(30)),
    most: Some(8),
    most_false_starts: Some(2),
};

/// One on another host is tried again for as long as the run goes on: the host may be away.
const FAR: RestartPolicy = RestartPolicy {
    most: None,
    most_false_starts: None,
    ..RUNTIME
};

/// The state of one runtime.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// It was never started.
    Absent,
    /// Its thread reserves memory.
    Starts,
    /// It may own units.
    Runs,
    /// It gives its units away.
    Drains,
    /// It was told to finish.
    Leaves,
    /// It is over. It may get a successor, or another may be started here.
    Gone,
}

/// Where a place's runtimes run.
pub(super) enum Site {
    /// On a thread of this process.
    Thread {
        /// Until the thread has them.
        theirs: Option<Box<RuntimeEnds>>,
        /// Gets the remains of the thread.
        heir: Arc<Heir>,
        /// Number of the node in the team, until that is over.
        node: Option<usize>,
        /// The way of commands to a runtime on another host, for which the node stands.
        far: Option<Relay>,
    },
    /// In a process of their own.
    Process(Box<Home>),
}

pub(super) struct Member {
    pub(super) ends: SwitchEnds,
    pub(super) site: Site,
    pub(super) state: State,
    /// A logger has this place, or a runtime.
    pub(super) is_logger: bool,
    /// The first runtime that this switch starts here: ids of earlier switches are lower.
    first: RuntimeId,
    /// When the state began.
    pub(super) entered: Instant,
    pub(super) deaths: Restarts,
    /// How often one has died here.
    pub(super) died: u64,
    /// It was drained and is the last one just now: its units go once another one is ready.
    pub(super) kept: bool,
    /// How its units were last asked to go.
    pub(super) drained: MoveMode,
    /// The runtime here is dead and the switches know it; its process has not ended yet.
    pub(super) failed_over: bool,
    /// When it began to run, and when its successor is to start.
    pub(super) since: Option<Instant>,
    pub(super) successor_at: Option<Instant>,
    /// When it has taken too long to start, or to finish.
    pub(super) late_at: Option<Instant>,
    /// Per chain: frames of an entry whose last one has not come yet.
    pub(super) partial: Vec<Vec<Frame>>,
    /// How often functions were replaced before it was made.
    pub(super) replaced: u32,
    /// Time in which ports waited for the runtimes of this place, in ns.
    pub(super) held_back: u64,
}

impl Member {
    /// One that was never started, for so many chains; it may be a logger's. Its first runtime has
    /// the id of `ends`.
    pub(super) fn absent(
        ends: SwitchEnds,
        site: Site,
        (chains, is_logger): (usize, bool),
    ) -> Member {
        let policy = match &site {
            Site::Thread { far: Some(_), .. } => FAR,
            Site::Thread { far: None, .. } | Site::Process(_) => RUNTIME,
        };
        Member {
            first: ends.id,
            ends,
            site,
            state: State::Absent,
            is_logger,
            entered: Instant::now(),
            deaths: Restarts::new(policy),
            died: 0,
            kept: false,
            drained: MoveMode::Push,
            failed_over: false,
            since: None,
            successor_at: None,
            late_at: None,
            partial: (0..chains).map(|_| Vec::new()).collect(),
            replaced: 0,
            held_back: 0,
        }
    }

    /// Begins a state; gives the one before.
    pub(super) fn enter(&mut self, state: State) -> State {
        self.entered = Instant::now();
        self.failed_over &= !matches!(state, State::Starts | State::Gone);
        std::mem::replace(&mut self.state, state)
    }

    /// True where a runtime of this place has died, or left.
    pub(super) fn is_dead(&self, id: RuntimeId) -> bool {
        self.ends.id != id || self.state == State::Gone || self.failed_over
    }

    /// True where a runtime of this place with this number has run, and is over.
    pub(super) fn has_ended(&self, id: RuntimeId) -> bool {
        let is_here = self.ends.id == id && (self.state == State::Gone || self.failed_over);
        is_here || id.0 < self.ends.id.0
    }

    /// The id of its successor, among so many places.
    pub(super) fn next_id(&self, places: usize) -> RuntimeId {
        let next = self.ends.id.0.saturating_add(places as u32);
        self.first.max(RuntimeId(next))
    }

    /// The id of a runtime that may be started here, among so many places: none was, or the last
    /// one is over, and none is to take its place.
    pub(super) fn free_for(&self, places: usize) -> Option<RuntimeId> {
        match self.state {
            State::Absent => Some(self.ends.id),
            State::Gone if self.successor_at.is_none() => Some(self.next_id(places)),
            _ => None,
        }
    }

    /// Number of its node in the team, where it is on a thread.
    pub(super) fn node(&self) -> Option<usize> {
        match &self.site {
            Site::Thread { node, .. } => *node,
            Site::Process(_) => None,
        }
    }

    /// Its process, where it has one.
    pub(super) fn process(&mut self) -> Option<&mut Home> {
        match &mut self.site {
            Site::Thread { .. } => None,
            Site::Process(home) => Some(home),
        }
    }

    /// The same, to be looked at.
    pub(super) fn home(&self) -> Option<&Home> {
        match &self.site {
            Site::Thread { .. } => None,
            Site::Process(home) => Some(home),
        }
    }

    /// True where a process of its is not known to be over.
    pub(super) fn has_process(&self) -> bool {
        matches!(&self.site, Site::Process(home) if home.is_up())
    }

    /// Can be read from when its process has ended.
    pub(super) fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        match &self.site {
            Site::Thread { .. } => None,
            Site::Process(home) => home.descriptor(),
        }
    }

    /// The switch's thread is about to sleep; false where it must not.
    pub(super) fn prepare_park(&mut self) -> bool {
        match &mut self.site {
            // A ring whose writer is over is never asleep for.
            Site::Process(home) if home.is_up() => home.prepare_park() & self.ends.prepare_park(),
            _ => true,
        }
    }

    /// The switch's thread is awake.
    pub(super) fn unpark(&mut self) {
        if let Site::Process(home) = &mut self.site {
            home.unpark();
            self.ends.unpark();
        }
    }

    /// Its state in a word; `None` of one that was never started.
    pub(super) fn word(&self) -> Option<&'static str> {
        Some(match self.state {
            State::Absent => return None,
            State::Starts => "starting",
            State::Runs => "ready",
            State::Drains => "draining",
            State::Leaves => "leaving",
            State::Gone if self.successor_at.is_some() => "starting",
            State::Gone => "over",
        })
    }

    /// What it was to have done by now.
    pub(super) fn is_late(&self, now: Instant) -> Option<&'static str> {
        self.late_at.filter(|at| *at <= now)?;
        match self.state {
            State::Starts => Some("it was not ready in time"),
            State::Leaves => Some("it did not finish in time"),
            _ => None,
        }
    }

    /// True where a runtime starts here, or is to: also where the one before is dead, and its process
    /// not yet over.
    pub(super) fn is_to_come(&self) -> bool {
        let is_dead = self.state == State::Runs && self.failed_over;
        self.state == State::Starts || self.successor_at.is_some() || is_dead
    }

    /// True where its runtime lives, and was not told to finish.
    pub(super) fn serves(&self) -> bool {
        self.is_up() && !self.failed_over
    }

    /// True where it may get units, or copies of them.
    pub(super) fn is_ready(&self) -> bool {
        self.state == State::Runs && !self.failed_over
    }

    /// True where it may get units.
    pub(super) fn takes_units(&self) -> bool {
        self.is_ready() && !self.is_logger
    }

    /// Number of its runtime, or of the successor that is waited for, among so many places.
    pub(super) fn shown_id(&self, places: usize) -> RuntimeId {
        match self.successor_at {
            Some(_) => self.next_id(places),
            None => self.ends.id,
        }
    }

    /// Gives back the packets that wait for room on the way to its runtime.
    pub(super) fn give_back_waiting(&mut self, pool: &mut FramePool) {
        for queue in &mut self.ends.data {
            pool.give_all(&mut queue.take_waiting());
        }
    }

    /// True where its thread runs and was not told to finish.
    pub(super) fn is_up(&self) -> bool {
        matches!(self.state, State::Runs | State::Drains)
    }
}
