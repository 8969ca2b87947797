//! A rule's options: which ones are supported, and the rule they make up.

use crate::app_protocol::{AppProtocol, AppProtocols};
use crate::application::{self, AppTest};
use crate::bit_kind::FlowbitKind;
use crate::buffers::{Buffer, Origin};
use crate::data::{self, AddressTest, Which};
use crate::error::{Fault, SkipReason, Span};
use crate::events::{AppEvent, DecodeEvent, StreamEvent, parse_app_event};
use crate::flow_vars::parse_flowint;
use crate::header::Header;
use crate::literal::parse_string;
use crate::numbers::{AppNumber, NumberTest};
use crate::packet_options::{number, packet_test};
use crate::pcre;
use crate::raw_option::RawOption;
use crate::requires;
use crate::rule::{Action, Direction, FlowCondition, FlowbitOperation, Rule, Target};
use crate::sections::{Sections, legacy_buffer};
use crate::shared_bits;
use crate::threshold;
use crate::transform::Transform;
use crate::view::{TCP, UDP};

/// The keywords that [`build`] knows.
const SUPPORTED: [&str; 85] = [
    "msg",
    "sid",
    "rev",
    "gid",
    "classtype",
    "priority",
    "reference",
    "metadata",
    "target",
    "threshold",
    "detection_filter",
    "flow",
    "flowbits",
    "flowint",
    "bypass",
    "sameip",
    "fragbits",
    "fragoffset",
    "tos",
    "noalert",
    "alert",
    "content",
    "nocase",
    "offset",
    "depth",
    "distance",
    "within",
    "fast_pattern",
    "startswith",
    "endswith",
    "rawbytes",
    "pcre",
    "bsize",
    "pkt_data",
    "tag",
    "app-layer-protocol",
    "app-layer-event",
    "decode-event",
    "stream_size",
    "tcp.mss",
    "icmpv6.mtu",
    "prefilter",
    "isdataat",
    "byte_test",
    "byte_jump",
    "byte_extract",
    "byte_math",
    "base64_decode",
    "base64_data",
    "requires",
    "dsize",
    "flags",
    "tcp.flags",
    "itype",
    "icode",
    "icmp_id",
    "icmp_seq",
    "ipopts",
    "ttl",
    "ip_proto",
    "id",
    "seq",
    "tcp.seq",
    "ack",
    "tcp.ack",
    "window",
    "tcp.window",
    "ip.ttl",
    "icmp.itype",
    "icmp.icode",
    "icmp.id",
    "icmp.seq",
    "ip.id",
    "ip.ipopts",
    "ip.src",
    "ip.dst",
    "dataset",
    "datarep",
    "iprep",
    "filemd5",
    "filesha1",
    "filesha256",
    "filestore",
    "xbits",
    "hostbits",
];

/// True if a keyword, in lower case, is supported.
///
/// Keywords of buffers are, when the buffer is handed in.
pub(crate) fn is_supported(text: &str, option: &RawOption, protocols: AppProtocols) -> bool {
    let keyword = option.keyword.as_str();
    if keyword == "app-layer-protocol" {
        return application::is_known(option.value.of(text), protocols);
    }
    if keyword == "dataset" {
        return matches!(data_command(text, option), "isset" | "isnotset");
    }
    if keyword == "decode-event" {
        return DecodeEvent::named(option.value.of(text).trim()).is_some();
    }
    if keyword == "stream-event" {
        return StreamEvent::named(option.value.of(text).trim()).is_some();
    }
    if keyword == "app-layer-event" {
        let event = AppEvent::named(option.value.of(text).trim());
        return event.is_some_and(|event| protocols.contains(event.protocol()));
    }
    if let Some(number) = AppNumber::named(keyword) {
        return protocols.contains(number.protocol());
    }
    let named = match keyword {
        "pcre" => pcre::named_buffer(option.value.of(text)),
        "uricontent" | "urilen" => Some(Buffer::HttpUri),
        "filename" | "fileext" => Some(Buffer::FileName),
        "filemd5" | "filesha1" | "filesha256" => Some(Buffer::FileData),
        other => legacy_buffer(other),
    };
    let named = named
        .or_else(|| Buffer::sticky(keyword))
        .or_else(|| Buffer::modifier(keyword));
    match named.map(|buffer| buffer.info().origin) {
        None => SUPPORTED.contains(&keyword) || Transform::is_keyword(keyword),
        Some(Origin::Packet) => true,
        Some(Origin::App(protocol)) => protocols.contains(protocol),
        Some(Origin::Files) => protocols.contains(AppProtocol::Http),
    }
}

