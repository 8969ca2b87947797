//! `weir set`: sets of addresses of an instance, changed under traffic.

use std::io::Read as _;
use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};
use weir_api::v1;
use weir_packet::Prefix;

use crate::args::{Entries, Format, ListEntries, Set, SetCommand};
use crate::exit::{Exit, Failure, Outcome};
use crate::output::{self, thousands};
use crate::say::say;

use super::{Client, failure};

/// Entries of one request: the longest texts of so many fit.
const AT_ONCE: usize = 1_000;
/// Entries that are asked for at a time.
const LISTED: u32 = 10_000;
/// Most octets of a file of entries.
const MOST: u64 = 1 << 30;

pub(crate) fn set(args: &Set) -> Outcome {
    let mut request = v1::ChangeSetRequest::default();
    match &args.command {
        SetCommand::List(list) => shown(args, list),
        SetCommand::Flush(flush) => {
            request.set.clone_from(&flush.set);
            request.flush = true;
            change(args, vec![request])
        }
        SetCommand::Add(add) => {
            request.timeout_ms = add.timeout.map(|time| time.0);
            let parts = parts(&add.entries, request, |to, texts| to.add = texts)?;
            change(args, parts)
        }
        SetCommand::Remove(entries) => {
            let parts = parts(entries, request, |to, texts| to.remove = texts)?;
            change(args, parts)
        }
    }
}

/// The requests for entries.
fn parts(
    entries: &Entries,
    request: v1::ChangeSetRequest,
    put: fn(&mut v1::ChangeSetRequest, Vec<String>),
) -> Result<Vec<v1::ChangeSetRequest>, Failure> {
    let mut all = entries.entries.clone();
    if let Some(file) = &entries.file {
        read(file, &mut all)?;
    }
    let parts = all.chunks(AT_ONCE).map(|some| {
        let mut part = v1::ChangeSetRequest {
            set: entries.set.clone(),
            ..request.clone()
        };
        put(&mut part, some.iter().map(ToString::to_string).collect());
        part
    });
    let mut parts: Vec<v1::ChangeSetRequest> = parts.collect();
    if parts.is_empty() {
        // An empty file: the set is looked for all the same.
        parts.push(v1::ChangeSetRequest {
            set: entries.set.clone(),
            ..request
        });
    }
    Ok(parts)
}

/// Reads the entries of a file.
fn read(path: &Path, into: &mut Vec<Prefix>) -> Result<(), Failure> {
    let name = match path.as_os_str() == "-" {
        true => "standard input".to_owned(),
        false => path.display().to_string(),
    };
    let outside = |error: std::io::Error| Failure::outside(format!("can't read {name}: {error}"));
    let mut text = String::new();
    let read = match path.as_os_str() == "-" {
        true => std::io::stdin().take(MOST + 1).read_to_string(&mut text),
        false => {
            let file = std::fs::File::open(path).map_err(outside)?;
            file.take(MOST + 1).read_to_string(&mut text)
        }
    };
    if read.map_err(outside)? as u64 > MOST {
        return Err(Failure::usage(format!("{name} has more than 1 GiB")));
    }
    for (number, line) in (1..).zip(text.lines()) {
        let entry = line.split(['#', ';']).next().unwrap_or("").trim();
        if !entry.is_empty() {
            let prefix = entry.parse::<Prefix>();
            into.push(prefix.map_err(|why| {
                Failure::usage(format!(
                    "{name}:{number}: `{entry}` {why}; nothing has changed"
                ))
            })?);
        }
    }
    Ok(())
}

/// Sends requests one after another; an instance that refuses one has done those before it.
fn change(args: &Set, parts: Vec<v1::ChangeSetRequest>) -> Outcome {
    let set = parts.first().map_or(String::new(), |part| part.set.clone());
    let asked = super::ask(args.instance.as_deref(), async |mut client| {
        let mut sum = v1::ChangeSetResponse::default();
        for part in parts {
            match client.change_set(part).await {
                Ok(answer) => add(&mut sum, answer.into_inner()),
                Err(status) => return Ok((sum, Some(failure(&status)))),
            }
        }
        Ok((sum, None))
    });
    let (sum, failed) = asked?;
    for line in sum.warnings.lines() {
        say(format_args!("warning: {line}"));
    }
    let text = told(&set, &sum);
    if args.output == Format::Json {
        output::json(&as_json(&set, &sum, failed.as_ref()))?;
    } else if failed.is_none() {
        output::line(&text)?;
    } else if sum.added + sum.removed > 0 {
        say(format_args!("before it failed: {text}"));
    }
    failed.map_or(Ok(Exit::Done), Err)
}

fn add(sum: &mut v1::ChangeSetResponse, more: v1::ChangeSetResponse) {
    sum.added += more.added;
    sum.known += more.known;
    sum.removed += more.removed;
    sum.absent += more.absent;
    sum.entries = more.entries;
    sum.taken_ns += more.taken_ns;
    if !more.warnings.is_empty() && !sum.warnings.contains(&more.warnings) {
        sum.warnings.push_str(&more.warnings);
        sum.warnings.push('\n');
    }
}

fn as_json(set: &str, sum: &v1::ChangeSetResponse, failed: Option<&Failure>) -> Value {
    json!({
        "set": set,
        "added": sum.added,
        "known": sum.known,
        "removed": sum.removed,
        "absent": sum.absent,
        "entries": sum.entries,
        "seconds": Duration::from_nanos(sum.taken_ns).as_secs_f64(),
        "warnings": (!sum.warnings.is_empty()).then_some(sum.warnings.trim_end()),
        "error": failed.map(Failure::why),
    })
}

