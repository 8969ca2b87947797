//! The ports between the stages of a plan.

use weir_exec::{ExecError, Placement, Wakers};
use weir_graph::compile::{Balance, Home, Plan, PlannedStage, Step};
use weir_io::stage::{
    FurtherBranch, ParallelSettings, QueuePorts, Regions, StageInput, StageOutput,
    balanced_by_flow, balanced_in_turn, parallel, point,
};
use weir_nf::Parts;
use weir_nf::host::Stage;
use weir_packet::{FramePool, MemberId, ParseOptions};

use weir_io::shared::Waker;
use weir_io::shared::border::{self, Border, SharedBorder};

use super::super::placement::{carrier_name, node_name};
use super::process::{Host, Patience, border_settings};

/// Frames on their way between two stages. Few, so that they are still in a
/// cache when they are taken out, and enough for some bursts.
const PLACES: usize = 512;
/// Packets that an instance is given before it is the next one's turn.
const TURN: usize = 64;
/// Frames that a port to so many queues has for copies, small and large: one of
/// each size for each queue at least, or it could wait for ever.
fn copies(queues: usize) -> [u32; 2] {
    let queues = u32::try_from(queues).unwrap_or(u32::MAX);
    [queues.max(1_024), queues.max(16)]
}

/// A thread to be: a stage, or nothing but a way from one port to another.
pub(super) struct NodeWiring {
    /// Number of its step in the plan.
    pub(super) step: usize,
    /// Number of its branch in the step, and of its instance.
    pub(super) place: (usize, usize),
    /// Numbers of the steps whose ports its input and its output belong to.
    pub(super) ports: (usize, usize),
    /// `None` only carries frames.
    pub(super) stage: Option<Stage>,
    pub(super) input: Box<dyn StageInput>,
    output: Option<Box<dyn StageOutput>>,
}

impl NodeWiring {
    /// Its name in the placement.
    pub(super) fn node_name(&self, plan: &Plan) -> String {
        match (&self.stage, plan.steps.get(self.step)) {
            (Some(_), Some(step)) => node_name(&plan.chain, self.step, step, self.place),
            _ => carrier_name(&plan.chain, self.step),
        }
    }

    /// Its output; there is one for each node of a plan that was wired.
    pub(super) fn take_output(&mut self) -> Result<Box<dyn StageOutput>, ExecError> {
        let unwired = || ExecError("a stage of the plan leads nowhere".to_owned());
        self.output.take().ok_or_else(unwired)
    }
}

/// A process to be.
pub(super) struct ProcessWiring {
    pub(super) step: usize,
    pub(super) stage: Stage,
    pub(super) core: Option<usize>,
    pub(super) member: MemberId,
    pub(super) waker: Waker,
    /// The ring to it, with its writer's member.
    pub(super) input: (usize, MemberId),
    /// The ring from it, with its reader's waker.
    output: Option<(usize, Waker)>,
}

impl ProcessWiring {
    /// Its output; there is one for each of a plan that was wired.
    pub(super) fn take_output(&mut self) -> Result<(usize, Waker), ExecError> {
        let unwired = || ExecError("a stage of the plan leads nowhere".to_owned());
        self.output.take().ok_or_else(unwired)
    }
}

/// A process to be that is not trusted.
pub(super) struct TenantWiring {
    pub(super) step: usize,
    pub(super) stage: Stage,
    pub(super) core: Option<usize>,
    pub(super) border: SharedBorder,
}

/// Stages that are to be in processes, by their steps.
pub(super) struct Homes<'a> {
    /// Of those that are trusted.
    pub(super) host: Option<&'a mut Host>,
    pub(super) steps: &'a [Home],
    /// Of this process's threads.
    pub(super) wakers: &'a Wakers,
    pub(super) placement: &'a Placement,
    /// With those that are not trusted.
    pub(super) patience: Patience,
}

impl Homes<'_> {
    /// The ring behind a process, read by the thread of this node, or without one
    /// by the ports' thread.
    fn behind(
        &mut self,
        process: Option<&mut ProcessWiring>,
        reader: Option<&str>,
    ) -> Result<Box<dyn StageInput>, ExecError> {
        let process =
            process.ok_or_else(|| ExecError("a stage of the plan leads nowhere".to_owned()))?;
        let reader = reader.and_then(|node| self.placement.thread_of(node));
        let reader = reader.unwrap_or(0);
        let waker = self.wakers.for_process(reader)?;
        let host = self.host()?;
        let ring = host.ring();
        process.output = Some((ring, waker));
        Ok(Box::new(host.input(ring, process.member)?))
    }

    fn host(&mut self) -> Result<&mut Host, ExecError> {
        let none = || ExecError("a process without a host".to_owned());
        self.host.as_deref_mut().ok_or_else(none)
    }

    fn of(&self, step: usize) -> Home {
        self.steps.get(step).copied().unwrap_or_default()
    }
}

/// The stages behind the first one, wired.
pub(super) struct Wired {
    /// Output that feeds the first stage.
    pub(super) first: Box<dyn StageOutput>,
    pub(super) queues: Vec<NodeWiring>,
    pub(super) processes: Vec<ProcessWiring>,
    pub(super) tenants: Vec<TenantWiring>,
    /// Input that reads the packets of the last stage.
    pub(super) last: Box<dyn StageInput>,
}

