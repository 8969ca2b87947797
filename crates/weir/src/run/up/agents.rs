//! The agents of a cluster on this machine, and the thread that looks after them.
//!
//! The kernel ends an agent with the thread that started it, so this thread starts all of them and
//! lasts as long as the run. An agent's key comes on its standard input: it is in no file, and on no
//! command line.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::SocketAddr;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Child, ChildStderr, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use weir_ctl::events::{About, Events, What};
use weir_ctl::hosts::{HostPhase, Hosts};
use weir_exec::{Forget, RestartPolicy, Restarts, started_aside};
use weir_graph::{MOST_RUNTIMES, Override};
use weir_io::live::{EndSignals, Hangups};
use weir_protocol::Key;

use super::programs::ProgramsOfRun;
use crate::driver::process_cause;
use crate::exit::Failure;
use crate::say::say;

/// Interval in which agents that have ended are looked for. No packet waits for that: the switch
/// notices by itself that a host is silent.
const LOOK: Duration = Duration::from_millis(20);
/// Longest start of an agent: it loads its chains.
const PATIENCE: Duration = Duration::from_secs(60);
/// Octets of what an agent says before it is ready beyond which no line is kept.
const MOST_BEFORE: usize = 16 << 10;
/// Words of an agent that is ready, before its address.
const READY: &str = "agent for ";

/// An agent or a switch that dies gets a successor for as long as the run goes on.
pub(super) const SUCCESSOR: RestartPolicy = RestartPolicy {
    first_at_once: true,
    pause: Duration::from_millis(100),
    longest: Duration::from_secs(5),
    forget: Forget::Older(Duration::from_secs(30)),
    most: None,
    most_false_starts: None,
};

/// What all agents of a run have in common.
#[derive(Clone)]
pub(super) struct Plan {
    pub(super) chain: PathBuf,
    pub(super) templates: Vec<PathBuf>,
    pub(super) set: Vec<Override>,
    pub(super) key: Key,
    /// Nothing is passed on but warnings.
    pub(super) quiet: bool,
    /// What agents run.
    pub(super) programs: ProgramsOfRun,
    /// Agents have the texts that this process keeps. Where other machines have agents, too, all read
    /// their files: what one has is what `weir reload` finds on each.
    pub(super) passes_texts_on: bool,
}

/// Agents that run. Dropped, they end, and with them all that they started.
pub(super) struct Agents {
    /// Closed with this.
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Agents {
    /// Starts an agent for each of these hosts, by its place, and waits until all are ready; from
    /// then on `hosts` has their addresses.
    ///
    /// # Errors
    ///
    /// One can't be started, or ends: why.
    pub(super) fn start(
        plan: Plan,
        at: Vec<(usize, SocketAddr)>,
        hosts: Hosts,
        happened: Events,
    ) -> Result<Agents, Failure> {
        let (stop, stopped) = channel();
        let (ready, all_ready) = channel();
        let thread = std::thread::Builder::new()
            .name("agents".to_owned())
            .spawn(move || Watch::new(plan, at, hosts, happened).run(&ready, &stopped))
            .map_err(|error| Failure::outside(format!("can't start a thread: {error}")))?;
        let agents = Agents {
            stop: Some(stop),
            thread: Some(thread),
        };
        match all_ready.recv() {
            Ok(Ok(())) => Ok(agents),
            Ok(Err(why)) => Err(Failure::outside(why)),
            Err(_) => Err(Failure::outside("the thread of the agents has ended")),
        }
    }
}

impl Drop for Agents {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // A panic of its was printed, and the kernel has ended the agents then.
            drop(thread.join());
        }
    }
}

/// Words of an agent's process.
enum Said {
    /// It listens there.
    Ready(SocketAddr),
    /// It is over before it was ready: all that it said.
    Over(String),
}

/// The agent of a host.
struct Agent {
    /// Place of the host in the list.
    place: usize,
    name: String,
    /// Address on which a successor listens, too.
    at: SocketAddr,
    child: Option<Child>,
    said: Option<Receiver<Said>>,
    since: Option<Instant>,
    restarts: Restarts,
    start_at: Option<Instant>,
    /// When a start has taken too long.
    late_at: Option<Instant>,
}

