//! The main process's side of a stage that is not trusted: starts its process
//! behind a border, hears no more of it than is good, and ends it where it does
//! what no stage does by itself.

use std::os::fd::AsFd as _;
use std::process::{Child, ExitStatus};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use weir_io::shared::border::{
    BorderSettings, MOST_WAIT, Offence, STALL, SharedBorder, Tenant as Domain, tenant_layout,
};
use weir_io::shared::{Bell, Channel, Words};
use weir_nf::host::{Stage, Target};
use weir_packet::{FramePool, MemoryLayout, Seat};
use weir_runtime::Report;

use super::super::super::cluster::ClusterError;
use super::super::super::crew::EventBox;
use super::super::Pace;
use super::claims::{Claims, printable};
use super::host::{BorderEnd, PATIENCE, ProcessDone, ProcessEnd};
use super::start::{Deaths, StageCommand, cause, outside};
use super::wire::{self, Hello};

/// How long it may take to be ready.
const READY: Duration = Duration::from_secs(60);
/// Longest message: all events of a burst.
const LONGEST: usize = 8 << 20;
/// Bytes of messages that are heard in a second, and at once; each message
/// costs some beside its own.
const HEARD: f64 = (32 << 20) as f64;
const MESSAGE: usize = 512;
/// Longest line of an event.
const LINE: usize = 64 << 10;
/// Messages are not looked for more often.
const OFTEN: Duration = Duration::from_millis(1);

/// How long others wait for a stage that is not trusted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Patience {
    /// In all, beside what it earns with packets that it is done with.
    pub wait: Duration,
    /// Until it is ended, with packets that it does not give back.
    pub stall: Duration,
    /// How long this process's threads sleep at most: it rings no bell of theirs.
    pub nap: Duration,
}

impl Patience {
    /// Between interfaces, where packets do not wait: 20 ms, 10 s, 1 ms. Packets
    /// for a stage that is asleep come through a little later.
    pub const LIVE: Patience = Patience {
        wait: Duration::from_millis(20),
        stall: STALL,
        nap: Duration::from_millis(1),
    };
}

impl Default for Patience {
    /// 5 s, 10 s and 50 µs.
    fn default() -> Patience {
        Patience {
            wait: MOST_WAIT,
            stall: STALL,
            nap: Duration::from_micros(50),
        }
    }
}

/// What the border of this stage lets through.
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
        most_wait: patience.wait,
        stall: patience.stall,
    }
}

/// What a tenant is to be.
pub(in super::super) struct WantTenant<'a> {
    pub(in super::super) name: String,
    pub(in super::super) place: (usize, usize),
    pub(in super::super) plan: &'a weir_graph::compile::Plan,
    pub(in super::super) stage: Stage,
    pub(in super::super) core: Option<usize>,
    pub(in super::super) pace: Pace,
    pub(in super::super) seed: u64,
    pub(in super::super) border: SharedBorder,
    pub(in super::super) command: StageCommand,
    /// Of the main memory.
    pub(in super::super) layout: MemoryLayout,
}

/// A tenant's process, or the one that took its place.
pub(in super::super) struct Tenant {
    name: String,
    stage: Stage,
    border: SharedBorder,
    command: StageCommand,
    hello: Hello,
    layout: MemoryLayout,
    child: Option<Child>,
    channel: Option<Channel>,
    status: Option<Words>,
    began: Instant,
    ready: bool,
    mail: u32,
    /// When messages were looked for, and what may be heard yet.
    heard: Instant,
    budget: f64,
    events: u64,
    /// What it and its predecessors say that they counted.
    claims: Claims,
    why: Option<String>,
    over: bool,
    gone: bool,
    deaths: Deaths,
    end: ProcessEnd,
}

