//! The main process's side of a place of a runtime that has a process.

use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::process::{Child, ExitStatus};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use rustix::process::PidfdFlags;
use weir_ctl::command::CommandSender;
use weir_exec::ExecError;
use weir_exec::edge::{FrameReceiver, FrameSender, MessageReceiver, MessageSender};
use weir_exec::frames::{BATCH, LARGE_SHARE, SHARE};
use weir_io::live::goes_first;
use weir_io::shared::{
    self, Channel, MessageInput, MessageOutput, RingInput, RingOutput, SharedMapping, Waker, Words,
    spsc,
};
use weir_io::stage::{StageInput as _, StageOutput as _};
use weir_nf::host::Stage;
use weir_packet::{Frame, FramePool, MemberId, PacketMemory};
use weir_protocol::RuntimeId;
use weir_protocol::in_process::Keeping;

use super::super::super::gauge::{FREE, FREE_LARGE, Gauge, LIFE, MAIL, STATUS_WORDS};
use super::super::super::process::{
    Engines, ProcessCommand, Relay, SaidDone, SharedRoom, Start, cause, layout_words, outside,
};
use super::super::super::runtime_done::RuntimeDone;
use super::super::super::wiring::SwitchEnds;
use super::wire::{self, Hello, Offsets};
use super::{FRAMES, LONGEST_MESSAGE, MESSAGES, SUPPLY};

/// Interval at which a process that ends early is waited for.
const NAP: Duration = Duration::from_millis(1);
/// Longest end of a process that has nothing left to do.
const PATIENCE: Duration = Duration::from_secs(10);

/// Words of all rings of a place, for so many chains.
pub(in super::super) const fn ring_words(chains: usize) -> usize {
    let ring = SharedRoom::ring_words;
    2 * chains * ring(FRAMES)
        + 2 * ring(MESSAGES)
        + 2 * ring(SUPPLY)
        + SharedRoom::words_of(STATUS_WORDS)
}

/// The process of a runtime, or the ones that take its place.
pub(in super::super) struct Home {
    relay: Relay,
    stages: Arc<[Stage]>,
    memory: Arc<PacketMemory>,
    member: MemberId,
    command: ProcessCommand,
    files: [SharedMapping; 2],
    /// Its own, and that of the switch's thread.
    wakers: [Waker; 2],
    hello: Hello,
    /// Free frames to it and from it.
    supply: RingOutput,
    home: RingInput,
    status: Arc<Words>,
    child: Option<Child>,
    /// Can be read from when it has ended; `None` where the kernel has no such descriptor.
    ended: Option<OwnedFd>,
    /// End of the last process, until its frames were taken back.
    over: Option<ExitStatus>,
    channel: Option<Channel>,
    ready: bool,
    mail: u32,
    done: Option<SaidDone>,
    /// Its last report before its end.
    said: Option<SaidDone>,
    events: Vec<u8>,
    /// Why it can't run, in its own words.
    failed: Option<String>,
    /// Why it was killed from here.
    killed: Option<&'static str>,
    frames: Vec<Frame>,
}

/// Settings that all processes of a cluster share.
#[derive(Clone, Debug)]
pub(in super::super) struct HelloOf {
    /// Stands for the chains.
    pub(in super::super) chains: u64,
    pub(in super::super) seed: u64,
    pub(in super::super) keeping: Keeping,
    /// Tenant and weight of each chain, where several tenants share its time.
    pub(in super::super) shares: Option<Vec<(u16, u32)>>,
    /// It keeps copies and owns no unit.
    pub(in super::super) is_logger: bool,
}

