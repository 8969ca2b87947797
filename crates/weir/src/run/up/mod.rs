//! `weir up`: a whole cluster on this machine, from one file.
//!
//! The switch and its host's runtimes are in this process, as in `weir run`; each other host is an
//! agent's process with an address of its own on the loopback, so that hosts are told apart. A
//! thread starts the agents and looks after them.

mod agents;
mod composed;

use std::time::Instant;

use weir_ctl::hosts::{HostState, Hosts};
use weir_nf::host::Kind;
use weir_protocol::Key;

use crate::args::{Host, Raised, Run, Up};
use crate::exit::{Failure, Outcome};
use crate::seed;

use super::onlook::Watched;
use super::signals;

use agents::{Agents, Plan};
pub(crate) use composed::{Composed, load};

/// Runs a cluster until its inputs have ended.
pub(crate) fn run(args: &Up, kinds: &[Kind]) -> Outcome {
    // Agents inherit that.
    signals::hold_hangups()?;
    let seed = args.seed.unwrap_or_else(seed::random);
    let composed = load(&args.composition, seed, kinds)?;
    let key = made_up_key()?;
    let hosts = Hosts::new(states(&composed));
    let plan = Plan {
        chain: composed.run.chain.clone(),
        templates: composed.run.templates.clone(),
        set: composed.run.set.clone(),
        key,
        quiet: args.quiet,
    };
    // Dropped at the end of this function, whichever it is: no agent outlives it.
    let agents = Agents::start(plan, hosts.clone(), composed.run.happened.clone())?;
    let run = Run {
        hosts: places(&composed, &hosts),
        raised: Some(Raised { key, hosts }),
        ..with_args(&composed, args)
    };
    let outcome = super::run_loaded(&run, &composed.file, seed, None, Watched(None));
    drop(agents);
    outcome
}

/// The run of a composition with the words of the command line.
fn with_args(composed: &Composed, args: &Up) -> Run {
    // Without a name there is no socket.
    let named = cfg!(feature = "control") && args.control.is_none();
    let named = named.then(|| composed.composition.name.clone());
    Run {
        name: args.name.clone().or(named),
        control: args.control.clone(),
        events: args.events.clone(),
        duration: args.duration,
        metrics: args.metrics,
        output: args.output,
        quiet: args.quiet,
        ..composed.run.clone()
    }
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

/// The hosts before any agent is started.
fn states(composed: &Composed) -> Vec<HostState> {
    let composition = &composed.composition;
    let (here, now) = (&composition.switch, Instant::now());
    let hosts = composition.hosts.iter().map(|host| HostState {
        name: host.name.clone(),
        agent: None,
        process: match host.name == *here {
            true => std::process::id(),
            false => 0,
        },
        state: match host.name == *here {
            true => "ready",
            false => "starting",
        },
        deaths: 0,
        since: now,
    });
    hosts.collect()
}

/// The host of each runtime.
fn places(composed: &Composed, hosts: &Hosts) -> Vec<Host> {
    let each = composed.composition.hosts.iter().zip(hosts.list());
    let places = each.flat_map(|(host, state)| {
        let place = state.agent.map_or(Host::Local, Host::Agent);
        (0..host.runtimes).map(move |_| place)
    });
    places.collect()
}
