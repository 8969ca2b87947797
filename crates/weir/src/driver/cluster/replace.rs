//! Functions under other settings in the place of those that run (`weir reload`).

use std::sync::Arc;

use tokio::sync::oneshot;
use weir_ctl::command::{Command, Replacement};

use super::{Cluster, NO_MEMBER, Site};

impl Cluster {
    /// Runtimes that start from now on have these functions, and switches ask them. Those that
    /// run are told by their own command channels.
    pub(crate) fn replace(&mut self, new: &Replacement) {
        self.stages = new.applied(&self.stages).into();
        self.replaced += 1;
        self.digest = new.digest();
        if let Some(processes) = &mut self.settings.processes {
            processes.digest = self.digest;
        }
        if let Some(remote) = &mut self.settings.remote {
            remote.digest = self.digest;
        }
        for member in &mut self.members {
            if let Site::Process(home) = &mut member.site {
                home.have_chains(self.digest);
            }
        }
        for (number, chain) in self.chains.iter_mut().enumerate() {
            chain.switch.replace(new.of_chain(number));
        }
    }

    /// A runtime that is ready was made of the stages of then: where functions were replaced
    /// since, and it may not have listened yet, it gets all of them.
    pub(super) fn catch_up(&mut self, place: usize) {
        let Some(member) = self.internal.expect(self.members.get_mut(place), NO_MEMBER) else {
            return;
        };
        if std::mem::replace(&mut member.replaced, self.replaced) == self.replaced {
            return;
        }
        let whole = Arc::new(Replacement::whole(&self.stages).of(self.digest));
        if let Some(sender) = self.senders.get(place) {
            let (prepared, _) = oneshot::channel();
            let (replaced, _) = oneshot::channel();
            // One that has died since has a successor, which is made of these stages.
            let _ = sender.send(Command::Prepare(self.digest, prepared));
            let _ = sender.send(Command::Replace(whole, replaced));
        }
    }
}
