//! From the engine's types to messages.

use std::net::IpAddr;
use std::time::{SystemTime, UNIX_EPOCH};

use weir_api::v1;
use weir_io::port::PortCounters;
use weir_packet::{Direction, FlowKey};
use weir_runtime::{FunctionReport, Report};
use weir_telemetry::{Counters as _, Label};

use crate::command::{
    Decided, FlowSeen, FlowletCounts, LayerReport, RuntimeLoad, RuntimePlaceCounts, ScalingCounts,
    Site, StatesSeen, ThreadCounts,
};
use crate::counters::Carries as _;
use crate::drops::DriverDrop;
use crate::events::{About, Event};
use crate::hosts::{HostPhase, HostState, SwitchState};

use super::asked::{Asked, Counts};
use super::reasons;

pub(super) fn stats(asked: &Asked, counts: &Counts) -> v1::GetStatsResponse {
    let of = |counters: Vec<PortCounters>, ports: &[v1::PortInfo]| {
        let all = ports.iter().zip(&counters);
        all.map(|(p, c)| port(p, c)).collect()
    };
    v1::GetStatsResponse {
        elapsed_ns: counts.elapsed.as_nanos() as u64,
        chains: counts.reports.iter().map(chain).collect(),
        inputs: of(counts.inputs(), asked.inputs()),
        outputs: of(counts.outputs(), asked.outputs()),
        no_chain: counts.threads.iter().map(|thread| thread.refused).sum(),
        threads: counts.threads.iter().map(thread).collect(),
        network: network(counts),
        processes: processes(asked, counts).collect(),
        runtimes: runtimes(asked, counts).collect(),
        switches: switches(asked, counts).collect(),
        scaling: (counts.threads.iter())
            .find_map(|thread| thread.scaling.as_ref())
            .map(scaling),
    }
}

/// Nanoseconds since the epoch.
fn unix_ns(at: SystemTime) -> u64 {
    let at = at.duration_since(UNIX_EPOCH);
    at.map_or(0, |at| at.as_nanos() as u64)
}

/// How the number of runtimes follows their load.
fn scaling(counts: &ScalingCounts) -> v1::ScalingStats {
    let load = |load: &RuntimeLoad| v1::RuntimeLoad {
        runtime: load.id,
        units: load.units,
        packets_per_second: load.packets,
        held_back: load.held_back,
    };
    let decision = |decided: &Decided| v1::ScalingDecision {
        unix_ns: unix_ns(decided.at),
        message: decided.what.clone(),
    };
    let (minimum, maximum) = counts.bounds;
    v1::ScalingStats {
        minimum,
        maximum,
        interval_ns: counts.interval.as_nanos() as u64,
        peak: counts.peak.unwrap_or(0),
        started: counts.started,
        drained: counts.drained,
        moved: counts.moved,
        refused: counts.refused,
        loads: counts.loads.iter().map(load).collect(),
        decisions: counts.decisions.iter().map(decision).collect(),
    }
}

/// Stages that are processes of their own.
pub(super) fn processes<'a>(
    asked: &'a Asked,
    counts: &'a Counts,
) -> impl Iterator<Item = v1::StageProcess> + use<'a> {
    let all = counts.threads.iter().flat_map(|thread| &thread.processes);
    all.map(|process| {
        let (chain, step) = process.place;
        let chain = asked.info.chains.get(chain);
        v1::StageProcess {
            chain: chain.map_or_else(String::new, |chain| chain.name.clone()),
            stage: step as u32 + 1,
            functions: process.functions.clone(),
            trusted: process.trusted,
            state: process.state.to_owned(),
            deaths: process.deaths,
            frames_back: process.frames_back,
            flows_lost: process.flows_lost,
        }
    })
}

