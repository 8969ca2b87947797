//! `threads:` — cores, sleep and priority of a run's threads.

use core::fmt;

use serde::Serialize;

use crate::compile::MOST_CORES;
use crate::diagnostic::Report;
use crate::form::{Boolean, Form as _, Integer, OneOrMore};
use crate::keys::Keys;
use crate::tree::Node;

/// Settings of the threads that run a file's chains. A command line's `--cores`, `--busy-poll` and
/// `--first` win over them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Threads {
    /// Cores that the threads are kept on, in the order of their use; none
    /// leaves them to the kernel.
    pub cores: Vec<usize>,
    /// No thread ever sleeps.
    pub busy_poll: bool,
    /// Threads that move packets between interfaces go before all others of their cores.
    pub first: bool,
}

impl fmt::Display for Threads {
    /// For people, as `weir check` prints it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("threads")?;
        if let [first, others @ ..] = self.cores.as_slice() {
            write!(f, " on cores {first}")?;
            others.iter().try_for_each(|core| write!(f, ", {core}"))?;
        }
        f.write_str(if self.busy_poll {
            " never sleep"
        } else {
            " sleep when idle"
        })?;
        f.write_str(if self.first {
            ", before all others"
        } else {
            ""
        })
    }
}

/// Keys of `threads:`.
pub(crate) fn keys() -> Keys<Threads> {
    let about = "The threads that run the chains; the command line wins over it.";
    Keys::<Threads>::new("a mapping like `cores: [0, 1]`", about)
        .help("leave it out for threads on any core, which sleep when idle")
        .key(
            "cores",
            "Cores that threads are kept on, in the order of their use.",
            cores(),
            |t, cores| t.cores = numbers(&cores),
        )
        .key("busy-poll", "No thread ever sleeps.", Boolean, |t, busy| {
            t.busy_poll = busy;
        })
        .key(
            "first",
            "With interfaces: threads that move packets run before all others of their cores.",
            Boolean,
            |t, first| t.first = first,
        )
}

/// Reads the mapping; what it does not say stays as it is by default.
pub(crate) fn read(node: &Node, report: &mut Report<'_>) -> Threads {
    keys().read(node, report).unwrap_or_default()
}

/// The number of a core.
pub(crate) fn core() -> Integer {
    Integer(0..=MOST_CORES as u64 - 1)
}

/// Numbers of cores. Several threads may share one.
pub(crate) fn cores() -> OneOrMore<Integer> {
    OneOrMore("the number of a core, or a list of them", core())
}

/// Cores as they are counted.
pub(crate) fn numbers(cores: &[u64]) -> Vec<usize> {
    cores.iter().map(|&core| core as usize).collect()
}
