//! Other programs for the processes of a run (docs/upgrade.md): agents become them with their runtimes,
//! the switch hands over to one.

use std::collections::BTreeSet;
use std::fs::File;
use std::net::SocketAddr;
use std::os::fd::AsFd as _;
use std::path::Path;
use std::sync::OnceLock;

use weir_ctl::hosts::Hosts;
use weir_ctl::upgrade::{Found, HostPrograms, ProgramId, ProgramTarget, Upgrades};
use weir_graph::ChainFile;
use weir_io::port::PortSpec;
use weir_protocol::Key;

use super::identity::{key, name_of};
use super::ports::Ports;
use super::up::bound_to_one;
use crate::args::{Host, Run};
use crate::driver::link::AtHost;
use crate::driver::{ENDS_WITH_SWITCH, HANDED_OVER};
use crate::exit::{Exit, Failure, Outcome};
use crate::program::{self, About, OwnAbout, Program, Target};
use crate::say::say;
use crate::{kept, service, set_log, version};

/// Kinds of what a switch leaves to the program that its process becomes: its start's number, with the
/// file of its program; the texts that run; what commands have done with sets; the end.
const SWITCH: u8 = 16;
const TEXTS: u8 = 17;
const SETS: u8 = 18;
const END: u8 = 19;

/// The start of the switch that this process was as another program.
static BEFORE: OnceLock<u32> = OnceLock::new();

/// That of this one, which its successor is told.
static OWN: OnceLock<u32> = OnceLock::new();

/// The start of the switch that this process was as another program, if it was.
pub(super) fn before() -> Option<u32> {
    BEFORE.get().copied()
}

/// Notes the start of the switch that runs.
pub(super) fn note_start(start: u32) {
    // A process has one switch.
    let _ = OWN.set(start);
}

/// Takes what the program before has left for this one. True where there was one: the texts that ran
/// are to run on.
pub(super) fn resume() -> Result<bool, Failure> {
    let failed = |why: String| Failure::outside(format!("what the program before has left: {why}"));
    let handed_off = program::handed_off();
    let Some(mut channel) = handed_off.map_err(|error| failed(error.to_string()))? else {
        return Ok(false);
    };
    let senseless = || failed("it makes no sense".to_owned());
    loop {
        let message = channel.receive(true);
        let message = message.map_err(|error| failed(error.to_string()))?;
        let message = message.ok_or_else(senseless)?;
        if message.kind == END {
            return Ok(true);
        }
        let file = File::from(channel.take_fd().ok_or_else(senseless)?);
        match message.kind {
            SWITCH => {
                let start = message.bytes.try_into().map(u32::from_le_bytes);
                let _ = BEFORE.set(start.map_err(|_| senseless())?);
                program::keep_former(file);
            }
            TEXTS => kept::TEXTS.hold(file),
            SETS => set_log::SET_LOG.hold(file),
            _ => return Err(senseless()),
        }
    }
}

/// Where the switch has handed over, the program that was made ready takes the place of this one.
pub(super) fn conclude(outcome: Outcome) -> Outcome {
    let has_handed_over =
        matches!(&outcome, Err(failure) if failure.message.starts_with(HANDED_OVER));
    let next = program::next().take().filter(|_| has_handed_over);
    let Some(next) = next else {
        return outcome;
    };
    if service::has_parent() {
        // That process starts it. One that does not listen is over, and this one ends with it.
        service::offer_program(next.as_fd());
        return Ok(Exit::Again);
    }
    let why = become_program(&next);
    say(format_args!(
        "warning: it can't become the next program: {why}"
    ));
    // Whoever looks after it starts this one again, which takes its runtimes over.
    Ok(Exit::Again)
}

