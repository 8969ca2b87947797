//! The programs of a cluster's processes, and which are to be changed.

use serde_json::{Value, json};
use weir_api::v1;

use crate::exit::Failure;

use super::super::resize::{Places, is_up};
use super::super::table::{Table, row};

/// The programs that run.
#[derive(Debug)]
pub(super) struct Programs {
    /// The switch's process first.
    pub(super) hosts: Vec<v1::HostPrograms>,
    pub(super) places: Places,
}

/// The program that all are to be.
#[derive(Clone, Debug, Default)]
pub(super) struct Goal(v1::Program);

fn digest(program: Option<&v1::Program>) -> &str {
    program.map_or("", |program| program.digest.as_str())
}

fn shown(program: Option<&v1::Program>) -> String {
    program.map_or_else(
        || "-".to_owned(),
        |program| format!("{} ({})", program.version, program.digest),
    )
}

fn named(host: &v1::HostPrograms) -> String {
    let what = if host.is_switch {
        "the switch"
    } else {
        "its agent"
    };
    format!("host {}: {what}", host.host)
}

impl Goal {
    /// The target of all hosts. Back: what the switch was before; but where an upgrade was begun and has
    /// not reached the switch, which comes last, what the switch is.
    ///
    /// # Errors
    ///
    /// Nothing is known of it: why.
    pub(super) fn of(seen: &Programs, back: bool) -> Result<Goal, Failure> {
        let switch = seen.hosts.iter().find(|host| host.is_switch);
        let switch = switch.ok_or_else(|| Failure::outside("the instance tells no programs"))?;
        let own = switch.program.clone().unwrap_or_default();
        // A way back that was begun goes on.
        let goes_back = digest(switch.target.as_ref()) == switch.goal;
        if back && !goes_back && !seen.are(&Goal(own.clone())) {
            return Ok(Goal(own));
        }
        match &switch.target {
            Some(target) => Ok(Goal(target.clone())),
            None => Err(Failure::outside(format!(
                "{}: {}",
                named(switch),
                switch.refused
            ))),
        }
    }

    /// Refuses what can't become it.
    pub(super) fn check(
        &self,
        seen: &Programs,
        back: bool,
        no_way_back: bool,
    ) -> Result<(), Failure> {
        for host in &seen.hosts {
            if self.is(host.program.as_ref()) {
                continue;
            }
            if !host.refused.is_empty() {
                return Err(Failure::outside(format!(
                    "nothing has changed: {}: {}",
                    named(host),
                    host.refused
                )));
            }
            if !self.is(host.target.as_ref()) && back {
                return Err(Failure::outside(format!(
                    "nothing has changed: {} was {} before, and others {}: say with `--to` where to go",
                    named(host),
                    shown(host.target.as_ref()),
                    self.shown()
                )));
            }
            if !self.is(host.target.as_ref()) {
                return Err(Failure::outside(format!(
                    "nothing has changed: {} would be {}, and others {}: put the same file on all \
                     hosts",
                    named(host),
                    shown(host.target.as_ref()),
                    self.shown()
                )));
            }
            let mut changes = host.changes.iter();
            if let Some(change) = changes.find(|change| !change.goes_back && !no_way_back) {
                return Err(Failure::outside(format!(
                    "nothing has changed: the state of `{}` goes from version {} to {}, and the program \
                     that runs does not read that, so there is no way back: until all runtimes are \
                     upgraded a flow is lost if its runtime dies and its replica is on an old one. \
                     `--no-way-back` does it all the same",
                    change.function, change.from, change.to
                )));
            }
        }
        Ok(())
    }

    pub(super) fn is(&self, program: Option<&v1::Program>) -> bool {
        digest(program) == self.0.digest
    }

    pub(super) fn shown(&self) -> String {
        shown(Some(&self.0))
    }

    pub(super) fn digest(&self) -> &str {
        &self.0.digest
    }

    pub(super) fn json(&self) -> Value {
        json!({ "version": self.0.version, "digest": self.0.digest })
    }
}

impl Programs {
    /// All are that.
    pub(super) fn are(&self, goal: &Goal) -> bool {
        let all = |host: &v1::HostPrograms| goal.is(host.program.as_ref());
        self.hosts.iter().all(all) && self.next_runtime(goal).is_none()
    }

    /// Refuses where flows would have no runtime to go to.
    pub(super) fn check_room(&self, goal: &Goal) -> Result<(), Failure> {
        let runtimes = || self.places.values().filter(|place| !place.logger);
        let ready = || runtimes().filter(|place| is_up(place));
        let elsewhere = ready().filter(|place| place.site == "agent").count();
        match (ready().count(), elsewhere) {
            (0 | 1, _) => Err(Failure::outside(format!(
                "{}: the flows have no other one to go to meanwhile: start one before (`weir scale 2`)",
                match ready().count() {
                    0 => "no runtime is ready",
                    _ => "1 runtime is ready",
                }
            ))),
            (_, 0) if self.switch_left(goal).is_some() => Err(Failure::outside(
                "all runtimes that are ready are in the switch's process: one of an agent is needed, for \
                 the flows to go to meanwhile",
            )),
            _ => Ok(()),
        }
    }

