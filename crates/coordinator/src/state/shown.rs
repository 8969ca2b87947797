//! How compositions and hosts stand, for those who ask.

use std::time::Duration;

use weir_api::v1;

use super::words::{ABSENT, FAILED, OVER, READY};
use super::{Composition, State};

impl State {
    /// How each composition stands, by name.
    pub fn compositions(&self, now: Duration) -> Vec<v1::CompositionState> {
        let all = self.compositions.values();
        all.map(|composition| self.shown(composition, now))
            .collect()
    }

    fn shown(&self, composition: &Composition, now: Duration) -> v1::CompositionState {
        let taken = &composition.taken;
        let facts = &taken.wanted.facts;
        let hosts: Vec<v1::HostShare> = facts
            .hosts
            .iter()
            .map(|host| self.shown_share(host, &facts.name))
            .collect();
        let switch = self.switch_of(&facts.name);
        let switch = switch.map_or_else(String::new, |(_, host)| host.to_owned());
        let report = self.report_of(&switch, &facts.name);
        let running = report.map_or(0, |report| report.running);
        let (state, why) = self.state_of(composition, &hosts, running);
        v1::CompositionState {
            name: facts.name.clone(),
            revision: taken.revision,
            running,
            state: state.to_owned(),
            why,
            switch,
            hosts,
            age_ns: now.saturating_sub(composition.at).as_nanos() as u64,
        }
    }

    /// The word for a composition, and why.
    fn state_of(
        &self,
        composition: &Composition,
        hosts: &[v1::HostShare],
        running: u64,
    ) -> (&'static str, String) {
        let taken = &composition.taken;
        let name = &taken.wanted.facts.name;
        let refused = hosts.iter().find_map(|host| {
            let report = self.report_of(&host.host, name)?;
            (report.refused == taken.revision).then(|| report.refusal.clone())
        });
        if let Some(refusal) = refused {
            return ("failed", refusal);
        }
        // What is said of a revision before is no word about this one.
        let is_of_this = |host: &v1::HostShare| {
            let report = self.report_of(&host.host, name);
            report.is_some_and(|report| report.wanted >= taken.revision)
        };
        let failed = hosts
            .iter()
            .find(|host| host.state == FAILED && is_of_this(host));
        if let Some(host) = failed {
            return ("failed", format!("host {}: {}", host.host, host.why));
        }
        let over = hosts.iter().find(|host| host.state == OVER);
        if let Some(host) = over.filter(|host| self.has_put(&host.host, taken)) {
            return (OVER, format!("host {}: its inputs have ended", host.host));
        }
        if let Some(host) = hosts.iter().find(|host| !host.connected) {
            return ("degraded", format!("host {} is not connected", host.host));
        }
        let late = hosts.iter().find(|host| !self.has_put(&host.host, taken));
        if let Some(host) = late {
            return ("progressing", format!("host {} gets it", host.host));
        }
        if let Some(host) = hosts.iter().find(|host| host.state != READY) {
            return ("progressing", format!("host {} starts it", host.host));
        }
        match running {
            0 => ("progressing", "no switch runs yet".to_owned()),
            running if running == taken.revision => ("ready", String::new()),
            _ => ("progressing", "the switch reloads".to_owned()),
        }
    }

    /// How a host's share of a composition stands.
    fn shown_share(&self, host: &str, composition: &str) -> v1::HostShare {
        let known = self.hosts.get(host);
        let connected = known.is_some_and(|known| known.session.is_some());
        let report = known.and_then(|known| known.reports.get(composition));
        let nothing = || v1::ShareReport {
            state: ABSENT.to_owned(),
            ..v1::ShareReport::default()
        };
        let report = report.cloned().unwrap_or_else(nothing);
        v1::HostShare {
            host: host.to_owned(),
            connected,
            revision: report.revision,
            state: report.state,
            switch: report.switch,
            why: report.why,
            process: report.process,
            restarts: report.restarts,
        }
    }

    /// The hosts that compositions name, or that were connected, by name.
    pub fn machines(&self, now: Duration) -> Vec<v1::Machine> {
        let named = self.compositions.values();
        let named = named.flat_map(|it| it.taken.wanted.facts.hosts.iter());
        let mut names: Vec<&String> = named.chain(self.hosts.keys()).collect();
        names.sort();
        names.dedup();
        names
            .into_iter()
            .map(|name| self.machine(name, now))
            .collect()
    }

    fn machine(&self, name: &str, now: Duration) -> v1::Machine {
        let known = self.hosts.get(name);
        let since = known.and_then(|known| known.since);
        let compositions = self.compositions.values();
        let compositions = compositions
            .map(|it| &it.taken.wanted.facts)
            .filter(|facts| facts.hosts.iter().any(|host| host == name));
        v1::Machine {
            name: name.to_owned(),
            connected: known.is_some_and(|known| known.session.is_some()),
            since_ns: since.map_or(0, |since| now.saturating_sub(since).as_nanos() as u64),
            address: known.map_or_else(String::new, |known| known.address.clone()),
            version: known.map_or_else(String::new, |known| known.version.clone()),
            compositions: compositions.map(|facts| facts.name.clone()).collect(),
            runs: known.map_or_else(Vec::new, |known| known.runs()),
        }
    }

    /// What has happened after a number, of one composition where it is named.
    pub fn changes(&self, after: u64, composition: &str) -> Vec<v1::Change> {
        let all = self.changes.after(after);
        // What happens to a host matters to all compositions on it.
        let hosts = self
            .taken(composition)
            .map(|taken| &taken.wanted.facts.hosts);
        let is_its = |change: &&v1::Change| {
            composition.is_empty()
                || change.composition == composition
                || (change.composition.is_empty()
                    && hosts.is_some_and(|hosts| hosts.contains(&change.host)))
        };
        all.filter(is_its).cloned().collect()
    }
}