/// The rings of one more place of a runtime, for these chains; `main` wakes the switch's
/// thread.
///
/// # Errors
///
/// The room has no place or member left, or no thread can be started.
pub(in super::super) fn wire_process(
    room: &mut SharedRoom,
    id: RuntimeId,
    stages: &Arc<[Stage]>,
    main: Waker,
    hello: HelloOf,
) -> Result<(SwitchEnds, Home), ExecError> {
    let offsets = place_rings(room, stages.len());
    let (member, waker) = (room.member()?, Waker::new().map_err(outside)?);
    let status = Arc::new(room.words(offsets.status, STATUS_WORDS)?);
    let edges = Edges {
        room,
        member,
        waker: &waker,
    };
    let ends = edges.ends(id, &offsets, Gauge::Process(Arc::clone(&status)))?;
    let (supply, home) = edges.supply(&offsets)?;
    let memory = Arc::clone(room.memory());
    let name = format!("runtime {}", id.0);
    let home = Home {
        relay: Relay::start(Engines::Runtime(name, stages.to_vec()))?,
        stages: Arc::clone(stages),
        member,
        command: room.command().clone(),
        files: room.files(),
        wakers: [waker, main],
        hello: Hello {
            id: id.0,
            places: 0,
            member: member.number(),
            layout: layout_words(memory.layout()),
            chains: hello.chains,
            seed: hello.seed,
            replication: hello.keeping.replication.to_string(),
            linked: hello.keeping.linked,
            units: Vec::new(),
            shares: hello.shares,
            is_logger: hello.is_logger,
            offsets,
            core: None,
            first: false,
            wakeful: false,
        },
        memory,
        supply,
        home,
        status,
        child: None,
        ended: None,
        over: None,
        channel: None,
        ready: false,
        mail: 0,
        done: None,
        said: None,
        events: Vec::new(),
        failed: None,
        killed: None,
        frames: Vec::with_capacity(BATCH),
    };
    Ok((ends, home))
}

/// Takes places for the rings of a runtime of so many chains.
fn place_rings(room: &mut SharedRoom, chains: usize) -> Offsets {
    Offsets {
        data: (0..chains).map(|_| room.place_ring(FRAMES)).collect(),
        entries: (0..chains).map(|_| room.place_ring(FRAMES)).collect(),
        inbox: room.place_ring(MESSAGES),
        outbox: room.place_ring(MESSAGES),
        supply: room.place_ring(SUPPLY),
        home: room.place_ring(SUPPLY),
        status: room.place(STATUS_WORDS),
    }
}

/// Attaches this process's ends of the rings to and from a runtime's.
struct Edges<'a> {
    room: &'a SharedRoom,
    member: MemberId,
    /// Wakes the runtime's process.
    waker: &'a Waker,
}

impl Edges<'_> {
    fn output(&self, at: usize, places: u32) -> Result<RingOutput, ExecError> {
        let words = self.room.ring(at, places)?;
        shared::output(words, self.room.memory(), self.waker.clone()).map_err(nonsense)
    }

    fn input(&self, at: usize, places: u32) -> Result<RingInput, ExecError> {
        let words = self.room.ring(at, places)?;
        shared::input(words, self.room.memory(), self.member).map_err(nonsense)
    }

    /// The switch's ends, of packets and messages.
    fn ends(&self, id: RuntimeId, at: &Offsets, gauge: Gauge) -> Result<SwitchEnds, ExecError> {
        let data = at.data.iter();
        let data = data.map(|at| self.output(*at, FRAMES).map(FrameSender::from));
        let entries = at.entries.iter();
        let entries = entries.map(|at| self.input(*at, FRAMES).map(FrameReceiver::Ring));
        let words = self.room.ring(at.inbox, MESSAGES)?;
        let outbox = MessageOutput::attach(words, self.waker.clone()).map_err(nonsense)?;
        let words = self.room.ring(at.outbox, MESSAGES)?;
        let inbox = MessageInput::attach(words, LONGEST_MESSAGE).map_err(nonsense)?;
        Ok(SwitchEnds {
            id,
            data: data.collect::<Result<_, _>>()?,
            entries: entries.collect::<Result<_, _>>()?,
            inbox: MessageReceiver::Ring(inbox, Vec::new(), 0),
            outbox: MessageSender::Ring(outbox, Vec::new()),
            gauge,
        })
    }

    /// The ways of free frames, there and back.
    fn supply(&self, at: &Offsets) -> Result<(RingOutput, RingInput), ExecError> {
        let supply = self.output(at.supply, SUPPLY)?;
        Ok((supply, self.input(at.home, SUPPLY)?))
    }
}

fn nonsense(error: spsc::Nonsense) -> ExecError {
    ExecError(error.to_string())
}

/// A start of a runtime's process.
pub(in super::super) struct Starting {
    pub(in super::super) id: RuntimeId,
    /// Places of runtimes that there are.
    pub(in super::super) places: usize,
    /// Places of units, by chain.
    pub(in super::super) units: Vec<u32>,
    pub(in super::super) core: Option<usize>,
    pub(in super::super) wakeful: bool,
}

impl Home {
    /// The processes that are started from now on have chains for which this number stands.
    pub(in super::super) fn have_chains(&mut self, digest: u64) {
        self.hello.chains = digest;
    }

