//! Looks after the switch's process, and those that stand by: tells them how the hosts stand, passes
//! signals on, and starts another one where one dies.

use std::fs::File;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Child, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde::Serialize;
use weir_ctl::events::{About, Events, What};
use weir_ctl::hosts::{HostState, Hosts, SwitchState};
use weir_ctl::ledger::Ledger;
use weir_exec::Restarts;
use weir_io::live::{EndSignals, Hangups, Waiter};
use weir_io::shared::Channel;
use weir_protocol::Key;

use crate::driver::process_cause;
use crate::exit::{Exit, Failure, Outcome};
use crate::say::say;
use crate::service::{Part, Service};
use crate::{seed, service};

use super::super::signals::{ONE_SIGNAL, end_signals};
use super::agents::SUCCESSOR;
use super::programs::ProgramsOfRun;
use super::words::{
    BEGIN, Begin, DIED, DiedTold, HAPPENED, HOST, HappenedTold, HostTold, LONGEST, OVER_WORD,
};
use crate::mark::Mark;

/// Longest time until a switch hears how a host stands.
const LOOK: Duration = Duration::from_millis(20);
/// Interval in which the manager of a share hears what this does.
const TELL: Duration = Duration::from_secs(1);
/// Longest time without a switch that the service manager is not told of: one takes over meanwhile.
const UNTOLD: Duration = Duration::from_secs(30);

/// What all switches of a run have in common.
pub(super) struct Plan {
    pub(super) key: Key,
    pub(super) seed: u64,
    pub(super) hosts: Hosts,
    pub(super) happened: Events,
    /// Names of the hosts whose switches are started here: the first is to run, the others stand by.
    pub(super) switches: Vec<String>,
    /// Other machines look after other hosts: which switch runs, agents decide.
    pub(super) is_part: bool,
    /// File with the number of this process, where one was asked for.
    pub(super) process_file: Option<PathBuf>,
    /// Why no switch can go on where one has died.
    pub(super) no_other: Option<String>,
    /// What switches and agents run.
    pub(super) programs: ProgramsOfRun,
    /// The ledger that all switches count in, one after another; none where no switch is started here.
    pub(super) ledger: Option<Ledger>,
}

/// Runs switches until one ends by itself.
pub(super) fn run(plan: &Plan) -> Outcome {
    let failed = |error: std::io::Error| Failure::outside(format!("can't start a switch: {error}"));
    let mut watch = Watch {
        plan,
        signals: end_signals()?,
        hangups: Hangups::open().map_err(failed)?,
        mark: Mark::create().map_err(failed)?,
        began: Instant::now(),
        seats: plan.switches.iter().map(|host| Seat::new(host)).collect(),
        has_run: false,
        told_to_end: None,
        service: Service::of_process(),
        without: Instant::now(),
        part: None,
        part_told: None,
    };
    if watch.seats.is_empty() {
        watch.part = Some(Part::Agent);
    }
    loop {
        watch.tell_part();
        if let Some(outcome) = watch.round()? {
            if watch.told_to_end.is_none() && matches!(outcome, Ok(Exit::Done)) {
                watch.part = watch.part.map(|_| Part::Over);
                watch.part_told = None;
                watch.tell_part();
                watch.write_over();
            }
            return outcome;
        }
    }
}

/// How the run has ended; `None` where the switch has died.
fn exit_of(status: ExitStatus) -> Option<Exit> {
    let all = [Exit::Done, Exit::Failed, Exit::Usage, Exit::Chain];
    let exits = all.into_iter();
    let mut exits = exits.filter(|exit| status.code() == Some(*exit as i32));
    exits.next()
}

struct Watch<'a> {
    plan: &'a Plan,
    signals: EndSignals,
    /// Passed on: the switch has the event file.
    hangups: Hangups,
    mark: Mark,
    began: Instant,
    /// By host with a switch. Where there are several, the first is to run.
    seats: Vec<Seat>,
    /// A switch has run.
    has_run: bool,
    /// When the switches were told to end, the last time.
    told_to_end: Option<Instant>,
    service: Service,
    /// When there was last a switch that runs.
    without: Instant,
    /// What this machine's share does, where it is one of several, and when its manager heard that.
    part: Option<Part>,
    part_told: Option<Instant>,
}

