//! Reliable streams of messages between two process starts, without I/O.
//!
//! Messages go in as bytes and come out at the other end once each and in
//! order, or not at all; what carries them may lose, repeat, reorder and change
//! frames ([`weir_packet::actor_frame`], EtherType 0x88B5). There is no
//! handshake: a stream belongs to one pair of process starts and begins with
//! the first frame of each. A restarted process has another id, and with it new
//! streams; frames of its earlier life fit none.
//!
//! - Messages that wait are packed into a frame as many as fit; one that fits
//!   none is cut into fragments.
//! - Each frame of data has a sequence number and is sent again after 10 times
//!   the measured round trip, the wait doubling with each round of repetitions
//!   (Karn: frames sent twice give no measurement).
//! - Acknowledgements ride on what goes the other way, or alone after a short
//!   delay. They name the last frame before a gap and up to 64 behind it.
//! - Each transmission, repetitions and acknowledgements included, has a number
//!   of its own that is taken once (a window of 1,024), and a code over
//!   everything with the cluster's [`Key`]. Each refusal has a name
//!   ([`Reject`]) and is counted under it.
//!
//! Calls are `(now, event)`; after each the driver takes frames
//! ([`Stream::poll_frame`]) and messages ([`Stream::poll_message`]) until there
//! are none, and calls [`Stream::tick`] at [`Stream::next_deadline`].
//!
//! ```
//! use weir_packet::Time;
//! use weir_protocol::Key;
//! use weir_protocol::stream::{ProcessStart, Stream, StreamSettings};
//!
//! let (a, b, key) = (ProcessStart(1), ProcessStart(2), Key([7; 16]));
//! let mut here = Stream::new(a, b, key, StreamSettings::default());
//! let mut there = Stream::new(b, a, key, StreamSettings::default());
//! here.send(b"hello")?;
//! while let Some(frame) = here.poll_frame(Time(1)) {
//!     there.receive(Time(2), &frame)?;
//! }
//! assert_eq!(there.poll_message().as_deref(), Some(&b"hello"[..]));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod count;
mod receiver;
mod replay;
mod sender;
mod settings;
mod start;
mod streams;

use weir_packet::Time;
use weir_packet::actor_frame::{ActorFrameRepr, ActorFrameView, ActorFrameViewMut, flags};
use weir_packet::ethernet::{EthernetRepr, EthernetView};
use weir_packet::protocol::ethertype;

use crate::auth::{self, Key};
use crate::message::Message;
use weir_telemetry::Counts;

pub use count::{Reject, SendError, StreamCount};
pub use settings::StreamSettings;
pub use start::ProcessStart;
pub use streams::Streams;

use receiver::{Arrival, Receiver};
use replay::ReplayWindow;
use sender::Sender;

/// Most frames on their way in one direction, and most that a receiver holds
/// behind a gap: a receiver refuses what lies further ahead.
pub const FRAMES_IN_FLIGHT: u64 = 256;

/// Bytes of a frame in front of its payload.
const HEADERS: usize = EthernetView::SIZE + ActorFrameRepr::LEN;

/// The peer's liveness.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Liveness {
    /// It answers, or need not.
    Answering,
    /// [`StreamSettings::rounds`] rounds of repetitions have passed without an
    /// acknowledgement of anything new. A watcher may suspect the peer;
    /// the stream goes on trying, each [`StreamSettings::longest_wait`].
    Unanswered,
}

/// The sender and receiver of an actor frame: to find its stream
/// by. Nothing is proven yet.
///
/// # Errors
///
/// [`Reject::NotActor`], [`Reject::Malformed`].
pub fn ends(bytes: &[u8]) -> Result<(ProcessStart, ProcessStart), Reject> {
    let frame = actor_frame(bytes)?;
    Ok((
        ProcessStart(frame.source()),
        ProcessStart(frame.destination()),
    ))
}

/// Writes the code of a frame that someone else made or changed, from the
/// first byte of its Ethernet header. For tests and tools that have the key.
///
/// # Errors
///
/// [`Reject::NotActor`], [`Reject::Malformed`].
pub fn seal(key: &Key, bytes: &mut [u8]) -> Result<(), Reject> {
    let frame = actor_frame(bytes)?;
    let code = key.code(frame.protected(), frame.payload());
    let own = bytes.get_mut(EthernetView::SIZE..).unwrap_or_default();
    ActorFrameViewMut::new(own)
        .map_err(Reject::Malformed)?
        .set_mac(code);
    Ok(())
}

