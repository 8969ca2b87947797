//! `weir doctor` on real interfaces in namespaces, and the commands that it gives: they are run as
//! printed, and what they mend is looked at again.
//!
//! Needs root; says SKIPPED without.

#[path = "support/network.rs"]
mod network;
mod support;
#[path = "support/web.rs"]
mod web;

use network::{Cable, Network, must, possible, try_run};
use serde_json::Value;
use support::{Folder, Ran, example, run};

/// `weir ARGS…` between the hosts.
fn weir(network: &Network, args: &[&str]) -> Ran {
    let place = network.name("weir");
    let program = env!("CARGO_BIN_EXE_weir");
    let all = [&["netns", "exec", &place, program], args].concat();
    let ran = std::process::Command::new("ip").args(all).output().unwrap();
    Ran::of(ran)
}

/// What the doctor finds for a bump between these ports, and its exit code.
fn examine(network: &Network, inside: &str, outside: &str) -> (Value, i32) {
    let chain = example("bump.yaml");
    let args = [
        "doctor", &chain, "--in", inside, "--out", outside, "--output", "json",
    ];
    let ran = weir(network, &args);
    assert_eq!(ran.err, "");
    (ran.json(), ran.code)
}

/// The findings of a check about an interface.
fn of<'a>(found: &'a Value, check: &str, subject: &str) -> Vec<&'a Value> {
    let all = found["findings"].as_array().expect("a list");
    let of = |f: &&Value| f["check"] == check && f["subject"] == subject;
    all.iter().filter(of).collect()
}

#[track_caller]
fn one<'a>(found: &'a Value, check: &str, subject: &str) -> &'a Value {
    let all = of(found, check, subject);
    assert_eq!(all.len(), 1, "{check} {subject}: {found:#}");
    all[0]
}

/// Runs the commands of a finding as they are, where weir is.
fn mend(network: &Network, finding: &Value) {
    let commands = finding["mend"].as_array().expect("a list");
    assert!(!commands.is_empty(), "{finding:#}");
    for command in commands {
        let command = command.as_str().expect("text");
        network.run("weir", "sh", &["-c", command]);
    }
}

#[test]
fn offloads_of_the_other_end_are_found_and_mended_by_the_command_given() {
    if !possible() {
        return;
    }
    let network = Network::new(&Cable {
        offloads: true,
        ..Cable::default()
    });
    for (inside, outside) in [
        ("xdp:inside", "af-packet:outside"),
        ("af-packet:inside", "xdp:outside"),
    ] {
        let (found, code) = examine(&network, inside, outside);
        assert_eq!(code, 1, "{found:#}");
        for (port, place) in [("inside", "client"), ("outside", "server")] {
            let finding = one(&found, "peer-offloads", port);
            if [inside, outside].contains(&format!("af-packet:{port}").as_str()) {
                // A packet port does that itself.
                assert_eq!(finding["status"], "ok", "{finding:#}");
                continue;
            }
            assert_eq!(finding["status"], "problem");
            let command = format!(
                "ip netns exec {} ethtool -K eth0 tx off",
                network.name(place)
            );
            assert_eq!(finding["mend"][0], *command, "{finding:#}");
        }
    }
    let (found, _) = examine(&network, "xdp:inside", "xdp:outside");
    for port in ["inside", "outside"] {
        mend(&network, one(&found, "peer-offloads", port));
    }
    let (found, code) = examine(&network, "xdp:inside", "xdp:outside");
    assert_eq!(code, 0, "{found:#}");
    assert_eq!(found["problems"], 0, "{found:#}");
    for port in ["inside", "outside"] {
        assert_eq!(one(&found, "peer-offloads", port)["status"], "ok");
        let mode = one(&found, "xdp-mode", port);
        assert_eq!(
            (&mode["status"], &mode["mend"]),
            (&"ok".into(), &Value::Array(Vec::new()))
        );
    }
    // What it says is so.
    let chain = example("bump.yaml");
    let args = [
        "doctor",
        &chain,
        "--in",
        "xdp:inside",
        "--out",
        "xdp:outside",
        "--try",
    ];
    let ran = weir(&network, &args);
    assert_eq!(ran.code, 0, "{}", ran.out);
    assert_eq!(
        ran.out
            .matches("opened: AF_XDP native, copy, 1 queue")
            .count(),
        2,
        "{}",
        ran.out
    );
}

