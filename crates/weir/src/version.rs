//! `weir version`: what this program is, for people and for a weir that is to be upgraded to it.

use std::sync::{Arc, LazyLock};

use weir_nf::host::Kind;

use crate::args::{Format, Version};
use crate::driver::SPEAKS;
use crate::exit::{Exit, Outcome};
use crate::output;
use crate::program::{About, OwnAbout};

/// Versions of what a process of `weir up` tells the switches that it starts (`run/up/words.rs`), and of
/// what a switch leaves to the program that its process becomes (`run/upgrade.rs`, `kept.rs`,
/// `set_log.rs`).
const OF_RUN: [(&str, u32); 2] = [("up", 1), ("switch", 1)];

/// This program, with these functions.
pub(crate) fn own(kinds: &[Kind]) -> OwnAbout {
    let kinds = kinds.to_vec();
    let about = move || About::own(&[SPEAKS, &OF_RUN].concat(), &kinds);
    Arc::new(LazyLock::new(Box::new(about)))
}

/// Prints it.
pub(crate) fn version(args: &Version, kinds: &[Kind]) -> Outcome {
    let own = own(kinds);
    match args.output {
        Format::Json => output::json(&**own)?,
        Format::Text => output::line(&format!("weir {}\n", own.program))?,
    }
    Ok(Exit::Done)
}
