//! Stages that are not trusted: the same results as on threads, and what a
//! process that does all the harm it can does to others: nothing.

#[path = "support/outcome.rs"]
mod outcome;
#[path = "support/process.rs"]
mod process;
mod support;

use std::io::Write as _;
use std::os::fd::AsFd as _;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use outcome::counts;
use process::{children, signal, wait_for};
use rustix::process::Signal;
use serde_json::Value;
use support::capture;
use weir::driver::{
    ChainPlan, Executor, Pace, Patience, Pipeline, PipelineEnd, PipelineSettings, ProcessCommand,
    Processes,
};
use weir_graph::compile::{Home, compile};
use weir_io::shared::{Channel, SharedMapping};
use weir_nf::Sources;
use weir_packet::{FrameMeta, MemoryLayout, Side, Time};
use weir_runtime::{Report, RuntimeConfig};

fn weir() -> Command {
    Command::new(env!("CARGO_BIN_EXE_weir"))
}

fn scratch(name: &str) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("weir-trust-{name}-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap()
}

/// What a run of this chain made.
fn made(chain: &Path, input: &str, folder: &Path) -> (Vec<u8>, Vec<String>, Value) {
    let mut run = weir();
    run.arg("run").arg(chain).arg("--in").arg(capture(input));
    outcome::made(&mut run, folder)
}

const FIREWALL: &str = "
  - firewall:
      default: reject
      log-default: true
      rules:
        - accept tcp to any port 80 name web
        - accept icmp,icmpv6 name ping
        - action: accept
          protocol: udp
          to-port: 53
          name: dns";

#[test]
fn captures_come_out_as_on_threads() {
    let folder = scratch("same");
    let validator = "
  - url-validator: {action: drop, sql-injection: true, cross-site-scripting: true}";
    let chains = [
        // Several in a row: one drops and makes packets, two write.
        (
            format!("  - ip-check{FIREWALL}\n  - monitor\n  - ttl\n  - mac-swap"),
            "[firewall, monitor, ttl, mac-swap]",
        ),
        // One that sends packets two ways, into a later stage and past it.
        (
            format!(
                "  - ip-check\n  - http-classifier: {{ports: [80]}}\n    links: {{other: out}}{validator}\n  - monitor"
            ),
            "[http-classifier, monitor]",
        ),
        // One that keeps segments, and drops.
        (
            format!("  - ip-check{validator}\n  - monitor"),
            "url-validator",
        ),
    ];
    let (mut copied, mut dropped) = (0, 0);
    for (number_of, (nfs, untrusted)) in chains.iter().enumerate() {
        let write = |name: &str, plan: &str| {
            let path = folder.join(format!("{name}-{number_of}.yaml"));
            let text = format!("chain: c\nnfs:\n{nfs}\nplan: {{{plan}}}\n");
            std::fs::write(&path, text).unwrap();
            path
        };
        let threads = write("threads", "mode: pipeline, parallel: never");
        let plan = format!("mode: pipeline, parallel: never, untrusted: {untrusted}");
        let apart = write("apart", &plan);
        for input in ["mixed.pcapng", "web.pcap", "attack.pcap"] {
            let (out, events, summary) = made(&threads, input, &folder);
            let (apart_out, apart_events, apart) = made(&apart, input, &folder);
            let about = format!("{nfs} {input}");
            assert!(out == apart_out, "{about}");
            assert_eq!(events, apart_events, "{about}");
            assert_eq!(counts(&summary), counts(&apart), "{about}");
            assert_eq!(apart["warnings"], summary["warnings"], "{about}");
            for process in apart["processes"].as_array().unwrap() {
                assert_eq!(process["trusted"], false);
                assert_eq!(
                    (number(&process["died"]), &process["border"]["given_up"]),
                    (0, &Value::Bool(false))
                );
                assert_eq!(process["border"]["offences"], serde_json::json!({}));
                copied += number(&process["border"]["copied"]);
                dropped += number(&process["border"]["dropped"]);
            }
        }
    }
    assert!(copied > 1_000 && dropped > 10, "{copied} {dropped}");
    std::fs::remove_dir_all(folder).unwrap();
}

