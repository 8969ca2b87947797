//! Records as events, with the names of Suricata's EVE.

use weir_dissect::{Field, Notice, Number, Protocol};
use weir_nf::Event;
use weir_packet::civil_from_days;

use super::dns;
use super::file::{File, target};
use super::members::{hashes, list, number, unsigned, values};
use super::note::{Note, Part};
use super::record::{Record, Transaction};

/// The object of a transaction in an alert: `http`, `dns`, ...
pub(in super::super) fn write_object(event: &mut Event<'_>, of: &Transaction) {
    let [client, server] = &of.sides;
    event.object(of.protocol.name());
    match of.protocol {
        Protocol::Http => http(event, client, server),
        Protocol::Dns => dns::write_in_alert(event, client, of.number),
        Protocol::Tls => tls(event, client, server),
        Protocol::Ssh => {
            let of_client = (Field::SshHassh, Field::SshHasshString);
            let of_server = (Field::SshHasshServer, Field::SshHasshServerString);
            ssh(event, "client", client, of_client);
            ssh(event, "server", server, of_server);
        }
        Protocol::Smtp => {
            values(event, client, &[(Field::SmtpHelo, "helo")]);
            if let Some(sender) = server.get(Field::SmtpMailFrom) {
                event.bytes("mail_from", &bracketed(sender));
            }
            let recipients = server.values(Field::SmtpRcptTo).map(bracketed);
            let recipients: Vec<Vec<u8>> = recipients.collect();
            list(event, "rcpt_to", recipients.iter().map(Vec::as_slice));
        }
        Protocol::Ftp => ftp(event, client, server),
    }
    event.end();
}

/// Writes all of a record but its addresses.
pub(in super::super) fn write_record(event: &mut Event<'_>, record: &Record) {
    match record {
        Record::Transaction(of) if of.protocol == Protocol::Dns => {
            let [note, _] = &of.sides;
            event.object("dns");
            dns::write(event, note, of.number);
            event.end();
        }
        Record::Transaction(of) => {
            event.number("tx_id", u64::from(of.number));
            write_object(event, of);
        }
        Record::File { of, file, .. } => {
            event
                .number("tx_id", u64::from(of.number))
                .text("app_proto", of.protocol.name());
            write_object(event, of);
            write_file(event, file, of.number);
        }
        Record::Anomaly {
            protocol, notice, ..
        } => {
            let name = notice.name();
            let name = name.split_once('.').map_or(name, |(_, name)| name);
            event
                .object("anomaly")
                .text("app_proto", protocol.name())
                .text("type", "applayer")
                .text("event", &anomaly_name(*protocol, name))
                .text("layer", "proto_parser")
                .end();
        }
        Record::Packet {
            kind, event: name, ..
        } => {
            let prefix = match *kind {
                "decode" => "decoder",
                other => other,
            };
            event
                .object("anomaly")
                .text("type", kind)
                .display("event", format_args!("{prefix}.{name}"))
                .end();
        }
    }
}

fn write_file(event: &mut Event<'_>, file: &File, number: u32) {
    event
        .object("fileinfo")
        .bytes("filename", &file.name)
        .flag("gaps", file.gaps)
        .text("state", if file.whole { "CLOSED" } else { "TRUNCATED" });
    for (name, digits) in &file.hashes {
        event.text(name, digits);
    }
    event
        .flag("stored", false)
        .number("size", file.size)
        .number("tx_id", u64::from(number))
        .end();
}

