//! Looks after the switch's process: tells it how the hosts stand, passes signals on, and starts
//! another one where it dies.

use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde::Serialize;
use weir_ctl::events::{About, Events, What};
use weir_ctl::hosts::{HostState, Hosts};
use weir_exec::Restarts;
use weir_io::live::{EndSignals, Hangups, Waiter};
use weir_io::port::PortSpec;
use weir_io::shared::Channel;
use weir_protocol::Key;

use crate::driver::process_cause;
use crate::exit::{Exit, Failure, Outcome};
use crate::say::say;
use crate::service::Service;
use crate::{seed, service};

use super::super::ports::Ports;
use super::super::signals::{ONE_SIGNAL, end_signals};
use super::agents::SUCCESSOR;
use super::words::{BEGIN, Begin, HAPPENED, HOST, HappenedTold, HostTold, LONGEST};
use crate::mark::Mark;

/// Longest time until a switch hears how a host stands.
const LOOK: Duration = Duration::from_millis(20);
/// Longest time without a switch that the service manager is not told of: one takes over meanwhile.
const UNTOLD: Duration = Duration::from_secs(30);

/// What all switches of a run have in common.
pub(super) struct Plan {
    pub(super) key: Key,
    pub(super) seed: u64,
    pub(super) hosts: Hosts,
    pub(super) happened: Events,
    /// Why no switch can go on where one has died.
    pub(super) no_other: Option<String>,
}

