//! Commands that ask an instance or a coordinator, by what they are given.

use weir_nf::host::Kind;

use crate::args::{Diff, Get, GetWhat};
use crate::chains;
use crate::exit::{Failure, Outcome};

use super::{compositions, reload};

/// `weir get`: of an instance, or of a coordinator.
pub(crate) fn get(args: &Get) -> Outcome {
    match args.what {
        GetWhat::Coordinators => compositions::coordinators(args),
        GetWhat::Compositions | GetWhat::Machines | GetWhat::Changes => compositions::get(args),
        _ if args.at.coordinator.is_some() || args.at.identity.is_some() => Err(Failure::usage(
            "of an instance: name it as NAME@COORDINATOR, and the certificate by WEIR_IDENTITY",
        )),
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
        None if args.at.coordinator.is_some() || args.at.identity.is_some() => Err(Failure::usage(
            "a coordinator has compositions: give one, or name the instance as NAME@COORDINATOR",
        )),
        None => reload::diff(args),
    }
}
