//! Asking all threads of a run, and putting their answers together.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::{Semaphore, oneshot};
use tonic::Status;
use weir_api::v1;
use weir_packet::filter::Filter;
use weir_runtime::Report;

use crate::driver::inbox::{
    FlowQuestion, FlowSeen, FlowsFound, FlowsQuestion, NotPosted, Post, Question, Reply,
    StatesSeen, ThreadCounts, in_order,
};

use crate::watch::{Arm, Places};

use super::About;

/// How long a thread may take for what it answers at once.
const PROMPT: Duration = Duration::from_secs(5);
/// How long for a walk over all flows.
const WALK: Duration = Duration::from_secs(30);

/// What is said where no thread that can be asked runs a chain.
const CANT_BE_ASKED: &str = "the threads that run the chains of this instance can't be asked: it runs behind a switch or \
     in stages; `--plan rtc`, with or without --workers, can be";

/// A chain as it was written.
#[derive(Debug)]
struct Written {
    name: String,
    functions: Vec<String>,
}

/// The threads of a run, to be asked.
#[derive(Debug)]
pub(super) struct Asked {
    pub(super) info: v1::GetInfoResponse,
    posts: Vec<Post>,
    chains: Vec<Written>,
    inputs: Vec<v1::PortInfo>,
    outputs: Vec<v1::PortInfo>,
    start: Instant,
    /// One walk at a time.
    walks: Semaphore,
    /// Where taps may be.
    pub(super) places: Places,
}

/// What all threads count, put together.
#[derive(Debug)]
pub(super) struct Counts {
    pub(super) elapsed: Duration,
    /// Per chain, in the order of the file.
    pub(super) reports: Vec<Report>,
    pub(super) threads: Vec<ThreadCounts>,
}

fn not_posted(why: NotPosted) -> Status {
    match why {
        NotPosted::Full => {
            Status::resource_exhausted("too many ask this instance at once: try again")
        }
        NotPosted::Over => Status::unavailable("this instance is about to end"),
    }
}

impl Asked {
    pub(super) fn new(info: v1::GetInfoResponse, about: About<'_>, posts: Vec<Post>) -> Asked {
        let chains = about.file.chains.iter().map(|chain| Written {
            name: chain.stage.chain.clone(),
            functions: chain.stage.nodes.iter().map(|n| n.name.clone()).collect(),
        });
        let places = Places::of_run(about.file, &about.inputs);
        Asked {
            info,
            posts,
            chains: chains.collect(),
            inputs: about.inputs,
            outputs: about.outputs,
            start: Instant::now(),
            walks: Semaphore::new(1),
            places,
        }
    }

    /// Asks every thread, and waits for all of them.
    pub(super) async fn all<T>(
        &self,
        most: Duration,
        mut question: impl FnMut(Reply<T>) -> Question,
    ) -> Result<Vec<T>, Status> {
        let mut waiting = Vec::with_capacity(self.posts.len());
        for post in &self.posts {
            let (reply, answer) = oneshot::channel();
            post.send(question(reply)).map_err(not_posted)?;
            waiting.push(answer);
        }
        let mut answers = Vec::with_capacity(waiting.len());
        let until = tokio::time::Instant::now() + most;
        for answer in waiting {
            answers.push(wait(answer, until).await?);
        }
        Ok(answers)
    }

    /// What has been counted so far.
    pub(super) async fn counts(&self) -> Result<Counts, Status> {
        let threads: Vec<ThreadCounts> = self.all(PROMPT, Question::Counts).await?;
        if threads.iter().all(|thread| thread.reports.is_empty()) {
            return Err(Status::unimplemented(CANT_BE_ASKED));
        }
        let elapsed = self.start.elapsed();
        let chains = self.chains.iter().enumerate();
        let reports = chains.map(|(number, written)| {
            let mut report = whole(number, &threads);
            report.chain.clone_from(&written.name);
            let place = |name: &str| written.functions.iter().position(|n| n == name);
            report
                .functions
                .sort_by_key(|f| place(&f.name).unwrap_or(usize::MAX));
            report
        });
        Ok(Counts {
            elapsed,
            reports: reports.collect(),
            threads,
        })
    }

