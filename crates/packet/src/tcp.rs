//! TCP with its options (RFC 9293).

use crate::checksum::{Change, Sum};
use crate::malformed::Malformed;
use crate::wire::{BufferTooSmall, room, views};

/// Bits of the flag octet.
pub mod flag {
    /// No more data from the sender.
    pub const FIN: u8 = 0x01;
    /// Synchronise sequence numbers.
    pub const SYN: u8 = 0x02;
    /// Reset the connection.
    pub const RST: u8 = 0x04;
    /// Push.
    pub const PSH: u8 = 0x08;
    /// The acknowledgement number counts.
    pub const ACK: u8 = 0x10;
    /// The urgent pointer counts.
    pub const URG: u8 = 0x20;
    /// Congestion echo (RFC 3168).
    pub const ECE: u8 = 0x40;
    /// Congestion window reduced (RFC 3168).
    pub const CWR: u8 = 0x80;
}

fn check(head: &[u8; 20], rest: usize) -> Result<(), Malformed> {
    match (usize::from(head[12] >> 4) * 4).checked_sub(20) {
        Some(options) if options <= rest => Ok(()),
        _ => Err(Malformed::TcpBadOffset),
    }
}

views! {
    /// A TCP header with its options.
    TcpView, TcpViewMut [20] or TcpTruncated, checked by check, found by is_tcp at l4;
    /// The source port.
    source_port / set_source_port: u16 = 0;
    /// The destination port.
    destination_port / set_destination_port: u16 = 2;
    /// The sequence number of the first octet of payload (or of SYN).
    sequence / set_sequence: u32 = 4;
    /// The next sequence number that the sender expects.
    acknowledgement / set_acknowledgement: u32 = 8;
    /// The eight flags; see [`flag`].
    flags / set_flags: u8 = 13;
    /// The window, unscaled.
    window / set_window: u16 = 14;
    /// The checksum.
    checksum / set_checksum: u16 = 16;
    /// The urgent pointer.
    urgent / set_urgent: u16 = 18;
}

impl<'a> TcpView<'a> {
    /// Octets of the header, options included: 20 to 60.
    #[inline]
    pub fn header_len(&self) -> usize {
        usize::from(self.head[12] >> 4) * 4
    }

    /// True if all of these flags are set.
    #[inline]
    pub fn has(&self, flags: u8) -> bool {
        self.flags() & flags == flags
    }

    /// The options' octets.
    #[inline]
    pub fn option_bytes(&self) -> &'a [u8] {
        self.rest.get(..self.header_len() - 20).unwrap_or(&[])
    }

    /// The options.
    #[inline]
    pub fn options(&self) -> TcpOptions<'a> {
        TcpOptions::new(self.option_bytes())
    }

    /// The octets after the header.
    #[inline]
    pub fn payload(&self) -> &'a [u8] {
        self.rest.get(self.header_len() - 20..).unwrap_or(&[])
    }

    /// The sequence number after this segment: payload, SYN and FIN count.
    #[inline]
    pub fn sequence_end(&self) -> u32 {
        let extra = u32::from(self.has(flag::SYN)) + u32::from(self.has(flag::FIN));
        self.sequence()
            .wrapping_add(self.payload().len() as u32)
            .wrapping_add(extra)
    }
}

