//! The ring through which packets come: the kernel writes each into a slot, where
//! it lies until the slot is given back. None waits for a block to be full.
//!
//! # Safety
//!
//! A slot with `TP_STATUS_USER` is ours, to be read only, until 0 is stored, after
//! which the kernel may write it. Place and length in a slot's header are
//! checked against the slot before they are used. Bytes of a slot are lent
//! out with a borrow of the ring, so that none is held when the slot is given back.

#![allow(unsafe_code)]

use std::io;
use std::os::fd::BorrowedFd;
use std::ptr::NonNull;

use super::{Place, Shape, Slots, VNET_BYTES, socket};
use crate::sys::offload::Offload;

/// Slots, where they are for packets of some KiB: two milliseconds of a million
/// packets per second; more would only be the colder. And octets of the largest slot;
/// a longer packet is queued ([`Lying::Queued`]).
pub(super) const SIZE: (u32, u32) = (2_048, 16 << 10);

/// The kernel's metadata of a packet.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Arrived {
    /// Work that a sender on this host, or the kernel, left undone.
    pub(crate) offload: Offload,
    /// The tag that was taken off it: protocol id and tag control information.
    pub(crate) vlan: Option<(u16, u16)>,
}

/// The tag that a packet's status, tag and tag protocol tell of.
pub(in crate::sys) fn tag(status: u32, control: u16, protocol: u16) -> Option<(u16, u16)> {
    let known = status & libc::TP_STATUS_VLAN_TPID_VALID != 0;
    (status & libc::TP_STATUS_VLAN_VALID != 0)
        .then_some((if known { protocol } else { 0x8100 }, control))
}

/// Content of a slot.
#[derive(Debug)]
pub(crate) enum Lying<'a> {
    /// A packet.
    Packet(Arrived, &'a [u8]),
    /// The beginning of a packet that is too long for it: the whole is the next
    /// to be read from the socket.
    Queued,
    /// The beginning of a packet of so many octets, for whose whole the socket
    /// had no room.
    Lost(usize),
}

/// The ring.
#[derive(Debug)]
pub(crate) struct ReceiveRing {
    slots: Slots,
    /// The slot that is looked at next.
    next: Place,
}

impl ReceiveRing {
    /// Gives the socket `fd`, which is not bound yet, a ring for packets of an
    /// interface of this MTU.
    pub(crate) fn open(fd: BorrowedFd<'_>, mtu: u32) -> io::Result<ReceiveRing> {
        // A packet that fits no slot is queued.
        let one: libc::c_int = 1;
        socket::set(fd, libc::SOL_PACKET, libc::PACKET_COPY_THRESH, &one)?;
        let (slots, largest) = SIZE;
        let shape = Shape::new(mtu, slots, largest);
        Ok(ReceiveRing {
            slots: Slots::open(fd, libc::PACKET_RX_RING, shape)?,
            next: Place::default(),
        })
    }

    /// Content of the next slot, if there is any.
    #[inline]
    pub(crate) fn peek(&self) -> io::Result<Option<Lying<'_>>> {
        let status = self.slots.status(self.next)?;
        if status & libc::TP_STATUS_USER == 0 {
            return Ok(None);
        }
        let bytes = size_of::<libc::tpacket2_hdr>() as u32;
        let header: NonNull<libc::tpacket2_hdr> = self.slots.octets(self.next, 0, bytes)?.cast();
        // SAFETY: the slot is ours and begins a cache line; any bytes are a value of
        // this structure.
        let header = unsafe { header.read() };
        let (start, len) = (u32::from(header.tp_mac), header.tp_snaplen);
        if len < header.tp_len {
            return Ok(Some(if status & libc::TP_STATUS_COPY != 0 {
                Lying::Queued
            } else {
                Lying::Lost(header.tp_len as usize)
            }));
        }
        let front = start.checked_sub(VNET_BYTES as u32);
        let len = len.checked_add(VNET_BYTES as u32);
        let (Some(front), Some(len)) = (front, len) else {
            return Err(nonsense());
        };
        let bytes = self.slots.octets(self.next, front, len)?;
        // SAFETY: inside the slot, which is ours while `self` is borrowed.
        let bytes = unsafe { std::slice::from_raw_parts(bytes.as_ptr(), len as usize) };
        let (offload, bytes) = bytes
            .split_first_chunk::<VNET_BYTES>()
            .ok_or_else(nonsense)?;
        let arrived = Arrived {
            offload: Offload::read(offload),
            vlan: tag(status, header.tp_vlan_tci, header.tp_vlan_tpid),
        };
        Ok(Some(Lying::Packet(arrived, bytes)))
    }

    /// Gives the next slot, whose packet was looked at, back to the kernel.
    #[inline]
    pub(crate) fn release(&mut self) -> io::Result<()> {
        self.slots.set_status(self.next, libc::TP_STATUS_KERNEL)?;
        self.next = self.slots.shape.after(self.next);
        Ok(())
    }
}

fn nonsense() -> io::Error {
    io::Error::other("the kernel describes a packet wrongly")
}
