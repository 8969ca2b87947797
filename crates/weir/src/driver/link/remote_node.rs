//! A runtime on another host than its switch, as a node: the runtime, and its end of the link.
//!
//! Where the switch is gone, the runtime keeps its states and waits for another one, of which its
//! agent tells it. What it had to say to the one before is dropped: the next one asks for all that
//! there is (`weir_protocol::Switch::recover`).

use std::collections::VecDeque;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use weir_ctl::command::CommandHandler;
use weir_exec::edge::WireMessage as _;
use weir_exec::frames::{self, LARGE_SHARE, SHARE};
use weir_exec::{Node, Round};
use weir_io::shared::Channel;
use weir_nf::host::Stage;
use weir_packet::{Frame, FramePool, MemoryLayout, PacketMemory};
use weir_protocol::entry;
use weir_protocol::in_process::{self, BURST, Keeping, MESSAGES};
use weir_protocol::link::Batch;
use weir_protocol::link::control::Control;
use weir_protocol::settings::ActorSettings;
use weir_runtime::RuntimeConfig;

use super::super::clock::Clock;
use super::super::gauge::Gauge;
use super::super::process::{Reread, SaidDone, command_server, in_messages};
use super::super::runtime_done::RuntimeDone;
use super::super::runtime_node::{RuntimeNode, RuntimePlan};
use super::super::supply::Supply;
use super::super::wiring::{Seat, SwitchEnds, ToRuntime, ToSwitch, wire};
use super::hello::{DEAD, Hello, KIND, Start, TAKEN, WAITS};
use super::tie::Tie;
use super::{COMMAND, EDGE, END, EVENTS, LONGEST_COMMAND, PATIENCE_TAKEN, REFUSED, REPORT};

/// Interval at which the switch is told that the runtime is there, until it answers.
const AGAIN: Duration = Duration::from_millis(20);
/// Longest wait for the switch to answer, or to hear the last messages.
const PATIENCE: Duration = Duration::from_secs(10);
/// Interval of reports, if counters have changed.
const REPORT_INTERVAL: Duration = Duration::from_millis(100);
/// Longest message of events, and of entries.
const LONGEST_EVENTS: usize = 1 << 20;
const LONGEST_ENTRIES: usize = 64 << 10;

/// The frames of one runtime.
fn pool(engine: RuntimeConfig) -> Result<FramePool, String> {
    let (small, large) = in_process::frames(1);
    let default = MemoryLayout::default();
    let layout = MemoryLayout {
        small_frames: default.small_frames + small,
        large_frames: default.large_frames + large,
        ..default
    };
    let memory = PacketMemory::new(layout, engine.advise);
    FramePool::new(memory).ok_or_else(|| "packet memory was taken twice".to_owned())
}

/// Says that it is over, also where it panics.
struct Ends<'a>(&'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

/// The parts of a runtime that an agent starts.
fn plan(
    hello: &Hello,
    stages: &[Stage],
    engine: RuntimeConfig,
    clock: Clock,
    seat: Seat,
) -> Result<RuntimePlan, String> {
    let keeping = Keeping {
        replication: hello.replication.parse()?,
        linked: true,
    };
    let small = seat.pool.memory().layout().small_frames;
    Ok(RuntimePlan {
        stages: stages.into(),
        places: hello.units.clone(),
        config: RuntimeConfig {
            follows: true,
            event_bytes: hello.event_bytes,
            audit: hello.audit,
            ..engine
        },
        settings: ActorSettings {
            is_logger: hello.is_logger(),
            ..in_process::actors_with(hello.runtime(), small, keeping)
        },
        relayed: false,
        clock,
        shares: hello.shares.clone(),
        seat,
    })
}

/// The way of commands of one switch: its end here, and the engines'.
fn way_of_commands(reread: &Reread) -> Result<(Channel, CommandHandler), String> {
    let (commands, theirs) = UnixStream::pair().map_err(|error| error.to_string())?;
    let handler = command_server::open(OwnedFd::from(theirs), Some(reread.clone()))?;
    Ok((Channel::new(commands, LONGEST_COMMAND), handler))
}

