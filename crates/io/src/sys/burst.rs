//! Many packets by one system call: `recvmmsg` and `sendmmsg` on frames.
//!
//! # Safety
//!
//! The kernel is given, for each message, the room of one frame (exclusively
//! borrowed for the call, so that no two messages share one), a part of the
//! spill memory that is that message's alone, and a control buffer of its own.
//! All of these outlive the call; the addresses are written anew before each
//! call and not used after. Lengths that come back are bounded by what was
//! given before they are used.

#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

use weir_packet::{Frame, HEADROOM, PacketMemory};

use super::socket::check;

/// Packets per call.
pub(crate) const BURST: usize = 64;
/// Octets of a packet beyond its frame for which there is room. What segment
/// offloads make is up to 64 KiB, with "BIG TCP" more.
pub(crate) const SPILL: usize = 1 << 18;

/// Control messages of a packet: one with auxiliary data.
#[derive(Clone, Copy)]
#[repr(C, align(16))]
struct Control([u8; 64]);

/// What the kernel says of a packet beside its bytes.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Arrived {
    /// Octets of it, all of them in the frame and the spill memory.
    pub(crate) len: usize,
    /// Octets it has; more than `len` where there was no room for them all.
    pub(crate) whole: usize,
    /// Its checksum is not computed yet: a sender of this host left that to a
    /// card.
    pub(crate) partial_checksum: bool,
    /// The tag that was taken off it: protocol id and tag control information.
    pub(crate) vlan: Option<(u16, u16)>,
}

/// Memory for the calls.
pub(crate) struct Burst {
    headers: Vec<libc::mmsghdr>,
    vectors: Vec<[libc::iovec; 2]>,
    control: Vec<Control>,
    arrived: Vec<Arrived>,
    /// Room for what does not fit a small frame; pages are had when touched.
    spill: Vec<u8>,
}

// SAFETY: the addresses in it are not used outside the calls that write them.
unsafe impl Send for Burst {}

impl std::fmt::Debug for Burst {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Burst").finish_non_exhaustive()
    }
}

impl Burst {
    pub(crate) fn new() -> Burst {
        // SAFETY: C structures of numbers and pointers that may be null.
        let (header, vector) = unsafe {
            (
                std::mem::zeroed::<libc::mmsghdr>(),
                std::mem::zeroed::<[libc::iovec; 2]>(),
            )
        };
        Burst {
            headers: vec![header; BURST],
            vectors: vec![vector; BURST],
            control: vec![Control([0; 64]); BURST],
            arrived: vec![Arrived::default(); BURST],
            spill: vec![0; BURST * SPILL],
        }
    }

    /// Receives packets into the rooms of `frames` behind the headroom, and
    /// what does not fit into the spill memory: how many.
    pub(crate) fn receive(
        &mut self,
        fd: BorrowedFd<'_>,
        memory: &PacketMemory,
        frames: &mut [Frame],
    ) -> io::Result<usize> {
        let count = frames.len().min(BURST);
        let spill = self.spill.chunks_exact_mut(SPILL);
        let rows = self.headers.iter_mut().zip(&mut self.vectors);
        let rows = rows.zip(&mut self.control).zip(spill);
        for (frame, (((header, vector), control), spill)) in frames.iter_mut().zip(rows) {
            let (_, room) = memory.split_mut(frame);
            let room = room.get_mut(HEADROOM..).unwrap_or_default();
            vector[0].iov_base = room.as_mut_ptr().cast();
            vector[0].iov_len = room.len();
            vector[1].iov_base = spill.as_mut_ptr().cast();
            vector[1].iov_len = spill.len();
            header.msg_len = 0;
            let header = &mut header.msg_hdr;
            header.msg_name = std::ptr::null_mut();
            header.msg_namelen = 0;
            header.msg_iov = vector.as_mut_ptr();
            header.msg_iovlen = 2;
            header.msg_control = control.0.as_mut_ptr().cast();
            header.msg_controllen = control.0.len() as _;
            header.msg_flags = 0;
        }
        // SAFETY: module documentation; `count` headers were written above.
        let received = unsafe {
            libc::recvmmsg(
                fd.as_raw_fd(),
                self.headers.as_mut_ptr(),
                count as libc::c_uint,
                (libc::MSG_DONTWAIT | libc::MSG_TRUNC) as _,
                std::ptr::null_mut(),
            )
        };
        let received = (check(received)? as usize).min(count);
        for (arrived, (header, vector)) in self
            .arrived
            .iter_mut()
            .zip(self.headers.iter().zip(&self.vectors))
            .take(received)
        {
            // SAFETY: a header that the call above has filled.
            *arrived = unsafe { read_control(&header.msg_hdr) };
            arrived.whole = header.msg_len as usize;
            arrived.len = arrived.whole.min(vector[0].iov_len + vector[1].iov_len);
        }
        Ok(received)
    }

