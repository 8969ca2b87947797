//! Values of the keywords that look at header fields.

use crate::compare::{Compare, parse_number};
use crate::error::{Fault, Span};
use crate::events::{parse_decode_event, parse_stream_event};
use crate::raw_option::RawOption;
use crate::rule::{FlagsMode, FlagsTest, IpOption, PacketTest, StreamSide};

/// The condition on packets that an option states, if it states one.
pub(crate) fn packet_test(text: &str, option: &RawOption) -> Result<Option<PacketTest>, Fault> {
    let value = option.value;
    let compare =
        |max: u32| Compare::parse(value.of(text), max).map_err(|reason| bad_value(option, &reason));
    Ok(Some(match option.keyword.as_str() {
        "dsize" => PacketTest::PayloadSize(compare(65_535)?),
        "flags" | "tcp.flags" => PacketTest::TcpFlags(TCP_FLAGS.parse(text, value)?),
        "itype" | "icmp.itype" => PacketTest::IcmpType(compare(255)?),
        "icode" | "icmp.icode" => PacketTest::IcmpCode(compare(255)?),
        "icmp_id" | "icmp.id" => PacketTest::IcmpId(quoted_number(text, option)?),
        "icmp_seq" | "icmp.seq" => PacketTest::IcmpSequence(quoted_number(text, option)?),
        "ipopts" | "ip.ipopts" => PacketTest::IpOption(parse_ip_option(text, value)?),
        "sameip" => PacketTest::SameAddresses,
        "fragbits" => PacketTest::FragmentBits(FRAGMENT_BITS.parse(text, value)?),
        "fragoffset" => PacketTest::FragmentOffset(compare(0x1fff)?),
        "tos" => PacketTest::TypeOfService(type_of_service(text, option)?),
        "ttl" | "ip.ttl" => PacketTest::Ttl(compare(255)?),
        "ip_proto" => PacketTest::IpProtocol(parse_ip_protocol(text, value)?),
        // At most 65535, so that the number fits.
        "id" | "ip.id" => PacketTest::IpId(number(text, option, 65_535)? as u16),
        "seq" | "tcp.seq" => PacketTest::TcpSequence(number(text, option, u32::MAX)?),
        "ack" | "tcp.ack" => PacketTest::TcpAcknowledgement(number(text, option, u32::MAX)?),
        "window" | "tcp.window" => {
            let written = value.of(text);
            let digits = written.strip_prefix('!');
            let number = parse_number(digits.unwrap_or(written), 65_535)
                .map_err(|reason| bad_value(option, &reason))?;
            PacketTest::TcpWindow {
                value: number as u16,
                negated: digits.is_some(),
            }
        }
        "decode-event" => PacketTest::Event(parse_decode_event(text, value)?),
        "stream-event" => PacketTest::StreamEvent(parse_stream_event(text, value)?),
        "stream_size" => stream_size(text, option)?,
        "tcp.mss" => PacketTest::TcpMss(compare(65_535)?),
        "icmpv6.mtu" => PacketTest::Icmpv6Mtu(compare(u32::MAX)?),
        _ => return Ok(None),
    }))
}

/// `SIDE, OPERATOR, NUMBER`.
fn stream_size(text: &str, option: &RawOption) -> Result<PacketTest, Fault> {
    let written = option.value.of(text);
    let (side, size) = written.split_once(',').unwrap_or((written, ""));
    let side = match side.trim() {
        "client" => StreamSide::Client,
        "server" => StreamSide::Server,
        "both" => StreamSide::Both,
        "either" => StreamSide::Either,
        other => {
            let reason = format!("`{other}` is not client, server, both or either");
            return Err(bad_value(option, &reason).help("write `stream_size:server,<,1000`"));
        }
    };
    let compare = Compare::parse(&size.replace(',', ""), u32::MAX);
    compare
        .map(|compare| PacketTest::StreamSize(side, compare))
        .map_err(|reason| bad_value(option, &reason))
}

/// The number that is an option's value, at most `max`.
pub(crate) fn number(text: &str, option: &RawOption, max: u32) -> Result<u32, Fault> {
    parse_number(option.value.of(text), max).map_err(|reason| bad_value(option, &reason))
}

fn quoted_number(text: &str, option: &RawOption) -> Result<u16, Fault> {
    let written = option.value.of(text);
    let bare = written
        .strip_prefix('"')
        .and_then(|rest| rest.strip_suffix('"'))
        .unwrap_or(written);
    // At most 65535, so that the number fits.
    parse_number(bare, 65_535)
        .map(|number| number as u16)
        .map_err(|reason| bad_value(option, &reason))
}

fn bad_value(option: &RawOption, reason: &str) -> Fault {
    Fault::new(
        option.value,
        format!("the value of `{}`: {reason}", option.keyword),
    )
}

/// The flag a letter stands for in the low byte of TCP's flags (RFC 9293 §3.1).
fn flag(letter: u8) -> Option<u8> {
    Some(match letter.to_ascii_uppercase() {
        b'F' => 0x01,
        b'S' => 0x02,
        b'R' => 0x04,
        b'P' => 0x08,
        b'A' => 0x10,
        b'U' => 0x20,
        b'E' | b'2' => 0x40,
        b'C' | b'1' => 0x80,
        b'0' => 0,
        _ => return None,
    })
}

/// The letters of TCP's flags.
const TCP_FLAGS: Letters = Letters {
    name: "TCP flag",
    bit: flag,
    help: "write flags as letters of FSRPAUEC (0 for none), with +, * or ! before them: `flags:S,CE`",
};