fn long_run(folder: &Path) -> Child {
    let chain = folder.join("chain.yaml");
    let text = "chain: long\nnfs:\n  - ip-check\n  - monitor\n  - http-classifier\nplan: {untrusted: [monitor]}\n";
    std::fs::write(&chain, text).unwrap();
    weir()
        .args([
            "run",
            chain.to_str().unwrap(),
            "--output",
            "json",
            "--quiet",
        ])
        .args(["--in", "gen:flows=200,life=tcp,packets=1000M"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

/// A line of `/proc/PID/status`.
fn status(pid: u32, key: &str) -> String {
    let text = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix(key))
        .unwrap_or("");
    line.trim_start_matches(':')
        .split_whitespace()
        .collect::<Vec<_>>()
        .join(" ")
}

#[test]
fn it_has_nothing_and_may_nothing_and_can_be_killed() {
    let folder = scratch("killed");
    let child = long_run(&folder);
    let pid = child.id();
    let confined = |not: Option<u32>| {
        wait_for("a process that is confined", || {
            let found = children(pid)
                .into_iter()
                .filter(|found| Some(*found) != not);
            found
                .into_iter()
                .find(|found| status(*found, "Seccomp") == "2")
        })
    };
    let first = confined(None);
    assert_eq!(status(first, "NoNewPrivs"), "1");
    assert_eq!(status(first, "Groups"), "");
    assert_eq!(status(first, "CapEff"), "0000000000000000");
    assert_eq!(status(first, "CapPrm"), "0000000000000000");
    let open = std::fs::read_dir(format!("/proc/{first}/fd"))
        .unwrap()
        .count();
    assert!(open <= 4, "{open} descriptors");
    let maps = std::fs::read_to_string(format!("/proc/{first}/maps")).unwrap();
    assert!(
        maps.contains("weir-tenant-packets") && !maps.contains("weir-packets"),
        "{maps}"
    );
    if rustix::process::geteuid().is_root() {
        assert_eq!(status(first, "Uid"), "65534 65534 65534 65534");
    }
    let limits = std::fs::read_to_string(format!("/proc/{first}/limits")).unwrap();
    let core = limits
        .lines()
        .find(|line| line.starts_with("Max core file size"))
        .unwrap();
    assert!(core.split_whitespace().any(|word| word == "0"), "{core}");
    let environment = std::fs::read(format!("/proc/{first}/environ")).unwrap_or_default();
    assert_eq!(environment, b"");
    std::thread::sleep(Duration::from_millis(200));
    signal(first, Signal::KILL);
    confined(Some(first));
    std::thread::sleep(Duration::from_millis(200));
    signal(pid, Signal::TERM);
    let done = child.wait_with_output().unwrap();
    let text = String::from_utf8(done.stderr).unwrap();
    assert!(done.status.success(), "{text}");
    assert!(text.contains("not trusted, died of signal 9"), "{text}");
    let summary: Value = serde_json::from_slice(&done.stdout).unwrap();
    let drops = summary["drops"].as_object().unwrap();
    let dropped: u64 = drops.values().map(number).sum();
    assert_eq!(
        number(&summary["packets_out"]) + dropped,
        number(&summary["packets_in"]),
        "{summary:#}"
    );
    assert!(dropped < 100_000, "{drops:?}");
    assert_eq!(number(&summary["processes"][0]["died"]), 1);
    let warnings = summary["warnings"].to_string();
    assert!(!warnings.contains("not given back"), "{warnings}");
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn whole_chains_side_by_side_are_refused() {
    let folder = scratch("refused");
    let chain = folder.join("chain.yaml");
    let text = "chain: c\nnfs: [ip-check, monitor]\nplan: {untrusted: monitor}\n";
    std::fs::write(&chain, text).unwrap();
    for more in [
        &["--workers", "2"][..],
        &["--runtimes", "2"],
        &["--plan", "rtc"],
    ] {
        let done = weir()
            .arg("run")
            .arg(&chain)
            .args(["--in", "null"])
            .args(more)
            .output();
        let done = done.unwrap();
        let text = String::from_utf8_lossy(&done.stderr);
        assert!(
            !done.status.success() && text.contains("never runs in the main process"),
            "{text}"
        );
    }
    std::fs::remove_dir_all(folder).unwrap();
}

struct Nothing;

impl Sources for Nothing {
    fn text(&mut self, name: &str) -> Result<String, String> {
        Err(format!("there is no {name}"))
    }
}

fn plan(name: &str, plan: &str) -> ChainPlan {
    let text = format!("chain: {name}\nnfs: [ip-check, monitor, asset-monitor]\nplan: {plan}\n");
    let input = weir_graph::Input {
        name: "chain.yaml",
        text: &text,
        kinds: weir_functions::kinds(),
        overrides: &[],
        seed: 1,
    };
    let chain = weir_graph::load(&input, &mut Nothing)
        .unwrap()
        .chains
        .remove(0);
    let plan = compile(name, &chain.graph, &chain.plan).unwrap();
    let stages = plan.stages(&chain.stage).unwrap();
    ChainPlan {
        plan,
        stages,
        texts: Vec::new(),
    }
}

/// A packet that left, and what of it a neighbour may not touch.
#[derive(Debug, PartialEq, Eq)]
struct Left {
    sequence: u64,
    time: Time,
    side: Side,
    bytes: Vec<u8>,
}

/// Two chains in one run: of the first, `monitor` is this test's own program,
/// which plays the part `part`; without one it is left out. What came out of
/// each, and how it ended.
fn beside(part: Option<&str>, packets: &[(FrameMeta, Vec<u8>)]) -> ([Vec<Left>; 2], PipelineEnd) {
    let first = match part {
        Some(_) => plan("a", "{mode: pipeline, untrusted: monitor}"),
        None => plan("a", "{mode: rtc}"),
    };
    let home = |chain: &ChainPlan| {
        let steps = chain.plan.steps.iter();
        steps
            .map(|step| step.stages()[0].home)
            .collect::<Vec<Home>>()
    };
    let chains = vec![first, plan("b", "{stages: asset-monitor}")];
    let processes = part.map(|part| Processes {
        command: ProcessCommand {
            program: std::env::current_exe().unwrap().into(),
            arguments: ["--ignored", "--exact", part, "--test-threads", "1"]
                .map(Into::into)
                .into(),
        },
        steps: chains.iter().map(home).collect(),
        patience: Patience {
            wait: Duration::from_millis(100),
            stall: Duration::from_millis(400),
            start: true,
            nap: Duration::from_micros(50),
        },
    });
    let settings = PipelineSettings {
        pace: Pace::default(),
        engine: RuntimeConfig {
            seed: 1,
            event_bytes: 1 << 20,
            ..RuntimeConfig::default()
        },
        memory: MemoryLayout::default(),
        ..PipelineSettings::default()
    };
    let mut executor = Pipeline::start_with(chains, settings, processes).unwrap();
    let mut bursts = packets.chunks(64).peekable();
    let (mut out, mut events, mut left) = (Vec::new(), Vec::new(), [Vec::new(), Vec::new()]);
    let until = Instant::now() + Duration::from_secs(120);
    while bursts.peek().is_some() || !executor.is_over() {
        assert!(Instant::now() < until, "{part:?}: it hangs");
        if executor.room() >= 128
            && let Some(burst) = bursts.next()
        {
            for chain in 0..2u16 {
                let one = |(meta, bytes): &(FrameMeta, Vec<u8>)| {
                    let mut meta = *meta;
                    meta.chain = chain;
                    executor.pool().copy(bytes, meta).unwrap()
                };
                let mut frames = burst.iter().map(one).collect();
                executor.take(usize::from(chain), &mut frames);
            }
        } else if bursts.peek().is_none() {
            executor.stop();
        }
        executor.step(&mut out, &mut events).unwrap();
        executor.parker().inspect(|park| park.wake_others());
        std::thread::yield_now();
        for frame in out.drain(..) {
            let (meta, bytes) = executor.pool().memory().read(&frame);
            left[usize::from(meta.chain)].push(Left {
                sequence: meta.sequence,
                time: meta.time,
                side: meta.side,
                bytes: bytes.to_vec(),
            });
            executor.pool().give(frame);
        }
    }
    (left, executor.end())
}

const PARTS: [&str; 8] = [
    "part_that_is_silent",
    "part_that_ends_at_once",
    "part_that_writes_noise",
    "part_that_gives_twice",
    "part_that_rewrites",
    "part_that_babbles",
    "part_that_shouts",
    "part_that_hangs_up",
];

#[test]
fn a_hostile_neighbour_stops_its_own_traffic_and_nothing_else() {
    let packets = support::inputs::generated("gen:flows=50,life=tcp,packets=6000");
    let ([_, alone], end) = beside(None, &packets);
    assert_eq!((alone.len(), end.leaked), (6_000, 0));
    for part in PARTS {
        let started = Instant::now();
        let ([theirs, other], end) = beside(Some(part), &packets);
        assert!(other == alone, "{part}: {} of {}", other.len(), alone.len());
        assert_eq!(end.leaked, 0, "{part}");
        let report: &Report = &end.chains[0].report;
        assert!(report.balances(), "{part}: {report:?}");
        assert_eq!(report.packets_out as usize, theirs.len(), "{part}");
        assert!(end.chains[1].report.balances() && end.chains[1].report.drops.is_empty());
        // In their order, each once, and as late as they were.
        assert!(
            theirs.is_sorted_by(|a, b| a.sequence < b.sequence),
            "{part}"
        );
        let process = &end.processes[0];
        let border = process.border.as_ref().unwrap();
        eprintln!(
            "{part}: {} of 6000 came through, died {}, {:?}, {:.1} s",
            theirs.len(),
            process.deaths,
            border,
            started.elapsed().as_secs_f64()
        );
        for left in &theirs {
            // Its stage only reads.
            let (meta, bytes) = &packets[left.sequence as usize - 1];
            assert_eq!(
                (&left.bytes, left.time, left.side),
                (bytes, meta.time, meta.side),
                "{part}"
            );
        }
        assert!(process.deaths > 0 || part == "part_that_rewrites", "{part}");
        // It shouts more than it earns by being lent packets.
        assert!(
            border.events_refused > 0 || part != "part_that_shouts",
            "{part}"
        );
    }
}

/// What such a process is given.
struct Part {
    channel: Channel,
    files: Vec<SharedMapping>,
    rings: Vec<usize>,
    status: usize,
    socket: UnixStream,
}

impl Part {
    fn begin() -> Option<Part> {
        let socket = std::io::stdin().as_fd().try_clone_to_owned().ok()?;
        let socket = UnixStream::from(socket);
        // Where this is no such process there is nothing to play.
        socket.peer_addr().ok()?;
        let mut channel = Channel::new(socket.try_clone().ok()?, 1 << 20);
        let hello = channel.receive(true).ok()??;
        let hello: Value = serde_json::from_slice(&hello.bytes).ok()?;
        let files = (0..2).map(|_| SharedMapping::attach(channel.take_fd().unwrap()).unwrap());
        let place = |value: &Value| value.as_u64().unwrap() as usize;
        Some(Part {
            files: files.collect(),
            rings: hello["rings"]
                .as_array()
                .unwrap()
                .iter()
                .map(place)
                .collect(),
            status: place(&hello["status"]),
            channel,
            socket,
        })
    }

    fn word(&self, file: usize, at: usize) -> u32 {
        self.files[file].words(at, 1).unwrap()[0].load(Ordering::Acquire)
    }

    fn set(&self, file: usize, at: usize, value: u32) {
        self.files[file].words(at, 1).unwrap()[0].store(value, Ordering::Release);
    }

    fn say(&mut self, kind: u8, bytes: &[u8]) {
        self.set(1, self.status + 64, self.word(1, self.status + 64) + 1);
        let _ = self.channel.send(kind, bytes, &[], true);
        self.set(1, self.status + 64, self.word(1, self.status + 64) + 1);
    }

    /// Gives all that comes back, each so many times.
    fn carry(&self, times: u32) -> ! {
        let (mut head, mut tail) = (0u32, 0u32);
        loop {
            let came = self.word(1, self.rings[0]);
            while head != came {
                let what = self.word(1, self.rings[0] + 4 * (128 + (head & 511)) as usize);
                for _ in 0..times {
                    self.set(1, self.rings[1] + 4 * (128 + (tail & 511)) as usize, what);
                    tail += 1;
                }
                head += 1;
            }
            self.set(1, self.rings[0] + 128, head);
            self.set(1, self.rings[1], tail);
            self.set(1, self.status + 32, head);
            std::thread::yield_now();
        }
    }
}

fn sleep_for_ever() -> ! {
    loop {
        std::thread::sleep(Duration::from_secs(1));
    }
}

/// A number that is like no other.
fn dice() -> u32 {
    static SEED: AtomicU32 = AtomicU32::new(0x9e37_79b9);
    let mut x = SEED.load(Ordering::Relaxed);
    x ^= x << 13;
    x ^= x >> 17;
    x ^= x << 5;
    SEED.store(x, Ordering::Relaxed);
    x
}

const READY: u8 = 2;

#[test]
#[ignore = "a part in the test above"]
fn part_that_is_silent() {
    let Some(mut part) = Part::begin() else {
        return;
    };
    part.say(READY, b"");
    sleep_for_ever();
}

#[test]
#[ignore = "a part in the test above"]
fn part_that_ends_at_once() {
    if Part::begin().is_some() {
        std::process::exit(7);
    }
}

#[test]
#[ignore = "a part in the test above"]
fn part_that_writes_noise() {
    let Some(mut part) = Part::begin() else {
        return;
    };
    part.say(READY, b"");
    loop {
        let at = dice() as usize % (part.files[1].len() / 4);
        part.set(1, 4 * at, dice());
        let at = dice() as usize % (part.files[0].len() / 4);
        part.set(0, 4 * at, dice());
    }
}

#[test]
#[ignore = "a part in the test above"]
fn part_that_gives_twice() {
    let Some(mut part) = Part::begin() else {
        return;
    };
    part.say(READY, b"");
    part.carry(2);
}

/// As an honest one, but all that it has in its hands changes all the time.
#[test]
#[ignore = "a part in the test above"]
fn part_that_rewrites() {
    let Some(mut part) = Part::begin() else {
        return;
    };
    part.say(READY, b"");
    let file = part.files[0].clone();
    std::thread::spawn(move || {
        loop {
            // Lengths, starts and bytes of the first frames.
            let frame = (dice() % 2_048) as usize * 33 * 64;
            let at = [40, 44, 48, 64, 192, 196, 200][dice() as usize % 7];
            file.words(frame + at, 1).unwrap()[0].store(dice(), Ordering::Relaxed);
        }
    });
    // They go on to the next stage, which is asset-monitor's: number 3.
    let next = part.files[0].clone();
    std::thread::spawn(move || {
        loop {
            for frame in 0..2_048usize {
                let word = &next.words(frame * 33 * 64 + 60, 1).unwrap()[0];
                let said = word.load(Ordering::Relaxed).to_ne_bytes();
                word.store(
                    u32::from_ne_bytes([said[0], 3, said[2], said[3]]),
                    Ordering::Relaxed,
                );
            }
        }
    });
    part.carry(1);
}

#[test]
#[ignore = "a part in the test above"]
fn part_that_babbles() {
    let Some(mut part) = Part::begin() else {
        return;
    };
    part.say(READY, b"");
    let mut junk = vec![0u8; 4_096];
    junk.iter_mut().for_each(|byte| *byte = dice() as u8);
    loop {
        part.say(3 + (dice() % 4) as u8, &junk);
        part.say(3, b"no line\n");
    }
}

/// Says a message is four gigabytes long, and goes on for ever.
#[test]
#[ignore = "a part in the test above"]
fn part_that_shouts() {
    let Some(mut part) = Part::begin() else {
        return;
    };
    part.say(READY, b"");
    // First what is let through, as fast as it goes.
    let line = b"{\"event_type\":\"x\"}\n".repeat(1_000);
    for _ in 0..200 {
        part.say(3, &line);
    }
    part.set(1, part.status + 64, u32::MAX / 2);
    let _ = part.socket.write_all(&[4, 255, 255, 255, 255]);
    loop {
        let _ = part.socket.write_all(&line);
    }
}

#[test]
#[ignore = "a part in the test above"]
fn part_that_hangs_up() {
    let Some(mut part) = Part::begin() else {
        return;
    };
    part.say(READY, b"");
    let _ = part.socket.shutdown(std::net::Shutdown::Both);
    sleep_for_ever();
}
