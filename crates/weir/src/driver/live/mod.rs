//! Packets of both directions between interfaces, until the run is told to end.
//!
//! ```text
//!   ports ──▶ layer ──▶ chains (an executor: one thread or many) ──▶ layer ──▶ ports
//!               └── what it answers itself ──────────────────────▶ ports
//! ```
//!
//! One thread, the caller's, has the ports ([`LivePorts`]): they are the node of
//! its worker ([`Live::drive`]). What works on packets is a [`Executor`]. How weir
//! stands in the network is a [`Layer`]: it sees packets when they have come
//! and before they go. What the loop looks at now and then (signals, the time,
//! whether the interfaces are there) is in [`Looks`].

mod alone;
mod group;
mod layer;
mod looks;
mod peer;
mod ports;
mod replay;
mod router;
mod routers;

use std::cell::Cell;
use std::os::fd::{AsFd as _, BorrowedFd};
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use weir_ctl::command::{
    CommandHandler, CommandTarget, HandingOver, MoveUnits, Moving, Part, Replacement, Resize,
    Resizing, ThreadCounts, Visit,
};
use weir_exec::{IdleStrategy, Node, Parker, Parks, Round, worker};
use weir_io::live::Waiter;
use weir_io::port::PortCounters;
use weir_packet::{Frame, Holder, Time};

use crate::exit::Failure;

use super::dispatch::Dispatcher;
use super::events::EventFile;
use super::executor::{Executor, take_log, thread_counts};
use super::{BATCH, CHAINS, LEAVING};

pub(crate) use alone::Alone;
pub(crate) use group::{Group, MOST_WORKERS, PanicGuard};
pub(crate) use layer::{Bump, Departures, Layer, Tap};
pub(crate) use looks::{ENDED, Looks};
pub(crate) use peer::{Peer, PeerEnd, Queues};
pub(crate) use ports::{LivePorts, Way};
pub(crate) use replay::{Replay, Speed};
pub(crate) use router::Routed;
pub(crate) use routers::{Hearsay, Routers};

/// Rounds after which the ports' node keeps house. Before and after a sleep it
/// does so, too.
const ROUNDS: u32 = 256;
/// How long packets that have come may still be taken at the end.
const DRAIN: Duration = Duration::from_millis(100);
/// The same where packets are late on purpose.
const DRAIN_LINKS: Duration = Duration::from_secs(2);

/// All that packets pass through.
pub(crate) struct Live<C> {
    pub(crate) executor: C,
    pub(crate) ports: LivePorts,
    pub(crate) layer: Box<dyn Layer>,
    pub(crate) dispatcher: Dispatcher,
    pub(crate) looks: Looks,
    /// It never sleeps.
    pub(crate) wakeful: bool,
    pub(crate) events: Option<EventFile>,
    /// Set if the executor has threads that this one waits for.
    park: Option<Parker>,
    /// Time in which the thread slept, in ns.
    asleep: Rc<Cell<u64>>,
    /// Flows are idle for too long that have not ended yet.
    more_is_due: bool,
    /// The port that is looked at first.
    first: usize,
    // Buffers of a round, kept to save their allocation.
    input: Vec<Frame>,
    output: Vec<Frame>,
    lines: Vec<u8>,
    departures: Departures,
}

impl<C: Executor> Live<C> {
    pub(crate) fn new(
        executor: C,
        ports: LivePorts,
        layer: Box<dyn Layer>,
        dispatcher: Dispatcher,
        looks: Looks,
        events: Option<EventFile>,
    ) -> Live<C> {
        Live {
            departures: Departures::new(ports.count()),
            ports,
            layer,
            dispatcher,
            looks,
            wakeful: false,
            events,
            park: executor.parker().map(Parker::anew),
            executor,
            asleep: Rc::default(),
            more_is_due: false,
            first: 0,
            input: Vec::with_capacity(BATCH),
            output: Vec::with_capacity(4 * BATCH),
            lines: Vec::new(),
        }
    }

    /// Moves packets until a signal comes, the time is over, or something can't
    /// go on.
    pub(crate) fn drive(&mut self) -> Result<(), Failure> {
        self.looks.begin();
        let driven = self.go_round().and_then(|()| self.drain());
        self.looks.end(driven.is_ok());
        driven
    }

