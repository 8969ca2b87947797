//! What a switch that starts asks the agents: which runtimes has a switch before it left behind?
//!
//! A runtime outlives its switch for a while ([`super::remote_node`]). The next switch takes those
//! over that have the same chains, with a generation of its own: one more than any that an agent
//! knows, so that no runtime hears an older one again.

use std::collections::BTreeMap;
use std::net::{SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use weir_exec::ExecError;
use weir_protocol::link::control::{self, Control, Head};
use weir_protocol::stream::ProcessStart;
use weir_protocol::{Peer, RuntimeId};

use super::super::wiring::place_of;
use super::connect::{NETWORK, RemoteHosts};
use super::hello::{Here, Listed, VERSION, Who};

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
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct Survivor {
    pub(in super::super) id: RuntimeId,
    /// Process start of the switch that it had.
    pub(in super::super) before: u64,
}

/// What there is at the start of a switch.
#[derive(Debug)]
pub(in super::super) struct Found {
    /// Generation of the switch that starts.
    pub(in super::super) generation: u16,
    /// At most one at each place of a runtime.
    pub(in super::super) survivors: Vec<Survivor>,
}

impl Default for Found {
    fn default() -> Found {
        Found {
            generation: FIRST,
            survivors: Vec::new(),
        }
    }
}

impl RemoteHosts {
    /// Asks all agents for runtimes that have outlived their switch, of so many places.
    ///
    /// # Errors
    ///
    /// There is no socket, or no generation is left.
    pub(in super::super) fn survivors(&self, places: usize) -> Result<Found, ExecError> {
        let mut agents: Vec<SocketAddr> = self.agents.iter().flatten().copied().collect();
        agents.sort_unstable();
        agents.dedup();
        let mut asking = Asking {
            hosts: self,
            answers: BTreeMap::new(),
            number: 0,
        };
        for agent in agents {
            asking.ask(agent)?;
        }
        asking.found(places)
    }
}

struct Asking<'a> {
    hosts: &'a RemoteHosts,
    answers: BTreeMap<SocketAddr, Vec<Listed>>,
    number: u64,
}

impl Asking<'_> {
    /// Asks an agent until it answers, and until each of its runtimes with these chains has noticed
    /// whether its switch is gone.
    fn ask(&mut self, agent: SocketAddr) -> Result<(), ExecError> {
        let failed = |error: std::io::Error| ExecError(format!("agent {agent}: {error}"));
        let any: SocketAddr = match agent {
            SocketAddr::V4(_) => ([0, 0, 0, 0], 0).into(),
            SocketAddr::V6(_) => ([0; 16], 0).into(),
        };
        let socket = UdpSocket::bind(any).map_err(failed)?;
        socket.set_read_timeout(Some(AGAIN)).map_err(failed)?;
        let (interval, missed) = self.hosts.beats;
        let notice = Duration::from_nanos(interval) * (missed + SPARE_BEATS);
        let began = Instant::now();
        let mut until = began + PATIENCE;
        while Instant::now() < until {
            let asked = Instant::now();
            let Some(here) = self.answer(&socket, agent) else {
                continue;
            };
            let first = self.answers.insert(agent, here.runtimes).is_none();
            if first {
                until = Instant::now() + notice;
            }
            let mut ours = self.ours(agent);
            if ours.all(|listed| listed.waits) {
                return Ok(());
            }
            std::thread::sleep(AGAIN.saturating_sub(asked.elapsed()));
        }
        Ok(())
    }

    /// The runtimes of an agent with these chains.
    fn ours(&self, agent: SocketAddr) -> impl Iterator<Item = &Listed> {
        let all = self.answers.get(&agent).into_iter().flatten();
        all.filter(|listed| listed.chains == self.hosts.digest)
    }

    /// Asks once.
    fn answer(&mut self, socket: &UdpSocket, agent: SocketAddr) -> Option<Here> {
        self.number += 1;
        let own = ProcessStart::of(Peer::Switch(0), self.hosts.start);
        let head = Head {
            source: own,
            destination: own,
            number: self.number,
        };
        let who = serde_json::to_vec(&Who { version: VERSION }).unwrap_or_default();
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

    /// The generation of this switch, and of each place the latest runtime that waits.
    fn found(&self, places: usize) -> Result<Found, ExecError> {
        let generation = |listed: &Listed| match ProcessStart(listed.switch).peer() {
            Some(Peer::Switch(generation)) => generation,
            _ => 0,
        };
        let known = self.answers.values().flatten().map(generation).max();
        let next = known.unwrap_or(0).checked_add(1);
        let generation = next.ok_or_else(|| {
            ExecError("there have been 65,535 switches: end the agents once".to_owned())
        })?;
        let mut latest: BTreeMap<usize, Survivor> = BTreeMap::new();
        for agent in self.answers.keys() {
            for listed in self.ours(*agent).filter(|listed| listed.waits) {
                let id = RuntimeId(listed.id);
                let place = place_of(id, places);
                // One that another agent has now is left to end.
                if self.hosts.agent_of(place) != Some(*agent) {
                    continue;
                }
                let survivor = Survivor {
                    id,
                    before: listed.switch,
                };
                let at = latest.entry(place).or_insert(survivor);
                if at.id < id {
                    *at = survivor;
                }
            }
        }
        Ok(Found {
            generation,
            survivors: latest.into_values().collect(),
        })
    }
}
