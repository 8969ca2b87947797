//! The buffers that rules look into beside payloads and streams, as a table, and the border over which the
//! caller hands them in.
//!
//! The caller parses the application protocol. Each time a message's part is complete ([`Phase`]), or more
//! of a body has come, it fills a [`Transaction`] and calls
//! [`RuleSet::inspect_transaction`](crate::RuleSet::inspect_transaction). A rule is tried in the phase of
//! the latest of its buffers, and sees all buffers of the same call: the caller hands in the earlier parts
//! of the message again. A buffer that is not handed in does not exist, so that no rule that names it
//! matches, negated or not; an empty one exists.

use crate::app_protocol::AppProtocol;
use crate::events::AppEvents;
use crate::numbers::AppNumber;

/// The source of a buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// A header of the packet at hand.
    Packet,
    /// A message of an application protocol.
    App(AppProtocol),
    /// Files in the bodies of several protocols (`file.data`, `file.name`).
    Files,
}

/// The part of a message in which a buffer is complete.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Phase {
    /// All but the body: HTTP's start line and headers, a DNS message, a TLS handshake message, a command.
    Head = 0,
    /// The body, or a window of it.
    Body = 1,
}

/// One row of the table of buffers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BufferInfo {
    /// The buffer.
    pub buffer: Buffer,
    /// The keyword that selects it for the conditions that follow (a sticky buffer).
    pub name: &'static str,
    /// The older spelling of the same, if there is one.
    pub old_name: Option<&'static str>,
    /// The Snort-2 modifier, written behind a `content`, if there is one.
    pub modifier: Option<&'static str>,
    /// The source of its bytes.
    pub origin: Origin,
    /// Messages to the server have it.
    pub to_server: bool,
    /// Messages to the client have it.
    pub to_client: bool,
    /// The phase in which it is handed in first.
    pub phase: Phase,
}

