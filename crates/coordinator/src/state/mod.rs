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

/// In the place of a revision, of a share that runs for another coordinator: newer than any, so that its
/// failure counts.
pub(crate) const ANOTHER: u64 = u64::MAX;
/// Hosts that are known without being in a composition: agents of any name may connect.
const MOST_STRANGERS: usize = 1_000;

/// What was read of a composition.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Facts {
    /// Its name.
    pub name: String,
    /// Names of its hosts, in order.
    pub hosts: Vec<String>,
    /// Those of them that have a switch.
    pub switches: Vec<String>,
    /// Addresses of its hosts' agents.
    pub addresses: Vec<String>,
    /// Its keys, each with its value as text: what can't change under traffic.
    pub keys: BTreeMap<String, String>,
    /// Its prices, which may.
    pub prices: Option<v1::Prices>,
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
    /// Revision whose files all hosts have held, so that processes may read them.
    put: u64,
}

#[derive(Debug, Default)]
struct Host {
    session: Option<Session>,
    /// Start of being connected, or not.
    since: Option<Duration>,
    address: String,
    version: String,
    reports: BTreeMap<String, v1::ShareReport>,
    /// What the session before has said last.
    former: BTreeMap<String, v1::ShareReport>,
    /// Its session has said how its shares stand.
    has_reported: bool,
    /// What its session was told last.
    told: Option<Vec<Order>>,
}

impl Host {
    /// Compositions that it has said it runs for this coordinator.
    fn runs(&self) -> Vec<String> {
        let own = self
            .reports
            .values()
            .filter(|report| report.wanted != ANOTHER);
        own.map(|report| report.composition.clone()).collect()
    }
}

/// What a host is told of one composition, without what does not change with its revision.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Order {
    name: String,
    revision: u64,
    epoch: u64,
    put: bool,
    reload: bool,
    /// The host holds the files, so that they are not sent.
    held: bool,
}

