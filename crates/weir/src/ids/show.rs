//! What was found in rule files, as text and as JSON.

use serde_json::{Value, json};

use weir_functions::ids::{Applied, Loaded, Reason, Refused};

use crate::output::thousands;

/// The result for people; with `all` every rule that does not load.
pub(super) fn text(loaded: &Loaded, all: bool) -> String {
    let mut text = String::new();
    if loaded.files.len() > 1 {
        for file in &loaded.files {
            text += &format!("{}: {}\n", file.name, of(file.loads(), file.rules));
        }
    }
    text += &format!("{} load", of(loaded.loads(), loaded.rules()));
    if let [file] = loaded.files.as_slice() {
        text += &format!(" ({})", file.name);
    }
    text.push('\n');
    text += &lists(loaded.lists);
    let reasons = loaded.reasons();
    if !reasons.is_empty() {
        let rows = reasons
            .iter()
            .map(|(reason, count, first)| [thousands(*count as u64), words(reason), first.clone()]);
        text += &format!("\nThese don't ({}), since:\n", loaded.refused.len());
        text += &columns(rows.collect());
    }
    if let Some(why) = &loaded.together {
        text += &format!("\nThe rules can't be used together: {why}\n");
    }
    if !loaded.replaced.is_empty() {
        text += "\nA higher revision replaces:\n";
        let rows = loaded.replaced.iter();
        let shown = rows.clone().take(if all { usize::MAX } else { 5 });
        for older in shown.clone() {
            text += &format!("  {}:{}: sid {}\n", older.text, older.line, older.sid);
        }
        if let Some(more) = rows.len().checked_sub(shown.len()).filter(|&more| more > 0) {
            text += &format!(
                "  and {} more (`--all` lists them)\n",
                thousands(more as u64)
            );
        }
    }
    if !loaded.classtypes.is_empty() {
        let rows = loaded.classtypes.iter().map(|(name, (count, first))| {
            [thousands(*count as u64), format!("`{name}`"), first.clone()]
        });
        text += "\nClass types that are not known, so that rules have the default priority:\n";
        text += &columns(rows.collect());
    }
    if !loaded.missing.is_empty() {
        let names = loaded
            .missing
            .iter()
            .map(|(gid, sid)| format!("{gid}:{sid}"));
        let names: Vec<String> = names.collect();
        text += &format!(
            "\nThresholds name rules that do not load or are not there: {}\n",
            names.join(", ")
        );
    }
    if all && !loaded.refused.is_empty() {
        text.push('\n');
        for rule in &loaded.refused {
            text += &format!("{}: {}{}\n", rule.place(), sid(rule), why(rule));
        }
    }
    text
}

/// Counts of rules that lists changed; empty where there are none.
fn lists(applied: Applied) -> String {
    let counts = [
        (applied.disabled, "disabled"),
        (applied.enabled, "enabled"),
        (applied.dropped, "made to drop"),
        (applied.modified, "modified"),
    ];
    let told = counts.into_iter().filter(|(count, _)| *count > 0);
    let told: Vec<String> = told
        .map(|(count, what)| format!("{} {what}", thousands(count as u64)))
        .collect();
    match told.is_empty() {
        true => String::new(),
        false => format!("Lists: {}\n", told.join(", ")),
    }
}

/// `963 of 1,000 rules`.
fn of(loads: usize, rules: usize) -> String {
    let end = if rules == 1 { "" } else { "s" };
    format!(
        "{} of {} rule{end}",
        thousands(loads as u64),
        thousands(rules as u64)
    )
}

/// A reason in words.
fn words(reason: &Reason) -> String {
    match reason.kind {
        "keyword" | "protocol" => format!("{} `{}` is not supported", reason.kind, reason.name),
        _ => reason.name.clone(),
    }
}

/// Why a rule does not load, in full.
fn why(rule: &Refused) -> String {
    match &rule.message {
        Some(message) => message.clone(),
        None => rule
            .reasons
            .iter()
            .map(words)
            .collect::<Vec<_>>()
            .join(", "),
    }
}

fn sid(rule: &Refused) -> String {
    rule.sid
        .map(|sid| format!("sid {sid}: "))
        .unwrap_or_default()
}

/// Rows of a number, what it counts, and an example.
fn columns(rows: Vec<[String; 3]>) -> String {
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column));
        cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let (first, second) = (width(0), width(1));
    let lines = rows
        .iter()
        .map(|[number, what, place]| format!("  {number:>first$}  {what:<second$}  {place}\n"));
    lines.collect()
}

/// The result for programs.
pub(super) fn value(loaded: &Loaded, all: bool) -> Value {
    let files = loaded.files.iter().map(|file| {
        json!({"file": file.name, "rules": file.rules, "loads": file.loads(), "refused": file.refused,
               "replaced": file.replaced})
    });
    let reasons = loaded.reasons().into_iter().map(|(reason, count, first)| {
        json!({"kind": reason.kind, "name": reason.name, "rules": count, "first": first})
    });
    let replaced = loaded
        .replaced
        .iter()
        .map(|older| json!({"file": older.text, "line": older.line, "sid": older.sid}));
    let classtypes = loaded
        .classtypes
        .iter()
        .map(|(name, (count, first))| json!({"name": name, "rules": count, "first": first}));
    let mut value = json!({
        "rules": loaded.rules(),
        "loads": loaded.loads(),
        "refused": loaded.refused.len(),
        "files": files.collect::<Vec<_>>(),
        "reasons": reasons.collect::<Vec<_>>(),
        "replaced": replaced.collect::<Vec<_>>(),
        "lists": {
            "disabled": loaded.lists.disabled,
            "enabled": loaded.lists.enabled,
            "dropped": loaded.lists.dropped,
            "modified": loaded.lists.modified,
        },
        "unknown_classtypes": classtypes.collect::<Vec<_>>(),
        "unknown_rules": loaded.missing.iter()
            .map(|(gid, sid)| json!({"gid": gid, "sid": sid})).collect::<Vec<_>>(),
        "together": loaded.together,
    });
    if all {
        let each = loaded.refused.iter().map(|rule| {
            let kinds: Vec<&str> = rule.reasons.iter().map(|reason| reason.kind).collect();
            json!({"file": rule.file, "line": rule.line, "sid": rule.sid, "kinds": kinds, "why": why(rule)})
        });
        value["all"] = json!(each.collect::<Vec<_>>());
    }
    value
}
