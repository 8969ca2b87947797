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

use crate::diagnostic::{Diagnostic, Report, Span, Texts};
use crate::form::Form;
use crate::keys::Keys;
use crate::nearest::listed;
use crate::read;
use crate::script_keys::{
    Command, Drain, Entry, MOST_RUNTIMES, MOST_STEPS, ScriptFlows, ScriptMode, drain_keys,
    entry_keys, move_keys, packet_keys,
};
use crate::tree::{self, Node};
use crate::units;

/// When a command is given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScriptTime {
    /// Nanoseconds after the run's start.
    After(u64),
    /// When this many packets have come in.
    Packet(u64),
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
    let (texts, file, text) = Texts::of(name, text);
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
        let keys = entry_keys();
        for item in items {
            self.step(item, &keys, report);
        }
    }

    fn step(&mut self, item: &Node, keys: &Keys<Entry>, report: &mut Report<'_>) {
        let (line, ..) = report.texts.place(item.span);
        let names = keys.names();
        let commands = names.get(1..).unwrap_or(&[]);
        if let Some((first, second)) = beside(item, commands) {
            let message = format!("a second command beside `{}`", name_of(first));
            let help = "write it as an entry of its own, with its own `at`";
            return report.error_help(second.span, message, help);
        }
        let (errors, mut entry) = (report.errors(), Entry::default());
        if !keys.read_into(&mut entry, item, report) {
            return;
        }
        let at = entry.at.and_then(|node| self.time(&node, report));
        let Some((command, value)) = entry.command else {
            if report.errors() == errors {
                let help = format!("name one of {}", listed(commands));
                report.error_help(item.span, "there is no command here", help);
            }
            return;
        };
        let read = match command {
            Command::Move => self.moves(&value, report),
            Command::Drain => self.drain(&value, line, report),
            Command::Add => self.add(&value, report),
            Command::Remove => self.remove(&value, line, report),
        };
        if let (Some(at), Some(command)) = (at, read) {
            self.script.steps.push(ScriptStep { at, command, line });
        }
    }

    fn time(&mut self, node: &Node, report: &mut Report<'_>) -> Option<ScriptTime> {
        let before = "commands are given in the order in which they are written: \
                      put it before, or change its time";
        if node.entries().is_some() {
            let errors = report.errors();
            let packet = packet_keys().read(node, report)?;
            if report.errors() > errors {
                return None;
            }
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
        let errors = report.errors();
        if let Some((_, second)) = beside(node, &["count", "flows", "key"]) {
            report.error_help(
                second.span,
                format!("`{}` beside another choice of flows", name_of(second)),
                "write one of `count`, `flows` and `key`, or none to move all",
            );
        }
        let written = move_keys().read(node, report)?;
        let chain = written.chain.and_then(|node| self.chain(&node, report));
        let from = written.from.and_then(|node| self.runtime(&node, report));
        let place = written.to?;
        let to = self.runtime(&place, report);
        let (to, from) = (to?, from?);
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
            flows: written.flows.unwrap_or(ScriptFlows::All),
            mode: written.mode,
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
        let errors = report.errors();
        let written = match node.entries() {
            Some(_) => drain_keys().read(node, report)?,
            None => Drain {
                runtime: Some(node.clone()),
                ..Drain::default()
            },
        };
        if report.errors() > errors {
            return None;
        }
        let (place, mode) = (&written.runtime?, written.mode);
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

/// Two keys of a mapping, of which only one may be there: the first two of `names`.
fn beside<'n>(node: &'n Node, names: &[&str]) -> Option<(&'n Node, &'n Node)> {
    let keys = node.entries().unwrap_or(&[]).iter().map(|(key, _)| key);
    let mut named = keys.filter(|key| names.contains(&name_of(key)));
    named.next().zip(named.next())
}

fn name_of(key: &Node) -> &str {
    key.text().unwrap_or_default()
}