/// A host that has a switch, as this process looks after it.
struct Seat {
    host: String,
    switch: Option<Switch>,
    restarts: Restarts,
    /// When a switch is to start.
    start_at: Instant,
    /// Start number of the last switch here.
    start: Option<u32>,
    /// Why that one ended, until its successor was told.
    died: Option<String>,
    /// The number of the last event that it was told.
    noted: Option<u64>,
    /// The switch here has handed over, so that another program takes its place.
    hands_over: bool,
    /// The switch here is to be started anew, as it stands by with the program before.
    is_old: bool,
    /// What the next switch here is, where it takes the place of another program's.
    upgraded: Option<String>,
}

struct Switch {
    child: Child,
    channel: Channel,
    since: Instant,
    /// It runs, and does not stand by.
    is_ready: bool,
    /// The hosts as it was told of them, and the number of the last event that it was told.
    told: Vec<HostState>,
    noted: u64,
}

impl Seat {
    fn new(host: &str) -> Seat {
        Seat {
            host: host.to_owned(),
            switch: None,
            restarts: Restarts::new(SUCCESSOR),
            start_at: Instant::now(),
            start: None,
            died: None,
            noted: None,
            hands_over: false,
            is_old: false,
            upgraded: None,
        }
    }

    /// Plans the next start after a pause of `least` or more, and gives it. The switch was at work for
    /// `up`, or never began.
    fn pause(&mut self, up: Option<Duration>, least: Duration) -> Duration {
        let now = Instant::now();
        let pause = self.restarts.failed(now, up).unwrap_or(SUCCESSOR.longest);
        let pause = pause.max(least);
        self.start_at = now + pause;
        pause
    }

    fn runs(&self) -> bool {
        self.switch.as_ref().is_some_and(|switch| switch.is_ready)
    }
}

