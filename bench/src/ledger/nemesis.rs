//! Faults of runtimes and their hosts, one after another: the same again and again, or drawn by
//! a seed.

use std::time::Duration;

use serde_json::Value;

use super::bed::{Bed, Process, Switches, Way};
use crate::seeded::Seeded;
use crate::wire::try_run;

/// Lengths of stops and cuts, in ms: shorter than a heartbeat, some of them, and longer than any
/// silence that is borne. Each is drawn from half to one and a half times as long.
const LENGTHS: [u64; 6] = [2, 10, 40, 150, 600, 2_000];
/// Units that are moved as a fault comes.
const MOVED: u32 = 50;

/// A fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// The process of a runtime is killed.
    Kill,
    /// The agent of a host is killed, and with it its runtimes; another one is started.
    KillAgent,
    /// The process of a runtime stops, and goes on after this time.
    Stop(Duration),
    /// A host is cut off for this time.
    Cut(Way, Duration),
    /// The switch is killed, and with it the runtimes of its host; another one is started.
    KillSwitch,
    /// The host of the switch loses its power; one that stands by elsewhere takes over.
    LoseHost,
    /// The process of the switch is killed; one that stands by elsewhere takes over.
    LoseSwitch,
    /// The process of the switch stops, and goes on after this time: it may find another one in
    /// its place.
    StopSwitch(Duration),
    /// No fault: all processes become another program, the switch last.
    Upgrade,
}

/// How faults are chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Choice {
    /// Always this one, of one runtime or host after the other.
    Always(Fault),
    /// Drawn by this seed. Units are moved meanwhile; with `overlap` one fault in eight comes
    /// before that before it is mended.
    Drawn { seed: u64, overlap: bool },
}

/// Chooses faults.
pub(super) struct Nemesis {
    choice: Choice,
    random: Seeded,
    hosts: bool,
    /// A switch stands by.
    has_spare: bool,
}

/// A fault, and who suffers it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Attack {
    pub(super) fault: Fault,
    /// Number of the host or the process.
    victim: usize,
    /// Number of the pair of runtimes between which units are moved.
    moves: Option<usize>,
    /// Number of the process among those of its host; always the oldest where faults are not drawn.
    process: usize,
    /// It is waited until all is mended.
    pub(super) is_mended: bool,
}

impl Nemesis {
    /// One for runtimes on other `hosts`, or in processes of this one.
    pub(super) fn new(choice: Choice, hosts: bool, has_spare: bool) -> Nemesis {
        let seed = match choice {
            Choice::Always(_) => 0,
            Choice::Drawn { seed, .. } => seed,
        };
        Nemesis {
            choice,
            random: Seeded::new(seed),
            hosts,
            has_spare,
        }
    }

    /// The pause before a fault.
    pub(super) fn pause(&mut self) -> Duration {
        match self.choice {
            Choice::Always(_) => Duration::from_secs(1),
            Choice::Drawn { .. } => Duration::from_millis(self.random.below(300) as u64),
        }
    }

    /// The fault of this number.
    pub(super) fn next(&mut self, number: u32) -> Attack {
        let overlap = match self.choice {
            Choice::Always(fault) => {
                return Attack {
                    fault,
                    victim: number as usize,
                    moves: None,
                    process: 0,
                    is_mended: true,
                };
            }
            Choice::Drawn { overlap, .. } => overlap,
        };
        let kinds = match (self.hosts, self.has_spare) {
            (false, _) => 2,
            (true, false) => 6,
            (true, true) => 9,
        };
        let length = self.length();
        let fault = match self.random.below(kinds) {
            0 => Fault::Kill,
            1 => Fault::Stop(length),
            2 => Fault::KillAgent,
            3 => Fault::Cut(Way::Both, length),
            4 => Fault::Cut(Way::To, length),
            5 => Fault::Cut(Way::From, length),
            6 => Fault::LoseHost,
            7 => Fault::LoseSwitch,
            _ => Fault::StopSwitch(length),
        };
        Attack {
            fault,
            victim: self.random.below(64),
            moves: (self.random.below(2) == 0).then(|| self.random.below(64)),
            process: self.random.below(64),
            is_mended: !(overlap && self.random.below(8) == 0),
        }
    }

    fn length(&mut self) -> Duration {
        let length = LENGTHS[self.random.below(LENGTHS.len())];
        Duration::from_micros(length * (500 + self.random.below(1_000) as u64))
    }
}

