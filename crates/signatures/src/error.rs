//! Errors in rules that can't be used.

use std::fmt;

/// A rule that is wrong, with the place of the fault in the text it was read from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RuleError {
    /// Line, counted from 1. In a rule continued over several lines, the line of the fault itself.
    pub line: usize,
    /// Column in characters, counted from 1.
    pub column: usize,
    /// Length of the faulty part in characters, at least 1, never past the end of its line.
    pub length: usize,
    /// Description of the fault.
    pub message: String,
    /// Advice on the fault, if there is any.
    pub help: Option<String>,
    /// True if the fault is that another rule has the same `gid`, `sid` and `rev`.
    pub duplicate: bool,
}

impl RuleError {
    /// A line of a file that is wrong as a whole; lines are counted from 1.
    pub(crate) fn of_line(number: usize, line: &str, message: String) -> RuleError {
        RuleError {
            line: number,
            column: 1,
            length: line.chars().count().max(1),
            message,
            help: None,
            duplicate: false,
        }
    }
}

impl fmt::Display for RuleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "line {}, column {}: {}",
            self.line, self.column, self.message
        )?;
        match &self.help {
            Some(help) => write!(f, " ({help})"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for RuleError {}

/// Why a rule was left out although nothing is wrong with it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SkipReason {
    /// It uses these keywords, which are not supported, in the order in which they stand in the rule.
    Keywords(Vec<String>),
    /// Its protocol is not supported.
    Protocol(String),
    /// Its addresses or ports leave nothing to match: a negation takes everything away.
    NothingLeft,
    /// Another rule of the same `gid` and `sid` has a higher `rev`.
    OlderRevision,
}

/// A rule that was left out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Skipped {
    /// Line on which the rule starts, counted from 1.
    pub line: usize,
    /// The rule's `sid`, where it has a readable one.
    pub sid: Option<u32>,
    /// Why it was left out.
    pub reason: SkipReason,
}

/// A fault within one rule: byte positions in the rule's joined text. Becomes a [`RuleError`].
#[derive(Debug, Clone)]
pub(crate) struct Fault {
    pub(crate) start: usize,
    pub(crate) end: usize,
    pub(crate) message: String,
    pub(crate) help: Option<String>,
    /// The rule may be left out for this reason, since nothing is wrong with how it is written.
    pub(crate) skip: Option<SkipReason>,
    /// As [`RuleError::duplicate`].
    pub(crate) duplicate: bool,
}

impl Fault {
    pub(crate) fn new(span: Span, message: impl Into<String>) -> Self {
        Fault {
            start: span.start,
            end: span.end,
            message: message.into(),
            help: None,
            skip: None,
            duplicate: false,
        }
    }

    pub(crate) fn duplicate(mut self) -> Self {
        self.duplicate = true;
        self
    }

    pub(crate) fn skip(mut self, reason: SkipReason) -> Self {
        self.skip = Some(reason);
        self
    }

    pub(crate) fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }
}

/// A half-open range of bytes in a rule's joined text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) start: usize,
    pub(crate) end: usize,
}

impl Span {
    pub(crate) fn new(start: usize, end: usize) -> Self {
        Span { start, end }
    }

    /// The text of this span; empty when the span does not lie in `text`.
    pub(crate) fn of<'a>(&self, text: &'a str) -> &'a str {
        text.get(self.start..self.end).unwrap_or("")
    }

    /// This span without white space at its ends.
    pub(crate) fn trim(&self, text: &str) -> Span {
        let inner = self.of(text);
        let start = self.start + (inner.len() - inner.trim_start().len());
        let end = start + inner.trim().len();
        Span { start, end }
    }
}
