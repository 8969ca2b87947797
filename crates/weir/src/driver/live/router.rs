//! A router around the chains: [`weir_router::Router`] between the ports.

use weir_ctl::command::{LayerReport, RouterReport};
use weir_io::live::LiveClock;
use weir_packet::{Frame, FramePool, Side, Time};
use weir_router::{Conflict, Router};

use crate::say::say;

use super::layer::{Departures, Layer};

/// The layer of a router. Its ports have the numbers of the run's that packets
/// come in by.
#[derive(Debug)]
pub(crate) struct Routed {
    router: Router,
    /// Names of its ports.
    ports: Vec<String>,
    /// The run's ports by which their packets leave.
    exits: Vec<usize>,
    clock: LiveClock,
    /// The time of the last packets, which saves asking for it.
    now: Time,
    begun: bool,
    /// It has the place of another router, with its addresses.
    takes_over: bool,
    /// Addresses that others have too and that an operator was told of.
    told: usize,
}

impl Routed {
    pub(crate) fn new(
        router: Router,
        ports: Vec<String>,
        exits: Vec<usize>,
        clock: LiveClock,
    ) -> Routed {
        Routed {
            router,
            ports,
            exits,
            clock,
            now: clock.now(),
            begun: false,
            takes_over: false,
            told: 0,
        }
    }

    /// Another router had its addresses, and is gone.
    pub(crate) fn in_the_place_of_another(self, takes_over: bool) -> Routed {
        Routed { takes_over, ..self }
    }

    /// Other workers have routers of the same ports; the first of them announces the
    /// addresses.
    pub(super) fn be_one_of_several(&mut self, first: bool) {
        self.router.be_one_of_several();
        self.begun |= !first;
    }

    /// Messages of neighbours since the last call, for the other workers.
    pub(super) fn told(&mut self) -> impl Iterator<Item = Frame> + '_ {
        let told = self.router.told().into_iter();
        told.flat_map(|told| told.drain(..))
    }

    /// Learns of what a neighbour said to another worker; what leaves because of it does
    /// so with the next tick.
    pub(super) fn overhear(&mut self, pool: &mut FramePool, frame: Frame) {
        let port = usize::from(pool.memory().meta(&frame).port);
        self.router.overhear(self.now, port, pool, frame);
    }

    /// An address that somebody else has, in words.
    fn warning(&self, conflict: &Conflict) -> String {
        let port = self.ports.get(conflict.port).map_or("", String::as_str);
        format!(
            "{port}: {} is claimed by {} too: give one of them another address, or take that station \
             off the link",
            conflict.address, conflict.mac
        )
    }

    /// Sends what the router has put out.
    fn depart(&mut self, pool: &mut FramePool, out: &mut Departures) {
        for (port, exit) in self.exits.iter().enumerate() {
            let Some(queue) = self.router.output(port) else {
                continue;
            };
            for frame in queue.drain(..) {
                if let Some(frame) = out.push(*exit, frame) {
                    pool.give(frame);
                }
            }
        }
    }
}

impl Layer for Routed {
    fn arrived(
        &mut self,
        port: usize,
        pool: &mut FramePool,
        frames: &mut Vec<Frame>,
        out: &mut Departures,
    ) {
        if let Some(last) = frames.last() {
            self.now = self.now.max(pool.memory().meta(last).time);
        }
        self.router.receive(self.now, port, pool, frames);
        self.depart(pool, out);
    }

    fn leaving(&mut self, pool: &mut FramePool, frames: &mut Vec<Frame>, out: &mut Departures) {
        self.router.send(self.now, pool, frames);
        self.depart(pool, out);
    }

    fn own(&mut self, into: &mut Vec<Frame>) {
        for side in [Side::Inside, Side::Outside] {
            let returned = self.router.returned(side);
            if !returned.is_empty() {
                into.append(returned);
                return;
            }
        }
    }

    fn tick(&mut self, pool: &mut FramePool, out: &mut Departures) {
        self.now = self.now.max(self.clock.now());
        if !self.begun {
            self.begun = true;
            match self.takes_over {
                true => self.router.take_over(self.now),
                false => self.router.begin(self.now, pool),
            }
        }
        self.router.tick(self.now, pool);
        self.depart(pool, out);
        // Once for each, so that nobody can fill a log.
        for conflict in self.router.conflicts().iter().skip(self.told) {
            say(format_args!("warning: {}", self.warning(conflict)));
        }
        self.told = self.router.conflicts().len();
    }

    fn close(&mut self, pool: &mut FramePool) {
        self.router.finish(pool);
    }

    fn report(&self) -> LayerReport {
        LayerReport::Router(Box::new(RouterReport {
            counts: self.router.counts(),
            neighbours: self.router.neighbours().collect(),
            conflicts: self.router.conflicts().to_vec(),
        }))
    }

    fn warnings(&self) -> Vec<String> {
        let conflicts = self.router.conflicts().iter();
        conflicts.map(|conflict| self.warning(conflict)).collect()
    }
}
