//! `weir ids`: what the function `ids` would load of rule files, and what rules cost.

mod check;
mod profile;
mod rules;
mod show;

use crate::args::{Ids, IdsCommand};
use crate::exit::Outcome;

/// `weir ids` and its commands.
pub(crate) fn ids(args: &Ids) -> Outcome {
    match &args.command {
        IdsCommand::Check(args) => check::check(args),
        IdsCommand::Profile(args) => profile::profile(args),
    }
}