fn http(event: &mut Event<'_>, request: &Note, response: &Note) {
    let asked = request.get(Field::HttpRawUri).unwrap_or(&[]);
    let own = request.get(Field::HttpRawHost).unwrap_or(&[]);
    let host = target(asked).0.unwrap_or(own);
    let port = host.iter().rposition(|&b| b == b':');
    let port = port.and_then(|at| number(host.get(at + 1..)?));
    values(event, request, &[(Field::HttpHost, "hostname")]);
    if let Some(port) = port {
        event.number("http_port", port);
    }
    values(
        event,
        request,
        &[
            (Field::HttpRawUri, "url"),
            (Field::HttpUserAgent, "http_user_agent"),
        ],
    );
    if let Some(kind) = response.get(Field::HttpContentType) {
        let kind = kind.split(|&b| b == b';').next().unwrap_or(kind);
        event.bytes("http_content_type", kind);
    }
    values(
        event,
        request,
        &[
            (Field::HttpReferer, "http_refer"),
            (Field::HttpMethod, "http_method"),
            (Field::HttpProtocol, "protocol"),
        ],
    );
    let status = response.get(Field::HttpStatusCode).and_then(number);
    if let Some(status) = status {
        event.number("status", status);
    }
    if status.is_some_and(|status| (300..400).contains(&status)) {
        values(event, response, &[(Field::HttpLocation, "redirect")]);
    }
    event.number("length", unsigned(response, Number::HttpBodyLength));
}

fn tls(event: &mut Event<'_>, client: &Note, server: &Note) {
    values(
        event,
        server,
        &[
            (Field::TlsSubject, "subject"),
            (Field::TlsIssuer, "issuerdn"),
            (Field::TlsSerial, "serial"),
            (Field::TlsFingerprint, "fingerprint"),
        ],
    );
    values(event, client, &[(Field::TlsSni, "sni")]);
    let agreed = server.number(Number::TlsVersion);
    match agreed.or(client.number(Number::TlsVersion)) {
        None => {}
        Some(0x0002) => drop(event.text("version", "SSLv2")),
        Some(0x0300) => drop(event.text("version", "SSLv3")),
        Some(0x0301) => drop(event.text("version", "TLSv1")),
        Some(version @ 0x0302..=0x0304) => {
            event.display("version", format_args!("TLS 1.{}", version - 0x0301));
        }
        // Drafts of TLS 1.3.
        Some(version @ 0x7f10..=0x7f1c) => {
            event.display(
                "version",
                format_args!("TLS 1.3 draft-{}", version - 0x7f00),
            );
        }
        Some(0x7f00..=0x7f0f) => drop(event.text("version", "TLS 1.3 draft-<16")),
        Some(other) => drop(event.display("version", format_args!("0x{other:04x}"))),
    }
    for (number, name) in [
        (Number::TlsNotBefore, "notbefore"),
        (Number::TlsNotAfter, "notafter"),
    ] {
        if let Some(seconds) = server.number(number) {
            event.text(name, &date(seconds));
        }
    }
    hashes(event, "ja3", client, (Field::Ja3Hash, Field::Ja3String));
    hashes(event, "ja3s", server, (Field::Ja3sHash, Field::Ja3sString));
    values(event, client, &[(Field::Ja4Hash, "ja4")]);
}

fn ssh(event: &mut Event<'_>, name: &str, note: &Note, hassh: (Field, Field)) {
    if note.is_empty() {
        return;
    }
    event.object(name);
    values(
        event,
        note,
        &[
            (Field::SshProto, "proto_version"),
            (Field::SshSoftware, "software_version"),
        ],
    );
    hashes(event, "hassh", note, hassh);
    event.end();
}

/// Seconds of Unix time as a date and a time of day. [`Time`](weir_packet::Time) does not reach the years before 1970
/// and 9999, which certificates name.
fn date(seconds: i64) -> String {
    const DAY: i64 = 86_400;
    let (year, month, day) = civil_from_days(seconds.div_euclid(DAY));
    let clock = seconds.rem_euclid(DAY);
    let (hours, minutes, seconds) = (clock / 3_600, clock / 60 % 60, clock % 60);
    format!("{year:04}-{month:02}-{day:02}T{hours:02}:{minutes:02}:{seconds:02}")
}

