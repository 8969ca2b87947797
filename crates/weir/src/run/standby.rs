//! `weir run --standby`: waits until this is the run's switch, before any port is opened.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::time::Duration;

use weir_graph::ChainFile;

use crate::args::{Host, Run};
use crate::driver::link::{LeasePlan, Standing, kind};
use crate::driver::process::{digest_of, digest_of_chains};
use crate::driver::{ChainPlan, Lease};
use crate::exit::Failure;
use crate::say::say;
use crate::service::{self, Service};

use super::identity;
use super::signals::end_signals;

/// Hosts with agents, at least: two of them are a majority when one is gone.
const FEWEST: usize = 3;

/// When agents that do not answer are told of, and how long after that again.
const FIRST: Duration = Duration::from_secs(3);
const AGAIN: Duration = Duration::from_secs(60);

/// How the wait has ended.
pub(super) enum Stood {
    /// There is no other switch.
    Alone,
    /// This is the switch.
    Has(Lease),
    /// A signal has come.
    Ended,
}

/// Refuses what would let packets pass while the switch stands by.
pub(super) fn check(args: &Run, file: &ChainFile) -> Result<(), Failure> {
    match args.standby && file.network.fails_open() {
        true => Err(Failure::usage(
            "a bump that fails open passes packets while its switch stands by, and so both would: \
             leave out `on-failure: open`, or `--standby`",
        )),
        false => Ok(()),
    }
}

/// Waits until most agents say that this is the switch.
pub(super) fn stand(args: &Run, plans: &[ChainPlan]) -> Result<Stood, Failure> {
    let Some(plan) = plan(args, plans)? else {
        return Ok(Stood::Alone);
    };
    let signals = end_signals()?;
    let mut service = Service::of_process();
    let mut standing = Standing::open(plan)?;
    let (mut told, mut next) = (None, FIRST);
    let host = args.raised.as_ref();
    let host = host.map_or_else(String::new, |raised| format!("host {}: ", raised.host));
    loop {
        if let Some(dead) = (args.raised.as_ref()).and_then(|raised| raised.dead.get()) {
            standing.know_dead(dead);
        }
        if standing.step()? {
            break;
        }
        if signals.came() {
            return Ok(Stood::Ended);
        }
        let tenant = standing.before().map(|tenant| tenant.generation);
        if let Some(generation) = tenant
            && told != tenant
        {
            told = tenant;
            say(format_args!(
                "{host}stands by: another switch, of generation {generation}, has the place"
            ));
            // The service manager waits for that. In `weir up` the process that was started knows whether
            // another switch of the machine runs.
            match args.raised {
                None => service.ready(),
                Some(_) => service::tell_standing_by(),
            }
        }
        if standing.began().elapsed() >= next {
            next = standing.began().elapsed() + AGAIN;
            tell_of_silence(&standing, &host);
        }
        // In `weir up` the switch that runs says so for all.
        if args.raised.is_none() {
            service.alive();
        }
    }
    if told.is_some() {
        say(format_args!(
            "{host}takes over: most agents say that this is the switch"
        ));
    }
    Ok(Stood::Has(standing.keep()?))
}

/// Says which agents do not answer, where the others are not most of them.
fn tell_of_silence(standing: &Standing, host: &str) {
    let (silent, all) = standing.silent();
    if 2 * silent.len() < all {
        return;
    }
    let silent: Vec<String> = silent.iter().map(SocketAddr::to_string).collect();
    say(format_args!(
        "warning: {host}waits, since most agents must say which switch runs, and these do not \
         answer: {}: are they there, with the same key and version?",
        silent.join(", ")
    ));
}

/// Where it asks; `None` where nobody else stands by.
fn plan(args: &Run, plans: &[ChainPlan]) -> Result<Option<LeasePlan>, Failure> {
    let (true, Some(runtimes), Some(key)) = (args.standby, args.runtimes, identity::key(args)?)
    else {
        return Ok(None);
    };
    let loggers = args.loggers.iter().flat_map(|all| &all.0);
    let voters = args.hosts.iter().chain(loggers).filter_map(agent);
    let voters: BTreeSet<SocketAddr> = voters.chain(args.witnesses.iter().copied()).collect();
    // A host has one vote, however many agents.
    let mut voters: Vec<SocketAddr> = voters.into_iter().collect();
    voters.dedup_by_key(|voter| voter.ip());
    if voters.len() < FEWEST {
        return Err(Failure::usage(format!(
            "`--standby` needs agents on {FEWEST} hosts or more, most of which say which switch runs: \
             `--hosts` and `--witnesses` name {}",
            voters.len()
        )));
    }
    let digest = digest_of_chains(plans);
    let loggers = super::cluster::loggers(args);
    let places = super::cluster::places(args, runtimes) + loggers;
    let places = (places as usize, loggers as usize);
    let replication = args.replication.unwrap_or_default().to_string();
    let run = identity::name_of(args);
    let kind = kind(&run, digest, places, &replication);
    let agents = digest_of(voters.iter().map(SocketAddr::to_string));
    Ok(Some(LeasePlan {
        voters,
        key,
        // Switches that ask other agents might both run.
        kind: format!("{kind}/{}ms/{agents:x}", args.heartbeat),
        run,
        beats: identity::beats(args),
        start: identity::start_of(args),
    }))
}

fn agent(host: &Host) -> Option<SocketAddr> {
    match host {
        Host::Local => None,
        Host::Agent(at) => Some(*at),
    }
}
