//! A stage's process: one worker, whose node takes frames from one ring and
//! gives them to another.
//!
//! It ends with its input, or with the main process: the kernel then kills it
//! (`PR_SET_PDEATHSIG`). If the main process dies before that is set, the process ends
//! because its channel is closed.

use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use weir_ctl::command::{CommandHandler, CommandTarget, Part, ThreadCounts, Visit};
use weir_exec::{Node, Parker, Round, worker};
use weir_io::IdlePolicy;
use weir_io::shared::border::DONE;
use weir_io::shared::{
    self, Channel, RingInput, RingOutput, SharedMapping, Waker, Words, attach_memory, spsc,
};
use weir_io::stage::{StageInput as _, StageOutput as _};
use weir_nf::host::Stage;
use weir_packet::{Frame, FramePool, MemberId, PacketMemory, Time};
use weir_runtime::{Role, Runtime, RuntimeConfig};

use super::super::super::process::child::{self, REPORT_INTERVAL, ROUNDS_PER_CLOCK_READ};
use super::super::super::process::{
    Reread, Said, command_server, digest_of_chains, in_messages, layout_of,
};
use super::super::chain::ChainPlan;
use super::super::node::Queue;
use super::super::pace::Pace;
use super::wire::{self, Hello};
use super::{PLACES, SUPPLY};
use weir_exec::frames::{BATCH, HIGH};

/// Most frames of a burst.
const BURST: usize = 64;
/// Free frames that a stage needs to take a burst: functions may emit packets.
const MIN_FREE_FRAMES: usize = 64;

/// A stage's process that has received its `HELLO`.
#[derive(Debug)]
pub struct StageProcess {
    hello: Hello,
    channel: Channel,
    /// The open flows, as notices; not empty after a restart.
    open_flows: Vec<u8>,
    memory: Arc<PacketMemory>,
    rings: SharedMapping,
    /// Wakes this process.
    waker: Waker,
    /// Wakes the reader of the output ring.
    next_waker: Waker,
    /// Socket for commands; a tenant (an untrusted stage) has none.
    command_socket: Option<OwnedFd>,
}

