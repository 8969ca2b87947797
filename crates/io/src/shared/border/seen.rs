//! Metadata of lent packets, and the metadata that packets of the tenant's own may have.

use weir_packet::{
    ByteSet, FrameMeta, LinkType, META_BYTES, Place, SaidMeta, Side, Time, frame_flags,
};

/// Metadata of lent packets: packets that the tenant makes may have the same.
#[derive(Debug, Default)]
pub(super) struct Seen {
    time: Time,
    chain: u16,
    tenant: u16,
    links: u16,
    ports: ByteSet,
}

impl Seen {
    pub(super) fn note(&mut self, meta: &FrameMeta) {
        self.time = self.time.max(meta.time);
        (self.chain, self.tenant) = (meta.chain, meta.tenant);
        self.links |= 1 << meta.link as u8;
        self.ports.insert(meta.port);
    }

    /// True if it names a port, a link and a side that there are.
    pub(super) fn knows(&self, said: &SaidMeta) -> bool {
        said.side <= 1
            && u32::from(said.link) < u16::BITS
            && self.links >> said.link & 1 != 0
            && self.ports.contains(said.port)
    }

    /// The metadata of a packet that was made.
    pub(super) fn meta(&self, said: &SaidMeta) -> FrameMeta {
        let link = LinkType::ALL.get(usize::from(said.link));
        let mut meta = FrameMeta::received(Time(said.time).min(self.time), said.len);
        (meta.start, meta.chain, meta.tenant) = (said.start, self.chain, self.tenant);
        (meta.port, meta.flags) = (said.port, frame_flags::EMITTED);
        if said.side != 0 {
            meta.side = Side::Outside;
        }
        meta.link = link.copied().unwrap_or_default();
        meta.set_place(Place::NONE);
        meta
    }
}

const _: () = assert!(META_BYTES == 64 && LinkType::ALL.len() <= 16);