/// The commands of all problems, as the doctor prints them.
fn commands(printed: &str) -> Vec<String> {
    let mut commands = Vec::new();
    let mut bad = false;
    for line in printed.lines() {
        let text = line.trim_start();
        match text.strip_prefix("$ ") {
            Some(command) if bad => commands.push(command.to_owned()),
            Some(_) => {}
            None if line.starts_with("  ") && !line.starts_with("   ") => {
                bad = text.starts_with("problem");
            }
            None => {}
        }
    }
    commands
}

#[test]
fn veth_as_it_comes_works_after_the_commands_that_are_printed() {
    if !possible() {
        return;
    }
    // As `ip link add … type veth` makes them: with offloads, weir's ends down.
    let network = Network::new(&Cable {
        offloads: true,
        ..Cable::default()
    });
    for port in ["inside", "outside"] {
        network.run("weir", "ip", &["link", "set", port, "down"]);
    }
    let chain = example("bump.yaml");
    let ports = ["--in", "xdp:inside", "--out", "xdp:outside"];
    let doctor = || weir(&network, &[&["doctor", &chain], &ports[..]].concat());
    // What can be seen of an interface that is down is less: at most twice.
    let mut turns = 0;
    loop {
        let ran = doctor();
        if ran.code == 0 {
            break;
        }
        turns += 1;
        let commands = commands(&ran.out);
        assert!(turns <= 2 && !commands.is_empty(), "{}", ran.out);
        for command in commands {
            network.run("weir", "sh", &["-c", &command]);
        }
    }
    assert!(turns > 0, "there was nothing to mend");
    let clean = doctor();
    assert!(clean.out.contains("\n0 problems, "), "{}", clean.out);
    web::server(&network);
    let run = network.weir(&chain, &ports);
    network.ping(1);
    assert_eq!(web::transfers(&network, 6), 24);
    let ran = run.end("-TERM");
    assert_eq!(ran.code, 0, "{}", ran.err);
    support::conserved(&ran.json());
}

#[test]
fn interfaces_that_are_down_or_missing_are_told_with_the_command() {
    if !possible() {
        return;
    }
    let network = Network::new(&Cable::default());
    must(
        "ip",
        &["-n", &network.name("weir"), "link", "set", "inside", "down"],
    );
    let (found, code) = examine(&network, "af-packet:inside", "af-packet:outside");
    assert_eq!(code, 1);
    let down = one(&found, "interface-up", "inside");
    assert_eq!(down["mend"][0], "ip link set inside up");
    assert_eq!(of(&found, "interface-up", "outside"), [&Value::Null; 0]);
    mend(&network, down);
    let (found, code) = examine(&network, "af-packet:inside", "af-packet:outside");
    assert_eq!((code, &found["problems"]), (0, &0.into()), "{found:#}");

    let (found, code) = examine(&network, "xdp:outsize", "xdp:inside");
    assert_eq!(code, 1);
    let missing = one(&found, "interface", "outsize");
    assert_eq!(missing["status"], "problem");
    let says = missing["message"].as_str().unwrap();
    assert!(says.contains("inside, outside"), "{says}");
    // A run is refused by the same words, before anything is opened.
    let chain = example("bump.yaml");
    let stages = ["--plan", "pipeline"];
    for (chain, way) in [(chain, &[][..]), (example("edge.yaml"), &stages)] {
        let run = ["run", &chain, "--in", "xdp:outsize", "--out", "xdp:inside"];
        let ran = weir(&network, &[&run[..], way].concat());
        assert_eq!(ran.code, 1);
        let told = format!("error: outsize: {says}");
        assert!(ran.err.contains(&told), "{}", ran.err);
        assert!(ran.err.contains("weir doctor"), "{}", ran.err);
    }
}