/// True if a keyword is known, whatever its value and whichever protocols are parsed.
pub(crate) fn is_keyword(keyword: &str) -> bool {
    SUPPORTED.contains(&keyword)
        || Buffer::sticky(keyword).is_some()
        || Buffer::modifier(keyword).is_some()
        || Transform::is_keyword(keyword)
        || AppNumber::named(keyword).is_some()
        || legacy_buffer(keyword).is_some()
        || matches!(keyword, "filename" | "fileext")
}

/// What an unsupported option is called: where it is the value that is not known, with that.
pub(crate) fn name(text: &str, option: &RawOption) -> String {
    match option.keyword.as_str() {
        keyword @ ("app-layer-protocol" | "app-layer-event" | "decode-event" | "stream-event") => {
            format!("{keyword}:{}", option.value.of(text).trim())
        }
        "dataset" => format!("dataset:{}", data_command(text, option)),
        keyword => keyword.to_owned(),
    }
}

/// What a `dataset` does.
fn data_command<'a>(text: &'a str, option: &RawOption) -> &'a str {
    let written = option.value.of(text);
    written.split(',').next().unwrap_or(written).trim()
}

/// Reads the options of a rule, all of which are supported. Returns the rule and the place of its `sid`.
pub(crate) fn build(
    text: &str,
    options: &[RawOption],
    header: Header,
    line: usize,
) -> Result<(Rule, Span), Fault> {
    let mut builder = Builder {
        text,
        rule: without_options(text, header, line),
        sections: Sections::new(text),
        address: None,
        sid_span: None,
    };
    // A rule for another release may have options that are wrong here.
    for option in options.iter().filter(|option| option.keyword == "requires") {
        requires::check(text, option, is_keyword)?;
    }
    let mut seen: Vec<&str> = Vec::new();
    for option in options {
        let keyword = option.keyword.as_str();
        if is_single(keyword) {
            if seen.contains(&keyword) {
                return Err(Fault::new(
                    option.name,
                    format!("`{keyword}` is given twice"),
                ));
            }
            seen.push(keyword);
        }
        check_value_presence(text, option)?;
        match packet_test(text, option)? {
            Some(test) => builder.rule.tests.push(test),
            None => builder.apply(option)?,
        }
    }
    let Builder {
        mut rule,
        sections,
        address,
        sid_span,
        ..
    } = builder;
    if let Some((_, at, false)) = address {
        return Err(nothing_asked(text, at));
    }
    let Some(sid_span) = sid_span else {
        let at = Span::new(0, text.len()).trim(text);
        return Err(
            Fault::new(at, "the rule has no `sid`").help("give each rule a number: `sid:1000001;`")
        );
    };
    // Rules on messages look at sections only.
    (rule.contents, rule.sections) = sections.finish(rule.head_protocol().is_some())?;
    check_protocols(&rule, sid_span)?;
    check_buffers(&rule, sid_span)?;
    check_surface(&rule, options)?;
    check_shared(&rule, options)?;
    Ok((rule, sid_span))
}

fn without_options(text: &str, header: Header, line: usize) -> Rule {
    Rule {
        action: header.action,
        protocol: header.protocol,
        applications: header.application.into_iter().collect(),
        source: header.source,
        source_ports: header.source_ports,
        destination: header.destination,
        destination_ports: header.destination_ports,
        bidirectional: header.bidirectional,
        message: String::new(),
        sid: 0,
        gid: 1,
        rev: 0,
        classtype: None,
        priority: None,
        references: Vec::new(),
        metadata: Vec::new(),
        target: None,
        threshold: None,
        flow: FlowCondition::default(),
        flowbits: Vec::new(),
        flowints: Vec::new(),
        shared_bits: Vec::new(),
        noalert: false,
        alert: false,
        numbers: Vec::new(),
        events: Vec::new(),
        contents: Vec::new(),
        sections: Vec::new(),
        tests: Vec::new(),
        addresses: Vec::new(),
        line,
        text: text.trim().to_string(),
    }
}

