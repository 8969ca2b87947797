//! Messages as collectors read them.

use super::*;

fn parsed(text: &str) -> Export {
    Export::parse(text).expect("a collector").expect(text)
}

#[test]
fn collectors_are_read_as_they_are_written() {
    for (text, address) in [
        ("ipfix:udp:127.0.0.1", "127.0.0.1:4739"),
        ("ipfix:udp:127.0.0.1:9995", "127.0.0.1:9995"),
        ("ipfix:tcp:::1", "[::1]:4739"),
        ("syslog:udp:[fe80::1%3]:514", "[fe80::1%3]:514"),
        ("syslog:udp:[::1]:5514", "[::1]:5514"),
        ("syslog:tcp:[2001:db8::1]", "[2001:db8::1]:514"),
    ] {
        let mut export = parsed(text);
        assert_eq!(export.to_string(), text);
        export.look_up().unwrap();
        let (Way::Udp(host) | Way::Tcp(host)) = &export.way else {
            panic!("{text}");
        };
        assert_eq!(host.addresses, [address.parse().unwrap()], "{text}");
    }
    assert_eq!(
        parsed("ipfix:flows.ipfix").file(),
        Some(Path::new("flows.ipfix"))
    );
    for (wrong, part) in [
        ("ipfix:", "ipfix:FILE"),
        ("ipfix:udp", "ipfix:FILE"),
        ("ipfix:-", "ipfix:FILE"),
        ("ipfix:sctp:host", "no way `sctp`"),
        ("ipfix:udp:[::1", "no HOST[:PORT]"),
        ("syslog:file", "syslog:udp:HOST[:PORT]"),
        ("syslog:udp:127.0.0.1:70000", "no HOST[:PORT]"),
        ("ipfix:udp:no such host", "no HOST[:PORT]"),
        ("ipfix:udp::9", "no HOST[:PORT]"),
    ] {
        let error = Export::parse(wrong).expect("a collector").unwrap_err();
        assert!(error.contains(part), "{wrong}: {error}");
    }
    assert!(Export::parse("unix:/a").is_none());
    assert!(Export::parse("events.json").is_none());
}

const FLOW: &str = concat!(
    r#"{"timestamp":"1970-01-01T00:00:09.000000+0000","flow_id":7,"event_type":"flow","#,
    r#""src_ip":"10.0.0.1","src_port":1024,"dest_ip":"10.0.0.2","dest_port":80,"proto":"TCP","#,
    r#""flow":{"pkts_toserver":3,"pkts_toclient":2,"bytes_toserver":300,"bytes_toclient":200,"#,
    r#""start":"1970-01-01T00:00:01.002000+0000","end":"1970-01-01T00:00:02.003999+0000","#,
    r#""age":1,"state":"closed","reason":"finished"},"#,
    r#""tcp":{"tcp_flags":"1f","tcp_flags_ts":"1b","tcp_flags_tc":"13"}}"#,
    "\n"
);

fn be16(message: &[u8], at: usize) -> usize {
    usize::from(u16::from_be_bytes([message[at], message[at + 1]]))
}

/// The sets of a message: their numbers and contents.
fn sets(message: &[u8]) -> Vec<(usize, &[u8])> {
    assert_eq!(be16(message, 0), 10);
    assert_eq!(be16(message, 2), message.len());
    let (mut at, mut all) = (16, Vec::new());
    while at < message.len() {
        let length = be16(message, at + 2);
        all.push((be16(message, at), &message[at + 4..at + length]));
        at += length;
    }
    assert_eq!(at, message.len());
    all
}

#[test]
fn messages_have_the_octets_of_the_standard() {
    let mut ipfix = Ipfix::new(false);
    let mut message = Vec::new();
    let alert = FLOW.replace("\"flow\",", "\"alert\",");
    let lines = [alert.as_str(), "nonsense\n", FLOW, FLOW].concat();
    assert_eq!(ipfix.encode(lines.as_bytes(), &mut message), lines.len());
    let all = sets(&message);
    assert_eq!(all.iter().map(|set| set.0).collect::<Vec<_>>(), [2, 256]);
    let records = all[1].1;
    assert_eq!(records.len() % 2, 0);
    let record = &records[..records.len() / 2];
    let wanted = [
        &1_002_u64.to_be_bytes()[..],
        &2_003_u64.to_be_bytes(),
        &[10, 0, 0, 1, 10, 0, 0, 2],
        &1_024_u16.to_be_bytes(),
        &80_u16.to_be_bytes(),
        &[6],
        &300_u64.to_be_bytes(),
        &3_u64.to_be_bytes(),
        &[0, 0x1b],
        &200_u64.to_be_bytes(),
        &2_u64.to_be_bytes(),
        &[0, 0x13],
        &7_u64.to_be_bytes(),
        &[3],
    ];
    assert_eq!(record, wanted.concat());
    // The next message counts those before, and has no templates.
    message.clear();
    ipfix.encode(FLOW.as_bytes(), &mut message);
    assert_eq!(message[8..12], [0, 0, 0, 2]);
    assert_eq!(sets(&message).len(), 1);
    // Nothing for a collector: no message.
    message.clear();
    assert_eq!(ipfix.encode(alert.as_bytes(), &mut message), alert.len());
    assert!(message.is_empty());
}

