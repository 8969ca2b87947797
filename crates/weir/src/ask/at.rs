//! Which coordinator is asked, and with which certificate.

use std::path::{Path, PathBuf};

use weir_coordinator::{Access, Address};
use weir_ctl::client;
use weir_identity::{Credentials, Role};

use crate::args::At;
use crate::exit::Failure;

/// Variables of the environment that name the coordinator, and the folder of the certificate.
const COORDINATOR: &str = "WEIR_COORDINATOR";
const IDENTITY: &str = "WEIR_IDENTITY";

fn variable(name: &str) -> Result<Option<String>, Failure> {
    match std::env::var(name) {
        Ok(value) if value.is_empty() => Ok(None),
        Ok(value) => Ok(Some(value)),
        Err(std::env::VarError::NotPresent) => Ok(None),
        Err(error) => Err(Failure::usage(format!("{name}: {error}"))),
    }
}

/// The coordinator that the environment names, if it names one.
pub(crate) fn named() -> Result<Option<Access>, Failure> {
    let address = variable(COORDINATOR)?;
    address.map(|address| access(&address, None)).transpose()
}

/// The coordinator that a command asks: the one that it names, that of the environment, or that of this
/// user on this host.
pub(crate) fn of(at: &At) -> Result<Access, Failure> {
    let identity = at.identity.as_deref();
    match (&at.coordinator, variable(COORDINATOR)?) {
        (Some(address), _) => access(address, identity),
        (None, Some(address)) => access(&address, identity),
        (None, None) => Ok(Access {
            addresses: vec![Address::Unix(client::of_coordinator()?)],
            credentials: None,
        }),
    }
}

/// A coordinator at an address, or several of which one leads.
pub(crate) fn access(addresses: &str, identity: Option<&Path>) -> Result<Access, Failure> {
    let addresses = Address::several(addresses).map_err(Failure::usage)?;
    let identity = match identity {
        Some(folder) => Some(folder.to_owned()),
        None => variable(IDENTITY)?.map(PathBuf::from),
    };
    // The socket's owner needs none.
    let needs = |address: &Address| matches!(address, Address::Tcp(_));
    let credentials = match identity.filter(|_| addresses.iter().any(needs)) {
        None => None,
        Some(folder) => {
            let read = Credentials::load(&folder);
            Some(read.map_err(|why| Failure::usage(why.to_string()))?)
        }
    };
    Ok(Access {
        addresses,
        credentials,
    })
}

/// The coordinator of a host's agent, whose certificate must have the host's name.
pub(crate) fn access_of_agent(
    address: &str,
    identity: Option<&Path>,
    host: &str,
) -> Result<Access, Failure> {
    let access = access(address, identity)?;
    let own = access.credentials.as_ref().map(Credentials::own);
    if let Some(own) = own.filter(|own| own.role() != Role::Agent || own.name() != host) {
        return Err(Failure::usage(format!(
            "{own} is no certificate of host `{host}`'s agent: `weir pki issue agent {host}` makes one"
        )));
    }
    Ok(access)
}