struct Builder<'a> {
    text: &'a str,
    rule: Rule,
    sections: Sections<'a>,
    /// The address that the last of `ip.src` and `ip.dst` selected, until another buffer is; its place; and
    /// whether something was asked of it.
    address: Option<(Which, Span, bool)>,
    sid_span: Option<Span>,
}

fn nothing_asked(text: &str, at: Span) -> Fault {
    let message = format!("nothing is asked of `{}`", at.of(text));
    Fault::new(at, message).help("write `dataset` or `datarep` behind it")
}

impl Builder<'_> {
    /// Applies an option that is no condition on packets.
    fn apply(&mut self, option: &RawOption) -> Result<(), Fault> {
        let (text, rule) = (self.text, &mut self.rule);
        let keyword = option.keyword.as_str();
        let written = option.value.of(text);
        match keyword {
            "msg" => rule.message = parse_string(text, option.value, "msg")?,
            "sid" => {
                rule.sid = at_least_one(text, option, u32::MAX)?;
                self.sid_span = Some(Span::new(option.name.start, option.value.end));
            }
            "gid" => rule.gid = number(text, option, u32::MAX)?,
            "rev" => rule.rev = number(text, option, u32::MAX)?,
            "classtype" => rule.classtype = Some(written.to_string()),
            // At most 255, so that the number fits.
            "priority" => rule.priority = Some(at_least_one(text, option, 255)? as u8),
            "reference" => rule.references.push(parse_reference(written, option)?),
            "metadata" => rule.metadata.extend(
                written
                    .split(',')
                    .map(|part| part.trim().to_string())
                    .filter(|part| !part.is_empty()),
            ),
            "target" => rule.target = Some(parse_target(written, option)?),
            "threshold" | "detection_filter" => {
                let threshold = threshold::parse_option(text, option)?;
                if rule.threshold.replace(threshold).is_some() {
                    let message = "a rule has one `threshold` or `detection_filter`, not both";
                    return Err(Fault::new(option.name, message).help("remove one of them"));
                }
            }
            "flow" => rule.flow = parse_flow(text, option.value)?,
            "flowbits" => match parse_flowbits(text, option.value)? {
                Some(operation) => rule.flowbits.push(operation),
                None => rule.noalert = true,
            },
            "xbits" | "hostbits" => match shared_bits::parse(text, option)? {
                Some(bit) => rule.shared_bits.push(bit),
                None => rule.noalert = true,
            },
            "flowint" => rule.flowints.push(parse_flowint(text, option.value)?),
            "noalert" => rule.noalert = true,
            "alert" => rule.alert = true,
            // Checked before all others.
            "requires" => {}
            "app-layer-protocol" => rule
                .applications
                .push(application::parse(text, option.value)?),
            "app-layer-event" => rule.events.push(parse_app_event(text, option.value)?),
            // Packets and files are not kept; the others ask for speed alone.
            "tag" | "filestore" | "prefilter" | "bypass" => {}
            word if AppNumber::named(word).is_some() => {
                let tests = AppNumber::named(word).map(|n| NumberTest::parse(text, option, n));
                rule.numbers.extend(tests.transpose()?);
            }
            _ if self.take_address(option)? || self.take_section(option)? => {}
            other => {
                // `is_supported` lets only the keywords above and those of `packet_test` through.
                return Err(Fault::new(
                    option.name,
                    format!("unsupported keyword `{other}`"),
                ));
            }
        }
        Ok(())
    }
}

