//! The main process's side of a stage that is not trusted: starts its process
//! behind a border, hears no more of it than is good, and ends it where it does
//! what no stage does by itself.

use std::os::fd::AsFd as _;
use std::process::{Child, ExitStatus};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use weir_ctl::DriverDrop;
use weir_ctl::command::StageProcessCounts;
use weir_ctl::observe::Unseen;
use weir_io::shared::border::{
    BorderSettings, MOST_WAIT, Offence, STALL, SharedBorder, Tenant as Domain, tenant_layout,
};
use weir_io::shared::{Channel, Waker, Words};
use weir_nf::host::{Stage, Target};
use weir_packet::{FramePool, MemberId, MemoryLayout};
use weir_runtime::Report;

use super::super::super::executor::EventBox;
use super::super::super::process::{ProcessCommand, Start, TENANT, cause, layout_words, outside};
use super::super::pace::Pace;
use super::allowance::Allowance;
use super::claims::{Claims, printable};
use super::host::{BorderEnd, PATIENCE, ProcessDone, ProcessEnd};
use super::wire::{self, Hello};
use crate::say::say;
use weir_exec::{ExecError, Restarts};

/// How long it may take to be ready.
const READY: Duration = Duration::from_secs(60);
/// Longest message: what it has counted; events are in shorter ones.
const LONGEST: usize = 8 << 20;
const _: () = assert!(wire::LONGEST_EVENTS < LONGEST);
/// Bytes of messages that are heard in a second, and at once; each message
/// costs some beside its own.
const HEARD: f64 = (32 << 20) as f64;
const MESSAGE: usize = 512;
/// Messages are not looked for more often.
const OFTEN: Duration = Duration::from_millis(1);

/// How long others wait for a stage that is not trusted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Patience {
    /// In all, beside what it earns with packets that it is done with.
    pub wait: Duration,
    /// Until it is ended, with packets that it does not give back.
    pub stall: Duration,
    /// True if packets for the stage wait while it starts; else they are dropped.
    pub start: bool,
    /// How long this process's threads sleep at most: it rings no waker of theirs.
    pub nap: Duration,
}

impl Patience {
    /// Between interfaces, where packets do not wait: 20 ms, 10 s, 1 ms. Packets
    /// for a stage that is asleep come through a little later.
    pub const LIVE: Patience = Patience {
        wait: Duration::from_millis(20),
        stall: STALL,
        start: false,
        nap: Duration::from_millis(1),
    };
}

impl Default for Patience {
    /// 5 s, 10 s, a start too, and 50 µs.
    fn default() -> Patience {
        Patience {
            wait: MOST_WAIT,
            stall: STALL,
            start: true,
            nap: Duration::from_micros(50),
        }
    }
}

/// Limits of this stage's border.
pub(in super::super) fn border_settings(stage: &Stage, patience: Patience) -> BorderSettings {
    let first = stage.first.saturating_add(1);
    let count = u8::try_from(stage.nodes.len()).unwrap_or(u8::MAX);
    let mut exits: Vec<u8> = Vec::new();
    let (mut writes, mut makes) = (false, false);
    for node in &stage.nodes {
        let descriptor = node.processor.descriptor();
        writes |= descriptor.writes != weir_nf::Parts::NONE;
        makes |= descriptor.emits;
        exits.extend(node.next.iter().filter_map(|next| match next {
            Target::Out => Some(0),
            Target::Later(number) => Some(number.saturating_add(1)),
            Target::Node(_) | Target::Drop => None,
        }));
    }
    BorderSettings {
        stage: first..=first.saturating_add(count).saturating_sub(1),
        exits,
        writes,
        makes,
        waits_for_start: patience.start,
        most_wait: patience.wait,
        stall: patience.stall,
    }
}

/// Settings of a tenant.
pub(in super::super) struct WantTenant {
    pub(in super::super) name: String,
    pub(in super::super) place: (usize, usize),
    /// Stands for the chains of the run.
    pub(in super::super) chains: u64,
    pub(in super::super) stage: Stage,
    pub(in super::super) core: Option<usize>,
    pub(in super::super) pace: Pace,
    /// Of the run; the process is told another one.
    pub(in super::super) seed: u64,
    /// True if the run writes events.
    pub(in super::super) events: bool,
    pub(in super::super) border: SharedBorder,
    pub(in super::super) command: ProcessCommand,
    /// Of the main memory.
    pub(in super::super) layout: MemoryLayout,
}

