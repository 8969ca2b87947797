//! Questions to the kernel by netlink: messages out, attributes in. Answers
//! are read as far as they are well-formed; what is not is left out.

use std::io;
use std::os::fd::OwnedFd;

use rustix::net::netlink::{GENERIC, SocketAddrNetlink};
use rustix::net::{
    AddressFamily, Protocol, RecvFlags, SendFlags, SocketFlags, SocketType, recv, sendto,
    socket_with, sockopt,
};

const HEAD: usize = 16;
const ERROR: u16 = 2;
const DONE: u16 = 3;
const REQUEST: u16 = 1;
const DUMP: u16 = 0x300;
/// Octets of an answer that are read at once: more than the kernel sends.
const ROOM: usize = 64 << 10;

/// A netlink socket in the network namespace of the thread that opened it.
#[derive(Debug)]
pub(super) struct Netlink(OwnedFd);

impl Netlink {
    /// To links, addresses and namespaces.
    pub(super) fn route() -> io::Result<Netlink> {
        Netlink::open(None)
    }

    /// To families that are asked for by name.
    pub(super) fn generic() -> io::Result<Netlink> {
        Netlink::open(Some(GENERIC))
    }

    fn open(protocol: Option<Protocol>) -> io::Result<Netlink> {
        let flags = SocketFlags::CLOEXEC;
        let socket = socket_with(AddressFamily::NETLINK, SocketType::RAW, flags, protocol)?;
        // A kernel that does not answer holds nobody up.
        let most = std::time::Duration::from_secs(2);
        sockopt::set_socket_timeout(&socket, sockopt::Timeout::Recv, Some(most))?;
        Ok(Netlink(socket))
    }

    /// All that the kernel has of a kind: the bodies of the answers.
    pub(super) fn dump(&self, kind: u16, body: &[u8]) -> io::Result<Vec<Vec<u8>>> {
        self.send(kind, DUMP, body)?;
        let mut all = Vec::new();
        loop {
            let got = self.receive()?;
            for message in messages(&got) {
                match message {
                    (DONE, _) => return Ok(all),
                    (ERROR, body) => return failed(body).map(|()| all),
                    (_, body) => all.push(body.to_vec()),
                }
            }
        }
    }

    /// One question: the body of its answer.
    pub(super) fn ask(&self, kind: u16, body: &[u8]) -> io::Result<Vec<u8>> {
        self.send(kind, 0, body)?;
        let got = self.receive()?;
        match messages(&got).next() {
            Some((ERROR, body)) => failed(body).map(|()| Vec::new()),
            Some((_, body)) => Ok(body.to_vec()),
            None => Err(io::ErrorKind::InvalidData.into()),
        }
    }

    fn send(&self, kind: u16, flags: u16, body: &[u8]) -> io::Result<()> {
        let mut message = Vec::with_capacity(HEAD + body.len());
        message.extend(((HEAD + body.len()) as u32).to_ne_bytes());
        message.extend(kind.to_ne_bytes());
        message.extend((REQUEST | flags).to_ne_bytes());
        message.extend([0; 8]);
        message.extend(body);
        let kernel = SocketAddrNetlink::new(0, 0);
        sendto(&self.0, &message, SendFlags::empty(), &kernel)?;
        Ok(())
    }

    fn receive(&self) -> io::Result<Vec<u8>> {
        let mut room = vec![0; ROOM];
        let (length, _) = recv(&self.0, room.as_mut_slice(), RecvFlags::empty())?;
        room.truncate(length);
        Ok(room)
    }
}

/// The error of an answer that is one; 0 is none.
fn failed(body: &[u8]) -> io::Result<()> {
    match number(body.get(..4).unwrap_or_default()) {
        Some(0) | None => Ok(()),
        Some(code) => Err(io::Error::from_raw_os_error(-(code as i32))),
    }
}

/// The messages of an answer: kind and body.
fn messages(mut bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    std::iter::from_fn(move || {
        let length = number(bytes.get(..4)?)? as usize;
        let kind = u16::from_ne_bytes(bytes.get(4..6)?.try_into().ok()?);
        let body = bytes.get(HEAD..length)?;
        bytes = bytes.get(length.next_multiple_of(4)..).unwrap_or_default();
        Some((kind, body))
    })
}

/// The attributes of a body: kind and value.
pub(super) fn attributes(mut bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    const FLAGS: u16 = 0xc000;
    std::iter::from_fn(move || {
        let length = usize::from(u16::from_ne_bytes(bytes.get(..2)?.try_into().ok()?));
        let kind = u16::from_ne_bytes(bytes.get(2..4)?.try_into().ok()?);
        let value = bytes.get(4..length)?;
        bytes = bytes.get(length.next_multiple_of(4)..).unwrap_or_default();
        Some((kind & !FLAGS, value))
    })
}

/// An attribute to send.
pub(super) fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(4 + value.len() + 3);
    bytes.extend(((4 + value.len()) as u16).to_ne_bytes());
    bytes.extend(kind.to_ne_bytes());
    bytes.extend(value);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}

/// A number of 32 bits, as the machine has them.
pub(super) fn number(value: &[u8]) -> Option<u32> {
    value.try_into().ok().map(u32::from_ne_bytes)
}

/// Text that ends in a zero.
pub(super) fn text(value: &[u8]) -> String {
    let end = value.iter().position(|b| *b == 0).unwrap_or(value.len());
    String::from_utf8_lossy(value.get(..end).unwrap_or_default()).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_come_back_as_they_were_written() {
        let bytes = [
            attribute(3, b"eth0\0"),
            attribute(4, &1_500u32.to_ne_bytes()),
        ]
        .concat();
        let read: Vec<_> = attributes(&bytes).collect();
        assert_eq!(read.len(), 2);
        assert_eq!((read[0].0, text(read[0].1)), (3, "eth0".to_owned()));
        assert_eq!((read[1].0, number(read[1].1)), (4, Some(1_500)));
    }

    #[test]
    fn what_is_cut_or_lies_about_its_length_ends_the_list() {
        let whole = attribute(3, b"eth0\0");
        for cut in 0..9 {
            assert_eq!(attributes(&whole[..cut]).count(), 0, "{cut}");
            assert_eq!(messages(&whole[..cut]).count(), 0, "{cut}");
        }
        assert_eq!(attributes(&[0, 0, 0, 0, 8, 0, 0, 0]).count(), 0);
        assert_eq!(attributes(&[0xff; 64]).count(), 0);
        assert_eq!(messages(&[0xff; 64]).count(), 0);
        assert_eq!(messages(&[0; 64]).count(), 0);
    }
}
