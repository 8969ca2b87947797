//! Rules compiled for inspection: in order of evaluation, with their matchers, flowbits as numbers, and the
//! prefilters of the groups they fall into.

use std::collections::BTreeMap;
use std::fmt;

use crate::bit_kind::FlowbitKind;
use crate::buffers::Phase;
use crate::classification::{Classifications, DEFAULT_PRIORITY};
use crate::evaluate::Prepared;
use crate::fingerprint::Fingerprint;
use crate::flow_vars::{FlowInt, FlowIntValue, IntegerOperation, MAX_FLOW_VARS, Value};
use crate::frequency::CommonStrings;
use crate::matcher::Matcher;
use crate::message_filters::{MessageParts, Messages};
use crate::prefilter::{self, FastPart, Prefilter};
use crate::rule::{PacketTest, Protocol, Rule};
use crate::transform::Variants;
use crate::unfiltered::Unfiltered;
use crate::view::{ICMP, ICMPV6, SCTP, TCP, UDP};

/// Settings of [`RuleSet::compile`].
#[derive(Debug, Clone)]
pub struct CompileOptions {
    /// Class types, for the priority of rules and the category of alerts. Default:
    /// [`Classifications::standard`].
    pub classifications: Classifications,
    /// Most memory, in bytes, that the automata may take together. When it is not enough they look for
    /// shorter parts of the contents, down to four bytes. Default: 64 MiB.
    pub automaton_bytes: usize,
    /// Report a match in a packet even when the same rule has just matched in the stream. Suricata reports
    /// rules that look at both (a TCP rule with `offset`, `depth` or `startswith`) twice for the same bytes,
    /// since it sees them in the packet and, later, in the stream. Default: false, once.
    pub report_packet_and_stream: bool,
}

impl Default for CompileOptions {
    fn default() -> Self {
        CompileOptions {
            classifications: Classifications::standard(),
            automaton_bytes: 64 << 20,
            report_packet_and_stream: false,
        }
    }
}

/// Rules that cannot be compiled, although each was read without fault.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CompileError {
    /// More than [`MAX_FLOW_VARS`] names of flowbits, or of flowints; this rule has the first one too many.
    TooManyFlowbits {
        /// The rule's line.
        line: usize,
        /// The rule's number.
        sid: u32,
        /// The name.
        name: String,
    },
    /// The automata of the fast patterns do not fit the memory they may take.
    AutomatonTooLarge {
        /// Most bytes they may take.
        limit: usize,
        /// How many rules there are.
        rules: usize,
    },
    /// A rule looks into a file that was not read ([`Rule::data_tests`], [`Rule::load_reputations`]).
    Unread {
        /// The rule's line.
        line: usize,
        /// The rule's number.
        sid: u32,
    },
}

impl fmt::Display for CompileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CompileError::TooManyFlowbits { line, sid, name } => write!(
                f,
                "line {line}, sid {sid}: `{name}` is one too many of flowbits or flowints, rules may use {MAX_FLOW_VARS} \
                 names (remove rules or merge flowbits)"
            ),
            CompileError::AutomatonTooLarge { limit, rules } => write!(
                f,
                "the patterns of {rules} rules do not fit {limit} bytes (allow more, or use fewer rules)"
            ),
            CompileError::Unread { line, sid } => {
                write!(
                    f,
                    "line {line}, sid {sid}: the rule looks into a file that was not read"
                )
            }
        }
    }
}

impl std::error::Error for CompileError {}

/// A test of flowbits: one of `bits` must be as `set` says.
#[derive(Debug, Clone)]
pub(crate) struct BitTest {
    pub(crate) set: bool,
    pub(crate) bits: Vec<u16>,
}

/// A rule ready for evaluation.
#[derive(Debug, Clone)]
pub(crate) struct Compiled {
    pub(crate) rule: Rule,
    pub(crate) category: String,
    pub(crate) priority: u8,
    pub(crate) matcher: Matcher,
    /// Conditions by buffer, for rules that have more than contents; see [`Rule::sections`].
    pub(crate) sections: Vec<Prepared>,
    pub(crate) bit_tests: Vec<BitTest>,
    pub(crate) bit_writes: Vec<(FlowbitKind, u16)>,
    pub(crate) integer_tests: Vec<IntegerOperation>,
    pub(crate) integer_writes: Vec<IntegerOperation>,
    /// Looked for in TCP segments even when they are part of the stream.
    pub(crate) in_packets: bool,
    /// Looked for in streams.
    pub(crate) in_streams: bool,
    /// Never looked for in packets.
    pub(crate) stream_only: bool,
    pub(crate) needs_packet: bool,
    pub(crate) address_only: bool,
    /// To the server, to the client: the flow condition and all buffers allow it.
    pub(crate) directions: [bool; 2],
    /// Tried on the first packet of each direction since it is known what the flow speaks.
    pub(crate) application_only: bool,
    /// Neither addresses nor ports restrict the rule.
    pub(crate) any_endpoint: bool,
}

