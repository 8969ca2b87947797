//! The switch's thread: switches, and the runtimes around them.

mod admit;
mod billing;
mod carrier;
mod deaths;
mod end;
mod ended;
mod finish;
mod load;
mod member;
mod members;
mod moves;
mod node;
mod phase;
mod places;
mod process;
mod recovery;
mod replace;
mod settings;
mod start;
mod stillness;
mod takeover;
mod tenanted;
#[cfg(test)]
pub(crate) mod tests;
mod told;

use std::os::fd::BorrowedFd;
use std::sync::Arc;

use weir_ctl::command::{CommandHandler, CommandSender};
use weir_ctl::ledger::count::Bookkeeper;
use weir_exec::{ExecError, Parker, Parks, Round, Team, Wakers, frames};
use weir_nf::host::Stage;
use weir_packet::{Disposition, Frame, FramePool, Internal, Time};
use weir_protocol::in_process::{self, BURST, MESSAGES};
use weir_protocol::{Message, Peer, RuntimeId, Switch};

use carrier::Carrier;
pub use end::{ClusterEnd, GateCounts, RuntimeEnd};
use ended::{Deaths, Ended};
use member::{Member, NO_MEMBER, Site};
pub(crate) use moves::ENDS_WITH_SWITCH;
use node::ClusterNode;
use phase::Phase;
pub(super) use process::HELLO;
pub use process::RuntimeProcess;
use recovery::Recovery;
pub use settings::{ClusterSettings, RuntimeProcesses};
use stillness::Stillness;
pub use stillness::{GAVE_WAY, HANDED_OVER, STOOD_STILL};
use tenanted::Tenanted;

use super::clock::Clock;
use super::ends::{EndAsked, EndsAsked};
use super::hand_overs::HandOvers;
use super::link::Found;
use super::relay::Relay;
use super::wiring::{NO_CHAIN, ToRuntime, ToSwitch};

/// Rounds with work after which threads that ended are looked for.
const LOOK: u32 = 256;
/// Interval in which processes that ended are looked for, in ns: the longest time until one
/// is reaped.
const LOOK_AFTER: u64 = 1_000_000;

struct Chain {
    switch: Switch,
    relay: Option<Box<dyn Relay>>,
    /// Last clock that left, by the unit's place and life: what leaves out of
    /// order would be seen here.
    last: Vec<(u64, u64)>,
}

/// Switches on the calling thread, and runtimes on threads of their own.
pub struct Cluster {
    /// Frames for packets that come in.
    pub pool: FramePool,
    clock: Clock,
    chains: Vec<Chain>,
    stages: Arc<[Stage]>,
    /// How often functions were replaced in them.
    replaced: u32,
    /// Stands for them since they were.
    digest: u64,
    members: Vec<Member>,
    /// Page size of packet memory that processes share, as text.
    pages: Option<String>,
    settings: ClusterSettings,
    hand_overs: HandOvers,
    gate: GateCounts,
    ends: Ended,
    /// Why runtimes have died while the run went on, and which took their places.
    deaths: Deaths,
    /// Since a death, until all units go on.
    recovery: Option<Recovery>,
    /// Frames that were lost with them: 0 unless there is a bug.
    lost: u64,
    wakers: Wakers,
    park: Parker,
    team: Team<ClusterNode>,
    /// Something was put into rings since the runtimes were last woken.
    gave: bool,
    /// Latest time of a packet.
    packet_time: Time,
    rounds: u32,
    /// Some runtimes have processes of their own.
    has_processes: bool,
    phase: Phase,
    still: Stillness,
    /// Runtimes that a switch before this one has left, and this one's generation.
    found: Found,
    /// When these were last looked after.
    looked: Time,
    /// The question that runtimes were asked, and how many have answered.
    echo: Option<(u64, usize)>,
    echoes: u64,
    /// Command channels of the runtimes; the receiving ends until those are started.
    senders: Vec<CommandSender>,
    handlers: Vec<Option<CommandHandler>>,
    /// Ends of flows that were asked for: as many as runtimes may ask for.
    ends_asked: EndsAsked,
    /// What is let out is billed here.
    books: Option<Bookkeeper>,
    /// Refuses what tenants may not have.
    tenanted: Option<Tenanted>,
    /// Counted in the first chain's report.
    internal: Internal,
    // Buffers of a round, kept to save their allocation.
    entries: Vec<Frame>,
    inbox: Vec<ToSwitch>,
}

