//! One packet by a system call, with what the kernel says of it: those that fit
//! no slot of a packet socket's ring.
//!
//! # Safety
//!
//! The kernel is given a header of this stack frame, the caller's memory,
//! borrowed for the call, and a control buffer. Lengths that come back are bounded
//! by what was given before they are used.

#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

use super::offload::{Offload, VNET_BYTES};
use super::packet_ring::Arrived;
use super::packet_ring::receive::tag;
use super::socket::check;

/// Control messages of a packet: one with auxiliary data.
#[repr(C, align(16))]
struct Control([u8; 64]);

/// Reads a packet of a socket with `PACKET_AUXDATA` and `PACKET_VNET_HDR` into
/// `to`, from its first octet on: its octets, which are more than `to` has where it
/// does not fit.
pub(crate) fn receive(fd: BorrowedFd<'_>, to: &mut [u8]) -> io::Result<(Arrived, usize)> {
    let mut offload = [0; VNET_BYTES];
    let mut vectors = [
        libc::iovec {
            iov_base: offload.as_mut_ptr().cast(),
            iov_len: offload.len(),
        },
        libc::iovec {
            iov_base: to.as_mut_ptr().cast(),
            iov_len: to.len(),
        },
    ];
    let mut control = Control([0; 64]);
    // SAFETY: a C structure of numbers and pointers that may be null.
    let mut header: libc::msghdr = unsafe { std::mem::zeroed() };
    header.msg_iov = vectors.as_mut_ptr();
    header.msg_iovlen = vectors.len() as _;
    header.msg_control = control.0.as_mut_ptr().cast();
    header.msg_controllen = control.0.len() as _;
    // SAFETY: module documentation.
    let received = check(unsafe {
        libc::recvmsg(
            fd.as_raw_fd(),
            &raw mut header,
            libc::MSG_DONTWAIT | libc::MSG_TRUNC,
        )
    } as i64)?;
    // SAFETY: a header that the call above has filled.
    let vlan = unsafe { read_tag(&header) };
    let arrived = Arrived {
        offload: Offload::read(&offload),
        vlan,
    };
    Ok((arrived, (received as usize).saturating_sub(VNET_BYTES)))
}

/// Reads the tag in the auxiliary data of a packet.
///
/// # Safety
///
/// `header` was filled by `recvmsg`, and its control buffer is still there.
#[allow(clippy::unnecessary_cast)] // musl's lengths have other types
unsafe fn read_tag(header: &libc::msghdr) -> Option<(u16, u16)> {
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
                return tag(data.tp_status, data.tp_vlan_tci, data.tp_vlan_tpid);
            }
            message = libc::CMSG_NXTHDR(header, message);
        }
    }
    None
}
