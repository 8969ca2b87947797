//! The main process's side: starts stages' processes, looks after them, and
//! starts those again that died.

use std::os::fd::AsFd as _;
use std::process::{Child, ExitStatus};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use weir_ctl::DriverDrop;
use weir_ctl::command::{CommandSender, StageProcessCounts};
use weir_io::live::goes_first;
use weir_io::shared::{self, Channel, RingInput, RingOutput, SharedMapping, Waker, Words, spsc};
use weir_io::stage::{Refused, StageInput as _, StageOutput as _};
use weir_nf::host::Stage;
use weir_packet::{Frame, FramePool, MemberId, PacketMemory};
use weir_runtime::{Lie, Report};

use super::super::super::executor::EventBox;
use super::super::super::process::{
    Engines, ProcessCommand, Relay, Said, SharedRoom, Start, TRUSTED, cause, layout_words, outside,
};
use super::super::pace::Pace;
use super::wire::{self, Hello};
use super::{PLACES, SUPPLY};
use crate::say::say;
use weir_exec::frames::{BATCH, LOW};
use weir_exec::{ExecError, Restarts};

/// Longest end of a process that has nothing left to do.
pub(super) const PATIENCE: Duration = Duration::from_secs(10);

/// Counts of a stage's processes: deaths, frames that came back, flows lost.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProcessEnd {
    /// Number of the chain, and of the step in its plan.
    pub place: (usize, usize),
    /// Times that it died and was started again.
    pub deaths: u64,
    /// Frames that came back from dead ones.
    pub frames_back: u64,
    /// Flows whose state in this stage was lost.
    pub flows_lost: u64,
    /// Numbers in its rings that named no frame.
    pub bad_descriptors: u64,
    /// Of one that is not trusted: what its border saw.
    pub border: Option<BorderEnd>,
}

impl ProcessEnd {
    /// The same as it stands, of a stage that is not over.
    pub(super) fn counts(&self, stage: &Stage, state: &'static str) -> StageProcessCounts {
        StageProcessCounts {
            place: self.place,
            functions: stage.nodes.iter().map(|node| node.name.clone()).collect(),
            trusted: true,
            state,
            deaths: self.deaths,
            frames_back: self.frames_back,
            flows_lost: self.flows_lost,
        }
    }
}

/// Counts of the border of an untrusted stage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BorderEnd {
    /// Its counts.
    pub counts: weir_io::shared::border::BorderCounts,
    /// It was not started again in the end: its packets were dropped.
    pub gone: bool,
    /// Events beyond what it may write, which went nowhere.
    pub events_refused: u64,
}

/// Settings of a stage's process.
pub(in super::super) struct Want {
    pub(in super::super) name: String,
    pub(in super::super) place: (usize, usize),
    /// Stands for the chains of the run.
    pub(in super::super) chains: u64,
    pub(in super::super) stage: Stage,
    pub(in super::super) core: Option<usize>,
    pub(in super::super) pace: Pace,
    pub(in super::super) seed: u64,
    /// The ring to it, with the member of its writer, and that from it.
    pub(in super::super) input: (usize, MemberId),
    pub(in super::super) output: (usize, Waker),
    pub(in super::super) member: MemberId,
    pub(in super::super) waker: Waker,
}

/// Memory and rings that all stages' processes of a run share.
pub(in super::super) struct Host(SharedRoom);

impl Host {
    /// With packet memory and room for the rings of so many processes.
    pub(in super::super) fn new(
        layout: weir_packet::MemoryLayout,
        processes: usize,
        command: ProcessCommand,
    ) -> Result<Host, ExecError> {
        let status = SharedRoom::words_of(wire::STATUS_WORDS);
        // Each has a ring before it at most, and one behind it.
        let ring = SharedRoom::ring_words;
        let each = 2 * ring(PLACES) + 2 * ring(SUPPLY) + status;
        SharedRoom::new(layout, each * processes, command).map(Host)
    }

    pub(in super::super) fn memory(&self) -> &Arc<PacketMemory> {
        self.0.memory()
    }

    /// Page size of the packet memory, as text.
    pub(in super::super) fn pages(&self) -> String {
        self.0.pages()
    }

    /// A member for one more process.
    pub(in super::super) fn member(&mut self) -> Result<MemberId, ExecError> {
        self.0.member()
    }

    /// A ring between two stages: where it is.
    pub(in super::super) fn ring(&mut self) -> usize {
        self.0.place_ring(PLACES)
    }

