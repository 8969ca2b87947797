//! Names of services and clients, read from the first bytes that they send.

/// A recognised service or client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Banner<'a> {
    /// Protocol, in lower case.
    pub(super) service: &'static str,
    /// Software and version as it names them; may be empty.
    pub(super) detail: &'a [u8],
}

/// How far into a payload a header line is looked for, in bytes.
const FAR: usize = 2_048;

fn banner<'a>(service: &'static str, detail: &'a [u8]) -> Option<Banner<'a>> {
    Some(Banner { service, detail })
}

/// A service by the first bytes of its answer; `port` is where it listens.
pub(super) fn service(payload: &[u8], port: u16) -> Option<Banner<'_>> {
    match payload {
        [b'S', b'S', b'H', b'-', ..] => ssh(payload),
        [b'H', b'T', b'T', b'P', b'/', b'1', b'.', ..] => {
            banner("http", header(payload, b"server").unwrap_or(b""))
        }
        [b'2', b'2', b'0', b' ' | b'-', text @ ..] => {
            let text = line(text);
            if has(text, b"FTP") || port == 21 {
                banner("ftp", text)
            } else if has(text, b"SMTP") || has(text, b"MAIL") || matches!(port, 25 | 587 | 465) {
                banner("smtp", text)
            } else {
                None
            }
        }
        [b'+', b'O', b'K', b' ', text @ ..] => banner("pop3", line(text)),
        [b'*', b' ', b'O', b'K', b' ', text @ ..] => banner("imap", line(text)),
        [b'R', b'F', b'B', b' ', text @ ..] => banner("vnc", line(text)),
        [22, 3, _, ..] => banner("tls", tls(payload, 2)?.as_bytes()),
        // MySQL: length, sequence 0, protocol 10, version.
        [_, _, 0, 0, 10, text @ ..] => {
            let end = text.iter().position(|&b| b == 0)?;
            let version = text.get(..end)?;
            let is_version = version.first().is_some_and(u8::is_ascii_digit)
                && version.iter().all(u8::is_ascii_graphic);
            if is_version {
                banner("mysql", version)
            } else {
                None
            }
        }
        // RDP: TPKT, X.224 connection confirm.
        [3, 0, 0, _, _, 0xd0, ..] => banner("rdp", b""),
        // SMB in a NetBIOS session message.
        [0, 0, _, _, 0xff, b'S', b'M', b'B', ..] => banner("smb", b"version 1"),
        [0, 0, _, _, 0xfe, b'S', b'M', b'B', ..] => banner("smb", b"version 2 or newer"),
        [255, 251..=254, _, ..] if matches!(port, 23 | 2323) => banner("telnet", b""),
        _ => None,
    }
}

/// A client by the first bytes of its question.
pub(super) fn client(payload: &[u8]) -> Option<Banner<'_>> {
    match payload {
        [b'S', b'S', b'H', b'-', ..] => ssh(payload),
        [22, 3, _, ..] => banner("tls", tls(payload, 1)?.as_bytes()),
        _ if is_request(payload) => banner("http", header(payload, b"user-agent")?),
        _ => None,
    }
}

/// A service by a UDP datagram that comes from `port`.
pub(super) fn udp_service(payload: &[u8], port: u16) -> Option<Banner<'_>> {
    match (port, payload) {
        // DNS: a response (QR) to a standard query, with one question.
        (53, [_, _, flags, _, 0, 1, ..]) if flags & 0xf8 == 0x80 && payload.len() > 12 => {
            banner("dns", b"")
        }
        // NTP: mode 4, the version above it.
        (123, [first, ..]) if first & 7 == 4 && payload.len() >= 48 => {
            let version: &[u8] = match first >> 3 & 7 {
                3 => b"version 3",
                4 => b"version 4",
                _ => b"",
            };
            banner("ntp", version)
        }
        // DHCP: a reply with the magic cookie.
        (67, [2, ..]) if payload.get(236..240) == Some(&DHCP_COOKIE) => banner("dhcp", b""),
        (1900, [b'H', b'T', b'T', b'P', b'/', ..] | [b'N', b'O', b'T', b'I', b'F', b'Y', ..]) => {
            banner("ssdp", header(payload, b"server")?)
        }
        (_, [b'S', b'I', b'P', b'/', b'2', ..]) => {
            let name = header(payload, b"server").or_else(|| header(payload, b"user-agent"))?;
            banner("sip", name)
        }
        _ => None,
    }
}

