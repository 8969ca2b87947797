//! Plans of several stages: a thread per stage and instance, joined by ports.
//! The driver behind `weir run --plan pipeline`.
//!
//! The calling thread has the ports to the world, the first stage of each
//! chain, which finds and ends flows, and the chain's end: a stage without
//! functions to which everything comes back, so that a packet's frame goes home
//! to the pool that it was taken from. A chain whose plan is one stage runs on
//! the calling thread alone.

mod chain;
mod chain_run;
mod end;
mod node;
mod pace;
mod process;
mod wiring;

use std::sync::Arc;
use std::time::Duration;

use weir_ctl::command::{
    CommandHandler, CommandSender, Counted, Part, PartReport, Replacement, StageProcessCounts,
    Visit,
};
use weir_ctl::observe::Unseen;
use weir_exec::frames::{HIGH, LARGE_HIGH, LARGE_SHARE, SHARE};
use weir_exec::{
    ExecError, NEVER_PARK, Parker, Parks as _, Placement, Round, Team, Wakers, frames,
};
use weir_graph::compile::{Home, Plan};
use weir_io::IdlePolicy;
use weir_io::stage::{PortCounts, Refused};
use weir_nf::host::{FlowOptions, Stage};
use weir_packet::{Frame, FramePool, Internal, MemoryLayout, PacketMemory, Time};
use weir_runtime::{Rest, Role, Runtime, RuntimeConfig};

use super::executor::{EventBox, Executor};
use super::placement;
use super::process::{ProcessCommand, digest_of_chains};
use super::wiring::NO_CHAIN;
use node::{NodePlan, StageCommands, StageNode, StageWork};
use process::{Host, Process, Tenant, Want, WantTenant};

pub use chain::ChainPlan;
use chain_run::{Behind, ChainRun, Member};
pub use end::{ChainEnd, PipelineEnd, ThreadCounts};
pub use pace::Pace;
pub(super) use process::HELLO;
pub use process::{BorderEnd, Patience, ProcessEnd, StageProcess};

/// Frames that are worked on at a time.
const BURST: usize = 64;
/// Frames that are taken out of a chain at a time.
const OUT: usize = 256;
/// Frames beside those of packets: what the pool of the ports keeps back for
/// each thread that may run short, and what may lie about in its pool.
const RESERVE: usize = 2_048;
/// Frames that the first stage must find for what it tells the later ones.
const FEW: usize = 256;
/// Steps after which threads are looked after also while there is work.
const LOOK: u32 = 256;
/// Small frames for packets under way beside those of a memory as it is without
/// threads, and without the threads' shares.
const UNDER_WAY: u32 = 4_096;
/// Small frames at a border: packets that are on its other side, and what may
/// be made there.
const AT_BORDER: u32 = 2_048;

/// How plans are run.
#[derive(Clone, Copy, Debug, Default)]
pub struct PipelineSettings {
    /// Of each thread.
    pub pace: Pace,
    /// Configuration of the engines.
    pub engine: RuntimeConfig,
    /// Frames that the ports need beside those of packets under way, and their
    /// sizes.
    pub memory: MemoryLayout,
    /// No thread ever sleeps.
    pub wakeful: bool,
}

/// The stages that run in processes of their own.
#[derive(Clone, Debug)]
pub struct Processes {
    /// Command that starts them.
    pub command: ProcessCommand,
    /// Per chain and step of its plan. The first step of a chain, and those of
    /// several threads, stay with the main process.
    pub steps: Vec<Vec<Home>>,
    /// With those that are not trusted.
    pub patience: Patience,
}

/// Chains with their plans.
pub struct Pipeline {
    pool: FramePool,
    /// Set if some stages run in processes of their own.
    host: Option<Host>,
    /// How those are started that are not trusted.
    command: Option<ProcessCommand>,
    patience: Patience,
    runs: Vec<ChainRun>,
    events: EventBox,
    wakers: Wakers,
    park: Parker,
    team: Team<StageNode>,
    /// Something was put into rings since the threads were last woken.
    gave: bool,
    /// Steps since threads were looked after.
    steps: u32,
    /// Frames of a chain's end.
    ended: Vec<Frame>,
    senders: Vec<CommandSender>,
    /// Stands for the chains.
    digest: u64,
    /// Counted in the first chain's report.
    internal: Internal,
}