    /// Starts a process for a runtime.
    ///
    /// # Errors
    ///
    /// The machine has no process or descriptor left.
    pub(in super::super) fn start(&mut self, starting: Starting) -> Result<(), ExecError> {
        self.status[LIFE].store(0, Ordering::Release);
        self.hello.id = starting.id.0;
        self.hello.places = starting.places;
        self.hello.units = starting.units;
        self.hello.core = starting.core;
        self.hello.wakeful = starting.wakeful;
        self.hello.first = goes_first();
        let hello = serde_json::to_vec(&self.hello).map_err(|e| ExecError(e.to_string()))?;
        let commands = self.relay.connect()?;
        let [memory, rings] = &self.files;
        let [own, main] = &self.wakers;
        let (child, channel) = self.command.start(Start {
            name: &format!("runtime {}", starting.id.0),
            hello: (wire::HELLO, hello),
            files: &[
                memory.as_fd(),
                rings.as_fd(),
                own.as_fd(),
                main.as_fd(),
                commands.as_fd(),
            ],
            longest: wire::LONGEST,
            bare: false,
        })?;
        let pid = rustix::process::Pid::from_child(&child);
        self.ended = rustix::process::pidfd_open(pid, PidfdFlags::empty()).ok();
        self.child = Some(child);
        self.channel = Some(channel);
        (self.ready, self.done, self.failed) = (false, None, None);
        self.said = None;
        self.killed = None;
        Ok(())
    }

    /// Kills the process, as it does not do what it should: how it ends says why.
    pub(in super::super) fn kill(&mut self, why: &'static str) {
        if self.child.is_some() {
            self.killed = Some(why);
            self.end_process();
        }
    }

    /// Kills the process, and names no reason of its own.
    pub(in super::super) fn end_process(&mut self) {
        if let Some(child) = &mut self.child {
            // One that is over is reaped by the next look.
            let _ = child.kill();
        }
    }

    /// Numbers that named no frame among the free ones that came from here.
    pub(in super::super) fn bad(&self) -> u64 {
        self.home.bad()
    }

    /// What the process that has ended had counted when it last said so: its report, where it
    /// left no better one.
    pub(in super::super) fn take_said(&mut self) -> Option<RuntimeDone> {
        let said = self.said.take()?;
        let id = RuntimeId(self.hello.id);
        Some(said.done(id, &self.stages, Vec::new()).of_dead())
    }

    /// Commands to it.
    pub(in super::super) fn command_sender(&self) -> CommandSender {
        self.relay.command_sender()
    }

