//! The command line of `weir ids`.

use std::path::PathBuf;

use clap::{Args as ClapArgs, Subcommand, ValueEnum};

use super::Format;

#[derive(Debug, ClapArgs)]
pub(crate) struct Ids {
    #[command(subcommand)]
    pub(crate) command: IdsCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum IdsCommand {
    /// How many rules of files the function `ids` loads, and why not the others
    Check(IdsCheck),
    /// The rules that cost most over a capture: how often each is tried, matches, and how long that takes
    Profile(IdsProfile),
}

/// The rules that a command reads, and what they need.
#[derive(Debug, ClapArgs)]
pub(crate) struct IdsRules {
    /// Rule files; of a pattern such as `rules/*.rules` all that fit
    #[arg(required = true, value_name = "FILE")]
    pub(crate) files: Vec<String>,
    /// Value of a `$NAME` that rules use, as `HOME_NET=10.0.0.0/8`; it comes
    /// before those of files
    #[arg(long = "var", value_name = "NAME=VALUE", value_parser = variable)]
    pub(crate) vars: Vec<(String, String)>,
    /// Values out of a `suricata.yaml` (`vars`); they come before those of --chain
    #[arg(long, value_name = "FILE")]
    pub(crate) variables: Option<PathBuf>,
    /// Values out of the `ids` functions of a chain file (`vars`)
    #[arg(long, value_name = "FILE")]
    pub(crate) chain: Option<PathBuf>,
    /// Lists of rules to leave out, as suricata-update's `disable.conf`
    #[arg(long, value_name = "FILE")]
    pub(crate) disable: Vec<String>,
    /// Lists of rules to take although they are commented out, as `enable.conf`
    #[arg(long, value_name = "FILE")]
    pub(crate) enable: Vec<String>,
    /// Lists of rules whose action becomes `drop`, as `drop.conf`
    #[arg(long, value_name = "FILE")]
    pub(crate) drop: Vec<String>,
    /// Lists of rules whose text is changed, as `modify.conf`
    #[arg(long, value_name = "FILE")]
    pub(crate) modify: Vec<String>,
    /// Thresholds and suppressions, as `threshold.config`; rules that they name and that are not there are told
    #[arg(long, value_name = "FILE")]
    pub(crate) thresholds: Vec<String>,
    /// Categories of reputations, for rules with `iprep`
    #[arg(long, value_name = "FILE")]
    pub(crate) reputation_categories: Vec<String>,
    /// Reputations of addresses, for rules with `iprep`
    #[arg(long, value_name = "FILE")]
    pub(crate) reputations: Vec<String>,
    /// `classification.config`; class types that it lacks are told
    #[arg(long, value_name = "FILE")]
    pub(crate) classification: Option<String>,
}

#[derive(Debug, ClapArgs)]
#[command(after_help = "\
A rule is tried where the search for patterns has chosen it. Times are those of this machine: compare them within one run.

Examples:
  weir ids profile 'rules/*.rules' --in office.pcap
  weir ids profile emerging.rules --in office.pcap --by tried --top 50 --output json")]
pub(crate) struct IdsProfile {
    #[command(flatten)]
    pub(crate) rules: IdsRules,
    /// The capture: pcap or pcapng
    #[arg(long = "in", value_name = "CAPTURE")]
    pub(crate) input: PathBuf,
    /// Follow TCP connections whose handshake is not in the capture
    #[arg(long)]
    pub(crate) midstream: bool,
    /// Order of the rules
    #[arg(long, value_enum, default_value_t)]
    pub(crate) by: ProfileOrder,
    /// How many rules are shown
    #[arg(long, value_name = "RULES", default_value_t = 20)]
    pub(crate) top: usize,
    /// How the result is printed
    #[arg(long, value_enum, default_value_t)]
    pub(crate) output: Format,
}

/// The number by which rules are ordered, the greatest first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum ProfileOrder {
    /// Time of all attempts
    #[default]
    Time,
    /// Time of the longest attempt
    Longest,
    /// Attempts
    Tried,
    /// Attempts that matched
    Matched,
}

#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Exit code 0 where all rules load, 3 where one does not.

Examples:
  weir ids check 'rules/*.rules' --all
  weir ids check local.rules --var 'HOME_NET=[10.0.0.0/8]' --output json
  weir ids check emerging.rules --variables suricata.yaml --classification classification.config")]
pub(crate) struct IdsCheck {
    #[command(flatten)]
    pub(crate) rules: IdsRules,
    /// Lists every rule that does not load
    #[arg(long)]
    pub(crate) all: bool,
    /// How the result is printed
    #[arg(long, value_enum, default_value_t)]
    pub(crate) output: Format,
}

fn variable(text: &str) -> Result<(String, String), String> {
    let parts = text
        .split_once('=')
        .map(|(name, value)| (name.trim(), value.trim()));
    match parts {
        Some((name, value)) if !name.is_empty() && !value.is_empty() => {
            let name = name.strip_prefix('$').unwrap_or(name);
            Ok((name.to_owned(), value.to_owned()))
        }
        _ => Err("expected NAME=VALUE such as HOME_NET=10.0.0.0/8".to_owned()),
    }
}
