//! Counters of a stream, and the reasons why frames and messages are refused.

use core::fmt;

use weir_packet::Malformed;

use weir_telemetry::labels;

/// Why a frame is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reject {
    /// Another EtherType than 0x88B5.
    NotActor,
    /// The header can't be read, or the frame has another length than it says.
    Malformed(Malformed),
    /// It is for another process start: an earlier one of this process, or
    /// another process.
    OtherDestination,
    /// It is from another process start than this stream's peer, or from one
    /// that there is no stream to: an earlier one most often.
    OtherSource,
    /// The code is wrong: changed on the way, or made by someone without the
    /// key.
    Code,
    /// This very transmission was taken before.
    Replayed,
    /// So old that it can't be told whether it was taken before; or its number
    /// is 0, which no transmission has.
    TooOld,
    /// It acknowledges what was never sent.
    Acknowledgement,
    /// The payload is not what the header announces.
    Payload,
    /// Its sequence number lies too far ahead.
    OutOfWindow,
    /// Messages that have come were not taken: there is no room for more.
    Unread,
}

impl Reject {
    /// Its counter.
    pub const fn count(self) -> StreamCount {
        match self {
            Reject::NotActor => StreamCount::RejectedNotActor,
            Reject::Malformed(_) => StreamCount::RejectedMalformed,
            Reject::OtherDestination => StreamCount::RejectedOtherDestination,
            Reject::OtherSource => StreamCount::RejectedOtherSource,
            Reject::Code => StreamCount::RejectedCode,
            Reject::Replayed => StreamCount::RejectedReplayed,
            Reject::TooOld => StreamCount::RejectedTooOld,
            Reject::Acknowledgement => StreamCount::RejectedAcknowledgement,
            Reject::Payload => StreamCount::RejectedPayload,
            Reject::OutOfWindow => StreamCount::RejectedOutOfWindow,
            Reject::Unread => StreamCount::RejectedUnread,
        }
    }
}

impl fmt::Display for Reject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Reject::NotActor => "not an actor frame",
            Reject::Malformed(fault) => fault.reason(),
            Reject::OtherDestination => "for another process start",
            Reject::OtherSource => "from another process start",
            Reject::Code => "a wrong code",
            Reject::Replayed => "the same transmission again",
            Reject::TooOld => "a transmission too old to tell from a replay",
            Reject::Acknowledgement => "acknowledges what was not sent",
            Reject::Payload => "a payload that is not what its header says",
            Reject::OutOfWindow => "too far ahead",
            Reject::Unread => "messages wait to be taken",
        })
    }
}

impl core::error::Error for Reject {}

/// Why a message is not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SendError {
    /// Too many bytes wait already.
    Full,
    /// It is longer than the longest that may be sent.
    TooLong,
}

impl fmt::Display for SendError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            SendError::Full => "too much waits to be sent",
            SendError::TooLong => "a message longer than may be sent",
        })
    }
}

impl core::error::Error for SendError {}

labels! {
    /// Events in a stream.
    pub enum StreamCount: Counter<Times> {
        /// Messages given to the stream.
        MessagesSent = "messages_sent",
        /// Messages taken from it.
        MessagesReceived = "messages_received",
        /// Messages not taken in: too many waited.
        RefusedFull = "messages_refused_full",
        /// Messages not taken in: too long.
        RefusedTooLong = "messages_refused_too_long",
        /// Frames of data sent for the first time.
        FramesSent = "frames_sent",
        /// Frames of data sent again.
        FramesRepeated = "frames_repeated",
        /// Frames sent that only acknowledge.
        AcknowledgementsSent = "acknowledgements_sent",
        /// Frames of data that came and were new.
        FramesReceived = "frames_received",
        /// Frames of data that came and were known: repeated for nothing.
        FramesDuplicate = "frames_duplicate",
        /// Frames that came and only acknowledge.
        AcknowledgementsReceived = "acknowledgements_received",
        /// Rounds of repetitions.
        Rounds = "rounds",
        /// Times that the peer was found not to answer.
        Unanswered = "unanswered",
        /// Messages of a genuine peer whose fragments do not fit together.
        BrokenMessages = "messages_broken",
        /// Frames refused: another EtherType than 0x88B5.
        RejectedNotActor = "rejected_not_actor",
        /// Frames refused: the header can't be read, or the length is not what it says.
        RejectedMalformed = "rejected_malformed",
        /// Frames refused: for another process start.
        RejectedOtherDestination = "rejected_other_destination",
        /// Frames refused: from another process start than the peer.
        RejectedOtherSource = "rejected_other_source",
        /// Frames refused: the authentication code is wrong.
        RejectedCode = "rejected_code",
        /// Frames refused: this very transmission was taken before.
        RejectedReplayed = "rejected_replayed",
        /// Frames refused: too old to tell whether they were taken before.
        RejectedTooOld = "rejected_too_old",
        /// Frames refused: they acknowledge what was never sent.
        RejectedAcknowledgement = "rejected_acknowledgement",
        /// Frames refused: the payload is not what the header announces.
        RejectedPayload = "rejected_payload",
        /// Frames refused: the sequence number lies too far ahead.
        RejectedOutOfWindow = "rejected_out_of_window",
        /// Frames refused: messages that came before were not taken yet.
        RejectedUnread = "rejected_unread",
    }
}