struct Watch {
    plan: Plan,
    hosts: Hosts,
    happened: Events,
    agents: Vec<Agent>,
}

impl Watch {
    fn new(plan: Plan, at: Vec<(usize, SocketAddr)>, hosts: Hosts, happened: Events) -> Watch {
        let list = hosts.list();
        let name = |place: usize| {
            list.get(place)
                .map_or_else(String::new, |host| host.name.clone())
        };
        let agents = at.into_iter().map(|(place, at)| Agent {
            place,
            name: name(place),
            at,
            child: None,
            said: None,
            since: None,
            restarts: Restarts::new(SUCCESSOR),
            start_at: Some(Instant::now()),
            late_at: None,
        });
        Watch {
            agents: agents.collect(),
            plan,
            hosts,
            happened,
        }
    }

    /// Starts the agents and looks after them until the run is over.
    fn run(mut self, ready: &Sender<Result<(), String>>, stopped: &Receiver<()>) {
        // Signals are for the thread of the ports.
        let held = (EndSignals::open(), Hangups::open());
        if let (Err(error), _) | (_, Err(error)) = held {
            let _ = ready.send(Err(format!("can't hold signals: {error}")));
            return;
        }
        let mut begun = false;
        loop {
            for place in 0..self.agents.len() {
                if let Err(why) = self.attend(place) {
                    self.fail(place, &why);
                    if !begun {
                        self.end();
                        let _ = ready.send(Err(why));
                        return;
                    }
                }
            }
            if !begun && self.agents.iter().all(|agent| agent.since.is_some()) {
                begun = true;
                let _ = ready.send(Ok(()));
            }
            match stopped.recv_timeout(LOOK) {
                Err(RecvTimeoutError::Timeout) => {}
                _ => return self.end(),
            }
        }
    }

    /// Does what is due for an agent.
    ///
    /// # Errors
    ///
    /// It has died, or does not start: why.
    fn attend(&mut self, place: usize) -> Result<(), String> {
        let now = Instant::now();
        let (plan, hosts) = (&self.plan, &self.hosts);
        let Some(agent) = self.agents.get_mut(place) else {
            return Ok(());
        };
        let name = &agent.name;
        if agent.start_at.is_some_and(|at| at <= now) {
            agent.start_at = None;
            let (child, said) = plan.start(name, agent.at)?;
            hosts.change(agent.place, |host| host.process = child.id());
            (agent.child, agent.said) = (Some(child), Some(said));
            agent.late_at = Some(now + PATIENCE);
        }
        match agent.said.as_ref().and_then(|said| said.try_recv().ok()) {
            Some(Said::Ready(at)) => {
                (agent.at, agent.since, agent.late_at) = (at, Some(now), None);
                hosts.change(agent.place, |host| {
                    (host.agent, host.state) = (Some(at), HostPhase::Ready);
                });
                let about = About::Host(name.clone());
                self.happened.note(about, What::HostReady);
            }
            Some(Said::Over(why)) => return Err(format!("host {name}: {why}")),
            None => {}
        }
        if agent.late_at.is_some_and(|at| at <= now) {
            return Err(format!("host {name}: its agent was not ready in time"));
        }
        let Some(child) = agent.child.as_mut().filter(|_| agent.since.is_some()) else {
            return Ok(());
        };
        match child.try_wait() {
            Ok(Some(status)) => {
                let how = process_cause(&status);
                Err(format!("host {name}: its agent has ended {how}"))
            }
            _ => Ok(()),
        }
    }

