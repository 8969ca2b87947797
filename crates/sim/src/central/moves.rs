//! The central mode and the distributed one over the same switch, actors and
//! engines: every flow moves there and back under traffic.

use std::collections::{BTreeMap, VecDeque};

use weir_graph::{Input, load, render};
use weir_nf::NoSources;
use weir_nf::host::Stage;
use weir_packet::{Frame, FramePool, MemoryLayout, Time};
use weir_protocol::message::{MoveMode, Selection};
use weir_protocol::settings::{ActorSettings, SwitchSettings};
use weir_protocol::switch::SwitchCount;
use weir_protocol::{Actors, Message, Peer, RuntimeId, Switch};
use weir_runtime::{Runtime, RuntimeConfig};

use super::{Central, Controller};
use crate::random::Random;
use crate::scaling::flows::{Exit, frame};

const FLOWS: u32 = 200;
const A: RuntimeId = RuntimeId(1);
const B: RuntimeId = RuntimeId(2);
/// Nanoseconds between two rounds: what is sent in one arrives in the next.
const ROUND: u64 = 50_000;

fn stage() -> Stage {
    let text = "chain: central\nflows: {max: 1024}\nnfs:\n  - ip-check\n  - firewall:\n      \
                default: drop\n      rules: [accept udp to any port 53 name names]\n  - monitor\n";
    let input = Input {
        name: "central",
        text,
        kinds: weir_functions::kinds(),
        overrides: &[],
        seed: 1,
    };
    let mut file = load(&input, &mut NoSources).unwrap_or_else(|all| panic!("{}", render(&all)));
    file.chains.remove(0).stage
}

enum Cargo {
    Frames(Vec<Frame>),
    Message(Message),
    /// For the controller: to whom it would go without one.
    Relay(RuntimeId, Message),
}

/// One process; packets to runtimes may be lost or late where `bad` has a seed.
struct Rig {
    bad: Option<Random>,
    pool: FramePool,
    switch: Switch,
    runtimes: BTreeMap<RuntimeId, Actors>,
    controller: Option<Controller>,
    /// (round of arrival, from, to, what)
    ways: VecDeque<(u64, Peer, Peer, Cargo)>,
    round: u64,
    sequence: u64,
    sent: BTreeMap<u32, u32>,
    exit: Exit,
    out: u64,
}

impl Rig {
    fn new(central: bool, bad: Option<u64>) -> Rig {
        let stage = stage();
        let config = RuntimeConfig::default();
        let switch = Switch::new(&stage, config, SwitchSettings::default()).unwrap();
        let mut rig = Rig {
            bad: bad.map(|seed| Random::new(seed, 0)),
            pool: FramePool::with_layout(MemoryLayout {
                small_frames: 32_768,
                small_bytes: 1_024,
                ..MemoryLayout::default()
            }),
            switch,
            runtimes: BTreeMap::new(),
            controller: central.then(|| Controller::new(10_000)),
            ways: VecDeque::new(),
            round: 1,
            sequence: 0,
            sent: BTreeMap::new(),
            exit: Exit::default(),
            out: 0,
        };
        for id in [A, B] {
            let follows = RuntimeConfig {
                follows: true,
                ..config
            };
            let engine = Runtime::new(&stage, follows).unwrap();
            let settings = ActorSettings {
                id,
                ..ActorSettings::default()
            };
            rig.runtimes.insert(id, Actors::new(engine, settings));
            rig.switch.join(rig.now(), id);
        }
        rig.carry_switch();
        rig
    }

    fn now(&self) -> Time {
        Time(1_000_000_000 + self.round * ROUND)
    }

    fn send(&mut self, delay: u64, from: Peer, to: Peer, cargo: Cargo) {
        if matches!(&cargo, Cargo::Frames(frames) if frames.is_empty()) {
            return;
        }
        let mut at = self.round + delay;
        let is_data = matches!((from, to), (Peer::Switch(_), Peer::Runtime(_)));
        let cargo = match (cargo, &mut self.bad) {
            (Cargo::Frames(frames), Some(random)) if is_data => {
                let mut come = Vec::new();
                for frame in frames {
                    match random.chance(50) {
                        true => self.pool.give(frame),
                        false => come.push(frame),
                    }
                }
                at += if random.chance(100) {
                    random.within(1, 5)
                } else {
                    0
                };
                Cargo::Frames(come)
            }
            (cargo, _) => cargo,
        };
        let place = self.ways.partition_point(|way| way.0 <= at);
        self.ways.insert(place, (at, from, to, cargo));
    }

