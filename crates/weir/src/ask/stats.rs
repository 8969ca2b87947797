//! `weir stats`: what an instance has counted.

use std::fmt::Write as _;

use serde_json::{Map, Value, json};
use weir_api::v1;
use weir_ctl::counters::Carries as _;

use crate::args::{Format, Stats};
use crate::counters;
use crate::exit::{Exit, Failure, Outcome};
use crate::output;
use crate::output::{role, thousands};

use super::rates::{Between, named};

pub(crate) fn stats(args: &Stats) -> Outcome {
    let instance = args.instance.as_deref();
    let Some(interval) = args.watch else {
        let stats = super::ask(instance, async |mut client| {
            let stats = client.get_stats(v1::GetStatsRequest {}).await;
            stats
                .map(tonic::Response::into_inner)
                .map_err(|status| super::failure(&status))
        })?;
        match args.output {
            Format::Json => output::json(&to_json(&stats))?,
            Format::Text => output::line(&to_text(&stats))?,
        }
        return Ok(Exit::Done);
    };
    let interval_ms = u32::try_from(interval.as_millis()).unwrap_or(u32::MAX);
    super::ask(instance, async |mut client| {
        let failure = |status| super::failure(&status);
        let request = v1::WatchStatsRequest { interval_ms };
        let mut stream = client.watch_stats(request).await.map_err(failure)?;
        let mut before: Option<v1::GetStatsResponse> = None;
        loop {
            let Some(now) = stream.get_mut().message().await.map_err(failure)? else {
                return Err(Failure::outside("the instance has ended"));
            };
            if let Some(before) = before.replace(now.clone()) {
                let between = Between::new(before, now);
                match args.output {
                    Format::Json => output::line(&rates_json(&between).to_string())?,
                    Format::Text => output::line(&rates_text(&between))?,
                }
            }
        }
    })
}

fn counts(list: &[v1::Count]) -> Value {
    counters::named(list.iter().map(|c| (&c.name, c.value)))
}

fn port(port: &v1::PortStats) -> Value {
    let mut value = counters::to_json(port.counters());
    value["name"] = json!(port.name);
    value["side"] = json!(port.side);
    value["port"] = json!(port.port);
    value["mode"] = json!(port.mode);
    value["drops"] = counts(&port.drops);
    value["noticed"] = counts(&port.noticed);
    value
}

fn function(f: &v1::FunctionStats) -> Value {
    let mut value = counters::to_json(f.counters());
    value["nf"] = json!(f.kind);
    value["cycles_per_packet"] = json!(f.cycles as f64 / f.packets.max(1) as f64);
    value["counters"] = counts(&f.counters);
    value["tally"] = counts(&f.tally);
    value
}

fn chain(chain: &v1::ChainStats) -> Value {
    let flows = chain.flows.clone().unwrap_or_default();
    let functions = chain.functions.iter();
    let mut value = counters::to_json(chain.counters());
    value["drops"] = counts(&chain.drops);
    value["malformed"] = counts(&chain.malformed);
    value["flows"] = counters::to_json(flows.counters());
    value["flows"]["tracked"] = json!(flows.tracked);
    value["flows"]["ended"] = counts(&flows.ended);
    value["nfs"] = functions
        .map(|f| (f.name.clone(), function(f)))
        .collect::<Map<_, _>>()
        .into();
    value
}

/// The fields are those of a run's summary where they say the same.
fn to_json(stats: &v1::GetStatsResponse) -> Value {
    let thread = |thread: &v1::ThreadStats| {
        json!({
            "name": thread.name,
            "idle_share": thread.idle_ns as f64 / stats.elapsed_ns.max(1) as f64,
            "frames": thread.frames,
            "frames_free": thread.frames_free,
            "steered": thread.steered,
        })
    };
    let process = |process: &v1::StageProcess| {
        json!({
            "chain": process.chain,
            "stage": process.stage,
            "functions": process.functions,
            "trusted": process.trusted,
            "state": process.state,
            "died": process.deaths,
            "frames_back": process.frames_back,
            "flows_lost": process.flows_lost,
        })
    };
    let runtime = |place: &v1::RuntimePlace| {
        json!({
            "place": place.place,
            "id": place.id,
            "state": place.state,
            "role": role(place.logger),
            "died": place.deaths,
        })
    };
    let switch = |switch: &v1::SwitchStats| {
        json!({
            "chain": switch.chain,
            "replication": switch.replication,
            "units": switch.units,
            "unprotected": switch.unprotected,
            "unsettled": switch.unsettled,
            "lost": switch.lost,
        })
    };
    let mut value = json!({
        "elapsed_s": stats.elapsed_ns as f64 / 1e9,
        "chains": stats.chains.iter().map(|c| (c.name.clone(), chain(c))).collect::<Map<_, _>>(),
        "ports": {
            "in": stats.inputs.iter().map(port).collect::<Vec<_>>(),
            "out": stats.outputs.iter().map(port).collect::<Vec<_>>(),
        },
        "no_chain": stats.no_chain,
        "threads": stats.threads.iter().map(thread).collect::<Vec<_>>(),
    });
    if !stats.processes.is_empty() {
        value["processes"] = stats.processes.iter().map(process).collect();
    }
    if !stats.runtimes.is_empty() {
        value["runtimes"] = stats.runtimes.iter().map(runtime).collect();
        value["switches"] = stats.switches.iter().map(switch).collect();
    }
    if let Some(network) = &stats.network {
        let mut of_network = counts(&network.counts);
        of_network["mode"] = json!(network.mode);
        of_network["drops"] = counts(&network.drops);
        value["network"] = of_network;
    }
    value
}

