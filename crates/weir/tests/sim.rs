//! `weir sim`: small campaigns, planted bugs, repeatability, exit codes.

use std::process::{Command, Output};

use serde_json::Value;

fn sim(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_weir"))
        .arg("sim")
        .args(args)
        .args(["--quiet"])
        .output()
        .unwrap()
}

fn json(args: &[&str]) -> (bool, Value) {
    let mut all = args.to_vec();
    all.extend(["--output", "json"]);
    let output = sim(&all);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let value = serde_json::from_str(&text).unwrap_or_else(|_| panic!("{args:?}: {text}"));
    (output.status.success(), value)
}

#[test]
fn no_invariant_is_broken_under_every_fault() {
    for links in [&[][..], &["--plain-links"][..]] {
        let mut args = vec!["--seeds", "16", "--packets", "600", "--moves", "25"];
        args.extend(links);
        let (held, report) = json(&args);
        assert!(held, "{report:#}");
        assert_eq!(report["seeds"], 16);
        assert!(report["tally"]["moved"].as_u64() > Some(500), "{report:#}");
        assert!(report["tally"]["resumed"].as_u64() > Some(10), "{report:#}");
    }
}

#[test]
fn a_seed_of_the_size_of_the_campaign_has_its_owner_changes() {
    let (held, report) = json(&["--seed", "5", "--runtimes", "3"]);
    assert!(held, "{report:#}");
    assert!(report["packets"].as_u64() >= Some(5_000));
    assert!(report["owner_changes_least"].as_u64() >= Some(50));
}

#[test]
fn a_time_ends_it_where_seeds_would_go_on() {
    let (fine, report) = json(&["--seeds", "1000000000", "--packets", "50", "--for", "1"]);
    assert!(fine, "{report:#}");
    let seeds = report["seeds"].as_u64().unwrap();
    assert!((1..1_000_000_000).contains(&seeds), "{seeds}");
}

#[test]
fn planted_bugs_are_found() {
    let (found, rows) = json(&["--plants"]);
    assert!(found, "{rows:#}");
    assert!(rows.as_array().map(Vec::len) > Some(60));
}

#[test]
fn leases_hold_and_bugs_planted_in_them_are_found() {
    let (held, report) = json(&["--lease", "--seeds", "50", "--jobs", "2"]);
    assert!(held, "{report:#}");
    assert_eq!(report["seeds"], 50);
    assert!(report["tenants"].as_u64() > Some(50), "{report:#}");
    let (found, rows) = json(&["--lease", "--plants"]);
    assert!(found, "{rows:#}");
    let output = sim(&["--lease", "--seed", "7", "--plant", "length-ignored"]);
    let text = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(1), "{text}");
    for part in [
        "seed 7: promise at",
        "repeat: weir sim --lease --seed 7 --plant length-ignored",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert_eq!(sim(&["--lease", "--mode", "ring"]).status.code(), Some(2));
}

#[test]
fn a_failing_seed_says_how_to_repeat_it_and_what_happened() {
    let plant = ["--plant", "no-order-at-gate", "--faults", "loss,reorder"];
    let sizes = ["--packets", "300", "--flows", "20", "--moves", "10"];
    let output = sim(&[&plant[..], &sizes[..], &["--seeds", "50", "--plain-links"]].concat());
    let text = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(1), "{text}");
    for part in [
        "repeat: weir sim --seed",
        "made smaller",
        "V numbers",
        "V lets out",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
}

#[test]
fn a_capture_takes_the_place_of_the_generator() {
    let capture = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../examples/captures/mixed.pcapng"
    );
    let (held, report) = json(&["--in", capture, "--seeds", "3", "--packets", "400"]);
    assert!(held, "{report:#}");
    assert!(report["packets"].as_u64() > Some(300));
}

#[test]
fn what_makes_no_sense_is_refused() {
    for (args, word) in [
        (["--faults", "fire"], "fire"),
        (["--chain", "none"], "none"),
        (["--plant", "tree"], "tree"),
    ] {
        let output = sim(&args);
        let text = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{text}");
        assert!(text.contains(word), "{text}");
    }
}
