//! Commands that ask a running weir.

use clap::{Args as ClapArgs, Subcommand, ValueEnum};

use super::format::Format;
use super::seconds::seconds;

#[derive(Debug, ClapArgs)]
pub(crate) struct Stats {
    /// The instance: its name, or the path of its control socket; the one that
    /// runs without it
    #[arg(value_name = "NAME")]
    pub(crate) instance: Option<String>,
    /// Prints what was counted in each so many seconds, as rates, until it is
    /// stopped
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub(crate) watch: Option<std::time::Duration>,
    /// How the counts are printed
    #[arg(long, value_enum, default_value_t)]
    pub(crate) output: Format,
}

#[cfg(feature = "terminal")]
#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Keys:
  q, Esc, Ctrl-C   quit
  p, Space         stop, and go on
  Tab, →, ←        the next chain, the one before
  ↑, ↓             scroll the functions")]
pub(crate) struct Top {
    /// The instance: its name, or the path of its control socket; the one that
    /// runs without it
    #[arg(value_name = "NAME")]
    pub(crate) instance: Option<String>,
    /// Seconds between two looks
    #[arg(long, value_name = "SECONDS", value_parser = seconds, default_value = "1")]
    pub(crate) interval: std::time::Duration,
}

#[derive(Debug, ClapArgs)]
#[command(
    args_conflicts_with_subcommands = false,
    subcommand_negates_reqs = true,
    after_help = "\
Filters (docs/filter.md): `tcp port 80 and not client net 10.0.0.0/8`, `id 7`, `chain edge phase open`.

Examples:
  weir flows
  weir flows --sort packets --limit 10 tcp port 443
  weir flows show 7
  weir flows end host 10.0.0.9 and udp"
)]
pub(crate) struct Flows {
    #[command(subcommand)]
    pub(crate) command: Option<FlowsCommand>,
    /// Which flows; all without it
    #[arg(value_name = "FILTER")]
    pub(crate) filter: Vec<String>,
    /// What to sort by, most first; without it flows come as they are found
    #[arg(long, value_enum)]
    pub(crate) sort: Option<SortFlows>,
    /// The other way round
    #[arg(long)]
    pub(crate) reverse: bool,
    /// Most flows that are listed
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) limit: u32,
    /// The instance: its name, or the path of its control socket; the one that
    /// runs without it
    #[arg(long, short, value_name = "NAME", global = true)]
    pub(crate) instance: Option<String>,
    /// How they are printed
    #[arg(long, value_enum, default_value_t, global = true)]
    pub(crate) output: Format,
}

#[derive(Debug, Subcommand)]
pub(crate) enum FlowsCommand {
    /// Show one flow, with what each function remembers of it
    Show(ShowFlow),
    /// End flows: functions are told, names and ports are given back
    End(EndFlows),
}

#[derive(Debug, ClapArgs)]
pub(crate) struct ShowFlow {
    /// Its number, or a filter that it alone matches
    #[arg(value_name = "ID|FILTER", required = true)]
    pub(crate) filter: Vec<String>,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct EndFlows {
    /// The flow's number, or which flows; `all` is every one
    #[arg(value_name = "ID|FILTER", required = true)]
    pub(crate) filter: Vec<String>,
}

/// What flows are sorted by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum SortFlows {
    /// Most packets first
    Packets,
    /// Oldest first
    Age,
    /// Longest without a packet first
    Idle,
    /// By the client's address
    Client,
    /// By the server's address
    Server,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Drops {
    /// The instance: its name, or the path of its control socket; the one that
    /// runs without it
    #[arg(value_name = "NAME")]
    pub(crate) instance: Option<String>,
    /// Shows rates, too, over so many seconds
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub(crate) over: Option<std::time::Duration>,
    /// Every reason that there is, also those without a packet
    #[arg(long)]
    pub(crate) all: bool,
    /// How they are printed
    #[arg(long, value_enum, default_value_t)]
    pub(crate) output: Format,
}

#[derive(Debug, ClapArgs)]
#[command(after_help = "\
A unit is a flow, or all flows of a scope key. docs/hosts.md explains the columns.

Examples:
  weir get runtimes
  weir get replicas edge --output json")]
pub(crate) struct Get {
    /// Of what
    #[arg(value_enum)]
    pub(crate) what: GetWhat,
    /// The instance: its name, or the path of its control socket; the one that
    /// runs without it. With `changes`: the composition
    #[arg(value_name = "NAME")]
    pub(crate) instance: Option<String>,
    #[command(flatten)]
    pub(crate) at: super::At,
    /// How they are printed
    #[arg(long, value_enum, default_value_t)]
    pub(crate) output: Format,
}

#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Runtimes that start, are ready, drain, end or die; units that are moved; agents of hosts; and, after a
death, when every unit had its owner and replica again. docs/hosts.md lists the kinds. The newest 1,000
are kept. What functions say of flows is in the file of `--events`.

Examples:
  weir events
  weir events edge --follow --output json | jq 'select(.kind == \"runtime_died\")'")]
pub(crate) struct Events {
    /// The instance: its name, or the path of its control socket; the one that
    /// runs without it
    #[arg(value_name = "NAME")]
    pub(crate) instance: Option<String>,
    /// Goes on with those to come, until it is stopped
    #[arg(long, short)]
    pub(crate) follow: bool,
    /// Only those with a greater number
    #[arg(long, value_name = "NUMBER", default_value_t = 0)]
    pub(crate) after: u64,
    /// How they are printed; as JSON each has a line
    #[arg(long, value_enum, default_value_t)]
    pub(crate) output: Format,
}

#[derive(Debug, ClapArgs)]
#[command(after_help = "\
`weir get runtimes` shows the numbers of runtimes, and `weir get moves` what is under way.

Examples:
  weir move 1 5 --count 100
  weir move 1 5 --mode reprocess --instance edge")]
pub(crate) struct Move {
    /// The runtime that gives units (flows, or all flows of a scope key)
    pub(crate) from: u32,
    /// The runtime that gets them
    pub(crate) to: u32,
    /// So many of each chain; all without it
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) count: Option<u32>,
    /// How their states come over (docs/handover.md)
    #[arg(long, value_enum, default_value_t)]
    pub(crate) mode: MoveBy,
    /// The instance: its name, or the path of its control socket; the one that
    /// runs without it
    #[arg(long, short, value_name = "NAME")]
    pub(crate) instance: Option<String>,
    /// How the answer is printed
    #[arg(long, value_enum, default_value_t)]
    pub(crate) output: Format,
}

