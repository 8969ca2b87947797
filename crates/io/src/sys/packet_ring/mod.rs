//! A packet socket's rings (TPACKET_V2): slots in memory that is shared with the
//! kernel, through which packets come ([`receive`]) and go ([`send`]) without a
//! system call each.
//!
//! # Safety
//!
//! [`receive`] and [`send`] rely on this: a ring is mapped for as long as its value
//! lives, with the sizes that the kernel was asked for. A slot begins with a status
//! word, only ever accessed as an atomic, which says whose the slot is: loaded with
//! `Acquire` before a slot of ours is touched, stored with `Release` when it is given
//! to the kernel.

#![allow(unsafe_code)]

use std::io;
use std::os::fd::BorrowedFd;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};

use super::mapping::Mapping;
use super::offload::VNET_BYTES;
use super::socket;

pub(super) mod receive;
pub(super) mod send;

pub(crate) use receive::{Arrived, Lying, ReceiveRing};
pub(crate) use send::SendRing;

const LINE: u32 = 64;
/// Octets of a slot in front of the packet: the header, the address, the
/// offload header, and what aligns the network header.
const FRONT: u32 = 96;
/// Memory that the kernel takes at once, contiguous if it can.
const BLOCK: u32 = 64 << 10;
/// Octets of all slots, where they are for large packets.
const MOST_BYTES: u32 = 16 << 20;

/// How slots lie in blocks.
#[derive(Clone, Copy, Debug)]
struct Shape {
    slot_bytes: u32,
    block_bytes: u32,
    blocks: u32,
}

/// A slot: its block, and its place there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Place {
    block: u32,
    slot: u32,
}

impl Shape {
    /// So many slots, or fewer where they are large, for packets of an interface
    /// of this MTU; none is larger than `largest`.
    fn new(mtu: u32, slots: u32, largest: u32) -> Shape {
        let packet = mtu.saturating_add(14 + 2 * 4);
        let lines = packet.saturating_add(FRONT).min(largest).div_ceil(LINE);
        // An odd number of lines spreads slots over all sets of a cache.
        let slot_bytes = (lines | 1) * LINE;
        let block_bytes = slot_bytes.next_power_of_two().max(BLOCK);
        let blocks = slots.div_ceil(block_bytes / slot_bytes);
        Shape {
            slot_bytes,
            block_bytes,
            blocks: blocks.min(MOST_BYTES / block_bytes),
        }
    }

    fn slots_per_block(&self) -> u32 {
        self.block_bytes / self.slot_bytes
    }

    fn offset(&self, place: Place) -> u64 {
        u64::from(place.block) * u64::from(self.block_bytes)
            + u64::from(place.slot * self.slot_bytes)
    }

    fn after(&self, place: Place) -> Place {
        let slot = place.slot + 1;
        if slot < self.slots_per_block() {
            return Place { slot, ..place };
        }
        Place {
            block: (place.block + 1) % self.blocks,
            slot: 0,
        }
    }
}

/// A ring's memory.
#[derive(Debug)]
struct Slots {
    mapping: Mapping,
    shape: Shape,
}

impl Slots {
    /// Gives the socket `fd` a ring: `name` says which.
    fn open(fd: BorrowedFd<'_>, name: libc::c_int, shape: Shape) -> io::Result<Slots> {
        let set = |name, value: libc::c_int| socket::set(fd, libc::SOL_PACKET, name, &value);
        set(
            libc::PACKET_VERSION,
            libc::tpacket_versions::TPACKET_V2 as libc::c_int,
        )?;
        // In front of each packet, what is left to a card.
        set(libc::PACKET_VNET_HDR, 1)?;
        let request = libc::tpacket_req {
            tp_block_size: shape.block_bytes,
            tp_block_nr: shape.blocks,
            tp_frame_size: shape.slot_bytes,
            tp_frame_nr: shape.blocks * shape.slots_per_block(),
        };
        socket::set(fd, libc::SOL_PACKET, name, &request)?;
        let len = shape.blocks as usize * shape.block_bytes as usize;
        Ok(Slots {
            mapping: Mapping::new(fd, 0, len)?,
            shape,
        })
    }

    #[inline]
    fn status_word(&self, place: Place) -> io::Result<&AtomicU32> {
        let status: NonNull<AtomicU32> = self.mapping.at(self.shape.offset(place), 1)?;
        // SAFETY: module documentation; it lives as long as `self`.
        Ok(unsafe { status.as_ref() })
    }

    /// Owner and state of a slot.
    #[inline]
    fn status(&self, place: Place) -> io::Result<u32> {
        Ok(self.status_word(place)?.load(Ordering::Acquire))
    }

    #[inline]
    fn set_status(&self, place: Place, status: u32) -> io::Result<()> {
        self.status_word(place)?.store(status, Ordering::Release);
        Ok(())
    }

    /// The address of so many octets of a slot, if they are in it.
    #[inline]
    fn octets(&self, place: Place, start: u32, len: u32) -> io::Result<NonNull<u8>> {
        let end = start.checked_add(len);
        if end.is_none_or(|end| end > self.shape.slot_bytes) {
            return Err(io::Error::other("a packet is described wrongly"));
        }
        let offset = self.shape.offset(place) + u64::from(start);
        self.mapping.at(offset, len as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rings_hold_packets_of_their_mtu_and_stay_bounded() {
        for mtu in [68, 1_280, 1_500, 9_000, 16_000, 65_536, u32::MAX] {
            for (slots, largest) in [receive::SIZE, send::SIZE] {
                let shape = Shape::new(mtu, slots, largest);
                assert_eq!(shape.slot_bytes % LINE, 0);
                assert_eq!(shape.slot_bytes / LINE % 2, 1);
                let packet = mtu.min(largest - FRONT - 22);
                assert!(shape.slot_bytes >= FRONT + 22 + packet, "{mtu}");
                assert!(shape.slots_per_block() > 0, "{mtu}");
                let all = shape.blocks * shape.slots_per_block();
                assert!(shape.blocks * shape.block_bytes <= MOST_BYTES);
                assert!(all >= 120, "{mtu}: {all}");
            }
        }
    }

    #[test]
    fn slots_follow_each_other_in_a_circle() {
        let shape = Shape::new(1_500, 100, 1 << 14);
        let all = shape.blocks * shape.slots_per_block();
        let mut place = Place::default();
        let mut end = 0;
        for _ in 0..all {
            let start = shape.offset(place);
            assert!(start >= end);
            end = start + u64::from(shape.slot_bytes);
            assert!(end <= u64::from(shape.blocks * shape.block_bytes));
            place = shape.after(place);
        }
        assert_eq!(place, Place::default());
    }
}
