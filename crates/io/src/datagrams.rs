//! A UDP socket to one peer, many datagrams with one call.

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd};

use crate::sys::{datagrams, socket};

/// Octets of the longest datagram.
const LONGEST: usize = 1 << 16;
/// Octets that the kernel keeps for what has come and was not read, if it may.
const BUFFER: libc::c_int = 8 << 20;

/// See the module.
#[derive(Debug)]
pub struct Datagrams {
    socket: UdpSocket,
    room: Vec<u8>,
    lengths: [usize; datagrams::AT_ONCE],
    /// Datagrams that the kernel had no room for.
    unsent: u64,
    /// Times in a row that the peer's host said that nobody is there.
    refused: u32,
}

impl Datagrams {
    /// Over this socket, which does not block from here on. Datagrams that are longer than the
    /// path's MTU are fragmented on their way instead of refused.
    ///
    /// # Errors
    ///
    /// The kernel refuses an option.
    pub fn over(socket: UdpSocket) -> io::Result<Datagrams> {
        socket.set_nonblocking(true)?;
        let (level, option, dont) = match socket.local_addr()? {
            SocketAddr::V4(_) => (
                libc::IPPROTO_IP,
                libc::IP_MTU_DISCOVER,
                libc::IP_PMTUDISC_DONT,
            ),
            SocketAddr::V6(_) => (
                libc::IPPROTO_IPV6,
                libc::IPV6_MTU_DISCOVER,
                libc::IPV6_PMTUDISC_DONT,
            ),
        };
        socket::set(socket.as_fd(), level, option, &dont)?;
        // As much as it may have: without the right to more it gets the system's most.
        let _ = socket::set(socket.as_fd(), libc::SOL_SOCKET, libc::SO_RCVBUF, &BUFFER);
        let _ = socket::set(
            socket.as_fd(),
            libc::SOL_SOCKET,
            libc::SO_RCVBUFFORCE,
            &BUFFER,
        );
        let _ = socket::set(socket.as_fd(), libc::SOL_SOCKET, libc::SO_SNDBUF, &BUFFER);
        Ok(Datagrams {
            socket,
            room: vec![0; LONGEST * datagrams::AT_ONCE],
            lengths: [0; datagrams::AT_ONCE],
            unsent: 0,
            refused: 0,
        })
    }

    /// The socket.
    pub fn socket(&self) -> &UdpSocket {
        &self.socket
    }

    /// Sends datagrams to the peer that the socket is connected to. Those that the kernel has no
    /// room for are lost, and counted, as on the way.
    pub fn send<'a>(&mut self, all: impl Iterator<Item = &'a [u8]>) {
        let mut all = all.peekable();
        while all.peek().is_some() {
            let mut burst = [&[][..]; datagrams::AT_ONCE];
            let mut count = 0;
            for (place, datagram) in burst.iter_mut().zip(&mut all) {
                *place = datagram;
                count += 1;
            }
            let mut burst = burst.get(..count).unwrap_or(&[]);
            while !burst.is_empty() {
                // An error is the first one's: ECONNREFUSED of an earlier one, or no room.
                let sent = datagrams::send(self.socket.as_fd(), burst.iter().copied());
                let done = match sent {
                    Ok(sent @ 1..) => sent,
                    Ok(_) => 1,
                    Err(error) => {
                        self.note(&error);
                        self.unsent += 1;
                        1
                    }
                };
                burst = burst.get(done..).unwrap_or(&[]);
            }
        }
    }

    /// Gives what has come, at most some dozens: how many.
    pub fn receive(&mut self, mut each: impl FnMut(&[u8])) -> usize {
        let socket = self.socket.as_fd();
        // Nothing has come, or an earlier datagram was refused: the next call tells.
        let received = datagrams::receive(socket, &mut self.room, LONGEST, &mut self.lengths);
        let received = match received {
            Ok(received) => received,
            Err(error) => {
                self.note(&error);
                0
            }
        };
        if received > 0 {
            self.refused = 0;
        }
        let parts = self.room.chunks_exact(LONGEST).zip(&self.lengths);
        for (part, length) in parts.take(received) {
            each(part.get(..*length).unwrap_or(&[]));
        }
        received
    }

    fn note(&mut self, error: &io::Error) {
        if error.kind() == io::ErrorKind::ConnectionRefused {
            self.refused += 1;
        }
    }

    /// How often the peer's host has said, since anything came, that nobody is there any more
    /// (an ICMP error, of which the kernel tells with a later call).
    pub fn refused(&self) -> u32 {
        self.refused
    }

    /// Datagrams that the kernel had no room for.
    pub fn unsent(&self) -> u64 {
        self.unsent
    }
}

impl AsFd for Datagrams {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair() -> (Datagrams, Datagrams) {
        let socket = || UdpSocket::bind("127.0.0.1:0").unwrap();
        let (a, b) = (socket(), socket());
        a.connect(b.local_addr().unwrap()).unwrap();
        b.connect(a.local_addr().unwrap()).unwrap();
        (Datagrams::over(a).unwrap(), Datagrams::over(b).unwrap())
    }

    #[test]
    fn many_datagrams_of_any_length_arrive_in_order() {
        let (mut a, mut b) = pair();
        let sent: Vec<Vec<u8>> = (0..100usize)
            .map(|n| vec![n as u8; [0, 1, 1_500, 65_507][n % 4]])
            .collect();
        a.send(sent.iter().map(Vec::as_slice));
        let mut got = Vec::new();
        while b.receive(|datagram| got.push(datagram.to_vec())) > 0 {}
        assert_eq!((got.len(), a.unsent()), (100, 0));
        assert!(got == sent);
    }

    #[test]
    fn a_peer_that_is_gone_takes_nothing_with_it() {
        let (mut a, b) = pair();
        drop(b);
        for _ in 0..3 {
            a.send([&[1][..], &[2]].into_iter());
            assert_eq!(a.receive(|_| panic!("nobody sends")), 0);
        }
        assert!(a.refused() > 1);
    }
}
