//! `weir flows`: the open flows of an instance.

use std::fmt::Write as _;

use serde_json::{Value, json};
use weir_api::v1;
use weir_packet::filter::Filter;

use crate::args::{EndFlows, Flows, FlowsCommand, Format, ShowFlow, SortFlows};
use crate::exit::{Exit, Failure, Outcome};
use crate::output;
use crate::output::thousands;

pub(crate) fn flows(args: &Flows) -> Outcome {
    let instance = args.instance.as_deref();
    match &args.command {
        Some(FlowsCommand::Show(show)) => self::show(instance, show, args.output),
        Some(FlowsCommand::End(end)) => self::end(instance, end, args.output),
        None => list(instance, args),
    }
}

/// Joins the words of a filter; a number alone means `id N`. The instance parses the filter,
/// too; here a syntax error is found before it is contacted.
fn filter(words: &[String]) -> Result<String, Failure> {
    let mut text = words.join(" ");
    if !text.is_empty() && text.bytes().all(|octet| octet.is_ascii_digit()) {
        text = format!("id {text}");
    }
    match text.parse::<Filter>() {
        Ok(_) => Ok(text),
        Err(error) => Err(Failure::usage(format!(
            "{error}\n  {text}\n  {:>width$}",
            '^',
            width = text.get(..error.at).unwrap_or("").chars().count() + 1
        ))),
    }
}

fn list(instance: Option<&str>, args: &Flows) -> Outcome {
    let sort = match args.sort {
        None => v1::FlowSort::Unspecified,
        Some(SortFlows::Packets) => v1::FlowSort::Packets,
        Some(SortFlows::Age) => v1::FlowSort::Age,
        Some(SortFlows::Idle) => v1::FlowSort::Idle,
        Some(SortFlows::Client) => v1::FlowSort::Client,
        Some(SortFlows::Server) => v1::FlowSort::Server,
    };
    let request = v1::ListFlowsRequest {
        filter: filter(&args.filter)?,
        sort: sort as i32,
        reverse: args.reverse,
        limit: args.limit,
    };
    let found = super::ask(instance, async |mut client| {
        let found = client.list_flows(request).await;
        found
            .map(tonic::Response::into_inner)
            .map_err(|status| super::failure(&status))
    })?;
    match args.output {
        Format::Json => output::json(&json!({
            "flows": found.flows.iter().map(flow_json).collect::<Vec<_>>(),
            "matched": found.matched,
            "active": found.active,
            "whole": found.whole,
        }))?,
        Format::Text => output::line(&table(&found))?,
    }
    Ok(Exit::Done)
}

fn show(instance: Option<&str>, args: &ShowFlow, format: Format) -> Outcome {
    let filter = filter(&args.filter)?;
    let found = super::ask(instance, async |mut client| {
        let found = client.get_flow(v1::GetFlowRequest { filter }).await;
        found
            .map(tonic::Response::into_inner)
            .map_err(|status| super::failure(&status))
    })?;
    let Some(flow) = found.flow else {
        return Err(Failure::outside("the instance has answered without a flow"));
    };
    match format {
        Format::Json => {
            let mut value = flow_json(&flow);
            value["states"] = found.states.iter().map(state_json).collect();
            output::json(&value)?;
        }
        Format::Text => output::line(&flow_text(&flow, &found.states))?,
    }
    Ok(Exit::Done)
}

fn end(instance: Option<&str>, args: &EndFlows, format: Format) -> Outcome {
    let filter = filter(&args.filter)?;
    let ended = super::ask(instance, async |mut client| {
        let ended = client.end_flows(v1::EndFlowsRequest { filter }).await;
        ended
            .map(|answer| answer.into_inner().ended)
            .map_err(|status| super::failure(&status))
    })?;
    match format {
        Format::Json => output::json(&json!({ "ended": ended }))?,
        Format::Text => output::line(&format!("{} flows ended", thousands(ended)))?,
    }
    match ended {
        0 => Err(Failure::outside("no open flow matched")),
        _ => Ok(Exit::Done),
    }
}

fn protocol(number: u32) -> String {
    match number {
        1 => "icmp".to_owned(),
        6 => "tcp".to_owned(),
        17 => "udp".to_owned(),
        58 => "icmp6".to_owned(),
        132 => "sctp".to_owned(),
        number => number.to_string(),
    }
}

fn endpoint(end: Option<&v1::Endpoint>) -> String {
    match end {
        None => String::new(),
        Some(end) if end.port == 0 => end.address.clone(),
        Some(end) if end.address.contains(':') => format!("[{}]:{}", end.address, end.port),
        Some(end) => format!("{}:{}", end.address, end.port),
    }
}

fn end_json(end: Option<&v1::Endpoint>) -> Value {
    let end = end.cloned().unwrap_or_default();
    json!({ "address": end.address, "port": end.port })
}

