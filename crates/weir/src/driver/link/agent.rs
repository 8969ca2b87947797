//! An agent: starts runtimes on its host for switches elsewhere, and looks after them.
//!
//! A switch says hello until the runtime itself answers it. So the agent keeps nothing that
//! must survive it, answers nothing but that a runtime is over, and is needed for no packet.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::process::Child;
use std::time::Duration;

use weir_exec::ExecError;
use weir_io::shared::Channel;
use weir_protocol::Key;
use weir_protocol::link::control::{self, Control, Head};
use weir_protocol::stream::ProcessStart;

use super::super::process::{ProcessCommand, Start as ProcessStartUp, cause};
use super::hello::{HELLO, Hello, Start};

/// Longest sleep of the agent.
const NAP: Duration = Duration::from_millis(100);
/// Octets of the longest control frame that is heard.
const ROOM: usize = 64 << 10;
/// Longest message that is heard of a runtime's process: none is.
const LONGEST: usize = 1 << 10;
/// Runtimes that are over and remembered: a hello that comes late starts none again.
const REMEMBERED: usize = 4_096;

/// A runtime: the process starts of its switch and its own.
type Pair = (ProcessStart, ProcessStart);

/// An event of an agent, for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum AgentEvent {
    /// A runtime was started for a switch.
    Started {
        /// Its id.
        runtime: u32,
        /// Address of its switch.
        switch: SocketAddr,
    },
    /// A runtime is over.
    Over {
        /// Its id.
        runtime: u32,
        /// Its end, for people.
        how: String,
    },
    /// Somebody was refused.
    Refused {
        /// Who.
        from: SocketAddr,
        /// Why.
        why: String,
    },
}

struct Runtime {
    id: u32,
    child: Child,
    /// Closed with the agent, which ends the process.
    _channel: Channel,
    switch: SocketAddr,
    network: u32,
}

/// See the module.
pub(crate) struct Agent {
    socket: UdpSocket,
    key: Key,
    command: ProcessCommand,
    /// Most runtimes at a time.
    most: usize,
    runtimes: BTreeMap<Pair, Runtime>,
    /// Those that are over, and why, the oldest first.
    over: Vec<(Pair, String)>,
    number: u64,
}

impl Agent {
    /// An agent that listens there and starts at most so many runtimes at a time.
    ///
    /// # Errors
    ///
    /// The address can't be had.
    pub(crate) fn listen(
        at: SocketAddr,
        key: Key,
        command: ProcessCommand,
        most: usize,
    ) -> Result<Agent, ExecError> {
        let failed = |error: std::io::Error| ExecError(format!("can't listen on {at}: {error}"));
        let socket = UdpSocket::bind(at).map_err(failed)?;
        socket.set_read_timeout(Some(NAP)).map_err(failed)?;
        Ok(Agent {
            socket,
            key,
            command,
            most,
            runtimes: BTreeMap::new(),
            over: Vec::new(),
            number: 0,
        })
    }

    /// The address that it listens on.
    ///
    /// # Errors
    ///
    /// The kernel does not say.
    pub(crate) fn address(&self) -> std::io::Result<SocketAddr> {
        self.socket.local_addr()
    }

    /// Waits a short time for a switch, and looks after the runtimes.
    pub(crate) fn step(&mut self, mut said: impl FnMut(AgentEvent)) {
        let mut room = vec![0; ROOM];
        if let Ok((length, from)) = self.socket.recv_from(&mut room) {
            let heard = room.get(..length).unwrap_or(&[]);
            if let Err(why) = self.hear(heard, from, &mut said) {
                said(AgentEvent::Refused { from, why });
            }
        }
        self.look_after(&mut said);
    }

    fn hear(
        &mut self,
        datagram: &[u8],
        from: SocketAddr,
        said: &mut impl FnMut(AgentEvent),
    ) -> Result<(), String> {
        let frame = control::unwrap(datagram).map_err(|why| why.to_string())?;
        let (head, control) = control::read(&self.key, frame).map_err(|why| why.to_string())?;
        let Control::Hello(body) = control else {
            return Err("it is no hello".to_owned());
        };
        let pair = (head.source, head.destination);
        let hello = Hello::read(body);
        let Some(hello) = hello.filter(|hello| hello.ends() == (pair.1, pair.0)) else {
            let why = "the switch is of another version of weir than this agent";
            self.say_gone(pair, from, 0, why);
            return Err(why.to_owned());
        };
        if self.runtimes.contains_key(&pair) {
            // It answers for itself.
            return Ok(());
        }
        if let Some((_, why)) = self.over.iter().find(|(over, _)| *over == pair) {
            let why = why.clone();
            self.say_gone(pair, from, hello.network, &why);
            return Ok(());
        }
        if self.runtimes.len() >= self.most {
            let why = format!(
                "there are {} runtimes here, as many as there may be",
                self.most
            );
            self.say_gone(pair, from, hello.network, &why);
            return Err(why);
        }
        self.start(pair, hello, from, said)
    }

    fn start(
        &mut self,
        pair: Pair,
        hello: Hello,
        switch: SocketAddr,
        said: &mut impl FnMut(AgentEvent),
    ) -> Result<(), String> {
        let bind: IpAddr = self.address().map_err(|error| error.to_string())?.ip();
        let (id, network) = (hello.runtime().0, hello.network);
        let start = Start {
            hello,
            switch,
            bind,
            key: self.key.0,
        };
        let bytes = serde_json::to_vec(&start).map_err(|error| error.to_string())?;
        let started = self.command.start(ProcessStartUp {
            name: &format!("runtime {id}"),
            hello: (HELLO, bytes),
            files: &[],
            longest: LONGEST,
            bare: false,
        });
        match started {
            Ok((child, channel)) => {
                let runtime = Runtime {
                    id,
                    child,
                    _channel: channel,
                    switch,
                    network,
                };
                self.runtimes.insert(pair, runtime);
                said(AgentEvent::Started {
                    runtime: id,
                    switch,
                });
                Ok(())
            }
            Err(error) => {
                self.say_gone(pair, switch, network, &error.0);
                Err(error.0)
            }
        }
    }

    /// Finds the processes that are over, and says so to their switches.
    fn look_after(&mut self, said: &mut impl FnMut(AgentEvent)) {
        let mut over = Vec::new();
        for (pair, runtime) in &mut self.runtimes {
            if let Ok(Some(status)) = runtime.child.try_wait() {
                over.push((*pair, cause(&status)));
            }
        }
        for (pair, how) in over {
            let Some(runtime) = self.runtimes.remove(&pair) else {
                continue;
            };
            let why = format!("its process has ended {how}");
            self.say_gone(pair, runtime.switch, runtime.network, &why);
            if self.over.len() == REMEMBERED {
                self.over.remove(0);
            }
            self.over.push((pair, why));
            said(AgentEvent::Over {
                runtime: runtime.id,
                how,
            });
        }
    }

    fn say_gone(&mut self, pair: Pair, to: SocketAddr, network: u32, why: &str) {
        self.number += 1;
        let head = Head {
            source: pair.0,
            destination: pair.1,
            number: self.number,
        };
        let said = Control::Gone(why.as_bytes());
        for datagram in control::datagram(network, &self.key, head, said).iter() {
            // Like a loss: the switch asks again, or finds it silent.
            let _ = self.socket.send_to(datagram, to);
        }
    }
}
