use std::collections::BTreeSet;

use super::{Campaign, Plant, Rule, find, near, run};

#[test]
fn no_rule_is_broken() {
    let mut sum = Campaign::default();
    for seed in 1..=400 {
        assert!(sum.add_seed(seed, None), "{:?}", sum.failed());
    }
    // Seeds do what they are for.
    assert!(sum.tenants() > 2 * sum.seeds(), "{sum:?}");
    assert!(sum.faults() > 10 * sum.seeds(), "{sum:?}");
    // Contenders ask at the same time, and wait for it.
    assert!(sum.waited() > 150, "{sum:?}");
}

#[test]
fn a_seed_gives_one_run() {
    for seed in 1..=20 {
        assert_eq!(run(seed, None), run(seed, None));
    }
}

#[test]
fn planted_bugs_are_found_and_each_rule_finds_one() {
    let mut rules = BTreeSet::new();
    for plant in Plant::ALL {
        let sum = find(plant, near(plant), || true);
        let found = sum.failed().first();
        assert!(found.is_some(), "{} is not found", plant.name());
        rules.extend(found.map(|failed| failed.violation().rule()));
    }
    let all = [
        Rule::One,
        Rule::Generation,
        Rule::Promise,
        Rule::Progress,
        Rule::Undisturbed,
    ];
    assert_eq!(rules, all.into_iter().collect());
}
