//! Traces for people.

use std::fmt::Write as _;

use weir_api::v1;
use weir_packet::Time;

/// Width of the column with functions' names, at least.
const NAMES: usize = 10;

/// A packet, or a part of one, in lines. `full` shows what is always the same
/// to whoever reads it again: all headers, and what each function cost.
pub(crate) fn packet(packet: &v1::PacketTrace, full: bool) -> String {
    let mut text = String::new();
    // Writing to a `String` can't fail.
    let _ = head(&mut text, packet, full);
    let width = packet.steps.iter().map(|step| step.function.len());
    let width = width.max().unwrap_or(0).max(NAMES);
    for step in &packet.steps {
        let _ = function(&mut text, step, width, full);
    }
    let _ = disposition(&mut text, packet);
    text
}

fn head(text: &mut String, packet: &v1::PacketTrace, full: bool) -> std::fmt::Result {
    let port = match packet.port_name.as_str() {
        "" => format!("port {}", packet.port),
        name => name.to_owned(),
    };
    write!(
        text,
        "packet {} of {port} ({})",
        packet.sequence, packet.side
    )?;
    if packet.first_function > 0 {
        write!(
            text,
            ", in the stage from function {} on",
            packet.first_function + 1
        )?;
    } else if packet.again {
        write!(text, ", again")?;
    }
    writeln!(text, ", {}", Time(packet.time_ns))?;
    writeln!(text, "  {}", packet.summary)?;
    if !packet.malformed.is_empty() {
        writeln!(text, "  malformed: {}", packet.malformed)?;
    }
    if full {
        for field in &packet.headers {
            writeln!(text, "    {} {}", field.name, field.value)?;
        }
    }
    for ended in &packet.ended {
        writeln!(text, "  {} flow ended before: {}", ended.count, ended.name)?;
    }
    match &packet.flow {
        None => writeln!(text, "  no flow"),
        Some(flow) => {
            let what = match (flow.is_new, packet.first_function) {
                (true, 0) => "new flow",
                _ => "flow",
            };
            let way = if flow.to_server {
                "to the server"
            } else {
                "to the client"
            };
            let phase = match flow.phase_before.as_str() {
                "" => flow.phase.clone(),
                before if before == flow.phase => flow.phase.clone(),
                before => format!("{before} → {}", flow.phase),
            };
            writeln!(text, "  {what} {}: {}", flow.id, flow.key)?;
            writeln!(text, "  packet {} of it, {way}; {phase}", flow.clock)
        }
    }
}

fn function(text: &mut String, step: &v1::TraceStep, width: usize, full: bool) -> std::fmt::Result {
    use v1::trace_step::Verdict;
    write!(text, "  {:<width$}  ", step.function)?;
    match &step.verdict {
        Some(Verdict::On(on)) => write!(text, "{} → {}", on.label, on.to)?,
        Some(Verdict::Dropped(reason)) => write!(text, "dropped: {reason}")?,
        Some(Verdict::Turned(_)) => write!(text, "turned: back through the chain")?,
        Some(Verdict::Nothing(_)) | None => write!(text, "no verdict: a fault of the function")?,
    }
    if !step.same_as.is_empty() {
        write!(text, " (as {} has decided)", step.same_as)?;
    }
    if full && step.cycles > 0 {
        write!(text, " ({} cycles)", step.cycles)?;
    }
    writeln!(text)?;
    let mut line =
        |what: &str, value: &str| writeln!(text, "  {:<width$}    {what:<8} {value}", "");
    for change in &step.changed {
        line("packet", &changed(change))?;
    }
    // A state that is new is told in one line, without what is nothing yet.
    let (new, old): (Vec<_>, Vec<_>) = step
        .state
        .iter()
        .partition(|change| change.before.is_none());
    if !new.is_empty() {
        let something = |value: &&str| full || !matches!(*value, "0" | "false");
        let fields = new.iter().filter_map(|change| {
            let value = change.after.as_deref().filter(something)?;
            Some(format!("{} {value}", change.name))
        });
        let fields: Vec<String> = fields.collect();
        line(
            "state",
            format!("new: {}", fields.join(", ")).trim_end_matches(": "),
        )?;
    }
    for change in old {
        line("state", &changed(change))?;
    }
    let told = |field: &v1::NamedValue| step.state.iter().any(|change| change.name == field.name);
    for field in step.full_state.iter().filter(|field| !told(field)) {
        line(
            "state",
            &format!("{} {} (as before)", field.name, field.value),
        )?;
    }
    for alias in &step.aliases {
        line("alias", alias)?;
    }
    for counter in &step.counters {
        line("counter", &format!("{} +{}", counter.name, counter.count))?;
    }
    for event in &step.events {
        line("event", event)?;
    }
    for made in &step.made {
        line(
            "made",
            &format!("towards {}: {}", made.towards, made.summary),
        )?;
    }
    Ok(())
}

/// `name old → new`, or what is there on one side only.
fn changed(change: &v1::FieldChange) -> String {
    let name = &change.name;
    match (&change.before, &change.after) {
        (Some(before), Some(after)) => format!("{name} {before} → {after}"),
        (None, Some(after)) => format!("{name} {after} (new)"),
        (Some(before), None) => format!("{name} {before} → gone"),
        (None, None) => name.clone(),
    }
}

fn disposition(text: &mut String, packet: &v1::PacketTrace) -> std::fmt::Result {
    use v1::trace_disposition::Disposition;
    match packet
        .disposition
        .as_ref()
        .and_then(|disposition| disposition.disposition.as_ref())
    {
        Some(Disposition::Out(side)) => writeln!(text, "  out, {side}: {}", packet.leaves),
        Some(Disposition::Later(function)) => {
            writeln!(text, "  on to a later stage, at function {}", function + 1)
        }
        Some(Disposition::Dropped(reason)) => writeln!(text, "  dropped: {reason}"),
        Some(Disposition::Turned(_)) => {
            writeln!(text, "  turned: it comes again, from the other side")
        }
        Some(Disposition::Held(_)) => {
            writeln!(text, "  waits for the first fragment of its datagram")
        }
        None => Ok(()),
    }
}
