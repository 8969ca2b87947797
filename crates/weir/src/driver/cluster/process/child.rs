//! A runtime's process: one worker, whose node is the runtime.

use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use weir_ctl::command::CommandHandler;
use weir_exec::edge::{FrameReceiver, FrameSender, MessageReceiver, MessageSender};
use weir_exec::{NEVER_PARK, Node, Parker, Round, worker};
use weir_io::IdlePolicy;
use weir_io::shared::{
    self, Channel, HeldWord, MessageInput, MessageOutput, RingInput, RingOutput, SharedMapping,
    Waker, Words, attach_memory, spsc,
};
use weir_nf::host::Stage;
use weir_packet::{FramePool, MemberId, PacketMemory};
use weir_protocol::RuntimeId;
use weir_protocol::in_process::{self, Keeping};
use weir_protocol::settings::ActorSettings;
use weir_runtime::RuntimeConfig;

use super::super::super::clock::Clock;
use super::super::super::gauge::{Gauge, LIFE, MAIL, STATUS_WORDS};
use super::super::super::process::child::{self, REPORT_INTERVAL, ROUNDS_PER_CLOCK_READ};
use super::super::super::process::{Reread, SaidDone, command_server, in_messages, layout_of};
use super::super::super::runtime_done::RuntimeDone;
use super::super::super::runtime_node::{RuntimeNode, RuntimePlan};
use super::super::super::supply::{RingSupply, Supply};
use super::super::super::wiring::{RuntimeEnds, Seat};
use super::wire::{self, Hello};
use super::{FRAMES, LONGEST_MESSAGE, MESSAGES, SUPPLY};

/// A runtime's process that has received its first message.
#[derive(Debug)]
pub struct RuntimeProcess {
    hello: Hello,
    channel: Channel,
    memory: Arc<PacketMemory>,
    rings: SharedMapping,
    /// Wakes this process.
    waker: Waker,
    /// Wakes the switch's thread.
    main: Waker,
    command_socket: Option<OwnedFd>,
}

impl RuntimeProcess {
    /// The process of this first message, which came on `channel`.
    ///
    /// # Errors
    ///
    /// The message is none, or what came with it is no memory.
    pub(in super::super::super) fn begin(
        mut channel: Channel,
        hello: &[u8],
    ) -> Result<RuntimeProcess, String> {
        let outside = |error: std::io::Error| error.to_string();
        let hello: Hello = serde_json::from_slice(hello).map_err(|e| e.to_string())?;
        let mut fd = || channel.take_fd().ok_or("a descriptor is missing");
        let (frames, rings, waker, main, commands) = (fd()?, fd()?, fd()?, fd()?, fd()?);
        let member = MemberId::new(hello.member).ok_or("there is no such member")?;
        Ok(RuntimeProcess {
            memory: attach_memory(frames, layout_of(hello.layout), member).map_err(outside)?,
            rings: SharedMapping::attach(rings).map_err(outside)?,
            waker: Waker::from_fd(waker),
            main: Waker::from_fd(main),
            command_socket: Some(commands),
            channel,
            hello,
        })
    }

    /// The number that stands for the chains that are meant.
    pub(crate) fn chains(&self) -> u64 {
        self.hello.chains
    }

    /// The seed of the run.
    pub fn seed(&self) -> u64 {
        self.hello.seed
    }

    /// Tells the main process why the runtime can't be run.
    pub fn give_up(mut self, why: &str) {
        // A failure means that the main process is gone: nothing left to do.
        let _ = self.send(wire::FAILED, why.as_bytes());
    }

    /// Runs the runtime with these `stages`, until it is told to finish. A number stands for
    /// `chains`, which are read again where the switch asks for that.
    ///
    /// # Errors
    ///
    /// It can't be run. The main process has got the message, too.
    pub fn run(
        mut self,
        stages: &[Stage],
        chains: (u64, Reread),
        engine: RuntimeConfig,
    ) -> Result<(), String> {
        let done = self.work(stages, chains, engine);
        if let Err(message) = &done {
            let _ = self.send(wire::FAILED, message.as_bytes());
        }
        done
    }