impl Watch<'_> {
    /// Does what is due, and waits for more. The end of the run, if it has come.
    fn round(&mut self) -> Result<Option<Outcome>, Failure> {
        let failed =
            |error: std::io::Error| Failure::outside(format!("can't wait for the switch: {error}"));
        for at in 0..self.seats.len() {
            self.start_if_due(at)?;
            if let Some(outcome) = self.attend(at).map_err(failed)? {
                return Ok(Some(outcome));
            }
        }
        let runs = |seat: &Seat| seat.runs() && !seat.hands_over;
        match self.seats.is_empty() || self.seats.iter().any(runs) {
            true => {
                self.without = Instant::now();
                self.renew_those_that_stand_by();
            }
            false => self.stand_in(),
        }
        self.pass_signals_on();
        let is_over = self.seats.iter().all(|seat| seat.switch.is_none());
        if self.told_to_end.is_some() && is_over {
            return Ok(Some(match self.has_run {
                // One that ran has said so at its end.
                true => Err(Failure::outside("ended while there was no switch")),
                false => Ok(Exit::Done),
            }));
        }
        let now = Instant::now();
        let due = self.seats.iter().filter(|seat| seat.switch.is_none());
        let due = due.map(|seat| seat.start_at.saturating_duration_since(now));
        let nap = due
            .min()
            .unwrap_or(LOOK)
            .clamp(Duration::from_millis(1), LOOK);
        let mut descriptors = vec![self.signals.as_fd(), self.hangups.as_fd()];
        let switches = self.seats.iter().filter_map(|seat| seat.switch.as_ref());
        descriptors.extend(switches.map(|switch| switch.channel.as_fd()));
        Waiter::default().sleep(&descriptors, nap).map_err(failed)?;
        Ok(None)
    }

    /// Starts the switch of a seat when it is time. Those that stand by come when the first runs.
    fn start_if_due(&mut self, at: usize) -> Result<(), Failure> {
        let now = Instant::now();
        let may = at == 0 || self.has_run;
        let seat = self.seats.get(at);
        let due = seat.is_some_and(|seat| seat.switch.is_none() && seat.start_at <= now);
        if !may || !due || self.told_to_end.is_some() {
            return Ok(());
        }
        let failed =
            |error: std::io::Error| Failure::outside(format!("can't start a switch: {error}"));
        let is_first = self.seats.iter().all(|seat| seat.start.is_none());
        let switch = match self.start(at) {
            Ok(switch) => switch,
            Err(error) if is_first => return Err(failed(error)),
            // The runtimes go on meanwhile, and so does a switch of another host.
            Err(error) => {
                self.start_later(at, &error);
                return Ok(());
            }
        };
        self.show(at, switch.child.id(), false);
        if let Some(seat) = self.seats.get_mut(at) {
            seat.switch = Some(switch);
        }
        Ok(())
    }

    /// The machine had no process or descriptor for a switch: it may have one in a while.
    fn start_later(&mut self, at: usize, error: &std::io::Error) {
        let Some(seat) = self.seats.get_mut(at) else {
            return;
        };
        let pause = seat.pause(None, LOOK);
        say(format_args!(
            "warning: host {}: can't start a switch: {error}; it is tried again in {:.1} s",
            seat.host,
            pause.as_secs_f64()
        ));
    }

    fn start(&mut self, at: usize) -> std::io::Result<Switch> {
        let (ours, theirs) = UnixStream::pair()?;
        let mut words = std::env::args_os().skip(1);
        let (program, former) = self.plan.programs.current()?;
        let mut command = program.command();
        crate::kept::pass_on(&mut command);
        let child = command
            // `up`, and before the words of the user.
            .args(words.next())
            .args(["--switch", &std::process::id().to_string()])
            .args(words)
            // The manager has named this process.
            .env_remove("WATCHDOG_PID")
            .stdin(Stdio::from(OwnedFd::from(theirs)))
            // A terminal's signals are for this process, which passes them on.
            .process_group(0)
            .spawn()?;
        let mut switch = Switch {
            child,
            channel: Channel::new(ours, LONGEST),
            since: Instant::now(),
            is_ready: false,
            told: self.plan.hosts.list(),
            noted: self.plan.happened.newest(),
        };
        let start = seed::random() as u32;
        let Some(seat) = self.seats.get_mut(at) else {
            return Ok(switch);
        };
        if let Some(noted) = seat.noted {
            switch.noted = noted;
        }
        let before = seat.start.replace(start);
        let hosts = (0..).zip(switch.told.clone());
        let begin = Begin {
            key: self.plan.key.0,
            seed: self.plan.seed,
            hosts: hosts
                .map(|(place, host)| HostTold::of(place, host))
                .collect(),
            host: seat.host.clone(),
            since: self.began.elapsed(),
            died: seat.died.take(),
            start,
            before,
            has_former: former.is_some(),
            has_ledger: self.plan.ledger.is_some(),
            upgraded: seat.upgraded.take(),
        };
        let input = std::io::stdin();
        let mut files = vec![self.mark.file(), input.as_fd()];
        files.extend(former.as_ref().map(|former| former.as_fd()));
        files.extend(self.plan.ledger.as_ref().map(Ledger::file));
        switch.tell(BEGIN, &begin, &files);
        Ok(switch)
    }

    /// Hears a switch, and tells it what is new. The end of the run, where the switch has ended it.
    fn attend(&mut self, at: usize) -> std::io::Result<Option<Outcome>> {
        let Some(seat) = self.seats.get_mut(at) else {
            return Ok(None);
        };
        let Some(switch) = &mut seat.switch else {
            return Ok(None);
        };
        let ended = switch.child.try_wait()?;
        let (mut begins, mut program) = (false, None);
        while let Ok(Some(message)) = switch.channel.receive(false) {
            if service::is_program(message.kind) {
                program = switch.channel.take_fd().or(program);
                continue;
            }
            if service::stands_by(message.kind) && self.plan.is_part {
                self.part = Some(Part::StandsBy);
                self.part_told = None;
                continue;
            }
            begins |= service::is_ready(message.kind) && !switch.is_ready;
            switch.is_ready |= begins;
            if switch.is_ready {
                service::pass_on(message.kind);
            }
        }
        if begins && self.plan.is_part {
            self.part = Some(Part::Runs);
            self.part_told = None;
        }
        switch.tell_hosts(self.plan);
        let process = switch.child.id();
        if let Some(program) = program {
            self.take_program(at, program.into());
        }
        if begins {
            self.plan.programs.has_begun();
            self.has_run = true;
            self.note_begin(at, process);
        }
        Ok(ended.and_then(|status| self.note_end(at, status)))
    }

    /// A switch runs from now on, and no other one does: one that stood still has lost its place.
    fn note_begin(&mut self, at: usize, process: u32) {
        let mut former = Vec::new();
        for (other, seat) in self.seats.iter_mut().enumerate() {
            if let Some(switch) = seat.switch.as_mut().filter(|_| other != at)
                && std::mem::take(&mut switch.is_ready)
            {
                former.push((other, switch.child.id()));
            }
        }
        for (other, process) in former {
            self.show(other, process, false);
        }
        self.show(at, process, true);
    }

    /// A switch has ended, and the run with it, or another one takes its place.
    fn note_end(&mut self, at: usize, status: ExitStatus) -> Option<Outcome> {
        let others_run = self.seats.iter().enumerate();
        let others_run = others_run.filter(|(other, _)| *other != at);
        let others_run = others_run.map(|(_, seat)| seat).any(Seat::runs);
        let seat = self.seats.get_mut(at)?;
        let switch = seat.switch.take()?;
        seat.noted = Some(switch.noted);
        if std::mem::take(&mut seat.hands_over) && self.told_to_end.is_none() {
            self.note_hand_over(at, &switch, &status);
            return None;
        }
        let exit = exit_of(status);
        let by_itself = exit.filter(|exit| match self.told_to_end {
            // One that stood by has nothing to say.
            Some(_) => switch.is_ready || !self.has_run,
            // What keeps another one from starting may pass: a port that is not free yet, say.
            None => *exit == Exit::Done || switch.is_ready || !self.has_run,
        });
        if let Some(exit) = by_itself.filter(|_| !others_run) {
            return Some(Ok(exit));
        }
        let cause = format!("the switch has ended {}", process_cause(&status));
        // Another host's may run by now.
        self.part = self.part.map(|_| Part::Agent);
        self.part_told = None;
        if self.told_to_end.is_some() {
            let alone = switch.is_ready || self.plan.switches.len() == 1;
            return alone.then(|| Err(Failure::outside(cause)));
        }
        if !switch.is_ready && self.plan.programs.go_back() {
            say(format_args!(
                "warning: {cause} at its start: from here on the program before is started"
            ));
        }
        if let Some(why) = &self.plan.no_other {
            return Some(Err(Failure::outside(format!("{cause}, and {why}"))));
        }
        let up = Some(switch.since.elapsed());
        let pause = seat.pause(up, Duration::ZERO);
        let when = match pause.is_zero() {
            true => String::new(),
            false => format!(" in {:.1} s", pause.as_secs_f64()),
        };
        let several = self.plan.switches.len() > 1;
        let what = match (several, switch.is_ready) {
            (false, _) if self.plan.is_part => "another one is started here",
            (false, _) => "another one takes its runtimes over",
            (true, true) => {
                "one that stands by takes its runtimes over, and another stands by here"
            }
            (true, false) => "it stood by, and another one takes its place",
        };
        let on = if several {
            format!("host {}: ", seat.host)
        } else {
            String::new()
        };
        let why = format!("{on}{cause}: {what}{when}");
        say(format_args!("warning: {why}"));
        seat.died = Some(why);
        self.count_death(at);
        None
    }

    /// A switch is about to hand over: what starts from here on is another program.
    fn take_program(&mut self, at: usize, program: File) {
        self.plan.programs.change(program);
        for (other, seat) in self.seats.iter_mut().enumerate() {
            seat.hands_over |= other == at;
            seat.is_old = other != at;
        }
    }

    /// A switch has ended so that another program takes its place, at once.
    fn note_hand_over(&mut self, at: usize, switch: &Switch, status: &ExitStatus) {
        let alone = self.plan.switches.len() == 1;
        let Some(seat) = self.seats.get_mut(at) else {
            return;
        };
        seat.start_at = Instant::now();
        let next = match (alone, switch.is_ready) {
            (true, _) => "has handed over: its successor starts",
            (_, true) => {
                "has handed over: one that stands by takes over, and its successor stands by"
            }
            (_, false) => "stood by, and its successor stands by",
        };
        let how = process_cause(status);
        say(format_args!(
            "host {}: the switch {next} ({how})",
            seat.host
        ));
        let how = "the switch has handed over to the next program".to_owned();
        seat.upgraded = Some(how.clone());
        if switch.is_ready {
            self.tell_of_end(at, how);
        }
    }

    /// Those that stand by with the program before are ended, and start with the next one.
    fn renew_those_that_stand_by(&mut self) {
        for seat in self.seats.iter_mut().filter(|seat| seat.is_old) {
            if seat.runs() {
                continue;
            }
            seat.is_old = false;
            if let Some(switch) = &seat.switch {
                seat.hands_over = true;
                switch.signal(Signal::TERM);
            }
        }
    }

    /// The host has lost its switch: all that stand by hear it at once.
    fn count_death(&mut self, at: usize) {
        let Some(seat) = self.seats.get(at) else {
            return;
        };
        let hosts = self.plan.hosts.list();
        let here = hosts.iter().position(|host| host.name == seat.host);
        if let Some(place) = here {
            self.plan.hosts.change(place, |host| host.deaths += 1);
        }
        let why = self.seats.get(at).and_then(|seat| seat.died.clone());
        self.tell_of_end(at, why.unwrap_or_default());
    }

    /// All switches hear that the one of a seat has ended.
    fn tell_of_end(&mut self, at: usize, why: String) {
        let Some(seat) = self.seats.get(at) else {
            return;
        };
        let told = DiedTold {
            host: seat.host.clone(),
            why,
            start: seat.start.unwrap_or(0),
        };
        self.show(at, 0, false);
        for seat in &mut self.seats {
            if let Some(switch) = &mut seat.switch {
                switch.tell(DIED, &told, &[]);
            }
        }
    }

    /// How the switch of a seat stands, for `weir get hosts`.
    fn show(&self, at: usize, process: u32, runs: bool) {
        let Some(seat) = self.seats.get(at) else {
            return;
        };
        let hosts = self.plan.hosts.list();
        // Where one host alone has a switch, nobody asks which one runs.
        let several = |host: &HostState| host.name == seat.host && host.switch.is_some();
        if let Some(place) = hosts.iter().position(several) {
            let switch = SwitchState { process, runs };
            self.plan
                .hosts
                .change(place, |host| host.switch = Some(switch));
        }
    }

    fn pass_signals_on(&mut self) {
        if self.signals.came() {
            // The second one ends them in any case.
            let signal = match self.told_to_end {
                None => Some(Signal::TERM),
                Some(at) if at.elapsed() < ONE_SIGNAL => None,
                Some(_) => Some(Signal::KILL),
            };
            if let Some(signal) = signal {
                self.told_to_end = Some(Instant::now());
                self.signal_all(signal);
            }
        }
        if self.hangups.came() {
            self.signal_all(Signal::HUP);
        }
    }

    fn signal_all(&self, signal: Signal) {
        for switch in self.seats.iter().filter_map(|seat| seat.switch.as_ref()) {
            switch.signal(signal);
        }
    }

    /// Writes that the inputs have ended where whoever starts later finds it.
    fn write_over(&self) {
        let Some(file) = &self.plan.process_file else {
            return;
        };
        let text = format!("{} {OVER_WORD}", std::process::id());
        if let Err(error) = std::fs::write(file, text) {
            say(format_args!(
                "warning: can't write {}: {error}",
                file.display()
            ));
        }
    }

    /// Tells the manager what this share does, again and again: one that starts later hears it, too.
    fn tell_part(&mut self) {
        let due = self.part_told.is_none_or(|at| at.elapsed() >= TELL);
        if let Some(part) = self.part.filter(|_| due) {
            self.part_told = Some(Instant::now());
            self.service.ready_as(part);
        }
    }

    /// Tells the service manager that all is well while another switch starts.
    fn stand_in(&mut self) {
        if self.without.elapsed() < UNTOLD {
            self.service.alive();
        }
    }
}

