//! No circle of files: a file takes names only from files that, one after
//! another, take none from it. So each can be read after those it builds on.
//!
//! Read are the names that a file writes as paths (`use super::x::Y`,
//! `crate::x::y()`), each followed through re-exports to the file that defines
//! it. A method that is called is no arrow, and neither is what a file only
//! re-exports.

use std::collections::{BTreeMap, BTreeSet};

use crate::paths::{Path, paths};
use crate::source::{line_of, words};
use crate::{Finding, SourceFile};

/// Crates that have circles still: none is added here, and one without leaves.
const LEFT: &[&str] = &["protocol"];

/// The findings that count: circles of a crate that may have none, and a crate
/// that is listed and has none any more.
pub(crate) fn unlisted(folder: &str, circles: Vec<Finding>) -> Vec<Finding> {
    let name = folder
        .trim_start_matches("crates/")
        .trim_end_matches("/src/");
    match (LEFT.contains(&name), circles.is_empty()) {
        (false, _) => circles,
        (true, false) => Vec::new(),
        (true, true) => vec![Finding {
            path: "xtask/src/circles.rs".to_owned(),
            line: 1,
            text: format!("{name} has no circle of files any more: take it off the list"),
        }],
    }
}

/// Modules of one crate: their names from the root, and where they are.
type Modules<'a> = BTreeMap<Vec<String>, Module<'a>>;

struct Module<'a> {
    file: &'a SourceFile,
    /// Names that it defines.
    defines: BTreeSet<String>,
    /// Names that it imports, in full.
    imports: Vec<Path>,
    /// All names it writes that begin inside the crate.
    names: Vec<Path>,
}

/// An arrow's names and the line of the first.
type Arrow = (usize, BTreeSet<String>);

/// Circles in the crate in `folder` (with its `src/`), a finding for each.
pub(crate) fn check(folder: &str, files: &[&SourceFile]) -> Vec<Finding> {
    let modules = modules(folder, files);
    let mut arrows: BTreeMap<&str, BTreeMap<&str, Arrow>> = BTreeMap::new();
    for (here, module) in &modules {
        for name in &module.names {
            let Some(to) = resolve(&modules, here, &name.parts, 0) else {
                continue;
            };
            if to == module.file.path {
                continue;
            }
            let line = line_of(&module.file.code, name.at);
            let of = arrows.entry(&module.file.path).or_default();
            let arrow = of.entry(to).or_insert_with(|| (line, BTreeSet::new()));
            arrow.1.extend(name.parts.last().cloned());
        }
    }
    circles(&arrows)
        .into_iter()
        .map(|circle| finding(&circle, &arrows))
        .collect()
}

fn finding(circle: &[&str], arrows: &BTreeMap<&str, BTreeMap<&str, Arrow>>) -> Finding {
    let mut text = format!("a circle of {} files:", circle.len());
    let mut first = None;
    for from in circle {
        for (to, (line, names)) in arrows.get(from).into_iter().flatten() {
            if circle.contains(to) {
                let names: Vec<&str> = names.iter().map(String::as_str).take(6).collect();
                text += &format!("\n    {from}:{line} takes {} from {to}", names.join(", "));
                first.get_or_insert((*from, *line));
            }
        }
    }
    let (path, line) = first.unwrap_or_default();
    Finding {
        path: path.to_owned(),
        line,
        text,
    }
}

