//! The way of packets: generator, chain, sink.

use weir_io::generator::GeneratorSpec;
use weir_io::port::{GeneratorInput, InputPort, Null, OutputPort};
use weir_nf::host::Stage;
use weir_packet::{Frame, FramePool, MemoryLayout, PacketMemory, Side};
use weir_runtime::{Classifier, Report, Role, Runtime, RuntimeConfig};

/// Packets that are taken in at a time.
pub(crate) const BATCH: usize = 64;

/// The settings that `weir run` gives its engines without `--events`.
pub(crate) const CONFIG: RuntimeConfig = RuntimeConfig {
    seed: 1,
    advise: weir_io::advise_large_pages,
    cycles: weir_io::cycles,
    event_bytes: 0,
    follows: false,
    role: Role::Alone,
    audit: false,
    at_start: None,
};

/// A runtime as `weir run` makes it without `--events`.
pub(crate) fn runtime(stage: &Stage) -> Result<Runtime, String> {
    Runtime::new(stage, CONFIG).map_err(|error| error.to_string())
}

/// The front half of a switch for this stage.
pub(crate) fn classifier(stage: &Stage) -> Result<Classifier, String> {
    Classifier::new(stage, CONFIG).map_err(|error| error.to_string())
}

/// Memory for packets.
pub(crate) fn pool() -> Result<FramePool, String> {
    let memory = PacketMemory::new(MemoryLayout::default(), weir_io::advise_large_pages);
    FramePool::new(memory).ok_or_else(|| "packet memory was taken twice".to_owned())
}

/// Memory for packets and the ends of a chain.
pub(crate) struct Line {
    pool: FramePool,
    sink: Null,
    input: Vec<Frame>,
    output: Vec<Frame>,
}

impl Line {
    pub(crate) fn new() -> Result<Line, String> {
        Ok(Line {
            pool: pool()?,
            sink: Null::default(),
            input: Vec::with_capacity(2 * BATCH),
            output: Vec::with_capacity(16 * BATCH),
        })
    }

    /// Packets from `source` straight to the sink: what making and giving them back costs.
    #[inline(never)]
    pub(crate) fn sink(
        &mut self,
        source: &mut GeneratorInput,
        packets: usize,
    ) -> Result<(), String> {
        let mut left = packets;
        while left > 0 {
            let batch = left.min(BATCH);
            source
                .receive(&mut self.pool, &mut self.input, batch)
                .map_err(|error| error.to_string())?;
            self.sink
                .send(&mut self.pool, &mut self.input)
                .map_err(|error| error.to_string())?;
            left -= batch;
        }
        Ok(())
    }

    /// Packets from `source` through `step` to the sink.
    #[inline(always)]
    pub(crate) fn through(
        &mut self,
        source: &mut GeneratorInput,
        packets: usize,
        mut step: impl FnMut(&mut FramePool, &mut Vec<Frame>, &mut Vec<Frame>),
    ) -> Result<(), String> {
        let mut left = packets;
        while left > 0 {
            let batch = left.min(BATCH);
            source
                .receive(&mut self.pool, &mut self.input, batch)
                .map_err(|error| error.to_string())?;
            step(&mut self.pool, &mut self.input, &mut self.output);
            self.sink
                .send(&mut self.pool, &mut self.output)
                .map_err(|error| error.to_string())?;
            left -= batch;
        }
        Ok(())
    }

    /// Packets from `source` through stages, one after the other, to the sink.
    #[inline(never)]
    pub(crate) fn pass_stages(
        &mut self,
        source: &mut GeneratorInput,
        stages: &mut [Runtime],
        packets: usize,
    ) -> Result<(), String> {
        let mut between = Vec::with_capacity(16 * BATCH);
        self.through(source, packets, |pool, input, output| {
            for (number, stage) in stages.iter_mut().enumerate() {
                if number == 0 {
                    stage.process(pool, input, output);
                } else {
                    core::mem::swap(&mut between, output);
                    stage.process(pool, &mut between, output);
                }
            }
        })
    }

    /// Packets from `source` through a classifier to the sink.
    #[inline(never)]
    pub(crate) fn classify(
        &mut self,
        source: &mut GeneratorInput,
        classifier: &mut Classifier,
        packets: usize,
    ) -> Result<(), String> {
        self.through(source, packets, |pool, input, output| {
            classifier.classify(pool, input, output);
        })
    }

    /// Packets from `source` through a chain to the sink.
    #[inline(never)]
    pub(crate) fn pass(
        &mut self,
        source: &mut GeneratorInput,
        runtime: &mut Runtime,
        packets: usize,
    ) -> Result<(), String> {
        self.through(source, packets, |pool, input, output| {
            runtime.process(pool, input, output);
        })
    }
}

/// Packets of `flows` flows, `settings` for the rest of them.
pub(crate) struct Traffic {
    pub(crate) flows: u32,
    pub(crate) settings: String,
}

impl Traffic {
    fn source(&self, more: &str) -> Result<GeneratorInput, String> {
        let text = format!("flows={},{},{more}", self.flows, self.settings);
        let spec = GeneratorSpec::parse(&text).map_err(|error| error.to_string())?;
        Ok(GeneratorInput::new(&spec, 0, Side::Inside))
    }

    /// Each flow once, one after another, ten seconds before the rest.
    pub(crate) fn opening(&self) -> Result<GeneratorInput, String> {
        self.source(&format!(
            "popularity=sequential,start=1767225590,packets={}",
            self.flows
        ))
    }

    /// Flows picked uniformly at random, without an end.
    pub(crate) fn uniform(&self) -> Result<GeneratorInput, String> {
        self.source("popularity=uniform,packets=1000000G")
    }

    /// Opens all flows of the traffic, one packet each.
    pub(crate) fn open(&self, line: &mut Line, runtime: &mut Runtime) -> Result<(), String> {
        line.pass(&mut self.opening()?, runtime, self.flows as usize)
    }
}

/// Errors that make a figure worthless: packets dropped, or flows opened or ended while it was
/// measured.
pub(crate) fn check(report: &Report, traffic: &Traffic) -> Result<(), String> {
    if report.dropped() > 0 || report.packets_out != report.packets_in {
        return Err(format!("packets were dropped: {:?}", report.drops));
    }
    let flows = &report.flows;
    if flows.tracked && (flows.seen, flows.active) != (traffic.flows.into(), traffic.flows.into()) {
        return Err(format!(
            "{} flows were opened and {} are open, not {}",
            flows.seen, flows.active, traffic.flows
        ));
    }
    Ok(())
}
