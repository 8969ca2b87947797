//! A runtime behind a switch, as a node: the flow actors of every chain.

use std::collections::VecDeque;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::time::Duration;

use weir_control::tenants::Turns;
use weir_ctl::command::{
    CommandHandler, CommandTarget, Comparing, Comparison, Part, Replacement, ThreadCounts, Visit,
};
use weir_exec::edge::{FrameReceiver, FrameSender};
use weir_exec::queue::drain;
use weir_exec::{Node, Round};
use weir_nf::host::Stage;
use weir_packet::{FlowKey, Frame, FramePool, Internal, Time};
use weir_protocol::actors::Compared;
use weir_protocol::in_process::{BURST, MESSAGES, MESSAGES_ON_THE_WAY, PER_PACKET};
use weir_protocol::settings::ActorSettings;
use weir_protocol::{Actors, Message, Peer, RuntimeId, UnitId};
use weir_runtime::{Runtime, RuntimeConfig};

use super::clock::Clock;
use super::runtime_done::{BAD_DESCRIPTORS, BAD_MESSAGES, RuntimeDone};
use super::wiring::{NO_CHAIN, PeerMessage, RuntimeEnds, Seat, ToRuntime, ToSwitch, place_of};

/// Ends of flows that may be asked for and not numbered yet.
const ENDS: usize = 512;

/// Parts of a runtime's node, made into one on the thread of its worker.
pub(super) struct RuntimePlan {
    pub(super) stages: Arc<[Stage]>,
    /// Places of units, per chain.
    pub(super) places: Vec<u32>,
    pub(super) config: RuntimeConfig,
    pub(super) settings: ActorSettings,
    /// Messages to other runtimes go through the switch's thread.
    pub(super) relayed: bool,
    pub(super) clock: Clock,
    /// Tenant and weight of each chain, where several tenants share its time.
    pub(super) shares: Option<Vec<(u16, u32)>>,
    pub(super) seat: Seat,
}

/// The actors of one chain, and their data.
struct ChainActors {
    actors: Actors,
    input: Vec<Frame>,
}

/// A runtime: the actors of all chains, and what joins them to the switch and
/// to other runtimes.
pub(super) struct RuntimeNode {
    work: Work,
    handler: CommandHandler,
    /// That of the switch before, whose watches are taken off by it.
    former: Option<CommandHandler>,
    /// Time in rounds with work, in ns.
    busy: u64,
}

/// The parts that commands read and change.
struct Work {
    id: RuntimeId,
    clock: Clock,
    seat: Seat,
    chains: Vec<ChainActors>,
    /// Which chains have their turn, where tenants share its time.
    turns: Option<Turns>,
    /// Messages that wait until the entries before them are in their queues.
    outgoing: VecDeque<(usize, Peer, Message)>,
    received: Vec<(usize, Peer, Message)>,
    commands: Vec<ToRuntime>,
    from_peer: Vec<PeerMessage>,
    relayed: bool,
    finishing: bool,
    /// The number to send back when nothing is left to do.
    echo: Option<u64>,
    /// Something was queued for another thread in a round that is no work.
    gave: bool,
    packets: u64,
    /// Frames that it has had so far; those that went to the reserve don't count, those
    /// that its predecessors have sent to the switch do.
    had: u64,
    /// Stands for the chains whose functions it has taken since this was last asked.
    replaced: Option<u64>,
    internal: Internal,
}

impl RuntimeNode {
    /// Makes the node. It takes commands from here on.
    ///
    /// # Errors
    ///
    /// A stage that can't be run.
    pub(super) fn new(mut plan: RuntimePlan) -> Result<RuntimeNode, String> {
        let mut chains = Vec::new();
        for (number, stage) in plan.stages.iter().enumerate() {
            let engine = Runtime::new(stage, plan.config).map_err(|error| error.to_string())?;
            let places = plan.places.get(number).copied().unwrap_or(0);
            let advise = plan.config.advise;
            chains.push(ChainActors {
                actors: Actors::with_places(engine, plan.settings, places, advise),
                input: Vec::with_capacity(BURST),
            });
        }
        let handler = std::mem::take(&mut plan.seat.handler);
        handler.set_open(true);
        let had = plan.seat.pool.available() as u64 + sent(&plan.seat.ends);
        Ok(RuntimeNode {
            work: Work {
                id: plan.settings.id,
                clock: plan.clock,
                seat: plan.seat,
                chains,
                turns: plan.shares.as_deref().map(Turns::new),
                outgoing: VecDeque::new(),
                received: Vec::new(),
                commands: Vec::new(),
                from_peer: Vec::new(),
                relayed: plan.relayed,
                finishing: false,
                echo: None,
                gave: false,
                packets: 0,
                had,
                replaced: None,
                internal: Internal::default(),
            },
            handler,
            former: None,
            busy: 0,
        })
    }