/// The runtime, its end of the link, and what joins the two.
pub(super) struct RemoteNode {
    /// What the agent said of the switch.
    start: Start,
    runtime: RuntimeNode,
    /// `None` while it waits for another switch.
    tie: Option<Tie>,
    /// Since when it has the switch, or none.
    since: Instant,
    /// Frames of what comes, and of entries that were sent.
    pool: FramePool,
    /// The other ends of the runtime's edges.
    switch: SwitchEnds,
    commands: Option<Channel>,
    /// The way to the configuration, for the commands of each switch.
    reread: Reread,
    /// The way to the agent.
    agent: Channel,
    clock: Clock,
    batch: Batch,
    frames: Vec<Frame>,
    messages: Vec<ToSwitch>,
    /// Messages for which the link had no room; nothing is taken out of the edges before they are sent.
    unsent: VecDeque<Vec<u8>>,
    /// When counts were last told, and how many packets there were then.
    reported: (Instant, u64),
    slept: bool,
    /// Messages that made no sense.
    bad: u64,
}

impl RemoteNode {
    /// A runtime with these chains for the switch of `start`.
    ///
    /// # Errors
    ///
    /// It can't be run.
    pub(super) fn new(
        start: Start,
        agent: Channel,
        (stages, reread): (&[Stage], Reread),
        engine: RuntimeConfig,
    ) -> Result<RemoteNode, String> {
        let clock = Clock::start();
        let hello = &start.hello;
        let mut pool = pool(engine)?;
        let (mut switch, mut ends) = wire(hello.runtime(), stages.len());
        ends.peers = (0..hello.places).map(|_| None).collect();
        let (commands, handler) = way_of_commands(&reread)?;
        let gauge = Gauge::default();
        switch.gauge = gauge.clone();
        let seat = Seat {
            pool: pool.share(SHARE, LARGE_SHARE),
            ends,
            handler,
            gauge,
            supply: Supply::Reserve,
            heir: None,
            lost: 0,
            counted: None,
        };
        let plan = plan(hello, stages, engine, clock, seat)?;
        Ok(RemoteNode {
            runtime: RuntimeNode::new(plan)?,
            tie: Some(start.tie(clock.now())?),
            start,
            since: Instant::now(),
            pool,
            switch,
            commands: Some(commands),
            reread,
            agent,
            clock,
            batch: Batch::default(),
            frames: Vec::new(),
            messages: Vec::new(),
            reported: (Instant::now(), 0),
            slept: false,
            unsent: VecDeque::new(),
            bad: 0,
        })
    }

    /// Tells the switch that the runtime is there, until it is heard.
    ///
    /// # Errors
    ///
    /// It does not answer.
    pub(super) fn introduce(&mut self) -> Result<(), String> {
        self.introduce_within(PATIENCE)
    }

    fn introduce_within(&mut self, patience: Duration) -> Result<(), String> {
        let until = Instant::now() + patience;
        let mut number = 0;
        while Instant::now() < until {
            number += 1;
            if let Some(tie) = &self.tie {
                self.start
                    .say(tie.socket.socket(), number, Control::Welcome);
            }
            let next = Instant::now() + AGAIN;
            while Instant::now() < next {
                if self.hear() {
                    return Ok(());
                }
                if self.switch_is_gone() || self.hears_of_its_death() {
                    return Err("the switch is gone".to_owned());
                }
                std::thread::sleep(Duration::from_millis(1));
            }
        }
        Err("the switch does not answer".to_owned())
    }

    /// The agent says that the switch is dead that has not answered yet.
    fn hears_of_its_death(&mut self) -> bool {
        let own = self.start.hello.ends().1.0.to_le_bytes();
        let mut is_dead = false;
        while let Ok(Some(message)) = self.agent.receive(false) {
            match message.kind == DEAD {
                true => is_dead |= message.bytes == own,
                // No other switch may have it before it waits.
                false => self.bad += 1,
            }
        }
        is_dead
    }

    /// The switch is gone: waits for another one.
    fn lose_switch(&mut self) {
        // Its socket is closed, so a switch that lives hears soon that nobody is there.
        self.tie = None;
        // What asked for commands is gone as well.
        self.commands = None;
        self.since = Instant::now();
        self.wait_for_switch();
    }