/// What becomes of a change of files where no switch says what it takes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unasked {
    /// Whoever starts reads them.
    Reads,
    /// Nobody can say: why.
    Unknown(String),
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
            (
                taken.wanted.facts.name.clone(),
                Composition { taken, at, put: 0 },
            )
        });
        State {
            compositions: named.collect(),
            revision,
            ..State::default()
        }
    }

    /// What taking it would take, and why it would begin anew: also one that is as it was, where that is
    /// `asked` for.
    pub fn plan(&self, wanted: &Wanted, asked: bool) -> (Takes, Vec<String>) {
        let Some(composition) = self.compositions.get(&wanted.facts.name) else {
            return (Takes::Start, Vec::new());
        };
        let before = &composition.taken.wanted;
        let (old, new) = (&before.facts.keys, &wanted.facts.keys);
        let mut keys: Vec<&String> = old.keys().chain(new.keys()).collect();
        keys.sort();
        keys.dedup();
        // A program writes each key that it knows: one that the file leaves out is no change.
        let said = |value: &&String| !matches!(value.as_str(), "null" | "[]");
        let changed = keys
            .into_iter()
            .filter(|key| old.get(*key).filter(said) != new.get(*key).filter(said));
        let mut reasons: Vec<String> = changed
            .map(|key| format!("`{key}` of the composition has changed"))
            .collect();
        // Its processes have the path on their command lines.
        if before.files.composition != wanted.files.composition {
            reasons.push("the file of the composition has another name".to_owned());
        }
        let takes = match (reasons.is_empty(), before.files == wanted.files) {
            (false, _) => Takes::Anew,
            (true, false) => Takes::Reload,
            (true, true) if asked => Takes::Anew,
            (true, true) => Takes::Nothing,
        };
        (takes, reasons)
    }

    /// Another composition that has an address of this one: which, and the address.
    pub fn conflict(&self, wanted: &Wanted) -> Option<(String, String)> {
        let Facts {
            name, addresses, ..
        } = &wanted.facts;
        let others = self.compositions.values().map(|it| &it.taken.wanted.facts);
        let mut others = others.filter(|facts| facts.name != *name);
        others.find_map(|facts| {
            let both = addresses.iter().find(|at| facts.addresses.contains(at))?;
            Some((facts.name.clone(), both.clone()))
        })
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
        self.compositions.insert(
            name,
            Composition {
                taken,
                at: now,
                put: 0,
            },
        );
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

    /// What becomes of a change of files where no switch runs that could be asked.
    pub fn unasked(&self, name: &str) -> Unasked {
        let Some(taken) = self.taken(name) else {
            return Unasked::Reads;
        };
        for host in &taken.wanted.facts.switches {
            let Some(report) = self.report_of(host, name) else {
                let is_there = self
                    .hosts
                    .get(host)
                    .is_some_and(|host| host.session.is_some());
                return Unasked::Unknown(match is_there {
                    true => format!("host {host} has not said yet how its switch stands"),
                    false => format!("host {host}, which has a switch, is not connected"),
                });
            };
            if report.state == OVER {
                return Unasked::Unknown(format!("the inputs of host {host}'s switch have ended"));
            }
            if report.state == STARTING || report.state == READY {
                return Unasked::Unknown(format!("the switch of host {host} starts, or stands by"));
            }
        }
        Unasked::Reads
    }

    /// An agent has connected: the newest one is the host's. The session of the one before, if that was
    /// not over yet.
    ///
    /// # Errors
    ///
    /// There are too many hosts that no composition names.
    pub fn connect(
        &mut self,
        now: Duration,
        (host, session): (&str, Session),
        (address, version): (String, String),
    ) -> Result<Option<Session>, String> {
        if !self.hosts.contains_key(host) && !self.is_named(host) {
            self.make_room()?;
        }
        let known = self.hosts.entry(host.to_owned()).or_default();
        let former = known.session.replace(session);
        (known.since, known.told) = (Some(now), None);
        known.former = std::mem::take(&mut known.reports);
        known.has_reported = false;
        let message = match former.is_some() {
            true => format!("connected once more, from {address}: its former connection is over"),
            false => format!("connected from {address}"),
        };
        (known.address, known.version) = (address, version);
        self.changes.note(Kind::HostConnected, "", host, message);
        Ok(former)
    }

    /// True of a host that a composition names.
    fn is_named(&self, host: &str) -> bool {
        let mut all = self.compositions.values();
        all.any(|it| it.taken.wanted.facts.hosts.iter().any(|name| name == host))
    }

    /// Forgets a host that no composition names, and that is gone, where there are too many.
    fn make_room(&mut self) -> Result<(), String> {
        let strangers = self.hosts.iter().filter(|(name, _)| !self.is_named(name));
        let (gone, many) = strangers.fold((None, 0), |(gone, many), (name, host)| {
            (
                gone.or(host.session.is_none().then(|| name.clone())),
                many + 1,
            )
        });
        if many < MOST_STRANGERS {
            return Ok(());
        }
        match gone {
            Some(gone) => {
                self.hosts.remove(&gone);
                Ok(())
            }
            None => Err(format!(
                "{MOST_STRANGERS} hosts that no composition names are connected"
            )),
        }
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
        let mut before = std::mem::replace(&mut known.reports, shares);
        if !std::mem::replace(&mut known.has_reported, true) {
            // Of a connection that is new, what was so before has not happened again.
            before = std::mem::take(&mut known.former);
        }
        for (name, now) in &known.reports {
            let its = self.compositions.get(name).map(|it| &it.taken.wanted.facts);
            // What is said of others' compositions is of no account.
            if !its.is_some_and(|facts| facts.hosts.iter().any(|it| it == host)) {
                continue;
            }
            let nothing = v1::ShareReport::default();
            let before = before.get(name).unwrap_or(&nothing);
            self.changes.note_report(host, before, now);
        }
    }

    /// True where a host holds the files of what is wanted, and has processes of its epoch.
    fn holds(&self, host: &str, taken: &Taken) -> bool {
        let report = self.report_of(host, &taken.wanted.facts.name);
        report.is_some_and(|report| report.held == taken.revision && report.epoch == taken.epoch)
    }

    /// True where its processes read them as well.
    fn has_put(&self, host: &str, taken: &Taken) -> bool {
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
    fn orders_of(&self, host: &str) -> Vec<Order> {
        let its = self.compositions.values();
        let its = its.filter(|it| it.taken.wanted.facts.hosts.iter().any(|it| it == host));
        let order = |composition: &Composition| {
            let taken = &composition.taken;
            let Facts { name, hosts, .. } = &taken.wanted.facts;
            Order {
                name: name.clone(),
                revision: taken.revision,
                epoch: taken.epoch,
                // Until all hosts can read the new ones, each has its processes read those that they have: a
                // runtime with other files than its switch is refused.
                put: composition.put == taken.revision,
                reload: hosts.iter().all(|host| self.has_put(host, taken)),
                held: (self.report_of(host, name)).is_some_and(|it| it.held == taken.revision),
            }
        };
        its.map(order).collect()
    }

    /// Files that all hosts hold may be read from now on, also where one goes before it hears that.
    fn note_puts(&mut self) {
        let all = self.compositions.values().map(|it| &it.taken);
        let held = all.filter(|taken| {
            let hosts = &taken.wanted.facts.hosts;
            hosts.iter().all(|host| self.holds(host, taken))
        });
        let held: Vec<String> = held.map(|taken| taken.wanted.facts.name.clone()).collect();
        for name in held {
            if let Some(composition) = self.compositions.get_mut(&name) {
                composition.put = composition.taken.revision;
            }
        }
    }

    /// An order as it is sent: with the files, where the host does not hold them.
    fn share(&self, order: Order) -> Option<v1::Share> {
        let taken = self.taken(&order.name)?;
        Some(v1::Share {
            composition: order.name,
            revision: order.revision,
            epoch: order.epoch,
            key: taken.key.to_vec(),
            files: (!order.held).then(|| taken.wanted.files.clone()),
            put: order.put,
            reload: order.reload,
        })
    }

    /// What connected agents have to be told: all that each has to run, where that has changed since it
    /// was told. One that has not said yet what it has is told nothing.
    pub fn orders(&mut self) -> Vec<(Session, v1::Shares)> {
        self.note_puts();
        let names: Vec<String> = self.hosts.keys().cloned().collect();
        let mut told = Vec::new();
        for name in names {
            let orders = self.orders_of(&name);
            let Some(host) = self.hosts.get_mut(&name) else {
                continue;
            };
            let Some(session) = host.session.filter(|_| host.has_reported) else {
                continue;
            };
            if host.told.as_ref() == Some(&orders) {
                continue;
            }
            host.told = Some(orders.clone());
            let shares = orders.into_iter().filter_map(|order| self.share(order));
            let shares = shares.collect();
            told.push((
                session,
                v1::Shares {
                    shares,
                    ..v1::Shares::default()
                },
            ));
        }
        told
    }

    /// The session of the host whose switch runs, and its name.
    pub fn switch_of(&self, composition: &str) -> Option<(Session, &str)> {
        let taken = self.taken(composition)?;
        let mut hosts = taken.wanted.facts.switches.iter();
        let runs = |host: &&String| {
            let report = self.report_of(host, composition);
            report.is_some_and(|report| report.switch == RUNS)
        };
        let name = hosts.find(runs)?;
        let session = self.hosts.get(name)?.session?;
        Some((session, name))
    }
}
