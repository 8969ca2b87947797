//! The steps of a run: drawn from the seed before it begins, so
//! that a failing run can be made smaller by leaving things out.

use weir_protocol::message::MoveMode;
use weir_protocol::settings::Replication;

use crate::chain::Chain;
use crate::fault::{Fault, Faults};
use crate::random::{Random, mix};
use crate::settings::{Mode, Settings};
use crate::traffic::{self, Planned, Recorded};

/// Everything that decides a run, apart from the settings.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The seed: of hashes, of links, of the chain's settings.
    pub seed: u64,
    /// The chain.
    pub chain: Chain,
    /// The connection between the switch and the runtimes.
    pub mode: Mode,
    /// Hosts that the runtimes run on; 0 where nobody says which runs where.
    pub hosts: u32,
    /// Loggers at the start.
    pub loggers: u32,
    /// Processes send heartbeats, and silence is suspected.
    pub heartbeats: bool,
    /// The switch gives units out by flowlet.
    pub flowlets: bool,
    /// Copies are compared with what was sent all the time.
    pub compare: bool,
    /// Drains are taken back in the middle.
    pub take_back: bool,
    /// When replicas get the state.
    pub replication: Replication,
    /// Faults that links and settings may have.
    pub faults: Faults,
    /// Packets, by time.
    pub packets: Vec<Planned>,
    /// Other steps, by time.
    pub steps: Vec<(u64, Step)>,
    /// When faults and traffic end.
    pub end: u64,
    /// The plans of the other chains behind the same runtimes: packets, moves and forgeries of their
    /// own, and all else is this one's.
    pub others: Vec<Plan>,
}

/// The number of a process, counted among those that are there then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Who {
    /// The switch.
    Switch,
    /// The runtime of this number, counted around.
    Runtime(u32),
}

/// The units that a move takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// So many.
    Number(u32),
    /// Those of these ports.
    Ports(u16, u16),
    /// Those of this IP protocol.
    Protocol(u8),
    /// Those of a client's prefix of this number.
    Prefix(u8),
    /// That of a flow of the plan.
    Flow(u32),
}

/// One thing that is done to the cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Units go from one runtime (or any) to another.
    Move {
        /// From which; from any without it.
        from: Option<u32>,
        /// To which.
        to: u32,
        /// The units.
        what: What,
        /// How.
        mode: MoveMode,
        /// Asked for by the coordinator's message, not by a call.
        by_message: bool,
    },
    /// A move that makes no sense: it must be refused.
    NonsenseMove {
        /// The kind of nonsense.
        number: u32,
    },
    /// A runtime gives all away and leaves; a new one comes.
    Drain {
        /// Which.
        who: u32,
        /// How.
        mode: MoveMode,
    },
    /// An operator ends a flow.
    End {
        /// Its number in the plan.
        flow: u32,
    },
    /// Another runtime comes.
    Join,
    /// The coordinator asks for loads and moves by them.
    Scale,
    /// The coordinator names a runtime's replica.
    SetReplica {
        /// Of which.
        of: u32,
        /// Which; none lets the switch choose.
        replica: Option<u32>,
    },
    /// A process stops for a while.
    Pause {
        /// Which.
        who: Who,
        /// For how long, in nanoseconds.
        time: u64,
    },
    /// A runtime dies.
    Crash {
        /// Which.
        who: u32,
        /// When the switch hears of it, in nanoseconds.
        notice: u64,
        /// When another one starts.
        restart: Option<u64>,
    },
    /// A host and all runtimes on it die.
    HostLoss {
        /// Which.
        host: u32,
        /// When the switch hears of each, at the latest, in nanoseconds.
        notice: u64,
    },
    /// All runtimes die; loggers stay.
    AllRuntimes {
        /// When the switch hears of each, at the latest, in nanoseconds.
        notice: u64,
    },
    /// A runtime is thought dead.
    Suspect {
        /// Which.
        who: u32,
    },
    /// The switch dies and is started again.
    SwitchCrash {
        /// After how many nanoseconds.
        restart: u64,
    },
    /// Two processes can't reach each other.
    Partition {
        /// One.
        one: Who,
        /// The other.
        other: Who,
        /// For how long.
        time: u64,
    },
    /// Nothing gets from one process to another.
    OneWay {
        /// From which.
        from: Who,
        /// To which.
        to: Who,
        /// For how long.
        time: u64,
    },
    /// Frames between two processes are late.
    Grey {
        /// One.
        one: Who,
        /// The other.
        other: Who,
        /// By how much, in nanoseconds.
        by: u64,
        /// For how long.
        time: u64,
    },
    /// A runtime and another process can't reach each other any more.
    CutOff {
        /// The runtime, which will be suspected.
        who: u32,
        /// The other.
        other: Who,
        /// When the switch suspects the runtime, in nanoseconds.
        notice: u64,
    },
    /// A process's clock jumps ahead.
    ClockJump {
        /// The process whose clock it is.
        who: Who,
        /// By how much, in nanoseconds.
        by: u64,
    },
    /// The switch is replaced, and goes on for a while.
    Depose {
        /// When its successor starts, in nanoseconds.
        restart: u64,
        /// When it ends, in nanoseconds.
        ends: u64,
    },
    /// Links lose most frames.
    LossyBurst {
        /// For how long.
        time: u64,
    },
    /// Something arrives that nobody sent.
    Forge {
        /// Where.
        who: Who,
        /// The number of the forgery.
        number: u64,
    },
}

