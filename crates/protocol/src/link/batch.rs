//! Datagrams that are sent with one call.

use weir_packet::vxlan::VxlanGpeRepr;

/// Datagrams one behind another; their memory is used again.
#[derive(Debug, Default)]
pub struct Batch {
    bytes: Vec<u8>,
    /// End of each, in bytes.
    ends: Vec<usize>,
}

impl Batch {
    /// Begins a datagram: the Ethernet frame is to be appended.
    pub(super) fn begin(&mut self, network: u32) -> &mut Vec<u8> {
        let mut head = [0; VxlanGpeRepr::LEN];
        let gpe = VxlanGpeRepr {
            vni: network,
            next: VxlanGpeRepr::ETHERNET,
        };
        let written = gpe.emit(&mut head);
        debug_assert!(written.is_ok(), "there is room");
        self.bytes.extend_from_slice(&head);
        &mut self.bytes
    }

    /// Ends the datagram that was begun.
    pub(super) fn end(&mut self) {
        self.ends.push(self.bytes.len());
    }

    /// Takes the datagram that was begun back.
    pub(super) fn take_back(&mut self) {
        self.bytes.truncate(self.ends.last().copied().unwrap_or(0));
    }

    /// Adds a datagram as it is.
    pub fn push(&mut self, datagram: &[u8]) {
        self.bytes.extend_from_slice(datagram);
        self.end();
    }

    /// Number of datagrams.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// True where there are none.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Empties it.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
    }

    /// The datagrams, in order.
    pub fn iter(&self) -> impl Iterator<Item = &[u8]> {
        let starts = core::iter::once(0).chain(self.ends.iter().copied());
        let ranges = starts.zip(self.ends.iter().copied());
        ranges.map(|(from, to)| self.bytes.get(from..to).unwrap_or(&[]))
    }
}
