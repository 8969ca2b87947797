//! Keeps packets out that tenants may not have, before a switch sees them.

use weir_packet::Frame;
use weir_protocol::in_process;
use weir_protocol::switch::SwitchDrop;

use super::tenanted::Tenanted;
use super::{Cluster, NO_CHAIN};

impl Cluster {
    /// Takes those packets of a batch out that the chain's tenant may not have: they are dropped, and
    /// counted.
    #[inline]
    pub(super) fn admit(&mut self, chain: usize, frames: &mut Vec<Frame>) {
        if self.tenanted.is_some()
            && self
                .internal
                .expect(self.chains.get(chain), NO_CHAIN)
                .is_some()
        {
            self.drop_over_quota(chain, frames);
            if self.tenanted.as_ref().is_some_and(Tenanted::shares_room) {
                self.drop_over_share(chain, frames);
            }
        }
    }

    fn drop_over_quota(&mut self, chain: usize, frames: &mut Vec<Frame>) {
        let (Some(its), Some(at)) = (&mut self.tenanted, self.chains.get_mut(chain)) else {
            return;
        };
        let refused = its.over_quota(chain, self.pool.memory(), frames);
        if !refused.is_empty() {
            at.switch
                .refuse(&mut self.pool, refused, SwitchDrop::OverQuota);
        }
    }

    fn drop_over_share(&mut self, chain: usize, frames: &mut Vec<Frame>) {
        let keeping = self.settings.keeping();
        let free = in_process::free(&self.pool, self.members.len(), keeping);
        let (Some(its), chains) = (&mut self.tenanted, &mut self.chains) else {
            return;
        };
        let on_their_way = |chain: usize| chains.get(chain).map_or(0, |at| at.switch.in_flight());
        // What it keeps to send again is the chain's alone.
        let kept = chains.get(chain).map_or(0, |at| at.switch.room());
        // The batch has its frames already.
        let free = (free + frames.len()) as u64;
        let refused = its.over_share((chain, kept), free, on_their_way, frames);
        if let (false, Some(at)) = (refused.is_empty(), chains.get_mut(chain)) {
            at.switch
                .refuse(&mut self.pool, refused, SwitchDrop::OverShare);
        }
    }
}