/// The letters of IPv4's flags: reserved, don't fragment, more fragments.
const FRAGMENT_BITS: Letters = Letters {
    name: "flag of IPv4",
    bit: |letter| match letter.to_ascii_uppercase() {
        b'M' => Some(1),
        b'D' => Some(2),
        b'R' => Some(4),
        _ => None,
    },
    help: "write flags as letters of MDR, with +, * or ! before them: `fragbits:M`",
};

/// A number, `!` before it, in hexadecimal behind `x`.
fn type_of_service(text: &str, option: &RawOption) -> Result<Compare, Fault> {
    let written = option.value.of(text);
    let (negated, digits) = match written.strip_prefix('!') {
        Some(digits) => (true, digits.trim()),
        None => (false, written),
    };
    let number = match digits.strip_prefix('x') {
        Some(digits) => u8::from_str_radix(digits, 16).map(u32::from).ok(),
        None => parse_number(digits, 255).ok(),
    };
    let number = number.ok_or_else(|| bad_value(option, "not a number from 0 to 255"))?;
    Ok(match negated {
        true => Compare::NotEqual(number),
        false => Compare::Equal(number),
    })
}

/// Letters that stand for the flags of a header.
struct Letters {
    name: &'static str,
    bit: fn(u8) -> Option<u8>,
    help: &'static str,
}

impl Letters {
    /// Reads `[+|*|!]FLAGS[,IGNORED]`; the modifier may also follow the flags.
    fn parse(&self, text: &str, value: Span) -> Result<FlagsTest, Fault> {
        let written = value.of(text);
        let fault = |message: String| Fault::new(value, message).help(self.help);
        let (wanted, ignored) = written.split_once(',').unwrap_or((written, ""));
        let bit = |letter: u8| {
            let message = || format!("`{}` is not a {}", letter.escape_ascii(), self.name);
            (self.bit)(letter).ok_or_else(|| fault(message()))
        };
        let (mut mode, mut flags, mut letters) = (None, 0, 0);
        for letter in wanted.bytes().filter(|byte| !byte.is_ascii_whitespace()) {
            let modifier = match letter {
                b'+' => FlagsMode::All,
                b'*' => FlagsMode::Any,
                b'!' => FlagsMode::Not,
                _ => {
                    letters += 1;
                    flags |= bit(letter)?;
                    continue;
                }
            };
            if mode.replace(modifier).is_some() {
                return Err(fault("more than one of +, * and !".to_string()));
            }
        }
        if letters == 0 {
            return Err(fault(format!("no {} is named", self.name)));
        }
        let mut ignored_flags = 0;
        for letter in ignored.bytes().filter(|byte| !byte.is_ascii_whitespace()) {
            ignored_flags |= bit(letter)?;
        }
        if flags & ignored_flags != 0 {
            return Err(Fault::new(value, "a flag is both asked for and ignored"));
        }
        Ok(FlagsTest {
            mode: mode.unwrap_or(FlagsMode::Exact),
            flags,
            ignored: ignored_flags,
        })
    }
}

/// Names of IPv4 options and their type numbers (IANA, IP option numbers).
const IP_OPTIONS: [(&str, u8); 11] = [
    ("eol", 0),
    ("nop", 1),
    ("rr", 7),
    ("qs", 25),
    ("ts", 68),
    ("sec", 130),
    ("lsrr", 131),
    ("esec", 133),
    ("cipso", 134),
    ("satid", 136),
    ("ssrr", 137),
];

pub(crate) fn parse_ip_option(text: &str, value: Span) -> Result<IpOption, Fault> {
    let name = value.of(text).to_ascii_lowercase();
    if name == "any" {
        return Ok(IpOption::Any);
    }
    match IP_OPTIONS.iter().find(|(known, _)| *known == name) {
        Some(&(_, number)) => Ok(IpOption::Type(number)),
        None => Err(Fault::new(value, format!("unknown IP option `{name}`"))
            .help("options are any, eol, nop, rr, qs, ts, sec, lsrr, esec, cipso, satid and ssrr")),
    }
}

/// Names of protocols over IP and their numbers (IANA, protocol numbers).
const IP_PROTOCOLS: [(&str, u32); 20] = [
    ("ip", 0),
    ("icmp", 1),
    ("igmp", 2),
    ("ipip", 4),
    ("tcp", 6),
    ("egp", 8),
    ("igp", 9),
    ("udp", 17),
    ("ipv6", 41),
    ("rsvp", 46),
    ("gre", 47),
    ("esp", 50),
    ("ah", 51),
    ("ipv6-icmp", 58),
    ("icmpv6", 58),
    ("eigrp", 88),
    ("ospf", 89),
    ("pim", 103),
    ("vrrp", 112),
    ("sctp", 132),
];

pub(crate) fn parse_ip_protocol(text: &str, value: Span) -> Result<Compare, Fault> {
    let written = value.of(text);
    let (negated, name) = match written.strip_prefix('!') {
        Some(name) => (true, name.trim()),
        None => (false, written),
    };
    let known = IP_PROTOCOLS
        .iter()
        .find(|(known, _)| known.eq_ignore_ascii_case(name));
    match known {
        Some(&(_, number)) if negated => Ok(Compare::NotEqual(number)),
        Some(&(_, number)) => Ok(Compare::Equal(number)),
        None => Compare::parse(written, 255).map_err(|reason| {
            Fault::new(value, format!("the value of `ip_proto`: {reason}"))
                .help("write a number from 0 to 255 or a name such as tcp, udp, gre")
        }),
    }
}
