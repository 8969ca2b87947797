//! What is asked of the sets of a run, and what they tell.

use std::fmt;
use std::time::Duration;

use weir_graph::SetDefinition;
use weir_packet::Prefix;

weir_telemetry::counters! {
    /// What was done with a set.
    #[derive(Clone, Debug, Default)]
    pub struct SetCounts {
        /// Entries of the set.
        pub entries: Gauge<Entries> as "weir_set_entries",
        /// Entries that were added by commands.
        pub added: Counter<Entries>,
        /// Entries that were removed by commands.
        pub removed: Counter<Entries>,
        /// Entries whose time was over.
        pub expired: Counter<Entries>,
        /// Entries that were refused since the set was full.
        pub refused: Counter<Entries>,
    }
}

/// Why sets were not changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NotChanged {
    /// There is no set of the name; these there are.
    Unknown(Vec<String>),
    /// This way of running can't: why.
    Fixed(String),
    /// So many entries more are more than it may have.
    Full {
        /// Entries that would have come.
        more: u64,
        /// Entries there are.
        entries: u64,
        /// Entries there may be.
        most: u64,
    },
    /// What takes the place of this process would not know of it.
    NotKept(String),
}

impl fmt::Display for NotChanged {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NotChanged::Unknown(names) if names.is_empty() => {
                f.write_str("the chain file has no `sets`")
            }
            NotChanged::Unknown(names) => {
                write!(
                    f,
                    "there is no such set: the chain file has {}",
                    names.join(", ")
                )
            }
            NotChanged::Fixed(why) | NotChanged::NotKept(why) => f.write_str(why),
            NotChanged::Full {
                more,
                entries,
                most,
            } => write!(
                f,
                "the set is full: it has {entries} entries and may have {most} (`most`), and {more} more \
                 were to come; nothing has changed"
            ),
        }
    }
}

/// A change that a command asks for.
#[derive(Clone, Debug, Default)]
pub struct Wanted {
    /// All entries go first.
    pub flush: bool,
    /// Entries that go.
    pub remove: Vec<Prefix>,
    /// Entries that come then.
    pub add: Vec<Prefix>,
    /// When these go: `None` for the set's own time-out, zero for never.
    pub timeout: Option<Duration>,
}

/// What became of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Done {
    /// Entries that came.
    pub added: u64,
    /// Those that were there already.
    pub known: u64,
    /// Entries that went.
    pub removed: u64,
    /// Those that were not there.
    pub absent: u64,
    /// Entries now.
    pub entries: u64,
}

/// An entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// The address or prefix.
    pub prefix: Prefix,
    /// The file has it.
    pub in_file: bool,
    /// A command has added it.
    pub added: bool,
    /// How long it stays.
    pub left: Option<Duration>,
}

/// A set in numbers.
#[derive(Clone, Debug)]
pub struct Numbers<'a> {
    /// As the file has it.
    pub definition: &'a SetDefinition,
    /// What was done with it.
    pub counts: SetCounts,
    /// Entries of the file that a command has removed.
    pub removed_from_file: u64,
    /// Entries that go by themselves.
    pub timed: u64,
    /// Why it can't change.
    pub fixed: Option<&'a str>,
}
