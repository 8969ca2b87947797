//! Questions to threads that move packets, and their answers.
//!
//! A thread looks into its [`Inbox`] between bursts, where it looks about
//! anyway; whoever asks ([`Post`]) waits elsewhere. So nobody who asks holds a
//! lock that packets need, a packet costs nothing more when nobody asks, and
//! what is asked is bounded: so many questions wait, and one that needs a walk
//! over all flows is answered in slices.

mod flows;

use std::collections::VecDeque;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, TrySendError, sync_channel};
use std::time::Duration;

use rustix::event::{EventfdFlags, eventfd};
use tokio::sync::oneshot;
use weir_io::port::PortCounters;
use weir_packet::filter::Filter;
use weir_packet::{FlowKey, Time};

use super::executor::{Counted, Executor, PartReport, StageProcessCounts, Visit};
use super::live::LayerReport;
use crate::observe::Arm;

pub(crate) use flows::{
    Ended, FlowParts, FlowQuestion, FlowSeen, FlowSort, FlowsFound, FlowsQuestion, StatesSeen,
    in_order,
};
use flows::{Walk, parts_of};

/// Questions that may wait for a thread.
const WAITING: usize = 16;
/// Questions that are taken at one look, so that packets need not wait long.
const AT_ONCE: usize = 4;

/// Where an answer goes; nobody may be there any more.
pub(crate) type Reply<T> = oneshot::Sender<T>;

/// A command to a thread.
pub(crate) enum Question {
    /// Its counts.
    Counts(Reply<ThreadCounts>),
    /// The open flows that match.
    Flows(FlowsQuestion, Reply<FlowsFound>),
    /// One flow, and what the functions here remember of it.
    Flow(FlowQuestion, Reply<FlowParts>),
    /// To end the flows that match: how many were; `None` where the thread runs
    /// no chain whose flows can be ended.
    End(Arc<Filter>, Reply<Option<Ended>>),
    /// To do something with each of its runtimes, at once: how many there are.
    Each(Arm, Reply<usize>),
}

/// Counts of a thread.
#[derive(Clone, Debug, Default)]
pub(crate) struct ThreadCounts {
    /// Its name, for people.
    pub(crate) name: String,
    pub(crate) reports: Vec<PartReport>,
    /// Of the ports, where it has them.
    pub(crate) inputs: Vec<PortCounters>,
    pub(crate) outputs: Vec<PortCounters>,
    /// Packets that no chain takes.
    pub(crate) refused: u64,
    /// How weir stands in the network, where it has the interfaces.
    pub(crate) network: Option<LayerReport>,
    /// Stages in processes, which the thread that has the ports looks after.
    pub(crate) processes: Vec<StageProcessCounts>,
    /// Time in which it slept.
    pub(crate) idle: Duration,
    /// Packets that arrived here and went to another worker, whose flows they are.
    pub(crate) steered: u64,
    /// Frames of its pool: all that it was made with, and those free now.
    pub(crate) frames: u64,
    pub(crate) frames_free: u64,
}

impl ThreadCounts {
    /// Of a thread that shows these runtimes.
    pub(crate) fn of_parts(parts: impl FnOnce(&mut Visit<'_>)) -> ThreadCounts {
        let mut reports = Vec::new();
        parts(&mut |part| reports.push(part.report()));
        ThreadCounts {
            reports,
            ..ThreadCounts::default()
        }
    }

    /// Of the thread that has the ports: what its executor tells, and the frames.
    pub(crate) fn of<C: Executor>(executor: &mut C) -> ThreadCounts {
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
            frames: (pool.available() + pool.outstanding()) as u64,
            frames_free: pool.available() as u64,
            reports,
            processes: executor.processes(),
            ..ThreadCounts::default()
        }
    }
}

/// The parts of a thread that commands read.
pub(crate) trait Shows {
    /// Its counts.
    fn counts(&mut self) -> ThreadCounts;
    /// Its runtimes, one after another.
    fn parts(&mut self, visit: &mut Visit<'_>);
    /// How many more flows a switch may be asked to end now.
    fn room_for_ends(&self) -> usize {
        usize::MAX
    }
    /// Asks the switch to end a flow of a unit: true where there is one to ask.
    fn ask_for_end(&mut self, chain: usize, unit: u64, key: FlowKey) -> bool {
        let _ = (chain, unit, key);
        false
    }
    /// Events may have come of an answer: takes them to where they go.
    fn take_events(&mut self);
    /// The time, where packets have the machine's; else that of the last
    /// packet counts.
    fn now(&self) -> Option<Time>;
}

/// Where questions to one thread are posted.
#[derive(Clone, Debug)]
pub(crate) struct Post {
    questions: SyncSender<Question>,
    wake: Option<Arc<OwnedFd>>,
    /// Somebody has the inbox.
    begun: Arc<AtomicBool>,
}

/// Why a question was not posted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NotPosted {
    /// Too many wait.
    Full,
    /// The thread has not begun, or has ended.
    Away,
}

impl Post {
    /// Posts a question, and wakes the thread if it sleeps.
    pub(crate) fn send(&self, question: Question) -> Result<(), NotPosted> {
        if !self.begun.load(Ordering::Acquire) {
            return Err(NotPosted::Away);
        }
        match self.questions.try_send(question) {
            Ok(()) => {}
            Err(TrySendError::Full(_)) => return Err(NotPosted::Full),
            Err(TrySendError::Disconnected(_)) => return Err(NotPosted::Away),
        }
        self.wake();
        Ok(())
    }

    /// Wakes the thread if it sleeps.
    pub(crate) fn wake(&self) {
        if let Some(wake) = &self.wake {
            // A full counter wakes as well.
            let _ = rustix::io::write(wake, &1u64.to_ne_bytes());
        }
    }
}

