//! What a switch that starts asks the agents: which runtimes has a switch before it left behind?
//!
//! A runtime outlives its switch for a while ([`super::remote_node`]). The next switch takes those
//! over that are of its own kind, with a generation of its own: one more than any that an agent
//! knows, so that no runtime hears an older one again.

use std::collections::BTreeMap;
use std::net::{SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use weir_exec::ExecError;
use weir_protocol::link::control::{self, Control, Head};
use weir_protocol::stream::ProcessStart;
use weir_protocol::{Peer, RuntimeId};

use super::super::wiring::place_of;
use super::GRACE;
use super::connect::RemoteHosts;
use super::hello::{Here, Listed, VERSION, Who, generation_of, kind};
use super::lease::Lease;
use super::socket::{NETWORK, socket_for};
use crate::say::say;

/// Longest wait for an agent's answer: one that gives none has no survivors.
const PATIENCE: Duration = Duration::from_secs(1);
/// The same for one that did not answer either when it was asked which switch runs.
const PATIENCE_SILENT: Duration = Duration::from_millis(25);
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
    /// Asks all agents for runtimes of so many places, of which the last ones may be loggers', and
    /// this replication, that have outlived their switch.
    ///
    /// # Errors
    ///
    /// There is no socket, or no generation is left.
    pub(in super::super) fn survivors(
        &self,
        (places, loggers): (usize, usize),
        replication: &str,
    ) -> Result<Found, ExecError> {
        let mut asking = Asking {
            hosts: self,
            kind: kind(&self.run, self.digest, (places, loggers), replication),
            answers: BTreeMap::new(),
            number: 0,
        };
        asking.ask(&self.voters())?;
        asking.tell_of_others();
        let agent_of = |place| self.agent_of(place);
        let mut found = found(&asking.answers, &asking.kind, places, agent_of)?;
        if let Some(lease) = &self.lease {
            if lease.generation() < found.generation {
                return Err(ExecError(format!(
                    "there is a switch of generation {} already, which had not asked the agents: \
                     end it, or start this one without `--standby`",
                    found.generation - 1
                )));
            }
            found.generation = lease.generation();
        }
        Ok(found)
    }

    /// The agents, each once, and how long each is waited for: those that had not answered when the
    /// lease was given are gone with their host, most likely.
    fn voters(&self) -> Vec<(SocketAddr, Duration)> {
        let mut agents: Vec<SocketAddr> = self.all_agents().collect();
        agents.sort_unstable();
        agents.dedup();
        let patience = |agent: &SocketAddr| match &self.lease {
            Some(lease) if !lease.heard().contains(agent) => PATIENCE_SILENT,
            _ => PATIENCE,
        };
        agents
            .into_iter()
            .map(|agent| (agent, patience(&agent)))
            .collect()
    }

    /// The start of a switch that has no runtimes any more, whether it lives or not.
    fn dead(&self) -> Option<u32> {
        let lease = self.lease.as_ref();
        lease.and_then(Lease::before).or(self.before)
    }
}

struct Asking<'a> {
    hosts: &'a RemoteHosts,
    kind: String,
    answers: BTreeMap<SocketAddr, Vec<Listed>>,
    number: u64,
}

/// An agent that is asked.
struct Asked {
    agent: SocketAddr,
    socket: UdpSocket,
    /// When it is asked next, and until when at most.
    next: Instant,
    until: Instant,
    is_done: bool,
}