fn to_text(stats: &v1::GetStatsResponse) -> String {
    let mut text = String::new();
    // Writing to a `String` can't fail.
    let _ = writeln!(text, "up {:.1} s", stats.elapsed_ns as f64 / 1e9);
    write_ports(&mut text, "in", &stats.inputs);
    write_ports(&mut text, "out", &stats.outputs);
    for chain in &stats.chains {
        write_chain(&mut text, chain);
    }
    if let Some(network) = &stats.network {
        let _ = writeln!(text, "\n{}", network.mode);
        for count in network.counts.iter().filter(|count| count.value > 0) {
            let _ = writeln!(text, "  {:<37} {:>12}", count.name, thousands(count.value));
        }
        write_drops(&mut text, &network.drops);
    }
    if stats.no_chain > 0 {
        let _ = writeln!(text, "\nof no chain: {}", thousands(stats.no_chain));
    }
    for process in &stats.processes {
        write_process(&mut text, process);
    }
    if !stats.runtimes.is_empty() {
        text.push('\n');
    }
    for place in &stats.runtimes {
        write_runtime(&mut text, place);
    }
    for switch in &stats.switches {
        write_switch(&mut text, switch);
    }
    for thread in &stats.threads {
        write_thread(&mut text, thread, stats.elapsed_ns);
    }
    text
}

fn write_ports(text: &mut String, way: &str, ports: &[v1::PortStats]) {
    for port in ports {
        let lost: u64 = port.drops.iter().map(|c| c.value).sum();
        let _ = writeln!(
            text,
            "  {way:<4} {:<34} {:>14} packets {:>16} bytes {:>10} lost",
            port.port,
            thousands(port.packets),
            thousands(port.bytes),
            thousands(lost)
        );
    }
}

fn write_runtime(text: &mut String, place: &v1::RuntimePlace) {
    let _ = write!(text, "{} {}: {}", role(place.logger), place.id, place.state);
    if place.deaths > 0 {
        let (place, died) = (place.place, thousands(place.deaths));
        let _ = write!(text, "; {died} have died in its place, {place}");
    }
    text.push('\n');
}

fn write_switch(text: &mut String, switch: &v1::SwitchStats) {
    let units = thousands(switch.units);
    let _ = write!(text, "switch of {}: {units} units", switch.chain);
    if switch.replication != "none" {
        let (how, without) = (&switch.replication, thousands(switch.unprotected));
        let _ = write!(text, ", replicated {how}: {without} unprotected");
    }
    for (n, what) in [
        (switch.unsettled, "change their runtime"),
        (switch.lost, "were lost"),
    ] {
        if n > 0 {
            let _ = write!(text, ", {} {what}", thousands(n));
        }
    }
    text.push('\n');
}

fn write_thread(text: &mut String, thread: &v1::ThreadStats, elapsed_ns: u64) {
    let _ = writeln!(
        text,
        "\nthread {}: asleep {:.1} % of the time{}{}",
        thread.name,
        100.0 * thread.idle_ns as f64 / elapsed_ns.max(1) as f64,
        match thread.frames {
            // It has those of another thread.
            0 => String::new(),
            all => format!(
                ", {} of {} frames free",
                thousands(thread.frames_free),
                thousands(all)
            ),
        },
        match thread.steered {
            0 => String::new(),
            steered => format!(", {} packets passed to other workers", thousands(steered)),
        }
    );
}