/// A tenant's process, or the one that took its place.
pub(in super::super) struct Tenant {
    name: String,
    stage: Stage,
    border: SharedBorder,
    command: ProcessCommand,
    hello: Hello,
    layout: MemoryLayout,
    child: Option<Child>,
    channel: Option<Channel>,
    status: Option<Words>,
    began: Instant,
    /// Since when it is ready.
    ready: Option<Instant>,
    mail: u32,
    /// When messages were looked for, and what may be heard yet.
    heard: Instant,
    budget: f64,
    events: Allowance,
    /// Counts that it and its predecessors reported.
    claims: Claims,
    why: Option<String>,
    /// Since when it has nothing left to do.
    over: Option<Instant>,
    gone: bool,
    restarts: Restarts,
    /// When the next one is started.
    again: Option<Instant>,
    end: ProcessEnd,
}

impl Tenant {
    /// As [`super::Process::have_chains`]: its own functions are the same.
    pub(in super::super) fn have_chains(&mut self, digest: u64) {
        self.hello.chains = digest;
    }

    /// Starts its process.
    ///
    /// # Errors
    ///
    /// The machine has no memory or no process left.
    pub(in super::super) fn start(want: WantTenant) -> Result<Tenant, ExecError> {
        let layout = tenant_layout(&want.layout);
        let hello = Hello {
            member: 1,
            layout: layout_words(&layout),
            chain: want.place.0,
            step: want.place.1,
            chains: want.chains,
            seed: seed_of(want.seed, want.place),
            from: MemberId::MAIN.number(),
            rings: [0; 4],
            status: 0,
            open_flows_bytes: 0,
            yield_after: want.pace.yield_after,
            prefetch: want.pace.prefetch,
            core: want.core,
            first: false,
            tenant: true,
        };
        let now = Instant::now();
        let mut tenant = Tenant {
            name: want.name,
            stage: want.stage,
            border: want.border,
            command: want.command,
            hello,
            layout,
            child: None,
            channel: None,
            status: None,
            began: now,
            ready: None,
            mail: 0,
            heard: now,
            budget: HEARD,
            events: Allowance::new(want.events),
            claims: Claims::default(),
            why: None,
            over: None,
            gone: false,
            restarts: Restarts::new(TENANT),
            again: None,
            end: ProcessEnd {
                place: want.place,
                deaths: 0,
                frames_back: 0,
                flows_lost: 0,
                bad_descriptors: 0,
                border: None,
            },
        };
        tenant.spawn(|| (Vec::new(), 0))?;
        Ok(tenant)
    }

    /// Starts a process with memory and rings of its own: how many flows it
    /// was told of.
    fn spawn(&mut self, open_flows: impl FnOnce() -> (Vec<u8>, u64)) -> Result<u64, ExecError> {
        let (ring, wait) = Waker::pair().map_err(outside)?;
        // Nobody here waits for what it has to say by a waker.
        let nobody = Waker::new().map_err(outside)?;
        let domain = Domain::new(self.layout, ring).map_err(outside)?;
        let files = domain.files().clone();
        let places = domain.places();
        (self.hello.rings, self.hello.status) = (places.rings, places.status);
        self.status = Some(domain.status().map_err(outside)?);
        // The notices of these flows are taken when later notices reach it already.
        self.border.lock().admit(domain);
        let (notices, flows) = open_flows();
        let flows_file = self.hello.open_flows(&notices)?;
        let files = [
            files[0].as_fd(),
            files[1].as_fd(),
            wait.as_fd(),
            nobody.as_fd(),
            flows_file.as_fd(),
        ];
        let (child, channel) = self.command.start(Start {
            name: &self.name,
            hello: self.hello.message()?,
            files: &files,
            longest: LONGEST,
            bare: true,
        })?;
        self.child = Some(child);
        self.channel = Some(channel);
        (self.ready, self.why, self.mail) = (None, None, 0);
        self.began = Instant::now();
        Ok(flows)
    }

    pub(in super::super) fn is_ready(&self) -> bool {
        self.ready.is_some() || self.over.is_some() || self.gone
    }