/// The buffer that a prefilter searches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Group {
    /// Streams, and TCP payloads that are not part of one.
    Stream = 0,
    /// TCP payloads.
    TcpPacket = 1,
    /// Payloads of all other protocols.
    Datagram = 2,
}

impl Compiled {
    /// True if the prefilter of the group looks for the rule's fast pattern.
    fn belongs_to(&self, group: Group) -> bool {
        let protocol = self.rule.protocol;
        match group {
            Group::Stream => protocol.covers(Some(TCP)) && self.in_streams,
            Group::TcpPacket => protocol.covers(Some(TCP)) && self.in_packets,
            Group::Datagram => {
                let tcp = [Protocol::Tcp, Protocol::TcpPacket, Protocol::TcpStream];
                !tcp.contains(&protocol) && !self.stream_only
            }
        }
    }
}

const GROUPS: [Group; 3] = [Group::Stream, Group::TcpPacket, Group::Datagram];

/// A compiled set of rules; see [the crate's documentation](crate) for what it does.
#[derive(Debug, Clone)]
pub struct RuleSet {
    pub(crate) rules: Vec<Compiled>,
    prefilters: Vec<Prefilter>,
    /// By group and direction (to the server, to the client): place in `prefilters`.
    by_group: [[usize; 2]; GROUPS.len()],
    pub(crate) unfiltered: Unfiltered,
    /// By direction: rules with negated contents only, tried at the end of a stream's message.
    pub(crate) at_message_end: [Vec<u32>; 2],
    /// By direction: rules with conditions of which none can be looked for first, tried whenever a stream
    /// has new bytes.
    pub(crate) with_every_byte: [Vec<u32>; 2],
    /// Rules on messages of application protocols.
    pub(crate) messages: Messages,
    pub(crate) variants: Variants,
    pub(crate) report_packet_and_stream: bool,
    generation: u64,
    longest_content: usize,
}

impl Protocol {
    /// True if rules of this protocol apply to packets of an IP protocol; `None` stands for any that is not
    /// named here.
    pub(crate) fn covers(self, protocol: Option<u8>) -> bool {
        match self {
            Protocol::Ip | Protocol::Ipv4 | Protocol::Ipv6 => true,
            Protocol::Tcp | Protocol::TcpPacket | Protocol::TcpStream => protocol == Some(TCP),
            Protocol::Udp => protocol == Some(UDP),
            Protocol::Icmp => matches!(protocol, Some(ICMP | ICMPV6)),
            Protocol::Icmpv4 => protocol == Some(ICMP),
            Protocol::Icmpv6 => protocol == Some(ICMPV6),
            Protocol::Sctp => protocol == Some(SCTP),
        }
    }
}

/// Puts a value into the lists of these directions.
fn push_each<T: Clone>(lists: &mut [Vec<T>; 2], directions: [bool; 2], value: &T) {
    for (list, wanted) in lists.iter_mut().zip(directions) {
        if wanted {
            list.push(value.clone());
        }
    }
}

