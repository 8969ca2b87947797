//! One flow: which protocol it speaks, and its messages.

use crate::coding::Decoder;
use crate::detect::{Found, detect, is_dns};
use crate::dns::Dns;
use crate::field::Protocol;
use crate::ftp::Ftp;
use crate::http::{Http, Means};
use crate::limits::Limits;
use crate::smtp::Smtp;
use crate::snapshot::{Reader, SnapshotError, put_bytes, put_u8};
use crate::ssh::Ssh;
use crate::tls::Tls;
use crate::values::{Sink, Take, Values};

/// Version of a state's bytes.
const VERSION: u8 = 3;
/// Numbers of parsers in them beside those of protocols.
const UNKNOWN: u8 = 0;
const PROBING: u8 = 255;

/// Memory to work in, one for all flows of a thread.
#[derive(Debug, Default)]
pub struct Scratch {
    values: Values,
    decoder: Decoder,
}

/// State of one flow.
#[derive(Debug, Clone, PartialEq)]
pub struct Dissector {
    parser: Parser,
}

#[derive(Debug, Clone, PartialEq)]
enum Parser {
    /// First bytes to the server, and to the client.
    Probing([Probe; 2]),
    Http(Box<Http>),
    Dns(Box<Dns>),
    Tls(Box<Tls>),
    Ssh(Box<Ssh>),
    Smtp(Box<Smtp>),
    Ftp(Box<Ftp>),
    /// Nothing that is known.
    Unknown,
}

/// First bytes of a direction.
#[derive(Debug, Clone, Default, PartialEq)]
struct Probe {
    bytes: Vec<u8>,
    /// Nothing known begins so, or bytes were lost.
    failed: bool,
}

impl Default for Dissector {
    fn default() -> Dissector {
        Dissector::new()
    }
}

impl Dissector {
    /// A flow of which nothing was seen yet.
    pub fn new() -> Dissector {
        Dissector {
            parser: Parser::Probing(Default::default()),
        }
    }

    /// The protocol, once it is known.
    pub fn protocol(&self) -> Option<Protocol> {
        match &self.parser {
            Parser::Probing(_) | Parser::Unknown => None,
            Parser::Http(_) => Some(Protocol::Http),
            Parser::Dns(_) => Some(Protocol::Dns),
            Parser::Tls(_) => Some(Protocol::Tls),
            Parser::Ssh(_) => Some(Protocol::Ssh),
            Parser::Smtp(_) => Some(Protocol::Smtp),
            Parser::Ftp(_) => Some(Protocol::Ftp),
        }
    }

    /// True where nothing more will come of this flow.
    pub fn is_over(&self) -> bool {
        match &self.parser {
            Parser::Unknown => true,
            Parser::Http(http) => http.is_over(),
            Parser::Dns(dns) => dns.is_over(),
            Parser::Tls(tls) => tls.is_over(),
            Parser::Ssh(ssh) => ssh.is_over(),
            Parser::Smtp(smtp) => smtp.is_over(),
            Parser::Ftp(ftp) => ftp.is_over(),
            Parser::Probing(_) => false,
        }
    }

    /// The next bytes of a direction of a TCP connection, in order. Messages do not depend on how the
    /// stream is cut; only bodies are handed out as they come.
    pub fn stream(
        &mut self,
        to_server: bool,
        bytes: &[u8],
        limits: &Limits,
        scratch: &mut Scratch,
        take: &mut Take<'_>,
    ) {
        let mut means = scratch.means(limits, take);
        let mut bytes = bytes;
        if let Parser::Probing(probes) = &mut self.parser {
            let (found, used) = probe(probes, to_server, bytes);
            bytes = bytes.get(used..).unwrap_or(&[]);
            match found {
                Found::Yes(protocol) => self.settle(protocol, &mut means),
                Found::No => self.parser = Parser::Unknown,
                Found::More => return,
            }
        }
        self.parser.data(to_server, bytes, &mut means);
    }

