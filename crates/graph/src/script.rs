//! Scripts of a run: timed commands that move flows between runtimes.
//!
//! ```yaml
//! - {at: 100ms, move: {from: 1, to: 2, count: 500}}
//! - {at: {packet: 50000}, move: {from: 1, to: 2, flows: {port: 80}, mode: pull}}
//! - {at: 1s, add: 1}
//! - {at: 1s, drain: 2}
//! - {at: 2s, remove: 2}
//! ```
//!
//! Commands are carried out in the order in which they are written, each when
//! its time has come and the ones before it were given.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use weir_packet::protocol::ip;
use weir_packet::{FlowKey, Prefix, PrefixError};

use crate::diagnostic::{Diagnostic, Report, Span, Texts};
use crate::nearest::listed;
use crate::read;
use crate::selector::numbers;
use crate::tree::{self, Node, shorten};
use crate::units;

/// Most commands of a script.
pub(crate) const MOST_STEPS: usize = 10_000;
/// Most runtimes that a run may have, added ones included.
pub const MOST_RUNTIMES: u32 = 64;
/// Commands.
pub(crate) const COMMANDS: [&str; 4] = ["move", "drain", "add", "remove"];
/// Keys of `move`.
pub(crate) const MOVE_KEYS: [&str; 7] = ["from", "to", "count", "flows", "key", "mode", "chain"];
/// Keys of `flows`.
pub(crate) const FLOW_KEYS: [&str; 3] = ["prefix", "port", "protocol"];
/// Keys of `key`.
pub(crate) const KEY_KEYS: [&str; 3] = ["client", "server", "protocol"];
const MODES: [(&str, ScriptMode); 3] = [
    ("push", ScriptMode::Push),
    ("pull", ScriptMode::Pull),
    ("reprocess", ScriptMode::Reprocess),
];

/// When a command is given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScriptTime {
    /// Nanoseconds after the run's start.
    After(u64),
    /// When this many packets have come in.
    Packet(u64),
}

/// How a move brings states over; the protocol says what each means.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ScriptMode {
    /// The source sends as soon as it can.
    #[default]
    Push,
    /// The target asks first.
    Pull,
    /// An early snapshot, then copies of packets.
    Reprocess,
}

/// Flows that a `move` takes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ScriptFlows {
    /// All that the source has.
    All,
    /// So many.
    Count(u32),
    /// Those with an end in this space; an empty list takes all.
    Space {
        /// Address prefixes.
        prefixes: Vec<Prefix>,
        /// First and last port.
        ports: Vec<(u16, u16)>,
        /// IP protocol numbers.
        protocols: Vec<u8>,
    },
    /// The flow (both ends) or scope (a part of them) with this key, its chain
    /// left 0.
    Key(FlowKey),
}

/// A command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ScriptCommand {
    /// Moves flows.
    Move {
        /// The runtime that gives them, from 1.
        from: u32,
        /// The runtime that gets them.
        to: u32,
        /// Which.
        flows: ScriptFlows,
        /// How.
        mode: ScriptMode,
        /// Of this chain only.
        chain: Option<String>,
    },
    /// Gives all of a runtime's flows to the others, and no new ones to it.
    Drain {
        /// Which.
        runtime: u32,
        /// How.
        mode: ScriptMode,
    },
    /// Starts runtimes; they have the next numbers.
    Add {
        /// How many.
        count: u32,
    },
    /// Stops a runtime when it is drained.
    Remove {
        /// Which.
        runtime: u32,
    },
}

/// A command and its time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScriptStep {
    /// When.
    pub at: ScriptTime,
    /// The command.
    pub command: ScriptCommand,
    /// Line of the script, from 1.
    pub line: usize,
}

/// A script that was read and checked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Script {
    /// Its commands, in order.
    pub steps: Vec<ScriptStep>,
    /// Runtimes that it adds.
    pub added: u32,
}

