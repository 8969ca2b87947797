//! `weir coordinator`: keeps compositions, and tells agents what their hosts have to run.

mod place;
mod reader;
mod serve;

use std::path::Path;

use weir_identity::{Credentials, Role};
use weir_nf::host::Kind;

use crate::args::Coordinated;
use crate::ask;
use crate::exit::{Failure, Outcome};
use crate::say::say;

/// Runs a coordinator, or asks one.
pub(crate) fn command(command: &Coordinated, kinds: &[Kind]) -> Outcome {
    match command {
        Coordinated::Coordinator(args) => serve::run(args, kinds),
        Coordinated::Apply(args) => ask::apply(args, kinds),
        Coordinated::Describe(args) => ask::describe(args),
        Coordinated::Delete(args) => ask::delete(args),
    }
}

/// The certificate of a folder, which is one for this role.
pub(crate) fn credentials(folder: &Path, role: Role) -> Result<Credentials, Failure> {
    let credentials = Credentials::load(folder).map_err(|why| Failure::usage(why.to_string()))?;
    let own = credentials.own();
    match own.role() == role {
        true => Ok(credentials),
        false => Err(Failure::usage(format!(
            "{} is no certificate of a role `{role}`: {own}",
            folder.display()
        ))),
    }
}

/// Takes changed certificates, where there are some.
pub(crate) fn refresh(credentials: Option<&Credentials>) {
    match credentials.map(Credentials::refresh) {
        Some(Ok(true)) => say("new certificates are taken"),
        Some(Err(why)) => say(format_args!(
            "warning: the certificates stay as they were: {why}"
        )),
        Some(Ok(false)) | None => {}
    }
}
