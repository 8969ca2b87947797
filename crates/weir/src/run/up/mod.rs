//! `weir up`: a whole cluster on this machine, from one file.
//!
//! The switch and its host's runtimes are in a process ([`switch`]) that is as one of `weir run`; each
//! other host is an agent's process with an address of its own on the loopback, so that hosts are
//! told apart. The process that was started looks after them: after the agents on a thread
//! ([`agents`]), and after the switch, and those that stand by ([`supervise`]). Where each host is a
//! machine of its own, a process on each looks after its [`share`].

mod agents;
mod composed;
mod programs;
mod share;
mod supervise;
mod switch;
mod words;

use weir_ctl::events::Events;
use weir_ctl::hosts::Hosts;
use weir_nf::host::Kind;

use crate::args::Up;
use crate::exit::{Exit, Failure, Outcome};
use crate::{billing, program, seed};

use super::{signals, texts};

use agents::{Agents, Plan};
pub(super) use composed::bound_to_one;
pub(crate) use composed::{Composed, load, load_from};
use programs::ProgramsOfRun;
use share::Share;
#[cfg(feature = "control")]
pub(crate) use words::OVER_WORD;

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
    if let Some(file) = &args.process_file {
        let written = std::fs::write(file, std::process::id().to_string());
        written.map_err(|error| {
            Failure::outside(format!("can't write {}: {error}", file.display()))
        })?;
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
    let share = Share::of(args, &composed)?;
    let hosts = Hosts::new(share.hosts);
    let programs = ProgramsOfRun::own()
        .map_err(|error| Failure::outside(format!("can't open the program that runs: {error}")))?;
    let happened = Events::default();
    let plan = Plan {
        chain: composed.run.chain.clone(),
        templates: composed.run.templates.clone(),
        set: composed.run.set.clone(),
        key: share.key,
        quiet: args.quiet,
        programs: programs.clone(),
        passes_texts_on: !share.is_part,
    };
    let ledger = (!share.switches.is_empty())
        .then(|| billing::open(args.ledger.as_deref(), composed.ledger_names()))
        .transpose()?;
    let supervised = supervise::Plan {
        ledger,
        key: share.key,
        seed,
        hosts: hosts.clone(),
        happened: happened.clone(),
        switches: share.switches,
        is_part: share.is_part,
        process_file: args.process_file.clone(),
        no_other: composed::bound_to_one(&composed.ports()?),
        programs,
    };
    // Dropped at the end of this function, whichever it is: no agent outlives it.
    let agents = Agents::start(plan, share.agents, hosts, happened)?;
    let outcome = supervise::run(&supervised);
    drop(agents);
    outcome
}
