//! Description of a chain for `weir check`: as text and for machines.

use core::fmt;

use serde::Serialize;
use weir_nf::host::{Node, OnMalformed, Stage, Target, Timeouts, WhenFull};
use weir_nf::{Needs, Scope};
use weir_packet::IcmpKey;

use crate::load::Chain;
use crate::template::Instance;
use crate::units::show_duration;

/// A chain in words. [`fmt::Display`] prints it for people.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Description {
    /// Name of the chain.
    pub chain: String,
    /// Which packets it takes.
    pub takes: String,
    /// Its ports.
    pub ports: Vec<PortDescription>,
    /// How much of a packet is looked at: the most that a function needs.
    pub needs: &'static str,
    /// Packets that stay together: the widest scope of a function; `None` if the chain keeps no
    /// flows.
    pub unit: Option<String>,
    /// How flows are kept; none where they are not.
    pub flows: Option<FlowsDescription>,
    /// Its entries that name templates.
    pub templates: Vec<InstanceDescription>,
    /// Its functions in the order in which they run, those of templates as
    /// `INSTANCE/PROCESSOR`.
    pub functions: Vec<FunctionDescription>,
}

/// An entry that names a template.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct InstanceDescription {
    /// Its name in the chain.
    pub name: String,
    /// Its template.
    pub template: String,
    /// One line about it.
    pub summary: String,
    /// Its processors.
    pub processors: Vec<String>,
    /// Processors that its settings leave out.
    pub left_out: Vec<String>,
}

/// A port.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PortDescription {
    /// Its name.
    pub name: String,
    /// `inside` or `outside`.
    pub side: &'static str,
}

/// How flows are kept.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct FlowsDescription {
    /// Most flows at a time.
    pub max: u32,
    /// `evict` or `refuse`.
    pub when_full: &'static str,
    /// Time-outs, as `udp 5m`.
    pub timeouts: Vec<String>,
    /// Keyed by the inner packet of tunnels.
    pub inner: bool,
    /// VLAN and tunnel ids are part of the key.
    pub zone: bool,
    /// `conversation` or `addresses`.
    pub icmp: &'static str,
    /// `drop` or `pass`.
    pub malformed: &'static str,
    /// Octets of side buffers.
    pub buffers: usize,
    /// Later fragments that may wait for their first.
    pub held_fragments: u32,
}

/// A function of a chain.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FunctionDescription {
    /// Its name in the chain.
    pub name: String,
    /// The kind of function.
    pub nf: &'static str,
    /// One line about it.
    pub summary: &'static str,
    /// How much of a packet it needs.
    pub needs: &'static str,
    /// Packets that share one state; `None` if the function keeps none.
    pub scope: Option<String>,
    /// Octets of state and counters per scope key.
    pub state_bytes: u32,
    /// Most octets of side buffers per scope key.
    pub buffer_bytes: u64,
    /// Parts of a packet that it reads.
    pub reads: Vec<&'static str>,
    /// Parts of a packet that it changes.
    pub writes: Vec<&'static str>,
    /// Makes packets of its own.
    pub emits: bool,
    /// Reasons for which it drops.
    pub drops: Vec<&'static str>,
    /// Its links.
    pub links: Vec<LinkDescription>,
}

/// A link.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LinkDescription {
    /// Its label.
    pub label: &'static str,
    /// Target: an instance, `out` or `drop`.
    pub to: String,
}

const fn needs(needs: Needs) -> &'static str {
    match needs {
        Needs::Link => "link",
        Needs::Network => "network",
        Needs::Transport => "transport",
        Needs::Flow => "flow",
    }
}

/// Describes a chain.
pub fn describe(chain: &Chain) -> Description {
    let stage = &chain.stage;
    let descriptors = || stage.nodes.iter().map(|node| node.processor.descriptor());
    let most = descriptors().map(|d| d.needs).max().unwrap_or(Needs::Link);
    let keeps_flows = most == Needs::Flow || stage.flows.always;
    let widest =
        stage
            .nodes
            .iter()
            .map(|node| node.processor.scope())
            .fold(
                Scope::Flow,
                |wide, scope| {
                    if wide.within(scope) { scope } else { wide }
                },
            );
    Description {
        chain: stage.chain.clone(),
        takes: chain.selector.to_string(),
        ports: chain
            .ports
            .iter()
            .map(|port| PortDescription {
                name: port.name.clone(),
                side: port.side.name(),
            })
            .collect(),
        needs: if stage.flows.always {
            needs(Needs::Flow)
        } else {
            needs(most)
        },
        unit: keeps_flows.then(|| widest.describe()),
        flows: keeps_flows.then(|| flows(chain)),
        templates: chain.instances.iter().map(instance).collect(),
        functions: stage
            .nodes
            .iter()
            .map(|node| function(node, stage))
            .collect(),
    }
}

