//! What operators are told of runtimes (`weir events`).

use weir_ctl::events::{About, What};
use weir_protocol::RuntimeId;

use super::super::wiring::place_of;
use super::Cluster;
use super::member::Member;
use super::recovery::Recovery;

impl Cluster {
    /// Notes what has happened to a runtime.
    pub(super) fn tell(&self, runtime: RuntimeId, what: What) {
        let place = place_of(runtime, self.members.len());
        if let Some(member) = self.members.get(place) {
            let site = self.site_of(place, member);
            let about = About::Runtime(runtime.0, site);
            self.settings.happened.note(about, what);
        }
    }

    /// Notes that a runtime is started or drained as the load asks for: which, and why.
    pub(crate) fn tell_scaled(&self, what: String) {
        let what = What::Scaled(what);
        self.settings.happened.note(About::Cluster, what);
    }

    /// A runtime has died: it is noted when the cluster is whole again.
    pub(super) fn await_recovery(&mut self) {
        match &mut self.recovery {
            Some(recovery) => recovery.go_on(),
            None => self.recovery = Some(Recovery::begin(self.units_lost())),
        }
    }

    /// Notes that the cluster is whole again, once it is.
    pub(super) fn look_for_recovery(&mut self) {
        let Some(recovery) = &mut self.recovery else {
            return;
        };
        if !recovery.is_over() {
            let serves = self.members.iter().any(Member::takes_units);
            if !serves || !self.chains.iter().all(|at| at.switch.is_settled()) {
                return;
            }
            recovery.end();
        }
        // That they died is noted first: when their processes have ended.
        if self.members.iter().any(|member| member.failed_over) {
            return;
        }
        if let Some(recovery) = self.recovery.take() {
            let (after, lost) = recovery.told(self.units_lost());
            let what = What::Recovered { after, lost };
            self.settings.happened.note(About::Cluster, what);
        }
    }

    fn units_lost(&self) -> u64 {
        let chains = self.chains.iter();
        chains.map(|at| at.switch.units_lost()).sum()
    }
}
