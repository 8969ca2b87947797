//! Ethernet II (IEEE 802.3).

use core::fmt;

use crate::malformed::Malformed;
use crate::wire::{BufferTooSmall, Wire, room, views};

/// A 48-bit hardware address.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct MacAddr(pub [u8; 6]);

impl MacAddr {
    /// All stations.
    pub const BROADCAST: MacAddr = MacAddr([0xff; 6]);

    /// True if it is the address of a group (broadcast included).
    #[inline]
    pub const fn is_multicast(self) -> bool {
        self.0[0] & 1 == 1
    }
}

impl fmt::Display for MacAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
    }
}

impl fmt::Debug for MacAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A text is not a hardware address of six hexadecimal octets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BadMacAddr;

impl fmt::Display for BadMacAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("not a MAC address such as 02:00:5e:10:00:01")
    }
}

impl core::error::Error for BadMacAddr {}

impl core::str::FromStr for MacAddr {
    type Err = BadMacAddr;

    /// Reads six octets between colons or hyphens.
    ///
    /// ```
    /// use weir_packet::ethernet::MacAddr;
    ///
    /// let address: MacAddr = "02:00:5e:10:00:01".parse()?;
    /// assert_eq!(address.to_string(), "02:00:5e:10:00:01");
    /// assert!("02:00:5e:10:00".parse::<MacAddr>().is_err());
    /// # Ok::<(), weir_packet::ethernet::BadMacAddr>(())
    /// ```
    fn from_str(text: &str) -> Result<MacAddr, BadMacAddr> {
        let mut parts = text.split([':', '-']);
        let mut octets = [0; 6];
        for octet in &mut octets {
            let part = parts.next().filter(|p| p.len() == 2).ok_or(BadMacAddr)?;
            if !part.bytes().all(|b| b.is_ascii_hexdigit()) {
                return Err(BadMacAddr);
            }
            *octet = u8::from_str_radix(part, 16).map_err(|_| BadMacAddr)?;
        }
        if parts.next().is_some() {
            Err(BadMacAddr)
        } else {
            Ok(MacAddr(octets))
        }
    }
}

impl Wire<6> for MacAddr {
    #[inline(always)]
    fn from_wire(octets: [u8; 6]) -> Self {
        MacAddr(octets)
    }
    #[inline(always)]
    fn to_wire(self) -> [u8; 6] {
        self.0
    }
}

views! {
    /// An Ethernet header.
    EthernetView, EthernetViewMut [14] or EthernetTruncated;
    /// Destination address.
    destination / set_destination: MacAddr = 0;
    /// Source address.
    source / set_source: MacAddr = 6;
    /// EtherType of the payload, or below 0x600 the length of an 802.3 frame.
    ethertype / set_ethertype: u16 = 12;
}

impl EthernetViewMut<'_> {
    /// Swaps source and destination.
    #[inline]
    pub fn swap_addresses(&mut self) {
        let (source, destination) = (self.source(), self.destination());
        self.set_source(destination);
        self.set_destination(source);
    }
}

/// An Ethernet header as values.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct EthernetRepr {
    /// Destination address.
    pub destination: MacAddr,
    /// Source address.
    pub source: MacAddr,
    /// EtherType of the payload.
    pub ethertype: u16,
}

impl EthernetRepr {
    /// Reads the header at the start of `bytes`.
    ///
    /// # Errors
    ///
    /// [`Malformed::EthernetTruncated`].
    pub fn parse(bytes: &[u8]) -> Result<EthernetRepr, Malformed> {
        let view = EthernetView::new(bytes)?;
        Ok(EthernetRepr {
            destination: view.destination(),
            source: view.source(),
            ethertype: view.ethertype(),
        })
    }

    /// Octets that [`emit`](EthernetRepr::emit) writes.
    pub const fn header_len(&self) -> usize {
        EthernetView::SIZE
    }

    /// Writes the header and returns its length.
    ///
    /// # Errors
    ///
    /// The buffer is shorter than [`header_len`](EthernetRepr::header_len).
    pub fn emit(&self, buffer: &mut [u8]) -> Result<usize, BufferTooSmall> {
        let room = room(buffer, self.header_len())?;
        if let Ok(mut view) = EthernetViewMut::new(room) {
            view.set_destination(self.destination);
            view.set_source(self.source);
            view.set_ethertype(self.ethertype);
        }
        Ok(self.header_len())
    }
}
