//! Looks after the switch's process: tells it how the hosts stand, passes signals on, and starts
//! another one where it dies.

use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde::Serialize;
use weir_ctl::events::{About, Events, What};
use weir_ctl::hosts::{HostState, Hosts};
use weir_exec::{Forget, RestartPolicy, Restarts};
use weir_io::live::{EndSignals, Hangups, Waiter};
use weir_io::port::PortSpec;
use weir_io::shared::Channel;
use weir_protocol::Key;

use crate::driver::process_cause;
use crate::exit::{Exit, Failure, Outcome};
use crate::say::say;
use crate::service;

use super::super::ports::Ports;
use super::super::signals::end_signals;
use super::words::{BEGIN, Begin, HAPPENED, HOST, HappenedTold, HostTold, LONGEST};
use crate::mark::Mark;

/// Longest time until a switch hears how a host stands.
const LOOK: Duration = Duration::from_millis(20);

/// A switch that dies gets a successor for as long as the run goes on.
const SWITCH: RestartPolicy = RestartPolicy {
    first_at_once: true,
    pause: Duration::from_millis(100),
    longest: Duration::from_secs(5),
    forget: Forget::Older(Duration::from_secs(30)),
    most: None,
    most_false_starts: None,
};

/// What all switches of a run have in common.
pub(super) struct Plan {
    pub(super) key: Key,
    pub(super) seed: u64,
    pub(super) hosts: Hosts,
    pub(super) happened: Events,
    /// Why no switch can go on where one has died.
    pub(super) last: Option<String>,
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
        restarts: Restarts::new(SWITCH),
        told: Vec::new(),
        noted: 0,
    };
    let mut died = None;
    loop {
        let started = Instant::now();
        let mut switch = watch.start(died.take()).map_err(failed)?;
        let status = watch.attend(&mut switch)?;
        if let Some(exit) = exit_of(status) {
            return Ok(exit);
        }
        let cause = format!("the switch has ended {}", process_cause(&status));
        if switch.told {
            return Err(Failure::outside(cause));
        }
        if let Some(why) = &plan.last {
            return Err(Failure::outside(format!("{cause}, and {why}")));
        }
        let up = Some(started.elapsed());
        let pause = watch.restarts.failed(Instant::now(), up);
        let pause = pause.unwrap_or(SWITCH.longest);
        let why = format!("{cause}: another one takes its runtimes over");
        say(format_args!("warning: {why}"));
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
}

struct Switch {
    child: Child,
    channel: Channel,
    /// It was told to end.
    told: bool,
}

impl Watch<'_> {
    fn start(&mut self, died: Option<String>) -> std::io::Result<Switch> {
        let (ours, theirs) = UnixStream::pair()?;
        let child = Command::new("/proc/self/exe")
            .args(std::env::args_os().skip(1))
            .args(["--switch", &std::process::id().to_string()])
            // The manager has named this process.
            .env_remove("WATCHDOG_PID")
            .stdin(Stdio::from(OwnedFd::from(theirs)))
            // A terminal's signals are for this process, which passes them on.
            .process_group(0)
            .spawn()?;
        let mut switch = Switch {
            child,
            channel: Channel::new(ours, LONGEST),
            told: false,
        };
        self.noted = self.plan.happened.newest();
        self.told = self.plan.hosts.list();
        let hosts = (0..).zip(self.told.clone());
        let begin = Begin {
            key: self.plan.key.0,
            seed: self.plan.seed,
            hosts: hosts
                .map(|(place, host)| HostTold::of(place, host))
                .collect(),
            since: self.began.elapsed(),
            died,
        };
        switch.tell(BEGIN, &begin, Some(&self.mark));
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
                service::pass_on(message.kind);
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
            if let Some(told) = self.told.get_mut(place) {
                *told = host.clone();
            }
            switch.tell(HOST, &HostTold::of(place, host), None);
        }
        for event in self.plan.happened.after(self.noted, usize::MAX) {
            self.noted = event.number;
            let (About::Host(host), died) = (event.about, event.what) else {
                continue;
            };
            let died = match died {
                What::HostDied(why) => Some(why),
                _ => None,
            };
            switch.tell(HAPPENED, &HappenedTold { host, died }, None);
        }
    }

    /// Waits before the next switch; true where a signal ends the run.
    fn pause(&mut self, pause: Duration) -> Result<bool, Failure> {
        let until = Instant::now() + pause;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            if self.signals.came() {
                return Ok(true);
            }
            if left.is_zero() {
                return Ok(false);
            }
            let slept = Waiter::default().sleep(&[self.signals.as_fd()], left);
            slept.map_err(|error| Failure::outside(format!("can't wait: {error}")))?;
        }
    }
}

impl Switch {
    fn tell(&mut self, kind: u8, what: &impl Serialize, mark: Option<&Mark>) {
        // Names and numbers only: this can't fail.
        let bytes = serde_json::to_vec(what).unwrap_or_default();
        let files: Vec<_> = mark.map(Mark::file).into_iter().collect();
        // One that is over is found to be.
        let _ = self.channel.send(kind, &bytes, &files, false);
    }

    fn signal(&self, signal: Signal) {
        let child = rustix::process::Pid::from_child(&self.child);
        let _ = rustix::process::kill_process(child, signal);
    }

    /// Tells it to end; the second time it has to.
    fn end(&mut self) {
        self.signal(match self.told {
            true => Signal::KILL,
            false => Signal::TERM,
        });
        self.told = true;
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