impl TcpViewMut<'_> {
    /// Computes and writes the checksum; `pseudo` is the pseudo-header's sum
    /// ([`Sum::pseudo_ipv4`], [`Sum::pseudo_ipv6`]), its length that of header and payload.
    pub fn fill_checksum(&mut self, pseudo: Sum) {
        self.set_checksum(0);
        let sum = pseudo.bytes(self.head).bytes(self.rest).checksum();
        self.set_checksum(sum);
    }

    /// Lowers the maximum segment size option to `most` and brings the checksum up to date.
    /// Returns whether anything changed.
    pub fn clamp_mss(&mut self, most: u16) -> bool {
        let options = self.view().header_len() - 20;
        let mut at = 0;
        while at < options {
            let (kind, length) = match self.rest.get(at..options) {
                None | Some([] | [0, ..] | [_]) => return false,
                Some([1, ..]) => {
                    at += 1;
                    continue;
                }
                Some([kind, length, ..]) => (*kind, usize::from(*length)),
            };
            if length < 2 || at + length > options {
                return false;
            }
            if kind == 2 && length == 4 {
                let Some([high, low]) = self.rest.get_mut(at + 2..at + 4) else {
                    return false;
                };
                let (old, new) = (u16::from_be_bytes([*high, *low]), most);
                if old <= new {
                    return false;
                }
                [*high, *low] = new.to_be_bytes();
                // The checksum adds 16-bit words from the header's start: at an odd place the
                // octets of the field count swapped.
                let change = if at % 2 == 0 {
                    Change::new().word(old, new)
                } else {
                    Change::new().word(old.swap_bytes(), new.swap_bytes())
                };
                self.set_checksum(change.apply(self.checksum()));
                return true;
            }
            at += length;
        }
        false
    }
}

/// A TCP option (IANA TCP Option Kind Numbers). Padding is not shown.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TcpOption<'a> {
    /// Maximum segment size, octets (RFC 9293 section 3.7.1).
    Mss(u16),
    /// The window's shift, 0 to 14 (RFC 7323 section 2).
    WindowScale(u8),
    /// Selective acknowledgements may be sent (RFC 2018 section 2).
    SackPermitted,
    /// Selective acknowledgements: pairs of first and one past the last sequence number, eight
    /// octets each (RFC 2018 section 3).
    Sack(&'a [u8]),
    /// Timestamps (RFC 7323 section 3).
    Timestamps {
        /// The sender's clock.
        value: u32,
        /// The peer's value, echoed.
        echo: u32,
    },
    /// Multipath TCP (RFC 8684 section 3).
    Mptcp(&'a [u8]),
    /// A fast-open cookie (RFC 7413 section 4.1.1).
    FastOpen(&'a [u8]),
    /// Any other, and those above where their length is not theirs.
    Other {
        /// The option's number.
        kind: u8,
        /// The octets after kind and length.
        data: &'a [u8],
    },
}

/// The options of a TCP header. Ends at the end-of-options mark or behind the first fault.
#[derive(Clone, Debug)]
pub struct TcpOptions<'a> {
    bytes: &'a [u8],
}

impl<'a> TcpOptions<'a> {
    /// The options in `bytes`, which are those between header and payload.
    pub const fn new(bytes: &'a [u8]) -> TcpOptions<'a> {
        TcpOptions { bytes }
    }
}

impl<'a> Iterator for TcpOptions<'a> {
    type Item = Result<TcpOption<'a>, Malformed>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            match *core::mem::take(&mut self.bytes) {
                [] | [0, ..] => return None,
                [1, ref rest @ ..] => self.bytes = rest,
                [_] => return Some(Err(Malformed::TcpBadOption)),
                [kind, length, ref rest @ ..] => {
                    let data = usize::from(length).checked_sub(2);
                    let Some((data, rest)) = data.and_then(|n| rest.split_at_checked(n)) else {
                        return Some(Err(Malformed::TcpBadOption));
                    };
                    self.bytes = rest;
                    return Some(Ok(option(kind, data)));
                }
            }
        }
    }
}

fn option(kind: u8, data: &[u8]) -> TcpOption<'_> {
    match (kind, data) {
        (2, &[a, b]) => TcpOption::Mss(u16::from_be_bytes([a, b])),
        (3, &[shift]) => TcpOption::WindowScale(shift),
        (4, []) => TcpOption::SackPermitted,
        (5, data) if !data.is_empty() && data.len() % 8 == 0 => TcpOption::Sack(data),
        (8, &[a, b, c, d, e, f, g, h]) => TcpOption::Timestamps {
            value: u32::from_be_bytes([a, b, c, d]),
            echo: u32::from_be_bytes([e, f, g, h]),
        },
        (30, data) => TcpOption::Mptcp(data),
        (34, data) => TcpOption::FastOpen(data),
        (kind, data) => TcpOption::Other { kind, data },
    }
}

