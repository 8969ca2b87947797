//! What hosts have to run, and how they stand: a state machine without I/O.
//!
//! Compositions that are wanted come in, and what agents say; orders come out, each all that a host
//! has to run. An order is a function of the state, so one that is lost, or said twice, does no harm,
//! and a coordinator that starts again says what the one before said.

mod changes;
mod shown;
#[cfg(test)]
mod tests;
mod words;

use std::collections::BTreeMap;
use std::time::Duration;

use weir_api::v1;

use changes::Changes;
pub use changes::Kind;
pub use words::{ABSENT, FAILED, OVER, READY, RUNS, STARTING};

/// Hosts that are known without being in a composition: agents of any name may connect.
const MOST_STRANGERS: usize = 1_000;

/// What was read of a composition.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    /// Its name.
    pub name: String,
    /// Names of its hosts, in order.
    pub hosts: Vec<String>,
    /// Its keys, each with its value as text: what can't change under traffic.
    pub keys: BTreeMap<String, String>,
}

/// A composition that is wanted.
#[derive(Clone, Debug, PartialEq)]
pub struct Wanted {
    /// What was read of it.
    pub facts: Facts,
    /// Its files.
    pub files: v1::Files,
}

/// A composition that was taken, as it is kept.
#[derive(Clone, Debug, PartialEq)]
pub struct Taken {
    /// What is wanted.
    pub wanted: Wanted,
    /// Number of the change that made it so. Each change has a greater one than all before.
    pub revision: u64,
    /// Revision for which its processes were started.
    pub epoch: u64,
    /// Key of the links between its hosts, another one for each epoch: processes of two epochs don't
    /// hear one another.
    pub key: [u8; 16],
}

/// What a change takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Takes {
    /// Nothing has changed.
    Nothing,
    /// It is new.
    Start,
    /// Its chain's files have changed.
    Reload,
    /// Its processes start anew, without the flows.
    Anew,
}

/// An agent's connection: the newest one of a host counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Session(pub u64);

#[derive(Debug)]
struct Composition {
    taken: Taken,
    /// When it was applied last.
    at: Duration,
}

#[derive(Debug, Default)]
struct Host {
    session: Option<Session>,
    /// Start of being connected, or not.
    since: Option<Duration>,
    address: String,
    version: String,
    reports: BTreeMap<String, v1::ShareReport>,
    /// What its session was told last.
    told: Option<v1::Shares>,
}

/// All that a coordinator knows. Times are since its start.
#[derive(Debug, Default)]
pub struct State {
    compositions: BTreeMap<String, Composition>,
    hosts: BTreeMap<String, Host>,
    /// The greatest revision that there was.
    revision: u64,
    changes: Changes,
}

impl State {
    /// What was kept: the greatest revision, and the compositions.
    pub fn restore(revision: u64, kept: Vec<Taken>) -> State {
        let revisions = kept.iter().map(|taken| taken.revision);
        let revision = revisions.max().unwrap_or(0).max(revision);
        let named = kept.into_iter().map(|taken| {
            let at = Duration::ZERO;
            (taken.wanted.facts.name.clone(), Composition { taken, at })
        });
        State {
            compositions: named.collect(),
            revision,
            ..State::default()
        }
    }

    /// What taking it would take, and why it would begin anew.
    pub fn plan(&self, wanted: &Wanted) -> (Takes, Vec<String>) {
        let Some(composition) = self.compositions.get(&wanted.facts.name) else {
            return (Takes::Start, Vec::new());
        };
        let before = &composition.taken.wanted;
        let (old, new) = (&before.facts.keys, &wanted.facts.keys);
        let mut keys: Vec<&String> = old.keys().chain(new.keys()).collect();
        keys.sort();
        keys.dedup();
        let changed = keys
            .into_iter()
            .filter(|key| old.get(*key) != new.get(*key));
        let reasons: Vec<String> = changed
            .map(|key| format!("`{key}` of the composition has changed"))
            .collect();
        let takes = match (reasons.is_empty(), before.files == wanted.files) {
            (false, _) => Takes::Anew,
            (true, false) => Takes::Reload,
            (true, true) => Takes::Nothing,
        };
        (takes, reasons)
    }

    /// The composition as it is to be kept once it is taken; `key` is a new one.
    pub fn next(&self, wanted: Wanted, takes: Takes, key: [u8; 16]) -> Taken {
        let revision = self.revision + 1;
        let before = self.compositions.get(&wanted.facts.name);
        let before = before.map(|composition| &composition.taken);
        match before.filter(|_| matches!(takes, Takes::Reload | Takes::Nothing)) {
            Some(before) => Taken {
                wanted,
                revision,
                ..before.clone()
            },
            None => Taken {
                wanted,
                revision,
                epoch: revision,
                key,
            },
        }
    }

    /// Takes what [`State::next`] gave, and was kept.
    pub fn take(&mut self, now: Duration, taken: Taken) {
        debug_assert!(taken.revision > self.revision, "revisions grow");
        self.revision = self.revision.max(taken.revision);
        let name = taken.wanted.facts.name.clone();
        let how = match taken.epoch == taken.revision {
            true => "its hosts start it",
            false => "its hosts get its files",
        };
        let message = format!("revision {}: {how}", taken.revision);
        self.changes.note(Kind::Applied, &name, "", message);
        self.compositions
            .insert(name, Composition { taken, at: now });
    }

