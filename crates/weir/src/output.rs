//! Standard output: text, JSON, completion scripts. A reader that goes away
//! (`weir … | head`) ends the program without a complaint.

use std::io::{self, Write};

use clap::CommandFactory as _;
use serde::Serialize;

use crate::args::Args;
use crate::exit::{Exit, Failure, Outcome};

fn written(result: io::Result<()>) -> Result<(), Failure> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => std::process::exit(0),
        other => other
            .map_err(|error| Failure::outside(format!("can't write to standard output: {error}"))),
    }
}

/// Prints text and a newline, if it does not end in one.
pub(crate) fn line(text: &str) -> Result<(), Failure> {
    let end = if text.ends_with('\n') { "" } else { "\n" };
    let mut out = io::stdout().lock();
    written(write!(out, "{text}{end}").and_then(|()| out.flush()))
}

/// Prints a value as indented JSON.
pub(crate) fn json(value: &impl Serialize) -> Result<(), Failure> {
    match serde_json::to_string_pretty(value) {
        Ok(text) => line(&text),
        Err(error) => Err(Failure::outside(format!("can't write JSON: {error}"))),
    }
}

/// Prints a completion script.
pub(crate) fn completion(shell: clap_complete::Shell) -> Outcome {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Args::command(), "weir", &mut script);
    written(io::stdout().lock().write_all(&script))?;
    Ok(Exit::Done)
}

/// The role of a member of a cluster.
pub(crate) fn role(is_logger: bool) -> &'static str {
    match is_logger {
        true => "logger",
        false => "runtime",
    }
}

/// `1234567` as `1,234,567`.
pub(crate) fn thousands(n: u64) -> String {
    let digits = n.to_string();
    let mut text = String::with_capacity(digits.len() * 4 / 3);
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Foreign text on one line: control characters, which may mean something to a terminal, become spaces.
#[cfg(feature = "control")]
pub(crate) fn one_line(text: &str) -> String {
    let plain = text.chars().map(|c| if c.is_control() { ' ' } else { c });
    plain.collect()
}

/// `1 queue`, `2 queues`.
pub(crate) fn counted(number: impl Into<u64>, what: &str) -> String {
    let number = number.into();
    format!("{number} {what}{}", if number == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thousands_are_grouped() {
        let all: Vec<String> = [0, 999, 1_000, 1_234_567].map(thousands).into();
        assert_eq!(all, ["0", "999", "1,000", "1,234,567"]);
    }
}