impl StageProcess {
    /// The stage's process of this `HELLO`, which came on `channel`.
    ///
    /// # Errors
    ///
    /// The message is none, or what came with it is no memory.
    pub(in super::super::super) fn begin(
        mut channel: Channel,
        hello: &[u8],
    ) -> Result<StageProcess, String> {
        let outside = |error: std::io::Error| error.to_string();
        let hello: Hello = serde_json::from_slice(hello).map_err(|e| e.to_string())?;
        let mut fd = || channel.take_fd().ok_or("a descriptor is missing");
        let (frames, rings, waker, next_waker, open_flows) = (fd()?, fd()?, fd()?, fd()?, fd()?);
        let command_socket = (!hello.tenant).then(fd).transpose()?;
        let member = MemberId::new(hello.member).ok_or("there is no such member")?;
        let open_flows = SharedMapping::attach(open_flows)
            .and_then(|mapping| mapping.copy(hello.open_flows_bytes))
            .map_err(outside)?;
        Ok(StageProcess {
            memory: attach_memory(frames, layout_of(hello.layout), member).map_err(outside)?,
            rings: SharedMapping::attach(rings).map_err(outside)?,
            waker: match hello.tenant {
                true => Waker::from_socket(waker),
                false => Waker::from_fd(waker),
            },
            next_waker: Waker::from_fd(next_waker),
            command_socket,
            open_flows,
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

    /// Tells the main process why the stage can't be run.
    pub fn give_up(mut self, why: &str) {
        // A failure means that the main process is gone: nothing left to do.
        let _ = self.send(wire::FAILED, why.as_bytes());
    }

    /// Runs the stage of `plans` that `HELLO` names, until its input ends. The chains are read
    /// again where the main process asks for that.
    ///
    /// # Errors
    ///
    /// The stage can't be run. The main process has got the message, too.
    pub fn run(
        mut self,
        plans: &[ChainPlan],
        reread: Reread,
        engine: RuntimeConfig,
    ) -> Result<(), String> {
        let done = self.work(plans, reread, engine);
        if let Err(message) = &done {
            let _ = self.send(wire::FAILED, message.as_bytes());
        }
        done
    }

    fn work(
        &mut self,
        plans: &[ChainPlan],
        reread: Reread,
        engine: RuntimeConfig,
    ) -> Result<(), String> {
        // Start the command thread before this one is pinned: a thread inherits the
        // CPU affinity of the one that starts it.
        let socket = self.command_socket.take();
        let hello = &self.hello;
        let commands = socket.map(|socket| command_server::open(socket, Some(reread)));
        let commands = commands.transpose()?;
        let chain = plans.get(hello.chain).ok_or("there is no such chain")?;
        if digest_of_chains(plans) != hello.chains {
            return Err("the chain file has changed since the run began".to_owned());
        }
        let stage = chain.stages.get(hello.step).map(Vec::as_slice);
        let Some([stage]) = stage else {
            return Err("there is no such stage".to_owned());
        };
        let pace = Pace {
            yield_after: hello.yield_after,
            prefetch: hello.prefetch,
        };
        if let Some(core) = hello.core {
            weir_exec::pin(core)?;
        }
        let config = RuntimeConfig {
            role: Role::later(chain.stages.iter().flatten(), false),
            ..engine
        };
        let stage = Work::new(self, stage, config)?;
        if self.hello.tenant {
            // Enter the sandbox before the first packet is read.
            let keep = [
                self.channel.as_fd(),
                self.waker.as_fd(),
                self.next_waker.as_fd(),
                self.rings.as_fd(),
            ];
            shared::confine(&keep).map_err(|error| format!("can't enter the sandbox: {error}"))?;
        }
        if self.hello.first {
            child::go_first()?;
        }
        self.send(wire::READY, b"")?;
        let policy = IdlePolicy {
            work: pace.yield_after,
            ..IdlePolicy::default()
        };
        let park = Parker::of_process(self.waker.clone(), policy);
        let node = ProcessNode {
            stage,
            process: self,
            commands,
            queue: Queue::new(pace.prefetch),
            burst: Vec::with_capacity(BURST),
            outgoing: Vec::with_capacity(2 * BURST),
            rounds: 0,
            slept: false,
        };
        worker::run(vec![node], park).map(drop)
    }

    fn send(&mut self, kind: u8, bytes: &[u8]) -> Result<(), String> {
        let words = self.status()?;
        child::send(&mut self.channel, &words[wire::MAIL], kind, bytes)
    }

    /// Sends lines of events, in as many messages as they take.
    fn send_events(&mut self, lines: &[u8]) -> Result<(), String> {
        let mut messages = in_messages(lines, wire::LONGEST_EVENTS);
        messages.try_for_each(|message| self.send(wire::EVENTS, message))
    }

    fn status(&self) -> Result<Words, String> {
        let words = self.rings.words(self.hello.status, wire::STATUS_WORDS);
        words.map_err(|error| error.to_string())
    }
}

/// A tenant has few frames: it returns some if more than these are free.
const TENANT_HIGH: usize = 512;

/// A stage's runtime, rings and counters.
struct Work {
    runtime: Runtime,
    pool: FramePool,
    input: RingInput,
    output: RingOutput,
    /// Rings of free frames: `supply` from the main process, `return_ring` to it.
    supply: RingInput,
    return_ring: RingOutput,
    status: Words,
    spare: Vec<Frame>,
    /// For a tenant: input frames that are processed, modulo 2^32.
    done: Option<u32>,
    busy: Duration,
    /// Packets counted in the last report.
    reported_packets: u64,
    /// Time of the last report.
    last_report: Instant,
    /// Index of the chain, and of the step in its plan.
    place: (usize, usize),
}

/// The parts of the stage that commands read and change.
struct Shown<'a> {
    runtime: &'a mut Runtime,
    pool: &'a mut FramePool,
    output: &'a mut Vec<Frame>,
    place: (usize, usize),
}

impl CommandTarget for Shown<'_> {
    fn counts(&mut self) -> ThreadCounts {
        ThreadCounts::of_parts(|visit| self.parts(visit))
    }

    fn parts(&mut self, visit: &mut Visit<'_>) {
        let (chain, stage) = self.place;
        visit(Part {
            chain,
            stage,
            runtime: self.runtime,
            pool: self.pool,
            output: self.output,
        });
    }

    fn take_events(&mut self) {
        // They are sent with the events of the next burst.
    }

    fn now(&self) -> Option<Time> {
        None
    }
}

impl Work {
    fn new(process: &StageProcess, stage: &Stage, config: RuntimeConfig) -> Result<Work, String> {
        let hello = &process.hello;
        let memory = &process.memory;
        let words = |number: usize, places: u32| {
            let words = process
                .rings
                .words(hello.rings[number], spsc::words_for(places));
            words.map_err(|error| error.to_string())
        };
        let fail = |error: spsc::Nonsense| error.to_string();
        let from = MemberId::new(hello.from).ok_or("there is no such member")?;
        // The main process polls this ring, so it needs no waker.
        let unused_waker = Waker::new().map_err(|error| error.to_string())?;
        let mut work = Work {
            runtime: Runtime::new(stage, config).map_err(|error| error.to_string())?,
            pool: FramePool::empty(Arc::clone(memory)),
            input: shared::input(words(0, PLACES)?, memory, from).map_err(fail)?,
            output: shared::output(words(1, PLACES)?, memory, process.next_waker.clone())
                .map_err(fail)?,
            supply: shared::input(words(2, SUPPLY)?, memory, MemberId::MAIN).map_err(fail)?,
            return_ring: shared::output(words(3, SUPPLY)?, memory, unused_waker).map_err(fail)?,
            status: process.status()?,
            spare: Vec::with_capacity(BATCH),
            done: hello.tenant.then_some(0),
            busy: Duration::ZERO,
            reported_packets: 0,
            last_report: Instant::now(),
            place: (hello.chain, hello.step),
        };
        work.runtime.learn(&mut work.pool, &process.open_flows);
        Ok(work)
    }

