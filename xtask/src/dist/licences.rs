//! Under which terms all of the program is: weir itself, and the crates that are part of it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::release::Release;
use super::stage::DOC;
use super::{output, read, write};

/// Beginnings of the names of files with terms, in small letters.
const NAMES: [&str; 5] = ["license", "licence", "copying", "copyright", "notice"];

/// Writes `copyright`, as Debian wants it, and `THIRD-PARTY.txt` with the terms of all crates: some ask
/// for their text with every copy.
pub(super) fn write_all(root: &Path, release: &Release, tree: &Path) -> Result<(), String> {
    let doc = tree.join(DOC);
    write(&doc.join("THIRD-PARTY.txt"), third_party(root, release)?)?;
    write(
        &doc.join("copyright"),
        copyright(&read(&root.join("LICENSE-MIT"))?)?,
    )
}

/// In the format of <https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/>.
fn copyright(mit: &str) -> Result<String, String> {
    let holder = mit
        .lines()
        .find_map(|line| line.strip_prefix("Copyright (c) "));
    let holder = holder.ok_or("LICENSE-MIT names nobody")?;
    let terms = mit.split_once(holder).map_or("", |(_, rest)| rest).trim();
    let terms: String = terms
        .lines()
        .map(|line| {
            if line.is_empty() {
                " .\n".to_owned()
            } else {
                format!(" {line}\n")
            }
        })
        .collect();
    Ok(format!(
        "Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/\n\
         Upstream-Name: weir\n\
         Source: {}\n\
         Comment: The program has other crates in it, all under permissive terms:\n \
         THIRD-PARTY.txt beside this file has them.\n\n\
         Files: *\n\
         Copyright: {holder}\n\
         License: Apache-2.0 or Expat\n\n\
         License: Apache-2.0\n \
         On Debian systems its text is /usr/share/common-licenses/Apache-2.0.\n\n\
         License: Expat\n{terms}",
        "https://github.com/weir-nf/weir"
    ))
}

/// The crates that are part of the program, with their terms; each text once.
fn third_party(root: &Path, release: &Release) -> Result<String, String> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(&cargo);
    command.args([
        "tree",
        "--locked",
        "-p",
        "weir",
        "-e",
        "normal,no-proc-macro",
    ]);
    command.args([
        "--prefix",
        "none",
        "-f",
        "{p}|{l}",
        "--target",
        &release.target,
    ]);
    let listed = output(command.current_dir(root))?;
    let mut command = Command::new(&cargo);
    command.args(["metadata", "--locked", "--format-version", "1"]);
    command.args(["--filter-platform", &release.target]);
    let folders = folders(&output(command.current_dir(root))?);
    let mut text =
        "Crates that are part of the program weir, and the terms of each.\n\n".to_owned();
    let mut terms: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (name, licence) in crates(&listed) {
        text += &format!("{name}: {licence}\n");
        let folder = folders.get(&name);
        for file in folder
            .map(|f| files_with_terms(f))
            .transpose()?
            .unwrap_or_default()
        {
            terms.entry(read(&file)?).or_default().push(name.clone());
        }
    }
    // By the crates, so that the order does not depend on what stands in a text.
    let mut terms: Vec<(Vec<String>, String)> =
        terms.into_iter().map(|(text, of)| (of, text)).collect();
    terms.sort();
    for (of, terms) in terms {
        let rule = "-".repeat(72);
        text += &format!("\n{rule}\n{}:\n\n{}\n", of.join(", "), terms.trim_end());
    }
    Ok(text)
}

/// Names with versions, as `libc-0.2.191`, and terms of what `cargo tree` lists; weir's own are left out.
fn crates(listed: &str) -> BTreeMap<String, String> {
    let mut crates = BTreeMap::new();
    for line in listed.lines() {
        let Some((name, licence)) = line.split_once('|') else {
            continue;
        };
        let mut words = name.split(' ');
        let (name, version) = (words.next().unwrap_or(""), words.next().unwrap_or(""));
        // Those of the workspace have their folder behind the version.
        if words
            .next()
            .is_some_and(|word| word.starts_with('(') && word.contains('/'))
        {
            continue;
        }
        let version = version.strip_prefix('v').unwrap_or(version);
        let licence = licence.trim_end_matches(" (*)").to_owned();
        crates.insert(format!("{name}-{version}"), licence);
    }
    crates
}

/// Where the sources of crates are, by names with versions, out of what `cargo metadata` prints. A
/// crate's manifest lies in a folder of that name wherever cargo has got it from.
fn folders(metadata: &str) -> BTreeMap<String, PathBuf> {
    let paths = metadata.split("\"manifest_path\":\"").skip(1);
    let paths = paths.filter_map(|rest| rest.split('"').next());
    let folders = paths.filter_map(|path| Path::new(path).parent());
    let named = folders.filter_map(|folder| {
        let name = folder.file_name()?.to_string_lossy().into_owned();
        Some((name, folder.to_owned()))
    });
    named.collect()
}

/// Files with terms in a crate's folder, sorted.
fn files_with_terms(folder: &Path) -> Result<Vec<PathBuf>, String> {
    let failed = |error: std::io::Error| format!("can't read {}: {error}", folder.display());
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let name = entry.file_name().to_string_lossy().to_lowercase();
        if NAMES.iter().any(|head| name.starts_with(head)) && entry.path().is_file() {
            found.push(entry.path());
        }
    }
    found.sort();
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn crates_are_listed_once_and_those_of_weir_are_not() {
        let listed = "weir v0.1.0 (/src/weir/crates/weir)|Apache-2.0 OR MIT\n\
                      libc v0.2.1|MIT OR Apache-2.0\nlibc v0.2.1|MIT OR Apache-2.0 (*)\n";
        let found: Vec<(String, String)> = crates(listed).into_iter().collect();
        assert_eq!(
            found,
            [("libc-0.2.1".to_owned(), "MIT OR Apache-2.0".to_owned())]
        );
    }

    #[test]
    fn folders_are_found_by_their_names() {
        let metadata = r#"{"manifest_path":"/r/libc-0.2.1/Cargo.toml","x":1},{"manifest_path":"/r/a-1.0.0/Cargo.toml"}"#;
        let found = folders(metadata);
        assert_eq!(
            found.get("libc-0.2.1"),
            Some(&PathBuf::from("/r/libc-0.2.1"))
        );
        assert_eq!(found.len(), 2);
    }

    #[test]
    fn the_copyright_has_the_terms() {
        let mit = read(&crate::tree::root().join("LICENSE-MIT"));
        let text = mit
            .and_then(|mit| copyright(&mit))
            .unwrap_or_else(|e| panic!("{e}"));
        for part in [
            "Copyright: 2026 The weir authors\n",
            "\n Permission is hereby granted",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
        // An empty line would end the paragraph.
        let (_, expat) = text.split_once("License: Expat\n").unwrap_or_default();
        assert!(!expat.contains("\n\n"), "{expat}");
    }
}
