//! Certificates of this program, in their folders.

use std::path::Path;

use weir_identity::{Credentials, Role};

use crate::exit::Failure;
use crate::say::say;

/// The certificate of a folder, which is one for this role.
pub(super) fn credentials(folder: &Path, role: Role) -> Result<Credentials, Failure> {
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
