//! Settings of a simulation.

use weir_protocol::settings::Replication;

use crate::bug::Bug;
use crate::chain::Chain;
use crate::fault::{Fault, Faults};
use crate::random::Random;
use crate::slip::Slip;

/// The connection between a switch and its runtimes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// Links between processes and hosts, which may lose what they carry.
    #[default]
    Links,
    /// Queues between threads of one process, as in `weir run --runtimes`.
    Ring,
}

impl Mode {
    /// Faults that there may be.
    fn faults(self) -> Faults {
        match self {
            Mode::Links => Faults::HOSTILE,
            // Threads wait for their cores, and may panic; queues lose nothing.
            Mode::Ring => Fault::IN_PROCESS.into_iter().collect(),
        }
    }
}

impl core::fmt::Display for Mode {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            Mode::Links => "links",
            Mode::Ring => "ring",
        })
    }
}

impl core::str::FromStr for Mode {
    type Err = String;

    /// `links` or `ring`.
    fn from_str(text: &str) -> Result<Mode, String> {
        match text {
            "links" => Ok(Mode::Links),
            "ring" => Ok(Mode::Ring),
            _ => Err("there are links and ring".to_owned()),
        }
    }
}

/// Settings of a run; with its seed they are all that decides it.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Faults that may come.
    pub faults: Faults,
    /// Takes a random part of `faults` for each seed instead of all: then each
    /// combination comes, the quiet ones too.
    pub some_faults: bool,
    /// The connection between the switch and the runtimes; drawn by the seed
    /// without it.
    pub mode: Option<Mode>,
    /// When replicas get the state; drawn by the seed without it.
    pub replication: Option<Replication>,
    /// Runtimes at the start.
    pub runtimes: u32,
    /// Hosts that they run on; drawn by the seed without it, and 0 where nobody says
    /// which runtime runs where. The switch has a host of its own.
    pub hosts: Option<u32>,
    /// Loggers at the start; drawn by the seed without it. There are none where
    /// nothing is replicated.
    pub loggers: Option<u32>,
    /// Processes send heartbeats, and silence is suspected; drawn by the seed
    /// without it.
    pub heartbeats: Option<bool>,
    /// The switch gives units out by flowlet; drawn by the seed without it.
    pub flowlets: Option<bool>,
    /// Copies are compared with what was sent all the time; drawn by the seed without it.
    pub compare: Option<bool>,
    /// Drains are taken back in the middle; drawn by the seed without it.
    pub take_back: Option<bool>,
    /// Flows, at least.
    pub flows: u32,
    /// Packets.
    pub packets: u32,
    /// Owner changes that are asked for.
    pub moves: u32,
    /// The chain; drawn by the seed without it, for each where there are several.
    pub chain: Option<Chain>,
    /// Chains behind the same runtimes, each with a switch of its own. Between threads there is one.
    pub chains: u32,
    /// Messages on links that lose nothing, and frames without their wire
    /// form: faster, and hides no fault of the protocol itself.
    pub plain_links: bool,
    /// A planted bug.
    pub plant: Option<Bug>,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            faults: Faults::ALL,
            some_faults: true,
            mode: Some(Mode::Links),
            replication: None,
            runtimes: 4,
            hosts: None,
            loggers: None,
            heartbeats: None,
            flowlets: None,
            compare: None,
            take_back: None,
            flows: 200,
            packets: 5_000,
            moves: 60,
            chain: None,
            chains: 1,
            plain_links: false,
            plant: None,
        }
    }
}

impl Settings {
    /// The planted bug, where it is one between processes.
    pub(crate) fn slip(&self) -> Option<Slip> {
        self.plant.and_then(Bug::slip)
    }

    /// The connection between the switch and the runtimes in the run of this seed.
    pub fn mode_of(&self, seed: u64) -> Mode {
        let drawn = match Random::new(seed, 14).chance(100) {
            true => Mode::Ring,
            false => Mode::Links,
        };
        self.mode.unwrap_or(drawn)
    }

    /// When replicas get the state in the run of this seed.
    pub fn replication_of(&self, seed: u64) -> Replication {
        let mut random = Random::new(seed, 7);
        let drawn = match (random.chance(650), random.chance(400)) {
            (true, true) => Replication::Every(random.within(2, 24) as u32),
            (true, false) => Replication::EachBurst,
            (false, _) => Replication::None,
        };
        self.replication.unwrap_or(drawn)
    }

    /// True where processes of a seed send heartbeats.
    pub fn heartbeats_of(&self, seed: u64) -> bool {
        let drawn = Random::new(seed, 13).chance(400);
        self.mode_of(seed) == Mode::Links && self.heartbeats.unwrap_or(drawn)
    }

    /// True where the switches of a seed give units out by flowlet.
    pub fn flowlets_of(&self, seed: u64) -> bool {
        let drawn = Random::new(seed, 16).chance(300);
        self.flowlets.unwrap_or(drawn)
    }

    /// True where copies are compared all the time in a seed.
    pub fn compare_of(&self, seed: u64) -> bool {
        let drawn = Random::new(seed, 17).chance(300);
        self.compare.unwrap_or(drawn)
    }

    /// True where drains of a seed are taken back.
    pub fn take_back_of(&self, seed: u64) -> bool {
        let drawn = Random::new(seed, 18).chance(300);
        self.take_back.unwrap_or(drawn)
    }

    /// The chains of a seed.
    pub fn chains_of(&self, seed: u64) -> u32 {
        match self.mode_of(seed) {
            Mode::Links => self.chains.max(1),
            Mode::Ring => 1,
        }
    }

    /// The hosts of a seed.
    pub fn hosts_of(&self, seed: u64) -> u32 {
        if self.mode_of(seed) == Mode::Ring {
            return 0;
        }
        let mut random = Random::new(seed, 12);
        let drawn = random.pick(&[0, 2, 2, 3]).copied().unwrap_or(0);
        let drawn = match self.faults_of(seed).has(Fault::HostLoss) {
            true => drawn.max(2),
            false => drawn,
        };
        self.hosts.unwrap_or(drawn)
    }

    /// The loggers of a seed.
    pub fn loggers_of(&self, seed: u64) -> u32 {
        if self.replication_of(seed) == Replication::None {
            return 0;
        }
        let mut random = Random::new(seed, 15);
        let drawn = random.pick(&[0, 0, 0, 1, 2]).copied().unwrap_or(0);
        self.loggers.unwrap_or(drawn)
    }

    /// The faults of a seed. Some do not go together with others: what can't
    /// happen under a setting is left out.
    pub fn faults_of(&self, seed: u64) -> Faults {
        let mut random = Random::new(seed, 2);
        let mut faults = self.faults;
        if self.some_faults {
            faults = Fault::ALL
                .into_iter()
                .filter(|_| random.chance(400))
                .collect::<Faults>()
                .and(self.faults);
        }
        faults.and(self.mode_of(seed).faults())
    }
}