impl Step {
    /// True where it changes owners.
    pub fn is_move(&self) -> bool {
        matches!(
            self,
            Step::Move { .. } | Step::Drain { .. } | Step::Join | Step::Scale
        )
    }

    /// True where it is done to a process or a link, and so to all chains.
    fn is_for_all(&self) -> bool {
        match self {
            Step::Drain { .. } | Step::Join => true,
            _ => self.fault().is_some_and(|fault| fault != Fault::Forgery),
        }
    }

    /// The fault it belongs to.
    pub fn fault(&self) -> Option<Fault> {
        Some(match self {
            Step::Pause { .. } => Fault::Pause,
            Step::Crash { .. } => Fault::Crash,
            Step::HostLoss { .. } => Fault::HostLoss,
            Step::AllRuntimes { .. } => Fault::AllRuntimes,
            Step::Suspect { .. } => Fault::FalseSuspicion,
            Step::SwitchCrash { .. } => Fault::SwitchRestart,
            Step::Partition { .. } => Fault::Partition,
            Step::LossyBurst { .. } => Fault::LossyBurst,
            Step::OneWay { .. } => Fault::OneWay,
            Step::Grey { .. } => Fault::Grey,
            Step::CutOff { .. } => Fault::CutOff,
            Step::ClockJump { .. } => Fault::Skew,
            Step::Depose { .. } => Fault::TwoSwitches,
            Step::Forge { .. } | Step::NonsenseMove { .. } => Fault::Forgery,
            _ => return None,
        })
    }
}

/// Draws the seeds of the other chains' packets and moves.
const OTHER_CHAIN: u64 = 0xc4a1_0000;

const MODES: [MoveMode; 3] = [MoveMode::Push, MoveMode::Pull, MoveMode::Reprocess];

