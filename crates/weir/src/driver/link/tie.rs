//! A runtime's end of the link to its switch, and what it says before there is one.

use std::net::UdpSocket;

use weir_io::Datagrams;
use weir_packet::Time;
use weir_protocol::Key;
use weir_protocol::link::Link;
use weir_protocol::link::control::{self, Control, Head};

use super::hello::Start;
use super::settings;

/// A runtime's end of the link to its switch.
pub(super) struct Tie {
    pub(super) link: Link,
    pub(super) socket: Datagrams,
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
