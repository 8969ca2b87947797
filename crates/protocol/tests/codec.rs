//! Messages survive being written and read; no bytes make decoding panic or
//! take more memory than they justify.

mod common;

use std::collections::BTreeSet;

use common::messages::message;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::{Config, TestRunner};
use weir_protocol::Message;
use weir_protocol::codec::{DecodeError, HEAD, MAX_BODY, VERSION};

fn encoded(message: &Message) -> Vec<u8> {
    let mut bytes = Vec::new();
    message.encode(&mut bytes);
    bytes
}

/// What decodes has one form: the bytes it came from.
fn is_canonical(bytes: &[u8]) -> Result<(), TestCaseError> {
    if let Ok((message, used)) = Message::decode(bytes) {
        prop_assert_eq!(encoded(&message), &bytes[..used]);
    }
    Ok(())
}

proptest! {
    #![proptest_config(Config::with_cases(1_000))]

    #[test]
    fn there_and_back(messages in vec(message(), 1..5), behind in vec(any::<u8>(), 0..9)) {
        let mut bytes = Vec::new();
        for message in &messages {
            message.encode(&mut bytes);
        }
        let end = bytes.len();
        bytes.extend(&behind);
        let mut at = 0;
        for message in &messages {
            let (decoded, used) = Message::decode(&bytes[at..]).expect("a message");
            prop_assert_eq!(&decoded, message);
            at += used;
        }
        prop_assert_eq!(at, end);
        let one = Message::decode_one(&bytes);
        if bytes.len() == encoded(&messages[0]).len() {
            prop_assert_eq!(one.as_ref(), Ok(&messages[0]));
        } else {
            prop_assert_eq!(one, Err(DecodeError::Trailing));
        }
    }

    #[test]
    fn a_cut_message_is_refused(message in message(), at: prop::sample::Index) {
        let bytes = encoded(&message);
        let cut = &bytes[..at.index(bytes.len())];
        prop_assert_eq!(Message::decode(cut), Err(DecodeError::Truncated));
    }

    #[test]
    fn a_body_of_another_length_is_refused(message in message(), longer: bool) {
        let mut bytes = encoded(&message);
        let body = bytes.len() - HEAD;
        if body == 0 && !longer {
            return Ok(());
        }
        let body = if longer { body + 1 } else { body - 1 };
        bytes[4..8].copy_from_slice(&(body as u32).to_le_bytes());
        bytes.push(0);
        prop_assert!(Message::decode(&bytes).is_err());
    }

    #[test]
    fn mutated_messages_have_one_form(
        message in message(),
        changes in vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
    ) {
        let mut bytes = encoded(&message);
        for (at, value) in changes {
            let at = at.index(bytes.len());
            bytes[at] = value;
        }
        is_canonical(&bytes)?;
    }

    #[test]
    fn any_bytes_are_read_without_panic(kind: u8, body in vec(any::<u8>(), 0..300)) {
        let mut bytes = vec![VERSION, kind, 0, 0];
        bytes.extend((body.len() as u32).to_le_bytes());
        bytes.extend(body);
        is_canonical(&bytes)?;
        is_canonical(&bytes[HEAD..])?;
    }
}

#[test]
fn all_kinds_are_tried() {
    let mut runner = TestRunner::deterministic();
    let strategy = message();
    let kinds: BTreeSet<u8> = (0..3_000)
        .map(|_| encoded(&strategy.new_tree(&mut runner).expect("a message").current())[1])
        .collect();
    assert_eq!(kinds.len(), 36);
    // And no other kind is known: an empty body is short for most, so ask for
    // the error.
    for kind in 0..=u8::MAX {
        let refused = Message::decode(&[VERSION, kind, 0, 0, 0, 0, 0, 0]);
        assert_eq!(
            refused == Err(DecodeError::Kind(kind)),
            !kinds.contains(&kind),
            "{kind}"
        );
    }
}

#[test]
fn a_version_a_length_and_a_count_are_checked() {
    let good = encoded(&Message::NotifyClusterCfg {
        runtimes: Vec::new(),
    });
    let with = |at: usize, value: &[u8]| {
        let mut bytes = good.clone();
        bytes[at..at + value.len()].copy_from_slice(value);
        Message::decode(&bytes).expect_err("refused")
    };
    assert_eq!(with(0, &[1]), DecodeError::Version(1));
    assert_eq!(with(2, &[1]), DecodeError::Value("zero"));
    let long = (MAX_BODY as u32 + 1).to_le_bytes();
    assert_eq!(with(4, &long), DecodeError::TooLong);
    // Four thousand million runtimes in no bytes.
    assert_eq!(with(HEAD, &[255; 4]), DecodeError::Count);
}

#[test]
fn the_document_lists_all_kinds() {
    let text = include_str!("../../../docs/wire.md");
    let mut runner = TestRunner::deterministic();
    let strategy = message();
    for _ in 0..3_000 {
        let message = strategy.new_tree(&mut runner).expect("a message").current();
        let printed = format!("{message:?}");
        let name = printed.split(|c: char| !c.is_alphanumeric()).next();
        let row = format!("| {} | {} |", encoded(&message)[1], name.unwrap_or(""));
        assert!(text.contains(&row), "docs/wire.md has no row {row}");
    }
}

#[test]
fn the_form_of_one_message_is_what_the_document_says() {
    let out = Message::Out {
        unit: weir_protocol::UnitId(0x0102_0304_0506_0708),
        view: weir_protocol::View(0x1_0000_0002),
        out: weir_protocol::Clock(3),
    };
    let expected = [
        2, 4, 0, 0, 24, 0, 0, 0, // version, kind, zero, length
        8, 7, 6, 5, 4, 3, 2, 1, // unit
        2, 0, 0, 0, 1, 0, 0, 0, // view
        3, 0, 0, 0, 0, 0, 0, 0, // clock
    ];
    assert_eq!(encoded(&out), expected);
}
