//! The command line.

mod again;
mod agent;
#[cfg(feature = "control")]
mod ask;
#[cfg(feature = "control")]
mod bill;
#[cfg(feature = "control")]
mod coordinator;
mod flowlets;
mod format;
mod hosts;
mod ids;
mod man;
mod nf;
mod pairs;
#[cfg(feature = "control")]
mod pki;
mod scaling;
mod seconds;
#[cfg(feature = "control")]
mod set;
#[cfg(feature = "simulator")]
mod sim;
mod tenants;
mod up;
mod version;

use std::path::PathBuf;

use clap::{Args as ClapArgs, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;
use weir_ctl::hosts::Hosts;
use weir_graph::compile::{Mode, Passes};
use weir_graph::{Override, Threads};
use weir_protocol::Key;
use weir_protocol::settings::{Dispatch, Replication};

use crate::dead::Dead;
use crate::driver::Pace;
use crate::driver::live::Speed;
use crate::mark::Mark;

#[cfg(feature = "terminal")]
pub(crate) use ask::Top;
#[cfg(feature = "control")]
pub(crate) use ask::{
    Diff, Drain, Drops, EndFlows, Events, Flows, FlowsCommand, Get, GetWhat, List, Move, MoveBy,
    Reload, Resizing, Scale, ShowFlow, SortFlows, Stats, Upgrade, Verify,
};
#[cfg(feature = "control")]
pub(crate) use pki::{Pki, PkiCommand, PkiInit, PkiIssue, PkiShow, days};
#[cfg(feature = "control")]
pub(crate) use set::{Entries, ListEntries, Set, SetCommand};
#[cfg(feature = "simulator")]
pub(crate) use sim::Sim;

pub(crate) use again::Again;
pub(crate) use agent::Agent;
#[cfg(feature = "control")]
pub(crate) use bill::{Bill, BillFormat, time_of};
#[cfg(feature = "control")]
pub(crate) use coordinator::{Apply, At, Coordinated, Coordinator, Delete, Describe};
pub(crate) use flowlets::FlowletsBy;
pub(crate) use format::Format;
pub(crate) use hosts::{Host, Loggers};
pub(crate) use ids::{Ids, IdsCheck, IdsCommand, IdsProfile, IdsRules, ProfileOrder};
pub(crate) use man::Man;
pub(crate) use nf::{Nf, NfCommand, NfList, NfNew, NfShow};
pub(crate) use scaling::ScalingBy;
use seconds::seconds;
pub(crate) use tenants::TenantBy;
pub(crate) use up::Up;
pub(crate) use version::Version;

/// The hidden command that a stage's process is started with.
pub(crate) const ENGINE_PROCESS: &str = "engine-process";

/// Stateful network functions that can be moved, copied, upgraded and crashed
/// while traffic flows.
#[derive(Debug, Parser)]
#[command(name = "weir", version, after_help = crate::exit::HELP)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run packets through a chain
    Run(Box<Run>),
    #[cfg(feature = "control")]
    /// What a running weir has counted
    Stats(Stats),
    /// What a running weir does, live on the terminal
    #[cfg(feature = "terminal")]
    Top(Top),
    #[cfg(feature = "control")]
    /// The open flows of a running weir: list them, show one, end some
    Flows(Flows),
    #[cfg(feature = "control")]
    /// Why a running weir dropped packets
    Drops(Drops),
    /// Run a whole cluster on this machine, from one file
    Up(Up),
    #[cfg(feature = "control")]
    /// Runtimes, hosts, replicas or moves of a running cluster
    Get(Get),
    #[cfg(feature = "control")]
    /// What tenants have used, and what it costs
    Bill(Bill),
    #[cfg(feature = "control")]
    /// Events of runtimes and hosts of a running cluster: deaths, recoveries, drains, moves
    Events(Events),
    #[cfg(feature = "control")]
    /// Move units from one runtime of a running cluster to another
    Move(Move),
    #[cfg(feature = "control")]
    /// Take runtimes of a running cluster out: their flows go to the others
    Drain(Drain),
    #[cfg(feature = "control")]
    /// Change the number of runtimes of a running cluster
    Scale(Scale),
    #[cfg(feature = "control")]
    /// Compare the copies of states in a running cluster with what they are copies of
    Verify(Verify),
    #[cfg(feature = "control")]
    /// Change the program of all processes of a running cluster, with all flows
    Upgrade(Upgrade),
    /// Start runtimes on this host for switches on others, or all that a coordinator says
    Agent(Agent),
    #[cfg(feature = "control")]
    #[command(flatten)]
    Coordinated(Coordinated),
    #[cfg(feature = "control")]
    /// What a changed chain file would change in a running weir
    Diff(Diff),
    #[cfg(feature = "control")]
    /// Have a running weir take its changed chain file, without touching a flow
    Reload(Reload),
    #[cfg(feature = "control")]
    /// Sets of addresses of a running weir: add and remove entries, list them
    Set(Set),
    #[cfg(feature = "control")]
    /// The instances of weir that run
    List(List),
    /// Check a chain file or a composition and say what it will do
    Check(Check),
    /// Look whether this machine is fit for packets, and say what mends it
    Doctor(Doctor),
    /// Show what the compiler makes of a chain, and why
    Plan(ShowPlan),
    /// The network functions: list them, show one's manual, start a new one
    Nf(Nf),
    /// Rules of the function `ids`: check files
    Ids(Ids),
    #[cfg(feature = "control")]
    /// Certificates of a cluster: make its authority, issue, renew and show them
    Pki(Pki),
    /// Print the JSON Schema of chain files, compositions, scripts or templates
    Schema(Schema),
    /// Write generated traffic to a capture file
    Gen(Gen),
    /// Follow packets through the chain, function by function
    Trace(Trace),
    /// Copy packets at a point, as a capture on standard output
    Tap(Tap),
    #[cfg(feature = "simulator")]
    /// Run the protocol as a cluster under virtual time and check its invariants
    Sim(Sim),
    #[cfg(not(feature = "control"))]
    #[command(name = "stats", aliases = ["top", "flows", "drops", "list", "get", "events", "move", "drain", "scale", "upgrade", "diff", "reload", "set", "coordinator", "apply", "describe", "delete", "pki"], hide = true)]
    WithoutControl(Absent),
    #[cfg(not(feature = "simulator"))]
    #[command(name = "sim", hide = true)]
    WithoutSimulator(Absent),
    /// Say what this program is, and what it works with
    Version(Version),
    /// Print a completion script for a shell
    Completion(Completion),
    /// Write the manual pages
    Man(Man),
    /// An engine of a run, for the process that started this one
    #[command(name = ENGINE_PROCESS, hide = true)]
    EngineProcess(EngineArgs),
}