fn flow_json(flow: &v1::FlowEntry) -> Value {
    let alias = |alias: &v1::Alias| {
        json!({
            "proto": protocol(alias.protocol),
            "client": end_json(alias.client.as_ref()),
            "server": end_json(alias.server.as_ref()),
            "open": alias.open,
        })
    };
    json!({
        "id": flow.id,
        "chain": flow.chain,
        "thread": flow.thread,
        "proto": protocol(flow.protocol),
        "client": end_json(flow.client.as_ref()),
        "server": end_json(flow.server.as_ref()),
        "zone": flow.zone,
        "phase": flow.phase,
        "packets": flow.packets,
        "age_s": flow.age_ns as f64 / 1e9,
        "idle_s": flow.idle_ns as f64 / 1e9,
        "timeout_s": (flow.timeout_ms > 0).then(|| flow.timeout_ms as f64 / 1e3),
        "aliases": flow.aliases.iter().map(alias).collect::<Vec<_>>(),
    })
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|octet| format!("{octet:02x}")).collect()
}

fn state_json(state: &v1::FunctionState) -> Value {
    let fields = state.fields.iter();
    json!({
        "function": state.function,
        "nf": state.kind,
        "scope": state.scope,
        "opened": state.opened,
        "version": state.version,
        "fields": fields.map(|f| (f.name.clone(), json!(f.value))).collect::<serde_json::Map<_, _>>(),
        "state": hex(&state.state),
        "stats": hex(&state.stats),
        "buffers": state.buffers,
    })
}

/// A duration as short text: `1.5s`, `2m05s`, `3.2h`.
fn duration_text(ns: u64) -> String {
    match ns / 1_000_000_000 {
        seconds @ 0..60 => format!("{seconds}.{}s", ns / 100_000_000 % 10),
        seconds @ 60..3_600 => format!("{}m{:02}s", seconds / 60, seconds % 60),
        seconds => format!("{:.1}h", seconds as f64 / 3_600.0),
    }
}

fn aliases_text(flow: &v1::FlowEntry) -> String {
    let mut text = String::new();
    for alias in &flow.aliases {
        let client = endpoint(alias.client.as_ref());
        let _ = match alias.open {
            true => write!(text, " {client} (any peer)"),
            false => write!(text, " {client} ↔ {}", endpoint(alias.server.as_ref())),
        };
    }
    text
}

fn table(found: &v1::ListFlowsResponse) -> String {
    let client = |flow: &v1::FlowEntry| endpoint(flow.client.as_ref());
    let server = |flow: &v1::FlowEntry| endpoint(flow.server.as_ref());
    let width = |of: &dyn Fn(&v1::FlowEntry) -> String| {
        let widths = found.flows.iter().map(|flow| of(flow).len());
        widths.max().unwrap_or(0).max(8)
    };
    let (a, b) = (width(&client), width(&server));
    let mut text = format!(
        "{:>8}  {:<6} {:<a$} {:<b$} {:<12} {:>12} {:>8} {:>8}  {}\n",
        "ID", "PROTO", "CLIENT", "SERVER", "PHASE", "PACKETS", "AGE", "IDLE", "ALIASES"
    );
    for flow in &found.flows {
        let _ = writeln!(
            text,
            "{:>8}  {:<6} {:<a$} {:<b$} {:<12} {:>12} {:>8} {:>8} {}",
            flow.id,
            protocol(flow.protocol),
            client(flow),
            server(flow),
            flow.phase,
            thousands(flow.packets),
            duration_text(flow.age_ns),
            duration_text(flow.idle_ns),
            aliases_text(flow),
        );
    }
    let shown = found.flows.len() as u64;
    let _ = match found.whole {
        true => writeln!(
            text,
            "{} of {} flows match, {} shown",
            thousands(found.matched),
            thousands(found.active),
            thousands(shown)
        ),
        false => writeln!(text, "the first {} matches (see --limit)", thousands(shown)),
    };
    text
}

fn flow_text(flow: &v1::FlowEntry, states: &[v1::FunctionState]) -> String {
    let mut text = format!(
        "flow {} of chain {}: {} {} → {}, {}\n",
        flow.id,
        flow.chain,
        protocol(flow.protocol),
        endpoint(flow.client.as_ref()),
        endpoint(flow.server.as_ref()),
        flow.phase
    );
    let ends = match flow.timeout_ms {
        0 => "no idle time-out".to_owned(),
        ms => format!("idle time-out {}", duration_text(ms * 1_000_000)),
    };
    let _ = writeln!(
        text,
        "  {} packets; opened {} ago, last packet {} ago, {ends}",
        thousands(flow.packets),
        duration_text(flow.age_ns),
        duration_text(flow.idle_ns)
    );
    if !flow.aliases.is_empty() {
        let _ = writeln!(text, "  aliases:{}", aliases_text(flow));
    }
    for state in states {
        let _ = writeln!(
            text,
            "\n{} ({}, per {})",
            state.function, state.kind, state.scope
        );
        if !state.opened {
            let _ = writeln!(text, "  no state for this flow");
        }
        let width = state.fields.iter().map(|field| field.name.len()).max();
        let width = width.unwrap_or(0);
        for field in &state.fields {
            let _ = writeln!(text, "  {:<width$}  {}", field.name, field.value);
        }
        for (number, bytes) in state.buffers.iter().enumerate().filter(|(_, n)| **n > 0) {
            let _ = writeln!(text, "  buffer {number}: {} bytes", thousands(*bytes));
        }
    }
    text
}
