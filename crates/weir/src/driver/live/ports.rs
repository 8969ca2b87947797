//! The ports of a run with interfaces, by their numbers.

use std::os::fd::BorrowedFd;
use std::time::Duration;

use weir_io::live::{LiveClock, LivePort};
use weir_io::port::{InputPort, OutputPort, PortCounters, PortError};
use weir_packet::{Frame, FramePool, Time};

use crate::exit::Failure;
use crate::say::say;

use super::layer::Departures;
use super::replay::Replay;

/// A port, open.
pub(crate) enum Way {
    /// An interface: in and out.
    Both(Box<dyn LivePort>),
    /// In only: a capture or the generator, played.
    In(Replay),
    /// Out only: a file, or nowhere.
    Out(Box<dyn OutputPort>),
}

/// The open ports. A packet's metadata has the number of that by which it came.
pub(crate) struct LivePorts {
    ports: Vec<Way>,
    clock: LiveClock,
    /// True if the run goes on after the end of all captures.
    stay: bool,
}

fn outside(error: PortError) -> Failure {
    Failure::outside(error.to_string())
}

/// Counts of a port's input; output has a method of the same name.
fn came_in(port: &dyn LivePort) -> PortCounters {
    InputPort::counters(port)
}

impl LivePorts {
    /// These ports, whose times are of `clock`. Without `stay` the run ends
    /// with what is played.
    pub(crate) fn new(ports: Vec<Way>, clock: LiveClock, stay: bool) -> LivePorts {
        LivePorts { ports, clock, stay }
    }

    /// How many there are.
    pub(crate) fn count(&self) -> usize {
        self.ports.len()
    }

    /// The interfaces.
    pub(crate) fn live(&self) -> impl Iterator<Item = &dyn LivePort> {
        self.ports.iter().filter_map(|port| match port {
            Way::Both(live) => Some(&**live),
            Way::In(_) | Way::Out(_) => None,
        })
    }

    fn replays(&self) -> impl Iterator<Item = &Replay> {
        self.ports.iter().filter_map(|port| match port {
            Way::In(replay) => Some(replay),
            Way::Both(_) | Way::Out(_) => None,
        })
    }

    /// True where nothing comes any more: all was played, and that was it.
    pub(super) fn are_over(&self) -> bool {
        !self.stay && self.replays().all(Replay::is_over)
    }

    /// Plays nothing more.
    pub(super) fn end_replays(&mut self) {
        for port in &mut self.ports {
            if let Way::In(replay) = port {
                replay.end();
            }
        }
    }

    /// When the next packet comes that no descriptor tells of.
    pub(super) fn next_due(&self) -> Option<Time> {
        let live = self.live().filter_map(LivePort::next_due);
        live.chain(self.replays().filter_map(Replay::next_due))
            .min()
    }

    /// How long it is to then.
    pub(super) fn until_due(&self) -> Option<Duration> {
        let due = self.next_due()?;
        Some(Duration::from_nanos(
            due.0.saturating_sub(self.clock.now().0),
        ))
    }

    /// Takes up to `max` packets in by a port.
    pub(crate) fn receive(
        &mut self,
        number: usize,
        pool: &mut FramePool,
        into: &mut Vec<Frame>,
        max: usize,
    ) -> Result<(), Failure> {
        match self.ports.get_mut(number) {
            Some(Way::Both(live)) => live.receive(pool, into, max).map(drop).map_err(outside),
            Some(Way::In(replay)) => replay.receive(pool, into, max).map_err(outside),
            Some(Way::Out(_)) | None => Ok(()),
        }
    }

    /// Puts out what is to depart.
    pub(crate) fn send(
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
                    // Nothing is tied to it.
                    Way::In(_) => {
                        pool.give_all(queue);
                        Ok(())
                    }
                };
                result = result.and(sent.map_err(outside));
            }
        }
        result
    }

    /// Descriptors to wait for packets on, to the end of `into`.
    pub(crate) fn descriptors<'a>(&'a self, into: &mut Vec<BorrowedFd<'a>>) {
        self.live().for_each(|port| port.descriptors(into));
    }

    /// Looks whether the interfaces are still there, and says what an operator
    /// should not learn only at the end.
    pub(crate) fn check(&mut self) -> Result<(), Failure> {
        self.ports.iter_mut().try_for_each(|port| match port {
            Way::Both(live) => {
                live.check().map_err(outside)?;
                if let Some(news) = live.news() {
                    say(format_args!("warning: {news}"));
                }
                Ok(())
            }
            Way::In(_) | Way::Out(_) => Ok(()),
        })
    }

    /// Closes them all: the first failure.
    pub(crate) fn close(&mut self, pool: &mut FramePool) -> Result<(), Failure> {
        let mut result = Ok(());
        for port in &mut self.ports {
            match port {
                Way::Both(live) => live.close(pool),
                Way::In(replay) => replay.close(pool),
                Way::Out(out) => result = result.and(out.finish(pool).map_err(outside)),
            }
        }
        result
    }

    /// Counts of the ports that packets come in by.
    pub(super) fn came_in(&self) -> Vec<PortCounters> {
        let replays = self.replays().map(Replay::counters);
        self.live().map(came_in).chain(replays).collect()
    }

    /// Counts of the ports that packets go out by.
    pub(crate) fn went_out(&self) -> Vec<PortCounters> {
        self.ports
            .iter()
            .filter_map(|port| match port {
                Way::Both(live) => Some(OutputPort::counters(&**live)),
                Way::Out(out) => Some(out.counters()),
                Way::In(_) => None,
            })
            .collect()
    }

    /// Warnings about the interfaces.
    pub(crate) fn warnings(&self) -> Vec<String> {
        self.live().flat_map(LivePort::warnings).collect()
    }
}
