//! What a switch that starts asks the agents: which runtimes has a switch before it left behind?
//!
//! A runtime outlives its switch for a while ([`super::remote_node`]). The next switch takes those
//! over that are of its own kind, with a generation of its own: one more than any that an agent
//! knows, so that no runtime hears an older one again.

use std::collections::BTreeMap;
use std::net::{SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use weir_exec::ExecError;
use weir_protocol::link::control::{self, Control, Head};
use weir_protocol::stream::ProcessStart;
use weir_protocol::{Peer, RuntimeId};

use super::super::wiring::place_of;
use super::GRACE;
use super::connect::{NETWORK, RemoteHosts, socket_for};
use super::hello::{Here, Listed, VERSION, Who, generation_of, kind};
use crate::say::say;

/// Longest wait for an agent's answer: one that gives none has no survivors.
const PATIENCE: Duration = Duration::from_secs(1);
/// Interval at which agents are asked.
const AGAIN: Duration = Duration::from_millis(10);
/// Intervals of heartbeats beyond those that may be missing, in which a runtime notices that its
/// switch is gone. Its clock and that of its beats are not this one's.
const SPARE_BEATS: u32 = 4;
/// Octets of the longest answer.
const ROOM: usize = 64 << 10;
/// The generation of a switch before which there was none.
const FIRST: u16 = 1;

/// A runtime that has outlived its switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) struct Survivor {
    pub(in super::super) id: RuntimeId,
    /// Process start of the switch that it had.
    pub(in super::super) before: u64,
}

/// What there is at the start of a switch.
#[derive(Debug, PartialEq, Eq)]
pub(in super::super) struct Found {
    /// Generation of the switch that starts.
    pub(in super::super) generation: u16,
    /// The highest id of a runtime that there is; 0 of none.
    pub(in super::super) highest: u32,
    /// At most one at each place of a runtime.
    pub(in super::super) survivors: Vec<Survivor>,
}

impl Default for Found {
    fn default() -> Found {
        Found {
            generation: FIRST,
            highest: 0,
            survivors: Vec::new(),
        }
    }
}

impl RemoteHosts {
    /// Asks all agents for runtimes of so many places, and this replication, that have outlived
    /// their switch.
    ///
    /// # Errors
    ///
    /// There is no socket, or no generation is left.
    pub(in super::super) fn survivors(
        &self,
        places: usize,
        replication: &str,
    ) -> Result<Found, ExecError> {
        let mut agents: Vec<SocketAddr> = self.agents.iter().flatten().copied().collect();
        agents.sort_unstable();
        agents.dedup();
        let mut asking = Asking {
            hosts: self,
            kind: kind(&self.run, self.digest, places, replication),
            answers: BTreeMap::new(),
            number: 0,
        };
        for agent in agents {
            asking.ask(agent)?;
        }
        asking.tell_of_others();
        let agent_of = |place| self.agent_of(place);
        found(&asking.answers, &asking.kind, places, agent_of)
    }
}

struct Asking<'a> {
    hosts: &'a RemoteHosts,
    kind: String,
    answers: BTreeMap<SocketAddr, Vec<Listed>>,
    number: u64,
}