impl std::fmt::Debug for Pipeline {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pipeline")
            .field("chains", &self.runs.len())
            .finish_non_exhaustive()
    }
}

impl Pipeline {
    /// Starts the threads, and waits until all have reserved their memory.
    ///
    /// # Errors
    ///
    /// A stage that can't be run, a thread that can't be started or pinned.
    pub fn start(
        chains: Vec<ChainPlan>,
        settings: PipelineSettings,
    ) -> Result<Pipeline, ExecError> {
        Pipeline::start_with(chains, settings, None)
    }

    /// The same with some stages in processes of their own.
    ///
    /// # Errors
    ///
    /// As [`Pipeline::start`]; a process that can't be started.
    pub fn start_with(
        chains: Vec<ChainPlan>,
        settings: PipelineSettings,
        processes: Option<Processes>,
    ) -> Result<Pipeline, ExecError> {
        let homes = processes.as_ref().map_or(&[][..], |p| &p.steps);
        let placement = placement::of_plans(&chains, homes);
        Pipeline::start_placed(chains, settings, processes, &placement)
    }

    /// The same where `placement` says what runs where, with some stages in
    /// processes of their own.
    ///
    /// # Errors
    ///
    /// As [`Pipeline::start_with`]; a node that is not placed.
    pub fn start_placed(
        chains: Vec<ChainPlan>,
        settings: PipelineSettings,
        processes: Option<Processes>,
        placement: &Placement,
    ) -> Result<Pipeline, ExecError> {
        let (mut threads, mut copies) = (0, [0; 2]);
        for chain in &chains {
            let (more, [small, large]) = wiring::threads_and_copies(&chain.plan);
            threads += more as u32;
            copies = [copies[0] + small, copies[1] + large];
        }
        let homes = processes.as_ref().map_or(&[][..], |p| &p.steps);
        let of = |home| homes.iter().flatten().filter(|h| **h == home).count();
        let (apart, tenants) = (of(Home::Process), of(Home::Tenant));
        let layout = MemoryLayout {
            small_frames: settings.memory.small_frames
                + UNDER_WAY
                + tenants as u32 * AT_BORDER
                + threads * (HIGH + RESERVE) as u32
                // The whole is an even number, as ports may need it.
                + copies[0].next_multiple_of(2),
            large_frames: settings.memory.large_frames + threads * LARGE_HIGH as u32 + copies[1],
            ..settings.memory
        };
        let host = match &processes {
            Some(processes) if apart > 0 => {
                Some(Host::new(layout, apart, processes.command.clone())?)
            }
            _ => None,
        };
        let memory = match &host {
            Some(host) => Arc::clone(host.memory()),
            None => PacketMemory::new(layout, settings.engine.advise),
        };
        let pool = FramePool::new(memory)
            .ok_or_else(|| ExecError("packet memory was taken twice".to_owned()))?;
        let cores = placement.cores();
        let wakers = Wakers::new(cores.len().saturating_sub(1))?;
        // A tenant rings no waker of this process.
        let patience = processes.as_ref().map(|p| p.patience).unwrap_or_default();
        let nap = (tenants > 0).then_some(patience.nap);
        let mut all = Pipeline {
            pool,
            host,
            command: processes.as_ref().map(|p| p.command.clone()),
            patience,
            runs: Vec::new(),
            events: EventBox::default(),
            park: parker(&wakers, 0, settings, nap),
            team: Team::new(&wakers),
            wakers,
            gave: false,
            steps: 0,
            ended: Vec::with_capacity(OUT),
            senders: Vec::new(),
            digest: digest_of_chains(&chains),
            internal: Internal::default(),
        };
        // Threads inherit where they may run: this one is pinned last.
        for (number, chain) in chains.into_iter().enumerate() {
            let apart = homes.get(number).map_or(&[][..], Vec::as_slice);
            let run = all.chain_run((number, chain), settings, apart, placement)?;
            all.runs.push(run);
        }
        let wakers = &all.wakers;
        all.team
            .start(|thread| parker(wakers, thread, settings, nap))?;
        if let Some(core) = cores.first().copied().flatten() {
            weir_exec::pin(core).map_err(ExecError)?;
        }
        while !all.is_ready() {
            all.look_after()?;
            all.team.round()?;
            for run in &mut all.runs {
                let processes = run.behind.iter_mut().flat_map(|b| &mut b.processes);
                for process in processes {
                    process.attend(&mut all.pool, &all.events)?;
                }
                let tenants = run.behind.iter_mut().flat_map(|b| &mut b.tenants);
                tenants.for_each(|tenant| tenant.attend(&mut all.pool, &all.events));
            }
            all.park.pause(false, &mut ());
        }
        Ok(all)
    }

