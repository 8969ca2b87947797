//! Findings, for people and for programs.

use std::fmt::Write as _;

use serde::Serialize;

use super::finding::{Finding, Status};

/// Columns that a line has at most.
const WIDTH: usize = 100;
/// Column at which messages begin.
const INDENT: usize = 11;

/// Findings for programs.
#[derive(Debug, Serialize)]
pub(super) struct Json<'a> {
    /// Of the worst finding.
    status: Status,
    ok: usize,
    warnings: usize,
    problems: usize,
    findings: &'a [Finding],
}

fn counts(findings: &[Finding]) -> [usize; 3] {
    [Status::Ok, Status::Warning, Status::Problem]
        .map(|status| findings.iter().filter(|f| f.status == status).count())
}

pub(super) fn json(findings: &[Finding]) -> Json<'_> {
    let [ok, warnings, problems] = counts(findings);
    let worst = findings.iter().map(|f| f.status).max();
    Json {
        status: worst.unwrap_or(Status::Ok),
        ok,
        warnings,
        problems,
        findings,
    }
}

/// Findings for people, by area.
pub(super) fn text(findings: &[Finding], everything: bool) -> String {
    let mut text = String::new();
    let mut area = None;
    for finding in findings {
        // Writing to a `String` can't fail.
        if area != Some(finding.area) {
            let between = if area.is_some() { "\n" } else { "" };
            let _ = writeln!(text, "{between}{}", finding.area.title());
            area = Some(finding.area);
        }
        let subject = finding.subject.iter().map(|subject| format!("{subject}: "));
        let message = subject.collect::<String>() + &finding.message;
        let status = finding.status.name();
        for (number, line) in wrapped(&message).iter().enumerate() {
            let head = if number == 0 { status } else { "" };
            let _ = writeln!(text, "  {head:<8} {line}");
        }
        // A command is one line, to be copied.
        for command in &finding.mend {
            let _ = writeln!(text, "{:INDENT$}$ {command}", "");
        }
    }
    let [ok, warnings, problems] = counts(findings);
    let parts = [(problems, "problem"), (warnings, "warning")].map(|(number, what)| {
        let s = if number == 1 { "" } else { "s" };
        format!("{number} {what}{s}")
    });
    let _ = writeln!(text, "\n{}, {ok} ok", parts.join(", "));
    if everything {
        text += "(of the machine as a whole; `weir doctor CHAIN --in PORT --out PORT` looks at what a run \
                 needs)\n";
    }
    text
}

/// Lines of at most the width, broken at spaces.
fn wrapped(message: &str) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in message.split(' ') {
        let line = lines.last_mut();
        let Some(line) = line else { break };
        if line.is_empty() {
            line.push_str(word);
        } else if line.chars().count() + 1 + word.chars().count() + INDENT <= WIDTH {
            line.push(' ');
            line.push_str(word);
        } else {
            lines.push(word.to_owned());
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::finding::Area;

    #[test]
    fn commands_stand_alone_on_their_lines() {
        let long = "word ".repeat(40);
        let command = format!("ethtool -K {} tx off", "x".repeat(120));
        let found = [
            Finding::ok(Area::Interfaces, "interface", "up").of("eth0"),
            Finding::problem(Area::Offloads, "peer-offloads", long.trim()).mend(&command),
        ];
        let text = text(&found, false);
        assert!(
            text.starts_with("interfaces\n  ok       eth0: up\n\noffloads\n"),
            "{text}"
        );
        assert!(
            text.lines()
                .any(|line| line.trim() == format!("$ {command}")),
            "{text}"
        );
        let others = text.lines().filter(|line| !line.contains("ethtool"));
        assert!(others.clone().count() > 5);
        assert!(others.map(str::len).max() <= Some(WIDTH), "{text}");
        assert!(text.ends_with("1 problem, 0 warnings, 1 ok\n"), "{text}");
    }
}