/// The output in front of the next step.
enum Front {
    /// The first stage, which has no output yet.
    First,
    /// This node, which has none.
    Node(usize),
    /// This process, likewise.
    Process(usize),
    /// A port that brings several together.
    Port(Box<dyn StageInput>),
}

/// A step of several threads.
struct Wide {
    front: Box<dyn StageOutput>,
    queues: Vec<QueuePorts>,
    behind: Box<dyn StageInput>,
}

/// The threads that the stages behind the first one need, those that only carry
/// frames included, and the frames of ports' own pools, small and large.
pub(super) fn threads_and_copies(plan: &Plan) -> (usize, [u32; 2]) {
    let (mut threads, mut all) = (0, [0; 2]);
    for step in plan.steps.iter().skip(1) {
        let queues: usize = step.stages().iter().map(|s| usize::from(s.instances)).sum();
        let wide = queues > 1;
        // One may carry frames to it, from a process or another such step.
        threads += queues + usize::from(wide);
        if wide {
            let [small, large] = copies(queues);
            all = [all[0] + small, all[1] + large];
        }
        // The carrier that moves frames on from a border.
        let behind = step.stages().iter().any(|s| s.home == Home::Tenant);
        threads += usize::from(behind);
    }
    (threads, all)
}

/// Wires the stages of `plan` behind its first one. `stages` are those that
/// the plan gives, step by step.
pub(super) fn wire(
    plan: &Plan,
    stages: &[Vec<Stage>],
    pool: &mut FramePool,
    mut homes: Option<Homes<'_>>,
) -> Result<Wired, ExecError> {
    let mut first = None;
    let mut queues: Vec<NodeWiring> = Vec::new();
    let mut processes: Vec<ProcessWiring> = Vec::new();
    let mut tenants: Vec<TenantWiring> = Vec::new();
    let mut front = Front::First;
    for (number, (step, stages)) in plan.steps.iter().zip(stages).enumerate().skip(1) {
        let planned = step.stages();
        let single = match (planned, stages.as_slice()) {
            ([planned], [stage]) if planned.instances <= 1 => Some((planned, stage)),
            _ => None,
        };
        if let Some((planned, stage)) = single
            && let Some(homes) = &mut homes
            && homes.of(number) == Home::Tenant
        {
            let border = Border::new(border_settings(stage, homes.patience), pool.memory());
            let (output, input, border) = border::ports(border);
            if let Front::Process(before) = front {
                let reader = carrier_name(&plan.chain, number);
                front = Front::Port(homes.behind(processes.get_mut(before), Some(&reader))?);
            }
            match front {
                Front::Port(input) => queues.push(NodeWiring {
                    step: number,
                    place: (0, 0),
                    ports: (number - 1, number),
                    stage: None,
                    input,
                    output: Some(Box::new(output)),
                }),
                before => set_output(&mut first, &mut queues, before, Box::new(output)),
            }
            tenants.push(TenantWiring {
                step: number,
                stage: stage.clone(),
                core: planned.core,
                border,
            });
            front = Front::Port(Box::new(input));
            continue;
        }
        if let Some((planned, stage)) = single
            && let Some(homes) = &mut homes
            && homes.of(number) == Home::Process
        {
            let host = homes.host()?;
            let waker = Waker::new().map_err(|error| ExecError(error.to_string()))?;
            let ring = host.ring();
            let mut writer = MemberId::MAIN;
            match front {
                Front::Process(before) => {
                    if let Some(before) = processes.get_mut(before) {
                        before.output = Some((ring, waker.clone()));
                        writer = before.member;
                    }
                }
                Front::Port(input) => queues.push(NodeWiring {
                    step: number,
                    place: (0, 0),
                    ports: (number - 1, number),
                    stage: None,
                    input,
                    output: Some(Box::new(host.output(ring, waker.clone())?)),
                }),
                before => {
                    let output = Box::new(host.output(ring, waker.clone())?);
                    set_output(&mut first, &mut queues, before, output);
                }
            }
            processes.push(ProcessWiring {
                step: number,
                stage: stage.clone(),
                core: planned.core,
                member: host.member()?,
                waker,
                input: (ring, writer),
                output: None,
            });
            front = Front::Process(processes.len() - 1);
            continue;
        }
        if let Front::Process(before) = front {
            let homes = homes.as_mut();
            let homes = homes.ok_or_else(|| ExecError("a process without a host".to_owned()))?;
            // It is read by the next node, whatever that is.
            let reader = match single {
                Some(_) => node_name(&plan.chain, number, step, (0, 0)),
                None => carrier_name(&plan.chain, number),
            };
            front = Front::Port(homes.behind(processes.get_mut(before), Some(&reader))?);
        }
        if let Some((_, stage)) = single {
            let input = match front {
                Front::Port(input) => input,
                before => {
                    let (output, input) = point(PLACES);
                    set_output(&mut first, &mut queues, before, Box::new(output));
                    Box::new(input)
                }
            };
            queues.push(NodeWiring {
                step: number,
                place: (0, 0),
                // Of what brings several together before it, and of what parts
                // them behind.
                ports: (number - 1, number + 1),
                stage: Some(stage.clone()),
                input,
                output: None,
            });
            front = Front::Node(queues.len() - 1);
            continue;
        }
        let wide = wide(plan, step, stages, pool)?;
        match front {
            Front::Port(input) => queues.push(NodeWiring {
                step: number,
                place: (0, 0),
                ports: (number - 1, number),
                stage: None,
                input,
                output: Some(wide.front),
            }),
            before => set_output(&mut first, &mut queues, before, wide.front),
        }
        let nodes = nodes_of(planned, stages);
        for ((place, stage), ports) in nodes.into_iter().zip(wide.queues) {
            queues.push(NodeWiring {
                step: number,
                place,
                ports: (number, number),
                stage: Some(stage.clone()),
                input: ports.input,
                output: Some(ports.output),
            });
        }
        front = Front::Port(wide.behind);
    }
    if let (Front::Process(before), Some(homes)) = (&front, &mut homes) {
        front = Front::Port(homes.behind(processes.get_mut(*before), None)?);
    }
    let last = match front {
        Front::Port(input) => input,
        before => {
            let (output, input) = point(PLACES);
            set_output(&mut first, &mut queues, before, Box::new(output));
            Box::new(input)
        }
    };
    let first = first.ok_or_else(|| ExecError("a plan without a way".to_owned()))?;
    Ok(Wired {
        first,
        queues,
        processes,
        tenants,
        last,
    })
}

