//! Who calls, and what a caller may do.

use std::fmt;
use std::net::SocketAddr;
use std::time::SystemTime;

use tonic::{Request, Status};
use weir_identity::{Peer, Role};

/// Who is at the other end of a connection.
#[derive(Clone, Debug)]
pub(super) enum Caller {
    /// The user who runs the coordinator, on its Unix socket.
    Owner,
    /// Whom a certificate names, where from, and until when it is valid.
    Peer(Peer, SocketAddr, SystemTime),
}

impl fmt::Display for Caller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Caller::Owner => f.write_str("the owner"),
            Caller::Peer(peer, ..) => peer.fmt(f),
        }
    }
}

/// What a call needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Need {
    /// It looks on.
    View,
    /// It changes something.
    Change,
    /// It is a host's agent.
    Attend,
}

impl Caller {
    /// The caller of a request.
    ///
    /// # Errors
    ///
    /// It may not do that.
    pub(super) fn of<T>(request: &Request<T>, need: Need) -> Result<Caller, Status> {
        Caller::within(request.extensions(), need)
    }

    /// The caller that the connection has left in a request's extensions.
    pub(super) fn within(about: &http::Extensions, need: Need) -> Result<Caller, Status> {
        let caller = about.get::<Caller>().cloned();
        // Each connection has one; what has none may do nothing.
        let caller = caller.ok_or_else(|| Status::unauthenticated("nobody knows who calls"))?;
        if caller.is_over() {
            return Err(Status::unauthenticated(format!(
                "the certificate of {caller} has expired: get another one, and connect again"
            )));
        }
        match caller.may(need) {
            true => Ok(caller),
            false => Err(Status::permission_denied(caller.denied(need))),
        }
    }

    fn may(&self, need: Need) -> bool {
        match self {
            Caller::Owner => true,
            Caller::Peer(peer, ..) => match need {
                Need::View => matches!(peer.role(), Role::Operator | Role::Viewer),
                Need::Change => peer.role() == Role::Operator,
                Need::Attend => peer.role() == Role::Agent,
            },
        }
    }

    /// True of one whose certificate has expired since it has connected.
    pub(super) fn is_over(&self) -> bool {
        match self {
            Caller::Owner => false,
            Caller::Peer(_, _, until) => *until <= SystemTime::now(),
        }
    }

    /// True of one that looks on alone.
    pub(super) fn is_viewer(&self) -> bool {
        matches!(self, Caller::Peer(peer, ..) if peer.role() == Role::Viewer)
    }

    /// Where it calls from.
    pub(super) fn address(&self) -> String {
        match self {
            Caller::Owner => "this host".to_owned(),
            Caller::Peer(_, from, _) => from.to_string(),
        }
    }

    fn denied(&self, need: Need) -> String {
        let wants = match need {
            Need::View => "an operator or a viewer",
            Need::Change => "an operator",
            Need::Attend => "an agent",
        };
        format!("{self} may not do that: it takes the certificate of {wants}")
    }

    /// True of an agent that may speak for a host: its certificate has the host's name.
    pub(super) fn may_be(&self, host: &str) -> bool {
        match self {
            Caller::Owner => true,
            Caller::Peer(peer, ..) => peer.name() == host,
        }
    }
}
