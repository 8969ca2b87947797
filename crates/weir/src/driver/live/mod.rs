//! Packets of both directions between interfaces, until the run is told to end.
//!
//! ```text
//!   ports ──▶ layer ──▶ chains (a crew: one thread or many) ──▶ layer ──▶ ports
//!               └── what it answers itself ──────────────────────▶ ports
//! ```
//!
//! One thread, the caller's, has the ports ([`LivePorts`]) and takes packets
//! round and round ([`Live::drive`]). What works on them is a [`Crew`]. How weir
//! stands in the network is a [`Layer`]: it sees packets when they have come
//! and before they go. What the loop looks at now and then (signals, the time,
//! whether the interfaces are there) is in [`Looks`].

mod alone;
mod layer;
mod looks;
mod ports;
mod replay;
mod router;

use std::os::fd::{AsFd as _, BorrowedFd};
use std::time::{Duration, Instant};

use weir_io::live::Waiter;
use weir_io::port::PortCounters;
use weir_packet::{Frame, Holder, Time};

use crate::exit::Failure;

use super::crew::{Crew, Part, Visit, take_log};
use super::dispatch::Dispatcher;
use super::events::EventFile;
use super::inbox::{Inbox, Shows, ThreadCounts};
use super::{CHAINS, LEAVING};

pub(crate) use alone::Alone;
pub(crate) use layer::{Bump, Departures, Layer, LayerReport, Tap};
pub(crate) use looks::Looks;
pub(crate) use ports::{LivePorts, Way};
pub(crate) use replay::{Replay, Speed};
pub(crate) use router::{Routed, RouterReport};

/// Packets taken from a port at a time.
pub(crate) const BATCH: usize = 64;
/// Rounds with packets after which the loop looks about.
const ROUNDS: u32 = 256;
/// How long packets that have come may still be taken at the end.
const DRAIN: Duration = Duration::from_millis(100);
/// The same where packets are late on purpose.
const DRAIN_LINKS: Duration = Duration::from_secs(2);

/// All that packets pass through.
pub(crate) struct Live<C> {
    pub(crate) crew: C,
    pub(crate) ports: LivePorts,
    pub(crate) layer: Box<dyn Layer>,
    pub(crate) dispatcher: Dispatcher,
    pub(crate) looks: Looks,
    /// It never sleeps.
    pub(crate) wakeful: bool,
    pub(crate) events: Option<EventFile>,
    waiter: Waiter,
    // What a round needs, kept to save its allocation.
    input: Vec<Frame>,
    output: Vec<Frame>,
    lines: Vec<u8>,
    departures: Departures,
}

impl<C: Crew> Live<C> {
    pub(crate) fn new(
        crew: C,
        ports: LivePorts,
        layer: Box<dyn Layer>,
        dispatcher: Dispatcher,
        looks: Looks,
        events: Option<EventFile>,
    ) -> Live<C> {
        Live {
            crew,
            departures: Departures::new(ports.count()),
            ports,
            layer,
            dispatcher,
            looks,
            wakeful: false,
            events,
            waiter: Waiter::default(),
            input: Vec::with_capacity(BATCH),
            output: Vec::with_capacity(4 * BATCH),
            lines: Vec::new(),
        }
    }

    /// Moves packets until a signal comes, the time is over, or something can't
    /// go on.
    pub(crate) fn drive(&mut self) -> Result<(), Failure> {
        let mut rounds = 0;
        self.tick()?;
        loop {
            if self.round()? {
                self.waiter.busy();
                rounds += 1;
                if rounds < ROUNDS && !self.is_asked() {
                    continue;
                }
            } else if !self.is_asked() && self.waiter.spin() {
                // The loop has looked about a moment ago, or soon will.
                continue;
            } else if self.wakeful {
                self.waiter.busy();
                if self.crew.bed().is_some() {
                    // Those who work may share the core.
                    std::thread::yield_now();
                }
            } else if !self.is_asked() {
                self.sleep()?;
            }
            rounds = 0;
            self.tick()?;
            self.answer();
            if self.looks.look(&mut self.ports, self.events.as_mut())? || self.ports.are_over() {
                break;
            }
        }
        self.drain()?;
        self.looks.end();
        Ok(())
    }

    /// Takes what has come already, and what is on its way in emulated links.
    fn drain(&mut self) -> Result<(), Failure> {
        self.ports.end_replays();
        let began = Instant::now();
        loop {
            let found = self.round()?;
            let late = self.ports.next_due().is_some();
            let most = if late { DRAIN_LINKS } else { DRAIN };
            if !found && !late || began.elapsed() > most {
                return Ok(());
            }
            if !found {
                std::thread::sleep(Duration::from_micros(100));
            }
        }
    }

    /// True while an answer is under way.
    fn is_asked(&self) -> bool {
        self.looks.inbox.as_ref().is_some_and(Inbox::is_busy)
    }

    /// Answers what is asked, or a part of it.
    fn answer(&mut self) {
        if let Some(mut inbox) = self.looks.inbox.take() {
            inbox.answer(self);
            self.looks.inbox = Some(inbox);
        }
    }