    /// Commands to the threads and processes of stages.
    pub(crate) fn command_senders(&self) -> Vec<CommandSender> {
        self.senders.clone()
    }

    fn is_ready(&self) -> bool {
        let behind = self.runs.iter().filter_map(|run| run.behind.as_ref());
        let ready = |behind: &Behind| {
            behind.processes.iter().all(Process::is_ready)
                && behind.tenants.iter().all(Tenant::is_ready)
        };
        self.team.all_ready() && behind.into_iter().all(ready)
    }

    fn chain_run(
        &mut self,
        (number, chain): (usize, ChainPlan),
        settings: PipelineSettings,
        apart: &[Home],
        placement: &Placement,
    ) -> Result<ChainRun, ExecError> {
        let ChainPlan { plan, stages, .. } = chain;
        let refused = |error: weir_runtime::StageError| ExecError(error.to_string());
        let first = match stages.first().map(Vec::as_slice) {
            Some([first]) if plan.steps.first().is_some_and(is_single) => first.clone(),
            _ => {
                let name = &plan.chain;
                return Err(ExecError(format!(
                    "chain {name}: the first stage of a plan is one, since it alone knows the flows"
                )));
            }
        };
        let (runtime, behind) = if stages.len() == 1 {
            let alone = Runtime::new(&first, settings.engine).map_err(refused)?;
            (alone, None)
        } else {
            let rest = Rest::of(stages.iter().skip(1).flatten()).map_err(refused)?;
            let config = RuntimeConfig {
                role: Role::First(rest),
                ..settings.engine
            };
            let runtime = Runtime::new(&first, config).map_err(refused)?;
            (
                runtime,
                Some(self.behind(number, &plan, &stages, settings, apart, placement)?),
            )
        };
        Ok(ChainRun {
            plan,
            runtime,
            input: Vec::with_capacity(2 * BURST),
            done: Vec::with_capacity(2 * BURST),
            behind,
            finished: false,
            busy: Duration::ZERO,
            processes: Vec::new(),
        })
    }

