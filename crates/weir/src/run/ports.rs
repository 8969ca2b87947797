//! The ports of a run, and the side of the chain that each is on.

use std::path::{Path, PathBuf};

use weir_graph::ChainFile;
use weir_io::live::LiveSpec;
use weir_io::port::{InputPort, OutputPort, PortCounters, PortSpec, check_apart};
use weir_packet::{Frame, FramePool, MemoryLayout, Side};

use crate::driver::Target;
use crate::exit::Failure;

/// A port of the run.
#[derive(Clone, Debug)]
pub(crate) struct RunPort {
    /// Name in the chain.
    pub(super) name: String,
    pub(super) side: Side,
    /// As written on the command line.
    pub(super) text: String,
    pub(super) spec: PortSpec,
}

impl RunPort {
    /// As the control interface shows it.
    pub(super) fn info(&self) -> weir_api::v1::PortInfo {
        weir_api::v1::PortInfo {
            name: self.name.clone(),
            side: self.side.name().to_owned(),
            port: self.text.clone(),
        }
    }
}

/// The files of a run that are no ports: nothing may be written over them, nor
/// may they be written over a port's.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Also<'a> {
    /// The chain file.
    pub(crate) chain: &'a Path,
    /// The script.
    pub(crate) script: Option<&'a Path>,
    /// Targets that events are written to.
    pub(crate) events: &'a [PathBuf],
}

/// The ports of a run.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ports {
    pub(super) inputs: Vec<RunPort>,
    pub(super) outputs: Vec<RunPort>,
}

impl Ports {
    pub(crate) fn parse(
        inputs: &[String],
        outputs: &[String],
        file: &ChainFile,
        also: Also<'_>,
    ) -> Result<Ports, Failure> {
        let declared = Declared::of(file);
        let none = ["null".to_owned()];
        let outputs = if outputs.is_empty() { &none } else { outputs };
        let ports = Ports {
            inputs: read(inputs, &declared, Side::Inside)?,
            outputs: read(outputs, &declared, Side::Outside)?,
        };
        let specs = |ports: &'_ [RunPort], also: &[&Path]| {
            let also = also.iter().map(|path| PortSpec::Capture(path.into()));
            let specs = ports.iter().map(|p| p.spec.clone());
            specs.chain(also).collect::<Vec<_>>()
        };
        let mut inputs = specs(&ports.inputs, &[also.chain]);
        inputs.extend(also.script.map(|path| PortSpec::Capture(path.to_owned())));
        let events = also.events.iter().map(|target| Target::parse(target));
        let events = events.collect::<Result<Vec<Target>, Failure>>()?;
        let events: Vec<&Path> = events.iter().filter_map(Target::file).collect();
        check_apart(&inputs, &specs(&ports.outputs, &events))
            .map_err(|error| Failure::usage(error.to_string()))?;
        Ok(ports)
    }

    /// The interfaces, each once.
    pub(crate) fn live(&self) -> Vec<LiveSpec> {
        let all = self.inputs.iter().chain(&self.outputs);
        once(all.filter_map(|port| port.spec.live().cloned()))
    }

    /// True if at least one port is an interface.
    pub(super) fn are_live(&self) -> bool {
        let mut all = self.inputs.iter().chain(&self.outputs);
        all.any(|port| port.spec.live().is_some())
    }

    /// The packet memory that these ports need, without that of packets under
    /// way among threads.
    pub(super) fn memory(&self) -> MemoryLayout {
        let mut layout = MemoryLayout::default();
        let all = self.inputs.iter().chain(&self.outputs);
        layout.small_frames += all.map(|port| port.spec.held()).sum::<u32>();
        layout
    }

    /// True if an output is standard output.
    pub(super) fn write_to_standard_output(&self) -> bool {
        let standard = PortSpec::Capture("-".into());
        self.outputs.iter().any(|port| port.spec == standard)
    }

    pub(super) fn open_inputs(&self) -> Result<Vec<Box<dyn InputPort>>, Failure> {
        let open = |(number, port): (usize, &RunPort)| {
            port.spec
                .open_input(number as u8, port.side)
                .map_err(|error| Failure::outside(error.to_string()))
        };
        self.inputs.iter().enumerate().map(open).collect()
    }

    pub(super) fn open_outputs(&self) -> Result<Outputs, Failure> {
        let mut ports = Vec::new();
        for (number, port) in self.outputs.iter().enumerate() {
            let opened = port
                .spec
                .open_output(number as u8)
                .map_err(|error| Failure::outside(error.to_string()))?;
            ports.push((port.side, opened, Vec::new()));
        }
        Ok(Outputs { ports })
    }
}

