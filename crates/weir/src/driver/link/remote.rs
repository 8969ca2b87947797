//! A runtime's process on another host than the switch: one worker, whose node is the runtime
//! with its end of the link.

use std::collections::VecDeque;
use std::net::UdpSocket;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use weir_exec::edge::WireMessage as _;
use weir_exec::frames::{self, LARGE_SHARE, SHARE};
use weir_exec::{Node, Parker, Round, worker};
use weir_io::shared::{Channel, Waker};
use weir_io::{Datagrams, IdlePolicy};
use weir_nf::host::Stage;
use weir_packet::{Frame, FramePool, MemoryLayout, PacketMemory};
use weir_protocol::in_process::{self, BURST, Keeping, MESSAGES};
use weir_protocol::link::control::{self, Control, Head};
use weir_protocol::link::{Batch, Link};
use weir_protocol::{Key, entry};
use weir_runtime::RuntimeConfig;

use super::super::clock::Clock;
use super::super::gauge::Gauge;
use super::super::process::{SaidDone, command_server, in_messages};
use super::super::runtime_done::RuntimeDone;
use super::super::runtime_node::{RuntimeNode, RuntimePlan};
use super::super::supply::Supply;
use super::super::wiring::{Seat, SwitchEnds, ToRuntime, ToSwitch, wire};
use super::hello::Start;
use super::{COMMAND, EDGE, END, EVENTS, REPORT, settings};

/// Interval at which the switch is told that the runtime is there, until it answers.
const AGAIN: Duration = Duration::from_millis(20);
/// Longest wait for the switch to answer, or to hear the last messages.
const PATIENCE: Duration = Duration::from_secs(10);
/// Interval of reports, if counters have changed.
const REPORT_INTERVAL: Duration = Duration::from_millis(100);
/// Longest message of events, and of entries.
const LONGEST_EVENTS: usize = 1 << 20;
const LONGEST_ENTRIES: usize = 64 << 10;
/// Longest message of the way of commands.
const LONGEST_COMMAND: usize = 16 << 20;

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

/// A process that an agent has started for a runtime.
#[derive(Debug)]
pub struct RemoteProcess {
    start: Start,
    /// Closed when the agent is gone.
    channel: Channel,
}

impl RemoteProcess {
    /// The process of this first message, which came on `channel`.
    ///
    /// # Errors
    ///
    /// The message is none.
    pub(in super::super) fn begin(channel: Channel, start: &[u8]) -> Result<RemoteProcess, String> {
        let start = serde_json::from_slice(start).map_err(|e| e.to_string())?;
        Ok(RemoteProcess { start, channel })
    }

    /// The seed of the run.
    pub fn seed(&self) -> u64 {
        self.start.hello.seed
    }

    /// Tells the switch why the runtime can't be run.
    pub fn give_up(self, why: &str) {
        if let Ok(socket) = self.socket() {
            self.say(&socket, 1, Control::Gone(why.as_bytes()));
        }
    }

    fn socket(&self) -> Result<UdpSocket, String> {
        let failed = |error: std::io::Error| error.to_string();
        let socket = UdpSocket::bind((self.start.bind, 0)).map_err(failed)?;
        socket.connect(self.start.switch).map_err(failed)?;
        Ok(socket)
    }

    fn say(&self, socket: &UdpSocket, number: u64, control: Control<'_>) {
        let (runtime, switch) = self.start.hello.ends();
        let (source, destination) = match control {
            Control::Gone(_) => (switch, runtime),
            _ => (runtime, switch),
        };
        let head = Head {
            source,
            destination,
            number,
        };
        let (network, key) = (self.start.hello.network, Key(self.start.key));
        for datagram in control::datagram(network, &key, head, control).iter() {
            // Like a loss: it is said again.
            let _ = socket.send(datagram);
        }
    }

    /// Runs the runtime with these chains, for which `digest` stands, until it is told to
    /// finish.
    ///
    /// # Errors
    ///
    /// It can't be run, which the switch is told, or the switch is gone.
    pub fn run(self, stages: &[Stage], digest: u64, engine: RuntimeConfig) -> Result<(), String> {
        let hello = &self.start.hello;
        if digest != hello.chains || stages.len() != hello.units.len() {
            let why = "its chain file is another one than the switch's";
            self.give_up(why);
            return Err(why.to_owned());
        }
        let clock = Clock::start();
        let mut node = match self.node(stages, engine, clock) {
            Ok(node) => node,
            Err(why) => {
                self.give_up(&why);
                return Err(why);
            }
        };
        self.introduce(&mut node)?;
        let waker = Waker::new().map_err(|error| error.to_string())?;
        let park = Parker::of_process(waker, IdlePolicy::default());
        worker::run(vec![node], park).map(drop)
    }

