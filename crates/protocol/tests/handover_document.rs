//! docs/handover.md names counts that there are.

use std::collections::BTreeSet;

use weir_protocol::actors::ActorCount;
use weir_protocol::switch::{SwitchCount, SwitchDrop};
use weir_telemetry::Label;

const DOCUMENT: &str = include_str!("../../../docs/handover.md");

fn names<K: Label>() -> impl Iterator<Item = &'static str> {
    K::ALL.iter().map(|count| count.name())
}

/// What stands between backticks.
fn quoted(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

#[test]
fn each_count_in_the_table_of_failures_exists() {
    let counts: BTreeSet<&str> = names::<SwitchCount>()
        .chain(names::<ActorCount>())
        .collect();
    let drops: BTreeSet<&str> = names::<SwitchDrop>().collect();
    let (_, table) = DOCUMENT.split_once("| counts |").expect("the table");
    let (table, _) = table.split_once("\n\n").expect("its end");
    let mut checked = 0;
    for row in table.lines().skip(2) {
        let column = row.trim_end_matches('|').rsplit('|').next().unwrap_or("");
        for part in column.split([',', ';']) {
            for name in quoted(part) {
                let known = if part.contains("drop `") {
                    &drops
                } else {
                    &counts
                };
                assert!(known.contains(name), "`{name}` in {row}");
                checked += 1;
            }
        }
    }
    assert!(checked > 40, "{checked}");
}