/// Each interface once, in the order in which they were named.
pub(crate) fn once(ports: impl IntoIterator<Item = LiveSpec>) -> Vec<LiveSpec> {
    let mut all: Vec<LiveSpec> = Vec::new();
    for port in ports {
        if all
            .iter()
            .all(|other| other.interface() != port.interface())
        {
            all.push(port);
        }
    }
    all
}

/// The ports that the chains of a file name.
struct Declared(Vec<(String, Side)>);

impl Declared {
    fn of(file: &ChainFile) -> Declared {
        let mut all: Vec<(String, Side)> = Vec::new();
        for port in file.chains.iter().flat_map(|chain| &chain.ports) {
            if !all.iter().any(|(name, _)| *name == port.name) {
                all.push((port.name.clone(), port.side));
            }
        }
        Declared(all)
    }

    fn names(&self) -> String {
        self.0
            .iter()
            .map(|(name, side)| format!("{name} ({})", side.name()))
            .collect::<Vec<_>>()
            .join(", ")
    }
}

fn read(texts: &[String], declared: &Declared, default: Side) -> Result<Vec<RunPort>, Failure> {
    if texts.len() > 64 {
        return Err(Failure::usage("a run has at most 64 ports of each kind"));
    }
    let mut ports: Vec<RunPort> = Vec::new();
    for text in texts {
        let (name, spec) =
            PortSpec::parse(text).map_err(|error| Failure::usage(error.to_string()))?;
        let found = match name {
            Some(name) => declared.0.iter().find(|(n, _)| n == name).ok_or_else(|| {
                Failure::usage(format!(
                    "port `{text}`: the chain has no port {name}; it has {}",
                    declared.names()
                ))
            })?,
            None => declared.0.iter().find(|(_, side)| *side == default).ok_or_else(|| {
                Failure::usage(format!(
                    "port `{text}`: the chain has no port on the {} side; write NAME={text} with one of {}",
                    default.name(),
                    declared.names()
                ))
            })?,
        };
        ports.push(RunPort {
            name: found.0.clone(),
            side: found.1,
            text: text.clone(),
            spec,
        });
    }
    Ok(ports)
}

/// The open outputs.
pub(super) struct Outputs {
    ports: Vec<(Side, Box<dyn OutputPort>, Vec<Frame>)>,
}

impl Outputs {
    /// Sends each packet out on the side opposite to the one it came from, by
    /// the first port there; by the first port of all where there is none.
    pub(super) fn send(
        &mut self,
        pool: &mut FramePool,
        frames: &mut Vec<Frame>,
    ) -> Result<(), Failure> {
        if let [(_, port, _)] = self.ports.as_mut_slice() {
            return port
                .send(pool, frames)
                .map_err(|error| Failure::outside(error.to_string()));
        }
        for frame in frames.drain(..) {
            let towards = pool.memory().meta(&frame).side.opposite();
            let number = self
                .ports
                .iter()
                .position(|(side, ..)| *side == towards)
                .unwrap_or(0);
            match self.ports.get_mut(number) {
                Some((.., queue)) => queue.push(frame),
                None => pool.give(frame),
            }
        }
        for (_, port, queue) in &mut self.ports {
            if !queue.is_empty() {
                port.send(pool, queue)
                    .map_err(|error| Failure::outside(error.to_string()))?;
            }
        }
        Ok(())
    }

    pub(super) fn finish(&mut self, pool: &mut FramePool) -> Result<(), Failure> {
        for (_, port, _) in &mut self.ports {
            port.finish(pool)
                .map_err(|error| Failure::outside(error.to_string()))?;
        }
        Ok(())
    }

    pub(super) fn counters(&self) -> Vec<PortCounters> {
        self.ports
            .iter()
            .map(|(_, port, _)| port.counters())
            .collect()
    }
}
