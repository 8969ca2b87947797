//! Which protocol a flow speaks, by its first bytes and whatever its port.

use crate::field::Protocol;
use crate::http::line::{Start, classify_line, classify_opening, starts_with_ignoring_case};

/// Judgement on the first bytes of one direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    Yes(Protocol),
    /// More bytes, or those of the other direction, are needed.
    More,
    No,
}

/// Judges what one direction of a TCP connection began with; `other` is what is known of the other one.
pub(crate) fn detect(to_server: bool, bytes: &[u8], other: &[u8]) -> Found {
    let judges = [
        http(to_server, bytes),
        tls(to_server, bytes),
        ssh(bytes),
        if to_server {
            commands(bytes, other)
        } else {
            greeting(bytes, other)
        },
        dns(to_server, bytes),
    ];
    let mut found = Found::No;
    for judge in judges {
        match judge {
            Found::Yes(_) => return judge,
            Found::More => found = Found::More,
            Found::No => {}
        }
    }
    found
}

fn http(to_server: bool, bytes: &[u8]) -> Found {
    match (classify_opening(bytes), to_server) {
        (Start::Request, true) | (Start::Response, false) => Found::Yes(Protocol::Http),
        (Start::NeedMore, _) => Found::More,
        (_, true) => request_line(bytes),
        _ => Found::No,
    }
}

/// A whole line with a method that is not known, or without a target.
fn request_line(bytes: &[u8]) -> Found {
    if bytes.len() > 32 && bytes.last() != Some(&b'\n') {
        return Found::More;
    }
    match classify_line(bytes, false) {
        Start::Request => Found::Yes(Protocol::Http),
        Start::NeedMore => Found::More,
        _ => Found::No,
    }
}

/// A handshake record (RFC 8446 section 5.1) that begins with a client's or a server's hello.
fn tls(to_server: bool, bytes: &[u8]) -> Found {
    let hello = if to_server { 1 } else { 2 };
    let fits = |at: usize, byte: u8| match at {
        0 => byte == 22,
        1 => byte == 3,
        2 => byte <= 4,
        3 => byte <= 0x48,
        5 => byte == hello,
        _ => true,
    };
    if !bytes.iter().take(6).enumerate().all(|(at, &b)| fits(at, b)) {
        return Found::No;
    }
    if bytes.len() < 6 {
        return Found::More;
    }
    Found::Yes(Protocol::Tls)
}

fn prefix(bytes: &[u8], known: &[u8]) -> Found {
    if starts_with_ignoring_case(bytes, known) {
        Found::Yes(Protocol::Ssh)
    } else if starts_with_ignoring_case(known, bytes) {
        Found::More
    } else {
        Found::No
    }
}

fn ssh(bytes: &[u8]) -> Found {
    prefix(bytes, b"SSH-")
}

/// First commands of SMTP's clients, and those of FTP's.
const MAIL: [&[u8]; 2] = [b"EHLO", b"HELO"];
const FILES: [&[u8]; 7] = [
    b"USER ", b"AUTH ", b"FEAT\r", b"SYST\r", b"OPTS ", b"CLNT ", b"HOST ",
];

fn commands(bytes: &[u8], greeting: &[u8]) -> Found {
    let mut found = Found::No;
    for (commands, protocol) in [(&MAIL[..], Protocol::Smtp), (&FILES[..], Protocol::Ftp)] {
        for command in commands {
            match prefix(bytes, command) {
                Found::Yes(_) if protocol == Protocol::Smtp => return Found::Yes(protocol),
                // POP and others have these, too.
                Found::Yes(_) if greeting.starts_with(b"220") => return Found::Yes(protocol),
                Found::No => {}
                _ => found = Found::More,
            }
        }
    }
    found
}

/// `220` of SMTP (RFC 5321 section 4.2) and of FTP (RFC 959 section 5.4): told apart by the text, or by the
/// client's command.
fn greeting(bytes: &[u8], command: &[u8]) -> Found {
    if !bytes.iter().zip(b"220").all(|(a, b)| a == b) {
        return Found::No;
    }
    if bytes.len() < 4 {
        return Found::More;
    }
    if !matches!(bytes.get(3), Some(b' ' | b'-')) {
        return Found::No;
    }
    if !command.is_empty() && matches!(commands(command, bytes), Found::Yes(_)) {
        return commands(command, bytes);
    }
    if bytes.last() == Some(&b'\n') {
        let text = bytes.to_ascii_uppercase();
        let has = |word: &[u8]| text.windows(word.len()).any(|w| w == word);
        match (has(b"SMTP"), has(b"FTP")) {
            (true, false) => return Found::Yes(Protocol::Smtp),
            (false, true) => return Found::Yes(Protocol::Ftp),
            _ => {}
        }
    }
    Found::More
}

