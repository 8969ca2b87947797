//! Mails, and what is read out of them.

use super::*;

fn part(name: &str, bytes: &str) -> Part {
    Part {
        name: name.as_bytes().to_vec(),
        bytes: bytes.as_bytes().to_vec(),
        complete: true,
    }
}

#[test]
fn attachments_are_decoded() {
    let mail = "From: a@b\r\nContent-Type: multipart/mixed;\r\n\tboundary=\"x y\"\r\n\r\n\
        preamble\r\n--x y\r\nContent-Type: text/plain\r\n\r\nhello\r\n--other\r\n\
        --x y  \r\nContent-Type: multipart/alternative; boundary=in\r\n\r\n\
        --in\r\nContent-Transfer-Encoding: Quoted-Printable\r\n\r\na=3Db=\r\nc=\r\n--in--\r\n\
        --x y\r\nContent-Disposition: attachment; filename=\"a;b.exe\"\r\ncontent-transfer-encoding: base64\r\n\r\n\
        TVqQ\r\nAAM=\r\n--x y\r\nContent-Type: message/rfc822\r\n\r\nSubject: in\r\n\r\nwithin\r\n--x y--\r\nepilogue\r\n";
    let mut expected = vec![
        part("", "hello\r\n--other"),
        part("", "a=bc="),
        part("a;b.exe", ""),
        part("", "within"),
    ];
    expected[2].bytes = vec![b'M', b'Z', 0x90, 0, 3];
    assert_eq!(parts(mail.as_bytes(), false, false), expected);
    // With bare line feeds, and cut off: the last part is not complete.
    let cut = mail
        .replace("\r\n", "\n")
        .replace("--x y--\nepilogue\n", "");
    let mut found = parts(cut.as_bytes(), false, true);
    assert!(!found[3].complete && found[..3].iter().all(|part| part.complete));
    assert_eq!(found.len(), 4);
    found[3].complete = true;
    assert_eq!(found[3].bytes, b"within\n");
    expected[0].bytes = b"hello\n--other".to_vec();
    assert_eq!(found[..3], expected[..3]);
}

#[test]
fn mails_without_mime_are_one_part() {
    for (mail, body) in [
        ("Subject: a\r\n\r\ntext: b\r\n", "text: b\r\n"),
        (
            "just text\r\n\r\nand more\r\n",
            "just text\r\n\r\nand more\r\n",
        ),
        ("", ""),
        // A header that nothing follows has an empty body.
        ("Subject: a\r\n", ""),
        // A type without a boundary, or without a delimiter, hides nothing.
        ("Content-Type: multipart/mixed\r\n\r\ntext", "text"),
        (
            "Content-Type: multipart/mixed; boundary=a\r\n\r\ntext\r\n--ab\r\n",
            "text\r\n--ab\r\n",
        ),
    ] {
        assert_eq!(
            parts(mail.as_bytes(), false, false),
            [part("", body)],
            "{mail}"
        );
    }
}

#[test]
fn names_are_read_in_each_spelling() {
    for (field, name) in [
        ("attachment; filename=a.exe; size=3", "a.exe"),
        ("attachment;FILENAME = \"a\\\"b.exe\"", "a\"b.exe"),
        (
            "attachment; filename*=UTF-8''a%20b.exe; filename=other",
            "a b.exe",
        ),
        ("attachment; filename*0=\"a\"; filename*1=b.exe", "ab.exe"),
        (
            "attachment; filename*0*=utf-8'en'a%2f; filename*1=b; filename*3=x",
            "a/b",
        ),
        ("attachment; filename=\"=?utf-8?B?YS5leGU=?=\"", "a.exe"),
        (
            "attachment; filename=\"x =?utf-8?Q?a_b?= =?utf-8?q?=2eexe?= y\"",
            "x a b.exe y",
        ),
        ("attachment; filename=\"=?utf-8?B?YS5l\"", "=?utf-8?B?YS5l"),
        (
            "attachment; filename=\"=?a =?utf-8?B?YS5leGU=?=\"",
            "=?a a.exe",
        ),
        ("attachment; name; filename=a", "a"),
    ] {
        let found = parameter(field.as_bytes(), "filename").map(|name| words(&name));
        assert_eq!(found.as_deref(), Some(name.as_bytes()), "{field}");
    }
    assert_eq!(parameter(b"attachment; x-filename=a", "filename"), None);
    let mail = b"Content-Type: application/x; name=b.zip\r\n\r\nx";
    assert_eq!(parts(mail, false, false), [part("b.zip", "x")]);
}