    pub(super) fn inputs(&self) -> &[v1::PortInfo] {
        &self.inputs
    }

    pub(super) fn outputs(&self) -> &[v1::PortInfo] {
        &self.outputs
    }

    /// The open flows that match.
    pub(super) async fn flows(&self, wanted: FlowsQuestion) -> Result<FlowsFound, Status> {
        let _turn = self.turn().await?;
        let question = |reply| Question::Flows(wanted.clone(), reply);
        let answers = self.all(WALK, question).await?;
        let mut all = FlowsFound {
            whole: true,
            ..FlowsFound::default()
        };
        for (thread, found) in (0..).zip(answers) {
            all.matched += found.matched;
            all.active += found.active;
            all.whole &= found.whole;
            all.here |= found.here;
            let flows = found.flows.into_iter();
            all.flows
                .extend(flows.map(|flow| FlowSeen { thread, ..flow }));
        }
        if !all.here {
            return Err(Status::unimplemented(CANT_BE_ASKED));
        }
        in_order(&mut all.flows, wanted.sort, wanted.reverse);
        all.flows.truncate(wanted.limit);
        Ok(all)
    }

    /// A flow that was seen before, with its states.
    pub(super) async fn states(&self, seen: &FlowSeen) -> Result<Option<Box<StatesSeen>>, Status> {
        let asked = FlowQuestion {
            chain: seen.number,
            record: seen.flow.record,
            id: seen.flow.id,
        };
        let Some(post) = self.posts.get(seen.thread as usize) else {
            return Ok(None);
        };
        let (reply, answer) = oneshot::channel();
        post.send(Question::Flow(asked, reply))
            .map_err(not_posted)?;
        wait(answer, tokio::time::Instant::now() + PROMPT).await
    }

    /// Ends the flows that match: how many were.
    pub(super) async fn end(&self, filter: Arc<Filter>) -> Result<u64, Status> {
        let _turn = self.turn().await?;
        let ended = self.all(WALK, |reply| Question::End(filter.clone(), reply));
        let ended: Vec<u64> = ended.await?.into_iter().flatten().collect();
        match ended.as_slice() {
            [] => Err(Status::unimplemented(CANT_BE_ASKED)),
            ended => Ok(ended.iter().sum()),
        }
    }

    /// Does something with every engine: how many there are.
    pub(super) async fn each(&self, action: Arm) -> Result<usize, Status> {
        let counts = self.all(PROMPT, |reply| Question::Each(action.clone(), reply));
        Ok(counts.await?.iter().sum())
    }

    async fn turn(&self) -> Result<tokio::sync::SemaphorePermit<'_>, Status> {
        match tokio::time::timeout(WALK, self.walks.acquire()).await {
            Ok(Ok(turn)) => Ok(turn),
            _ => Err(not_posted(NotPosted::Full)),
        }
    }
}

async fn wait<T>(answer: oneshot::Receiver<T>, until: tokio::time::Instant) -> Result<T, Status> {
    match tokio::time::timeout_at(until, answer).await {
        Ok(Ok(answer)) => Ok(answer),
        Ok(Err(_)) => Err(not_posted(NotPosted::Over)),
        Err(_) => Err(Status::deadline_exceeded(
            "a thread of this instance did not answer in time: it is busy or waits for a port",
        )),
    }
}

/// The report of a chain as a whole: threads of one stage add up, stages
/// follow one another.
fn whole(chain: usize, threads: &[ThreadCounts]) -> Report {
    let all = threads.iter().flat_map(|thread| &thread.reports);
    let of_chain: Vec<_> = all.filter(|report| report.chain == chain).collect();
    let last = of_chain.iter().map(|report| report.stage).max();
    let stages = (0..last.map_or(0, |last| last + 1)).map(|stage| {
        let of_stage = of_chain.iter().filter(|report| report.stage == stage);
        let reports: Vec<Report> = of_stage.map(|report| report.report.clone()).collect();
        Report::sum(&reports)
    });
    Report::chain(&stages.collect::<Vec<_>>())
}
