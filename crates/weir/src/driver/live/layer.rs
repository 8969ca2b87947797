//! The layer between ports and chains: how weir stands in the network.

use weir_ctl::command::LayerReport;
use weir_packet::{Frame, FramePool, Side};

/// Packets to leave, by the number of their port.
#[derive(Debug)]
pub(crate) struct Departures {
    queues: Vec<Vec<Frame>>,
}

impl Departures {
    pub(crate) fn new(ports: usize) -> Departures {
        let queue = || Vec::with_capacity(super::super::BATCH);
        Departures {
            queues: std::iter::repeat_with(queue).take(ports).collect(),
        }
    }

    /// Sends a packet by a port, in the order in which they are pushed. The
    /// frame comes back where there is no such port.
    pub(crate) fn push(&mut self, port: usize, frame: Frame) -> Option<Frame> {
        match self.queues.get_mut(port) {
            Some(queue) => {
                queue.push(frame);
                None
            }
            None => Some(frame),
        }
    }

    pub(super) fn queues(&mut self) -> impl Iterator<Item = &mut Vec<Frame>> {
        self.queues.iter_mut()
    }

    pub(super) fn clear(&mut self, pool: &mut FramePool) {
        self.queues
            .iter_mut()
            .for_each(|queue| pool.give_all(queue));
    }
}

/// How weir stands in the network: sees packets before the chains and behind
/// them. It is called on the ports' thread, burst by burst.
pub(crate) trait Layer: Send {
    /// Packets that have come in by a port, on their way to the chains. What
    /// the layer takes out is its own: it goes to `out` or back to the pool,
    /// counted.
    fn arrived(
        &mut self,
        port: usize,
        pool: &mut FramePool,
        frames: &mut Vec<Frame>,
        out: &mut Departures,
    );

    /// Packets that the chains have let out: each goes to a port, or back to
    /// the pool, counted.
    fn leaving(&mut self, pool: &mut FramePool, frames: &mut Vec<Frame>, out: &mut Departures);

    /// Packets of the layer's own that are to go through the chains, of one
    /// side at a time, to the end of `into`. Asked for until there are none.
    fn own(&mut self, into: &mut Vec<Frame>) {
        let _ = into;
    }

    /// Called when the loop begins and then now and then, at least ten times a
    /// second: the layer does what is due.
    fn tick(&mut self, pool: &mut FramePool, out: &mut Departures) {
        let _ = (pool, out);
    }

    /// The run ends: frames that it holds go back to the pool.
    fn close(&mut self, pool: &mut FramePool) {
        let _ = pool;
    }

    /// Its counts.
    fn report(&self) -> LayerReport {
        LayerReport::Bump
    }

    /// Warnings.
    fn warnings(&self) -> Vec<String> {
        Vec::new()
    }
}

/// A bump in the wire: what comes in by a port leaves by the one that it is
/// tied to, untouched.
#[derive(Debug)]
pub(crate) struct Bump {
    /// By the number of the port that a packet came in by: the port that it
    /// leaves by towards each side.
    wires: Vec<[usize; 2]>,
}

impl Bump {
    pub(crate) fn new(wires: Vec<[usize; 2]>) -> Bump {
        Bump { wires }
    }

    fn port(&self, came_by: u8, towards: Side) -> usize {
        let wire = self.wires.get(usize::from(came_by));
        wire.or(self.wires.first())
            .map_or(0, |wire| wire[towards as usize])
    }
}

impl Layer for Bump {
    fn arrived(
        &mut self,
        _port: usize,
        _pool: &mut FramePool,
        _frames: &mut Vec<Frame>,
        _out: &mut Departures,
    ) {
    }

    fn leaving(&mut self, pool: &mut FramePool, frames: &mut Vec<Frame>, out: &mut Departures) {
        for frame in frames.drain(..) {
            let meta = pool.memory().meta(&frame);
            let port = self.port(meta.port, meta.side.opposite());
            if let Some(frame) = out.push(port, frame) {
                pool.give(frame);
            }
        }
    }
}

/// A tap: packets come in as copies, and what leaves the chains goes nowhere.
#[derive(Debug, Default)]
pub(crate) struct Tap {
    kept: u64,
}

impl Layer for Tap {
    fn arrived(
        &mut self,
        _port: usize,
        _pool: &mut FramePool,
        _frames: &mut Vec<Frame>,
        _out: &mut Departures,
    ) {
    }

    fn leaving(&mut self, pool: &mut FramePool, frames: &mut Vec<Frame>, _out: &mut Departures) {
        self.kept += frames.len() as u64;
        pool.give_all(frames);
    }

    fn report(&self) -> LayerReport {
        LayerReport::Tap { kept: self.kept }
    }
}