    /// Number of its step in the plan.
    pub(in super::super) fn step(&self) -> usize {
        self.end.place.1
    }

    /// Not shown by traces and taps: its process can't be trusted to tell of packets.
    pub(in super::super) fn unseen(&self) -> Unseen {
        let nodes = self.stage.nodes.iter();
        Unseen {
            stage: self.name.clone(),
            functions: nodes.map(|node| node.name.clone()).collect(),
        }
    }

    /// How it stands.
    pub(in super::super) fn counts(&self) -> StageProcessCounts {
        let state = match (self.gone, self.over, self.ready) {
            (true, ..) => "given up",
            (_, Some(_), _) => "over",
            (_, _, Some(_)) if self.child.is_some() => "ready",
            _ => "starting",
        };
        StageProcessCounts {
            trusted: false,
            ..self.end.counts(&self.stage, state)
        }
    }

    /// True where it has ended, as it should or for good.
    pub(in super::super) fn is_over(&self) -> bool {
        self.child.is_none() && (self.over.is_some() || self.gone)
    }

    /// Keeps the balance of frames, and hears what it says. Cheap where that is
    /// nothing.
    pub(in super::super) fn attend(&mut self, pool: &mut FramePool, events: &EventBox) {
        {
            let mut border = self.border.lock();
            border.hear();
            border.settle(pool);
        }
        // A hint, no more: whoever writes there is not trusted.
        let status = self.status.as_ref();
        let mail = status.map_or(0, |status| status[wire::MAIL].load(Ordering::Acquire));
        if mail != self.mail {
            let now = Instant::now();
            if now.saturating_duration_since(self.heard) >= OFTEN {
                self.mail = mail;
                self.hear(events, now);
            }
        }
    }

    fn hear(&mut self, events: &EventBox, now: Instant) {
        let since = now.saturating_duration_since(self.heard).as_secs_f64();
        self.heard = now;
        self.budget = (self.budget + since * HEARD).min(HEARD);
        while self.budget > 0.0
            && let Some(channel) = &mut self.channel
        {
            let message = match channel.receive(false) {
                Ok(Some(message)) => message,
                // The socket's end shows in how the process ends; one that
                // closes it and lives on stalls.
                Ok(None) => return,
                Err(_) => return self.offend(Offence::BadMessage),
            };
            // None is of use here.
            while channel.take_fd().is_some() {}
            self.budget -= (message.bytes.len() + MESSAGE) as f64;
            let good = match message.kind {
                wire::READY if self.ready.is_none() => {
                    self.ready = Some(now);
                    self.border.lock().begin();
                    true
                }
                wire::EVENTS if self.ready.is_some() => {
                    let counts = *self.border.lock().counts();
                    let shown = [counts.lent, counts.told_bytes];
                    let lets = self.events.lets(shown, &message.bytes);
                    if lets == Some(true) {
                        events.add(&message.bytes);
                    }
                    lets.is_some()
                }
                wire::REPORT => {
                    self.claims.hear(message.bytes);
                    true
                }
                wire::END if self.border.lock().may_end() => {
                    self.claims.hear(message.bytes);
                    self.over = Some(now);
                    true
                }
                wire::FAILED => {
                    let text = String::from_utf8_lossy(&message.bytes);
                    self.why = Some(printable(&text));
                    true
                }
                _ => false,
            };
            if !good {
                return self.offend(Offence::BadMessage);
            }
        }
        // The rest waits in the socket.
        self.mail = self.mail.wrapping_sub(1);
    }

    fn offend(&mut self, offence: Offence) {
        self.border.lock().expel_for(offence);
    }