#[derive(Clone, Debug, ClapArgs)]
#[command(after_help = "\
Ports:
  PATH.pcap, PATH.pcapng   a capture file (others by their content); `-` is standard input
  gen:KEY=VALUE,…          the traffic generator, as in `gen:flows=1000,packets=100000,size=imix`
  null                     nothing in, nothing out
  af-packet:IFACE          an interface, by a packet socket
  xdp:IFACE[:QUEUES]       an interface, by XDP sockets; `:native` or `:generic` asks for a mode
  tap:NAME                 a TAP interface, made if it is not there
  emu(KEY=VALUE,…):PORT    an interface or a capture behind an emulated link, as in
                           `emu(loss=1%,delay=20ms,jitter=5ms,rate=100Mbit):xdp:eth1`
An interface is both in and out on its side, wherever it is named: with one on each
side packets go both ways, until SIGINT or SIGTERM comes or the time of --for is over.
A port is given a name of the chain's ports as NAME=PORT; without one it is the
chain's first port on the inside (--in) or outside (--out). The summary goes to
standard error where packets or events go to standard output.

Examples:
  weir run examples/monitor.yaml --in capture.pcap
  weir run examples/edge.yaml --in capture.pcap --out edge.pcapng --events events.json
  weir run examples/nat.yaml --in gen:flows=1000 --out null --output json
  weir run examples/http.yaml --in gen:flows=1000 --runtimes 2 --script moves.yaml
  weir run examples/bump.yaml --in xdp:eth1 --out xdp:eth2 --for 60
  weir run examples/nat.yaml --in gen:flows=1000 --out xdp:eth1 --pace 10x")]
