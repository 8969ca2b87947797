//! Facts of the kernel about a network interface.
//!
//! # Safety
//!
//! Each `ioctl` is given an `ifreq` of this stack frame, zeroed and with a name
//! that ends in a zero, and reads the member of its union that the request
//! writes. The structure behind `ifru_data` outlives the call. Names that come
//! back are cut at the first zero inside their array.

#![allow(unsafe_code)]

use std::ffi::CStr;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use weir_packet::MacAddr;

use super::socket;

const ETHTOOL_GCHANNELS: u32 = 0x3c;
const SIOCETHTOOL: libc::c_int = 0x8946;

/// `struct ethtool_channels`.
#[repr(C)]
#[derive(Default)]
struct Channels {
    command: u32,
    /// Most receive, transmit, other, combined.
    most: [u32; 4],
    /// Receive, transmit, other, combined.
    count: [u32; 4],
}

/// A way to ask the kernel about interfaces of this network namespace.
#[derive(Debug)]
pub(crate) struct Interfaces(OwnedFd);

impl Interfaces {
    pub(crate) fn open() -> io::Result<Interfaces> {
        socket::open(libc::AF_INET, libc::SOCK_DGRAM)
            .or_else(|_| socket::open(libc::AF_PACKET, libc::SOCK_DGRAM))
            .map(Interfaces)
    }

    fn ask(&self, what: libc::c_int, request: &mut libc::ifreq) -> io::Result<()> {
        let fd = self.0.as_fd().as_raw_fd();
        // SAFETY: module documentation.
        let asked = unsafe { libc::ioctl(fd, what as _, std::ptr::from_mut(request)) };
        socket::check(asked).map(drop)
    }

    /// A request whose `ifru_data` is `data`.
    ///
    /// # Safety
    ///
    /// The kernel may read and write as much behind `data` as `what`, and the
    /// command that `data` begins with, say.
    pub(super) unsafe fn ask_data(
        &self,
        name: &str,
        what: libc::c_int,
        data: *mut libc::c_char,
    ) -> io::Result<()> {
        let mut request = named(name)?;
        request.ifr_ifru.ifru_data = data;
        self.ask(what, &mut request)
    }

    /// The number of an interface.
    pub(crate) fn index(&self, name: &str) -> io::Result<u32> {
        let mut request = named(name)?;
        self.ask(libc::SIOCGIFINDEX as _, &mut request)?;
        // SAFETY: the request wrote this member.
        let index = unsafe { request.ifr_ifru.ifru_ifindex };
        u32::try_from(index).map_err(io::Error::other)
    }

    /// The name of the interface of this number, which may be given another.
    pub(crate) fn name(&self, index: u32) -> io::Result<String> {
        // SAFETY: a C structure of numbers.
        let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
        request.ifr_ifru.ifru_ifindex = index as libc::c_int;
        self.ask(libc::SIOCGIFNAME as _, &mut request)?;
        let octets = request.ifr_name.iter().map(|&octet| octet as u8);
        let name: Vec<u8> = octets.take_while(|&octet| octet != 0).collect();
        Ok(String::from_utf8_lossy(&name).into_owned())
    }

    /// Most octets of a packet behind its link header.
    pub(crate) fn mtu(&self, name: &str) -> io::Result<u32> {
        let mut request = named(name)?;
        self.ask(libc::SIOCGIFMTU as _, &mut request)?;
        // SAFETY: the request wrote this member.
        let mtu = unsafe { request.ifr_ifru.ifru_mtu };
        u32::try_from(mtu).map_err(io::Error::other)
    }

    fn flags(&self, name: &str) -> io::Result<libc::c_short> {
        let mut request = named(name)?;
        self.ask(libc::SIOCGIFFLAGS as _, &mut request)?;
        // SAFETY: the request wrote this member.
        Ok(unsafe { request.ifr_ifru.ifru_flags })
    }

    /// True where an operator has set it up.
    pub(crate) fn is_up(&self, name: &str) -> io::Result<bool> {
        Ok(self.flags(name)? & libc::IFF_UP as libc::c_short != 0)
    }

