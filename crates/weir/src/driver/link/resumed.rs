//! An agent that becomes another program: its socket, its runtimes and what it remembers go along
//! (docs/upgrade.md). The runtimes notice nothing.

use std::fs::File;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::AsFd as _;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use weir_io::shared::Channel;
use weir_protocol::Key;
use weir_protocol::stream::ProcessStart;

use super::super::process::{ProcessCommand, Running};
use super::agent::{Agent, LONGEST, Runtime};
use super::mailbox::Mailbox;
use super::programs::{Programs, Question, RuntimeProgram, Take};
use super::trial::Trial;
use super::votes::{KeptVotes, Votes};
use crate::program::{self, About, HandOff, OwnAbout, Program, Target};

/// Kinds of the messages: the agent, with its socket and the program that it was; each of its
/// runtimes, with the channel to it; the end.
const AGENT: u8 = 0;
const RUNTIME: u8 = 1;
const END: u8 = 2;
/// Version of what one program leaves to the next. One that changes it reads the former one, too, or
/// has another version of `agent` in [`super::SPEAKS`].
pub(super) const VERSION: u32 = 1;
/// Answers that are given again where a question comes again.
const ANSWERS: usize = 8;
/// Runtimes that are over that are remembered: those a late hello may still ask for.
const MOST_OVER: usize = 256;

/// The agent.
#[derive(Debug, Serialize, Deserialize)]
struct KeptAgent {
    /// See [`VERSION`].
    version: u32,
    key: [u8; 16],
    number: u64,
    /// Process starts of switch and runtime, and how it ended.
    over: Vec<(u64, u64, String)>,
    /// The question that it became another program by.
    answered: u64,
    votes: KeptVotes,
}

/// A runtime.
#[derive(Debug, Serialize, Deserialize)]
struct KeptRuntime {
    /// Process starts of its switch and its own.
    pair: (u64, u64),
    id: u32,
    process: i32,
    switch: SocketAddr,
    network: u32,
    run: String,
    kind: String,
    /// How long it has no switch, if it has none.
    waits: Option<Duration>,
    units: u64,
    program: Program,
}

impl Agent {
    /// Answers a question about programs, and becomes another one where it is told to: a failure of
    /// that is part of the answer. `None` where there is none yet: it is asked again.
    pub(super) fn tell_of_programs(&mut self, question: &Question) -> Option<Programs> {
        let mut answered = self.answered.iter();
        if let Some(answer) = answered.find(|answer| answer.number == question.number) {
            return Some(answer.clone());
        }
        let target = match &question.target {
            None => None,
            Some(_) if question.take.as_ref().is_some_and(|its| !self.is(its)) => {
                Some(Err("it has become another program meanwhile".to_owned()))
            }
            Some(target) => {
                let found = self.tried(question.number, target)?;
                Some(match (found, &question.take) {
                    (Ok((file, about)), Some(take)) => {
                        Err(self.become_program(&file, &about, take, question.number)?)
                    }
                    (found, _) => found.map(|(_, about)| about),
                })
            }
        };
        let answer = self.programs(question.number, target);
        self.answered.truncate(ANSWERS - 1);
        self.answered.insert(0, answer.clone());
        Some(answer)
    }

    fn is(&self, take: &Take) -> bool {
        take.incarnation == self.incarnation
    }

    fn programs(&self, number: u64, target: Option<Result<About, String>>) -> Programs {
        let runtimes = self.runtimes.values();
        Programs {
            version: super::hello::VERSION,
            number,
            incarnation: self.incarnation,
            own: About::clone(&self.about),
            runtimes: runtimes
                .map(|runtime| RuntimeProgram {
                    id: runtime.id,
                    run: runtime.run.clone(),
                    program: self.program_of(runtime),
                })
                .collect(),
            target,
        }
    }

    fn program_of(&self, runtime: &Runtime) -> Program {
        let own = || self.about.program.clone();
        runtime.program.clone().unwrap_or_else(own)
    }

    /// A program, once it was seen to work in the place of this one. `None` while it is tried, or
    /// another one is.
    fn tried(&mut self, number: u64, target: &Target) -> Option<Result<(File, About), String>> {
        if let Some(trial) = &self.trial {
            let (of, found) = trial.found()?;
            self.trial = None;
            if of == number {
                return Some(found);
            }
            // Whoever asked for the other one has gone.
        }
        match Trial::start(number, self.about.clone(), target.clone()) {
            Ok(trial) => {
                self.trial = Some(trial);
                None
            }
            Err(why) => Some(Err(why)),
        }
    }

    /// Becomes a program. Comes back where that fails: why. `None` where it can't now: it is asked again.
    fn become_program(
        &mut self,
        program: &File,
        about: &About,
        take: &Take,
        answered: u64,
    ) -> Option<String> {
        if about.program.digest != take.digest {
            return Some(format!("the file is {} by now", about.program));
        }
        let mut runtimes = self.runtimes.values();
        if !runtimes.all(|its| its.channel.is_between_messages()) {
            return None;
        }
        let failed = |why: String| Some(format!("it can't become the program: {why}"));
        let own = match program::open_own() {
            Ok(own) => own,
            Err(error) => return failed(error.to_string()),
        };
        match self.hand_off(&own, answered) {
            Ok(all) => failed(program::become_program(program, &all).to_string()),
            Err(error) => failed(error.to_string()),
        }
    }

