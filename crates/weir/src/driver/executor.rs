//! The interface of executors to the ports: packets go in and come out on the calling
//! thread.

use std::os::fd::BorrowedFd;
use std::sync::{Arc, Mutex, PoisonError};

use weir_ctl::command::{
    Counted, HandingOver, MoveUnits, Moving, Part, PartReport, Replacement, Resize, Resizing,
    RuntimePlaceCounts, ScalingCounts, StageProcessCounts, SwitchCounts, ThreadCounts, Visit,
};
use weir_ctl::observe::Unseen;
use weir_exec::{ExecError, Parker, Round};
use weir_nf::EventLog;
use weir_packet::{Frame, FramePool, Time};
use weir_runtime::Runtime;

/// Shows runtimes of whole chains, in the order of these.
pub(crate) fn visit_alone(
    runtimes: &mut [Runtime],
    pool: &mut FramePool,
    output: &mut Vec<Frame>,
    visit: &mut Visit<'_>,
) {
    for (chain, runtime) in runtimes.iter_mut().enumerate() {
        visit(Part {
            chain,
            stage: 0,
            runtime,
            pool: &mut *pool,
            output: &mut *output,
        });
    }
}

/// Threads that take packets through chains, seen from the one that has the
/// ports.
pub trait Executor {
    /// Frames for packets that come in.
    fn pool(&mut self) -> &mut FramePool;

    /// Packets that may be taken in now. A port that can wait is read for no
    /// more, so that nothing needs to be dropped.
    fn room(&self) -> usize;

    /// Packets from the ports for a chain.
    fn take(&mut self, chain: usize, frames: &mut Vec<Frame>);

    /// Whether the run may go on at this moment: looked at before packets are taken in and answered.
    ///
    /// # Errors
    ///
    /// It may not, and ends.
    fn may_go_on(&self) -> Result<(), ExecError> {
        Ok(())
    }

    /// Does what there is to do. Packets that leave come to the end of `out`,
    /// lines of events to that of `events`. Neither wakes threads nor waits: that
    /// is its worker's, by [`Executor::parker`].
    ///
    /// # Errors
    ///
    /// A thread has died.
    fn step(&mut self, out: &mut Vec<Frame>, events: &mut Vec<u8>) -> Result<Round, ExecError>;

    /// The time of day, told now and then also while no packet comes: flows that
    /// are idle for too long end. True where more is due, to be called again soon.
    fn pass_time(&mut self, now: Time) -> bool;

    /// Parks the calling thread; nothing where it has no others to wait for.
    fn parker(&self) -> Option<&Parker> {
        None
    }

    /// The calling thread is about to sleep; false where it must not. It steps
    /// once more before it does, and [unparks](Executor::unpark) in any case.
    fn prepare_park(&mut self) -> bool {
        true
    }

    /// The calling thread is awake.
    fn unpark(&mut self) {}