/// For people.
fn told(set: &str, sum: &v1::ChangeSetResponse) -> String {
    let parts = [
        (sum.added, "added"),
        (sum.known, "there already"),
        (sum.removed, "removed"),
        (sum.absent, "not there"),
    ];
    let parts = parts.iter().filter(|(count, _)| *count > 0);
    let mut parts: Vec<String> = parts
        .map(|(count, what)| format!("{} {what}", thousands(*count)))
        .collect();
    if parts.is_empty() {
        parts.push("nothing changes".to_owned());
    }
    format!(
        "{set}: {}; it has {} now",
        parts.join(", "),
        entries(sum.entries)
    )
}

fn entries(count: u64) -> String {
    match count {
        1 => "1 entry".to_owned(),
        _ => format!("{} entries", thousands(count)),
    }
}

/// Prints the sets, or the entries of one.
fn shown(args: &Set, list: &ListEntries) -> Outcome {
    let instance = args.instance.as_deref();
    let Some(name) = &list.set else {
        let sets = super::ask(instance, async |mut client| {
            let sets = client.list_sets(v1::ListSetsRequest {}).await;
            sets.map(|sets| sets.into_inner().sets)
                .map_err(|status| failure(&status))
        })?;
        match args.output {
            Format::Json => output::json(&sets.iter().map(set_json).collect::<Vec<_>>())?,
            Format::Text => output::line(&table(&sets))?,
        }
        return Ok(Exit::Done);
    };
    let all = super::ask(instance, async |client| of_set(client, name).await)?;
    match args.output {
        Format::Json => {
            let all: Vec<Value> = all.iter().map(entry_json).collect();
            output::json(&json!({ "set": name, "entries": all }))?;
        }
        Format::Text => {
            let lines: Vec<String> = all.iter().map(line).collect();
            output::line(&lines.join("\n"))?;
        }
    }
    Ok(Exit::Done)
}

/// All entries of a set, asked for some at a time.
async fn of_set(mut client: Client, name: &str) -> Result<Vec<v1::SetEntry>, Failure> {
    let mut all: Vec<v1::SetEntry> = Vec::new();
    loop {
        let request = v1::ListSetEntriesRequest {
            set: name.to_owned(),
            after: all
                .last()
                .map(|entry| entry.prefix.clone())
                .unwrap_or_default(),
            limit: LISTED,
        };
        let some = client.list_set_entries(request).await;
        let some = some.map_err(|status| failure(&status))?.into_inner();
        all.extend(some.entries);
        if !some.more {
            return Ok(all);
        }
    }
}

fn time(ms: u64) -> String {
    match ms {
        0..10_000 => format!("{:.1} s", ms as f64 / 1_000.0),
        10_000..120_000 => format!("{} s", ms / 1_000),
        120_000..7_200_000 => format!("{} min", ms / 60_000),
        _ => format!("{} h", ms / 3_600_000),
    }
}

fn line(entry: &v1::SetEntry) -> String {
    let mut about = Vec::new();
    if entry.added {
        about.push("added".to_owned());
    }
    if entry.in_file && entry.added {
        about.push("also in the file".to_owned());
    }
    about.extend(entry.expires_ms.map(|ms| format!("goes in {}", time(ms))));
    match about.is_empty() {
        true => entry.prefix.clone(),
        false => format!("{:<40} {}", entry.prefix, about.join(", ")),
    }
}

fn entry_json(entry: &v1::SetEntry) -> Value {
    json!({
        "prefix": entry.prefix,
        "in_file": entry.in_file,
        "added": entry.added,
        "expires_s": entry.expires_ms.map(|ms| Duration::from_millis(ms).as_secs_f64()),
    })
}

fn set_json(set: &v1::SetInfo) -> Value {
    let timeout = Some(set.timeout_ms).filter(|ms| *ms > 0);
    json!({
        "name": set.name,
        "entries": set.entries,
        "most": set.most,
        "in_file": set.in_file,
        "removed_from_file": set.removed_from_file,
        "timed": set.timed,
        "timeout_s": timeout.map(|ms| Duration::from_millis(ms).as_secs_f64()),
        "added": set.added,
        "removed": set.removed,
        "expired": set.expired,
        "refused": set.refused,
        "file": (!set.file.is_empty()).then_some(&set.file),
        "fixed": (!set.fixed.is_empty()).then_some(&set.fixed),
    })
}

fn table(sets: &[v1::SetInfo]) -> String {
    if sets.is_empty() {
        return "the chain file has no `sets`".to_owned();
    }
    let mut text = format!(
        "{:<20} {:>10} {:>10} {:>10} {:>9} {:>9} {:>9} {:>9}\n",
        "SET", "ENTRIES", "MOST", "IN FILE", "ADDED", "REMOVED", "EXPIRED", "REFUSED"
    );
    for set in sets {
        text.push_str(&format!(
            "{:<20} {:>10} {:>10} {:>10} {:>9} {:>9} {:>9} {:>9}\n",
            set.name,
            thousands(set.entries),
            thousands(set.most),
            thousands(set.in_file),
            thousands(set.added),
            thousands(set.removed),
            thousands(set.expired),
            thousands(set.refused),
        ));
    }
    for set in sets.iter().filter(|set| !set.fixed.is_empty()) {
        text.push_str(&format!("{} can't change: {}\n", set.name, set.fixed));
    }
    text
}