#[test]
fn queues_and_sizes_that_xdp_can_t_take_are_told_before_it_tries() {
    if !possible() {
        return;
    }
    // Ends that could have four queues, and have one.
    let network = Network::new(&Cable {
        queues: 4,
        host_queues: 4,
        ..Cable::default()
    });
    let place = network.name("weir");
    network.run("weir", "ethtool", &["-L", "inside", "rx", "1"]);
    let (found, code) = examine(&network, "xdp:inside:native", "xdp:outside");
    assert_eq!(code, 1, "{found:#}");
    let mode = one(&found, "xdp-mode", "inside");
    assert_eq!(
        (&mode["status"], &mode["stops_run"]),
        (&"problem".into(), &true.into())
    );
    assert_eq!(mode["mend"][0], "ethtool -L inside rx 4");
    // Without a mode of its own it falls back: no more than a warning.
    let (found, code) = examine(&network, "xdp:inside", "xdp:outside");
    assert_eq!(
        (code, &one(&found, "xdp-mode", "inside")["status"]),
        (0, &"warning".into())
    );
    mend(&network, one(&found, "xdp-mode", "inside"));
    let (found, _) = examine(&network, "xdp:inside:native", "xdp:outside");
    assert_eq!(
        one(&found, "xdp-mode", "inside")["status"],
        "ok",
        "{found:#}"
    );

    for name in ["inside", "outside"] {
        must("ip", &["-n", &place, "link", "set", name, "mtu", "9000"]);
    }
    let (found, code) = examine(&network, "xdp:inside", "af-packet:outside");
    assert_eq!(code, 1);
    let size = one(&found, "mtu", "inside");
    assert_eq!(size["mend"][0], "ip link set inside mtu 3754");
    let chain = example("bump.yaml");
    let ran = weir(
        &network,
        &[
            "run",
            &chain,
            "--in",
            "xdp:inside",
            "--out",
            "af-packet:outside",
        ],
    );
    assert_eq!(ran.code, 1);
    assert!(
        ran.err.contains("`ip link set inside mtu 3754`"),
        "{}",
        ran.err
    );
    mend(&network, size);
    let (found, _) = examine(&network, "xdp:inside", "af-packet:outside");
    assert_eq!(of(&found, "mtu", "inside"), [&Value::Null; 0], "{found:#}");
    // Now packets of one side do not fit the other.
    mend(&network, one(&found, "mtu-pair", "outside"));
    let (found, _) = examine(&network, "xdp:inside", "af-packet:outside");
    assert_eq!(
        of(&found, "mtu-pair", "outside"),
        [&Value::Null; 0],
        "{found:#}"
    );
}

#[test]
fn what_the_host_does_with_an_interface_is_said_before_a_run_and_by_it() {
    if !possible() {
        return;
    }
    let network = Network::new(&Cable::default());
    let place = network.name("weir");
    must(
        "ip",
        &["-n", &place, "addr", "add", "10.99.0.9/24", "dev", "inside"],
    );
    network.run(
        "weir",
        "sysctl",
        &["-qw", "net/ipv4/conf/outside/forwarding=1"],
    );
    let (found, code) = examine(&network, "af-packet:inside", "af-packet:outside");
    assert_eq!(code, 0, "{found:#}");
    assert_eq!(
        one(&found, "addresses", "inside")["mend"][0],
        "ip addr del 10.99.0.9/24 dev inside"
    );
    let chain = example("bump.yaml");
    let ports = ["--in", "af-packet:inside", "--out", "af-packet:outside"];
    let strict = [&["doctor", &chain, "--strict"], &ports[..]].concat();
    assert_eq!(weir(&network, &strict).code, 1);
    // A run begins, and says so.
    let run = network.weir(&chain, &ports);
    assert!(
        run.said.contains("warning: inside: the host uses it"),
        "{}",
        run.said
    );
    assert!(
        run.said.contains("net/ipv4/conf/outside/forwarding=0"),
        "{}",
        run.said
    );
    assert_eq!(run.end("-TERM").code, 0);
    for (check, subject) in [("addresses", "inside"), ("forwarding", "outside")] {
        mend(&network, one(&found, check, subject));
    }
    let (found, _) = examine(&network, "af-packet:inside", "af-packet:outside");
    for (check, subject) in [("addresses", "inside"), ("forwarding", "outside")] {
        assert_eq!(of(&found, check, subject), [&Value::Null; 0], "{found:#}");
    }
    // A second weir finds the program of the first.
    let ports = ["--in", "xdp:inside", "--out", "xdp:outside"];
    let first = network.weir(&chain, &ports);
    let (found, code) = examine(&network, "xdp:inside", "xdp:outside");
    assert_eq!(code, 1);
    assert_eq!(one(&found, "xdp-attached", "inside")["status"], "problem");
    assert_eq!(first.end("-TERM").code, 0);
}

