//! Refuses packets that tenants may not have, before a switch sees them.

use weir_packet::Frame;
use weir_protocol::switch::SwitchDrop;

use super::{Cluster, NO_CHAIN};

impl Cluster {
    /// Takes those packets of a batch out that the chain's tenant may not have.
    #[inline]
    pub(super) fn refuse(&mut self, chain: usize, frames: &mut Vec<Frame>) {
        // The batch has its frames already.
        let free = match &self.tenanted {
            None => return,
            Some(its) if its.shares_room() => (self.free() + frames.len()) as u64,
            Some(_) => 0,
        };
        let (Some(its), chains) = (&mut self.tenanted, &mut self.chains) else {
            return;
        };
        let refused = its.over_quota(chain, self.pool.memory(), frames);
        if !refused.is_empty()
            && let Some(at) = self.internal.expect(chains.get_mut(chain), NO_CHAIN)
        {
            let why = SwitchDrop::OverQuota;
            at.switch.refuse(&mut self.pool, refused, why);
        }
        let on_their_way = |chain: usize| chains.get(chain).map_or(0, |at| at.switch.in_flight());
        let refused = its.over_share(chain, free, on_their_way, frames);
        if !refused.is_empty()
            && let Some(at) = self.internal.expect(chains.get_mut(chain), NO_CHAIN)
        {
            let why = SwitchDrop::OverShare;
            at.switch.refuse(&mut self.pool, refused, why);
        }
        self.pool.give_all(refused);
    }
}