macro_rules! buffers {
    ($($(#[$doc:meta])* $variant:ident $name:literal, old $old:expr, modifier $modifier:expr,
       $origin:expr, $up:literal $down:literal, $phase:ident;)*) => {
        /// A buffer that rules may name.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(u8)]
        pub enum Buffer {
            $($(#[$doc])* $variant,)*
        }

        /// All buffers, in the order of [`Buffer`].
        pub const BUFFERS: &[BufferInfo] = &[
            $(BufferInfo {
                buffer: Buffer::$variant,
                name: $name,
                old_name: $old,
                modifier: $modifier,
                origin: $origin,
                to_server: $up,
                to_client: $down,
                phase: Phase::$phase,
            },)*
        ];
    };
}

const HTTP: Origin = Origin::App(AppProtocol::Http);
const DNS: Origin = Origin::App(AppProtocol::Dns);
const TLS: Origin = Origin::App(AppProtocol::Tls);
const SSH: Origin = Origin::App(AppProtocol::Ssh);
const SMTP: Origin = Origin::App(AppProtocol::Smtp);
const FTP: Origin = Origin::App(AppProtocol::Ftp);

buffers! {
    /// Method of an HTTP request.
    HttpMethod "http.method", old None, modifier Some("http_method"), HTTP, true false, Head;
    /// Normalised target: percent decoded once, `/./`, `/../` and `//` resolved, no fragment.
    HttpUri "http.uri", old None, modifier Some("http_uri"), HTTP, true false, Head;
    /// Target as sent.
    HttpRawUri "http.uri.raw", old None, modifier Some("http_raw_uri"), HTTP, true false, Head;
    /// First line of a request, without its line end.
    HttpRequestLine "http.request_line", old Some("http_request_line"), modifier None, HTTP, true false, Head;
    /// First line of a response, without its line end.
    HttpResponseLine "http.response_line", old Some("http_response_line"), modifier None, HTTP, false true, Head;
    /// Protocol and version, as `HTTP/1.1`.
    HttpProtocol "http.protocol", old Some("http_protocol"), modifier None, HTTP, true true, Head;
    /// Header lines, `Name: value\r\n` each, folded ones joined, without cookies, without the empty line.
    HttpHeader "http.header", old None, modifier Some("http_header"), HTTP, true true, Head;
    /// Header lines as sent, with the empty line.
    HttpRawHeader "http.header.raw", old None, modifier Some("http_raw_header"), HTTP, true true, Head;
    /// Names of headers: `\r\nName\r\nName\r\n\r\n`.
    HttpHeaderNames "http.header_names", old Some("http_header_names"), modifier None, HTTP, true true, Head;
    /// One header of a request as `Name: value`; one buffer for each name.
    HttpRequestHeader "http.request_header", old None, modifier None, HTTP, true false, Head;
    /// One header of a response as `Name: value`; one buffer for each name.
    HttpResponseHeader "http.response_header", old None, modifier None, HTTP, false true, Head;
    /// Start line and normalised header lines, with the empty line.
    HttpStart "http.start", old Some("http_start"), modifier None, HTTP, true true, Head;
    /// Value of `Cookie`, or of `Set-Cookie`.
    HttpCookie "http.cookie", old None, modifier Some("http_cookie"), HTTP, true true, Head;
    /// Value of `User-Agent`.
    HttpUserAgent "http.user_agent", old None, modifier Some("http_user_agent"), HTTP, true false, Head;
    /// Host in lower case, without port: of an absolute target, or else of `Host`.
    HttpHost "http.host", old None, modifier Some("http_host"), HTTP, true false, Head;
    /// Value of `Host` as sent.
    HttpRawHost "http.host.raw", old None, modifier Some("http_raw_host"), HTTP, true false, Head;
    /// Value of `Referer`.
    HttpReferer "http.referer", old Some("http_referer"), modifier None, HTTP, true false, Head;
    /// Value of `Accept`.
    HttpAccept "http.accept", old Some("http_accept"), modifier None, HTTP, true false, Head;
    /// Value of `Accept-Language`.
    HttpAcceptLanguage "http.accept_lang", old Some("http_accept_lang"), modifier None, HTTP, true false, Head;
    /// Value of `Accept-Encoding`.
    HttpAcceptEncoding "http.accept_enc", old Some("http_accept_enc"), modifier None, HTTP, true false, Head;
    /// Value of `Connection`.
    HttpConnection "http.connection", old Some("http_connection"), modifier None, HTTP, true true, Head;
    /// Value of `Content-Type`.
    HttpContentType "http.content_type", old Some("http_content_type"), modifier None, HTTP, true true, Head;
    /// Value of `Content-Length`.
    HttpContentLength "http.content_len", old Some("http_content_len"), modifier None, HTTP, true true, Head;
    /// Value of `Location`.
    HttpLocation "http.location", old None, modifier None, HTTP, false true, Head;
    /// Value of `Server`.
    HttpServer "http.server", old None, modifier None, HTTP, false true, Head;
    /// Status code, three digits.
    HttpStatusCode "http.stat_code", old None, modifier Some("http_stat_code"), HTTP, false true, Head;
    /// Reason phrase.
    HttpStatusMessage "http.stat_msg", old None, modifier Some("http_stat_msg"), HTTP, false true, Head;
    /// Request body, without chunk lines.
    HttpRequestBody "http.request_body", old None, modifier Some("http_client_body"), HTTP, true false, Body;
    /// Response body, without chunk lines and decompressed.
    HttpResponseBody "http.response_body", old None, modifier Some("http_server_body"), HTTP, false true, Body;
    /// Content of a file: an HTTP response body, or a decoded part of a mail.
    FileData "file.data", old Some("file_data"), modifier None, Origin::Files, true true, Body;
    /// Name of a file: of `Content-Disposition`, or the path of the request.
    FileName "file.name", old None, modifier None, Origin::Files, true true, Body;
    /// One queried name, labels joined by dots; one buffer for each question.
    DnsQuery "dns.query", old Some("dns_query"), modifier None, DNS, true false, Head;
    /// One name of an answer's owner; one buffer for each record.
    DnsAnswerName "dns.answer.name", old None, modifier None, DNS, true true, Head;
    /// Random of a hello, 32 bytes.
    TlsRandom "tls.random", old None, modifier None, TLS, true true, Head;
    /// First four bytes of a hello's random.
    TlsRandomTime "tls.random_time", old None, modifier None, TLS, true true, Head;
    /// The other 28 bytes of a hello's random.
    TlsRandomBytes "tls.random_bytes", old None, modifier None, TLS, true true, Head;
    /// Server name of a client hello (RFC 6066).
    TlsSni "tls.sni", old Some("tls_sni"), modifier None, TLS, true false, Head;
    /// Subject of the server's certificate, as `C=US, O=..., CN=...`.
    TlsSubject "tls.cert_subject", old Some("tls_cert_subject"), modifier None, TLS, false true, Head;
    /// Issuer of the server's certificate.
    TlsIssuer "tls.cert_issuer", old Some("tls_cert_issuer"), modifier None, TLS, false true, Head;
    /// Serial number of the certificate, upper case pairs joined by colons.
    TlsSerial "tls.cert_serial", old Some("tls_cert_serial"), modifier None, TLS, false true, Head;
    /// SHA-1 of the certificate, lower case pairs joined by colons.
    TlsFingerprint "tls.cert_fingerprint", old Some("tls_cert_fingerprint"), modifier None, TLS, false true, Head;
    /// The certificate's bytes; one buffer for each of the chain.
    TlsCertificate "tls.certs", old None, modifier None, TLS, false true, Head;
    /// JA3 hash of a client hello, lower case hexadecimal.
    Ja3Hash "ja3.hash", old Some("ja3_hash"), modifier None, TLS, true false, Head;
    /// JA3 string of a client hello.
    Ja3String "ja3.string", old Some("ja3_string"), modifier None, TLS, true false, Head;
    /// JA3S hash of a server hello.
    Ja3sHash "ja3s.hash", old None, modifier None, TLS, false true, Head;
    /// JA3S string of a server hello.
    Ja3sString "ja3s.string", old None, modifier None, TLS, false true, Head;
    /// JA4 fingerprint of a client hello.
    Ja4Hash "ja4.hash", old None, modifier None, TLS, true false, Head;
    /// Protocol version of an SSH banner, as `2.0`.
    SshProto "ssh.proto", old Some("ssh_proto"), modifier None, SSH, true true, Head;
    /// Software of an SSH banner.
    SshSoftware "ssh.software", old Some("ssh_software"), modifier None, SSH, true true, Head;
    /// Hash of the algorithms that a client offers, lower case hexadecimal.
    SshHassh "ssh.hassh", old None, modifier None, SSH, true false, Head;
    /// Those algorithms: key exchange, encryption, MAC and compression, joined by semicolons.
    SshHasshString "ssh.hassh.string", old None, modifier None, SSH, true false, Head;
    /// The same of a server.
    SshHasshServer "ssh.hassh.server", old None, modifier None, SSH, false true, Head;
    /// Algorithms that a server offers.
    SshHasshServerString "ssh.hassh.server.string", old None, modifier None, SSH, false true, Head;
    /// Argument of HELO or EHLO.
    SmtpHelo "smtp.helo", old None, modifier None, SMTP, true false, Head;
    /// Address of MAIL FROM.
    SmtpMailFrom "smtp.mail_from", old None, modifier None, SMTP, true false, Head;
    /// Address of RCPT TO; one buffer for each.
    SmtpRcptTo "smtp.rcpt_to", old None, modifier None, SMTP, true false, Head;
    /// Command word of FTP.
    FtpCommand "ftp.command", old None, modifier None, FTP, true false, Head;
    /// Argument of the command.
    FtpCommandData "ftp.command_data", old None, modifier None, FTP, true false, Head;
    /// IPv4 header with options.
    Ipv4Header "ipv4.hdr", old None, modifier None, Origin::Packet, true true, Head;
    /// IPv6 header with its extension headers.
    Ipv6Header "ipv6.hdr", old None, modifier None, Origin::Packet, true true, Head;
    /// TCP header with options.
    TcpHeader "tcp.hdr", old None, modifier None, Origin::Packet, true true, Head;
    /// UDP header.
    UdpHeader "udp.hdr", old None, modifier None, Origin::Packet, true true, Head;
    /// ICMP header of eight bytes.
    Icmpv4Header "icmpv4.hdr", old None, modifier None, Origin::Packet, true true, Head;
    /// ICMPv6 header, with the rest of the message.
    Icmpv6Header "icmpv6.hdr", old None, modifier None, Origin::Packet, true true, Head;
}

impl Buffer {
    /// The buffer's row of the table.
    pub fn info(self) -> &'static BufferInfo {
        // The table is made from the same list as the enumeration.
        &BUFFERS[self as usize]
    }

    /// The buffer that a keyword selects for the conditions behind it.
    pub fn sticky(keyword: &str) -> Option<Self> {
        BUFFERS
            .iter()
            .find(|info| info.name == keyword || info.old_name == Some(keyword))
            .map(|info| info.buffer)
    }

    /// The buffer into which a Snort-2 modifier moves the `content` before it.
    pub fn modifier(keyword: &str) -> Option<Self> {
        BUFFERS
            .iter()
            .find(|info| info.modifier == Some(keyword))
            .map(|info| info.buffer)
    }
}

/// The bytes of one buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bytes<'a> {
    /// Buffer.
    pub buffer: Buffer,
    /// Its bytes, or a window of them.
    pub bytes: &'a [u8],
    /// Offset of the first byte in the whole buffer; 0 but for windows of a body.
    pub offset: u64,
    /// Nothing follows these bytes: false while more of a body is to come. `endswith`, negated conditions
    /// and `bsize` wait for it.
    pub complete: bool,
}

impl<'a> Bytes<'a> {
    /// A whole buffer.
    pub fn whole(buffer: Buffer, bytes: &'a [u8]) -> Self {
        Bytes {
            buffer,
            bytes,
            offset: 0,
            complete: true,
        }
    }
}

/// A message of an application protocol, as far as it is known.
#[derive(Debug, Clone, Copy)]
pub struct Transaction<'a> {
    /// Protocol of the message.
    pub protocol: AppProtocol,
    /// What is new in this call. Rules of this phase are tried; those of others are not.
    pub phase: Phase,
    /// All buffers known of the message, those of earlier phases included. A buffer may come several times
    /// (`dns.query`): one of them must fit.
    pub buffers: &'a [Bytes<'a>],
    /// Its numbers; one may come several times (`dns.rrtype`): one of them must fit.
    pub numbers: &'a [(AppNumber, u32)],
    /// Anomalies of the message.
    pub events: AppEvents,
    /// The stream or datagram around the message, for conditions of the same rule on the payload; its
    /// newest bytes are those of the message.
    pub payload: &'a [u8],
}