    /// Takes commands from here as well; those that came the way before are carried out.
    pub(super) fn obey(&mut self, handler: CommandHandler) {
        handler.set_open(true);
        self.former = Some(std::mem::replace(&mut self.handler, handler));
    }

    /// Tenants share its time by these weights from now on.
    pub(super) fn share_by(&mut self, shares: Option<&[(u16, u32)]>) {
        self.work.turns = shares.map(Turns::new);
    }

    /// What stands for the chains whose functions it has taken since the last call.
    pub(super) fn take_replaced(&mut self) -> Option<u64> {
        self.work.replaced.take()
    }

    /// Packets that have come so far.
    pub(super) fn packets(&self) -> u64 {
        self.work.packets
    }

    /// Units of which it has states, for itself or as the replica.
    pub(super) fn units(&self) -> u64 {
        let chains = self.work.chains.iter();
        chains
            .map(|at| at.actors.owned() + at.actors.report().replicas)
            .sum()
    }

    /// Its counts so far.
    pub(super) fn counted(&self) -> RuntimeDone {
        let mut done = RuntimeDone {
            busy: Duration::from_nanos(self.busy),
            packets: self.work.packets,
            ..RuntimeDone::of(self.work.id, Vec::new())
        };
        for chain in &self.work.chains {
            chain.add_to(&mut done);
        }
        self.work.add_nonsense(&mut done);
        done
    }

    #[cfg(test)]
    pub(super) fn pool(&mut self) -> &mut FramePool {
        &mut self.work.seat.pool
    }
}

impl Node for RuntimeNode {
    type Report = RuntimeDone;

    fn step(&mut self) -> Result<Round, String> {
        if self.handler.is_held() {
            return Ok(Round {
                blocked: true,
                ..Round::default()
            });
        }
        let now = self.work.clock.now();
        let worked = self.work.round(now);
        if worked {
            self.busy += self.work.clock.now().0.saturating_sub(now.0);
        }
        Ok(Round {
            worked,
            gave: std::mem::take(&mut self.work.gave),
            // Nobody says when there is room.
            blocked: self.work.is_blocked(),
            over: self.work.finishing && !worked,
        })
    }

    fn take_commands(&mut self) -> bool {
        let mut is_busy = false;
        for handler in self.former.iter_mut().chain([&mut self.handler]) {
            handler.carry_out(&mut self.work);
            is_busy |= handler.is_busy();
        }
        is_busy
    }

    fn prepare_park(&mut self) -> bool {
        let blocked = self.work.is_blocked();
        let Seat { ends, supply, .. } = &mut self.work.seat;
        let mut may = ends.inbox.prepare_park() && !blocked;
        // Each is told, also behind one that must not.
        may &= supply.prepare_park();
        for data in &mut ends.data {
            may &= data.prepare_park();
        }
        may
    }

    fn unpark(&mut self) {
        let Seat { ends, supply, .. } = &mut self.work.seat;
        ends.inbox.unpark();
        supply.unpark();
        ends.data.iter_mut().for_each(|data| data.unpark());
    }

    fn descriptors<'a>(&'a self, into: &mut Vec<BorrowedFd<'a>>) {
        let handlers = self.former.iter().chain([&self.handler]);
        into.extend(handlers.filter_map(CommandHandler::descriptor));
    }

    fn longest(&self) -> Duration {
        let chains = self.work.chains.iter();
        let due = chains.filter_map(|at| at.actors.next_deadline()).min();
        let now = self.work.clock.now();
        due.map_or(Duration::MAX, |due| {
            Duration::from_nanos(due.0.saturating_sub(now.0))
        })
    }

    fn finish(mut self) -> Result<RuntimeDone, String> {
        Ok(self.work.finish(Duration::from_nanos(self.busy)))
    }
}

