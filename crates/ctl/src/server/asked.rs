//! Asking all threads of a run, and putting their answers together.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::{Mutex, Semaphore, oneshot};
use tonic::Status;
use weir_api::v1;
use weir_exec::NotSent;
use weir_io::port::PortCounters;
use weir_packet::filter::Filter;
use weir_runtime::{Remembered, Report};
use weir_telemetry::Entry;

use crate::command::{
    Command, CommandSender, Comparison, Counted, Ended, FlowParts, FlowQuery, FlowSeen, FlowsFound,
    FlowsQuery, LayerReport, MoveUnits, Reply, Resize, Resized, StatesSeen, ThreadCounts, around,
    in_order,
};
use crate::events::Events;
use crate::hosts::Hosts;
use crate::observe::{Arm, Places, Unseen};
use crate::sets::Book;
use crate::upgrade::Upgrades;

use super::bill::Billed;
use super::fresh::Fresh;
use super::offer::Offer;
use super::reloads::Reloads;
use super::set_book::Sets;

/// How long a thread may take for what it answers at once.
const PROMPT: Duration = Duration::from_secs(5);
/// How old counts may be: those who ask at once share them, so that nobody can
/// keep the threads busy with questions.
const FRESH: Duration = Duration::from_millis(50);
/// The shortest interval of those who watch, in milliseconds.
pub(super) const SHORTEST: u32 = 100;
/// Each look of theirs shows something new.
const _: () = assert!(2 * FRESH.as_millis() <= SHORTEST as u128);
/// How long for a walk over all flows.
const WALK: Duration = Duration::from_secs(30);

/// Error if no thread that can be asked runs a chain.
const CANT_BE_ASKED: &str = "no thread of this instance that can be asked runs a chain";

/// A chain as it was written.
#[derive(Debug)]
pub(super) struct Written {
    pub(super) name: String,
    pub(super) functions: Vec<WrittenFunction>,
}

/// A function of a chain.
#[derive(Debug)]
pub(super) struct WrittenFunction {
    pub(super) name: String,
    /// Why it may drop.
    pub(super) drops: &'static [Entry],
}

impl Written {
    /// Each function's state once, as the chain has them: where a stage has
    /// several instances, that of the one that has it.
    fn in_order(&self, states: Vec<(usize, Remembered)>) -> Vec<Remembered> {
        let mut all: Vec<Remembered> = Vec::new();
        for (_, state) in states {
            match all.iter_mut().find(|s| s.function == state.function) {
                Some(known) if known.opened => {}
                Some(known) => *known = state,
                None => all.push(state),
            }
        }
        all.sort_by_key(|s| self.place(&s.function));
        all
    }

    /// The place of a function in the chain.
    fn place(&self, name: &str) -> usize {
        let mut functions = self.functions.iter();
        let place = functions.position(|function| function.name == name);
        place.unwrap_or(usize::MAX)
    }
}

/// A run as the control socket sees it: what it tells, and command channels to its
/// threads.
#[derive(Debug)]
pub(super) struct Asked {
    pub(super) info: v1::GetInfoResponse,
    senders: Vec<CommandSender>,
    chains: Vec<Written>,
    inputs: Vec<v1::PortInfo>,
    outputs: Vec<v1::PortInfo>,
    start: Instant,
    /// The newest counts.
    counted: Fresh<Counts, Status>,
    /// One walk at a time.
    walks: Semaphore,
    /// The places at which the instance can be tapped.
    pub(super) places: Places,
    /// Stages that can't be looked into.
    pub(super) unseen: Vec<Unseen>,
    /// Hosts that the run looks after.
    pub(super) hosts: Hosts,
    /// Events of hosts and runtimes.
    pub(super) events: Events,
    /// The configuration.
    pub(super) reloads: Reloads,
    /// The programs of its processes, which are changed one at a time.
    pub(super) upgrades: Arc<Mutex<Option<Box<dyn Upgrades>>>>,
    /// The sets of addresses.
    pub(super) sets: Sets,
    /// What its tenants are billed by.
    pub(super) billed: Option<Billed>,
    /// Each stream that follows events has a clone: the count says how many there are.
    pub(super) followers: Arc<()>,
}

