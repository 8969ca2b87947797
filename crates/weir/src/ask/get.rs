//! `weir get`: runtimes, hosts, replicas, moves and scaling of a cluster, as tables or JSON.

mod flowlets;

use serde_json::{Value, json};
use weir_api::v1;
use weir_packet::Time;

use super::NO_SWITCH;
use super::table::{Table, row, text};
use super::upgrade::{listed, table};
use crate::args::{Format, Get, GetWhat};
use crate::exit::{Exit, Failure, Outcome};
use crate::output;
use crate::output::{role, thousands};

/// The state of a cluster.
struct Seen {
    stats: v1::GetStatsResponse,
    hosts: Vec<v1::Host>,
}

pub(super) fn get(args: &Get) -> Outcome {
    if args.what == GetWhat::Programs {
        return programs(args);
    }
    let seen = super::ask(args.instance.as_deref(), async |mut client| {
        let failure = |status| super::failure(&status);
        let stats = client.get_stats(v1::GetStatsRequest {}).await;
        let stats = stats.map_err(failure)?.into_inner();
        let hosts = client.list_hosts(v1::ListHostsRequest {}).await;
        let hosts = hosts.map_err(failure)?.into_inner().hosts;
        Ok(Seen { stats, hosts })
    })?;
    if seen.stats.switches.is_empty() {
        return Err(Failure::outside(NO_SWITCH));
    }
    if args.what == GetWhat::Flowlets {
        return flowlets::get(args, &seen.stats.switches);
    }
    if args.what == GetWhat::Scaling {
        return scaling(args, seen.stats.scaling.as_ref());
    }
    let (json, table) = match args.what {
        GetWhat::Hosts => hosts(&seen),
        GetWhat::Replicas => replicas(&seen),
        GetWhat::Moves => moves(&seen),
        // Answered above, or a coordinator's.
        _ => runtimes(&seen),
    };
    match args.output {
        Format::Json => output::json(&json)?,
        Format::Text => output::line(&text(&table))?,
    }
    Ok(Exit::Done)
}

/// The programs of all processes: no flow is needed for that, nor a switch.
fn programs(args: &Get) -> Outcome {
    let hosts = super::ask(args.instance.as_deref(), async |mut client| {
        let listed = client.list_programs(v1::ListProgramsRequest::default());
        let listed = listed.await.map_err(|status| super::failure(&status));
        Ok(listed?.into_inner().hosts)
    })?;
    match args.output {
        Format::Text => output::line(&text(&table(&hosts, false)))?,
        Format::Json => output::json(&listed(&hosts))?,
    }
    Ok(Exit::Done)
}

/// `3.2s`, `5m12s`.
pub(super) fn age(ns: u64) -> String {
    let seconds = ns / 1_000_000_000;
    match seconds {
        0..60 => format!("{:.1}s", ns as f64 / 1e9),
        60..3_600 => format!("{}m{}s", seconds / 60, seconds % 60),
        _ => format!("{}h{}m", seconds / 3_600, seconds / 60 % 60),
    }
}

/// A process's number, `-` where there is none.
pub(super) fn process(number: u32) -> String {
    match number {
        0 => "-".to_owned(),
        number => number.to_string(),
    }
}

pub(super) fn known(process: u32) -> Option<u32> {
    (process > 0).then_some(process)
}

fn runtimes(seen: &Seen) -> (Value, Table) {
    let mut table = vec![row([
        "PLACE",
        "RUNTIME",
        "HOST",
        "SITE",
        "PROCESS",
        "STATE",
        "ROLE",
        "UNITS",
        "REPLICAS",
        "UNPROTECTED",
        "DIED",
        "SINCE",
    ])];
    let mut all = Vec::new();
    for place in &seen.stats.runtimes {
        all.push(json!({
            "place": place.place,
            "runtime": place.id,
            "host": place.host,
            "site": place.site,
            "process": known(place.process),
            "state": place.state,
            "role": role(place.logger),
            "units": place.owns,
            "replicas": place.replicas,
            "unprotected": place.unprotected,
            "died": place.deaths,
            "since_s": place.since_ns as f64 / 1e9,
        }));
        table.push(vec![
            place.place.to_string(),
            place.id.to_string(),
            place.host.clone(),
            place.site.clone(),
            process(place.process),
            place.state.clone(),
            role(place.logger).to_owned(),
            thousands(place.owns),
            thousands(place.replicas),
            thousands(place.unprotected),
            thousands(place.deaths),
            age(place.since_ns),
        ]);
    }
    (all.into(), table)
}

