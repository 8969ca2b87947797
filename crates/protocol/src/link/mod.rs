//! A link between two processes on different hosts, as datagrams and without I/O: data
//! frames ([`crate::wire`]), messages on a reliable stream ([`crate::stream`]), and heartbeats
//! ([`crate::heartbeat`]).
//!
//! Each datagram is an Ethernet frame in VXLAN-GPE (the payload of a UDP datagram): NSH for data,
//! an actor frame for the stream, a [control frame](control) for the rest. Data may be lost,
//! doubled and reordered; a data frame that is too long for a datagram goes on the stream, so
//! none is cut or lost for its length. What comes is refused unless it is of this pair of process
//! starts and has a code made with the cluster's key.
//!
//! Calls are `(now, event)`; after each the driver sends the [`Batch`] that it gave to
//! [`Link::poll`], and takes messages ([`Link::poll_message`]).

mod batch;
pub mod control;
mod count;

use weir_packet::ethernet::EthernetView;
use weir_packet::protocol::ethertype;
use weir_packet::vxlan::VxlanGpeRepr;
use weir_packet::{Frame, FramePool, PacketMemory, Time};

use crate::auth::Key;
use crate::heartbeat::{HeartbeatSettings, Heartbeats, Judgement};
use crate::stream::{ProcessStart, Stream, StreamSettings};
use crate::wire::{Hop, OVERHEAD, decode_data, encode_data};
use weir_telemetry::Counts;

pub use batch::Batch;
pub use control::Gauges;
pub use count::{LinkCount, LinkReject};

use control::{Control, Head};

/// Bytes in front of the Ethernet frame in a datagram.
pub const GPE: usize = VxlanGpeRepr::LEN;
/// Longest payload of a UDP datagram over IPv4 and IPv6.
const DATAGRAM: usize = 65_507;
/// Longest packet that travels as a datagram.
pub const LONGEST: usize = DATAGRAM - GPE - OVERHEAD;

/// First octet of a message on a link's stream.
const MESSAGE: u8 = 0;
/// The same of a data frame that is too long for a datagram.
const DATA: u8 = 1;

/// Settings of a link.
#[derive(Clone, Copy, Debug)]
pub struct LinkSettings {
    /// The cluster's key.
    pub key: Key,
    /// Network identifier of the cluster, 24 bits: what keeps the datagrams of two clusters
    /// apart for who looks on.
    pub network: u32,
    /// The stream.
    pub stream: StreamSettings,
    /// Heartbeats.
    pub beats: HeartbeatSettings,
    /// Nanoseconds from the start on in which the peer's silence is not judged: it may have a lot
    /// to do before it speaks.
    pub grace: u64,
}

/// One end of a link.
#[derive(Debug)]
pub struct Link {
    settings: LinkSettings,
    local: ProcessStart,
    remote: ProcessStart,
    stream: Stream,
    beats: Heartbeats<ProcessStart>,
    /// Number of the last control frame sent, and the highest received.
    number: u64,
    seen: u64,
    /// Told in each beat, and what the peer told last.
    own: Gauges,
    theirs: Gauges,
    /// The peer is suspected.
    silent: bool,
    scratch: Vec<u8>,
    counts: Counts<LinkCount>,
}

impl Link {
    /// The end at `local`. There must never be a second one for the same pair: its stream would
    /// begin with numbers that the peer has seen.
    pub fn new(
        now: Time,
        local: ProcessStart,
        remote: ProcessStart,
        settings: LinkSettings,
    ) -> Link {
        let mut beats = Heartbeats::new(now, settings.beats);
        beats.watch_later(now, remote, settings.grace);
        Link {
            stream: Stream::new(local, remote, settings.key, settings.stream),
            settings,
            local,
            remote,
            beats,
            number: 0,
            seen: 0,
            own: Gauges::default(),
            theirs: Gauges::default(),
            silent: false,
            scratch: Vec::new(),
            counts: Counts::default(),
        }
    }

    /// Gives a message to the stream; false where too many bytes wait there: it is for the
    /// caller to try again.
    ///
    /// A message that no stream can carry is dropped, and counted.
    pub fn send(&mut self, message: &[u8]) -> bool {
        self.give(MESSAGE, message)
    }

    fn give(&mut self, kind: u8, bytes: &[u8]) -> bool {
        if bytes.len() >= self.settings.stream.longest {
            self.counts.add(LinkCount::TooLong);
            return true;
        }
        if self.stream.waiting() + bytes.len() >= self.settings.stream.queue {
            return false;
        }
        let mut whole = core::mem::take(&mut self.scratch);
        whole.clear();
        whole.push(kind);
        whole.extend_from_slice(bytes);
        let sent = self.stream.send(&whole);
        self.scratch = whole;
        sent.is_ok()
    }

    /// True where a message of some size finds room on the stream.
    pub fn has_room(&self) -> bool {
        2 * self.stream.waiting() < self.settings.stream.queue
    }

    /// Appends data frames as datagrams. One that is too long goes on the stream; one that
    /// finds no room there is lost, as on any way between hosts: the switch repeats it.
    pub fn send_frames(&mut self, memory: &PacketMemory, frames: &[Frame], batch: &mut Batch) {
        let hop = Hop::default();
        for frame in frames {
            let is_long = memory.bytes(frame).len() > LONGEST;
            let mut long = Vec::new();
            let out = match is_long {
                true => &mut long,
                false => batch.begin(self.settings.network),
            };
            if encode_data(memory, frame, &hop, &self.settings.key, out).is_err() {
                batch.take_back();
                self.counts.add(LinkCount::Unsendable);
                continue;
            }
            if is_long {
                let sent = self.give(DATA, &long);
                self.counts.add(match sent {
                    true => LinkCount::LongSent,
                    false => LinkCount::NoRoom,
                });
            } else {
                batch.end();
                self.counts.add(LinkCount::DataSent);
            }
        }
    }