    /// Can be read from when the process has ended.
    pub(in super::super) fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.ended.as_ref().map(OwnedFd::as_fd)
    }

    /// True where a process was started that is not known to be over.
    pub(in super::super) fn is_up(&self) -> bool {
        self.child.is_some()
    }

    /// True where the process's runtime has died. Reads a word of shared memory, which the
    /// kernel marks before it takes the process's memory down.
    pub(in super::super) fn is_dying(&self) -> bool {
        self.child.is_some() && shared::is_holder_dead(&self.status[LIFE])
    }

    /// True once it can work.
    pub(in super::super) fn is_ready(&self) -> bool {
        self.ready
    }

    /// Keeps the balance of free frames, and hears what the process says over its channel.
    /// Cheap where it says nothing.
    pub(in super::super) fn attend(&mut self, pool: &mut FramePool) {
        if self.home.take(&mut self.frames, BATCH) > 0 {
            pool.give_all(&mut self.frames);
        }
        // Frames that were sent and not yet taken count, or they would be sent again.
        if self.supply.room() == SUPPLY as usize && self.child.is_some() {
            let free = |what: usize| self.status[what].load(Ordering::Relaxed) as usize;
            if free(FREE_LARGE) < LARGE_SHARE as usize / 2 {
                pool.take_spare_large(LARGE_SHARE as usize, &mut self.frames);
            }
            if free(FREE) < SHARE as usize {
                pool.take_spare(BATCH, &mut self.frames);
            }
            self.supply.give(&mut self.frames);
            pool.give_all(&mut self.frames);
        }
        let mail = self.status[MAIL].load(Ordering::Acquire);
        if mail != self.mail {
            self.mail = mail;
            self.hear();
        }
    }

    fn hear(&mut self) {
        let Some(channel) = &mut self.channel else {
            return;
        };
        // One that fails shows in how the process ends.
        while let Ok(Some(message)) = channel.receive(false) {
            match message.kind {
                wire::READY => self.ready = true,
                wire::EVENTS => self.events.extend_from_slice(&message.bytes),
                wire::REPORT => self.said = serde_json::from_slice(&message.bytes).ok(),
                wire::END => self.done = serde_json::from_slice(&message.bytes).ok(),
                wire::FAILED => {
                    let why = String::from_utf8_lossy(&message.bytes).into_owned();
                    self.failed = Some(why);
                }
                _ => {}
            }
        }
    }

    /// Looks whether the process has ended, with system calls: gives its report or the reason
    /// why there is none.
    pub(in super::super) fn look(&mut self) -> Option<Result<RuntimeDone, ExecError>> {
        // A long message waits for room in the socket, and its sender for that.
        self.hear();
        let child = self.child.as_mut()?;
        let status = match child.try_wait() {
            Ok(Some(status)) => status,
            Ok(None) | Err(_) => return None,
        };
        self.child = None;
        self.ended = None;
        self.hear();
        self.channel = None;
        let id = RuntimeId(self.hello.id);
        let events = std::mem::take(&mut self.events);
        let done = match (self.done.take(), self.failed.take()) {
            (Some(done), _) => {
                self.said = None;
                Ok(done.done(id, &self.stages, events))
            }
            (None, Some(why)) => Err(ExecError(format!("runtime {}: {why}", id.0))),
            (None, None) => {
                let why = match self.killed {
                    Some(why) => format!("was killed: {why}"),
                    None => format!("has died {}", cause(&status)),
                };
                Err(ExecError(format!("runtime {} {why}", id.0)))
            }
        };
        self.over = Some(status);
        Some(done)
    }

    /// Takes back all frames of the process that has ended, once all that it said was heard,
    /// and empties the rings to it for its successor. Does nothing where none has ended.
    ///
    /// # Errors
    ///
    /// A ring is damaged.
    pub(in super::super) fn take_back(&mut self, pool: &mut FramePool) -> Result<(), ExecError> {
        let Some(status) = &self.over.take() else {
            return Ok(());
        };
        let offsets = &self.hello.offsets;
        let ring = |at: usize, places: u32| {
            let words = self.files[1].words(at, spsc::words_for(places));
            words.map_err(outside)
        };
        let mut to_it = Vec::new();
        for at in &offsets.data {
            to_it.push(ring(*at, FRAMES)?);
        }
        to_it.push(ring(offsets.supply, SUPPLY)?);
        let mut from_it = Vec::new();
        for at in &offsets.entries {
            from_it.push(ring(*at, FRAMES)?);
        }
        let free_frames = ring(offsets.home, SUPPLY)?;
        self.home.mend();
        self.supply.mend();
        while self.home.take(&mut self.frames, BATCH) > 0 {
            pool.give_all(&mut self.frames);
        }
        let to: Vec<(MemberId, &Words)> = to_it.iter().map(|w| (MemberId::MAIN, w)).collect();
        let from: Vec<&Words> = from_it.iter().chain([&free_frames]).collect();
        let (memory, member) = (&self.memory, self.member);
        let mut frames = shared::reclaim(memory, member, status, &to, &from).map_err(outside)?;
        for ring in &to_it {
            let unread = shared::take_unread(memory, member, status, ring).map_err(outside)?;
            frames.extend(unread);
            shared::empty(ring).map_err(outside)?;
        }
        shared::empty(&ring(offsets.inbox, MESSAGES)?).map_err(outside)?;
        for free in [FREE, FREE_LARGE] {
            self.status[free].store(0, Ordering::Relaxed);
        }
        pool.give_all(&mut frames);
        Ok(())
    }

    /// The switch's thread is about to sleep; false where it must not.
    pub(in super::super) fn prepare_park(&mut self) -> bool {
        self.home.prepare_park()
    }

    /// The switch's thread is awake.
    pub(in super::super) fn unpark(&mut self) {
        self.home.unpark();
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        let Some(mut child) = self.child.take() else {
            return;
        };
        // The run ends early, or it is about to end by itself.
        self.channel = None;
        let until = Instant::now()
            + match self.done.is_some() {
                true => PATIENCE,
                false => Duration::ZERO,
            };
        while Instant::now() < until {
            if !matches!(child.try_wait(), Ok(None)) {
                return;
            }
            std::thread::sleep(NAP);
        }
        let _ = child.kill();
        let _ = child.wait();
    }
}