impl RuleSet {
    /// Compiles rules.
    ///
    /// Rules are evaluated in Suricata's order: by action (pass, drop, reject, alert), then by what they do
    /// with flowbits (only write, test and write, only test, nothing), then by priority, then as given.
    ///
    /// # Errors
    ///
    /// [`CompileError`] when the rules use too many flowbits or too much memory, or a file was not read.
    pub fn compile(mut rules: Vec<Rule>, options: CompileOptions) -> Result<Self, CompileError> {
        let generation = generation(&mut rules, &options)?;
        let mut variants = Variants::default();
        let mut compiled = compile_rules(rules, &options, &mut variants)?;
        let common = CommonStrings::new();
        let mut messages = MessageParts::default();
        let mut unfiltered = Unfiltered::default();
        let mut at_message_end = [Vec::new(), Vec::new()];
        let mut with_every_byte = [Vec::new(), Vec::new()];
        // By group and direction: what its prefilter looks for.
        let mut parts: [[Vec<FastPart>; 2]; GROUPS.len()] = Default::default();
        for (number, rule) in (0u32..).zip(&mut compiled) {
            if let Some(phase) = rule.rule.message_phase() {
                let looked = (rule.sections.as_slice(), rule.rule.head_protocol());
                messages.add(number, looked, phase, &common);
                continue;
            }
            // A rule that may be turned around keeps the direction of its flow.
            let directions = rule.directions;
            let protocol = rule.rule.protocol;
            let part = prefilter::choose(number, &rule.rule.contents, &common);
            let fast = part.as_ref().map(|part| part.content);
            rule.matcher = Matcher::new(&rule.rule.contents, fast);
            let Some(part) = part else {
                let ports = (!rule.rule.bidirectional)
                    .then_some((&rule.rule.source_ports, &rule.rule.destination_ports));
                unfiltered.add(number, |known| protocol.covers(known), directions, ports);
                let has_conditions =
                    !rule.rule.contents.is_empty() || !rule.rule.sections.is_empty();
                if has_conditions && rule.in_streams && protocol.covers(Some(TCP)) {
                    if !rule.sections.is_empty() {
                        push_each(&mut with_every_byte, directions, &number);
                    }
                    push_each(&mut at_message_end, directions, &number);
                }
                continue;
            };
            for group in GROUPS {
                if rule.belongs_to(group)
                    && let Some(by_direction) = parts.get_mut(group as usize)
                {
                    push_each(by_direction, directions, &part);
                }
            }
        }
        unfiltered.finish();

        let longest_content = longest_content(&compiled);
        let limit = options.automaton_bytes;
        let rules = compiled.len();
        let too_large = || CompileError::AutomatonTooLarge { limit, rules };
        let (prefilters, by_group) = build_prefilters(&parts, limit).ok_or_else(too_large)?;
        let messages = messages.build(limit).ok_or_else(too_large)?;
        Ok(RuleSet {
            rules: compiled,
            prefilters,
            by_group,
            unfiltered,
            at_message_end,
            with_every_byte,
            messages,
            variants,
            report_packet_and_stream: options.report_packet_and_stream,
            generation,
            longest_content,
        })
    }

    /// How many rules there are.
    pub fn len(&self) -> usize {
        self.rules.len()
    }

    /// True if there are no rules.
    pub fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    /// The rules in order of evaluation.
    pub fn rules(&self) -> impl Iterator<Item = &Rule> {
        self.rules.iter().map(|compiled| &compiled.rule)
    }

    /// A number that is the same for the same rules and settings, on every machine, and different for
    /// others: what a [`StreamState`](crate::StreamState) or [`FlowVars`](crate::FlowVars) remembers is
    /// forgotten when it meets another generation.
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// Length of the longest content, in bytes: what [`StreamBytes::window`](crate::StreamBytes::window)
    /// must at least hold of old bytes.
    pub fn longest_content(&self) -> usize {
        self.longest_content
    }

    /// True if a rule looks at streams at all, be it at their sizes: otherwise
    /// [`inspect_stream`](RuleSet::inspect_stream) need not be called.
    pub fn needs_streams(&self) -> bool {
        let sized = |test: &PacketTest| matches!(test, PacketTest::StreamSize(..));
        self.rules.iter().any(|rule| {
            (rule.in_streams || rule.rule.tests.iter().any(sized))
                && rule.rule.protocol.covers(Some(TCP))
        })
    }

    /// How many different patterns the prefilters look for, and the bytes their tables take.
    pub fn prefilter_size(&self) -> (usize, usize) {
        self.prefilters
            .iter()
            .fold((0, 0), |(patterns, bytes), prefilter| {
                (
                    patterns + prefilter.patterns(),
                    bytes + prefilter.table_bytes(),
                )
            })
    }

    /// The prefilter of a group in a direction.
    #[inline]
    pub(crate) fn prefilter(&self, group: Group, to_server: bool) -> Option<&Prefilter> {
        let by_direction = self.by_group.get(group as usize)?;
        let &place = by_direction.get(usize::from(!to_server))?;
        self.prefilters.get(place)
    }
}