/// Switches before runtimes.
fn switches<'a>(
    asked: &'a Asked,
    counts: &'a Counts,
) -> impl Iterator<Item = v1::SwitchStats> + use<'a> {
    let all = counts.threads.iter().flat_map(|thread| &thread.switches);
    all.map(|switch| {
        let chain = asked.info.chains.get(switch.chain);
        v1::SwitchStats {
            chain: chain.map_or_else(String::new, |chain| chain.name.clone()),
            replication: switch.replication.clone(),
            units: switch.units,
            unprotected: switch.unprotected,
            unsettled: switch.unsettled,
            lost: switch.lost,
            queued: switch.queued,
            moved: switch.moved,
            move_failed: switch.move_failed,
            resumed: switch.resumed,
            move_p50_ns: switch.durations[0].as_nanos() as u64,
            move_p99_ns: switch.durations[1].as_nanos() as u64,
            move_max_ns: switch.durations[2].as_nanos() as u64,
            flowlets: switch.flowlets.as_ref().map(flowlets),
        }
    })
}

fn flowlets(counts: &FlowletCounts) -> v1::FlowletStats {
    let load = |&(runtime, bytes_per_second): &(u32, u64)| v1::FlowletLoad {
        runtime,
        bytes_per_second,
    };
    v1::FlowletStats {
        begun: counts.begun,
        stayed: counts.stayed,
        bound: counts.bound,
        moved_ready: counts.moved_ready,
        moved_waiting: counts.moved_waiting,
        overfull: counts.overfull,
        copies: counts.copies,
        copies_used: counts.copies_used,
        alpha: counts.alpha,
        copies_each: u32::from(counts.copies_each),
        room: counts.room,
        loads: counts.loads.iter().map(load).collect(),
    }
}

/// Places of runtimes behind a switch.
fn runtimes<'a>(
    asked: &'a Asked,
    counts: &'a Counts,
) -> impl Iterator<Item = v1::RuntimePlace> + use<'a> {
    let all = counts.threads.iter().flat_map(|thread| &thread.runtimes);
    let hosts = asked.hosts.list();
    all.map(move |place| v1::RuntimePlace {
        place: place.place,
        id: place.id,
        state: place.state.to_owned(),
        deaths: place.deaths,
        host: host(&hosts, place.site),
        site: match place.site {
            Site::Thread => "thread",
            Site::Process => "process",
            Site::Agent(_) => "agent",
        }
        .to_owned(),
        process: process_of(asked, counts, place),
        since_ns: place.since.as_nanos() as u64,
        owns: place.owns,
        replicas: place.replicas,
        unprotected: place.unprotected,
        logger: place.is_logger,
    })
}

/// The name of a host: as the run names it, else its agent's address.
fn host(hosts: &[HostState], site: Site) -> String {
    let agent = match site {
        Site::Thread | Site::Process => None,
        Site::Agent(at) => Some(at),
    };
    let named = hosts.iter().find(|host| host.agent == agent);
    match (named, agent) {
        (Some(host), _) => host.name.clone(),
        (None, Some(at)) => at.to_string(),
        (None, None) => "local".to_owned(),
    }
}

/// The process that a runtime is in; 0 where it did not say.
fn process_of(asked: &Asked, counts: &Counts, place: &RuntimePlaceCounts) -> u32 {
    if place.site == Site::Thread {
        return asked.info.pid;
    }
    let mut threads = counts.threads.iter();
    let thread = threads.find(|thread| thread.channel + 1 == place.place);
    thread.map_or(0, |thread| thread.process)
}

/// The hosts that a run looks after; else those that its runtimes are on.
pub(super) fn hosts(asked: &Asked, counts: &Counts) -> Vec<v1::Host> {
    let known = asked.hosts.list();
    let places = || runtimes(asked, counts);
    if known.is_empty() {
        let mut names: Vec<String> = places().map(|place| place.host).collect();
        names.sort();
        names.dedup();
        let unwatched = |name| v1::Host {
            name,
            state: HostPhase::NotWatched.word().to_owned(),
            ..v1::Host::default()
        };
        return names.into_iter().map(unwatched).collect();
    }
    let host = |host: HostState| v1::Host {
        agent: host.agent.map_or_else(String::new, |at| at.to_string()),
        process: host.process,
        state: host.state.word().to_owned(),
        deaths: host.deaths,
        since_ns: host.since.elapsed().as_nanos() as u64,
        switch: host.switch.map_or("", SwitchState::word).to_owned(),
        switch_process: host.switch.map_or(0, |switch| switch.process),
        name: host.name,
    };
    known.into_iter().map(host).collect()
}