    /// What the next program is told. `own` is the file of this one.
    fn hand_off<'a>(
        &'a self,
        own: &'a File,
        answered: u64,
    ) -> serde_json::Result<Vec<HandOff<'a>>> {
        let newest = self.over.len().saturating_sub(MOST_OVER);
        let over = self.over.iter().skip(newest);
        let agent = KeptAgent {
            version: VERSION,
            key: self.key.0,
            votes: self.mailbox.votes().keep(),
            number: self.number,
            over: over
                .map(|((switch, runtime), why)| (switch.0, runtime.0, why.clone()))
                .collect(),
            answered,
        };
        let files = vec![self.mailbox.socket(), own.as_fd()];
        let mut all = vec![(AGENT, serde_json::to_vec(&agent)?, files)];
        for ((switch, start), runtime) in &self.runtimes {
            let kept = KeptRuntime {
                pair: (switch.0, start.0),
                id: runtime.id,
                process: runtime.process.number(),
                switch: runtime.switch,
                network: runtime.network,
                run: runtime.run.clone(),
                kind: runtime.kind.clone(),
                waits: runtime.waits.map(|since| since.elapsed()),
                units: runtime.units,
                program: self.program_of(runtime),
            };
            let files = vec![runtime.channel.as_fd()];
            all.push((RUNTIME, serde_json::to_vec(&kept)?, files));
        }
        all.push((END, Vec::new(), Vec::new()));
        Ok(all)
    }

    /// The agent that the program before was; `None` where there was none.
    ///
    /// # Errors
    ///
    /// What that has left makes no sense.
    pub(crate) fn resume(
        command: &ProcessCommand,
        about: &OwnAbout,
        (most, outlive): (usize, Duration),
    ) -> Result<Option<Agent>, String> {
        let failed = |error: std::io::Error| format!("what the program before has left: {error}");
        let Some(mut channel) = program::handed_off().map_err(failed)? else {
            return Ok(None);
        };
        let senseless = || "what the program before has left makes no sense".to_owned();
        let of_version = |kept: &KeptAgent| kept.version == VERSION;
        let (mut resumed, mut answered) = (None, 0);
        loop {
            let message = channel.receive(true).map_err(failed)?;
            let message = message.ok_or_else(senseless)?;
            match (message.kind, &mut resumed) {
                (AGENT, None) => {
                    let kept = serde_json::from_slice::<KeptAgent>(&message.bytes).ok();
                    let kept = kept.filter(of_version).ok_or_else(senseless)?;
                    let socket = channel.take_fd().ok_or_else(senseless)?;
                    program::keep_former(File::from(channel.take_fd().ok_or_else(senseless)?));
                    let key = Key(kept.key);
                    let mailbox =
                        Mailbox::over(UdpSocket::from(socket), key, Votes::resume(kept.votes));
                    let mailbox = mailbox.map_err(failed)?;
                    let program = (command.clone(), about.clone());
                    let mut agent = Agent::over((mailbox, key), program, (most, outlive));
                    let over = kept.over.into_iter();
                    let starts = |switch, runtime| (ProcessStart(switch), ProcessStart(runtime));
                    agent.over = over
                        .map(|(switch, runtime, why)| (starts(switch, runtime), why))
                        .collect();
                    agent.number = kept.number;
                    answered = kept.answered;
                    resumed = Some(agent);
                }
                (RUNTIME, Some(agent)) => {
                    let kept: KeptRuntime =
                        serde_json::from_slice(&message.bytes).map_err(|_| senseless())?;
                    let socket = channel.take_fd().ok_or_else(senseless)?;
                    let channel = Channel::new(socket.into(), LONGEST);
                    agent.adopt(kept, channel).ok_or_else(senseless)?;
                }
                (END, Some(agent)) => {
                    let itself = Some(Ok(About::clone(about)));
                    agent.answered = vec![agent.programs(answered, itself)];
                    return Ok(resumed);
                }
                _ => return Err(senseless()),
            }
        }
    }

    /// Takes a runtime of the program before; `None` where its process's number is none.
    fn adopt(&mut self, kept: KeptRuntime, channel: Channel) -> Option<()> {
        let process = Running::with(kept.process)?;
        let (switch, start) = kept.pair;
        let waits = kept.waits.map(|long| {
            let now = Instant::now();
            now.checked_sub(long).unwrap_or(now)
        });
        let runtime = Runtime {
            id: kept.id,
            process,
            channel,
            switch: kept.switch,
            network: kept.network,
            run: kept.run,
            kind: kept.kind,
            waits,
            units: kept.units,
            program: Some(kept.program),
        };
        let pair = (ProcessStart(switch), ProcessStart(start));
        self.runtimes.insert(pair, runtime);
        Some(())
    }
}