impl ChainActors {
    /// Ends the chain's flows and adds what was counted.
    fn close(&mut self, end: &mut RuntimeDone, pool: &mut FramePool, packet_time: Time) {
        self.actors.finish(pool);
        let engine = self.actors.engine_mut();
        engine.finish_with(pool, packet_time, |log| {
            end.events.extend_from_slice(log.lines());
            log.clear();
            log.give_whole();
        });
        self.add_to(end);
        if let Some(report) = end.reports.last_mut() {
            // Ports of flows that ended go back to the switch, which is over as well.
            report.flows.ports_leased = 0;
        }
        let internal = std::mem::take(&mut end.internal);
        if let Some(report) = end.reports.last_mut() {
            report.add_internal(&internal);
        }
    }

    /// Adds what was counted.
    fn add_to(&self, end: &mut RuntimeDone) {
        end.units += self.actors.owned();
        end.held_most = end.held_most.max(self.actors.held_most());
        let counts = self.actors.counts().iter();
        end.counts
            .extend(counts.map(|(what, n)| (what.name().to_owned(), n)));
        let mut report = self.actors.engine().report();
        report.add_internal(self.actors.internal());
        end.reports.push(report);
        end.lies.extend_from_slice(self.actors.engine().lies());
    }
}

impl CommandTarget for Work {
    fn counts(&mut self) -> ThreadCounts {
        ThreadCounts {
            name: format!("runtime {}", self.id.0),
            idle: weir_exec::asleep(),
            ..ThreadCounts::of_parts(|visit| self.parts(visit))
        }
    }

    fn parts(&mut self, visit: &mut Visit<'_>) {
        for (chain, at) in self.chains.iter_mut().enumerate() {
            visit(Part {
                chain,
                stage: 0,
                runtime: at.actors.engine_mut(),
                pool: &mut self.seat.pool,
                // Nothing leaves an engine but in entries.
                output: &mut Vec::new(),
            });
        }
    }

    fn compare(&mut self, begin: bool) -> Comparing {
        let mut found = Compared::default();
        for ChainActors { actors, .. } in &mut self.chains {
            if begin {
                actors.begin_comparison();
            }
            found.add(&actors.compared());
        }
        let runtime = self.id.0;
        Some(Comparison { runtime, found })
    }

    fn replace(&mut self, new: &Arc<Replacement>) {
        self.replaced = Some(new.digest());
    }

    fn room_for_ends(&self) -> usize {
        ENDS.saturating_sub(self.seat.gauge.ends())
    }

    fn ask_for_end(&mut self, chain: usize, unit: u64, key: FlowKey) -> bool {
        let unit = UnitId(unit);
        self.seat.gauge.ask_end();
        self.seat
            .ends
            .outbox
            .push(ToSwitch::End { chain, unit, key });
        self.gave = true;
        true
    }

    /// Events go with the entries that they belong to.
    fn take_events(&mut self) {}

    fn now(&self) -> Option<Time> {
        let packets = self.seat.gauge.packet_time();
        (packets > Time(0)).then_some(packets)
    }
}

impl Work {
    /// Takes in what has come, and sends what that causes. False where there
    /// was nothing to do.
    fn round(&mut self, now: Time) -> bool {
        let mut worked = false;
        let packet_time = self.seat.gauge.packet_time();
        // Frames are taken out first and looked at last: what a message said
        // before them of their view is there by then.
        self.take_frames();
        // All of them: one that is left may be about these frames. A ring bounds them.
        let inbox = &mut self.seat.ends.inbox;
        while inbox.drain(MESSAGES_ON_THE_WAY, &mut self.commands) == MESSAGES_ON_THE_WAY {}
        for command in self.commands.drain(..) {
            worked = true;
            match command {
                ToRuntime::Message {
                    chain,
                    from,
                    message,
                } => self.received.push((chain, from, message)),
                ToRuntime::Cluster(runtimes) => {
                    for chain in &mut self.chains {
                        chain.actors.cluster(&runtimes);
                    }
                }
                ToRuntime::Echo(number) => self.echo = Some(number),
                ToRuntime::Finish => self.finishing = true,
            }
        }
        for peer in self.seat.ends.peers.iter_mut().flatten() {
            drain(&mut peer.from, MESSAGES, &mut self.from_peer);
            // Some may be for the runtime that had this place before.
            let received = self.from_peer.drain(..).filter(|sent| sent.to == self.id);
            let received =
                received.map(|sent| (sent.chain, Peer::Runtime(sent.from), sent.message));
            self.received.extend(received);
        }
        let mut received = core::mem::take(&mut self.received);
        for (chain, from, message) in received.drain(..) {
            worked = true;
            if let Some(at) = self.internal.expect(self.chains.get_mut(chain), NO_CHAIN) {
                at.actors.message(now, &mut self.seat.pool, from, message);
                self.carry(chain);
            }
        }
        // Those that `carry` has added are for the next round.
        if self.received.is_empty() {
            self.received = received;
        }
        for chain in 0..self.chains.len() {
            worked |= self.serve(chain, now, packet_time);
        }
        let ahead = self.flush();
        // What is to go out goes first.
        let compares = ahead && self.compare_some(now);
        if !worked
            && ahead
            && self.received.is_empty()
            && !self.chains.iter().any(|at| at.actors.has_dues())
            && let Some(number) = self.echo.take()
        {
            self.seat.ends.outbox.push(ToSwitch::Echo(number));
            self.gave = true;
        }
        let before = self.seat.pool.available();
        self.gave |= self.seat.supply.settle(&mut self.seat.pool);
        self.had += self.seat.pool.available() as u64;
        self.had -= before as u64;
        worked || compares
    }