    /// Counts a failure, and plans a successor.
    fn fail(&mut self, place: usize, why: &str) {
        let Some(agent) = self.agents.get_mut(place) else {
            return;
        };
        if let Some(mut child) = agent.child.take() {
            // It may have ended by itself.
            let _ = child.kill();
            let _ = child.wait();
        }
        let now = Instant::now();
        let up = agent.since.take().map(|since| since.elapsed());
        (agent.said, agent.late_at) = (None, None);
        let pause = agent.restarts.failed(now, up).unwrap_or(SUCCESSOR.longest);
        agent.start_at = Some(now + pause);
        self.hosts.change(agent.place, |host| {
            (host.process, host.state) = (0, HostPhase::Starting);
            host.deaths += 1;
        });
        let about = About::Host(agent.name.clone());
        let why = format!("{why}; another takes its place");
        say(format_args!("warning: {why}"));
        self.happened.note(about, What::HostDied(why));
    }

    /// Ends all agents.
    fn end(&mut self) {
        let mut children: Vec<Child> = (self.agents.iter_mut())
            .filter_map(|agent| agent.child.take())
            .collect();
        for child in &mut children {
            let _ = child.kill();
        }
        for child in &mut children {
            let _ = child.wait();
        }
    }
}

impl Plan {
    /// Starts an agent that listens there, with a thread that reads what it says.
    fn start(&self, name: &str, at: SocketAddr) -> Result<(Child, Receiver<Said>), String> {
        let failed = |error: std::io::Error| format!("host {name}: can't start its agent: {error}");
        let (program, _) = self.programs.current().map_err(failed)?;
        let mut command = program.command();
        command.arg("agent").arg(&self.chain);
        command.args(["--listen", &at.to_string(), "--key", "/dev/stdin"]);
        // A successor may start before the one whose place it takes has ended.
        command.args(["--most", &(2 * MOST_RUNTIMES).to_string()]);
        command.args(["--parent", &std::process::id().to_string()]);
        for folder in &self.templates {
            command.arg("--templates").arg(folder);
        }
        for set in &self.set {
            command.arg(format!("--set={}={}", set.path, set.value));
        }
        if self.passes_texts_on {
            crate::kept::pass_on(&mut command);
        }
        command.stdin(Stdio::piped()).stderr(Stdio::piped());
        // Signals of the terminal are for this process, which ends the agents.
        command.process_group(0);
        let mut child = started_aside(|| command.spawn()).map_err(failed)?;
        let told = child.stdin.take().map(|mut input| {
            let key: String = self.key.0.iter().map(|o| format!("{o:02x}")).collect();
            input.write_all(key.as_bytes())
        });
        let (sender, said) = channel();
        let listening = child.stderr.take().map(|errors| {
            let (name, quiet) = (name.to_owned(), self.quiet);
            let listen = move || pass_on(&name, quiet, errors, &sender);
            std::thread::Builder::new()
                .name("agent's words".to_owned())
                .spawn(listen)
        });
        // One that has ended by now says why.
        let _ = told;
        match listening {
            Some(Err(error)) => {
                let _ = child.kill();
                let _ = child.wait();
                Err(failed(error))
            }
            _ => Ok((child, said)),
        }
    }
}

/// Passes on what an agent says, once it is ready. What it said before tells why it was not: what
/// it says of its chain file this process has said itself.
fn pass_on(name: &str, quiet: bool, errors: ChildStderr, said: &Sender<Said>) {
    let mut before = String::new();
    let mut is_ready = false;
    for line in BufReader::new(errors).lines().map_while(Result::ok) {
        if is_ready {
            if !quiet || line.contains("warning") || line.contains("error") {
                say(format_args!("host {name}: {line}"));
            }
            continue;
        }
        let at = line.strip_prefix(READY);
        let at = at.and_then(|rest| rest.rsplit(' ').next()?.parse().ok());
        match at {
            Some(at) => {
                is_ready = true;
                let _ = said.send(Said::Ready(at));
            }
            None if before.len() < MOST_BEFORE => {
                before.push_str(&line);
                before.push('\n');
            }
            None => {}
        }
    }
    if !is_ready {
        let why = match before.trim() {
            "" => "its agent has ended at its start",
            before => before,
        };
        let _ = said.send(Said::Over(why.to_owned()));
    }
}
