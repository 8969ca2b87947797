//! The scenario's loop: slices of a millisecond.

use std::collections::{BTreeMap, VecDeque};

use weir_control::{self as control, Action, Scaling};
use weir_graph::{Input, load, render};
use weir_nf::NoSources;
use weir_nf::host::Stage;
use weir_packet::{Frame, FramePool, MemoryLayout, Time, frame_flags};
use weir_protocol::message::Selection;
use weir_protocol::settings::{ActorSettings, SwitchSettings};
use weir_protocol::{Actors, Message, Peer, RuntimeId, Switch};
use weir_runtime::{Runtime, RuntimeConfig};

use super::flows::{Exit, Flows, frame};
use super::{Load, Sample, Summary};

/// Nanoseconds of a slice.
const SLICE: u64 = 1_000_000;
const BURST: usize = 64;
/// Virtual time begins here, in seconds: any time but 0, which means never.
const EPOCH: u64 = 1_000_000;
/// Milliseconds after the last packet in which what is under way arrives.
const TAIL: u64 = 2_000;
/// The switch's generation.
const GENERATION: u16 = 1;

/// The chain, as a chain file has it. Flows that have stopped end soon, so that a
/// runtime's units are those that send.
const CHAIN: &str = "\
chain: scaling
flows: {max: FLOWS, timeouts: {udp: 3s}}
nfs:
  - ip-check
  - firewall:
      default: drop
      rules: [drop udp to any port 161, accept udp to any port 53 name names]
  - monitor: {events: false}
";

/// One runtime.
struct Node {
    actors: Actors,
    queue: VecDeque<Frame>,
    /// Packets that count against the bound of the queue.
    queued: u32,
    /// Part of a packet that it could have done and did not.
    credit: f64,
    taken: u64,
    lost: u64,
}

/// A message between two processes, with its sender and receiver.
type Letter = (Peer, Peer, Message);

struct World<'a> {
    load: &'a Load,
    stage: Stage,
    pool: FramePool,
    switch: Switch,
    nodes: BTreeMap<RuntimeId, Node>,
    next_id: u32,
    /// When runtimes that were asked for will be there.
    starting: Vec<u64>,
    removing: Vec<RuntimeId>,
    letters: Vec<Letter>,
    workloads: Vec<(RuntimeId, control::Load)>,
    exit: Exit,
    out: u64,
    /// Lost at the inputs of runtimes that are no more.
    gone_lost: u64,
    scratch: Vec<Frame>,
    summary: Summary,
}

/// Runs the scenario; `each` sees every second.
///
/// # Errors
///
/// Settings without sense, a chain that can't be run, or packet memory used up.
pub fn run(load: &Load, each: &mut dyn FnMut(&Sample)) -> Result<Summary, String> {
    let mut scaling = Scaling::new(load.scaling).map_err(|error| error.to_string())?;
    let mut world = World::new(load)?;
    for _ in 0..load.scaling.minimum {
        world.start(Time::from_secs(EPOCH))?;
    }
    let mut flows = Flows::new(load);
    let mut packets = Vec::new();
    let mut sequence = 0;
    let mut last = Totals::default();
    let every = (load.scaling.report_interval / SLICE).max(1);
    let mut actions = Vec::new();
    let mut moved = 0;
    for ms in 0..u64::from(load.seconds()) * 1_000 {
        let now = Time::from_secs(EPOCH).plus(ms * SLICE);
        world.arrivals(ms, now)?;
        world.deliver(now);
        packets.clear();
        flows.send(ms, &mut packets);
        for burst in packets.chunks(BURST) {
            let mut input = core::mem::take(&mut world.scratch);
            for packet in burst {
                sequence += 1;
                let made = frame(&mut world.pool, now, sequence, *packet);
                input.push(made.map_err(|_| "packet memory is used up".to_owned())?);
            }
            world.switch.ingress(now, &mut world.pool, &mut input);
            input.clear();
            world.scratch = input;
            world.carry_out(now);
        }
        world.work(now);
        world.ticks(now);
        if (ms + 1) % every == 0 {
            world.ask_for_reports(now);
            let reports = core::mem::take(&mut world.workloads);
            let cluster: Vec<RuntimeId> = world.nodes.keys().copied().collect();
            for decision in scaling.step(now, &reports, &cluster, PLACES) {
                let action = decision.action;
                moved += world.act(now, ms, action)?;
                actions.push(describe(action));
            }
            world.carry_out(now);
        }
        if (ms + 1) % 1_000 == 0 {
            let totals = world.totals(sequence);
            let sample = Sample {
                second: (ms / 1_000 + 1) as u32,
                offered: totals.offered - last.offered,
                out: totals.out - last.out,
                lost: totals.lost - last.lost,
                dropped: totals.dropped - last.dropped,
                flows: flows.live(),
                runtimes: world.nodes.len() as u32,
                starting: world.starting.len() as u32,
                moved,
                actions: core::mem::take(&mut actions),
            };
            last = totals;
            moved = 0;
            world.summary.most_runtimes = world.summary.most_runtimes.max(sample.runtimes);
            each(&sample);
        }
    }
    for ms in 0..TAIL {
        let now = Time::from_secs(EPOCH + u64::from(load.seconds())).plus(ms * SLICE);
        world.deliver(now);
        world.work(now);
        world.ticks(now);
    }
    Ok(world.finish(sequence))
}

