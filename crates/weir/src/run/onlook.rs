//! Somebody looks on while packets go by: `weir trace` and `weir tap` on
//! captures.

use weir_ctl::observe::Places;
use weir_graph::ChainFile;
use weir_packet::Side;

use crate::args::Run;
use crate::exit::Failure;

use super::ports::{Also, Ports};

/// Looks at what engines have seen.
pub(crate) trait Onlooker {
    /// Called after each batch of packets and once all are out. False where it
    /// wants no more packets.
    fn look(&mut self) -> Result<bool, Failure>;
}

/// The one who looks on, if anybody does.
pub(super) struct Watched<'a>(pub(super) Option<&'a mut dyn Onlooker>);

impl Watched<'_> {
    /// False where no more packets are wanted.
    pub(super) fn look(&mut self) -> Result<bool, Failure> {
        match &mut self.0 {
            Some(onlooker) => onlooker.look(),
            None => Ok(true),
        }
    }

    /// The onlooker's output is the run's: there is no summary.
    pub(super) fn is_on(&self) -> bool {
        self.0.is_some()
    }
}

fn ports_of(args: &Run, file: &ChainFile) -> Result<Ports, Failure> {
    let also = Also {
        chain: &args.chain,
        script: None,
        events: &[],
    };
    let ports = Ports::parse(&args.input, &args.out, file, also)?;
    if ports.are_live() {
        return Err(Failure::usage(
            "--in takes captures and the generator here; for interfaces start `weir run` and look on there, without --in",
        ));
    }
    Ok(ports)
}

/// Names of the inputs, by number.
pub(crate) fn input_names(args: &Run, file: &ChainFile) -> Result<Vec<String>, Failure> {
    let ports = ports_of(args, file)?;
    Ok(ports.inputs.into_iter().map(|port| port.name).collect())
}

/// The places at which the run can be tapped.
pub(crate) fn places(args: &Run, file: &ChainFile) -> Result<Places, Failure> {
    let ports = ports_of(args, file)?;
    let inputs: Vec<(String, Side)> = ports
        .inputs
        .into_iter()
        .map(|port| (port.name, port.side))
        .collect();
    Ok(Places::of(file, &inputs))
}
