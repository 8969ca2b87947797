//! `weir diff` and `weir reload`: a changed chain file for an instance that runs.

use std::fmt::Write as _;
use std::time::Duration;

use serde_json::{Value, json};
use weir_api::v1;

use crate::args::{Diff, Format, Reload};
use crate::exit::{Exit, Failure, Outcome};
use crate::output::{self, counted, thousands};
use crate::say::say;

/// Changes of a list's entries that are shown; the others are counted.
const MOST_SHOWN: usize = 20;

pub(super) fn diff(args: &Diff) -> Outcome {
    let file = match &args.file {
        None => String::new(),
        // The instance may run elsewhere.
        Some(file) => {
            let whole = std::path::absolute(file).map_err(|error| {
                Failure::outside(format!("can't tell where {} is: {error}", file.display()))
            })?;
            whole.display().to_string()
        }
    };
    let request = v1::ReloadRequest {
        dry_run: true,
        file,
    };
    let answer = ask(args.instance.as_deref(), request)?;
    tell(&answer, args.output, true)
}

pub(crate) fn reload(args: &Reload) -> Outcome {
    let instance = args.name.as_deref().or(args.instance.as_deref());
    let answer = ask(instance, v1::ReloadRequest::default())?;
    tell(&answer, args.output, false)
}

fn ask(instance: Option<&str>, request: v1::ReloadRequest) -> Result<v1::ReloadResponse, Failure> {
    super::ask(instance, async |mut client| {
        let answer = client.reload(request).await;
        answer
            .map(tonic::Response::into_inner)
            .map_err(|status| super::failure(&status))
    })
}

/// Prints the answer; an instance that refused is a failure.
fn tell(answer: &v1::ReloadResponse, output: Format, dry_run: bool) -> Outcome {
    let why = why_not(answer);
    if output == Format::Json {
        output::json(&as_json(answer, dry_run))?;
        return Ok(match why {
            Some(_) => Exit::Chain,
            None => Exit::Done,
        });
    }
    if !answer.warnings.is_empty() {
        say(answer.warnings.trim_end());
    }
    if let Some(why) = why {
        return Err(Failure::chain(why));
    }
    output::line(&text(answer, dry_run))?;
    Ok(Exit::Done)
}

/// Why an instance did not take it.
fn why_not(answer: &v1::ReloadResponse) -> Option<String> {
    if !answer.wrong.is_empty() {
        return Some(answer.wrong.clone());
    }
    let refused = answer.refused.iter();
    let lines: Vec<String> = refused.map(|why| format!("error: {why}")).collect();
    (!lines.is_empty()).then(|| {
        format!(
            "{}\n  = help: the instance goes on as it was; what takes no restart: docs/reload.md",
            lines.join("\n")
        )
    })
}

fn seconds(ns: u64) -> f64 {
    Duration::from_nanos(ns).as_secs_f64()
}

pub(super) fn as_json(answer: &v1::ReloadResponse, dry_run: bool) -> Value {
    let changes = answer.changes.iter().map(|change| {
        let settings = change.settings.iter().map(|setting| {
            json!({
                "path": setting.path,
                "before": setting.before,
                "after": setting.after,
            })
        });
        json!({
            "chain": change.chain,
            "function": change.function,
            "kind": change.kind,
            "settings": settings.collect::<Vec<_>>(),
            "texts": change.texts,
            "open_flows": change.open_flows,
        })
    });
    let sets = answer.sets.iter().map(|set| {
        json!({
            "name": set.name,
            "added": set.added,
            "removed": set.removed,
            "timeout_before": set.timeout_before,
            "timeout_after": set.timeout_after,
        })
    });
    json!({
        "changes": changes.collect::<Vec<_>>(),
        "sets": sets.collect::<Vec<_>>(),
        "taken": !dry_run && why_not(answer).is_none(),
        "wrong": (!answer.wrong.is_empty()).then_some(&answer.wrong),
        "refused": answer.refused,
        "warnings": (!answer.warnings.is_empty()).then_some(&answer.warnings),
        "read_s": seconds(answer.read_ns),
        "taken_s": (!dry_run).then(|| seconds(answer.taken_ns)),
        "engines": answer.engines,
    })
}

/// What has changed in a set.
fn of_set(set: &v1::ChangedSet) -> String {
    let mut parts = Vec::new();
    if set.added > 0 {
        parts.push(format!("+ {}", counted_entries(set.added)));
    }
    if set.removed > 0 {
        parts.push(format!("- {}", counted_entries(set.removed)));
    }
    if let (Some(before), Some(after)) = (&set.timeout_before, &set.timeout_after) {
        parts.push(format!("timeout: {before}, now {after}"));
    }
    format!("@{}: {}", set.name, parts.join(", "))
}

fn counted_entries(count: u64) -> String {
    match count {
        1 => "1 entry".to_owned(),
        _ => format!("{} entries", thousands(count)),
    }
}

pub(super) fn text(answer: &v1::ReloadResponse, dry_run: bool) -> String {
    if answer.changes.is_empty() && answer.sets.is_empty() {
        return "nothing has changed".to_owned();
    }
    let mut text = String::new();
    // Writing to a `String` can't fail.
    for change in &answer.changes {
        let _ = writeln!(
            text,
            "{}: {} ({})",
            change.chain, change.function, change.kind
        );
        for setting in change.settings.iter().take(MOST_SHOWN) {
            if let Some(before) = &setting.before {
                let _ = writeln!(text, "  - {}: {before}", setting.path);
            }
            if let Some(after) = &setting.after {
                let _ = writeln!(text, "  + {}: {after}", setting.path);
            }
        }
        if let Some(more) = change.settings.len().checked_sub(MOST_SHOWN + 1) {
            let _ = writeln!(text, "  and {} more", thousands(more as u64 + 1));
        }
        for name in &change.texts {
            let _ = writeln!(text, "  {name} has changed");
        }
    }
    for set in &answer.sets {
        let _ = writeln!(text, "{}", of_set(set));
    }
    let flows: std::collections::BTreeMap<&str, u64> = (answer.changes.iter())
        .map(|change| (change.chain.as_str(), change.open_flows))
        .collect();
    let flows = thousands(flows.values().sum());
    let read = seconds(answer.read_ns);
    let _ = match dry_run {
        true => write!(
            text,
            "`weir reload` takes it: {flows} open flows go on (the functions were built in {read:.3} s)"
        ),
        false => write!(
            text,
            "reloaded: {} took it within {:.3} s, {flows} open flows go on (the functions were built in {read:.3} s)",
            counted(answer.engines, "engine"),
            seconds(answer.taken_ns)
        ),
    };
    text
}
