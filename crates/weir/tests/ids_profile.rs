//! `weir ids profile`: what each rule costs over a capture.

mod support;

use support::{Folder, number, run};

const CAPTURE: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../../examples/captures/attack.pcap"
);

const RULES: &str = r#"alert http any any -> any any (msg:"a"; http.method; content:"GET"; sid:1;)
alert http any any -> any any (msg:"b"; http.method; content:"GET"; http.uri; pcre:"/no.such/"; sid:2;)
alert tcp any any -> any any (msg:"c"; content:"bytes that nobody sends"; sid:3;)
alert smb any any -> any any (msg:"d"; sid:4;)
"#;

#[test]
fn rules_are_counted_and_ordered() {
    let folder = Folder::new();
    let file = folder.write("x.rules", RULES);
    let words = ["ids", "profile", &file, "--in", CAPTURE, "--by", "matched"];
    let ran = run(words.into_iter().chain(["--output", "json"]));
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(ran.err.contains("1 of 4 rules are left out"), "{ran:?}");
    let json = ran.json();
    assert_eq!(number(&json, "/packets"), 196, "{json:#}");
    // The third is never chosen by its pattern.
    assert_eq!(number(&json, "/rules_tried"), 2, "{json:#}");
    assert_eq!(number(&json, "/rules/0/sid"), 1, "{json:#}");
    let (tried, matched) = (
        number(&json, "/rules/0/tried"),
        number(&json, "/rules/0/matched"),
    );
    assert!(matched > 0 && matched <= tried, "{json:#}");
    assert_eq!(matched, number(&json, "/alerts"), "{json:#}");
    assert_eq!(number(&json, "/rules/1/sid"), 2, "{json:#}");
    assert_eq!(number(&json, "/rules/1/matched"), 0, "{json:#}");
    let longest = number(&json, "/rules/0/longest_ns");
    assert!(
        longest > 0 && longest <= number(&json, "/rules/0/ns"),
        "{json:#}"
    );

    let text = run(words.into_iter().chain(["--top", "1"]));
    assert!(
        text.out.contains("1:1 ") && !text.out.contains("1:2 "),
        "{text:?}"
    );
    let missing = run(["ids", "profile", &file, "--in", "/no/such.pcap"]);
    assert_eq!(missing.code, 1, "{missing:?}");
    let wrong = folder.write(
        "wrong.rules",
        "alert tcp any any -> any any (content:\"a\";)\n",
    );
    let wrong = run(["ids", "profile", &wrong, "--in", CAPTURE]);
    assert_eq!(wrong.code, 3, "{wrong:?}");
    assert!(wrong.err.contains("wrong.rules:1"), "{wrong:?}");
}
