//! `weir sim`.

use clap::Args as ClapArgs;

use super::format::Format;
use super::seconds::seconds;

#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Exit codes: 0 all invariants held; 1 one did not (or, with --coverage, something was never
reached; or, with --plants, a planted bug was not found).

Examples:
  weir sim --seeds 100
  weir sim --seed 42 --faults crash,loss --replication each-burst --trace
  weir sim --seeds 2000 --coverage --jobs 2 --output json
  weir sim --plants
  weir sim --lease --seeds 10000")]
pub(crate) struct Sim {
    /// The first seed
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
    /// Seeds to run, from the first on
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) seeds: u64,
    /// Begins no seed after so many seconds
    #[arg(long = "for", value_name = "SECONDS", value_parser = seconds)]
    pub(crate) most: Option<std::time::Duration>,
    /// Faults that may come: `all`, `hostile`, `none`, or names joined by commas (docs/simulator.md)
    #[arg(long, default_value = "all")]
    pub(crate) faults: weir_sim::fault::Faults,
    /// Takes all of the faults in each seed, not a random part of them
    #[arg(long)]
    pub(crate) every_fault: bool,
    /// What stands between the switch and the runtimes: links, or ring: queues between
    /// threads, as in `weir run --runtimes` [default: drawn by each seed]
    #[arg(long, value_name = "MODE")]
    pub(crate) mode: Option<weir_sim::settings::Mode>,
    /// When replicas get the state; each seed draws it without it
    #[arg(long, value_name = "none|each-burst|every-N")]
    pub(crate) replication: Option<weir_protocol::settings::Replication>,
    /// Runtimes at the start
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=64))]
    pub(crate) runtimes: u32,
    /// Hosts that they run on; each seed draws it without it
    #[arg(long, value_parser = clap::value_parser!(u32).range(0..=64))]
    pub(crate) hosts: Option<u32>,
    /// Loggers at the start, which keep copies of all runtimes' units; each seed draws it
    /// without it
    #[arg(long, value_parser = clap::value_parser!(u32).range(0..=64))]
    pub(crate) loggers: Option<u32>,
    /// Processes send heartbeats, and silence is suspected: `true` or `false`; each seed draws it
    /// without it
    #[arg(long)]
    pub(crate) heartbeats: Option<bool>,
    /// The switch gives units out by flowlet (docs/elasticity.md): `true` or `false`; each seed
    /// draws it without it
    #[arg(long)]
    pub(crate) flowlets: Option<bool>,
    /// Copies are compared with what their owners sent, all the time (`weir verify`): `true` or
    /// `false`; each seed draws it without it
    #[arg(long)]
    pub(crate) compare: Option<bool>,
    /// Drains are taken back in the middle: `true` or `false`; each seed draws it without it
    #[arg(long)]
    pub(crate) take_back: Option<bool>,
    /// Flows
    #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(u32).range(1..=900))]
    pub(crate) flows: u32,
    /// Packets
    #[arg(long, default_value_t = 5_000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(crate) packets: u32,
    /// Owner changes that are asked for
    #[arg(long, default_value_t = 60, value_parser = clap::value_parser!(u32).range(0..=100_000))]
    pub(crate) moves: u32,
    /// The chain: count, web, nat, nat-short, nat-crowded, clients, inspect, emit or wander; each seed draws it without it
    #[arg(long)]
    pub(crate) chain: Option<String>,
    /// Chains behind the same runtimes, each with a switch of its own
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=8))]
    pub(crate) chains: u32,
    /// A capture whose packets take the generator's place
    #[arg(long = "in", value_name = "PORT")]
    pub(crate) input: Option<String>,
    /// Messages on links that lose nothing, frames without their wire form: faster
    #[arg(long)]
    pub(crate) plain_links: bool,
    /// Threads; seeds are shared out among them
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=256))]
    pub(crate) jobs: u32,
    /// Fails where something that switches, actors and streams count was never reached
    #[arg(long)]
    pub(crate) coverage: bool,
    /// Plants a bug (docs/simulator.md), to see it found
    #[arg(long, value_name = "NAME")]
    pub(crate) plant: Option<String>,
    /// Leases of the place of a switch, instead of a cluster (docs/simulator.md)
    #[arg(long, conflicts_with_all = [
        "faults", "every_fault", "mode", "replication", "runtimes", "hosts", "loggers", "heartbeats",
        "flowlets", "compare", "take_back", "flows", "packets", "moves", "chain", "chains", "input", "plain_links", "coverage", "trace",
        "no_minimise",
    ])]
    pub(crate) lease: bool,
    /// Looks for each planted bug in up to 10,000 seeds
    #[arg(long, conflicts_with_all = ["plant", "trace", "coverage"])]
    pub(crate) plants: bool,
    /// Prints what happens in the first seed, line by line
    #[arg(long)]
    pub(crate) trace: bool,
    /// Prints the lines of the unit in this place, and of no other (the 53 of unit 53.1)
    #[arg(long, value_name = "PLACE", requires = "trace")]
    pub(crate) unit: Option<u32>,
    /// Does not make a failing run smaller
    #[arg(long)]
    pub(crate) no_minimise: bool,
    /// Failing seeds after which it stops
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) most_failures: u64,
    /// How the result is printed
    #[arg(long, value_enum, default_value_t)]
    pub(crate) output: Format,
    /// No progress on standard error
    #[arg(long, short)]
    pub(crate) quiet: bool,
}
