//! The words of `weir man`.

use std::path::PathBuf;

use clap::Args as ClapArgs;

/// The words of `weir man`.
#[derive(Debug, ClapArgs)]
#[command(after_help = "\
A page for weir and one for each of its commands, as `weir-nf-show.1`, with what
`--help` says. A file of that name is overwritten.

Examples:
  weir man /usr/local/share/man/man1
  weir man . && man ./weir-run.1")]
pub(crate) struct Man {
    /// Folder that they are written to; it is made if it is missing
    pub(crate) folder: PathBuf,
    /// Date that the pages bear, as 2026-11-28; none without it
    #[arg(long, value_name = "DATE")]
    pub(crate) date: Option<String>,
}