#[derive(Debug, ClapArgs)]
#[command(after_help = "\
A runtime that is drained gives its flows to the others and ends; packets of each flow stay in order.
None takes its place until `weir scale` starts one there.

Exit codes: 0 all have ended; 1 one died before, or not in time.

Examples:
  weir drain 2
  weir drain --host beta
  weir drain 3 4 --timeout 10 --output json")]
pub(crate) struct Drain {
    /// The runtimes, as `weir get runtimes` shows their numbers
    #[arg(required_unless_present = "host", value_name = "RUNTIME")]
    pub(crate) runtimes: Vec<u32>,
    /// All runtimes on this host
    #[arg(long, value_name = "NAME", conflicts_with = "runtimes")]
    pub(crate) host: Option<String>,
    #[command(flatten)]
    pub(crate) how: Resizing,
}

#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Each runtime says the digest of what it has sent of a flow's state, and the one with the copy compares.
Packets flow meanwhile. A copy that differs, or lacks what was sent, is sent whole once more.

Exit codes: 0 all copies that could be compared are equal; 1 one is not, or did not answer; the error
says where nothing could be asked.

Examples:
  weir verify
  weir verify --instance edge --output json")]
pub(crate) struct Verify {
    /// How long the next answer is waited for, in seconds
    #[arg(long, value_name = "SECONDS", default_value = "5", value_parser = seconds)]
    pub(crate) timeout: std::time::Duration,
    #[command(flatten)]
    pub(crate) shown: Shown,
}

#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Agents become the program first, and keep their runtimes. Then each runtime's flows go to the others,
one of the program starts in its place, and they go back. Last the switch hands over. Give the command
again where it was broken off: it goes on.

Exit codes: 0 all processes are the program; 1 it was refused, or has stopped: the error says why.

Examples:
  weir upgrade --to ./weir --dry-run
  weir upgrade --to /usr/local/bin/weir
  weir upgrade --rollback")]
pub(crate) struct Upgrade {
    /// The program: a path that is the same on all hosts
    #[arg(long, value_name = "PATH", required_unless_present = "rollback")]
    pub(crate) to: Option<std::path::PathBuf>,
    /// The program before: of the switch, where the upgrade has reached it, else what it is
    #[arg(long, conflicts_with = "to")]
    pub(crate) rollback: bool,
    /// Say what each process would become, and change nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Also where states are written that the program before does not read
    #[arg(long)]
    pub(crate) no_way_back: bool,
    /// How long each step is waited for, in seconds
    #[arg(long, value_name = "SECONDS", default_value = "60", value_parser = seconds)]
    pub(crate) timeout: std::time::Duration,
    #[command(flatten)]
    pub(crate) shown: Shown,
}

