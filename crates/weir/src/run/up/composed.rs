//! A composition that was read, with all that it names, and checked before anything starts.

use std::iter::once;
use std::path::{Path, PathBuf};

use clap::Parser as _;
use weir_ctl::ledger::names::Names;
use weir_graph::{ChainFile, ComposedTenant, Composition, Diagnostic, Placed};
use weir_io::port::PortSpec;
use weir_nf::Sets;
use weir_nf::host::Kind;
use weir_protocol::settings::Replication;

use crate::args::{Args, Command, FlowletsBy, Host, Loggers, Run, ScalingBy, TenantBy};
use crate::billing;
use crate::chains;
use crate::exit::Failure;
use crate::say::say;
use crate::snapshot::Snapshot;

use super::super::plan;
use super::super::ports::{Also, Ports};
use super::super::tenants::without_chain;
use super::super::texts;

/// Interval of heartbeats where the composition says nothing: hosts that share a machine wait for its
/// processors, too, and silence of a busy one is no death.
const HEARTBEAT_MS: u32 = 250;
/// The same where each host is a machine of its own.
const HEARTBEAT_OF_MACHINES_MS: u32 = 20;

/// A composition, its chains, and the run that it is.
pub(crate) struct Composed {
    pub(crate) composition: Composition,
    pub(crate) file: ChainFile,
    /// Without hosts: these have addresses when they are started.
    pub(super) run: Run,
    /// All that it was read from.
    pub(crate) texts: Snapshot,
}

impl Composed {
    /// The rows of its ledger.
    pub(super) fn ledger_names(&self) -> Names {
        let composition = &self.composition;
        billing::names(&composition.name, composition.tenant.as_deref(), &self.file)
    }

    /// The ports of the run.
    ///
    /// # Errors
    ///
    /// None, where the composition was checked.
    pub(super) fn ports(&self) -> Result<Ports, Failure> {
        let also = Also {
            chain: &self.run.chain,
            script: None,
            events: &[],
        };
        Ports::parse(&self.run.input, &self.run.out, &self.file, also)
    }
}

/// Reads a composition and all that it names, and checks it whole; warnings are printed.
///
/// # Errors
///
/// Everything that is wrong with it, by line.
pub(crate) fn load(path: &Path, seed: u64, kinds: &[Kind]) -> Result<Composed, Failure> {
    load_from((path, chains::From::Anything), seed, kinds)
}

