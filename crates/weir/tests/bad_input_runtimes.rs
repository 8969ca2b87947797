//! Nonsense for `weir run --runtimes` and `weir sim`: said once, clearly, with
//! the exit code that is documented.

mod support;

use support::{Folder, capture, example, number, run, run_json};

/// `weir run http.yaml --in web.pcap ARGS…` must fail so.
#[track_caller]
fn run_fails(code: i32, args: &[&str], parts: &[&str]) {
    let (chain, input) = (example("http.yaml"), capture("web.pcap"));
    let all = ["run", &chain, "--in", &input];
    fails(code, &[&all, args].concat(), parts);
}

#[track_caller]
fn fails(code: i32, args: &[&str], parts: &[&str]) {
    let ran = run(args);
    assert_eq!(ran.code, code, "{args:?}: {ran:?}");
    assert_eq!(ran.err.matches("error: ").count(), 1, "{}", ran.err);
    assert_eq!(ran.out, "", "nothing ran");
    for part in parts {
        assert!(ran.err.contains(part), "{args:?}: no `{part}` in {ran:?}");
    }
}

#[test]
fn numbers_of_runtimes() {
    for number in ["0", "65", "10000", "99999999999", "-1", "two"] {
        run_fails(
            2,
            &[&format!("--runtimes={number}")],
            &["--runtimes", number],
        );
    }
    run_fails(2, &["--runtimes", "2", "--cores", "x"], &["such as 0,1,2"]);
    run_fails(2, &["--runtimes", "2", "--cores", "4000"], &["core 4000"]);
    run_fails(
        2,
        &["--runtimes", "2", "--dispatch", "best"],
        &["--dispatch", "least-loaded"],
    );
}

#[test]
fn options_that_need_runtimes() {
    run_fails(2, &["--script", "moves.yaml"], &["--runtimes <N>"]);
}

#[test]
fn a_move_that_can_not_be_is_an_error_of_the_script() {
    let folder = Folder::new();
    for (text, place, parts) in [
        (
            "- {at: 0, move: {from: 1, to: 2}}\n- {at: 0, add: 1}\n- {at: 1s, move: {from: 1, to: 4}}\n",
            "3:32",
            ["there is no runtime 4", "there are runtimes 1 to 3 by then"],
        ),
        (
            "- {at: 0, add: 1}\n- {at: 0, drain: 2}\n- {at: 1s, move: {from: 1, to: 2}}\n",
            "3:32",
            [
                "runtime 2 is being drained since line 2: it takes no flows",
                "move them to another runtime, or before it is drained",
            ],
        ),
        (
            "- {at: 0, add: 1}\n- {at: 0, drain: 2}\n- {at: 1s, move: {from: 3, to: 3}}\n",
            "3:32",
            [
                "runtime 3 is the source of this move, too",
                "move flows to another runtime",
            ],
        ),
        (
            "- {at: 0, move: {from: 1, to: 2}}\n- {at: 1s, drain: 1}\n- {at: 2s, mvoe: {from: 1, to: 2}}\n",
            "3:12",
            ["unknown key `mvoe`", "did you mean `move`?"],
        ),
    ] {
        let script = folder.write("moves.yaml", text);
        run_fails(3, &["--runtimes", "2", "--script", &script], &parts);
        let place = format!("{script}:{place}: error: ");
        run_fails(3, &["--runtimes", "2", "--script", &script], &[&place]);
    }
    let none = folder.path("none.yaml");
    run_fails(1, &["--runtimes", "2", "--script", &none], &["none.yaml"]);
    run_fails(1, &["--runtimes", "2", "--script", "/dev/zero"], &["MiB"]);
    let binary = folder.write("binary.yaml", b"- {at: 0, add: \xff}\n");
    run_fails(3, &["--runtimes", "2", "--script", &binary], &["UTF-8"]);
    let empty = folder.write("empty.yaml", "");
    run_fails(3, &["--runtimes", "2", "--script", &empty], &["no command"]);
}

/// Runtimes that are added when all packets are out already: they are stopped
/// as soon as they have started.
#[test]
fn a_run_may_end_while_runtimes_start() {
    let folder = Folder::new();
    let script = folder.write("add.yaml", "- {at: {packet: 202}, add: 5}\n");
    for _ in 0..5 {
        let summary = run_json(
            &example("two-chains.yaml"),
            &[
                "--in",
                &capture("web.pcap"),
                "--runtimes",
                "2",
                "--script",
                &script,
            ],
        );
        assert_eq!(number(&summary, "/packets_in"), 202);
        assert_eq!(summary["runtimes"].as_array().map(Vec::len), Some(7));
    }
}

#[test]
fn simulations() {
    for (args, parts) in [
        (["--faults", "loss,fire"], ["no fault `fire`", "reorder"]),
        (["--faults", ""], ["no fault ``", "none"]),
        (["--chain", "wbe"], ["no chain `wbe`", "web"]),
        (
            ["--plant", "no-bug"],
            ["no plant `no-bug`", "no-view-check"],
        ),
        (["--runtimes", "0"], ["--runtimes", "1..=64"]),
        (["--runtimes", "10000"], ["--runtimes", "1..=64"]),
        (["--flows", "0"], ["--flows", "1..=900"]),
        (["--packets", "0"], ["--packets", "1..=1000000"]),
        (["--jobs", "0"], ["--jobs", "1..=256"]),
        (["--seeds", "0"], ["--seeds", "not in 1.."]),
        (["--most-failures", "0"], ["--most-failures", "not in 1.."]),
        (["--seed", "18446744073709551616"], ["--seed", "too large"]),
        (["--replication", "often"], ["--replication", "each-burst"]),
        (["--mode=ring", "--hosts=2"], ["`--hosts`", "links"]),
        (["--in", "gen:flws=1"], ["`flws=1`", "flows"]),
    ] {
        let all = [["sim", "--quiet"], args].concat();
        fails(2, &all, &parts);
    }
    fails(1, &["sim", "--in", "none.pcap"], &["none.pcap"]);
    fails(
        2,
        &["sim", "--plants", "--plant", "no-repeats"],
        &["--plant"],
    );
    // The last seed there is, and the first.
    let seeds = ["sim", "--quiet", "--seed", "18446744073709551615"];
    let small = ["--seeds", "2", "--packets", "100", "--flows", "5"];
    let ran = run([seeds.as_slice(), &small].concat());
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(ran.out.starts_with("2 seeds"), "{}", ran.out);
}