/// The counts of all threads together.
#[derive(Debug, Default)]
pub(super) struct Counts {
    pub(super) elapsed: Duration,
    /// Per chain, in the order of the file.
    pub(super) reports: Vec<Report>,
    pub(super) threads: Vec<ThreadCounts>,
}

impl Counts {
    /// Counters of the inputs. A port may have a member on each of several threads.
    pub(super) fn inputs(&self) -> Vec<PortCounters> {
        self.ports(|thread| &thread.inputs)
    }

    /// Counters of the outputs.
    pub(super) fn outputs(&self) -> Vec<PortCounters> {
        self.ports(|thread| &thread.outputs)
    }

    /// How the instance stands in the network: what the layers of all threads did.
    pub(super) fn network(&self) -> Option<LayerReport> {
        let mut reports = self.threads.iter().filter_map(|t| t.network.as_ref());
        let mut report = reports.next()?.clone();
        reports.for_each(|other| report.add(other));
        Some(report)
    }

    fn ports(&self, of: fn(&ThreadCounts) -> &Vec<PortCounters>) -> Vec<PortCounters> {
        let mut sums: Vec<PortCounters> = Vec::new();
        for thread in &self.threads {
            for (number, counts) in of(thread).iter().enumerate() {
                match sums.get_mut(number) {
                    Some(sum) => sum.add(counts),
                    None => sums.push(counts.clone()),
                }
            }
        }
        sums
    }
}

fn not_sent(why: NotSent) -> Status {
    match why {
        NotSent::Full => {
            Status::resource_exhausted("too many ask this instance at once: try again")
        }
        NotSent::Away => Status::unavailable("this instance is about to end"),
    }
}

impl Asked {
    pub(super) fn new(offer: Offer<'_>) -> Result<Asked, String> {
        let info = offer.info();
        let chains = offer.file.chains.iter().map(|chain| Written {
            name: chain.stage.chain.clone(),
            functions: (chain.stage.nodes.iter())
                .map(|node| WrittenFunction {
                    name: node.name.clone(),
                    drops: node.processor.descriptor().drops,
                })
                .collect(),
        });
        let places = Places::of_run(offer.file, &offer.inputs);
        let fixed = |name: &str| offer.fixed_sets.get(name).cloned();
        let book = Book::new(&offer.file.sets, fixed, offer.set_log);
        let book = book.map_err(|error| format!("can't tell how sets were changed: {error}"))?;
        Ok(Asked {
            info,
            senders: offer.senders,
            chains: chains.collect(),
            inputs: offer.inputs,
            outputs: offer.outputs,
            start: Instant::now(),
            counted: Fresh::new(FRESH),
            walks: Semaphore::new(1),
            places,
            unseen: offer.unseen,
            hosts: offer.hosts,
            events: offer.events,
            reloads: Reloads::of(offer.configuration),
            upgrades: Arc::new(Mutex::new(offer.upgrades)),
            sets: Sets::of(book),
            billed: offer.billed,
            followers: Arc::default(),
        })
    }

    /// The command channels of all threads.
    pub(super) fn senders(&self) -> &[CommandSender] {
        &self.senders
    }

    /// Sends a command to every thread that is there, and waits for their replies,
    /// each with the thread's number.
    pub(super) async fn all<T>(
        &self,
        most: Duration,
        command: impl FnMut(Reply<T>) -> Command,
    ) -> Result<Vec<(u32, T)>, Status> {
        let answers = some_of((0..).zip(&self.senders), most, command).await?;
        match answers.is_empty() {
            true => Err(not_sent(NotSent::Away)),
            false => Ok(answers),
        }
    }

    /// The counts so far.
    pub(super) async fn counts(&self) -> Result<Arc<Counts>, Status> {
        self.counted.get(self.count()).await
    }