/// An event, with the name of its host.
pub(super) fn event(asked: &Asked, event: Event) -> v1::Event {
    let Event {
        number,
        at,
        about,
        what,
    } = event;
    let (runtime, host) = match about {
        About::Runtime(id, site) => (id, host(&asked.hosts.list(), site)),
        About::Host(name) => (0, name),
        About::Cluster => (0, String::new()),
    };
    v1::Event {
        number,
        unix_ns: unix_ns(at),
        kind: what.kind().to_owned(),
        runtime,
        host,
        units: what.units(),
        took_ns: what.took().map(|took| took.as_nanos() as u64),
        other: what.other(),
        message: what.to_string(),
    }
}

/// Counts of a router or a tap; `None` for a bump.
pub(super) fn network(counts: &Counts) -> Option<v1::NetworkStats> {
    match &counts.network()? {
        LayerReport::Bump => None,
        LayerReport::Tap { kept } => Some(v1::NetworkStats {
            mode: "tap".to_owned(),
            counts: counted(&[("kept", *kept)]),
            drops: Vec::new(),
        }),
        LayerReport::Router(report) => {
            let drops = report.counts.drops();
            let drops = drops.named();
            let drops = drops.map(|(reason, n)| (format!("network.{reason}"), n));
            let counts = report.counts.entries();
            let counts: Vec<_> = counts.map(|(entry, n)| (entry.name(), n)).collect();
            Some(v1::NetworkStats {
                mode: "router".to_owned(),
                counts: counted(&counts),
                drops: counted(&drops.collect::<Vec<_>>()),
            })
        }
    }
}

fn count<N: ToString>((name, value): &(N, u64)) -> v1::Count {
    v1::Count {
        name: name.to_string(),
        value: *value,
    }
}

fn counted<N: ToString>(list: &[(N, u64)]) -> Vec<v1::Count> {
    list.iter().map(count).collect()
}

fn named<K: Label>(counts: &weir_telemetry::Counts<K>) -> Vec<v1::Count> {
    counts.named().map(|pair| count(&pair)).collect()
}

fn chain(report: &Report) -> v1::ChainStats {
    v1::ChainStats {
        name: report.chain.clone(),
        drops: counted(&report.drops),
        malformed: counted(&report.malformed),
        flows: Some(v1::FlowStats {
            tracked: report.flows.tracked,
            ended: named(&report.flows.ended),
            ..v1::FlowStats::of(&report.flows)
        }),
        functions: report.functions.iter().map(function).collect(),
        ..v1::ChainStats::of(report)
    }
}

fn function(report: &FunctionReport) -> v1::FunctionStats {
    v1::FunctionStats {
        name: report.name.clone(),
        kind: report.nf.to_owned(),
        counters: counted(&report.counters),
        tally: counted(&report.tally),
        ..v1::FunctionStats::of(report)
    }
}

fn port(info: &v1::PortInfo, counters: &PortCounters) -> v1::PortStats {
    v1::PortStats {
        name: info.name.clone(),
        side: info.side.clone(),
        port: info.port.clone(),
        drops: named(&counters.drops),
        noticed: named(&counters.noticed),
        mode: counters.mode.clone().unwrap_or_default(),
        ..v1::PortStats::of(counters)
    }
}

fn thread(counts: &ThreadCounts) -> v1::ThreadStats {
    v1::ThreadStats {
        name: counts.name.clone(),
        idle_ns: counts.idle.as_nanos() as u64,
        frames: counts.frames,
        frames_free: counts.frames_free,
        steered: counts.steered,
    }
}