pub(crate) struct Run {
    /// Chain file
    pub(crate) chain: PathBuf,
    /// Where packets come from; several are merged by time
    #[arg(long = "in", value_name = "[NAME=]PORT", required = true)]
    pub(crate) input: Vec<String>,
    /// Where packets go; nowhere without it
    #[arg(long = "out", value_name = "[NAME=]PORT")]
    pub(crate) out: Vec<String>,
    /// Append events as JSON lines (Suricata's EVE field names) to a file; `-` is
    /// standard output, `unix:PATH` a Unix socket, `ipfix:udp:HOST[:PORT]` and
    /// `syslog:udp:HOST[:PORT]` a collector (`tcp`, too). SIGHUP opens it again. Several targets
    /// get all events each
    #[arg(long, value_name = "TARGET")]
    pub(crate) events: Vec<PathBuf>,
    /// With interfaces: end after so many seconds
    #[arg(long = "for", value_name = "SECONDS", value_parser = seconds)]
    pub(crate) duration: Option<std::time::Duration>,
    /// With interfaces: how fast captures and the generator are played, as
    /// `1x` (by the times of their packets), `10x`, or `full`
    #[arg(long, value_name = "SPEED", default_value = "1x")]
    pub(crate) pace: Speed,
    /// Another process of weir started this one, and waits at its standard input
    #[arg(long, hide = true)]
    pub(crate) guarded: bool,
    /// Override a setting, as `firewall.default=drop` or `flows.max=1000`
    #[arg(long = "set", value_name = "NF.KEY=VALUE")]
    pub(crate) set: Vec<Override>,
    /// Folder with templates that the chain may name, beside `templates/` where
    /// the chain file is
    #[arg(long, value_name = "FOLDER")]
    pub(crate) templates: Vec<PathBuf>,
    /// Seed of hashes and random numbers; a random one without it
    #[arg(long)]
    pub(crate) seed: Option<u64>,
    /// Runtimes, each on a thread of its own, behind a switch; without it the
    /// chain runs on one thread, with no switch
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=i64::from(weir_graph::MOST_RUNTIMES)))]
    pub(crate) runtimes: Option<u32>,
    /// With --runtimes: how many of them there may be at a time, so that `weir scale` can start
    /// more; as many as at the start without it
    #[arg(long, value_name = "N", requires = "runtimes", conflicts_with = "workers", value_parser = clap::value_parser!(u32).range(1..=i64::from(weir_graph::MOST_RUNTIMES)))]
    pub(crate) most_runtimes: Option<u32>,
    /// With --runtimes: as many of them as their load asks for, from MIN to MAX; `weir get scaling`
    /// says what was done, and why. As `1-4,interval=500ms,cool-down=5s`; docs/scaling.md has all
    /// settings
    #[arg(long, value_name = "MIN-MAX", requires = "runtimes", conflicts_with_all = ["workers", "script"])]
    pub(crate) scaling: Option<ScalingBy>,
    /// Workers, each on a thread of its own with the flows that are steered to
    /// it; a switch steers where functions keep more together than two hosts
    #[arg(long, value_name = "N", conflicts_with = "runtimes", value_parser = clap::value_parser!(u32).range(1..=i64::from(weir_graph::MOST_RUNTIMES)))]
    pub(crate) workers: Option<u32>,
    /// Timed commands: move flows, drain, add and remove runtimes
    #[arg(long, value_name = "FILE", requires = "runtimes")]
    pub(crate) script: Option<PathBuf>,
    /// How the chain is cut into stages: `rtc` runs each packet to completion
    /// on one core, `pipeline` has a stage per core (per function without
    /// --cores), `auto` does what promises to gain; else as the chain file says
    #[arg(long, value_name = "PLAN")]
    pub(crate) plan: Option<Mode>,
    /// Passes of the compiler that are on: `all`, `none`, or some of
    /// `consolidate`, `hoist` and `parallel`, joined by commas
    #[arg(long, value_name = "LIST")]
    pub(crate) passes: Option<Passes>,
    /// The summary (--output json) of an earlier run, for the compiler to know
    /// what functions cost
    #[arg(long, value_name = "FILE")]
    pub(crate) costs: Option<PathBuf>,
    /// Compares what functions do with what they say of themselves, packet by
    /// packet, and names those that lie; for trying out: it is slow
    #[arg(long)]
    pub(crate) audit: bool,
    /// Writes down who has each frame of packet memory, and names who had last
    /// what is not given back, or given back twice; for finding faults of weir
    #[arg(long, conflicts_with_all = ["runtimes", "workers", "processes"])]
    pub(crate) frame_check: bool,
    /// Bursts after which a stage of a pipeline gives way to others on its
    /// core; 0 for never while it has work
    #[arg(long, value_name = "K", default_value_t = Pace::default().yield_after)]
    pub(crate) yield_after: u32,
    /// Packets that a stage of a pipeline fetches into the cache before their
    /// turn; 0 for none
    #[arg(long, value_name = "K", default_value_t = Pace::default().prefetch as u16, value_parser = clap::value_parser!(u16).range(0..=256))]
    pub(crate) prefetch: u16,
    /// Never sleep: threads look for packets all the time, and drivers of
    /// XDP ports are asked to be polled instead of interrupting; without it as
    /// the chain file's `threads` says, which `--busy-poll=false` puts aside
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub(crate) busy_poll: Option<bool>,
    /// With interfaces: threads that move packets run before all others of their
    /// cores, also before those of the kernel's that bring packets (`SCHED_FIFO`);
    /// without it as the chain file's `threads` says, which `--first=false` puts aside
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub(crate) first: Option<bool>,
    /// Each stage of a plan after the first, or with --runtimes each runtime, in a
    /// process of its own, on packet memory that all of them have; one that dies is
    /// started again
    #[arg(long, conflicts_with = "workers")]
    pub(crate) processes: bool,
    /// Cores of the threads, as `0,1,2`: of a plan's stages; with --runtimes or
    /// --workers the switch or the ports on the first, the others in turn;
    /// without it as the chain file says
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = core)]
    pub(crate) cores: Vec<usize>,
    /// Which node runs on which thread of which process: a file as `weir plan
    /// --placement --output json` writes it. It stands for --runtimes, --workers
    /// and --processes; without it weir chooses
    #[arg(long, value_name = "FILE", conflicts_with_all = ["runtimes", "workers", "processes", "cores"])]
    pub(crate) placement: Option<PathBuf>,
    /// What it says, once it was read
    #[arg(skip)]
    pub(crate) placed: Option<weir_exec::Placement>,
    /// How new flows are given to runtimes
    #[arg(long, value_enum, default_value_t, requires = "runtimes")]
    pub(crate) dispatch: DispatchBy,
    /// With --runtimes: gives flows to runtimes anew at each flowlet, by load, as
    /// `gap=500us,capacity=1Gbit`; docs/elasticity.md has all settings
    #[arg(long, value_name = "KEY=VALUE,…", requires = "runtimes", conflicts_with = "dispatch", num_args = 0..=1, require_equals = true, default_missing_value = "")]
    pub(crate) flowlets: Option<FlowletsBy>,
    /// With --runtimes: what a tenant of the chain file may have, as
    /// `NAME:rate=100Mbit,packets=20000,burst=100ms,weight=2`; docs/tenants.md says all
    #[arg(
        long = "tenant",
        value_name = "NAME:KEY=VALUE,…",
        requires = "runtimes"
    )]
    pub(crate) tenants: Vec<TenantBy>,
    /// The tenant of chains that name none
    #[arg(skip)]
    pub(crate) tenant: Option<String>,
    /// With runtimes behind a switch: when a second one has the state of a flow, so that the
    /// flow survives the death of the first. `each-burst`: before what a packet caused
    /// leaves; `every-N`: each N packets, and the switch keeps the packets since; `none`
    #[arg(long, value_name = "WHEN", conflicts_with = "workers")]
    pub(crate) replication: Option<Replication>,
    /// With --replication: loggers, which keep copies of the states of all runtimes and run no
    /// packets: how many there are on this host, or a list like that of `--hosts`
    #[arg(long, value_name = "N|LIST", requires_all = ["runtimes", "replication"], conflicts_with = "workers")]
    pub(crate) loggers: Option<Loggers>,
    /// With runtimes behind a switch: the hosts that they run on, in turn: `local`, or the
    /// ADDRESS:PORT of an agent (`weir agent`)
    #[arg(long, value_name = "LIST", value_delimiter = ',', requires_all = ["runtimes", "key"], conflicts_with_all = ["processes", "placement"])]
    pub(crate) hosts: Vec<Host>,
    /// File with the key that this host shares with its agents: 32 hexadecimal digits
    #[arg(long, value_name = "FILE", requires = "hosts")]
    pub(crate) key: Option<PathBuf>,
    /// Milliseconds between two heartbeats of a link to another host; four that are missing
    /// make a runtime suspect
    #[arg(long, value_name = "MS", default_value_t = 20, requires = "hosts", value_parser = clap::value_parser!(u64).range(1..=10_000))]
    pub(crate) heartbeat: u64,
    /// Several hosts have a switch of this name, each with this: one runs, as most agents say, and
    /// the others stand by and take over where it is gone. `--hosts` names agents on three hosts
    /// or more
    #[arg(long, requires = "hosts")]
    pub(crate) standby: bool,
    /// With `--standby`: more agents that are asked which switch runs, as ADDRESS:PORT. They have no
    /// runtimes of this run
    #[arg(long, value_name = "LIST", value_delimiter = ',', requires = "standby")]
    pub(crate) witnesses: Vec<std::net::SocketAddr>,
    /// Hosts that `weir up` has started for this run, and their key
    #[arg(skip)]
    pub(crate) raised: Option<Raised>,
    /// The place of the switch, as `--standby` has got it
    #[arg(skip)]
    pub(crate) lease: Option<crate::driver::Lease>,
    /// What it takes to load its chain file again
    #[arg(skip)]
    pub(crate) again: Option<Again>,
    /// Events of its runtimes and hosts
    #[arg(skip)]
    pub(crate) happened: weir_ctl::events::Events,
    /// With `--runtimes`: folder of the ledger that `weir bill` reads. Without it what was used is known
    /// as long as the run lasts (docs/billing.md)
    #[arg(long, value_name = "FOLDER", requires = "runtimes")]
    pub(crate) ledger: Option<PathBuf>,
    /// What it is billed by
    #[arg(skip)]
    pub(crate) billing: Option<crate::billing::Billing>,
    /// With interfaces: run in spite of what `weir doctor` calls a problem
    #[arg(long)]
    pub(crate) force: bool,
    /// Name of this instance, by which `weir stats` and others find it; the
    /// chain file's without it
    #[arg(long)]
    pub(crate) name: Option<String>,
    /// Path of the control socket, or `none`; without it a run with interfaces
    /// has one by its name, and other runs have one if they are given a name
    #[arg(long, value_name = "PATH", conflicts_with = "name")]
    pub(crate) control: Option<PathBuf>,
    /// Address on which Prometheus finds metrics, as 127.0.0.1:9100; none
    /// without it
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) metrics: Option<std::net::SocketAddr>,
    /// How the summary is printed
    #[arg(long, value_enum, default_value_t)]
    pub(crate) output: Format,
    /// No progress on standard error
    #[arg(long, short)]
    pub(crate) quiet: bool,
}