#[derive(Debug, ClapArgs)]
#[command(after_help = "\
More runtimes start at the places that are free, on the hosts in turn; the first flows that they get
are new ones (`weir move` gives them others). Fewer: those of the last places are drained.

Exit codes: 0 so many run; 1 one did not start, died, or took too long.

Examples:
  weir scale 4
  weir scale 1 --instance edge")]
pub(crate) struct Scale {
    /// How many run in the end
    #[arg(value_parser = clap::value_parser!(u32).range(1..=i64::from(weir_graph::MOST_RUNTIMES)))]
    pub(crate) runtimes: u32,
    #[command(flatten)]
    pub(crate) how: Resizing,
}

#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Nothing changes: the instance reads the files, builds the functions and compares them with those that run.

Exit codes: 0 `weir reload` would do it, or nothing has changed; 1 the instance can't be asked, or takes
no other file the way it runs; 3 the file is wrong, or has a change that takes a restart.

Examples:
  weir diff
  weir diff new.yaml --instance edge
  weir diff edge-cluster.yaml --coordinator 10.0.9.9:4780")]
pub(crate) struct Diff {
    /// Chain file, the instance's own without it; or a composition: a coordinator is asked then, as by
    /// `weir apply --dry-run`
    pub(crate) file: Option<std::path::PathBuf>,
    #[command(flatten)]
    pub(crate) at: super::At,
    /// The instance: its name, or the path of its control socket; the one that
    /// runs without it
    #[arg(long, short, value_name = "NAME")]
    pub(crate) instance: Option<String>,
    /// How the answer is printed
    #[arg(long, value_enum, default_value_t)]
    pub(crate) output: Format,
}

#[derive(Debug, ClapArgs)]
#[command(after_help = "\
The instance reads its chain file and the texts that this names again and builds the functions while
packets flow on by the old ones. Then each engine takes those that have changed, between two bursts.
A file that is wrong, or has a change that takes a restart, leaves all as it was. SIGHUP does the same
(docs/reload.md).

Exit codes: 0 it runs by the file; 1 the instance can't be asked, or takes no other file the way it
runs; 3 the file is wrong, or has a change that takes a restart.

Examples:
  weir reload
  weir reload edge --output json")]
pub(crate) struct Reload {
    /// The instance: its name, or the path of its control socket; the one that
    /// runs without it
    pub(crate) name: Option<String>,
    /// The same
    #[arg(long, short, value_name = "NAME", conflicts_with = "name")]
    pub(crate) instance: Option<String>,
    /// How the answer is printed
    #[arg(long, value_enum, default_value_t)]
    pub(crate) output: Format,
}

/// What `drain` and `scale` have in common.
#[derive(Debug, ClapArgs)]
pub(crate) struct Resizing {
    /// How states come over (docs/handover.md)
    #[arg(long, value_enum, default_value_t)]
    pub(crate) mode: MoveBy,
    /// How long it is waited for, in seconds; with 0 not at all
    #[arg(long, value_name = "SECONDS", default_value = "60", value_parser = seconds)]
    pub(crate) timeout: std::time::Duration,
    #[command(flatten)]
    pub(crate) shown: Shown,
}

/// Whom a command of some length asks, and how it shows what comes of it.
#[derive(Debug, ClapArgs)]
pub(crate) struct Shown {
    /// The instance: its name, or the path of its control socket; the one that
    /// runs without it
    #[arg(long, short, value_name = "NAME")]
    pub(crate) instance: Option<String>,
    /// How the answer is printed
    #[arg(long, value_enum, default_value_t)]
    pub(crate) output: Format,
    /// Show no progress
    #[arg(long, short)]
    pub(crate) quiet: bool,
}

/// How states come over.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum MoveBy {
    /// The source sends them as soon as it can
    #[default]
    Push,
    /// The target asks first
    Pull,
    /// An early snapshot, then copies of packets
    Reprocess,
}

/// Parts of a cluster that can be listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum GetWhat {
    /// Which of several leads, and why the others can't be asked
    Coordinators,
    /// Of a coordinator: how each stands
    Compositions,
    /// Of a coordinator: the hosts whose agents it knows
    Machines,
    /// Of a coordinator: what has happened lately, or to one composition
    Changes,
    /// Where each is, its process and state, its units and replicas
    Runtimes,
    /// Their agents, and what is on them
    Hosts,
    /// By chain and runtime: second copies, and units that have none
    Replicas,
    /// By chain: moves under way and done, and how long they took
    Moves,
    /// How their number follows their load, and what was done lately and why
    Scaling,
    /// How flows are given to them by flowlet, and their loads
    Flowlets,
    /// Which program each process runs
    Programs,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct List {
    /// How the list is printed
    #[arg(long, value_enum, default_value_t)]
    pub(crate) output: Format,
}