fn modules<'a>(folder: &str, files: &[&'a SourceFile]) -> Modules<'a> {
    let mut modules = Modules::new();
    for file in files {
        let Some(rest) = file.path.strip_prefix(folder) else {
            continue;
        };
        let mut parts: Vec<String> = rest
            .trim_end_matches(".rs")
            .split('/')
            .filter(|part| !part.is_empty())
            .map(str::to_owned)
            .collect();
        if matches!(parts.last().map(String::as_str), Some("mod" | "lib")) {
            parts.pop();
        }
        modules.insert(
            parts,
            Module {
                file,
                defines: defines(&file.code),
                imports: Vec::new(),
                names: Vec::new(),
            },
        );
    }
    let all: BTreeSet<Vec<String>> = modules.keys().cloned().collect();
    for (here, module) in &mut modules {
        let children = all
            .iter()
            .filter(|path| path.len() == here.len() + 1 && path.starts_with(here));
        let mut roots: Vec<&str> = children
            .filter_map(|c| c.last().map(String::as_str))
            .collect();
        roots.extend(["crate", "super", "self"]);
        module.names = paths(&module.file.code, &roots);
        module.names.retain(|name| {
            // `pub(in super::super)` says who may take a name, and takes none.
            name.parts.len() > 1 && name.parts.iter().any(|part| part != "super")
        });
        let imported = imported(&module.file.code);
        let is_import = |name: &&Path| imported.iter().any(|(range, _)| range.contains(&name.at));
        module.imports = module.names.iter().filter(is_import).cloned().collect();
        let words = words(&module.file.code);
        let only_passed_on = |name: &Path| {
            let is_public = |(range, public): &(core::ops::Range<usize>, bool)| {
                *public && range.contains(&name.at)
            };
            let last = name.parts.last().map(String::as_str);
            // `mod drops;` beside `pub use drops::drops;`, and fields of that name.
            let uses = words.windows(3).filter(|around| {
                let field = around[0].1 == "." || around[2].1 == ":";
                Some(around[1].1) == last && around[0].1 != "mod" && !field
            });
            let is_path = |at: usize| imported.iter().any(|(range, _)| range.contains(&at));
            imported.iter().any(is_public)
                && uses.filter(|around| !is_path(around[1].0)).count() == 0
        };
        module.names.retain(|name| !only_passed_on(name));
    }
    modules
}

/// Where the `use` items of a text are, and which of them re-export.
fn imported(text: &str) -> Vec<(core::ops::Range<usize>, bool)> {
    let words = words(text);
    let mut found = Vec::new();
    for (i, &(at, word)) in words.iter().enumerate() {
        if word == "use" {
            let end = text.get(at..).and_then(|rest| rest.find(';'));
            let before = i.checked_sub(1).and_then(|i| words.get(i));
            let public = before.is_some_and(|(_, word)| matches!(*word, "pub" | ")"));
            found.push((at..end.map_or(text.len(), |end| at + end), public));
        }
    }
    found
}

/// Names of the items that a text defines.
fn defines(text: &str) -> BTreeSet<String> {
    const ITEMS: [&str; 9] = [
        "fn",
        "struct",
        "enum",
        "trait",
        "type",
        "const",
        "static",
        "union",
        "macro_rules",
    ];
    let words = words(text);
    words
        .windows(3)
        .filter(|pair| ITEMS.contains(&pair[0].1))
        .map(|pair| match pair[1].1 {
            "!" => pair[2].1.to_owned(),
            name => name.to_owned(),
        })
        .collect()
}

/// The file that defines the name that a module writes so.
fn resolve<'m>(
    modules: &'m Modules<'_>,
    here: &[String],
    parts: &[String],
    depth: usize,
) -> Option<&'m str> {
    // Re-exports that lead back to themselves lead nowhere.
    if depth > 8 {
        return None;
    }
    let (mut at, mut rest) = (here.to_vec(), parts);
    match rest.first().map(String::as_str) {
        Some("crate") => (at, rest) = (Vec::new(), &rest[1..]),
        Some("self") => rest = &rest[1..],
        _ => {}
    }
    while rest.first().is_some_and(|part| part == "super") {
        at.pop();
        rest = &rest[1..];
    }
    while let Some(part) = rest.first() {
        let mut deeper = at.clone();
        deeper.push(part.clone());
        let module = modules.get(&at)?;
        if modules.contains_key(&deeper) {
            (at, rest) = (deeper, &rest[1..]);
            continue;
        }
        if module.defines.contains(part) {
            break;
        }
        let import = module
            .imports
            .iter()
            .find(|path| path.parts.last() == Some(part));
        if let Some(import) = import {
            let mut full = import.parts.clone();
            full.extend_from_slice(&rest[1..]);
            return resolve(modules, &at, &full, depth + 1);
        }
        let globs = module
            .imports
            .iter()
            .filter(|path| path.parts.last().is_some_and(|l| l == "*"));
        for glob in globs {
            let mut full = glob.parts.clone();
            full.pop();
            full.extend_from_slice(rest);
            if let Some(found) = resolve(modules, &at, &full, depth + 1) {
                return Some(found);
            }
        }
        break;
    }
    Some(&modules.get(&at)?.file.path)
}

