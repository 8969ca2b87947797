//! `weir nf new` writes a project that builds and passes its tests as written,
//! and the guide shows the code of that very project.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn weir(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_weir"))
        .args(arguments)
        .output()
        .expect("weir runs")
}

fn fresh(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = std::fs::remove_dir_all(&folder);
    folder
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn the_project_builds_and_passes_its_tests() {
    let folder = fresh("port-knock");
    let made = weir(&[
        "nf",
        "new",
        "port-knock",
        "--path",
        &folder.display().to_string(),
    ]);
    assert!(made.status.success(), "{}", text(&made.stderr));
    let cargo = |arguments: &[&str]| {
        Command::new(env!("CARGO"))
            .args(arguments)
            .current_dir(&folder)
            // What the workspace needed is here already; the rest must not be
            // fetched behind a test's back.
            .env("CARGO_NET_OFFLINE", "true")
            .env(
                "CARGO_TARGET_DIR",
                Path::new(env!("CARGO_TARGET_TMPDIR")).join("nf-new-target"),
            )
            .env("CARGO_PROFILE_DEV_DEBUG", "false")
            .output()
            .expect("cargo runs")
    };
    let tested = cargo(&["test"]);
    let said = text(&tested.stdout);
    assert!(tested.status.success(), "{said}\n{}", text(&tested.stderr));
    assert!(said.contains("4 passed; 0 failed"), "{said}");
    let run = cargo(&[
        "run",
        "-q",
        "--",
        "run",
        "chain.yaml",
        "--in",
        "gen:flows=10,packets=1000",
        "--output",
        "json",
    ]);
    assert!(run.status.success(), "{}", text(&run.stderr));
    let summary: serde_json::Value = serde_json::from_slice(&run.stdout).expect("a summary");
    assert_eq!(summary["drops"]["port-knock.unanswered"], 950);
}

#[test]
fn nothing_is_overwritten_and_names_are_checked() {
    let folder = fresh("taken");
    std::fs::create_dir_all(&folder).expect("a folder");
    std::fs::write(folder.join("mine.txt"), "mine").expect("a file");
    let refused = weir(&[
        "nf",
        "new",
        "taken",
        "--path",
        &folder.display().to_string(),
    ]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(text(&refused.stderr).contains("not empty"));
    assert_eq!(std::fs::read_dir(&folder).expect("the folder").count(), 1);
    for name in ["", "Port", "a--b", "-a", "a_b", "1a"] {
        let refused = weir(&["nf", "new", "--", name]);
        assert_eq!(refused.status.code(), Some(2), "{name}");
    }
    let nowhere = weir(&[
        "nf",
        "new",
        "fine",
        "--path",
        "/dev/null/x",
        "--weir",
        "/dev/null",
    ]);
    assert!(text(&nowhere.stderr).contains("--weir"));
}

#[test]
fn the_guide_shows_the_code_of_the_template() {
    let template = include_str!("../src/nf/template/lib.rs.in")
        .replace("{{name_}}", "port_knock")
        .replace("{{name}}", "port-knock")
        .replace("{{Name}}", "PortKnock");
    let guide = include_str!("../../../docs/writing-an-nf.md");
    let mut blocks = 0;
    for block in guide.split("```rust\n").skip(1) {
        let code = block.split("```").next().unwrap_or("");
        assert!(
            template.contains(code.trim_end()),
            "not in the template:\n{code}"
        );
        blocks += 1;
    }
    assert!(blocks >= 6, "the guide has lost its code");
}
