//! `weir plan`: what the compiler makes of a chain, and why.

mod support;

use support::{Folder, example, root, run};

fn names(list: &serde_json::Value) -> Vec<String> {
    let list = list.as_array().unwrap().iter();
    list.map(|p| p["name"].as_str().unwrap().to_owned())
        .collect()
}

#[test]
fn the_office_is_shown_before_and_after_with_reasons() {
    let office = example("office.yaml");
    let text = run(["plan", &office]);
    assert_eq!(text.code, 0, "{}", text.err);
    for line in [
        "chain office: 14 processors; 11 are called",
        "├─ waf/ip-check              ip-check  = edge/ip-check, not called again",
        "✓ consolidate  waf/classifier:",
        "– hoist        monitoring/web-requests:",
        "✓ check",
    ] {
        assert!(text.out.contains(line), "{line} is not in\n{}", text.out);
    }

    let data = run(["plan", &office, "--output", "json"]).json();
    let plan = &data["plans"][0];
    assert_eq!(names(&plan["written"]), names(&plan["runs"]));
    let reused = plan["runs"].as_array().unwrap().iter();
    let reused: Vec<&str> = reused.filter_map(|p| p["same_as"].as_str()).collect();
    assert_eq!(
        reused,
        ["edge/ip-check", "edge/ip-check", "monitoring/classifier"]
    );
    assert_eq!(plan["stages"].as_array().unwrap().len(), 1);

    let without = run(["plan", &office, "--passes", "none", "--output", "json"]).json();
    let runs = without["plans"][0]["runs"].as_array().unwrap();
    assert!(runs.iter().all(|p| p.get("same_as").is_none()));
}

#[test]
fn stages_get_cores_and_one_nf_is_explained() {
    let office = example("office.yaml");
    let cut = ["--plan", "pipeline", "--cores", "0,1"];
    let args = [&["plan", &office, "--output", "json"][..], &cut].concat();
    let data = run(args).json();
    let stages = data["plans"][0]["stages"].as_array().unwrap();
    let cores: Vec<_> = stages.iter().map(|s| s["core"].as_u64()).collect();
    assert_eq!(cores, [Some(0), Some(1)]);

    let args = [&["plan", &office, "--explain", "waf"][..], &cut].concat();
    let about = run(args);
    assert_eq!(about.code, 0, "{}", about.err);
    assert!(
        about.out.starts_with("waf: 4 processors\n"),
        "{}",
        about.out
    );
    assert!(about.out.contains("runs in stage 2"), "{}", about.out);
    assert!(
        !about.out.contains("edge/firewall (firewall)"),
        "{}",
        about.out
    );

    let args = ["plan", &office, "--explain", "edge", "--output", "json"];
    let data = run(args).json();
    assert_eq!(
        names(&data["plans"][0]["runs"]),
        ["edge/ip-check", "edge/firewall"]
    );

    let none = run(["plan", &office, "--explain", "wall"]);
    assert_eq!(none.code, 2);
    assert!(
        none.err
            .contains("no `wall`; it has edge, monitoring, waf, slow"),
        "{}",
        none.err
    );
}

#[test]
fn pictures_are_of_one_chain() {
    let svg = run(["plan", &example("office.yaml"), "--output", "svg"]);
    assert_eq!(svg.code, 0, "{}", svg.err);
    assert!(svg.out.starts_with("<svg ") && svg.out.trim_end().ends_with("</svg>"));
    let dot = run(["plan", &example("office.yaml"), "--output", "dot"]);
    assert!(dot.out.starts_with("digraph \"office\" {"), "{}", dot.out);

    let two = example("two-chains.yaml");
    let both = run(["plan", &two, "--output", "svg"]);
    assert_eq!(both.code, 2);
    assert!(both.err.contains("--chain NAME"), "{}", both.err);
    let json = run(["plan", &two, "--output", "json"]).json();
    let first = json["plans"][0]["chain"].as_str().unwrap().to_owned();
    let one = run(["plan", &two, "--chain", &first, "--output", "svg"]);
    assert_eq!(one.code, 0, "{}", one.err);
    let neither = run(["plan", &two, "--chain", "third"]);
    assert_eq!(neither.code, 2);
    assert!(neither.err.contains(&first), "{}", neither.err);
}

#[test]
fn every_example_has_a_plan() {
    let folder = root().join("examples");
    let mut seen = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|end| end != "yaml") {
            continue;
        }
        let path = path.display().to_string();
        if path.ends_with("cluster.yaml") || path.ends_with("hosts.yaml") {
            let plan = run(["plan", &path]);
            assert_eq!(plan.code, 3, "a composition is no chain");
            assert!(plan.err.contains("`weir up "), "{}", plan.err);
            continue;
        }
        seen += 1;
        for mode in ["rtc", "pipeline", "auto"] {
            let plan = run(["plan", &path, "--plan", mode]);
            // Who is not trusted does not run with the others in one stage.
            let refused = mode == "rtc" && path.ends_with("tenant.yaml");
            let code = if refused { 3 } else { 0 };
            assert_eq!(plan.code, code, "{path} {mode}: {}", plan.err);
        }
    }
    assert!(seen >= 10);
}

#[test]
fn a_chain_that_is_wrong_is_told_with_its_place() {
    let folder = Folder::new();
    let path = folder.write("wrong.yaml", "chain: a\nnfs:\n  - firewal\n");
    let wrong = run(["plan", &path]);
    assert_eq!(wrong.code, 3);
    assert!(wrong.err.contains("wrong.yaml:3:5"), "{}", wrong.err);
    let nonsense = run(["plan", &example("office.yaml"), "--plan", "fast"]);
    assert_eq!(nonsense.code, 2);
}
