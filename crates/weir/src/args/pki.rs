//! The words of `weir pki`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args as ClapArgs, Subcommand};
use weir_identity::Role;

use super::Format;

/// Longest lifetime in days: a hundred years.
const MOST_DAYS: i64 = 36_500;

/// The words of `weir pki`.
#[derive(Debug, ClapArgs)]
pub(crate) struct Pki {
    #[command(subcommand)]
    pub(crate) command: PkiCommand,
}

/// Its commands.
#[derive(Debug, Subcommand)]
pub(crate) enum PkiCommand {
    /// Make the authority of a cluster
    Init(PkiInit),
    /// Issue a certificate, or renew one
    Issue(PkiIssue),
    /// Say what is in a folder of certificates, and whether it is fit for use
    Show(PkiShow),
}

/// The words of `weir pki init`.
#[derive(Debug, ClapArgs)]
#[command(after_help = "\
It writes ca.pem, and ca-key.pem with which whoever has it may issue certificates: keep it
where no host of the cluster is.

Examples:
  weir pki init lab
  weir pki init lab --folder /root/lab-ca --days 730")]
pub(crate) struct PkiInit {
    /// Name of the cluster: lower-case letters, digits, `-`, `_` and `.`
    #[arg(value_parser = cluster)]
    pub(crate) cluster: String,
    /// Folder that it is written to; it is made if it is missing
    #[arg(long, value_name = "FOLDER", default_value = "weir-ca")]
    pub(crate) folder: PathBuf,
    /// Days for which it is valid
    #[arg(long, value_name = "N", default_value = "3650", value_parser = clap::value_parser!(u32).range(1..=MOST_DAYS))]
    pub(crate) days: u32,
    /// How the result is printed
    #[arg(long, value_enum, default_value_t, value_name = "FORMAT")]
    pub(crate) output: Format,
}

/// The words of `weir pki issue`.
#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Roles:
  operator     changes the cluster
  viewer       looks on
  agent        a host's agent
  coordinator  the coordinator itself

It writes ca.pem, cert.pem and key.pem. An older certificate of the same role and name there
is renewed; what runs with it takes the new one without a restart.

Examples:
  weir pki issue coordinator c1 --folder c1
  weir pki issue agent host-1 --ca /root/lab-ca --folder host-1 --days 30")]
pub(crate) struct PkiIssue {
    /// What its owner may do: operator, viewer, agent or coordinator
    pub(crate) role: Role,
    /// Its owner's name: letters, digits, `-`, `_` and `.`
    #[arg(value_parser = name)]
    pub(crate) name: String,
    /// Folder of the authority
    #[arg(long, value_name = "FOLDER", default_value = "weir-ca")]
    pub(crate) ca: PathBuf,
    /// Folder that it is written to; it is made if it is missing
    #[arg(long, value_name = "FOLDER")]
    pub(crate) folder: PathBuf,
    /// Days for which it is valid; never longer than the authority
    #[arg(long, value_name = "N", default_value = "90", value_parser = clap::value_parser!(u32).range(1..=MOST_DAYS))]
    pub(crate) days: u32,
    /// How the result is printed
    #[arg(long, value_enum, default_value_t, value_name = "FORMAT")]
    pub(crate) output: Format,
}

/// The words of `weir pki show`.
#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Exit code 0 where it is fit for use, 1 where something is wrong with it.

Examples:
  weir pki show host-1
  weir pki show weir-ca --output json")]
pub(crate) struct PkiShow {
    /// Folder with a certificate or an authority
    pub(crate) folder: PathBuf,
    /// How it is printed
    #[arg(long, value_enum, default_value_t, value_name = "FORMAT")]
    pub(crate) output: Format,
}

fn cluster(text: &str) -> Result<String, String> {
    weir_identity::check_cluster(text).map_err(|error| error.to_string())?;
    Ok(text.to_owned())
}

fn name(text: &str) -> Result<String, String> {
    weir_identity::check_name(text).map_err(|error| error.to_string())?;
    Ok(text.to_owned())
}

/// So many days.
pub(crate) fn days(number: u32) -> Duration {
    Duration::from_secs(u64::from(number) * 86_400)
}
