//! `weir up`: a whole cluster on one machine.

use std::path::PathBuf;

use clap::Args as ClapArgs;

use super::format::Format;
use super::seconds::seconds;

#[derive(Clone, Debug, ClapArgs)]
#[command(after_help = "\
Each host of the composition is a process (`weir agent`) with an address of its own on the loopback;
the switch and the ports, and the runtimes of the switch's host, are in another one. A key is made
up for each run. An agent, a runtime or a switch that dies gets a successor; all processes end with
this one.
It takes no privileges, but for ports that are interfaces.

With `--host` each machine is a host, and starts its share.

Examples:
  weir check examples/cluster.yaml
  weir up examples/cluster.yaml
  weir get runtimes
  weir up edge.yaml --host alpha --key cluster.key")]
pub(crate) struct Up {
    /// Composition: a cluster in a file (docs/hosts.md)
    pub(crate) composition: PathBuf,
    /// This machine is one host of several: only what the composition has on it is started here. The
    /// hosts need addresses (`address:`)
    #[arg(long, value_name = "NAME", requires = "key")]
    pub(crate) host: Option<String>,
    /// File with the key that the hosts share: 32 hexadecimal digits
    #[arg(long, value_name = "FILE", requires = "host")]
    pub(crate) key: Option<PathBuf>,
    /// Append events as JSON lines to a file, or send them to a collector, as `weir run` does
    #[arg(long, value_name = "TARGET")]
    pub(crate) events: Vec<PathBuf>,
    /// With interfaces: end after so many seconds
    #[arg(long = "for", value_name = "SECONDS", value_parser = seconds)]
    pub(crate) duration: Option<std::time::Duration>,
    /// Seed of hashes and random numbers; a random one without it
    #[arg(long)]
    pub(crate) seed: Option<u64>,
    /// Name of this instance, by which `weir get` and others find it; the composition's
    /// without it
    #[arg(long)]
    pub(crate) name: Option<String>,
    /// Path of the control socket, or `none`; without it the socket has the instance's name
    #[arg(long, value_name = "PATH", conflicts_with = "name")]
    pub(crate) control: Option<PathBuf>,
    /// Address on which Prometheus finds metrics, as 127.0.0.1:9100; none without it
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) metrics: Option<std::net::SocketAddr>,
    /// Folder of the ledger that `weir bill` reads. Without it what was used is known as long as the run
    /// lasts (docs/billing.md)
    #[arg(long, value_name = "FOLDER")]
    pub(crate) ledger: Option<PathBuf>,
    /// How the summary is printed
    #[arg(long, value_enum, default_value_t)]
    pub(crate) output: Format,
    /// No progress on standard error
    #[arg(long, short)]
    pub(crate) quiet: bool,
    /// File that the number of this process is written to
    #[arg(long, value_name = "FILE", hide = true, requires = "host")]
    pub(crate) process_file: Option<PathBuf>,
    /// This process has the switch of the one with this number, and ends with that
    #[arg(long, value_name = "PROCESS", hide = true)]
    pub(crate) switch: Option<u32>,
}
