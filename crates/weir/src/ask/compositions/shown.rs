//! `weir get compositions`, `machines` and `changes`, and `weir describe`.

use serde_json::{Value, json};
use weir_api::v1;
use weir_packet::Time;

use crate::args::{Describe, Format, Get, GetWhat};
use crate::exit::{Exit, Failure, Outcome};
use crate::output;
use crate::output::one_line;

use super::super::get::{age, known, process};
use super::super::table::{Table, row, text};
use super::{Client, ask, failure, state_of};

/// Changes that a description has.
const NEWEST: usize = 10;

/// What a coordinator has.
pub(crate) fn get(args: &Get) -> Outcome {
    let access = super::super::at::of(&args.at)?;
    let (json, table) = ask(&access, async |mut client| {
        let name = args.instance.as_deref();
        match args.what {
            GetWhat::Machines => machines(&mut client, name).await,
            GetWhat::Changes => changes(&mut client, name.unwrap_or_default()).await,
            _ => compositions(&mut client, name).await,
        }
    })?;
    match args.output {
        Format::Json => output::json(&json)?,
        Format::Text => output::line(&text(&table))?,
    }
    Ok(Exit::Done)
}

async fn compositions(client: &mut Client, name: Option<&str>) -> Result<(Value, Table), Failure> {
    let listed = client
        .list_compositions(v1::ListCompositionsRequest {})
        .await;
    let listed = listed.map_err(|status| failure(&status))?.into_inner();
    let all = listed.compositions.into_iter();
    let all: Vec<_> = all
        .filter(|it| name.is_none_or(|name| name == it.name))
        .collect();
    if let (Some(name), true) = (name, all.is_empty()) {
        return Err(Failure::outside(format!(
            "there is no composition `{name}`"
        )));
    }
    let mut table = vec![row([
        "COMPOSITION",
        "STATE",
        "REVISION",
        "RUNS",
        "SWITCH",
        "HOSTS",
        "AGE",
        "WHY",
    ])];
    for it in &all {
        let ready = it
            .hosts
            .iter()
            .filter(|host| host.state == "ready" && host.connected);
        table.push(vec![
            it.name.clone(),
            it.state.clone(),
            it.revision.to_string(),
            process(it.running as u32),
            or_dash(&it.switch),
            format!("{}/{}", ready.count(), it.hosts.len()),
            age(it.age_ns),
            one_line(&it.why),
        ]);
    }
    let json = all.iter().map(composition).collect();
    Ok((json, table))
}

/// A composition for programs.
pub(super) fn composition(state: &v1::CompositionState) -> Value {
    let hosts = state.hosts.iter().map(|host| {
        json!({
            "host": host.host,
            "connected": host.connected,
            "revision": (host.revision > 0).then_some(host.revision),
            "state": host.state,
            "switch": some(&host.switch),
            "why": some(&host.why),
            "process": known(host.process),
            "restarts": host.restarts,
        })
    });
    json!({
        "composition": state.name,
        "state": state.state,
        "why": some(&state.why),
        "revision": state.revision,
        "running": (state.running > 0).then_some(state.running),
        "switch": some(&state.switch),
        "hosts": hosts.collect::<Vec<_>>(),
        "age_s": state.age_ns as f64 / 1e9,
    })
}

async fn machines(client: &mut Client, name: Option<&str>) -> Result<(Value, Table), Failure> {
    let listed = client.list_machines(v1::ListMachinesRequest {}).await;
    let all = listed
        .map_err(|status| failure(&status))?
        .into_inner()
        .machines
        .into_iter();
    let all: Vec<_> = all
        .filter(|it| name.is_none_or(|name| name == it.name))
        .collect();
    if let (Some(name), true) = (name, all.is_empty()) {
        return Err(Failure::outside(format!(
            "the coordinator knows no host `{name}`"
        )));
    }
    let mut table = vec![row([
        "MACHINE",
        "STATE",
        "SINCE",
        "FROM",
        "VERSION",
        "COMPOSITIONS",
    ])];
    for machine in &all {
        table.push(vec![
            machine.name.clone(),
            match machine.connected {
                true => "connected".to_owned(),
                false => "absent".to_owned(),
            },
            match machine.since_ns {
                0 => "-".to_owned(),
                ns => age(ns),
            },
            or_dash(&one_line(&machine.address)),
            or_dash(&one_line(&machine.version)),
            or_dash(&machine.compositions.join(", ")),
        ]);
    }
    let json = all.iter().map(|machine| {
        json!({
            "machine": machine.name,
            "connected": machine.connected,
            "since_s": (machine.since_ns > 0).then_some(machine.since_ns as f64 / 1e9),
            "from": some(&machine.address),
            "version": some(&machine.version),
            "compositions": machine.compositions,
            "runs": machine.runs,
        })
    });
    Ok((json.collect(), table))
}

