//! Functions under other settings in the place of those that run (`weir reload`).

use std::sync::Arc;

use tokio::sync::oneshot;
use weir_ctl::command::{Command, Replacement};

use super::{Cluster, NO_MEMBER};

impl Cluster {
    /// Runtimes that start from now on have these functions, and switches ask them. Those that
    /// run are told by their own command channels.
    pub(crate) fn replace(&mut self, new: &Replacement) {
        self.stages = new.applied(&self.stages).into();
        self.replaced += 1;
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
        let (reply, _) = oneshot::channel();
        let whole = Arc::new(Replacement::whole(&self.stages));
        if let Some(sender) = self.senders.get(place) {
            // One that has died since has a successor, which is made of these stages.
            let _ = sender.send(Command::Replace(whole, reply));
        }
    }
}