/// A message behind its length (RFC 1035 section 4.2.2).
fn dns(to_server: bool, bytes: &[u8]) -> Found {
    if bytes.len() < 15 {
        return if bytes.first().is_none_or(|&high| high < 16) {
            Found::More
        } else {
            Found::No
        };
    }
    let (length, message) = bytes.split_at(2);
    let length = u16::from_be_bytes([
        length.first().copied().unwrap_or(0),
        length.get(1).copied().unwrap_or(0),
    ]);
    let plausible = length >= 17 && is_dns(message.get(..13).unwrap_or(&[]));
    let response = message.get(2).is_some_and(|flags| flags & 0x80 != 0);
    if plausible && response != to_server {
        Found::Yes(Protocol::Dns)
    } else {
        Found::No
    }
}

/// True where a DNS header stands in front (RFC 1035 section 4.1.1), as far as one can tell: few questions,
/// a known operation, counts that fit the direction.
pub(crate) fn is_dns(message: &[u8]) -> bool {
    let word = |at: usize| match message.get(at..at + 2) {
        Some(&[high, low]) => Some(u16::from_be_bytes([high, low])),
        _ => None,
    };
    let (Some(flags), Some(questions), Some(answers), Some(authorities), Some(additional)) =
        (word(2), word(4), word(6), word(8), word(10))
    else {
        return false;
    };
    let (response, opcode, rcode) = (flags & 0x8000 != 0, flags >> 11 & 15, flags & 15);
    let label = message.get(12).copied().unwrap_or(0);
    let counts = if response {
        rcode <= 11 && questions <= 1 && answers <= 512 && authorities <= 64 && additional <= 64
    } else {
        // An update has records of all kinds (RFC 2136).
        rcode == 0
            && questions == 1
            && (opcode == 5 || answers <= 1 && authorities <= 1)
            && additional <= 4
    };
    counts && matches!(opcode, 0 | 1 | 2 | 4 | 5) && label < 64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn openings_of_clients() {
        use Protocol::*;
        for (bytes, expected) in [
            (&b""[..], Found::More),
            (b"GET /", Found::Yes(Http)),
            (b"GE", Found::More),
            (b"\x16\x03\x01\x02\x00\x01", Found::Yes(Tls)),
            (b"\x16\x03\x01\x02\x00\x02", Found::No),
            (b"SSH-2.0-x", Found::Yes(Ssh)),
            (b"ehlo x\r\n", Found::Yes(Smtp)),
            (b"USER a\r\n", Found::More),
            (
                b"\0\x1d\x12\x34\x01\0\0\x01\0\0\0\0\0\0\x03www",
                Found::Yes(Dns),
            ),
            (b"\xffabc", Found::No),
            (b"hello world, this is not known\n", Found::No),
            (b"OPTIONS\r\n", Found::Yes(Http)),
            (b"FOO / HTTP/1.1\r\n", Found::Yes(Http)),
        ] {
            assert_eq!(detect(true, bytes, b""), expected, "{bytes:?}");
        }
        assert_eq!(detect(true, b"USER a\r\n", b"220 hi\r\n"), Found::Yes(Ftp));
    }

    #[test]
    fn greetings_of_servers() {
        use Protocol::*;
        for (bytes, client, expected) in [
            (&b"220 mail ESMTP x\r\n"[..], &b""[..], Found::Yes(Smtp)),
            (b"220 (vsFTPd 3.0)\r\n", b"", Found::Yes(Ftp)),
            (b"220 hello\r\n", b"", Found::More),
            (b"220 hello\r\n", b"USER a", Found::Yes(Ftp)),
            (b"220 hello\r\n", b"HELO", Found::Yes(Smtp)),
            (b"221 bye\r\n", b"", Found::No),
            (b"HTTP/1.1 200", b"", Found::Yes(Http)),
        ] {
            assert_eq!(detect(false, bytes, client), expected, "{bytes:?}");
        }
    }
}