    fn go_round(&mut self) -> Result<(), Failure> {
        let idle = LiveIdle {
            waiter: Waiter::default(),
            never_parks: self.wakeful,
            park: self.park.as_ref().map(Parker::anew),
            prepared: false,
            asleep: Rc::clone(&self.asleep),
        };
        let node = LiveNode {
            live: self,
            rounds: 0,
            due: true,
            failed: None,
        };
        let mut ends = worker::run(vec![node], idle)
            .map_err(|error| Failure::outside(format!("can't wait for packets: {error}")))?;
        // One node, one report.
        ends.pop().unwrap_or(Ok(()))
    }

    /// Takes what has come already, and what is on its way in emulated links.
    fn drain(&mut self) -> Result<(), Failure> {
        self.ports.end_replays();
        let began = Instant::now();
        loop {
            self.looks.let_signals_kill();
            let found = self.round()?.worked;
            let late = self.ports.next_due().is_some();
            let most = if late { DRAIN_LINKS } else { DRAIN };
            // Without room nothing was looked for.
            let full = self.executor.room() == 0;
            if !found && !late && !full || began.elapsed() > most {
                return Ok(());
            }
            if !found {
                std::thread::sleep(Duration::from_micros(100));
            }
        }
    }

    /// Carries out some of the commands that wait.
    fn carry_out_commands(&mut self) {
        if let Some(mut handler) = self.looks.handler.take() {
            handler.carry_out(self);
            self.looks.handler = Some(handler);
        }
    }

    /// Takes a batch of each port through the chains, and out what has come
    /// through. A batch comes from one port, so
    /// from one side, as functions that give names to flows need it.
    fn round(&mut self) -> Result<Round, Failure> {
        self.executor.may_go_on()?;
        let mut done = Round::default();
        let count = self.ports.count();
        for turn in 0..count {
            let number = (self.first + turn) % count;
            let room = self.executor.room().min(BATCH);
            if room == 0 {
                break;
            }
            let pool = self.executor.pool();
            pool.set_holder(number as Holder);
            let received = self.ports.receive(number, pool, &mut self.input, room);
            if !self.input.is_empty() {
                done.worked = true;
                // While there is room for some only, ports take turns.
                self.first = (number + 1) % count;
                self.layer
                    .arrived(number, pool, &mut self.input, &mut self.departures);
                pool.memory().hold(&self.input, CHAINS);
                self.take();
                done.gave |= self.step()?.gave;
                self.own();
            }
            received?;
        }
        if !done.worked {
            done = self.step()?;
            self.own();
        }
        Ok(done)
    }

    /// Has the chains and the layer do what is due.
    fn tick(&mut self) -> Result<(), Failure> {
        self.executor.may_go_on()?;
        self.more_is_due = self.executor.pass_time(self.looks.clock.now());
        let pool = self.executor.pool();
        self.layer.tick(pool, &mut self.departures);
        self.send()?;
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
        self.dispatcher
            .hand_out(&mut self.executor, &mut self.input);
    }

    /// Has the executor do what there is to do, and sends what leaves; nothing where it may not go
    /// on.
    fn step(&mut self) -> Result<Round, Failure> {
        let stepped = self.step_executor()?;
        self.send()?;
        Ok(stepped)
    }

    /// Steps the executor. Packets that leave are put into `departures`.
    fn step_executor(&mut self) -> Result<Round, Failure> {
        let (out, lines) = (&mut self.output, &mut self.lines);
        self.executor.pool().set_holder(CHAINS);
        let stepped = self.executor.step(out, lines);
        let gave = |round: &Round| round.worked || round.gave;
        if let (Some(park), true) = (&self.park, stepped.as_ref().is_ok_and(gave)) {
            park.wake_others();
        }
        if let Some(events) = &mut self.events {
            events.offer_lines(&self.lines);
        }
        self.lines.clear();
        let pool = self.executor.pool();
        pool.memory().hold(&self.output, LEAVING);
        pool.set_holder(LEAVING);
        if !self.output.is_empty() {
            self.layer
                .leaving(pool, &mut self.output, &mut self.departures);
        }
        stepped.map_err(|error| Failure::outside(error.to_string()))
    }

    /// Sends `departures` by their ports.
    fn send(&mut self) -> Result<(), Failure> {
        self.ports.send(self.executor.pool(), &mut self.departures)
    }

