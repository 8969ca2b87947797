//! Counters of a link, and reasons to refuse a datagram.

use core::fmt;

use weir_telemetry::labels;

use crate::stream::Reject;
use crate::wire::WireError;

/// Why a datagram is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkReject {
    /// It is no Ethernet frame in VXLAN-GPE, or of no kind that a link carries.
    Malformed,
    /// A data frame that can't be taken.
    Data(WireError),
    /// A frame of the stream that can't be taken.
    Stream(Reject),
    /// A control frame's code is wrong: changed, or made by someone without the key.
    Code,
    /// A control frame is of another pair of process starts.
    OtherEnds,
    /// A control frame came before, or a later one did.
    Old,
}

impl LinkReject {
    /// Its counter.
    pub const fn count(self) -> LinkCount {
        match self {
            LinkReject::Malformed => LinkCount::RefusedMalformed,
            LinkReject::Data(WireError::NoFrame) => LinkCount::NoFrame,
            LinkReject::Data(_) => LinkCount::RefusedData,
            LinkReject::Stream(_) => LinkCount::RefusedStream,
            LinkReject::Code => LinkCount::RefusedCode,
            LinkReject::OtherEnds => LinkCount::RefusedOtherEnds,
            LinkReject::Old => LinkCount::RefusedOld,
        }
    }
}

impl fmt::Display for LinkReject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.count().meaning())
    }
}

impl core::error::Error for LinkReject {}

labels! {
    /// Events of a link.
    pub enum LinkCount: Counter<Times> {
        /// Data frames sent as datagrams.
        DataSent = "data_sent",
        /// Data frames that were too long for a datagram, and went on the stream.
        LongSent = "long_sent",
        /// Data frames received.
        DataReceived = "data_received",
        /// Heartbeats sent.
        BeatsSent = "beats_sent",
        /// Heartbeats received.
        BeatsReceived = "beats_received",
        /// Times that the peer was suspected: it was silent for too long, or did not hear us.
        Suspected = "suspected",
        /// Data frames without room on the stream: lost.
        NoRoom = "no_room",
        /// Data frames received that found no free frame: lost.
        NoFrame = "no_frame",
        /// Data frames that can't be sent.
        Unsendable = "unsendable",
        /// Messages longer than what a stream takes.
        TooLong = "too_long",
        /// Datagrams that are no frame of a link.
        RefusedMalformed = "refused_malformed",
        /// Data frames that were changed, or are none of this cluster.
        RefusedData = "refused_data",
        /// Frames that the stream refused.
        RefusedStream = "refused_stream",
        /// Control frames with a wrong code.
        RefusedCode = "refused_code",
        /// Control frames of another pair of process starts.
        RefusedOtherEnds = "refused_other_ends",
        /// Control frames that came before, or after a later one.
        RefusedOld = "refused_old",
    }
}
