//! No function is longer than [`MOST`] lines of code: what is longer is several functions. Comments and blank lines do not count.

use std::collections::BTreeSet;

use crate::source::{line_of, words};
use crate::{Finding, SourceFile};

/// Most lines of code of a function, from its name to its closing brace.
const MOST: usize = 70;

/// Files whose functions are not looked at, by the beginning of their paths.
const SKIPPED: &[(&str, &str)] = &[("crates/api/generated/", "written by a generator")];

/// Functions that may be longer, each with its file and the reason.
const LONGER: &[(&str, &str, &str)] = &[
    ("crates/graph/src/flows.rs", "keys", "a table of keys"),
    (
        "crates/nf/src/function.rs",
        "one",
        "the path of every packet of every function: cut in two, eight values go between",
    ),
    (
        "crates/sim/src/plants.rs",
        "settings_for",
        "a table of settings, an arm each",
    ),
    (
        "crates/sim/src/plants.rs",
        "settings_for_slip",
        "a table of settings, an arm each",
    ),
];

/// Tests and what they share: a list of cases or a scene, read from top to bottom. None is added.
const TESTS: &[(&str, &str)] = &[
    ("crates/functions/examples/ids_speed.rs", "run"),
    ("crates/functions/tests/classifier_captures.rs", "compare"),
    (
        "crates/functions/tests/header_truth.rs",
        "checksums_tags_packets_and_bytes_are_those_of_tshark",
    ),
    (
        "crates/functions/tests/headers.rs",
        "bad_headers_are_dropped_or_counted",
    ),
    ("crates/functions/tests/moves.rs", "number"),
    (
        "crates/functions/tests/moves.rs",
        "where_units_live_does_not_matter",
    ),
    (
        "crates/functions/tests/no_alloc.rs",
        "no_stock_function_allocates_for_a_packet",
    ),
    (
        "crates/graph/src/compile/tests/mutations.rs",
        "wrong_stages_are_refused",
    ),
    ("crates/graph/tests/plan.rs", "what_is_wrong_has_its_place"),
    ("crates/graph/tests/schema.rs", "conforms"),
    (
        "crates/graph/tests/script.rs",
        "moves_that_can_not_be_are_refused",
    ),
    ("crates/graph/tests/templates.rs", "links_of_a_template"),
    (
        "crates/graph/tests/templates.rs",
        "what_a_template_is_made_of",
    ),
    (
        "crates/io/src/shared/border/tests.rs",
        "a_neighbour_harms_nothing_but_its_own",
    ),
    (
        "crates/io/src/shared/border/tests.rs",
        "each_offence_is_found",
    ),
    ("crates/io/src/stage/tests/threads.rs", "run"),
    (
        "crates/packet/src/parse_tests.rs",
        "tunnels_open_on_request_only",
    ),
    ("crates/packet/tests/round_trip.rs", "weirs_own_headers"),
    ("crates/protocol/tests/bad_input/forgeries.rs", "messages"),
    (
        "crates/protocol/tests/bad_input/liars.rs",
        "a_runtime_can_not_speak_for_what_it_does_not_own",
    ),
    (
        "crates/protocol/tests/bad_input/liars.rs",
        "a_runtime_can_not_take_another_ones_unit",
    ),
    ("crates/protocol/tests/stream.rs", "run"),
    (
        "crates/protocol/tests/switch/leases.rs",
        "a_port_comes_back_with_its_last_name_and_a_block_with_its_last_port",
    ),
    ("crates/runtime/tests/common/follower.rs", "apply_with"),
    ("crates/runtime/tests/common/mod.rs", "process"),
    ("crates/signatures/tests/common/session.rs", "packet"),
    (
        "crates/signatures/tests/et_open.rs",
        "every_rule_loads_or_is_named",
    ),
    (
        "crates/signatures/tests/keywords.rs",
        "content_and_its_modifiers",
    ),
    (
        "crates/signatures/tests/rule_errors.rs",
        "options_that_are_wrong",
    ),
    (
        "crates/sim/src/central/tests.rs",
        "any_order_of_events_keeps_the_order_of_packets",
    ),
    ("crates/weir/src/doctor/judge/tests.rs", "modes_of_xdp"),
    (
        "crates/weir/tests/control.rs",
        "a_socket_is_its_owners_alone_and_survives_whoever_connects",
    ),
    (
        "crates/weir/tests/control.rs",
        "an_ended_flow_gives_its_port_back_and_stats_are_the_summary",
    ),
    (
        "crates/weir/tests/doctor.rs",
        "a_user_without_privileges_is_told_which_and_the_command_gives_them",
    ),
    ("crates/weir/tests/support/scene.rs", "entries"),
    ("crates/weir/tests/templates.rs", "templates_of_ones_own"),
    ("crates/weir/tests/trust.rs", "beside"),
    (
        "crates/weir/tests/watch.rs",
        "every_drop_is_tapped_with_its_reason",
    ),
    ("crates/weir/tests/watch.rs", "traced_and_tapped"),
    ("fuzz/src/border.rs", "run"),
    ("fuzz/src/http.rs", "story"),
    ("fuzz/src/message.rs", "examples"),
    ("fuzz/src/wire.rs", "run"),
];