async fn list_changes(client: &mut Client, name: &str) -> Result<Vec<v1::Change>, Failure> {
    let request = v1::WatchChangesRequest {
        after: 0,
        follow: false,
        composition: name.to_owned(),
    };
    let changes = client.watch_changes(request).await;
    let mut changes = changes.map_err(|status| failure(&status))?.into_inner();
    let mut all = Vec::new();
    while let Some(change) = changes.message().await.map_err(|status| failure(&status))? {
        all.push(change);
    }
    Ok(all)
}

async fn changes(client: &mut Client, name: &str) -> Result<(Value, Table), Failure> {
    let all = list_changes(client, name).await?;
    let mut table = vec![row([
        "NUMBER",
        "TIME",
        "KIND",
        "COMPOSITION",
        "HOST",
        "MESSAGE",
    ])];
    table.extend(all.iter().map(|change| {
        vec![
            change.number.to_string(),
            Time(change.time_ns).to_string(),
            change.kind.clone(),
            or_dash(&change.composition),
            or_dash(&change.host),
            one_line(&change.message),
        ]
    }));
    Ok((all.iter().map(change).collect(), table))
}

fn change(change: &v1::Change) -> Value {
    json!({
        "number": change.number,
        "time": Time(change.time_ns).to_string(),
        "kind": change.kind,
        "composition": some(&change.composition),
        "host": some(&change.host),
        "message": change.message,
    })
}

pub(crate) fn describe(args: &Describe) -> Outcome {
    let access = super::super::at::of(&args.at)?;
    let (state, files, changes) = ask(&access, async |mut client| {
        let state = state_of(&mut client, &args.name).await?;
        let state = state
            .ok_or_else(|| Failure::outside(format!("there is no composition `{}`", args.name)))?;
        let request = v1::GetFilesRequest {
            name: args.name.clone(),
        };
        let files = client.get_files(request).await;
        let files = files.map_err(|status| failure(&status))?.into_inner().files;
        let changes = list_changes(&mut client, &args.name).await?;
        Ok((state, files.unwrap_or_default(), changes))
    })?;
    let newest = changes.len().saturating_sub(NEWEST);
    let newest = changes.get(newest..).unwrap_or_default();
    if args.output == Format::Json {
        let mut whole = composition(&state);
        let each = |file: &v1::File| json!({"path": file.path, "bytes": file.content.len()});
        whole["files"] = files.files.iter().map(each).collect();
        whole["changes"] = newest.iter().map(change).collect();
        output::json(&whole)?;
        return Ok(Exit::Done);
    }
    output::line(described(&state, &files, newest).trim_end())?;
    Ok(Exit::Done)
}

fn described(state: &v1::CompositionState, files: &v1::Files, changes: &[v1::Change]) -> String {
    let mut told = format!("composition  {}\nstate        {}", state.name, state.state);
    if !state.why.is_empty() {
        told.push_str(&format!(": {}", one_line(&state.why)));
    }
    let running = match state.running {
        0 => "none runs".to_owned(),
        running => format!("revision {running} runs on {}", state.switch),
    };
    told.push_str(&format!("\nrevision     {}, {running}\n\n", state.revision));
    let mut hosts = vec![row([
        "HOST",
        "CONNECTED",
        "STATE",
        "REVISION",
        "SWITCH",
        "PROCESS",
        "RESTARTS",
        "WHY",
    ])];
    hosts.extend(state.hosts.iter().map(|host| {
        vec![
            host.host.clone(),
            if host.connected { "yes" } else { "no" }.to_owned(),
            one_line(&host.state),
            process(host.revision as u32),
            or_dash(&one_line(&host.switch)),
            process(host.process),
            host.restarts.to_string(),
            one_line(&host.why),
        ]
    }));
    told.push_str(&text(&hosts));
    let mut list = vec![row(["FILE", "BYTES"])];
    list.extend(
        (files.files.iter()).map(|file| vec![file.path.clone(), file.content.len().to_string()]),
    );
    told.push_str(&format!("\n{}", text(&list)));
    let mut happened = vec![row(["TIME", "KIND", "HOST", "MESSAGE"])];
    happened.extend(changes.iter().map(|change| {
        vec![
            Time(change.time_ns).to_string(),
            change.kind.clone(),
            or_dash(&change.host),
            one_line(&change.message),
        ]
    }));
    told.push_str(&format!("\n{}", text(&happened)));
    told
}

fn some(text: &str) -> Option<&str> {
    (!text.is_empty()).then_some(text)
}

fn or_dash(text: &str) -> String {
    some(text).unwrap_or("-").to_owned()
}
