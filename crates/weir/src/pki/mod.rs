//! `weir pki`: the authority of a cluster, and certificates for those that speak to each other in
//! it.

mod init;
mod issue;
mod show;

use weir_identity::IdentityError;

use crate::args::{Pki, PkiCommand};
use crate::exit::{Failure, Outcome};

/// `weir pki` and its commands.
pub(crate) fn pki(args: &Pki) -> Outcome {
    match &args.command {
        PkiCommand::Init(args) => init::init(args),
        PkiCommand::Issue(args) => issue::issue(args),
        PkiCommand::Show(args) => show::show(args),
    }
}

impl From<IdentityError> for Failure {
    fn from(error: IdentityError) -> Failure {
        Failure::outside(error.to_string())
    }
}
