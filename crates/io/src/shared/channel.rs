//! Messages and descriptors between a process and its children.

use std::collections::VecDeque;
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;

use rustix::io::Errno;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags,
};

/// Most descriptors that go with one message.
pub const MOST_FDS: usize = 16;
/// Bytes in front of a message: its kind and its length.
const HEAD: usize = 5;
/// Bytes that are read at a time.
const CHUNK: usize = 32 << 10;

/// A message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// Its kind, by agreement of the two.
    pub kind: u8,
    /// Its content.
    pub bytes: Vec<u8>,
}

/// One end of the way between two processes: a Unix socket.
#[derive(Debug)]
pub struct Channel {
    socket: UnixStream,
    read: Vec<u8>,
    /// Bytes of it that were given out.
    taken: usize,
    fds: VecDeque<OwnedFd>,
    /// Longest message that is taken.
    longest: usize,
    ended: bool,
}

impl Channel {
    /// Over this socket; messages of more than `longest` bytes are refused.
    pub fn new(socket: UnixStream, longest: usize) -> Channel {
        Channel {
            socket,
            read: Vec::new(),
            taken: 0,
            fds: VecDeque::new(),
            longest,
            ended: false,
        }
    }

    /// Nothing that was read waits to be received: another channel over the same socket goes on where
    /// this one is.
    pub fn is_between_messages(&self) -> bool {
        self.taken == self.read.len() && self.fds.is_empty()
    }

    /// Sends a message, and descriptors with it.
    ///
    /// # Errors
    ///
    /// If the other end is gone, or (without `wait`) has not read enough of
    /// what was sent before: the message may be sent in part then, and nothing
    /// further makes sense.
    pub fn send(
        &mut self,
        kind: u8,
        bytes: &[u8],
        fds: &[BorrowedFd<'_>],
        wait: bool,
    ) -> io::Result<()> {
        let length = u32::try_from(bytes.len()).map_err(io::Error::other)?;
        let mut text = Vec::with_capacity(HEAD + bytes.len());
        text.push(kind);
        text.extend_from_slice(&length.to_le_bytes());
        text.extend_from_slice(bytes);
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST_FDS))];
        let mut with = SendAncillaryBuffer::new(&mut space);
        if !fds.is_empty() && !with.push(SendAncillaryMessage::ScmRights(fds)) {
            return Err(io::Error::other("too many descriptors for a message"));
        }
        let mut flags = SendFlags::NOSIGNAL;
        if !wait {
            flags |= SendFlags::DONTWAIT;
        }
        let mut left = text.as_slice();
        while !left.is_empty() {
            match rustix::net::sendmsg(&self.socket, &[IoSlice::new(left)], &mut with, flags) {
                Ok(sent) => left = left.get(sent..).unwrap_or(&[]),
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
            with.clear();
        }
        Ok(())
    }

    /// The next message, if a whole one has come; with `wait`, waits for it.
    /// `None` also where the other end is gone: [`Channel::has_ended`].
    ///
    /// # Errors
    ///
    /// A message that is too long, or a socket that fails.
    pub fn receive(&mut self, wait: bool) -> io::Result<Option<Message>> {
        loop {
            if let Some(message) = self.whole()? {
                return Ok(Some(message));
            }
            if self.ended || !self.fill(wait)? {
                return Ok(None);
            }
        }
    }

    /// A whole message of what was read.
    fn whole(&mut self) -> io::Result<Option<Message>> {
        let read = self.read.get(self.taken..).unwrap_or(&[]);
        let Some((&[kind, a, b, c, d], rest)) = read.split_first_chunk::<HEAD>() else {
            return Ok(None);
        };
        let length = u32::from_le_bytes([a, b, c, d]) as usize;
        if length > self.longest {
            return Err(io::Error::other(format!(
                "a message of {length} bytes, of which {} are allowed",
                self.longest
            )));
        }
        let Some(bytes) = rest.get(..length).map(<[u8]>::to_vec) else {
            return Ok(None);
        };
        self.taken += HEAD + length;
        // Not each time: many short messages come at once.
        if self.taken >= CHUNK || self.taken == self.read.len() {
            self.read.drain(..self.taken);
            self.taken = 0;
        }
        Ok(Some(Message { kind, bytes }))
    }

    /// Reads what has come; false where there is nothing now.
    fn fill(&mut self, wait: bool) -> io::Result<bool> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST_FDS))];
        let mut with = RecvAncillaryBuffer::new(&mut space);
        let mut chunk = [0u8; CHUNK];
        let mut flags = RecvFlags::CMSG_CLOEXEC;
        if !wait {
            flags |= RecvFlags::DONTWAIT;
        }
        let mut into = [IoSliceMut::new(&mut chunk)];
        let got = match rustix::net::recvmsg(&self.socket, &mut into, &mut with, flags) {
            Ok(got) => got,
            Err(Errno::INTR) => return Ok(true),
            Err(Errno::AGAIN) => return Ok(false),
            Err(Errno::CONNRESET) => {
                self.ended = true;
                return Ok(false);
            }
            Err(error) => return Err(error.into()),
        };
        for message in with.drain() {
            if let RecvAncillaryMessage::ScmRights(fds) = message {
                // Descriptors that nobody takes are closed.
                let room = MOST_FDS.saturating_sub(self.fds.len());
                self.fds.extend(fds.take(room));
            }
        }
        if got.flags.contains(ReturnFlags::CTRUNC) {
            return Err(io::Error::other("too many descriptors with a message"));
        }
        if got.bytes == 0 {
            self.ended = true;
            return Ok(false);
        }
        self.read
            .extend_from_slice(chunk.get(..got.bytes).unwrap_or(&[]));
        Ok(true)
    }

    /// The next descriptor of those that came.
    pub fn take_fd(&mut self) -> Option<OwnedFd> {
        self.fds.pop_front()
    }

    /// True where the other end is gone and all it sent was received.
    pub fn has_ended(&self) -> bool {
        self.ended
    }
}

impl AsFd for Channel {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_arrive_whole_with_their_descriptors() {
        let (a, b) = UnixStream::pair().unwrap();
        let (mut a, mut b) = (Channel::new(a, 10), Channel::new(b, 1 << 20));
        assert_eq!(b.receive(false).unwrap(), None);
        let long = vec![7; 200_000];
        let sender = std::thread::spawn(move || {
            let fds = [a.as_fd().try_clone_to_owned().unwrap()];
            a.send(1, &long, &[fds[0].as_fd()], true).unwrap();
            a.send(2, b"", &[], true).unwrap();
            a
        });
        let first = b.receive(true).unwrap().unwrap();
        assert_eq!((first.kind, first.bytes.len()), (1, 200_000));
        assert!(b.take_fd().is_some() && b.take_fd().is_none());
        assert_eq!(b.receive(true).unwrap().unwrap().kind, 2);
        let mut a = sender.join().unwrap();
        b.send(3, &[0; 11], &[], false).unwrap();
        assert!(a.receive(true).is_err(), "too long");
        drop(a);
        assert_eq!(b.receive(true).unwrap(), None);
        assert!(b.has_ended() && b.send(1, b"", &[], false).is_err());
    }
}
