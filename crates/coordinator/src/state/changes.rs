//! What has happened, the newest of it.

use std::collections::VecDeque;
use std::time::{SystemTime, UNIX_EPOCH};

use weir_api::v1;

use super::words::{FAILED, READY, RUNS};

/// Most changes that are kept.
const MOST: usize = 1_000;

/// Kinds of changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A composition was taken.
    Applied,
    /// A switch runs with another configuration.
    Reloaded,
    /// A switch goes on as it was.
    ReloadFailed,
    /// A composition ends.
    Deleted,
    /// An agent has connected.
    HostConnected,
    /// An agent is not connected any more.
    HostLost,
    /// The processes of a share run.
    ShareReady,
    /// They don't.
    ShareFailed,
    /// A switch runs on a host.
    SwitchRuns,
}

impl Kind {
    /// All kinds.
    pub const ALL: [Kind; 9] = [
        Kind::Applied,
        Kind::Reloaded,
        Kind::ReloadFailed,
        Kind::Deleted,
        Kind::HostConnected,
        Kind::HostLost,
        Kind::ShareReady,
        Kind::ShareFailed,
        Kind::SwitchRuns,
    ];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Applied => "applied",
            Kind::Reloaded => "reloaded",
            Kind::ReloadFailed => "reload_failed",
            Kind::Deleted => "deleted",
            Kind::HostConnected => "host_connected",
            Kind::HostLost => "host_lost",
            Kind::ShareReady => "share_ready",
            Kind::ShareFailed => "share_failed",
            Kind::SwitchRuns => "switch_runs",
        }
    }
}

/// The newest changes.
#[derive(Debug, Default)]
pub(super) struct Changes {
    list: VecDeque<v1::Change>,
    newest: u64,
}

impl Changes {
    pub(super) fn note(&mut self, kind: Kind, composition: &str, host: &str, message: String) {
        self.newest += 1;
        if self.list.len() == MOST {
            self.list.pop_front();
        }
        // The clock of people, for people: nothing is decided by it.
        let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH);
        self.list.push_back(v1::Change {
            number: self.newest,
            time_ns: since_1970.map_or(0, |since| since.as_nanos() as u64),
            kind: kind.name().to_owned(),
            composition: composition.to_owned(),
            host: host.to_owned(),
            message,
        });
    }

    /// Notes what differs between two reports of a share.
    pub(super) fn note_report(
        &mut self,
        host: &str,
        before: &v1::ShareReport,
        now: &v1::ShareReport,
    ) {
        let name = now.composition.as_str();
        let of_epoch = before.epoch == now.epoch;
        if now.state == FAILED && (before.state != FAILED || before.why != now.why) {
            self.note(Kind::ShareFailed, name, host, now.why.clone());
        }
        if now.state == READY && now.epoch != 0 && !(of_epoch && before.state == READY) {
            let message = format!("its processes run, of revision {}", now.revision);
            self.note(Kind::ShareReady, name, host, message);
        }
        // One that is about to end says so of no epoch.
        if now.epoch == 0 {
            return;
        }
        if now.switch == RUNS && !(of_epoch && before.switch == RUNS) {
            let message = format!("its switch runs revision {}", now.running);
            self.note(Kind::SwitchRuns, name, host, message);
        } else if now.running != before.running && now.switch == RUNS {
            let message = format!("its switch runs revision {} from now on", now.running);
            self.note(Kind::Reloaded, name, host, message);
        }
        if now.refused != before.refused && now.refused != 0 {
            let message = format!("revision {}: {}", now.refused, now.refusal);
            self.note(Kind::ReloadFailed, name, host, message);
        }
    }

    /// Those after a number.
    pub(super) fn after(&self, number: u64) -> impl Iterator<Item = &v1::Change> {
        self.list
            .iter()
            .filter(move |change| change.number > number)
    }
}

#[cfg(test)]
mod tests {
    use super::Kind;

    #[test]
    fn the_manual_has_all_kinds() {
        let manual = include_str!("../../../../docs/coordinator.md");
        for kind in Kind::ALL {
            assert!(
                manual.contains(&format!("`{}`", kind.name())),
                "{}",
                kind.name()
            );
        }
    }
}