    /// Takes the frames of each chain, as many as it may have in this round.
    fn take_frames(&mut self) {
        let most = BURST.min(self.seat.pool.available() / PER_PACKET);
        if let Some(turns) = &mut self.turns {
            let (chains, data) = (&self.chains, &self.seat.ends.data);
            turns.begin(|chain| {
                chains.get(chain).is_some_and(|at| !at.input.is_empty())
                    || data.get(chain).is_some_and(|data| !data.is_empty())
            });
        }
        let chains = self.chains.iter_mut().zip(&mut self.seat.ends.data);
        for (chain, (at, data)) in chains.enumerate() {
            let most = match &self.turns {
                Some(turns) => turns.packets(chain, most),
                None => most,
            };
            let most = most.saturating_sub(at.input.len());
            let taken = data.drain(most, &mut at.input) as u64;
            self.packets += taken;
            self.had += taken;
        }
    }

    /// Applies the frames of a chain and does what is due in it.
    fn serve(&mut self, chain: usize, now: Time, packet_time: Time) -> bool {
        let Some(at) = self.internal.expect(self.chains.get_mut(chain), NO_CHAIN) else {
            return false;
        };
        at.actors.packets_at(packet_time);
        let due = at.actors.next_deadline().is_some_and(|at| at <= now);
        if at.input.is_empty() && !due {
            return false;
        }
        if !at.input.is_empty() {
            let (began, before) = (
                self.turns.as_ref().map(|_| self.clock.now()),
                at.input.len(),
            );
            // Those that it has no frames for stay for the next round.
            at.actors.frames(now, &mut self.seat.pool, &mut at.input);
            if let (Some(turns), Some(began)) = (&mut self.turns, began) {
                let ns = self.clock.now().0.saturating_sub(began.0);
                turns.used(chain, ns, before - at.input.len());
            }
        }
        if due {
            at.actors.tick(now, &mut self.seat.pool);
        }
        self.carry(chain);
        true
    }

    /// Asks about some copies, where they are compared; true where it did. It keeps nobody waiting who
    /// waits for packets to be done.
    fn compare_some(&mut self, now: Time) -> bool {
        let mut any = false;
        for chain in 0..self.chains.len() {
            let began = self.turns.as_ref().map(|_| self.clock.now());
            let Some(at) = self.internal.expect(self.chains.get_mut(chain), NO_CHAIN) else {
                continue;
            };
            if self.finishing {
                at.actors.end_comparison();
            }
            if at.actors.compared().left == 0 || !at.actors.compare_some(now) {
                continue;
            }
            if let (Some(turns), Some(began)) = (&mut self.turns, began) {
                let ns = self.clock.now().0.saturating_sub(began.0);
                turns.used(chain, ns, 0);
            }
            self.carry(chain);
            any = true;
        }
        if any {
            self.flush();
        }
        any
    }

    /// Empties the outbox of a chain's actors.
    fn carry(&mut self, chain: usize) {
        let Some(at) = self.internal.expect(self.chains.get_mut(chain), NO_CHAIN) else {
            return;
        };
        let outbox = &mut at.actors.outbox;
        let queue = self.seat.ends.entries.get_mut(chain);
        if let Some(queue) = self.internal.expect(queue, NO_CHAIN) {
            queue.extend(&mut outbox.entries);
        }
        for (to, message) in outbox.messages.drain(..) {
            if to == Peer::Runtime(self.id) {
                self.received.push((chain, to, message));
            } else {
                self.outgoing.push_back((chain, to, message));
            }
        }
    }

