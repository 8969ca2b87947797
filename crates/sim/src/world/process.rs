//! Processes: a switch or a runtime with memory of its own.

use std::collections::{BTreeSet, VecDeque};

use weir_packet::FramePool;
use weir_protocol::message::{Message, Part};
use weir_protocol::stream::{ProcessStart, StreamSettings, Streams};
use weir_protocol::{Actors, Clock, Key, Peer, RuntimeId, Switch, UnitId, View};

use super::links::ProcessNo;
use super::pools::Pools;

/// A data frame between two memories.
#[derive(Clone, Debug)]
pub(crate) struct Carried {
    pub(crate) unit: UnitId,
    pub(crate) view: View,
    pub(crate) clock: Clock,
    pub(crate) part: Part,
}

/// Input of a process.
#[derive(Debug)]
pub(crate) enum Delivery {
    /// Data frames; at a switch they are entries.
    Frames(Vec<Carried>),
    /// A message on a plain link.
    Message(Box<Message>),
    /// Data frames and frames of streams, as they are on the wire.
    Wire(Vec<Vec<u8>>),
}

/// The key of all processes of a run.
pub(crate) const KEY: Key = Key([0x77; 16]);

/// Settings of all streams of a run.
pub(crate) fn stream_settings(small: bool) -> StreamSettings {
    StreamSettings {
        queue: if small { 48 << 10 } else { 8 << 20 },
        window: if small { 16 << 10 } else { 256 << 10 },
        longest: 1 << 20,
        acknowledge_after: 100_000,
        round_trip: 300_000,
        shortest_wait: 500_000,
        longest_wait: 20_000_000,
        rounds: 4,
        ..StreamSettings::default()
    }
}

/// The code that a process runs.
#[derive(Debug)]
pub(crate) enum Body {
    Switch(Box<Switch>),
    Runtime(Box<Actors>),
}

/// One start of a process.
#[derive(Debug)]
pub(crate) struct Process {
    pub(crate) peer: Peer,
    /// Its name on streams.
    pub(crate) start: ProcessStart,
    /// Gone with all it knew when the process dies.
    pub(crate) living: Option<(Body, FramePool)>,
    pub(crate) died: Option<u64>,
    pub(crate) paused_until: Option<u64>,
    pub(crate) inbox: VecDeque<(ProcessNo, Delivery)>,
    pub(crate) wake_at: Option<u64>,
    /// The switch that a runtime sends its entries to.
    pub(crate) switch: ProcessNo,
    /// The switch was told that it is dead.
    pub(crate) suspected: bool,
    was_suspected: bool,
    /// Nanoseconds by which its clock is ahead.
    pub(crate) skew: u64,
    /// It leaves when it is drained.
    pub(crate) draining: bool,
    /// It keeps copies and owns no unit.
    pub(crate) is_logger: bool,
    /// The host that it runs on.
    pub(crate) host: Option<u32>,
    /// Its streams, where messages travel in frames.
    pub(crate) streams: Option<Streams>,
    /// Peers whose streams may have a frame to send.
    pub(crate) active: Vec<ProcessStart>,
    /// Peers whose streams are closed for good.
    pub(crate) closed: BTreeSet<ProcessStart>,
}

impl Process {
    /// The switch that it runs, if it lives and is one.
    pub(super) fn switch(&self) -> Option<&Switch> {
        match self.living.as_ref()? {
            (Body::Switch(switch), _) => Some(switch),
            _ => None,
        }
    }

    /// The actors that it runs, if it lives and is a runtime.
    pub(super) fn actors(&self) -> Option<&Actors> {
        match self.living.as_ref()? {
            (Body::Runtime(actors), _) => Some(actors),
            _ => None,
        }
    }

    /// Ends it: all that it knew is gone.
    pub(crate) fn end(&mut self, pools: &mut Pools) {
        if let Some((mut body, mut pool)) = self.living.take() {
            match &mut body {
                Body::Switch(switch) => switch.finish(&mut pool),
                Body::Runtime(actors) => actors.finish(&mut pool),
            }
            pools.give(pool);
        }
    }

    pub(crate) fn new(
        (peer, no): (Peer, ProcessNo),
        body: Body,
        switch: ProcessNo,
        (wire, pool): (bool, FramePool),
    ) -> Process {
        // Places are not used twice.
        let start = ProcessStart::of(peer, no as u32);
        Process {
            peer,
            start,
            living: Some((body, pool)),
            died: None,
            paused_until: None,
            inbox: VecDeque::new(),
            wake_at: None,
            switch,
            suspected: false,
            was_suspected: false,
            skew: 0,
            draining: false,
            is_logger: false,
            host: None,
            streams: wire.then(|| Streams::new(start, KEY)),
            active: Vec::new(),
            closed: BTreeSet::new(),
        }
    }

    /// Notes that the stream to `peer` may have a frame to send.
    pub(crate) fn activate(&mut self, peer: ProcessStart) {
        if !self.active.contains(&peer) {
            self.active.push(peer);
        }
    }

    pub(crate) fn is_alive(&self) -> bool {
        self.living.is_some()
    }

    pub(crate) fn runtime(&self) -> Option<RuntimeId> {
        match self.peer {
            Peer::Runtime(id) => Some(id),
            _ => None,
        }
    }

    /// True where it may own units.
    pub(crate) fn is_useful(&self) -> bool {
        self.is_keeper() && !self.is_logger
    }

    /// True where it may keep copies.
    pub(crate) fn is_keeper(&self) -> bool {
        self.is_alive() && !self.suspected && !self.draining && self.runtime().is_some()
    }

    /// The switch is told that it is dead.
    pub(crate) fn suspect(&mut self) {
        self.suspected = true;
        self.was_suspected = true;
    }

    /// A switch was told so at some time.
    pub(crate) fn was_suspected(&self) -> bool {
        self.was_suspected
    }

    /// The host that a runtime runs on, where somebody said.
    pub(crate) fn host(&self) -> Option<u32> {
        self.host
    }

    /// Its name in traces.
    pub(crate) fn name(&self) -> String {
        match self.peer {
            Peer::Switch(generation) => format!("V{generation}"),
            Peer::Runtime(id) => format!("r{}", id.0),
            Peer::Coordinator => "coordinator".to_owned(),
        }
    }
}