    /// Starts the stages behind the first one.
    fn behind(
        &mut self,
        number: usize,
        plan: &Plan,
        stages: &[Vec<Stage>],
        settings: PipelineSettings,
        apart: &[Home],
        placement: &Placement,
    ) -> Result<Behind, ExecError> {
        let homes = wiring::Homes {
            host: self.host.as_mut(),
            steps: apart,
            wakers: &self.wakers,
            placement,
            patience: self.patience,
        };
        let wired = wiring::wire(plan, stages, &mut self.pool, Some(homes))?;
        let mut processes = Vec::new();
        for mut process in wired.processes {
            let Some(host) = &mut self.host else { break };
            let process = host.start(Want {
                name: name_of(plan, process.step, (0, 0), Some(&process.stage)),
                place: (number, process.step),
                chains: self.digest,
                core: process.core,
                pace: settings.pace,
                seed: settings.engine.seed,
                input: process.input,
                output: process.take_output()?,
                member: process.member,
                waker: process.waker,
                stage: process.stage,
            })?;
            self.senders.push(process.command_sender());
            processes.push(process);
        }
        let mut tenants = Vec::new();
        for tenant in wired.tenants {
            let Some(command) = self.command.clone() else {
                break;
            };
            tenants.push(Tenant::start(WantTenant {
                name: name_of(plan, tenant.step, (0, 0), Some(&tenant.stage)),
                place: (number, tenant.step),
                chains: self.digest,
                stage: tenant.stage,
                core: tenant.core,
                pace: settings.pace,
                seed: settings.engine.seed,
                events: settings.engine.event_bytes > 0,
                border: tenant.border,
                command,
                layout: *self.pool.memory().layout(),
            })?);
        }
        let mut members = Vec::new();
        for mut queue in wired.queues {
            let output = queue.take_output()?;
            let at = queue.node_name(plan);
            let name = name_of(plan, queue.step, queue.place, queue.stage.as_ref());
            let is_stage = queue.stage.is_some();
            let mut work = None;
            if let Some(stage) = queue.stage {
                let (sender, handler) = CommandHandler::new(false)
                    .map_err(|error| ExecError(format!("can't make a command channel: {error}")))?;
                self.senders.push(sender);
                work = Some(StageWork {
                    stage,
                    config: RuntimeConfig {
                        role: Role::later(stages.iter().flatten(), false),
                        ..settings.engine
                    },
                    pool: self.pool.share(SHARE, LARGE_SHARE),
                    commands: StageCommands {
                        handler,
                        name: name.clone(),
                        place: (number, queue.step, queue.place.0),
                    },
                });
            }
            let node = NodePlan {
                work,
                input: queue.input,
                output,
                prefetch: settings.pace.prefetch,
                events: self.events.clone(),
                memory: Arc::clone(self.pool.memory()),
            };
            let thread = placement
                .thread_of(&at)
                .ok_or_else(|| ExecError(format!("node `{at}` is not placed on a thread")))?;
            let core = placement.cores().get(thread).copied().flatten();
            let make = move || StageNode::new(node);
            members.push(Member {
                step: queue.step,
                place: queue.place,
                ports: queue.ports,
                is_stage,
                node: self.team.place(thread, core, name, make),
                end: None,
            });
        }
        let end = Runtime::new(
            &end_of(plan, stages),
            RuntimeConfig {
                role: Role::later(stages.iter().flatten(), true),
                event_bytes: 0,
                ..settings.engine
            },
        )
        .map_err(|error| ExecError(error.to_string()))?;
        Ok(Behind {
            output: Some(wired.first),
            refused: Refused::default(),
            counts: PortCounts::default(),
            lender: None,
            input: wired.last,
            end,
            members,
            processes,
            tenants,
        })
    }

    /// Looks for threads that are over; none may be before the end.
    fn look_after(&mut self) -> Result<(), ExecError> {
        for run in &mut self.runs {
            let processes = run.behind.iter_mut().flat_map(|b| &mut b.processes);
            for process in processes {
                let runtime = &run.runtime;
                let open = || (runtime.open_flows(), runtime.active_flows() as u64);
                process.look_after(&mut self.pool, &self.events, open)?;
            }
            for tenant in run.behind.iter_mut().flat_map(|b| &mut b.tenants) {
                let runtime = &run.runtime;
                let open = || (runtime.open_flows(), runtime.active_flows() as u64);
                tenant.look_after(&self.events, open);
            }
        }
        for (number, end) in self.team.join_ended()? {
            let behind = self.runs.iter_mut().filter_map(|s| s.behind.as_mut());
            let mut members = behind.flat_map(|behind| &mut behind.members);
            if let Some(member) = members.find(|member| member.node == number) {
                member.end = Some(end);
            }
        }
        Ok(())
    }

    /// Sums up, when all is over.
    pub fn end(mut self) -> PipelineEnd {
        let mut end = PipelineEnd::default();
        let mut lenders = Vec::new();
        for run in &mut self.runs {
            end.chains.push(run.end(&mut self.pool, &mut lenders));
        }
        if let Some(first) = end.chains.first_mut() {
            first.report.add_internal(&self.internal);
        }
        for lender in lenders {
            self.pool.join(lender.into_pool());
        }
        let inside = |run: &mut ChainRun| std::mem::take(&mut run.processes);
        let done: Vec<(ProcessEnd, usize)> = self.runs.iter_mut().flat_map(inside).collect();
        let lost: usize = done.iter().map(|(_, leaked)| leaked).sum();
        frames::take_reserve(&mut self.pool);
        end.leaked = self.pool.outstanding() + lost;
        end.processes = done.into_iter().map(|(process, _)| process).collect();
        end.pages = self.host.as_ref().map(Host::pages);
        end
    }
}