type Prefilters = (Vec<Prefilter>, [[usize; 2]; GROUPS.len()]);

/// One prefilter for each different list of rules; `None` when they do not fit `bytes`.
fn build_prefilters(
    parts: &[[Vec<FastPart>; 2]; GROUPS.len()],
    bytes: usize,
) -> Option<Prefilters> {
    let same = |a: &[FastPart], b: &[FastPart]| {
        a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.rule == b.rule)
    };
    let mut different: Vec<&[FastPart]> = Vec::new();
    let mut by_group = [[0; 2]; GROUPS.len()];
    for (group, places) in parts.iter().zip(&mut by_group) {
        for (list, place) in group.iter().zip(places) {
            let known = different.iter().position(|other| same(other, list));
            *place = known.unwrap_or(different.len());
            if known.is_none() {
                different.push(list);
            }
        }
    }
    // The larger lists get the room that the smaller ones leave.
    let mut order: Vec<usize> = (0..different.len()).collect();
    order.sort_by_key(|&place| different.get(place).map_or(0, |list| list.len()));
    let mut left = bytes;
    let mut prefilters = vec![Prefilter::default(); different.len()];
    for (done, &place) in order.iter().enumerate() {
        let share = left / (order.len() - done);
        let list = different.get(place)?;
        let prefilter = Prefilter::new(list, share)?;
        left = left.saturating_sub(prefilter.table_bytes());
        *prefilters.get_mut(place)? = prefilter;
    }
    Some((prefilters, by_group))
}

fn priority(rule: &Rule, classifications: &Classifications) -> u8 {
    rule.priority
        .or_else(|| {
            let class = classifications.get(rule.classtype.as_deref()?)?;
            Some(class.priority)
        })
        .unwrap_or(DEFAULT_PRIORITY)
}

/// Rules that only write flowbits come first, those without any come last.
fn flowbits_order(rule: &Rule) -> u8 {
    let bits = rule
        .flowbits
        .iter()
        .map(|operation| operation.kind.writes());
    let integers = rule
        .flowints
        .iter()
        .map(|operation| operation.kind.writes());
    let shared = rule.shared_bits.iter().map(|bit| bit.kind.writes());
    let all: Vec<bool> = bits.chain(integers).chain(shared).collect();
    let (writes, tests) = (all.contains(&true), all.contains(&false));
    match (writes, tests) {
        (true, false) => 0,
        (true, true) => 1,
        (false, true) => 2,
        (false, false) => 3,
    }
}

/// The rules in order of evaluation.
fn compile_rules(
    rules: Vec<Rule>,
    options: &CompileOptions,
    variants: &mut Variants,
) -> Result<Vec<Compiled>, CompileError> {
    let mut ordered: Vec<(u8, Rule)> = rules
        .into_iter()
        .map(|rule| (priority(&rule, &options.classifications), rule))
        .collect();
    // The sort is stable, so that rules that compare equal stay as given.
    ordered.sort_by_key(|(priority, rule)| (rule.action, flowbits_order(rule), *priority));

    let mut names = Names::default();
    let mut compiled = Vec::with_capacity(ordered.len());
    for (priority, rule) in ordered {
        compiled.push(compile_rule(rule, priority, options, &mut names, variants)?);
    }
    Ok(compiled)
}

/// Names of flowbits and flowints, and their numbers.
#[derive(Default)]
struct Names {
    bits: BTreeMap<String, u16>,
    integers: BTreeMap<String, u16>,
}

/// The number of a name, which is a new one where it has none.
fn number_of(
    name: &str,
    rule: &Rule,
    names: &mut BTreeMap<String, u16>,
) -> Result<u16, CompileError> {
    if let Some(&number) = names.get(name) {
        return Ok(number);
    }
    if names.len() >= MAX_FLOW_VARS {
        return Err(CompileError::TooManyFlowbits {
            line: rule.line,
            sid: rule.sid,
            name: name.to_string(),
        });
    }
    let number = names.len() as u16;
    names.insert(name.to_string(), number);
    Ok(number)
}

/// Its names as numbers.
fn integer_operation(
    flowint: &FlowInt,
    rule: &Rule,
    names: &mut Names,
) -> Result<IntegerOperation, CompileError> {
    Ok(IntegerOperation {
        name: number_of(&flowint.name, rule, &mut names.integers)?,
        kind: flowint.kind,
        value: match &flowint.value {
            FlowIntValue::Number(number) => Value::Number(*number),
            FlowIntValue::Named(name) => Value::Named(number_of(name, rule, &mut names.integers)?),
        },
    })
}

