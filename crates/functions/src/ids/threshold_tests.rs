//! Thresholds and suppressions through the engine; how they are read is tested beside their parsers.

use super::tests::{Files, ids, refused, sids, with};
use super::*;
use weir_runtime::harness::{Craft, Harness};

/// Sends a datagram at once, or so many milliseconds after the last one; true where it comes out.
fn send(harness: &mut Harness, after: u64, from: &str, to: &str) -> bool {
    harness.advance_ms(after);
    let datagram = Craft::udp(from, to).payload(b"attack").build();
    !harness.send(&datagram).is_empty()
}

fn rule(action: &str, threshold: &str) -> String {
    format!("{action} udp any any -> any any (content:\"attack\"; {threshold} sid:7;)")
}

#[test]
fn a_limit_counts_over_the_flows_of_an_address() {
    let mut harness = ids(with(&rule(
        "alert",
        "threshold:type limit, track by_src, count 2, seconds 60;",
    )));
    for (after, from, to, expected) in [
        (0, "10.0.0.1:1001", "192.0.2.1:53", 1),
        (5, "10.0.0.1:1002", "192.0.2.2:53", 1),
        (5, "10.0.0.1:1003", "192.0.2.1:53", 0),
        (5, "10.0.0.2:1001", "192.0.2.1:53", 1),
        (5, "[2001:db8::1]:1", "[2001:db8::2]:53", 1),
        (59_000, "10.0.0.1:1004", "192.0.2.1:53", 0),
        // The window began with the first alert.
        (1_000, "10.0.0.1:1005", "192.0.2.1:53", 1),
    ] {
        assert!(send(&mut harness, after, from, to));
        assert_eq!(sids(&mut harness).len(), expected, "{from} to {to}");
    }
    assert_eq!(harness.counter("ids", "alerts"), 7);
}

#[test]
fn each_kind_and_track_is_counted_as_documented() {
    let (one, other) = ("10.0.0.1:1", "10.0.0.2:2");
    let (here, there) = ("192.0.2.1:53", "192.0.2.2:53");
    for (threshold, expected) in [
        (
            "threshold:type threshold, track by_dst, count 2, seconds 9;",
            [0, 1, 0, 1, 0, 1],
        ),
        (
            "threshold:type both, track by_rule, count 3, seconds 9;",
            [0, 0, 1, 0, 0, 0],
        ),
        (
            "detection_filter:track by_src, count 2, seconds 9;",
            [0, 0, 1, 0, 0, 1],
        ),
        (
            "threshold:type limit, track by_both, count 1, seconds 9;",
            [1, 0, 1, 1, 1, 0],
        ),
        (
            "threshold:type threshold, track by_flow, count 2, seconds 9;",
            [0, 1, 0, 0, 0, 1],
        ),
    ] {
        let mut harness = ids(with(&rule("alert", threshold)));
        let ends = [
            (one, here),
            (one, here),
            (one, there),
            (other, there),
            (other, here),
            (other, here),
        ];
        for (number, (from, to)) in ends.into_iter().enumerate() {
            send(&mut harness, 100, from, to);
            let told = sids(&mut harness).len();
            assert_eq!(told, expected[number], "{threshold} {number}");
        }
    }
}

#[test]
fn a_limit_keeps_no_packet_and_what_waits_for_others_drops_none() {
    let with_rule = |threshold: &str| Settings {
        action: Act::Rule,
        ..with(&rule("drop", threshold))
    };
    let limit = "threshold:type limit, track by_src, count 1, seconds 60;";
    let mut harness = ids(with_rule(limit));
    for (port, expected) in [(1, 1), (2, 0), (3, 0)] {
        let from = format!("10.0.0.1:{port}");
        assert!(!send(&mut harness, 0, &from, "192.0.2.1:53"), "dropped");
        assert_eq!(sids(&mut harness).len(), expected);
    }
    let both = "threshold:type both, track by_src, count 2, seconds 60;";
    let builder = Harness::builder().with::<Ids>(with_rule(both)).unwrap();
    let warnings = builder.warnings();
    assert_eq!(warnings.len(), 1);
    assert!(warnings[0].to_string().contains("1 rules that would drop"));
    let mut harness = builder.build();
    for (port, expected) in [(1, 0), (2, 1), (3, 0)] {
        let from = format!("10.0.0.1:{port}");
        assert!(send(&mut harness, 0, &from, "192.0.2.1:53"), "passes");
        assert_eq!(sids(&mut harness).len(), expected);
    }
}

#[test]
fn a_file_suppresses_by_address_and_changes_thresholds() {
    static FILES: &[(&str, &str)] = &[(
        "threshold.config",
        "suppress gen_id 1, sig_id 7, track by_src, ip [10.0.0.0/30, 2001:db8::/32]\n\
         threshold gen_id 1, sig_id 8, type limit, track by_rule, count 1, seconds 5\n\
         threshold gen_id 1, sig_id 99, type limit, track by_rule, count 1, seconds 5\n",
    )];
    let second = "alert udp any any -> any any (content:\"attack\"; \
        threshold:type limit, track by_src, count 100, seconds 5; sid:8;)";
    let settings = Settings {
        threshold_files: vec!["threshold.config".to_owned()],
        ..with(&format!("{}\n{second}", rule("alert", "")))
    };
    let builder = Harness::builder().with_sources::<Ids>(settings, &mut Files(FILES));
    let builder = builder.unwrap();
    assert_eq!(builder.warnings().len(), 1);
    let warning = builder.warnings()[0].to_string();
    assert!(
        warning.contains("no rule with gid 1 and sid 99"),
        "{warning}"
    );
    let mut harness = builder.build();
    for (from, to, expected) in [
        ("10.0.0.1:1", "192.0.2.1:53", &[8][..]),
        ("10.0.0.4:1", "192.0.2.1:53", &[7]),
        ("[2001:db8::1]:1", "[2001:db9::1]:53", &[]),
        ("[2001:db9::1]:1", "[2001:db8::1]:53", &[7]),
    ] {
        assert!(send(&mut harness, 0, from, to));
        assert_eq!(sids(&mut harness), expected, "{from}");
    }
    assert_eq!(harness.counter("ids", "suppressed"), 2);
}

#[test]
fn faults_point_at_their_lines() {
    static FILES: &[(&str, &str)] =
        &[("t", "# fine\nsuppress gen_id 1, sig_id 7, track by_port\n")];
    let settings = Settings {
        threshold_files: vec!["t".to_owned()],
        ..with(&rule("alert", ""))
    };
    let error = refused(settings, FILES).to_string();
    assert!(error.contains("by_src"), "{error}");
    for (threshold, part) in [
        (
            "threshold:type limit, track by_src, count 1;",
            "has no `seconds`",
        ),
        (
            "threshold:type limit, track by_ip, count 1, seconds 1;",
            "unknown track",
        ),
        (
            "detection_filter:type limit, track by_src, count 1, seconds 1;",
            "unknown field",
        ),
        (
            "detection_filter:track by_src, count 1, seconds 1; \
             threshold:type limit, track by_src, count 1, seconds 1;",
            "not both",
        ),
    ] {
        let error = refused(with(&rule("alert", threshold)), &[]).to_string();
        assert!(error.contains(part), "{error}");
    }
}