    /// Sleeps until there is something to do.
    fn sleep(&mut self) -> Result<(), Failure> {
        if self.crew.bed().is_none() {
            return self.doze();
        }
        // What came before this is seen in this round; what comes after it
        // rings.
        let may = self.crew.lie_down();
        let worked = self.round();
        let mut slept = Ok(());
        if may && worked.as_ref().is_ok_and(|worked| !worked) {
            slept = self.doze();
        }
        self.crew.rise();
        worked.and(slept)
    }

    /// Waits for a packet, a signal, or the bell.
    fn doze(&mut self) -> Result<(), Failure> {
        let mut most = self.looks.until_next();
        let mut fds: Vec<BorrowedFd<'_>> = Vec::with_capacity(8);
        self.looks.descriptors(&mut fds);
        self.ports.descriptors(&mut fds);
        if let Some((bell, longest)) = self.crew.bed() {
            fds.push(bell.as_fd());
            most = most.min(longest);
        }
        if let Some(due) = self.ports.until_due() {
            most = most.min(due);
        }
        self.waiter
            .sleep(&fds, most)
            .map_err(|error| Failure::outside(format!("can't wait for packets: {error}")))
    }

    /// Takes a batch of each port through the chains, and out what has come
    /// through: whether there was anything. A batch comes from one port, so
    /// from one side, as functions that give names to flows need it.
    fn round(&mut self) -> Result<bool, Failure> {
        let mut found = false;
        for number in 0..self.ports.count() {
            let room = self.crew.room().min(BATCH);
            if room == 0 {
                break;
            }
            let pool = self.crew.pool();
            pool.set_holder(number as Holder);
            let received = self.ports.receive(number, pool, &mut self.input, room);
            if !self.input.is_empty() {
                found = true;
                self.layer
                    .arrived(number, pool, &mut self.input, &mut self.departures);
                pool.memory().hold(&self.input, CHAINS);
                self.take();
                self.step(false)?;
                self.own();
            }
            received?;
        }
        if !found {
            found = self.step(false)?;
            self.own();
        }
        Ok(found)
    }

    /// Has the layer do what is due.
    fn tick(&mut self) -> Result<(), Failure> {
        let pool = self.crew.pool();
        self.layer.tick(pool, &mut self.departures);
        self.ports.send(pool, &mut self.departures)?;
        self.own();
        Ok(())
    }

    /// Takes the layer's own packets through the chains, of one side at a time.
    fn own(&mut self) {
        loop {
            self.layer.own(&mut self.input);
            if self.input.is_empty() {
                return;
            }
            self.take();
        }
    }

    /// Hands packets to the chains that take them.
    fn take(&mut self) {
        self.dispatcher.hand_out(&mut self.crew, &mut self.input);
    }

    /// Has the crew do what there is to do, and sends what leaves.
    fn step(&mut self, may_rest: bool) -> Result<bool, Failure> {
        let (out, lines) = (&mut self.output, &mut self.lines);
        self.crew.pool().set_holder(CHAINS);
        let stepped = self.crew.step(out, lines, may_rest);
        if let Some(events) = &mut self.events {
            events.write_lines(&self.lines)?;
        }
        self.lines.clear();
        let pool = self.crew.pool();
        pool.memory().hold(&self.output, LEAVING);
        pool.set_holder(LEAVING);
        if !self.output.is_empty() {
            self.layer
                .leaving(pool, &mut self.output, &mut self.departures);
        }
        self.ports.send(pool, &mut self.departures)?;
        stepped.map_err(|error| Failure::outside(error.to_string()))
    }

    /// Ends all flows and threads and closes all ports, whatever fails on the
    /// way: the first failure.
    pub(crate) fn finish(&mut self) -> Result<(), Failure> {
        let mut result = Ok(());
        while result.is_ok() && !self.crew.is_over() {
            self.crew.stop();
            result = self.step(true).map(drop);
        }
        let pool = self.crew.pool();
        self.layer.close(pool);
        self.departures.clear(pool);
        pool.give_all(&mut self.output);
        result.and(self.ports.close(pool))
    }

    /// What came in by the ports, and what went out, in their order.
    pub(crate) fn counters(&self) -> (Vec<PortCounters>, Vec<PortCounters>) {
        (self.ports.came_in(), self.ports.went_out())
    }
}

impl<C: Crew> Shows for Live<C> {
    fn counts(&mut self) -> ThreadCounts {
        ThreadCounts {
            inputs: self.ports.came_in(),
            outputs: self.ports.went_out(),
            refused: self.dispatcher.refused,
            network: Some(self.layer.report()),
            idle: self.waiter.asleep(),
            ..ThreadCounts::of(&mut self.crew)
        }
    }

    fn parts(&mut self, visit: &mut Visit<'_>) {
        self.crew.parts(&mut self.output, visit);
    }

    fn take_events(&mut self) {
        // Written with the next step; a failure of that ends the run.
        let lines = &mut self.lines;
        let take = &mut |part: Part<'_>| take_log(part.runtime.events(), lines);
        self.crew.parts(&mut self.output, take);
    }

    fn now(&self) -> Option<Time> {
        Some(self.looks.clock.now())
    }
}