/// A command and its replies; a reply begins with a code.
fn ftp(event: &mut Event<'_>, command: &Note, replies: &Note) {
    values(
        event,
        command,
        &[
            (Field::FtpCommand, "command"),
            (Field::FtpCommandData, "command_data"),
        ],
    );
    let lines = || {
        replies.parts().filter_map(|part| match part {
            Part::Value(Field::FtpReply, line) => Some(match line.get(..3) {
                Some(code) if number(code).is_some() => (Some(code), line.get(4..).unwrap_or(&[])),
                _ => (None, line),
            }),
            _ => None,
        })
    };
    let mut last = None;
    let codes = lines().filter_map(|(code, _)| {
        let is_new = code != last;
        last = code;
        code.filter(|_| is_new)
    });
    list(event, "completion_code", codes);
    list(event, "reply", lines().map(|(_, text)| text));
    let received = if replies.is_empty() { "no" } else { "yes" };
    event
        .flag("command_truncated", command.has(Notice::FtpCommandTooLong))
        .flag("reply_truncated", replies.has(Notice::FtpReplyTooLong))
        .text("reply_received", received);
    let word = command.get(Field::FtpCommand).unwrap_or(&[]);
    let argument = command.get(Field::FtpCommandData).unwrap_or(&[]);
    let last = replies.values(Field::FtpReply).last().unwrap_or(&[]);
    let (mode, port) = match &word.to_ascii_uppercase()[..] {
        b"PORT" => ("active", port_of_six(argument)),
        b"EPRT" => ("active", port_between(argument, 3)),
        b"PASV" => ("passive", port_of_six(behind(last, b'('))),
        b"EPSV" => ("passive", port_between(behind(last, b'('), 3)),
        _ => return,
    };
    if let Some(port) = port {
        event.number("dynamic_port", port).text("mode", mode);
    }
}

/// The bytes behind the first `mark`.
fn behind(bytes: &[u8], mark: u8) -> &[u8] {
    let at = bytes.iter().position(|&b| b == mark);
    at.and_then(|at| bytes.get(at + 1..)).unwrap_or(&[])
}

/// The port in `h1,h2,h3,h4,p1,p2` (RFC 959 section 4.1.2).
fn port_of_six(bytes: &[u8]) -> Option<u64> {
    let mut parts = bytes.split(|&b| b == b',').skip(4);
    let (high, low) = (parts.next()?, parts.next()?);
    let digits = low.iter().take_while(|b| b.is_ascii_digit()).count();
    let (high, low) = (number(high)?, number(low.get(..digits)?)?);
    (high < 256 && low < 256).then_some(high << 8 | low)
}

/// The port behind so many delimiters, of which the first byte is one (RFC 2428).
fn port_between(bytes: &[u8], delimiters: usize) -> Option<u64> {
    let mark = *bytes.first()?;
    number(bytes.split(|&b| b == mark).nth(delimiters)?)
}

/// An address of SMTP, as it stands in a command.
fn bracketed(address: &[u8]) -> Vec<u8> {
    [b"<", address, b">"].concat()
}

/// The name of a notice; Suricata's parsers in C and in Rust spell them differently.
fn anomaly_name(protocol: Protocol, name: &str) -> String {
    match protocol {
        Protocol::Http | Protocol::Tls | Protocol::Smtp => name.to_ascii_uppercase(),
        Protocol::Dns | Protocol::Ssh | Protocol::Ftp => name.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_those_of_the_calendar() {
        for (seconds, text) in [
            (0, "1970-01-01T00:00:00"),
            (-1, "1969-12-31T23:59:59"),
            (951_782_400, "2000-02-29T00:00:00"),
            (1_234_567_890, "2009-02-13T23:31:30"),
            (4_107_542_400, "2100-03-01T00:00:00"),
            (253_402_300_799, "9999-12-31T23:59:59"),
            (-2_208_988_800, "1900-01-01T00:00:00"),
        ] {
            assert_eq!(date(seconds), text);
        }
    }

    #[test]
    fn ports_come_out_of_commands_and_replies() {
        for (bytes, port) in [
            (&b"127,0,0,1,4,1"[..], Some(1025)),
            (b"127,0,0,1,255,255).", Some(65_535)),
            (b"127,0,0,1,256,1", None),
            (b"127,0,0,1,4", None),
            (b"", None),
        ] {
            assert_eq!(port_of_six(bytes), port);
        }
        assert_eq!(port_between(b"|2|::1|5282|", 3), Some(5_282));
        assert_eq!(port_between(b"|||5282|)", 3), Some(5_282));
        assert_eq!(port_between(b"", 3), None);
    }
}
