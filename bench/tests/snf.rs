//! SNF's evaluation in small: each part runs, and a seed gives the same figures again.

use std::process::Command;

/// The output of `weir-bench snf`.
fn snf(words: &[&str]) -> String {
    let mut bench = Command::new(env!("CARGO_BIN_EXE_weir-bench"));
    let ran = bench.args(["snf", "quick"]).args(words).output().unwrap();
    let errors = String::from_utf8_lossy(&ran.stderr);
    assert!(ran.status.success(), "{errors}");
    String::from_utf8(ran.stdout).unwrap()
}

/// One after another: all write the same files.
#[test]
fn all_of_it_runs_and_a_seed_repeats_it() {
    let all = snf(&[]);
    let titles = [
        "Traces",
        "Fig. 1",
        "Fig. 2",
        "Fig. 3",
        "Fig. 4",
        "Fig. 5",
        "§9.4",
        "Fig. 6",
        "Fig. 7",
        "§9.6",
        "§9.7: cost",
        "§9.7: bandwidth",
    ];
    for title in titles {
        assert!(all.contains(&format!("### {title}")), "{title}: {all}");
    }
    // Times of this machine are in the parts that are not repeated.
    let in_virtual_time = ["seed=5", "traces", "modes", "states", "recovery", "gaps"];
    let figures = snf(&in_virtual_time);
    assert!(figures.contains("seed 5"));
    assert_eq!(figures, snf(&in_virtual_time));
    assert_ne!(
        figures.replace("seed 5", "seed 6"),
        snf(&["seed=6", "traces", "modes", "states", "recovery", "gaps"])
    );
}

#[test]
fn words_that_mean_nothing_are_refused() {
    for (words, said) in [
        (&["snf", "nonsense"][..], "`nonsense`: write `quick`"),
        (&["snf", "parts=0"], "`parts` is 1 to 4294967295"),
        (&["snf", "seed=x"], "`x` is no number"),
        (&["snf", "count", "nothing", "5"], "write `snf count"),
    ] {
        let mut bench = Command::new(env!("CARGO_BIN_EXE_weir-bench"));
        let ran = bench.args(words).output().unwrap();
        let errors = String::from_utf8_lossy(&ran.stderr);
        assert!(!ran.status.success() && errors.contains(said), "{errors}");
    }
}
