//! Names of what parsers give: protocols, fields, numbers and notices.

/// Protocols of the application layer that are recognised.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Protocol {
    /// HTTP/1 (RFC 9112).
    Http = 1,
    /// DNS over UDP or TCP (RFC 1035).
    Dns,
    /// TLS (RFC 8446).
    Tls,
    /// SSH (RFC 4253).
    Ssh,
    /// SMTP (RFC 5321).
    Smtp,
    /// FTP, the control connection (RFC 959).
    Ftp,
}

impl Protocol {
    /// All of them.
    pub const ALL: [Protocol; 6] = [
        Protocol::Http,
        Protocol::Dns,
        Protocol::Tls,
        Protocol::Ssh,
        Protocol::Smtp,
        Protocol::Ftp,
    ];

    /// The name that rules and records use.
    pub fn name(self) -> &'static str {
        match self {
            Protocol::Http => "http",
            Protocol::Dns => "dns",
            Protocol::Tls => "tls",
            Protocol::Ssh => "ssh",
            Protocol::Smtp => "smtp",
            Protocol::Ftp => "ftp",
        }
    }
}

macro_rules! named {
    ($(#[$kind:meta])* $type:ident { $($(#[$doc:meta])* $variant:ident $name:literal;)* }) => {
        $(#[$kind])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(u8)]
        pub enum $type {
            $($(#[$doc])* $variant,)*
        }

        impl $type {
            /// All of them, in the order of the enumeration.
            pub const ALL: &'static [$type] = &[$($type::$variant,)*];

            /// Its name, as rules spell it where they have one.
            pub const fn name(self) -> &'static str {
                match self {
                    $($type::$variant => $name,)*
                }
            }
        }
    };
}

named! {
    /// A field of a message: bytes under a name. Rules look into most of them.
    Field {
        /// Method of an HTTP request.
        HttpMethod "http.method";
        /// Normalised target ([`crate::http::uri`]).
        HttpUri "http.uri";
        /// Target as sent.
        HttpRawUri "http.uri.raw";
        /// First line of a request, without its line end.
        HttpRequestLine "http.request_line";
        /// First line of a response, without its line end.
        HttpResponseLine "http.response_line";
        /// Protocol and version, as `HTTP/1.1`.
        HttpProtocol "http.protocol";
        /// Header lines, `Name: value\r\n` each, folded ones joined, equal names joined, without cookies.
        HttpHeader "http.header";
        /// Header lines as sent, with the empty line.
        HttpRawHeader "http.header.raw";
        /// Names of headers without cookies: `\r\nName\r\nName\r\n\r\n`.
        HttpHeaderNames "http.header_names";
        /// One header of a request as `Name: value`, cookies too; one value for each name.
        HttpRequestHeader "http.request_header";
        /// One header of a response as `Name: value`; one value for each name.
        HttpResponseHeader "http.response_header";
        /// Start line and normalised header lines, with an empty line.
        HttpStart "http.start";
        /// Value of `Cookie`, or of `Set-Cookie`.
        HttpCookie "http.cookie";
        /// Value of `User-Agent`.
        HttpUserAgent "http.user_agent";
        /// Host in lower case, without port: of an absolute target, or else of `Host`.
        HttpHost "http.host";
        /// Value of `Host` as sent.
        HttpRawHost "http.host.raw";
        /// Value of `Referer`.
        HttpReferer "http.referer";
        /// Value of `Accept`.
        HttpAccept "http.accept";
        /// Value of `Accept-Language`.
        HttpAcceptLanguage "http.accept_lang";
        /// Value of `Accept-Encoding`.
        HttpAcceptEncoding "http.accept_enc";
        /// Value of `Connection`.
        HttpConnection "http.connection";
        /// Value of `Content-Type`.
        HttpContentType "http.content_type";
        /// Value of `Content-Length`.
        HttpContentLength "http.content_len";
        /// Value of `Location`.
        HttpLocation "http.location";
        /// Value of `Server`.
        HttpServer "http.server";
        /// Status code as sent.
        HttpStatusCode "http.stat_code";
        /// Reason phrase.
        HttpStatusMessage "http.stat_msg";
        /// Request body, without chunk lines.
        HttpRequestBody "http.request_body";
        /// Response body, without chunk lines and decompressed.
        HttpResponseBody "http.response_body";
        /// Content of a file: an HTTP body, decompressed, or a decoded part of a mail.
        FileData "file.data";
        /// Name of the file that a part of a mail is.
        FileName "file.name";
        /// One name asked for, labels joined by dots; one value for each question.
        DnsQuery "dns.query";
        /// Name of an answer's owner; one value for each record.
        DnsAnswerName "dns.answer.name";
        /// Data of the answer before as text, empty where its type is not known here; of a `TXT` record one value
        /// for each string.
        DnsAnswerData "dns.answer.rdata";
        /// Name of an authority's owner; one value for each record.
        DnsAuthorityName "dns.authority.name";
        /// Data of the authority before, as that of an answer.
        DnsAuthorityData "dns.authority.rdata";
        /// Random of a hello, 32 bytes.
        TlsRandom "tls.random";
        /// First four bytes of a hello's random.
        TlsRandomTime "tls.random_time";
        /// The other 28 bytes of a hello's random.
        TlsRandomBytes "tls.random_bytes";
        /// Server name of a client hello (RFC 6066).
        TlsSni "tls.sni";
        /// Subject of the first certificate, as `C=US, O=..., CN=...`.
        TlsSubject "tls.cert_subject";
        /// Issuer of the first certificate.
        TlsIssuer "tls.cert_issuer";
        /// Serial number of the first certificate, upper case pairs joined by colons.
        TlsSerial "tls.cert_serial";
        /// SHA-1 of the first certificate, lower case pairs joined by colons.
        TlsFingerprint "tls.cert_fingerprint";
        /// Bytes of a certificate; one value for each of the chain.
        TlsCertificate "tls.certs";
        /// JA3 hash of a client hello, lower case hexadecimal.
        Ja3Hash "ja3.hash";
        /// JA3 string of a client hello.
        Ja3String "ja3.string";
        /// JA3S hash of a server hello.
        Ja3sHash "ja3s.hash";
        /// JA3S string of a server hello.
        Ja3sString "ja3s.string";
        /// JA4 fingerprint of a client hello.
        Ja4Hash "ja4.hash";
        /// Protocol version of an SSH banner, as `2.0`.
        SshProto "ssh.proto";
        /// Software of an SSH banner.
        SshSoftware "ssh.software";
        /// Hash of the algorithms that a client offers (<https://github.com/salesforce/hassh>), lower case
        /// hexadecimal.
        SshHassh "ssh.hassh";
        /// Those algorithms: key exchange, encryption, MAC and compression, joined by semicolons.
        SshHasshString "ssh.hassh.string";
        /// The same of a server.
        SshHasshServer "ssh.hassh.server";
        /// Algorithms that a server offers.
        SshHasshServerString "ssh.hassh.server.string";
        /// Command word of SMTP, in upper case.
        SmtpCommand "smtp.command";
        /// Argument of HELO or EHLO.
        SmtpHelo "smtp.helo";
        /// Address of MAIL FROM.
        SmtpMailFrom "smtp.mail_from";
        /// Address of RCPT TO.
        SmtpRcptTo "smtp.rcpt_to";
        /// One line of a reply of an SMTP server.
        SmtpReply "smtp.reply";
        /// Command word of FTP as sent.
        FtpCommand "ftp.command";
        /// What follows the command word.
        FtpCommandData "ftp.command_data";
        /// One line of a reply of an FTP server.
        FtpReply "ftp.reply";
    }
}

named! {
    /// A number in a message.
    Number {
        /// Operation code of a DNS message.
        DnsOpcode "dns.opcode";
        /// Response code of a DNS message, without that of EDNS.
        DnsRcode "dns.rcode";
        /// Type of a DNS question; one value for each.
        DnsRrtype "dns.rrtype";
        /// DNS: 1 for a response, 0 for a query.
        DnsIsResponse "dns.response";
        /// DNS: identification.
        DnsId "dns.id";
        /// DNS: the flags of a header, 16 bits.
        DnsFlags "dns.flags";
        /// Type of a DNS answer; one value for each record.
        DnsAnswerType "dns.answer.rrtype";
        /// Time to live of a DNS answer, in seconds; one value for each record.
        DnsAnswerTtl "dns.answer.ttl";
        /// Type of a DNS authority; one value for each record.
        DnsAuthorityType "dns.authority.rrtype";
        /// Time to live of a DNS authority, in seconds; one value for each record.
        DnsAuthorityTtl "dns.authority.ttl";
        /// HTTP: bytes of the body as sent, without chunk lines.
        HttpBodyLength "http.body_length";
        /// TLS version that was agreed on, or offered: 0x0303 is TLS 1.2.
        TlsVersion "tls.version";
        /// Start of the first certificate's validity, in seconds of Unix time.
        TlsNotBefore "tls.cert_notbefore";
        /// End of the first certificate's validity, in seconds of Unix time.
        TlsNotAfter "tls.cert_notafter";
        /// Certificates in the chain.
        TlsChainLength "tls.cert_chain_len";
        /// Code of a reply of SMTP or FTP.
        ReplyCode "reply_code";
    }
}

named! {
    /// A fact about a message that is out of the ordinary, by Suricata's name where it has one.
    Notice {
        /// HTTP: a body could not be decompressed.
        HttpBadCompression "http.bad_compression";
        /// HTTP: a body was longer, compressed or not, than is kept.
        HttpBodyLimit "http.body_limit";
        /// HTTP: the end of a head is missing, or beyond what is read.
        HttpHeadCut "http.head_cut";
        /// HTTP: a message ended before its body did.
        HttpBodyShort "http.body_short";
        /// HTTP: bytes of a body were lost.
        HttpBodyGap "http.body_gap";
        /// Bytes of a mail were lost.
        SmtpMailGap "smtp.mail_gap";
        /// HTTP: a line of a request's head without a colon.
        HttpRequestColon "http.request_field_missing_colon";
        /// HTTP: a line of a response's head without a colon.
        HttpResponseColon "http.response_field_missing_colon";
        /// HTTP: a request's `Content-Length` that is no number.
        HttpRequestLength "http.invalid_content_length_field_in_request";
        /// HTTP: a response's `Content-Length` that is no number.
        HttpResponseLength "http.invalid_content_length_field_in_response";
        /// HTTP: a request with two `Content-Length`.
        HttpRequestLengthTwice "http.duplicate_content_length_field_in_request";
        /// HTTP: a response with two `Content-Length`.
        HttpResponseLengthTwice "http.duplicate_content_length_field_in_response";
        /// HTTP: a request of HTTP/1.1 without `Host`.
        HttpHostMissing "http.missing_host_header";
        /// HTTP: a request with two `Host`, or with one that is not that of its target.
        HttpHostAmbiguous "http.host_header_ambiguous";
        /// HTTP: an `Authorization` other than Basic, Digest and Bearer.
        HttpAuthorizationUnknown "http.request_auth_unrecognized";
        /// HTTP: a target with a byte that is percent encoded twice.
        HttpEncodedTwice "http.double_encoded_uri";
        /// DNS: the reserved Z bit is set.
        DnsZFlagSet "dns.z_flag_set";
        /// DNS: a message that could not be read to its end.
        DnsMalformed "dns.malformed_data";
        /// DNS: a query where a response is due.
        DnsNotResponse "dns.not_a_response";
        /// DNS: a response where a query is due.
        DnsNotRequest "dns.not_a_request";
        /// TLS: a record that is none.
        TlsInvalidRecord "tls.invalid_record_type";
        /// TLS: a handshake message that could not be read.
        TlsInvalidHandshake "tls.invalid_handshake_message";
        /// TLS: a certificate that could not be read.
        TlsInvalidCertificate "tls.invalid_certificate";
        /// SSH: a banner that is none.
        SshInvalidBanner "ssh.invalid_banner";
        /// SSH: a banner longer than 255 bytes.
        SshLongBanner "ssh.long_banner";
        /// SMTP: a command line longer than is kept.
        SmtpCommandTooLong "smtp.max_command_line_len_exceeded";
        /// SMTP: a reply longer than is kept.
        SmtpReplyTooLong "smtp.max_reply_line_len_exceeded";
        /// FTP: a command longer than is kept.
        FtpCommandTooLong "ftp.request_command_too_long";
        /// FTP: a reply longer than is kept.
        FtpReplyTooLong "ftp.response_command_too_long";
    }
}