    /// Takes free frames from the main process, and returns surplus ones.
    fn settle(&mut self) {
        if self.supply.take(&mut self.spare, BATCH) > 0 {
            self.pool.give_all(&mut self.spare);
        }
        let high = if self.done.is_some() {
            TENANT_HIGH
        } else {
            HIGH
        };
        if self.pool.available() > high {
            let room = self.return_ring.room().min(BATCH);
            self.pool.take_spare(room, &mut self.spare);
            self.return_ring.give(&mut self.spare);
            self.pool.give_all(&mut self.spare);
        }
        if self.done.is_some() {
            // Return all large frames: they are few, and no function here needs them.
            let room = self.return_ring.room().min(BATCH);
            self.pool.take_spare_large(room, &mut self.spare);
            self.return_ring.give(&mut self.spare);
            self.pool.give_all(&mut self.spare);
        }
        let free = u32::try_from(self.pool.available()).unwrap_or(u32::MAX);
        self.status[wire::FREE].store(free, Ordering::Relaxed);
    }

    fn send_events(&mut self, process: &mut StageProcess) -> Result<(), String> {
        let log = self.runtime.events();
        process.send_events(log.lines())?;
        log.clear();
        Ok(())
    }

    /// Reports counters at most every [`REPORT_INTERVAL`], so that a crash loses few of them.
    fn report_counts(&mut self, process: &mut StageProcess) -> Result<(), String> {
        if self.last_report.elapsed() < REPORT_INTERVAL {
            return Ok(());
        }
        self.last_report = Instant::now();
        let packets = self.runtime.packets_in();
        if packets == self.reported_packets {
            return Ok(());
        }
        self.reported_packets = packets;
        let said = self.counted();
        process.send(wire::REPORT, &said)
    }

    fn counted(&self) -> Vec<u8> {
        let refused = self.output.refused();
        let said = Said {
            free: self.pool.available(),
            refused: [refused.bursts, refused.frames],
            busy_ns: u64::try_from(self.busy.as_nanos()).unwrap_or(u64::MAX),
            bad: self.input.bad() + self.supply.bad(),
            ..Said::new(&self.runtime.report(), self.runtime.lies())
        };
        // Numbers and names only: this can't fail.
        serde_json::to_vec(&said).unwrap_or_default()
    }
}

/// The stage as a node of the process's worker.
struct ProcessNode<'a> {
    stage: Work,
    process: &'a mut StageProcess,
    /// Commands of the main process; a tenant gets none.
    commands: Option<CommandHandler>,
    queue: Queue,
    burst: Vec<Frame>,
    /// Output frames that wait for room in the ring.
    outgoing: Vec<Frame>,
    /// Rounds since the system clock was last read.
    rounds: u32,
    /// The worker has slept, or was about to, since the last step.
    slept: bool,
}