fn hosts(seen: &Seen) -> (Value, Table) {
    let mut table = vec![row([
        "HOST", "AGENT", "PROCESS", "STATE", "RUNTIMES", "UNITS", "REPLICAS", "DIED", "SINCE",
    ])];
    // Where one host alone has a switch there is nothing to tell.
    let several = seen.hosts.iter().any(|host| !host.switch.is_empty());
    if several {
        table[0].extend(["SWITCH", "PROCESS"].map(str::to_owned));
    }
    let has_loggers = seen.stats.runtimes.iter().any(|place| place.logger);
    if has_loggers {
        table[0].insert(5, "LOGGERS".to_owned());
    }
    let mut all = Vec::new();
    for host in &seen.hosts {
        let switch = Some(&host.switch).filter(|switch| !switch.is_empty());
        let here = || (seen.stats.runtimes.iter()).filter(|place| place.host == host.name);
        let of = |logger| here().filter(move |place| place.logger == logger);
        let ready = |logger| of(logger).filter(|place| place.state == "ready").count();
        let units: u64 = here().map(|place| place.owns).sum();
        let replicas: u64 = here().map(|place| place.replicas).sum();
        let agent = Some(&host.agent).filter(|agent| !agent.is_empty());
        all.push(json!({
            "host": host.name,
            "agent": agent,
            "process": known(host.process),
            "state": host.state,
            "runtimes": of(false).count(),
            "runtimes_ready": ready(false),
            "loggers": of(true).count(),
            "loggers_ready": ready(true),
            "units": units,
            "replicas": replicas,
            "died": host.deaths,
            "since_s": host.since_ns as f64 / 1e9,
            "switch": switch,
            "switch_process": known(host.switch_process),
        }));
        let mut cells = vec![
            host.name.clone(),
            agent.map_or("-", String::as_str).to_owned(),
            process(host.process),
            host.state.clone(),
            format!("{}/{}", ready(false), of(false).count()),
            thousands(units),
            thousands(replicas),
            thousands(host.deaths),
            age(host.since_ns),
        ];
        if has_loggers {
            cells.insert(5, format!("{}/{}", ready(true), of(true).count()));
        }
        if several {
            cells.push(switch.map_or("-", String::as_str).to_owned());
            cells.push(process(host.switch_process));
        }
        table.push(cells);
    }
    (all.into(), table)
}

fn replicas(seen: &Seen) -> (Value, Table) {
    let mut table = vec![row([
        "SCOPE",
        "HOST",
        "REPLICATION",
        "UNITS",
        "REPLICAS",
        "UNPROTECTED",
        "LOST",
    ])];
    let stats = &seen.stats;
    let mut chains = Vec::new();
    for switch in &stats.switches {
        chains.push(json!({
            "chain": switch.chain,
            "replication": switch.replication,
            "units": switch.units,
            "unprotected": switch.unprotected,
            "lost": switch.lost,
        }));
        table.push(vec![
            format!("chain {}", switch.chain),
            "-".to_owned(),
            switch.replication.clone(),
            thousands(switch.units),
            "-".to_owned(),
            thousands(switch.unprotected),
            thousands(switch.lost),
        ]);
    }
    let mut runtimes = Vec::new();
    for place in &stats.runtimes {
        runtimes.push(json!({
            "runtime": place.id,
            "host": place.host,
            "state": place.state,
            "role": role(place.logger),
            "units": place.owns,
            "replicas": place.replicas,
            "unprotected": place.unprotected,
        }));
        table.push(vec![
            format!("{} {}", role(place.logger), place.id),
            place.host.clone(),
            "-".to_owned(),
            thousands(place.owns),
            thousands(place.replicas),
            thousands(place.unprotected),
            "-".to_owned(),
        ]);
    }
    (json!({"chains": chains, "runtimes": runtimes}), table)
}

