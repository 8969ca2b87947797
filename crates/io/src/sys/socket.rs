//! Sockets and their options.
//!
//! # Safety
//!
//! Every call is given pointers to values of this stack frame with their exact
//! sizes, and a file descriptor that its borrow keeps open. [`Plain`] says that
//! a type is plain data without padding to leak and for which any bytes are a
//! value, so that the kernel may read and write it.

#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

/// Plain data that the kernel may read or write as it is.
///
/// # Safety
///
/// Any bytes are a valid value.
pub(crate) unsafe trait Plain: Copy {}

// SAFETY: numbers, and C structures of numbers only.
unsafe impl Plain for libc::c_int {}
// SAFETY: as above.
unsafe impl Plain for libc::packet_mreq {}
// SAFETY: as above.
unsafe impl Plain for libc::tpacket_stats {}
// SAFETY: as above.
unsafe impl Plain for libc::tpacket_req {}
// SAFETY: as above.
unsafe impl Plain for libc::xdp_umem_reg {}
// SAFETY: as above.
unsafe impl Plain for libc::xdp_mmap_offsets {}
// SAFETY: as above.
unsafe impl Plain for libc::xdp_statistics {}
// SAFETY: as above.
unsafe impl Plain for libc::xdp_options {}

/// The error of a call that gave a negative number.
pub(crate) fn check(result: impl Into<i64>) -> io::Result<i64> {
    let result = result.into();
    if result < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(result)
    }
}

/// Opens a socket that does not block and is closed when another program is
/// started.
pub(crate) fn open(family: libc::c_int, kind: libc::c_int) -> io::Result<OwnedFd> {
    let kind = kind | libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
    // SAFETY: no pointers.
    let fd = check(unsafe { libc::socket(family, kind, 0) })?;
    // SAFETY: the kernel just gave this descriptor to us alone.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as libc::c_int) })
}

/// Sets an option.
pub(crate) fn set<T: Plain>(
    fd: BorrowedFd<'_>,
    level: libc::c_int,
    name: libc::c_int,
    value: &T,
) -> io::Result<()> {
    let size = size_of::<T>() as libc::socklen_t;
    // SAFETY: module documentation.
    let set = unsafe {
        libc::setsockopt(
            fd.as_raw_fd(),
            level,
            name,
            std::ptr::from_ref(value).cast(),
            size,
        )
    };
    check(set).map(drop)
}

/// Reads an option. One that the kernel knows in a shorter form has zeros at
/// the end.
pub(crate) fn get<T: Plain>(
    fd: BorrowedFd<'_>,
    level: libc::c_int,
    name: libc::c_int,
) -> io::Result<T> {
    // SAFETY: `Plain`: any bytes are a value.
    let mut value: T = unsafe { std::mem::zeroed() };
    let mut size = size_of::<T>() as libc::socklen_t;
    // SAFETY: module documentation.
    let got = unsafe {
        libc::getsockopt(
            fd.as_raw_fd(),
            level,
            name,
            std::ptr::from_mut(&mut value).cast(),
            &raw mut size,
        )
    };
    check(got)?;
    if size as usize > size_of::<T>() {
        return Err(io::Error::other("the kernel's answer is too long"));
    }
    Ok(value)
}

/// Gives a socket a filter: what it does not accept never comes.
pub(crate) fn filter(fd: BorrowedFd<'_>, program: &[libc::sock_filter]) -> io::Result<()> {
    let len = u16::try_from(program.len()).map_err(io::Error::other)?;
    let program = libc::sock_fprog {
        len,
        // The kernel only reads it.
        filter: program.as_ptr().cast_mut(),
    };
    let size = size_of::<libc::sock_fprog>() as libc::socklen_t;
    // SAFETY: module documentation; the instructions outlive the call, in which the
    // kernel copies them.
    let set = unsafe {
        libc::setsockopt(
            fd.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_ATTACH_FILTER,
            std::ptr::from_ref(&program).cast(),
            size,
        )
    };
    check(set).map(drop)
}

/// Has an interface take frames for all stations for as long as the packet
/// socket is open.
pub(crate) fn be_promiscuous(fd: BorrowedFd<'_>, index: u32) -> io::Result<()> {
    let promiscuous = libc::packet_mreq {
        mr_ifindex: index as libc::c_int,
        mr_type: libc::PACKET_MR_PROMISC as u16,
        mr_alen: 0,
        mr_address: [0; 8],
    };
    set(
        fd,
        libc::SOL_PACKET,
        libc::PACKET_ADD_MEMBERSHIP,
        &promiscuous,
    )
}

/// Binds a packet socket to an interface: for packets of all protocols, or to
/// send only.
pub(crate) fn bind_packet(fd: BorrowedFd<'_>, index: u32, receives: bool) -> io::Result<()> {
    // SAFETY: a C structure of numbers.
    let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
    address.sll_family = libc::AF_PACKET as u16;
    let all = (libc::ETH_P_ALL as u16).to_be();
    address.sll_protocol = if receives { all } else { 0 };
    address.sll_ifindex = index as libc::c_int;
    bind(fd, &address)
}

/// Binds an XDP socket to a queue of an interface.
pub(crate) fn bind_xdp(fd: BorrowedFd<'_>, index: u32, queue: u32, flags: u16) -> io::Result<()> {
    // SAFETY: a C structure of numbers.
    let mut address: libc::sockaddr_xdp = unsafe { std::mem::zeroed() };
    address.sxdp_family = libc::AF_XDP as u16;
    address.sxdp_flags = flags;
    address.sxdp_ifindex = index;
    address.sxdp_queue_id = queue;
    bind(fd, &address)
}

fn bind<T>(fd: BorrowedFd<'_>, address: &T) -> io::Result<()> {
    let size = size_of::<T>() as libc::socklen_t;
    // SAFETY: module documentation.
    let bound = unsafe {
        libc::bind(
            fd.as_raw_fd(),
            std::ptr::from_ref(address).cast::<libc::sockaddr>(),
            size,
        )
    };
    check(bound).map(drop)
}

/// Has the kernel send what lies in a socket's transmit ring, as far as it can
/// now.
pub(crate) fn send_ring(fd: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: no data and no address: the pointers are null with length 0.
    let sent = unsafe {
        libc::sendto(
            fd.as_raw_fd(),
            std::ptr::null(),
            0,
            libc::MSG_DONTWAIT,
            std::ptr::null(),
            0,
        )
    };
    check(sent as i64).map(drop)
}

/// The same, where it is no error that it is busy or has more to do than fits one
/// call.
pub(crate) fn kick(fd: BorrowedFd<'_>) -> io::Result<()> {
    match send_ring(fd) {
        Err(error)
            if matches!(
                error.raw_os_error(),
                Some(libc::EAGAIN | libc::EBUSY | libc::ENOBUFS | libc::EINTR)
            ) =>
        {
            Ok(())
        }
        sent => sent,
    }
}

/// Tells a driver that sleeps for want of frames that there are some again.
pub(crate) fn wake_receiver(fd: BorrowedFd<'_>) {
    // SAFETY: no data and no address: the pointers are null with length 0.
    // The result does not matter: the driver will be told again.
    unsafe {
        libc::recvfrom(
            fd.as_raw_fd(),
            std::ptr::null_mut(),
            0,
            libc::MSG_DONTWAIT,
            std::ptr::null_mut(),
            std::ptr::null_mut(),
        )
    };
}