/// All reasons for which a packet may be dropped here, with what was counted.
pub(super) fn drop_reasons(asked: &Asked, counts: &Counts) -> Vec<v1::DropReason> {
    let mut all: Vec<v1::DropReason> = Vec::new();
    let mut add = |chain: &str, name: String, meaning: String, packets: u64| {
        let known = |r: &&mut v1::DropReason| r.name == name && r.chain == chain;
        match all.iter_mut().find(known) {
            Some(reason) => reason.packets += packets,
            None => all.push(v1::DropReason {
                chain: chain.to_owned(),
                name,
                meaning,
                packets,
            }),
        }
    };
    for (name, meaning) in reasons::own() {
        add("", name, meaning.to_owned(), 0);
    }
    for chain in asked.chains() {
        for function in &chain.functions {
            for reason in function.drops {
                let name = format!("{}.{}", function.name, reason.name());
                add(&chain.name, name, reason.meaning().to_owned(), 0);
            }
        }
    }
    let ports = counts
        .threads
        .iter()
        .flat_map(|t| t.inputs.iter().chain(&t.outputs));
    for (reason, packets) in ports.flat_map(|port| port.drops.counted()) {
        add("", reason.name().to_owned(), String::new(), packets);
    }
    if let Some(network) = network(counts).filter(|network| network.mode == "router") {
        for (name, meaning) in reasons::of_router() {
            add("", name, meaning.to_owned(), 0);
        }
        for drop in network.drops {
            add("", drop.name, reasons::UNKNOWN.to_owned(), drop.value);
        }
    }
    let refused = counts.threads.iter().map(|thread| thread.refused).sum();
    let no_chain = DriverDrop::NoChain.name().to_owned();
    add("", no_chain, String::new(), refused);
    for report in &counts.reports {
        for (name, packets) in &report.drops {
            let of = report.functions.iter().find_map(|function| {
                let rest = name.strip_prefix(&function.name)?;
                Some((function, rest.strip_prefix('.')?))
            });
            match of {
                Some((function, label)) => {
                    // The chain leads a label nowhere, or the reason is known.
                    let kind = function.nf;
                    let meaning = format!(
                        "The chain drops what {kind} calls `{label}`; see `weir nf show {kind}`."
                    );
                    add(&report.chain, name.clone(), meaning, *packets);
                }
                None => add("", name.clone(), reasons::UNKNOWN.to_owned(), *packets),
            }
        }
    }
    all
}

fn endpoint((address, port): (IpAddr, u16)) -> v1::Endpoint {
    v1::Endpoint {
        address: address.to_string(),
        port: u32::from(port),
    }
}

fn ends(key: &FlowKey, client: Direction) -> (Option<v1::Endpoint>, Option<v1::Endpoint>) {
    let (from, to) = (key.source(client), key.destination(client));
    (Some(endpoint(from)), Some(endpoint(to)))
}

pub(super) fn flow(seen: &FlowSeen) -> v1::FlowEntry {
    let flow = &seen.flow;
    let (client, server) = ends(&flow.key, flow.client);
    let aliases = seen.names.iter().map(|name| {
        let (client, server) = ends(&name.key, name.client);
        v1::Alias {
            protocol: u32::from(name.key.proto()),
            client,
            server,
            open: name.open,
        }
    });
    v1::FlowEntry {
        id: flow.id,
        chain: seen.chain.clone(),
        thread: seen.thread,
        protocol: u32::from(flow.key.proto()),
        client,
        server,
        zone: flow.key.zone(),
        phase: flow.phase.name().to_owned(),
        packets: flow.packets,
        age_ns: seen.now.0.saturating_sub(flow.opened.0),
        idle_ns: seen.now.0.saturating_sub(flow.last_seen.0),
        timeout_ms: u64::from(flow.idle_ms.unwrap_or(0)),
        aliases: aliases.collect(),
    }
}

pub(super) fn states(thread: u32, found: &StatesSeen) -> v1::GetFlowResponse {
    let states = found.states.iter().map(|state| v1::FunctionState {
        function: state.function.clone(),
        kind: state.kind.to_owned(),
        scope: state.scope.clone(),
        opened: state.opened,
        version: u32::from(state.version),
        fields: (state.fields.iter())
            .map(|field| v1::Field {
                name: field.name.clone(),
                value: field.value.to_string(),
            })
            .collect(),
        state: state.state.clone(),
        stats: state.stats.clone(),
        buffers: state.buffers.iter().map(|&bytes| bytes as u64).collect(),
    });
    v1::GetFlowResponse {
        flow: Some(v1::FlowEntry {
            thread,
            ..flow(&found.seen)
        }),
        states: states.collect(),
    }
}