/// Reads a script for a run that starts with `runtimes` runtimes and has these
/// chains.
///
/// # Errors
///
/// Everything that is wrong with it, by line: also a move to a runtime that
/// there will not be by then, that is being drained, or that is the source.
///
/// ```
/// use weir_graph::load_script;
///
/// let text = "- {at: 100ms, move: {from: 1, to: 2}}\n- {at: 1s, remove: 3}\n";
/// let errors = load_script("moves.yaml", text, 2, &["edge"]).unwrap_err();
/// assert_eq!((errors[0].line, errors[0].message.as_str()), (2, "there is no runtime 3"));
/// ```
pub fn load_script(
    name: &str,
    text: &str,
    runtimes: u32,
    chains: &[&str],
) -> Result<Script, Vec<Diagnostic>> {
    let mut texts = Texts::default();
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let file = texts.add(name.to_owned(), text.to_owned());
    let mut report = Report::new(&texts);
    let mut reader = Reader {
        runtimes: vec![State::Runs; runtimes as usize],
        chains,
        latest: (0, 0),
        script: Script::default(),
    };
    if let Some(root) = tree::parse(file, text, &mut report) {
        reader.script(&root, &mut report);
    } else if report.errors() == 0 {
        nothing(Span::start_of(file), &mut report);
    }
    if report.errors() > 0 {
        return Err(report.finish());
    }
    Ok(reader.script)
}

fn nothing(span: Span, report: &mut Report<'_>) {
    report.error_help(
        span,
        "there is no command in this script",
        "write a list of commands like `- {at: 100ms, move: {from: 1, to: 2, count: 500}}`",
    );
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Runs,
    /// Since this line.
    Drains(usize),
    Removed(usize),
}

struct Reader<'a> {
    /// State of each runtime when the command is given.
    runtimes: Vec<State>,
    chains: &'a [&'a str],
    /// Latest time and packet so far.
    latest: (u64, u64),
    script: Script,
}