    async fn count(&self) -> Result<Counts, Status> {
        let threads = self.all(PROMPT, Command::Counts).await?;
        let threads = threads.into_iter();
        let threads: Vec<ThreadCounts> = threads
            .map(|(channel, counts)| ThreadCounts { channel, ..counts })
            .collect();
        if threads.iter().all(|thread| thread.reports.is_empty()) {
            return Err(Status::unimplemented(CANT_BE_ASKED));
        }
        let elapsed = self.start.elapsed();
        let chains = self.chains.iter().enumerate();
        let reports = chains.map(|(number, written)| {
            let mut report = whole(number, &threads);
            report.chain.clone_from(&written.name);
            report.functions.sort_by_key(|f| written.place(&f.name));
            report
        });
        Ok(Counts {
            elapsed,
            reports: reports.collect(),
            threads,
        })
    }

    /// The chains as they were written.
    pub(super) fn chains(&self) -> &[Written] {
        &self.chains
    }

    pub(super) fn inputs(&self) -> &[v1::PortInfo] {
        &self.inputs
    }

    pub(super) fn outputs(&self) -> &[v1::PortInfo] {
        &self.outputs
    }

    /// The open flows that match.
    pub(super) async fn flows(&self, wanted: FlowsQuery) -> Result<FlowsFound, Status> {
        let _turn = self.turn().await?;
        let command = |reply| Command::Flows(wanted.clone(), reply);
        let answers = self.all(WALK, command).await?;
        let mut all = FlowsFound {
            whole: true,
            ..FlowsFound::default()
        };
        for (thread, found) in answers {
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
        // Under a switch a flow that moves is with two runtimes for a moment.
        let mut known = HashSet::new();
        all.flows
            .retain(|flow| known.insert((flow.number, flow.flow.id)));
        all.flows.truncate(wanted.limit);
        Ok(all)
    }

    /// A flow that was seen before, with its states.
    pub(super) async fn states(&self, seen: &FlowSeen) -> Result<Option<Box<StatesSeen>>, Status> {
        let query = FlowQuery {
            chain: seen.number,
            record: seen.flow.record,
            id: seen.flow.id,
        };
        let answers: Vec<(u32, FlowParts)> = self
            .all(PROMPT, |reply| Command::Flow(query, reply))
            .await?;
        let mut found = None;
        let mut states: Vec<(usize, Remembered)> = Vec::new();
        for (thread, parts) in answers {
            let is_home = thread == seen.thread;
            if is_home {
                found = parts.seen;
            }
            // Other first stages may have another flow under that number.
            let theirs = parts.states.into_iter();
            states.extend(theirs.filter(|(stage, _)| is_home || *stage > 0));
        }
        let written = self.chains.get(seen.number);
        Ok(found.map(|seen| {
            let states = written.map_or_else(Vec::new, |written| written.in_order(states));
            Box::new(StatesSeen { seen, states })
        }))
    }

    /// Ends the flows that match: how many were.
    pub(super) async fn end(&self, filter: Arc<Filter>) -> Result<u64, Status> {
        let _turn = self.turn().await?;
        let ended = self.all(WALK, |reply| Command::End(filter.clone(), reply));
        let ended = ended.await;
        self.counted.forget();
        let ended: Vec<Ended> = ended?.into_iter().filter_map(|(_, n)| n).collect();
        match ended.is_empty() {
            true => Err(Status::unimplemented(CANT_BE_ASKED)),
            false => Ok(Ended::count(ended)),
        }
    }

    /// How far each runtime's comparison of copies is. With `begin` one begins, unless one is under way.
    pub(super) async fn compare(&self, begin: bool) -> Result<Vec<Comparison>, Status> {
        let answers = self.all(PROMPT, |reply| Command::Compare(begin, reply));
        let answers = answers.await?.into_iter();
        Ok(answers.filter_map(|(_, runtime)| runtime).collect())
    }

    /// Has the switch move units: how many were asked to.
    pub(super) async fn move_units(&self, wanted: MoveUnits) -> Result<u32, Status> {
        let moving = self.all(PROMPT, |reply| Command::Move(wanted, reply));
        of_switch(moving.await?, "no flow can move")
    }

    /// Starts or drains runtimes: which.
    pub(super) async fn resize(&self, wanted: Resize) -> Result<Resized, Status> {
        let resizing = self.all(PROMPT, |reply| Command::Resize(wanted.clone(), reply));
        let resizing = resizing.await;
        self.counted.forget();
        of_switch(resizing?, "none can come or go")
    }

    /// Has the switch hand over to the next one, and end.
    pub(super) async fn hand_over(&self) -> Result<(), Status> {
        let answers = self.all(PROMPT, Command::HandOver).await?;
        of_switch(answers, "no other process could go on with its flows")
    }

    /// Does something with every engine: how many there are. The last thread, which
    /// has the ports and first stages, comes last: of a packet that is watched there,
    /// the later stages are to know already.
    pub(super) async fn each(&self, action: Arm) -> Result<usize, Status> {
        let senders: Vec<(u32, &CommandSender)> = (0..).zip(&self.senders).collect();
        let (others, ports) = senders.split_at(senders.len().saturating_sub(1));
        let mut answers: Vec<(u32, usize)> = Vec::new();
        for senders in [others, ports] {
            let command = |reply| Command::Each(action.clone(), reply);
            let counts = some_of(senders.iter().copied(), PROMPT, command).await?;
            answers.extend(counts);
        }
        match answers.is_empty() {
            true => Err(not_sent(NotSent::Away)),
            false => Ok(answers.iter().map(|(_, count)| count).sum()),
        }
    }

    async fn turn(&self) -> Result<tokio::sync::SemaphorePermit<'_>, Status> {
        match tokio::time::timeout(WALK, self.walks.acquire()).await {
            Ok(Ok(turn)) => Ok(turn),
            _ => Err(not_sent(NotSent::Full)),
        }
    }
}