fn function(node: &Node, stage: &Stage) -> FunctionDescription {
    let descriptor = node.processor.descriptor();
    let state = node.processor.state();
    let labels = ["pass"]
        .into_iter()
        .chain(descriptor.labels.iter().copied());
    let links = labels.zip(&node.next).map(|(label, target)| {
        let to = match target {
            Target::Node(number) => stage
                .nodes
                .get(*number)
                .map_or_else(String::new, |node| node.name.clone()),
            Target::Out => "out".to_owned(),
            Target::Later(number) => format!("later {number}"),
            Target::Drop => "drop".to_owned(),
        };
        LinkDescription { label, to }
    });
    FunctionDescription {
        name: node.name.clone(),
        nf: descriptor.name,
        summary: descriptor.summary,
        needs: needs(descriptor.needs),
        scope: (descriptor.needs == Needs::Flow).then(|| node.processor.scope().describe()),
        state_bytes: state.bytes + state.stats_bytes,
        buffer_bytes: u64::from(descriptor.buffers) * u64::from(descriptor.buffer_bytes),
        reads: descriptor.reads.names().collect(),
        writes: descriptor.writes.names().collect(),
        emits: descriptor.emits,
        drops: descriptor.drops.iter().map(|drop| drop.name()).collect(),
        links: links.collect(),
    }
}

fn instance(instance: &Instance) -> InstanceDescription {
    InstanceDescription {
        name: instance.name.clone(),
        template: instance.template.clone(),
        summary: instance.summary.clone(),
        processors: instance.processors.clone(),
        left_out: instance.left_out.clone(),
    }
}

fn flows(chain: &Chain) -> FlowsDescription {
    let flows = &chain.stage.flows;
    let t = &flows.timeouts;
    let timeouts = if *t == Timeouts::NONE {
        vec!["none".to_owned()]
    } else {
        [
            ("tcp-opening", t.tcp_opening),
            ("tcp-established", t.tcp_established),
            ("tcp-closing", t.tcp_closing),
            ("tcp-closed", t.tcp_closed),
            ("udp", t.udp),
            ("icmp", t.icmp),
            ("other", t.other),
        ]
        .into_iter()
        .map(|(name, time)| format!("{name} {}", show_duration(time)))
        .collect()
    };
    FlowsDescription {
        max: flows.max,
        when_full: match flows.when_full {
            WhenFull::Refuse => "refuse",
            WhenFull::Evict => "evict",
        },
        timeouts,
        inner: flows.inner,
        zone: flows.zone,
        icmp: match flows.icmp {
            IcmpKey::Conversation => "conversation",
            IcmpKey::Addresses => "addresses",
        },
        malformed: match flows.malformed {
            OnMalformed::Drop => "drop",
            OnMalformed::Pass => "pass",
        },
        buffers: flows.buffer_bytes,
        held_fragments: flows.held_fragments,
    }
}

impl fmt::Display for Description {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ports: Vec<String> = self
            .ports
            .iter()
            .map(|port| match port.name == port.side {
                true => port.name.clone(),
                false => format!("{} ({})", port.name, port.side),
            })
            .collect();
        writeln!(f, "chain {}", self.chain)?;
        writeln!(f, "  takes   {}", self.takes)?;
        writeln!(f, "  ports   {}", ports.join(", "))?;
        match (&self.flows, &self.unit) {
            (Some(flows), Some(unit)) => {
                writeln!(
                    f,
                    "  flows   at most {}, then {}; kept together per {unit}",
                    flows.max, flows.when_full
                )?;
                writeln!(f, "  idle    {}", flows.timeouts.join(", "))?;
            }
            _ => writeln!(
                f,
                "  flows   none are kept; packets are read to the {}",
                self.needs
            )?,
        }
        for instance in &self.templates {
            let named = match instance.name == instance.template {
                true => String::new(),
                false => format!(" ({})", instance.template),
            };
            let processors = instance.processors.join(", ");
            write!(f, "  {}{named} is {processors}", instance.name)?;
            match instance.left_out.as_slice() {
                [] => writeln!(f)?,
                left_out => writeln!(f, "; left out: {}", left_out.join(", "))?,
            }
        }
        self.table(f)
    }
}

impl Description {
    /// The functions, a line each, in columns.
    fn table(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let width = |of: &dyn Fn(&FunctionDescription) -> usize| {
            self.functions.iter().map(of).max().unwrap_or(0)
        };
        let name = width(&|function| function.name.chars().count()).max(4);
        let scope = width(&|function| function.scope.as_ref().map_or(1, String::len)).max(5);
        let parts = |parts: &[&str]| match parts {
            [] => "-".to_owned(),
            parts => parts.join("+"),
        };
        let reads = width(&|function| parts(&function.reads).len()).max(5);
        let writes = width(&|function| parts(&function.writes).len()).max(6);
        writeln!(
            f,
            "  {:name$}  {:9}  {:scope$}  {:>5}  {:reads$}  {:writes$}  links",
            "name", "needs", "state", "bytes", "reads", "writes"
        )?;
        for function in &self.functions {
            let links: Vec<String> = function
                .links
                .iter()
                .map(|link| format!("{} → {}", link.label, link.to))
                .collect();
            writeln!(
                f,
                "  {:name$}  {:9}  {:scope$}  {:>5}  {:reads$}  {:writes$}  {}",
                function.name,
                function.needs,
                function.scope.as_deref().unwrap_or("-"),
                function.state_bytes,
                parts(&function.reads),
                parts(&function.writes),
                links.join(", ")
            )?;
        }
        Ok(())
    }
}
