//! The ring through which packets go: they are copied into slots, and one call has
//! the kernel send what lies there.
//!
//! # Safety
//!
//! A slot with `TP_STATUS_AVAILABLE` is ours to write until `TP_STATUS_SEND_REQUEST`
//! is stored. From then on the kernel reads it, but only inside the call of
//! [`SendRing::flush`]; of a slot that it left as it was there it keeps nothing, so
//! that it can be taken back.

#![allow(unsafe_code)]

use std::io;
use std::os::fd::BorrowedFd;
use std::ptr::NonNull;

use super::{FRONT, Place, Shape, Slots, VNET_BYTES, socket};

/// Slots: what a card may hold of ours before it tells that it has sent. And octets
/// of the largest, for the largest MTU there is.
pub(super) const SIZE: (u32, u32) = (1_024, (64 << 10) + 2 * FRONT);
/// Octets of a packet that the kernel copies. It refers to the slot for the rest,
/// which costs more where a packet is to stay on this host.
const COPIED: usize = 2_048;
/// Offset of a packet's offload header in a slot: behind the slot's own.
const DATA: u32 = (size_of::<libc::tpacket2_hdr>() as u32).next_multiple_of(16);

/// The ring.
#[derive(Debug)]
pub(crate) struct SendRing {
    slots: Slots,
    /// The first slot whose packet the kernel was not asked to send yet, how many
    /// there are, and the slot behind them.
    first: Place,
    waiting: u32,
    next: Place,
}

impl SendRing {
    /// Gives the socket `fd`, which is not bound yet, a ring for packets of an
    /// interface of this MTU.
    pub(crate) fn open(fd: BorrowedFd<'_>, mtu: u32) -> io::Result<SendRing> {
        // A packet that the kernel would not have as it is does not stop the ring.
        let one: libc::c_int = 1;
        socket::set(fd, libc::SOL_PACKET, libc::PACKET_LOSS, &one)?;
        let (slots, largest) = SIZE;
        let shape = Shape::new(mtu, slots, largest);
        Ok(SendRing {
            slots: Slots::open(fd, libc::PACKET_TX_RING, shape)?,
            first: Place::default(),
            waiting: 0,
            next: Place::default(),
        })
    }

    /// Octets of the longest packet that a slot takes.
    pub(crate) fn longest(&self) -> usize {
        (self.slots.shape.slot_bytes - DATA) as usize - VNET_BYTES
    }

    /// Writes a packet into the next slot.
    ///
    /// # Errors
    ///
    /// `ENOBUFS` where that is still being sent, `EMSGSIZE` for a packet that is too
    /// long.
    #[inline]
    pub(crate) fn write(&mut self, packet: &[u8]) -> io::Result<()> {
        if self.slots.status(self.next)? != libc::TP_STATUS_AVAILABLE {
            return Err(io::Error::from_raw_os_error(libc::ENOBUFS));
        }
        if packet.len() > self.longest() {
            return Err(io::Error::from_raw_os_error(libc::EMSGSIZE));
        }
        let len = (VNET_BYTES + packet.len()) as u32;
        let mut offload = [0; VNET_BYTES];
        offload[2..4].copy_from_slice(&(packet.len().min(COPIED) as u16).to_ne_bytes());
        let header: NonNull<libc::tpacket2_hdr> = self
            .slots
            .octets(self.next, 0, size_of::<libc::tpacket2_hdr>() as u32)?
            .cast();
        let room = self.slots.octets(self.next, DATA, len)?;
        // SAFETY: inside the slot, which is ours; the slot begins a cache line, and of
        // its header only the length is written.
        unsafe {
            (&raw mut (*header.as_ptr()).tp_len).write(len);
            let room = std::slice::from_raw_parts_mut(room.as_ptr(), len as usize);
            let (front, rest) = room.split_at_mut(VNET_BYTES);
            front.copy_from_slice(&offload);
            rest.copy_from_slice(packet);
        }
        let request = libc::TP_STATUS_SEND_REQUEST;
        self.slots.set_status(self.next, request)?;
        self.waiting += 1;
        self.next = self.slots.shape.after(self.next);
        Ok(())
    }

    /// Has the kernel send what was written: how many packets it took. The
    /// rest is taken back, with the error of the first such packet: `ENOBUFS` where
    /// the kernel has no memory for more.
    pub(crate) fn flush(&mut self, fd: BorrowedFd<'_>) -> (usize, io::Result<()>) {
        let sent = socket::send_ring(fd);
        let mut taken = 0;
        // The kernel takes slots in order.
        let why = loop {
            if self.waiting == 0 {
                return (taken, Ok(()));
            }
            match self.slots.status(self.first) {
                Ok(libc::TP_STATUS_SEND_REQUEST) => break sent,
                Ok(_) => taken += 1,
                Err(error) => break Err(error),
            }
            self.waiting -= 1;
            self.first = self.slots.shape.after(self.first);
        };
        let mut left = self.first;
        for _ in 0..std::mem::take(&mut self.waiting) {
            let _ = self.slots.set_status(left, libc::TP_STATUS_AVAILABLE);
            left = self.slots.shape.after(left);
        }
        self.next = self.first;
        let full = || Err(io::Error::from_raw_os_error(libc::ENOBUFS));
        (taken, why.and_then(|()| full()))
    }
}
