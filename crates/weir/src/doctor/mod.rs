//! `weir doctor`: looks at the machine, and says what is right, what is not, and
//! the command that mends it. The facts come from [`weir_io::machine`]; what
//! they mean is decided in [`judge`], for the command and for `weir run` alike.

mod attempt;
mod finding;
mod judge;
mod need;
mod show;

use std::net::IpAddr;
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;

use weir_graph::{ChainFile, Network};
use weir_io::live::{LiveSpec, live_layout, live_sockets};
use weir_io::machine::Machine;
use weir_io::port::PortSpec;
use weir_nf::host::Kind;
use weir_packet::{MemoryLayout, Prefix};

use crate::args::{Doctor, Format};
use crate::exit::{Exit, Failure, Outcome};
use crate::run::{Also, Ports, once};
use crate::{chains, output};

use finding::{Finding, Status};
use need::Need;

pub(crate) fn doctor(args: &Doctor, kinds: &[Kind]) -> Outcome {
    weir_exec::check_cores(&args.cores).map_err(Failure::usage)?;
    let need = need_of(args, kinds)?;
    let machine = read(&need);
    let mut findings = judge::judge(&machine, &need);
    if args.attempt {
        findings.extend(attempt::xdp(&machine, &need));
        findings.sort_by_key(|finding| finding.area);
    }
    match args.output {
        Format::Text => output::line(&show::text(&findings, need.is_everything()))?,
        Format::Json => output::json(&show::json(&findings))?,
    }
    let least = if args.strict {
        Status::Warning
    } else {
        Status::Problem
    };
    let bad = findings.iter().any(|finding| finding.status >= least);
    Ok(if bad { Exit::Failed } else { Exit::Done })
}

/// Looks at the machine before a run opens these interfaces: what is to be said
/// aloud; what live ports say by themselves is left out.
///
/// # Errors
///
/// All that stops the run, each with what mends it. With `force` that is said
/// aloud only.
pub(crate) fn before_run(
    ports: Vec<LiveSpec>,
    file: &ChainFile,
    cores: &[usize],
    force: bool,
) -> Result<Vec<String>, Failure> {
    /// Checks left to the ports and the socket, which report better on opening.
    const OF_PORTS: [&str; 4] = ["interface-up", "xdp-mode", "xdp-queues", "control-socket"];
    let need = need(Some(ports), Some(file), cores);
    let findings = judge::judge(&read(&need), &need);
    let stops: Vec<&Finding> = findings.iter().filter(|f| f.stops_run).collect();
    if !stops.is_empty() && !force {
        let lines: Vec<String> = stops
            .iter()
            .map(|f| format!("error: {}", f.line()))
            .collect();
        return Err(Failure {
            exit: Exit::Failed,
            message: format!(
                "{}\n  = help: `weir doctor` with the same ports tells more; `--force` runs all the same",
                lines.join("\n")
            ),
        });
    }
    let said = findings
        .iter()
        .filter(|f| f.stops_run || f.status != Status::Ok && is_of_ports(f))
        .filter(|f| !OF_PORTS.contains(&f.check));
    Ok(said.map(Finding::line).collect())
}

/// True if the finding concerns the run's interfaces, not the machine's speed.
fn is_of_ports(finding: &Finding) -> bool {
    use finding::Area;
    matches!(
        finding.area,
        Area::Interfaces | Area::Xdp | Area::Offloads | Area::Privileges | Area::Kernel
    )
}

fn read(need: &Need) -> Machine {
    Machine::read(|link| {
        let mut ports = need.ports().iter();
        need.is_everything() || ports.any(|port| port.interface() == link.name)
    })
}

fn need_of(args: &Doctor, kinds: &[Kind]) -> Result<Need, Failure> {
    let none = args.input.is_empty() && args.out.is_empty();
    let Some(chain) = &args.chain else {
        let texts = args.input.iter().chain(&args.out);
        let ports = texts
            .map(|text| without_chain(text))
            .collect::<Result<Vec<_>, _>>()?;
        let ports = (!none).then(|| once(ports.into_iter().flatten()));
        return Ok(need(ports, None, &args.cores));
    };
    let file = chains::load(chain, &args.templates, &args.set, 0, kinds)?;
    let also = Also {
        chain,
        script: None,
        events: &[],
    };
    let ports = Ports::parse(&args.input, &args.out, &file, also)?;
    let live = (!none).then(|| ports.live());
    let cores = match args.cores.as_slice() {
        [] => &file.threads.cores,
        _ => &args.cores,
    };
    chains::check_cores(cores, chain)?;
    Ok(need(live, Some(&file), cores))
}