    /// Tells the agent of which kind the runtime is: another switch that takes it over is, too.
    fn tell_kind(&mut self) {
        let kind = self.start.hello.kind();
        let _ = self.agent.send(KIND, kind.as_bytes(), &[], false);
    }

    /// Tells the agent that the runtime waits for a switch.
    fn wait_for_switch(&mut self) {
        // An agent that did not listen when it changed is told again.
        self.tell_kind();
        // An agent that is gone is noticed where it is listened to.
        let units = self.runtime.units().to_le_bytes();
        let _ = self.agent.send(WAITS, &units, &[], false);
    }

    /// Hears the agent, which tells of another switch, or is gone. True where there is another one.
    fn hear_agent(&mut self) -> Result<bool, String> {
        let mut taken = false;
        while let Some(message) = self.agent.receive(false).map_err(|e| e.to_string())? {
            if message.kind == DEAD {
                let own = self.start.hello.ends().1.0.to_le_bytes();
                if self.tie.is_some() && message.bytes == own {
                    self.lose_switch();
                }
                continue;
            }
            let start = serde_json::from_slice(&message.bytes).ok();
            match start.filter(|_| message.kind == TAKEN && self.tie.is_none()) {
                Some(start) => taken |= self.follow(start)?,
                None => self.bad += 1,
            }
        }
        match self.agent.has_ended() {
            true => Err("the agent is gone".to_owned()),
            false => Ok(taken),
        }
    }

    /// Serves another switch. False where it does not answer, or is of another cluster.
    fn follow(&mut self, start: Start) -> Result<bool, String> {
        if let Err(why) = start.hello.may_follow(&self.start.hello) {
            start.give_up(why);
            self.wait_for_switch();
            return Ok(false);
        }
        // What is left is for the switch before.
        while self.drop_unsent() {}
        // Its commands and watches end with its way of commands.
        let (commands, handler) = way_of_commands(&self.reread)?;
        self.commands = Some(commands);
        self.runtime.obey(handler);
        self.runtime.share_by(start.hello.shares.as_deref());
        self.tie = Some(start.tie(self.clock.now())?);
        (self.start, self.since) = (start, Instant::now());
        let heard = self.introduce_within(PATIENCE_TAKEN).is_ok();
        if !heard {
            self.lose_switch();
        }
        Ok(heard)
    }

    /// Drops what the runtime has put out. True where there was something.
    fn drop_unsent(&mut self) -> bool {
        self.unsent.clear();
        self.switch.inbox.drain(MESSAGES, &mut self.messages);
        let mut any = !self.messages.is_empty();
        self.messages.clear();
        for entries in &mut self.switch.entries {
            any |= entries.drain(BURST, &mut self.frames) > 0;
            self.pool.give_all(&mut self.frames);
        }
        any
    }

    /// Hears what has come. True where something was of the switch.
    fn hear(&mut self) -> bool {
        let Some(Tie { link, socket }) = &mut self.tie else {
            return false;
        };
        let now = self.clock.now();
        let (pool, frames) = (&mut self.pool, &mut self.frames);
        let mut any = false;
        socket.receive(|datagram| {
            any |= link.receive(now, pool, datagram, frames).is_ok();
        });
        let gauges = link.told();
        while let Some(message) = self.poll_message() {
            self.understand(&message);
        }
        self.deal();
        // That of a switch that has just started may be behind.
        if gauges.packet_time > self.switch.gauge.packet_time() {
            self.switch.gauge.pass_time(gauges.packet_time);
        }
        self.switch.gauge.set_ends(gauges.ends as usize);
        any
    }

    fn poll_message(&mut self) -> Option<Vec<u8>> {
        let link = &mut self.tie.as_mut()?.link;
        link.poll_message(&mut self.pool, &mut self.frames)
    }

    /// Gives data frames to the edges of their chains, in order.
    fn deal(&mut self) {
        let memory = self.pool.memory().clone();
        while let Some(first) = self.frames.first() {
            let chain = memory.meta(first).chain;
            let same = |frame: &Frame| memory.meta(frame).chain == chain;
            let count = self.frames.iter().take_while(|frame| same(frame)).count();
            let mut run: Vec<Frame> = self.frames.drain(..count).collect();
            match self.switch.data.get_mut(usize::from(chain)) {
                Some(data) => data.extend(&mut run),
                None => {
                    self.bad += 1;
                    self.pool.give_all(&mut run);
                }
            }
        }
    }

