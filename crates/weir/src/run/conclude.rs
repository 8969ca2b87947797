//! Prints the summary of a run, and ends as the run did.

use std::path::Path;

use crate::args::{Format, Run};
use crate::exit::{Exit, Failure, Outcome};
use crate::output;
use crate::say::say;

use super::onlook::Watched;
use super::ports::Ports;
use super::summary::{Ended, Summary};
use super::table;

/// Prints the summary of a run, unless its packets go to an onlooker, and ends as
/// the run did.
pub(super) fn conclude(
    args: &Run,
    ports: &Ports,
    of_run: Ended,
    ended: Result<(), Failure>,
    seed: u64,
    watched: &mut Watched<'_>,
) -> Outcome {
    if watched.is_on() {
        watched.look()?;
    } else {
        print(args, ports, Summary::of(of_run, ports, seed))?;
    }
    ended?;
    Ok(Exit::Done)
}

/// Prints the summary.
pub(super) fn print(args: &Run, ports: &Ports, summary: Summary) -> Result<(), Failure> {
    for warning in &summary.warnings {
        say(format_args!("warning: {warning}"));
    }
    let text = match args.output {
        Format::Json => format!("{:#}", summary.to_json()),
        Format::Text => table::render(&summary),
    };
    // Packets or events on standard output are for another program.
    let mut events = args.events.iter();
    if ports.write_to_standard_output() || events.any(|target| target == Path::new("-")) {
        say(format_args!("{}", text.trim_end()));
        Ok(())
    } else {
        output::line(&text)
    }
}
