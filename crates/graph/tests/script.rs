//! Scripts that are right, and what is said of those that are not.

use weir_graph::{
    Diagnostic, Script, ScriptCommand, ScriptFlows, ScriptMode, ScriptTime, load_script, render,
};
use weir_packet::FlowKey;

fn read(text: &str) -> Result<Script, Vec<Diagnostic>> {
    load_script("moves.yaml", text, 2, &["edge", "web"])
}

/// Line, message and help of the only thing that is wrong.
#[track_caller]
fn only(text: &str) -> (usize, String, String) {
    let errors = read(text).expect_err("an error");
    assert_eq!(errors.len(), 1, "{}", render(&errors));
    let error = &errors[0];
    (
        error.line,
        error.message.clone(),
        error.help.clone().unwrap_or_default(),
    )
}

#[test]
fn a_script_is_read_as_it_is_meant() {
    let text = "\
- {at: 0, move: {from: 1, to: 2, count: 500}}
- at: 100ms
  move: {from: 2, to: 1, flows: {port: [80, 8000-8100], prefix: 10.0.0.0/8, protocol: tcp}, mode: pull}
- at: {packet: 50000}
  move: {from: 1, to: 2, key: {client: 10.0.0.1:1234, server: 192.0.2.1:80, protocol: tcp}, chain: web, mode: reprocess}
- {at: 1s, add: 1}
- {at: 1s500ms, drain: {runtime: 2, mode: pull}}
- {at: 2s, move: {from: 2, to: 3}}
- {at: 2s, remove: 2}
";
    let script = read(text).unwrap_or_else(|errors| panic!("{}", render(&errors)));
    assert_eq!(script.added, 1);
    assert_eq!(script.steps.len(), 7);
    assert_eq!(
        script.steps[0].command,
        ScriptCommand::Move {
            from: 1,
            to: 2,
            flows: ScriptFlows::Count(500),
            mode: ScriptMode::Push,
            chain: None
        }
    );
    assert_eq!(
        script.steps[1].command,
        ScriptCommand::Move {
            from: 2,
            to: 1,
            flows: ScriptFlows::Space {
                prefixes: vec!["10.0.0.0/8".parse().unwrap()],
                ports: vec![(80, 80), (8000, 8100)],
                protocols: vec![6],
            },
            mode: ScriptMode::Pull,
            chain: None
        }
    );
    assert_eq!(script.steps[2].at, ScriptTime::Packet(50_000));
    let (client, server) = ("10.0.0.1".parse().unwrap(), "192.0.2.1".parse().unwrap());
    let (key, _) = FlowKey::new(client, 1234, server, 80, 6, 0, 0);
    assert_eq!(
        script.steps[2].command,
        ScriptCommand::Move {
            from: 1,
            to: 2,
            flows: ScriptFlows::Key(key),
            mode: ScriptMode::Reprocess,
            chain: Some("web".to_owned())
        }
    );
    assert_eq!(
        (script.steps[4].at, script.steps[4].line),
        (ScriptTime::After(1_500_000_000), 7)
    );
}

#[test]
fn an_error_in_line_three_is_shown_with_its_fix() {
    let text = "- {at: 0, move: {from: 1, to: 2}}\n- {at: 1s, drain: 1}\n- {at: 2s, mvoe: {from: 1, to: 2}}\n";
    let shown = render(&read(text).unwrap_err());
    assert_eq!(
        shown,
        "moves.yaml:3:12: error: unknown key `mvoe`\n \
         3 | - {at: 2s, mvoe: {from: 1, to: 2}}\n   |            ^^^^\n   \
         = help: did you mean `move`?\n"
    );
}