impl Run {
    /// The same with what the chain file says of threads, where the command
    /// line says nothing.
    pub(crate) fn with(&self, threads: &Threads) -> Run {
        let mut run = self.clone();
        if run.cores.is_empty() {
            run.cores.clone_from(&threads.cores);
        }
        run.busy_poll = run.busy_poll.or(Some(threads.busy_poll));
        run.first = run.first.or(Some(threads.first));
        run
    }

    /// Whether threads go before all others.
    pub(crate) fn goes_first(&self) -> bool {
        self.first.unwrap_or_default()
    }

    /// Whether threads never sleep.
    pub(crate) fn never_sleeps(&self) -> bool {
        self.busy_poll.unwrap_or_default()
    }
}

/// The hosts that `weir up` has started.
#[derive(Clone, Debug)]
pub(crate) struct Raised {
    /// The key that this run shares with its agents.
    pub(crate) key: Key,
    /// As they stand.
    pub(crate) hosts: Hosts,
    /// Number of input packets that this switch and those before it have taken.
    pub(crate) mark: Mark,
    /// A number that no other switch has, and that of the one before, which is dead.
    pub(crate) start: u32,
    pub(crate) before: Option<u32>,
    /// Name of this switch's host.
    pub(crate) host: String,
    /// The number of one that dies while this one stands by.
    pub(crate) dead: Dead,
}