/// The same, where it may name only what may be read.
///
/// # Errors
///
/// Everything that is wrong with it, by line.
pub(crate) fn load_from(
    (path, from): (&Path, chains::From<'_>),
    seed: u64,
    kinds: &[Kind],
) -> Result<Composed, Failure> {
    let kept = texts::current();
    let written = kept.as_ref().and_then(|kept| kept.composition.as_ref());
    let (composition, written) = match written {
        Some(text) => (chains::composition_of(path, text)?, text.clone()),
        None => chains::load_composition(path)?,
    };
    let folder = path.parent().unwrap_or(Path::new(""));
    let chain = folder.join(&composition.chain.value);
    let absent = match kept {
        None => absent(&composition, folder, from),
        Some(_) => Vec::new(),
    };
    if !absent.is_empty() {
        return Err(wrong(&absent));
    }
    let mut faults = Vec::new();
    let (inputs, outputs) = (&composition.inputs, &composition.outputs);
    let run = words(&composition, folder, &chain)
        .map_err(|message| composition.fault(&composition.chain, &message, None));
    let run = run.map_err(|fault| wrong(&[fault]))?;
    for templates in &composition.templates {
        if !folder.join(&templates.value).is_dir() {
            let message = format!("there is no folder {}", templates.value);
            faults.push(composition.fault(templates, &message, None));
        }
    }
    replication(&composition, &mut faults);
    if !faults.is_empty() {
        return Err(wrong(&faults));
    }
    let (file, read) = chains_of((&chain, kept, from), &run, seed, kinds)?;
    let texts = Snapshot {
        composition: Some(written),
        ..read
    };
    chains::tell_warnings(&file);
    for (port, is_input) in
        (inputs.iter().map(|port| (port, true))).chain(outputs.iter().map(|port| (port, false)))
    {
        faults.extend(port_fault(
            &composition,
            folder,
            &run,
            &file,
            port,
            is_input,
        ));
    }
    faults.extend(tenant_faults(&composition, &file));
    if faults.is_empty() {
        faults.extend(whole_fault(&composition, &run, &file));
    }
    match faults.is_empty() {
        true => Ok(Composed {
            composition,
            file,
            run,
            texts,
        }),
        false => Err(wrong(&faults)),
    }
}

/// The chain file, and folders of templates, that may not be read, or the one that is not there.
fn absent(composition: &Composition, folder: &Path, from: chains::From<'_>) -> Vec<Diagnostic> {
    let chain = &composition.chain;
    let not_allowed = |at: &Placed<String>| {
        let why = from.allow(&folder.join(&at.value)).err()?;
        Some(composition.fault(at, why, None))
    };
    let named = once(chain).chain(&composition.templates);
    let mut faults: Vec<_> = named.filter_map(not_allowed).collect();
    let path = folder.join(&chain.value);
    if faults.is_empty() && !path.is_file() {
        let message = format!("there is no chain file {}", path.display());
        let help = "paths are from the folder of this file";
        faults.push(composition.fault(chain, &message, Some(help)));
    }
    faults
}

/// Tenants that have no chain.
fn tenant_faults(composition: &Composition, file: &ChainFile) -> Vec<Diagnostic> {
    let of_chain = billing::tenants_of(file, composition.tenant.as_deref());
    let fault = |by: &Placed<ComposedTenant>| {
        let message = without_chain(&by.value.name, &of_chain)?;
        let help = "`tenant` of a chain, or of the composition, says whose a chain is";
        Some(composition.fault(by, &message, Some(help)))
    };
    composition.tenants.iter().filter_map(fault).collect()
}

/// The chains of the composition's run: those that run where they are kept.
fn chains_of(
    (path, kept, from): (&Path, Option<Snapshot>, chains::From<'_>),
    run: &Run,
    seed: u64,
    kinds: &[Kind],
) -> Result<(ChainFile, Snapshot), Failure> {
    match kept {
        Some(kept) => {
            let file =
                chains::load_snapshot(&kept, path, &run.set, (seed, &Sets::default()), kinds)?;
            Ok((file, kept))
        }
        None => chains::read_chains(
            (path, from),
            &run.templates,
            &run.set,
            (seed, &Sets::default()),
            kinds,
        ),
    }
}

fn wrong(faults: &[Diagnostic]) -> Failure {
    let mut faults = faults.to_vec();
    faults.sort_by_key(|fault| (fault.line, fault.column));
    Failure::chain(weir_graph::render(&faults))
}

/// The run as `weir run` takes it.
fn words(composition: &Composition, folder: &Path, chain: &Path) -> Result<Run, String> {
    let mut words: Vec<PathBuf> = vec!["weir".into(), "run".into(), chain.into()];
    let ports = [
        ("--in", &composition.inputs),
        ("--out", &composition.outputs),
    ];
    for (option, ports) in ports {
        for port in ports {
            words.push(format!("{option}={}", in_folder(folder, &port.value)).into());
        }
    }
    words.push(format!("--runtimes={}", composition.runtimes()).into());
    let args = Args::try_parse_from(words.into_iter().map(PathBuf::into_os_string));
    let Ok(Args {
        command: Command::Run(run),
    }) = args
    else {
        return Err("the composition makes no run".to_owned());
    };
    let replication = composition.replication.as_ref();
    let dispatch = composition.dispatch;
    let heartbeat = match composition.has_addresses() {
        true => HEARTBEAT_OF_MACHINES_MS,
        false => HEARTBEAT_MS,
    };
    let tenants = composition
        .tenants
        .iter()
        .map(|by| TenantBy::try_from(&by.value));
    let scaling = composition.scaling.as_ref();
    let scaling = scaling.map(|by| ScalingBy::try_from(&by.value));
    let flowlets = composition.flowlets.as_ref().map(FlowletsBy::try_from);
    Ok(Run {
        flowlets: flowlets.transpose()?,
        tenants: tenants.collect::<Result<_, _>>()?,
        tenant: composition.tenant.clone(),
        set: composition.set.clone(),
        templates: (composition.templates.iter())
            .map(|templates| folder.join(&templates.value))
            .collect(),
        replication: replication.and_then(|how| how.value.parse().ok()),
        dispatch: dispatch
            .and_then(|how| clap::ValueEnum::from_str(how, false).ok())
            .unwrap_or(run.dispatch),
        most_runtimes: composition.most_runtimes(),
        // Where they are is known when the hosts are.
        loggers: (composition.loggers() > 0).then(|| {
            let loggers = (0..composition.loggers()).map(|_| Host::Local);
            Loggers(loggers.collect())
        }),
        scaling: scaling.transpose()?,
        heartbeat: u64::from(composition.heartbeat_ms.unwrap_or(heartbeat)),
        ..*run
    })
}

/// A port whose path is from the folder.
fn in_folder(folder: &Path, text: &str) -> String {
    let Ok((_, spec)) = PortSpec::parse(text) else {
        return text.to_owned();
    };
    let Some(path) = spec.capture() else {
        return text.to_owned();
    };
    let named = path.to_str().and_then(|path| text.strip_suffix(path));
    match named {
        Some(before) if path.as_os_str() != "-" => {
            format!("{before}{}", folder.join(path).display())
        }
        _ => text.to_owned(),
    }
}

/// What is wrong with the replication; odd but possible is a warning.
fn replication(composition: &Composition, faults: &mut Vec<Diagnostic>) {
    let Some(how) = &composition.replication else {
        return;
    };
    match how.value.parse() {
        Err(why) => {
            let message = format!("`{}` is no replication", how.value);
            faults.push(composition.fault(how, &message, Some(&why)));
        }
        Ok(Replication::None) => {}
        Ok(_) if composition.runtimes() < 2 && composition.loggers() == 0 => {
            faults.push(composition.fault(
                how,
                "a replica needs a second runtime or a logger",
                Some("give a host one more: `runtimes: 2`, or `loggers: 1`"),
            ))
        }
        Ok(_) => {
            let hosts = composition.hosts.iter();
            let with = hosts.filter(|host| host.runtimes + host.loggers > 0);
            if with.count() < 2 {
                let warning = composition.warning(
                    how,
                    "all runtimes are on one host: its death takes the replicas along",
                    Some("give another host runtimes or loggers"),
                );
                say(weir_graph::render(&[warning]).trim_end());
            }
        }
    }
}

/// What is wrong with a port by itself.
fn port_fault(
    composition: &Composition,
    folder: &Path,
    run: &Run,
    file: &ChainFile,
    port: &Placed<String>,
    is_input: bool,
) -> Option<Diagnostic> {
    let one = [in_folder(folder, &port.value)];
    let also = Also {
        chain: &run.chain,
        script: None,
        events: &[],
    };
    let read = match is_input {
        true => Ports::parse(&one, &[], file, also),
        false => Ports::parse(&[], &one, file, also),
    };
    let why = match read {
        Err(why) => why,
        Ok(ports) if file.network.fails_open() && ports.are_live() => {
            let help = "run it with `weir run`, or without `on-failure: open`";
            let message = "a bump that fails open (`on-failure: open`) can't be in a cluster";
            return Some(composition.fault(port, message, Some(help)));
        }
        Ok(_) => return None,
    };
    Some(composition.fault(port, why.why(), None))
}

/// Why no other process could go on with these ports; `None` where one can.
pub(in super::super) fn bound_to_one(ports: &Ports) -> Option<String> {
    for port in &ports.outputs {
        if port.spec.capture().is_some() {
            return Some(format!("none can go on with the capture `{}`", port.text));
        }
    }
    for port in &ports.inputs {
        if port.spec.capture().is_some_and(|path| !path.is_file()) {
            return Some(format!("none can read again what `{}` gave", port.text));
        }
    }
    None
}

/// What is wrong with the ports together, for a switch that stands by, or with chains behind a switch.
fn whole_fault(composition: &Composition, run: &Run, file: &ChainFile) -> Option<Diagnostic> {
    let also = Also {
        chain: &run.chain,
        script: None,
        events: &[],
    };
    let ports = match Ports::parse(&run.input, &run.out, file, also) {
        Ok(ports) => ports,
        Err(why) => {
            let last = composition.outputs.last().or(composition.inputs.last())?;
            return Some(composition.fault(last, why.why(), None));
        }
    };
    if let (Some(standby), Some(why)) = (composition.standby.first(), bound_to_one(&ports)) {
        let message = format!("no other switch can take over: {why}");
        return Some(composition.fault(
            standby,
            &message,
            Some("leave out `standby`, or that port"),
        ));
    }
    if let Some(standby) = composition
        .standby
        .first()
        .filter(|_| file.network.fails_open())
    {
        let message = "a bump that fails open passes packets while its switch stands by";
        return Some(composition.fault(standby, message, Some("leave out `on-failure: open`")));
    }
    let why = plan::plans(run, file).err()?;
    Some(composition.fault(&composition.chain, why.why(), None))
}