impl Tenant {
    /// Starts its process.
    ///
    /// # Errors
    ///
    /// Where there is no memory or no process for it.
    pub(in super::super) fn start(want: WantTenant<'_>) -> Result<Tenant, ClusterError> {
        let layout = tenant_layout(&want.layout);
        let hello = Hello {
            seat: 1,
            layout: wire::layout_words(&layout),
            chain: want.place.0,
            step: want.place.1,
            plan: wire::number_of(want.plan),
            seed: want.seed,
            from: Seat::MAIN.number(),
            rings: [0; 4],
            status: 0,
            told: 0,
            yield_after: want.pace.yield_after,
            prefetch: want.pace.prefetch,
            core: want.core,
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
            ready: false,
            mail: 0,
            heard: now,
            budget: HEARD,
            events: 0,
            claims: Claims::default(),
            why: None,
            over: false,
            gone: false,
            deaths: Deaths::default(),
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
    fn spawn(&mut self, open_flows: impl FnOnce() -> (Vec<u8>, u64)) -> Result<u64, ClusterError> {
        let (ring, wait) = Bell::pair().map_err(outside)?;
        // Nobody here waits for what it has to say by a bell.
        let nobody = Bell::new().map_err(outside)?;
        let domain = Domain::new(self.layout, ring).map_err(outside)?;
        let files = domain.files().clone();
        let places = domain.places();
        (self.hello.rings, self.hello.status) = (places.rings, places.status);
        self.status = Some(domain.status().map_err(outside)?);
        // What it is told of is open at a time when notices reach it already.
        self.border.lock().admit(domain);
        let (told, flows) = open_flows();
        let files = [
            files[0].as_fd(),
            files[1].as_fd(),
            wait.as_fd(),
            nobody.as_fd(),
        ];
        let started = self
            .command
            .start(&self.name, &mut self.hello, files, &told, LONGEST);
        let (child, channel) = started?;
        self.child = Some(child);
        self.channel = Some(channel);
        (self.ready, self.why, self.mail) = (false, None, 0);
        self.began = Instant::now();
        Ok(flows)
    }

    pub(in super::super) fn is_ready(&self) -> bool {
        self.ready || self.over || self.gone
    }

    /// Number of its step in the plan.
    pub(in super::super) fn step(&self) -> usize {
        self.end.place.1
    }

    /// True where it has ended, as it should or for good.
    pub(in super::super) fn is_over(&self) -> bool {
        self.child.is_none() && (self.over || self.gone)
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
                wire::READY if !self.ready => {
                    self.ready = true;
                    true
                }
                wire::EVENTS if self.ready => match lines(&message.bytes) {
                    Some(count) => {
                        self.events += count;
                        events.add(&message.bytes);
                        true
                    }
                    None => false,
                },
                wire::REPORT => {
                    self.claims.hear(message.bytes);
                    true
                }
                wire::END if self.border.lock().may_end() => {
                    self.claims.hear(message.bytes);
                    self.over = true;
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
            return;
        };
        {
            let mut border = self.border.lock();
            let slow = !self.ready && now.saturating_duration_since(self.began) > READY;
            if slow || self.ready && border.is_stalled(now) {
                border.expel_for(Offence::Stalled);
            }
            let late = self.over && now.saturating_duration_since(self.heard) > PATIENCE;
            if border.offence().is_some() || late {
                // It is looked after when it is over.
                let _ = child.kill();
            }
        }
        let status = match child.try_wait() {
            Ok(Some(status)) => status,
            Ok(None) => return,
            Err(_) => {
                self.give_up();
                return;
            }
        };
        self.child = None;
        self.hear(events, now);
        (self.channel, self.status) = (None, None);
        let offence = self.border.lock().offence();
        self.border.lock().expel();
        self.claims.take_in(&self.stage);
        if self.over {
            return;
        }
        self.end.deaths += 1;
        let too_often = self.deaths.add(now, self.ready);
        let why = why(&status, offence, self.why.as_deref());
        if self.border.lock().may_end() {
            // Nothing is left for another one to do.
            self.over = true;
            eprintln!("warning: {}, which is not trusted, {why}", self.name);
            return;
        }
        if too_often {
            eprintln!(
                "warning: {}, which is not trusted, {why}: it is not started again, and its packets are dropped",
                self.name
            );
            self.give_up();
            return;
        }
        match self.spawn(open_flows) {
            Ok(flows) => {
                self.end.flows_lost += flows;
                eprintln!(
                    "warning: {}, which is not trusted, {why}: it is started again; {flows} flows have lost their state in it",
                    self.name
                );
            }
            Err(error) => {
                eprintln!("warning: {error}: packets of {} are dropped", self.name);
                self.give_up();
            }
        }
    }

    fn give_up(&mut self) {
        self.gone = true;
        self.border.lock().give_up();
    }

    /// What it and its predecessors counted: what the border saw, and what they
    /// said beside it where that agrees.
    pub(in super::super) fn report(&mut self) -> Report {
        let counts = *self.border.lock().counts();
        let mut report = self.claims.report(&self.stage);
        report.chain.clone_from(&self.stage.chain);
        report.flows.active = 0;
        report.flows.units = 0;
        (report.packets_in, report.packets_out) = (counts.came, counts.went);
        (report.emitted, report.held) = (counts.made, 0);
        report.emits_lost += counts.made_too_many;
        if report.dropped() > counts.dropped {
            report.drops.clear();
        }
        let unnamed = counts.dropped - report.dropped();
        let names = [
            ("tenant_dropped", unnamed),
            ("tenant_stalled", counts.stalled),
            ("tenant_refused", counts.refused),
            ("tenant_gone", counts.gone),
            ("stage_died", counts.died),
        ];
        let names = names.into_iter().filter(|(_, count)| *count > 0);
        let names = names.map(|(name, count)| (name.to_owned(), count));
        report.drops.extend(names);
        report
    }

    /// What it and its predecessors did, when all is over.
    pub(in super::super) fn finish(&mut self, pool: &mut FramePool) -> ProcessDone {
        self.border.lock().clear(pool);
        let counts = *self.border.lock().counts();
        self.end.border = Some(BorderEnd {
            counts,
            gone: self.gone,
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
fn why(status: &ExitStatus, offence: Option<Offence>, said: Option<&str>) -> String {
    if let Some(offence) = offence {
        return format!("was ended for {}", offence.name());
    }
    if let Some(said) = said {
        return format!("gave up: {said}");
    }
    format!("died {}", cause(status))
}

/// How many events these lines are; `None` where they are no whole lines with
/// an object of JSON each.
fn lines(text: &[u8]) -> Option<u64> {
    let text = text.strip_suffix(b"\n")?;
    let mut count = 0;
    for line in text.split(|byte| *byte == b'\n') {
        if line.len() > LINE || line.first() != Some(&b'{') {
            return None;
        }
        let _: serde::de::IgnoredAny = serde_json::from_slice(line).ok()?;
        count += 1;
    }
    Some(count)
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

    #[test]
    fn events_are_whole_lines_of_json() {
        assert_eq!(lines(b"{\"a\":1}\n{}\n"), Some(2));
        for bad in [
            &b""[..],
            b"{}",
            b"\n",
            b"{}\n\n",
            b"[1]\n",
            b"{}x\n",
            b"{\"\x01\":1}\n",
        ] {
            assert_eq!(lines(bad), None, "{bad:?}");
        }
        let long = format!("{{\"a\":\"{}\"}}\n", "x".repeat(LINE));
        assert_eq!(lines(long.as_bytes()), None);
    }
}
