//! Options that an operator gives to the compiler.

use std::collections::BTreeMap;

use super::costs::PortCosts;

/// Most instances of one stage.
pub const MOST_INSTANCES: u16 = 64;
/// Numbers of cores are below this.
pub const MOST_CORES: usize = 1_024;

/// How a chain is to be compiled; the default is to run it to completion on
/// one core, with every pass that is expected to gain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// Equal work is done once.
    pub consolidate: bool,
    /// Equal classification on several branches is done before they part.
    pub hoist: bool,
    /// Independent neighbours run side by side.
    pub parallel: Parallel,
    /// How the graph is cut.
    pub mode: Mode,
    /// Cores that stages may be kept on, in the order of their use; empty for
    /// one core, chosen by the system.
    pub cores: Vec<usize>,
    /// Stages cut by hand: names of processors that begin a stage, or of
    /// instances, whose first one does. With [`Mode::Pipeline`] only.
    pub cuts: Vec<String>,
    /// Instances of the stage that has this processor or instance, 1 to
    /// [`MOST_INSTANCES`]. Where stages are not cut by hand it gets a stage
    /// of its own.
    pub instances: BTreeMap<String, u16>,
    /// Processors or instances whose stage is a process of its own, of this
    /// program's trust domain. Each gets a stage of its own, unless the chain
    /// is to be one stage.
    pub processes: Vec<String>,
    /// Those that are not trusted: each is a stage in a process behind a
    /// border, however the chain is cut.
    pub untrusted: Vec<String>,
    /// Core of the stage that has this processor or instance.
    pub affinity: BTreeMap<String, usize>,
    /// Cycles per packet, measured or given: by name of a processor, of an
    /// instance (shared among its processors) or of a function, the first of
    /// these that is there.
    pub cycles: BTreeMap<String, u32>,
    /// Costs of ports and engines.
    pub costs: PortCosts,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            consolidate: true,
            hoist: true,
            parallel: Parallel::Auto,
            mode: Mode::Auto,
            cores: Vec::new(),
            cuts: Vec::new(),
            instances: BTreeMap::new(),
            processes: Vec::new(),
            untrusted: Vec::new(),
            affinity: BTreeMap::new(),
            cycles: BTreeMap::new(),
            costs: PortCosts::default(),
        }
    }
}

impl Options {
    /// Processors and instances that are processes of their own, trusted or
    /// not.
    pub fn apart(&self) -> impl Iterator<Item = &String> {
        self.processes.iter().chain(&self.untrusted)
    }

    /// Nothing but expansion: the chain as written, on one core.
    pub fn as_written() -> Options {
        Options {
            consolidate: false,
            hoist: false,
            parallel: Parallel::Never,
            mode: Mode::RunToCompletion,
            ..Options::default()
        }
    }
}

/// How the graph is cut into stages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// As gains are expected from cycles and cores.
    #[default]
    Auto,
    /// One stage: each packet runs to completion on one core.
    RunToCompletion,
    /// Stages on cores of their own: as many as there are cores, or one per
    /// processor where cuts by hand say nothing and there are no cores.
    Pipeline,
}

/// When independent neighbours run side by side.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Parallel {
    /// Never.
    Never,
    /// Parallel if cycles and cores promise a gain.
    #[default]
    Auto,
    /// Wherever it is allowed.
    Always,
}
