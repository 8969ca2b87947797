//! Runtimes of a cluster: each is placed, starts, runs, and is told to finish.

use std::sync::Arc;
use std::time::Instant;

use weir_exec::ExecError;
use weir_exec::frames::{LARGE_SHARE, SHARE};
use weir_packet::Time;
use weir_protocol::{RuntimeId, in_process};
use weir_runtime::RuntimeConfig;

use super::super::link::{Agents, LinkNode, LinkPlan};
use super::super::runtime_node::{RuntimeNode, RuntimePlan};
use super::super::supply::Supply;
use super::super::wiring::{NO_CHAIN, Seat, ToRuntime, place_of};
use super::member::{Member, NO_MEMBER, Site, State};
use super::node::ClusterNode;
use super::process::Starting;
use super::{Chain, Cluster, parker};

impl Cluster {
    /// Places a runtime on the thread of its place, or starts its process.
    pub(super) fn place(&mut self, id: RuntimeId) -> Result<(), ExecError> {
        let place = place_of(id, self.members.len());
        let (places, wakeful) = (self.members.len(), self.settings.wakeful);
        let core = self.settings.spread.of(place).1;
        let units = self.unit_places();
        let Some(member) = self.members.get_mut(place) else {
            return Err(ExecError(format!("there is no place for runtime {}", id.0)));
        };
        if let Some(home) = member.process() {
            home.start(Starting {
                id,
                places,
                units,
                core,
                wakeful,
            })?;
            member.ends.id = id;
            member.state = State::Starts;
            return Ok(());
        }
        self.place_on_thread(id, place)
    }

    /// Places of units, by chain.
    fn unit_places(&self) -> Vec<u32> {
        let places = |chain: &Chain| chain.switch.classifier().places() as u32;
        self.chains.iter().map(places).collect()
    }

    fn place_on_thread(&mut self, id: RuntimeId, place: usize) -> Result<(), ExecError> {
        let twice = || ExecError(format!("runtime {} was started before", id.0));
        let (places, members) = (self.unit_places(), self.members.len());
        let Some(member) = self.internal.expect(self.members.get_mut(place), NO_MEMBER) else {
            return Err(twice());
        };
        let Site::Thread {
            theirs,
            heir,
            node,
            far,
        } = &mut member.site
        else {
            return Err(twice());
        };
        let ends = *theirs.take().ok_or_else(twice)?;
        let handler = self.handlers.get_mut(place).and_then(Option::take);
        let handler = handler.ok_or_else(twice)?;
        member.ends.id = id;
        let seat = Seat {
            pool: self.pool.share(SHARE, LARGE_SHARE),
            ends,
            handler,
            gauge: member.ends.gauge.clone(),
            supply: Supply::Reserve,
            heir: Some(Arc::clone(heir)),
            lost: 0,
            counted: None,
        };
        let (thread, core) = self.settings.spread.of(place);
        let name = format!("runtime {}", id.0);
        let make: Box<dyn FnOnce() -> Result<ClusterNode, String> + Send> =
            match (far, &self.settings.remote) {
                (Some(far), Some(remote)) => {
                    let agent = remote.agent_of(place).ok_or_else(twice)?;
                    let plan = LinkPlan {
                        id,
                        agents: Agents {
                            agent,
                            key: remote.key,
                            beats: remote.beats,
                            chains: remote.digest,
                            engine: self.settings.engine,
                            replication: self.settings.replication,
                            start: remote.start,
                        },
                        places: members,
                        units: places,
                        stages: Arc::clone(&self.stages),
                        clock: self.clock,
                        seat,
                        commands: far.connect()?,
                    };
                    Box::new(move || LinkNode::new(plan).map(Box::new).map(ClusterNode::Link))
                }
                _ => {
                    let plan = RuntimePlan {
                        stages: self.stages.clone(),
                        places,
                        config: RuntimeConfig {
                            follows: true,
                            ..self.settings.engine
                        },
                        settings: in_process::actors_with(
                            id,
                            self.pool.memory().layout().small_frames,
                            self.settings.keeping(),
                        ),
                        relayed: self.settings.relay.is_some(),
                        clock: self.clock,
                        seat,
                    };
                    Box::new(move || {
                        RuntimeNode::new(plan)
                            .map(Box::new)
                            .map(ClusterNode::Runtime)
                    })
                }
            };
        *node = Some(self.team.place(thread, core, name, make));
        member.state = State::Starts;
        Ok(())
    }

