//! The end of a run whose runtimes stand still, die, or have died: it comes, it says what was
//! not done, and a second signal is obeyed at once.

#[path = "support/long.rs"]
mod long;
#[path = "support/process.rs"]
mod process;
mod support;

use std::os::unix::process::ExitStatusExt as _;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use long::Long;
use process::{children, signal, wait_for};
use rustix::process::Signal;
use serde_json::Value;
use support::{conserved, example, number, weir};

/// A run that goes on for long, of so many runtimes in processes, which are there.
fn long_run(runtimes: usize, more: &[&str]) -> Child {
    let child = weir([
        "run",
        &example("http.yaml"),
        "--in",
        "gen:flows=200,packets=1000M,payload=http",
        "--runtimes",
        &runtimes.to_string(),
        "--processes",
        "--output",
        "json",
        "--quiet",
    ])
    .args(more)
    .stdout(Stdio::piped())
    .stderr(Stdio::piped())
    .spawn()
    .unwrap();
    wait_for("runtimes", || {
        (children(child.id()).len() == runtimes).then_some(())
    });
    // Until packets are under way.
    std::thread::sleep(Duration::from_millis(1_500));
    child
}

fn one_of(child: &Child) -> u32 {
    let mut all = children(child.id()).into_iter();
    all.next().expect("it has runtimes")
}

/// Waits for the end of a run, and kills it after `within`.
#[track_caller]
fn ended(mut child: Child, within: Duration) -> (std::process::ExitStatus, String, String) {
    let until = Instant::now() + within;
    while child.try_wait().unwrap().is_none() {
        if Instant::now() > until {
            child.kill().unwrap();
            let done = child.wait_with_output().unwrap();
            panic!("it goes on: {}", String::from_utf8_lossy(&done.stderr));
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    let done = child.wait_with_output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (done.status, text(done.stdout), text(done.stderr))
}

#[test]
fn a_second_signal_ends_a_run_that_stands_still() {
    for (first, second) in [(Signal::TERM, Signal::TERM), (Signal::INT, Signal::INT)] {
        let child = long_run(2, &[]);
        signal(one_of(&child), Signal::STOP);
        signal(child.id(), first);
        std::thread::sleep(Duration::from_millis(2_500));
        signal(child.id(), second);
        // How long the kernel takes to free its memory is the machine's affair. A run that does not
        // obey ends by itself, without a signal.
        let (status, _, said) = ended(child, Duration::from_secs(25));
        assert_eq!(status.signal(), Some(second.as_raw()), "{status}: {said}");
    }
}

/// It neither hangs for ever, nor is silent: with replication the switch tries again and
/// again, which is no progress.
#[test]
fn a_run_whose_runtime_stands_still_ends_and_says_so() {
    for more in [&[][..], &["--replication", "each-burst"]] {
        let child = long_run(2, more);
        signal(one_of(&child), Signal::STOP);
        // Packets come that it does not take, until there is no room for any.
        std::thread::sleep(Duration::from_millis(500));
        signal(child.id(), Signal::TERM);
        let (status, out, said) = ended(child, Duration::from_secs(25));
        assert_eq!(status.code(), Some(0), "{more:?}: {said}");
        for part in [
            "packets are still on their way",
            "nothing was let out for 5 s",
            "was killed: it did not finish in time",
        ] {
            assert!(said.contains(part), "{more:?}: {part}: {said}");
        }
        assert!(!said.contains("fault of weir"), "{more:?}: {said}");
        let summary: Value = serde_json::from_str(&out).unwrap();
        conserved(&summary);
        assert!(number(&summary, "/drops/unfinished") > 0, "{more:?}: {out}");
    }
}

/// The places of all are filled again, and what becomes of each death is said at once.
#[test]
fn a_run_goes_on_when_all_runtimes_have_died() {
    let mut child = long_run(2, &[]);
    let dead = children(child.id());
    for process in &dead {
        signal(*process, Signal::KILL);
    }
    wait_for("successors", || {
        let now = children(child.id());
        (now.len() == 2 && now.is_disjoint(&dead)).then_some(())
    });
    std::thread::sleep(Duration::from_millis(500));
    assert!(child.try_wait().unwrap().is_none(), "the run has ended");
    signal(child.id(), Signal::TERM);
    let (status, out, said) = ended(child, Duration::from_secs(25));
    assert_eq!(status.code(), Some(0), "{said}");
    let line = "has died of signal 9; runtime ";
    assert!(said.matches(line).count() >= 2, "{said}");
    conserved(&serde_json::from_str(&out).unwrap());
}

#[test]
fn the_only_runtime_is_started_again() {
    let ways = ["--runtimes", "1", "--processes"];
    let (run, killed) = Long::start("webedge.yaml", "400k", &ways).killed_again_and_again();
    assert!(killed > 1, "{killed} were killed");
    assert_eq!(run.summary["packets_in"], 400_000);
    // Captures wait for a successor.
    let unowned = run.summary["drops"].get("no_runtime");
    assert_eq!(unowned, None, "{}", run.summary);
}

/// Entries go to whom they are for: a message about packets is there before them.
#[test]
fn no_entry_is_of_a_view_that_its_runtime_has_not_heard_of() {
    let ran = support::run([
        "run",
        &example("webedge.yaml"),
        "--in",
        "gen:flows=5000,packets=100k,life=tcp",
        "--runtimes",
        "3",
        "--processes",
        "--replication",
        "each-burst",
        "--output",
        "json",
        "--quiet",
    ]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    let summary = ran.json();
    let refused = number(&summary, "/hand_overs/refused");
    assert_eq!(refused, 0, "{}", summary["switch"]);
    assert!(summary["switch"]["bad_descriptors"].is_null(), "{summary}");
}