#[test]
fn moves_that_can_not_be_are_refused() {
    for (text, line, message, help) in [
        (
            "- {at: 0, add: 1}\n- {at: 1s, move: {from: 1, to: 4}}\n",
            2,
            "there is no runtime 4",
            "there are runtimes 1 to 3 by then",
        ),
        (
            "- {at: 1s, move: {from: 7, to: 2}}\n",
            1,
            "there is no runtime 7",
            "there are runtimes 1 to 2 by then",
        ),
        (
            "- {at: 0, add: 1}\n- {at: 0, drain: 2}\n- {at: 1s, move: {from: 1, to: 2}}\n",
            3,
            "runtime 2 is being drained since line 2: it takes no flows",
            "move them to another runtime, or before it is drained",
        ),
        (
            "- {at: 1s, move: {from: 2, to: 2}}\n",
            1,
            "runtime 2 is the source of this move, too",
            "move flows to another runtime",
        ),
        (
            "- {at: 1s, remove: 2}\n",
            1,
            "runtime 2 still has flows",
            "`drain: 2` first",
        ),
        (
            "- {at: 0, drain: 1}\n- {at: 0, drain: 2}\n",
            2,
            "no runtime is left to take the flows of runtime 2",
            "`add` one before",
        ),
        (
            "- {at: 0, drain: 2}\n- {at: 0, remove: 2}\n- {at: 0, move: {from: 2, to: 1}}\n",
            3,
            "runtime 2 is removed in line 2",
            "a runtime that was removed does not come back: `add` one",
        ),
        (
            "- {at: 2s, add: 1}\n- {at: 1s, add: 1}\n",
            2,
            "`1s` is before the time of a command above",
            "commands are given in the order in which they are written: put it before, or change its time",
        ),
        (
            "- {at: 1s, move: {from: 1, to: 2, count: 5, flows: {port: 80}}}\n",
            1,
            "`flows` beside another choice of flows",
            "write one of `count`, `flows` and `key`, or none to move all",
        ),
        (
            "- {move: {from: 1, to: 2}}\n",
            1,
            "the key `at` is missing",
            "say when: `at: 100ms`, or `at: {packet: 50000}`",
        ),
        (
            "- {at: 1s}\n",
            1,
            "there is no command here",
            "name one of `move`, `drain`, `add`, `remove`",
        ),
        (
            "- {at: 1s, move: {from: 1, to: 2, mode: psuh}}\n",
            1,
            "`psuh` is not one of the values here",
            "did you mean `push`?",
        ),
        (
            "- {at: 1s, move: {from: 1, to: 2, chain: edg}}\n",
            1,
            "`edg` is not one of the values here",
            "did you mean `edge`?",
        ),
        (
            "- {at: 1s, move: {from: 1, to: 2, flows: {prefix: 10.0.0.1/8}}}\n",
            1,
            "`10.0.0.1/8` has bits set after its first 8: write `10.0.0.0/8`",
            "",
        ),
        (
            "- {at: 1s, move: {from: 1, to: 2, key: {protocol: tcp}}}\n",
            1,
            "a key without an address",
            "name `client`, `server` or both",
        ),
        (
            "",
            1,
            "there is no command in this script",
            "write a list of commands like `- {at: 100ms, move: {from: 1, to: 2, count: 500}}`",
        ),
    ] {
        assert_eq!(
            only(text),
            (line, message.to_owned(), help.to_owned()),
            "{text}"
        );
    }
}

#[test]
fn nothing_that_is_no_script_brings_it_down() {
    for text in [
        "5",
        "{}",
        "[]",
        "[5]",
        "[{}]",
        "- {at: [], move: []}",
        "- {at: {}, add: 1}",
        "- {at: {packet: -1}, add: 1}",
        "- {at: 1s, add: 65}",
        "- {at: 1s, move: {from: 0, to: 1}}",
        "- {at: 1s, move: {from: 1, to: 2, key: {client: 10.0.0.1, server: '::1'}}}",
        "- {at: 1s, move: {from: 1, to: 2, flows: {}}}",
        "- {at: never, add: 1}",
        "- {at: 1s, drain: {mode: push}}",
        "- {at: 1s, drain: 1, add: 1}",
        "- {at: 1s, move: \"",
    ] {
        assert!(read(text).is_err(), "{text}");
    }
}