    /// The writing end of a ring, for a thread of this process.
    pub(in super::super) fn output(
        &self,
        ring: usize,
        reader: Waker,
    ) -> Result<RingOutput, ExecError> {
        let words = self.0.ring(ring, PLACES)?;
        shared::output(words, self.memory(), reader).map_err(|e| ExecError(e.to_string()))
    }

    /// The reading end of a ring, likewise.
    pub(in super::super) fn input(
        &self,
        ring: usize,
        writer: MemberId,
    ) -> Result<RingInput, ExecError> {
        let words = self.0.ring(ring, PLACES)?;
        shared::input(words, self.memory(), writer).map_err(|e| ExecError(e.to_string()))
    }

    /// Starts a stage's process.
    pub(in super::super) fn start(&mut self, want: Want) -> Result<Process, ExecError> {
        let room = &mut self.0;
        let (supply, home) = (room.place_ring(SUPPLY), room.place_ring(SUPPLY));
        let status = room.place(wire::STATUS_WORDS);
        let hello = Hello {
            member: want.member.number(),
            layout: layout_words(room.memory().layout()),
            chain: want.place.0,
            step: want.place.1,
            chains: want.chains,
            seed: want.seed,
            from: want.input.1.number(),
            rings: [want.input.0, want.output.0, supply, home],
            status,
            open_flows_bytes: 0,
            yield_after: want.pace.yield_after,
            prefetch: want.pace.prefetch,
            core: want.core,
            first: false,
            tenant: false,
        };
        let nonsense = |error: spsc::Nonsense| ExecError(error.to_string());
        let memory = Arc::clone(room.memory());
        let mut process = Process {
            relay: Relay::start(Engines::Stage(want.stage.clone(), want.place))?,
            name: want.name,
            stage: want.stage,
            member: want.member,
            supply: shared::output(room.ring(supply, SUPPLY)?, &memory, want.waker.clone())
                .map_err(nonsense)?,
            home: shared::input(room.ring(home, SUPPLY)?, &memory, want.member)
                .map_err(nonsense)?,
            status: room.words(status, wire::STATUS_WORDS)?,
            to_it: room.ring(want.input.0, PLACES)?,
            from_it: room.ring(want.output.0, PLACES)?,
            home_words: room.ring(home, SUPPLY)?,
            supply_words: room.ring(supply, SUPPLY)?,
            files: room.files(),
            wakers: [want.waker, want.output.1],
            memory,
            command: room.command().clone(),
            writer: want.input.1,
            hello,
            child: None,
            channel: None,
            ready: false,
            mail: 0,
            said: Said::default(),
            past: Vec::new(),
            lies: Vec::new(),
            busy_ns: 0,
            refused: Refused::default(),
            died_with: 0,
            over: false,
            deaths: Restarts::new(TRUSTED),
            leaked: 0,
            frames: Vec::with_capacity(BATCH),
            end: ProcessEnd {
                place: want.place,
                deaths: 0,
                frames_back: 0,
                flows_lost: 0,
                bad_descriptors: 0,
                border: None,
            },
        };
        process.spawn(&[])?;
        Ok(process)
    }
}

/// A stage's process, or the one that took its place.
pub(in super::super) struct Process {
    relay: Relay,
    name: String,
    stage: Stage,
    member: MemberId,
    memory: Arc<PacketMemory>,
    command: ProcessCommand,
    files: [SharedMapping; 2],
    /// Its own, and that of who reads behind it.
    wakers: [Waker; 2],
    hello: Hello,
    writer: MemberId,
    /// Free frames to it and from it.
    supply: RingOutput,
    home: RingInput,
    status: Words,
    to_it: Words,
    from_it: Words,
    home_words: Words,
    supply_words: Words,
    child: Option<Child>,
    channel: Option<Channel>,
    ready: bool,
    mail: u32,
    /// Its counts, as last reported.
    said: Said,
    /// Counts of its predecessors.
    past: Vec<Report>,
    lies: Vec<Lie>,
    busy_ns: u64,
    refused: Refused,
    /// Frames that its predecessors had in their hands: packets, and a notice
    /// now and then.
    died_with: u64,
    /// It has said its last word.
    over: bool,
    deaths: Restarts,
    /// Frames that it can't have had any use for when it ended.
    leaked: usize,
    frames: Vec<Frame>,
    end: ProcessEnd,
}

impl Process {
    /// Those that are started from now on have chains for which this number stands.
    pub(in super::super) fn have_chains(&mut self, digest: u64) {
        self.hello.chains = digest;
    }

