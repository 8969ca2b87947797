//! A runtime's end of the link to its switch, and what it says before there is one.

use std::net::UdpSocket;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use weir_io::Datagrams;
use weir_packet::{FramePool, Time};
use weir_protocol::Key;
use weir_protocol::link::control::{self, Control, Head};
use weir_protocol::link::{Batch, Link};

use super::super::clock::Clock;
use super::hello::Start;
use super::settings;

/// A runtime's end of the link to its switch.
pub(super) struct Tie {
    pub(super) link: Link,
    pub(super) socket: Datagrams,
}

/// Pause between two looks at a link whose runtime is busy: shorter than the shortest heartbeat's
/// silence.
const LOOK: Duration = Duration::from_millis(1);

impl Tie {
    /// Sends heartbeats and hears the switch's until `ended` says so. The runtime takes no frames any
    /// more.
    pub(super) fn keep_up(&mut self, pool: &mut FramePool, clock: Clock, ended: &AtomicBool) {
        let (mut batch, mut frames) = (Batch::default(), Vec::new());
        while !ended.load(Ordering::Acquire) {
            let (link, now) = (&mut self.link, clock.now());
            self.socket.receive(|datagram| {
                // What makes no sense the link counts.
                let _ = link.receive(now, pool, datagram, &mut frames);
            });
            pool.give_all(&mut frames);
            self.link.poll(now, &mut batch);
            self.socket.send(batch.iter());
            batch.clear();
            std::thread::sleep(LOOK);
        }
    }
}

impl Start {
    /// Tells the switch why the runtime can't be run for it.
    pub(super) fn give_up(&self, why: &str) {
        if let Ok(socket) = self.socket() {
            self.say(&socket, 1, Control::Gone(why.as_bytes()));
        }
    }

    /// The runtime's end of a link to the switch.
    ///
    /// # Errors
    ///
    /// There is no socket.
    pub(super) fn tie(&self, now: Time) -> Result<Tie, String> {
        let (own, remote) = self.hello.ends();
        let key = Key(self.key).of_link(remote.0, own.0);
        let of_link = settings(
            key,
            self.hello.network,
            self.hello.heartbeats(),
            self.hello.after.is_some(),
        );
        let socket = Datagrams::over(self.socket()?).map_err(|error| error.to_string())?;
        Ok(Tie {
            link: Link::new(now, own, remote, of_link),
            socket,
        })
    }

    fn socket(&self) -> Result<UdpSocket, String> {
        let failed = |error: std::io::Error| error.to_string();
        let socket = UdpSocket::bind((self.bind, 0)).map_err(failed)?;
        socket.connect(self.switch).map_err(failed)?;
        Ok(socket)
    }

    /// Says something to the switch that is no message of the link yet.
    pub(super) fn say(&self, socket: &UdpSocket, number: u64, control: Control<'_>) {
        let (runtime, switch) = self.hello.ends();
        let (source, destination) = match control {
            Control::Gone(_) => (switch, runtime),
            _ => (runtime, switch),
        };
        let head = Head {
            source,
            destination,
            number,
        };
        let (network, key) = (self.hello.network, Key(self.key));
        for datagram in control::datagram(network, &key, head, control).iter() {
            // Like a loss: it is said again.
            let _ = socket.send(datagram);
        }
    }
}