    /// Sends what waits: entries, and messages once the entries that were
    /// before them are in their rings. So a state that leaves here never
    /// overtakes what was put out before it. True where nothing waits.
    fn flush(&mut self) -> bool {
        let mut ahead = true;
        for queue in &mut self.seat.ends.entries {
            ahead &= queue.flush();
        }
        while ahead && let Some((chain, to, message)) = self.outgoing.pop_front() {
            match to {
                Peer::Runtime(to) => self.tell_runtime(chain, to, message),
                // There is no coordinator in one process.
                Peer::Switch(_) | Peer::Coordinator => self
                    .seat
                    .ends
                    .outbox
                    .push(ToSwitch::Message { chain, message }),
            }
        }
        self.seat.ends.outbox.flush();
        ahead &= self.outgoing.is_empty() && !self.seat.ends.outbox.is_waiting();
        for peer in self.seat.ends.peers.iter_mut().flatten() {
            // The switch's thread empties those of a place without a runtime.
            peer.to.flush();
            ahead &= peer.to.waiting() == 0;
        }
        ahead
    }

    /// True where something waits for room, of which nobody tells.
    fn is_blocked(&self) -> bool {
        let ends = &self.seat.ends;
        let mut peers = ends.peers.iter().flatten();
        !self.outgoing.is_empty()
            || ends.outbox.is_waiting()
            || ends.entries.iter().any(|queue| queue.waiting() > 0)
            || peers.any(|peer| peer.to.waiting() > 0)
    }

    /// Sends a message to another runtime: over their queue, or through the switch's thread.
    fn tell_runtime(&mut self, chain: usize, to: RuntimeId, message: Message) {
        let ends = &mut self.seat.ends;
        let places = ends.peers.len();
        let place = place_of(to, places);
        if place == place_of(self.id, places) {
            // It is for the runtime that had this place before.
            return;
        }
        let Some(peer) = self
            .internal
            .expect(ends.peers.get_mut(place), "no such runtime")
        else {
            return;
        };
        match peer {
            Some(peer) if !self.relayed => peer.to.push(PeerMessage {
                from: self.id,
                to,
                chain,
                message,
            }),
            _ => ends.outbox.push(ToSwitch::Relay { chain, to, message }),
        }
    }

    /// Adds what made no sense in rings from another process.
    fn add_nonsense(&self, done: &mut RuntimeDone) {
        let ends = &self.seat.ends;
        let frames = ends.data.iter().map(FrameReceiver::bad).sum::<u64>() + self.seat.supply.bad();
        let named = [(BAD_DESCRIPTORS, frames), (BAD_MESSAGES, ends.inbox.bad())];
        let named = named.into_iter().filter(|(_, n)| *n > 0);
        done.counts
            .extend(named.map(|(name, n)| (name.to_owned(), n)));
    }

    /// Ends all flows, for the run is over.
    fn finish(&mut self, busy: Duration) -> RuntimeDone {
        let packet_time = self.seat.gauge.packet_time();
        let mut end = RuntimeDone {
            busy,
            packets: self.packets,
            internal: std::mem::take(&mut self.internal),
            ..RuntimeDone::of(self.id, Vec::new())
        };
        for chain in &mut self.chains {
            chain.close(&mut end, &mut self.seat.pool, packet_time);
        }
        self.add_nonsense(&mut end);
        self.seat.ends.outbox.flush();
        end
    }
}

/// Frames that went to the switch by these ends.
fn sent(ends: &RuntimeEnds) -> u64 {
    ends.entries.iter().map(FrameSender::sent).sum()
}

/// Its thread ends: with the run, or because a function has panicked here or in
/// another runtime of the thread. All frames go back into its pool, which goes to the
/// switch's thread with the rest of its seat.
impl Drop for RuntimeNode {
    fn drop(&mut self) {
        let seat = &mut self.work.seat;
        for chain in &mut self.work.chains {
            seat.pool.give_all(&mut chain.input);
            chain.actors.give_back(&mut seat.pool);
        }
        for entries in &mut seat.ends.entries {
            seat.pool.give_all(&mut entries.take_waiting());
        }
        let there = seat.pool.available() as u64 + sent(&seat.ends);
        seat.lost = self.work.had.saturating_sub(there);
        std::mem::swap(&mut seat.handler, &mut self.handler);
        if std::thread::panicking() {
            let counted = self.counted();
            self.work.seat.counted = Some(Box::new(counted.of_dead()));
        }
    }
}
