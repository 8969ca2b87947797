//! Documents and files for other programs name what there is.

mod support;

use std::collections::BTreeSet;

use support::root;

/// Names of metrics in a text.
fn metrics(text: &str) -> BTreeSet<&str> {
    let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    words.filter(|word| word.starts_with("weir_")).collect()
}

/// Alarms look at metrics that there are: one that was renamed never rings.
#[test]
fn the_alarms_name_metrics_that_there_are() {
    let read = |path| std::fs::read_to_string(root().join(path)).unwrap();
    let (rules, doc) = (
        read("deploy/prometheus/weir.rules.yml"),
        read("docs/metrics.md"),
    );
    let known = metrics(&doc);
    let rings: Vec<&str> = rules
        .lines()
        .filter(|line| line.contains("expr:"))
        .collect();
    assert_eq!(rings.len(), rules.matches("- alert:").count());
    for expr in rings {
        let named = metrics(expr);
        // That of Prometheus itself says whether weir answers.
        assert!(!named.is_empty() || expr.contains("up{"), "{expr}");
        for name in named {
            assert!(known.contains(name), "{expr}: there is no {name}");
        }
    }
}

/// Each row of the table of failures has tests, and there are such tests.
#[test]
fn each_failure_has_its_test() {
    let table = std::fs::read_to_string(root().join("docs/failures.md")).unwrap();
    let mut sources = String::new();
    for folder in ["crates/weir/tests", "crates/weir/tests/support"] {
        for file in std::fs::read_dir(root().join(folder)).unwrap() {
            let path = file.unwrap().path();
            if path.extension().is_some_and(|end| end == "rs") {
                sources += &std::fs::read_to_string(path).unwrap();
            }
        }
    }
    let rows: Vec<&str> = table
        .lines()
        .filter(|line| line.starts_with("| "))
        .collect();
    // The first one is the head.
    for row in &rows[1..] {
        let tests = row.trim_end_matches('|').rsplit('|').next().unwrap();
        let mut names = tests.split('`').skip(1).step_by(2).peekable();
        assert!(names.peek().is_some(), "{row} has no test");
        for name in names {
            assert!(
                sources.contains(&format!("fn {name}()")),
                "there is no test {name}"
            );
        }
    }
    assert!(rows.len() > 10, "{}", rows.len());
}
