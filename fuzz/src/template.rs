//! Any text as a template, and any as a chain that names it: a chain that
//! loads has plans that mean what it says.

use weir_graph::compile::{Options, Parallel, check, compile};
use weir_graph::{Input, Severity, Templates, load_with, render};
use weir_nf::NoSources;

/// The input is the chain file; behind a NUL comes a template, and so on.
pub fn run(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let mut parts = text.split('\0');
    let file = parts.next().unwrap_or("");
    let mut templates = Templates::shipped();
    for (number, text) in parts.take(4).enumerate() {
        templates.add(format!("t{number}.yaml"), text);
    }
    let input = Input {
        name: "fuzz.yaml",
        text: file,
        kinds: weir_functions::kinds(),
        overrides: &[],
        seed: 1,
    };
    let found = match load_with(&input, &templates, &mut NoSources) {
        Ok(found) => found,
        Err(list) => {
            let error = list.iter().any(|d| d.severity == Severity::Error);
            assert!(error && !render(&list).is_empty(), "an error says why");
            return;
        }
    };
    for chain in &found.chains {
        let always = Options {
            parallel: Parallel::Always,
            ..chain.plan.clone()
        };
        for options in [
            &Options::as_written(),
            &Options::default(),
            &chain.plan,
            &always,
        ] {
            match compile(&chain.stage.chain, &chain.graph, options) {
                Ok(plan) => {
                    check(&plan).expect("what was compiled is right");
                    let stages = plan.stages(&chain.stage).expect("functions are there");
                    assert_eq!(stages.len(), plan.steps.len());
                }
                // What the file asks for may not be.
                Err(faults) => assert!(faults.iter().all(|fault| !fault.bug), "{faults:?}"),
            }
        }
    }
}

/// A chain and templates that it names.
pub fn example() -> Vec<u8> {
    const TEXT: &str = "\
chain: c
nfs:
  - sort: {ports: [80, 8080], strict: false}
    as: web
    links: {other: count}
  - application-firewall: {action: alert}
    links: {other: out}
  - monitor
  - counter: {}
    as: count
plan: {mode: pipeline, stages: [monitor], passes: all}
\0template: sort
summary: sorts
settings:
  ports: {type: list, items: integer, default: [80]}
  strict: {type: boolean, default: true}
  action: {values: [drop, alert], default: drop}
labels: {other: What is not HTTP.}
processors:
  - ip-check: {martians: $strict}
    when: $strict
  - classifier: {classes: [{protocol: tcp, to-port: $ports}, {protocol: [udp, $ports...]}]}
    links: {class-1: http-classifier, pass: exit other}
  - http-classifier: {ports: $ports}
    links: {other: exit other}
  - url-validator: {action: $action}
    when: {action: [drop, alert]}
";
    TEXT.into()
}
