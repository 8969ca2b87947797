//! The ports of a run with interfaces, by their numbers.

use std::os::fd::BorrowedFd;

use weir_io::live::LivePort;
use weir_io::port::{InputPort, OutputPort, PortCounters, PortError};
use weir_packet::{Frame, FramePool};

use crate::exit::Failure;

use super::layer::Departures;

/// A port, open.
pub(crate) enum Way {
    /// An interface: in and out.
    Both(Box<dyn LivePort>),
    /// Out only: a file, or nowhere.
    Out(Box<dyn OutputPort>),
}

/// The open ports. A packet's metadata has the number of that by which it came.
pub(crate) struct LivePorts {
    ports: Vec<Way>,
}

fn outside(error: PortError) -> Failure {
    Failure::outside(error.to_string())
}

/// What came in by a port; its other half is [`InputPort`]'s namesake.
fn came_in(port: &dyn LivePort) -> PortCounters {
    InputPort::counters(port)
}

impl LivePorts {
    pub(crate) fn new(ports: Vec<Way>) -> LivePorts {
        LivePorts { ports }
    }

    /// How many there are.
    pub(crate) fn count(&self) -> usize {
        self.ports.len()
    }

    /// The interfaces.
    pub(crate) fn live(&self) -> impl Iterator<Item = &dyn LivePort> {
        self.ports.iter().filter_map(|port| match port {
            Way::Both(live) => Some(&**live),
            Way::Out(_) => None,
        })
    }

    /// Takes up to `max` packets in by a port.
    pub(super) fn receive(
        &mut self,
        number: usize,
        pool: &mut FramePool,
        into: &mut Vec<Frame>,
        max: usize,
    ) -> Result<(), Failure> {
        match self.ports.get_mut(number) {
            Some(Way::Both(live)) => live.receive(pool, into, max).map(drop).map_err(outside),
            Some(Way::Out(_)) | None => Ok(()),
        }
    }

    /// Puts out what is to depart.
    pub(super) fn send(
        &mut self,
        pool: &mut FramePool,
        departures: &mut Departures,
    ) -> Result<(), Failure> {
        let mut result = Ok(());
        for (port, queue) in self.ports.iter_mut().zip(departures.queues()) {
            if !queue.is_empty() {
                let sent = match port {
                    Way::Both(live) => live.send(pool, queue),
                    Way::Out(out) => out.send(pool, queue),
                };
                result = result.and(sent.map_err(outside));
            }
        }
        result
    }

    /// Descriptors to wait for packets on, to the end of `into`.
    pub(super) fn descriptors<'a>(&'a self, into: &mut Vec<BorrowedFd<'a>>) {
        self.live().for_each(|port| port.descriptors(into));
    }

    /// Looks whether the interfaces are still there.
    pub(super) fn check(&mut self) -> Result<(), Failure> {
        self.ports.iter_mut().try_for_each(|port| match port {
            Way::Both(live) => live.check().map_err(outside),
            Way::Out(_) => Ok(()),
        })
    }

    /// Closes them all: the first failure.
    pub(super) fn close(&mut self, pool: &mut FramePool) -> Result<(), Failure> {
        let mut result = Ok(());
        for port in &mut self.ports {
            match port {
                Way::Both(live) => live.close(pool),
                Way::Out(out) => result = result.and(out.finish().map_err(outside)),
            }
        }
        result
    }

    /// What came in, by the ports that packets come in by.
    pub(super) fn came_in(&self) -> Vec<PortCounters> {
        self.live().map(came_in).collect()
    }

    /// What went out, by the ports that packets go out by.
    pub(super) fn went_out(&self) -> Vec<PortCounters> {
        self.ports
            .iter()
            .map(|port| match port {
                Way::Both(live) => OutputPort::counters(&**live),
                Way::Out(out) => out.counters(),
            })
            .collect()
    }

    /// What an operator should know of the interfaces.
    pub(crate) fn warnings(&self) -> Vec<String> {
        self.live().flat_map(LivePort::warnings).collect()
    }
}