/// Packets since the start.
#[derive(Clone, Copy, Default)]
struct Totals {
    offered: u64,
    out: u64,
    lost: u64,
    dropped: u64,
}

/// An action as a person writes it.
/// A new runtime has a place at once, and comes later.
const PLACES: control::Places = control::Places {
    coming: 0,
    free: usize::MAX,
};

fn describe(action: Action) -> String {
    match action {
        Action::Add => "add".to_owned(),
        Action::Move {
            from, to, count, ..
        } => format!("move {count} from {} to {}", from.0, to.0),
        Action::Drain { runtime, .. } => format!("drain {}", runtime.0),
        Action::Remove { runtime } => format!("remove {}", runtime.0),
    }
}

/// The scenario's chain, with room for what it offers.
fn stage(offer: &Load) -> Result<Stage, String> {
    // All that live, those that have just ended, and as many again.
    let flows = (offer.high * 2).next_power_of_two().max(1_024);
    let text = CHAIN.replace("FLOWS", &flows.to_string());
    let input = Input {
        name: "scaling",
        text: &text,
        kinds: weir_functions::kinds(),
        overrides: &[],
        seed: offer.seed,
    };
    let file = load(&input, &mut NoSources).map_err(|all| render(&all))?;
    let chain = file.chains.into_iter().next();
    Ok(chain.ok_or("the text has no chain")?.stage)
}