    fn work(
        &mut self,
        stages: &[Stage],
        (digest, reread): (u64, Reread),
        engine: RuntimeConfig,
    ) -> Result<(), String> {
        if digest != self.hello.chains || stages.len() != self.hello.units.len() {
            return Err("the chain file has changed since the run began".to_owned());
        }
        // Before this thread is pinned: a thread has the cores of the one that starts it.
        let socket = self.command_socket.take().ok_or("it is started twice")?;
        let handler = command_server::open(socket, Some(reread))?;
        let reporter = Reporter::start(self.mail()?)?;
        if let Some(core) = self.hello.core {
            weir_exec::pin(core)?;
        }
        let gauge = Arc::new(self.words(self.hello.offsets.status, STATUS_WORDS)?);
        let life = Arc::clone(&gauge);
        let runtime = RuntimeNode::new(self.plan(stages, engine, handler, gauge)?)?;
        if self.hello.first {
            child::go_first()?;
        }
        self.send(wire::READY, b"")?;
        let policy = match self.hello.wakeful {
            true => NEVER_PARK,
            false => IdlePolicy::default(),
        };
        // Where the kernel refuses, the process's end tells of a death, some milliseconds later.
        let _life = HeldWord::hold(life, LIFE);
        let park = Parker::of_process(self.waker.clone(), policy);
        let node = ProcessNode {
            runtime,
            process: &mut *self,
            slept: false,
            rounds: 0,
            looked: 0,
            reported: (Instant::now(), 0),
            reporter: &reporter,
        };
        let done = worker::run(vec![node], park)?.into_iter().next();
        // Its last words go before the last of all.
        drop(reporter);
        let done = done.ok_or("the runtime has left no report")?;
        for message in in_messages(&done.events, wire::LONGEST_EVENTS) {
            self.send(wire::EVENTS, message)?;
        }
        // Names and numbers only: this can't fail.
        let said = serde_json::to_vec(&SaidDone::of(&done)).unwrap_or_default();
        self.send(wire::END, &said)
    }

    /// The parts of the runtime.
    fn plan(
        &self,
        stages: &[Stage],
        engine: RuntimeConfig,
        handler: CommandHandler,
        gauge: Arc<Words>,
    ) -> Result<RuntimePlan, String> {
        let id = RuntimeId(self.hello.id);
        Ok(RuntimePlan {
            stages: stages.into(),
            places: self.hello.units.clone(),
            config: RuntimeConfig {
                follows: true,
                ..engine
            },
            settings: ActorSettings {
                is_logger: self.hello.is_logger,
                ..in_process::actors_with(
                    id,
                    self.memory.layout().small_frames,
                    Keeping {
                        replication: self.hello.replication.parse()?,
                        linked: self.hello.linked,
                    },
                )
            },
            relayed: false,
            clock: Clock::start(),
            shares: self.hello.shares.clone(),
            seat: Seat {
                pool: FramePool::empty(Arc::clone(&self.memory)),
                ends: self.ends()?,
                handler,
                gauge: Gauge::Process(Arc::clone(&gauge)),
                supply: self.supply(gauge)?,
                heir: None,
                lost: 0,
                counted: None,
            },
        })
    }

    fn send(&mut self, kind: u8, bytes: &[u8]) -> Result<(), String> {
        let words = self.words(self.hello.offsets.status, STATUS_WORDS)?;
        send(&mut self.channel, &words, &self.main, (kind, bytes))
    }

    /// A second way to send messages, for another thread.
    fn mail(&self) -> Result<Mail, String> {
        let failed = |error: std::io::Error| error.to_string();
        let stream = self.channel.as_fd().try_clone_to_owned().map_err(failed)?;
        Ok(Mail {
            channel: Channel::new(stream.into(), wire::LONGEST),
            status: self.words(self.hello.offsets.status, STATUS_WORDS)?,
            main: self.main.clone(),
        })
    }

    fn words(&self, at: usize, count: usize) -> Result<Words, String> {
        self.rings.words(at, count).map_err(|e| e.to_string())
    }

    fn ring(&self, at: usize, places: u32) -> Result<Words, String> {
        self.words(at, spsc::words_for(places))
    }

    fn input(&self, at: usize, places: u32) -> Result<RingInput, String> {
        let words = self.ring(at, places)?;
        shared::input(words, &self.memory, MemberId::MAIN).map_err(|e| e.to_string())
    }

    fn output(&self, at: usize, places: u32) -> Result<RingOutput, String> {
        let words = self.ring(at, places)?;
        shared::output(words, &self.memory, self.main.clone()).map_err(|e| e.to_string())
    }

    /// Its ends of the rings to and from the switch.
    fn ends(&self) -> Result<RuntimeEnds, String> {
        let offsets = &self.hello.offsets;
        let nonsense = |error: spsc::Nonsense| error.to_string();
        let data = offsets.data.iter();
        let data = data.map(|at| self.input(*at, FRAMES).map(FrameReceiver::Ring));
        let entries = offsets.entries.iter();
        let entries = entries.map(|at| self.output(*at, FRAMES).map(FrameSender::from));
        let words = self.ring(offsets.inbox, MESSAGES)?;
        let inbox = MessageInput::attach(words, LONGEST_MESSAGE).map_err(nonsense)?;
        let words = self.ring(offsets.outbox, MESSAGES)?;
        let outbox = MessageOutput::attach(words, self.main.clone()).map_err(nonsense)?;
        Ok(RuntimeEnds {
            data: data.collect::<Result<_, _>>()?,
            entries: entries.collect::<Result<_, _>>()?,
            inbox: MessageReceiver::Ring(inbox, Vec::new(), 0),
            outbox: MessageSender::Ring(outbox, Vec::new()),
            peers: (0..self.hello.places).map(|_| None).collect(),
        })
    }

