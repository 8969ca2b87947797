//! A packet socket's receive ring (TPACKET_V2): the kernel writes each packet
//! into a slot of mapped memory, where it lies until the slot is given back. No
//! system call is made for a packet, and none waits for a block to be full.
//!
//! # Safety
//!
//! The ring is mapped for as long as [`PacketRing`] lives, which is made with
//! the sizes that the kernel was asked for. A slot begins with a status word,
//! only ever accessed as an atomic: with `TP_STATUS_USER` (loaded with `Acquire`)
//! the slot is ours, to be read only, until 0 is stored (`Release`), after which the
//! kernel may write it. What a slot's header says (place and length) is checked
//! against the slot before anything is read by it. Bytes of a slot are lent out
//! with a borrow of the ring, so that none is held when the slot is given back.

#![allow(unsafe_code)]

use std::io;
use std::os::fd::BorrowedFd;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};

use super::mapping::Mapping;
use super::offload::{Offload, VNET_BYTES};
use super::socket;

/// Slots, where they are for packets of some KiB: two milliseconds of a million
/// packets per second. More would only be the colder.
const SLOTS: u32 = 2_048;
/// Octets of all slots, where they are for larger packets.
const MOST_BYTES: u32 = 16 << 20;
/// Octets of the largest slot; a longer packet is queued ([`Lying::Queued`]).
const LARGEST_SLOT: u32 = 16 << 10;
/// Memory that the kernel takes at once, contiguous if it can.
const BLOCK: u32 = 64 << 10;
const LINE: u32 = 64;
/// Octets of a slot in front of the packet: the header, the address, the
/// offload header, and what aligns the network header.
const FRONT: u32 = 96;

/// What the kernel says of a packet beside its bytes.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Arrived {
    /// What a sender on this host, or the kernel, left undone.
    pub(crate) offload: Offload,
    /// The tag that was taken off it: protocol id and tag control information.
    pub(crate) vlan: Option<(u16, u16)>,
}

/// The tag that a packet's status, tag and tag protocol tell of.
pub(super) fn tag(status: u32, control: u16, protocol: u16) -> Option<(u16, u16)> {
    let known = status & libc::TP_STATUS_VLAN_TPID_VALID != 0;
    (status & libc::TP_STATUS_VLAN_VALID != 0)
        .then_some((if known { protocol } else { 0x8100 }, control))
}

/// What lies in a slot.
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
pub(crate) struct PacketRing {
    mapping: Mapping,
    slot_bytes: u32,
    slots_per_block: u32,
    blocks: u32,
    /// The slot that is looked at next: its block, and its place there.
    block: u32,
    place: u32,
}

/// How many slots, of how many octets, an interface of this MTU gets.
fn shape(mtu: u32) -> libc::tpacket_req {
    let packet = mtu.saturating_add(14 + 2 * 4);
    let lines = packet
        .saturating_add(FRONT)
        .min(LARGEST_SLOT)
        .div_ceil(LINE);
    // An odd number of lines spreads slots over all sets of a cache.
    let slot_bytes = (lines | 1) * LINE;
    let slots_per_block = BLOCK / slot_bytes;
    let slots = SLOTS.min(MOST_BYTES / slot_bytes);
    let blocks = slots.div_ceil(slots_per_block);
    libc::tpacket_req {
        tp_block_size: BLOCK,
        tp_block_nr: blocks,
        tp_frame_size: slot_bytes,
        tp_frame_nr: blocks * slots_per_block,
    }
}

impl PacketRing {
    /// Gives the socket `fd`, which is not bound yet, a ring for packets of an
    /// interface of this MTU.
    pub(crate) fn open(fd: BorrowedFd<'_>, mtu: u32) -> io::Result<PacketRing> {
        let set = |name, value: libc::c_int| socket::set(fd, libc::SOL_PACKET, name, &value);
        set(
            libc::PACKET_VERSION,
            libc::tpacket_versions::TPACKET_V2 as libc::c_int,
        )?;
        // In front of each packet, what its sender left to a card.
        set(libc::PACKET_VNET_HDR, 1)?;
        // What fits no slot is queued.
        set(libc::PACKET_COPY_THRESH, 1)?;
        let shape = shape(mtu);
        socket::set(fd, libc::SOL_PACKET, libc::PACKET_RX_RING, &shape)?;
        let len = shape.tp_block_nr as usize * shape.tp_block_size as usize;
        Ok(PacketRing {
            mapping: Mapping::new(fd, 0, len)?,
            slot_bytes: shape.tp_frame_size,
            slots_per_block: BLOCK / shape.tp_frame_size,
            blocks: shape.tp_block_nr,
            block: 0,
            place: 0,
        })
    }

    fn offset(&self) -> u64 {
        u64::from(self.block) * u64::from(BLOCK) + u64::from(self.place * self.slot_bytes)
    }

    /// What lies in the next slot, if anything does.
    #[inline]
    pub(crate) fn peek(&self) -> io::Result<Option<Lying<'_>>> {
        let at = self.offset();
        let status: NonNull<AtomicU32> = self.mapping.at(at, 1)?;
        // SAFETY: module documentation.
        let status = unsafe { status.as_ref() }.load(Ordering::Acquire);
        if status & libc::TP_STATUS_USER == 0 {
            return Ok(None);
        }
        let header: NonNull<libc::tpacket2_hdr> = self.mapping.at(at, 1)?;
        // SAFETY: the slot is ours; any bytes are a value of this structure.
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
        let end = start.checked_add(len);
        let (Some(front), Some(end)) = (front, end) else {
            return Err(nonsense());
        };
        if end > self.slot_bytes {
            return Err(nonsense());
        }
        let bytes: NonNull<u8> = self
            .mapping
            .at(at + u64::from(front), (end - front) as usize)?;
        // SAFETY: inside the slot, which is ours while `self` is borrowed.
        let bytes = unsafe { std::slice::from_raw_parts(bytes.as_ptr(), (end - front) as usize) };
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
        let status: NonNull<AtomicU32> = self.mapping.at(self.offset(), 1)?;
        // SAFETY: module documentation.
        let status = unsafe { status.as_ref() };
        status.store(libc::TP_STATUS_KERNEL, Ordering::Release);
        self.place += 1;
        if self.place == self.slots_per_block {
            self.place = 0;
            self.block = (self.block + 1) % self.blocks;
        }
        Ok(())
    }
}

fn nonsense() -> io::Error {
    io::Error::other("the kernel describes a packet wrongly")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rings_hold_packets_of_their_mtu_and_stay_bounded() {
        for mtu in [68, 1_280, 1_500, 9_000, 16_000, 65_536, u32::MAX] {
            let shape = shape(mtu);
            assert_eq!(shape.tp_frame_size % LINE, 0);
            assert_eq!(shape.tp_frame_size / LINE % 2, 1);
            assert!(
                shape.tp_frame_size >= FRONT + 22 + mtu.min(LARGEST_SLOT - FRONT - 22),
                "{mtu}"
            );
            let in_block = shape.tp_block_size / shape.tp_frame_size;
            assert_eq!(shape.tp_frame_nr, shape.tp_block_nr * in_block, "{mtu}");
            assert!(shape.tp_block_nr * shape.tp_block_size <= MOST_BYTES + (8 << 20));
            assert!(shape.tp_frame_nr >= 900, "{mtu}: {}", shape.tp_frame_nr);
        }
    }
}
