//! The socket of an agent. A thread of its own answers what can't wait: which switch runs
//! ([`Votes`]). The agent itself is busy for a while when it starts a process.

use std::io::ErrorKind;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::event::{EventfdFlags, eventfd};
use weir_protocol::Key;
use weir_protocol::link::control::{self, Control, Head};

use super::socket::NETWORK;
use super::votes::Votes;

/// Octets of the longest datagram that is heard.
const ROOM: usize = 64 << 10;
/// Datagrams that wait for the agent; more are lost, as on the way.
const WAITING: usize = 256;
/// Pause after an error that is not the network's.
const PAUSE: Duration = Duration::from_millis(10);

/// A datagram, and where it comes from.
pub(super) type Letter = (Vec<u8>, SocketAddr);

/// See the module.
pub(super) struct Mailbox {
    socket: UdpSocket,
    letters: Receiver<Letter>,
    /// Readable where letters have come.
    bell: Arc<OwnedFd>,
    votes: Arc<Mutex<Votes>>,
}

impl Mailbox {
    /// Listens at an address.
    ///
    /// # Errors
    ///
    /// The address can't be had, or there is no thread.
    pub(super) fn open(at: SocketAddr, key: Key) -> std::io::Result<Mailbox> {
        Mailbox::over(UdpSocket::bind(at)?, key, Votes::new())
    }

    /// Over a socket that listens, with these votes.
    ///
    /// # Errors
    ///
    /// There is no thread or descriptor.
    pub(super) fn over(socket: UdpSocket, key: Key, votes: Votes) -> std::io::Result<Mailbox> {
        let bell = Arc::new(eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?);
        let (sender, letters) = sync_channel(WAITING);
        let votes = Arc::new(Mutex::new(votes));
        let reader = Reader {
            socket: socket.try_clone()?,
            key,
            sender,
            bell: Arc::clone(&bell),
            votes: Arc::clone(&votes),
            number: 0,
        };
        let thread = std::thread::Builder::new().name("votes".to_owned());
        thread.spawn(move || reader.read())?;
        Ok(Mailbox {
            socket,
            letters,
            bell,
            votes,
        })
    }

    /// The address that it listens on.
    pub(super) fn address(&self) -> std::io::Result<SocketAddr> {
        self.socket.local_addr()
    }

    /// The socket.
    pub(super) fn socket(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// Readable where there is something to take.
    pub(super) fn bell(&self) -> BorrowedFd<'_> {
        self.bell.as_fd()
    }

    /// The next letter that was no question of a vote.
    pub(super) fn take(&self) -> Option<Letter> {
        self.letters.try_recv().ok()
    }

    /// The bell is quiet until the next letter. To be called before letters are taken.
    pub(super) fn hush(&self) {
        // Nobody has rung it.
        let _ = rustix::io::read(&self.bell, &mut [0; 8]);
    }

    /// The bell is not quiet any more.
    pub(super) fn ring(&self) {
        ring(&self.bell);
    }

    /// Like a loss where the network takes nothing.
    pub(super) fn send(&self, datagram: &[u8], to: SocketAddr) {
        let _ = self.socket.send_to(datagram, to);
    }

    /// The votes.
    pub(super) fn votes(&self) -> MutexGuard<'_, Votes> {
        locked(&self.votes)
    }
}

fn ring(bell: &OwnedFd) {
    // It can't be full: it would have to be rung 2^64 times.
    let _ = rustix::io::write(bell, &1u64.to_ne_bytes());
}

/// No vote is half given: each is written at once.
fn locked(votes: &Mutex<Votes>) -> MutexGuard<'_, Votes> {
    votes.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The thread's side.
struct Reader {
    socket: UdpSocket,
    key: Key,
    sender: SyncSender<Letter>,
    bell: Arc<OwnedFd>,
    votes: Arc<Mutex<Votes>>,
    number: u64,
}

impl Reader {
    /// Hears the network as long as the process lives.
    fn read(mut self) {
        let mut room = vec![0; ROOM];
        loop {
            match self.socket.recv_from(&mut room) {
                Ok((length, from)) => self.hear(room.get(..length).unwrap_or(&[]), from),
                // A host says that nobody was there to hear an answer.
                Err(error) if error.kind() == ErrorKind::ConnectionRefused => {}
                Err(_) => std::thread::sleep(PAUSE),
            }
        }
    }

    fn hear(&mut self, datagram: &[u8], from: SocketAddr) {
        let frame = control::unwrap(datagram);
        let heard = frame.and_then(|frame| control::read(&self.key, frame));
        if let Ok((head, Control::Ask(question))) = heard
            && let Some(answer) = locked(&self.votes).hear(question)
        {
            self.number += 1;
            let head = Head {
                source: head.source,
                destination: head.source,
                number: self.number,
            };
            let told = control::datagram(NETWORK, &self.key, head, Control::Told(&answer));
            for datagram in told.iter() {
                // Like a loss: it is asked again.
                let _ = self.socket.send_to(datagram, from);
            }
            return;
        }
        if self.sender.try_send((datagram.to_vec(), from)).is_ok() {
            ring(&self.bell);
        }
    }
}
