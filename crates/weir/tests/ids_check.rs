//! `weir ids check`: how many rules load, and why not the others.

mod support;

use support::{Folder, number, run, traces};

const GOOD: &str = r#"alert tcp any any -> $HOME_NET 80 (msg:"a"; content:"passwd"; classtype:misc-attack; sid:1; rev:1;)"#;

#[test]
fn rules_that_all_load() {
    let folder = Folder::new();
    let file = folder.write("good.rules", GOOD);
    let ran = run(["ids", "check", &file]);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert_eq!(ran.out, format!("1 of 1 rule load ({file})\n"));
}

#[test]
fn what_does_not_load_is_counted_by_reason_with_the_first_place() {
    let folder = Folder::new();
    let bad = [
        "# a comment",
        GOOD,
        r#"alert tcp any any -> any any (msg:"b"; lua:x.lua; sid:2;)"#,
        r#"alert tcp any any -> any any (msg:"c"; lua:y.lua; sid:3;)"#,
        r#"alert smb any any -> any any (msg:"d"; content:"d"; sid:4;)"#,
        r#"alert tcp any any -> any any (msg:"e"; content:"unclosed; sid:5;)"#,
        r#"alert tcp any any -> any any (msg:"f"; content:"f"; sid:1; rev:1;)"#,
        r#"alert tcp any any -> any any (msg:"g"; content:"g"; sid:1; rev:0;)"#,
        r#"alert tcp any any -> !any any (msg:"h"; content:"h"; sid:6;)"#,
    ];
    let file = folder.write("bad.rules", bad.join("\n"));
    let json = run(["ids", "check", &file, "--all", "--output", "json"]);
    assert_eq!(json.code, 3, "{json:?}");
    let json = json.json();
    assert_eq!(number(&json, "/rules"), 8, "{json:#}");
    assert_eq!(number(&json, "/loads"), 1, "{json:#}");
    assert_eq!(number(&json, "/refused"), 6, "{json:#}");
    assert_eq!(number(&json, "/replaced/0/line"), 8, "{json:#}");
    assert_eq!(json["reasons"][0]["name"], "lua", "{json:#}");
    assert_eq!(number(&json, "/reasons/0/rules"), 2);
    assert_eq!(json["reasons"][0]["first"], format!("{file}:3"));
    let reasons = json["reasons"].as_array().unwrap();
    let mut kinds: Vec<&str> = reasons
        .iter()
        .map(|r| r["kind"].as_str().unwrap())
        .collect();
    kinds.sort_unstable();
    assert_eq!(
        kinds,
        ["duplicate", "fault", "header", "keyword", "protocol"]
    );
    let lines = json["all"].as_array().unwrap().iter();
    let lines: Vec<u64> = lines.map(|rule| rule["line"].as_u64().unwrap()).collect();
    assert_eq!(lines, [3, 4, 5, 6, 7, 9]);

    let text = run(["ids", "check", &file]);
    assert_eq!(text.code, 3);
    for part in [
        "1 of 8 rules load",
        "2  keyword `lua` is not supported",
        "protocol `smb` is not supported",
    ] {
        assert!(text.out.contains(part), "no `{part}` in\n{}", text.out);
    }
    assert!(!text.out.contains("bad.rules:4"), "{}", text.out);
    let all = run(["ids", "check", &file, "--all"]);
    assert!(
        all.out.contains("bad.rules:4: sid 3: keyword `lua`"),
        "{}",
        all.out
    );
}

#[test]
fn thresholds_name_rules_that_are_there() {
    let folder = Folder::new();
    let file = folder.write("good.rules", GOOD);
    let of_file = "suppress gen_id 1, sig_id 1\nsuppress gen_id 1, sig_id 99\n";
    let thresholds = folder.write("threshold.config", of_file);
    let args = ["ids", "check", &file, "--thresholds", &thresholds];
    let ran = run(args);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(ran.out.contains("not there: 1:99\n"), "{}", ran.out);
    let json = run([&args[..], &["--output", "json"]].concat()).json();
    assert_eq!(number(&json, "/unknown_rules/0/sid"), 99, "{json:#}");
    let thresholds = folder.write("threshold.config", "\n  suppres gen_id 1, sig_id 1\n");
    let ran = run(["ids", "check", &file, "--thresholds", &thresholds]);
    assert_eq!(ran.code, 3, "{ran:?}");
    let place = format!("{thresholds}:2:3: error: unknown entry `suppres`");
    assert!(ran.err.contains(&place), "{}", ran.err);
}

