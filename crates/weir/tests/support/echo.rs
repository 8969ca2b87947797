//! ICMP echo from a raw socket, so that tests need no `ping`.

use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd as _, OwnedFd};
use std::time::{Duration, Instant};

use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketType, ipproto};

/// Types of request and answer.
const IPV4: (u8, u8) = (8, 0);
const IPV6: (u8, u8) = (128, 129);

/// Sends `count` requests `interval` apart and waits up to `patience` for each
/// answer: the times of those that came. The caller's thread is in the
/// namespace that sends.
pub(crate) fn echo(
    to: IpAddr,
    count: u32,
    interval: Duration,
    patience: Duration,
) -> Vec<Duration> {
    let socket = socket_for(to);
    let mut times = Vec::new();
    for number in 1..=count {
        let began = Instant::now();
        if let Some(time) = one(&socket, to, number as u16, patience) {
            times.push(time);
        }
        if number < count {
            std::thread::sleep(interval.saturating_sub(began.elapsed()));
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

/// One request: how long its answer took.
fn one(socket: &OwnedFd, to: IpAddr, number: u16, patience: Duration) -> Option<Duration> {
    let (ask, answer) = if to.is_ipv4() { IPV4 } else { IPV6 };
    // The answer names the process and the thread that asked, and the request.
    let who = rustix::thread::gettid().as_raw_nonzero().get() as u16;
    let mut request = [[ask, 0, 0, 0], [0; 4], *b"weir"].concat();
    request[4..6].copy_from_slice(&who.to_be_bytes());
    request[6..8].copy_from_slice(&number.to_be_bytes());
    if to.is_ipv4() {
        // The kernel fills in that of ICMPv6.
        let sum = weir_packet::checksum::internet(&request);
        request[2..4].copy_from_slice(&sum.to_be_bytes());
    }
    let began = Instant::now();
    let sent = rustix::net::sendto(
        socket,
        &request,
        SendFlags::empty(),
        &SocketAddr::new(to, 0),
    );
    sent.ok()?;
    let mut buffer = [0; 256];
    loop {
        let left = patience.checked_sub(began.elapsed())?;
        let left = rustix::event::Timespec {
            tv_sec: left.as_secs() as i64,
            tv_nsec: left.subsec_nanos().into(),
        };
        let fd = socket.as_fd();
        let mut fds = [rustix::event::PollFd::new(
            &fd,
            rustix::event::PollFlags::IN,
        )];
        if rustix::event::poll(&mut fds, Some(&left)).ok()? == 0 {
            return None;
        }
        let (octets, _) = rustix::net::recv(socket, &mut buffer[..], RecvFlags::empty()).ok()?;
        // IPv4's raw sockets give the IP header too.
        let header = if to.is_ipv4() {
            usize::from(buffer[0] & 15) * 4
        } else {
            0
        };
        let message = buffer.get(header..octets).unwrap_or_default();
        if message.first() == Some(&answer) && message.get(4..8) == request.get(4..8) {
            return Some(began.elapsed());
        }
    }
}
