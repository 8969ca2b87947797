//! Whatever runs where: packets, events and flow records are those of one
//! runtime, in placements that are drawn at random.

mod support;

use serde_json::{Value, json};
use support::compare::{same, through};
use support::dice::Dice;
use support::{Folder, capture, example, run};

/// Placements that are drawn; `WEIR_PLACEMENTS=N` draws as many, and
/// `WEIR_SEED=S` begins with another seed.
const DRAWN: u64 = 16;

fn number_of(variable: &str, without: u64) -> u64 {
    std::env::var(variable).map_or(without, |text| text.parse().unwrap())
}

/// Chains that come out the same by the hosts, by a switch and by stages.
const CHAINS: [(&str, &str); 4] = [
    ("monitor.yaml", "mixed.pcapng"),
    ("ids.yaml", "attack.pcap"),
    ("webedge.yaml", "attack.pcap"),
    ("http.yaml", "web.pcap"),
];

/// Instances before and behind a stage that may be a process: carriers are needed.
const WIDE: &str = "\
chain: wide
nfs: [ip-check, monitor, http-classifier, mac-swap, flow-nop]
plan:
  mode: pipeline
  stages: [monitor, http-classifier, mac-swap, flow-nop]
  instances: {monitor: 2, mac-swap: 3}
";

/// The placement that weir chooses for these arguments.
fn chosen(chain: &str, args: &[&str]) -> Value {
    let all = ["plan", chain, "--placement", "--output", "json"];
    let ran = run(all.iter().chain(args));
    assert_eq!(ran.code, 0, "{args:?}: {}", ran.err);
    serde_json::from_str(&ran.out).unwrap()
}

/// Deals the nodes of a placement anew. `ports`, and what must be beside it,
/// stay; carriers are left to weir.
fn dealt(dice: &mut Dice, placement: &Value) -> Value {
    let mut nodes = Vec::new();
    for process in placement["processes"].as_array().unwrap() {
        for thread in process["threads"].as_array().unwrap() {
            nodes.extend(thread["nodes"].as_array().unwrap().clone());
        }
    }
    let kept = placement["processes"][0]["threads"][0]["nodes"].clone();
    let mut threads = vec![kept.as_array().unwrap().clone()];
    threads.resize(2 + dice.roll(4), Vec::new());
    let mut processes = Vec::new();
    for node in nodes {
        let name = node["name"].as_str().unwrap().to_owned();
        if threads[0].contains(&node) || node["kind"] == "carrier" {
            continue;
        }
        // One of several equal threads of a step can't be a process, nor can a worker.
        let single = node["kind"] == "stage" && !name.contains('.');
        let may_be_process = single || name.starts_with("runtime ");
        if may_be_process && dice.one_in(3) {
            processes.push(json!({"name": name, "threads": [{"nodes": [node]}]}));
        } else {
            let at = dice.roll(threads.len());
            threads[at].push(node);
        }
    }
    threads.retain(|nodes| !nodes.is_empty());
    let threads: Vec<Value> = threads.iter().map(|n| json!({"nodes": n})).collect();
    processes.insert(0, json!({"name": "main", "threads": threads}));
    json!({"processes": processes})
}

fn drawn(seed: u64, folder: &Folder) {
    let mut dice = Dice::new(seed);
    let (name, input) = *dice.pick(&CHAINS);
    let (mut chain, input) = (example(name), capture(input));
    let count = (1 + dice.roll(4)).to_string();
    let form: &[&str] = match dice.roll(5) {
        4 => {
            chain = folder.path(&format!("{seed}.yaml"));
            std::fs::write(&chain, WIDE).unwrap();
            &["--plan", "pipeline"]
        }
        0 => &["--workers", &count],
        1 => &["--runtimes", &count],
        2 => &["--plan", "pipeline", "--passes", "all"],
        _ => &["--plan", "pipeline", "--passes", "none"],
    };
    let placement = dealt(&mut dice, &chosen(&chain, form));
    println!("seed {seed}: {name} {form:?}: {placement}");
    let path = folder.path(&format!("{seed}.json"));
    std::fs::write(&path, placement.to_string()).unwrap();
    let mut args = vec!["--placement", &path];
    match form[0] {
        "--plan" => args.extend(form),
        "--runtimes" if count != "1" => {
            let replications: [&[&str]; 3] = [
                &[],
                &["--replication", "each-burst"],
                &["--replication", "every-4"],
            ];
            args.extend(*dice.pick(&replications));
        }
        _ => {}
    }
    let plain = through(&chain, &input, &[]).whenever_noticed();
    let placed = through(&chain, &input, &args).whenever_noticed();
    same(&plain, &placed, &format!("seed {seed}"));
}

