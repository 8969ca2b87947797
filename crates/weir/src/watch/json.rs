//! Traces for programs: one JSON object a packet (or part of one), one a line.

use serde_json::{Map, Value, json};
use weir_api::v1;
use weir_packet::Time;

/// One line, without its end.
pub(crate) fn line(packet: &v1::PacketTrace) -> String {
    value(packet).to_string()
}

fn value(packet: &v1::PacketTrace) -> Value {
    json!({
        "chain": packet.chain,
        "first_function": packet.first_function,
        "time": Time(packet.time_ns).to_string(),
        "port": packet.port_name,
        "port_number": packet.port,
        "side": packet.side,
        "packet": packet.sequence,
        "again": packet.again,
        "under_switch": packet.under_switch,
        "summary": packet.summary,
        "headers": values(&packet.headers),
        "malformed": some(&packet.malformed),
        "flow": packet.flow.as_ref().map(flow),
        "flows_ended": counts(&packet.ended),
        "functions": packet.steps.iter().map(step).collect::<Vec<_>>(),
        "disposition": disposition(packet),
        "leaves": some(&packet.leaves),
        "cycles": packet.cycles,
    })
}

fn flow(flow: &v1::TracedFlow) -> Value {
    json!({
        "key": flow.key,
        "id": flow.id,
        "clock": flow.clock,
        "record": flow.record,
        "new": flow.is_new,
        "to_server": flow.to_server,
        "phase_before": some(&flow.phase_before),
        "phase": flow.phase,
    })
}

fn step(step: &v1::TraceStep) -> Value {
    use v1::trace_step::Verdict;
    let verdict = match &step.verdict {
        Some(Verdict::On(on)) => json!({"label": on.label, "to": on.to}),
        Some(Verdict::Dropped(reason)) => json!({"dropped": reason}),
        Some(Verdict::Turned(_)) => json!({"turned": true}),
        Some(Verdict::Nothing(_)) | None => Value::Null,
    };
    let events = step.events.iter();
    let events = events
        .map(|line| serde_json::from_str(line).unwrap_or_else(|_| Value::String(line.clone())));
    json!({
        "function": step.function,
        "kind": step.kind,
        "same_as": some(&step.same_as),
        "verdict": verdict,
        "changed": changes(&step.changed),
        "state": changes(&step.state),
        "full_state": values(&step.full_state),
        "counters": counts(&step.counters),
        "events": events.collect::<Vec<_>>(),
        "made": step.made.iter().map(|made| json!({
            "summary": made.summary,
            "towards": made.towards,
        })).collect::<Vec<_>>(),
        "aliases": step.aliases,
        "cycles": step.cycles,
    })
}

fn disposition(packet: &v1::PacketTrace) -> Value {
    use v1::trace_disposition::Disposition;
    match packet
        .disposition
        .as_ref()
        .and_then(|disposition| disposition.disposition.as_ref())
    {
        Some(Disposition::Out(side)) => json!({"out": side}),
        Some(Disposition::Later(function)) => json!({"later": function}),
        Some(Disposition::Dropped(reason)) => json!({"dropped": reason}),
        Some(Disposition::Turned(_)) => json!({"turned": true}),
        Some(Disposition::Held(_)) => json!({"held": true}),
        None => Value::Null,
    }
}

/// An empty text stands for none.
fn some(text: &str) -> Option<&str> {
    Some(text).filter(|text| !text.is_empty())
}

fn values(values: &[v1::NamedValue]) -> Value {
    let values = values.iter();
    let values = values.map(|field| (field.name.clone(), json!(field.value)));
    values.collect::<Map<_, _>>().into()
}

fn counts(counts: &[v1::NamedCount]) -> Value {
    let counts = counts.iter();
    let counts = counts.map(|count| (count.name.clone(), json!(count.count)));
    counts.collect::<Map<_, _>>().into()
}

fn changes(changes: &[v1::FieldChange]) -> Value {
    let changes = changes.iter();
    let changes = changes.map(|change| {
        let both = json!({"before": change.before, "after": change.after});
        (change.name.clone(), both)
    });
    changes.collect::<Map<_, _>>().into()
}