impl std::fmt::Debug for Cluster {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Cluster")
            .field("chains", &self.chains.len())
            .field("members", &self.members.len())
            .finish_non_exhaustive()
    }
}

impl Cluster {
    /// Commands to the runtimes: to all that there will ever be.
    pub(crate) fn command_senders(&self) -> Vec<CommandSender> {
        self.senders.clone()
    }

    /// Packets that may be taken in now. A port that can wait is read for no
    /// more, so that nothing needs to be dropped.
    pub fn room(&self) -> usize {
        let shares = self.tenanted.as_ref().is_some_and(Tenanted::shares_room);
        // What waits counts as its tenant's, whose part is bounded: it holds no other one up.
        let waits = |member: &Member| member.ends.data.iter().any(|queue| queue.waiting() > 0);
        let waits = !shares && self.members.iter().any(waits);
        let recovers = self.chains.iter().any(|at| at.switch.is_recovering());
        if recovers || waits || self.waits_for_runtime() {
            return 0;
        }
        let keeping = self.settings.keeping();
        let frames = in_process::room(&self.pool, self.members.len(), keeping);
        if shares || !keeping.keeps() {
            return frames;
        }
        let chains = self.chains.iter().map(|at| at.switch.room());
        chains.min().unwrap_or(0).min(frames)
    }

    /// True where none can own units, and one is about to.
    fn waits_for_runtime(&self) -> bool {
        let mut runtimes = self.members.iter().filter(|member| !member.is_logger);
        let is_to_come = |member: &Member| member.is_to_come() || member.failed_over;
        !self.members.iter().any(Member::takes_units) && runtimes.any(is_to_come)
    }

    /// Moves the packets' time on: the runtimes ask for ticks of units in which
    /// something is due by then, 0.1 s from now at most.
    pub fn pass_time(&mut self, time: Time) {
        if time <= self.packet_time {
            return;
        }
        self.packet_time = time;
        for member in &self.members {
            member.ends.gauge.pass_time(time);
        }
        for at in &mut self.chains {
            at.switch.packets_at(time);
        }
    }

    /// Packets from the ports for a chain.
    pub fn take(&mut self, chain: usize, frames: &mut Vec<Frame>) {
        let now = self.clock.now();
        if let Some(first) = frames.first() {
            let time = self.pool.memory().meta(first).time;
            self.pass_time(time);
        }
        self.echo = None;
        self.admit(chain, frames);
        if let Some(at) = self.internal.expect(self.chains.get_mut(chain), NO_CHAIN) {
            at.switch.ingress(now, &mut self.pool, frames);
        }
        self.send(chain, now);
    }

    /// Takes in what runtimes have sent and does what is due. Packets let out
    /// come to the end of `out`, lines of events to that of `events`. Gives way
    /// to other threads where there was nothing to do and `may_rest`.
    ///
    /// # Errors
    ///
    /// A runtime's thread has died.
    pub fn step(
        &mut self,
        out: &mut Vec<Frame>,
        events: &mut Vec<u8>,
        may_rest: bool,
    ) -> Result<bool, ExecError> {
        let round = self.advance(out, events)?;
        if round.worked || round.gave {
            self.park.wake_others();
        }
        if round.worked || may_rest {
            let reads = &mut Reads {
                team: &mut self.team,
                members: &mut self.members,
            };
            self.park.pause(round.worked, reads);
        }
        Ok(round.worked)
    }

    /// As [`Cluster::step`], but neither wakes threads nor waits.
    pub(crate) fn advance(
        &mut self,
        out: &mut Vec<Frame>,
        events: &mut Vec<u8>,
    ) -> Result<Round, ExecError> {
        Ok(Round {
            worked: self.round(out, events)?,
            gave: std::mem::take(&mut self.gave),
            ..Round::default()
        })
    }

