//! The start of a cluster: packet memory, switches, places of runtimes, and the first of these.

use std::sync::Arc;

use weir_ctl::command::{CommandHandler, CommandSender};
use weir_exec::{ExecError, NEVER_PARK, Parker, Team, Wakers};
use weir_io::IdlePolicy;
use weir_nf::host::Stage;
use weir_packet::{FramePool, Internal, MemoryLayout, PacketMemory, Time};
use weir_protocol::flowlets::FlowletSettings;
use weir_protocol::in_process::{self, BURST, MESSAGES};
use weir_protocol::settings::SwitchSettings;
use weir_protocol::{RuntimeId, Switch};
use weir_runtime::RuntimeConfig;

use super::super::clock::Clock;
use super::super::ends::EndsAsked;
use super::super::hand_overs::HandOvers;
use super::super::link::Found;
use super::super::process::SharedRoom;
use super::billing;
use super::end::GateCounts;
use super::ended::{Deaths, Ended};
use super::member::{Member, Site, State};
use super::phase::Phase;
use super::places::members;
use super::process::ring_words;
use super::settings::ClusterSettings;
use super::stillness::Stillness;
use super::tenanted::Tenanted;
use super::{Chain, Cluster};

impl Cluster {
    /// Starts the threads, and waits until the runtimes are ready.
    ///
    /// # Errors
    ///
    /// A stage that can't be run, a thread that can't be started or pinned.
    pub fn start(stages: &[Stage], settings: ClusterSettings) -> Result<Cluster, ExecError> {
        let mut cluster = Cluster::place_all(stages.into(), settings)?;
        if !cluster.found.survivors.is_empty() {
            cluster.take_over()?;
            return Ok(cluster);
        }
        for id in cluster.at_start() {
            cluster.place(id)?;
        }
        cluster.start_placed()?;
        let (mut out, mut events) = (Vec::new(), Vec::new());
        while cluster.members.iter().any(|m| m.state == State::Starts) {
            cluster.step(&mut out, &mut events, true)?;
        }
        cluster.phase = Phase::Runs;
        Ok(cluster)
    }

    /// Ids of the members that a cluster has from its start and that were never started.
    pub(super) fn at_start(&self) -> Vec<RuntimeId> {
        let runtimes = self.settings.runtimes as usize;
        let members = self.members.iter().enumerate();
        let absent = members.filter(|(place, its)| {
            (*place < runtimes || its.is_logger) && its.state == State::Absent
        });
        absent.map(|(_, its)| its.ends.id).collect()
    }

    /// A cluster none of whose runtimes is started.
    fn place_all(stages: Arc<[Stage]>, settings: ClusterSettings) -> Result<Cluster, ExecError> {
        let most = settings.places();
        let found = found(&settings)?;
        let layout = layout_for(stages.len(), most, &settings);
        let mut room = match &settings.processes {
            Some(processes) => {
                let words = ring_words(stages.len()) * most as usize;
                Some(SharedRoom::new(layout, words, processes.command.clone())?)
            }
            None => None,
        };
        let pool = pool(layout, room.as_ref(), &settings)?;
        if let Some(core) = settings.spread.ports_core() {
            weir_exec::pin(core).map_err(ExecError)?;
        }
        let chains = stages.iter();
        let number = stages.len().max(1) as u64;
        let chains =
            chains.map(|stage| Chain::new((stage, number), &settings, found.generation, layout));
        let chains = chains.collect::<Result<_, _>>()?;
        let wakers = Wakers::new(settings.spread.threads(most as usize))?;
        let members = members(&stages, room.as_mut(), &settings, &found, &wakers)?;
        let (senders, handlers) = command_channels(&members)?;
        let tenanted = Tenanted::new(&settings);
        let books = settings.ledger.clone();
        let books = books.map(|ledger| billing::bookkeeper(ledger, &stages));
        Ok(Cluster {
            pool,
            clock: Clock::start(),
            chains,
            stages,
            replaced: 0,
            digest: 0,
            pages: room.as_ref().map(SharedRoom::pages),
            members,
            hand_overs: HandOvers::default(),
            gate: GateCounts::default(),
            ends: Ended::default(),
            deaths: Deaths::default(),
            recovery: None,
            lost: 0,
            park: parker(&wakers, 0, &settings),
            team: Team::new(&wakers),
            wakers,
            settings,
            gave: false,
            packet_time: Time::ZERO,
            rounds: 0,
            has_processes: room.is_some(),
            phase: Phase::Starts,
            still: Stillness::default(),
            found,
            looked: Time::ZERO,
            echo: None,
            echoes: 0,
            senders,
            handlers,
            ends_asked: EndsAsked::default(),
            books,
            tenanted,
            internal: Internal::default(),
            entries: Vec::with_capacity(BURST),
            inbox: Vec::with_capacity(MESSAGES),
        })
    }
}

