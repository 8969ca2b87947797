//! The switch's side of a runtime's start on another host: an agent is asked until the runtime
//! itself answers.

use std::net::{SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use weir_exec::ExecError;
use weir_io::Datagrams;
use weir_packet::Time;
use weir_protocol::heartbeat::HeartbeatSettings;
use weir_protocol::link::Link;
use weir_protocol::link::control::{self, Control, Head};
use weir_protocol::settings::Replication;
use weir_protocol::stream::ProcessStart;
use weir_protocol::{Key, Peer, RuntimeId};
use weir_runtime::RuntimeConfig;

use super::hello::Hello;
use super::lease::Lease;
use super::socket::{NETWORK, socket_for};
use super::{PATIENCE_TAKEN, settings};

/// Longest wait for a runtime's answer: it loads its chains and reserves memory.
const PATIENCE: Duration = Duration::from_secs(10);
/// Interval at which the agent is asked.
const AGAIN: Duration = Duration::from_millis(100);
/// Octets of the longest control frame that is heard here.
const ROOM: usize = 2_048;

/// Hosts on which runtimes run.
#[derive(Clone, Debug)]
pub struct RemoteHosts {
    /// Of each place of a runtime its agent, or `None` for this host; places beyond take them
    /// in turn.
    pub agents: Vec<Option<SocketAddr>>,
    /// Those of loggers, whose places follow `places` of runtimes.
    pub logger_agents: Vec<Option<SocketAddr>>,
    /// Places of runtimes.
    pub runtimes: usize,
    /// The cluster's key.
    pub key: Key,
    /// Interval of heartbeats in ns, and how many may be missing.
    pub beats: (u64, u32),
    /// Stands for the chains.
    pub digest: u64,
    /// Name of the run, for which its runtimes are.
    pub run: String,
    /// A number that no other start of a switch has.
    pub start: u32,
    /// That of the switch before, where that is known to be dead.
    pub before: Option<u32>,
    /// The place of this switch, where several hosts have one.
    pub lease: Option<Lease>,
}

impl RemoteHosts {
    /// The agent of a place; `None` for this host.
    pub(in super::super) fn agent_of(&self, place: usize) -> Option<SocketAddr> {
        if let Some(logger) = place.checked_sub(self.runtimes) {
            return self.logger_agents.get(logger).copied().flatten();
        }
        let count = self.agents.len().max(1);
        self.agents.get(place % count).copied().flatten()
    }

    /// The agents of all places, some more than once.
    pub(super) fn all_agents(&self) -> impl Iterator<Item = SocketAddr> {
        let agents = self.agents.iter().chain(&self.logger_agents);
        agents.copied().flatten()
    }

    /// A number for the host of a place: 0 is this one.
    pub(in super::super) fn host_of(&self, place: usize) -> u32 {
        let Some(agent) = self.agent_of(place) else {
            return 0;
        };
        let mut hosts: Vec<_> = self.all_agents().map(|agent| agent.ip()).collect();
        hosts.sort_unstable();
        hosts.dedup();
        let at = hosts.iter().position(|host| *host == agent.ip());
        at.map_or(0, |at| at as u32 + 1)
    }
}

/// Settings of all runtimes that agents start for a run.
#[derive(Clone, Debug)]
pub(in super::super) struct Agents {
    pub(in super::super) agent: SocketAddr,
    pub(in super::super) key: Key,
    pub(in super::super) beats: (u64, u32),
    pub(in super::super) run: String,
    pub(in super::super) chains: u64,
    pub(in super::super) engine: RuntimeConfig,
    pub(in super::super) replication: Replication,
    pub(in super::super) shares: Option<Vec<(u16, u32)>>,
    /// Loggers, which have the last places.
    pub(in super::super) loggers: usize,
    pub(in super::super) start: u32,
    /// Generation of the switch.
    pub(in super::super) generation: u16,
    /// Process start of the switch before, from which the runtime is taken over.
    pub(in super::super) after: Option<u64>,
}

/// Starts a runtime on another host: gives its socket and its link.
///
/// # Errors
///
/// Nobody answers in time, or the agent says why not.
pub(in super::super) fn connect(
    agents: &Agents,
    id: RuntimeId,
    places: usize,
    units: &[u32],
    now: impl Fn() -> Time,
) -> Result<(Datagrams, Link), ExecError> {
    let agent = agents.agent;
    let fail = |what: &str| ExecError(format!("its agent, {agent}: {what}"));
    let failed = |error: std::io::Error| fail(&error.to_string());
    let hello = hello(agents, id, places, units);
    let (runtime, switch) = hello.ends();
    let text = serde_json::to_vec(&hello).map_err(|error| fail(&error.to_string()))?;
    let socket = socket_for(agent).map_err(failed)?;
    socket.set_read_timeout(Some(AGAIN)).map_err(failed)?;
    let asked = ask(&socket, agents, (runtime, switch), &text);
    let from = asked.map_err(|why| fail(&why))?;
    socket.connect(from).map_err(failed)?;
    let key = agents.key.of_link(switch.0, runtime.0);
    let beats = HeartbeatSettings {
        interval: agents.beats.0,
        missed: agents.beats.1,
        ..HeartbeatSettings::default()
    };
    let of_link = settings(key, NETWORK, beats, agents.after.is_some());
    let link = Link::new(now(), switch, runtime, of_link);
    Ok((Datagrams::over(socket).map_err(failed)?, link))
}

/// The plan of a runtime on another host.
fn hello(agents: &Agents, id: RuntimeId, places: usize, units: &[u32]) -> Hello {
    Hello {
        version: Hello::version_with(agents.loggers),
        id: id.0,
        places,
        loggers: agents.loggers,
        switch: ProcessStart::of(Peer::Switch(agents.generation), agents.start).0,
        after: agents.after,
        run: agents.run.clone(),
        chains: agents.chains,
        seed: agents.engine.seed,
        replication: agents.replication.to_string(),
        units: units.to_vec(),
        shares: agents.shares.clone(),
        beats: agents.beats,
        network: NETWORK,
        event_bytes: agents.engine.event_bytes,
        audit: agents.engine.audit,
    }
}

/// Asks the agent again and again, until the runtime itself answers: gives its address.
///
/// # Errors
///
/// Nobody answers in time, or the agent says why not.
fn ask(
    socket: &UdpSocket,
    agents: &Agents,
    (runtime, switch): (ProcessStart, ProcessStart),
    hello: &[u8],
) -> Result<SocketAddr, String> {
    let patience = match agents.after {
        Some(_) => PATIENCE_TAKEN,
        None => PATIENCE,
    };
    let until = Instant::now() + patience;
    let mut number = 0;
    let mut room = [0; ROOM];
    while Instant::now() < until {
        number += 1;
        let head = Head {
            source: switch,
            destination: runtime,
            number,
        };
        let batch = control::datagram(NETWORK, &agents.key, head, Control::Hello(hello));
        for datagram in batch.iter() {
            // Like a loss: it is asked again.
            let _ = socket.send_to(datagram, agents.agent);
        }
        let Ok((length, from)) = socket.recv_from(&mut room) else {
            continue;
        };
        let heard = room.get(..length).unwrap_or(&[]);
        let heard = control::unwrap(heard).and_then(|frame| control::read(&agents.key, frame));
        match heard {
            Ok((head, Control::Welcome))
                if (head.source, head.destination) == (runtime, switch) =>
            {
                return Ok(from);
            }
            Ok((head, Control::Gone(why))) if head.destination == runtime => {
                return Err(String::from_utf8_lossy(why).into_owned());
            }
            // Of an earlier start, or of nobody.
            _ => {}
        }
    }
    Err("it does not answer: is it there, with the same key and version?".to_owned())
}