#[test]
fn random_placements_come_out_as_one_runtime() {
    let folder = Folder::new();
    let first = number_of("WEIR_SEED", 1);
    for seed in first..first + number_of("WEIR_PLACEMENTS", DRAWN) {
        drawn(seed, &folder);
    }
}

/// What was chosen and given back is what runs: one node of each kind, and all
/// of several threads on one.
#[test]
fn nodes_run_where_they_are_placed() {
    let folder = Folder::new();
    let path = folder.path("placement.json");
    let chain = example("monitor.yaml");
    let mut placement = chosen(&chain, &["--workers", "3"]);
    let threads = placement["processes"][0]["threads"].as_array_mut().unwrap();
    let nodes = |thread: Value| thread["nodes"].as_array().unwrap().clone();
    let last = [threads.pop().unwrap(), threads.pop().unwrap()];
    let [last, before] = last.map(nodes);
    let first = threads[0]["nodes"].as_array_mut().unwrap();
    first.extend(last);
    let second = threads[1]["nodes"].as_array_mut().unwrap();
    second.extend(before);
    std::fs::write(&path, placement.to_string()).unwrap();
    let input = capture("mixed.pcapng");
    let placed = through(&chain, &input, &["--placement", &path]);
    let each = placed.summary["workers"]["each"].as_array().unwrap();
    assert_eq!(each.len(), 3);
    let packets = each
        .iter()
        .map(|worker| worker["packets"].as_u64().unwrap());
    assert!(packets.sum::<u64>() > 0);
    same(&through(&chain, &input, &[]), &placed, "workers");
}

