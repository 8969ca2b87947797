//! An agent: starts runtimes on its host for switches elsewhere, and looks after them.
//!
//! A switch says hello until the runtime itself answers it. So the agent keeps nothing that
//! must survive it, and is needed for no packet. Where several hosts have a switch, it votes for the
//! one that runs ([`super::votes`]).
//!
//! A runtime whose switch is gone says so, and waits. The next switch asks who is here
//! ([`Control::Who`]), and says hello with the name of the switch before.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use weir_exec::ExecError;
use weir_io::shared::Channel;
use weir_protocol::Key;
use weir_protocol::link::control::{self, Control, Head};
use weir_protocol::stream::ProcessStart;

use super::super::process::{ProcessCommand, Running, Start as ProcessStartUp, cause};
use super::hello::{
    DEAD, HELLO, Hello, Here, KIND, Listed, Start, TAKEN, VERSION, WAITS, Who, generation_of,
};
use super::mailbox::Mailbox;
use super::programs::{Programs, Question};
use super::trial::Trial;
use crate::program::{OwnAbout, Program};
use crate::seed;

/// Longest sleep of the agent.
const NAP: Duration = Duration::from_millis(100);
/// Datagrams that are heard before the runtimes are looked after again.
const AT_ONCE: usize = 64;
/// Longest message that is heard of a runtime's process.
pub(super) const LONGEST: usize = 1 << 10;
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
    /// The switch of a runtime is gone: it waits for another one.
    Waits {
        /// Its id.
        runtime: u32,
    },
    /// Another switch has taken a runtime over.
    Taken {
        /// Its id.
        runtime: u32,
        /// Address of the switch.
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

pub(super) struct Runtime {
    pub(super) id: u32,
    pub(super) process: Running,
    /// Closed with the agent, which ends the process.
    pub(super) channel: Channel,
    pub(super) switch: SocketAddr,
    pub(super) network: u32,
    /// Name of its switch's run.
    pub(super) run: String,
    /// See [`Hello::kind`]: another switch that takes it over is of the same kind.
    pub(super) kind: String,
    /// Since when it has no switch, and how many units it has then.
    pub(super) waits: Option<Instant>,
    pub(super) units: u64,
    /// Its program, where it is not the agent's.
    pub(super) program: Option<Program>,
}

/// See the module.
pub(crate) struct Agent {
    pub(super) mailbox: Mailbox,
    pub(super) key: Key,
    command: ProcessCommand,
    /// Its program.
    pub(super) about: OwnAbout,
    /// See [`Programs::incarnation`].
    pub(super) incarnation: u64,
    /// The last answers about programs, the newest first.
    pub(super) answered: Vec<Programs>,
    /// A program that is tried.
    pub(super) trial: Option<Trial>,
    /// Most runtimes at a time.
    most: usize,
    /// How long a runtime whose switch is gone waits for another one.
    outlive: Duration,
    pub(super) runtimes: BTreeMap<Pair, Runtime>,
    /// Those that are over, and why, the oldest first.
    pub(super) over: Vec<(Pair, String)>,
    pub(super) number: u64,
}

impl Agent {
    /// An agent that listens there and starts at most so many runtimes at a time, which outlive
    /// their switch for so long.
    ///
    /// # Errors
    ///
    /// The address can't be had.
    pub(crate) fn listen(
        at: SocketAddr,
        key: Key,
        program: (ProcessCommand, OwnAbout),
        bounds: (usize, Duration),
    ) -> Result<Agent, ExecError> {
        let failed = |error: std::io::Error| ExecError(format!("can't listen on {at}: {error}"));
        let mailbox = Mailbox::open(at, key).map_err(failed)?;
        Ok(Agent::over((mailbox, key), program, bounds))
    }

    /// An agent with this mailbox that has nothing yet.
    pub(super) fn over(
        (mailbox, key): (Mailbox, Key),
        (command, about): (ProcessCommand, OwnAbout),
        (most, outlive): (usize, Duration),
    ) -> Agent {
        Agent {
            mailbox,
            key,
            command,
            about,
            incarnation: seed::random(),
            answered: Vec::new(),
            trial: None,
            most,
            outlive,
            runtimes: BTreeMap::new(),
            over: Vec::new(),
            number: 0,
        }
    }

    /// Its runtimes.
    pub(crate) fn runtimes(&self) -> usize {
        self.runtimes.len()
    }

    /// The address that it listens on.
    ///
    /// # Errors
    ///
    /// The kernel does not say.
    pub(crate) fn address(&self) -> std::io::Result<SocketAddr> {
        self.mailbox.address()
    }

    /// Waits a short time for a switch, and looks after the runtimes.
    pub(crate) fn step(&mut self, mut said: impl FnMut(AgentEvent)) {
        self.wait();
        self.mailbox.hush();
        // A flood of datagrams must not keep the agent from its runtimes.
        for number in 0..AT_ONCE {
            let Some((heard, from)) = self.mailbox.take() else {
                break;
            };
            if number + 1 == AT_ONCE {
                // There may be more.
                self.mailbox.ring();
            }
            if let Err(why) = self.hear(&heard, from, &mut said) {
                said(AgentEvent::Refused { from, why });
            }
        }
        self.look_after(&mut said);
    }

    /// Sleeps until there is something to hear, for a short time at most.
    fn wait(&self) {
        let nap = Timespec {
            tv_sec: 0,
            tv_nsec: i64::from(NAP.subsec_nanos()),
        };
        let bell = self.mailbox.bell();
        let mut polled = vec![PollFd::new(&bell, PollFlags::IN)];
        let runtimes = self.runtimes.values();
        // One that has ended is found without that.
        let channels = runtimes.filter(|runtime| !runtime.channel.has_ended());
        polled.extend(channels.map(|runtime| PollFd::new(&runtime.channel, PollFlags::IN)));
        // An error is a reason to look, as a signal is.
        let _ = poll(&mut polled, Some(&nap));
    }

    fn hear(
        &mut self,
        datagram: &[u8],
        from: SocketAddr,
        said: &mut impl FnMut(AgentEvent),
    ) -> Result<(), String> {
        let frame = control::unwrap(datagram).map_err(|why| why.to_string())?;
        let (head, control) = control::read(&self.key, frame).map_err(|why| why.to_string())?;
        let pair = (head.source, head.destination);
        let body = match control {
            Control::Hello(body) => body,
            Control::Who(body) => return self.say_who(pair, from, body),
            Control::Program(body) => return self.say_programs(pair, from, body),
            // The mailbox answers those that it can.
            Control::Ask(_) => {
                return Err(
                    "the switch is of another version of weir than this agent, or too many runs \
                     ask for its vote"
                        .to_owned(),
                );
            }
            _ => return Err("it is no question to an agent".to_owned()),
        };
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
        let generation = generation_of(hello.switch);
        let other = (self.mailbox.votes()).other(&hello.run, generation, hello.switch as u32);
        match other {
            Some(other) if other > generation => {
                let why = "a newer switch has the place of this one";
                self.say_gone(pair, from, hello.network, why);
                return Err(why.to_owned());
            }
            // It was promised to one that most others did not want, for a while: this one asks
            // again.
            Some(_) => return Ok(()),
            None => {}
        }
        self.mailbox.votes().know(&hello.run, generation);
        if let Some(before) = hello.after {
            return self.hand_over((ProcessStart(before), pair), hello, from, said);
        }
        // It lives, so none of its runtimes gets another switch.
        while let Some(old) = self.waiting(|(switch, _)| *switch == pair.0) {
            self.end_one(old, "its switch has started another one");
        }
        if self.runtimes.len() >= self.most
            && let Some(old) = self.waiting(|_| true)
        {
            self.end_one(old, "another one needs its place");
        }
        if self.runtimes.len() >= self.most {
            let why = format!(
                "it has {} of as many runtimes as it may have (`--most`)",
                self.most
            );
            self.say_gone(pair, from, hello.network, &why);
            return Err(why);
        }
        self.start(pair, hello, from, said)
    }

    /// Says which runtimes are here.
    fn say_who(
        &mut self,
        (switch, _): Pair,
        from: SocketAddr,
        question: &[u8],
    ) -> Result<(), String> {
        let who: Option<Who> = serde_json::from_slice(question).ok();
        let Some(who) = who.filter(|who| who.version == VERSION) else {
            return Err("the switch is of another version of weir than this agent".to_owned());
        };
        if let Some(dead) = who.dead {
            self.tell_of_death(dead);
        }
        let runtimes = self.runtimes.iter().map(|((switch, _), runtime)| Listed {
            id: runtime.id,
            switch: switch.0,
            kind: runtime.kind.clone(),
            waits: runtime.waits.is_some(),
            units: runtime.units,
        });
        let here = Here {
            version: VERSION,
            runtimes: runtimes.collect(),
        };
        let body = serde_json::to_vec(&here).map_err(|error| error.to_string())?;
        self.say((switch, switch), from, 0, Control::Here(&body));
        Ok(())
    }

    /// Says which programs are here, and becomes another one where it is told to.
    fn say_programs(
        &mut self,
        (switch, _): Pair,
        from: SocketAddr,
        question: &[u8],
    ) -> Result<(), String> {
        let question: Option<Question> = serde_json::from_slice(question).ok();
        let question = question.filter(|question| question.version == VERSION);
        let question =
            question.ok_or("the switch is of another version of weir than this agent")?;
        let Some(programs) = self.tell_of_programs(&question) else {
            return Ok(());
        };
        let body = serde_json::to_vec(&programs).map_err(|error| error.to_string())?;
        self.say((switch, switch), from, 0, Control::Programs(&body));
        Ok(())
    }

    /// Tells runtimes of a switch with this start that it is dead: they need not find out.
    fn tell_of_death(&mut self, dead: u32) {
        for ((switch, _), runtime) in &mut self.runtimes {
            if switch.0 as u32 == dead && runtime.waits.is_none() {
                // One that does not listen finds out by itself.
                let start = switch.0.to_le_bytes();
                let _ = runtime.channel.send(DEAD, &start, &[], false);
            }
        }
    }

    /// Gives a runtime that waits to the next switch.
    fn hand_over(
        &mut self,
        (before, pair): (ProcessStart, Pair),
        hello: Hello,
        switch: SocketAddr,
        said: &mut impl FnMut(AgentEvent),
    ) -> Result<(), String> {
        let network = hello.network;
        let old = (before, pair.1);
        let start = self.start_of(hello, switch)?;
        let taken = match self.runtimes.get_mut(&old) {
            None => Err("there is no such runtime".to_owned()),
            Some(runtime) if runtime.waits.is_none() => Err("its switch lives".to_owned()),
            Some(runtime) => {
                let sent = runtime.channel.send(TAKEN, &start, &[], false);
                sent.map_err(|error| format!("its process does not listen: {error}"))
            }
        };
        if let Err(why) = taken {
            self.say_gone(pair, switch, network, &why);
            return Err(why);
        }
        if let Some(mut runtime) = self.runtimes.remove(&old) {
            (runtime.waits, runtime.switch, runtime.network) = (None, switch, network);
            said(AgentEvent::Taken {
                runtime: runtime.id,
                switch,
            });
            self.runtimes.insert(pair, runtime);
            self.remember(old, "another switch has it".to_owned());
        }
        Ok(())
    }

    /// Of those runtimes that wait for a switch, the one that has waited longest.
    fn waiting(&self, of: impl Fn(&Pair) -> bool) -> Option<Pair> {
        let all = self.runtimes.iter();
        let waiting = all.filter(|(pair, runtime)| runtime.waits.is_some() && of(pair));
        let longest = waiting.min_by_key(|(_, runtime)| runtime.waits);
        longest.map(|(pair, _)| *pair)
    }

    /// Ends a runtime that waits.
    fn end_one(&mut self, pair: Pair, why: &str) {
        if let Some(mut runtime) = self.runtimes.remove(&pair) {
            runtime.process.end();
            self.remember(pair, why.to_owned());
        }
    }

    /// A runtime is over, or has another switch.
    fn remember(&mut self, pair: Pair, why: String) {
        if self.over.len() == REMEMBERED {
            self.over.remove(0);
        }
        self.over.push((pair, why));
    }

    /// What a process is told at its start, and when another switch takes it over.
    fn start_of(&self, hello: Hello, switch: SocketAddr) -> Result<Vec<u8>, String> {
        let start = Start {
            hello,
            switch,
            bind: self.address().map_err(|error| error.to_string())?.ip(),
            key: self.key.0,
            outlive: self.outlive,
        };
        serde_json::to_vec(&start).map_err(|error| error.to_string())
    }

    fn start(
        &mut self,
        pair: Pair,
        hello: Hello,
        switch: SocketAddr,
        said: &mut impl FnMut(AgentEvent),
    ) -> Result<(), String> {
        let (id, network, kind) = (hello.runtime().0, hello.network, hello.kind());
        let run = hello.run.clone();
        let bytes = self.start_of(hello, switch)?;
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
                    process: Running::of(&child),
                    channel,
                    switch,
                    network,
                    run,
                    kind,
                    program: None,
                    waits: None,
                    units: 0,
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
            while let Ok(Some(message)) = runtime.channel.receive(false) {
                if message.kind == KIND {
                    runtime.kind = String::from_utf8_lossy(&message.bytes).into_owned();
                    continue;
                }
                let units = message.bytes.try_into().map(u64::from_le_bytes);
                runtime.units = units.unwrap_or(0);
                if message.kind == WAITS && runtime.waits.is_none() {
                    runtime.waits = Some(Instant::now());
                    said(AgentEvent::Waits {
                        runtime: runtime.id,
                    });
                }
            }
            if let Ok(Some(status)) = runtime.process.ended() {
                over.push((*pair, cause(&status)));
            }
        }
        for (pair, how) in over {
            let Some(runtime) = self.runtimes.remove(&pair) else {
                continue;
            };
            let why = format!("its process has ended {how}");
            self.say_gone(pair, runtime.switch, runtime.network, &why);
            self.remember(pair, why);
            said(AgentEvent::Over {
                runtime: runtime.id,
                how,
            });
        }
    }

    fn say_gone(&mut self, pair: Pair, to: SocketAddr, network: u32, why: &str) {
        self.say(pair, to, network, Control::Gone(why.as_bytes()));
    }

    fn say(&mut self, pair: Pair, to: SocketAddr, network: u32, control: Control<'_>) {
        self.number += 1;
        let head = Head {
            source: pair.0,
            destination: pair.1,
            number: self.number,
        };
        for datagram in control::datagram(network, &self.key, head, control).iter() {
            // Like a loss: the switch asks again, or finds it silent.
            self.mailbox.send(datagram, to);
        }
    }
}