    fn carry_switch(&mut self) {
        if let Some(controller) = &mut self.controller {
            controller.from_switch(&mut self.pool, &mut self.switch.outbox);
        }
        self.carry_controller();
        let outbox = &mut self.switch.outbox;
        let messages = core::mem::take(&mut outbox.messages);
        let queues: Vec<_> = outbox
            .queues
            .iter_mut()
            .map(|queue| (queue.to, core::mem::take(&mut queue.frames)))
            .collect();
        for frame in outbox.out.drain(..) {
            self.exit.see(self.pool.memory().bytes(&frame));
            self.out += 1;
            self.pool.give(frame);
        }
        let switch = Peer::Switch(1);
        for (to, message) in messages {
            self.send(1, switch, to, Cargo::Message(message));
        }
        for (to, frames) in queues {
            self.send(1, switch, Peer::Runtime(to), Cargo::Frames(frames));
        }
    }

    fn carry_controller(&mut self) {
        let Some(controller) = &mut self.controller else {
            return;
        };
        let outbox = core::mem::take(&mut controller.outbox);
        for (from, to, message) in outbox.messages {
            self.send(1, from, to, Cargo::Message(message));
        }
        for queue in outbox.queues {
            let to = Peer::Runtime(queue.to);
            self.send(1, Peer::Switch(1), to, Cargo::Frames(queue.frames));
        }
    }

    fn carry_runtime(&mut self, id: RuntimeId) {
        let outbox = core::mem::take(&mut self.runtimes.get_mut(&id).unwrap().outbox);
        let from = Peer::Runtime(id);
        self.send(1, from, Peer::Switch(1), Cargo::Frames(outbox.entries));
        for (to, message) in outbox.messages {
            match (to, &self.controller) {
                (Peer::Runtime(to), Some(_)) => {
                    self.send(1, from, Peer::Coordinator, Cargo::Relay(to, message));
                }
                _ => self.send(1, from, to, Cargo::Message(message)),
            }
        }
    }

    /// One round: what is due arrives, each flow of `flows` sends a packet.
    fn round(&mut self, flows: core::ops::Range<u32>) {
        self.round += 1;
        let now = self.now();
        while self.ways.front().is_some_and(|way| way.0 <= self.round) {
            let Some((_, from, to, cargo)) = self.ways.pop_front() else {
                break;
            };
            match (to, cargo) {
                (Peer::Runtime(id), Cargo::Frames(mut frames)) => {
                    let actors = self.runtimes.get_mut(&id).unwrap();
                    actors.frames(now, &mut self.pool, &mut frames);
                    self.carry_runtime(id);
                }
                (Peer::Runtime(id), Cargo::Message(message)) => {
                    let actors = self.runtimes.get_mut(&id).unwrap();
                    actors.message(now, &mut self.pool, from, message);
                    self.carry_runtime(id);
                }
                (_, Cargo::Relay(to, message)) => {
                    let (Peer::Runtime(from), Some(controller)) = (from, &mut self.controller)
                    else {
                        panic!("states come from runtimes")
                    };
                    controller.from_runtime(from, to, message);
                    self.carry_controller();
                }
                (_, Cargo::Frames(mut frames)) => {
                    let Peer::Runtime(id) = from else {
                        panic!("entries come from runtimes")
                    };
                    self.switch.entries(now, &mut self.pool, id, &mut frames);
                    self.carry_switch();
                }
                (_, Cargo::Message(message)) => {
                    self.switch.message(now, &mut self.pool, from, message);
                    self.carry_switch();
                }
            }
        }
        let mut input = Vec::new();
        for flow in flows {
            self.sequence += 1;
            let number = self.sent.entry(flow).or_insert(0);
            input.push(frame(&mut self.pool, now, self.sequence, (flow, *number)).unwrap());
            *number += 1;
        }
        self.switch.ingress(now, &mut self.pool, &mut input);
        self.carry_switch();
        if self.switch.next_deadline().is_some_and(|at| at <= now) {
            self.switch.tick(now, &mut self.pool);
            self.carry_switch();
        }
        for id in [A, B] {
            let actors = self.runtimes.get_mut(&id).unwrap();
            if actors.next_deadline().is_some_and(|at| at <= now) {
                actors.tick(now, &mut self.pool);
                self.carry_runtime(id);
            }
        }
    }

    fn rounds(&mut self, count: u32, flows: core::ops::Range<u32>) {
        for _ in 0..count {
            self.round(flows.clone());
        }
    }

    fn move_all(&mut self, from: RuntimeId, to: RuntimeId) -> u32 {
        let now = self.now();
        let moved = self
            .switch
            .move_units(now, Some(from), to, &Selection::All, MoveMode::Push)
            .unwrap();
        self.carry_switch();
        moved
    }