    fn supply(&self, status: Arc<Words>) -> Result<Supply, String> {
        let offsets = &self.hello.offsets;
        Ok(Supply::Rings(RingSupply {
            from_main: self.input(offsets.supply, SUPPLY)?,
            to_main: self.output(offsets.home, SUPPLY)?,
            status,
            spare: Vec::new(),
        }))
    }
}

/// Sends a message, and wakes the main process for it.
fn send(
    channel: &mut Channel,
    status: &Words,
    main: &Waker,
    (kind, bytes): (u8, &[u8]),
) -> Result<(), String> {
    let sent = child::send(channel, &status[MAIL], kind, bytes);
    main.wake();
    sent
}

/// See [`RuntimeProcess::mail`].
struct Mail {
    channel: Channel,
    status: Words,
    main: Waker,
}

/// Tells the main process counts, on a thread of its own: to write them down takes longer than
/// a burst of packets. Dropped, it has told what it was given. Nobody else may send meanwhile.
struct Reporter {
    counts: Option<SyncSender<RuntimeDone>>,
    thread: Option<JoinHandle<()>>,
}

impl Reporter {
    fn start(mut mail: Mail) -> Result<Reporter, String> {
        let (counts, given) = sync_channel::<RuntimeDone>(1);
        let run = move || {
            while let Ok(done) = given.recv() {
                // Names and numbers only: this can't fail.
                let said = serde_json::to_vec(&SaidDone::of(&done)).unwrap_or_default();
                let report = (wire::REPORT, said.as_slice());
                // Where the main process is gone, the runtime's thread sees it, too.
                let _ = send(&mut mail.channel, &mail.status, &mail.main, report);
            }
        };
        let thread = std::thread::Builder::new()
            .name("reports".to_owned())
            .spawn(run)
            .map_err(|error| format!("can't start a thread: {error}"))?;
        Ok(Reporter {
            counts: Some(counts),
            thread: Some(thread),
        })
    }

    /// Tells counts, unless the last ones are still under way: false.
    fn report(&self, done: RuntimeDone) -> bool {
        let counts = self.counts.as_ref();
        counts.is_some_and(|counts| counts.try_send(done).is_ok())
    }
}

impl Drop for Reporter {
    fn drop(&mut self) {
        self.counts = None;
        if let Some(thread) = self.thread.take() {
            // One that panicked has ended the process.
            let _ = thread.join();
        }
    }
}

/// Packets between two reads of the system clock, at most: under load a round has hundreds.
const PACKETS_PER_CLOCK_READ: u64 = 4_096;

/// The runtime, and the way to the main process.
struct ProcessNode<'a> {
    runtime: RuntimeNode,
    process: &'a mut RuntimeProcess,
    /// The worker has slept, or was about to, since the last step.
    slept: bool,
    /// Rounds since the system clock was last read, and how many packets there were then.
    rounds: u32,
    looked: u64,
    /// When counts were last told, and how many packets there were then.
    reported: (Instant, u64),
    reporter: &'a Reporter,
}

impl ProcessNode<'_> {
    /// Tells the counts at most every [`REPORT_INTERVAL`], so that a death loses few of them.
    fn report(&mut self) {
        let packets = self.runtime.packets();
        (self.rounds, self.looked) = (0, packets);
        let (at, before) = &mut self.reported;
        if packets == *before || at.elapsed() < REPORT_INTERVAL {
            return;
        }
        // Also where the last report is still under way: counting takes a while.
        *at = Instant::now();
        if self.reporter.report(self.runtime.counted()) {
            *before = packets;
        }
    }
}

impl Node for ProcessNode<'_> {
    type Report = RuntimeDone;

    fn step(&mut self) -> Result<Round, String> {
        // Only after a sleep: it is a system call.
        let channel = &mut self.process.channel;
        if std::mem::take(&mut self.slept)
            && (channel.receive(false).is_err() || channel.has_ended())
        {
            return Err("the main process is gone".to_owned());
        }
        self.rounds += 1;
        let packets = self.runtime.packets() - self.looked;
        if self.rounds >= ROUNDS_PER_CLOCK_READ || packets >= PACKETS_PER_CLOCK_READ {
            self.report();
        }
        self.runtime.step()
    }

    fn take_commands(&mut self) -> bool {
        self.runtime.take_commands()
    }

    fn prepare_park(&mut self) -> bool {
        self.slept = true;
        self.report();
        self.runtime.prepare_park()
    }

    fn unpark(&mut self) {
        self.slept = true;
        self.runtime.unpark();
    }

    fn descriptors<'a>(&'a self, into: &mut Vec<BorrowedFd<'a>>) {
        into.push(self.process.channel.as_fd());
        self.runtime.descriptors(into);
    }

    fn longest(&self) -> Duration {
        self.runtime.longest()
    }

    fn finish(self) -> Result<RuntimeDone, String> {
        self.runtime.finish()
    }
}