    /// The next datagram of a flow over UDP. The first one decides on the protocol, which is DNS or unknown.
    pub fn datagram(
        &mut self,
        to_server: bool,
        bytes: &[u8],
        scratch: &mut Scratch,
        take: &mut Take<'_>,
    ) {
        if let Parser::Probing(_) = self.parser {
            self.parser = if is_dns(bytes) {
                Parser::Dns(Box::default())
            } else {
                Parser::Unknown
            };
        }
        scratch.values.clear();
        if let Parser::Dns(dns) = &mut self.parser {
            let values = &mut scratch.values;
            dns.datagram(to_server, bytes, &mut Sink { values, take });
        }
    }

    /// So many bytes of a direction were lost.
    pub fn gap(
        &mut self,
        to_server: bool,
        count: u64,
        limits: &Limits,
        scratch: &mut Scratch,
        take: &mut Take<'_>,
    ) {
        let mut means = scratch.means(limits, take);
        match &mut self.parser {
            Parser::Probing(probes) => {
                side_mut(probes, to_server).failed = true;
                if probes.iter().all(|probe| probe.failed) {
                    self.parser = Parser::Unknown;
                }
            }
            Parser::Http(http) => http.gap(to_server, count, &mut means),
            Parser::Dns(dns) => dns.gap(to_server),
            Parser::Tls(tls) => tls.gap(to_server),
            Parser::Ssh(ssh) => ssh.gap(to_server),
            Parser::Smtp(smtp) => smtp.gap(to_server),
            Parser::Ftp(ftp) => ftp.gap(to_server),
            Parser::Unknown => {}
        }
    }

    /// A direction has ended, or the flow is forgotten.
    pub fn end(
        &mut self,
        to_server: bool,
        limits: &Limits,
        scratch: &mut Scratch,
        take: &mut Take<'_>,
    ) {
        let mut means = scratch.means(limits, take);
        match &mut self.parser {
            Parser::Http(http) => http.end(to_server, &mut means),
            // The other side may still decide.
            Parser::Probing(probes) => {
                side_mut(probes, to_server).failed = true;
                if probes.iter().all(|probe| probe.failed) {
                    self.parser = Parser::Unknown;
                }
            }
            // Messages of the others have ends of their own.
            _ => {}
        }
    }

    /// The protocol is known: what was kept is its beginning, the server's first where it speaks first.
    fn settle(&mut self, protocol: Protocol, means: &mut Means<'_, '_, '_>) {
        let Parser::Probing(probes) = &mut self.parser else {
            return;
        };
        let [up, down] = std::mem::take(probes);
        self.parser = match protocol {
            Protocol::Http => Parser::Http(Box::default()),
            Protocol::Dns => Parser::Dns(Box::default()),
            Protocol::Tls => Parser::Tls(Box::default()),
            Protocol::Ssh => Parser::Ssh(Box::default()),
            Protocol::Smtp => Parser::Smtp(Box::default()),
            Protocol::Ftp => Parser::Ftp(Box::default()),
        };
        let server_first = matches!(protocol, Protocol::Smtp | Protocol::Ftp);
        for to_server in [!server_first, server_first] {
            let probe = if to_server { &up } else { &down };
            self.parser.data(to_server, &probe.bytes, means);
        }
    }

    /// Appends the state: a version, and at most [`Limits::snapshot_bytes`] bytes.
    pub fn save(&self, out: &mut Vec<u8>) {
        put_u8(out, VERSION);
        put_u8(out, self.kind());
        match &self.parser {
            Parser::Unknown => {}
            Parser::Probing(probes) => {
                for probe in probes {
                    put_u8(out, probe.failed.into());
                    put_bytes(out, &probe.bytes);
                }
            }
            Parser::Http(http) => http.save(out),
            Parser::Dns(dns) => dns.save(out),
            Parser::Tls(tls) => tls.save(out),
            Parser::Ssh(ssh) => ssh.save(out),
            Parser::Smtp(smtp) => smtp.save(out),
            Parser::Ftp(ftp) => ftp.save(out),
        }
    }

    /// The parser's number in a snapshot: its protocol's, if that is known.
    fn kind(&self) -> u8 {
        match (self.protocol(), &self.parser) {
            (Some(protocol), _) => protocol as u8,
            (None, Parser::Probing(_)) => PROBING,
            (None, _) => UNKNOWN,
        }
    }

