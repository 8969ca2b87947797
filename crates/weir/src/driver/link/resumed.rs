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
use super::hello::generation_of;
use super::mailbox::Mailbox;
use super::programs::{Programs, Question, RuntimeProgram, Target};
use crate::program::{self, About, Legacy, Program};
use crate::seed;

/// Kinds of the messages: the agent, with its socket and the program that it was; each of its
/// runtimes, with the channel to it; the end.
const AGENT: u8 = 0;
const RUNTIME: u8 = 1;
const END: u8 = 2;
/// Runtimes that are over that are remembered: those a late hello may still ask for.
const MOST_OVER: usize = 256;

/// The agent.
#[derive(Debug, Serialize, Deserialize)]
struct KeptAgent {
    key: [u8; 16],
    number: u64,
    /// Process starts of switch and runtime, and how it ended.
    over: Vec<(u64, u64, String)>,
    /// The question that it became another program by.
    answered: u64,
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
    /// that is part of the answer.
    pub(super) fn tell_of_programs(&mut self, question: &Question) -> Programs {
        if let Some(answer) = self.answered.clone()
            && answer.number == question.number
        {
            return answer;
        }
        let found = question.target.as_ref().map(|target| self.find(target));
        let (life, mut target) = (self.life, None);
        if let Some(found) = found {
            target = Some(match (found, question.take) {
                (Ok((_, about)), None) => Ok(about),
                (Ok((file, _)), Some(wanted)) if wanted == life => {
                    Err(self.become_program(&file, question.number))
                }
                (Ok(_), Some(_)) => Err("it has become another program meanwhile".to_owned()),
                (Err(why), _) => Err(why),
            });
        }
        let answer = self.programs(question.number, target);
        self.answered = Some(answer.clone());
        answer
    }

    fn programs(&self, number: u64, target: Option<Result<About, String>>) -> Programs {
        let runtimes = self.runtimes.values();
        Programs {
            version: super::hello::VERSION,
            number,
            life: self.life,
            own: Program::own().clone(),
            runtimes: runtimes
                .map(|runtime| RuntimeProgram {
                    id: runtime.id,
                    run: runtime.run.clone(),
                    program: runtime.program.clone(),
                })
                .collect(),
            target,
        }
    }

    /// A program, once it was seen to work beside this one.
    fn find(&self, target: &Target) -> Result<(File, About), String> {
        let file = match target {
            Target::Path(path) => program::open(path)?,
            Target::Former => {
                let former = program::former().map(File::try_clone);
                let former = former.ok_or("it was no other program before")?;
                former.map_err(|error| error.to_string())?
            }
        };
        let about = program::ask(&file).map_err(|why| match target {
            Target::Path(path) => format!("{}: {why}", path.display()),
            Target::Former => format!("the program before: {why}"),
        })?;
        match self.about.quarrels_with(&about) {
            Some(why) => Err(why),
            None => Ok((file, about)),
        }
    }

    /// Becomes a program. Comes back where that fails: why.
    fn become_program(&mut self, program: &File, answered: u64) -> String {
        let mut runtimes = self.runtimes.values();
        if !runtimes.all(|its| its.channel.is_between_messages()) {
            return "a runtime is being heard: ask again".to_owned();
        }
        let failed = |why: String| format!("it can't become the program: {why}");
        let own = match program::open_own() {
            Ok(own) => own,
            Err(error) => return failed(error.to_string()),
        };
        match self.legacies(&own, answered) {
            Ok(all) => failed(program::become_program(program, &all).to_string()),
            Err(error) => failed(error.to_string()),
        }
    }

    /// What the next program is told. `own` is the file of this one.
    fn legacies<'a>(&'a self, own: &'a File, answered: u64) -> serde_json::Result<Vec<Legacy<'a>>> {
        let newest = self.over.len().saturating_sub(MOST_OVER);
        let over = self.over.iter().skip(newest);
        let agent = KeptAgent {
            key: self.key.0,
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
                program: runtime.program.clone(),
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
        about: &About,
        (most, outlive): (usize, Duration),
    ) -> Result<Option<Agent>, String> {
        let failed = |error: std::io::Error| format!("what the program before has left: {error}");
        let Some(mut channel) = program::legacies().map_err(failed)? else {
            return Ok(None);
        };
        let senseless = || "what the program before has left makes no sense".to_owned();
        let (mut resumed, mut answered) = (None, 0);
        loop {
            let message = channel.receive(true).map_err(failed)?;
            let message = message.ok_or_else(senseless)?;
            match (message.kind, &mut resumed) {
                (AGENT, None) => {
                    let kept: KeptAgent =
                        serde_json::from_slice(&message.bytes).map_err(|_| senseless())?;
                    let socket = channel.take_fd().ok_or_else(senseless)?;
                    program::keep_former(File::from(channel.take_fd().ok_or_else(senseless)?));
                    let key = Key(kept.key);
                    let mailbox = Mailbox::over(UdpSocket::from(socket), key).map_err(failed)?;
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
                    let itself = Some(Ok(about.clone()));
                    agent.answered = Some(agent.programs(answered, itself));
                    return Ok(resumed);
                }
                _ => return Err(senseless()),
            }
        }
    }

    /// Takes a runtime of the program before; `None` where no process has its number.
    fn adopt(&mut self, kept: KeptRuntime, channel: Channel) -> Option<()> {
        let process = Running::with(kept.process)?;
        let (switch, start) = kept.pair;
        let generation = generation_of(switch);
        self.mailbox.votes().know(&kept.run, generation);
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
            program: kept.program,
        };
        let pair = (ProcessStart(switch), ProcessStart(start));
        self.runtimes.insert(pair, runtime);
        Some(())
    }

    /// A number for the life of an agent as one program.
    pub(super) fn new_life() -> u64 {
        seed::random()
    }
}
