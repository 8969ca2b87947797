//! `weir get flowlets`: how units are given to runtimes by flowlet, and the runtimes' loads.

use serde_json::{Value, json};
use weir_api::v1;

use super::{row, text};
use crate::args::{Format, Get};
use crate::exit::{Exit, Failure, Outcome};
use crate::output::{self, thousands};

pub(super) fn get(args: &Get, switches: &[v1::SwitchStats]) -> Outcome {
    let all = switches.iter();
    let all: Vec<(&str, &v1::FlowletStats)> = all
        .filter_map(|switch| Some((switch.chain.as_str(), switch.flowlets.as_ref()?)))
        .collect();
    if all.is_empty() {
        return Err(Failure::outside(
            "flows of this instance stay where they begin: `weir run --flowlets`, or `flowlets:` \
             of a composition, has them given out by flowlet",
        ));
    }
    match args.output {
        Format::Json => {
            let all = all.iter().map(|(chain, stats)| to_json(chain, stats));
            output::json(&all.collect::<Value>())?;
        }
        Format::Text => {
            let all: Vec<String> = all
                .iter()
                .map(|(chain, stats)| to_text(chain, stats))
                .collect();
            output::line(&all.join("\n"))?;
        }
    }
    Ok(Exit::Done)
}

fn to_json(chain: &str, stats: &v1::FlowletStats) -> Value {
    let load = |load: &v1::FlowletLoad| {
        json!({
            "runtime": load.runtime,
            "bytes_per_second": load.bytes_per_second,
            "utilisation": share(load.bytes_per_second, stats.room),
        })
    };
    json!({
        "chain": chain,
        "begun": stats.begun,
        "stayed": stats.stayed,
        "bound": stats.bound,
        "moved_ready": stats.moved_ready,
        "moved_waiting": stats.moved_waiting,
        "overfull": stats.overfull,
        "copies": stats.copies,
        "copies_used": stats.copies_used,
        "alpha": f64::from(stats.alpha) / 100.0,
        "copies_each": stats.copies_each,
        "room_bytes_per_second": stats.room,
        "runtimes": stats.loads.iter().map(load).collect::<Value>(),
    })
}

fn to_text(chain: &str, stats: &v1::FlowletStats) -> String {
    let moved = stats.moved_ready + stats.moved_waiting;
    let percent = |part: u64, of: u64| format!("{:.1} %", 100.0 * share(part, of));
    let mut table = vec![row(["RUNTIME", "MBIT/S", "OF ITS ROOM", ""])];
    table.extend(stats.loads.iter().map(|load| {
        row([
            &load.runtime.to_string(),
            &format!("{:.1}", load.bytes_per_second as f64 * 8.0 / 1e6),
            &percent(load.bytes_per_second, stats.room),
            "",
        ])
    }));
    format!(
        "{chain}: {} flowlets, {} moved, {} of them with the state there; {} could not move, {} \
         found no room\n{} copies sent ahead, {} used; alpha {:.2}, {} copies each\n\n{}",
        thousands(stats.begun),
        thousands(moved),
        percent(stats.moved_ready, moved),
        thousands(stats.bound),
        thousands(stats.overfull),
        thousands(stats.copies),
        percent(stats.copies_used, stats.copies),
        f64::from(stats.alpha) / 100.0,
        stats.copies_each,
        text(&table),
    )
}

fn share(part: u64, of: u64) -> f64 {
    part as f64 / of.max(1) as f64
}