    /// Starts the threads of runtimes that were placed. Those that can't be started are gone.
    pub(super) fn start_placed(&mut self) -> Result<(), ExecError> {
        let (wakers, settings) = (&self.wakers, &self.settings);
        let result = self.team.start(|thread| parker(wakers, thread, settings));
        if result.is_err() {
            self.note_not_started();
        }
        result
    }

    fn note_not_started(&mut self) {
        for place in 0..self.members.len() {
            let Some(member) = self.internal.expect(self.members.get_mut(place), NO_MEMBER) else {
                continue;
            };
            if let Site::Thread { node, .. } = &mut member.site
                && node.is_some_and(|node| !self.team.has(node))
            {
                *node = None;
                member.state = State::Gone;
                self.take_back(place);
            }
        }
    }

    /// Takes in the runtimes whose memory is reserved by now.
    pub(super) fn note_ready(&mut self, now: Time) -> bool {
        let mut any = false;
        for place in 0..self.members.len() {
            let team = &self.team;
            let is_ready = |member: &Member| match &member.site {
                Site::Thread { node, .. } => node.is_some_and(|node| team.is_ready(node)),
                Site::Process(home) => home.is_ready(),
            };
            let member = self.members.get(place);
            if member.is_some_and(|m| m.state == State::Starts && is_ready(m)) {
                self.ready(place, now);
                any = true;
            }
        }
        any
    }

    pub(super) fn ready(&mut self, place: usize, now: Time) {
        let Some(member) = self.internal.expect(self.members.get_mut(place), NO_MEMBER) else {
            return;
        };
        member.state = State::Runs;
        member.since = Some(Instant::now());
        let id = member.ends.id;
        // It was not asked whether it has anything to do.
        self.echo = None;
        for chain in 0..self.chains.len() {
            if let Some(at) = self.internal.expect(self.chains.get_mut(chain), NO_CHAIN) {
                at.switch.join(now, id);
                if let Some(remote) = &self.settings.remote {
                    at.switch.set_host(id, remote.host_of(place));
                }
            }
            self.send(chain, now);
        }
        self.tell_who_runs();
    }

    pub(super) fn tell_who_runs(&mut self) {
        let runs = |member: &&mut Member| member.state == State::Runs;
        let ids: Vec<RuntimeId> = self
            .members
            .iter_mut()
            .filter(|member| runs(member))
            .map(|member| member.ends.id)
            .collect();
        for member in &mut self.members {
            if matches!(member.state, State::Runs | State::Drains) {
                member.ends.outbox.push(ToRuntime::Cluster(ids.clone()));
                self.gave = true;
            }
        }
    }

    /// Tells all runtimes to finish.
    pub(crate) fn stop_all(&mut self) {
        for place in 0..self.members.len() {
            if let Some(member) = self.members.get(place) {
                self.stop(member.ends.id);
            }
        }
    }

    /// Tells a runtime to finish; none takes its place. One that has a successor is over.
    pub(super) fn stop(&mut self, runtime: RuntimeId) {
        let Some(member) = self.member(runtime) else {
            return;
        };
        member.successor_at = None;
        // One that starts is told, too: it reads that when it is ready.
        if member.is_up() || member.state == State::Starts {
            member.state = State::Leaves;
            member.ends.outbox.push(ToRuntime::Finish);
            self.gave = true;
        }
    }

    pub(super) fn member(&mut self, runtime: RuntimeId) -> Option<&mut Member> {
        let place = place_of(runtime, self.members.len());
        let member = self.members.get_mut(place);
        member.filter(|member| member.ends.id == runtime)
    }
}