    /// How long it has slept.
    pub(crate) fn asleep(&self) -> Duration {
        Duration::from_nanos(self.asleep.get())
    }

    /// Ends all flows and threads and closes all ports, whatever fails on the
    /// way: the first failure.
    pub(crate) fn finish(&mut self) -> Result<(), Failure> {
        if let Some(events) = &mut self.events {
            events.wait_for_reader();
        }
        let (mut result, mut sent) = (Ok(()), Ok(()));
        while result.is_ok() && !self.executor.is_over() {
            self.executor.stop();
            result = self.step_executor().map(|round| {
                if !round.worked {
                    std::thread::yield_now();
                }
            });
            // A port that fails does not keep flows from ending.
            if result.is_ok() {
                sent = sent.and(self.send());
            }
        }
        let pool = self.executor.pool();
        self.layer.close(pool);
        self.departures.clear(pool);
        pool.give_all(&mut self.output);
        result.and(sent).and(self.ports.close(pool))
    }

    /// Counts of the input ports, and of the output ports, in their order.
    pub(crate) fn counters(&self) -> (Vec<PortCounters>, Vec<PortCounters>) {
        (self.ports.came_in(), self.ports.went_out())
    }
}

impl<C: Executor> CommandTarget for Live<C> {
    fn counts(&mut self) -> ThreadCounts {
        let mut counts = ThreadCounts {
            inputs: self.ports.came_in(),
            outputs: self.ports.went_out(),
            refused: self.dispatcher.refused,
            network: Some(self.layer.report()),
            idle: Duration::from_nanos(self.asleep.get()),
            ..thread_counts(&mut self.executor)
        };
        if let Some((number, steered)) = self.executor.worker() {
            counts.name = format!("worker {}", number + 1);
            counts.steered = steered;
        }
        counts
    }

    fn parts(&mut self, visit: &mut Visit<'_>) {
        self.executor.parts(&mut self.output, visit);
    }

    fn move_units(&mut self, wanted: &MoveUnits) -> Moving {
        self.executor.move_units(wanted)
    }

    fn resize(&mut self, wanted: &Resize) -> Resizing {
        self.executor.resize(wanted)
    }

    fn hand_over(&mut self) -> HandingOver {
        let answer = self.executor.hand_over();
        if matches!(answer, Some(Ok(()))) {
            self.looks.hand_over();
        }
        answer
    }

    fn replace(&mut self, new: &Arc<Replacement>) {
        self.executor.replace(new);
    }

    fn take_events(&mut self) {
        // The next step writes them. Without an event file, the executor passes them
        // to the worker that has it.
        if self.events.is_none() {
            return;
        }
        let lines = &mut self.lines;
        let take = &mut |part: Part<'_>| take_log(part.runtime.events(), lines);
        self.executor.parts(&mut self.output, take);
    }

    fn now(&self) -> Option<Time> {
        Some(self.looks.clock.now())
    }
}

/// The ports as the node of the calling thread, until the run is to end.
struct LiveNode<'a, C> {
    live: &'a mut Live<C>,
    /// Rounds since the last housekeeping.
    rounds: u32,
    /// Housekeeping is due: the thread slept, or is about to.
    due: bool,
    /// Why the run can't go on.
    failed: Option<Failure>,
}

impl<C: Executor> LiveNode<'_, C> {
    /// Has the layer do what is due and looks about: true where the run is to
    /// end.
    fn keep_house(&mut self) -> Result<bool, Failure> {
        (self.rounds, self.due) = (0, false);
        let live = &mut *self.live;
        live.tick()?;
        Ok(live.looks.look(&mut live.ports, live.events.as_mut())? || live.ports.are_over())
    }

    fn turn(&mut self) -> Result<Round, Failure> {
        if (self.due || self.rounds >= ROUNDS) && self.keep_house()? {
            return Ok(Round {
                over: true,
                ..Round::default()
            });
        }
        self.rounds += 1;
        let round = self.live.round()?;
        Ok(Round {
            worked: round.worked || self.live.more_is_due,
            ..round
        })
    }
}