impl Chain {
    /// One of so many chains.
    fn new(
        (stage, chains): (&Stage, u64),
        settings: &ClusterSettings,
        generation: u16,
        layout: MemoryLayout,
    ) -> Result<Chain, ExecError> {
        let keeping = settings.keeping();
        let of_switch = SwitchSettings {
            generation,
            flowlets: settings.flowlets.map(|flowlets| FlowletSettings {
                // Each chain fills the same runtimes: it has its part of them.
                capacity: (flowlets.capacity / chains).max(1),
                ..flowlets
            }),
            ..in_process::switch_with(settings.dispatch, keeping)
        };
        let config = RuntimeConfig {
            follows: true,
            event_bytes: 0,
            ..settings.engine
        };
        let switch = Switch::new(stage, config, of_switch);
        Ok(Chain {
            switch: switch.map_err(|error| ExecError(error.to_string()))?,
            relay: settings.relay.map(|make| make(layout.small_frames)),
            last: Vec::new(),
        })
    }
}

/// What another switch has left.
fn found(settings: &ClusterSettings) -> Result<Found, ExecError> {
    let Some(remote) = &settings.remote else {
        return Ok(Found::default());
    };
    let places = (settings.places() as usize, settings.loggers as usize);
    remote.survivors(places, &settings.replication.to_string())
}

/// The packet memory of a run with so many chains and places of runtimes.
fn layout_for(chains: usize, most: u32, settings: &ClusterSettings) -> MemoryLayout {
    let (small, large) = in_process::frames(most);
    let kept = in_process::frames_kept(chains as u32, settings.keeping());
    MemoryLayout {
        small_frames: settings.memory.small_frames + small + kept.0,
        large_frames: settings.memory.large_frames + large + kept.1,
        ..settings.memory
    }
}

/// The frames of the packet memory, which is in the room where there is one.
fn pool(
    layout: MemoryLayout,
    room: Option<&SharedRoom>,
    settings: &ClusterSettings,
) -> Result<FramePool, ExecError> {
    let memory = match room {
        Some(room) => Arc::clone(room.memory()),
        None => PacketMemory::new(layout, settings.engine.advise),
    };
    FramePool::new(memory).ok_or_else(|| ExecError("packet memory was taken twice".to_owned()))
}

/// The ends of the command channels.
type CommandEnds = (Vec<CommandSender>, Vec<Option<CommandHandler>>);

/// A command channel for each place; of one that has a relay the relay's.
fn command_channels(members: &[Member]) -> Result<CommandEnds, ExecError> {
    let (mut senders, mut handlers) = (Vec::new(), Vec::new());
    for member in members {
        let (sender, handler) = CommandHandler::new(false)
            .map_err(|error| ExecError(format!("can't make a command channel: {error}")))?;
        handler.set_open(false);
        senders.push(match &member.site {
            Site::Process(home) => home.command_sender(),
            Site::Thread { far: Some(far), .. } => far.command_sender(),
            Site::Thread { far: None, .. } => sender,
        });
        handlers.push(Some(handler));
    }
    Ok((senders, handlers))
}

/// Parks the thread at `place`.
pub(super) fn parker(wakers: &Wakers, place: usize, settings: &ClusterSettings) -> Parker {
    let policy = match settings.wakeful {
        true => NEVER_PARK,
        false => IdlePolicy::default(),
    };
    Parker::new(wakers, place, policy)
}