/// The words of a command that this program was built without.
#[cfg(not(all(feature = "control", feature = "simulator")))]
#[derive(Debug, ClapArgs)]
#[command(disable_help_flag = true)]
pub(crate) struct Absent {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    words: Vec<std::ffi::OsString>,
}

/// Arguments and descriptors of an engine's process.
#[derive(Debug, ClapArgs)]
pub(crate) struct EngineArgs {
    /// The arguments of the run
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, required = true)]
    pub(crate) run: Vec<std::ffi::OsString>,
}

/// How a switch gives new flows to runtimes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum DispatchBy {
    /// In turn
    #[default]
    RoundRobin,
    /// To the one with the fewest
    LeastLoaded,
    /// By a hash of the flow's key
    Hash,
}

impl From<DispatchBy> for Dispatch {
    fn from(by: DispatchBy) -> Dispatch {
        match by {
            DispatchBy::RoundRobin => Dispatch::RoundRobin,
            DispatchBy::LeastLoaded => Dispatch::LeastLoaded,
            DispatchBy::Hash => Dispatch::Hash,
        }
    }
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Schema {
    /// Of what
    #[arg(value_enum, default_value_t)]
    pub(crate) of: SchemaOf,
    /// Folder with templates of your own
    #[arg(long, value_name = "FOLDER")]
    pub(crate) templates: Vec<PathBuf>,
}

/// What a schema describes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum SchemaOf {
    /// Chain files
    #[default]
    Chain,
    /// Scripts for `weir run --script`
    Script,
    /// Templates
    Template,
    /// Compositions for `weir up`
    Composition,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Check {
    /// Chain file, or a composition for `weir up`
    pub(crate) chain: PathBuf,
    /// Override a setting, as `firewall.default=drop`
    #[arg(long = "set", value_name = "NF.KEY=VALUE")]
    pub(crate) set: Vec<Override>,
    /// Folder with templates that the chain may name, beside `templates/` where
    /// the chain file is
    #[arg(long, value_name = "FOLDER")]
    pub(crate) templates: Vec<PathBuf>,
    /// How the result is printed
    #[arg(long, value_enum, default_value_t)]
    pub(crate) output: Format,
}

#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Examples:
  weir plan examples/office.yaml
  weir plan examples/office.yaml --plan pipeline --cores 0,1 --explain waf
  weir plan examples/office.yaml --output svg > office.svg
  weir plan examples/office.yaml --output dot | dot -Tpdf > office.pdf")]
pub(crate) struct ShowPlan {
    /// Chain file
    pub(crate) chain: PathBuf,
    /// The chain of this name only
    #[arg(long = "chain", value_name = "NAME")]
    pub(crate) only: Option<String>,
    /// What became of one NF or processor, and why
    #[arg(long, value_name = "NF")]
    pub(crate) explain: Option<String>,
    /// Override a setting, as `firewall.default=drop`
    #[arg(long = "set", value_name = "NF.KEY=VALUE")]
    pub(crate) set: Vec<Override>,
    /// Folder with templates that the chain may name, beside `templates/` where
    /// the chain file is
    #[arg(long, value_name = "FOLDER")]
    pub(crate) templates: Vec<PathBuf>,
    /// How the chain is cut into stages, as in `weir run`
    #[arg(long, value_name = "PLAN")]
    pub(crate) plan: Option<Mode>,
    /// Passes of the compiler that are on, as in `weir run`
    #[arg(long, value_name = "LIST")]
    pub(crate) passes: Option<Passes>,
    /// The summary (--output json) of an earlier run, for the compiler to know
    /// what functions cost
    #[arg(long, value_name = "FILE")]
    pub(crate) costs: Option<PathBuf>,
    /// Cores that stages may have, as `0,1,2`
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = core)]
    pub(crate) cores: Vec<usize>,
    /// Which node would run on which thread of which process, and why, instead of
    /// the plan; `--output json` is what `weir run --placement` takes
    #[arg(long, conflicts_with_all = ["only", "explain"])]
    pub(crate) placement: bool,
    /// With --placement: as in `weir run`
    #[arg(long, value_name = "N", requires = "placement", value_parser = clap::value_parser!(u32).range(1..=i64::from(weir_graph::MOST_RUNTIMES)))]
    pub(crate) runtimes: Option<u32>,
    /// With --placement: as in `weir run`
    #[arg(long, value_name = "N", requires = "placement", conflicts_with = "runtimes", value_parser = clap::value_parser!(u32).range(1..=i64::from(weir_graph::MOST_RUNTIMES)))]
    pub(crate) workers: Option<u32>,
    /// With --placement: as in `weir run`
    #[arg(long, requires = "placement", conflicts_with = "workers")]
    pub(crate) processes: bool,
    /// How the plan is printed
    #[arg(long, value_enum, default_value_t)]
    pub(crate) output: PlanFormat,
}

