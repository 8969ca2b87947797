//! `weir`: the program, and a library to build programs like it.
//!
//! It reads the command line, opens files, and drives the engine; nothing in it
//! decides what becomes of a packet.
//!
//! A program with network functions of its own beside the stock ones is three
//! lines:
//!
//! ```no_run
//! use std::process::ExitCode;
//! # use weir_functions::nop::Nop as MyFunction;
//! use weir_nf::host::Kind;
//!
//! fn main() -> ExitCode {
//!     weir::main_with(&[Kind::of::<MyFunction>()])
//! }
//! ```

#![forbid(unsafe_code)]
#![cfg_attr(
    not(feature = "control"),
    allow(
        dead_code,
        unused_imports,
        reason = "nobody else asks what the control socket does"
    )
)]

mod args;
#[cfg(feature = "control")]
mod ask;
#[cfg(feature = "control")]
mod attend;
mod billing;
mod chains;
mod check;
#[cfg(feature = "control")]
mod coordinator;
mod counters;
mod dead;
mod doctor;
pub mod driver;
mod exit;
mod generate;
mod ids;
mod kept;
mod man;
mod mark;
mod nf;
mod output;
#[cfg(feature = "control")]
mod pki;
mod plan;
mod program;
mod run;
mod run_memory;
mod say;
mod seed;
mod service;
mod set_log;
#[cfg(feature = "simulator")]
mod sim;
mod snapshot;
mod version;
mod watch;

use std::process::ExitCode;

use clap::Parser;
use weir_nf::host::Kind;

use args::{Agent, Args, Command};

/// The program with the stock functions and `more`. A function of `more` with
/// a stock function's name takes its place.
///
/// It reads the command line of the process; `weir --help` describes it and
/// the exit codes.
pub fn main_with(more: &[Kind]) -> ExitCode {
    main_with_args(std::env::args_os(), more)
}

/// An agent for runtimes, or of a whole host.
fn run_agent(agent: &Agent, kinds: &[Kind]) -> exit::Outcome {
    match agent.coordinator {
        None => run::agent::run(agent, kinds),
        #[cfg(feature = "control")]
        Some(_) => attend::run(agent),
        #[cfg(not(feature = "control"))]
        Some(_) => Err(exit::Failure::built_without("control")),
    }
}

/// The exit code of a command, whose failure is printed.
fn exit_code(outcome: exit::Outcome) -> ExitCode {
    let exit = outcome.unwrap_or_else(|failure| {
        failure.print();
        failure.exit
    });
    exit.into()
}

/// [`main_with`] with a command line of the caller's, for programs that have
/// another use beside this one. Its first word is the program's name.
pub fn main_with_args(
    args: impl IntoIterator<Item = std::ffi::OsString>,
    more: &[Kind],
) -> ExitCode {
    program::name_process();
    let args = Args::parse_from(args);
    let kinds = kinds(more);
    let outcome = match args.command {
        Command::Run(run) => run::run(&run, &kinds),
        Command::Agent(agent) => run_agent(&agent, &kinds),
        #[cfg(feature = "control")]
        Command::Coordinated(command) => coordinator::command(&command, &kinds),
        Command::Up(up) => run::up::run(&up, &kinds),
        #[cfg(feature = "control")]
        Command::Get(get) => ask::get(&get),
        #[cfg(feature = "control")]
        Command::Bill(bill) => ask::bill(&bill),
        #[cfg(feature = "control")]
        Command::Move(what) => ask::move_units(&what),
        #[cfg(feature = "control")]
        Command::Events(events) => ask::events(&events),
        #[cfg(feature = "control")]
        Command::Drain(what) => ask::drain(&what),
        #[cfg(feature = "control")]
        Command::Verify(what) => ask::verify(&what),
        #[cfg(feature = "control")]
        Command::Scale(what) => ask::scale(&what),
        #[cfg(feature = "control")]
        Command::Upgrade(what) => ask::upgrade(&what),
        #[cfg(feature = "control")]
        Command::Diff(what) => ask::diff(&what, &kinds),
        #[cfg(feature = "control")]
        Command::Reload(what) => ask::reload(&what),
        #[cfg(feature = "control")]
        Command::Set(what) => ask::set(&what),
        #[cfg(feature = "control")]
        Command::Stats(stats) => ask::stats(&stats),
        #[cfg(feature = "terminal")]
        Command::Top(top) => ask::top(&top),
        #[cfg(feature = "control")]
        Command::Flows(flows) => ask::flows(&flows),
        #[cfg(feature = "control")]
        Command::Drops(drops) => ask::drops(&drops),
        #[cfg(feature = "control")]
        Command::List(list) => ask::list(list.output),
        Command::Doctor(args) => doctor::doctor(&args, &kinds),
        Command::Plan(plan) => plan::show(&plan, &kinds),
        Command::Check(check) => check::check(&check, &kinds),
        Command::Nf(args) => nf::nf(&args, &kinds),
        Command::Ids(args) => ids::ids(&args),
        #[cfg(feature = "control")]
        Command::Pki(args) => pki::pki(&args),
        Command::Version(args) => version::version(&args, &kinds),
        Command::Schema(schema) => check::schema(&schema, &kinds),
        Command::Gen(spec) => generate::generate(&spec),
        Command::Trace(trace) => watch::trace(&trace, &kinds),
        Command::Tap(tap) => watch::tap(&tap, &kinds),
        #[cfg(feature = "simulator")]
        Command::Sim(args) => sim::sim(&args),
        #[cfg(not(feature = "control"))]
        Command::WithoutControl(_) => Err(exit::Failure::built_without("control")),
        #[cfg(not(feature = "simulator"))]
        Command::WithoutSimulator(_) => Err(exit::Failure::built_without("simulator")),
        Command::Completion(shell) => output::completion(shell.shell),
        Command::Man(args) => man::man(&args),
        Command::EngineProcess(engine) => run::apart::run(&engine, &kinds),
    };
    exit_code(outcome)
}

/// All functions in the order of their names.
fn kinds(more: &[Kind]) -> Vec<Kind> {
    let stock = weir_functions::kinds().iter();
    let mut all: Vec<Kind> = more.to_vec();
    all.extend(stock.filter(|kind| {
        more.iter()
            .all(|m| m.descriptor.name != kind.descriptor.name)
    }));
    all.sort_by_key(|kind| kind.descriptor.name);
    all
}