fn write_chain(text: &mut String, chain: &v1::ChainStats) {
    let _ = writeln!(
        text,
        "\nchain {}: {} packets in, {} out, {} held",
        chain.name,
        thousands(chain.packets_in),
        thousands(chain.packets_out),
        thousands(chain.held)
    );
    let flows = chain.flows.clone().unwrap_or_default();
    if flows.tracked {
        let _ = writeln!(
            text,
            "  flows: {} open, {} seen, {} aliases, {} ports leased",
            thousands(flows.active),
            thousands(flows.seen),
            thousands(flows.aliases),
            thousands(flows.ports_leased)
        );
    }
    let width = chain.functions.iter().map(|f| f.name.len()).max();
    let width = width.unwrap_or(0).max(8);
    let _ = writeln!(
        text,
        "  {:<width$} {:>14} {:>16} {:>10} {:>14}",
        "function", "packets", "bytes", "dropped", "cycles/packet"
    );
    for f in &chain.functions {
        let _ = writeln!(
            text,
            "  {:<width$} {:>14} {:>16} {:>10} {:>14.1}",
            f.name,
            thousands(f.packets),
            thousands(f.bytes),
            thousands(f.dropped),
            f.cycles as f64 / f.packets.max(1) as f64
        );
    }
    write_drops(text, &chain.drops);
}

fn write_drops(text: &mut String, drops: &[v1::Count]) {
    for drop in drops {
        let (name, count) = (&drop.name, thousands(drop.value));
        let _ = writeln!(text, "  dropped: {name:<28} {count:>12}");
    }
}

fn write_process(text: &mut String, process: &v1::StageProcess) {
    let trusted = if process.trusted { "" } else { ", not trusted" };
    let _ = write!(
        text,
        "\nstage {} ({}) of chain {}, in a process{trusted}: {}",
        process.stage,
        process.functions.join(", "),
        process.chain,
        process.state,
    );
    if process.deaths > 0 {
        let _ = write!(
            text,
            "; died {} times: {} frames came back, {} flows lost their state in it",
            thousands(process.deaths),
            thousands(process.frames_back),
            thousands(process.flows_lost),
        );
    }
    text.push('\n');
}

fn rates_json(between: &Between) -> Value {
    let chain = |(number, chain): (usize, &v1::ChainStats)| {
        let of = |f: fn(&v1::ChainStats) -> u64| {
            between.rate(|stats| stats.chains.get(number).map_or(0, f))
        };
        let drops = chain.drops.iter().map(|drop| {
            let rate = between.rate(|stats| {
                let chain = stats.chains.get(number);
                chain.map_or(0, |chain| named(&chain.drops, &drop.name))
            });
            (drop.name.clone(), json!(rate))
        });
        let value = json!({
            "packets_in_per_s": of(|c| c.packets_in),
            "packets_out_per_s": of(|c| c.packets_out),
            "bits_in_per_s": 8.0 * of(|c| c.bytes_in),
            "bits_out_per_s": 8.0 * of(|c| c.bytes_out),
            "new_flows_per_s": of(|c| c.flows.as_ref().map_or(0, |f| f.seen)),
            "flows": chain.flows.as_ref().map_or(0, |f| f.active),
            "drops_per_s": drops.collect::<Map<_, _>>(),
        });
        (chain.name.clone(), value)
    };
    let chains = between.now.chains.iter().enumerate().map(chain);
    let idle = (0..between.now.threads.len()).map(|number| json!(between.idle(number)));
    json!({
        "elapsed_s": between.now.elapsed_ns as f64 / 1e9,
        "seconds": between.seconds,
        "chains": chains.collect::<Map<_, _>>(),
        "idle_shares": idle.collect::<Vec<_>>(),
    })
}

fn rates_text(between: &Between) -> String {
    let mut text = String::new();
    for (number, chain) in between.now.chains.iter().enumerate() {
        let of = |f: fn(&v1::ChainStats) -> u64| {
            between.rate(|stats| stats.chains.get(number).map_or(0, f))
        };
        let _ = writeln!(
            text,
            "{:>8.1} s  {:<16} {:>12.0} packets/s {:>10.1} Mbit/s {:>10.0} drops/s {:>10} flows  idle {:>3.0} %",
            between.now.elapsed_ns as f64 / 1e9,
            chain.name,
            of(|c| c.packets_in),
            8e-6 * of(|c| c.bytes_in),
            of(|c| c.drops.iter().map(|drop| drop.value).sum()),
            thousands(chain.flows.as_ref().map_or(0, |f| f.active)),
            100.0 * between.idle(0),
        );
    }
    text
}
