//! The progress of a run over captures.

use indicatif::{ProgressBar, ProgressStyle};
use weir_io::port::InputPort;

use crate::args::Run;

use super::input::Input;

/// A bar on standard error; hidden with `--quiet`, and where that is no terminal.
pub(super) fn progress_bar(args: &Run) -> ProgressBar {
    if args.quiet {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::new(1_000);
    if let Ok(style) = ProgressStyle::with_template("{bar:40} {percent:>3} % {msg} {eta}") {
        bar.set_style(style);
    }
    bar
}

/// Moves the bar on to what the slowest input has read.
pub(super) fn show_progress(bar: &ProgressBar, input: &Input) {
    let packets: u64 = input.ports().map(|port| port.counters().packets).sum();
    let known: Vec<f64> = input.ports().filter_map(InputPort::progress).collect();
    if let Some(least) = known.iter().copied().reduce(f64::min) {
        bar.set_position((least * 1_000.0) as u64);
    }
    bar.set_message(format!("{packets} packets"));
}
