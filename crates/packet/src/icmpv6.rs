//! ICMPv6 (RFC 4443).

use crate::checksum::Sum;
use crate::malformed::Malformed;
use crate::wire::{BufferTooSmall, room, views};

/// Message types (IANA ICMPv6 Parameters).
pub mod kind {
    /// Destination unreachable.
    pub const UNREACHABLE: u8 = 1;
    /// The packet is too big for the next link.
    pub const TOO_BIG: u8 = 2;
    /// Hop limit or reassembly time exceeded.
    pub const TIME_EXCEEDED: u8 = 3;
    /// Parameter problem.
    pub const PARAMETER: u8 = 4;
    /// Echo request.
    pub const ECHO: u8 = 128;
    /// Answer to an echo request.
    pub const ECHO_REPLY: u8 = 129;
    /// Router solicitation (RFC 4861), the first of neighbour discovery's.
    pub const ROUTER_SOLICITATION: u8 = 133;
    /// Redirect (RFC 4861), the last of neighbour discovery's.
    pub const REDIRECT: u8 = 137;
}

views! {
    /// An ICMPv6 header: eight octets, of which the last four depend on the type.
    Icmpv6View, Icmpv6ViewMut [8] or Icmpv6Truncated, found by is_icmpv6 at l4;
    /// The type; see [`kind`].
    kind / set_kind: u8 = 0;
    /// The code.
    code / set_code: u8 = 1;
    /// The checksum.
    checksum / set_checksum: u16 = 2;
    /// The four octets that depend on the type.
    word / set_word: u32 = 4;
    /// An echo's identifier.
    id / set_id: u16 = 4;
    /// An echo's sequence number.
    sequence / set_sequence: u16 = 6;
}

impl<'a> Icmpv6View<'a> {
    /// True if the message reports an error and quotes a packet: types below 128.
    #[inline]
    pub fn is_error(&self) -> bool {
        matches!(self.kind(), 1..=127)
    }

    /// True if the message has an identifier.
    #[inline]
    pub fn is_query(&self) -> bool {
        crate::quoted::is_query(crate::protocol::ip::ICMPV6, self.kind())
    }

    /// The packet that an error quotes, from its IPv6 header on; `None` in other messages.
    #[inline]
    pub fn quoted(&self) -> Option<&'a [u8]> {
        if self.is_error() {
            Some(self.rest)
        } else {
            None
        }
    }
}

impl Icmpv6ViewMut<'_> {
    /// Computes and writes the checksum; `pseudo` is the pseudo-header's sum
    /// ([`Sum::pseudo_ipv6`]), its length that of header and payload.
    pub fn fill_checksum(&mut self, pseudo: Sum) {
        self.set_checksum(0);
        let sum = pseudo.bytes(&self.head[..]).bytes(self.rest).checksum();
        self.set_checksum(sum);
    }
}

/// An ICMPv6 header as values, without the body.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Icmpv6Repr {
    /// An echo request or reply.
    Echo {
        /// True if it is the reply.
        reply: bool,
        /// Identifier.
        id: u16,
        /// Sequence number.
        sequence: u16,
    },
    /// The destination can't be reached.
    Unreachable {
        /// Why: 0 no route, 1 prohibited, 3 address, 4 port, ...
        code: u8,
    },
    /// The packet is too big for the next link.
    TooBig {
        /// The next link's MTU, octets.
        mtu: u32,
    },
    /// A packet's time was up.
    TimeExceeded {
        /// 0 in transit, 1 in reassembly.
        code: u8,
    },
    /// A header can't be processed.
    Parameter {
        /// The message's code.
        code: u8,
        /// Which octet.
        pointer: u32,
    },
    /// Any other message.
    Other {
        /// The type.
        kind: u8,
        /// The code.
        code: u8,
        /// The four octets that depend on the type.
        word: u32,
    },
}

impl Icmpv6Repr {
    /// Reads the header at the start of `bytes`. The checksum is not looked at.
    ///
    /// # Errors
    ///
    /// [`Malformed::Icmpv6Truncated`].
    pub fn parse(bytes: &[u8]) -> Result<Icmpv6Repr, Malformed> {
        let view = Icmpv6View::new(bytes)?;
        let (code, word) = (view.code(), view.word());
        Ok(match view.kind() {
            kind @ (kind::ECHO | kind::ECHO_REPLY) if code == 0 => Icmpv6Repr::Echo {
                reply: kind == kind::ECHO_REPLY,
                id: view.id(),
                sequence: view.sequence(),
            },
            kind::UNREACHABLE if word == 0 => Icmpv6Repr::Unreachable { code },
            kind::TOO_BIG if code == 0 => Icmpv6Repr::TooBig { mtu: word },
            kind::TIME_EXCEEDED if word == 0 => Icmpv6Repr::TimeExceeded { code },
            kind::PARAMETER => Icmpv6Repr::Parameter {
                code,
                pointer: word,
            },
            // Octets that must be zero and are not are kept.
            kind => Icmpv6Repr::Other { kind, code, word },
        })
    }

    /// Octets that [`emit`](Icmpv6Repr::emit) writes.
    pub const fn header_len(&self) -> usize {
        Icmpv6View::SIZE
    }

    /// Writes the header with a checksum of zero ([`Icmpv6ViewMut::fill_checksum`] needs the
    /// payload) and returns its length.
    ///
    /// # Errors
    ///
    /// The buffer is shorter than [`header_len`](Icmpv6Repr::header_len).
    pub fn emit(&self, buffer: &mut [u8]) -> Result<usize, BufferTooSmall> {
        let room = room(buffer, self.header_len())?;
        let (kind, code, word) = match *self {
            Icmpv6Repr::Echo {
                reply,
                id,
                sequence,
            } => (
                if reply { kind::ECHO_REPLY } else { kind::ECHO },
                0,
                u32::from(id) << 16 | u32::from(sequence),
            ),
            Icmpv6Repr::Unreachable { code } => (kind::UNREACHABLE, code, 0),
            Icmpv6Repr::TooBig { mtu } => (kind::TOO_BIG, 0, mtu),
            Icmpv6Repr::TimeExceeded { code } => (kind::TIME_EXCEEDED, code, 0),
            Icmpv6Repr::Parameter { code, pointer } => (kind::PARAMETER, code, pointer),
            Icmpv6Repr::Other { kind, code, word } => (kind, code, word),
        };
        if let Ok(mut view) = Icmpv6ViewMut::new(room) {
            view.set_kind(kind);
            view.set_code(code);
            view.set_word(word);
        }
        Ok(self.header_len())
    }
}