    /// Looks whether it has ended, or is to be ended: one that died is started
    /// again, and told of the flows that are open, unless it dies too often.
    pub(in super::super) fn look_after(
        &mut self,
        events: &EventBox,
        open_flows: impl FnOnce() -> (Vec<u8>, u64),
    ) {
        let now = Instant::now();
        self.hear(events, now);
        let Some(child) = &mut self.child else {
            return self.start_again(now, open_flows);
        };
        {
            let mut border = self.border.lock();
            border.mind(now);
            let slow = self.ready.is_none() && now.saturating_duration_since(self.began) > READY;
            if slow || self.ready.is_some() && border.is_stalled(now) {
                border.expel_for(Offence::Stalled);
            }
            let late = |since| now.saturating_duration_since(since) > PATIENCE;
            if border.offence().is_some() || self.over.is_some_and(late) {
                // It is looked after when it is over.
                let _ = child.kill();
            }
        }
        let status = match child.try_wait() {
            Ok(Some(status)) => Some(status),
            Ok(None) => return,
            // It is no more, and somebody else was told how it ended. Its number
            // may be another's by now: it is not killed.
            Err(_) => None,
        };
        self.child = None;
        self.hear(events, now);
        (self.channel, self.status) = (None, None);
        let offence = self.border.lock().offence();
        self.border.lock().expel();
        self.claims.take_in(&self.stage);
        if self.over.is_some() {
            return;
        }
        self.end.deaths += 1;
        let why = why(status.as_ref(), offence, self.why.as_deref());
        let said = format!("warning: {}, which is not trusted, {why}", self.name);
        let worked = self.ready.map(|since| now.saturating_duration_since(since));
        if self.border.lock().may_end() {
            // Nothing is left for another one to do.
            self.over = Some(now);
            say(&said);
            return;
        }
        let Some(pause) = self.restarts.failed(Instant::now(), worked) else {
            say(format_args!(
                "{said}: it is not started again, and its packets are dropped"
            ));
            return self.give_up();
        };
        match pause.as_secs() {
            0 => say(format_args!("{said}: it is started again")),
            pause => say(format_args!("{said}: it is started again in {pause} s")),
        }
        self.again = Some(now + pause);
        self.start_again(now, open_flows);
    }

    /// Starts the next process, when it is time for that.
    fn start_again(&mut self, now: Instant, open_flows: impl FnOnce() -> (Vec<u8>, u64)) {
        if self.again.is_none_or(|again| now < again) {
            if self.again.is_some() && self.border.lock().may_end() {
                (self.over, self.again) = (Some(now), None);
            }
            return;
        }
        self.again = None;
        match self.spawn(open_flows) {
            Ok(flows) => {
                self.end.flows_lost += flows;
                say(format_args!(
                    "warning: {flows} flows have lost their state in {}",
                    self.name
                ));
            }
            Err(error) => {
                say(format_args!(
                    "warning: {error}: packets of {} are dropped",
                    self.name
                ));
                self.give_up();
            }
        }
    }

    fn give_up(&mut self) {
        self.gone = true;
        self.border.lock().give_up();
    }

    /// Counts of it and its predecessors: those of the border, and their reports where
    /// these agree with it.
    pub(in super::super) fn report(&mut self) -> Report {
        let counts = *self.border.lock().counts();
        let mut report = self.claims.report(&self.stage);
        report.chain.clone_from(&self.stage.chain);
        report.flows.active = 0;
        report.flows.units = 0;
        (report.packets_in, report.packets_out) = (counts.came, counts.went);
        (report.emitted, report.held) = (counts.made, 0);
        report.emits_lost += counts.made_too_many;
        report.events = self.events.through().unwrap_or(report.events);
        report.events_lost += self.events.refused();
        if report.dropped() > counts.dropped {
            report.drops.clear();
        }
        let unnamed = counts.dropped - report.dropped();
        let names = [
            (DriverDrop::TenantDropped, unnamed),
            (DriverDrop::TenantStalled, counts.stalled),
            (DriverDrop::TenantRefused, counts.refused),
            (DriverDrop::TenantGone, counts.gone),
            (DriverDrop::StageDied, counts.died),
        ];
        let names = names.into_iter().filter(|(_, count)| *count > 0);
        let names = names.map(|(why, count)| (why.name().to_owned(), count));
        report.drops.extend(names);
        report
    }

    /// Counts of it and its predecessors, at the end.
    pub(in super::super) fn finish(&mut self, pool: &mut FramePool) -> ProcessDone {
        self.border.lock().clear(pool);
        let counts = *self.border.lock().counts();
        self.end.border = Some(BorderEnd {
            counts,
            gone: self.gone,
            events_refused: self.events.refused(),
        });
        ProcessDone {
            report: self.report(),
            lies: self.claims.take_lies(),
            busy: self.claims.busy(),
            refused: self.claims.refused(),
            leaked: 0,
            end: self.end.clone(),
        }
    }
}