    /// Inputs of the calling thread: those of its runtimes, and rings from processes.
    pub(crate) fn reads(&mut self) -> impl Parks {
        Reads {
            team: &mut self.team,
            members: &mut self.members,
        }
    }

    /// Descriptors that wake the calling thread: a process's that has ended, say.
    pub(crate) fn descriptors<'a>(&'a self, into: &mut Vec<BorrowedFd<'a>>) {
        self.team.descriptors(into);
        into.extend(self.members.iter().filter_map(Member::descriptor));
    }

    /// Parks the calling thread.
    pub(crate) fn parker(&self) -> &Parker {
        &self.park
    }

    fn round(&mut self, out: &mut Vec<Frame>, events: &mut Vec<u8>) -> Result<bool, ExecError> {
        let now = self.clock.now();
        // One that gives its place up has billed what it has let out.
        self.bill(now);
        self.keep_place()?;
        if let Some(patience) = self.patience() {
            self.still.round(now, patience);
        }
        let local = self.team.round()?;
        self.gave |= local.gave || local.blocked;
        let mut worked = local.worked;
        for place in 0..self.members.len() {
            worked |= self.hear(place, now);
        }
        if self.has_processes {
            self.fail_over_early(now);
        }
        if !self.ends_asked.is_empty() {
            self.end_flows(now);
        }
        for chain in 0..self.chains.len() {
            let Some(at) = self.internal.expect(self.chains.get_mut(chain), NO_CHAIN) else {
                continue;
            };
            if at.switch.next_deadline().is_some_and(|due| due <= now) {
                at.switch.tick(now, &mut self.pool);
                worked = true;
                self.send(chain, now);
            }
            worked |= self.let_out(chain, out, events);
        }
        for member in &mut self.members {
            self.gave |= member.ends.flush();
            if let Site::Process(home) = &mut member.site {
                home.attend(&mut self.pool);
            }
        }
        if self.team.has_threads() {
            self.gave |= frames::balance(&mut self.pool);
        }
        worked |= self.note_ready(now);
        self.rounds = self.rounds.wrapping_add(1);
        let looks = self.has_processes && now.0 - self.looked.0 >= LOOK_AFTER;
        if looks || !worked || self.rounds.is_multiple_of(LOOK) {
            self.join_ended(now, looks)?;
            self.start_successors()?;
            self.kill_late();
            worked |= self.keep_last(now);
            self.drain_kept();
            self.look_for_recovery();
            worked |= self.last_events(events);
        }
        Ok(worked)
    }

    /// Has the switches number the ends that were asked for.
    fn end_flows(&mut self, now: Time) {
        let (chains, members, pool) = (&mut self.chains, &self.members, &mut self.pool);
        let internal = &mut self.internal;
        self.ends_asked.each(|asked| {
            let done = internal
                .expect(chains.get_mut(asked.chain), NO_CHAIN)
                .is_none_or(|at| at.switch.end_flow(now, pool, asked.unit, &asked.key));
            if let (true, Some(member)) = (done, members.get(asked.by)) {
                member.ends.gauge.end_done();
            }
            done
        });
        for chain in 0..self.chains.len() {
            self.send(chain, now);
        }
    }

    /// Takes in what a runtime has sent.
    fn hear(&mut self, place: usize, now: Time) -> bool {
        let Some(member) = self.internal.expect(self.members.get_mut(place), NO_MEMBER) else {
            return false;
        };
        let id = member.ends.id;
        // Messages are taken out first and looked at last: entries that were
        // sent before them are there by then.
        member.ends.inbox.drain(MESSAGES, &mut self.inbox);
        let mut worked = !self.inbox.is_empty();
        let mut entries = false;
        for chain in 0..self.chains.len() {
            if !self.collect(place, chain) {
                continue;
            }
            worked = true;
            entries = true;
            if let Some(at) = self.internal.expect(self.chains.get_mut(chain), NO_CHAIN) {
                at.switch
                    .entries(now, &mut self.pool, id, &mut self.entries);
            }
            self.send(chain, now);
        }
        let mut inbox = core::mem::take(&mut self.inbox);
        if entries || inbox.iter().any(|m| !matches!(m, ToSwitch::Echo(_))) {
            // Something has happened since the runtimes were asked.
            self.echo = None;
        }
        for message in inbox.drain(..) {
            match message {
                ToSwitch::Echo(number) => {
                    if let Some((asked, answers)) = &mut self.echo
                        && *asked == number
                    {
                        *answers += 1;
                    }
                }
                ToSwitch::End { chain, unit, key } => self.ends_asked.push(EndAsked {
                    by: place,
                    chain,
                    unit,
                    key,
                }),
                ToSwitch::Relay { chain, to, message } => {
                    self.pass_on(chain, (id, to), message);
                    self.send(chain, now);
                }
                ToSwitch::Message { chain, message } => {
                    if let Some(at) = self.internal.expect(self.chains.get_mut(chain), NO_CHAIN) {
                        let from = Peer::Runtime(id);
                        at.switch.message(now, &mut self.pool, from, message);
                        self.send(chain, now);
                    }
                }
            }
        }
        self.inbox = inbox;
        worked
    }

    /// Passes a message from one runtime on to another: where one of them is a process.
    fn pass_on(&mut self, chain: usize, (from, to): (RuntimeId, RuntimeId), message: Message) {
        let Some(at) = self.internal.expect(self.chains.get_mut(chain), NO_CHAIN) else {
            return;
        };
        if let Some(relay) = &mut at.relay {
            return relay.take_from_runtime(from, to, message);
        }
        let mut carrier = Carrier {
            members: &mut self.members,
            chain,
            internal: &mut self.internal,
        };
        carrier.message(Peer::Runtime(from), Peer::Runtime(to), message);
    }

    /// Takes whole entries out of a ring, into `entries`. A ring that was full
    /// may have cut one: its frames wait here for the last one.
    fn collect(&mut self, place: usize, chain: usize) -> bool {
        let Some(member) = self.internal.expect(self.members.get_mut(place), NO_MEMBER) else {
            return false;
        };
        let queues = member.ends.entries.get_mut(chain);
        let queues = queues.zip(member.partial.get_mut(chain));
        let Some((ring, partial)) = self.internal.expect(queues, NO_CHAIN) else {
            return false;
        };
        self.entries.append(partial);
        if ring.drain(BURST, &mut self.entries) == 0 {
            partial.append(&mut self.entries);
            return false;
        }
        let memory = self.pool.memory();
        let closes = |frame: &Frame| memory.meta(frame).disposition.closes();
        let whole = self.entries.iter().rposition(closes).map_or(0, |at| at + 1);
        partial.extend(self.entries.drain(whole..));
        !self.entries.is_empty()
    }

    /// Moves the events of flows that ended with the run to the end of `events`,
    /// in the order of the runtimes, once all are over.
    fn last_events(&mut self, events: &mut Vec<u8>) -> bool {
        if !self.all_over() {
            return false;
        }
        self.ends.take_events(events)
    }

    /// Empties a switch's outbox, but for what is let out; what a relay lets go on
    /// goes before.
    fn send(&mut self, chain: usize, now: Time) {
        self.gave = true;
        let Some(at) = self.internal.expect(self.chains.get_mut(chain), NO_CHAIN) else {
            return;
        };
        let mut carrier = Carrier {
            members: &mut self.members,
            chain,
            internal: &mut self.internal,
        };
        let outbox = &mut at.switch.outbox;
        if !outbox.messages.is_empty() {
            for (_, message) in &outbox.messages {
                self.hand_overs.see(now, chain, message);
            }
        }
        if let Some(relay) = &mut at.relay {
            relay.take_from_switch(&mut self.pool, outbox);
            let (messages, queues) = relay.go_on();
            for (from, to, message) in messages.drain(..) {
                carrier.message(from, to, message);
            }
            for queue in queues {
                carrier.frames(&mut self.pool, queue);
            }
        }
        let switch = Peer::Switch(self.found.generation);
        // Before the packets that they are about: a runtime reads them in the other order, and
        // knows by then in which view a packet is.
        for (to, message) in outbox.messages.drain(..) {
            carrier.message(switch, to, message);
        }
        for queue in &mut outbox.queues {
            carrier.frames(&mut self.pool, queue);
        }
    }

    /// Moves what a switch has let out.
    fn let_out(&mut self, chain: usize, out: &mut Vec<Frame>, events: &mut Vec<u8>) -> bool {
        let Some(at) = self.internal.expect(self.chains.get_mut(chain), NO_CHAIN) else {
            return false;
        };
        let outbox = &mut at.switch.outbox;
        let worked = !outbox.out.is_empty();
        let memory = self.pool.memory();
        for frame in &outbox.out {
            let meta = memory.meta(frame);
            let place = meta.unit as u32 as usize;
            if place >= at.last.len() {
                at.last.resize(place + 1, (0, 0));
            }
            if let Some((unit, clock)) = at.last.get_mut(place) {
                let late = *unit == meta.unit && *clock > meta.clock;
                self.gate.reordered += u64::from(late);
                (*unit, *clock) = (meta.unit, meta.clock);
            }
            self.gate.out += u64::from(meta.disposition == Disposition::Out);
        }
        out.append(&mut outbox.out);
        events.append(&mut outbox.events);
        worked
    }

    /// True where every packet taken in has been let out or dropped, no
    /// hand-over is under way, and no runtime has anything to do. It takes some
    /// calls and steps to find that out: the runtimes are asked.
    pub fn is_quiet(&mut self) -> bool {
        let empty = |member: &Member| {
            member.ends.data.iter().all(|queue| queue.waiting() == 0)
                && member.ends.entries.iter().all(|ring| ring.is_empty())
                && !member.ends.outbox.is_waiting()
        };
        if self.in_flight() > 0 || self.moves_under_way() > 0 || !self.members.iter().all(empty) {
            self.echo = None;
            return false;
        }
        let asked = self.members.iter().filter(|m| m.is_up()).count();
        match self.echo {
            Some((_, answers)) => answers >= asked,
            None => {
                self.echoes += 1;
                self.echo = Some((self.echoes, 0));
                for member in self.members.iter_mut().filter(|m| m.is_up()) {
                    member.ends.outbox.push(ToRuntime::Echo(self.echoes));
                    self.gave = true;
                }
                asked == 0
            }
        }
    }

    /// True where no runtime's thread or process is left.
    fn all_over(&self) -> bool {
        self.team.all_over() && !self.members.iter().any(Member::has_process)
    }

    /// True where no runtime is left, and its last events were given.
    pub(crate) fn is_over(&self) -> bool {
        self.all_over() && !self.ends.has_events()
    }

    /// Hand-overs so far, and under way.
    pub fn hand_overs(&self) -> &HandOvers {
        &self.hand_overs
    }

    /// Time of the protocol's timers.
    pub fn now(&self) -> Time {
        self.clock.now()
    }

    /// The relay between a chain's switch and its runtimes, for its counts.
    pub fn relay(&self, chain: usize) -> Option<&dyn Relay> {
        self.chains.get(chain)?.relay.as_deref()
    }

    /// The switch of a chain, for its counts.
    pub fn switch(&self, chain: usize) -> Option<&Switch> {
        self.chains.get(chain).map(|chain| &chain.switch)
    }
}

/// Rings and descriptors that the switch's thread reads, beside its queues.
struct Reads<'a> {
    team: &'a mut Team<ClusterNode>,
    members: &'a mut [Member],
}

impl Parks for Reads<'_> {
    fn prepare_park(&mut self) -> bool {
        let mut may = self.team.prepare_park();
        for member in &mut *self.members {
            // Each is told, also behind one that must not.
            may &= member.prepare_park();
        }
        may
    }

    fn unpark(&mut self) {
        self.team.unpark();
        self.members.iter_mut().for_each(Member::unpark);
    }

    fn descriptors<'a>(&'a self, into: &mut Vec<BorrowedFd<'a>>) {
        self.team.descriptors(into);
        into.extend(self.members.iter().filter_map(Member::descriptor));
    }

    fn longest(&self) -> std::time::Duration {
        self.team.longest()
    }
}