/// Comes back where that fails: why.
fn become_program(next: &File) -> std::io::Error {
    let files = || {
        let (texts, sets) = (kept::TEXTS.descriptor()?, set_log::SET_LOG.descriptor()?);
        Ok((program::open_own()?, texts, sets))
    };
    let (own, texts, sets) = match files() {
        Ok(files) => files,
        Err(error) => return error,
    };
    let start = OWN.get().copied().unwrap_or(0);
    let mut hand_off = vec![(SWITCH, start.to_le_bytes().to_vec(), vec![own.as_fd()])];
    for (kind, file) in [(TEXTS, &texts), (SETS, &sets)] {
        hand_off.extend(
            file.iter()
                .map(|file| (kind, Vec::new(), vec![file.as_fd()])),
        );
    }
    hand_off.push((END, Vec::new(), Vec::new()));
    program::become_program(next, &hand_off)
}

/// The programs of a run.
#[derive(Debug)]
pub(super) struct RunUpgrades {
    about: OwnAbout,
    /// Kinds of the functions that it has.
    functions: Vec<String>,
    /// Name of the switch's host.
    here: String,
    hosts: Hosts,
    /// Where the hosts have no names.
    agents: BTreeSet<SocketAddr>,
    key: Option<Key>,
    /// Name of the run, by which agents know its runtimes.
    run: String,
    /// Why no other process can go on with the switch.
    obstacle: Option<String>,
    /// Digest of what processes were to become last.
    goal: Option<String>,
}

/// The programs of this run.
pub(super) fn upgrades(
    args: &Run,
    file: &ChainFile,
    ports: &Ports,
) -> Result<Option<Box<dyn Upgrades>>, Failure> {
    let Some(again) = &args.again else {
        return Ok(None);
    };
    let nodes = file.chains.iter().flat_map(|chain| &chain.stage.nodes);
    let functions: BTreeSet<String> = nodes
        .map(|node| node.processor.descriptor().name.to_owned())
        .collect();
    let (hosts, here) = match &args.raised {
        Some(raised) => (raised.hosts.clone(), raised.host.clone()),
        None => (Hosts::default(), "local".to_owned()),
    };
    let loggers = args.loggers.iter().flat_map(|all| &all.0);
    let agents = args
        .hosts
        .iter()
        .chain(loggers)
        .filter_map(|host| match host {
            Host::Local => None,
            Host::Agent(at) => Some(*at),
        });
    Ok(Some(Box::new(RunUpgrades {
        about: version::own(&again.kinds),
        functions: functions.into_iter().collect(),
        here,
        hosts,
        agents: agents.collect(),
        key: key(args)?,
        run: name_of(args),
        obstacle: obstacle(args, ports),
        goal: None,
    })))
}

/// Why no other process could go on where the switch's ends. That its runtimes are in it, it finds by
/// itself.
fn obstacle(args: &Run, ports: &Ports) -> Option<String> {
    if args.guarded {
        return Some("its bump fails open, and the process that guards it stays".to_owned());
    }
    if args.hosts.iter().all(|host| *host == Host::Local) {
        return Some(ENDS_WITH_SWITCH.to_owned());
    }
    if args.standby && args.raised.is_none() {
        return Some(
            "one that stands by elsewhere takes over when it ends: end those that stand by, then it, and \
             start each with the next program"
                .to_owned(),
        );
    }
    if let Some(why) = bound_to_one(ports) {
        return Some(why);
    }
    let plays = |spec: &PortSpec| spec.live().is_none() && *spec != PortSpec::Null;
    let mut played = ports.inputs.iter().filter(|port| plays(&port.spec));
    played.next().filter(|_| args.raised.is_none()).map(|port| {
        format!(
            "another process would read `{}` from its start again (`weir up` goes on behind what was \
             read)",
            port.text
        )
    })
}

impl RunUpgrades {
    /// Names and addresses of the agents.
    fn agents(&self) -> Vec<(String, SocketAddr)> {
        let named = self.hosts.list().into_iter();
        let named: Vec<_> = named
            .filter_map(|host| Some((host.name, host.agent?)))
            .collect();
        match named.is_empty() {
            true => self.agents.iter().map(|at| (at.to_string(), *at)).collect(),
            false => named,
        }
    }

