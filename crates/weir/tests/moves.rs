//! Flows that change owners all the time, in real time, beside threads that
//! take the processors: packets of each flow, events and counters are those of a
//! run without a switch. `WEIR_LONG_TESTS=1` makes 300 such runs, and 300 with
//! busy threads: 20 inputs, 5 chains, 3 modes.

mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use support::compare::{Run, same, through};
use support::{Folder, example, number, run_json, traces};

const CHAINS: [&str; 5] = [
    "http.yaml",
    "monitor.yaml",
    "count.yaml",
    "webedge.yaml",
    "ids.yaml",
];
const MODES: [&str; 3] = ["push", "pull", "reprocess"];
/// Chains whose monitor counts: what it counts changes no state, so it is
/// missing for packets that reprocessing does not copy.
const COUNTING: [&str; 3] = ["monitor.yaml", "webedge.yaml", "ids.yaml"];
/// Captures in which time never goes back: where it does, when a flow is idle
/// depends on which packets have come before.
const CAPTURES: [&str; 6] = [
    "a-mixed/pcapplusplus__example.pcap",
    "a-mixed/try-zeek__sumstat.pcap",
    "a-mixed/zeek__wikipedia.pcap",
    "a-mixed/ndpi__reddit.pcap",
    "b-http/zeek__206_example_c.pcap",
    "b-http/zeek__methods.pcap",
];
const RUNTIMES: usize = 3;

/// Threads that never rest, two for each processor, until it is dropped.
struct Busy(Arc<AtomicBool>, Vec<JoinHandle<()>>);

impl Busy {
    fn start() -> Busy {
        let over = Arc::new(AtomicBool::new(false));
        let processors = std::thread::available_parallelism().map_or(2, usize::from);
        let spin = |over: Arc<AtomicBool>| {
            std::thread::spawn(move || {
                while !over.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            })
        };
        let threads = (0..2 * processors).map(|_| spin(over.clone())).collect();
        Busy(over, threads)
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
        for thread in self.1.drain(..) {
            thread.join().expect("it only spins");
        }
    }
}

/// A script of moves, one every so many packets, from each runtime to the next.
fn script(folder: &Folder, mode: &str, every: usize, moves: usize) -> String {
    let text: String = (0..moves)
        .map(|number| {
            let (from, to) = (1 + number % RUNTIMES, 1 + (number + 1) % RUNTIMES);
            let at = (number + 1) * every;
            format!("- {{at: {{packet: {at}}}, move: {{from: {from}, to: {to}, mode: {mode}}}}}\n")
        })
        .collect();
    folder.write(&format!("{mode}.yaml"), text)
}

fn generated(seed: usize) -> String {
    let shapes = [
        "life=tcp,payload=http,response=50-3000",
        "proto=tcp:70/udp:30,payload=http,size=400,both=yes",
        "proto=mix,ip=mix,payload=random,size=imix,both=yes",
        "proto=udp,payload=text,size=60-300,popularity=zipf:1",
    ];
    let shape = shapes[seed % shapes.len()];
    format!("gen:flows=100,packets=4000,{shape},seed={seed}")
}

/// Runtimes on threads, in processes, and with second ones that have their states.
const PLACES: [&[&str]; 4] = [
    &[],
    &["--processes"],
    &["--replication", "each-burst"],
    &["--processes", "--replication", "every-5"],
];

/// One run with moves all the time; how many there were.
fn moved(plain: &Run, (chain, input, mode): (&str, &str, &str), place: &[&str]) -> u64 {
    let folder = Folder::new();
    let script = script(&folder, mode, 90, 40);
    let runtimes = RUNTIMES.to_string();
    let args = ["--runtimes", &runtimes, "--script", &script];
    let args = [&args, place].concat();
    let mut run = through(&example(chain), input, &args).whenever_noticed();
    let about = format!("{input} {chain} {mode} {place:?}");
    if mode == "reprocess" && COUNTING.contains(&chain) {
        run.events.clone_from(&plain.events);
    }
    same(plain, &run, &about);
    for what in ["lost", "reordered", "unfinished"] {
        assert_eq!(run.summary["hand_overs"][what], 0, "{about}: {what}");
    }
    number(&run.summary, "/hand_overs/count")
}

#[test]
fn flows_that_move_all_the_time_come_out_as_they_do_without() {
    let is_long = std::env::var_os("WEIR_LONG_TESTS").is_some();
    let mut inputs: Vec<String> = (1..=if is_long { 14 } else { 1 }).map(generated).collect();
    if is_long && let Some(traces) = traces() {
        let paths = CAPTURES.map(|name| traces.join("traces").join(name));
        inputs.extend(paths.map(|path| path.display().to_string()));
    }
    let (mut runs, mut moves) = (0, 0);
    for input in &inputs {
        for (number, chain) in CHAINS.into_iter().enumerate() {
            let plain = through(&example(chain), input, &[]).whenever_noticed();
            for (place, mode) in MODES.into_iter().enumerate() {
                // A short one takes one mode for each chain.
                if !is_long && place != number % MODES.len() {
                    continue;
                }
                for is_busy in [false, true] {
                    let busy = is_busy.then(Busy::start);
                    moves += moved(&plain, (chain, input, mode), PLACES[runs % PLACES.len()]);
                    runs += 1;
                    drop(busy);
                }
            }
        }
    }
    println!("{runs} runs, {moves} flows moved");
    assert!(moves > 10 * runs as u64, "{moves} moves in {runs} runs");
}

/// What waits for a state is applied all at once when it comes: the frames for
/// what that causes may be short.
#[test]
fn packets_that_were_held_find_frames() {
    let folder = Folder::new();
    let script = script(&folder, "pull", 100, 40);
    // A long one is long: the threads that pass packets on hardly run.
    let (seeds, packets) = match std::env::var_os("WEIR_LONG_TESTS") {
        Some(_) => (3, 22_000),
        None => (1, 4_000),
    };
    let busy = Busy::start();
    for seed in 1..=seeds {
        let traffic = format!(
            "gen:flows=400,packets={packets},life=tcp,payload=http,response=50-3000,both=yes,seed={seed}"
        );
        let args = ["--in", &traffic, "--runtimes", "3", "--script", &script];
        let summary = run_json(&example("office.yaml"), &args);
        assert_eq!(summary["drops"].get("no_frame"), None, "{summary:#}");
        assert_eq!(summary["hand_overs"]["lost"], 0, "{summary:#}");
        assert!(number(&summary, "/hand_overs/count") > 100, "{summary:#}");
    }
    drop(busy);
}
