//! Arguments of `weir nf`.

use std::path::PathBuf;

use clap::{Args as ClapArgs, Subcommand};

use super::format::Format;

#[derive(Debug, ClapArgs)]
pub(crate) struct Nf {
    #[command(subcommand)]
    pub(crate) command: NfCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum NfCommand {
    /// List the functions and templates that chain files may name
    List(NfList),
    /// Show the manual and settings of a function or template
    Show(NfShow),
    /// Write a new function, ready to build and test
    New(NfNew),
}

#[derive(Debug, ClapArgs)]
pub(crate) struct NfList {
    /// Folder with templates of your own
    #[arg(long, value_name = "FOLDER")]
    pub(crate) templates: Vec<PathBuf>,
    /// How the list is printed
    #[arg(long, value_enum, default_value_t)]
    pub(crate) output: Format,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct NfShow {
    /// Name of the function or template
    pub(crate) name: String,
    /// Folder with templates of your own
    #[arg(long, value_name = "FOLDER")]
    pub(crate) templates: Vec<PathBuf>,
    /// How it is printed
    #[arg(long, value_enum, default_value_t)]
    pub(crate) output: Format,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct NfNew {
    /// Name of the new function: lower case, words joined by `-`
    pub(crate) name: String,
    /// Folder to write it to; NAME without it
    #[arg(long, value_name = "FOLDER")]
    pub(crate) path: Option<PathBuf>,
    /// Checkout of weir that it builds against; the one this program was built from without it
    #[arg(long, value_name = "FOLDER")]
    pub(crate) weir: Option<PathBuf>,
}