fn compile_rule(
    rule: Rule,
    priority: u8,
    options: &CompileOptions,
    names: &mut Names,
    variants: &mut Variants,
) -> Result<Compiled, CompileError> {
    let mut bit_tests = Vec::new();
    let mut bit_writes = Vec::new();
    for operation in &rule.flowbits {
        let mut bits = Vec::with_capacity(operation.names.len());
        for name in &operation.names {
            let bit = number_of(name, &rule, &mut names.bits)?;
            bits.push(bit);
        }
        if operation.kind.writes() {
            bit_writes.extend(bits.into_iter().map(|bit| (operation.kind, bit)));
        } else {
            let set = operation.kind == FlowbitKind::IsSet;
            bit_tests.push(BitTest { set, bits });
        }
    }
    let (mut integer_tests, mut integer_writes) = (Vec::new(), Vec::new());
    for flowint in &rule.flowints {
        let operation = integer_operation(flowint, &rule, names)?;
        match flowint.kind.writes() {
            true => integer_writes.push(operation),
            false => integer_tests.push(operation),
        }
    }
    let stream_only = rule.flow.only_stream || rule.protocol == Protocol::TcpStream;
    let needs_packet = rule.needs_packet();
    let of_messages = rule.is_of_messages();
    // As in Suricata: a place that is counted from the start is looked for in each packet as well.
    let from_start = rule
        .contents
        .iter()
        .any(|content| content.offset.is_some() || content.depth.is_some() || content.starts_with);
    let category = category(&rule, &options.classifications);
    Ok(Compiled {
        matcher: Matcher::default(),
        sections: prepare(&rule, variants),
        category,
        priority,
        bit_tests,
        bit_writes,
        integer_tests,
        integer_writes,
        in_packets: !stream_only && (needs_packet || from_start) && !of_messages,
        in_streams: !needs_packet && !of_messages,
        stream_only,
        needs_packet,
        address_only: rule.is_address_only(),
        directions: rule.directions(),
        application_only: rule.is_application_only(),
        any_endpoint: rule.source.is_full()
            && rule.destination.is_full()
            && rule.source_ports.is_full()
            && rule.destination_ports.is_full(),
        rule,
    })
}

/// Length of the longest content of a payload or stream.
fn longest_content(rules: &[Compiled]) -> usize {
    let contents = rules.iter().flat_map(|rule| &rule.rule.contents);
    contents
        .map(|content| content.bytes.len())
        .max()
        .unwrap_or(0)
}

/// A rule's sections, ready to be looked for.
fn prepare(rule: &Rule, variants: &mut Variants) -> Vec<Prepared> {
    let phase = rule.message_phase().unwrap_or(Phase::Head);
    let prepared = rule.sections.iter().map(|section| {
        let changes = section.buffer;
        let changes = changes.and_then(|buffer| variants.add(buffer, &section.transforms, phase));
        Prepared::new(section, changes)
    });
    prepared.collect()
}

/// Description of a rule's class type, or its name.
fn category(rule: &Rule, classifications: &Classifications) -> String {
    let Some(name) = rule.classtype.as_deref() else {
        return String::new();
    };
    let class = classifications.get(name);
    let text = class.map_or(name, |class| class.description.as_str());
    text.to_owned()
}

/// A fingerprint of rules and settings, never 0.
fn generation(rules: &mut [Rule], options: &CompileOptions) -> Result<u64, CompileError> {
    let mut hash = Fingerprint::default();
    let mut add = |bytes: &[u8]| hash.add(bytes);
    // The layout of what is remembered, to be changed with it.
    add(b"weir-signatures 2");
    add(&options.automaton_bytes.to_le_bytes());
    for rule in rules {
        add(rule.text.as_bytes());
        add(&[priority(rule, &options.classifications)]);
        let (line, sid) = (rule.line, rule.sid);
        let scores = rule.reputation_fingerprints();
        let values = rule.data_tests().map(|test| test.fingerprint());
        for fingerprint in scores.into_iter().chain(values) {
            let fingerprint = fingerprint.ok_or(CompileError::Unread { line, sid })?;
            add(&fingerprint.to_le_bytes());
        }
    }
    Ok(hash.number().max(1))
}