fn actor_frame(bytes: &[u8]) -> Result<ActorFrameView<'_>, Reject> {
    let ethernet = EthernetView::new(bytes).map_err(Reject::Malformed)?;
    if ethernet.ethertype() != ethertype::ACTOR {
        return Err(Reject::NotActor);
    }
    ActorFrameView::new(ethernet.rest()).map_err(Reject::Malformed)
}

/// One end of a stream.
#[derive(Debug)]
pub struct Stream {
    local: ProcessStart,
    remote: ProcessStart,
    key: Key,
    settings: StreamSettings,
    sender: Sender,
    receiver: Receiver,
    replay: ReplayWindow,
    /// Number of the last transmission.
    number: u64,
    unanswered: bool,
    counts: Counts<StreamCount>,
    scratch: Vec<u8>,
}

impl Stream {
    /// The end at `local` of the stream between two process starts. There must
    /// never be a second one for the same pair: it would begin anew with
    /// numbers that the peer has seen.
    pub fn new(
        local: ProcessStart,
        remote: ProcessStart,
        key: Key,
        settings: StreamSettings,
    ) -> Stream {
        let settings = settings.bounded();
        Stream {
            local,
            remote,
            key,
            sender: Sender::new(&settings),
            receiver: Receiver::new(&settings),
            settings,
            replay: ReplayWindow::default(),
            number: 0,
            unanswered: false,
            counts: Counts::default(),
            scratch: Vec::new(),
        }
    }

    /// The process start at the other end.
    pub const fn remote(&self) -> ProcessStart {
        self.remote
    }

    /// Gives a message to the stream.
    ///
    /// # Errors
    ///
    /// [`SendError::Full`]: [`StreamSettings::queue`] bytes wait already, the
    /// peer is slow or gone. The message was not taken; the caller drops it, for
    /// messages of the protocol are repeated until they are answered.
    /// [`SendError::TooLong`]: it is longer than [`StreamSettings::longest`],
    /// and would be the next time.
    pub fn send(&mut self, message: &[u8]) -> Result<(), SendError> {
        let sent = self.sender.push(message);
        self.counts.add(match sent {
            Ok(()) => StreamCount::MessagesSent,
            Err(SendError::Full) => StreamCount::RefusedFull,
            Err(SendError::TooLong) => StreamCount::RefusedTooLong,
        });
        sent
    }

    /// Encodes a message and gives it to the stream.
    ///
    /// # Errors
    ///
    /// As [`Stream::send`].
    pub fn send_message(&mut self, message: &Message) -> Result<(), SendError> {
        let mut bytes = core::mem::take(&mut self.scratch);
        bytes.clear();
        message.encode(&mut bytes);
        let sent = self.send(&bytes);
        self.scratch = bytes;
        sent
    }

    /// A frame has come, from the first byte of its Ethernet header.
    ///
    /// # Errors
    ///
    /// See [`Reject`]. Nothing has changed then but a count; only with
    /// [`Reject::OutOfWindow`] and [`Reject::Unread`], where the frame is
    /// genuine and new, its transmission is taken and what it acknowledges is
    /// acknowledged.
    pub fn receive(&mut self, now: Time, bytes: &[u8]) -> Result<(), Reject> {
        let outcome = self.take(now, bytes);
        self.counts.add(match outcome {
            Ok(Arrival::Acknowledgement) => StreamCount::AcknowledgementsReceived,
            Ok(Arrival::New) => StreamCount::FramesReceived,
            Ok(Arrival::Duplicate) => StreamCount::FramesDuplicate,
            Err(reject) => reject.count(),
        });
        outcome.map(|_| ())
    }

    fn take(&mut self, now: Time, bytes: &[u8]) -> Result<Arrival, Reject> {
        let frame = actor_frame(bytes)?;
        if frame.destination() != self.local.0 {
            return Err(Reject::OtherDestination);
        }
        if frame.source() != self.remote.0 {
            return Err(Reject::OtherSource);
        }
        let code = self.key.code(frame.protected(), frame.payload());
        if !auth::equal(&code, &frame.mac()) {
            return Err(Reject::Code);
        }
        // From here on the peer itself has sent it, at some time.
        self.replay.check(frame.number())?;
        receiver::check_payload(&frame)?;
        let progress = self
            .sender
            .acknowledge(now, frame.acknowledged(), frame.selective())?;
        self.replay.mark(frame.number());
        if progress {
            self.unanswered = false;
        }
        if frame.flags() & flags::DATA == 0 {
            return Ok(Arrival::Acknowledgement);
        }
        let (arrival, broken) = self.receiver.take(now, &frame)?;
        self.counts.add_many(StreamCount::BrokenMessages, broken);
        Ok(arrival)
    }