#[test]
fn an_address_of_the_chain_is_none_of_the_kernel_s() {
    if !possible() {
        return;
    }
    let network = Network::new(&Cable::default());
    let folder = Folder::new();
    let chain = folder.path("router.yaml");
    let text = "\
chain: routed
ports:
  - {name: inside, side: inside}
  - {name: outside, side: outside}
network:
  mode: router
  ports:
    inside: {addresses: [10.99.0.254/24, \"fd99::fe/64\"]}
    outside: {addresses: [10.98.0.254/24]}
nfs:
  - monitor
";
    std::fs::write(&chain, text).unwrap();
    let place = network.name("weir");
    let args = [
        "doctor",
        &chain,
        "--in",
        "xdp:inside",
        "--out",
        "xdp:outside",
        "--output",
        "json",
    ];
    assert_eq!(weir(&network, &args).code, 0);
    must(
        "ip",
        &["-n", &place, "addr", "add", "10.99.0.254/24", "dev", "lo"],
    );
    must(
        "ip",
        &["-n", &place, "addr", "add", "fd99::fe/64", "dev", "inside"],
    );
    let ran = weir(&network, &args);
    let found = ran.json();
    assert_eq!(ran.code, 1, "{found:#}");
    for subject in ["lo", "inside"] {
        let finding = one(&found, "owned-address", subject);
        assert_eq!(finding["stops_run"], true);
        mend(&network, finding);
    }
    let ran = weir(&network, &args);
    assert_eq!(ran.code, 0, "{}", ran.out);
}

#[test]
fn a_user_without_privileges_is_told_which_and_the_command_gives_them() {
    if !possible() {
        return;
    }
    if let Err(why) = try_run("setpriv", &["--version"]) {
        let text = format!("SKIPPED: a user without privileges needs setpriv: {why}\n");
        let _ = std::io::Write::write_all(&mut std::io::stderr(), text.as_bytes());
        return;
    }
    // Where everybody gets at it.
    let folder = Folder::new();
    let program = folder.path("weir");
    std::fs::copy(env!("CARGO_BIN_EXE_weir"), &program).unwrap();
    let chain = folder.path("bump.yaml");
    std::fs::copy(example("bump.yaml"), &chain).unwrap();
    let above = std::path::Path::new(&program)
        .parent()
        .unwrap()
        .display()
        .to_string();
    must("chmod", &["-R", "a+rX", &above]);
    let network = Network::new(&Cable {
        queues: 4,
        host_queues: 4,
        ..Cable::default()
    });
    let place = network.name("weir");
    let nobody = |args: &[&str]| {
        let start = [
            "netns",
            "exec",
            &place,
            "setpriv",
            "--reuid",
            "65534",
            "--regid",
            "65534",
            "--clear-groups",
            &program,
        ];
        let ran = std::process::Command::new("ip")
            .args([&start[..], args].concat())
            .output()
            .unwrap();
        Ran::of(ran)
    };
    let ports = ["--in", "xdp:inside", "--out", "af-packet:outside"];
    let asked = [&["doctor", &chain, "--output", "json"], &ports[..]].concat();
    let ran = nobody(&asked);
    assert_eq!(ran.code, 1, "{} {}", ran.out, ran.err);
    let found = ran.json();
    let findings = found["findings"].as_array().unwrap();
    let lacking = findings
        .iter()
        .find(|f| f["check"] == "privileges")
        .unwrap();
    let says = lacking["message"].as_str().unwrap();
    for name in ["CAP_NET_RAW", "CAP_NET_ADMIN", "CAP_BPF"] {
        assert!(says.contains(name), "{says}");
    }
    let command = lacking["mend"][0].as_str().unwrap();
    let setcap = format!("sudo setcap cap_net_admin,cap_net_raw,cap_ipc_lock,cap_bpf+ep {program}");
    assert_eq!(command, setcap);
    // Each socket pins the packet memory, and each queue has one.
    let pinned = |port: &str| {
        let args = ["doctor", &chain, "--in", port, "--out", "af-packet:outside"];
        let found = nobody(&[&args[..], &["--output", "json"]].concat()).json();
        let findings = found["findings"].as_array().unwrap();
        let memory = findings.iter().find(|f| f["check"] == "locked-memory");
        memory.unwrap()["message"].as_str().unwrap().to_owned()
    };
    assert_eq!(pinned("xdp:inside"), pinned("xdp:inside:4"));
    assert_ne!(pinned("xdp:inside"), pinned("xdp:inside:1"));
    let refused = nobody(&[&["run", &chain], &ports[..]].concat());
    assert_eq!(refused.code, 1, "{}", refused.err);
    assert!(refused.err.contains(&setcap), "{}", refused.err);
    // Captures need nothing.
    assert_eq!(nobody(&["doctor", &chain, "--in", "gen"]).code, 0);
    // The command, by one who may.
    must("sh", &["-c", setcap.trim_start_matches("sudo ")]);
    let ran = nobody(&asked);
    let found = ran.json();
    let findings = found["findings"].as_array().unwrap();
    let privileges = findings.iter();
    let privileges =
        privileges.filter(|f| f["area"] == "privileges" && f["check"] != "control-socket");
    assert!(privileges.clone().all(|f| f["status"] == "ok"), "{found:#}");
    let ran = nobody(&[&["run", &chain, "--for", "0.1"], &ports[..]].concat());
    assert_eq!(ran.code, 0, "{}", ran.err);
}

#[test]
fn the_machine_as_a_whole_is_looked_at_in_both_forms() {
    let ran = run(["doctor", "--output", "json"]);
    let found = ran.json();
    let all = found["findings"].as_array().expect("a list");
    for area in [
        "interfaces",
        "privileges",
        "kernel",
        "memory",
        "cores",
        "clock",
    ] {
        assert!(all.iter().any(|f| f["area"] == area), "{area}: {found:#}");
    }
    let of = |status: &str| all.iter().filter(|f| f["status"] == status).count();
    assert_eq!(found["ok"], of("ok"));
    assert_eq!(found["warnings"], of("warning"));
    assert_eq!(found["problems"], of("problem"));
    assert_eq!(ran.code, i32::from(of("problem") > 0));
    let text = run(["doctor"]);
    assert_eq!(text.code, ran.code);
    assert!(
        text.out.contains("\nprivileges\n") && text.out.contains("lo: "),
        "{}",
        text.out
    );
    let last = format!("{} ok", of("ok"));
    assert!(text.out.contains(&last), "{}", text.out);
    // Names of ports are those of a chain.
    let named = run(["doctor", "--in", "lan=xdp:eth0"]);
    assert_eq!(named.code, 2);
    assert!(named.err.contains("name the chain file"), "{}", named.err);
}

/// Every check has its section.
#[test]
fn every_check_is_documented() {
    let list = include_str!("../src/doctor/finding.rs");
    let (_, list) = list.split_once("const CHECKS").expect("there is a list");
    let names: Vec<&str> = list.split('"').skip(1).step_by(2).collect();
    assert!(names.len() > 20, "{names:?}");
    let manual = std::fs::read_to_string(support::root().join("docs/doctor.md")).unwrap();
    for name in names {
        assert!(
            manual.contains(&format!("`{name}`")),
            "docs/doctor.md says nothing of `{name}`"
        );
    }
}
