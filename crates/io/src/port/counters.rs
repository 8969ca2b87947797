//! Counts of a port.

use weir_telemetry::{Counters as _, Counts, counters, labels};

labels! {
    /// Why a port lost a packet.
    pub enum PortDrop: Counter<Packets> {
        /// The kernel had no room for it on its way to weir: weir was too slow for a moment.
        KernelDropped = "kernel_dropped",
        /// It is longer than the largest frame of packet memory, or no frame was free.
        FrameTooLarge = "frame_too_large",
        /// It is a segment of a packet that was being cut when the port was closed.
        SegmentUnfinished = "segment_unfinished",
        /// The kernel gave a descriptor that lies outside packet memory.
        BadDescriptor = "bad_descriptor",
        /// It came on a queue that the interface was given after weir had started: start it again.
        NewQueue = "new_queue",
        /// The interface took no more: it is slower than what is sent to it.
        OutputFull = "output_full",
        /// The interface that it was to leave by is down.
        OutputDown = "output_down",
        /// It is longer than the interface it was to leave by takes (its MTU).
        OutputTooLong = "output_too_long",
        /// The port could not put it out: an error of the system.
        OutputFailed = "output_failed",
        /// Its link type is none that the capture file it was to be written to can have.
        OutputLinkType = "output_link_type",
        /// It can't be written in the format of the capture file.
        OutputUnwritable = "output_unwritable",
        /// An emulated link lost it, as it was set to (`loss`).
        EmulatedLoss = "emulated_loss",
        /// More packets were under way on an emulated link than it takes (`limit`).
        EmulatedOverflow = "emulated_overflow",
        /// It was on an emulated link when the run ended.
        EmulatedUnfinished = "emulated_unfinished",
    }
}

labels! {
    /// Oddities of packets that a port did not lose.
    pub enum PortNotice: Counter<Packets> {
        /// Their sender left the checksum to a card; weir completed it.
        PartialChecksum = "partial_checksum",
        /// They were longer than the link's MTU; weir cut them into segments.
        Segmented = "segmented",
        /// Their checksum was left to a card and could not be completed.
        BrokenChecksum = "broken_checksum",
        /// Times that the kernel's receive ring stuck and was made anew.
        RingMadeAnew = "ring_made_anew": Counter<Times>,
        /// The interface dropped them before they came to weir; others may count there, too.
        InterfaceDropped = "interface_dropped",
        /// Times that the port met a state that cannot occur: a fault of weir.
        Internal = "internal": Counter<Times>,
        /// An emulated link sent them twice (`duplicate`).
        EmulatedDuplicate = "emulated_duplicate",
        /// An emulated link sent them out of order (`reorder`).
        EmulatedReorder = "emulated_reorder",
    }
}

counters! {
    /// Counts of one direction of a port.
    #[derive(Clone, Debug, Default, PartialEq, Eq)]
    pub struct PortCounters fields port_counters {
        /// Packets taken in, or put out.
        pub packets: Counter<Packets>,
        /// Their bytes.
        pub bytes: Counter<Bytes>,
        /// Bytes of the packets dropped.
        pub dropped_bytes: Counter<Bytes>,
    } and {
        /// Packets that could not be taken in or put out. Those of an input are not
        /// in `packets`.
        pub drops: Counts<PortDrop>,
        /// Packets that are in `packets`, but with something an operator should
        /// know of.
        pub noticed: Counts<PortNotice>,
        /// Mode that a live port obtained.
        pub mode: Option<String>,
        /// The input ended before it should have: what is wrong with it. All
        /// packets before were taken in.
        pub cut_short: Option<String>,
    }
}

impl PortCounters {
    /// Packets that could not be taken in or put out.
    pub fn dropped(&self) -> u64 {
        self.drops.sum()
    }

    /// Adds what another member of the same port has counted.
    pub fn add(&mut self, other: &PortCounters) {
        self.add_counters(other);
        self.drops.merge(&other.drops);
        self.noticed.merge(&other.noticed);
        self.mode = self.mode.take().or_else(|| other.mode.clone());
        self.cut_short = self.cut_short.take().or_else(|| other.cut_short.clone());
    }
}
