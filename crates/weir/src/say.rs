//! Messages on standard error during a run.

use std::fmt::Display;
use std::io::Write as _;

/// Says a line. With standard error gone there is nobody to tell, and packets
/// pass all the same.
pub(crate) fn say(line: impl Display) {
    let _ = writeln!(std::io::stderr(), "{line}");
}