impl<C: Executor> Node for LiveNode<'_, C> {
    type Report = Result<(), Failure>;

    fn step(&mut self) -> Result<Round, String> {
        Ok(self.turn().unwrap_or_else(|failure| {
            self.failed = Some(failure);
            Round {
                over: true,
                ..Round::default()
            }
        }))
    }

    fn take_commands(&mut self) -> bool {
        self.live.carry_out_commands();
        self.live
            .looks
            .handler
            .as_ref()
            .is_some_and(CommandHandler::is_busy)
    }

    fn prepare_park(&mut self) -> bool {
        self.due = true;
        self.live.executor.prepare_park()
    }

    fn unpark(&mut self) {
        self.due = true;
        self.live.executor.unpark();
    }

    fn descriptors<'a>(&'a self, into: &mut Vec<BorrowedFd<'a>>) {
        self.live.looks.descriptors(into);
        self.live.ports.descriptors(into);
        self.live.executor.descriptors(into);
        let waker = self.live.park.as_ref().and_then(Parker::waker);
        into.extend(waker.map(|(waker, _)| waker.as_fd()));
    }

    fn longest(&self) -> Duration {
        let live = &*self.live;
        let waits = [
            Some(live.looks.until_next()),
            live.park
                .as_ref()
                .and_then(Parker::waker)
                .map(|(_, longest)| longest),
            live.ports.until_due(),
        ];
        waits.into_iter().flatten().min().unwrap_or(Duration::MAX)
    }

    fn finish(self) -> Result<Self::Report, String> {
        Ok(self.failed.map_or(Ok(()), Err))
    }
}

/// How a thread between interfaces waits: a packet that comes soon is found by
/// looking for it, without a sleep.
struct LiveIdle {
    waiter: Waiter,
    never_parks: bool,
    /// Set if other threads may share this core.
    park: Option<Parker>,
    /// It has prepared to park, and looks once more.
    prepared: bool,
    asleep: Rc<Cell<u64>>,
}

impl LiveIdle {
    fn unpark(&self, reads: &mut impl Parks) {
        match &self.park {
            Some(park) => park.unpark(reads),
            None => reads.unpark(),
        }
    }
}

