//! The programs of an agent's host: what switch and agent say to one another about them, and the
//! switch's side of it (docs/upgrade.md).

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use weir_protocol::link::control::{self, Control, Head};
use weir_protocol::stream::ProcessStart;
use weir_protocol::{Key, Peer};

use super::hello::VERSION;
use super::socket::{NETWORK, socket_for};
use crate::program::{About, Program, Target};
use crate::seed;

/// Longest wait for an agent's answer: it may have to try a program first, which loads the chains.
const PATIENCE: Duration = Duration::from_secs(30);
/// The same where it has only to say what runs.
const PATIENCE_ALONE: Duration = Duration::from_secs(3);
/// Interval at which it is asked.
const AGAIN: Duration = Duration::from_millis(100);
/// Octets of the longest answer.
const ROOM: usize = 64 << 10;

/// A switch's question to an agent.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Question {
    /// Version of all that is said.
    pub(super) version: u32,
    /// The question's own: it is answered once, however often it comes.
    pub(super) number: u64,
    /// A program that the answer is to tell of.
    pub(super) target: Option<Target>,
    /// The agent is to become it.
    pub(super) take: Option<Take>,
}

/// What the agent and the program are to be, or nothing is taken.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Take {
    /// See [`Programs::incarnation`]: what somebody recorded and sends again is refused.
    pub(super) incarnation: u64,
    /// The program's: a file that was changed since it was looked at is refused.
    pub(super) digest: String,
}

/// The programs of an agent's host.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Programs {
    /// Version of all that is said.
    pub(super) version: u32,
    /// The question's number.
    pub(super) number: u64,
    /// A number that the agent has had since it became the program that it is.
    pub(crate) incarnation: u64,
    /// The agent's own.
    pub(crate) own: About,
    /// Of its runtimes: those of other switches, too.
    pub(crate) runtimes: Vec<RuntimeProgram>,
    /// What it found of the program that it was asked about; why it can't be taken.
    pub(crate) target: Option<Result<About, String>>,
}

/// The program of a runtime.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct RuntimeProgram {
    pub(crate) id: u32,
    /// Name of its switch's run.
    pub(crate) run: String,
    pub(crate) program: Program,
}

/// The agent of a host, as it is asked for its programs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AtHost {
    pub(crate) agent: SocketAddr,
    pub(crate) key: Key,
}

impl AtHost {
    /// The programs there, and what it says of `target`.
    ///
    /// # Errors
    ///
    /// It does not answer: why, for people.
    pub(crate) fn look(&self, target: Option<&Target>) -> Result<Programs, String> {
        self.ask(target.cloned(), None)
    }

    /// Has the agent become `target`, which is to have this digest, if it is still that incarnation.
    ///
    /// # Errors
    ///
    /// It does not answer, or is another program: why, for people.
    pub(crate) fn take(
        &self,
        target: &Target,
        incarnation: u64,
        digest: &str,
    ) -> Result<(), String> {
        let take = Take {
            incarnation,
            digest: digest.to_owned(),
        };
        let now = self.ask(Some(target.clone()), Some(take))?;
        match now.target {
            _ if now.own.program.digest == digest => Ok(()),
            Some(Err(why)) => Err(why),
            _ => Err(format!("it is {} after all", now.own.program)),
        }
    }

    fn ask(&self, target: Option<Target>, take: Option<Take>) -> Result<Programs, String> {
        let number = seed::random();
        let patience = match &target {
            Some(_) => PATIENCE,
            None => PATIENCE_ALONE,
        };
        let question = Question {
            version: VERSION,
            number,
            target,
            take,
        };
        let failed = |error: std::io::Error| error.to_string();
        let question = serde_json::to_vec(&question).map_err(|error| error.to_string())?;
        let socket = socket_for(self.agent).map_err(failed)?;
        socket.set_read_timeout(Some(AGAIN)).map_err(failed)?;
        let own = ProcessStart::of(Peer::Switch(0), number as u32);
        let mut head = Head {
            source: own,
            destination: own,
            number: 0,
        };
        let until = Instant::now() + patience;
        let mut room = vec![0; ROOM];
        while Instant::now() < until {
            head.number += 1;
            let asked = control::datagram(NETWORK, &self.key, head, Control::Program(&question));
            for datagram in asked.iter() {
                // Like a loss: it is asked again.
                let _ = socket.send_to(datagram, self.agent);
            }
            let Ok((length, from)) = socket.recv_from(&mut room) else {
                continue;
            };
            let heard = control::unwrap(room.get(..length).unwrap_or(&[]));
            let heard = heard.and_then(|frame| control::read(&self.key, frame));
            if let Ok((head, Control::Programs(body))) = heard
                && (head.destination, from) == (own, self.agent)
                && let Ok(programs) = serde_json::from_slice::<Programs>(body)
                && (programs.version, programs.number) == (VERSION, number)
            {
                return Ok(programs);
            }
        }
        Err("it does not answer: is it there, and new enough to be upgraded?".to_owned())
    }
}
