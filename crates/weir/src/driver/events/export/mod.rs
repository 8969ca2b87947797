//! Events for collectors: as IPFIX or syslog, over UDP or TCP.

mod ipfix;
mod record;
mod syslog;

use std::fmt;
use std::io;
use std::net::{SocketAddr, ToSocketAddrs as _};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};

use ipfix::Ipfix;
use syslog::Syslog;

/// IANA's port of IPFIX (RFC 7011 §10.3.4).
const IPFIX_PORT: u16 = 4_739;
/// IANA's port of syslog over UDP (RFC 5426 §3.3); over TCP it is the usual one (RFC 6587 §3.2).
const SYSLOG_PORT: u16 = 514;

/// How a collector reads events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    /// RFC 7011, RFC 8158: flows and NAT mappings.
    Ipfix,
    /// RFC 5424: every event.
    Syslog,
}

/// The way to a collector.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Way {
    Udp(Vec<SocketAddr>),
    Tcp(Vec<SocketAddr>),
    /// A file of IPFIX messages (RFC 5655).
    File(PathBuf),
}

/// A collector of events, or a file for one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Export {
    form: Form,
    way: Way,
    /// As it was written.
    text: String,
}

impl fmt::Display for Export {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Export {
    /// Reads `ipfix:udp:HOST[:PORT]`, `ipfix:tcp:…`, `ipfix:FILE`, `syslog:udp:…` and
    /// `syslog:tcp:…`; `None` for what is none of these. Names are looked up once.
    ///
    /// # Errors
    ///
    /// The fault, and its remedy.
    pub(super) fn parse(text: &str) -> Option<Result<Export, String>> {
        let (form, rest) = match text.split_once(':')? {
            ("ipfix", rest) => (Form::Ipfix, rest),
            ("syslog", rest) => (Form::Syslog, rest),
            _ => return None,
        };
        let port = match form {
            Form::Ipfix => IPFIX_PORT,
            Form::Syslog => SYSLOG_PORT,
        };
        let way = match (rest.split_once(':'), form) {
            (Some(("udp", host)), _) => addresses(host, port).map(Way::Udp),
            (Some(("tcp", host)), _) => addresses(host, port).map(Way::Tcp),
            (_, Form::Ipfix) if !rest.is_empty() => Ok(Way::File(rest.into())),
            (_, Form::Ipfix) => Err("write ipfix:udp:HOST[:PORT], ipfix:tcp:HOST[:PORT] or \
                                     ipfix:FILE"
                .to_owned()),
            (_, Form::Syslog) => {
                Err("write syslog:udp:HOST[:PORT] or syslog:tcp:HOST[:PORT]".to_owned())
            }
        };
        let text = text.to_owned();
        Some(way.map(|way| Export { form, way, text }))
    }

    /// The file, where it is one.
    pub(super) fn file(&self) -> Option<&Path> {
        match &self.way {
            Way::File(path) => Some(path),
            Way::Udp(_) | Way::Tcp(_) => None,
        }
    }

    /// True where each message is a datagram.
    pub(super) fn is_datagrams(&self) -> bool {
        matches!(self.way, Way::Udp(_))
    }

    /// The form, at the start of a session.
    pub(super) fn encoder(&self) -> Encoder {
        match self.form {
            Form::Ipfix => Encoder::Ipfix(Ipfix::new(self.is_datagrams())),
            Form::Syslog => Encoder::Syslog(Syslog::new(!self.is_datagrams())),
        }
    }

    /// Connects to a collector. A connection that can't wait (`waits` is false) may still be
    /// under way.
    ///
    /// # Errors
    ///
    /// Those of the system, for the last of its addresses.
    pub(super) fn connect(&self, waits: bool) -> io::Result<OwnedFd> {
        let (all, kind) = match &self.way {
            Way::Udp(all) => (all, SocketType::DGRAM),
            Way::Tcp(all) => (all, SocketType::STREAM),
            Way::File(_) => return Err(io::ErrorKind::Unsupported.into()),
        };
        let flags = match waits {
            true => SocketFlags::CLOEXEC,
            false => SocketFlags::CLOEXEC | SocketFlags::NONBLOCK,
        };
        let mut last = io::Error::from(io::ErrorKind::AddrNotAvailable);
        for address in all {
            let family = match address {
                SocketAddr::V4(_) => AddressFamily::INET,
                SocketAddr::V6(_) => AddressFamily::INET6,
            };
            let socket = socket_with(family, kind, flags, None)?;
            match rustix::net::connect(&socket, address) {
                Ok(()) | Err(Errno::INPROGRESS) => return Ok(socket),
                Err(error) => last = error.into(),
            }
        }
        Err(last)
    }
}

/// `HOST`, `HOST:PORT`, `[IPv6]` or `[IPv6]:PORT`.
fn addresses(host: &str, port: u16) -> Result<Vec<SocketAddr>, String> {
    let bare = host
        .trim_start_matches('[')
        .trim_end_matches(']')
        .parse::<std::net::IpAddr>();
    if let Ok(address) = bare {
        return Ok(vec![SocketAddr::new(address, port)]);
    }
    let found = match host.rsplit_once(':') {
        Some(_) => host.to_socket_addrs(),
        None => (host, port).to_socket_addrs(),
    };
    let found = found.map_err(|error| format!("`{host}` is no HOST[:PORT]: {error}"))?;
    let found: Vec<SocketAddr> = found.collect();
    match found.is_empty() {
        true => Err(format!("`{host}` has no address")),
        false => Ok(found),
    }
}

/// Makes messages of lines.
pub(super) enum Encoder {
    Ipfix(Ipfix),
    Syslog(Syslog),
}

impl Encoder {
    /// Writes a message of the first lines into `message`, which is empty; gives the octets of
    /// the lines that are done with. No message comes of lines that the form has no place for.
    pub(super) fn encode(&mut self, lines: &[u8], message: &mut Vec<u8>) -> usize {
        match self {
            Encoder::Ipfix(ipfix) => ipfix.encode(lines, message),
            Encoder::Syslog(syslog) => syslog.encode(lines, message),
        }
    }
}

#[cfg(test)]
mod tests;
