//! §9.4: recovery of a unit that dies at half load, by three designs.
//!
//! A model over a real run: a unit of the run is looked at every 10 ms, as if it died then: how
//! many flowlets are under way there, what is in its queue, what came since the last checkpoint.
//! From that follows how long it takes until all its flows go on. That the death is noticed
//! is left out for all.
//!
//! - **Flowlets** (SNF, weir): the switch picks units for the flowlets (time of the real code); they
//!   ask the loggers, which answer with each state; states are put in place; packets that were on
//!   the way come again.
//! - **External store** (CHC): one new unit reads the state of each flow under way from the store,
//!   one after another, then takes the packets that were on the way, each of which has its state
//!   written before the next.
//! - **Checkpoints** (FTMB): the checkpoint (50 ms apart) is restored, and what came since is done
//!   once more, at the unit's capacity.

use serde_json::json;
use weir_protocol::flowlets::FlowletSettings;

use super::bed::{Outcome, Probe, Setting, Times};
use super::figures::run;
use super::report::{Report, time, times};
use super::scene::{Scene, TIMES, UNITS};
use super::trace::Shape;

/// Bytes of a state with its message.
const STATE: u64 = 128;
/// Bytes per second of a link: 10 Gbit/s.
const LINK: u64 = 1_250_000_000;
/// Nanoseconds that the switch takes for a boundary (see `cost`: less).
const BOUNDARY: u64 = 1_000;
/// Nanoseconds between looks.
const PROBE: u64 = 10_000_000;

/// Nanoseconds until all goes on, for flowlets, store, checkpoints.
fn recoveries(probe: &Probe, times: &Times, packets_per_s: f64) -> [u64; 3] {
    // On the way to the unit, in its queue, and on the way out.
    let open = (packets_per_s * (2 * times.way + probe.backlog) as f64 / 1e9).ceil() as u64;
    let flows = probe.flows.max(1);
    let flowlets = flows * BOUNDARY
        + 3 * times.way
        + flows * STATE * 1_000_000_000 / LINK
        + times.pack
        + open * UNITS.work;
    let request = 2 * times.way + times.store;
    let store = flows * request + open * (request + UNITS.work);
    let again = probe.since * 1_000_000_000 / UNITS.capacity;
    let checkpoints = 2 * times.way + times.pack + again;
    [flowlets, store, checkpoints]
}

/// The table.
pub(super) fn recovery(report: &mut Report, scene: Scene) -> Result<(), String> {
    let trace = scene.trace(Shape::wan());
    // Filled to half of what they can do: units are started at 90 % of this, and until the last
    // is needed it is used less.
    let settings = FlowletSettings {
        capacity: UNITS.capacity / 10 * 7,
        target: 100,
        ..FlowletSettings::DEFAULT
    };
    let outcome = run(
        &trace,
        Setting {
            probe: PROBE,
            ..scene.flowlets(settings)
        },
    )?;
    let mean = outcome.bytes as f64 / outcome.packets.max(1) as f64;
    let per_unit = outcome.packets as f64 / outcome.seconds / outcome.units();
    let mut all: [Vec<u64>; 3] = Default::default();
    for probe in &outcome.probes {
        let found = recoveries(probe, &TIMES, per_unit);
        all.iter_mut()
            .zip(found)
            .for_each(|(all, one)| all.push(one));
        report.raw(&json!({
            "figure": "9.4", "flows": probe.flows, "backlog_ns": probe.backlog,
            "bytes_since_checkpoint": probe.since, "flowlets_ns": found[0], "store_ns": found[1],
            "checkpoints_ns": found[2],
        }))?;
    }
    all.iter_mut().for_each(|times| times.sort_unstable());
    table(report, &outcome, mean, &all);
    Ok(())
}

fn table(report: &mut Report, outcome: &Outcome, mean: f64, all: &[Vec<u64>; 3]) {
    let at = |times: &[u64], share: usize| {
        let place = times.len().saturating_sub(1) * share / 100;
        times.get(place).copied().unwrap_or(0)
    };
    let best = at(&all[0], 50);
    let designs = [
        ("flowlets and loggers (SNF, weir)", "140 µs"),
        ("external store (CHC)", "3.2 ms (22.8 ×)"),
        ("checkpoints each 50 ms (FTMB)", "25.7 ms (183.6 ×)"),
    ];
    let rows: Vec<Vec<String>> = designs
        .into_iter()
        .zip(all)
        .map(|((design, paper), found)| {
            vec![
                design.to_owned(),
                time(at(found, 50)),
                time(at(found, 99)),
                times(at(found, 50), best),
                paper.to_owned(),
            ]
        })
        .collect();
    let columns = ["design", "median", "p99", "ratio", "paper"];
    report.table("§9.4: recovery of a NAT unit (modelled)", &columns, &rows);
    let flows: Vec<u64> = outcome.probes.iter().map(|probe| probe.flows).collect();
    report.say(&format!(
        "{} moments; unit at {:.0} % of its capacity, {mean:.0} B a packet, {:.0} flowlets under \
         way on average.",
        flows.len(),
        outcome.offered() / 8.0 / outcome.units() / UNITS.capacity as f64 * 100.0,
        flows.iter().sum::<u64>() as f64 / flows.len().max(1) as f64,
    ));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_checkpoint_costs_what_came_since() {
        let probe = Probe {
            flows: 10,
            backlog: 0,
            since: UNITS.capacity / 100,
        };
        let [flowlets, store, checkpoints] = recoveries(&probe, &TIMES, 50_000.0);
        assert_eq!(checkpoints, 10_000_000 + 2 * TIMES.way + TIMES.pack);
        assert!(flowlets < store && store < checkpoints);
    }
}