/// A thread's end: the questions that wait.
#[derive(Debug)]
pub(crate) struct Inbox {
    questions: Receiver<Question>,
    wake: Option<Arc<OwnedFd>>,
    begun: Arc<AtomicBool>,
    /// Questions that were taken, less wake-ups that were: below zero, questions
    /// are left that will wake nobody any more.
    unwoken: i64,
    /// Commands that are answered slice by slice.
    walks: VecDeque<Walk>,
}

impl Inbox {
    /// An inbox and its post. `sleeps` is for a thread that waits for
    /// descriptors: [`Inbox::descriptor`] is one more.
    ///
    /// # Errors
    ///
    /// No descriptor is to be had.
    pub(crate) fn new(sleeps: bool) -> std::io::Result<(Post, Inbox)> {
        let (sender, receiver) = sync_channel(WAITING);
        let wake = match sleeps {
            true => {
                let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
                Some(Arc::new(eventfd(0, flags)?))
            }
            false => None,
        };
        let begun = Arc::new(AtomicBool::new(true));
        let post = Post {
            questions: sender,
            wake: wake.clone(),
            begun: Arc::clone(&begun),
        };
        let inbox = Inbox {
            questions: receiver,
            wake,
            begun,
            unwoken: 0,
            walks: VecDeque::new(),
        };
        Ok((post, inbox))
    }

    /// Whether there is a thread that looks into it; one that never is told
    /// otherwise has one.
    pub(crate) fn begin(&self, begun: bool) {
        self.begun.store(begun, Ordering::Release);
    }

    /// Wakes the thread when there is a question.
    pub(crate) fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.wake.as_deref().map(|wake| wake.as_fd())
    }

    /// True while an answer is under way, or questions are left: the thread should
    /// not sleep, and look again soon.
    pub(crate) fn is_busy(&self) -> bool {
        !self.walks.is_empty() || self.unwoken < 0
    }

    /// All questions that wait, for a thread that has others answer them and
    /// sleeps until the next one.
    pub(crate) fn all(&mut self) -> Vec<Question> {
        // First, so that what comes from here on wakes it again.
        if let Some(wake) = &self.wake {
            let _ = rustix::io::read(wake, &mut [0; 8]);
        }
        self.questions.try_iter().collect()
    }

    /// Answers what waits, or a part of it.
    pub(crate) fn answer(&mut self, shows: &mut dyn Shows) {
        for _ in 0..AT_ONCE {
            match self.questions.try_recv() {
                Ok(question) => {
                    self.unwoken += 1;
                    self.take(question, shows);
                }
                Err(TryRecvError::Empty | TryRecvError::Disconnected) => break,
            }
        }
        self.take_wakes();
        if let Some(walk) = self.walks.front_mut()
            && walk.step(shows)
        {
            self.walks.pop_front();
        }
    }

    /// A wake-up may come after its question was taken: it is waited for, or
    /// the thread would not sleep any more.
    fn take_wakes(&mut self) {
        if self.unwoken <= 0 {
            return;
        }
        let Some(wake) = &self.wake else {
            self.unwoken = 0;
            return;
        };
        let mut count = [0; 8];
        if let Ok(8) = rustix::io::read(wake, &mut count) {
            let woken = i64::try_from(u64::from_ne_bytes(count)).unwrap_or(i64::MAX);
            self.unwoken = self.unwoken.saturating_sub(woken);
        }
    }

    fn take(&mut self, question: Question, shows: &mut dyn Shows) {
        match question {
            // Nobody is there any more where an answer can't be given.
            Question::Counts(reply) => {
                let _ = reply.send(shows.counts());
            }
            Question::Each(action, reply) => {
                let mut count = 0;
                shows.parts(&mut |part| {
                    action.apply(part.runtime);
                    count += 1;
                });
                let _ = reply.send(count);
            }
            Question::Flow(which, reply) => {
                let _ = reply.send(parts_of(which, shows));
            }
            Question::End(filter, reply) => self.walks.push_back(Walk::end(filter, reply)),
            Question::Flows(wanted, reply) => self.walks.push_back(Walk::list(wanted, reply)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Nothing;

    impl Shows for Nothing {
        fn counts(&mut self) -> ThreadCounts {
            ThreadCounts::default()
        }
        fn parts(&mut self, _: &mut Visit<'_>) {}
        fn take_events(&mut self) {}
        fn now(&self) -> Option<Time> {
            None
        }
    }

    fn is_woken(inbox: &Inbox) -> bool {
        use rustix::event::{PollFd, PollFlags, poll};
        let fd = inbox.descriptor().unwrap();
        let now = rustix::event::Timespec::default();
        poll(&mut [PollFd::new(&fd, PollFlags::IN)], Some(&now)).unwrap() > 0
    }

    /// All wake-ups are taken with the first questions.
    #[test]
    fn a_thread_that_is_asked_much_at_once_answers_all_before_it_sleeps() {
        let (post, mut inbox) = Inbox::new(true).unwrap();
        let ask = |count: usize| -> Vec<_> {
            let one = |_| {
                let (reply, answer) = oneshot::channel();
                post.send(Question::Counts(reply)).unwrap();
                answer
            };
            (0..count).map(one).collect()
        };
        for count in [2 * AT_ONCE + 1, 1, AT_ONCE, AT_ONCE + 1] {
            let mut answers = ask(count);
            assert!(is_woken(&inbox));
            while is_woken(&inbox) || inbox.is_busy() {
                inbox.answer(&mut Nothing);
            }
            for answer in &mut answers {
                assert!(answer.try_recv().is_ok(), "{count}");
            }
        }
    }
}