    /// What is known of packet `number` of the last call.
    pub(crate) fn arrived(&self, number: usize) -> Arrived {
        self.arrived.get(number).copied().unwrap_or_default()
    }

    /// The octets of packet `number` that did not fit its frame.
    pub(crate) fn spilled(&self, number: usize) -> &[u8] {
        self.spill.chunks_exact(SPILL).nth(number).unwrap_or(&[])
    }

    /// Sends the packets of `frames`: how many, at least one. The error is that
    /// of the first packet.
    pub(crate) fn send(
        &mut self,
        fd: BorrowedFd<'_>,
        memory: &PacketMemory,
        frames: &[Frame],
    ) -> io::Result<usize> {
        let count = frames.len().min(BURST);
        let rows = self.headers.iter_mut().zip(&mut self.vectors);
        for (frame, (header, vector)) in frames.iter().zip(rows) {
            let bytes = memory.bytes(frame);
            // The kernel only reads it.
            vector[0].iov_base = bytes.as_ptr().cast_mut().cast();
            vector[0].iov_len = bytes.len();
            header.msg_len = 0;
            let header = &mut header.msg_hdr;
            header.msg_name = std::ptr::null_mut();
            header.msg_namelen = 0;
            header.msg_iov = vector.as_mut_ptr();
            header.msg_iovlen = 1;
            header.msg_control = std::ptr::null_mut();
            header.msg_controllen = 0;
            header.msg_flags = 0;
        }
        // SAFETY: module documentation; `count` headers were written above.
        let sent = unsafe {
            libc::sendmmsg(
                fd.as_raw_fd(),
                self.headers.as_mut_ptr(),
                count as libc::c_uint,
                libc::MSG_DONTWAIT as _,
            )
        };
        Ok((check(sent)? as usize).min(count))
    }
}

/// Reads the auxiliary data of a packet.
///
/// # Safety
///
/// `header` was filled by `recvmmsg`, and its control buffer is still there.
#[allow(clippy::unnecessary_cast)] // musl's lengths have other types
unsafe fn read_control(header: &libc::msghdr) -> Arrived {
    let mut arrived = Arrived::default();
    // SAFETY: the caller's; the macros stay inside `msg_controllen`, and the
    // data is read only where the message is long enough for it.
    unsafe {
        let mut message = libc::CMSG_FIRSTHDR(header);
        while let Some(one) = message.as_ref() {
            let need = libc::CMSG_LEN(size_of::<libc::tpacket_auxdata>() as u32) as usize;
            if one.cmsg_level == libc::SOL_PACKET
                && one.cmsg_type == libc::PACKET_AUXDATA
                && one.cmsg_len as usize >= need
            {
                let data = libc::CMSG_DATA(message).cast::<libc::tpacket_auxdata>();
                let data = data.read_unaligned();
                arrived.partial_checksum = data.tp_status & libc::TP_STATUS_CSUMNOTREADY != 0;
                if data.tp_status & libc::TP_STATUS_VLAN_VALID != 0 {
                    let known = data.tp_status & libc::TP_STATUS_VLAN_TPID_VALID != 0;
                    let id = if known { data.tp_vlan_tpid } else { 0x8100 };
                    arrived.vlan = Some((id, data.tp_vlan_tci));
                }
            }
            message = libc::CMSG_NXTHDR(header, message);
        }
    }
    arrived
}