/// A client by a UDP datagram that goes to `port`.
pub(super) fn udp_client(payload: &[u8], port: u16) -> Option<Banner<'_>> {
    if port == 67 {
        return None;
    }
    let is_sip = line(payload).ends_with(b" SIP/2.0");
    if is_sip {
        banner("sip", header(payload, b"user-agent")?)
    } else {
        None
    }
}

const DHCP_COOKIE: [u8; 4] = [0x63, 0x82, 0x53, 0x63];

/// Names that a host gives of itself in a DHCP request (RFC 2131, RFC 2132).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Dhcp<'a> {
    pub(super) mac: [u8; 6],
    /// The address that it has, or wants; zeros if it says none.
    pub(super) address: [u8; 4],
    /// Option 12.
    pub(super) name: &'a [u8],
    /// Option 60.
    pub(super) vendor: &'a [u8],
    /// Option 55: which parameters it asks for, in its order, is typical of a client.
    pub(super) parameters: &'a [u8],
}

/// A DHCP client's message.
pub(super) fn dhcp(payload: &[u8]) -> Option<Dhcp<'_>> {
    let head = payload.first_chunk::<240>()?;
    // A request, Ethernet addresses of six octets, the magic cookie.
    if head[..3] != [1, 1, 6] || head[236..] != DHCP_COOKIE {
        return None;
    }
    let mut found = Dhcp {
        mac: [head[28], head[29], head[30], head[31], head[32], head[33]],
        address: [head[12], head[13], head[14], head[15]],
        ..Dhcp::default()
    };
    let mut options = payload.get(240..)?;
    loop {
        options = match *options {
            [] | [255, ..] => return Some(found),
            [0, ref rest @ ..] => rest,
            [code, length, ref rest @ ..] => {
                let (value, rest) = rest.split_at_checked(usize::from(length))?;
                match (code, value) {
                    (12, name) => found.name = name,
                    (60, vendor) => found.vendor = vendor,
                    (55, parameters) => found.parameters = parameters,
                    (50, &[a, b, c, d]) if found.address == [0; 4] => found.address = [a, b, c, d],
                    _ => {}
                }
                rest
            }
            [_] => return None,
        };
    }
}

fn ssh(payload: &[u8]) -> Option<Banner<'_>> {
    // SSH-protoversion-softwareversion (RFC 4253 section 4.2).
    let text = line(payload.get(4..)?);
    let dash = text.iter().position(|&b| b == b'-')?;
    banner("ssh", text.get(dash + 1..)?)
}

fn is_request(payload: &[u8]) -> bool {
    let first = line(payload);
    let method = first.split(|&b| b == b' ').next().unwrap_or(b"");
    let versions: [&[u8]; 2] = [b" HTTP/1.1", b" HTTP/1.0"];
    (3..=16).contains(&method.len())
        && method.iter().all(u8::is_ascii_uppercase)
        && versions.iter().any(|version| first.ends_with(version))
}

/// A text up to the end of its line.
fn line(text: &[u8]) -> &[u8] {
    let text = text.get(..FAR).unwrap_or(text);
    let end = text.iter().position(|&b| b == b'\r' || b == b'\n');
    text.get(..end.unwrap_or(text.len())).unwrap_or(text)
}

