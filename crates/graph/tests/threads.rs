//! `threads:`: what it means, and every mistake by its line and column.

mod common;

use common::read;
use weir_graph::{ChainFile, render};

const CHAIN: &str = "chain: a\nnfs: [monitor]\n";

#[track_caller]
fn loaded(text: &str) -> ChainFile {
    read(text).unwrap_or_else(|list| panic!("{}", render(&list)))
}

#[test]
fn cores_and_sleep_are_the_files() {
    let file = loaded(&format!(
        "{CHAIN}threads: {{cores: [2, 0], busy-poll: true}}"
    ));
    assert_eq!(
        (&file.threads.cores[..], file.threads.busy_poll),
        (&[2, 0][..], true)
    );
    assert_eq!(
        file.threads.to_string(),
        "threads on cores 2, 0 never sleep"
    );
    let file = loaded(&format!("{CHAIN}threads: {{cores: 3}}"));
    assert_eq!(
        (&file.threads.cores[..], file.threads.busy_poll),
        (&[3][..], false)
    );
    assert_eq!(loaded(CHAIN).threads.to_string(), "threads sleep when idle");
}

#[test]
fn a_chain_that_names_cores_of_its_own_has_those() {
    let file = loaded(
        "threads: {cores: [0, 1]}
chains:
  - {chain: a, match: [{protocol: tcp}], nfs: [monitor], plan: {cores: [5]}}
  - {chain: b, nfs: [monitor], plan: {mode: rtc}}
",
    );
    let cores: Vec<&[usize]> = file.chains.iter().map(|c| &c.plan.cores[..]).collect();
    assert_eq!(cores, [&[5][..], &[0, 1]]);
}

#[test]
fn mistakes_are_told_by_place_with_the_fix() {
    let case = |threads: &str, expected: &str| {
        let list = read(&format!("{CHAIN}threads:{threads}\n")).unwrap_err();
        let told: Vec<String> = list
            .iter()
            .map(|d| {
                let help = d.help.iter().map(|help| format!(" | {help}"));
                format!(
                    "{}:{} {}{}",
                    d.line,
                    d.column,
                    d.message,
                    help.collect::<String>()
                )
            })
            .collect();
        assert_eq!(told.join("\n"), expected);
    };
    case(
        " [0, 1]",
        "3:10 expected a mapping like `cores: [0, 1]`, found a list | leave it out for threads \
         on any core, which sleep when idle",
    );
    case(
        "\n  core: 1",
        "4:3 unknown key `core` | did you mean `cores`?",
    );
    case(
        "\n  cores: [0, 1024]",
        "4:14 expected a whole number from 0 to 1023, found `1024`",
    );
    case(
        "\n  cores: []",
        "4:10 expected the number of a core, or a list of them, found an empty list",
    );
    case(
        "\n  busy-poll: 1",
        "4:14 expected `true` or `false`, found `1`",
    );
    case("\n  first: 1", "4:10 expected `true` or `false`, found `1`");
    let list = read("chains:\n  - {chain: a, nfs: [monitor], threads: {cores: 0}}\n").unwrap_err();
    let text = render(&list);
    assert!(
        text.contains("`threads` is not a key of one chain among several"),
        "{text}"
    );
    assert!(
        text.contains("write it beside `chains`: it holds for all of them"),
        "{text}"
    );
}
