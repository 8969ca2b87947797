//! One run: a cluster under traffic, and flows that move meanwhile.

use std::time::{Duration, Instant};

use weir::driver::{Cluster, ClusterEnd, ClusterSettings, Histogram};
use weir_packet::Frame;
use weir_protocol::RuntimeId;
use weir_protocol::message::{MoveMode, Selection};

use super::central::Central;
use super::traffic::Paced;
use crate::chain::{self, Texts};
use crate::line::{self, BATCH, Traffic};

/// When the paced traffic begins, after the opening packets.
const BASE: u64 = 1_767_225_600_000_000_000;
/// A move that takes longer has failed.
const PATIENCE: Duration = Duration::from_secs(120);

/// How flows move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// From runtime to runtime.
    Direct(MoveMode),
    /// Through a controller.
    Central,
}

impl Way {
    pub(crate) const ALL: [Way; 4] = [
        Way::Direct(MoveMode::Push),
        Way::Direct(MoveMode::Pull),
        Way::Direct(MoveMode::Reprocess),
        Way::Central,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Way::Direct(MoveMode::Push) => "push",
            Way::Direct(MoveMode::Pull) => "pull",
            Way::Direct(MoveMode::Reprocess) => "reprocess",
            Way::Central => "central",
        }
    }

    fn mode(self) -> MoveMode {
        match self {
            Way::Direct(mode) => mode,
            Way::Central => MoveMode::Push,
        }
    }
}

/// Result of a move (or several at once).
#[derive(Debug)]
pub(crate) struct Moved {
    pub(crate) flows: u64,
    pub(crate) took: Duration,
    /// Of the packets that left meanwhile.
    pub(crate) latency: Histogram,
}

/// A cluster of two runtimes with all flows at the first, and traffic.
pub(crate) struct Scene {
    cluster: Cluster,
    paced: Paced,
    way: Way,
    input: Vec<Frame>,
    out: Vec<Frame>,
    events: Vec<u8>,
    /// Most packets that a controller held.
    pub(crate) held_by_controller: u64,
}

impl Scene {
    /// Opens `flows` flows at runtime 1, starts runtime 2 and then the traffic.
    pub(crate) fn new(flows: u32, rate: u64, way: Way) -> Result<Scene, String> {
        let stage = chain::stage(&["firewall", "http", "load-balancer"], &mut Texts(&[]))?;
        let settings = ClusterSettings {
            runtimes: 1,
            most_runtimes: 2,
            relay: (way == Way::Central).then_some(Central::make),
            engine: line::CONFIG,
            ..ClusterSettings::default()
        };
        let cluster = Cluster::start(std::slice::from_ref(&stage), settings);
        let traffic = Traffic {
            flows,
            settings: "size=512,payload=http,proto=tcp,dst=198.18.0.80/32".to_owned(),
        };
        let mut scene = Scene {
            cluster: cluster.map_err(|error| error.to_string())?,
            paced: Paced::new(traffic.uniform()?, rate, BASE),
            way,
            input: Vec::with_capacity(BATCH),
            out: Vec::with_capacity(4 * BATCH),
            events: Vec::new(),
            held_by_controller: 0,
        };
        super::super::switch::open(&mut scene.cluster, &mut traffic.opening()?, flows as usize)?;
        let second = scene.cluster.add().map_err(|error| error.to_string())?;
        while !scene.cluster.runs(second) {
            scene.step(None)?;
        }
        scene.paced = Paced::new(traffic.uniform()?, rate, BASE);
        Ok(scene)
    }

    /// One round; notes the latency of what leaves.
    fn step(&mut self, mut latency: Option<&mut Histogram>) -> Result<(), String> {
        let room = self.cluster.room().min(BATCH);
        if room > 0 && latency.is_some() {
            self.paced
                .receive(&mut self.cluster.pool, &mut self.input, room)?;
        }
        let idle = self.input.is_empty();
        if !idle {
            self.cluster.take(0, &mut self.input);
        }
        self.cluster
            .step(&mut self.out, &mut self.events, idle)
            .map_err(|error| error.to_string())?;
        self.events.clear();
        if let Some(latency) = &mut latency
            && !self.out.is_empty()
        {
            let now = self.paced.now();
            let memory = self.cluster.pool.memory();
            for frame in &self.out {
                latency.add(now.saturating_sub(memory.meta(frame).time.0));
            }
        }
        self.cluster.pool.give_all(&mut self.out);
        Ok(())
    }

    /// Traffic for so long.
    pub(crate) fn traffic(&mut self, time: Duration) -> Result<Histogram, String> {
        let mut latency = Histogram::default();
        let start = Instant::now();
        while start.elapsed() < time {
            self.step(Some(&mut latency))?;
        }
        Ok(latency)
    }

    /// Moves what each of `whats` selects, all at once, and waits until all
    /// are over.
    pub(crate) fn moves(
        &mut self,
        from: u32,
        to: u32,
        whats: &[Selection],
    ) -> Result<Moved, String> {
        let mut latency = Histogram::default();
        let start = Instant::now();
        let mut flows = 0;
        for what in whats {
            let between = (RuntimeId(from), RuntimeId(to));
            let moved = self
                .cluster
                .move_units(None, between, what, self.way.mode());
            flows += u64::from(moved.map_err(|why| format!("{why:?}"))?);
        }
        while self.cluster.moves_under_way() > 0 {
            self.step(Some(&mut latency))?;
            if start.elapsed() > PATIENCE {
                return Err(format!(
                    "{} of {flows} flows still move after {PATIENCE:?}",
                    self.cluster.moves_under_way()
                ));
            }
        }
        if let Some(relay) = self.cluster.relay(0) {
            self.held_by_controller = u64::from(relay.most_held());
        }
        Ok(Moved {
            flows,
            took: start.elapsed(),
            latency,
        })
    }

    /// Waits until all packets are out, and sums up.
    pub(crate) fn end(mut self) -> Result<ClusterEnd, String> {
        while !self.cluster.is_quiet() {
            self.step(None)?;
        }
        let (end, _) = self.cluster.finish().map_err(|error| error.to_string())?;
        Ok(end)
    }
}