/// The number of a core.
fn core(text: &str) -> Result<usize, String> {
    let wrong = |_| "expected a LIST of numbers such as 0,1,2".to_owned();
    text.parse().map_err(wrong)
}

/// How a plan is printed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum PlanFormat {
    /// For people
    #[default]
    Text,
    /// For programs
    Json,
    /// For Graphviz
    Dot,
    /// As a picture
    Svg,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Gen {
    /// What to generate, as `flows=1000,packets=100000,size=imix`
    #[arg(value_name = "KEY=VALUE,…", default_value = "")]
    pub(crate) spec: String,
    /// Capture file to write: PATH.pcap or PATH.pcapng
    #[arg(long)]
    pub(crate) out: String,
    /// How the summary is printed
    #[arg(long, value_enum, default_value_t)]
    pub(crate) output: Format,
}

/// Captures to look on at, instead of a running weir.
#[derive(Debug, Default, ClapArgs)]
pub(crate) struct Captures {
    /// Take packets through CHAIN from here, instead of those of a running weir:
    /// captures or the generator, as in `weir run`; they go nowhere
    #[arg(long = "in", value_name = "[NAME=]PORT")]
    pub(crate) input: Vec<String>,
    /// With --in: override a setting, as `firewall.default=drop`
    #[arg(long = "set", value_name = "NF.KEY=VALUE", requires = "input")]
    pub(crate) set: Vec<String>,
    /// With --in: folder with templates that the chain may name
    #[arg(long, value_name = "FOLDER", requires = "input")]
    pub(crate) templates: Vec<PathBuf>,
    /// With --in: seed of hashes and random numbers; a random one without it
    #[arg(long, requires = "input")]
    pub(crate) seed: Option<u64>,
    /// With --in: how the chain is cut into stages, as in `weir run`
    #[arg(long, value_name = "PLAN", requires = "input")]
    pub(crate) plan: Option<String>,
    /// With --in: passes of the compiler that are on, as in `weir run`
    #[arg(long, value_name = "LIST", requires = "input")]
    pub(crate) passes: Option<String>,
    /// With --in: runtimes behind a switch, as in `weir run`
    #[arg(long, value_name = "N", requires = "input")]
    pub(crate) runtimes: Option<String>,
    /// With --in: workers, as in `weir run`
    #[arg(
        long,
        value_name = "N",
        requires = "input",
        conflicts_with = "runtimes"
    )]
    pub(crate) workers: Option<String>,
}