impl ProcessNode<'_> {
    /// Processes one burst. False if there was no input.
    fn process(&mut self) -> Result<bool, String> {
        let stage = &mut self.stage;
        self.queue
            .next(&mut stage.input, &self.process.memory, &mut self.burst);
        if self.burst.is_empty() {
            return Ok(false);
        }
        let count = self.burst.len() as u32;
        stage.done = stage.done.map(|done| done.wrapping_add(count));
        let start = Instant::now();
        stage
            .runtime
            .process(&mut stage.pool, &mut self.burst, &mut self.outgoing);
        stage.busy += start.elapsed();
        stage.send_events(self.process)?;
        stage.output.give(&mut self.outgoing);
        Ok(true)
    }

    /// Checks that the main process lives, but only after a sleep: the check is a
    /// system call.
    fn check_main(&mut self) -> Result<(), String> {
        if !std::mem::take(&mut self.slept) {
            return Ok(());
        }
        let channel = &mut self.process.channel;
        let gone = channel.receive(false).is_err() || channel.has_ended();
        match gone && !self.stage.input.is_over() {
            true => Err("the main process is gone".to_owned()),
            false => Ok(()),
        }
    }
}

impl Node for ProcessNode<'_> {
    type Report = ();

    fn step(&mut self) -> Result<Round, String> {
        self.check_main()?;
        // Read before the ring is: what is written between the two is not missed.
        let over = self.stage.input.is_over();
        let mut worked = false;
        if !self.outgoing.is_empty() {
            worked = self.stage.output.give(&mut self.outgoing) > 0;
            if self.stage.output.is_gone() {
                return Err("the next stage has ended".to_owned());
            }
        }
        self.stage.settle();
        let supplied = self.stage.pool.available() >= MIN_FREE_FRAMES;
        let commands = self.commands.as_ref();
        let held = commands.is_some_and(CommandHandler::is_held);
        if self.outgoing.is_empty() && supplied && !held {
            worked |= self.process()?;
        }
        if let (Some(done), true) = (self.stage.done, self.outgoing.is_empty() && worked) {
            // Published after the output: a frame that is counted as done and not in
            // the output was dropped.
            self.stage.status[DONE].store(done, Ordering::Release);
        }
        self.rounds += 1;
        if self.rounds >= ROUNDS_PER_CLOCK_READ {
            self.rounds = 0;
            self.stage.report_counts(self.process)?;
        }
        let waits = !self.outgoing.is_empty();
        Ok(Round {
            worked,
            blocked: waits || !supplied || held,
            over: over && !worked && !waits && !held && self.queue.is_empty(),
            ..Round::default()
        })
    }

    fn take_commands(&mut self) -> bool {
        let Some(commands) = &mut self.commands else {
            return false;
        };
        commands.carry_out(&mut Shown {
            runtime: &mut self.stage.runtime,
            pool: &mut self.stage.pool,
            output: &mut self.outgoing,
            place: self.stage.place,
        });
        commands.is_busy()
    }

    fn prepare_park(&mut self) -> bool {
        // If this fails, stay awake: the next step sees that the channel is closed.
        let said = self.stage.report_counts(self.process);
        self.slept = true;
        said.is_ok() && self.stage.input.prepare_park()
    }

    fn unpark(&mut self) {
        self.slept = true;
        self.stage.input.unpark();
    }

    fn descriptors<'a>(&'a self, into: &mut Vec<BorrowedFd<'a>>) {
        into.push(self.process.channel.as_fd());
        into.extend(self.commands.as_ref().and_then(CommandHandler::descriptor));
    }

    fn finish(mut self) -> Result<(), String> {
        let Work { runtime, pool, .. } = &mut self.stage;
        let mut lines = Vec::new();
        runtime.finish_with(pool, Time::ZERO, |log| {
            lines.extend_from_slice(log.lines());
            log.clear();
        });
        self.process.send_events(&lines)?;
        let said = self.stage.counted();
        self.process.send(wire::END, &said)
    }
}
