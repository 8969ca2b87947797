//! ARP for IPv4 over Ethernet (RFC 826).

use std::net::Ipv4Addr;

use crate::ethernet::MacAddr;
use crate::malformed::Malformed;
use crate::protocol::ethertype;
use crate::wire::{BufferTooSmall, room, views};

/// Hardware Ethernet, protocol IPv4, addresses of six and four octets.
const KIND: [u8; 6] = [
    0,
    1,
    (ethertype::IPV4 >> 8) as u8,
    ethertype::IPV4 as u8,
    6,
    4,
];

fn check(head: &[u8; 28], _: usize) -> Result<(), Malformed> {
    if head.starts_with(&KIND) {
        Ok(())
    } else {
        Err(Malformed::WrongKind)
    }
}

/// [`ArpView::operation`] of a request.
pub const REQUEST: u16 = 1;
/// [`ArpView::operation`] of a reply.
pub const REPLY: u16 = 2;

views! {
    /// An ARP packet.
    ArpView, ArpViewMut [28] or ArpTruncated, checked by check, found by is_arp at l3;
    /// [`REQUEST`], [`REPLY`] or another.
    operation / set_operation: u16 = 6;
    /// The sender's hardware address.
    sender_mac / set_sender_mac: MacAddr = 8;
    /// The sender's IPv4 address.
    sender / set_sender: Ipv4Addr = 14;
    /// The target's hardware address; zero in a request.
    target_mac / set_target_mac: MacAddr = 18;
    /// The target's IPv4 address.
    target / set_target: Ipv4Addr = 24;
}

/// An ARP packet as values.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ArpRepr {
    /// [`REQUEST`], [`REPLY`] or another.
    pub operation: u16,
    /// The sender's hardware address.
    pub sender_mac: MacAddr,
    /// The sender's IPv4 address.
    pub sender: Ipv4Addr,
    /// The target's hardware address; zero in a request.
    pub target_mac: MacAddr,
    /// The target's IPv4 address.
    pub target: Ipv4Addr,
}

impl ArpRepr {
    /// Reads the packet at the start of `bytes`.
    ///
    /// # Errors
    ///
    /// [`Malformed::ArpTruncated`]; [`Malformed::WrongKind`] for other hardware or protocols.
    pub fn parse(bytes: &[u8]) -> Result<ArpRepr, Malformed> {
        let view = ArpView::new(bytes)?;
        Ok(ArpRepr {
            operation: view.operation(),
            sender_mac: view.sender_mac(),
            sender: view.sender(),
            target_mac: view.target_mac(),
            target: view.target(),
        })
    }

    /// Octets that [`emit`](ArpRepr::emit) writes.
    pub const fn header_len(&self) -> usize {
        ArpView::SIZE
    }

    /// Writes the packet and returns its length.
    ///
    /// # Errors
    ///
    /// The buffer is shorter than [`header_len`](ArpRepr::header_len).
    pub fn emit(&self, buffer: &mut [u8]) -> Result<usize, BufferTooSmall> {
        let room = room(buffer, self.header_len())?;
        if let Some(kind) = room.first_chunk_mut::<6>() {
            *kind = KIND;
        }
        if let Ok(mut view) = ArpViewMut::new(room) {
            view.set_operation(self.operation);
            view.set_sender_mac(self.sender_mac);
            view.set_sender(self.sender);
            view.set_target_mac(self.target_mac);
            view.set_target(self.target);
        }
        Ok(self.header_len())
    }
}
