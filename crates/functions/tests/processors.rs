//! The classifier and the counter, run by the engine over packets made for the purpose.

use weir_functions::classifier::{Classifier, Settings as ClassifierSettings};
use weir_functions::counter::PacketCounter;
use weir_functions::filter::{Filter, Match, Settings as FilterSettings};
use weir_functions::words::Words;
use weir_nf::host::Target;
use weir_packet::Side;
use weir_runtime::harness::{Craft, Harness};

fn words(text: &str) -> Words {
    Words::from(text)
}

fn classes() -> Vec<Match> {
    vec![
        Match {
            protocol: words("tcp"),
            to_port: words("80,8080"),
            ..Match::default()
        },
        Match {
            protocol: words("udp"),
            from: words("10.0.0.0/8,2001:db8::/32"),
            ..Match::default()
        },
        // Of what is left.
        Match {
            network: words("ipv4"),
            ..Match::default()
        },
    ]
}

/// Number of the link by which a packet leaves.
fn link_of(frame: &[u8]) -> usize {
    let links = (0..4).filter(|chosen| {
        let next = (0..4).map(|link| {
            if link == *chosen {
                Target::Out
            } else {
                Target::Drop
            }
        });
        let settings = ClassifierSettings { classes: classes() };
        let builder = Harness::builder().with::<Classifier>(settings).unwrap();
        let mut harness = builder.links(next.collect()).build();
        !harness.send(frame).is_empty()
    });
    let links: Vec<usize> = links.collect();
    assert_eq!(links.len(), 1, "one link takes it");
    links[0]
}

#[test]
fn packets_leave_by_the_link_of_their_class() {
    let cases = [
        (Craft::tcp("10.0.0.1:9", "192.0.2.1:80"), 1),
        (Craft::tcp("[2001:db8::1]:9", "[2001:db8::2]:8080"), 1),
        (Craft::tcp("10.0.0.1:80", "192.0.2.1:9"), 3),
        (Craft::udp("10.0.0.1:9", "192.0.2.1:80"), 2),
        (Craft::udp("[2001:db8::1]:9", "[2001:db8::2]:53"), 2),
        (Craft::udp("[2001:db9::1]:9", "[2001:db8::2]:53"), 0),
        (Craft::udp("11.0.0.1:9", "192.0.2.1:80"), 3),
        (Craft::ping("11.0.0.1:9", "192.0.2.1:1"), 3),
        // A first fragment has ports; of a later one the addresses are known.
        (
            Craft::tcp("11.0.0.1:9", "192.0.2.1:80")
                .fragment(0x2000)
                .payload(&[0; 32]),
            1,
        ),
        (
            Craft::tcp("11.0.0.1:9", "192.0.2.1:80")
                .fragment(0x0010)
                .payload(&[0; 32]),
            3,
        ),
        (
            Craft::udp("10.0.0.1:9", "192.0.2.1:80")
                .fragment(0x0010)
                .payload(&[0; 32]),
            2,
        ),
    ];
    for (craft, link) in cases {
        assert_eq!(link_of(&craft.build()), link, "{craft:?}");
    }
    assert_eq!(link_of(&[0; 60]), 0, "no IP, no class");
}

/// A classifier is a filter's classes, and only those.
#[test]
fn filter_and_classifier_agree() {
    let chain = |labels: bool| {
        let builder = Harness::builder();
        let builder = if labels {
            let settings = ClassifierSettings { classes: classes() };
            builder.with::<Classifier>(settings).unwrap()
        } else {
            let settings = FilterSettings {
                classes: classes(),
                ..Default::default()
            };
            builder.with::<Filter>(settings).unwrap()
        };
        builder
            .links(vec![Target::Drop, Target::Drop, Target::Out, Target::Drop])
            .build()
    };
    let (mut classifier, mut filter) = (chain(true), chain(false));
    for port in 70..90 {
        for host in ["10.0.0.1", "11.0.0.1"] {
            let source = format!("{host}:{port}");
            let frame = Craft::udp(&source, "192.0.2.1:80").build();
            assert_eq!(classifier.send(&frame), filter.send(&frame));
        }
    }
    assert_eq!(classifier.report().packets_out, 20);
}

#[test]
fn a_seventh_class_and_a_bad_one_are_refused() {
    let refused = |classes| {
        let settings = ClassifierSettings { classes };
        let builder = Harness::builder().with::<Classifier>(settings);
        builder.map(|_| ()).unwrap_err()
    };
    assert_eq!(refused(vec![Match::default(); 7]).path, "classes");
    let bad = Match {
        to_port: words("http"),
        ..Match::default()
    };
    let error = refused(vec![Match::default(), bad]);
    assert_eq!(error.path, "classes[1].to-port");
}

#[test]
fn packets_and_bytes_are_counted_by_side() {
    let mut harness = Harness::of::<PacketCounter>(Default::default());
    for (side, length) in [
        (Side::Inside, 60),
        (Side::Outside, 1_500),
        (Side::Inside, 9),
        (Side::Outside, 20_000),
    ] {
        harness.queue(side, &vec![0; length]);
    }
    assert_eq!(harness.flush().len(), 4);
    let names = [
        "packets_from_inside",
        "bytes_from_inside",
        "packets_from_outside",
        "bytes_from_outside",
    ];
    let counted = names.map(|name| harness.counter("counter", name));
    assert_eq!(counted, [2, 69, 2, 21_500]);
    assert!(!harness.finish().flows.tracked, "no flow is needed");
}