impl Reader<'_> {
    fn script(&mut self, root: &Node, report: &mut Report<'_>) {
        if root.is_null() {
            return nothing(root.span, report);
        }
        let Some(items) = read::list(root, "a list of commands", report) else {
            return;
        };
        if let Some(first_too_many) = items.get(MOST_STEPS) {
            return report.error(
                first_too_many.span,
                format!("a script has at most {MOST_STEPS} commands"),
            );
        }
        for item in items {
            self.step(item, report);
        }
    }

    fn step(&mut self, item: &Node, report: &mut Report<'_>) {
        let Some(entries) = read::map(item, "a command like `{at: 1s, drain: 2}`", report) else {
            return;
        };
        let (line, ..) = report.texts.place(item.span);
        let mut at = None;
        let mut command: Option<(&Node, &Node)> = None;
        for (key, value) in entries {
            match key.text().unwrap_or("") {
                "at" => at = Some(value),
                name if COMMANDS.contains(&name) => {
                    if let Some((first, _)) = command {
                        report.error_help(
                            key.span,
                            format!(
                                "a second command beside `{}`",
                                first.text().unwrap_or_default()
                            ),
                            "write it as an entry of its own, with its own `at`",
                        );
                        return;
                    }
                    command = Some((key, value));
                }
                _ => {
                    let known: Vec<&str> = ["at"].into_iter().chain(COMMANDS).collect();
                    report.unknown_key(key, &known);
                    return;
                }
            }
        }
        let at = match at {
            Some(node) => self.time(node, report),
            None => {
                report.error_help(
                    item.span,
                    "the key `at` is missing",
                    "say when: `at: 100ms`, or `at: {packet: 50000}`",
                );
                None
            }
        };
        let Some((key, value)) = command else {
            report.error_help(
                item.span,
                "there is no command here",
                format!("name one of {}", listed(&COMMANDS)),
            );
            return;
        };
        let read = match key.text().unwrap_or("") {
            "move" => self.moves(value, report),
            "drain" => self.drain(value, line, report),
            "add" => self.add(value, report),
            _ => self.remove(value, line, report),
        };
        if let (Some(at), Some(command)) = (at, read) {
            self.script.steps.push(ScriptStep { at, command, line });
        }
    }

    fn time(&mut self, node: &Node, report: &mut Report<'_>) -> Option<ScriptTime> {
        let before = "commands are given in the order in which they are written: \
                      put it before, or change its time";
        if let Some(entries) = node.entries() {
            let mut packet = None;
            if entries.is_empty() {
                report.expected(node, "`{packet: NUMBER}`");
            }
            for (key, value) in entries {
                match key.text().unwrap_or("") {
                    "packet" => packet = read::integer(value, 0..=u64::MAX, report),
                    _ => {
                        report.unknown_key(key, &["packet"]);
                        return None;
                    }
                }
            }
            let packet = packet?;
            if packet < self.latest.1 {
                let message = format!("packet {packet} comes before packet {}", self.latest.1);
                report.error_help(node.span, message, before);
                return None;
            }
            self.latest.1 = packet;
            return Some(ScriptTime::Packet(packet));
        }
        let what = "a time like `100ms`, or `{packet: 50000}`";
        let text = read::word(node, what, report)?;
        let milliseconds = match text {
            "0" | "0s" | "0ms" => 0,
            "never" => {
                report.error_help(node.span, "a command is given at some time", "leave it out");
                return None;
            }
            text => read::parsed(node.span, units::duration(text), report)?,
        };
        let time = u64::from(milliseconds) * 1_000_000;
        if time < self.latest.0 {
            let message = format!("`{text}` is before the time of a command above");
            report.error_help(node.span, message, before);
            return None;
        }
        self.latest.0 = time;
        Some(ScriptTime::After(time))
    }

    /// The number of a runtime that there is when the command is given.
    fn runtime(&self, node: &Node, report: &mut Report<'_>) -> Option<u32> {
        let number = read::integer(node, 1..=u64::from(u32::MAX), report)? as u32;
        match self.runtimes.get(number as usize - 1) {
            None => {
                let all = match self.runtimes.len() {
                    1 => "there is runtime 1 alone by then".to_owned(),
                    n => format!("there are runtimes 1 to {n} by then"),
                };
                report.error_help(node.span, format!("there is no runtime {number}"), all);
                None
            }
            Some(State::Removed(line)) => {
                report.error_help(
                    node.span,
                    format!("runtime {number} is removed in line {line}"),
                    "a runtime that was removed does not come back: `add` one",
                );
                None
            }
            Some(_) => Some(number),
        }
    }

    fn state(&self, runtime: u32) -> State {
        let place = runtime as usize - 1;
        self.runtimes.get(place).copied().unwrap_or(State::Runs)
    }

    fn moves(&mut self, node: &Node, report: &mut Report<'_>) -> Option<ScriptCommand> {
        let what = "a mapping like `{from: 1, to: 2, count: 500}`";
        let entries = read::map(node, what, report)?;
        let errors = report.errors();
        let (mut from, mut to, mut mode, mut chain) = (None, None, ScriptMode::Push, None);
        let mut flows: Option<ScriptFlows> = None;
        for (key, value) in entries {
            let name = key.text().unwrap_or("");
            match name {
                "from" => from = self.runtime(value, report),
                "to" => to = self.runtime(value, report).map(|to| (to, value)),
                "mode" => mode = read::choice(value, &MODES, report).unwrap_or_default(),
                "chain" => chain = self.chain(value, report),
                "count" | "flows" | "key" => {
                    if flows.is_some() {
                        report.error_help(
                            key.span,
                            format!("`{name}` beside another choice of flows"),
                            "write one of `count`, `flows` and `key`, or none to move all",
                        );
                    }
                    flows = match name {
                        "count" => read::integer(value, 1..=u64::from(u32::MAX), report)
                            .map(|n| ScriptFlows::Count(n as u32)),
                        "flows" => space(value, report),
                        _ => flow_key(value, report).map(ScriptFlows::Key),
                    };
                }
                _ => report.unknown_key(key, &MOVE_KEYS),
            }
        }
        for key in ["from", "to"] {
            if node.get(key).is_none() {
                report.error_help(
                    node.span,
                    format!("the key `{key}` is missing"),
                    "a move names both: `{from: 1, to: 2}`",
                );
            }
        }
        let ((to, place), from) = (to?, from?);
        if to == from {
            report.error_help(
                place.span,
                format!("runtime {to} is the source of this move, too"),
                "move flows to another runtime",
            );
        } else if let State::Drains(line) = self.state(to) {
            report.error_help(
                place.span,
                format!("runtime {to} is being drained since line {line}: it takes no flows"),
                "move them to another runtime, or before it is drained",
            );
        }
        (report.errors() == errors).then_some(ScriptCommand::Move {
            from,
            to,
            flows: flows.unwrap_or(ScriptFlows::All),
            mode,
            chain,
        })
    }

    fn chain(&self, node: &Node, report: &mut Report<'_>) -> Option<String> {
        let choices: Vec<(&str, &str)> = self.chains.iter().map(|c| (*c, *c)).collect();
        read::choice(node, &choices, report).map(str::to_owned)
    }

    fn drain(
        &mut self,
        node: &Node,
        line: usize,
        report: &mut Report<'_>,
    ) -> Option<ScriptCommand> {
        let (mut which, mut mode) = (Some(node), ScriptMode::Push);
        if let Some(entries) = node.entries() {
            which = node.get("runtime");
            for (key, value) in entries {
                match key.text().unwrap_or("") {
                    "runtime" => {}
                    "mode" => mode = read::choice(value, &MODES, report)?,
                    _ => {
                        report.unknown_key(key, &["runtime", "mode"]);
                        return None;
                    }
                }
            }
        }
        let Some(place) = which else {
            report.error_help(
                node.span,
                "the key `runtime` is missing",
                "write `drain: 2`, or `drain: {runtime: 2, mode: pull}`",
            );
            return None;
        };
        let runtime = self.runtime(place, report)?;
        if let State::Drains(line) = self.state(runtime) {
            report.error(
                place.span,
                format!("runtime {runtime} is being drained since line {line}"),
            );
            return None;
        }
        let others = self.runtimes.iter().filter(|s| **s == State::Runs).count();
        if others < 2 {
            report.error_help(
                place.span,
                format!("no runtime is left to take the flows of runtime {runtime}"),
                "`add` one before",
            );
            return None;
        }
        if let Some(state) = self.runtimes.get_mut(runtime as usize - 1) {
            *state = State::Drains(line);
        }
        Some(ScriptCommand::Drain { runtime, mode })
    }

    fn add(&mut self, node: &Node, report: &mut Report<'_>) -> Option<ScriptCommand> {
        let count = read::integer(node, 1..=u64::from(MOST_RUNTIMES), report)? as u32;
        let all = self.runtimes.len() + count as usize;
        if all > MOST_RUNTIMES as usize {
            report.error(
                node.span,
                format!("that makes {all} runtimes: a run has at most {MOST_RUNTIMES}"),
            );
            return None;
        }
        self.runtimes.resize(all, State::Runs);
        self.script.added += count;
        Some(ScriptCommand::Add { count })
    }

    fn remove(
        &mut self,
        node: &Node,
        line: usize,
        report: &mut Report<'_>,
    ) -> Option<ScriptCommand> {
        let runtime = self.runtime(node, report)?;
        if self.state(runtime) == State::Runs {
            report.error_help(
                node.span,
                format!("runtime {runtime} still has flows"),
                format!("`drain: {runtime}` first"),
            );
            return None;
        }
        if let Some(state) = self.runtimes.get_mut(runtime as usize - 1) {
            *state = State::Removed(line);
        }
        Some(ScriptCommand::Remove { runtime })
    }
}

