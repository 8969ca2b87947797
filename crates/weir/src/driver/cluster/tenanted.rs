//! What the tenants of a run may have: packets that they may not are picked out of a batch.

use weir_control::tenants::{Quotas, Room};
use weir_packet::{Frame, PacketMemory};

use super::settings::ClusterSettings;

/// See the module.
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
        let shares = settings.ports_drop.then(|| settings.shares()).flatten();
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

    /// Takes those packets of a batch out that are over the quota of the chain's tenant: the caller
    /// empties what it gets.
    pub(super) fn over_quota(
        &mut self,
        chain: usize,
        memory: &PacketMemory,
        frames: &mut Vec<Frame>,
    ) -> &mut Vec<Frame> {
        let quotas = self.quotas.as_mut().filter(|quotas| quotas.bounds(chain));
        if let Some(quotas) = quotas {
            for frame in frames.drain(..) {
                let meta = memory.meta(&frame);
                match quotas.admits(chain, meta.time, meta.len) {
                    true => self.admitted.push(frame),
                    false => self.refused.push(frame),
                }
            }
            frames.append(&mut self.admitted);
        }
        &mut self.refused
    }

    /// The same for those that are over the part of the chain's tenant, where `free` more packets
    /// have frames, chains have so many on their way, and this one has room for `kept` more.
    pub(super) fn over_share(
        &mut self,
        (chain, kept): (usize, usize),
        free: u64,
        on_their_way: impl Fn(usize) -> u64,
        frames: &mut Vec<Frame>,
    ) -> &mut Vec<Frame> {
        if let Some(room) = &mut self.room {
            let left = room.left(chain, free, on_their_way);
            let left = usize::try_from(left).map_or(kept, |left| left.min(kept));
            if left < frames.len() {
                self.was_over = true;
                self.refused.extend(frames.drain(left..));
            }
        }
        &mut self.refused
    }
}
