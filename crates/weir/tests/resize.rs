//! Runtimes that come and go under traffic (`weir scale`, `weir drain`): packets of each flow, in
//! order, what functions found and what they counted are those of a run in which none does.

#[path = "support/long.rs"]
mod long;
#[path = "support/process.rs"]
mod process;
mod support;

use std::time::Duration;

use long::Long;
use process::wait_for;
use support::compare::Run;
use support::{Ran, number, run};

const CHAIN: &str = "webedge.yaml";

/// The runtimes that are up, in the order of their places; `None` once the run is over.
fn ready(socket: &str) -> Option<Vec<String>> {
    let asked = run(["get", "runtimes", socket, "--output", "json"]);
    let rows = (asked.code == 0).then(|| asked.json())?;
    let rows = rows.as_array()?.iter();
    let ready = rows.filter(|row| row["state"] == "ready");
    Some(ready.map(|row| row["runtime"].to_string()).collect())
}

fn both_run(socket: &str) {
    wait_for("both runtimes", || ready(socket).filter(|up| up.len() == 2));
}

/// Scales out and in, and drains, until the run is over; gives what it left, and how often the
/// number of runtimes changed.
fn resized(mut long: Long) -> (Run, u32) {
    let socket = long.socket();
    let ask = |words: &[&str]| -> Ran {
        let how = ["--instance", &socket, "--output", "json"];
        run([words, &how].concat())
    };
    let mut changed = 0;
    while long.child().try_wait().unwrap().is_none() {
        let steps: [&dyn Fn() -> Option<Ran>; 4] = [
            &|| Some(ask(&["scale", "4"])),
            &|| {
                let up = ready(&socket)?;
                // The new ones get some of the flows, as those are all open.
                let (from, to) = (up.first()?, up.last()?);
                Some(ask(&["move", from, to, "--count", "40"]))
            },
            &|| Some(ask(&["drain", ready(&socket)?.first()?, "--mode", "pull"])),
            &|| Some(ask(&["scale", "2"])),
        ];
        for step in steps {
            // It may be over, or about to end.
            let Some(ran) = step().filter(|ran| ran.code == 0) else {
                break;
            };
            let json = ran.json();
            let any = |of: &str| json[of].as_array().is_some_and(|ids| !ids.is_empty());
            changed += u32::from(any("started") || any("drained"));
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    (long.ended(), changed)
}

fn compare(plain: &Run, run: &Run, what: &str) {
    for field in [
        "packets_in",
        "packets_out",
        "bytes_out",
        "emitted",
        "held",
        "drops",
    ] {
        assert_eq!(plain.summary[field], run.summary[field], "{what}: {field}");
    }
    for field in ["lost", "reordered", "unfinished"] {
        assert_eq!(run.summary["hand_overs"][field], 0, "{what}: {field}");
    }
    assert!(plain.out == run.out, "{what}: packets of flows differ");
    assert!(plain.events == run.events, "{what}: other events");
}

#[test]
fn runtimes_come_and_go_and_no_flow_notices() {
    let plain = Long::start(CHAIN, "400k", &[]).ended();
    let room = ["--runtimes", "2", "--most-runtimes", "4"];
    let ways: [&[&str]; 3] = [
        &[],
        &["--processes"],
        &["--processes", "--replication", "each-burst"],
    ];
    for more in ways {
        let (run, changed) = resized(Long::start(CHAIN, "400k", &[&room, more].concat()));
        assert!(changed >= 3, "{more:?}: it changed {changed} times");
        compare(&plain, &run, &format!("{more:?}"));
        let runtimes = run.summary["runtimes"].as_array().unwrap();
        assert!(runtimes.len() > 4, "{runtimes:?}");
        let packets: u64 = runtimes.iter().map(|its| number(its, "/packets")).sum();
        assert!(packets >= 400_000, "{packets}");
    }
}

#[test]
fn runtimes_on_hosts_come_and_go() {
    let plain = Long::start(CHAIN, "400k", &[]).ended();
    let hosts = "  - {name: alpha, runtimes: 1}\n  - {name: beta, runtimes: 1}";
    let long = Long::up(
        CHAIN,
        "400k",
        hosts,
        "most_runtimes: 4\nreplication: each-burst",
    );
    let (run, changed) = resized(long);
    assert!(changed >= 2, "it changed {changed} times");
    compare(&plain, &run, "hosts");
}

#[test]
fn what_cannot_be_is_refused() {
    let mut long = Long::start(
        "http.yaml",
        "1M",
        &["--runtimes", "2", "--most-runtimes", "3"],
    );
    let socket = long.socket();
    while ready(&socket).is_none_or(|up| up.len() < 2) {
        assert!(long.child().try_wait().unwrap().is_none(), "it is over");
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    let ask = |words: &[&str]| run([words, &["--instance", &socket]].concat());
    for (words, code, part) in [
        (&["drain", "7"][..], 1, "there is no runtime 7"),
        (&["drain"], 2, "<RUNTIME>"),
        (&["drain", "--host", "mars"], 1, "runtimes are on local"),
        (&["scale", "4"], 1, "`--most-runtimes 4`"),
        (&["drain", "1", "2"], 1, "no other runtime is ready"),
        (&["drain", "1", "7"], 1, "there is no runtime 7"),
        (&["scale", "0"], 2, "0 is not in 1..=64"),
    ] {
        let ran = ask(words);
        assert!(
            ran.code == code && ran.err.contains(part),
            "{words:?}: {}",
            ran.err
        );
    }
    // The last one stays.
    let drained = ask(&["drain", "1"]);
    assert_eq!(drained.code, 0, "{}", drained.err);
    assert!(drained.out.contains("runtime 1 is over"), "{}", drained.out);
    let refused = ask(&["drain", "2"]);
    assert!(refused.err.contains("`weir scale 2`"), "{}", refused.err);
    // Its place is free again, for another number.
    let scaled = ask(&["scale", "3"]);
    assert_eq!(scaled.code, 0, "{}", scaled.err);
    assert_eq!(ready(&socket).unwrap(), ["4", "2", "3"]);
    let again = ask(&["drain", "1"]);
    assert!(again.err.contains("runtime 1 is over"), "{}", again.err);
    // Those of one request go together.
    let both = ask(&["drain", "2", "4"]);
    assert_eq!(both.code, 0, "{}", both.err);
    assert_eq!(ready(&socket).unwrap(), ["3"]);
}

/// One of two is drained though nobody can take its replicas: flows go on without, and have one
/// again with the next runtime.
#[test]
fn one_is_left_without_replicas_and_no_flow_notices() {
    let plain = Long::start(CHAIN, "400k", &[]).ended();
    let ways = [
        "--runtimes",
        "2",
        "--processes",
        "--replication",
        "each-burst",
    ];
    let long = Long::start(CHAIN, "400k", &ways);
    let socket = long.socket();
    let ask = |words: &[&str]| run([words, &["--instance", &socket]].concat());
    both_run(&socket);
    let drained = ask(&["drain", "2"]);
    assert_eq!(drained.code, 0, "{}", drained.err);
    assert!(drained.out.contains("without a replica"), "{}", drained.out);
    let scaled = ask(&["scale", "2"]);
    assert_eq!(scaled.code, 0, "{}", scaled.err);
    wait_for("units that are protected", || long.whole());
    compare(&plain, &long.ended(), "one is left");
}

/// The runtime that was to take the units dies: its successor gets them.
#[test]
fn a_drain_outlives_the_runtime_that_takes() {
    let mut long = Long::start("http.yaml", "1M", &["--runtimes", "2", "--processes"]);
    let socket = long.socket();
    both_run(&socket);
    let asked = run(["get", "runtimes", &socket, "--output", "json"]).json();
    let first = asked[0]["process"].as_u64().unwrap() as u32;
    let how = ["--timeout", "0", "--instance", &socket];
    let drained = run([&["drain", "2"][..], &how].concat());
    assert_eq!(drained.code, 0, "{}", drained.err);
    process::signal(first, rustix::process::Signal::KILL);
    wait_for("its end", || {
        let rows = run(["get", "runtimes", &socket, "--output", "json"]);
        assert!(
            long.child().try_wait().unwrap().is_none(),
            "the run is over"
        );
        let is_over = rows.code == 0 && rows.json()[1]["state"] == "over";
        is_over.then_some(())
    });
    let summary = long.ended().summary;
    let drops = summary["drops"].to_string();
    assert!(!drops.contains("no_runtime"), "{drops}");
}