#[derive(Debug, ClapArgs)]
#[command(
    override_usage = "weir trace [OPTIONS] [NAME] [FILTER]\n       weir trace [OPTIONS] CHAIN [FILTER] --in [NAME=]PORT",
    after_help = "\
A packet matches FILTER (docs/filter.md) under its own addresses or under those of its
flow, so `host 10.0.0.2` also matches what comes back to its translated address.
Without FILTER all packets match. docs/tracing.md explains what is printed.

Examples:
  weir trace 'host 10.0.0.2 and tcp port 80' -n 3
  weir trace edge 'tcp port 80' --flow -n 20 --output json
  weir trace examples/edge.yaml --in lan=examples/captures/edge-inside.pcap 'tcp port 80'"
)]
pub(crate) struct Trace {
    /// Name of the running weir, if several run (with --in the chain file), and
    /// which packets
    #[arg(value_name = "NAME|CHAIN] [FILTER", num_args = 0..=2)]
    pub(crate) words: Vec<String>,
    /// How many packets
    #[arg(short = 'n', long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) packets: u32,
    /// The first packet that matches, and then all of its flow, both ways
    #[arg(long)]
    pub(crate) flow: bool,
    /// All headers, all that functions remember, and cycles
    #[arg(long)]
    pub(crate) full: bool,
    /// End after so many seconds, whatever was seen
    #[arg(long, value_name = "SECONDS", value_parser = seconds, conflicts_with = "input")]
    pub(crate) timeout: Option<std::time::Duration>,
    #[command(flatten)]
    pub(crate) captures: Captures,
    /// How packets are printed; JSON is one object a line
    #[arg(long, value_enum, default_value_t)]
    pub(crate) output: Format,
}