    /// Ends a composition: its hosts that are connected, and those that are not. `None` where there is
    /// none of the name.
    pub fn delete(&mut self, name: &str) -> Option<(Vec<String>, Vec<String>)> {
        let composition = self.compositions.remove(name)?;
        let hosts = composition.taken.wanted.facts.hosts;
        let is_there = |host: &String| {
            let host = self.hosts.get(host);
            host.is_some_and(|host| host.session.is_some())
        };
        let (there, absent): (Vec<_>, Vec<_>) = hosts.into_iter().partition(is_there);
        let message = "its hosts end it".to_owned();
        self.changes.note(Kind::Deleted, name, "", message);
        Some((there, absent))
    }

    /// The names of all compositions.
    pub fn names(&self) -> Vec<String> {
        self.compositions.keys().cloned().collect()
    }

    /// A composition as it was taken.
    pub fn taken(&self, name: &str) -> Option<&Taken> {
        self.compositions.get(name).map(|it| &it.taken)
    }

    /// An agent has connected: the newest one is the host's.
    ///
    /// # Errors
    ///
    /// There are too many hosts that no composition names.
    pub fn connect(
        &mut self,
        now: Duration,
        (host, session): (&str, Session),
        (address, version): (String, String),
    ) -> Result<(), String> {
        if !self.hosts.contains_key(host) && self.hosts.len() >= MOST_STRANGERS {
            let gone = self.hosts.iter().find(|(_, host)| host.session.is_none());
            let Some(gone) = gone.map(|(name, _)| name.clone()) else {
                return Err(format!("{MOST_STRANGERS} hosts are connected already"));
            };
            self.hosts.remove(&gone);
        }
        let known = self.hosts.entry(host.to_owned()).or_default();
        let again = known.session.replace(session).is_some();
        (known.since, known.told) = (Some(now), None);
        known.reports.clear();
        let message = match again {
            true => format!("connected once more, from {address}: its former connection is over"),
            false => format!("connected from {address}"),
        };
        (known.address, known.version) = (address, version);
        self.changes.note(Kind::HostConnected, "", host, message);
        Ok(())
    }

    /// An agent's connection is over. What it said last stays: its processes go on.
    pub fn disconnect(&mut self, now: Duration, host: &str, session: Session) {
        let Some(known) = self.hosts.get_mut(host) else {
            return;
        };
        // A newer one has taken its place.
        if known.session != Some(session) {
            return;
        }
        (known.session, known.since, known.told) = (None, Some(now), None);
        let message = "not connected any more: what runs there goes on".to_owned();
        self.changes.note(Kind::HostLost, "", host, message);
    }

    /// An agent says how its shares stand. One of a former connection is not heard.
    pub fn report(&mut self, host: &str, session: Session, report: v1::HostReport) {
        let Some(known) = self.hosts.get_mut(host) else {
            return;
        };
        if known.session != Some(session) {
            return;
        }
        let shares = report.shares.into_iter();
        let shares: BTreeMap<_, _> = shares
            .map(|share| (share.composition.clone(), share))
            .collect();
        let before = std::mem::replace(&mut known.reports, shares);
        for (name, now) in &known.reports {
            let nothing = v1::ShareReport::default();
            let before = before.get(name).unwrap_or(&nothing);
            self.changes.note_report(host, before, now);
        }
    }

    /// True where a host has the files of what is wanted, and processes of its epoch.
    fn holds(&self, host: &str, taken: &Taken) -> bool {
        let report = self.report_of(host, &taken.wanted.facts.name);
        report
            .is_some_and(|report| report.revision == taken.revision && report.epoch == taken.epoch)
    }

    /// What a host that is connected has said of its share.
    fn report_of(&self, host: &str, composition: &str) -> Option<&v1::ShareReport> {
        let host = self.hosts.get(host)?;
        host.session?;
        host.reports.get(composition)
    }

    /// All that a host has to run.
    fn shares_of(&self, host: &str) -> v1::Shares {
        let compositions = self.compositions.values().map(|it| &it.taken);
        let its = compositions.filter(|taken| taken.wanted.facts.hosts.iter().any(|it| it == host));
        let share = |taken: &Taken| {
            let Facts { name, hosts, .. } = &taken.wanted.facts;
            v1::Share {
                composition: name.clone(),
                revision: taken.revision,
                epoch: taken.epoch,
                key: taken.key.to_vec(),
                files: Some(taken.wanted.files.clone()),
                // A runtime that finds other files than its switch refuses them.
                reload: hosts.iter().all(|host| self.holds(host, taken)),
            }
        };
        v1::Shares {
            shares: its.map(share).collect(),
            store: Vec::new(),
        }
    }

    /// What connected agents have to be told: all that each has to run, where that has changed since it
    /// was told.
    pub fn orders(&mut self) -> Vec<(Session, v1::Shares)> {
        let names: Vec<String> = self.hosts.keys().cloned().collect();
        let mut orders = Vec::new();
        for name in names {
            let shares = self.shares_of(&name);
            let Some(host) = self.hosts.get_mut(&name) else {
                continue;
            };
            let Some(session) = host.session else {
                continue;
            };
            if host.told.as_ref() != Some(&shares) {
                host.told = Some(shares.clone());
                orders.push((session, shares));
            }
        }
        orders
    }

    /// The session of the host whose switch runs, and its name.
    pub fn switch_of(&self, composition: &str) -> Option<(Session, &str)> {
        let taken = self.taken(composition)?;
        let mut hosts = taken.wanted.facts.hosts.iter();
        let runs = |host: &&String| {
            let report = self.report_of(host, composition);
            report.is_some_and(|report| report.switch == RUNS)
        };
        let name = hosts.find(runs)?;
        let session = self.hosts.get(name)?.session?;
        Some((session, name))
    }
}