/// Parks the thread at `place`.
fn parker(
    wakers: &Wakers,
    place: usize,
    settings: PipelineSettings,
    nap: Option<Duration>,
) -> Parker {
    let policy = match settings.wakeful {
        true => NEVER_PARK,
        false => IdlePolicy::default(),
    };
    let policy = IdlePolicy {
        work: settings.pace.yield_after,
        ..policy
    };
    let park = Parker::new(wakers, place, policy);
    match nap {
        Some(nap) => park.with_max_sleep(nap),
        None => park,
    }
}

fn is_single(step: &weir_graph::compile::Step) -> bool {
    matches!(step.stages(), [only] if only.instances <= 1)
}

/// The stage to which all packets come at the end of a plan.
fn end_of(plan: &Plan, stages: &[Vec<Stage>]) -> Stage {
    let first = stages.first().and_then(|step| step.first());
    Stage {
        chain: plan.chain.clone(),
        number: first.map_or(0, |stage| stage.number),
        first: plan.graph.nodes.len() as u8,
        nodes: Vec::new(),
        flows: FlowOptions {
            max: 1,
            ..FlowOptions::default()
        },
        pools: Vec::new(),
        sets: weir_nf::Sets::default(),
    }
}

/// A thread's name: its step, the functions that it runs, and its number where
/// it is one of several instances.
fn name_of(plan: &Plan, step: usize, place: (usize, usize), stage: Option<&Stage>) -> String {
    let branch = plan.steps.get(step).map(|step| step.stages());
    let step = step + 1;
    let Some(stage) = stage else {
        return format!("the way to stage {step} of chain {}", plan.chain);
    };
    let names: Vec<&str> = stage.nodes.iter().map(|node| node.name.as_str()).collect();
    let planned = branch.and_then(|stages| stages.get(place.0));
    let instance = match planned.map_or(1, |planned| planned.instances) {
        0 | 1 => String::new(),
        instances => format!(", instance {} of {instances},", place.1 + 1),
    };
    format!(
        "stage {step} ({}){instance} of chain {}",
        names.join(", "),
        plan.chain
    )
}

impl Executor for Pipeline {
    fn pool(&mut self) -> &mut FramePool {
        &mut self.pool
    }

    fn room(&self) -> usize {
        let waits = |run: &ChainRun| !run.input.is_empty() || !run.done.is_empty();
        if self.runs.iter().any(waits) {
            return 0;
        }
        let members = self.runs.iter().filter_map(|run| run.behind.as_ref());
        let threads: usize = members
            .map(|behind| behind.members.len() + behind.processes.len())
            .sum();
        // A thread that runs short is sent some: that much is kept for it.
        let reserve = threads * SHARE as usize / 2 + FEW + BURST;
        // Whole bursts or none: which packets are of one burst says when flows
        // that are idle by then are ended.
        match self.pool.available().saturating_sub(reserve) {
            room if room < BURST => 0,
            room => room,
        }
    }

    fn take(&mut self, chain: usize, frames: &mut Vec<Frame>) {
        match self.internal.expect(self.runs.get_mut(chain), NO_CHAIN) {
            Some(run) => run.input.append(frames),
            None => self.pool.give_all(frames),
        }
    }

    fn step(&mut self, out: &mut Vec<Frame>, events: &mut Vec<u8>) -> Result<Round, ExecError> {
        let local = self.team.round()?;
        self.gave |= local.gave;
        let mut worked = local.worked;
        for run in &mut self.runs {
            worked |= run.pump(&mut self.pool, &self.events, out);
            let Some(behind) = &mut run.behind else {
                continue;
            };
            if behind.input.take(&mut self.ended, OUT) > 0 {
                worked = true;
                let pool = &mut self.pool;
                behind.end.process(pool, &mut self.ended, out);
            }
            for process in &mut behind.processes {
                process.attend(&mut self.pool, &self.events)?;
            }
            for tenant in &mut behind.tenants {
                tenant.attend(&mut self.pool, &self.events);
            }
        }
        if self.team.has_threads() {
            self.gave |= frames::balance(&mut self.pool);
        }
        worked |= self.events.take(events);
        self.steps += 1;
        if !worked || self.steps >= LOOK {
            self.steps = 0;
            self.look_after()?;
        }
        Ok(Round {
            worked,
            gave: std::mem::take(&mut self.gave),
            blocked: local.blocked || self.runs.iter().any(|run| !run.done.is_empty()),
            over: false,
        })
    }

