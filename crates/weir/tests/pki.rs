//! `weir pki`: an authority, certificates of it, and what is said of wrong ones.

mod support;

use std::os::unix::fs::PermissionsExt as _;

use support::{Folder, run};

/// An authority of the cluster `lab` in a folder `ca`.
fn authority(folder: &Folder) -> String {
    let ca = folder.path("ca");
    let made = run(["pki", "init", "lab", "--folder", &ca, "--output", "json"]);
    assert_eq!(made.code, 0, "{made:?}");
    assert_eq!(made.json()["cluster"], "lab");
    ca
}

#[test]
fn an_authority_issues_renews_and_shows() {
    let folder = Folder::new();
    let (ca, own) = (authority(&folder), folder.path("a1"));
    let issue = |words: &[&str]| {
        let fixed = ["pki", "issue", "agent", "a1", "--ca", &ca, "--folder", &own];
        run(fixed.iter().chain(words))
    };
    let first = issue(&[]);
    assert_eq!(first.code, 0, "{first:?}");
    assert!(
        first.out.starts_with("spiffe://lab/weir/agent/a1 in "),
        "{first:?}"
    );
    assert!(!first.out.contains("renewed"), "{first:?}");
    let renewed = issue(&["--days", "7", "--output", "json"]).json();
    assert_eq!(renewed["id"], "spiffe://lab/weir/agent/a1");
    assert_eq!(renewed["renewed"], true);

    let shown = run(["pki", "show", &own, "--output", "json"]);
    assert_eq!(shown.code, 0, "{shown:?}");
    let shown = shown.json();
    assert_eq!(shown["certificate"]["role"], "agent");
    assert_eq!(shown["certificate"]["expires"], renewed["expires"]);
    assert_eq!(shown["is_authority"], false);
    assert!(shown["problem"].is_null(), "{shown}");
    let of_ca = run(["pki", "show", &ca, "--output", "json"]).json();
    assert_eq!(of_ca["is_authority"], true);
    assert!(of_ca["certificate"].is_null(), "{of_ca}");
    assert_eq!(of_ca["authorities"], shown["authorities"]);
    let text = run(["pki", "show", &own]).out;
    assert!(text.contains("a host's agent"), "{text}");
    assert!(text.contains("authority    of lab"), "{text}");
    // No key is ever shown.
    assert!(!text.contains("PRIVATE"), "{text}");
}

/// Its exit code, and that its message has these parts.
#[track_caller]
fn fails(words: &[&str], code: i32, parts: &[&str]) {
    let ran = run(words);
    assert_eq!(ran.code, code, "{ran:?}");
    assert!(ran.err.starts_with("error: "), "{ran:?}");
    for part in parts {
        assert!(ran.err.contains(part), "{part}: {ran:?}");
    }
}

#[test]
fn words_that_make_no_sense() {
    let folder = Folder::new();
    let (ca, own) = (authority(&folder), folder.path("a1"));
    let issue = |role, name, days| {
        let words = ["pki", "issue", role, name, "--ca", &ca, "--folder", &own];
        words
            .into_iter()
            .chain(["--days", days])
            .collect::<Vec<_>>()
    };
    fails(
        &issue("root", "a1", "1"),
        2,
        &[
            "`root` is no role",
            "operator, viewer, agent or coordinator",
        ],
    );
    fails(&issue("agent", "a/1", "1"), 2, &["`a/1` can't be a name"]);
    fails(&issue("agent", "a1", "0"), 2, &["--days"]);
    fails(&["pki", "init", "Lab"], 2, &["`Lab`", "lower-case"]);
    fails(&["pki", "issue", "agent", "a1"], 2, &["--folder"]);
    assert!(!std::path::Path::new(&own).exists());
}

#[test]
fn folders_that_are_wrong() {
    let folder = Folder::new();
    let (ca, own) = (authority(&folder), folder.path("a1"));
    fails(
        &["pki", "init", "lab", "--folder", &ca],
        1,
        &["ca-key.pem", "there already", "another folder"],
    );
    let issue = |ca| ["pki", "issue", "agent", "a1", "--ca", ca, "--folder", &own];
    fails(&issue(&own), 1, &["can't read", "ca-key.pem"]);
    assert_eq!(run(issue(&ca)).code, 0);
    let other = ["pki", "issue", "viewer", "v", "--ca", &ca, "--folder", &own];
    fails(&other, 1, &["spiffe://lab/weir/agent/a1", "another folder"]);
    fails(&["pki", "show", &folder.path("none")], 1, &["neither"]);

    // A key that others may read is of no use: neither a peer's nor the authority's.
    let open = |path: &str| {
        let mode = std::fs::Permissions::from_mode(0o644);
        std::fs::set_permissions(path, mode).unwrap();
    };
    open(&format!("{own}/key.pem"));
    let shown = run(["pki", "show", &own]);
    assert_eq!(shown.code, 1, "{shown:?}");
    assert!(shown.out.contains("chmod 600"), "{shown:?}");
    assert!(
        shown.out.contains("spiffe://lab/weir/agent/a1"),
        "{shown:?}"
    );
    let shown = run(["pki", "show", &own, "--output", "json"]);
    let problem = shown.json()["problem"].to_string();
    assert!(problem.contains("key.pem: others may read"), "{problem}");
    open(&format!("{ca}/ca-key.pem"));
    fails(&issue(&ca), 1, &["ca-key.pem", "chmod 600"]);
}
