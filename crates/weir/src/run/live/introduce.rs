//! Tells the user how a run with interfaces begins.

use crate::args::Run;
use crate::driver::live::LivePorts;
use crate::say::say;

use super::super::wires::Sorted;

/// Prints each interface's mode, the warnings, and when the run will end. Returns
/// the warnings.
pub(super) fn introduce(
    args: &Run,
    sorted: &Sorted,
    ports: &LivePorts,
    odd: &[String],
) -> Vec<String> {
    if !args.quiet {
        for (port, live) in sorted.live.iter().zip(ports.live()) {
            say(format_args!(
                "{} ({}): {}",
                port.name,
                port.text,
                live.mode()
            ));
        }
    }
    let mut said = odd.to_vec();
    said.extend(ports.warnings());
    for warning in &said {
        say(format_args!("warning: {warning}"));
    }
    if !args.quiet {
        match args.duration {
            None if !sorted.stays => say("running until all is played"),
            Some(time) => say(format_args!("running for {} s", time.as_secs_f64())),
            None => say("running until SIGINT or SIGTERM"),
        }
    }
    said
}
