//! Conversations, whole and cut everywhere, with the state saved and read between pieces.

use super::*;
use crate::values::Values;

/// Who speaks: the client, the server, or nobody since bytes of the client were lost.
#[derive(Clone, Copy)]
enum Said<'a> {
    Up(&'a [u8]),
    Down(&'a [u8]),
    Lost,
}
use Said::{Down, Lost, Up};

/// The content of each part of a mail and whether it is complete, and all commands; pieces have up to `most` bytes.
fn heard(said: &[Said<'_>], most: usize) -> (Vec<(Vec<u8>, bool)>, Vec<String>) {
    let limits = Limits::default();
    let (mut parts, mut commands) = (Vec::new(), Vec::new());
    let mut smtp = Smtp::default();
    for what in said {
        let (to_server, bytes) = match what {
            Up(bytes) => (true, *bytes),
            Down(bytes) => (false, *bytes),
            Lost => {
                smtp.gap(true);
                continue;
            }
        };
        for piece in bytes.chunks(most) {
            let mut values = Values::default();
            let mut take = |message: &crate::Message<'_>| {
                for value in message.values() {
                    match value.field {
                        Field::FileData => parts.push((value.bytes.to_vec(), value.complete)),
                        Field::SmtpCommand => {
                            commands.push(String::from_utf8_lossy(value.bytes).into_owned());
                        }
                        _ => {}
                    }
                }
            };
            let mut sink = Sink {
                values: &mut values,
                take: &mut take,
            };
            smtp.data(to_server, piece, &limits, &mut sink);
            let mut saved = Vec::new();
            smtp.save(&mut saved);
            let read = Smtp::load(&mut Reader(&saved), &limits).expect("it was saved");
            assert_eq!(read, smtp);
            smtp = read;
        }
    }
    (parts, commands)
}

#[track_caller]
fn mails(said: &[Said<'_>], expected: &[(&[u8], bool)], last: &str) {
    for most in [usize::MAX, 1, 3] {
        let (parts, commands) = heard(said, most.min(1 << 20));
        let parts: Vec<(&[u8], bool)> = parts.iter().map(|(b, c)| (b.as_slice(), *c)).collect();
        assert_eq!(parts, expected, "in pieces of {most}");
        assert_eq!(
            commands.last().map(String::as_str),
            Some(last),
            "{commands:?}"
        );
    }
}

#[test]
fn dots_and_long_lines_are_those_of_the_mail() {
    let long = [
        b"Subject: a\r\n\r\n".as_slice(),
        &[b'x'; 5_000],
        b"\r\n.\r\nQUIT\r\n",
    ]
    .concat();
    let body = [[b'x'; 5_000].as_slice(), b"\r\n"].concat();
    mails(
        &[
            Up(b"DATA\r\n"),
            Down(b"354 go\r\n"),
            Up(&long),
            Down(b"250 ok\r\n"),
        ],
        &[(&body, true)],
        "QUIT",
    );
    mails(
        &[
            Up(b"DATA\r\n"),
            Down(b"354 go\r\n"),
            Up(b"a: b\r\n\r\n..a\r\n.b\r\n.\rc\r\n. \r\n.\r\nQUIT\r\n"),
        ],
        &[(b".a\r\nb\r\n\rc\r\n \r\n", true)],
        "QUIT",
    );
}

#[test]
fn what_is_left_of_one_mail_is_none_of_the_next() {
    let mail = b"Content-Transfer-Encoding: base64\r\n\r\nZXZpbA==\r\n.\r\n";
    let expected: &[(&[u8], bool)] = &[(b"evil", true)];
    // DATA is refused, and commands have come behind it.
    mails(
        &[
            Up(b"MAIL FROM:<a@b>\r\nDATA\r\nNOOP\r\n"),
            Down(b"250 ok\r\n503 no recipients\r\n250 ok\r\n"),
            Up(b"RCPT TO:<c@d>\r\nDATA\r\n"),
            Down(b"250 ok\r\n354 go\r\n"),
            Up(mail),
        ],
        expected,
        "DATA",
    );
    // A chunk without a last one.
    mails(
        &[
            Up(b"BDAT 2\r\n\r\nRSET\r\nDATA\r\n"),
            Down(b"250 ok\r\n250 ok\r\n354 go\r\n"),
            Up(mail),
        ],
        expected,
        "DATA",
    );
}

#[test]
fn a_mail_with_a_hole_is_not_complete() {
    mails(
        &[
            Up(b"DATA\r\n"),
            Down(b"354 go\r\n"),
            Up(b"a: b\r\n\r\nbefore"),
            Lost,
            Up(b"behind\r\n.\r\nDATA\r\n"),
            Down(b"250 ok\r\n354 go\r\n"),
            Up(b"a: b\r\n\r\nnext\r\n.\r\n"),
        ],
        &[(b"beforebehind\r\n", false), (b"next\r\n", true)],
        "DATA",
    );
}
