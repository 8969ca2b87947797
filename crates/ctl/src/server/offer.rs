//! Facts and command channels of a run, which its driver gives to the server.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use weir_api::v1;
use weir_graph::ChainFile;

use crate::command::CommandSender;
use crate::configuration::Configuration;
use crate::events::Events;
use crate::hosts::Hosts;
use crate::observe::Unseen;
use crate::sets::SetLog;
use crate::upgrade::Upgrades;

use super::bill::Billed;

/// Facts of a run beside its counts, and the way to its threads.
#[derive(Debug)]
pub struct Offer<'a> {
    /// Name of the instance.
    pub name: String,
    /// The chains, as they were loaded.
    pub file: &'a ChainFile,
    /// Path of the chain file.
    pub chain: &'a Path,
    /// How it runs, in a word.
    pub mode: &'a str,
    /// Stages that can't be looked into.
    pub unseen: Vec<Unseen>,
    /// Ports that packets come in by.
    pub inputs: Vec<v1::PortInfo>,
    /// Ports that packets leave by.
    pub outputs: Vec<v1::PortInfo>,
    /// Hosts that the run looks after; none where it does not.
    pub hosts: Hosts,
    /// Events of hosts and runtimes.
    pub events: Events,
    /// The configuration, which others may take the place of; `None` where none can.
    pub configuration: Option<Box<dyn Configuration>>,
    /// The programs of its processes; `None` where a run has no way to tell.
    pub upgrades: Option<Box<dyn Upgrades>>,
    /// Sets of addresses that can't change while it runs, and why.
    pub fixed_sets: BTreeMap<String, String>,
    /// Log of the changes of sets, which the process that takes this one's place reads; `None` without.
    pub set_log: Option<Box<dyn SetLog>>,
    /// What its tenants are billed by; `None` without a switch.
    pub billed: Option<Billed>,
    /// Command channels of the threads: those of places of runtimes first, that of the ports
    /// last.
    pub senders: Vec<CommandSender>,
}

impl Offer<'_> {
    /// Facts of the run that do not change; it starts now.
    pub(super) fn info(&self) -> v1::GetInfoResponse {
        let chains = self.file.chains.iter().map(|chain| v1::ChainInfo {
            name: chain.stage.chain.clone(),
            functions: (chain.stage.nodes.iter())
                .map(|node| v1::FunctionInfo {
                    name: node.name.clone(),
                    kind: node.processor.descriptor().name.to_owned(),
                })
                .collect(),
        });
        let mut ports: Vec<v1::PortInfo> = Vec::new();
        for port in self.inputs.iter().chain(&self.outputs) {
            if !ports.contains(port) {
                ports.push(port.clone());
            }
        }
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        v1::GetInfoResponse {
            name: self.name.clone(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            pid: std::process::id(),
            started_unix_ns: now.map_or(0, |now| now.as_nanos() as u64),
            chain_file: self.chain.display().to_string(),
            mode: self.mode.to_owned(),
            chains: chains.collect(),
            ports,
        }
    }
}
