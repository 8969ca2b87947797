//! ICMP echo from a raw socket, so that tests need no `ping`.

use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd as _, OwnedFd};
use std::time::{Duration, Instant};

use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketType, ipproto};

/// Types of request and answer.
const IPV4: (u8, u8) = (8, 0);
const IPV6: (u8, u8) = (128, 129);

/// Sends `count` requests `interval` apart, whether or not those before were
/// answered, and waits up to `patience` for the last answer: the times of those
/// that came. The caller's thread is in the namespace that sends.
pub(crate) fn echo(
    to: IpAddr,
    count: u32,
    interval: Duration,
    patience: Duration,
) -> Vec<Duration> {
    let socket = socket_for(to);
    let (mut sent, mut times) = (Vec::new(), Vec::new());
    for number in 1..=count {
        let now = Instant::now();
        sent.push(send(&socket, to, number as u16).then_some(now));
        let wait = if number < count { interval } else { patience };
        while times.len() < sent.len() || number < count {
            let Some(left) = wait.checked_sub(now.elapsed()) else {
                break;
            };
            let Some(answered) = receive(&socket, to, left) else {
                continue;
            };
            let place = usize::from(answered).wrapping_sub(1);
            if let Some(began) = sent.get_mut(place).and_then(Option::take) {
                times.push(began.elapsed());
            }
        }
    }
    times
}

fn socket_for(to: IpAddr) -> OwnedFd {
    let (family, protocol) = match to {
        IpAddr::V4(_) => (AddressFamily::INET, ipproto::ICMP),
        IpAddr::V6(_) => (AddressFamily::INET6, ipproto::ICMPV6),
    };
    rustix::net::socket(family, SocketType::RAW, Some(protocol)).expect("root may open it")
}

/// What the answers name: the thread that asked.
fn asker() -> [u8; 2] {
    let thread = rustix::thread::gettid().as_raw_nonzero().get() as u16;
    thread.to_be_bytes()
}

/// Sends one request; false where it can't leave.
fn send(socket: &OwnedFd, to: IpAddr, number: u16) -> bool {
    let (ask, _) = if to.is_ipv4() { IPV4 } else { IPV6 };
    let mut request = [[ask, 0, 0, 0], [0; 4], *b"weir"].concat();
    request[4..6].copy_from_slice(&asker());
    request[6..8].copy_from_slice(&number.to_be_bytes());
    if to.is_ipv4() {
        // The kernel fills in that of ICMPv6.
        let sum = weir_packet::checksum::internet(&request);
        request[2..4].copy_from_slice(&sum.to_be_bytes());
    }
    let to = SocketAddr::new(to, 0);
    rustix::net::sendto(socket, &request, SendFlags::empty(), &to).is_ok()
}

/// The number of the request that the next packet answers; `None` where it is
/// another's, or none comes for so long.
fn receive(socket: &OwnedFd, to: IpAddr, wait: Duration) -> Option<u16> {
    let (_, answer) = if to.is_ipv4() { IPV4 } else { IPV6 };
    let wait = rustix::event::Timespec {
        tv_sec: wait.as_secs() as i64,
        tv_nsec: wait.subsec_nanos().into(),
    };
    let fd = socket.as_fd();
    let mut fds = [rustix::event::PollFd::new(
        &fd,
        rustix::event::PollFlags::IN,
    )];
    if rustix::event::poll(&mut fds, Some(&wait)).ok()? == 0 {
        return None;
    }
    let mut buffer = [0; 256];
    let (octets, _) = rustix::net::recv(socket, &mut buffer[..], RecvFlags::empty()).ok()?;
    // IPv4's raw sockets give the IP header too.
    let header = if to.is_ipv4() {
        usize::from(buffer[0] & 15) * 4
    } else {
        0
    };
    let message = buffer.get(header..octets).unwrap_or_default();
    let is_ours = message.first() == Some(&answer) && message.get(4..6) == Some(&asker()[..]);
    let number = message.get(6..8)?.try_into().ok()?;
    is_ours.then(|| u16::from_be_bytes(number))
}
