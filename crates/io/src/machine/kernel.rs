//! The kernel, and what it grants this process: found out by asking for it.

use std::io;

use super::text::read_number;
use crate::sys::bpf::{Program, SocketMap};
use crate::sys::socket;

/// Result of asking for something.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Probe {
    /// It was granted, and given back.
    Works,
    /// This process may not.
    NotAllowed,
    /// There is no such thing here.
    #[default]
    Missing,
    /// Another error of the kernel's.
    Failed(String),
}

impl Probe {
    /// The outcome of an attempt.
    pub fn of<T>(tried: io::Result<T>) -> Probe {
        match tried {
            Ok(_) => Probe::Works,
            Err(error) => match error.raw_os_error() {
                Some(libc::EPERM | libc::EACCES) => Probe::NotAllowed,
                Some(
                    libc::ENOENT
                    | libc::ENODEV
                    | libc::ENXIO
                    | libc::ENOSYS
                    | libc::EAFNOSUPPORT
                    | libc::ESOCKTNOSUPPORT
                    | libc::EPROTONOSUPPORT,
                ) => Probe::Missing,
                _ => Probe::Failed(error.to_string()),
            },
        }
    }
}

/// A kernel, towards one process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Kernel {
    /// Its release, as `6.1.0-18-amd64`.
    pub release: String,
    /// A packet socket.
    pub packet_socket: Probe,
    /// An XDP socket.
    pub xdp_socket: Probe,
    /// A table of XDP sockets and the program that hands packets to them,
    /// loaded but attached to nothing.
    pub xdp_program: Probe,
    /// The file that TAP interfaces are made with.
    pub tun: Probe,
    /// The kernel forwards IPv4 packets between interfaces.
    pub forwards_ipv4: bool,
    /// The kernel forwards IPv6 packets between interfaces.
    pub forwards_ipv6: bool,
}

impl Kernel {
    pub(super) fn read() -> Kernel {
        let name = rustix::system::uname();
        let program = SocketMap::new(1).and_then(|map| Program::load(&map, None));
        let set = |path: &str| read_number::<u32>(path) == Some(1);
        Kernel {
            release: name.release().to_string_lossy().into_owned(),
            packet_socket: Probe::of(socket::open(libc::AF_PACKET, libc::SOCK_RAW)),
            xdp_socket: Probe::of(socket::open(libc::AF_XDP, libc::SOCK_RAW)),
            xdp_program: Probe::of(program),
            // Opening it makes no interface.
            tun: Probe::of(
                std::fs::OpenOptions::new()
                    .read(true)
                    .write(true)
                    .open("/dev/net/tun"),
            ),
            forwards_ipv4: set("/proc/sys/net/ipv4/ip_forward"),
            forwards_ipv6: set("/proc/sys/net/ipv6/conf/all/forwarding"),
        }
    }

    /// Its version, as (6, 1); `None` where the release begins with none.
    pub fn version(&self) -> Option<(u32, u32)> {
        let mut parts = self.release.split(|c: char| !c.is_ascii_digit());
        Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_from_releases() {
        let of = |release: &str| {
            let kernel = Kernel {
                release: release.to_owned(),
                ..Kernel::default()
            };
            kernel.version()
        };
        assert_eq!(of("6.1.0-18-amd64"), Some((6, 1)));
        assert_eq!(of("5.15"), Some((5, 15)));
        assert_eq!(of("7.0-rc1"), Some((7, 0)));
        assert_eq!(of("custom"), None);
    }
}
