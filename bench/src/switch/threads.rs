//! A cluster on threads against an engine on one: how long packets take, all in all.

use std::time::Instant;

use weir::driver::{Cluster, ClusterSettings};
use weir_io::port::{GeneratorInput, InputPort, Null, OutputPort};
use weir_nf::host::Stage;

use crate::line::{self, BATCH};

/// Sends packets through a cluster; nanoseconds that passed.
pub(crate) fn pass(
    cluster: &mut Cluster,
    source: &mut GeneratorInput,
    packets: usize,
) -> Result<u64, String> {
    let start = Instant::now();
    let mut sink = Null::default();
    let (mut input, mut out, mut events) = (Vec::new(), Vec::new(), Vec::new());
    let mut left = packets;
    loop {
        let batch = left.min(BATCH).min(cluster.room());
        if batch > 0 {
            source
                .receive(&mut cluster.pool, &mut input, batch)
                .map_err(|error| error.to_string())?;
            left -= input.len();
            cluster.take(0, &mut input);
        }
        let worked = cluster
            .step(&mut out, &mut events, batch == 0)
            .map_err(|error| error.to_string())?;
        sink.send(&mut cluster.pool, &mut out)
            .map_err(|error| error.to_string())?;
        events.clear();
        if left == 0 && !worked && cluster.is_quiet() {
            return Ok(start.elapsed().as_nanos() as u64);
        }
    }
}

/// A cluster as `weir run --runtimes` makes it.
pub(crate) fn cluster(stage: &Stage, runtimes: u32) -> Result<Cluster, String> {
    let settings = ClusterSettings {
        runtimes,
        engine: line::CONFIG,
        ..ClusterSettings::default()
    };
    Cluster::start(std::slice::from_ref(stage), settings).map_err(|error| error.to_string())
}