/// A TCP header as values, with the options that nearly all connections use.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct TcpRepr {
    /// The source port.
    pub source_port: u16,
    /// The destination port.
    pub destination_port: u16,
    /// The sequence number.
    pub sequence: u32,
    /// The acknowledgement number.
    pub acknowledgement: u32,
    /// The eight flags; see [`flag`].
    pub flags: u8,
    /// The window, unscaled.
    pub window: u16,
    /// The urgent pointer.
    pub urgent: u16,
    /// Maximum segment size, octets.
    pub mss: Option<u16>,
    /// The window's shift.
    pub window_scale: Option<u8>,
    /// True if selective acknowledgements may be sent.
    pub sack_permitted: bool,
    /// Timestamps: value and echo.
    pub timestamps: Option<(u32, u32)>,
}

impl TcpRepr {
    /// Reads the header at the start of `bytes`. Options other than the four are passed over;
    /// of an option given twice the last one counts.
    ///
    /// # Errors
    ///
    /// [`Malformed::TcpTruncated`], [`Malformed::TcpBadOffset`], [`Malformed::TcpBadOption`].
    pub fn parse(bytes: &[u8]) -> Result<TcpRepr, Malformed> {
        let view = TcpView::new(bytes)?;
        let mut repr = TcpRepr {
            source_port: view.source_port(),
            destination_port: view.destination_port(),
            sequence: view.sequence(),
            acknowledgement: view.acknowledgement(),
            flags: view.flags(),
            window: view.window(),
            urgent: view.urgent(),
            ..TcpRepr::default()
        };
        for option in view.options() {
            match option? {
                TcpOption::Mss(mss) => repr.mss = Some(mss),
                TcpOption::WindowScale(shift) => repr.window_scale = Some(shift),
                TcpOption::SackPermitted => repr.sack_permitted = true,
                TcpOption::Timestamps { value, echo } => repr.timestamps = Some((value, echo)),
                _ => {}
            }
        }
        Ok(repr)
    }

    /// Octets that [`emit`](TcpRepr::emit) writes: the header with its options.
    pub const fn header_len(&self) -> usize {
        let mut options = 0;
        if self.mss.is_some() {
            options += 4;
        }
        if self.window_scale.is_some() {
            options += 3;
        }
        if self.sack_permitted {
            options += 2;
        }
        if self.timestamps.is_some() {
            options += 10;
        }
        TcpView::SIZE + (options as usize).next_multiple_of(4)
    }

    /// Writes the header with a checksum of zero ([`TcpViewMut::fill_checksum`] needs the
    /// payload) and returns its length.
    ///
    /// # Errors
    ///
    /// The buffer is shorter than [`header_len`](TcpRepr::header_len).
    pub fn emit(&self, buffer: &mut [u8]) -> Result<usize, BufferTooSmall> {
        let length = self.header_len();
        let room = room(buffer, length)?;
        if let Some(offset) = room.get_mut(12) {
            *offset = (length as u8 / 4) << 4;
        }
        let Ok(mut view) = TcpViewMut::new(room) else {
            return Ok(length);
        };
        view.set_source_port(self.source_port);
        view.set_destination_port(self.destination_port);
        view.set_sequence(self.sequence);
        view.set_acknowledgement(self.acknowledgement);
        view.set_flags(self.flags);
        view.set_window(self.window);
        view.set_urgent(self.urgent);
        // At most 19 octets of options, then end marks: zeros, which `room` has left.
        let mut options = view.rest_mut();
        let mut put = |bytes: &[u8]| {
            if let Some((place, rest)) =
                core::mem::take(&mut options).split_at_mut_checked(bytes.len())
            {
                place.copy_from_slice(bytes);
                options = rest;
            }
        };
        if let Some(mss) = self.mss {
            let [a, b] = mss.to_be_bytes();
            put(&[2, 4, a, b]);
        }
        if self.sack_permitted {
            put(&[4, 2]);
        }
        if let Some((value, echo)) = self.timestamps {
            put(&[8, 10]);
            put(&value.to_be_bytes());
            put(&echo.to_be_bytes());
        }
        if let Some(shift) = self.window_scale {
            put(&[3, 3, shift]);
        }
        Ok(length)
    }
}