/// Sets of two or more that reach one another.
fn circles<'a>(arrows: &BTreeMap<&'a str, BTreeMap<&'a str, Arrow>>) -> Vec<Vec<&'a str>> {
    let reach: BTreeMap<&str, BTreeSet<&str>> = arrows
        .keys()
        .map(|&from| {
            let mut seen = BTreeSet::new();
            let mut next = vec![from];
            while let Some(at) = next.pop() {
                for &to in arrows.get(at).into_iter().flat_map(BTreeMap::keys) {
                    if seen.insert(to) {
                        next.push(to);
                    }
                }
            }
            (from, seen)
        })
        .collect();
    let mut circles: Vec<Vec<&str>> = Vec::new();
    for (&from, seen) in &reach {
        if !seen.contains(from) || circles.iter().any(|circle| circle.contains(&from)) {
            continue;
        }
        let both = |to: &&&str| reach.get(**to).is_some_and(|back| back.contains(from));
        circles.push(seen.iter().filter(both).copied().collect());
    }
    circles
}

#[cfg(test)]
mod tests {
    use super::*;

    fn circles(files: &[(&str, &str)]) -> Vec<String> {
        let files: Vec<SourceFile> = files
            .iter()
            .map(|(path, text)| SourceFile::of(path, text))
            .collect();
        let files: Vec<&SourceFile> = files.iter().collect();
        let found = check("x/src/", &files);
        found.into_iter().map(|finding| finding.path).collect()
    }

    #[test]
    fn files_that_take_from_each_other_are_found_through_re_exports() {
        let lib = (
            "x/src/lib.rs",
            "mod a;\nmod b;\npub use a::A;\npub use b::B;\n",
        );
        let a = ("x/src/a.rs", "use crate::B;\npub struct A(B);\n");
        let b = "pub struct B;\n";
        assert!(circles(&[lib, a, ("x/src/b.rs", b)]).is_empty());
        let back = format!("{b}fn f() -> crate::A {{ todo!() }}\n");
        assert_eq!(circles(&[lib, a, ("x/src/b.rs", &back)]), ["x/src/a.rs"]);
    }

    #[test]
    fn what_is_only_re_exported_and_what_tests_take_are_no_arrows() {
        let lib = "mod a;\npub use a::A;\npub struct L;\n";
        let a = "use super::L;\npub struct A(L);\n";
        assert!(circles(&[("x/src/lib.rs", lib), ("x/src/a.rs", a)]).is_empty());
        let named = "mod a;\npub use a::a;\npub struct L { a: u8 }\nfn f(l: L) -> u8 { l.a }\n";
        let same = "use super::L;\npub fn a(_: L) {}\n";
        assert!(circles(&[("x/src/lib.rs", named), ("x/src/a.rs", same)]).is_empty());
        let calls = format!("{named}fn g(l: L) {{ a(l) }}\n");
        assert_eq!(
            circles(&[("x/src/lib.rs", &calls), ("x/src/a.rs", same)]),
            ["x/src/a.rs"]
        );
        let uses = format!("{lib}fn f(_: A) {{}}\n");
        assert_eq!(
            circles(&[("x/src/lib.rs", &uses), ("x/src/a.rs", a)]),
            ["x/src/a.rs"]
        );
        let opens = [
            ("x/src/lib.rs", "mod a;\nuse a::b::B;\nfn f(_: B) {}\n"),
            ("x/src/a/mod.rs", "pub mod b;\n"),
            (
                "x/src/a/b.rs",
                "pub struct B { pub(in super::super) x: u8 }\n",
            ),
        ];
        assert!(circles(&opens).is_empty());
        let tests = format!("{lib}#[cfg(test)]\nmod tests {{ fn f(_: super::A) {{}} }}\n");
        assert!(circles(&[("x/src/lib.rs", &tests), ("x/src/a.rs", a)]).is_empty());
    }
}