impl Builder<'_> {
    /// Takes an option about addresses; false of another one.
    fn take_address(&mut self, option: &RawOption) -> Result<bool, Fault> {
        match option.keyword.as_str() {
            "iprep" => {
                let (which, test) = data::parse_reputation(self.text, option)?;
                self.rule
                    .addresses
                    .push(AddressTest::Reputation(which, test));
            }
            keyword @ ("ip.src" | "ip.dst") => {
                if let Some((_, at, false)) = self.address {
                    return Err(nothing_asked(self.text, at));
                }
                let which = match keyword {
                    "ip.src" => Which::Source,
                    _ => Which::Destination,
                };
                self.address = Some((which, option.name, false));
            }
            "dataset" | "datarep" if self.address.is_some() => self.address_data(option)?,
            word if self.address.is_some() && Buffer::sticky(word).is_none() => {
                let message = format!("`{word}` does not look at addresses");
                return Err(Fault::new(option.name, message)
                    .help("only `dataset` and `datarep` may follow `ip.src` and `ip.dst`"));
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// A condition on bytes, or the keyword of a buffer.
    fn take_section(&mut self, option: &RawOption) -> Result<bool, Fault> {
        if let Some((_, at, false)) = self.address.take() {
            return Err(nothing_asked(self.text, at));
        }
        self.sections.take(option)
    }

    /// The address selected is one of the values of a file.
    fn address_data(&mut self, option: &RawOption) -> Result<(), Fault> {
        let test = data::parse(self.text, option, true)?;
        if test.kind.is_some_and(|kind| !test.takes(kind)) {
            let message = "behind `ip.src` and `ip.dst` values are addresses";
            return Err(Fault::new(option.value, message).help("write `type ip`"));
        }
        if let Some((which, _, is_asked)) = &mut self.address {
            *is_asked = true;
            self.rule.addresses.push(AddressTest::Data(*which, test));
        }
        Ok(())
    }
}

/// All that a rule asks of messages must be of one protocol.
fn check_protocols(rule: &Rule, at: Span) -> Result<(), Fault> {
    let spoken = rule.applications.iter().filter(|test| !test.negated);
    let spoken = spoken.filter_map(|test| test.protocol);
    let numbers = rule
        .numbers
        .iter()
        .filter(|test| !test.number.is_of_files());
    let numbers = numbers.map(|test| test.number.protocol());
    let events = rule.events.iter().map(|event| event.protocol());
    let buffers = rule.sections.iter().filter_map(|section| section.buffer);
    let buffers = buffers.filter_map(|buffer| match buffer.info().origin {
        Origin::App(protocol) => Some(protocol),
        Origin::Packet | Origin::Files => None,
    });
    let mut all = spoken.chain(numbers).chain(events).chain(buffers);
    let Some(first) = all.next() else {
        return Ok(());
    };
    let excluded = |test: &&AppTest| test.negated && test.protocol == Some(first);
    let over = match first {
        AppProtocol::Dns => rule.protocol.covers(Some(TCP)) || rule.protocol.covers(Some(UDP)),
        _ => rule.protocol.covers(Some(TCP)),
    };
    if rule.applications.iter().any(|test| excluded(&test)) || !over {
        let message = format!("no flow of the rule speaks {}", first.name());
        return Err(Fault::new(at, message));
    }
    match all.find(|&other| other != first) {
        None => Ok(()),
        Some(other) => {
            let message = format!(
                "the rule asks for {} and for {}: no flow speaks both",
                first.name(),
                other.name()
            );
            Err(Fault::new(at, message).help("write one rule for each"))
        }
    }
}

/// Buffers of one rule must be those of one message.
fn check_buffers(rule: &Rule, at: Span) -> Result<(), Fault> {
    if rule.is_of_messages() {
        if rule.directions() == [false, false] {
            let message = "no message has all buffers of the rule: they go in opposite directions";
            return Err(Fault::new(at, message));
        }
        if rule.needs_packet() {
            let message =
                "the rule asks for a message's buffers, and for something only a packet has";
            return Err(
                Fault::new(at, message).skip(SkipReason::Keywords(vec!["flow".to_string()]))
            );
        }
    }
    Ok(())
}

fn at_least_one(text: &str, option: &RawOption, max: u32) -> Result<u32, Fault> {
    match number(text, option, max)? {
        0 => {
            let message = format!("`{}` must be at least 1", option.keyword);
            Err(Fault::new(option.value, message))
        }
        number => Ok(number),
    }
}

fn parse_reference(written: &str, option: &RawOption) -> Result<(String, String), Fault> {
    let Some((system, id)) = written.split_once(',') else {
        return Err(
            Fault::new(option.value, "`reference` needs a system and an id")
                .help("write `reference:url,www.example.org`"),
        );
    };
    Ok((system.trim().to_string(), id.trim().to_string()))
}

fn parse_target(written: &str, option: &RawOption) -> Result<Target, Fault> {
    match written {
        "src_ip" => Ok(Target::Source),
        "dest_ip" => Ok(Target::Destination),
        _ => Err(
            Fault::new(option.value, format!("unknown target `{written}`"))
                .help("targets are src_ip and dest_ip"),
        ),
    }
}

/// Keywords of which a rule has at most one.
fn is_single(keyword: &str) -> bool {
    matches!(
        keyword,
        "msg"
            | "sid"
            | "rev"
            | "gid"
            | "classtype"
            | "priority"
            | "target"
            | "threshold"
            | "detection_filter"
            | "flow"
            | "dsize"
    )
}

/// True for keywords that stand alone.
fn takes_no_value(keyword: &str) -> bool {
    matches!(
        keyword,
        "noalert"
            | "alert"
            | "sameip"
            | "bypass"
            | "nocase"
            | "startswith"
            | "endswith"
            | "rawbytes"
            | "base64_data"
            | "ip.src"
            | "ip.dst"
    ) || Buffer::sticky(keyword).is_some()
        || Buffer::modifier(keyword).is_some()
        || Transform::is_keyword(keyword) && !Transform::has_value(keyword)
}

/// Checks that a keyword has a value if it needs one, and none if it takes none.
fn check_value_presence(text: &str, option: &RawOption) -> Result<(), Fault> {
    let keyword = option.keyword.as_str();
    if takes_no_value(keyword) && option.has_value {
        let message = format!("`{keyword}` takes no value");
        return Err(Fault::new(option.value, message));
    }
    let may_lack = matches!(
        keyword,
        "fast_pattern" | "prefilter" | "pkt_data" | "base64_decode" | "filestore"
    );
    if !may_lack && !takes_no_value(keyword) && option.value.of(text).is_empty() {
        let message = format!("`{keyword}` needs a value");
        return Err(Fault::new(option.name, message));
    }
    Ok(())
}

/// Packet-only conditions contradict stream-only rules.
fn check_surface(rule: &Rule, options: &[RawOption]) -> Result<(), Fault> {
    use crate::rule::Protocol;
    let stream_only = rule.flow.only_stream || rule.protocol == Protocol::TcpStream;
    if stream_only && rule.needs_packet() {
        let at = options
            .iter()
            .find(|option| is_packet_keyword(&option.keyword))
            .or_else(|| options.iter().find(|option| option.keyword == "flow"))
            .map_or(Span::new(0, 1), |option| option.name);
        return Err(Fault::new(
            at,
            "the rule asks for the stream only, and for something only a packet has",
        )
        .help("use `tcp-pkt`, or remove the keyword"));
    }
    Ok(())
}

/// A packet waits for no other flow: what becomes of it, and of its flow's variables, does not depend on others.
fn check_shared(rule: &Rule, options: &[RawOption]) -> Result<(), Fault> {
    let writes = rule.flowbits.iter().any(|bit| bit.kind.writes())
        || rule.flowints.iter().any(|integer| integer.kind.writes());
    if !rule.tests_shared() || rule.action != Action::Pass && !writes {
        return Ok(());
    }
    let is_shared = |option: &&RawOption| matches!(option.keyword.as_str(), "xbits" | "hostbits");
    let option = options.iter().find(is_shared);
    let at = option.map_or(Span::new(0, 1), |option| option.name);
    let keyword = option.map_or("xbits", |option| option.keyword.as_str());
    let message = match rule.action {
        Action::Pass => format!("a rule that passes can't wait for `{keyword}`"),
        _ => format!("a rule that waits for `{keyword}` can't write variables of its flow"),
    };
    let skip = SkipReason::Keywords(vec![keyword.to_owned()]);
    Err(Fault::new(at, message)
        .help("bits of hosts are known where alerts are written, behind the flow")
        .skip(skip))
}

fn is_packet_keyword(keyword: &str) -> bool {
    matches!(
        keyword,
        "dsize"
            | "flags"
            | "itype"
            | "icode"
            | "icmp_id"
            | "icmp_seq"
            | "ipopts"
            | "sameip"
            | "fragbits"
            | "fragoffset"
            | "tos"
            | "ttl"
            | "ip_proto"
            | "id"
            | "seq"
            | "ack"
            | "window"
            | "decode-event"
            | "icmpv6.mtu"
    ) || keyword.starts_with("tcp.")
        || keyword.starts_with("ip.")
        || keyword.starts_with("icmp.")
}

/// The parts of a value between commas, each with its place.
fn parts(text: &str, span: Span) -> Vec<Span> {
    let mut parts = Vec::new();
    let mut start = span.start;
    for piece in span.of(text).split(',') {
        parts.push(Span::new(start, start + piece.len()).trim(text));
        start += piece.len() + 1;
    }
    parts
}

fn parse_flow(text: &str, value: Span) -> Result<FlowCondition, Fault> {
    let mut flow = FlowCondition::default();
    for part in parts(text, value) {
        let word = part.of(text).to_ascii_lowercase();
        let clash = |with: &str| {
            Err(Fault::new(
                part,
                format!("`{word}` contradicts `{with}` in the same `flow`"),
            ))
        };
        let established = match word.as_str() {
            "established" => Some(true),
            "not_established" => Some(false),
            _ => None,
        };
        if let Some(established) = established {
            if flow.established.is_some_and(|before| before != established) {
                return clash(if established {
                    "not_established"
                } else {
                    "established"
                });
            }
            if flow.stateless {
                return clash("stateless");
            }
            flow.established = Some(established);
            continue;
        }
        let direction = match word.as_str() {
            "to_server" | "from_client" => Some(Direction::ToServer),
            "to_client" | "from_server" => Some(Direction::ToClient),
            _ => None,
        };
        if let Some(direction) = direction {
            match flow.direction {
                Some(before) if before != direction => {
                    return clash(match before {
                        Direction::ToServer => "to_server",
                        Direction::ToClient => "to_client",
                    });
                }
                _ => flow.direction = Some(direction),
            }
            continue;
        }
        match word.as_str() {
            "stateless" if flow.established.is_some() => return clash("established"),
            "stateless" => flow.stateless = true,
            "no_stream" if flow.only_stream => return clash("only_stream"),
            "no_stream" => flow.no_stream = true,
            "only_stream" if flow.no_stream => return clash("no_stream"),
            "only_stream" => flow.only_stream = true,
            "no_frag" if flow.fragment == Some(true) => return clash("only_frag"),
            "no_frag" => flow.fragment = Some(false),
            "only_frag" if flow.fragment == Some(false) => return clash("no_frag"),
            "only_frag" => flow.fragment = Some(true),
            _ => {
                return Err(Fault::new(part, format!("unknown `flow` value `{word}`")).help(
                    "values are established, not_established, stateless, to_server, from_client, \
                     to_client, from_server, no_stream, only_stream, no_frag, only_frag",
                ));
            }
        }
    }
    Ok(flow)
}

/// A `flowbits` value; `None` is `noalert`.
fn parse_flowbits(text: &str, value: Span) -> Result<Option<FlowbitOperation>, Fault> {
    let all = parts(text, value);
    let Some((&command, rest)) = all.split_first() else {
        return Err(Fault::new(value, "`flowbits` needs a value"));
    };
    let word = command.of(text).to_ascii_lowercase();
    if word == "noalert" {
        return match rest.is_empty() {
            true => Ok(None),
            false => Err(Fault::new(value, "`flowbits:noalert` takes no name")),
        };
    }
    let kind = FlowbitKind::named(&word).ok_or_else(|| {
        Fault::new(command, format!("unknown `flowbits` command `{word}`"))
            .help("commands are set, unset, toggle, isset, isnotset and noalert")
    })?;
    let &[list] = rest else {
        return Err(
            Fault::new(value, format!("`flowbits:{word}` needs one name"))
                .help("write `flowbits:set,name`"),
        );
    };
    let names: Vec<String> = list
        .of(text)
        .split('|')
        .map(|name| name.trim().to_string())
        .collect();
    if let Some(bad) = names
        .iter()
        .find(|name| name.is_empty() || name.contains(char::is_whitespace))
    {
        return Err(Fault::new(
            list,
            format!("`{bad}` is not the name of a flowbit"),
        ));
    }
    if names.len() > 1 && kind.writes() {
        return Err(
            Fault::new(list, format!("`flowbits:{word}` takes one name only"))
                .help("`|` is for isset and isnotset"),
        );
    }
    Ok(Some(FlowbitOperation { kind, names }))
}