    /// Descriptors that wake the calling thread, beside its waker: of a process that
    /// has ended, say.
    fn descriptors<'a>(&'a self, into: &mut Vec<BorrowedFd<'a>>) {
        let _ = into;
    }

    /// Shows the runtimes that the calling thread has. What leaves them goes to
    /// the end of `output`, where they have no other place for it.
    fn parts(&mut self, output: &mut Vec<Frame>, visit: &mut Visit<'_>) {
        let _ = (output, visit);
    }

    /// The calling thread's counts of chains.
    fn reports(&mut self) -> Vec<PartReport> {
        let mut reports = Vec::new();
        self.parts(&mut Vec::new(), &mut |part| reports.push(part.report()));
        reports
    }

    /// Stages that are processes of their own.
    fn processes(&self) -> Vec<StageProcessCounts> {
        Vec::new()
    }

    /// Places of runtimes behind a switch.
    fn runtimes(&self) -> Vec<RuntimePlaceCounts> {
        Vec::new()
    }

    /// Switches before runtimes, by chain.
    fn switches(&self) -> Vec<SwitchCounts> {
        Vec::new()
    }

    /// How the number of runtimes follows their load, where it does.
    fn scaling(&self) -> Option<ScalingCounts> {
        None
    }

    /// Has the switch move units, where there is one.
    fn move_units(&mut self, wanted: &MoveUnits) -> Moving {
        let _ = wanted;
        None
    }

    /// Starts or drains runtimes, where there is a switch.
    fn resize(&mut self, wanted: &Resize) -> Resizing {
        let _ = wanted;
        None
    }

    /// Has the switch leave its runtimes to the next one at its end, where there is a switch: whether
    /// it can.
    fn hand_over(&mut self) -> HandingOver {
        None
    }

    /// Functions were replaced in the runtimes of [`Executor::parts`]: those that start from now on
    /// have the new ones, and what else the calling thread has of them.
    fn replace(&mut self, new: &Arc<Replacement>) {
        let _ = new;
    }

    /// Stages that whoever looks on is not shown.
    fn unseen(&self) -> Vec<Unseen> {
        Vec::new()
    }

    /// The calling thread's number, from 0, among several that own ports, and how
    /// many packets it has steered to the others.
    fn worker(&self) -> Option<(usize, u64)> {
        None
    }

    /// No more packets come: flows are to end, and threads. To be called until
    /// [`Executor::is_over`], with a [`Executor::step`] each time.
    fn stop(&mut self);

    /// True where no thread is left, and all that left was taken.
    fn is_over(&self) -> bool;
}

/// Counts of the thread that has the ports: those of its executor, and the frames.
pub(crate) fn thread_counts<C: Executor>(executor: &mut C) -> ThreadCounts {
    let reports = executor.reports();
    let counted = |switch: bool| {
        let mut parts = reports.iter().map(|report| &report.part);
        parts.any(|part| matches!(part, Counted::Switch) == switch)
    };
    let name = match (counted(true), counted(false)) {
        (true, _) => "switch",
        (false, true) => "chains",
        (false, false) => "ports",
    };
    let pool = executor.pool();
    ThreadCounts {
        name: name.to_owned(),
        idle: weir_exec::asleep(),
        frames: (pool.available() + pool.outstanding()) as u64,
        frames_free: pool.available() as u64,
        reports,
        processes: executor.processes(),
        runtimes: executor.runtimes(),
        switches: executor.switches(),
        scaling: executor.scaling(),
        ..ThreadCounts::default()
    }
}

/// Moves the runtimes' lines of events to the end of `lines`.
pub(crate) fn take_lines(runtimes: &mut [Runtime], lines: &mut Vec<u8>) {
    for runtime in runtimes {
        take_log(runtime.events(), lines);
    }
}

/// Moves the lines of a log to the end of `lines`.
pub(crate) fn take_log(log: &mut EventLog, lines: &mut Vec<u8>) {
    lines.extend_from_slice(log.lines());
    log.clear();
}

/// Lines of events from several threads on their way to the one that writes
/// them.
///
/// A lock: it is taken once per batch and only where there are events. Its
/// reader takes what is in it before it lets in more packets, so it is bounded
/// by those under way: by what their events are, where the stage is trusted,
/// and by what they earn for one that is not.
#[derive(Clone, Debug, Default)]
pub(super) struct EventBox(Arc<Mutex<Vec<u8>>>);

impl EventBox {
    /// Moves the lines of a log here.
    pub(super) fn put(&self, log: &mut EventLog) {
        if !log.lines().is_empty() {
            // Whole lines only are ever added: a thread that died leaves none torn.
            let mut lines = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            lines.extend_from_slice(log.lines());
        }
        log.clear();
    }

    /// How many bytes wait here.
    pub(super) fn bytes(&self) -> usize {
        let lines = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        lines.len()
    }

    /// Adds whole lines.
    pub(super) fn add(&self, text: &[u8]) {
        let mut lines = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        lines.extend_from_slice(text);
    }

    /// True where there are none.
    pub(super) fn is_empty(&self) -> bool {
        let lines = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        lines.is_empty()
    }

    /// Moves the lines that are here to the end of `into`; true where there
    /// were any.
    pub(super) fn take(&self, into: &mut Vec<u8>) -> bool {
        let mut lines = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let any = !lines.is_empty();
        into.append(&mut lines);
        any
    }
}