impl Switch {
    /// False where it does not listen: one that is over is found to be.
    fn tell(&mut self, kind: u8, what: &impl Serialize, files: &[BorrowedFd<'_>]) -> bool {
        // Names and numbers only: this can't fail.
        let bytes = serde_json::to_vec(what).unwrap_or_default();
        self.channel.send(kind, &bytes, files, false).is_ok()
    }

    fn signal(&self, signal: Signal) {
        let child = rustix::process::Pid::from_child(&self.child);
        let _ = rustix::process::kill_process(child, signal);
    }

    /// Tells it what has happened to hosts, and how those stand that have changed.
    fn tell_hosts(&mut self, plan: &Plan) {
        for (place, host) in plan.hosts.list().into_iter().enumerate() {
            if self.told.get(place) == Some(&host) {
                continue;
            }
            let heard = self.tell(HOST, &HostTold::of(place, host.clone()), &[]);
            if let (true, Some(told)) = (heard, self.told.get_mut(place)) {
                *told = host;
            }
        }
        for event in plan.happened.after(self.noted, usize::MAX) {
            let number = event.number;
            let (About::Host(host), died) = (event.about, event.what) else {
                continue;
            };
            let died = match died {
                What::HostDied(why) => Some(why),
                _ => None,
            };
            if !self.tell(HAPPENED, &HappenedTold { host, died }, &[]) {
                return;
            }
            self.noted = number;
        }
    }
}

/// None outlives a process that can't go on.
impl Drop for Switch {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}
