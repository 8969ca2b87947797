//! `weir coordinator`: keeps compositions, and tells agents what their hosts have to run.

mod certificates;
mod place;
mod reader;
mod serve;

use weir_nf::host::Kind;

use crate::args::Coordinated;
use crate::ask;
use crate::exit::Outcome;

pub(crate) use certificates::refresh;

/// Runs a coordinator, or asks one.
pub(crate) fn command(command: &Coordinated, kinds: &[Kind]) -> Outcome {
    match command {
        Coordinated::Coordinator(args) => serve::run(args, kinds),
        Coordinated::Apply(args) => ask::apply(args, kinds),
        Coordinated::Describe(args) => ask::describe(args),
        Coordinated::Delete(args) => ask::delete(args),
    }
}
