//! A table that is full still gives each flow all its names.

mod support;

use support::{Folder, conserved, number, run_json};

#[test]
fn two_functions_that_rewrite_have_aliases_for_every_flow() {
    let folder = Folder::new();
    let chain = folder.write(
        "chain.yaml",
        "chain: a\nflows: {max: 1000, when-full: refuse}\nnfs:\n  \
         - nat44: {pool: 203.0.113.1, inside: 10.0.0.0/8}\n  \
         - load-balancer: {services: [{vip: 198.51.100.1, backends: [{address: 198.51.100.2}]}]}\n",
    );
    let port =
        "gen:flows=5000,packets=5000,popularity=sequential,src=10.0.0.0/16,dst=198.51.100.1/32";
    let summary = run_json(&chain, &["--in", port]);
    conserved(&summary);
    assert_eq!(
        number(&summary, "/nfs/load-balancer/counters/balanced"),
        1_000
    );
    assert_eq!(number(&summary, "/chains/a/flows/aliases_refused"), 0);
    assert_eq!(number(&summary, "/chains/a/flows/ports_leased"), 0);
}
