//! A runtime's process on another host than the switch: one worker, whose node is the runtime
//! with its end of the link ([`RemoteNode`]).

use std::net::UdpSocket;

use weir_exec::{Parker, worker};
use weir_io::shared::{Channel, Waker};
use weir_io::{Datagrams, IdlePolicy};
use weir_nf::host::Stage;
use weir_packet::Time;
use weir_protocol::Key;
use weir_protocol::link::Link;
use weir_protocol::link::control::{self, Control, Head};
use weir_runtime::RuntimeConfig;

use super::hello::Start;
use super::remote_node::RemoteNode;
use super::settings;

/// A runtime's end of the link to its switch.
pub(super) struct Tie {
    pub(super) link: Link,
    pub(super) socket: Datagrams,
}

/// A process that an agent has started for a runtime.
#[derive(Debug)]
pub struct RemoteProcess {
    start: Start,
    /// Closed when the agent is gone.
    channel: Channel,
}

impl RemoteProcess {
    /// The process of this first message, which came on `channel`.
    ///
    /// # Errors
    ///
    /// The message is none.
    pub(in super::super) fn begin(channel: Channel, start: &[u8]) -> Result<RemoteProcess, String> {
        let start = serde_json::from_slice(start).map_err(|e| e.to_string())?;
        Ok(RemoteProcess { start, channel })
    }

    /// The seed of the run.
    pub fn seed(&self) -> u64 {
        self.start.hello.seed
    }

    /// Tells the switch why the runtime can't be run.
    pub fn give_up(self, why: &str) {
        self.start.give_up(why);
    }

    /// Runs the runtime with these chains, for which `digest` stands, until it is told to
    /// finish.
    ///
    /// # Errors
    ///
    /// It can't be run, which the switch is told, or the switch is gone.
    pub fn run(self, stages: &[Stage], digest: u64, engine: RuntimeConfig) -> Result<(), String> {
        let hello = &self.start.hello;
        if digest != hello.chains || stages.len() != hello.units.len() {
            let why = "its chain file is another one than the switch's";
            self.give_up(why);
            return Err(why.to_owned());
        }
        let (start, channel) = (self.start.clone(), self.channel);
        let node = RemoteNode::new(self.start, channel, stages, engine);
        let mut node = node.inspect_err(|why| start.give_up(why))?;
        node.introduce()?;
        let waker = Waker::new().map_err(|error| error.to_string())?;
        let park = Parker::of_process(waker, IdlePolicy::default());
        worker::run(vec![node], park).map(drop)
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
