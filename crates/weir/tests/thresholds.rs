//! Thresholds of rules count the alerts of a run, wherever flows live and whichever processes die.

#[path = "support/long.rs"]
mod long;
#[path = "support/process.rs"]
mod process;
mod support;

use std::collections::BTreeMap;

use long::Long;
use serde_json::Value;
use support::compare::Run;
use support::{Folder, events, number, run_json};

const CHAIN: &str = r#"
chain: thresholds
nfs:
  - ids:
      rules: |
        alert ip any any -> any any (msg:"all"; dsize:>0; threshold:type threshold, track by_rule, count 1000, seconds 36000; sid:1;)
        alert ip any any -> any any (msg:"first"; dsize:>0; threshold:type limit, track by_src, count 3, seconds 36000; sid:2;)
        alert ip any any -> any any (msg:"late"; dsize:>0; detection_filter:track by_both, count 60, seconds 36000; sid:3;)
"#;

/// Alerts written, by signature and by what they are counted with.
fn told(events: &[Value]) -> BTreeMap<(u64, String), u64> {
    let mut told = BTreeMap::new();
    for event in events {
        assert!(event.get("limit").is_none(), "{event}");
        let sid = event["alert"]["signature_id"].as_u64().unwrap();
        let address = |name: &str| event[name].as_str().unwrap().to_owned();
        let with = match sid {
            1 => String::new(),
            2 => address("src_ip"),
            _ => address("src_ip") + " " + &address("dest_ip"),
        };
        *told.entry((sid, with)).or_default() += 1;
    }
    told
}

#[test]
fn placements_write_the_same_numbers_of_alerts() {
    let folder = Folder::new();
    let chain = folder.write("chain.yaml", CHAIN);
    let input = "gen:flows=500,packets=40k,proto=udp,size=100,both=yes,seed=3";
    let of = |more: &[&str]| {
        let file = folder.path(&format!("{}.json", more.join("")));
        let args = [&["--in", input, "--out", "null", "--events", &file], more].concat();
        let summary = run_json(&chain, &args);
        let written = events(&file);
        let found = number(&summary, "/nfs/ids/counters/alerts");
        assert_eq!(found, 3 * 40_000, "{more:?}");
        let limited = number(&summary, "/events_limited");
        assert_eq!(limited, found - written.len() as u64, "{more:?}");
        told(&written)
    };
    let plain = of(&[]);
    assert_eq!(plain[&(1, String::new())], 40);
    let firsts = plain.iter().filter(|((sid, _), _)| *sid == 2);
    assert!(firsts.clone().count() > 10 && firsts.clone().all(|(_, count)| *count == 3));
    assert!(plain.keys().any(|(sid, _)| *sid == 3));
    for more in [
        &["--workers", "2"][..],
        &["--runtimes", "3"],
        &["--runtimes", "3", "--replication", "each-burst"],
        &["--runtimes", "2", "--processes"],
    ] {
        assert_eq!(of(more), plain, "{more:?}");
    }
}

#[test]
fn a_runtime_that_is_killed_takes_no_count_with_it() {
    let folder = Folder::new();
    let chain = folder.write("chain.yaml", CHAIN);
    let of = |run: &Run| {
        let lines = run.events.iter().map(|line| serde_json::from_str(line));
        told(&lines.collect::<Result<Vec<Value>, _>>().unwrap())
    };
    let plain = of(&Long::start(&chain, "300k", &[]).ended());
    assert_eq!(plain[&(1, String::new())], 300);
    let more = [
        "--runtimes",
        "3",
        "--processes",
        "--replication",
        "each-burst",
    ];
    let (run, killed) = Long::start(&chain, "300k", &more).killed_again_and_again();
    assert!(killed > 0, "it was over before");
    assert_eq!(of(&run), plain);
}
