//! Runtimes of a cluster: each is placed, starts, runs, and is told to finish.

use std::sync::Arc;
use std::time::{Duration, Instant};

use weir_ctl::events::What;
use weir_exec::ExecError;
use weir_exec::frames::{LARGE_SHARE, SHARE};
use weir_packet::Time;
use weir_protocol::settings::ActorSettings;
use weir_protocol::{RuntimeId, in_process};
use weir_runtime::RuntimeConfig;

use super::super::link::{Agents, LinkNode, LinkPlan};
use super::super::runtime_node::{RuntimeNode, RuntimePlan};
use super::super::supply::Supply;
use super::super::wiring::{Seat, ToRuntime, place_of};
use super::deaths::START_PATIENCE;
use super::member::{Member, NO_MEMBER, Site, State};
use super::node::ClusterNode;
use super::phase::Phase;
use super::process::Starting;
use super::start::parker;
use super::{Chain, Cluster};

/// Makes a node, on its thread.
type MakeNode = Box<dyn FnOnce() -> Result<ClusterNode, String> + Send>;

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
            member.replaced = self.replaced;
            member.enter(State::Starts);
            member.late_at = Some(Instant::now() + START_PATIENCE);
        } else {
            self.place_on_thread(id, place)?;
        }
        self.tell(id, What::RuntimeStarts);
        Ok(())
    }

    /// Places of units, by chain.
    fn unit_places(&self) -> Vec<u32> {
        let places = |chain: &Chain| chain.switch.classifier().places() as u32;
        self.chains.iter().map(places).collect()
    }

    fn place_on_thread(&mut self, id: RuntimeId, place: usize) -> Result<(), ExecError> {
        let seat = self.seat(id, place)?;
        // If there is no node, all that is in the seat goes to the heir.
        let make = self.node(id, place, seat).inspect_err(|_| {
            self.take_back(place);
        })?;
        let (thread, core) = self.settings.spread.of(place);
        let number = self
            .team
            .place(thread, core, format!("runtime {}", id.0), make);
        if let Some(member) = self.internal.expect(self.members.get_mut(place), NO_MEMBER) {
            if let Site::Thread { node, .. } = &mut member.site {
                *node = Some(number);
            }
            member.ends.id = id;
            member.replaced = self.replaced;
            member.enter(State::Starts);
        }
        Ok(())
    }

    /// The frames and ends of edges for a runtime on a thread.
    fn seat(&mut self, id: RuntimeId, place: usize) -> Result<Seat, ExecError> {
        let twice = || ExecError(format!("runtime {} was started before", id.0));
        let member = self.members.get_mut(place).ok_or_else(twice)?;
        let handler = self.handlers.get_mut(place).ok_or_else(twice)?;
        let Site::Thread { theirs, heir, .. } = &mut member.site else {
            return Err(twice());
        };
        if theirs.is_none() || handler.is_none() {
            return Err(twice());
        }
        Ok(Seat {
            pool: self.pool.share(SHARE, LARGE_SHARE),
            ends: *theirs.take().ok_or_else(twice)?,
            handler: handler.take().ok_or_else(twice)?,
            gauge: member.ends.gauge.clone(),
            supply: Supply::Reserve,
            heir: Some(Arc::clone(heir)),
            lost: 0,
            counted: None,
        })
    }

    /// What makes the node of a runtime, or of what stands for one on another host.
    fn node(&mut self, id: RuntimeId, place: usize, seat: Seat) -> Result<MakeNode, ExecError> {
        let far = match self.members.get(place).map(|member| &member.site) {
            Some(Site::Thread { far: Some(far), .. }) => Some(far.later()),
            _ => None,
        };
        let remote = self.settings.remote.as_ref();
        let agent = remote.and_then(|remote| Some((remote, remote.agent_of(place)?)));
        if let (Some(commands), Some((remote, agent))) = (far, agent) {
            let mut survivors = self.found.survivors.iter();
            let survivor = survivors.find(|survivor| survivor.id == id);
            let plan = LinkPlan {
                id,
                agents: Agents {
                    agent,
                    key: remote.key,
                    beats: remote.beats,
                    run: remote.run.clone(),
                    chains: remote.digest,
                    engine: self.settings.engine,
                    replication: self.settings.replication,
                    shares: self.settings.shares(),
                    loggers: self.settings.loggers as usize,
                    start: remote.start,
                    generation: self.found.generation,
                    after: survivor.map(|survivor| survivor.before),
                },
                places: self.members.len(),
                units: self.unit_places(),
                stages: Arc::clone(&self.stages),
                clock: self.clock,
                seat,
                commands,
            };
            let make = move || LinkNode::new(plan).map(Box::new).map(ClusterNode::Link);
            return Ok(Box::new(make));
        }
        let small = self.pool.memory().layout().small_frames;
        let plan = RuntimePlan {
            stages: Arc::clone(&self.stages),
            places: self.unit_places(),
            config: RuntimeConfig {
                follows: true,
                ..self.settings.engine
            },
            settings: ActorSettings {
                is_logger: self.is_logger(id),
                ..in_process::actors_with(id, small, self.settings.keeping())
            },
            relayed: self.settings.relay.is_some(),
            clock: self.clock,
            shares: self.settings.shares(),
            seat,
        };
        let make = move || {
            let node = RuntimeNode::new(plan).map(Box::new);
            node.map(ClusterNode::Runtime)
        };
        Ok(Box::new(make))
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
                member.enter(State::Gone);
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
        let after = member.entered.elapsed();
        member.enter(State::Runs);
        member.since = Some(Instant::now());
        member.late_at = None;
        let id = member.ends.id;
        // It was not asked whether it has anything to do.
        self.echo = None;
        self.tell(id, What::RuntimeReady(after));
        self.catch_up(place);
        if self.phase == Phase::TakesOver {
            // It joins with the other survivors.
            return;
        }
        self.introduce(id);
        for Chain { switch, .. } in &mut self.chains {
            switch.join(now, id);
        }
        self.set_host(id);
        for chain in 0..self.chains.len() {
            self.send(chain, now);
        }
        self.tell_who_runs();
    }

    /// Tells the switches of a logger that is about to join that it is one.
    pub(super) fn introduce(&mut self, id: RuntimeId) {
        if self.is_logger(id) {
            for Chain { switch, .. } in &mut self.chains {
                switch.set_logger(id);
            }
        }
    }

    /// True where the member with this id is a logger.
    pub(crate) fn is_logger(&self, id: RuntimeId) -> bool {
        let place = place_of(id, self.members.len());
        self.members.get(place).is_some_and(|its| its.is_logger)
    }

    /// Tells the switches on which host a runtime is.
    pub(super) fn set_host(&mut self, id: RuntimeId) {
        let place = place_of(id, self.members.len());
        if let Some(remote) = &self.settings.remote {
            for Chain { switch, .. } in &mut self.chains {
                switch.set_host(id, remote.host_of(place));
            }
        }
    }

    pub(super) fn tell_who_runs(&mut self) {
        let runs = self.members.iter().filter(|member| member.takes_units());
        let ids: Vec<RuntimeId> = runs.map(|member| member.ends.id).collect();
        for member in &mut self.members {
            if matches!(member.state, State::Runs | State::Drains) {
                member.ends.outbox.push(ToRuntime::Cluster(ids.clone()));
                self.gave = true;
            }
        }
    }

    /// Tells all runtimes to finish, for which each may take so long.
    pub(crate) fn stop_all(&mut self, most: Duration) {
        for place in 0..self.members.len() {
            if let Some(member) = self.members.get(place) {
                self.stop(member.ends.id, most);
            }
        }
    }

    /// Tells a runtime to finish; none takes its place. One that has a successor is over.
    pub(super) fn stop(&mut self, runtime: RuntimeId, most: Duration) {
        let Some(member) = self.member(runtime) else {
            return;
        };
        member.successor_at = None;
        // One that starts is told, too: it reads that when it is ready.
        if member.is_up() || member.state == State::Starts {
            member.enter(State::Leaves);
            member.since = None;
            member.late_at = Some(Instant::now() + most);
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
