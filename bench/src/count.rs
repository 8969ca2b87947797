//! Chains to count instructions of: packets go through untimed.

use crate::chain::{self, Texts};
use crate::line::{self, Line, Traffic};
use crate::router;
use crate::stages;
use crate::switch::Single;

/// Flows: few, since counts don't depend on caches.
const FLOWS: u32 = 1_000;

/// Opens the flows and sends `packets` packets through `chain`: functions joined by `+`, with `|` where it is cut into stages, or
/// `sink` for none, `classifier` for a switch's front half alone. The same traffic for all chains, so that their counts can be compared.
/// `router-gate`, `router-link` and their `router-sink` have traffic of their own.
pub(crate) fn count(chain: &str, packets: usize) -> Result<(), String> {
    if let Some(form) = router::Form::of(chain) {
        return router::count(form, packets);
    }
    if chain == "router-sink" {
        return router::count_sink(packets);
    }
    let traffic = Traffic {
        flows: FLOWS,
        settings: "size=512,payload=http".to_owned(),
    };
    let mut line = Line::new()?;
    let mut source = traffic.uniform()?;
    if chain == "sink" {
        return line.sink(&mut source, packets);
    }
    if chain == "classifier" {
        let stage = chain::stage(&["engine"], &mut Texts(&[]))?;
        let mut classifier = line::classifier(&stage)?;
        line.classify(&mut traffic.opening()?, &mut classifier, FLOWS as usize)?;
        line.classify(&mut source, &mut classifier, packets)?;
        return line::check(&classifier.report(), &traffic);
    }
    let nfs: Vec<&str> = chain.split(['+', '|']).collect();
    let stage = chain::stage(&nfs, &mut Texts(&[]))?;
    if chain.contains('|') {
        let parts = chain.split('|').map(|part| part.split('+').count());
        let ends = parts.scan(0, |sum, count| {
            *sum += count;
            Some(*sum)
        });
        let cuts: Vec<usize> = ends.filter(|end| *end < nfs.len()).collect();
        let mut stages = stages::runtimes(&stage, &cuts)?;
        line.pass_stages(&mut traffic.opening()?, &mut stages, FLOWS as usize)?;
        line.pass_stages(&mut source, &mut stages, packets)?;
        return line::check(&stages::report(&stages), &traffic);
    }
    let mut runtime = line::runtime(&stage)?;
    traffic.open(&mut line, &mut runtime)?;
    line.pass(&mut source, &mut runtime, packets)?;
    line::check(&runtime.report(), &traffic)
}

/// The same through a switch and so many runtimes, all on one thread.
pub(crate) fn count_switch(chain: &str, runtimes: u32, packets: usize) -> Result<(), String> {
    let traffic = Traffic {
        flows: FLOWS,
        settings: "size=512,payload=http".to_owned(),
    };
    let nfs: Vec<&str> = chain.split('+').collect();
    let stage = chain::stage(&nfs, &mut Texts(&[]))?;
    let mut single = Single::new(&stage, runtimes)?;
    single.pass(&mut traffic.opening()?, FLOWS as usize)?;
    single.pass(&mut traffic.uniform()?, packets)?;
    single.check(u64::from(FLOWS) + packets as u64)
}