    fn at(&self, agent: SocketAddr) -> Result<AtHost, String> {
        let key = self.key.ok_or("the run has no key")?;
        Ok(AtHost { agent, key })
    }

    /// What a target would change for a process that is `own`.
    fn found(&self, own: &About, target: &About) -> Result<Found, String> {
        Ok(Found {
            program: id(&target.program),
            changes: own.state_changes(target, &self.functions)?,
        })
    }

    /// The target as the switch's own process finds it, with its file.
    fn find(&self, target: &ProgramTarget) -> Result<(File, Found), String> {
        if let Some(why) = &self.obstacle {
            return Err(why.clone());
        }
        let (file, about) = program::find(&self.about, &target_of(target))?;
        let found = self.found(&self.about, &about)?;
        Ok((file, found))
    }

    fn look_at(&self, host: String, agent: SocketAddr, target: Option<&Target>) -> HostPrograms {
        let looked = self.at(agent).and_then(|at| at.look(target));
        let mut programs = HostPrograms {
            host,
            is_switch: false,
            program: Err(String::new()),
            runtimes: Vec::new(),
            target: None,
            goal: None,
        };
        match looked {
            Err(why) => programs.program = Err(format!("agent {agent}: {why}")),
            Ok(seen) => {
                programs.program = Ok(id(&seen.own.program));
                let ours = seen.runtimes.iter().filter(|its| its.run == self.run);
                programs.runtimes = ours.map(|its| (its.id, id(&its.program))).collect();
                let found = |found: Result<About, String>| {
                    found.and_then(|target| self.found(&seen.own, &target))
                };
                programs.target = seen.target.map(found);
            }
        }
        programs
    }
}

impl Upgrades for RunUpgrades {
    fn look(&mut self, target: Option<&ProgramTarget>) -> Vec<HostPrograms> {
        let own = HostPrograms {
            host: self.here.clone(),
            is_switch: true,
            program: Ok(id(Program::own())),
            runtimes: Vec::new(),
            target: target.map(|target| self.find(target).map(|(_, found)| found)),
            goal: self.goal.clone(),
        };
        let target = target.map(target_of);
        let agents = self.agents().into_iter();
        let agents = agents.map(|(host, agent)| self.look_at(host, agent, target.as_ref()));
        std::iter::once(own).chain(agents).collect()
    }

    fn upgrade_agent(
        &mut self,
        host: &str,
        target: &ProgramTarget,
        digest: &str,
    ) -> Result<(), String> {
        self.goal = Some(digest.to_owned());
        let mut agents = self.agents().into_iter();
        let agent = agents.find(|(name, _)| name == host);
        let (_, agent) = agent.ok_or_else(|| format!("no host {host} has an agent"))?;
        let (at, target) = (self.at(agent)?, target_of(target));
        let seen = at.look(None)?;
        at.take(&target, seen.incarnation, digest)
    }

    fn prepare_switch(&mut self, target: &ProgramTarget, digest: &str) -> Result<(), String> {
        if program::next().is_some() {
            return Err("it hands over already".to_owned());
        }
        let (file, found) = self.find(target)?;
        if found.program.digest != digest {
            let (version, digest) = (found.program.version, found.program.digest);
            return Err(format!("the file is {version} ({digest}) by now"));
        }
        *program::next() = Some(file);
        Ok(())
    }

    fn forget(&mut self) {
        *program::next() = None;
    }
}

fn target_of(target: &ProgramTarget) -> Target {
    match target {
        ProgramTarget::Path(path) => Target::Path(Path::to_path_buf(path)),
        ProgramTarget::Former => Target::Former,
    }
}

fn id(program: &Program) -> ProgramId {
    ProgramId {
        version: program.version.clone(),
        digest: program.digest.clone(),
    }
}