/// Why a process is no more, for people.
fn why(status: Option<&ExitStatus>, offence: Option<Offence>, said: Option<&str>) -> String {
    if let Some(offence) = offence {
        return format!("was ended for {}", offence.name());
    }
    if let Some(said) = said {
        return format!("gave up: {said}");
    }
    let cause = status.map_or_else(|| "somehow".to_owned(), cause);
    format!("died {cause}")
}

/// The seed of a process that is not trusted, of which the run's can't be told:
/// with that one the flow table is hashed, and who knows it can choose flows
/// that collide there. It follows from the run's all the same, so that a run
/// with the same seed is the same. What a later stage does with it are the
/// hashes of its own tables and the numbers that its functions draw; functions
/// whose results hang on the run's seed name flows anew, and stay in the first
/// stage.
fn seed_of(run: u64, (chain, step): (usize, usize)) -> u64 {
    let seed = run.to_le_bytes();
    let mut key = [0; 16];
    key[..8].copy_from_slice(&seed);
    weir_protocol::Key(key).tag(format!("tenant {chain} {step}").as_bytes())
}

impl Drop for Tenant {
    fn drop(&mut self) {
        let Some(mut child) = self.child.take() else {
            return;
        };
        let _ = child.kill();
        let _ = child.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Nothing;

    impl weir_nf::Sources for Nothing {
        fn text(&mut self, name: &str) -> Result<String, String> {
            Err(format!("there is no {name}"))
        }
    }

    /// A tenant whose process is this program.
    fn tenant(program: &str, argument: &str) -> Tenant {
        let input = weir_graph::Input {
            name: "chain.yaml",
            text: "chain: c\nnfs: [ip-check, monitor]\nplan: {untrusted: monitor}\n",
            kinds: weir_functions::kinds(),
            overrides: &[],
            seed: 1,
        };
        let file = weir_graph::load(&input, &mut Nothing).unwrap();
        let chain = &file.chains[0];
        let plan = weir_graph::compile::compile("c", &chain.graph, &chain.plan).unwrap();
        let stage = plan.stages(&chain.stage).unwrap()[1][0].clone();
        let layout = MemoryLayout {
            small_frames: 64,
            large_frames: 0,
            ..MemoryLayout::default()
        };
        let memory = weir_packet::PacketMemory::new(layout, weir_packet::no_advice);
        let settings = border_settings(&stage, Patience::default());
        let border = weir_io::shared::border::Border::new(settings, &memory);
        let (output, _, border) = weir_io::shared::border::ports(border);
        // Nothing is ever given to it.
        drop(output);
        let want = WantTenant {
            name: "stage".to_owned(),
            place: (0, 1),
            chains: 1,
            stage,
            core: None,
            pace: Pace::default(),
            seed: 1,
            events: true,
            border,
            command: ProcessCommand {
                program: program.into(),
                arguments: vec![argument.into()],
            },
            layout,
        };
        Tenant::start(want).unwrap()
    }

    fn look_until_over(tenant: &mut Tenant) {
        let until = Instant::now() + Duration::from_secs(60);
        while !tenant.is_over() {
            assert!(Instant::now() < until, "it is never over");
            tenant.look_after(&EventBox::default(), || (Vec::new(), 0));
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// As where signals of children are ignored.
    #[test]
    fn one_whose_end_is_not_told_is_over() {
        let mut tenant = tenant("true", "");
        let pid = tenant.child.as_ref().unwrap().id() as i32;
        let pid = rustix::process::Pid::from_raw(pid);
        rustix::process::waitpid(pid, rustix::process::WaitOptions::empty()).unwrap();
        look_until_over(&mut tenant);
        assert_eq!(tenant.end.deaths, 1);
    }

    #[test]
    fn one_that_lives_on_after_its_last_word_is_ended() {
        let mut tenant = tenant("sleep", "1000");
        tenant.over = Instant::now().checked_sub(2 * PATIENCE);
        assert!(tenant.over.is_some());
        look_until_over(&mut tenant);
        assert_eq!(tenant.end.deaths, 0);
    }

    #[test]
    fn seeds_are_not_the_runs_and_stay_the_same() {
        let seed = seed_of(7, (0, 1));
        assert_eq!(seed, seed_of(7, (0, 1)));
        assert!(![7, seed_of(8, (0, 1)), seed_of(7, (0, 2))].contains(&seed));
    }
}
