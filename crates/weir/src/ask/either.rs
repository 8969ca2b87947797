//! Commands that ask an instance or a coordinator, by what they are given.

use weir_nf::host::Kind;

use crate::args::{Diff, Get, GetWhat};
use crate::chains;
use crate::exit::Outcome;

use super::{compositions, reload};

/// `weir get`: of an instance, or of a coordinator.
pub(crate) fn get(args: &Get) -> Outcome {
    match args.what {
        GetWhat::Compositions | GetWhat::Machines | GetWhat::Changes => compositions::get(args),
        _ => super::get::get(args),
    }
}

/// `weir diff`: of a chain file with what an instance runs, or of a composition with what a coordinator has.
pub(crate) fn diff(args: &Diff, kinds: &[Kind]) -> Outcome {
    match args
        .file
        .as_deref()
        .filter(|file| chains::is_composition(file))
    {
        Some(composition) => compositions::diff(args, composition, kinds),
        None => reload::diff(args),
    }
}