impl Fault {
    /// Another switch runs when it is over, or may.
    pub(super) fn is_of_switch(self) -> bool {
        match self {
            Fault::KillSwitch
            | Fault::LoseHost
            | Fault::LoseSwitch
            | Fault::StopSwitch(_)
            | Fault::Upgrade => true,
            Fault::Kill | Fault::KillAgent | Fault::Stop(_) | Fault::Cut(..) => false,
        }
    }
}

impl Attack {
    /// Carries it out, and waits until it is over: how many runtimes have died for sure.
    pub(super) fn carry_out(
        &self,
        bed: &Bed,
        switches: &mut Switches,
        agents: &mut [Process],
    ) -> Result<u64, String> {
        if let Some(number) = self.moves {
            move_some(bed, number)?;
        }
        let host = self.victim % agents.len().max(1);
        match self.fault {
            Fault::Kill => {
                let Some(process) = self.victim(&switches.runs, agents) else {
                    return Ok(0);
                };
                try_run("kill", &["-9", &process])?;
                return Ok(1);
            }
            Fault::KillAgent => {
                let agent = agents.get_mut(host).ok_or("there is no agent to kill")?;
                agent.kill();
                *agent = bed.agent(host)?;
                return Ok(1);
            }
            Fault::KillSwitch => {
                switches.runs.kill();
                switches.runs = bed.weir_again()?;
                return Ok(0);
            }
            Fault::Upgrade => bed.upgrade(self.victim)?,
            Fault::LoseHost => switches.lose_host(bed)?,
            Fault::LoseSwitch => switches.lose(bed)?,
            Fault::StopSwitch(length) => switches.stop(bed, length)?,
            Fault::Stop(length) => {
                let Some(process) = self.victim(&switches.runs, agents) else {
                    return Ok(0);
                };
                try_run("kill", &["-STOP", &process])?;
                std::thread::sleep(length);
                // It may be over: one that was given up does not go on.
                let _ = try_run("kill", &["-CONT", &process]);
            }
            Fault::Cut(way, length) => {
                bed.cut(host, way)?;
                std::thread::sleep(length);
                bed.join(host, way)?;
            }
        }
        Ok(0)
    }

    /// Number of a runtime's process; there is none where a host has not got one again.
    fn victim(&self, weir: &Process, agents: &[Process]) -> Option<String> {
        let processes = match agents.get(self.victim % agents.len().max(1)) {
            Some(agent) => agent.children(),
            None => weir.children(),
        };
        let place = self.process % processes.len().max(1);
        let process = processes.into_iter().nth(place);
        process.map(|process| process.to_string())
    }
}

/// Has units move from one runtime to another.
fn move_some(bed: &Bed, number: usize) -> Result<(), String> {
    let stats = bed.stats()?;
    let ready = stats["runtimes"].as_array().into_iter().flatten();
    let ready: Vec<&Value> = ready.filter(|place| place["state"] == "ready").collect();
    if let [_, _, ..] = ready.as_slice() {
        let from = ready[number % ready.len()]["id"].to_string();
        let to = ready[(number + 1) % ready.len()]["id"].to_string();
        // None may fit, or one may be over by now.
        bed.move_units(&from, &to, MOVED)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_draws_the_same_again_and_each_kind() {
        let choice = Choice::Drawn {
            seed: 7,
            overlap: true,
        };
        let (mut one, mut other) = (
            Nemesis::new(choice, true, true),
            Nemesis::new(choice, true, true),
        );
        let mut kinds = std::collections::BTreeSet::new();
        let mut together = 0;
        for number in 0..200 {
            let attack = one.next(number);
            let again = other.next(number);
            assert_eq!(format!("{attack:?}"), format!("{again:?}"));
            assert_eq!(one.pause(), other.pause());
            together += u32::from(!attack.is_mended);
            kinds.insert(match attack.fault {
                Fault::Kill => 0,
                Fault::KillAgent => 1,
                Fault::Stop(_) => 2,
                Fault::Cut(way, _) => 3 + way as u32,
                Fault::LoseHost => 6,
                Fault::LoseSwitch => 7,
                Fault::StopSwitch(_) => 8,
                Fault::KillSwitch | Fault::Upgrade => unreachable!("it is not drawn"),
            });
        }
        assert_eq!(kinds.len(), 9);
        assert!((5..60).contains(&together), "{together}");
    }

    #[test]
    fn without_hosts_none_is_cut_off() {
        let choice = Choice::Drawn {
            seed: 1,
            overlap: false,
        };
        let mut nemesis = Nemesis::new(choice, false, false);
        for number in 0..100 {
            let attack = nemesis.next(number);
            assert!(matches!(attack.fault, Fault::Kill | Fault::Stop(_)));
            assert!(attack.is_mended);
        }
    }
}