    /// Processes that there are.
    pub(super) fn processes(&self) -> usize {
        self.hosts.len() + self.places.len()
    }

    /// A host whose agent is another program.
    pub(super) fn next_agent(&self, goal: &Goal) -> Option<String> {
        let mut agents = self.hosts.iter().filter(|host| !host.is_switch);
        let next = agents.find(|host| !goal.is(host.program.as_ref()));
        next.map(|host| host.host.clone())
    }

    /// Runtimes of another program that are in their places, and their hosts.
    fn old_runtimes(&self, goal: &Goal) -> impl Iterator<Item = (&str, &v1::RuntimePlace)> {
        let each = self.hosts.iter().flat_map(|host| {
            let runtimes = host.runtimes.iter();
            runtimes.map(move |its| (host, its))
        });
        let old = each.filter(|(_, its)| !goal.is(its.program.as_ref()));
        old.filter_map(|(host, its)| {
            let place = self.places.get(&its.runtime)?;
            (place.host == host.host).then_some((host.host.as_str(), place))
        })
    }

    /// A runtime that serves as another program, and its host.
    pub(super) fn next_runtime(&self, goal: &Goal) -> Option<(String, u32)> {
        let mut old = self.old_runtimes(goal);
        let next = old.find(|(_, place)| is_up(place));
        next.map(|(host, place)| (host.to_owned(), place.id))
    }

    /// A runtime of another program is left that does not serve, and is not over: it starts, or ends.
    pub(super) fn has_more(&self, goal: &Goal) -> bool {
        let mut old = self.old_runtimes(goal);
        old.any(|(_, place)| place.state != "over")
    }

    /// The host of the switch, if that is another program.
    pub(super) fn switch_left(&self, goal: &Goal) -> Option<String> {
        let mut switches = self.hosts.iter().filter(|host| host.is_switch);
        let old = switches.find(|host| !goal.is(host.program.as_ref()));
        old.map(|host| host.host.clone())
    }
}

/// The programs as JSON.
pub(in super::super) fn listed(hosts: &[v1::HostPrograms]) -> Value {
    let program = |program: &Option<v1::Program>| {
        let program = program.as_ref();
        program.map(|its| json!({ "version": its.version, "digest": its.digest }))
    };
    let all = hosts.iter().map(|host| {
        let runtimes = host
            .runtimes
            .iter()
            .map(|its| json!({ "runtime": its.runtime, "program": program(&its.program) }));
        let changes = host.changes.iter().map(|change| {
            json!({
                "function": change.function,
                "from": change.from,
                "to": change.to,
                "goes_back": change.goes_back,
            })
        });
        json!({
            "host": host.host,
            "process": if host.is_switch { "switch" } else { "agent" },
            "program": program(&host.program),
            "runtimes": runtimes.collect::<Vec<_>>(),
            "target": program(&host.target),
            "states": changes.collect::<Vec<_>>(),
            "error": Some(&host.refused).filter(|why| !why.is_empty()),
        })
    });
    all.collect()
}

/// The programs as a table; with what each says of a target.
pub(in super::super) fn table(hosts: &[v1::HostPrograms], with_target: bool) -> Table {
    let mut head = row(["HOST", "PROCESS", "PROGRAM", "RUNTIMES"]);
    if with_target {
        head.extend(["TARGET", "STATES", "REFUSED"].map(str::to_owned));
    }
    let mut table = vec![head];
    for host in hosts {
        let what = if host.is_switch { "switch" } else { "agent" };
        let runtimes = host.runtimes.iter().map(|its| {
            match digest(its.program.as_ref()) == digest(host.program.as_ref()) {
                true => its.runtime.to_string(),
                false => format!("{} of {}", its.runtime, shown(its.program.as_ref())),
            }
        });
        let runtimes: Vec<String> = runtimes.collect();
        let or_none = |text: String| match text.is_empty() {
            true => "-".to_owned(),
            false => text,
        };
        let mut cells = vec![
            host.host.clone(),
            what.to_owned(),
            shown(host.program.as_ref()),
            or_none(runtimes.join(", ")),
        ];
        if with_target {
            let changes = host.changes.iter().map(|change| {
                let back = if change.goes_back {
                    ""
                } else {
                    ", no way back"
                };
                let (from, to) = (change.from, change.to);
                format!("{} {from} to {to}{back}", change.function)
            });
            let changes = changes.collect::<Vec<_>>().join("; ");
            cells.push(shown(host.target.as_ref()));
            cells.push(or_none(changes));
            cells.push(or_none(host.refused.clone()));
        } else if !host.refused.is_empty() {
            cells.push(host.refused.clone());
        }
        table.push(cells);
    }
    table
}