    /// True where its frames are Ethernet.
    pub(crate) fn is_ethernet(&self, name: &str) -> io::Result<bool> {
        let mut request = named(name)?;
        self.ask(libc::SIOCGIFHWADDR as _, &mut request)?;
        // SAFETY: the request wrote this member.
        let family = unsafe { request.ifr_ifru.ifru_hwaddr.sa_family };
        // A loop-back's frames have an Ethernet header, too.
        Ok(matches!(family, libc::ARPHRD_ETHER | libc::ARPHRD_LOOPBACK))
    }

    /// Its hardware address.
    pub(crate) fn mac(&self, name: &str) -> io::Result<MacAddr> {
        let mut request = named(name)?;
        self.ask(libc::SIOCGIFHWADDR as _, &mut request)?;
        // SAFETY: the request wrote this member.
        let data = unsafe { request.ifr_ifru.ifru_hwaddr.sa_data };
        let [a, b, c, d, e, f, ..] = data.map(|octet| octet as u8);
        Ok(MacAddr([a, b, c, d, e, f]))
    }

    /// Sets it up.
    pub(crate) fn set_up(&self, name: &str) -> io::Result<()> {
        let flags = self.flags(name)?;
        let mut request = named(name)?;
        request.ifr_ifru.ifru_flags = flags | libc::IFF_UP as libc::c_short;
        self.ask(libc::SIOCSIFFLAGS as _, &mut request)
    }

    /// Queues of an interface: 1 of each kind where the driver does not say.
    pub(crate) fn queues(&self, name: &str) -> io::Result<Queues> {
        let mut channels = Channels {
            command: ETHTOOL_GCHANNELS,
            ..Channels::default()
        };
        let mut request = named(name)?;
        request.ifr_ifru.ifru_data = std::ptr::from_mut(&mut channels).cast();
        match self.ask(SIOCETHTOOL, &mut request) {
            Ok(()) => {
                let [receive, transmit, _, combined] = channels.count;
                Ok(Queues {
                    receive: receive.saturating_add(combined).max(1),
                    transmit: transmit.saturating_add(combined).max(1),
                })
            }
            Err(error) if error.raw_os_error() == Some(libc::EOPNOTSUPP) => Ok(Queues {
                receive: 1,
                transmit: 1,
            }),
            Err(error) => Err(error),
        }
    }
}

/// How many queues an interface has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Queues {
    /// That packets are received on.
    pub(crate) receive: u32,
    /// That packets are sent on.
    pub(crate) transmit: u32,
}

/// A request about the interface of this name.
fn named(name: &str) -> io::Result<libc::ifreq> {
    // SAFETY: a C structure of numbers.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    if name.is_empty() || name.len() >= request.ifr_name.len() || name.contains('\0') {
        return Err(io::Error::from_raw_os_error(libc::ENODEV));
    }
    for (to, &from) in request.ifr_name.iter_mut().zip(name.as_bytes()) {
        *to = from as libc::c_char;
    }
    Ok(request)
}

/// The addresses that the kernel has for the interface of this name.
pub(crate) fn addresses(name: &str) -> io::Result<Vec<IpAddr>> {
    let mut first: *mut libc::ifaddrs = std::ptr::null_mut();
    // SAFETY: `first` is written with a list that is freed below.
    socket::check(unsafe { libc::getifaddrs(&raw mut first) })?;
    let mut found = Vec::new();
    let mut at = first;
    while !at.is_null() {
        // SAFETY: an element of the list, which is not freed yet; its name and
        // address are either null or valid, and the family says which kind of
        // address it is.
        unsafe {
            let one = &*at;
            at = one.ifa_next;
            if one.ifa_addr.is_null()
                || one.ifa_name.is_null()
                || CStr::from_ptr(one.ifa_name).to_bytes() != name.as_bytes()
            {
                continue;
            }
            match libc::c_int::from((*one.ifa_addr).sa_family) {
                libc::AF_INET => {
                    let address = one.ifa_addr.cast::<libc::sockaddr_in>().read_unaligned();
                    let address = u32::from_be(address.sin_addr.s_addr);
                    found.push(IpAddr::from(Ipv4Addr::from(address)));
                }
                libc::AF_INET6 => {
                    let address = one.ifa_addr.cast::<libc::sockaddr_in6>().read_unaligned();
                    found.push(IpAddr::from(Ipv6Addr::from(address.sin6_addr.s6_addr)));
                }
                _ => {}
            }
        }
    }
    // SAFETY: the list from above, once.
    unsafe { libc::freeifaddrs(first) };
    Ok(found)
}