    fn spawn(&mut self, open_flows: &[u8]) -> Result<(), ExecError> {
        self.hello.first = goes_first();
        let flows = self.hello.open_flows(open_flows)?;
        let commands = self.relay.connect()?;
        let files = [
            self.files[0].as_fd(),
            self.files[1].as_fd(),
            self.wakers[0].as_fd(),
            self.wakers[1].as_fd(),
            flows.as_fd(),
            commands.as_fd(),
        ];
        let (child, channel) = self.command.start(Start {
            name: &self.name,
            hello: self.hello.message()?,
            files: &files,
            longest: wire::LONGEST,
            bare: false,
        })?;
        self.child = Some(child);
        self.channel = Some(channel);
        self.ready = false;
        Ok(())
    }

    pub(in super::super) fn is_ready(&self) -> bool {
        self.ready || self.over
    }

    /// Commands to it.
    pub(in super::super) fn command_sender(&self) -> CommandSender {
        self.relay.command_sender()
    }

    /// Number of its step in the plan.
    pub(in super::super) fn step(&self) -> usize {
        self.end.place.1
    }

    /// How it stands.
    pub(in super::super) fn counts(&self) -> StageProcessCounts {
        let state = match (self.over, self.ready) {
            (true, _) => "over",
            (false, true) => "ready",
            (false, false) => "starting",
        };
        self.end.counts(&self.stage, state)
    }

    /// True where it has ended as it should.
    pub(in super::super) fn is_over(&self) -> bool {
        self.over && self.child.is_none()
    }

    /// Keeps the balance of free frames, and hears what it says. Cheap where
    /// it says nothing.
    ///
    /// # Errors
    ///
    /// A stage that can't be run.
    pub(in super::super) fn attend(
        &mut self,
        pool: &mut FramePool,
        events: &EventBox,
    ) -> Result<(), ExecError> {
        self.home.take(&mut self.frames, BATCH);
        pool.give_all(&mut self.frames);
        let free = self.status[wire::FREE].load(Ordering::Relaxed) as usize;
        // Frames that were sent and not yet taken count, or they would be sent again.
        if free < LOW && self.supply.room() == SUPPLY as usize && !self.over {
            pool.take_spare(BATCH, &mut self.frames);
            self.supply.give(&mut self.frames);
            pool.give_all(&mut self.frames);
        }
        let mail = self.status[wire::MAIL].load(Ordering::Acquire);
        if mail != self.mail {
            self.mail = mail;
            self.hear(events)?;
        }
        Ok(())
    }