/// Placements that can't run, each with a part of the message that says why.
fn refused() -> [(String, &'static str); 8] {
    let chain = example("webedge.yaml");
    let pipeline = chosen(&chain, &["--plan", "pipeline"]);
    let runtimes = chosen(&chain, &["--runtimes", "2"]);
    let workers = chosen(&example("monitor.yaml"), &["--workers", "2"]);
    let changed = |from: &Value, change: fn(&mut Value)| {
        let mut changed = from.clone();
        change(&mut changed);
        changed.to_string()
    };
    [
        ("{".to_owned(), "it is no placement"),
        (json!({"processes": []}).to_string(), "`ports`"),
        (
            changed(&pipeline, |p| {
                p["processes"][0]["threads"].as_array_mut().unwrap().pop();
            }),
            "is not placed",
        ),
        (
            changed(&pipeline, |p| {
                let threads = p["processes"][0]["threads"].as_array_mut().unwrap();
                let first = threads[0]["nodes"].as_array_mut().unwrap().pop();
                threads[1]["nodes"].as_array_mut().unwrap().extend(first);
            }),
            "is not on the first thread",
        ),
        (
            changed(&runtimes, |p| {
                p["processes"][0]["threads"][1]["nodes"][0]["name"] = json!("runtime 9");
            }),
            "`runtime 1`",
        ),
        (
            changed(&workers, |p| {
                let thread = p["processes"][0]["threads"].as_array_mut().unwrap().pop();
                let process = json!({"name": "worker 2", "threads": [thread]});
                p["processes"].as_array_mut().unwrap().push(process);
            }),
            "node `worker 2` is a worker",
        ),
        (
            changed(&runtimes, |p| {
                p["processes"][0]["threads"][1]["core"] = json!(1_000);
            }),
            "core 1000",
        ),
        (
            changed(&runtimes, |p| {
                let nodes = p["processes"][0]["threads"][0]["nodes"].as_array_mut();
                nodes.unwrap().pop();
                p["edges"] = json!([]);
            }),
            "runtimes go with one node",
        ),
    ]
}

#[test]
fn a_placement_that_can_not_run_is_refused() {
    let folder = Folder::new();
    let path = folder.path("placement.json");
    let chain = example("webedge.yaml");
    for (text, part) in refused() {
        std::fs::write(&path, &text).unwrap();
        let all = ["run", &chain, "--in", "gen:packets=10", "--quiet"];
        let args = ["--plan", "pipeline", "--placement", &path];
        let args = match text.contains("runtime") || text.contains("worker") {
            true => &args[2..],
            false => &args[..],
        };
        let ran = run(all.iter().chain(args));
        assert_eq!(ran.code, 2, "{part}: {}", ran.err);
        assert!(ran.err.contains(part), "{part}: {}", ran.err);
    }
}

#[test]
fn a_placement_is_shown_as_text_and_as_a_picture() {
    let chain = example("webedge.yaml");
    let all = ["plan", &chain, "--placement", "--plan", "pipeline"];
    let text = run(all.iter()).out;
    for part in ["process main", "thread 1", "(a stage has", ": queue"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let svg = run(all.iter().chain(&["--processes", "--output", "svg"])).out;
    assert!(svg.starts_with("<svg") && svg.contains("(ring)"), "{svg}");
}

#[test]
fn the_guardian_of_a_bump_that_fails_open_is_shown() {
    let folder = Folder::new();
    let chain = folder.path("open.yaml");
    let text = "chain: a\nnetwork: {mode: bump, on-failure: open}\nnfs: [monitor]\n";
    std::fs::write(&chain, text).unwrap();
    let shown = chosen(&chain, &["--runtimes", "2", "--processes"]);
    let processes = shown["processes"].as_array().unwrap();
    let names: Vec<&Value> = processes.iter().map(|process| &process["name"]).collect();
    assert_eq!(names, ["main", "runtime 1", "runtime 2", "guardian"]);
    assert_eq!(processes[3]["threads"][0]["nodes"][0]["kind"], "guard");
    // What was shown can be given back, for captures, too.
    let path = folder.path("placement.json");
    std::fs::write(&path, shown.to_string()).unwrap();
    let args = ["--in", "gen:packets=100", "--quiet", "--placement", &path];
    let ran = run(["run", &chain].iter().chain(&args));
    assert_eq!(ran.code, 0, "{}", ran.err);
    let ran = run(["run", &example("monitor.yaml")].iter().chain(&args));
    assert_eq!(ran.code, 2, "{}", ran.err);
    assert!(ran.err.contains("on-failure: open"), "{}", ran.err);
}

#[test]
fn a_chain_file_places_nodes() {
    let folder = Folder::new();
    let chain = folder.path("chain.yaml");
    let input = capture("attack.pcap");
    let text = "chain: a\nnfs: [ip-check, monitor, http-classifier, mac-swap]\n";
    std::fs::write(&chain, text).unwrap();
    let plain = through(&chain, &input, &[]).whenever_noticed();
    let placed = |placement: &str| {
        let plan = "plan: {mode: pipeline, stages: [monitor, http-classifier, mac-swap]}\n";
        let text = format!("{text}{plan}placement:\n{placement}");
        std::fs::write(&chain, text).unwrap();
    };
    placed("  threads: [{nodes: [ports, a/1, a/4]}, {nodes: [a/2]}]\n  processes: [a/3]\n");
    let with = through(&chain, &input, &[]).whenever_noticed();
    assert_eq!(with.summary["processes"].as_array().unwrap().len(), 1);
    same(&plain, &with, "stages");
    let shown = chosen(&chain, &[]);
    assert_eq!(shown["processes"][1]["name"], "a/3");
    assert_eq!(
        shown["processes"][0]["threads"][0]["nodes"][2]["name"],
        "a/4"
    );
    // The command line puts it aside.
    let aside = through(&chain, &input, &["--plan", "rtc", "--workers", "2"]);
    assert_eq!(
        aside.summary["workers"]["each"].as_array().unwrap().len(),
        2
    );
    placed("  threads: [{nodes: [ports, a/1]}, {nodes: [a/2, a/3]}]\n");
    let ran = run(["run", &chain, "--in", "gen:packets=10", "--quiet"]);
    assert_eq!(ran.code, 2, "{}", ran.err);
    assert!(
        ran.err.contains("`a/4` of the plan is not placed"),
        "{}",
        ran.err
    );
}

#[test]
fn a_placement_in_a_chain_file_is_wrong_at_its_line() {
    let folder = Folder::new();
    let text = "chain: p
placement:
  threads:
    - {nodes: [ports, switch]}
    - {nodes: [runtime 1]}
  processes: [runtime 3]
nfs: [monitor]
";
    let chain = folder.write("p.yaml", text);
    for words in [
        &["check"][..],
        &["run", "--in", "gen:packets=10", "--quiet"],
        &["plan", "--placement"],
    ] {
        let ran = run(words.iter().chain([&chain.as_str()]));
        assert_eq!(ran.code, 3, "{words:?}: {}", ran.err);
        let part = "p.yaml:3: error: a placement of 2 runtimes calls them";
        assert!(ran.err.contains(part), "{words:?}: {}", ran.err);
    }
}
