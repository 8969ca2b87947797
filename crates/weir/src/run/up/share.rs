//! What a process of `weir up` starts: all hosts of a composition, or this machine's share of it.

use std::net::SocketAddr;
use std::path::Path;
use std::time::Instant;

use weir_ctl::hosts::{HostPhase, HostState, SwitchState};
use weir_protocol::Key;

use crate::args::Up;
use crate::exit::Failure;
use crate::run::agent;

use super::composed::Composed;

/// The share of a process.
pub(super) struct Share {
    /// Key of the hosts.
    pub(super) key: Key,
    /// The hosts before any agent is started.
    pub(super) hosts: Vec<HostState>,
    /// Places of the hosts whose agents are started here, and where each listens.
    pub(super) agents: Vec<(usize, SocketAddr)>,
    /// Names of the hosts whose switches are started here: the first is to run, the others stand by.
    pub(super) switches: Vec<String>,
    /// Other machines have hosts, too.
    pub(super) is_part: bool,
}

impl Share {
    /// The share of this process.
    ///
    /// # Errors
    ///
    /// The words and the composition don't go together: why.
    pub(super) fn of(args: &Up, composed: &Composed) -> Result<Share, Failure> {
        let composition = &composed.composition;
        match (&args.host, &args.key) {
            (Some(host), Some(key)) => part(composed, host, key),
            _ if composition.has_addresses() => {
                let names = composition.hosts.iter().map(|host| host.name.as_str());
                Err(Failure::usage(format!(
                    "the hosts of this composition are machines of their own (`address:`): name this \
                     one, with `--host` and one of {}, or leave out the addresses",
                    names.collect::<Vec<_>>().join(", ")
                )))
            }
            _ => whole(composed),
        }
    }
}

/// All hosts, on this machine.
fn whole(composed: &Composed) -> Result<Share, Failure> {
    let composition = &composed.composition;
    // Where several hosts have a switch, each has an agent, too: it says which switch runs.
    let several = !composition.standby.is_empty();
    let has_agent = |name: &str| several || name != composition.switch;
    let places = composition.hosts.iter().enumerate();
    let agents = places.filter(|(_, host)| has_agent(&host.name));
    // A composition has at most 64 hosts.
    let agents = agents.map(|(at, _)| (at, SocketAddr::from(([127, 0, 0, at as u8 + 2], 0))));
    let hosts = composition.hosts.iter().map(|host| HostState {
        name: host.name.clone(),
        agent: None,
        process: match has_agent(&host.name) {
            true => 0,
            false => std::process::id(),
        },
        state: match has_agent(&host.name) {
            true => HostPhase::Starting,
            false => HostPhase::Ready,
        },
        deaths: 0,
        since: Instant::now(),
        switch: (several && has_switch(composed, &host.name)).then_some(NO_SWITCH_YET),
    });
    let stand_by = composition.standby.iter().map(|name| &name.value);
    Ok(Share {
        key: made_up_key()?,
        hosts: hosts.collect(),
        agents: agents.collect(),
        switches: std::iter::once(&composition.switch)
            .chain(stand_by)
            .cloned()
            .collect(),
        is_part: false,
    })
}

/// One host, this machine. It has an agent in any case: runtimes outlive the switch then.
fn part(composed: &Composed, name: &str, key: &Path) -> Result<Share, Failure> {
    let composition = &composed.composition;
    let mut hosts = composition.hosts.iter();
    let names = || composition.hosts.iter().map(|host| host.name.as_str());
    let Some(place) = hosts.position(|host| host.name == name) else {
        return Err(Failure::usage(format!(
            "the composition has no host `{name}`; it has {}",
            names().collect::<Vec<_>>().join(", ")
        )));
    };
    let Some(address) = composition.hosts.get(place).and_then(|host| host.address) else {
        return Err(Failure::usage(format!(
            "host `{name}` has no address that the other machines could reach it at: give all hosts \
             one (`address: 10.0.9.1:4790`), or leave out `--host` to run all of them here"
        )));
    };
    let here = |at: usize| at == place;
    let hosts = composition.hosts.iter().enumerate();
    let hosts = hosts.map(|(at, host)| HostState {
        name: host.name.clone(),
        agent: host.address,
        process: 0,
        state: match here(at) {
            true => HostPhase::Starting,
            false => HostPhase::NotWatched,
        },
        deaths: 0,
        since: Instant::now(),
        switch: (here(at) && !composition.standby.is_empty() && has_switch(composed, name))
            .then_some(NO_SWITCH_YET),
    });
    Ok(Share {
        key: agent::key(key)?,
        hosts: hosts.collect(),
        agents: vec![(place, address)],
        switches: (has_switch(composed, name).then(|| name.to_owned()))
            .into_iter()
            .collect(),
        is_part: true,
    })
}

const NO_SWITCH_YET: SwitchState = SwitchState {
    process: 0,
    runs: false,
};

/// True of a host with a switch, one that stands by as well.
fn has_switch(composed: &Composed, host: &str) -> bool {
    composed.composition.switch == host || composed.composition.stands_by(host)
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