#[test]
fn patterns_are_expanded_and_one_that_nothing_fits_is_named() {
    let folder = Folder::new();
    let first = folder.write("one.rules", GOOD);
    folder.write("two.rules", GOOD.replace("sid:1", "sid:2"));
    folder.write("three.txt", "no rule at all");
    let pattern = first.replace("one.rules", "*.rules");
    let ran = run(["ids", "check", &pattern, &first, "--output", "json"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert_eq!(number(&ran.json(), "/loads"), 2);

    let nothing = first.replace("one.rules", "*.rule");
    let ran = run(["ids", "check", &nothing]);
    assert_eq!(ran.code, 1, "{ran:?}");
    assert!(ran.err.contains(&nothing), "{}", ran.err);
    let missing = first.replace("one.rules", "none.rules");
    let ran = run(["ids", "check", &missing]);
    assert_eq!(ran.code, 1, "{ran:?}");
    assert!(ran.err.contains(&missing), "{}", ran.err);
    assert_eq!(run(["ids", "check"]).code, 2);
}

#[test]
fn a_rule_in_two_files_is_a_duplicate() {
    let folder = Folder::new();
    let one = folder.write("one.rules", GOOD);
    let two = folder.write("two.rules", GOOD);
    let ran = run(["ids", "check", &one, &two]);
    assert_eq!(ran.code, 3, "{ran:?}");
    assert!(ran.out.contains("same sid and rev twice"), "{}", ran.out);
    let newer = folder.write("newer.rules", GOOD.replace("rev:1", "rev:2"));
    let ran = run(["ids", "check", &one, &newer]);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(ran.out.contains("one.rules:1: sid 1"), "{}", ran.out);
}

#[test]
fn variables_come_from_files_and_the_command_line() {
    let folder = Folder::new();
    let rule = GOOD.replace("$HOME_NET 80", "$MINE $MY_PORTS");
    let file = folder.write("a.rules", rule);
    assert_eq!(run(["ids", "check", &file]).code, 3);
    let vars = ["--var", "MINE=10.0.0.0/8", "--var", "MY_PORTS=[80,81]"];
    let ran = run([&["ids", "check", &file][..], &vars].concat());
    assert_eq!(ran.code, 0, "{ran:?}");
    let yaml = folder.write(
        "suricata.yaml",
        "%YAML 1.1\n---\nvars:\n  address-groups:\n    MINE: \"!10.0.0.0/8\"\n  port-groups:\n    MY_PORTS: 80\nstats: yes\n",
    );
    let ran = run(["ids", "check", &file, "--variables", &yaml]);
    assert_eq!(ran.code, 0, "{ran:?}");
    let chain = "chain: a\nnfs:\n  - ids: {rule-files: [\"*.rules\"], vars: {MINE: any, MY_PORTS: \"80\"}}\n";
    let chain = folder.write("chain.yaml", chain);
    let ran = run(["ids", "check", &file, "--chain", &chain]);
    assert_eq!(ran.code, 0, "{ran:?}");
    // The function itself reads the same files.
    let ran = run(["check", &chain]);
    assert_eq!(ran.code, 0, "{ran:?}");

    let ran = run(["ids", "check", &file, "--var", "MINE=10.0.0.0/99"]);
    assert_eq!(ran.code, 2, "{ran:?}");
    assert!(ran.err.contains("`MINE`"), "{}", ran.err);
    assert_eq!(run(["ids", "check", &file, "--var", "MINE"]).code, 2);
}

#[test]
fn a_chain_whose_pattern_nothing_fits_is_refused() {
    let folder = Folder::new();
    let chain = "chain: a\nnfs:\n  - ids: {rule-files: [\"rules/*.rules\"]}\n";
    let ran = run(["check", &folder.write("chain.yaml", chain)]);
    assert_eq!(ran.code, 3, "{ran:?}");
    assert!(ran.err.contains("rules/*.rules"), "{}", ran.err);
}

#[test]
fn class_types_that_a_file_lacks_are_told() {
    let folder = Folder::new();
    let file = folder.write("a.rules", GOOD);
    let classes = folder.write(
        "classification.config",
        "config classification: other,Other,1\n",
    );
    let ran = run(["ids", "check", &file, "--classification", &classes]);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(ran.out.contains("1  `misc-attack`"), "{}", ran.out);
    let bad = folder.write("bad.config", "config classification: other,Other,0\n");
    let ran = run(["ids", "check", &file, "--classification", &bad]);
    assert_eq!(ran.code, 3, "{ran:?}");
    assert!(ran.err.contains("bad.config:1:1: error: "), "{}", ran.err);
}

/// The subset of Emerging Threats: what is checked is what the function loads.
#[test]
fn real_rules_are_counted_as_the_function_loads_them() {
    let Some(traces) = traces() else {
        return;
    };
    let folder = traces.join("ids/et-open").display().to_string();
    let pattern = format!("{folder}/et-*.rules");
    let classes = format!("{folder}/classification.config");
    let args = [
        "ids",
        "check",
        &pattern,
        "--var",
        "HTTP_PORTS=any",
        "--classification",
        &classes,
    ];
    let ran = run([&args[..], &["--output", "json"]].concat());
    let json = ran.json();
    let (rules, loads) = (number(&json, "/rules"), number(&json, "/loads"));
    let refused = number(&json, "/refused");
    assert_eq!(rules, 2_587);
    assert_eq!(rules, loads + refused, "{json:#}");
    assert_eq!(ran.code, if refused == 0 { 0 } else { 3 });
    assert!(loads >= 960, "{json:#}");
    assert_eq!(json["unknown_classtypes"].as_array().unwrap().len(), 0);
    assert_eq!(json["together"], serde_json::Value::Null);

    // The function says the same of them.
    let chain = Folder::new();
    let chain = chain.write(
        "chain.yaml",
        format!(
            "chain: a\nnfs:\n  - ids:\n      rule-files: [\"{pattern}\"]\n      unsupported: skip\n      vars: {{HTTP_PORTS: any}}\n"
        ),
    );
    let checked = run(["check", &chain]);
    assert_eq!(checked.code, 0, "{}", checked.err);
    let mut left_out = 0;
    for line in checked.err.lines() {
        let Some((before, _)) = line.split_once(" rules are left out") else {
            continue;
        };
        let mut words = before.rsplit(' ');
        let (_, of) = (words.next(), words.next());
        assert_eq!(of, Some("of"), "{line}");
        left_out += words.next().unwrap().parse::<u64>().unwrap();
    }
    assert_eq!(left_out, refused, "{}", checked.err);
}

#[test]
fn lists_choose_and_change_rules() {
    let folder = Folder::new();
    let rules = [
        r#"alert tcp any any -> any any (msg:"a"; lua:x.lua; sid:1;)"#,
        r#"#alert udp any any -> any any (msg:"b"; content:"evil"; sid:2;)"#,
        r#"alert udp any any -> any any (msg:"c"; content:"c"; sid:3;)"#,
    ];
    let file = folder.write("site.rules", rules.join("\n"));
    let disable = folder.write("disable.conf", "# What does not load.\nre:lua:\n");
    let enable = folder.write("enable.conf", "2\n");
    let modify = folder.write(
        "modify.conf",
        r#"group:site "content:.(c)." "content:\"\1d\"""#,
    );
    let lists = [
        "--disable",
        &disable,
        "--enable",
        &enable,
        "--modify",
        &modify,
    ];
    let args = [&["ids", "check", &file][..], &lists].concat();
    let text = run(&args);
    assert_eq!(text.code, 0, "{text:?}");
    assert!(
        text.out.contains("2 of 2 rules load")
            && text
                .out
                .contains("Lists: 1 disabled, 1 enabled, 1 modified"),
        "{text:?}"
    );
    let json = run([&args[..], &["--output", "json"]].concat()).json();
    assert_eq!(number(&json, "/lists/disabled"), 1, "{json:#}");

    let wrong = folder.write("wrong.conf", "1\nnonsense\n");
    let told = run(["ids", "check", &file, "--disable", &wrong]);
    assert_eq!(told.code, 3, "{told:?}");
    assert!(
        told.err
            .contains(&format!("{wrong}:2:1: error: `nonsense` names no rule")),
        "{told:?}"
    );

    // The function takes the same lists.
    let chain = folder.write(
        "chain.yaml",
        "chain: site\nnfs:\n  - ids:\n      rule-files: [site.rules]\n      disable-files: [disable.conf]\n      \
         enable-files: [enable.conf]\n      drop-files: [drop.conf]\n      action: rule\n",
    );
    folder.write("drop.conf", "2");
    let checked = run(["check", &chain]);
    assert_eq!(checked.code, 0, "{checked:?}");
}
