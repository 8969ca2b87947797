//! `weir version`: what this program is, for people and for a weir that is to be upgraded to it.

use weir_nf::host::Kind;

use crate::args::{Format, Version};
use crate::driver::SPEAKS;
use crate::exit::{Exit, Outcome};
use crate::output;
use crate::program::About;

/// This program.
pub(crate) fn own(kinds: &[Kind]) -> About {
    About::own(SPEAKS, kinds)
}

/// Prints it.
pub(crate) fn version(args: &Version, kinds: &[Kind]) -> Outcome {
    let own = own(kinds);
    match args.output {
        Format::Json => output::json(&own)?,
        Format::Text => output::line(&format!("weir {}\n", own.program))?,
    }
    Ok(Exit::Done)
}