/// What the switch answered, among all threads; `so` is what can't be without a switch.
fn of_switch<T>(answers: Vec<(u32, Option<Result<T, String>>)>, so: &str) -> Result<T, Status> {
    match answers.into_iter().find_map(|(_, answer)| answer) {
        None => Err(Status::unimplemented(format!(
            "this instance has no runtimes behind a switch: {so}"
        ))),
        Some(answer) => answer.map_err(Status::failed_precondition),
    }
}

/// Sends a command to those of these threads that are there, and waits for their
/// replies.
async fn some_of<T>(
    senders: impl Iterator<Item = (u32, &CommandSender)>,
    most: Duration,
    mut command: impl FnMut(Reply<T>) -> Command,
) -> Result<Vec<(u32, T)>, Status> {
    let mut waiting = Vec::new();
    for (thread, sender) in senders {
        let (reply, answer) = oneshot::channel();
        match sender.send(command(reply)) {
            Ok(()) => waiting.push((thread, answer)),
            // Runtimes come and go.
            Err(NotSent::Away) => {}
            Err(why) => return Err(not_sent(why)),
        }
    }
    let mut answers = Vec::with_capacity(waiting.len());
    let until = tokio::time::Instant::now() + most;
    for (thread, answer) in waiting {
        if let Some(answer) = wait(answer, until).await? {
            answers.push((thread, answer));
        }
    }
    Ok(answers)
}

/// Waits for a reply; none comes from a thread that has ended since.
async fn wait<T>(
    answer: oneshot::Receiver<T>,
    until: tokio::time::Instant,
) -> Result<Option<T>, Status> {
    match tokio::time::timeout_at(until, answer).await {
        Ok(answer) => Ok(answer.ok()),
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
    let mut stages: BTreeMap<usize, Vec<Report>> = BTreeMap::new();
    for part in &of_chain {
        if let Counted::Stage(stage) = part.part {
            stages.entry(stage).or_default().push(part.report.clone());
        }
    }
    let stages: Vec<Report> = stages
        .values()
        .map(|of_stage| Report::sum(of_stage))
        .collect();
    let mut report = Report::chain(&stages);
    for part in of_chain {
        if matches!(part.part, Counted::Switch) {
            around(&mut report, &part.report);
        }
    }
    report
}
