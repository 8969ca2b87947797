//! The switch's side of a runtime on another host.

use std::os::fd::{AsFd as _, BorrowedFd};
use std::time::{Duration, Instant};

use weir_exec::edge::{FrameReceiver, WireMessage as _};
use weir_exec::{Node, Round};
use weir_io::Datagrams;
use weir_io::shared::Channel;
use weir_nf::host::Stage;
use weir_packet::{Frame, Internal};
use weir_protocol::RuntimeId;
use weir_protocol::in_process::BURST;
use weir_protocol::link::{Batch, Gauges, Link, LinkCount};

use super::super::clock::Clock;
use super::super::process::{RelayWay, SaidDone};
use super::super::runtime_done::RuntimeDone;
use super::super::wiring::{Seat, ToRuntime, ToSwitch};
use super::connect::{Agents, connect};
use super::{COMMAND, EDGE, END, EVENTS, LONGEST_COMMAND, REFUSED, REPORT};

/// Longest time in which a runtime that was told to finish ends.
const PATIENCE: Duration = Duration::from_secs(20);

/// Parts of a link's node, made into one on the thread of its worker.
pub(in super::super) struct LinkPlan {
    pub(in super::super) id: RuntimeId,
    pub(in super::super) agents: Agents,
    /// Places of runtimes, and of units by chain.
    pub(in super::super) places: usize,
    pub(in super::super) units: Vec<u32>,
    pub(in super::super) stages: std::sync::Arc<[Stage]>,
    pub(in super::super) clock: Clock,
    pub(in super::super) seat: Seat,
    /// The way of commands to its engines.
    pub(in super::super) commands: RelayWay,
}

/// A runtime on another host, as a node of this one.
pub(in super::super) struct LinkNode {
    id: RuntimeId,
    agent: std::net::SocketAddr,
    clock: Clock,
    seat: Seat,
    stages: std::sync::Arc<[Stage]>,
    socket: Datagrams,
    link: Link,
    /// `None` once it failed: nobody is told anything any more.
    commands: Option<Channel>,
    batch: Batch,
    frames: Vec<Frame>,
    messages: Vec<ToRuntime>,
    /// A message that found no room on the stream.
    unsent: Option<Vec<u8>>,
    said: Option<SaidDone>,
    done: Option<SaidDone>,
    events: Vec<u8>,
    /// When it was told to finish.
    finishing: Option<Instant>,
    gave: bool,
    internal: Internal,
}

impl LinkNode {
    /// Has the runtime started, and waits for it.
    ///
    /// # Errors
    ///
    /// It does not start.
    pub(in super::super) fn new(plan: LinkPlan) -> Result<LinkNode, String> {
        let clock = plan.clock;
        let connected = connect(&plan.agents, plan.id, plan.places, &plan.units, || {
            clock.now()
        });
        let (socket, link) = connected.map_err(|error| error.0)?;
        let commands = plan.commands.connect().map_err(|error| error.0)?;
        Ok(LinkNode {
            id: plan.id,
            agent: plan.agents.agent,
            clock: plan.clock,
            seat: plan.seat,
            stages: plan.stages,
            socket,
            link,
            commands: Some(Channel::new(commands, LONGEST_COMMAND)),
            batch: Batch::default(),
            frames: Vec::new(),
            messages: Vec::new(),
            unsent: None,
            said: None,
            done: None,
            events: Vec::new(),
            finishing: None,
            gave: false,
            internal: Internal::default(),
        })
    }

    /// Hears what has come. True where there was something.
    fn hear(&mut self) -> bool {
        let now = self.clock.now();
        let (link, seat, frames) = (&mut self.link, &mut self.seat, &mut self.frames);
        let came = self.socket.receive(|datagram| {
            // What is refused is counted there.
            let _ = link.receive(now, &mut seat.pool, datagram, frames);
        });
        let mut worked = came > 0;
        while let Some(message) = self
            .link
            .poll_message(&mut self.seat.pool, &mut self.frames)
        {
            worked = true;
            self.understand(&message);
        }
        // A runtime sends entries as messages.
        if !self.frames.is_empty() {
            self.internal.note("a data frame from a runtime");
            self.seat.pool.give_all(&mut self.frames);
        }
        worked
    }

    fn understand(&mut self, message: &[u8]) {
        let Some((kind, bytes)) = message.split_first() else {
            return self.internal.note("an empty message of a link");
        };
        match *kind {
            EDGE => match ToSwitch::get(bytes) {
                Some(message) => {
                    if matches!(message, ToSwitch::End { .. }) {
                        self.seat.gauge.ask_end();
                    }
                    self.seat.ends.outbox.push(message);
                    self.gave = true;
                }
                None => self
                    .internal
                    .note("a message of a link that makes no sense"),
            },
            EVENTS => self.events.extend_from_slice(bytes),
            REPORT => self.said = serde_json::from_slice(bytes).ok(),
            END => self.done = serde_json::from_slice(bytes).ok(),
            COMMAND => {
                let reply = bytes.split_first();
                let sent = reply
                    .zip(self.commands.as_mut())
                    .map(|((kind, reply), to)| to.send(*kind, reply, &[], false));
                if !matches!(sent, Some(Ok(()))) {
                    self.commands = None;
                }
            }
            _ => self.internal.note("a message of a link of no kind"),
        }
    }