    fn understand(&mut self, message: &[u8]) {
        match message.split_first() {
            Some((&EDGE, bytes)) => match ToRuntime::get(bytes) {
                Some(message) => self.switch.outbox.push(message),
                None => self.bad += 1,
            },
            Some((&COMMAND, [kind, bytes @ ..])) => {
                let to = self.commands.as_mut();
                let sent = to.map(|to| to.send(*kind, bytes, &[], false));
                if !matches!(sent, Some(Ok(()))) {
                    self.commands = None;
                }
            }
            _ => self.bad += 1,
        }
    }

    /// True where the link takes messages.
    fn has_room(&self) -> bool {
        self.tie.as_ref().is_some_and(|tie| tie.link.has_room())
    }

    /// Gives a message to the link; false where it has no room.
    fn give(&mut self, bytes: &[u8]) -> bool {
        self.tie.as_mut().is_some_and(|tie| tie.link.send(bytes))
    }

    /// Sends a message behind those that wait for room.
    fn put(&mut self, bytes: Vec<u8>) {
        if !self.unsent.is_empty() || !self.give(&bytes) {
            self.unsent.push_back(bytes);
        }
    }

    /// Sends what the runtime has put out. True where there was something.
    fn send(&mut self) -> bool {
        while let Some(bytes) = self.unsent.pop_front() {
            if !self.give(&bytes) {
                self.unsent.push_front(bytes);
                return false;
            }
        }
        let mut worked = false;
        // Messages are taken out first and sent last: entries that were put out before them are
        // there by then.
        if self.has_room() {
            self.switch.inbox.drain(MESSAGES, &mut self.messages);
        }
        for chain in 0..self.switch.entries.len() {
            worked |= self.send_entries(chain);
        }
        worked |= !self.messages.is_empty();
        for message in std::mem::take(&mut self.messages) {
            self.send_edge(&message);
        }
        while self.has_room()
            && let Some(commands) = &mut self.commands
            && let Ok(Some(message)) = commands.receive(false)
        {
            worked = true;
            let bytes = [&[COMMAND, message.kind][..], &message.bytes].concat();
            let sent = self.give(&bytes);
            self.bad += u64::from(!sent);
        }
        worked
    }

    fn send_entries(&mut self, chain: usize) -> bool {
        let mut any = false;
        while self.has_room()
            && let Some(entries) = self.switch.entries.get_mut(chain)
            && entries.drain(BURST, &mut self.frames) > 0
        {
            any = true;
            for message in entry::messages(&mut self.pool, &mut self.frames, LONGEST_ENTRIES) {
                self.send_edge(&ToSwitch::Message { chain, message });
            }
        }
        any
    }

    fn send_edge(&mut self, message: &ToSwitch) {
        let mut bytes = vec![EDGE];
        message.put(&mut bytes);
        self.put(bytes);
    }

    /// Sends what the link has to say.
    fn talk(&mut self) {
        let Some(Tie { link, socket }) = &mut self.tie else {
            return;
        };
        link.poll(self.clock.now(), &mut self.batch);
        if !self.batch.is_empty() {
            socket.send(self.batch.iter());
            self.batch.clear();
        }
    }

    fn report(&mut self) {
        let packets = self.runtime.packets();
        let (at, before) = self.reported;
        if packets == before || at.elapsed() < REPORT_INTERVAL || !self.has_room() {
            return;
        }
        self.reported = (Instant::now(), packets);
        self.tell(REPORT, &SaidDone::of(&self.runtime.counted()));
    }

    fn tell(&mut self, kind: u8, said: &SaidDone) {
        // Names and numbers only: this can't fail.
        let said = serde_json::to_vec(said).unwrap_or_default();
        let sent = self.give(&[&[kind][..], &said].concat());
        self.bad += u64::from(!sent);
    }

    /// True where nothing is heard of the switch any more, or it does not hear this runtime.
    fn switch_is_gone(&self) -> bool {
        let tie = self.tie.as_ref();
        tie.is_some_and(|tie| tie.link.is_silent() || tie.socket.refused() >= REFUSED)
    }
}