impl Asking<'_> {
    /// Asks all agents until each has answered, and until each of its runtimes of this kind has
    /// noticed whether its switch is gone.
    fn ask(&mut self, agents: &[(SocketAddr, Duration)]) -> Result<(), ExecError> {
        let mut all = Vec::new();
        for (agent, patience) in agents.iter().copied() {
            let failed = |error: std::io::Error| ExecError(format!("agent {agent}: {error}"));
            let socket = socket_for(agent).map_err(failed)?;
            socket.set_nonblocking(true).map_err(failed)?;
            all.push(Asked {
                agent,
                socket,
                next: Instant::now(),
                until: Instant::now() + patience,
                is_done: false,
            });
        }
        loop {
            let now = Instant::now();
            for asked in &mut all {
                asked.is_done |= now >= asked.until;
                if !asked.is_done && now >= asked.next {
                    asked.next = now + AGAIN;
                    self.send(asked);
                }
            }
            if all.iter().all(|asked| asked.is_done) {
                break;
            }
            wait(&all);
            for asked in all.iter_mut().filter(|asked| !asked.is_done) {
                self.hear(asked);
            }
        }
        for asked in all
            .iter()
            .filter(|asked| !self.answers.contains_key(&asked.agent))
        {
            let agent = asked.agent;
            say(format_args!(
                "note: agent {agent} does not answer: what runtimes there have is lost"
            ));
        }
        for (agent, listed) in each(&self.answers) {
            if self.has_switch(listed) {
                say(format_args!(
                    "note: runtime {} on {agent} is left alone: its switch seems to live",
                    listed.id
                ));
            }
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

    /// The runtime is of this kind and has a switch.
    fn has_switch(&self, listed: &Listed) -> bool {
        listed.kind == self.kind && !listed.waits
    }

    /// Process start of this switch while it asks: its generation depends on the answers.
    fn own(&self) -> ProcessStart {
        ProcessStart::of(Peer::Switch(0), self.hosts.start)
    }

    fn send(&mut self, asked: &Asked) {
        self.number += 1;
        let head = Head {
            source: self.own(),
            destination: self.own(),
            number: self.number,
        };
        let who = Who {
            version: VERSION,
            dead: self.hosts.dead(),
        };
        // Numbers only: this can't fail.
        let who = serde_json::to_vec(&who).unwrap_or_default();
        let question = control::datagram(NETWORK, &self.hosts.key, head, Control::Who(&who));
        for datagram in question.iter() {
            // Like a loss: it is asked again.
            let _ = asked.socket.send_to(datagram, asked.agent);
        }
    }

    /// Hears an agent's answers, of which the last one counts.
    fn hear(&mut self, asked: &mut Asked) {
        let mut room = vec![0; ROOM];
        while let Ok((length, from)) = asked.socket.recv_from(&mut room) {
            let Some(here) = self.read(room.get(..length).unwrap_or(&[])) else {
                continue;
            };
            if from != asked.agent {
                continue;
            }
            let has_switch = here.runtimes.iter().any(|its| self.has_switch(its));
            asked.is_done = !has_switch;
            if self.answers.insert(asked.agent, here.runtimes).is_none() {
                let (interval, missed) = self.hosts.beats;
                // One that was taken over a moment ago judges no silence yet.
                let notice = GRACE + Duration::from_nanos(interval) * (missed + SPARE_BEATS);
                asked.until = Instant::now() + notice;
            }
        }
    }

    fn read(&self, datagram: &[u8]) -> Option<Here> {
        let heard = control::unwrap(datagram).ok()?;
        match control::read(&self.hosts.key, heard) {
            Ok((head, Control::Here(body))) if head.destination == self.own() => {
                let here: Here = serde_json::from_slice(body).ok()?;
                (here.version == VERSION).then_some(here)
            }
            // Of an earlier start, or of nobody.
            _ => None,
        }
    }
}

/// Waits for an answer, until it is time to ask again.
fn wait(all: &[Asked]) {
    let open = || all.iter().filter(|asked| !asked.is_done);
    let next = open().map(|asked| asked.next).min();
    let left = next.map(|next| next.saturating_duration_since(Instant::now()));
    let nap = Timespec {
        tv_sec: 0,
        tv_nsec: i64::from(left.unwrap_or_default().min(AGAIN).subsec_nanos()),
    };
    let polled = open().map(|asked| PollFd::new(&asked.socket, PollFlags::IN));
    // An error is a reason to look.
    let _ = poll(&mut polled.collect::<Vec<_>>(), Some(&nap));
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
