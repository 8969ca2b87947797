//! Refuses what tenants may not have, before a switch sees it.

use weir_control::tenants::{Quotas, Room};
use weir_packet::Frame;
use weir_protocol::switch::SwitchDrop;

use super::settings::ClusterSettings;
use super::{Chain, Cluster, NO_CHAIN};

/// What the tenants of a run may have.
pub(super) struct Tenanted {
    quotas: Option<Quotas>,
    /// Where ports drop what there is no room for.
    room: Option<Room>,
    /// A tenant was over its part since this was last asked.
    was_over: bool,
    // Buffers of a batch.
    admitted: Vec<Frame>,
    refused: Vec<Frame>,
}

impl Tenanted {
    /// `None` where all may have all.
    pub(super) fn new(settings: &ClusterSettings) -> Option<Tenanted> {
        let quotas = (settings.tenants.as_ref()).and_then(|tenants| tenants.quotas());
        let shares = settings.drops.then(|| settings.shares()).flatten();
        (quotas.is_some() || shares.is_some()).then(|| Tenanted {
            quotas,
            room: shares.as_deref().map(Room::new),
            was_over: false,
            admitted: Vec::new(),
            refused: Vec::new(),
        })
    }

    /// True where a tenant was over its part since this was last called.
    pub(super) fn take_was_over(&mut self) -> bool {
        std::mem::take(&mut self.was_over)
    }

    /// True where room is shared by tenants.
    pub(super) fn shares_room(&self) -> bool {
        self.room.is_some()
    }
}

impl Cluster {
    /// Takes those packets of a batch out that the chain's tenant may not have.
    #[inline]
    pub(super) fn refuse(&mut self, chain: usize, frames: &mut Vec<Frame>) {
        if self.tenanted.is_some() {
            self.refuse_over_quota(chain, frames);
            self.refuse_over_share(chain, frames);
        }
    }

    fn refuse_over_quota(&mut self, chain: usize, frames: &mut Vec<Frame>) {
        let Some(its) = &mut self.tenanted else {
            return;
        };
        let Some(quotas) = its.quotas.as_mut().filter(|quotas| quotas.bounds(chain)) else {
            return;
        };
        let memory = self.pool.memory();
        for frame in frames.drain(..) {
            let meta = memory.meta(&frame);
            match quotas.admits(chain, meta.time, meta.len) {
                true => its.admitted.push(frame),
                false => its.refused.push(frame),
            }
        }
        frames.append(&mut its.admitted);
        self.drop_refused(chain, SwitchDrop::OverQuota);
    }

    fn refuse_over_share(&mut self, chain: usize, frames: &mut Vec<Frame>) {
        // The batch has its frames already.
        let free = (self.free() + frames.len()) as u64;
        let Some(its) = &mut self.tenanted else {
            return;
        };
        let Some(room) = &its.room else { return };
        let chains = &self.chains;
        let on_their_way = |chain: usize| {
            let at: Option<&Chain> = chains.get(chain);
            at.map_or(0, |at| at.switch.in_flight())
        };
        let left = usize::try_from(room.left(chain, free, on_their_way)).unwrap_or(usize::MAX);
        if left < frames.len() {
            its.was_over = true;
            its.refused.extend(frames.drain(left..));
            self.drop_refused(chain, SwitchDrop::OverShare);
        }
    }

    fn drop_refused(&mut self, chain: usize, why: SwitchDrop) {
        let Some(its) = self.tenanted.as_mut().filter(|its| !its.refused.is_empty()) else {
            return;
        };
        match self.internal.expect(self.chains.get_mut(chain), NO_CHAIN) {
            Some(at) => at.switch.refuse(&mut self.pool, &mut its.refused, why),
            None => self.pool.give_all(&mut its.refused),
        }
    }
}