impl Asking<'_> {
    /// Asks an agent until it answers, and until each of its runtimes of this kind has noticed
    /// whether its switch is gone.
    fn ask(&mut self, agent: SocketAddr) -> Result<(), ExecError> {
        let failed = |error: std::io::Error| ExecError(format!("agent {agent}: {error}"));
        let socket = socket_for(agent).map_err(failed)?;
        socket.set_read_timeout(Some(AGAIN)).map_err(failed)?;
        let (interval, missed) = self.hosts.beats;
        // One that was taken over a moment ago judges no silence yet.
        let notice = GRACE + Duration::from_nanos(interval) * (missed + SPARE_BEATS);
        let mut until = Instant::now() + PATIENCE;
        while Instant::now() < until {
            let asked = Instant::now();
            let Some(here) = self.answer(&socket, agent) else {
                continue;
            };
            if self.answers.insert(agent, here.runtimes).is_none() {
                until = Instant::now() + notice;
            }
            if self.with_switch(agent).next().is_none() {
                return Ok(());
            }
            std::thread::sleep(AGAIN.saturating_sub(asked.elapsed()));
        }
        for listed in self.with_switch(agent) {
            say(format_args!(
                "note: runtime {} on {agent} is left alone: its switch seems to live",
                listed.id
            ));
        }
        Ok(())
    }

    /// Says which states are left to end.
    fn tell_of_others(&self) {
        for (agent, listed) in each(&self.answers) {
            if listed.kind != self.kind && listed.waits && listed.units > 0 {
                say(format_args!(
                    "note: runtime {} on {agent} waits with {} units, and is left to end: it has \
                     another name, chain file, number of places or replication",
                    listed.id, listed.units
                ));
            }
        }
    }

    /// The runtimes of an agent that are of this kind and have a switch.
    fn with_switch(&self, agent: SocketAddr) -> impl Iterator<Item = &Listed> {
        let all = self.answers.get(&agent).into_iter().flatten();
        all.filter(|listed| listed.kind == self.kind && !listed.waits)
    }

    /// Asks once.
    fn answer(&mut self, socket: &UdpSocket, agent: SocketAddr) -> Option<Here> {
        self.number += 1;
        // Its generation depends on the answer.
        let own = ProcessStart::of(Peer::Switch(0), self.hosts.start);
        let head = Head {
            source: own,
            destination: own,
            number: self.number,
        };
        let who = serde_json::to_vec(&Who {
            version: VERSION,
            dead: self.hosts.before,
        })
        .unwrap_or_default();
        let asked = control::datagram(NETWORK, &self.hosts.key, head, Control::Who(&who));
        for datagram in asked.iter() {
            // Like a loss: it is asked again.
            let _ = socket.send_to(datagram, agent);
        }
        let mut room = vec![0; ROOM];
        let (length, _) = socket.recv_from(&mut room).ok()?;
        let heard = control::unwrap(room.get(..length)?).ok()?;
        match control::read(&self.hosts.key, heard) {
            Ok((head, Control::Here(body))) if head.destination == own => {
                let here: Here = serde_json::from_slice(body).ok()?;
                (here.version == VERSION).then_some(here)
            }
            // Of an earlier start, or of nobody.
            _ => None,
        }
    }
}

/// Each runtime that an agent has listed.
fn each(
    answers: &BTreeMap<SocketAddr, Vec<Listed>>,
) -> impl Iterator<Item = (SocketAddr, &Listed)> {
    let answers = answers.iter();
    answers.flat_map(|(agent, all)| all.iter().map(move |listed| (*agent, listed)))
}

