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

Several coordinators may have one store in etcd: one of them leads, the others stand by, and let nobody
in until they lead. Agents and commands are given all their addresses, with commas.

Examples:
  weir coordinator --store ./coordinator
  weir coordinator --store /var/lib/weir/coordinator --listen 10.0.9.9:4780 --identity /etc/weir/identity
  weir coordinator --store etcd:10.0.9.1:2379,10.0.9.2:2379,10.0.9.3:2379 --etcd-ca /etc/weir/etcd-ca.pem \\
    --listen 10.0.9.11:4780 --identity /etc/weir/identity")]
pub(crate) struct Coordinator {
    /// Where it keeps what was applied: a folder, or `etcd:HOST:PORT`, with more members after commas
    #[arg(long, value_name = "PLACE", overrides_with = "store")]
    pub(crate) store: String,
    /// With etcd: prefix of all keys
    #[arg(long, value_name = "PREFIX", default_value = "weir/")]
    pub(crate) etcd_prefix: String,
    /// With etcd: certificate of the authority of its members, as PEM; they are reached over TLS then
    #[arg(long, value_name = "FILE")]
    pub(crate) etcd_ca: Option<PathBuf>,
    /// With etcd: own certificate, as PEM, where members ask for one
    #[arg(long, value_name = "FILE", requires_all = ["etcd_ca", "etcd_key"])]
    pub(crate) etcd_cert: Option<PathBuf>,
    /// With etcd: key of that certificate, as PEM
    #[arg(long, value_name = "FILE", requires = "etcd_cert")]
    pub(crate) etcd_key: Option<PathBuf>,
    /// With etcd: folder of a coordinator that was the only one; all that it kept is taken over
    /// when this one leads, where etcd has had no composition
    #[arg(long, value_name = "FOLDER")]
    pub(crate) import: Option<PathBuf>,
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
    /// The coordinator: `HOST:PORT`, or `unix:PATH`; of several, all, with commas. WEIR_COORDINATOR without
    /// it, else the one of this user on this host
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
