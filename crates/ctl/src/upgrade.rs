//! The programs of a run's processes, for whoever upgrades them (docs/upgrade.md).

use std::fmt::Debug;
use std::path::PathBuf;

/// A program, as one tells it from others.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProgramId {
    /// Version of weir.
    pub version: String,
    /// Stands for its file.
    pub digest: String,
}

/// A program that may take the place of those that run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProgramTarget {
    /// The one at this path of each host.
    Path(PathBuf),
    /// The one before.
    Former,
}

/// A function whose state the target has in another version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StateChange {
    /// Kind of the function.
    pub function: String,
    /// Version of the states that there are.
    pub from: u16,
    /// Version of those that the target writes.
    pub to: u16,
    /// The program that runs reads the target's states.
    pub goes_back: bool,
}

/// A target as a process has found it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Found {
    /// Which program it is.
    pub program: ProgramId,
    /// States of the run's functions that it has in another version.
    pub changes: Vec<StateChange>,
}

/// Programs of a process that starts others, and of those.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostPrograms {
    /// Name of the host, or the address of its agent.
    pub host: String,
    /// It is the switch's process, not an agent.
    pub is_switch: bool,
    /// Its program; an error says why it does not answer.
    pub program: Result<ProgramId, String>,
    /// Its runtimes, by their ids.
    pub runtimes: Vec<(u32, ProgramId)>,
    /// The target that was asked for; an error says why it can't be taken.
    pub target: Option<Result<Found, String>>,
    /// Of the switch: digest of what processes were to become last, since it runs.
    pub goal: Option<String>,
}

/// The programs of a run. Each call may take seconds.
pub trait Upgrades: Send + Debug {
    /// Those of the switch's process and of all agents, in this order, and what each says of a target.
    fn look(&mut self, target: Option<&ProgramTarget>) -> Vec<HostPrograms>;

    /// Has the agent of a host become the target, which is to have this digest.
    ///
    /// # Errors
    ///
    /// It is another program: why, for people.
    fn upgrade_agent(
        &mut self,
        host: &str,
        target: &ProgramTarget,
        digest: &str,
    ) -> Result<(), String>;

    /// Makes the target ready to take the place of the switch's process, which is to hand over then.
    ///
    /// # Errors
    ///
    /// It can't: why, for people.
    fn prepare_switch(&mut self, target: &ProgramTarget, digest: &str) -> Result<(), String>;

    /// The switch's process does not hand over after all.
    fn forget(&mut self);
}