fn moves(seen: &Seen) -> (Value, Table) {
    let mut table = vec![row([
        "CHAIN",
        "UNDER WAY",
        "QUEUED",
        "MOVED",
        "FAILED",
        "RESUMED",
        "LOST",
        "P50",
        "P99",
        "MAX",
    ])];
    let mut all = Vec::new();
    let ms = |ns: u64| ns as f64 / 1e6;
    for switch in &seen.stats.switches {
        all.push(json!({
            "chain": switch.chain,
            "under_way": switch.unsettled,
            "queued": switch.queued,
            "moved": switch.moved,
            "failed": switch.move_failed,
            "resumed": switch.resumed,
            "lost": switch.lost,
            "p50_ms": ms(switch.move_p50_ns),
            "p99_ms": ms(switch.move_p99_ns),
            "max_ms": ms(switch.move_max_ns),
        }));
        let took = |ns| format!("{:.3} ms", ms(ns));
        table.push(vec![
            switch.chain.clone(),
            thousands(switch.unsettled),
            thousands(switch.queued),
            thousands(switch.moved),
            thousands(switch.move_failed),
            thousands(switch.resumed),
            thousands(switch.lost),
            took(switch.move_p50_ns),
            took(switch.move_p99_ns),
            took(switch.move_max_ns),
        ]);
    }
    (all.into(), table)
}

/// How the number of runtimes follows their load.
fn scaling(args: &Get, stats: Option<&v1::ScalingStats>) -> Outcome {
    let stats = stats.ok_or_else(|| {
        Failure::outside(
            "the number of runtimes of this instance follows no load: `weir run --scaling`, or \
             `scaling:` of a composition, has it do so",
        )
    })?;
    match args.output {
        Format::Json => output::json(&scaling_json(stats))?,
        Format::Text => output::line(&scaling_text(stats))?,
    }
    Ok(Exit::Done)
}

fn scaling_json(stats: &v1::ScalingStats) -> Value {
    let load = |load: &v1::RuntimeLoad| {
        json!({
            "runtime": load.runtime,
            "units": load.units,
            "packets_per_second": load.packets_per_second,
            "held_back": f64::from(load.held_back) / 1_000.0,
        })
    };
    let decision = |decision: &v1::ScalingDecision| json!({"time": Time(decision.unix_ns).to_string(), "message": decision.message});
    json!({
        "minimum": stats.minimum,
        "maximum": stats.maximum,
        "interval_s": stats.interval_ns as f64 / 1e9,
        "peak": (stats.peak > 0).then_some(stats.peak),
        "started": stats.started,
        "drained": stats.drained,
        "moved": stats.moved,
        "refused": stats.refused,
        "runtimes": stats.loads.iter().map(load).collect::<Value>(),
        "decisions": stats.decisions.iter().map(decision).collect::<Value>(),
    })
}

fn scaling_text(stats: &v1::ScalingStats) -> String {
    let mut table = vec![row(["RUNTIME", "UNITS", "PACKETS/S", "PORTS WAITED"])];
    table.extend(stats.loads.iter().map(|load| {
        let packets = load.packets_per_second;
        row([
            &load.runtime.to_string(),
            &thousands(load.units.into()),
            &packets.map_or_else(|| "-".to_owned(), thousands),
            &format!("{:.1} %", f64::from(load.held_back) / 10.0),
        ])
    }));
    let peak = match stats.peak {
        0 => "none was overloaded yet".to_owned(),
        peak => format!("one can take {} packets per second", thousands(peak)),
    };
    let interval = match stats.interval_ns / 1_000_000 {
        ms @ 0..1_000 => format!("{ms} ms"),
        _ => age(stats.interval_ns),
    };
    let mut said = format!(
        "{} to {} runtimes, looked at every {}; {peak}\n{} started, {} drained, {} units moved, {} \
         refused\n\n{}",
        stats.minimum,
        stats.maximum,
        interval,
        thousands(stats.started),
        thousands(stats.drained),
        thousands(stats.moved),
        thousands(stats.refused),
        text(&table),
    );
    if !stats.decisions.is_empty() {
        said.push('\n');
    }
    for decision in &stats.decisions {
        let time = Time(decision.unix_ns);
        said.push_str(&format!("{time}  {}\n", decision.message));
    }
    said
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_are_short() {
        let ages = [3_200_000_000, 312_000_000_000, 7_500_000_000_000].map(age);
        assert_eq!(ages, ["3.2s", "5m12s", "2h5m"]);
    }
}