    /// A datagram has come. A data frame in it goes to the end of `frames`.
    ///
    /// # Errors
    ///
    /// See [`LinkReject`]; nothing else has changed then but a count.
    pub fn receive(
        &mut self,
        now: Time,
        pool: &mut FramePool,
        datagram: &[u8],
        frames: &mut Vec<Frame>,
    ) -> Result<(), LinkReject> {
        let outcome = self.take(now, pool, datagram, frames);
        if let Err(reject) = outcome {
            self.counts.add(reject.count());
        }
        outcome
    }

    fn take(
        &mut self,
        now: Time,
        pool: &mut FramePool,
        datagram: &[u8],
        frames: &mut Vec<Frame>,
    ) -> Result<(), LinkReject> {
        let frame = control::unwrap(datagram)?;
        let ethernet = EthernetView::new(frame).map_err(|_| LinkReject::Malformed)?;
        match ethernet.ethertype() {
            ethertype::NSH => {
                let decoded = decode_data(pool, &self.settings.key, frame);
                let (frame, _) = decoded.map_err(LinkReject::Data)?;
                frames.push(frame);
                self.counts.add(LinkCount::DataReceived);
            }
            ethertype::ACTOR => self
                .stream
                .receive(now, frame)
                .map_err(LinkReject::Stream)?,
            ethertype::LINK => self.control(now, frame)?,
            _ => return Err(LinkReject::Malformed),
        }
        Ok(())
    }

    fn control(&mut self, now: Time, frame: &[u8]) -> Result<(), LinkReject> {
        let (head, control) = control::read(&self.settings.key, frame)?;
        if (head.source, head.destination) != (self.remote, self.local) {
            return Err(LinkReject::OtherEnds);
        }
        // A beat that comes late says what was; one that comes twice says nothing.
        if head.number <= self.seen {
            return Err(LinkReject::Old);
        }
        self.seen = head.number;
        if let Control::Beat(beat, gauges) = control {
            self.theirs = gauges;
            self.beats.heard(now, self.remote, beat);
            self.counts.add(LinkCount::BeatsReceived);
        }
        Ok(())
    }

    /// The next message that has come, or a data frame that was too long for a datagram, which
    /// goes to the end of `frames`.
    pub fn poll_message(
        &mut self,
        pool: &mut FramePool,
        frames: &mut Vec<Frame>,
    ) -> Option<Vec<u8>> {
        while let Some(mut message) = self.stream.poll_message() {
            match message.first() {
                Some(&MESSAGE) => {
                    message.drain(..1);
                    return Some(message);
                }
                Some(&DATA) => match decode_data(pool, &self.settings.key, &message[1..]) {
                    Ok((frame, _)) => {
                        frames.push(frame);
                        self.counts.add(LinkCount::DataReceived);
                    }
                    Err(why) => self.counts.add(LinkReject::Data(why).count()),
                },
                _ => self.counts.add(LinkReject::Malformed.count()),
            }
        }
        None
    }

    /// Appends what the stream wants to send, and beats that are due.
    pub fn poll(&mut self, now: Time, batch: &mut Batch) {
        let (mut beats, mut judgements) = (Vec::new(), Vec::new());
        if self.beats.next_deadline() <= now {
            self.beats.tick(now, &mut beats, &mut judgements);
        }
        for judgement in judgements {
            self.silent = matches!(judgement, Judgement::Suspect(_));
            if self.silent {
                self.counts.add(LinkCount::Suspected);
            }
        }
        for (_, beat) in beats {
            self.say(Control::Beat(beat, self.own), batch);
            self.counts.add(LinkCount::BeatsSent);
        }
        while let Some(frame) = self.stream.poll_frame(now) {
            batch.begin(self.settings.network).extend_from_slice(&frame);
            batch.end();
        }
    }

    fn say(&mut self, control: Control<'_>, batch: &mut Batch) {
        self.number += 1;
        let head = Head {
            source: self.local,
            destination: self.remote,
            number: self.number,
        };
        control::write(
            &self.settings.key,
            head,
            control,
            batch.begin(self.settings.network),
        );
        batch.end();
    }

    /// Sets the gauges that each beat carries.
    pub fn set_gauges(&mut self, gauges: Gauges) {
        self.own = gauges;
    }

    /// Gauges of the peer's last beat.
    pub const fn told(&self) -> Gauges {
        self.theirs
    }

    /// True where the peer is suspected: nothing was heard of it for too long, or it does not
    /// hear us.
    pub const fn is_silent(&self) -> bool {
        self.silent
    }

    /// True where all messages have come to the peer.
    pub fn is_idle(&self) -> bool {
        self.stream.is_idle()
    }

    /// When [`Link::poll`] has something to do next.
    pub fn next_deadline(&self) -> Time {
        let beat = self.beats.next_deadline();
        let stream = self.stream.next_deadline();
        stream.map_or(beat, |at| at.min(beat))
    }

    /// The smoothed round trip of the stream, nanoseconds; `None` before the first measurement.
    pub const fn round_trip(&self) -> Option<u64> {
        self.stream.round_trip()
    }

    /// Counts of events.
    pub const fn counts(&self) -> &Counts<LinkCount> {
        &self.counts
    }
}

#[cfg(test)]
mod tests;
