//! Who a certificate names: a cluster, a role and a name, as a SPIFFE id.

use std::fmt;
use std::str::FromStr;

use crate::IdentityError;

/// Longest name of a cluster or a peer, in bytes.
const LONGEST: usize = 64;

/// What a peer may do. Whoever serves a command asks for it.
///
/// ```
/// use weir_identity::Role;
///
/// assert_eq!("viewer".parse::<Role>()?, Role::Viewer);
/// assert_eq!(Role::Agent.to_string(), "agent");
/// assert!("root".parse::<Role>().is_err());
/// # Ok::<(), weir_identity::IdentityError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Role {
    /// Changes the cluster, and looks on.
    Operator,
    /// Looks on.
    Viewer,
    /// The agent of a host.
    Agent,
    /// The coordinator itself.
    Coordinator,
}

impl Role {
    /// All of them.
    pub const ALL: [Role; 4] = [Role::Operator, Role::Viewer, Role::Agent, Role::Coordinator];

    /// Its name, lower case.
    pub const fn name(self) -> &'static str {
        match self {
            Role::Operator => "operator",
            Role::Viewer => "viewer",
            Role::Agent => "agent",
            Role::Coordinator => "coordinator",
        }
    }

    /// What it is for, for people.
    pub const fn meaning(self) -> &'static str {
        match self {
            Role::Operator => "changes the cluster",
            Role::Viewer => "looks on",
            Role::Agent => "a host's agent",
            Role::Coordinator => "the coordinator itself",
        }
    }

    /// True if others connect to it, so that its certificate is one of a server, too.
    pub const fn serves(self) -> bool {
        matches!(self, Role::Agent | Role::Coordinator)
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Role {
    type Err = IdentityError;

    fn from_str(text: &str) -> Result<Role, IdentityError> {
        let found = Role::ALL.into_iter().find(|role| role.name() == text);
        found.ok_or_else(|| {
            IdentityError::new(format!(
                "`{}` is no role: take operator, viewer, agent or coordinator",
                shortened(text)
            ))
        })
    }
}

/// Who a certificate names: the SPIFFE id `spiffe://CLUSTER/weir/ROLE/NAME`, which is the only
/// URI among the certificate's subject alternative names.
///
/// ```
/// use weir_identity::{Peer, Role};
///
/// let peer: Peer = "spiffe://lab/weir/agent/host-1".parse()?;
/// assert_eq!((peer.cluster(), peer.role(), peer.name()), ("lab", Role::Agent, "host-1"));
/// assert_eq!(peer, Peer::new("lab", Role::Agent, "host-1")?);
/// assert_eq!(peer.to_string(), "spiffe://lab/weir/agent/host-1");
/// # Ok::<(), weir_identity::IdentityError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Peer {
    cluster: String,
    role: Role,
    name: String,
}

impl Peer {
    /// One of this cluster, role and name.
    ///
    /// # Errors
    ///
    /// See [`check_cluster`] and [`check_name`].
    pub fn new(cluster: &str, role: Role, name: &str) -> Result<Peer, IdentityError> {
        check_cluster(cluster)?;
        check_name(name)?;
        Ok(Peer {
            cluster: cluster.to_owned(),
            role,
            name: name.to_owned(),
        })
    }

    /// The cluster that it belongs to; SPIFFE calls it the trust domain.
    pub fn cluster(&self) -> &str {
        &self.cluster
    }

    /// What it may do.
    pub fn role(&self) -> Role {
        self.role
    }

    /// Its own name, which tells it from others of its role.
    pub fn name(&self) -> &str {
        &self.name
    }
}

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "spiffe://{}/weir/{}/{}",
            self.cluster, self.role, self.name
        )
    }
}

impl FromStr for Peer {
    type Err = IdentityError;

    fn from_str(text: &str) -> Result<Peer, IdentityError> {
        let parts: Option<Vec<&str>> = text
            .strip_prefix("spiffe://")
            .map(|rest| rest.split('/').take(5).collect());
        match parts.as_deref() {
            Some([cluster, "weir", role, name]) => Peer::new(cluster, role.parse()?, name),
            _ => Err(IdentityError::new(format!(
                "`{}` is not of the form spiffe://CLUSTER/weir/ROLE/NAME",
                shortened(text)
            ))),
        }
    }
}

/// Checks the name of a cluster. It is the trust domain of SPIFFE ids, which have no capitals.
///
/// # Errors
///
/// It has other characters than lower-case letters, digits, `-`, `_` and `.`, begins with none of
/// the first two, or is longer than 64.
pub fn check_cluster(cluster: &str) -> Result<(), IdentityError> {
    if is_name(cluster) && !cluster.bytes().any(|octet| octet.is_ascii_uppercase()) {
        return Ok(());
    }
    Err(IdentityError::new(format!(
        "a cluster can't be called `{}`: its name has lower-case letters, digits, `-`, `_` and `.`, \
         begins with a letter or digit, and is at most {LONGEST} long",
        shortened(cluster)
    )))
}

/// Checks the name of a peer.
///
/// # Errors
///
/// It has other characters than letters, digits, `-`, `_` and `.`, begins with none of the first
/// two, or is longer than 64.
pub fn check_name(name: &str) -> Result<(), IdentityError> {
    if is_name(name) {
        return Ok(());
    }
    Err(IdentityError::new(format!(
        "`{}` can't be a name: names have letters, digits, `-`, `_` and `.`, begin with a letter \
         or digit, and are at most {LONGEST} long",
        shortened(name)
    )))
}

fn is_name(name: &str) -> bool {
    let fits = |octet: u8| octet.is_ascii_alphanumeric() || matches!(octet, b'-' | b'_' | b'.');
    name.len() <= LONGEST
        && name.bytes().all(fits)
        && name.starts_with(|c: char| c.is_ascii_alphanumeric())
}

/// Foreign text, fit for a message: without control characters, and not endless.
pub(crate) fn shortened(text: &str) -> String {
    let mut shown: String = text
        .chars()
        .take(100)
        .flat_map(char::escape_debug)
        .collect();
    if text.chars().nth(100).is_some() {
        shown.push('…');
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_that_are_none() {
        let long = format!("spiffe://lab/weir/agent/{}", "a".repeat(65));
        for text in [
            "",
            "spiffe://",
            "spiffe://lab",
            "spiffe://lab/weir/agent",
            "spiffe://lab/weir/agent/",
            "spiffe://lab/weir/agent/a/",
            "spiffe://lab/weir/agent/a/b",
            "spiffe://lab//weir/agent/a",
            "spiffe://lab/other/agent/a",
            "spiffe://lab/weir/Agent/a",
            "spiffe://lab/weir/root/a",
            "spiffe://lab/weir/agent/..",
            "spiffe://lab/weir/agent/a%2fb",
            "spiffe://lab/weir/agent/a?b",
            "spiffe://lab/weir/agent/a\0",
            "spiffe://Lab/weir/agent/a",
            "spiffe://lab:1/weir/agent/a",
            "spiffe://u@lab/weir/agent/a",
            "SPIFFE://lab/weir/agent/a",
            " spiffe://lab/weir/agent/a",
            "https://lab/weir/agent/a",
            &long,
        ] {
            assert!(text.parse::<Peer>().is_err(), "{text}");
        }
    }

    #[test]
    fn each_role_reads_back() {
        for role in Role::ALL {
            let peer = Peer::new("a-b.c", role, "X_1.y").unwrap();
            assert_eq!(peer.to_string().parse::<Peer>().unwrap(), peer);
        }
    }
}