impl Node for RemoteNode {
    type Report = ();

    fn step(&mut self) -> Result<Round, String> {
        let mut worked = self.hear();
        for data in &mut self.switch.data {
            data.flush();
        }
        self.switch.outbox.flush();
        let round = self.runtime.step()?;
        if let Some(chains) = self.runtime.take_replaced() {
            self.start.hello.chains = chains;
            self.tell_kind();
        }
        let sent = match self.tie {
            Some(_) => self.send(),
            None => self.drop_unsent(),
        };
        self.report();
        self.talk();
        frames::balance(&mut self.pool);
        if self.switch_is_gone() {
            self.lose_switch();
        }
        if std::mem::take(&mut self.slept) || self.tie.is_none() {
            worked |= self.hear_agent()?;
        }
        if self.tie.is_none() && self.since.elapsed() > self.start.outlive {
            return Err("the switch is gone, and no other one has come".to_owned());
        }
        Ok(Round {
            worked: round.worked || sent || worked,
            over: round.over && !sent,
            ..round
        })
    }

    fn take_commands(&mut self) -> bool {
        self.runtime.take_commands()
    }

    fn prepare_park(&mut self) -> bool {
        self.slept = true;
        let waits = self.switch.data.iter().any(|data| data.waiting() > 0);
        !waits && self.runtime.prepare_park()
    }

    fn unpark(&mut self) {
        self.runtime.unpark();
    }

    fn descriptors<'a>(&'a self, into: &mut Vec<BorrowedFd<'a>>) {
        into.extend(self.tie.as_ref().map(|tie| tie.socket.as_fd()));
        into.push(self.agent.as_fd());
        into.extend(self.commands.as_ref().map(|commands| commands.as_fd()));
        self.runtime.descriptors(into);
    }

    fn longest(&self) -> Duration {
        let due = match &self.tie {
            Some(tie) => {
                let beat = tie.link.next_deadline().0;
                Duration::from_nanos(beat.saturating_sub(self.clock.now().0))
            }
            None => self.start.outlive.saturating_sub(self.since.elapsed()),
        };
        due.min(self.runtime.longest())
    }

    fn finish(self) -> Result<(), String> {
        let RemoteNode {
            runtime,
            mut tie,
            mut pool,
            clock,
            mut batch,
            unsent,
            bad,
            ..
        } = self;
        let ended = AtomicBool::new(false);
        // The switch would take one that ends many flows for dead.
        let mut done: RuntimeDone = std::thread::scope(|scope| {
            let ends = Ends(&ended);
            if let Some(tie) = &mut tie {
                scope.spawn(|| tie.keep_up(&mut pool, clock, &ended));
            }
            let done = runtime.finish();
            drop(ends);
            done
        })?;
        let Some(Tie {
            mut link,
            mut socket,
        }) = tie
        else {
            return Ok(());
        };
        done.counts.push(("link_nonsense".to_owned(), bad));
        let said = serde_json::to_vec(&SaidDone::of(&done)).unwrap_or_default();
        let mut last = Vec::from(unsent);
        let events = in_messages(&done.events, LONGEST_EVENTS);
        last.extend(events.map(|lines| [&[EVENTS][..], lines].concat()));
        last.push([&[END][..], &said].concat());
        let mut last = last.into_iter().peekable();
        let until = Instant::now() + PATIENCE;
        while (last.peek().is_some() || !link.is_idle()) && Instant::now() < until {
            // A switch that has heard all may be gone before its last word is here.
            if link.is_silent() || socket.refused() >= REFUSED {
                break;
            }
            while link.has_room()
                && let Some(message) = last.next()
            {
                let _ = link.send(&message);
            }
            let now = clock.now();
            link.poll(now, &mut batch);
            socket.send(batch.iter());
            batch.clear();
            let mut frames = Vec::new();
            let came = socket.receive(|datagram| {
                let _ = link.receive(now, &mut pool, datagram, &mut frames);
            });
            pool.give_all(&mut frames);
            if came == 0 {
                std::thread::sleep(Duration::from_millis(1));
            }
        }
        Ok(())
    }
}