impl Plan {
    /// Draws the plan of a seed. `recorded` takes the generator's place.
    pub fn draw(seed: u64, settings: &Settings, recorded: Option<&[Recorded]>) -> Plan {
        let mut plan = Plan::of_chain(seed, settings, recorded);
        for number in 1..settings.chains_of(seed) {
            let own = Settings {
                faults: plan.faults,
                some_faults: false,
                mode: Some(plan.mode),
                ..settings.clone()
            };
            let drawn = mix(seed, OTHER_CHAIN + u64::from(number));
            let mut other = Plan::of_chain(drawn, &own, recorded);
            other.steps.retain(|(_, step)| !step.is_for_all());
            plan.end = plan.end.max(other.end);
            plan.others.push(Plan {
                seed,
                hosts: plan.hosts,
                loggers: plan.loggers,
                heartbeats: plan.heartbeats,
                flowlets: plan.flowlets,
                compare: plan.compare,
                take_back: plan.take_back,
                replication: plan.replication,
                faults: plan.faults,
                ..other
            });
        }
        for other in &mut plan.others {
            other.end = plan.end;
        }
        plan
    }

    fn of_chain(seed: u64, settings: &Settings, recorded: Option<&[Recorded]>) -> Plan {
        let mut random = Random::new(seed, 5);
        let drawn = random.pick(&Chain::DRAWN).copied();
        let chain = settings.chain.or(drawn).unwrap_or(Chain::Count);
        let faults = settings.faults_of(seed);
        let packets = match recorded {
            Some(recorded) => traffic::plan_of(recorded, settings.packets),
            None => traffic::plan(seed, chain, settings.flows, settings.packets),
        };
        let end = traffic::duration(packets.len() as u32).max(1_000_000);
        let mut steps = Vec::new();
        for _ in 0..settings.moves {
            let step = one_move(&mut random, settings.flows);
            steps.push((random.below(end), step));
        }
        for fault in faults.iter() {
            for _ in 0..how_often(&mut random, fault, end) {
                if let Some(step) = one_fault(&mut random, fault) {
                    steps.push((random.below(end), step));
                }
            }
        }
        // Drawn apart, so that all else of a seed is what it was without them.
        let mut random = Random::new(seed, 11);
        for _ in 0..settings.moves {
            let flow = random.below(u64::from(settings.flows.max(1))) as u32;
            steps.push((random.below(end), Step::End { flow }));
        }
        steps.sort_by_key(|(at, _)| *at);
        Plan {
            seed,
            chain,
            mode: settings.mode_of(seed),
            hosts: settings.hosts_of(seed),
            loggers: settings.loggers_of(seed),
            heartbeats: settings.heartbeats_of(seed),
            flowlets: settings.flowlets_of(seed),
            compare: settings.compare_of(seed),
            take_back: settings.take_back_of(seed),
            replication: settings.replication_of(seed),
            faults,
            packets,
            steps,
            end,
            others: Vec::new(),
        }
    }

    /// Owner changes that are asked for.
    pub fn moves(&self) -> usize {
        self.steps.iter().filter(|(_, s)| s.is_move()).count()
    }
}

fn one_move(random: &mut Random, flows: u32) -> Step {
    let mode = MODES[random.below(3) as usize];
    match random.below(20) {
        0 => Step::Drain {
            who: random.number() as u32,
            mode,
        },
        1 => Step::Join,
        2 => Step::Scale,
        3 => Step::SetReplica {
            of: random.number() as u32,
            replica: random.chance(600).then(|| random.number() as u32),
        },
        _ => Step::Move {
            from: random.chance(600).then(|| random.number() as u32),
            to: random.number() as u32,
            what: match random.below(12) {
                0 => What::Ports(0, 79),
                1 => What::Ports(80, 1_023),
                2 => What::Protocol([6, 17, 1][random.below(3) as usize]),
                3 => What::Prefix(random.below(4) as u8),
                4..=6 => What::Flow(random.below(u64::from(flows.max(1))) as u32),
                _ => What::Number([1, 5, 40, 200][random.below(4) as usize]),
            },
            mode,
            by_message: random.chance(200),
        },
    }
}