/// The value of the header line `name` (lower case) of a message like HTTP's.
fn header<'a>(payload: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    let head = payload.get(..FAR).unwrap_or(payload);
    for line in head.split(|&b| b == b'\n').skip(1) {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if line.is_empty() {
            return None;
        }
        if let Some((field, rest)) = line.split_at_checked(name.len())
            && field.eq_ignore_ascii_case(name)
            && let [b':', value @ ..] = rest
        {
            return Some(value.trim_ascii());
        }
    }
    None
}

/// True if `text` contains `word` (upper case), whatever the case of `text`.
fn has(text: &[u8], word: &[u8]) -> bool {
    text.windows(word.len())
        .any(|part| part.eq_ignore_ascii_case(word))
}

/// The version that a TLS hello of this type (1 client, 2 server) offers or picks; for TLS 1.3
/// that stands in an extension (RFC 8446 section 4.2.1).
fn tls(payload: &[u8], hello: u8) -> Option<&'static str> {
    let body = payload.get(5..)?;
    let [kind, _, _, _, major, minor, ..] = *body else {
        return None;
    };
    if kind != hello || major != 3 {
        return None;
    }
    let named = |minor: u8| match minor {
        0 => Some("SSL 3.0"),
        1 => Some("TLS 1.0"),
        2 => Some("TLS 1.1"),
        3 => Some("TLS 1.2"),
        4 => Some("TLS 1.3"),
        _ => None,
    };
    let best = newest(body.get(38..)?, hello).unwrap_or(0).max(minor);
    named(best)
}