/// Functions that are still to be split. None is added.
const TO_SPLIT: &[(&str, &str)] = &[
    ("crates/protocol/src/switch/gate.rs", "let_out"),
    ("crates/protocol/src/switch/inbox.rs", "runtime_says"),
    ("crates/protocol/src/switch/number.rs", "number"),
    ("crates/sim/src/check/gate.rs", "let_out"),
    ("crates/sim/src/check/views.rs", "opened"),
    ("crates/sim/src/check/views.rs", "owner_lost"),
    ("crates/sim/src/plan.rs", "one_fault"),
    ("crates/sim/src/scaling/world.rs", "run"),
    ("crates/sim/src/trace.rs", "describe"),
    ("crates/sim/src/traffic/packet.rs", "bytes"),
    ("crates/sim/src/world/steps.rs", "forged_message"),
    ("crates/weir/src/driver/pipeline/end.rs", "end"),
    ("crates/weir/src/driver/pipeline/mod.rs", "behind"),
    ("crates/weir/src/driver/pipeline/mod.rs", "start_placed"),
    ("crates/weir/src/driver/pipeline/wiring.rs", "wire"),
];

/// Functions that are too long, and entries of the list that are not needed.
pub(crate) fn check(files: &[SourceFile]) -> Vec<Finding> {
    let longer = LONGER.iter().map(|(path, name, _)| (*path, *name));
    let others = TESTS.iter().chain(TO_SPLIT).copied();
    let listed: BTreeSet<(&str, &str)> = longer.chain(others).collect();
    let mut unused = listed.clone();
    let mut findings = Vec::new();
    for file in files {
        if SKIPPED.iter().any(|(head, _)| file.path.starts_with(head)) {
            continue;
        }
        for long in functions(&file.all_code).filter(|f| f.lines > MOST) {
            if let Some(entry) = listed.get(&(file.path.as_str(), long.name)) {
                unused.remove(entry);
                continue;
            }
            findings.push(Finding {
                path: file.path.clone(),
                line: long.line,
                text: format!(
                    "`{}` has {} lines; a function has at most {MOST}",
                    long.name, long.lines
                ),
            });
        }
    }
    findings.extend(unused.into_iter().map(|(path, name)| Finding {
        path: "xtask/src/functions.rs".into(),
        line: 1,
        text: format!("`{name}` of {path} is not too long any more: take it off the list"),
    }));
    findings
}

/// A function with a body.
#[derive(Debug, PartialEq, Eq)]
struct Function<'a> {
    name: &'a str,
    /// The line of its name, from 1.
    line: usize,
    /// Its lines of code.
    lines: usize,
}

/// The functions of a text without comments and literals, also those within others.
fn functions(code: &str) -> impl Iterator<Item = Function<'_>> {
    let words = words(code);
    (0..words.len()).filter_map(move |i| {
        let (&(_, keyword), &(at, name)) = (words.get(i)?, words.get(i + 1)?);
        // `fn(u32) -> u32` is a type.
        if keyword != "fn" || !name.starts_with(|c: char| c.is_alphabetic() || c == '_') {
            return None;
        }
        let end = body_end(words.get(i + 2..)?)?;
        let text = code.get(at..end)?;
        Some(Function {
            name,
            line: line_of(code, at),
            lines: text.lines().filter(|line| !line.trim().is_empty()).count(),
        })
    })
}

/// Where the body ends that follows a function's name; `None` if there is none.
fn body_end(rest: &[(usize, &str)]) -> Option<usize> {
    let (mut depth, mut braces) = (0_usize, 0_usize);
    for (at, word) in rest {
        match *word {
            "(" | "[" if braces == 0 => depth += 1,
            ")" | "]" if braces == 0 => depth = depth.saturating_sub(1),
            ";" if depth == 0 && braces == 0 => return None,
            // Braces within parentheses or brackets belong to a constant in a type.
            "{" if depth == 0 => braces += 1,
            "}" if depth == 0 => {
                braces = braces.saturating_sub(1);
                if braces == 0 {
                    return Some(at + 1);
                }
            }
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_code_are_counted() {
        let text = "trait T {\n fn a(&self, x: [u8; 2]);\n fn b() -> fn(u8) {\n\n  // c\n  let x = \"}\";\n  x\n }\n}\nfn c() {}\n";
        let code = crate::source::blank(text);
        let found: Vec<_> = functions(&code)
            .map(|f| (f.name, f.line, f.lines))
            .collect();
        assert_eq!(found, [("b", 3, 4), ("c", 10, 1)]);
    }

    #[test]
    fn long_functions_are_found() {
        let text = format!(
            "fn short() {{}}\nfn long() {{\n{}}}\n",
            "f();\n".repeat(MOST - 1)
        );
        let finding = check(&[SourceFile::of("crates/x/src/lib.rs", &text)]);
        assert_eq!(
            finding
                .iter()
                .filter(|f| f.path.ends_with("lib.rs"))
                .map(|f| f.line)
                .collect::<Vec<_>>(),
            [2]
        );
        let text = text.replacen("f();\n", "", 1);
        let finding = check(&[SourceFile::of("crates/x/src/lib.rs", &text)]);
        assert_eq!(
            finding
                .iter()
                .filter(|f| f.path.ends_with("lib.rs"))
                .count(),
            0
        );
    }
}