    /// The parts of the runtime.
    fn plan(
        &self,
        stages: &[Stage],
        engine: RuntimeConfig,
        clock: Clock,
        seat: Seat,
    ) -> Result<RuntimePlan, String> {
        let hello = &self.start.hello;
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
            settings: in_process::actors_with(hello.runtime(), small, keeping),
            relayed: false,
            clock,
            seat,
        })
    }

    fn node(
        &self,
        stages: &[Stage],
        engine: RuntimeConfig,
        clock: Clock,
    ) -> Result<RemoteNode, String> {
        let failed = |error: std::io::Error| error.to_string();
        let hello = &self.start.hello;
        let mut pool = pool(engine)?;
        let (mut switch, mut ends) = wire(hello.runtime(), stages.len());
        ends.peers = (0..hello.places).map(|_| None).collect();
        let (commands, theirs) = UnixStream::pair().map_err(failed)?;
        let gauge = Gauge::default();
        switch.gauge = gauge.clone();
        let seat = Seat {
            pool: pool.share(SHARE, LARGE_SHARE),
            ends,
            handler: command_server::open(OwnedFd::from(theirs))?,
            gauge,
            supply: Supply::Reserve,
            heir: None,
            lost: 0,
            counted: None,
        };
        let plan = self.plan(stages, engine, clock, seat)?;
        let runtime = RuntimeNode::new(plan)?;
        let (own, remote) = hello.ends();
        let key = Key(self.start.key).of_link(remote.0, own.0);
        let link = settings(key, hello.network, hello.heartbeats());
        let socket = self.socket()?;
        Ok(RemoteNode {
            link: Link::new(clock.now(), own, remote, link),
            socket: Datagrams::over(socket).map_err(failed)?,
            runtime,
            pool,
            switch,
            commands: Some(Channel::new(commands, LONGEST_COMMAND)),
            agent: self.channel.as_fd().try_clone_to_owned().map_err(failed)?,
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
    fn introduce(&self, node: &mut RemoteNode) -> Result<(), String> {
        let until = Instant::now() + PATIENCE;
        let mut number = 0;
        while Instant::now() < until {
            number += 1;
            self.say(node.socket.socket(), number, Control::Welcome);
            let next = Instant::now() + AGAIN;
            while Instant::now() < next {
                if node.hear() {
                    return Ok(());
                }
                std::thread::sleep(Duration::from_millis(1));
            }
        }
        Err("the switch does not answer".to_owned())
    }
}

/// The runtime, its end of the link, and what joins the two.
struct RemoteNode {
    runtime: RuntimeNode,
    link: Link,
    socket: Datagrams,
    /// Frames of what comes, and of entries that were sent.
    pool: FramePool,
    /// The other ends of the runtime's edges.
    switch: SwitchEnds,
    commands: Option<Channel>,
    /// The way to the agent.
    agent: OwnedFd,
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

/// Sends a message behind those that wait for room.
fn put(link: &mut Link, unsent: &mut VecDeque<Vec<u8>>, bytes: Vec<u8>) {
    if !unsent.is_empty() || !link.send(&bytes) {
        unsent.push_back(bytes);
    }
}

impl RemoteNode {
    /// Hears what has come. True where something was of the switch.
    fn hear(&mut self) -> bool {
        let now = self.clock.now();
        let (link, pool, frames) = (&mut self.link, &mut self.pool, &mut self.frames);
        let mut any = false;
        self.socket.receive(|datagram| {
            any |= link.receive(now, pool, datagram, frames).is_ok();
        });
        while let Some(message) = self.link.poll_message(&mut self.pool, &mut self.frames) {
            self.understand(&message);
        }
        self.deal();
        let gauges = self.link.told();
        self.switch.gauge.pass_time(gauges.packet_time);
        self.switch.gauge.set_ends(gauges.ends as usize);
        any
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

    /// Sends what the runtime has put out. True where there was something.
    fn send(&mut self) -> bool {
        while let Some(bytes) = self.unsent.front() {
            if !self.link.send(bytes) {
                return false;
            }
            self.unsent.pop_front();
        }
        let mut worked = false;
        // Messages are taken out first and sent last: entries that were put out before them are
        // there by then.
        if self.link.has_room() {
            self.switch.inbox.drain(MESSAGES, &mut self.messages);
        }
        for chain in 0..self.switch.entries.len() {
            worked |= self.send_entries(chain);
        }
        worked |= !self.messages.is_empty();
        for message in std::mem::take(&mut self.messages) {
            self.send_edge(&message);
        }
        while self.link.has_room()
            && let Some(commands) = &mut self.commands
            && let Ok(Some(message)) = commands.receive(false)
        {
            worked = true;
            let bytes = [&[COMMAND, message.kind][..], &message.bytes].concat();
            self.bad += u64::from(!self.link.send(&bytes));
        }
        worked
    }

    fn send_entries(&mut self, chain: usize) -> bool {
        let Some(entries) = self.switch.entries.get_mut(chain) else {
            return false;
        };
        let mut any = false;
        while self.link.has_room() && entries.drain(BURST, &mut self.frames) > 0 {
            any = true;
            for message in entry::messages(&mut self.pool, &mut self.frames, LONGEST_ENTRIES) {
                let mut bytes = vec![EDGE];
                ToSwitch::Message { chain, message }.put(&mut bytes);
                put(&mut self.link, &mut self.unsent, bytes);
            }
        }
        any
    }

    fn send_edge(&mut self, message: &ToSwitch) {
        let mut bytes = vec![EDGE];
        message.put(&mut bytes);
        put(&mut self.link, &mut self.unsent, bytes);
    }

    /// Sends what the link has to say.
    fn talk(&mut self) {
        self.link.poll(self.clock.now(), &mut self.batch);
        if !self.batch.is_empty() {
            self.socket.send(self.batch.iter());
            self.batch.clear();
        }
    }

    fn report(&mut self) {
        let packets = self.runtime.packets();
        let (at, before) = self.reported;
        if packets == before || at.elapsed() < REPORT_INTERVAL || !self.link.has_room() {
            return;
        }
        self.reported = (Instant::now(), packets);
        self.tell(REPORT, &SaidDone::of(&self.runtime.counted()));
    }

    fn tell(&mut self, kind: u8, said: &SaidDone) {
        // Names and numbers only: this can't fail.
        let said = serde_json::to_vec(said).unwrap_or_default();
        let sent = self.link.send(&[&[kind][..], &said].concat());
        self.bad += u64::from(!sent);
    }

    /// True where the agent has ended.
    fn is_orphan(&self) -> bool {
        use rustix::event::{PollFd, PollFlags, Timespec, poll};
        let mut polled = [PollFd::new(&self.agent, PollFlags::IN)];
        matches!(poll(&mut polled, Some(&Timespec::default())), Ok(1..))
    }
}

impl Node for RemoteNode {
    type Report = ();

    fn step(&mut self) -> Result<Round, String> {
        let heard = self.hear();
        for data in &mut self.switch.data {
            data.flush();
        }
        self.switch.outbox.flush();
        let round = self.runtime.step()?;
        let sent = self.send();
        self.report();
        self.talk();
        frames::balance(&mut self.pool);
        if self.link.is_silent() || self.socket.refused() > 2 {
            return Err("the switch is gone".to_owned());
        }
        if std::mem::take(&mut self.slept) && self.is_orphan() {
            return Err("the agent is gone".to_owned());
        }
        Ok(Round {
            worked: round.worked || sent || heard,
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
        into.push(self.socket.as_fd());
        into.push(self.agent.as_fd());
        into.extend(self.commands.as_ref().map(|commands| commands.as_fd()));
        self.runtime.descriptors(into);
    }

    fn longest(&self) -> Duration {
        let now = self.clock.now();
        let beat = self.link.next_deadline().0.saturating_sub(now.0);
        Duration::from_nanos(beat).min(self.runtime.longest())
    }

    fn finish(self) -> Result<(), String> {
        let RemoteNode {
            runtime,
            mut link,
            mut socket,
            mut pool,
            clock,
            mut batch,
            unsent,
            bad,
            ..
        } = self;
        let mut done: RuntimeDone = runtime.finish()?;
        done.counts.push(("link_nonsense".to_owned(), bad));
        let said = serde_json::to_vec(&SaidDone::of(&done)).unwrap_or_default();
        let mut last = Vec::from(unsent);
        let events = in_messages(&done.events, LONGEST_EVENTS);
        last.extend(events.map(|lines| [&[EVENTS][..], lines].concat()));
        last.push([&[END][..], &said].concat());
        let mut last = last.into_iter().peekable();
        let until = Instant::now() + PATIENCE;
        while (last.peek().is_some() || !link.is_idle()) && Instant::now() < until {
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
