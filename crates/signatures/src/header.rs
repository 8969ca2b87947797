//! A rule's header: action, protocol, addresses, ports and arrow.

use crate::app_protocol::AppProtocol;
use crate::application::AppTest;
use crate::error::{Fault, Span};
use crate::ranges::{AddressSet, PortSet};
use crate::rule::{Action, Protocol};
use crate::sets::parse_set;
use crate::variables::Variables;

/// The parts of a header.
#[derive(Debug)]
pub(crate) struct Header {
    pub(crate) action: Action,
    pub(crate) protocol: Protocol,
    pub(crate) application: Option<AppTest>,
    pub(crate) source: AddressSet,
    pub(crate) source_ports: PortSet,
    pub(crate) destination: AddressSet,
    pub(crate) destination_ports: PortSet,
    pub(crate) bidirectional: bool,
}

/// Protocols of the application layer that Suricata knows as rule protocols. Those that are no
/// [`AppProtocol`] are refused as unsupported, not as mistakes.
const APPLICATION_PROTOCOLS: [&str; 41] = [
    "bittorrent-dht",
    "dcerpc",
    "dhcp",
    "dnp3",
    "dns",
    "doh2",
    "enip",
    "ftp",
    "ftp-data",
    "http",
    "http1",
    "http2",
    "ike",
    "imap",
    "krb5",
    "ldap",
    "mdns",
    "modbus",
    "mqtt",
    "msn",
    "nfs",
    "ntp",
    "pgsql",
    "pop3",
    "quic",
    "rdp",
    "rfb",
    "rpc",
    "sip",
    "smb",
    "smtp",
    "snmp",
    "ssh",
    "ssl",
    "telnet",
    "template",
    "tftp",
    "tls",
    "websocket",
    "ether",
    "arp",
];

/// The protocol word of a header.
pub(crate) enum ProtocolWord {
    /// The protocol below, and that of the application if the word is its name.
    Known(Protocol, Option<AppProtocol>),
    Unsupported,
    Unknown,
}

/// Parses the protocol of a rule's header.
pub(crate) fn protocol(word: &str) -> ProtocolWord {
    let word = word.to_ascii_lowercase();
    if let Some(app) = AppProtocol::named(&word) {
        // DNS is over UDP and over TCP.
        let below = match app {
            AppProtocol::Dns => Protocol::Ip,
            _ => Protocol::Tcp,
        };
        return ProtocolWord::Known(below, Some(app));
    }
    let below = match word.as_str() {
        "tcp" => Protocol::Tcp,
        "tcp-pkt" => Protocol::TcpPacket,
        "tcp-stream" => Protocol::TcpStream,
        "udp" => Protocol::Udp,
        "icmp" => Protocol::Icmp,
        "icmpv4" => Protocol::Icmpv4,
        "icmpv6" => Protocol::Icmpv6,
        // Suricata's word for rules on packets that it could not read in full.
        "ip" | "pkthdr" => Protocol::Ip,
        "ip4" | "ipv4" => Protocol::Ipv4,
        "ip6" | "ipv6" => Protocol::Ipv6,
        "sctp" => Protocol::Sctp,
        word if APPLICATION_PROTOCOLS.contains(&word) => return ProtocolWord::Unsupported,
        _ => return ProtocolWord::Unknown,
    };
    ProtocolWord::Known(below, None)
}

/// The words of a header; white space inside brackets does not part words.
pub(crate) fn words(text: &str, span: Span) -> Vec<Span> {
    let mut words = Vec::new();
    let mut open = 0usize;
    let mut start = None;
    for (at, byte) in span.of(text).bytes().enumerate() {
        let at = span.start + at;
        match byte {
            b'[' => open += 1,
            b']' => open = open.saturating_sub(1),
            _ => {}
        }
        if byte.is_ascii_whitespace() && open == 0 {
            if let Some(start) = start.take() {
                words.push(Span::new(start, at));
            }
        } else if start.is_none() {
            start = Some(at);
        }
    }
    if let Some(start) = start {
        words.push(Span::new(start, span.end));
    }
    join_negations(text, words)
}

/// `! 10.0.0.1` is one word.
fn join_negations(text: &str, words: Vec<Span>) -> Vec<Span> {
    let mut joined: Vec<Span> = Vec::with_capacity(words.len());
    for word in words {
        match joined.last_mut() {
            Some(last) if last.of(text) == "!" => last.end = word.end,
            _ => joined.push(word),
        }
    }
    joined
}

/// Reads the header in `span` of `text`, whose words are `words`.
pub(crate) fn parse_header(
    text: &str,
    span: Span,
    words: &[Span],
    variables: &Variables,
) -> Result<Header, Fault> {
    let &[
        action,
        protocol_word,
        source,
        source_ports,
        arrow,
        destination,
        destination_ports,
    ] = words
    else {
        let message = format!("a rule's header has 7 parts, this one has {}", words.len());
        return Err(Fault::new(span.trim(text), message)
            .help("write `action protocol addresses ports -> addresses ports (options)`"));
    };
    let action = match action.of(text).to_ascii_lowercase().as_str() {
        "alert" => Action::Alert,
        "pass" => Action::Pass,
        "drop" => Action::Drop,
        "reject" | "rejectsrc" | "rejectdst" | "rejectboth" => Action::Reject,
        other => {
            return Err(Fault::new(action, format!("unknown action `{other}`"))
                .help("actions are alert, pass, drop and reject"));
        }
    };
    let ProtocolWord::Known(protocol, application) = protocol(protocol_word.of(text)) else {
        let message = format!("unknown protocol `{}`", protocol_word.of(text));
        return Err(Fault::new(protocol_word, message).help(
            "protocols are tcp, tcp-pkt, tcp-stream, udp, icmp, icmpv4, icmpv6, ip, ipv4, ipv6 and sctp, and \
             those of applications: http, dns, tls, ssh, smtp and ftp",
        ));
    };
    let bidirectional = match arrow.of(text) {
        "->" => false,
        "<>" => true,
        "<-" => {
            return Err(
                Fault::new(arrow, "`<-` is not an arrow of the rule language")
                    .help("write `->` and exchange the two sides"),
            );
        }
        other => {
            return Err(
                Fault::new(arrow, format!("`{other}` stands where the arrow belongs"))
                    .help("arrows are `->` and `<>`"),
            );
        }
    };
    Ok(Header {
        action,
        protocol,
        application: application.map(|protocol| AppTest {
            protocol: Some(protocol),
            negated: false,
            of_header: true,
        }),
        source: parse_set(text, source, variables)?,
        source_ports: parse_set(text, source_ports, variables)?,
        destination: parse_set(text, destination, variables)?,
        destination_ports: parse_set(text, destination_ports, variables)?,
        bidirectional,
    })
}
