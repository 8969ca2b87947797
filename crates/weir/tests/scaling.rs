//! Runtimes that come and go as their load asks for (`weir run --scaling`), under a load that rises
//! and falls: processes that get a hundredth of a processor each, so that one is not enough.

#[path = "support/long.rs"]
mod long;
#[path = "support/process.rs"]
mod process;
mod support;

use std::collections::BTreeMap;
use std::io::Write as _;
use std::process::{Child, ChildStdin, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use long::Long;
use process::{children, wait_for};
use rustix::process::Signal;
use serde_json::Value;
use support::compare::{Run, flows, sorted};
use support::{Folder, conserved, example, number, run, weir};

/// Times that the load rises and falls.
const CYCLES: usize = 3;
/// Packets of a rise, and packets per second of it and between two.
const RISE: usize = 120_000;
const HIGH: usize = 40_000;
const LOW: usize = 500;
/// Share of a processor that a runtime gets: some 10,000 packets per second.
const SHARE: f64 = 0.008;
const TRAFFIC: &str = "flows=300,packets=500k,proto=tcp,payload=http,size=400,both=yes,seed=7";

/// Gives each process that another one has started a share of a processor, as `cpulimit` does: one
/// that has had more is stopped. Dropped, it lets them run.
struct Limit {
    over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

/// What a process may have had without being stopped: a quantum of the kernel's. It owes no more
/// than that either: where this machine lets nobody look for 50 ms, a debt of them would have it
/// stopped for seconds, and what asks it for something would give up.
const QUANTUM: Duration = Duration::from_millis(2);

impl Limit {
    fn of_children(of: u32, share: f64) -> Limit {
        let over = Arc::new(AtomicBool::new(false));
        let is_over = Arc::clone(&over);
        let thread = std::thread::spawn(move || {
            // Of each process: what it had when it was last looked at, and what it may have yet.
            let mut all: BTreeMap<u32, (Duration, f64)> = BTreeMap::new();
            let mut looked = Instant::now();
            let tell = |process: u32, what| {
                let id = rustix::process::Pid::from_raw(process as i32);
                // It may be over.
                id.map(|id| rustix::process::kill_process(id, what))
            };
            while !is_over.load(Ordering::Relaxed) {
                let since = looked.elapsed().as_secs_f64();
                looked = Instant::now();
                let there = children(of);
                all.retain(|process, _| there.contains(process));
                for process in there {
                    let had = had(process);
                    let (before, left) = all.entry(process).or_insert((had, 0.0));
                    let used = had.saturating_sub(*before).as_secs_f64();
                    let most = QUANTUM.as_secs_f64();
                    *left = (*left + since * share - used).clamp(-most, most);
                    *before = had;
                    let what = if *left < 0.0 {
                        Signal::STOP
                    } else {
                        Signal::CONT
                    };
                    tell(process, what);
                }
                std::thread::sleep(QUANTUM / 2);
            }
            for process in all.into_keys() {
                tell(process, Signal::CONT);
            }
        });
        Limit {
            over,
            thread: Some(thread),
        }
    }
}

/// Time of a processor that a process has had.
fn had(process: u32) -> Duration {
    let tasks = std::fs::read_dir(format!("/proc/{process}/task"));
    let stats = tasks.into_iter().flatten().flatten();
    let stats =
        stats.filter_map(|task| std::fs::read_to_string(task.path().join("schedstat")).ok());
    let ns = stats.filter_map(|stat| stat.split_whitespace().next()?.parse::<u64>().ok());
    Duration::from_nanos(ns.sum())
}

impl Drop for Limit {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// A capture that is written into a run's standard input at a rate that changes.
struct Feed {
    rate: Arc<AtomicUsize>,
    written: Arc<AtomicUsize>,
    thread: JoinHandle<()>,
}

impl Feed {
    /// A file of the classic format.
    fn start(capture: &str, mut into: ChildStdin) -> Feed {
        let bytes = std::fs::read(capture).unwrap();
        let rate = Arc::new(AtomicUsize::new(LOW));
        let written = Arc::new(AtomicUsize::new(0));
        let (its_rate, its_written) = (Arc::clone(&rate), Arc::clone(&written));
        let thread = std::thread::spawn(move || {
            let (header, mut rest) = bytes.split_at(24);
            into.write_all(header).unwrap();
            while !rest.is_empty() {
                let burst = its_rate.load(Ordering::Relaxed) / 200;
                for _ in 0..burst.max(1) {
                    let Some(length) = rest.get(8..12) else { break };
                    let length = u32::from_le_bytes(length.try_into().unwrap()) as usize;
                    let (record, behind) = rest.split_at(16 + length);
                    // Where the run takes fewer, this waits.
                    into.write_all(record).unwrap();
                    rest = behind;
                    its_written.fetch_add(1, Ordering::Relaxed);
                }
                std::thread::sleep(Duration::from_millis(5));
            }
        });
        Feed {
            rate,
            written,
            thread,
        }
    }

    /// Packets per second from now on.
    fn set_rate(&self, rate: usize) {
        self.rate.store(rate, Ordering::Relaxed);
    }

    /// Waits until so many packets more are written.
    fn wait(&self, packets: usize) {
        let until = self.written.load(Ordering::Relaxed) + packets;
        while self.written.load(Ordering::Relaxed) < until {
            assert!(!self.thread.is_finished(), "the capture is too short");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Writes the rest.
    fn end(self) {
        self.set_rate(20 * HIGH);
        self.thread.join().unwrap();
    }
}

fn scaling(socket: &str) -> Value {
    let asked = run(["get", "scaling", socket, "--output", "json"]);
    assert_eq!(asked.code, 0, "{}", asked.err);
    asked.json()
}

fn runtimes(scaling: &Value) -> usize {
    scaling["runtimes"].as_array().map_or(0, Vec::len)
}

/// A run of an input, as words.
fn words(input: &str, out: &str, events: &str) -> Vec<String> {
    let chain = example("webedge.yaml");
    let words = [
        "run", &chain, "--in", input, "--out", out, "--events", events,
    ];
    let more = ["--seed", "1", "--quiet", "--output", "json"];
    words
        .iter()
        .chain(&more)
        .map(|word| (*word).to_owned())
        .collect()
}

/// What a run leaves that has read the same capture without any of this.
fn plain(capture: &str) -> Run {
    let folder = Folder::new();
    let (out, events) = (folder.path("out.pcap"), folder.path("events.json"));
    let ran = run(words(capture, &out, &events));
    assert_eq!(ran.code, 0, "{}", ran.err);
    Run {
        summary: ran.json(),
        out: flows(&out),
        events: sorted(&events),
    }
}

fn summary(child: Child) -> Value {
    let done = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&done.stderr).into_owned();
    assert!(done.status.success(), "{said}");
    let summary = serde_json::from_slice(&done.stdout).unwrap();
    conserved(&summary);
    summary
}

/// Has the load rise and fall, and looks how the runtimes follow.
fn rise_and_fall(feed: &Feed, socket: &str) {
    let (mut started, mut peaks) = (0, Vec::new());
    for cycle in 1..=CYCLES {
        feed.set_rate(HIGH);
        feed.wait(RISE);
        let seen = scaling(socket);
        assert!(number(&seen, "/started") > started, "{cycle}: {seen}");
        started = number(&seen, "/started");
        peaks.push(runtimes(&seen));
        feed.set_rate(LOW);
        let until = Instant::now() + Duration::from_secs(60);
        while runtimes(&scaling(socket)) > 1 {
            let said = || run(["get", "scaling", socket]).out;
            assert!(Instant::now() < until, "{cycle}: {}", said());
            std::thread::sleep(Duration::from_millis(50));
        }
    }
    assert!(peaks.iter().all(|peak| *peak > 1), "{peaks:?}");
    let seen = scaling(socket);
    assert_eq!(
        number(&seen, "/started"),
        number(&seen, "/drained"),
        "{seen}"
    );
    assert!(number(&seen, "/moved") > 0, "{seen}");
    let told = run(["events", socket]);
    for what in ["starts runtime", "drains runtime"] {
        assert!(told.out.contains(what), "{}", told.out);
    }
}

#[test]
fn runtimes_follow_a_load_that_rises_and_falls() {
    let folder = Folder::new();
    let [capture, out, events, socket] =
        ["in.pcap", "out.pcap", "events.json", "it.sock"].map(|name| folder.path(name));
    let made = run(["gen", "--out", &capture, TRAFFIC]);
    assert_eq!(made.code, 0, "{}", made.err);
    let plain = plain(&capture);

    let scaled = [
        "--control",
        &socket,
        "--runtimes",
        "1",
        "--processes",
        "--scaling",
        "1-4,interval=400ms,cool-down=1s",
    ];
    let scaled = scaled.map(str::to_owned);
    let mut child = weir(words("-", &out, &events).into_iter().chain(scaled))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let feed = Feed::start(&capture, child.stdin.take().unwrap());
    wait_for("the runtime", || {
        let asked = run(["get", "scaling", &socket, "--output", "json"]);
        (asked.code == 0 && runtimes(&asked.json()) == 1).then_some(())
    });
    let limit = Limit::of_children(child.id(), SHARE);
    rise_and_fall(&feed, &socket);
    drop(limit);
    feed.end();

    let run = Run {
        summary: summary(child),
        out: flows(&out),
        events: sorted(&events),
    };
    // What was dropped says more than how many came out, and is compared first.
    for field in ["drops", "packets_in", "packets_out", "bytes_out", "held"] {
        let (wanted, seen) = (&plain.summary[field], &run.summary[field]);
        assert_eq!(wanted, seen, "{field}: {}", run.summary);
    }
    for field in ["lost", "reordered", "unfinished"] {
        assert_eq!(run.summary["hand_overs"][field], 0, "{field}");
    }
    assert!(plain.out == run.out, "packets of flows differ");
    assert!(plain.events == run.events, "other events");
}

/// Ranges that fit nothing are refused before anything starts.
#[test]
fn what_does_not_fit_is_refused() {
    let chain = example("webedge.yaml");
    for (words, part) in [
        (
            &["--runtimes", "2", "--scaling", "3-4"][..],
            "not within `--scaling 3-4`",
        ),
        (
            &[
                "--runtimes",
                "1",
                "--scaling",
                "1-4",
                "--most-runtimes",
                "2",
            ],
            "`--most-runtimes` is 4 or more",
        ),
        (
            &["--runtimes", "1", "--scaling", "4"],
            "no range of runtimes",
        ),
        (&["--scaling", "1-4"], "--runtimes"),
    ] {
        let refused = run([&["run", &chain, "--in", "gen:packets=1"], words].concat());
        assert!(
            refused.code == 2 && refused.err.contains(part),
            "{}",
            refused.err
        );
    }
    let folder = Folder::new();
    let file = folder.write(
        "cluster.yaml",
        format!(
            "composition: edge\nchain: {chain}\nhosts: [{{name: alpha, runtimes: 1, most_runtimes: \
             2}}]\nswitch: alpha\nports: {{in: \"gen:packets=10\"}}\nscaling: {{minimum: 1, maximum: 3}}\n"
        ),
    );
    let refused = run(["check", &file]);
    assert_eq!(refused.code, 3, "{}", refused.err);
    assert!(refused.err.contains("cluster.yaml:6"), "{}", refused.err);
    assert!(
        refused.err.contains("there may be 2 runtimes"),
        "{}",
        refused.err
    );
}

/// One that follows no load says how it could.
#[test]
fn a_run_that_follows_no_load_says_so() {
    let mut long = Long::start("webedge.yaml", "2M", &["--runtimes", "1"]);
    let socket = long.socket();
    let said = wait_for("an answer", || {
        let asked = run(["get", "scaling", &socket]);
        asked.err.contains("--scaling").then_some(asked)
    });
    assert_eq!(said.code, 1, "{}", said.err);
    assert!(long.child().try_wait().unwrap().is_none());
}