fn set_output(
    first: &mut Option<Box<dyn StageOutput>>,
    queues: &mut [NodeWiring],
    of: Front,
    output: Box<dyn StageOutput>,
) {
    match of {
        Front::First => *first = Some(output),
        Front::Node(number) => {
            if let Some(queue) = queues.get_mut(number) {
                queue.output = Some(output);
            }
        }
        Front::Port(_) | Front::Process(_) => {}
    }
}

/// The nodes of a step, each with its branch and instance.
fn nodes_of<'a>(
    planned: &'a [PlannedStage],
    stages: &'a [Stage],
) -> Vec<((usize, usize), &'a Stage)> {
    let branches = planned.iter().zip(stages).enumerate();
    branches
        .flat_map(|(branch, (planned, stage))| {
            let instances = 0..usize::from(planned.instances.max(1));
            instances.map(move |instance| ((branch, instance), stage))
        })
        .collect()
}

/// The ports of a step of several threads.
fn wide(
    plan: &Plan,
    step: &Step,
    stages: &[Stage],
    pool: &mut FramePool,
) -> Result<Wide, ExecError> {
    let refused = |error: weir_io::stage::StageError| ExecError(error.to_string());
    match step {
        Step::Stage(planned) => {
            let instances = usize::from(planned.instances);
            let [small, large] = copies(instances);
            let copies = pool.share(small, large);
            let ports = match planned.balance {
                Balance::Flow => balanced_by_flow(instances, PLACES, copies),
                Balance::RoundRobin => balanced_in_turn(instances, PLACES, TURN, copies),
            }
            .map_err(refused)?;
            Ok(Wide {
                front: ports.output,
                queues: ports.queues,
                behind: ports.input,
            })
        }
        Step::Parallel(branches) => {
            if branches.iter().any(|branch| branch.instances > 1) {
                return Err(ExecError(
                    "a stage that runs beside others can't have several instances".to_owned(),
                ));
            }
            let flows = stages.first().map(|stage| stage.flows).unwrap_or_default();
            let nodes = step.nodes();
            let further = branches.iter().skip(1).map(|branch| FurtherBranch {
                entry: number_of(branch.nodes.start),
                writes: writes_of(plan, branch),
            });
            let settings = ParallelSettings {
                places: PLACES,
                group: number_of(nodes.start)..=nodes.end as u8,
                further: further.collect(),
                exit: None,
                parse: ParseOptions {
                    inner: flows.inner,
                    lenient: true,
                    ..ParseOptions::default()
                },
            };
            let [small, large] = copies(branches.len());
            let copies = pool.share(small, large);
            let ports = parallel(&settings, copies).map_err(refused)?;
            Ok(Wide {
                front: Box::new(ports.branch),
                queues: ports.queues,
                behind: Box::new(ports.sync),
            })
        }
    }
}

/// A processor's number as packets carry it.
fn number_of(node: usize) -> u8 {
    node as u8 + 1
}

/// Parts of packets that a branch may write.
fn writes_of(plan: &Plan, branch: &PlannedStage) -> Regions {
    let nodes = plan.graph.nodes.get(branch.nodes.clone()).unwrap_or(&[]);
    let writes = nodes
        .iter()
        .fold(Parts::NONE, |parts, node| parts.and(node.effects.writes));
    Regions {
        link: writes.meets(Parts::LINK),
        network: writes.meets(Parts::NETWORK),
        transport: writes.meets(Parts::TRANSPORT),
        payload: writes.meets(Parts::PAYLOAD),
    }
}