    /// The next message that has come.
    pub fn poll_message(&mut self) -> Option<Vec<u8>> {
        let message = self.receiver.next_message()?;
        self.counts.add(StreamCount::MessagesReceived);
        Some(message)
    }

    /// The next frame to send, whole with its Ethernet header.
    pub fn poll_frame(&mut self, now: Time) -> Option<Vec<u8>> {
        self.tick(now);
        let mut header = ActorFrameRepr {
            source: self.local.0,
            destination: self.remote.0,
            ..ActorFrameRepr::default()
        };
        (header.acknowledged, header.selective) = self.receiver.acknowledgement();
        let number = self.number + 1;
        header.number = number;
        let frame = if let Some(piece) = self.sender.next_piece(now) {
            self.counts.add(if piece.repeated {
                StreamCount::FramesRepeated
            } else {
                StreamCount::FramesSent
            });
            header.flags = piece.flags;
            header.fragment = piece.fragment;
            header.sequence = piece.sequence;
            build(&self.settings, &self.key, header, piece.payload)
        } else if self.receiver.acknowledges_now(now) {
            self.counts.add(StreamCount::AcknowledgementsSent);
            build(&self.settings, &self.key, header, &[])
        } else {
            return None;
        };
        self.number = number;
        self.receiver.acknowledged();
        Some(frame)
    }

    /// Does what is due: marks what was not acknowledged in time for
    /// repetition. [`Stream::poll_frame`] does it too.
    pub fn tick(&mut self, now: Time) {
        if self.sender.expire(now) {
            self.counts.add(StreamCount::Rounds);
            if !self.unanswered && self.sender.rounds() >= self.settings.rounds {
                self.unanswered = true;
                self.counts.add(StreamCount::Unanswered);
            }
        }
    }

    /// When there is something to do next, provided that
    /// [`Stream::poll_frame`] has been called until it gave nothing.
    pub fn next_deadline(&self) -> Option<Time> {
        let (repeat, acknowledge) = (self.sender.next_due(), self.receiver.acknowledges_at());
        match (repeat, acknowledge) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        }
    }

    /// The peer's liveness.
    pub const fn liveness(&self) -> Liveness {
        if self.unanswered {
            Liveness::Unanswered
        } else {
            Liveness::Answering
        }
    }

    /// True where all that was sent has been acknowledged.
    pub fn is_idle(&self) -> bool {
        self.sender.is_idle()
    }

    /// Bytes of messages that wait for room in the window.
    pub const fn waiting(&self) -> usize {
        self.sender.waiting()
    }

    /// Where the books of what is to be sent disagree, in words: for tests.
    pub(crate) fn audit(&self) -> Option<String> {
        self.sender.audit()
    }

    /// The smoothed round trip, nanoseconds; `None` before the first
    /// measurement.
    pub const fn round_trip(&self) -> Option<u64> {
        self.sender.round_trip()
    }

    /// Counts of events.
    pub const fn counts(&self) -> &Counts<StreamCount> {
        &self.counts
    }
}

/// A frame with its code.
fn build(
    settings: &StreamSettings,
    key: &Key,
    mut header: ActorFrameRepr,
    payload: &[u8],
) -> Vec<u8> {
    header.length = payload.len() as u16;
    let ethernet = EthernetRepr {
        destination: settings.remote,
        source: settings.local,
        ethertype: ethertype::ACTOR,
    };
    let mut headers = [0; HEADERS];
    let (link, own) = headers.split_at_mut(EthernetView::SIZE);
    let written = (ethernet.emit(link), header.emit(own));
    debug_assert!(matches!(written, (Ok(_), Ok(_))), "there is room");
    // The code lies at the header's end, over all that is before it.
    if let Some((protected, place)) = own.split_last_chunk_mut::<16>() {
        *place = key.code(protected, payload);
    }
    let mut frame = Vec::with_capacity(HEADERS + payload.len());
    frame.extend_from_slice(&headers);
    frame.extend_from_slice(payload);
    frame
}