/// The generation of this switch, and who is taken over: of the runtimes of the newest switch of this
/// kind, the last one at each place, if it waits. What an older one has left may be behind
/// what ended since, and one that has a successor was given up by its own switch.
fn found(
    answers: &BTreeMap<SocketAddr, Vec<Listed>>,
    kind: &str,
    places: usize,
    agent_of: impl Fn(usize) -> Option<SocketAddr>,
) -> Result<Found, ExecError> {
    let known = each(answers).map(|(_, listed)| generation_of(listed.switch));
    let known = known.max();
    let next = known.unwrap_or(0).checked_add(1);
    let generation = next.ok_or_else(|| {
        ExecError("there have been 65,535 switches: end the agents once".to_owned())
    })?;
    let ours = || each(answers).filter(|(_, listed)| listed.kind == kind);
    // A switch that could not start leaves runtimes that have nothing: any other one comes first.
    let newest = ours().map(|(_, listed)| {
        let counts = !listed.waits || listed.units > 0;
        (counts, generation_of(listed.switch), listed.switch)
    });
    let newest = newest.max().map(|(_, _, switch)| switch);
    let mut last: BTreeMap<usize, (&Listed, SocketAddr)> = BTreeMap::new();
    for (agent, listed) in ours().filter(|(_, listed)| Some(listed.switch) == newest) {
        let at = last.entry(place_of(RuntimeId(listed.id), places));
        let at = at.or_insert((listed, agent));
        if at.0.id < listed.id {
            *at = (listed, agent);
        }
    }
    // One on a host that is not its place's any more is left to end.
    let survivors = last
        .into_iter()
        .filter(|(place, (listed, agent))| listed.waits && agent_of(*place) == Some(*agent));
    Ok(Found {
        generation,
        highest: each(answers)
            .map(|(_, listed)| listed.id)
            .max()
            .unwrap_or(0),
        survivors: survivors
            .map(|(_, (listed, _))| Survivor {
                id: RuntimeId(listed.id),
                before: listed.switch,
            })
            .collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const KIND: &str = "1/2/none";

    fn agent(host: u8) -> SocketAddr {
        SocketAddr::from(([10, 0, 0, host], 4_790))
    }

    fn switch(generation: u16) -> u64 {
        ProcessStart::of(Peer::Switch(generation), u32::from(generation) * 7).0
    }

    fn listed(id: u32, generation: u16, waits: bool) -> Listed {
        Listed {
            id,
            switch: switch(generation),
            kind: KIND.to_owned(),
            waits,
            units: u64::from(waits) * 10,
        }
    }

    /// Two places, each on a host of its own.
    fn look(first: Vec<Listed>, second: Vec<Listed>) -> (u16, Vec<u32>) {
        let answers = BTreeMap::from([(agent(0), first), (agent(1), second)]);
        let found = found(&answers, KIND, 2, |place| Some(agent(place as u8))).unwrap();
        let ids = found.survivors.iter().map(|survivor| survivor.id.0);
        (found.generation, ids.collect())
    }

    #[test]
    fn those_that_wait_are_taken_over() {
        assert_eq!(look(vec![], vec![]), (1, vec![]));
        let both = look(vec![listed(1, 1, true)], vec![listed(2, 1, true)]);
        assert_eq!(both, (2, vec![1, 2]));
        let one = look(vec![listed(1, 4, true)], vec![listed(2, 4, false)]);
        assert_eq!(one, (5, vec![1]));
    }

    #[test]
    fn one_that_has_a_successor_is_not() {
        let successor = vec![listed(1, 1, true), listed(3, 1, true)];
        assert_eq!(look(successor, vec![]), (2, vec![3]));
        // It has not noticed yet, or its switch lives.
        let busy = vec![listed(1, 1, true), listed(3, 1, false)];
        assert_eq!(look(busy, vec![listed(2, 1, true)]), (2, vec![2]));
    }

    #[test]
    fn what_an_older_switch_has_left_is_not() {
        let old = look(vec![listed(1, 1, true)], vec![listed(2, 2, true)]);
        assert_eq!(old, (3, vec![2]));
        let lives = look(vec![listed(1, 1, true)], vec![listed(2, 2, false)]);
        assert_eq!(lives, (3, vec![]));
    }

    #[test]
    fn a_switch_that_could_not_start_hides_none() {
        let empty = |id, generation| Listed {
            units: 0,
            ..listed(id, generation, true)
        };
        let refused = vec![listed(1, 1, true), empty(65_537, 2)];
        assert_eq!(look(refused, vec![listed(2, 1, true)]), (3, vec![1, 2]));
        // Where nobody has anything, the last ones are as good.
        assert_eq!(look(vec![empty(1, 1)], vec![empty(4, 2)]), (3, vec![4]));
    }

    #[test]
    fn others_are_left_alone_but_their_generation_counts() {
        let other = Listed {
            kind: "2/2/none".to_owned(),
            ..listed(9, 8, true)
        };
        let found = look(vec![other, listed(1, 1, true)], vec![]);
        assert_eq!(found, (9, vec![1]));
        // Its place is on another host by now.
        assert_eq!(look(vec![listed(2, 1, true)], vec![]), (2, vec![]));
        let last = BTreeMap::from([(agent(0), vec![listed(1, u16::MAX, true)])]);
        assert!(super::found(&last, KIND, 2, |_| None).is_err());
    }
}
