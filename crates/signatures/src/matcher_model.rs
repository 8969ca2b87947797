//! The matcher against the plainest possible one: try every occurrence of every content, and go back.

use proptest::prelude::*;

use crate::content::Content;
use crate::matcher::{Ends, Haystack, Matcher, Outcome};

fn at(data: &[u8], content: &Content, start: usize) -> bool {
    data.get(start..start + content.bytes.len())
        .is_some_and(|part| {
            part == content.bytes || content.nocase && part.eq_ignore_ascii_case(&content.bytes)
        })
}

/// True if `contents` match from `rest` on, the last found content ending at `end`, if there is one.
fn matches(data: &[u8], rest: &[Content], end: Option<usize>) -> bool {
    let Some((content, later)) = rest.split_first() else {
        return true;
    };
    let length = content.bytes.len() as i64;
    let distance = i64::from(content.distance.unwrap_or(0));
    let (low, high) = if content.is_relative() {
        let end = end.unwrap_or(0) as i64;
        let high = content
            .within
            .map(|within| end + distance + i64::from(within));
        ((end + distance).max(0), high)
    } else if content.starts_with {
        (0, Some(length))
    } else {
        let low = i64::from(content.offset.unwrap_or(0));
        (low, content.depth.map(|depth| low + i64::from(depth)))
    };
    let high = high.unwrap_or(i64::MAX).min(data.len() as i64);
    let mut starts = (low..=high - length)
        .map(|start| start as usize)
        .filter(|&start| {
            at(data, content, start)
                && (!content.ends_with || start + content.bytes.len() == data.len())
        });
    if content.negated {
        starts.next().is_none() && matches(data, later, end)
    } else {
        starts.any(|start| matches(data, later, Some(start + content.bytes.len())))
    }
}

fn content() -> impl Strategy<Value = Content> {
    let place = prop_oneof![
        3 => Just((None, None, None, None)),
        2 => (prop::option::of(0u32..6), prop::option::of(0u32..12))
            .prop_map(|(offset, depth)| (offset, depth, None, None)),
        6 => (prop::option::of(-4i32..6), prop::option::of(0u32..8))
            .prop_map(|(distance, within)| (None, None, distance, within)),
    ];
    (
        "[ab]{1,3}",
        prop::bool::weighted(0.25),
        any::<bool>(),
        place,
        prop::bool::weighted(0.1),
    )
        .prop_map(
            |(bytes, negated, nocase, (offset, depth, distance, within), ends_with)| {
                let length = bytes.len() as u32;
                Content {
                    bytes: bytes.into_bytes(),
                    negated,
                    nocase,
                    offset,
                    depth: depth.map(|depth| depth + length),
                    distance,
                    within: within.map(|within| within + length),
                    ends_with,
                    ..Content::default()
                }
            },
        )
}

fn found(matcher: &Matcher, hay: &Haystack<'_>) -> bool {
    matches!(matcher.search(hay, &mut Ends::new()), Outcome::Found(_))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4000))]

    #[test]
    fn agrees_with_backtracking(
        contents in prop::collection::vec(content(), 1..5),
        data in "[abAB]{0,24}",
    ) {
        // A chain is anchored by an absolute content; the model has no notion of going back across one, and
        // needs none: what follows an absolute content does not depend on what was found before it.
        let data = data.as_bytes();
        let matcher = Matcher::new(&contents, None);
        let expected = matches(data, &contents, None);
        prop_assert_eq!(found(&matcher, &Haystack::packet(data)), expected);
    }

    /// When the answer is that nothing can match any more, nothing does with whatever follows.
    #[test]
    fn never_is_never(
        contents in prop::collection::vec(content(), 1..4),
        data in "[ab]{0,12}",
        more in "[ab]{0,12}",
    ) {
        let matcher = Matcher::new(&contents, None);
        let part = Haystack { more: true, stream: true, ..Haystack::packet(data.as_bytes()) };
        if matcher.has_positive() && matcher.search(&part, &mut Ends::new()) == Outcome::Never {
            let all = [data.as_bytes(), more.as_bytes()].concat();
            let whole = Haystack { stream: true, ..Haystack::packet(&all) };
            prop_assert!(!found(&matcher, &whole));
        }
    }
}

#[test]
fn many_choices_take_little_time() {
    // Going back over all choices would take 1,000^8 steps.
    let mut contents = vec![Content {
        bytes: b"a".to_vec(),
        ..Content::default()
    }];
    for _ in 0..8 {
        contents.push(Content {
            bytes: b"a".to_vec(),
            within: Some(1000),
            ..Content::default()
        });
    }
    contents.push(Content {
        bytes: b"b".to_vec(),
        within: Some(1000),
        ..Content::default()
    });
    let data = [b'a'; 8000];
    assert!(!found(
        &Matcher::new(&contents, None),
        &Haystack::packet(&data)
    ));
}

#[test]
fn a_window_that_lost_its_beginning_counts_from_the_start_all_the_same() {
    let contents = [Content {
        bytes: b"b".to_vec(),
        offset: Some(10),
        depth: Some(5),
        ..Content::default()
    }];
    let matcher = Matcher::new(&contents, None);
    let window = |base| Haystack {
        base,
        stream: true,
        ..Haystack::packet(b"aaab")
    };
    for base in 0..20 {
        let inside = (10..15).contains(&(base + 3));
        assert_eq!(found(&matcher, &window(base)), inside, "{base}");
    }
}
