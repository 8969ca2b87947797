//! A runtime's process on another host than the switch: one worker, whose node is the runtime
//! with its end of the link ([`RemoteNode`]).

use weir_exec::{Parker, worker};
use weir_io::IdlePolicy;
use weir_io::shared::{Channel, Waker};
use weir_nf::host::Stage;
use weir_runtime::RuntimeConfig;

use super::super::process::Reread;
use super::hello::Start;
use super::remote_node::RemoteNode;

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

    /// The number that stands for the chains that are meant.
    pub(crate) fn chains(&self) -> u64 {
        self.start.hello.chains
    }

    /// The seed of the run.
    pub fn seed(&self) -> u64 {
        self.start.hello.seed
    }

    /// Tells the switch why the runtime can't be run.
    pub fn give_up(self, why: &str) {
        self.start.give_up(why);
    }

    /// Runs the runtime with these chains, for which `digest` stands and which `reread` reads
    /// again, until it is told to finish.
    ///
    /// # Errors
    ///
    /// It can't be run, which the switch is told, or the switch is gone.
    pub fn run(
        self,
        stages: &[Stage],
        (digest, reread): (u64, Reread),
        engine: RuntimeConfig,
    ) -> Result<(), String> {
        let hello = &self.start.hello;
        if digest != hello.chains || stages.len() != hello.units.len() {
            let why = "its chain file is another one than the switch's";
            self.give_up(why);
            return Err(why.to_owned());
        }
        let (start, channel) = (self.start.clone(), self.channel);
        let node = RemoteNode::new(self.start, channel, (stages, reread), engine);
        let mut node = node.inspect_err(|why| start.give_up(why))?;
        node.introduce()?;
        let waker = Waker::new().map_err(|error| error.to_string())?;
        let park = Parker::of_process(waker, IdlePolicy::default());
        worker::run(vec![node], park).map(drop)
    }
}
