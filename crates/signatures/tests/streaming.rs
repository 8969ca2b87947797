//! Streams: what is found does not depend on how they are cut.

mod common;

use common::{Stream, rule_set};
use proptest::prelude::*;
use weir_signatures::*;

fn found(set: &RuleSet, pieces: &[&[u8]], window: usize) -> Vec<(u32, u64)> {
    let mut stream = Stream::new(set);
    stream.window = window;
    for (number, piece) in pieces.iter().enumerate() {
        stream.give(piece, number + 1 == pieces.len());
    }
    stream.alerts.sort_unstable();
    stream.alerts
}

fn rule(options: &str, sid: usize) -> String {
    format!("alert tcp any any -> any any ({options} sid:{sid};)\n")
}

#[test]
fn a_rule_waits_for_its_other_contents() {
    let set = rule_set(
        &[
            rule(r#"content:"first"; content:"second"; distance:0;"#, 1),
            rule(r#"content:"first"; content:"second"; within:8;"#, 2),
            rule(r#"content:"second"; content:"first"; fast_pattern;"#, 3),
        ]
        .concat(),
    );
    let mut stream = Stream::new(&set);
    stream
        .give(b"..fir", false)
        .give(b"st", false)
        .give(b"xxx sec", false);
    assert!(stream.alerts.is_empty());
    stream.give(b"on", false).give(b"d", false);
    assert_eq!(stream.alerts, [(1, 17), (3, 17)]);
    stream.give(b" second", true);
    assert_eq!(stream.alerts.len(), 2);
}

#[test]
fn places_count_from_the_start_of_the_stream() {
    let set = rule_set(
        &[
            rule(r#"content:"GET "; depth:4;"#, 1),
            rule(r#"content:"GET "; offset:1;"#, 2),
            rule(
                r#"content:"GET "; startswith; content:"x"; distance:2; within:1;"#,
                3,
            ),
        ]
        .concat(),
    );
    let mut stream = Stream::new(&set);
    stream.window = 8;
    stream
        .give(b"GE", false)
        .give(b"T /", false)
        .give(b".x.......", false);
    assert_eq!(stream.alerts, [(1, 4), (3, 7)]);
    stream.give(b"GET ", false);
    assert_eq!(stream.alerts.last(), Some(&(2, 18)));
}

#[test]
fn one_alert_per_message_and_chunk() {
    let set = rule_set(&rule(r#"content:"attack";"#, 1));
    let mut stream = Stream::new(&set);
    stream.give(b"attack attack", false).give(b" attack", false);
    assert_eq!(stream.alerts.len(), 1, "quiet within a message");
    stream.give(b"", true).give(b"attack", false);
    assert_eq!(stream.alerts.len(), 2, "again in the next message");
    stream.give(&[b'.'; 2500], false).give(b"attack", false);
    assert_eq!(stream.alerts.len(), 2, "still quiet");
    stream.give(&[b'.'; 100], false).give(b"attack", false);
    assert_eq!(stream.alerts.len(), 3, "again after a chunk");
}

#[test]
fn what_must_be_absent_is_waited_for() {
    let set = rule_set(
        &[
            rule(r#"content:"GET"; content:!"Host"; within:12;"#, 1),
            rule(r#"content:"GET"; content:!"Host";"#, 2),
            rule(r#"content:"end"; endswith;"#, 3),
            rule(r#"content:!"GET";"#, 4),
        ]
        .concat(),
    );
    let alerts = |messages: &[&[&[u8]]]| {
        let mut stream = Stream::new(&set);
        for message in messages {
            for (number, piece) in message.iter().enumerate() {
                stream.give(piece, number + 1 == message.len());
            }
        }
        stream
            .alerts
            .iter()
            .map(|alert| alert.0)
            .collect::<Vec<u32>>()
    };
    assert_eq!(alerts(&[&[b"GET / ", b"Host: "]]), [0u32; 0]);
    assert_eq!(alerts(&[&[b"GET / ", b"Hust: "]]), [1, 2]);
    assert_eq!(alerts(&[&[b"GET / ........... ", b"Host: "]]), [1]);
    assert_eq!(alerts(&[&[b"the end", b" is not the e", b"nd"]]), [3, 4]);
    assert_eq!(alerts(&[&[b"the end", b" "]]), [4]);
    assert_eq!(alerts(&[&[b"GET / Host"], &[b"GET / "]]), [1, 2]);
    assert_eq!(alerts(&[&[b"", b""], &[b"GET Host"]]), [0u32; 0]);
}

#[test]
fn flowbits_set_later_do_not_bring_back_old_bytes() {
    let set = rule_set(
        &[
            rule(r#"content:"open"; flowbits:set,o; flowbits:noalert;"#, 1),
            rule(r#"content:"evil"; flowbits:isset,o;"#, 2),
        ]
        .concat(),
    );
    let mut stream = Stream::new(&set);
    stream
        .give(b"evil", false)
        .give(b"open", false)
        .give(b"other", false);
    assert!(stream.alerts.is_empty());
    stream.give(b"evil", false);
    assert_eq!(stream.alerts, [(2, 17)]);
}

#[test]
fn a_gap_joins_nothing() {
    let set = rule_set(&rule(r#"content:"attack";"#, 1));
    let mut stream = Stream::new(&set);
    stream.give(b"att", false);
    let bytes = StreamBytes {
        window: b"ack",
        new_from: 0,
        offset: 103,
        last: false,
    };
    let mut alerts = 0;
    set.inspect_stream(
        &stream.flow,
        &mut stream.state,
        &bytes,
        &mut stream.bits,
        &mut stream.scratch,
        &mut |_| alerts += 1,
    );
    assert_eq!(alerts, 0);
    assert_eq!(stream.state.scanned(), 106);
}

#[test]
fn other_rules_forget_what_was_remembered() {
    let old = rule_set(&rule(r#"content:"attack";"#, 1));
    let new = rule_set(&rule(r#"content:"attach";"#, 2));
    assert_ne!(old.generation(), new.generation());
    assert_eq!(
        old.generation(),
        rule_set(&rule(r#"content:"attack";"#, 1)).generation()
    );
    let mut stream = Stream::new(&old);
    stream.give(b"attac", false);
    stream.set = &new;
    stream.give(b"h", false);
    assert!(stream.alerts.is_empty());
    stream.give(b" attach", false);
    assert_eq!(stream.alerts, [(2, 13)]);
}

#[test]
fn the_size_of_what_is_kept_per_flow() {
    assert_eq!(size_of::<StreamState>(), 176);
    assert_eq!(size_of::<FlowVars>(), 120);
}

#[test]
fn counters_tell_what_was_given_up() {
    let text: String = (0..20)
        .map(|n| {
            rule(
                &format!(r#"content:"fast{n:02}"; content:"never"; distance:0;"#),
                n + 1,
            )
        })
        .collect();
    let set = rule_set(&text);
    let mut stream = Stream::new(&set);
    stream.window = 200;
    let all: String = (0..20).map(|n| format!("fast{n:02} ")).collect();
    stream.give(all.as_bytes(), false);
    assert_eq!(stream.scratch.counters().waiting_dropped, 14);
    stream.give(&[b'.'; 300], false).give(b".", false);
    assert_eq!(stream.scratch.counters().waiting_expired, 6);
    assert!(stream.alerts.is_empty());
}

/// Options over a small alphabet, so that much of it matches.
fn options() -> impl Strategy<Value = String> {
    let word = "[ab]{1,2}|[ab]{4,6}|\\|00\\|a[ab]{3}";
    let place = prop_oneof![
        2 => Just(String::new()),
        2 => (-3i32..5).prop_map(|distance| format!(" distance:{distance};")),
        2 => (0i32..4, 6u32..14).prop_map(|(distance, within)| format!(" distance:{distance}; within:{within};")),
        1 => (0u32..9).prop_map(|offset| format!(" offset:{offset};")),
        1 => (6u32..30).prop_map(|depth| format!(" depth:{depth};")),
        1 => Just(" endswith;".to_string()),
    ];
    let content = (word, prop::bool::weighted(0.2), any::<bool>(), place).prop_map(
        |(word, negated, nocase, place)| {
            let (not, case) = (
                if negated { "!" } else { "" },
                if nocase { " nocase;" } else { "" },
            );
            format!("content:{not}\"{word}\";{case}{place} ")
        },
    );
    prop::collection::vec(content, 1..4).prop_map(|contents| contents.concat())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 3000, failure_persistence: None, ..ProptestConfig::default() })]

    /// As many rules as can wait at a time, so that none is dropped.
    #[test]
    fn cutting_changes_nothing(
        options in prop::collection::vec(options(), 1..6),
        data in "[abAB\\x00]{0,60}|[abAB\\x00]{0,10}(\\.{1300}[ab]{0,5}){0,5}",
        mut cuts in prop::collection::vec(0usize..7000, 0..12),
        small in prop::collection::vec(0usize..60, 0..12),
    ) {
        let text: String = options.iter().zip(1..).map(|(options, sid)| rule(options, sid)).collect();
        let set = rule_set(&text);
        let data = data.as_bytes();
        cuts.extend(small);
        cuts.iter_mut().for_each(|cut| *cut = (*cut).min(data.len()));
        cuts.sort_unstable();
        let mut pieces = Vec::new();
        let mut from = 0;
        for cut in cuts.into_iter().chain([data.len()]) {
            pieces.push(&data[from..cut]);
            from = cut;
        }
        let whole: Vec<u32> = found(&set, &[data], usize::MAX).into_iter().map(|alert| alert.0).collect();
        let cut: Vec<u32> = found(&set, &pieces, usize::MAX).into_iter().map(|alert| alert.0).collect();
        prop_assert_eq!(whole, cut, "{}", text);
    }

    /// A window no larger than what the rule spans is enough.
    #[test]
    fn a_small_window_is_enough_for_contents_that_are_close(
        gap in 0usize..30,
        before in 0usize..40,
        step in 1usize..20,
    ) {
        let set = rule_set(&rule(r#"content:"first"; content:"second"; within:40;"#, 1));
        let data = [&vec![b'.'; before][..], b"first", &vec![b'-'; gap], b"second......"].concat();
        let pieces: Vec<&[u8]> = data.chunks(step).collect();
        let alerts = found(&set, &pieces, 45);
        prop_assert_eq!(alerts, [(1, (before + gap + 11) as u64)]);
    }
}
