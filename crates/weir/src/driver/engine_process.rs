//! The process of an engine, from its first message on: of a stage, or of a runtime.

use std::os::fd::OwnedFd;

use weir_io::shared::Channel;

use super::cluster::{self, RuntimeProcess};
use super::link::{self, RemoteProcess};
use super::pipeline::{self, StageProcess};
use super::process;

/// Longest message from the main process.
const LONGEST: usize = 1 << 20;

/// A process that another weir has started for an engine.
#[derive(Debug)]
pub enum EngineProcess {
    /// A stage of a plan.
    Stage(StageProcess),
    /// A runtime behind a switch.
    Runtime(RuntimeProcess),
    /// A runtime behind a switch on another host.
    Remote(RemoteProcess),
}

impl EngineProcess {
    /// Waits for the main process's first message on `socket`.
    ///
    /// # Errors
    ///
    /// The main process is gone, or its message is invalid.
    pub fn begin(socket: OwnedFd) -> Result<EngineProcess, String> {
        process::obey_parent()?;
        let mut channel = Channel::new(socket.into(), LONGEST);
        let message = channel.receive(true).map_err(|error| error.to_string())?;
        let message = message.ok_or("the main process is gone")?;
        match message.kind {
            pipeline::HELLO => {
                StageProcess::begin(channel, &message.bytes).map(EngineProcess::Stage)
            }
            cluster::HELLO => {
                RuntimeProcess::begin(channel, &message.bytes).map(EngineProcess::Runtime)
            }
            link::HELLO => RemoteProcess::begin(channel, &message.bytes).map(EngineProcess::Remote),
            _ => Err("the main process begins with another message".to_owned()),
        }
    }

    /// The seed of the run.
    pub fn seed(&self) -> u64 {
        match self {
            EngineProcess::Stage(stage) => stage.seed(),
            EngineProcess::Runtime(runtime) => runtime.seed(),
            EngineProcess::Remote(remote) => remote.seed(),
        }
    }

    /// The number that stands for the chains that are meant.
    pub(crate) fn chains(&self) -> u64 {
        match self {
            EngineProcess::Stage(stage) => stage.chains(),
            EngineProcess::Runtime(runtime) => runtime.chains(),
            EngineProcess::Remote(remote) => remote.chains(),
        }
    }

    /// Tells the main process why the engine can't be run.
    pub fn give_up(self, why: &str) {
        match self {
            EngineProcess::Stage(stage) => stage.give_up(why),
            EngineProcess::Runtime(runtime) => runtime.give_up(why),
            EngineProcess::Remote(remote) => remote.give_up(why),
        }
    }
}
