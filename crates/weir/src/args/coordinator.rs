//! Words of the coordinator, and of the commands that ask one.

use std::path::PathBuf;

use clap::{Args as ClapArgs, Subcommand};

use super::format::Format;
use super::seconds::seconds;

/// A coordinator, and what it is asked.
#[derive(Debug, Subcommand)]
pub(crate) enum Coordinated {
    /// Keep compositions over several hosts, and tell these what to run
    Coordinator(Coordinator),
    /// Have a coordinator take a composition, new or changed
    Apply(Apply),
    /// How a composition of a coordinator stands, host by host, and what happened to it
    Describe(Describe),
    /// End a composition on all its hosts
    Delete(Delete),
}

#[derive(Clone, Debug, ClapArgs)]
#[command(after_help = "\
A coordinator keeps compositions, and tells the agents of their hosts (`weir agent --coordinator`) what
to run. No packet, move or fail-over waits for it. Without `--listen` it listens on a Unix socket alone,
which its user can open; with `--listen`, for peers that show a certificate of its cluster
(docs/coordinator.md).

Examples:
  weir coordinator --store ./coordinator
  weir coordinator --store /var/lib/weir/coordinator --listen 10.0.9.9:4780 --identity /etc/weir/identity")]
pub(crate) struct Coordinator {
    /// Folder in which it keeps what was applied
    #[arg(long, value_name = "FOLDER")]
    pub(crate) store: PathBuf,
    /// Address and TCP port to listen on, for peers with certificates
    #[arg(long, value_name = "ADDRESS:PORT", requires = "identity")]
    pub(crate) listen: Option<std::net::SocketAddr>,
    /// Folder with the certificate of a coordinator (`weir pki issue coordinator`)
    #[arg(long, value_name = "FOLDER", requires = "listen")]
    pub(crate) identity: Option<PathBuf>,
    /// Path of the Unix socket; without it the socket is where the commands look for it
    #[arg(long, value_name = "PATH")]
    pub(crate) socket: Option<PathBuf>,
}

/// Which coordinator a command asks.
#[derive(Clone, Debug, Default, ClapArgs)]
pub(crate) struct At {
    /// The coordinator: `HOST:PORT`, or `unix:PATH`. WEIR_COORDINATOR without it, else the one of this
    /// user on this host
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) coordinator: Option<String>,
    /// Folder with the certificate that is shown to it; WEIR_IDENTITY without it
    #[arg(long, value_name = "FOLDER")]
    pub(crate) identity: Option<PathBuf>,
}

#[derive(Clone, Debug, ClapArgs)]
#[command(after_help = "\
The composition, its chain file and all that these name go to the hosts: files in the composition's
folder, and nothing outside of it. A change of the chain's files is taken under traffic, as by
`weir reload`. What can't be changed so is told, and needs `--anew`: all processes of the composition
start again then, and its flows are lost.

Examples:
  weir apply edge.yaml --dry-run
  weir apply edge.yaml
  weir diff edge.yaml")]
pub(crate) struct Apply {
    /// Composition, whose hosts have addresses (docs/coordinator.md)
    pub(crate) composition: PathBuf,
    /// Say what it takes, and change nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Also where all begins anew, without the flows
    #[arg(long)]
    pub(crate) anew: bool,
    /// How long it is waited for, in seconds; with 0 not at all
    #[arg(long, value_name = "SECONDS", default_value = "60", value_parser = seconds)]
    pub(crate) timeout: std::time::Duration,
    #[command(flatten)]
    pub(crate) at: At,
    /// How the answer is printed
    #[arg(long, value_enum, default_value_t)]
    pub(crate) output: Format,
    /// Show no progress
    #[arg(long, short)]
    pub(crate) quiet: bool,
}

#[derive(Clone, Debug, ClapArgs)]
pub(crate) struct Describe {
    /// Name of the composition
    pub(crate) name: String,
    #[command(flatten)]
    pub(crate) at: At,
    /// How it is printed
    #[arg(long, value_enum, default_value_t)]
    pub(crate) output: Format,
}

#[derive(Clone, Debug, ClapArgs)]
pub(crate) struct Delete {
    /// Name of the composition: its processes end on all hosts, and its flows with them
    pub(crate) name: String,
    /// How long it is waited for, in seconds; with 0 not at all
    #[arg(long, value_name = "SECONDS", default_value = "60", value_parser = seconds)]
    pub(crate) timeout: std::time::Duration,
    #[command(flatten)]
    pub(crate) at: At,
    /// How the answer is printed
    #[arg(long, value_enum, default_value_t)]
    pub(crate) output: Format,
}