/// Times that a fault comes in a run.
fn how_often(random: &mut Random, fault: Fault, end: u64) -> u64 {
    let per_100_ms = |n: u64| 1 + n * end / 100_000_000;
    match fault {
        Fault::Partition => random.below(per_100_ms(1) + 1),
        Fault::LossyBurst => random.below(per_100_ms(1) + 1),
        Fault::Pause => random.below(per_100_ms(2) + 1),
        Fault::Crash => random.within(1, per_100_ms(1)),
        Fault::HostLoss => 1,
        Fault::FalseSuspicion => random.within(1, per_100_ms(1)),
        Fault::SwitchRestart => random.within(1, 2),
        Fault::Forgery => random.within(1, per_100_ms(4)),
        Fault::OneWay | Fault::Grey => random.within(1, per_100_ms(2)),
        Fault::CutOff => random.within(1, per_100_ms(1)),
        Fault::Skew => random.below(4),
        Fault::TwoSwitches | Fault::AllRuntimes => random.within(1, 2),
        _ => 0,
    }
}

fn one_fault(random: &mut Random, fault: Fault) -> Option<Step> {
    let who = |random: &mut Random| match random.below(4) {
        0 => Who::Switch,
        _ => Who::Runtime(random.number() as u32),
    };
    let time = [300_000, 3_000_000, 15_000_000, 60_000_000][random.below(4) as usize];
    let time = random.within(time / 3, time);
    Some(match fault {
        Fault::Partition => Step::Partition {
            one: who(random),
            other: Who::Runtime(random.number() as u32),
            time,
        },
        Fault::LossyBurst => Step::LossyBurst { time },
        Fault::OneWay => Step::OneWay {
            from: who(random),
            to: who(random),
            time,
        },
        Fault::Grey => Step::Grey {
            one: who(random),
            other: who(random),
            by: random.within(500_000, 8_000_000),
            time,
        },
        Fault::CutOff => Step::CutOff {
            who: random.number() as u32,
            other: who(random),
            notice: random.below(time),
        },
        Fault::Skew => Step::ClockJump {
            who: who(random),
            by: random.below(3_000_000_000),
        },
        Fault::TwoSwitches => Step::Depose {
            restart: random.below(1_000_000),
            ends: random.within(1_000_000, 40_000_000),
        },
        Fault::Pause => Step::Pause {
            who: who(random),
            time,
        },
        Fault::Crash => Step::Crash {
            who: random.number() as u32,
            notice: random.below(time),
            restart: random.chance(800).then(|| random.below(40_000_000)),
        },
        Fault::HostLoss => Step::HostLoss {
            host: random.number() as u32,
            notice: random.below(time),
        },
        Fault::AllRuntimes => Step::AllRuntimes {
            notice: random.below(time),
        },
        Fault::FalseSuspicion => Step::Suspect {
            who: random.number() as u32,
        },
        Fault::SwitchRestart => Step::SwitchCrash {
            restart: random.below(time),
        },
        Fault::Forgery => {
            if random.chance(300) {
                Step::NonsenseMove {
                    number: random.number() as u32,
                }
            } else {
                Step::Forge {
                    who: who(random),
                    number: random.number(),
                }
            }
        }
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_gives_one_plan_with_what_was_asked_for() {
        let settings = Settings {
            some_faults: false,
            ..Settings::default()
        };
        let plan = Plan::draw(3, &settings, None);
        let again = Plan::draw(3, &settings, None);
        assert_eq!(plan.steps, again.steps);
        assert!(plan.packets.len() >= 4_990 && plan.moves() >= 50);
        assert!(plan.steps.is_sorted_by_key(|(at, _)| *at));
        for fault in [Fault::Crash, Fault::SwitchRestart, Fault::Forgery] {
            assert!(plan.steps.iter().any(|(_, s)| s.fault() == Some(fault)));
        }
        let quiet = Settings {
            faults: Faults::NONE,
            ..Settings::default()
        };
        let quiet = Plan::draw(3, &quiet, None);
        assert!(quiet.steps.iter().all(|(_, s)| s.fault().is_none()));
    }
}