    fn hear(&mut self, events: &EventBox) -> Result<(), ExecError> {
        let Some(channel) = &mut self.channel else {
            return Ok(());
        };
        // One that fails shows in how the process ends.
        while let Ok(Some(message)) = channel.receive(false) {
            match message.kind {
                wire::READY => self.ready = true,
                wire::EVENTS => events.add(&message.bytes),
                wire::REPORT | wire::END => {
                    if let Ok(said) = serde_json::from_slice(&message.bytes) {
                        self.said = said;
                    }
                    self.over |= message.kind == wire::END;
                }
                wire::FAILED => {
                    let why = String::from_utf8_lossy(&message.bytes);
                    let message = format!("{}: {why}", self.name);
                    return Err(ExecError(message));
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Looks whether it has ended: one that died is started again, and told
    /// of the flows that are open. True where it was.
    ///
    /// # Errors
    ///
    /// One that dies again and again.
    pub(in super::super) fn look_after(
        &mut self,
        pool: &mut FramePool,
        events: &EventBox,
        open_flows: impl FnOnce() -> (Vec<u8>, u64),
    ) -> Result<bool, ExecError> {
        self.hear(events)?;
        let Some(child) = &mut self.child else {
            return Ok(false);
        };
        let Some(status) = child.try_wait().map_err(outside)? else {
            return Ok(false);
        };
        self.child = None;
        self.hear(events)?;
        self.channel = None;
        let free = self.status[wire::FREE].load(Ordering::Relaxed) as usize;
        let back = self.take_back(pool, &status)?;
        self.take_in();
        if self.over {
            self.leaked = back.saturating_sub(self.said.free);
            // Frames that were sent to it last, and that it never took.
            let unread = &self.supply_words;
            let frames = shared::take_unread(&self.memory, self.member, &status, unread);
            pool.give_all(&mut frames.map_err(outside)?);
            // It may have been killed between its last word and its end.
            let words = self.ring_behind()?;
            let mut ring = spsc::Writer::attach(words).map_err(|e| ExecError(e.to_string()))?;
            if ring.finish() {
                self.wakers[1].wake();
            }
            return Ok(false);
        }
        let why = cause(&status);
        let up = self.ready.then_some(Duration::ZERO);
        if self.deaths.failed(Instant::now(), up).is_none() {
            return Err(ExecError(format!(
                "{} has died {}, now {why}",
                self.name, self.deaths
            )));
        }
        let (notices, flows) = open_flows();
        self.end.deaths += 1;
        self.end.frames_back += back as u64;
        self.end.flows_lost += flows;
        self.died_with += back.saturating_sub(free) as u64;
        say(format_args!(
            "warning: {} has died {why}: {back} frames came back, and it is started again; {flows} flows have lost their state in it",
            self.name
        ));
        self.spawn(&notices)?;
        Ok(true)
    }

    fn ring_behind(&self) -> Result<Words, ExecError> {
        let words = self.files[1].words(self.hello.rings[1], spsc::words_for(PLACES));
        words.map_err(outside)
    }

    /// Takes back all frames of the process that has ended so: how many.
    fn take_back(&mut self, pool: &mut FramePool, status: &ExitStatus) -> Result<usize, ExecError> {
        let mut frames = shared::reclaim(
            &self.memory,
            self.member,
            status,
            &[
                (self.writer, &self.to_it),
                (MemberId::MAIN, &self.supply_words),
            ],
            &[&self.from_it, &self.home_words],
        )
        .map_err(outside)?;
        let back = frames.len();
        pool.give_all(&mut frames);
        self.status[wire::FREE].store(0, Ordering::Relaxed);
        Ok(back)
    }

    /// Counts of it and its predecessors, as last reported. Losses are approximate until
    /// the balance of the run corrects them ([`account`]).
    pub(in super::super) fn report(&self) -> Report {
        let now = self.said.report(&self.stage);
        let mut report = Report::sum(&self.past_reports().chain([now]).collect::<Vec<_>>());
        if self.died_with > 0 {
            let died = (DriverDrop::StageDied.name().to_owned(), self.died_with);
            report.drops.push(died);
        }
        report
    }

    /// Counts of its predecessors, without open flows.
    fn past_reports(&self) -> impl Iterator<Item = Report> + '_ {
        self.past.iter().cloned().map(|mut report| {
            report.flows.active = 0;
            report.flows.units = 0;
            report
        })
    }

    /// Adds what it said last to what its predecessors counted.
    fn take_in(&mut self) {
        let said = std::mem::take(&mut self.said);
        self.past.push(said.report(&self.stage));
        self.lies.extend(said.lies([&self.stage]));
        self.busy_ns += said.busy_ns;
        self.refused.bursts += said.refused[0];
        self.refused.frames += said.refused[1];
        self.end.bad_descriptors += said.bad;
        self.said.free = said.free;
    }

    /// Counts of it and its predecessors.
    pub(in super::super) fn finish(&mut self, pool: &mut FramePool) -> ProcessDone {
        while self.home.take(&mut self.frames, BATCH) > 0 {
            pool.give_all(&mut self.frames);
        }
        let reports: Vec<Report> = self.past_reports().collect();
        self.end.bad_descriptors += self.home.bad();
        ProcessDone {
            report: Report::sum(&reports),
            lies: std::mem::take(&mut self.lies),
            busy: Duration::from_nanos(self.busy_ns),
            refused: self.refused,
            leaked: self.leaked,
            end: self.end.clone(),
        }
    }
}

/// The end of a stage's processes.
pub(in super::super) struct ProcessDone {
    pub(in super::super) report: Report,
    pub(in super::super) lies: Vec<Lie>,
    pub(in super::super) busy: Duration,
    pub(in super::super) refused: Refused,
    pub(in super::super) leaked: usize,
    pub(in super::super) end: ProcessEnd,
}

impl Drop for Process {
    fn drop(&mut self) {
        let Some(mut child) = self.child.take() else {
            return;
        };
        // The run ends early, or it is about to end by itself.
        self.channel = None;
        let until = Instant::now() + if self.over { PATIENCE } else { Duration::ZERO };
        while Instant::now() < until {
            if !matches!(child.try_wait(), Ok(None)) {
                return;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        let _ = child.kill();
        let _ = child.wait();
    }
}

/// Balances the counts of a run with dead stages: a dead stage loses its packets
/// and what it counted since its last report.
pub(in super::super) fn account(report: &mut Report) {
    let came = report.packets_in + report.emitted;
    let went = report.packets_out + report.dropped() + report.held;
    match came.checked_sub(went) {
        Some(0) => {}
        Some(lost) => report
            .drops
            .push((DriverDrop::StageDied.name().to_owned(), lost)),
        // Packets that it made and did not live to tell of.
        None => report.emitted += went - came,
    }
}