/// Why no other process could go on with these ports; `None` where one can.
pub(super) fn bound_to_one(ports: &Ports) -> Option<String> {
    let behind = |spec: &PortSpec| match spec {
        PortSpec::Emulated(_, behind) => (**behind).clone(),
        spec => spec.clone(),
    };
    for port in &ports.outputs {
        if matches!(behind(&port.spec), PortSpec::Capture(_)) {
            return Some(format!("none can go on with the capture `{}`", port.text));
        }
    }
    for port in &ports.inputs {
        if let PortSpec::Capture(path) = behind(&port.spec)
            && !path.is_file()
        {
            return Some(format!("none can read again what `{}` gave", port.text));
        }
    }
    None
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
        restarts: Restarts::new(SUCCESSOR),
        told: Vec::new(),
        noted: plan.happened.newest(),
        start: None,
        service: Service::of_process(),
        without: Instant::now(),
    };
    let (mut died, mut has_run) = (None, false);
    loop {
        let started = Instant::now();
        let mut switch = watch.start(died.take()).map_err(failed)?;
        let status = watch.attend(&mut switch)?;
        // What keeps another one from starting may pass: a port that is not free yet, say.
        let ends = |exit: &Exit| *exit == Exit::Done || switch.is_ready || !has_run;
        if let Some(exit) = exit_of(status).filter(ends) {
            return Ok(exit);
        }
        has_run |= switch.is_ready;
        let cause = format!("the switch has ended {}", process_cause(&status));
        if switch.told_to_end.is_some() {
            return Err(Failure::outside(cause));
        }
        if let Some(why) = &plan.no_other {
            return Err(Failure::outside(format!("{cause}, and {why}")));
        }
        let up = Some(started.elapsed());
        let pause = watch.restarts.failed(Instant::now(), up);
        let pause = pause.unwrap_or(SUCCESSOR.longest);
        let when = match pause.is_zero() {
            true => String::new(),
            false => format!(" in {:.1} s", pause.as_secs_f64()),
        };
        let why = format!("{cause}: another one takes its runtimes over{when}");
        say(format_args!("warning: {why}"));
        watch.count_death();
        died = Some(why);
        if watch.pause(pause)? {
            return Err(Failure::outside("ended while there was no switch"));
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
    restarts: Restarts,
    /// The hosts as the switch was told of them, and the number of the last event that it was told.
    told: Vec<HostState>,
    noted: u64,
    /// The number of the last switch.
    start: Option<u32>,
    service: Service,
    /// When there was last a switch that runs.
    without: Instant,
}

struct Switch {
    child: Child,
    channel: Channel,
    /// It runs.
    is_ready: bool,
    /// When it was told to end.
    told_to_end: Option<Instant>,
}

impl Watch<'_> {
    fn start(&mut self, died: Option<String>) -> std::io::Result<Switch> {
        let (ours, theirs) = UnixStream::pair()?;
        let mut words = std::env::args_os().skip(1);
        let child = Command::new("/proc/self/exe")
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
            is_ready: false,
            told_to_end: None,
        };
        self.told = self.plan.hosts.list();
        let start = seed::random() as u32;
        let before = self.start.replace(start);
        let hosts = (0..).zip(self.told.clone());
        let begin = Begin {
            key: self.plan.key.0,
            seed: self.plan.seed,
            hosts: hosts
                .map(|(place, host)| HostTold::of(place, host))
                .collect(),
            since: self.began.elapsed(),
            died,
            start,
            before,
        };
        let input = std::io::stdin();
        switch.tell(BEGIN, &begin, &[self.mark.file(), input.as_fd()]);
        Ok(switch)
    }

    /// Tells the switch what is new, and passes signals on, until it is over.
    fn attend(&mut self, switch: &mut Switch) -> Result<ExitStatus, Failure> {
        let failed =
            |error: std::io::Error| Failure::outside(format!("can't wait for the switch: {error}"));
        loop {
            if let Some(status) = switch.child.try_wait().map_err(failed)? {
                return Ok(status);
            }
            while let Ok(Some(message)) = switch.channel.receive(false) {
                switch.is_ready = true;
                service::pass_on(message.kind);
            }
            match switch.is_ready {
                true => self.without = Instant::now(),
                false => self.stand_in(),
            }
            self.tell_hosts(switch);
            if self.signals.came() {
                switch.end();
            }
            if self.hangups.came() {
                switch.signal(Signal::HUP);
            }
            let descriptors = [
                self.signals.as_fd(),
                self.hangups.as_fd(),
                switch.channel.as_fd(),
            ];
            Waiter::default()
                .sleep(&descriptors, LOOK)
                .map_err(failed)?;
        }
    }

    /// Tells the switch what has happened to hosts, and how those stand that have changed.
    fn tell_hosts(&mut self, switch: &mut Switch) {
        for (place, host) in self.plan.hosts.list().into_iter().enumerate() {
            if self.told.get(place) == Some(&host) {
                continue;
            }
            let heard = switch.tell(HOST, &HostTold::of(place, host.clone()), &[]);
            if let (true, Some(told)) = (heard, self.told.get_mut(place)) {
                *told = host;
            }
        }
        for event in self.plan.happened.after(self.noted, usize::MAX) {
            let number = event.number;
            let (About::Host(host), died) = (event.about, event.what) else {
                continue;
            };
            let died = match died {
                What::HostDied(why) => Some(why),
                _ => None,
            };
            if !switch.tell(HAPPENED, &HappenedTold { host, died }, &[]) {
                return;
            }
            self.noted = number;
        }
    }

    /// Tells the service manager that all is well while another switch starts.
    fn stand_in(&mut self) {
        if self.without.elapsed() < UNTOLD {
            self.service.alive();
        }
    }

    /// The switch's host has lost its switch.
    fn count_death(&self) {
        let hosts = self.plan.hosts.list();
        let here = hosts.iter().position(|host| host.agent.is_none());
        if let Some(place) = here {
            self.plan.hosts.change(place, |host| host.deaths += 1);
        }
    }

    /// Waits before the next switch; true where a signal ends the run.
    fn pause(&mut self, pause: Duration) -> Result<bool, Failure> {
        let until = Instant::now() + pause;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            self.stand_in();
            if self.signals.came() {
                return Ok(true);
            }
            if left.is_zero() {
                return Ok(false);
            }
            let slept = Waiter::default().sleep(&[self.signals.as_fd()], left.min(LOOK));
            slept.map_err(|error| Failure::outside(format!("can't wait: {error}")))?;
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

    /// Tells it to end; the second time it has to.
    fn end(&mut self) {
        match self.told_to_end {
            None => self.signal(Signal::TERM),
            Some(at) if at.elapsed() < ONE_SIGNAL => return,
            Some(_) => self.signal(Signal::KILL),
        }
        self.told_to_end = Some(Instant::now());
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
