//! Counts of live ports, the same for all kinds.

use std::io;

use crate::port::{PortCounters, PortDrop, PortNotice};

/// Counts of one direction: packets, their bytes, and bytes of those dropped.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counts {
    pub(super) packets: u64,
    pub(super) bytes: u64,
    pub(super) dropped_bytes: u64,
}

impl Counts {
    /// One more packet of so many bytes.
    pub(super) fn add(&mut self, bytes: u64) {
        self.packets += 1;
        self.bytes += bytes;
    }

    /// These counts, with drops and what was noticed.
    pub(super) fn counters(
        &self,
        mode: &str,
        drops: impl IntoIterator<Item = (PortDrop, u64)>,
        noticed: impl IntoIterator<Item = (PortNotice, u64)>,
    ) -> PortCounters {
        PortCounters {
            packets: self.packets,
            bytes: self.bytes,
            drops: drops.into_iter().collect(),
            dropped_bytes: self.dropped_bytes,
            noticed: noticed.into_iter().collect(),
            mode: Some(mode.to_owned()),
            cut_short: None,
        }
    }
}

/// Counts of packets that went out, and that did not.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sent {
    pub(super) counts: Counts,
    pub(super) full: u64,
    pub(super) down: u64,
    pub(super) too_long: u64,
    pub(super) failed: u64,
}

/// Why a packet did not go out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unsent {
    /// The kernel's queue was full.
    Full,
    /// The interface was down.
    Down,
    /// It was longer than the interface's MTU.
    TooLong,
    /// The kernel refused for another reason, or the port ended before.
    Failed,
}

impl Unsent {
    /// The reason behind an error of the kernel's.
    pub(super) fn of(error: &io::Error) -> Unsent {
        match error.raw_os_error() {
            Some(libc::EAGAIN | libc::ENOBUFS | libc::ENOMEM) => Unsent::Full,
            Some(libc::EMSGSIZE) => Unsent::TooLong,
            Some(libc::ENETDOWN | libc::ENXIO | libc::ENODEV | libc::EIO | libc::EBADFD) => {
                Unsent::Down
            }
            _ => Unsent::Failed,
        }
    }
}

impl Sent {
    /// A packet of so many bytes did not go out.
    pub(super) fn drop(&mut self, why: Unsent, bytes: u64) {
        let count = match why {
            Unsent::Full => &mut self.full,
            Unsent::Down => &mut self.down,
            Unsent::TooLong => &mut self.too_long,
            Unsent::Failed => &mut self.failed,
        };
        *count += 1;
        self.counts.dropped_bytes += bytes;
    }

    pub(super) fn counters(&self, mode: &str) -> PortCounters {
        let drops = [
            (PortDrop::OutputFull, self.full),
            (PortDrop::OutputDown, self.down),
            (PortDrop::OutputTooLong, self.too_long),
            (PortDrop::OutputFailed, self.failed),
        ];
        self.counts.counters(mode, drops, [])
    }
}
