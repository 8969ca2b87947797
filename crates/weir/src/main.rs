//! `weir`: the program. It reads the command line, opens files, and drives the
//! engine; nothing in it decides what becomes of a packet.

#![forbid(unsafe_code)]

mod args;
mod chains;
mod check;
mod exit;
mod generate;
mod nf;
mod output;
mod run;
mod seed;

use clap::Parser;

use args::{Args, Command, NfCommand};
use exit::Exit;

fn main() -> std::process::ExitCode {
    let args = Args::parse();
    let outcome = match args.command {
        Command::Run(run) => run::run(&run),
        Command::Check(check) => check::check(&check),
        Command::Nf(nf) => match nf.command {
            NfCommand::List(list) => nf::list(list.output),
            NfCommand::Show(show) => nf::show(&show),
            NfCommand::New(new) => nf::new(&new),
        },
        Command::Schema => check::schema(),
        Command::Gen(spec) => generate::generate(&spec),
        Command::Completion(shell) => output::completion(shell.shell),
    };
    let exit = outcome.unwrap_or_else(|failure| {
        failure.print();
        failure.exit
    });
    exit.into()
}

/// A command's end: how the program exits, or why it could not go on.
type Outcome = Result<Exit, exit::Failure>;