fn protocol(node: &Node, report: &mut Report<'_>) -> Option<u8> {
    let text = read::word(node, "a protocol like `tcp`", report)?;
    let named = ip::NAMES.iter().find(|(name, _)| *name == text);
    let number = named.map(|(_, n)| *n).or_else(|| text.parse().ok());
    if number.is_none() {
        let names: Vec<&str> = ip::NAMES.iter().map(|(name, _)| *name).collect();
        let what = "protocols (or a number, 0 to 255)";
        let help = crate::nearest::suggestion(text, what, &names);
        report.error_help(
            node.span,
            format!("there is no protocol `{}`", shorten(text)),
            help.unwrap_or_default(),
        );
    }
    number
}

fn space(node: &Node, report: &mut Report<'_>) -> Option<ScriptFlows> {
    let entries = read::map(node, "a mapping like `{port: 80}`", report)?;
    let errors = report.errors();
    let (mut prefixes, mut ports, mut protocols) = (Vec::new(), Vec::new(), Vec::new());
    for (key, value) in entries {
        let name = key.text().unwrap_or("");
        if !FLOW_KEYS.contains(&name) {
            report.unknown_key(key, &FLOW_KEYS);
            continue;
        }
        for value in read::one_or_more(value, "at least one value", report).unwrap_or(&[]) {
            match name {
                "protocol" => protocols.extend(protocol(value, report)),
                "port" => ports.extend(numbers(value, "port", 65_535, report)),
                _ => {
                    let Some(text) = read::word(value, "a prefix like `10.0.0.0/8`", report) else {
                        continue;
                    };
                    let prefix: Result<Prefix, PrefixError> = text.parse();
                    let prefix = prefix.map_err(|why| format!("`{}` {why}", shorten(text)));
                    prefixes.extend(read::parsed(value.span, prefix, report));
                }
            }
        }
    }
    if entries.is_empty() {
        report.error_help(
            node.span,
            "an empty choice of flows",
            format!(
                "name one of {}, or leave `flows` out to move all",
                listed(&FLOW_KEYS)
            ),
        );
    }
    (report.errors() == errors).then_some(ScriptFlows::Space {
        prefixes,
        ports,
        protocols,
    })
}

