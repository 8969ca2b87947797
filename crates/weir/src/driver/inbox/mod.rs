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
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, TrySendError, sync_channel};
use std::time::Duration;

use rustix::event::{EventfdFlags, eventfd};
use tokio::sync::oneshot;
use weir_io::port::PortCounters;
use weir_packet::filter::Filter;
use weir_packet::{Frame, FramePool, Time};
use weir_runtime::{Report, Runtime};

use super::crew::Crew;
use crate::watch::Arm;

pub(crate) use flows::{
    FlowQuestion, FlowSeen, FlowSort, FlowsFound, FlowsQuestion, StatesSeen, in_order,
};
use flows::{Walk, states_of};

/// Questions that may wait for a thread.
const WAITING: usize = 16;
/// Questions that are taken at one look, so that packets need not wait long.
const AT_ONCE: usize = 4;

/// Where an answer goes; nobody may be there any more.
pub(crate) type Reply<T> = oneshot::Sender<T>;

/// What a thread is asked.
pub(crate) enum Question {
    /// Its counts.
    Counts(Reply<ThreadCounts>),
    /// The open flows that match.
    Flows(FlowsQuestion, Reply<FlowsFound>),
    /// One flow with its states.
    Flow(FlowQuestion, Reply<Option<Box<StatesSeen>>>),
    /// To end the flows that match: how many were; `None` where the thread runs
    /// no chain whose flows can be ended.
    End(Arc<Filter>, Reply<Option<u64>>),
    /// To do something with each of its runtimes, at once: how many there are.
    Each(Arm, Reply<usize>),
}

/// The report of one stage of a chain by one thread. Those of the same stage
/// add up; those of a chain's stages follow one another.
#[derive(Clone, Debug)]
pub(crate) struct StageReport {
    pub(crate) chain: usize,
    pub(crate) stage: usize,
    pub(crate) report: Report,
}

impl StageReport {
    /// Of chains that one thread runs from first to last.
    pub(crate) fn alone(runtimes: &[Runtime]) -> Vec<StageReport> {
        let reports = runtimes.iter().enumerate();
        let of = |(chain, runtime): (usize, &Runtime)| StageReport {
            chain,
            stage: 0,
            report: runtime.report(),
        };
        reports.map(of).collect()
    }
}

/// What a thread counts.
#[derive(Clone, Debug, Default)]
pub(crate) struct ThreadCounts {
    /// What it is, in words.
    pub(crate) name: String,
    pub(crate) reports: Vec<StageReport>,
    /// Of the ports, where it has them.
    pub(crate) inputs: Vec<PortCounters>,
    pub(crate) outputs: Vec<PortCounters>,
    /// Packets that no chain takes.
    pub(crate) refused: u64,
    /// Time in which it slept.
    pub(crate) idle: Duration,
    /// Frames of its pool: all that it was made with, and those free now.
    pub(crate) frames: u64,
    pub(crate) frames_free: u64,
}

impl ThreadCounts {
    /// Of the thread that has the ports: what its crew tells, and the frames.
    pub(crate) fn of<C: Crew>(crew: &mut C) -> ThreadCounts {
        let reports = match crew.runtimes() {
            Some((runtimes, _)) => StageReport::alone(runtimes),
            None => Vec::new(),
        };
        let name = match reports.as_slice() {
            [] => "ports",
            _ => "chains",
        };
        let pool = crew.pool();
        ThreadCounts {
            name: name.to_owned(),
            frames: (pool.available() + pool.outstanding()) as u64,
            frames_free: pool.available() as u64,
            reports,
            ..ThreadCounts::default()
        }
    }
}

/// The runtimes of a thread, and what ending a flow there needs.
pub(crate) struct Chains<'a> {
    /// By the number of their chain.
    pub(crate) runtimes: &'a mut [Runtime],
    pub(crate) pool: &'a mut FramePool,
    /// Where later stages are told.
    pub(crate) output: &'a mut Vec<Frame>,
}

/// What a thread shows of itself.
pub(crate) trait Shows {
    /// Its counts.
    fn counts(&mut self) -> ThreadCounts;
    /// Its chains, where it runs any.
    fn chains(&mut self) -> Option<Chains<'_>>;
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
}

/// Why a question was not posted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NotPosted {
    /// Too many wait.
    Full,
    /// The thread has ended.
    Over,
}

impl Post {
    /// Posts a question, and wakes the thread if it sleeps.
    pub(crate) fn send(&self, question: Question) -> Result<(), NotPosted> {
        match self.questions.try_send(question) {
            Ok(()) => {}
            Err(TrySendError::Full(_)) => return Err(NotPosted::Full),
            Err(TrySendError::Disconnected(_)) => return Err(NotPosted::Over),
        }
        if let Some(wake) = &self.wake {
            // A full counter wakes as well.
            let _ = rustix::io::write(wake, &1u64.to_ne_bytes());
        }
        Ok(())
    }
}

/// A thread's end: the questions that wait.
#[derive(Debug)]
pub(crate) struct Inbox {
    questions: Receiver<Question>,
    wake: Option<Arc<OwnedFd>>,
    /// Questions taken whose wake-ups were not taken yet.
    unwoken: u64,
    /// What is answered bit by bit.
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
        let post = Post {
            questions: sender,
            wake: wake.clone(),
        };
        let inbox = Inbox {
            questions: receiver,
            wake,
            unwoken: 0,
            walks: VecDeque::new(),
        };
        Ok((post, inbox))
    }

    /// Wakes the thread when there is a question.
    pub(crate) fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.wake.as_deref().map(|wake| wake.as_fd())
    }

    /// True while an answer is under way: the thread should not sleep, and look
    /// again soon.
    pub(crate) fn is_busy(&self) -> bool {
        !self.walks.is_empty()
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
        if self.unwoken == 0 {
            return;
        }
        let Some(wake) = &self.wake else {
            self.unwoken = 0;
            return;
        };
        let mut count = [0; 8];
        if let Ok(8) = rustix::io::read(wake, &mut count) {
            self.unwoken = self.unwoken.saturating_sub(u64::from_ne_bytes(count));
        }
    }

    fn take(&mut self, question: Question, shows: &mut dyn Shows) {
        match question {
            // Nobody is there any more where an answer can't be given.
            Question::Counts(reply) => {
                let _ = reply.send(shows.counts());
            }
            Question::Each(action, reply) => {
                let runtimes = shows.chains().map(|chains| chains.runtimes);
                let count = runtimes.map_or(0, |runtimes| {
                    runtimes.iter_mut().for_each(|runtime| action(runtime));
                    runtimes.len()
                });
                let _ = reply.send(count);
            }
            Question::Flow(which, reply) => {
                let _ = reply.send(states_of(which, shows));
            }
            Question::End(filter, reply) => self.walks.push_back(Walk::end(filter, reply)),
            Question::Flows(wanted, reply) => self.walks.push_back(Walk::list(wanted, reply)),
        }
    }
}
