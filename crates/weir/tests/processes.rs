//! Stages in processes of their own: the same results as on threads, and what
//! becomes of a run whose processes are killed.

#[path = "support/outcome.rs"]
mod outcome;
#[path = "support/process.rs"]
mod process;
mod support;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use outcome::counts;
use process::{children, signal, wait_for};
use rustix::process::Signal;
use serde_json::Value;
use support::{capture, example};

fn weir() -> Command {
    Command::new(env!("CARGO_BIN_EXE_weir"))
}

fn scratch(name: &str) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("weir-processes-{name}-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

/// What a run of this chain made.
fn made(chain: &str, input: &[&str], apart: bool, folder: &Path) -> (Vec<u8>, Vec<String>, Value) {
    let mut command = weir();
    command
        .args(["run", &example(chain), "--plan", "pipeline"])
        .args(["--passes", "consolidate,hoist"]);
    for name in input {
        let side = match (input.len(), chain, name.contains("inside")) {
            (1, _, _) => "",
            (_, "edge.yaml", true) => "lan=",
            (_, "edge.yaml", false) => "wan=",
            (_, _, true) => "inside=",
            (_, _, false) => "outside=",
        };
        command.arg("--in").arg(format!("{side}{}", capture(name)));
    }
    command.args(apart.then_some("--processes"));
    outcome::made(&mut command, folder)
}

/// Threads before and behind a process, several each.
#[test]
fn a_process_stands_between_instances() {
    let folder = scratch("between");
    let chain = folder.join("between.yaml");
    let text = "\
chain: between
nfs: [ip-check, monitor, http-classifier, mac-swap]
plan:
  mode: pipeline
  stages: [monitor, http-classifier, mac-swap]
  instances: {monitor: 2, mac-swap: 2}
";
    std::fs::write(&chain, text).unwrap();
    let ran = |apart: &[&str]| {
        let mut command = weir();
        command.arg("run").arg(&chain).args(apart);
        let traffic = "gen:flows=100,packets=20000,seed=4";
        command.args(["--in", traffic, "--quiet", "--output", "json"]);
        let done = command.output().unwrap();
        let text = String::from_utf8_lossy(&done.stderr);
        assert!(done.status.success(), "{text}");
        serde_json::from_slice::<Value>(&done.stdout).unwrap()
    };
    let (threads, processes) = (ran(&[]), ran(&["--processes"]));
    assert_eq!(counts(&threads), counts(&processes));
    assert_eq!(processes["packets_out"], 20_000);
    assert_eq!(processes["processes"].as_array().unwrap().len(), 1);
    assert_eq!(processes["warnings"], serde_json::json!([]));
}

#[test]
fn captures_come_out_as_on_threads() {
    let folder = scratch("same");
    let mut processes = 0;
    for chain in [
        "http.yaml",
        "monitor.yaml",
        "ids.yaml",
        "edge.yaml",
        "webedge.yaml",
    ] {
        for input in [
            &["mixed.pcapng"][..],
            &["web.pcap"],
            &["attack.pcap"],
            &["edge-inside.pcap", "edge-outside.pcap"],
        ] {
            let (out, events, threads) = made(chain, input, false, &folder);
            let (apart_out, apart_events, apart) = made(chain, input, true, &folder);
            assert!(out == apart_out, "{chain} {input:?}");
            assert_eq!(events, apart_events, "{chain} {input:?}");
            assert_eq!(counts(&threads), counts(&apart), "{chain} {input:?}");
            assert_eq!(apart["warnings"], threads["warnings"], "{chain} {input:?}");
            for process in apart["processes"].as_array().unwrap() {
                processes += 1;
                assert_eq!(process["died"], 0);
                assert_eq!(process["bad_descriptors"], 0);
            }
        }
    }
    assert!(processes > 20, "{processes}");
    std::fs::remove_dir_all(folder).unwrap();
}

/// A run that goes on for long, of four stages.
fn long_run(packets: &str) -> Child {
    static RUNS: AtomicU32 = AtomicU32::new(0);
    let run = RUNS.fetch_add(1, Ordering::Relaxed);
    let folder = scratch(&format!("long-{run}"));
    let chain = folder.join("chain.yaml");
    let text =
        "chain: long\nnfs:\n  - ip-check\n  - monitor\n  - http-classifier\n  - asset-monitor\n";
    std::fs::write(&chain, text).unwrap();
    weir()
        .args(["run", chain.to_str().unwrap(), "--plan", "pipeline"])
        .args(["--processes", "--output", "json", "--quiet", "--in"])
        .arg(format!("gen:flows=200,life=tcp,packets={packets}"))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

fn ended(child: Child) -> (Value, String) {
    let done = child.wait_with_output().unwrap();
    let text = String::from_utf8(done.stderr).unwrap();
    assert!(done.status.success(), "{text}");
    (serde_json::from_slice(&done.stdout).unwrap(), text)
}

/// Each stage's process is killed in the middle of traffic, some of them twice.
#[test]
fn a_killed_stage_is_started_again_and_its_frames_come_back() {
    let child = long_run("1000M");
    let pid = child.id();
    let mut dead = BTreeSet::new();
    for round in 0..5 {
        let all = wait_for("three processes", || {
            let all = children(pid);
            (all.len() == 3).then_some(all)
        });
        // The first, middle and last one in turn: they were started in order. It is at work: one
        // that is only starting has no frames yet.
        let victim = *all.iter().nth(round % 3).unwrap();
        wait_for("work", || {
            let spent = std::fs::read_to_string(format!("/proc/{victim}/schedstat")).unwrap();
            let spent: u64 = spent.split_whitespace().next().unwrap().parse().unwrap();
            (spent > 400_000_000).then_some(())
        });
        assert!(dead.insert(victim));
        signal(victim, Signal::KILL);
        wait_for("its end", || {
            (!children(pid).contains(&victim)).then_some(())
        });
    }
    let main = rustix::process::Pid::from_raw(pid as i32).unwrap();
    rustix::process::kill_process(main, rustix::process::Signal::TERM).unwrap();
    let (summary, text) = ended(child);
    let number = |value: &Value| value.as_u64().unwrap();
    let came = number(&summary["packets_in"]);
    let died: u64 = summary["processes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|process| number(&process["died"]))
        .sum();
    assert_eq!(died, 5, "{text}");
    let drops = summary["drops"].as_object().unwrap();
    let dropped: u64 = drops.values().map(number).sum();
    let balance = number(&summary["packets_out"]) + dropped + number(&summary["held"]);
    assert_eq!(balance, came + number(&summary["emitted"]), "{summary:#}");
    // What they had is lost, by name, and it is little: what was in their hands
    // (perhaps nothing), and what was on its way to them of flows that began
    // meanwhile. Their frames are back, those of their pools at least.
    assert!(dropped < 50_000, "{drops:?}");
    for process in summary["processes"].as_array().unwrap() {
        let back = number(&process["frames_back"]);
        assert!(back >= number(&process["died"]) * 64, "{process}");
    }
    let warnings = summary["warnings"].to_string();
    assert!(!warnings.contains("not given back"), "{warnings}");
    assert!(warnings.contains("was started again"), "{warnings}");
    assert!(text.contains("died of signal 9"), "{text}");
}

#[test]
fn nothing_is_left_behind_when_the_main_process_is_killed() {
    let mut child = long_run("1000M");
    let all = wait_for("three processes", || {
        let all = children(child.id());
        (all.len() == 3).then_some(all)
    });
    std::thread::sleep(Duration::from_millis(300));
    child.kill().unwrap();
    child.wait().unwrap();
    for pid in all {
        wait_for("the end of a stage", || {
            let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
            let state = stat.rsplit_once(')').map_or("", |(_, rest)| rest.trim());
            (state.is_empty() || state.starts_with('Z')).then_some(())
        });
    }
    // Memory and rings are files without names: nobody is left who has them.
}

#[test]
fn what_is_no_stage_is_refused() {
    let done = weir()
        .args([
            "engine-process",
            "run",
            &example("http.yaml"),
            "--in",
            "null",
        ])
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert!(!done.status.success());
    let text = String::from_utf8_lossy(&done.stderr);
    assert!(text.starts_with("error:"), "{text}");
    let done = weir()
        .args(["run", &example("http.yaml"), "--in", "null"])
        .args(["--processes", "--workers", "2"])
        .output()
        .unwrap();
    assert_eq!(done.status.code(), Some(2));
}
