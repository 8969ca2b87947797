//! Actor frames: what reliable streams of messages between processes are cut into. They travel
//! under EtherType 0x88B5 ([`crate::protocol::ethertype::ACTOR`]).

use crate::malformed::Malformed;
use crate::wire::{BufferTooSmall, room, views};

/// How an actor frame begins, right behind the Ethernet header.
pub const MAGIC: u16 = 0x5745;

/// Version of the format.
pub const VERSION: u8 = 1;

/// Marks of an actor frame.
pub mod flags {
    /// It has a stream sequence number of its own and a payload; without, it only acknowledges.
    pub const DATA: u8 = 1;
    /// The payload is a piece of one message; without, whole messages.
    pub const FRAGMENT: u8 = 2;
    /// With [`FRAGMENT`]: the last piece.
    pub const LAST: u8 = 4;
    /// All that is defined.
    pub const ALL: u8 = DATA | FRAGMENT | LAST;
}

fn check(head: &[u8; 72], rest: usize) -> Result<(), Malformed> {
    if head[0..2] != MAGIC.to_be_bytes() {
        Err(Malformed::WrongKind)
    } else if head[2] != VERSION || head[3] & !flags::ALL != 0 {
        Err(Malformed::ActorBadVersion)
    } else if usize::from(u16::from_be_bytes([head[4], head[5]])) != rest {
        Err(Malformed::ActorTruncated)
    } else {
        Ok(())
    }
}

views! {
    /// The header of an actor frame.
    ActorFrameView, ActorFrameViewMut [72] or ActorTruncated, checked by check;
    /// [`MAGIC`].
    magic / set_magic: u16 = 0;
    /// [`VERSION`].
    version / set_version: u8 = 2;
    /// See [`flags`].
    flags / set_flags: u8 = 3;
    /// Octets of payload, all that is left of the frame.
    length / set_length: u16 = 4;
    /// Number of the fragment in its message, from 0.
    fragment / set_fragment: u16 = 6;
    /// Process start that sends.
    source / set_source: u64 = 8;
    /// Process start that it is for.
    destination / set_destination: u64 = 16;
    /// Number of this transmission, from 1; no two frames of a stream's direction share one, a
    /// repetition has its own.
    number / set_number: u64 = 24;
    /// Place in the stream, from 1; 0 without [`flags::DATA`].
    sequence / set_sequence: u64 = 32;
    /// All of the other direction's sequence numbers up to this one have come.
    acknowledged / set_acknowledged: u64 = 40;
    /// Bit i (from the lowest): sequence number `acknowledged` + 2 + i has come too.
    selective / set_selective: u64 = 48;
    /// Keyed code over the header before it and the payload.
    mac / set_mac: [u8; 16] = 56;
}

impl<'a> ActorFrameView<'a> {
    /// The header up to the code that protects it.
    pub fn protected(&self) -> &'a [u8] {
        self.head.get(..56).unwrap_or(&[])
    }

    /// Payload behind the header.
    pub const fn payload(&self) -> &'a [u8] {
        self.rest
    }
}

/// The header of an actor frame as values.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ActorFrameRepr {
    /// See [`flags`].
    pub flags: u8,
    /// Octets of payload.
    pub length: u16,
    /// Number of the fragment in its message, from 0.
    pub fragment: u16,
    /// Process start that sends.
    pub source: u64,
    /// Process start that it is for.
    pub destination: u64,
    /// Number of this transmission.
    pub number: u64,
    /// Place in the stream.
    pub sequence: u64,
    /// Last sequence number before which nothing is missing.
    pub acknowledged: u64,
    /// Which of the 64 after the first missing one have come.
    pub selective: u64,
    /// Keyed code.
    pub mac: [u8; 16],
}

impl ActorFrameRepr {
    /// Octets of the header.
    pub const LEN: usize = ActorFrameView::SIZE;

    /// Reads the header at the start of `bytes`, which end with the payload. The code is not
    /// looked at.
    ///
    /// # Errors
    ///
    /// [`Malformed::ActorTruncated`], [`Malformed::ActorBadVersion`]; [`Malformed::WrongKind`]
    /// without [`MAGIC`].
    pub fn parse(bytes: &[u8]) -> Result<ActorFrameRepr, Malformed> {
        let view = ActorFrameView::new(bytes)?;
        Ok(ActorFrameRepr {
            flags: view.flags(),
            length: view.length(),
            fragment: view.fragment(),
            source: view.source(),
            destination: view.destination(),
            number: view.number(),
            sequence: view.sequence(),
            acknowledged: view.acknowledged(),
            selective: view.selective(),
            mac: view.mac(),
        })
    }

    /// Octets that [`emit`](ActorFrameRepr::emit) writes.
    pub const fn header_len(&self) -> usize {
        ActorFrameRepr::LEN
    }

    /// Writes the header and returns its length. The payload comes behind it.
    ///
    /// # Errors
    ///
    /// The buffer is shorter than [`header_len`](ActorFrameRepr::header_len).
    pub fn emit(&self, buffer: &mut [u8]) -> Result<usize, BufferTooSmall> {
        let room = room(buffer, ActorFrameRepr::LEN)?;
        for (place, octet) in room.iter_mut().zip(MAGIC.to_be_bytes()) {
            *place = octet;
        }
        if let Some(version) = room.get_mut(2) {
            *version = VERSION;
        }
        // Magic, version and zeros, with nothing behind them, are a header.
        if let Ok(mut view) = ActorFrameViewMut::new(room) {
            view.set_flags(self.flags);
            view.set_length(self.length);
            view.set_fragment(self.fragment);
            view.set_source(self.source);
            view.set_destination(self.destination);
            view.set_number(self.number);
            view.set_sequence(self.sequence);
            view.set_acknowledged(self.acknowledged);
            view.set_selective(self.selective);
            view.set_mac(self.mac);
        }
        Ok(ActorFrameRepr::LEN)
    }
}