impl IdleStrategy for LiveIdle {
    fn after(&mut self, round: Round, reads: &mut impl Parks) -> Result<(), String> {
        if round.worked || round.gave {
            if std::mem::take(&mut self.prepared) {
                self.unpark(reads);
            }
            if round.worked {
                self.waiter.busy();
                // It may be time to give way.
                if let Some(park) = &mut self.park {
                    park.pause(true, reads);
                }
            } else {
                // Those that it waits for may share this core.
                std::thread::yield_now();
            }
            return Ok(());
        }
        if std::mem::take(&mut self.prepared) {
            let mut fds = Vec::with_capacity(8);
            reads.descriptors(&mut fds);
            let slept = self.waiter.sleep(&fds, reads.longest());
            self.asleep.set(self.waiter.asleep().as_nanos() as u64);
            self.unpark(reads);
            return slept.map_err(|error| error.to_string());
        }
        if self.waiter.spin() {
            return Ok(());
        }
        if self.never_parks {
            self.waiter.stay_awake();
            if self.park.is_some() {
                std::thread::yield_now();
            }
            return Ok(());
        }
        // The next round sees input that came before this; later input wakes the
        // thread.
        self.prepared = match &self.park {
            Some(park) => park.prepare_park(reads),
            None => reads.prepare_park(),
        };
        if !self.prepared {
            self.unpark(reads);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use weir_exec::ExecError;
    use weir_io::live::{EndSignals, LiveClock};
    use weir_io::port::{InputPort, OutputPort, PortError, Received};
    use weir_packet::{FrameMeta, FramePool, MemoryLayout};

    use super::*;

    /// There is always more.
    struct Endless(u8);

    impl InputPort for Endless {
        fn receive(
            &mut self,
            pool: &mut FramePool,
            into: &mut Vec<Frame>,
            max: usize,
        ) -> Result<Received, PortError> {
            for _ in 0..max {
                let mut meta = FrameMeta::default();
                meta.port = self.0;
                into.extend(pool.copy(&[0; 60], meta));
            }
            Ok(Received::More)
        }

        fn counters(&self) -> PortCounters {
            PortCounters::default()
        }
    }

    /// Takes one batch per round.
    struct Slow {
        pool: FramePool,
        taken: [u64; 2],
        room: usize,
        /// Orders to stop until it is over. A packet leaves at each.
        stops: u32,
    }

    impl Executor for Slow {
        fn pool(&mut self) -> &mut FramePool {
            &mut self.pool
        }

        fn room(&self) -> usize {
            self.room
        }

        fn take(&mut self, _chain: usize, frames: &mut Vec<Frame>) {
            self.room -= frames.len();
            for frame in frames.drain(..) {
                let port = self.pool.memory().meta(&frame).port;
                self.taken[usize::from(port)] += 1;
                self.pool.give(frame);
            }
        }

        fn step(&mut self, out: &mut Vec<Frame>, _: &mut Vec<u8>) -> Result<Round, ExecError> {
            if self.stops > 0 {
                out.extend(self.pool.copy(&[0; 60], FrameMeta::default()));
            }
            Ok(Round {
                worked: true,
                ..Round::default()
            })
        }

        fn pass_time(&mut self, _now: Time) -> bool {
            false
        }

        fn stop(&mut self) {
            self.stops = self.stops.saturating_sub(1);
        }

        fn is_over(&self) -> bool {
            self.stops == 0
        }
    }

    /// It can't go on.
    struct Broken;

    impl OutputPort for Broken {
        fn send(&mut self, pool: &mut FramePool, frames: &mut Vec<Frame>) -> Result<(), PortError> {
            pool.give_all(frames);
            Err(PortError::new("broken", "it is"))
        }

        fn counters(&self) -> PortCounters {
            PortCounters::default()
        }
    }

    impl InputPort for Broken {
        fn receive(
            &mut self,
            _pool: &mut FramePool,
            _into: &mut Vec<Frame>,
            _max: usize,
        ) -> Result<Received, PortError> {
            Err(PortError::new("broken", "it is"))
        }

        fn counters(&self) -> PortCounters {
            PortCounters::default()
        }
    }

    fn live(inputs: Vec<Box<dyn InputPort>>) -> Live<Slow> {
        let clock = LiveClock::start();
        let ports = inputs.into_iter();
        let ports = ports.map(|input| Way::In(Replay::new(input, Speed::Full, clock)));
        live_with(ports.collect(), clock)
    }

    fn live_with(ports: Vec<Way>, clock: LiveClock) -> Live<Slow> {
        let ports = LivePorts::new(ports, clock, true);
        let (_post, handler) = CommandHandler::new(true).unwrap();
        let looks = Looks::new(EndSignals::open().unwrap(), None, None, clock, handler);
        let executor = Slow {
            pool: FramePool::with_layout(MemoryLayout::default()),
            taken: [0; 2],
            room: BATCH,
            stops: 0,
        };
        let bump = Box::new(Bump::new(vec![[0, 1]]));
        Live::new(executor, ports, bump, Dispatcher::to_one(), looks, None)
    }

    #[test]
    fn a_run_that_failed_can_be_ended_by_a_signal() {
        let taken = || {
            let status = std::fs::read_to_string("/proc/thread-self/status").unwrap();
            let mut lines = status.lines();
            let blocked = lines.find_map(|line| line.strip_prefix("SigBlk:")).unwrap();
            u64::from_str_radix(blocked.trim(), 16).unwrap() & (1 << (15 - 1)) != 0
        };
        let mut live = live(vec![Box::new(Broken)]);
        assert!(taken());
        assert!(live.drive().is_err());
        assert!(!taken());
    }

    #[test]
    fn a_port_that_is_gone_does_not_keep_flows_from_ending() {
        let ports = (0..2).map(|_| Way::Out(Box::new(Broken)));
        let mut live = live_with(ports.collect(), LiveClock::start());
        live.executor.stops = 5;
        let failure = live.finish().unwrap_err();
        assert!(failure.message.contains("broken"), "{failure:?}");
        assert!(live.executor.is_over());
    }

    #[test]
    fn ports_take_turns_where_there_is_room_for_some_only() {
        let mut live = live(vec![Box::new(Endless(0)), Box::new(Endless(1))]);
        for _ in 0..100 {
            live.executor.room = BATCH;
            live.round().unwrap();
        }
        let [one, other] = live.executor.taken;
        assert_eq!(one + other, 100 * BATCH as u64);
        assert_eq!(one, other);
        live.finish().unwrap();
    }
}