    /// Reads a state that [`Dissector::save`] wrote, under the same limits.
    ///
    /// # Errors
    ///
    /// Another version, and bytes that are no state.
    pub fn load(
        bytes: &[u8],
        limits: &Limits,
        scratch: &mut Scratch,
    ) -> Result<Dissector, SnapshotError> {
        let mut reader = Reader(bytes);
        let version = reader.u8()?;
        if version != VERSION {
            return Err(SnapshotError::Version(version));
        }
        let kind = reader.u8()?;
        let parser = match Protocol::ALL.into_iter().find(|p| *p as u8 == kind) {
            Some(Protocol::Http) => Parser::Http(Box::new(Http::load(
                &mut reader,
                limits,
                &mut scratch.decoder,
            )?)),
            Some(Protocol::Dns) => Parser::Dns(Box::new(Dns::load(&mut reader)?)),
            Some(Protocol::Tls) => Parser::Tls(Box::new(Tls::load(&mut reader)?)),
            Some(Protocol::Ssh) => Parser::Ssh(Box::new(Ssh::load(&mut reader)?)),
            Some(Protocol::Smtp) => Parser::Smtp(Box::new(Smtp::load(&mut reader, limits)?)),
            Some(Protocol::Ftp) => Parser::Ftp(Box::new(Ftp::load(&mut reader)?)),
            None if kind == UNKNOWN => Parser::Unknown,
            None if kind == PROBING => {
                let mut probes: [Probe; 2] = Default::default();
                for probe in &mut probes {
                    probe.failed = reader.u8()? != 0;
                    probe.bytes = reader.bytes(Limits::PROBE)?;
                }
                Parser::Probing(probes)
            }
            None => return Err(SnapshotError::Malformed),
        };
        if !reader.0.is_empty() {
            return Err(SnapshotError::Malformed);
        }
        Ok(Dissector { parser })
    }
}

impl Scratch {
    fn means<'a, 't>(
        &'a mut self,
        limits: &'a Limits,
        take: &'a mut Take<'t>,
    ) -> Means<'a, 'a, 't> {
        self.values.clear();
        Means {
            limits,
            decoder: &mut self.decoder,
            sink: Sink {
                values: &mut self.values,
                take,
            },
        }
    }
}

impl Parser {
    fn data(&mut self, to_server: bool, bytes: &[u8], means: &mut Means<'_, '_, '_>) {
        if bytes.is_empty() {
            return;
        }
        match self {
            Parser::Http(http) => http.data(to_server, bytes, means),
            Parser::Dns(dns) => dns.data(to_server, bytes, &mut means.sink),
            Parser::Tls(tls) => tls.data(to_server, bytes, &mut means.sink),
            Parser::Ssh(ssh) => ssh.data(to_server, bytes, &mut means.sink),
            Parser::Smtp(smtp) => smtp.data(to_server, bytes, means.limits, &mut means.sink),
            Parser::Ftp(ftp) => ftp.data(to_server, bytes, &mut means.sink),
            Parser::Probing(_) | Parser::Unknown => {}
        }
    }
}

fn side_mut(probes: &mut [Probe; 2], to_server: bool) -> &mut Probe {
    let [up, down] = probes;
    if to_server { up } else { down }
}

/// Looks at one byte after another, so that the answer does not depend on cuts. Returns it and the number
/// of bytes that were kept.
fn probe(probes: &mut [Probe; 2], to_server: bool, bytes: &[u8]) -> (Found, usize) {
    let other = std::mem::take(&mut side_mut(probes, !to_server).bytes);
    let own = side_mut(probes, to_server);
    let (mut found, mut used) = (Found::More, 0);
    while found == Found::More && !own.failed && used < bytes.len() {
        own.bytes.push(bytes.get(used).copied().unwrap_or(0));
        used += 1;
        found = match detect(to_server, &own.bytes, &other) {
            Found::More if own.bytes.len() < Limits::PROBE => Found::More,
            Found::Yes(protocol) => Found::Yes(protocol),
            _ => {
                own.failed = true;
                own.bytes = Vec::new();
                Found::More
            }
        };
    }
    side_mut(probes, !to_server).bytes = other;
    if probes.iter().all(|probe| probe.failed) {
        found = Found::No;
    }
    (found, used)
}
