//! Arguments of `weir set`.

use std::path::PathBuf;

use clap::{Args as ClapArgs, Subcommand};
use weir_packet::Prefix;

use super::format::Format;

#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Sets are in the chain file (`sets:`), rules name them as @NAME (docs/sets.md). What is changed is seen by
the next new connection; open ones go by `on-reload` of the firewall. The chain file is not changed.

Exit codes: 0 done, and all engines judge by it; 1 the instance can't be asked, there is no such set, it
is full, or it can't change the way the instance runs; 2 an entry can't be read.

Examples:
  weir set add blocked 192.0.2.7 --timeout 1h
  weir set add blocked --file today.txt
  grep -h scan /var/log/ids | cut -f3 | weir set add blocked --file -
  weir set remove blocked 192.0.2.0/24 2001:db8::1
  weir set list
  weir set list blocked --output json
  weir set flush blocked")]
pub(crate) struct Set {
    #[command(subcommand)]
    pub(crate) command: SetCommand,
    /// The instance: its name, or the path of its control socket; the one that
    /// runs without it
    #[arg(long, short, value_name = "NAME", global = true)]
    pub(crate) instance: Option<String>,
    /// How the answer is printed
    #[arg(long, value_enum, default_value_t, global = true)]
    pub(crate) output: Format,
}

#[derive(Debug, Subcommand)]
pub(crate) enum SetCommand {
    /// Add addresses and prefixes; one that is there already gets the new time-out
    Add(AddEntries),
    /// Remove addresses and prefixes
    Remove(Entries),
    /// List the sets, or the entries of one
    List(ListEntries),
    /// Remove all entries
    Flush(FlushSet),
}

#[derive(Debug, ClapArgs)]
pub(crate) struct AddEntries {
    #[command(flatten)]
    pub(crate) entries: Entries,
    /// They go after that time, as `90s`, `1h` or `never`; without it after the
    /// set's own
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    pub(crate) timeout: Option<Lifetime>,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Entries {
    /// The set
    #[arg(value_name = "SET")]
    pub(crate) set: String,
    /// Addresses and prefixes
    #[arg(value_name = "ENTRY", value_parser = entry, required_unless_present = "file")]
    pub(crate) entries: Vec<Prefix>,
    /// Takes those of a file as well, one a line, with comments behind `#`; `-` is
    /// standard input
    #[arg(long, value_name = "PATH")]
    pub(crate) file: Option<PathBuf>,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct ListEntries {
    /// The set whose entries are listed; all sets without it
    #[arg(value_name = "SET")]
    pub(crate) set: Option<String>,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct FlushSet {
    /// The set
    #[arg(value_name = "SET")]
    pub(crate) set: String,
}

/// How long an entry stays, in milliseconds; 0 for as long as the instance runs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lifetime(pub(crate) u64);

fn duration(text: &str) -> Result<Lifetime, String> {
    match weir_graph::duration(text)? {
        weir_nf::host::Timeouts::NEVER => Ok(Lifetime(0)),
        0 => Err("it would be gone at once".to_owned()),
        ms => Ok(Lifetime(ms.into())),
    }
}

pub(crate) fn entry(text: &str) -> Result<Prefix, String> {
    text.parse().map_err(|why| format!("it {why}"))
}
