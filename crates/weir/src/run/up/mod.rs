//! `weir up`: a whole cluster on this machine, from one file.
//!
//! The switch and its host's runtimes are in a process ([`switch`]) that is as one of `weir run`; each
//! other host is an agent's process with an address of its own on the loopback, so that hosts are
//! told apart. The process that was started looks after them: after the agents on a thread
//! ([`agents`]), and after the switch, and those that stand by ([`supervise`]).

mod agents;
mod composed;
mod programs;
mod supervise;
mod switch;
mod words;

use std::time::Instant;

use weir_ctl::events::Events;
use weir_ctl::hosts::{HostState, Hosts, SwitchState};
use weir_nf::host::Kind;
use weir_protocol::Key;

use crate::args::Up;
use crate::exit::{Exit, Failure, Outcome};
use crate::{program, seed};

use super::{signals, texts};

use agents::{Agents, Plan};
pub(super) use composed::bound_to_one;
pub(crate) use composed::{Composed, load};
use programs::ProgramsOfRun;

/// Runs a cluster until its inputs have ended.
pub(crate) fn run(args: &Up, kinds: &[Kind]) -> Outcome {
    if program::is_tried() {
        texts::inherit();
        load(&args.composition, 0, kinds)?;
        return Ok(Exit::Done);
    }
    // The others inherit that.
    signals::hold_hangups()?;
    if let Some(parent) = args.switch {
        texts::inherit();
        return switch::run(args, parent, kinds);
    }
    let path = &args.composition;
    if path.exists() && !path.is_file() && !path.is_dir() {
        return Err(Failure::usage(format!(
            "{} can be read once alone, and each switch reads the composition: give a file",
            path.display()
        )));
    }
    let seed = args.seed.unwrap_or_else(seed::random);
    let composed = load(&args.composition, seed, kinds)?;
    texts::keep(composed.texts.clone());
    let key = made_up_key()?;
    let hosts = Hosts::new(states(&composed));
    let programs = ProgramsOfRun::own()
        .map_err(|error| Failure::outside(format!("can't open the program that runs: {error}")))?;
    let happened = Events::default();
    let plan = Plan {
        chain: composed.run.chain.clone(),
        templates: composed.run.templates.clone(),
        set: composed.run.set.clone(),
        key,
        quiet: args.quiet,
        programs: programs.clone(),
    };
    let supervised = supervise::Plan {
        key,
        seed,
        hosts: hosts.clone(),
        happened: happened.clone(),
        switches: switches(&composed),
        no_other: composed::bound_to_one(&composed.ports()?),
        programs,
    };
    // Dropped at the end of this function, whichever it is: no agent outlives it.
    let agents = Agents::start(plan, hosts, happened)?;
    let outcome = supervise::run(&supervised);
    drop(agents);
    outcome
}

/// A key for this run alone.
fn made_up_key() -> Result<Key, Failure> {
    let mut key = [0; 16];
    let mut filled = 0;
    while filled < key.len() {
        let some =
            rustix::rand::getrandom(&mut key[filled..], rustix::rand::GetRandomFlags::empty());
        let failed = |error| Failure::outside(format!("can't make up a key: {error}"));
        filled += some.map_err(failed)?;
    }
    Ok(Key(key))
}

/// Names of the hosts with a switch: the first is to run.
fn switches(composed: &Composed) -> Vec<String> {
    let composition = &composed.composition;
    let stand_by = composition.standby.iter().map(|name| &name.value);
    std::iter::once(&composition.switch)
        .chain(stand_by)
        .cloned()
        .collect()
}

/// The hosts before any agent is started.
fn states(composed: &Composed) -> Vec<HostState> {
    let composition = &composed.composition;
    let (here, now) = (&composition.switch, Instant::now());
    // Where several hosts have a switch, each has an agent, too: it says which switch runs.
    let several = !composition.standby.is_empty();
    let hosts = composition.hosts.iter().map(|host| {
        let is_switch = host.name == *here;
        HostState {
            name: host.name.clone(),
            agent: None,
            // An agent is started for each host without a process.
            process: match is_switch && !several {
                true => std::process::id(),
                false => 0,
            },
            state: match is_switch && !several {
                true => HostState::READY,
                false => HostState::STARTING,
            },
            deaths: 0,
            since: now,
            switch: (several && (is_switch || composition.stands_by(&host.name))).then_some(
                SwitchState {
                    process: 0,
                    runs: false,
                },
            ),
        }
    });
    hosts.collect()
}