    /// The first stages are here; the later ones are told what ends.
    fn pass_time(&mut self, now: Time) -> bool {
        let mut more = false;
        for run in &mut self.runs {
            // Packets that came before are taken first.
            if run.input.is_empty() && run.done.is_empty() {
                let pool = &mut self.pool;
                more |= run.runtime.pass_time(pool, now, &mut run.done);
                self.events.put(run.runtime.events());
            }
        }
        more
    }

    fn parker(&self) -> Option<&Parker> {
        Some(&self.park)
    }

    fn prepare_park(&mut self) -> bool {
        // No reader signals room behind the first stage.
        let mut may = self.runs.iter().all(|run| run.done.is_empty());
        may &= self.team.prepare_park();
        for behind in self.runs.iter_mut().filter_map(|run| run.behind.as_mut()) {
            may &= behind.input.prepare_park();
        }
        may
    }

    fn unpark(&mut self) {
        let ends = self.runs.iter_mut().filter_map(|run| run.behind.as_mut());
        ends.for_each(|behind| behind.input.unpark());
        self.team.unpark();
    }

    fn parts(&mut self, output: &mut Vec<Frame>, visit: &mut Visit<'_>) {
        let pool = &mut self.pool;
        for (chain, run) in self.runs.iter_mut().enumerate() {
            // Events that a command causes in the first stage leave with its packets.
            let next = match run.behind {
                Some(_) => &mut run.done,
                None => &mut *output,
            };
            visit(Part {
                chain,
                stage: 0,
                runtime: &mut run.runtime,
                pool: &mut *pool,
                output: next,
            });
            if let Some(behind) = &mut run.behind {
                visit(Part {
                    chain,
                    stage: run.plan.steps.len(),
                    runtime: &mut behind.end,
                    pool: &mut *pool,
                    output: &mut *output,
                });
            }
        }
    }

    fn reports(&mut self) -> Vec<PartReport> {
        let mut reports = Vec::new();
        self.parts(&mut Vec::new(), &mut |part| reports.push(part.report()));
        for (chain, run) in self.runs.iter_mut().enumerate() {
            let processes = run.behind.iter().flat_map(|behind| &behind.processes);
            reports.extend(processes.map(|process| PartReport {
                chain,
                part: Counted::Stage(process.step()),
                report: process.report(),
            }));
            let tenants = run.behind.iter_mut().flat_map(|b| &mut b.tenants);
            reports.extend(tenants.map(|tenant| PartReport {
                chain,
                part: Counted::Stage(tenant.step()),
                report: tenant.report(),
            }));
        }
        reports
    }

    fn processes(&self) -> Vec<StageProcessCounts> {
        let behind = self.runs.iter().filter_map(|run| run.behind.as_ref());
        let all = behind.flat_map(|behind| {
            let processes = behind.processes.iter().map(Process::counts);
            processes.chain(behind.tenants.iter().map(Tenant::counts))
        });
        let mut all: Vec<StageProcessCounts> = all.collect();
        all.sort_by_key(|process| process.place);
        all
    }

    fn replace(&mut self, new: &Arc<Replacement>) {
        self.digest = new.digest();
        for behind in self.runs.iter_mut().filter_map(|run| run.behind.as_mut()) {
            for process in &mut behind.processes {
                process.have_chains(self.digest);
            }
            for tenant in &mut behind.tenants {
                tenant.have_chains(self.digest);
            }
        }
    }

    fn unseen(&self) -> Vec<Unseen> {
        let behind = self.runs.iter().filter_map(|run| run.behind.as_ref());
        behind
            .flat_map(|behind| &behind.tenants)
            .map(Tenant::unseen)
            .collect()
    }

    fn stop(&mut self) {
        for run in &mut self.runs {
            run.finish(&mut self.pool, &self.events);
        }
        self.gave = true;
    }

    fn is_over(&self) -> bool {
        let over = |run: &ChainRun| {
            run.finished
                && run.behind.as_ref().is_none_or(|behind| {
                    behind.processes.iter().all(Process::is_over)
                        && behind.tenants.iter().all(Tenant::is_over)
                        && behind.input.is_over()
                })
        };
        self.team.all_over() && self.runs.iter().all(over) && self.events.is_empty()
    }
}