#[test]
fn no_message_is_longer_than_a_path_takes() {
    let mut ipfix = Ipfix::new(true);
    let lines = FLOW.repeat(100);
    let (mut at, mut records) = (0, 0);
    while at < lines.len() {
        let mut message = Vec::new();
        at += ipfix.encode(&lines.as_bytes()[at..], &mut message);
        assert!(message.len() <= 1_232, "{}", message.len());
        let flows = sets(&message).into_iter().filter(|set| set.0 == 256);
        records += flows.map(|set| set.1.len() / 74).sum::<usize>();
    }
    assert_eq!(records, 100);
}

#[test]
fn a_syslog_message_has_a_header_and_the_line() {
    let mut message = Vec::new();
    let mut syslog = Syslog::new(false);
    let taken = syslog.encode(FLOW.as_bytes(), &mut message);
    assert_eq!(taken, FLOW.len());
    let text = String::from_utf8(message).unwrap();
    assert!(
        text.starts_with("<174>1 1970-01-01T00:00:09.000000Z "),
        "{text}"
    );
    let (head, line) = text.split_once(" - ").unwrap();
    assert_eq!(head.split(' ').count(), 6);
    assert!(head.ends_with(" flow"));
    assert_eq!(line, FLOW.trim_end());
    // A finding is more severe, and on a stream its length goes first.
    let alert = FLOW.replace("\"tcp\":{", "\"alert\":{\"severity\":1},\"tcp\":{");
    let mut message = Vec::new();
    Syslog::new(true).encode(alert.as_bytes(), &mut message);
    let text = String::from_utf8(message).unwrap();
    let (length, rest) = text.split_once(' ').unwrap();
    assert_eq!(length.parse(), Ok(rest.len()));
    assert!(rest.starts_with("<171>1 "), "{rest}");
}

/// A tenant's function says what it likes of its events.
#[test]
fn a_header_has_nothing_that_would_make_another_one() {
    for (line, head) in [
        (
            r#"{"timestamp":"x y\nz","event_type":"a b\nc\u00e9"}"#,
            "<174>1 - ",
        ),
        (r#"{"event_type":5}"#, "<174>1 - "),
        (
            r#"{"alert":{"severity":"high"},"event_type":"abc"}"#,
            "<173>1 - ",
        ),
        (r#"{"alert":{}}"#, "<173>1 - "),
        (r#"{"alert":5}"#, "<173>1 - "),
        (r#"{"alert":{"severity":2}}"#, "<172>1 - "),
        ("[]", "<174>1 - "),
    ] {
        let mut message = Vec::new();
        let lines = [line, "\n"].concat();
        let taken = Syslog::new(false).encode(lines.as_bytes(), &mut message);
        assert_eq!(taken, lines.len());
        let text = String::from_utf8(message).unwrap();
        assert!(text.starts_with(head), "{text}");
        let fields: Vec<&str> = text.splitn(7, ' ').collect();
        assert!(
            fields[..6].iter().all(|field| !field.contains('\n')),
            "{text}"
        );
        assert_eq!(fields[3], "weir", "{text}");
        assert!(["abc", "-"].contains(&fields[5]), "{text}");
        assert_eq!(fields[6], format!("- {line}"), "{text}");
    }
}

#[test]
fn a_message_that_was_begun_is_cut_off() {
    let mut message = Vec::new();
    Ipfix::new(false).encode(FLOW.as_bytes(), &mut message);
    let length = message.len() as u64;
    let two = [message.clone(), message.clone()].concat();
    let whole = |octets: &[u8]| whole_messages(&mut std::io::Cursor::new(octets)).unwrap();
    assert_eq!(whole(&two), None);
    assert_eq!(whole(&two[..two.len() - 1]), Some(length));
    assert_eq!(whole(&two[..two.len() / 2 + 1]), Some(length));
    assert_eq!(whole(&message[..3]), Some(0));
    // Whatever else is there stays.
    for other in [
        &b"events of another kind"[..],
        b"ab\n",
        b"\n",
        &[0, 10, 0, 3, 1, 2],
    ] {
        assert_eq!(whole(other), None);
        assert_eq!(whole(&[&message, other].concat()), None);
    }
}
