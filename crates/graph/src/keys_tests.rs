//! The manual says of each key what its definition says.

use crate::keys::Keys;
use crate::{
    composition, flows, network, placing, plan_key, ports, raw, script_keys, selector, sets,
    template, threads,
};

fn manual() -> String {
    [
        include_str!("../../../docs/chain-file.md"),
        include_str!("../../../docs/network.md"),
        include_str!("../../../docs/plan.md"),
        include_str!("../../../docs/placement.md"),
        include_str!("../../../docs/templates.md"),
        include_str!("../../../docs/cli.md"),
        include_str!("../../../docs/hosts.md"),
        include_str!("../../../docs/scaling.md"),
        include_str!("../../../docs/sets.md"),
        include_str!("../../../docs/billing.md"),
        include_str!("../../../docs/elasticity.md"),
        include_str!("../../../docs/tenants.md"),
    ]
    .concat()
}

/// Keys without a row in a table of the manual that begins what is said of them as their
/// definition does.
fn untold<T>(keys: &Keys<T>) -> Vec<String> {
    let manual = manual();
    let told = |name: &str, about: &str| {
        let row = format!("| `{name}` |");
        let about = about.trim_end_matches('.').to_lowercase();
        let mut rows = manual.lines().filter(|line| line.starts_with(&row));
        rows.any(|line| line.to_lowercase().contains(&about))
    };
    let keys = keys.told().filter(|(name, about)| !told(name, about));
    keys.map(|(name, about)| format!("| `{name}` | {about} |"))
        .collect()
}

#[test]
fn the_manual_has_a_row_for_each_key() {
    let nothing: [&str; 0] = [];
    assert_eq!(untold(&raw::chain_keys(true)), nothing);
    assert_eq!(untold(&flows::keys()), nothing);
    assert_eq!(untold(&flows::timeout_keys()), nothing);
    assert_eq!(untold(&selector::keys()), nothing);
    assert_eq!(untold(&threads::keys()), nothing);
    assert_eq!(untold(&sets::keys()), nothing);
    assert_eq!(untold(&plan_key::cost_keys()), nothing);
    assert_eq!(untold(&template::setting_keys()), nothing);
    assert_eq!(untold(&composition::composition_keys()), nothing);
    assert_eq!(untold(&composition::host_keys()), nothing);
    assert_eq!(untold(&composition::port_keys()), nothing);
    assert_eq!(untold(&composition::scaling_keys()), nothing);
    assert_eq!(untold(&composition::flowlet_keys()), nothing);
    assert_eq!(untold(&composition::price_keys()), nothing);
    assert_eq!(untold(&composition::tenant_keys()), nothing);
    let other =
        Keys::<()>::new("", "").key("max", "Another text.", crate::form::Boolean, |_, _| {});
    assert_eq!(untold(&other), ["| `max` | Another text. |"]);
}

#[test]
fn the_manual_names_the_keys_that_it_shows_in_examples() {
    let manual = manual();
    let all = [
        raw::file_keys().names(),
        ports::keys().names(),
        plan_key::keys().names(),
        network::keys().names(),
        placing::keys().names(),
        placing::thread_keys().names(),
        template::keys().names(),
        script_keys::entry_keys().names(),
        script_keys::move_keys().names(),
        script_keys::drain_keys().names(),
    ]
    .concat();
    for key in all {
        let written = [format!("`{key}`"), format!("{key}:")];
        let named = written.iter().any(|text| manual.contains(text));
        assert!(named, "the manual does not name `{key}`");
    }
}