impl<'a> World<'a> {
    fn new(load: &'a Load) -> Result<World<'a>, String> {
        let stage = stage(load)?;
        let settings = SwitchSettings {
            generation: GENERATION,
            dispatch: load.dispatch,
            // Packets that a full input loses are not sent again, as in the paper; the
            // switch finds them by missing acknowledgements (`acknowledge`).
            kept: 0,
            acknowledge: true,
            ..SwitchSettings::default()
        };
        let config = RuntimeConfig {
            seed: load.seed,
            ..RuntimeConfig::default()
        };
        let switch = Switch::new(&stage, config, settings).map_err(|error| error.to_string())?;
        // Each queue full, and what is at hand in a slice.
        let frames = load.queue * load.scaling.maximum.min(32) + 16_384;
        let pool = FramePool::with_layout(MemoryLayout {
            small_frames: frames,
            small_bytes: 8 * 64,
            ..MemoryLayout::default()
        });
        Ok(World {
            load,
            stage,
            pool,
            switch,
            nodes: BTreeMap::new(),
            next_id: 1,
            starting: Vec::new(),
            removing: Vec::new(),
            letters: Vec::new(),
            workloads: Vec::new(),
            exit: Exit::default(),
            out: 0,
            gone_lost: 0,
            scratch: Vec::new(),
            summary: Summary::default(),
        })
    }

    /// A runtime is there.
    fn start(&mut self, now: Time) -> Result<(), String> {
        let id = RuntimeId(self.next_id);
        self.next_id += 1;
        let config = RuntimeConfig {
            seed: self.load.seed,
            follows: true,
            ..RuntimeConfig::default()
        };
        let engine = Runtime::new(&self.stage, config).map_err(|error| error.to_string())?;
        let settings = ActorSettings {
            id,
            held: 65_536,
            keep_outputs: false,
            waits: true,
            ..ActorSettings::default()
        };
        let node = Node {
            actors: Actors::new(engine, settings),
            queue: VecDeque::new(),
            queued: 0,
            credit: 0.0,
            taken: 0,
            lost: 0,
        };
        self.nodes.insert(id, node);
        self.switch.join(now, id);
        let cluster: Vec<RuntimeId> = self.nodes.keys().copied().collect();
        for node in self.nodes.values_mut() {
            node.actors.cluster(&cluster);
        }
        self.carry_out(now);
        Ok(())
    }

    /// Runtimes that come and go in this millisecond.
    fn arrivals(&mut self, ms: u64, now: Time) -> Result<(), String> {
        let come = self.starting.iter().filter(|at| **at <= ms).count();
        self.starting.retain(|at| *at > ms);
        for _ in 0..come {
            self.start(now)?;
            self.summary.added += 1;
        }
        for id in core::mem::take(&mut self.removing) {
            if !self.switch.is_drained(id) {
                self.removing.push(id);
                continue;
            }
            self.switch.leave(now, id);
            self.carry_out(now);
            if let Some(mut node) = self.nodes.remove(&id) {
                self.gone_lost += node.lost + u64::from(node.queued);
                for frame in node.queue.drain(..) {
                    self.pool.give(frame);
                }
            }
            self.summary.removed += 1;
        }
        Ok(())
    }

    /// Does what scaling wants; gives the number of units told to move.
    fn act(&mut self, now: Time, ms: u64, action: Action) -> Result<u32, String> {
        let refused = |error| format!("{}: {error:?}", describe(action));
        match action {
            Action::Add => {
                let delay = u64::from(self.load.start_delay) * 1_000;
                self.starting.push(ms + delay);
                Ok(0)
            }
            Action::Move {
                from,
                to,
                count,
                mode,
            } => {
                let what = Selection::Number(count);
                let moved = self.switch.move_units(now, Some(from), to, &what, mode);
                let moved = moved.map_err(refused)?;
                self.summary.moved += u64::from(moved);
                Ok(moved)
            }
            Action::Drain { runtime, mode } => {
                self.switch.drain(now, runtime, mode).map_err(refused)?;
                Ok(0)
            }
            Action::Remove { runtime } => {
                if !self.removing.contains(&runtime) {
                    self.removing.push(runtime);
                }
                Ok(0)
            }
        }
    }

    /// Messages of the slice before arrive.
    fn deliver(&mut self, now: Time) {
        for (from, to, message) in core::mem::take(&mut self.letters) {
            match to {
                Peer::Switch(_) => {
                    self.switch.message(now, &mut self.pool, from, message);
                    self.carry_out(now);
                }
                Peer::Runtime(id) => {
                    if let Some(node) = self.nodes.get_mut(&id) {
                        node.actors.message(now, &mut self.pool, from, message);
                    }
                    self.answers(now, id);
                }
                Peer::Coordinator => {}
            }
        }
    }

    /// Each runtime does what it can in a slice.
    fn work(&mut self, now: Time) {
        let per_slice = f64::from(self.load.capacity) * SLICE as f64 / 1e9;
        let ids: Vec<RuntimeId> = self.nodes.keys().copied().collect();
        for id in ids {
            let Some(node) = self.nodes.get_mut(&id) else {
                continue;
            };
            node.credit = (node.credit + per_slice).min(per_slice + 1.0);
            while let Some(node) = self.nodes.get_mut(&id) {
                let mut burst = core::mem::take(&mut self.scratch);
                while burst.len() < BURST {
                    let Some(frame) = node.queue.front() else {
                        break;
                    };
                    if is_packet(&self.pool, frame) {
                        if node.credit < 1.0 {
                            break;
                        }
                        node.credit -= 1.0;
                        node.queued -= 1;
                        node.taken += 1;
                    }
                    burst.extend(node.queue.pop_front());
                }
                let done = burst.is_empty();
                if !done {
                    node.actors.frames(now, &mut self.pool, &mut burst);
                }
                burst.clear();
                self.scratch = burst;
                if done {
                    break;
                }
                self.answers(now, id);
            }
        }
    }

    fn ticks(&mut self, now: Time) {
        let due = |deadline: Option<Time>| deadline.is_some_and(|at| at <= now);
        if due(self.switch.next_deadline()) {
            self.switch.tick(now, &mut self.pool);
            self.carry_out(now);
        }
        let ids: Vec<RuntimeId> = self.nodes.keys().copied().collect();
        for id in ids {
            if let Some(node) = self.nodes.get_mut(&id)
                && due(node.actors.next_deadline())
            {
                node.actors.tick(now, &mut self.pool);
                self.answers(now, id);
            }
        }
    }

    /// Asks each runtime for its load. What it lost at its input the queue knows.
    fn ask_for_reports(&mut self, now: Time) {
        let ids: Vec<RuntimeId> = self.nodes.keys().copied().collect();
        for id in ids {
            if let Some(node) = self.nodes.get_mut(&id) {
                let ask = Message::PollWorkload;
                node.actors
                    .message(now, &mut self.pool, Peer::Coordinator, ask);
            }
            self.answers(now, id);
        }
    }

    /// Carries out what a runtime's actors want.
    fn answers(&mut self, now: Time, id: RuntimeId) {
        let Some(node) = self.nodes.get_mut(&id) else {
            return;
        };
        let mut entries = core::mem::take(&mut node.actors.outbox.entries);
        for (to, message) in node.actors.outbox.messages.drain(..) {
            if let (Peer::Coordinator, Message::Workload(workload)) = (to, &message) {
                let load = control::Load {
                    packets: node.taken,
                    drops: node.lost,
                    ..control::Load::from(*workload)
                };
                self.workloads.push((id, load));
            } else {
                self.letters.push((Peer::Runtime(id), to, message));
            }
        }
        if !entries.is_empty() {
            self.switch.entries(now, &mut self.pool, id, &mut entries);
            entries.clear();
        }
        if let Some(node) = self.nodes.get_mut(&id) {
            node.actors.outbox.entries = entries;
        }
        self.carry_out(now);
    }

    /// Carries out what the switch wants.
    fn carry_out(&mut self, _now: Time) {
        let outbox = &mut self.switch.outbox;
        for queue in &mut outbox.queues {
            for frame in queue.frames.drain(..) {
                let Some(node) = self.nodes.get_mut(&queue.to) else {
                    self.gone_lost += u64::from(is_packet(&self.pool, &frame));
                    self.pool.give(frame);
                    continue;
                };
                if is_packet(&self.pool, &frame) {
                    if node.queued >= self.load.queue {
                        node.lost += 1;
                        self.pool.give(frame);
                        continue;
                    }
                    node.queued += 1;
                }
                node.queue.push_back(frame);
            }
        }
        let switch = Peer::Switch(GENERATION);
        let messages = outbox.messages.drain(..);
        self.letters
            .extend(messages.map(|(to, message)| (switch, to, message)));
        for frame in outbox.out.drain(..) {
            self.exit.see(self.pool.memory().bytes(&frame));
            self.out += 1;
            self.pool.give(frame);
        }
        outbox.events.clear();
    }

    fn totals(&self, offered: u64) -> Totals {
        // The switch counts drops of functions, too, and replaces losses at inputs by
        // `Lost`, sooner or later.
        let drops = self.switch.report().drops;
        let other = drops.iter().filter(|(reason, _)| reason != "lost");
        let mut totals = Totals {
            offered,
            out: self.out,
            lost: self.gone_lost,
            dropped: other.map(|(_, count)| count).sum(),
        };
        for node in self.nodes.values() {
            totals.lost += node.lost;
        }
        totals
    }

    fn finish(mut self, offered: u64) -> Summary {
        let totals = self.totals(offered);
        self.summary.offered = offered;
        self.summary.out = totals.out;
        self.summary.lost = totals.lost;
        self.summary.dropped = totals.dropped;
        self.summary.held = self.switch.report().held;
        self.summary.reordered = self.exit.reordered;
        self.summary.doubled = self.exit.doubled + self.exit.strange;
        self.summary.runtimes = self.nodes.len() as u32;
        self.summary
    }
}

/// True for what was received, false for what the switch put in a packet's place.
fn is_packet(pool: &FramePool, frame: &Frame) -> bool {
    pool.memory().meta(frame).flags & (frame_flags::LOST | frame_flags::TICK) == 0
}