#[derive(Debug, ClapArgs)]
#[command(
    override_usage = "weir tap [OPTIONS] [NAME] POINT [FILTER]\n       weir tap [OPTIONS] CHAIN POINT [FILTER] --in [NAME=]PORT",
    after_help = "\
Points:
  PORT, PORT.in, PORT.out   what comes from a port of the chain, leaves towards its side
  NF, NF.in, NF.out         what comes to a function, what it sends on or makes
  drops, drops:REASON       what is dropped; REASON may be a function's name, or `malformed`
Standard output is a pcapng capture. A reader that is too slow loses packets, counted in
the capture and at the end; weir waits for none.

Examples:
  weir tap drops | wireshark -k -i -
  weir tap edge nat44 'host 10.0.0.2' > nat.pcapng
  weir tap examples/edge.yaml drops --in examples/captures/edge-inside.pcap | tshark -r -"
)]
pub(crate) struct Tap {
    /// Name of the running weir, if several run (with --in the chain file); the
    /// point; and which packets
    #[arg(value_name = "NAME|CHAIN] POINT [FILTER", num_args = 1..=3, required = true)]
    pub(crate) words: Vec<String>,
    /// End after so many packets
    #[arg(short = 'n', long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) packets: Option<u64>,
    /// Bytes of each packet
    #[arg(long, value_name = "BYTES", default_value_t = 262_144, value_parser = clap::value_parser!(u32).range(1..=262_144))]
    pub(crate) snap_len: u32,
    #[command(flatten)]
    pub(crate) captures: Captures,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Completion {
    /// The shell
    #[arg(value_enum)]
    pub(crate) shell: Shell,
}

#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Without ports it looks at the machine as a whole, with the ports of a run at what that
run needs; the chain may be left out. It changes nothing, but with --try.

The exit code is 1 where there is a problem, with --strict also for a warning.

Examples:
  weir doctor
  weir doctor examples/bump.yaml --in xdp:eth1 --out xdp:eth2
  weir doctor --in af-packet:eth1 --output json")]
pub(crate) struct Doctor {
    /// Chain file of a run
    pub(crate) chain: Option<PathBuf>,
    /// Where its packets come from, as of `weir run`
    #[arg(long = "in", value_name = "[NAME=]PORT")]
    pub(crate) input: Vec<String>,
    /// Where its packets go, as of `weir run`
    #[arg(long = "out", value_name = "[NAME=]PORT")]
    pub(crate) out: Vec<String>,
    /// Cores of its threads, as `0,1,2`
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = core)]
    pub(crate) cores: Vec<usize>,
    /// Override a setting of the chain
    #[arg(long = "set", value_name = "NF.KEY=VALUE")]
    pub(crate) set: Vec<Override>,
    /// Folder with templates that the chain may name
    #[arg(long, value_name = "FOLDER")]
    pub(crate) templates: Vec<PathBuf>,
    /// Opens XDP sockets for a moment, to see which mode an interface gives;
    /// packets that come meanwhile are lost, and some cards start anew
    #[arg(long = "try")]
    pub(crate) attempt: bool,
    /// Exits with 1 for warnings, too
    #[arg(long)]
    pub(crate) strict: bool,
    /// How findings are printed
    #[arg(long, value_enum, default_value_t)]
    pub(crate) output: Format,
}