/// Some mail reader opens each of these mails: none hides its part from rules.
#[test]
fn odd_mails_hide_no_part() {
    const PART: &str = "Content-Transfer-Encoding: base64\r\n\r\nZXZpbA==\r\n";
    let whole = |header: &str, first: &str, boundary: &str| {
        format!("{header}\r\n\r\n{first}--{boundary}\r\n{PART}--{boundary}--\r\n")
    };
    let multipart = |boundary: &str| format!("Content-Type: multipart/mixed; boundary={boundary}");
    for mail in [
        whole(&multipart("\"=?u?Q?x?=\""), "", "=?u?Q?x?="),
        whole(&multipart("b (a comment)"), "", "b"),
        whole(&multipart("\"b \""), "", "b"),
        // Lines that are no fields, and a long header.
        whole(&format!("no field\r\n{}", multipart("b")), "", "b"),
        whole(
            &format!("X: {}\r\n{}", "x".repeat(20_000), multipart("b")),
            "",
            "b",
        ),
        whole(
            &format!("Content-Type: text/plain\r\n{}", multipart("b")),
            "",
            "b",
        ),
        // The last delimiter comes first, or parts follow it.
        whole(&multipart("b"), "--b--\r\n", "b"),
        whole(&multipart("b"), "--b\r\n\r\nhello\r\n--b--\r\n", "b"),
        // An entity with parts is encoded.
        format!(
            "{}\r\nContent-Transfer-Encoding: quoted-printable\r\n\r\n--=62\r\n{}--b--\r\n",
            multipart("b"),
            PART.replace('=', "=3D")
        ),
        "Content-Type: message/rfc822\r\nContent-Transfer-Encoding: base64\r\n\r\n\
         Q29udGVudC1UcmFuc2Zlci1FbmNvZGluZzogYmFzZTY0DQoNClpYWnBiQT09DQo="
            .to_owned(),
        // It says so, and is not.
        whole(
            &format!("Content-Transfer-Encoding: base64\r\n{}", multipart("b")),
            "",
            "b",
        ),
        format!("Content-Type: message/rfc822\r\nContent-Transfer-Encoding: base64\r\n\r\n{PART}"),
        // The encoding in other words, and two of them.
        PART.replace("base64", "\"BASE64\" (so it is)"),
        PART.replace("base64", "base64;"),
        format!("Content-Transfer-Encoding: 7bit\r\n{PART}"),
        PART.replacen("\r\n\r\n", "\r\nContent-Transfer-Encoding: 7bit\r\n\r\n", 1),
    ] {
        let found = parts(mail.as_bytes(), false, false);
        assert!(
            found.iter().any(|part| part.bytes == b"evil"),
            "{mail}\n{found:?}"
        );
    }
    // An empty file is one.
    let empty = "Content-Type: multipart/mixed; boundary=b\r\n\r\n--b\r\nContent-Type: a/b; name=a.txt\r\n\r\n--b--";
    assert_eq!(parts(empty.as_bytes(), false, false), [part("a.txt", "")]);
    let soft = b"Content-Transfer-Encoding: quoted-printable\r\n\r\nev= \t\r\nil";
    assert_eq!(parts(soft, false, false), [part("", "evil")]);
    // Nothing of a mail with a hole is complete.
    let torn = whole(&multipart("b"), "", "b");
    assert!(
        parts(torn.as_bytes(), true, false)
            .iter()
            .all(|part| !part.complete)
    );
}

#[test]
fn work_is_bounded() {
    // Parts in parts, and many parts.
    let mut deep = String::new();
    for level in 0..100 {
        deep += &format!("Content-Type: multipart/mixed; boundary={level}\r\n\r\n--{level}\r\n");
    }
    let leaf = parts(deep.as_bytes(), false, false);
    assert_eq!(leaf.len(), 1);
    assert!(leaf[0].bytes.starts_with(b"--10\r\n"));
    let many = format!(
        "Content-Type: multipart/mixed; boundary=a\r\n\r\n{}",
        "--a\r\n\r\nx\r\n".repeat(1_000)
    );
    assert_eq!(parts(many.as_bytes(), false, false).len(), MOST);
}

proptest::proptest! {
    #[test]
    fn nothing_panics_and_no_part_grows(mail in "(?s)[-a-c=?*;:\"'%\\\\\r\n 0-9]{0,300}") {
        let mail = format!("Content-Type: multipart/mixed; boundary=a\r\n\r\n{mail}");
        let found = parts(mail.as_bytes(), false, false);
        let bytes: usize = found.iter().map(|part| part.bytes.len()).sum();
        assert!(!found.is_empty() && bytes <= MOST_WORK * mail.len());
    }
}
