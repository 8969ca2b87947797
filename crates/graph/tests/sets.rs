//! `sets:` of a chain file.

use schemars::JsonSchema;
use serde::Deserialize;
use weir_graph::{ChainFile, Diagnostic, Input, changes, load, set_changes};
use weir_nf::host::Kind;
use weir_nf::prelude::*;
use weir_nf::{Sets, Sources};

/// A function that looks into a set.
#[derive(Debug)]
struct Looks;

#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
struct Settings {
    set: String,
}

impl NetworkFunction for Looks {
    type Settings = Settings;
    type State = ();
    type Stats = ();
    type FlowState = ();

    const DESCRIPTOR: Descriptor = Descriptor::new("looks", "looks into a set");

    fn new(settings: Settings, set_up: &mut SetUp<'_>) -> Result<Looks, SettingsError> {
        set_up.set("set", &settings.set).map(|_| Looks)
    }

    fn without_flow(&self, _: &mut Packet<'_>, _: &mut Context<'_>) -> Verdict {
        Verdict::Pass
    }
}

const KINDS: &[Kind] = &[Kind::of::<Looks>()];

/// A text, and the sets of a run.
struct Files(&'static str, Sets);

impl Sources for Files {
    fn text(&mut self, name: &str) -> Result<String, String> {
        match name {
            "list.txt" => Ok(self.0.to_owned()),
            _ => Err(format!("can't read {name}")),
        }
    }

    fn sets(&self) -> Sets {
        self.1.clone()
    }
}

fn read(sets: &str, list: &'static str, running: Sets) -> Result<ChainFile, Vec<Diagnostic>> {
    let text = format!("sets:\n{sets}chain: edge\nnfs:\n  - looks: {{set: blocked}}\n");
    let input = Input {
        name: "edge.yaml",
        text: &text,
        kinds: KINDS,
        overrides: &[],
        seed: 1,
    };
    load(&input, &mut Files(list, running))
}

fn good(sets: &str, list: &'static str) -> ChainFile {
    read(sets, list, Sets::default()).unwrap_or_else(|list| panic!("{list:?}"))
}

#[test]
fn a_set_has_the_entries_of_its_file_and_its_own() {
    let file = good(
        "  - {name: blocked, kind: addresses, file: list.txt, entries: [10.0.0.0/8, \"::1\"], most: 9, timeout: 1h}\n",
        "# a list\n192.0.2.1 ; twice\n\n 192.0.2.1\n2001:db8::/32\t# v6\n",
    );
    let [set] = file.sets.as_slice() else {
        panic!("{:?}", file.sets);
    };
    let shown: Vec<String> = set.entries.iter().map(ToString::to_string).collect();
    assert_eq!(
        shown,
        ["10.0.0.0/8", "192.0.2.1/32", "::1/128", "2001:db8::/32"]
    );
    assert_eq!((set.most, set.timeout), (9, Some(3_600_000)));
    let live = file.live_sets();
    let live = &live.named("blocked").unwrap().set;
    assert_eq!(live.len(), 4);
    for (address, is_in) in [
        ("10.9.9.9", true),
        ("192.0.2.1", true),
        ("192.0.2.2", false),
        ("::1", true),
        ("::2", false),
        ("2001:db8:9::1", true),
    ] {
        assert_eq!(live.contains(address.parse().unwrap()), is_in, "{address}");
    }
    // One set of all chains, for engines too.
    let of_stage = &file.chains[0].stage.sets;
    assert!(std::ptr::eq(&*of_stage.get(0).unwrap().set, &**live));
    assert_eq!(good("  - {name: blocked}\n", "").sets[0].most, 65_536);
}

#[test]
fn what_is_wrong_is_told_with_its_place() {
    let wrong = |sets: &str, list: &'static str| -> Vec<(String, usize, usize, String)> {
        let list = read(sets, list, Sets::default()).unwrap_err();
        let place = |at: Diagnostic| (at.file, at.line, at.column, at.message);
        list.into_iter().map(place).collect()
    };
    for (sets, list, at, part) in [
        (
            "  - {name: blockde}\n",
            "",
            ("edge.yaml", 5, 18),
            "there is no set `blocked`",
        ),
        (
            "  - {file: list.txt}\n",
            "",
            ("edge.yaml", 2, 5),
            "`name` is missing",
        ),
        (
            "  - {name: blocked, most: 0}\n",
            "",
            ("edge.yaml", 2, 27),
            "0",
        ),
        (
            "  - {name: blocked, kind: ports}\n",
            "",
            ("edge.yaml", 2, 27),
            "ports",
        ),
        (
            "  - {name: blocked, entries: [10.0.0.1/8]}\n",
            "",
            ("edge.yaml", 2, 31),
            "write `10.0.0.0/8`",
        ),
        (
            "  - {name: blocked, file: no.txt}\n",
            "",
            ("edge.yaml", 2, 27),
            "can't read no.txt",
        ),
        (
            "  - {name: blocked, file: list.txt}\n",
            "::1\n  nonsense # x\n",
            ("list.txt", 2, 3),
            "`nonsense`",
        ),
        (
            "  - {name: blocked, most: 1, entries: [\"::1\", \"::2\"]}\n",
            "",
            ("edge.yaml", 2, 12),
            "has 2 entries",
        ),
        (
            "  - {name: blocked}\n  - {name: blocked}\n",
            "",
            ("edge.yaml", 3, 12),
            "here twice",
        ),
    ] {
        let found = wrong(sets, list);
        let is_there = found.iter().any(|(file, line, column, message)| {
            (file.as_str(), *line, *column) == at && message.contains(part)
        });
        assert!(is_there, "{sets}: {found:?}");
    }
}

#[test]
fn a_name_that_is_near_is_told() {
    let near = read("  - {name: blockde}\n", "", Sets::default()).unwrap_err();
    assert_eq!(near[0].help.as_deref(), Some("did you mean `@blockde`?"));
}

#[test]
fn other_entries_are_taken_and_another_size_is_not() {
    let before = good(
        "  - {name: blocked, file: list.txt}\n",
        "192.0.2.1\n192.0.2.2\n",
    );
    let running = before.live_sets();
    let text = "  - {name: blocked, file: list.txt, timeout: 5m}\n";
    let after = read(text, "192.0.2.2\n192.0.2.3\n192.0.2.4\n", running.clone()).unwrap();
    assert!(changes(&before, &after).unwrap().is_empty());
    let [change] = set_changes(&before, &after)[..]
        .to_vec()
        .try_into()
        .unwrap();
    assert_eq!((change.added, change.removed), (2, 1));
    assert_eq!(change.timeout, Some(("none".to_owned(), "5m".to_owned())));
    // What runs is not touched by a file that is read.
    let live = after.live_sets();
    assert!(std::ptr::eq(
        &*live.get(0).unwrap().set,
        &*running.get(0).unwrap().set
    ));
    assert!(
        live.get(0)
            .unwrap()
            .set
            .contains("192.0.2.1".parse().unwrap())
    );
    for other in [
        "  - {name: blocked, most: 7}\n",
        "  - {name: blocked}\n  - {name: more}\n",
    ] {
        let after = read(other, "", running.clone()).unwrap();
        let why = changes(&before, &after).unwrap_err();
        assert!(
            why[0].contains("`sets`") && why[0].contains("restart"),
            "{why:?}"
        );
    }
}