/// Minor number of the newest version in the extension, of a hello from its session id on.
fn newest(hello: &[u8], kind: u8) -> Option<u8> {
    let skip8 = |bytes: &[u8]| bytes.first().map(|&n| 1 + usize::from(n));
    let skip16 = |bytes: &[u8]| {
        let [a, b] = *bytes.first_chunk::<2>()?;
        Some(2 + usize::from(u16::from_be_bytes([a, b])))
    };
    let rest = hello.get(skip8(hello)?..)?;
    let rest = if kind == 1 {
        let rest = rest.get(skip16(rest)?..)?;
        rest.get(skip8(rest)?..)?
    } else {
        rest.get(3..)?
    };
    let mut extensions = rest.get(2..)?;
    while let Some(&[a, b, c, d]) = extensions.first_chunk::<4>() {
        let length = usize::from(u16::from_be_bytes([c, d]));
        let value = extensions.get(4..4 + length)?;
        if u16::from_be_bytes([a, b]) == 43 {
            let versions = if kind == 1 { value.get(1..)? } else { value };
            let known = versions.chunks_exact(2).filter(|v| v[0] == 3 && v[1] <= 4);
            return known.map(|version| version[1]).max();
        }
        extensions = extensions.get(4 + length..)?;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn detail(found: Option<Banner<'_>>) -> Option<(&'static str, &str)> {
        found.map(|b| (b.service, core::str::from_utf8(b.detail).unwrap()))
    }

    #[test]
    fn services_name_themselves() {
        type Case = (&'static [u8], u16, Option<(&'static str, &'static str)>);
        let cases: [Case; 11] = [
            (
                b"SSH-2.0-OpenSSH_9.2p1 Debian-2\r\n",
                22,
                Some(("ssh", "OpenSSH_9.2p1 Debian-2")),
            ),
            (
                b"220 mx.example ESMTP Postfix\r\n",
                25,
                Some(("smtp", "mx.example ESMTP Postfix")),
            ),
            (
                b"220 (vsFTPd 3.0.3)\r\n",
                21,
                Some(("ftp", "(vsFTPd 3.0.3)")),
            ),
            (b"220 hello\r\n", 9_999, None),
            (
                b"HTTP/1.1 200 OK\r\nDate: x\r\nSERVER:  nginx/1.22.1 \r\n\r\nServer: no",
                80,
                Some(("http", "nginx/1.22.1")),
            ),
            (b"HTTP/1.1 200 OK\r\n\r\nServer: no", 80, Some(("http", ""))),
            (
                b"+OK Dovecot ready.\r\n",
                110,
                Some(("pop3", "Dovecot ready.")),
            ),
            (
                b"\x4a\0\0\0\x0a8.0.33\0abc",
                3_306,
                Some(("mysql", "8.0.33")),
            ),
            (b"RFB 003.008\n", 5_900, Some(("vnc", "003.008"))),
            (b"", 80, None),
            (b"GET / HTTP/1.1\r\n", 80, None),
        ];
        for (payload, port, expected) in cases {
            assert_eq!(detail(service(payload, port)), expected, "{payload:?}");
        }
    }

    #[test]
    fn clients_name_themselves() {
        let request = b"GET /a b HTTP/1.1\r\nHost: x\r\nUser-Agent: curl/7.88.1\r\n\r\n";
        assert_eq!(detail(client(request)), Some(("http", "curl/7.88.1")));
        assert_eq!(client(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"), None);
        assert_eq!(client(b"get / HTTP/1.1\r\nUser-Agent: x\r\n\r\n"), None);
        let sip = b"REGISTER sip:example.com SIP/2.0\r\nUser-Agent: Phone 1\r\n\r\n";
        assert_eq!(detail(udp_client(sip, 5_060)), Some(("sip", "Phone 1")));
    }

    fn hello(kind: u8, extensions: &[u8]) -> Vec<u8> {
        let mut body = vec![3, 3];
        body.extend([7; 32]);
        body.push(0);
        if kind == 1 {
            body.extend([0, 2, 0x13, 1, 1, 0]);
        } else {
            body.extend([0x13, 1, 0]);
        }
        body.extend((extensions.len() as u16).to_be_bytes());
        body.extend(extensions);
        let mut record = vec![
            22,
            3,
            1,
            0,
            (body.len() + 4) as u8,
            kind,
            0,
            0,
            body.len() as u8,
        ];
        record.extend(body);
        record
    }

    #[test]
    fn tls_versions_are_found_where_they_stand() {
        let other: &[u8] = &[0, 10, 0, 2, 0, 0];
        let offered = [other, &[0, 43, 0, 7, 6, 0x1a, 0x1a, 3, 4, 3, 3]].concat();
        let picked = [other, &[0, 43, 0, 2, 3, 4]].concat();
        assert_eq!(
            detail(client(&hello(1, &offered))),
            Some(("tls", "TLS 1.3"))
        );
        assert_eq!(
            detail(service(&hello(2, &picked), 443)),
            Some(("tls", "TLS 1.3"))
        );
        assert_eq!(
            detail(service(&hello(2, other), 443)),
            Some(("tls", "TLS 1.2"))
        );
        assert_eq!(service(&hello(1, &offered), 443), None);
        // Nothing panics wherever the hello is cut.
        let whole = hello(1, &offered);
        for end in 0..whole.len() {
            let _ = client(&whole[..end]);
            let _ = service(&whole[..end], 443);
        }
    }

    #[test]
    fn dhcp_options_are_read_and_faults_end_it() {
        let mut message = vec![0; 240];
        message[..3].copy_from_slice(&[1, 1, 6]);
        message[28..34].copy_from_slice(&[2, 0, 0, 0, 0, 9]);
        message[236..240].copy_from_slice(&DHCP_COOKIE);
        message.extend([53, 1, 3, 0, 12, 3, b'p', b'c', b'1', 60, 2, b'M', b'S']);
        message.extend([50, 4, 10, 0, 0, 9, 55, 2, 1, 3, 255, 12, 9]);
        let found = dhcp(&message).unwrap();
        assert_eq!((found.name, found.vendor), (&b"pc1"[..], &b"MS"[..]));
        assert_eq!(
            (found.address, found.parameters),
            ([10, 0, 0, 9], &[1u8, 3][..])
        );
        message.truncate(message.len() - 6);
        assert_eq!(dhcp(&message), None, "an option that runs past the end");
        assert_eq!(dhcp(&message[..239]), None);
    }
}
