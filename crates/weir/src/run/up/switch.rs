//! The switch's process of `weir up`: its ports, its switches, and the runtimes of its host.
//!
//! The process that started it looks after the agents, and tells it how they stand. It starts
//! another switch where this one dies.

use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::time::Instant;

use weir_ctl::events::{About, Events, What};
use weir_ctl::hosts::{HostPhase, HostState, Hosts};
use weir_ctl::ledger::Ledger;
use weir_io::shared::Channel;
use weir_nf::host::Kind;
use weir_protocol::Key;

use crate::args::{Host, Loggers, Raised, Run, Up};
use crate::billing::{self, Billing};
use crate::exit::{Failure, Outcome};
use crate::{program, service};

use super::super::agent::end_with;
use super::super::onlook::Watched;
use super::super::{run_loaded, upgrade};
use super::composed::{Composed, load};
use super::words::{BEGIN, Begin, DIED, DiedTold, HAPPENED, HOST, HappenedTold, HostTold, LONGEST};
use crate::dead::Dead;
use crate::mark::Mark;

/// Runs the switch for the process `parent`, until its inputs have ended.
pub(super) fn run(args: &Up, parent: u32, kinds: &[Kind]) -> Outcome {
    // Signals stay held, as that one holds them, until there is who waits for them.
    end_with(parent)?;
    let lost = |error: io::Error| {
        Failure::outside(format!(
            "--switch is for weir itself: standard input is no other process ({error})"
        ))
    };
    let input = io::stdin().as_fd().try_clone_to_owned().map_err(lost)?;
    let back = input.try_clone().map_err(lost)?;
    service::tell_parent(Channel::new(back.into(), LONGEST));
    let mut channel = Channel::new(input.into(), LONGEST);
    let first = channel.receive(true).map_err(lost)?;
    let first = first.filter(|message| message.kind == BEGIN);
    let begin = first.and_then(|first| serde_json::from_slice::<Begin>(&first.bytes).ok());
    let nothing = || lost(io::ErrorKind::UnexpectedEof.into());
    let (begin, file) = begin.zip(channel.take_fd()).ok_or_else(nothing)?;
    let mark = Mark::attach(file).map_err(lost)?;
    // What a user pipes in is an input.
    let input = channel.take_fd().ok_or_else(nothing)?;
    rustix::stdio::dup2_stdin(input).map_err(|error| lost(error.into()))?;
    if begin.has_former {
        let former = channel.take_fd().ok_or_else(nothing)?;
        program::keep_former(former.into());
    }
    let ledger = match begin.has_ledger {
        true => Some(channel.take_fd().ok_or_else(nothing)?),
        false => None,
    };
    let composed = load(&args.composition, begin.seed, kinds)?;
    let happened = composed.run.happened.clone();
    let hosts = states(begin.hosts, &composed);
    note_before(&happened, &hosts, begin.died, &begin.host);
    if let Some(how) = begin.upgraded {
        happened.note(About::Host(begin.host.clone()), What::Upgraded(how));
    }
    let hosts = Hosts::new(hosts);
    let dead = Dead::default();
    if let Some(before) = begin.before {
        dead.set(before);
    }
    listen(channel, hosts.clone(), happened, dead.clone()).map_err(lost)?;
    let run = Run {
        hosts: placed(composed.composition.places(), &hosts),
        loggers: composed.run.loggers.is_some().then(|| {
            let places = composed.composition.logger_places();
            Loggers(placed(places, &hosts))
        }),
        standby: !composed.composition.standby.is_empty(),
        witnesses: hosts.list().iter().filter_map(|host| host.agent).collect(),
        raised: Some(Raised {
            key: Key(begin.key),
            hosts,
            mark,
            start: begin.start,
            before: begin.before,
            host: begin.host,
            dead,
        }),
        billing: Some(billing(args, &composed, ledger)?),
        duration: (args.duration).map(|most| most.saturating_sub(begin.since)),
        ..with_args(&composed, args)
    };
    let with = (begin.seed, kinds);
    upgrade::conclude(run_loaded(&run, &composed.file, with, None, Watched(None)))
}

/// What it is billed by: the ledger that switches before it have counted in, where they have one.
fn billing(args: &Up, composed: &Composed, file: Option<OwnedFd>) -> Result<Billing, Failure> {
    let names = composed.ledger_names();
    let kept = file.map(Ledger::attach).transpose();
    let kept = kept.map_err(|error| Failure::outside(format!("can't read the ledger: {error}")))?;
    let ledger = match kept.filter(|kept| *kept.names() == names) {
        Some(kept) => kept,
        // The process that looks after this one is of a version that knows no ledger.
        None => billing::open(args.ledger.as_deref(), names)?,
    };
    Ok(Billing {
        ledger,
        folder: args.ledger.clone(),
        prices: composed.composition.prices.clone(),
    })
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
        metrics: args.metrics,
        output: args.output,
        quiet: args.quiet,
        ..composed.run.clone()
    }
}

/// The hosts as they stand; that of the switch has this process, where it has no agent.
fn states(told: Vec<HostTold>, composed: &Composed) -> Vec<HostState> {
    let here = &composed.composition.switch;
    let states = told.into_iter().map(HostTold::state);
    let states = states.map(|state| match state.name == *here && state.agent.is_none() {
        true => HostState {
            process: std::process::id(),
            since: Instant::now(),
            ..state
        },
        false => state,
    });
    states.collect()
}

/// Notes what has happened before this process was there.
fn note_before(happened: &Events, hosts: &[HostState], died: Option<String>, here: &str) {
    let is_ready = |host: &HostState| host.agent.is_some() && host.state == HostPhase::Ready;
    match died {
        Some(why) => happened.note(About::Host(here.to_owned()), What::SwitchDied(why)),
        None => {
            for host in hosts.iter().filter(|host| is_ready(host)) {
                happened.note(About::Host(host.name.clone()), What::HostReady);
            }
        }
    }
}

/// The hosts with these numbers.
fn placed(numbers: Vec<usize>, hosts: &Hosts) -> Vec<Host> {
    let hosts = hosts.list();
    let host = |at: usize| hosts.get(at).and_then(|state| state.agent);
    let numbers = numbers.into_iter();
    numbers
        .map(|at| host(at).map_or(Host::Local, Host::Agent))
        .collect()
}

/// Hears how the hosts stand, on a thread that ends with the program.
fn listen(mut channel: Channel, hosts: Hosts, happened: Events, dead: Dead) -> io::Result<()> {
    let thread = std::thread::Builder::new().name("hosts".to_owned());
    let hear = move || {
        // Where it is closed, the kernel ends this process.
        while let Ok(Some(message)) = channel.receive(true) {
            match message.kind {
                HOST => {
                    if let Ok(told) = serde_json::from_slice::<HostTold>(&message.bytes) {
                        hosts.change(told.place, |host| *host = told.state());
                    }
                }
                HAPPENED => {
                    if let Ok(told) = serde_json::from_slice::<HappenedTold>(&message.bytes) {
                        let what = told.died.map_or(What::HostReady, What::HostDied);
                        happened.note(About::Host(told.host), what);
                    }
                }
                DIED => {
                    if let Ok(told) = serde_json::from_slice::<DiedTold>(&message.bytes) {
                        dead.set(told.start);
                        happened.note(About::Host(told.host), What::SwitchDied(told.why));
                    }
                }
                _ => {}
            }
        }
    };
    thread.spawn(hear).map(drop)
}
