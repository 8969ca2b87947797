//! Events for collectors: as IPFIX or syslog, over UDP or TCP.

mod ipfix;
mod record;
mod syslog;

use std::fmt;
use std::io;
use std::net::{Ipv6Addr, SocketAddr, ToSocketAddrs as _};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

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
#[derive(Debug)]
enum Way {
    Udp(Host),
    Tcp(Host),
    /// A file of IPFIX messages (RFC 5655).
    File(PathBuf),
}

/// Where a collector listens.
#[derive(Debug)]
struct Host {
    name: String,
    port: u16,
    /// Those of the name, when it was looked up.
    addresses: Vec<SocketAddr>,
    /// The address that is tried next: all have their turn.
    next: AtomicUsize,
}

/// A collector of events, or a file for one.
#[derive(Debug)]
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
    /// `syslog:tcp:…`; `None` for what is none of these.
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
            (Some(("udp", host)), _) => Host::parse(host, port).map(Way::Udp),
            (Some(("tcp", host)), _) => Host::parse(host, port).map(Way::Tcp),
            // Other words are other ways, which there are not.
            (Some((way, _)), Form::Ipfix) if !way.contains('/') => Err(format!(
                "there is no way `{way}`: write ipfix:udp:HOST[:PORT], ipfix:tcp:HOST[:PORT], or \
                 ipfix:./{rest} for a file"
            )),
            (None, Form::Ipfix) if !["", "-", "udp", "tcp"].contains(&rest) => {
                Ok(Way::File(rest.into()))
            }
            (Some(_), Form::Ipfix) => Ok(Way::File(rest.into())),
            (None, Form::Ipfix) => Err("write ipfix:udp:HOST[:PORT], ipfix:tcp:HOST[:PORT] or \
                                     ipfix:FILE"
                .to_owned()),
            (_, Form::Syslog) => {
                Err("write syslog:udp:HOST[:PORT] or syslog:tcp:HOST[:PORT]".to_owned())
            }
        };
        let text = text.to_owned();
        Some(way.map(|way| Export { form, way, text }))
    }

    /// Looks a name up.
    ///
    /// # Errors
    ///
    /// It has no address.
    pub(super) fn look_up(&mut self) -> Result<(), String> {
        let (Way::Udp(host) | Way::Tcp(host)) = &mut self.way else {
            return Ok(());
        };
        if !host.addresses.is_empty() {
            return Ok(());
        }
        let found = (host.name.as_str(), host.port).to_socket_addrs();
        let found = found.map_err(|error| format!("`{}` is not found: {error}", host.name))?;
        host.addresses = found.collect();
        match host.addresses.is_empty() {
            true => Err(format!("`{}` has no address", host.name)),
            false => Ok(()),
        }
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
        let (host, kind) = match &self.way {
            Way::Udp(host) => (host, SocketType::DGRAM),
            Way::Tcp(host) => (host, SocketType::STREAM),
            Way::File(_) => return Err(io::ErrorKind::Unsupported.into()),
        };
        let all = &host.addresses;
        let flags = match waits {
            true => SocketFlags::CLOEXEC,
            false => SocketFlags::CLOEXEC | SocketFlags::NONBLOCK,
        };
        // A connection that fails later has had its turn.
        let first = host.next.load(Ordering::Relaxed) % all.len().max(1);
        let mut last = io::Error::from(io::ErrorKind::AddrNotAvailable);
        let turns = (first..)
            .zip(all.iter().cycle().skip(first))
            .take(all.len());
        for (turn, address) in turns {
            let family = match address {
                SocketAddr::V4(_) => AddressFamily::INET,
                SocketAddr::V6(_) => AddressFamily::INET6,
            };
            let connected =
                socket_with(family, kind, flags, None).and_then(
                    |socket| match rustix::net::connect(&socket, address) {
                        Ok(()) | Err(Errno::INPROGRESS) => Ok(socket),
                        Err(error) => Err(error),
                    },
                );
            host.next.store(turn + 1, Ordering::Relaxed);
            match connected {
                Ok(socket) => return Ok(socket),
                Err(error) => last = error.into(),
            }
        }
        Err(last)
    }

    /// True where the form can say every event.
    pub(super) fn takes_all(&self) -> bool {
        self.form == Form::Syslog
    }

    /// True where the form can say this event.
    pub(super) fn takes(&self, line: &[u8]) -> bool {
        self.takes_all() || ipfix::takes(line)
    }
}

pub(super) use ipfix::whole_messages;

impl Host {
    /// `HOST`, `HOST:PORT`, an IPv6 address, `[IPv6]` or `[IPv6]:PORT`.
    fn parse(text: &str, port: u16) -> Result<Host, String> {
        if let Ok(address) = text.parse::<SocketAddr>() {
            let name = address.ip().to_string();
            return Ok(Host::new(name, address.port(), vec![address]));
        }
        let wrong = || format!("`{text}` is no HOST[:PORT]");
        let (name, port) = match text.rsplit_once(':') {
            _ if text.parse::<Ipv6Addr>().is_ok() || text.ends_with(']') => (text, port),
            Some((name, port)) => (name, port.parse().map_err(|_| wrong())?),
            None => (text, port),
        };
        let inner = name
            .strip_prefix('[')
            .and_then(|rest| rest.strip_suffix(']'));
        let is_name = |c: char| c.is_ascii_alphanumeric() || "-._".contains(c);
        let is_one = match inner {
            Some(inner) => inner.parse::<Ipv6Addr>().is_ok(),
            None => name.parse::<Ipv6Addr>().is_ok() || name.chars().all(is_name),
        };
        if !is_one || name.is_empty() {
            return Err(wrong());
        }
        let name = inner.unwrap_or(name).to_owned();
        Ok(Host::new(name, port, Vec::new()))
    }

    fn new(name: String, port: u16, addresses: Vec<SocketAddr>) -> Host {
        Host {
            name,
            port,
            addresses,
            next: AtomicUsize::new(0),
        }
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