    /// Sends what has come over the edges. True where there was something.
    fn send(&mut self) -> bool {
        let mut worked = false;
        let ends = &mut self.seat.ends;
        for (chain, data) in (0..).zip(&mut ends.data) {
            let count = data.drain(BURST, &mut self.frames);
            if count == 0 {
                continue;
            }
            worked = true;
            let memory = self.seat.pool.memory().clone();
            for frame in &mut self.frames {
                memory.meta_mut(frame).chain = chain;
            }
            self.link
                .send_frames(&memory, &self.frames, &mut self.batch);
            self.seat.pool.give_all(&mut self.frames);
        }
        self.retry();
        // One at a time: a few of the largest fill the room that there was before them.
        while self.unsent.is_none() && self.link.has_room() {
            if ends_inbox(&mut self.seat).drain(1, &mut self.messages) == 0 {
                break;
            }
            worked = true;
            for message in self.messages.drain(..) {
                if matches!(message, ToRuntime::Finish) {
                    self.finishing = Some(Instant::now());
                }
                let mut bytes = vec![EDGE];
                message.put(&mut bytes);
                if !self.link.send(&bytes) {
                    self.unsent = Some(bytes);
                }
            }
        }
        worked | self.send_commands()
    }

    fn retry(&mut self) {
        if let Some(bytes) = self.unsent.take()
            && !self.link.send(&bytes)
        {
            self.unsent = Some(bytes);
        }
    }

    fn send_commands(&mut self) -> bool {
        let mut worked = false;
        let Some(commands) = &mut self.commands else {
            return false;
        };
        while self.link.has_room() {
            let Ok(Some(message)) = commands.receive(false) else {
                break;
            };
            worked = true;
            let bytes = [&[COMMAND, message.kind][..], &message.bytes].concat();
            if !self.link.send(&bytes) {
                self.internal.note("a link's stream without room");
            }
        }
        worked
    }

    /// Why the runtime counts as dead.
    fn death(&self) -> Option<String> {
        let agent = self.agent;
        if self.socket.refused() >= REFUSED {
            return Some(format!("its host, {agent}, says that it is gone"));
        }
        if self.link.is_silent() {
            return Some(format!(
                "it is silent on {agent}, or does not hear this host"
            ));
        }
        let late = self
            .finishing
            .is_some_and(|since| since.elapsed() > PATIENCE);
        late.then(|| format!("it does not finish on {agent}"))
    }
}

/// The switch's messages to the runtime.
fn ends_inbox(seat: &mut Seat) -> &mut weir_exec::edge::MessageReceiver<ToRuntime> {
    &mut seat.ends.inbox
}

impl Node for LinkNode {
    type Report = RuntimeDone;

    fn step(&mut self) -> Result<Round, String> {
        let mut worked = self.hear();
        worked |= self.send();
        let gauges = Gauges {
            packet_time: self.seat.gauge.packet_time(),
            ends: u32::try_from(self.seat.gauge.ends()).unwrap_or(u32::MAX),
        };
        self.link.set_gauges(gauges);
        self.link.poll(self.clock.now(), &mut self.batch);
        if !self.batch.is_empty() {
            self.socket.send(self.batch.iter());
            self.batch.clear();
        }
        self.seat.ends.outbox.flush();
        self.gave |= self.seat.supply.settle(&mut self.seat.pool);
        let over = self.done.is_some() && !self.seat.ends.outbox.is_waiting();
        match self.death() {
            Some(why) if !over => Err(why),
            _ => Ok(Round {
                worked,
                gave: std::mem::take(&mut self.gave),
                over: over && !worked,
                ..Round::default()
            }),
        }
    }

    fn prepare_park(&mut self) -> bool {
        let mut may = self.seat.ends.inbox.prepare_park();
        for data in &mut self.seat.ends.data {
            may &= data.prepare_park();
        }
        may
    }

    fn unpark(&mut self) {
        self.seat.ends.inbox.unpark();
        self.seat
            .ends
            .data
            .iter_mut()
            .for_each(FrameReceiver::unpark);
    }

    fn descriptors<'a>(&'a self, into: &mut Vec<BorrowedFd<'a>>) {
        into.push(self.socket.as_fd());
        into.extend(self.commands.as_ref().map(|commands| commands.as_fd()));
    }

    fn longest(&self) -> Duration {
        let now = self.clock.now();
        Duration::from_nanos(self.link.next_deadline().0.saturating_sub(now.0))
    }

    fn finish(mut self) -> Result<RuntimeDone, String> {
        let done = self
            .done
            .take()
            .ok_or("a runtime that is over without a report")?;
        // It is told with the end, and not once more when this is dropped.
        self.said = None;
        let events = std::mem::take(&mut self.events);
        let mut done = done.done(self.id, &self.stages, events);
        self.add_counts(&mut done);
        Ok(done)
    }
}

impl LinkNode {
    /// Adds what the link counted.
    fn add_counts(&mut self, done: &mut RuntimeDone) {
        let counts = self.link.counts().counted();
        let counts = counts.map(|(what, n): (LinkCount, u64)| (format!("link_{}", what.name()), n));
        done.counts.extend(counts);
        let unsent = self.socket.unsent();
        done.counts.push(("link_unsent".to_owned(), unsent));
        done.internal = std::mem::take(&mut self.internal);
    }
}

/// The link is given up: its runtime's last report goes to the switch's thread.
impl Drop for LinkNode {
    fn drop(&mut self) {
        for entries in &mut self.seat.ends.entries {
            self.seat.pool.give_all(&mut entries.take_waiting());
        }
        self.seat.pool.give_all(&mut self.frames);
        if let Some(said) = self.said.take() {
            let mut done = said.done(self.id, &self.stages, Vec::new());
            self.add_counts(&mut done);
            self.seat.counted = Some(Box::new(done.of_dead()));
        }
    }
}
