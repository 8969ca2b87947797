//! Whatever comes in: no panic, and errors whose places exist.

mod common;

use common::{flow, packet, rule_set};
use proptest::prelude::*;
use weir_signatures::*;

fn check_text(text: &str) {
    let variables = Variables::stock();
    for unsupported in [Unsupported::Refuse, Unsupported::Skip] {
        let (parsed, errors) = parse_rules_lossy(
            text,
            &variables,
            ParseOptions {
                unsupported,
                ..ParseOptions::default()
            },
        );
        let lines: Vec<&str> = text.split('\n').collect();
        for error in errors {
            let line = lines[error.line - 1];
            assert!(
                error.column >= 1 && error.column <= line.chars().count() + 1,
                "{error}"
            );
            assert!(error.length >= 1 && !error.message.is_empty());
        }
        if let Ok(set) = RuleSet::compile(parsed.rules, CompileOptions::default()) {
            let mut scratch = Scratch::new(set.len());
            for protocol in [view::TCP, view::UDP] {
                set.inspect_packet(
                    &packet(protocol, text.as_bytes()),
                    &mut FlowVars::default(),
                    &mut scratch,
                    &mut |_| {},
                );
            }
        }
    }
}

/// Text made of the pieces of rules.
fn rule_like() -> impl Strategy<Value = String> {
    let piece = prop::sample::select(vec![
        "alert ",
        "tcp ",
        "udp ",
        "any ",
        "any any -> any any ",
        "$HOME_NET ",
        "[",
        "]",
        "!",
        "(",
        ")",
        ";",
        "; ",
        "msg:\"x\"; ",
        "content:\"a|00|b\"; ",
        "content:!\"c\"; ",
        "content:",
        "\"",
        "|",
        "\\",
        "\\\n",
        "\n",
        "depth:3; ",
        "distance:-1; ",
        "within:9; ",
        "nocase; ",
        "fast_pattern:0,1; ",
        "offset:1; ",
        "sid:1; ",
        "sid:2;)",
        "sid:3;)\n",
        "flow:established,to_server; ",
        "flowbits:set,a; ",
        "dsize:>3; ",
        "flags:S,12; ",
        "pcre:\"/x/\"; ",
        "é",
        "#",
        ":",
        ",",
        "1.2.3.4/8",
        "80:90",
        "alert tcp any any -> any any (",
        "endswith; ",
        "startswith; ",
        "0",
        "\r\n",
        " ",
    ]);
    prop::collection::vec(piece, 0..30).prop_map(|pieces| pieces.concat())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 3000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn on_any_text(text in any::<String>()) {
        check_text(&text);
    }

    #[test]
    fn on_text_like_rules(text in rule_like()) {
        check_text(&text);
    }

    #[test]
    fn on_any_state_and_bytes(
        state in prop::array::uniform32(any::<u8>()),
        tail in prop::collection::vec(any::<u8>(), 144),
        generation: bool,
        window in prop::collection::vec(prop::sample::select(b"abcd.".to_vec()), 0..40),
        new_from in 0usize..60,
        offset in prop_oneof![0u64..100, any::<u64>(), u64::MAX - 50..=u64::MAX],
        last: bool,
    ) {
        use zerocopy::{FromBytes, IntoBytes};
        let set = rule_set(
            "alert tcp any any -> any any (content:\"abcd\"; content:\"a\"; distance:0; sid:1;)\n\
             alert tcp any any -> any any (content:\"b\"; content:!\"c\"; sid:2; flowbits:set,x;)\n\
             alert tcp any any -> any any (content:!\"d\"; sid:3; flowbits:isset,x;)",
        );
        let mut bytes = [&state[..], &tail].concat();
        if generation {
            bytes[..8].copy_from_slice(&set.generation().to_ne_bytes());
        }
        let mut state = StreamState::read_from_bytes(&bytes).unwrap();
        let mut bits = FlowVars::read_from_bytes(&bytes[..120]).unwrap();
        let mut scratch = Scratch::new(set.len());
        let stream = StreamBytes { window: &window, new_from, offset, last };
        set.inspect_stream(&flow(view::TCP), &mut state, &stream, &mut bits, &mut scratch, &mut |_| {});
        set.inspect_stream(&flow(view::TCP), &mut state, &stream, &mut bits, &mut scratch, &mut |_| {});
        prop_assert_eq!(state.as_bytes().len(), bytes.len());
    }
}