    /// The state of each unit, wherever it is: (how many at A, at B, states).
    fn states(&self) -> (usize, usize, BTreeMap<u64, Vec<u8>>) {
        let mut states = BTreeMap::new();
        let mut at = [0, 0];
        for unit in self.switch.live_units() {
            for (place, id) in [A, B].iter().enumerate() {
                let engine = self.runtimes[id].engine();
                let mut bytes = Vec::new();
                if engine.export_unit(unit.0, &mut bytes).is_ok() {
                    at[place] += 1;
                    states.insert(unit.0, bytes);
                }
            }
        }
        (at[0], at[1], states)
    }
}

/// All flows start, all at A go to B, all at B to A, under traffic.
fn there_and_back(central: bool, bad: Option<u64>) -> (Rig, u32) {
    let mut rig = Rig::new(central, bad);
    rig.rounds(10, 0..FLOWS);
    let mut moved = rig.move_all(A, B);
    rig.rounds(20, 0..FLOWS);
    moved += rig.move_all(B, A);
    rig.rounds(20, 0..FLOWS);
    // Repeats that stay unanswered back off to 100 ms, so the last ones take long.
    rig.rounds(10_000, 0..0);
    (rig, moved)
}

#[test]
fn central_moves_lose_double_and_reorder_nothing_and_states_arrive() {
    let (rig, moved) = there_and_back(true, None);
    assert_eq!(rig.out, u64::from(FLOWS) * 50);
    assert_eq!(
        (rig.exit.reordered, rig.exit.doubled, rig.exit.strange),
        (0, 0, 0)
    );
    let (a, b, states) = rig.states();
    assert_eq!((a, b), (FLOWS as usize, 0));
    // Half of the flows were at A, then all at B.
    assert_eq!(moved, FLOWS / 2 + FLOWS);
    let controller = rig.controller.as_ref().unwrap();
    let count = |what| controller.counts().get(what);
    assert_eq!(count(Central::Moves), u64::from(moved));
    assert_eq!(count(Central::Released), u64::from(moved));
    assert!(
        count(Central::Held) >= u64::from(moved),
        "packets came meanwhile"
    );
    assert!(count(Central::StateBytes) > 0);
    assert_eq!(controller.held(), 0);

    // The distributed way ends in the same states, and so does no move at all.
    let (push, pushed) = there_and_back(false, None);
    assert_eq!((push.out, pushed), (rig.out, moved));
    assert_eq!(push.exit.reordered + push.exit.doubled, 0);
    let mut still = Rig::new(false, None);
    still.rounds(50, 0..FLOWS);
    still.rounds(1_000, 0..0);
    assert_eq!(push.states().2.len(), states.len());
    for (unit, state) in &still.states().2 {
        assert_eq!(states.get(unit), Some(state), "unit {unit:#x}, central");
        assert_eq!(
            push.states().2.get(unit),
            Some(state),
            "unit {unit:#x}, push"
        );
    }
}

#[test]
fn a_runtimes_death_during_central_moves_is_as_harmless_as_otherwise() {
    let mut rig = Rig::new(true, None);
    rig.rounds(10, 0..FLOWS);
    rig.move_all(A, B);
    rig.rounds(1, 0..FLOWS);
    // The target is suspected while all its views are on their way: the sources
    // go on. It had half of the flows itself: those are lost, by name.
    let now = rig.now();
    rig.switch.suspect(now, &mut rig.pool, B);
    rig.carry_switch();
    rig.rounds(20, 0..FLOWS);
    rig.rounds(1_000, 0..0);
    assert_eq!((rig.exit.reordered, rig.exit.doubled), (0, 0));
    let controller = rig.controller.as_ref().unwrap();
    assert_eq!(controller.held(), 0);
    let (a, _, _) = rig.states();
    assert_eq!(a, FLOWS as usize);
    let ended = controller.counts().get(Central::Superseded);
    assert_eq!(ended, u64::from(FLOWS / 2));
}

#[test]
fn packets_that_are_lost_or_late_on_their_way_come_out_once_and_in_order_in_both_modes() {
    for seed in 0..8 {
        for central in [true, false] {
            let (rig, moved) = there_and_back(central, Some(seed));
            assert_eq!(rig.out, u64::from(FLOWS) * 50, "seed {seed}");
            let exit = &rig.exit;
            assert_eq!((exit.reordered, exit.doubled, exit.strange), (0, 0, 0));
            assert!(moved >= FLOWS / 2, "seed {seed}: {moved}");
            let repeated = rig.switch.counts().get(SwitchCount::Repeated);
            assert!(repeated > 0);
            if let Some(controller) = &rig.controller {
                assert_eq!(controller.held(), 0);
            }
        }
    }
}