/// The key of a flow, or of a scope: what is left out is not in the scope.
fn flow_key(node: &Node, report: &mut Report<'_>) -> Option<FlowKey> {
    let what =
        "a mapping like `{client: \"10.0.0.1:1234\", server: \"192.0.2.1:80\", protocol: tcp}`";
    let entries = read::map(node, what, report)?;
    let errors = report.errors();
    let (mut client, mut server, mut number) = (None, None, None);
    for (key, value) in entries {
        match key.text().unwrap_or("") {
            "client" => client = end(value, report),
            "server" => server = end(value, report),
            "protocol" => number = protocol(value, report),
            _ => report.unknown_key(key, &KEY_KEYS),
        }
    }
    if client.is_none() && server.is_none() && report.errors() == errors {
        report.error_help(
            node.span,
            "a key without an address",
            "name `client`, `server` or both",
        );
    }
    if report.errors() > errors {
        return None;
    }
    let nowhere = match client.or(server) {
        Some((IpAddr::V6(_), _)) => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
        _ => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
    };
    let (from, from_port) = client.unwrap_or((nowhere, 0));
    let (to, to_port) = server.unwrap_or((nowhere, 0));
    if from.is_ipv4() != to.is_ipv4() {
        report.error(node.span, "one end is IPv4 and the other IPv6");
        return None;
    }
    let (key, _) = FlowKey::new(from, from_port, to, to_port, number.unwrap_or(0), 0, 0);
    Some(key)
}

/// An address, with a port or without.
fn end(node: &Node, report: &mut Report<'_>) -> Option<(IpAddr, u16)> {
    let what = "an address like `10.0.0.1`, or with a port like `10.0.0.1:80`, `[2001:db8::1]:80`";
    let text = read::word(node, what, report)?;
    let address = text.parse::<IpAddr>().map(|address| (address, 0));
    let found = address.or_else(|_| {
        let end = text.parse::<SocketAddr>();
        end.map(|end| (end.ip(), end.port()))
    });
    if found.is_err() {
        report.expected(node, what);
    }
    found.ok()
}
