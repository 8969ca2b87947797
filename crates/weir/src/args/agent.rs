//! Words of `weir agent`.

use std::path::PathBuf;

use clap::Args as ClapArgs;
use weir_graph::Override;

use super::seconds::seconds;

#[derive(Clone, Debug, ClapArgs)]
#[command(after_help = "\
An agent starts runtimes when a switch (`weir run --hosts`) asks for them, and tells it when one is
over. It has the chain file that the switch has: a runtime with another one is refused. Whoever has
the key may start runtimes: keep it from others, and the port behind a firewall.

With `--coordinator` it is the agent of a host: it has the host run what the coordinator says, also
where that is away (docs/coordinator.md). What runs goes on when this agent ends.

Examples:
  (umask 77; head -c 16 /dev/urandom | od -An -tx1 | tr -d ' \\n' > cluster.key)
  weir agent examples/http.yaml --listen 192.0.2.2:4790 --key cluster.key
  weir run examples/http.yaml --in … --runtimes 2 --hosts local,192.0.2.2:4790 --key cluster.key
  weir agent --coordinator 10.0.9.9:4780 --host alpha --identity /etc/weir/identity")]
pub(crate) struct Agent {
    /// Chain file
    #[arg(required_unless_present = "coordinator", requires_all = ["listen", "key"])]
    pub(crate) chain: Option<PathBuf>,
    /// Address and UDP port to listen on
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub(crate) listen: Option<std::net::SocketAddr>,
    /// File with the key that switches share: 32 hexadecimal digits
    #[arg(long, value_name = "FILE")]
    pub(crate) key: Option<PathBuf>,
    /// Run what this coordinator says (`HOST:PORT`, or `unix:PATH`; of several, all, with commas), and
    /// nothing else: this is the agent of a whole host
    #[arg(long, value_name = "ADDRESS", requires = "host",
          conflicts_with_all = ["chain", "listen", "key", "set", "templates"])]
    pub(crate) coordinator: Option<String>,
    /// With `--coordinator`: name of this host, as compositions have it
    #[arg(long, value_name = "NAME", requires = "coordinator")]
    pub(crate) host: Option<String>,
    /// With `--coordinator`: folder with the certificate of this host's agent
    #[arg(long, value_name = "FOLDER", requires = "coordinator")]
    pub(crate) identity: Option<PathBuf>,
    /// With `--coordinator`: folder for what this host runs; /var/lib/weir/agent, or weir/agent in this
    /// user's folder for states, without it
    #[arg(long, value_name = "FOLDER", requires = "coordinator")]
    pub(crate) state: Option<PathBuf>,
    /// Most runtimes at a time
    #[arg(long, value_name = "N", default_value_t = 16)]
    pub(crate) most: usize,
    /// How long its runtimes keep their states and wait for another switch when theirs is gone
    #[arg(long, value_name = "SECONDS", value_parser = seconds, default_value = "30")]
    pub(crate) outlive: std::time::Duration,
    /// Override a setting, as in `weir run`
    #[arg(long = "set", value_name = "NF.KEY=VALUE")]
    pub(crate) set: Vec<Override>,
    /// Folder with templates, as in `weir run`
    #[arg(long, value_name = "FOLDER")]
    pub(crate) templates: Vec<PathBuf>,
    /// Number of the process that started this one: it ends with that
    #[arg(long, value_name = "PROCESS", hide = true)]
    pub(crate) parent: Option<u32>,
}