/// A port as written; names need a chain.
fn without_chain(text: &str) -> Result<Option<LiveSpec>, Failure> {
    let (name, spec) = PortSpec::parse(text).map_err(|error| Failure::usage(error.to_string()))?;
    match name {
        None => Ok(spec.live().cloned()),
        Some(name) => Err(Failure::usage(format!(
            "port `{text}`: {name} is a name of a chain's port: name the chain file, too"
        ))),
    }
}

fn need(ports: Option<Vec<LiveSpec>>, file: Option<&ChainFile>, cores: &[usize]) -> Need {
    let (memory, pinned) = memory(ports.as_deref());
    Need {
        forwards: ports.as_ref().is_some_and(|ports| ports.len() > 1)
            && file.is_none_or(|file| file.network != Network::Tap),
        owned: file.map(owned).unwrap_or_default(),
        memory,
        pinned,
        #[cfg(not(feature = "control"))]
        control: None,
        #[cfg(feature = "control")]
        control: ports
            .as_ref()
            .is_none_or(|p| !p.is_empty())
            .then(control_folder),
        cores: cores.to_vec(),
        ports,
    }
}

/// The folder of control sockets, if this user may have one.
#[cfg(feature = "control")]
fn control_folder() -> Result<PathBuf, String> {
    let folder =
        weir_ctl::client::folder().map_err(|error| Failure::from(error).why().to_owned())?;
    let user = rustix::process::geteuid();
    // It is made where it is missing.
    let there = folder.ancestors().find(|path| path.exists());
    let owner = there.and_then(|path| path.metadata().ok()).map(|m| m.uid());
    if user.is_root() || owner == Some(user.as_raw()) {
        Ok(folder)
    } else {
        Err(format!(
            "{} belongs to another user: set XDG_RUNTIME_DIR, or give the socket's path with --control PATH",
            there.unwrap_or(&folder).display()
        ))
    }
}

/// Addresses that a router answers for: its ports', and those that functions
/// stand for.
fn owned(file: &ChainFile) -> Vec<Prefix> {
    let Network::Router(routing) = &file.network else {
        return Vec::new();
    };
    let whole = |address: IpAddr| Prefix::new(address, if address.is_ipv4() { 32 } else { 128 });
    let ports = routing.ports.iter().flat_map(|port| &port.addresses);
    let ports = ports.filter_map(|of_port| whole(of_port.address).ok());
    let nodes = file.chains.iter().flat_map(|chain| &chain.stage.nodes);
    let functions = nodes.flat_map(|node| node.processor.owns());
    ports
        .chain(functions.map(|owned| owned.addresses))
        .collect()
}

/// Octets of packet memory, and of what XDP sockets pin of it. Of no ports in
/// particular it is what a bump between two queues takes.
fn memory(ports: Option<&[LiveSpec]>) -> (u64, u64) {
    let bytes = |frames: u32, bytes: u32| u64::from(frames) * u64::from(bytes);
    let all = |layout: &MemoryLayout| {
        let small = bytes(layout.small_frames, layout.small_bytes);
        (
            small + bytes(layout.large_frames, layout.large_bytes),
            small,
        )
    };
    let Some(ports) = ports else {
        // Four rings' worth of frames beside those under way.
        let (memory, _) = all(&MemoryLayout::default());
        let rings = bytes(4 * 4_096, 2_048);
        return (memory + rings, 2 * (rings + bytes(4_096, 2_048)));
    };
    // An interface that is not there is told of elsewhere.
    let layout = live_layout(ports).unwrap_or_default();
    let (memory, small) = all(&layout);
    let sockets = live_sockets(ports).unwrap_or(0);
    (memory, u64::from(sockets) * small)
}
