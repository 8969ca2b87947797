//! ICMP (RFC 792).

use std::net::Ipv4Addr;

use crate::checksum::Sum;
use crate::malformed::Malformed;
use crate::wire::{BufferTooSmall, room, views};

pub use crate::quoted::{Quoted, is_query};

/// Message types (IANA ICMP Parameters).
pub mod kind {
    /// Answer to an echo request.
    pub const ECHO_REPLY: u8 = 0;
    /// Destination unreachable.
    pub const UNREACHABLE: u8 = 3;
    /// Source quench (deprecated by RFC 6633).
    pub const SOURCE_QUENCH: u8 = 4;
    /// There is a better way.
    pub const REDIRECT: u8 = 5;
    /// Echo request.
    pub const ECHO: u8 = 8;
    /// TTL or reassembly time exceeded.
    pub const TIME_EXCEEDED: u8 = 11;
    /// Parameter problem.
    pub const PARAMETER: u8 = 12;
}

views! {
    /// An ICMP header: eight octets, of which the last four depend on the type.
    IcmpView, IcmpViewMut [8] or IcmpTruncated, found by is_icmp at l4;
    /// The type; see [`kind`].
    kind / set_kind: u8 = 0;
    /// The code.
    code / set_code: u8 = 1;
    /// The checksum.
    checksum / set_checksum: u16 = 2;
    /// The four octets that depend on the type.
    word / set_word: u32 = 4;
    /// A query's identifier.
    id / set_id: u16 = 4;
    /// A query's sequence number.
    sequence / set_sequence: u16 = 6;
}

impl<'a> IcmpView<'a> {
    /// True if the message reports an error and quotes a packet.
    #[inline]
    pub fn is_error(&self) -> bool {
        matches!(
            self.kind(),
            kind::UNREACHABLE
                | kind::SOURCE_QUENCH
                | kind::REDIRECT
                | kind::TIME_EXCEEDED
                | kind::PARAMETER
        )
    }

    /// True if the message has an identifier: echo, timestamp, information, address mask.
    #[inline]
    pub fn is_query(&self) -> bool {
        crate::quoted::is_query(crate::protocol::ip::ICMP, self.kind())
    }

    /// The packet that an error quotes, from its IPv4 header on; `None` in other messages.
    #[inline]
    pub fn quoted(&self) -> Option<&'a [u8]> {
        if self.is_error() {
            Some(self.rest)
        } else {
            None
        }
    }

    /// True if the checksum over header and payload is right.
    pub fn checksum_is_right(&self) -> bool {
        Sum::new().bytes(&self.head[..]).bytes(self.rest).folded() == 0xffff
    }
}

impl IcmpViewMut<'_> {
    /// Computes and writes the checksum over header and payload.
    pub fn fill_checksum(&mut self) {
        self.set_checksum(0);
        let sum = Sum::new().bytes(&self.head[..]).bytes(self.rest).checksum();
        self.set_checksum(sum);
    }
}

/// An ICMP header as values, without the body (echo data, the quoted packet).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum IcmpRepr {
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
        /// Why: 0 net, 1 host, 2 protocol, 3 port, 4 fragmentation needed, 13 prohibited, ...
        code: u8,
        /// The next hop's MTU, for code 4 (RFC 1191); 0 else.
        mtu: u16,
    },
    /// There is a better way.
    Redirect {
        /// For what: 0 net, 1 host.
        code: u8,
        /// The better gateway.
        gateway: Ipv4Addr,
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
        pointer: u8,
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

impl IcmpRepr {
    /// Reads the header at the start of `bytes`. The checksum is not looked at.
    ///
    /// # Errors
    ///
    /// [`Malformed::IcmpTruncated`].
    pub fn parse(bytes: &[u8]) -> Result<IcmpRepr, Malformed> {
        let view = IcmpView::new(bytes)?;
        let (code, word) = (view.code(), view.word());
        let other = IcmpRepr::Other {
            kind: view.kind(),
            code,
            word,
        };
        Ok(match view.kind() {
            kind @ (kind::ECHO | kind::ECHO_REPLY) if code == 0 => IcmpRepr::Echo {
                reply: kind == kind::ECHO_REPLY,
                id: view.id(),
                sequence: view.sequence(),
            },
            // Octets that must be zero and are not are kept by `Other`.
            kind::UNREACHABLE if word <= 0xffff => IcmpRepr::Unreachable {
                code,
                mtu: word as u16,
            },
            kind::REDIRECT => IcmpRepr::Redirect {
                code,
                gateway: Ipv4Addr::from(word),
            },
            kind::TIME_EXCEEDED if word == 0 => IcmpRepr::TimeExceeded { code },
            kind::PARAMETER if word & 0xff_ffff == 0 => IcmpRepr::Parameter {
                code,
                pointer: (word >> 24) as u8,
            },
            _ => other,
        })
    }

    /// Octets that [`emit`](IcmpRepr::emit) writes.
    pub const fn header_len(&self) -> usize {
        IcmpView::SIZE
    }

    /// Writes the header with a checksum of zero ([`IcmpViewMut::fill_checksum`] needs the
    /// payload) and returns its length.
    ///
    /// # Errors
    ///
    /// The buffer is shorter than [`header_len`](IcmpRepr::header_len).
    pub fn emit(&self, buffer: &mut [u8]) -> Result<usize, BufferTooSmall> {
        let room = room(buffer, self.header_len())?;
        let (kind, code, word) = match *self {
            IcmpRepr::Echo {
                reply,
                id,
                sequence,
            } => (
                if reply { kind::ECHO_REPLY } else { kind::ECHO },
                0,
                u32::from(id) << 16 | u32::from(sequence),
            ),
            IcmpRepr::Unreachable { code, mtu } => (kind::UNREACHABLE, code, u32::from(mtu)),
            IcmpRepr::Redirect { code, gateway } => (kind::REDIRECT, code, u32::from(gateway)),
            IcmpRepr::TimeExceeded { code } => (kind::TIME_EXCEEDED, code, 0),
            IcmpRepr::Parameter { code, pointer } => {
                (kind::PARAMETER, code, u32::from(pointer) << 24)
            }
            IcmpRepr::Other { kind, code, word } => (kind, code, word),
        };
        if let Ok(mut view) = IcmpViewMut::new(room) {
            view.set_kind(kind);
            view.set_code(code);
            view.set_word(word);
        }
        Ok(self.header_len())
    }
}
