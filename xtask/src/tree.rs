//! The workspace as it lies on disk.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::{SourceFile, ambient};

/// Folders that hold nothing that people wrote.
const SKIPPED: [&str; 5] = ["target", "corpus", "artifacts", "coverage", "generated"];

/// Input of the checks.
#[derive(Debug, Default)]
pub(crate) struct Tree {
    /// All Rust sources.
    pub(crate) sources: Vec<SourceFile>,
    /// Manifests of `crates/*`, by folder.
    pub(crate) manifests: Vec<(String, String)>,
    /// Markdown documents.
    pub(crate) documents: Vec<(String, String)>,
}

impl Tree {
    /// Code of the crates below the drivers: their `src`, less test modules.
    pub(crate) fn below_drivers(&self) -> impl Iterator<Item = &SourceFile> {
        let folders = ambient::CRATES.map(|name| format!("crates/{name}/src/"));
        folders.into_iter().flat_map(|folder| self.code_of(&folder))
    }

    /// Code in a folder, whose name ends with `/`, less test modules.
    pub(crate) fn code_of(&self, folder: &str) -> Vec<&SourceFile> {
        let tests = self.test_files();
        let code = self.sources.iter().filter(|file| {
            let test = tests.iter().any(|path| {
                file.path == *path
                    || path.strip_suffix(".rs").is_some_and(|stem| {
                        file.path
                            .strip_prefix(stem)
                            .is_some_and(|rest| rest.starts_with('/'))
                    })
            });
            file.path.starts_with(folder) && !test
        });
        code.collect()
    }

    /// Files that `#[cfg(test)] mod …;` items name.
    fn test_files(&self) -> BTreeSet<String> {
        let mut files = BTreeSet::new();
        for file in &self.sources {
            let (folder, name) = file.path.rsplit_once('/').unwrap_or(("", &file.path));
            let own = match name {
                "lib.rs" | "main.rs" | "mod.rs" => folder.to_owned(),
                name => format!("{folder}/{}", name.trim_end_matches(".rs")),
            };
            for module in &file.test_modules {
                if module.ends_with(".rs") {
                    files.insert(format!("{folder}/{module}"));
                } else {
                    files.insert(format!("{own}/{module}.rs"));
                }
            }
        }
        files
    }
}

/// Root of the workspace.
pub(crate) fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap_or(here).to_owned()
}

/// Whether git leaves the file out, so that it is here and in no clone. Without git nothing is.
pub(crate) fn ignored(root: &Path, path: &str) -> bool {
    Command::new("git")
        .args(["check-ignore", "--quiet", "--"])
        .arg(path)
        .current_dir(root)
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

/// Reads the workspace at `root`.
///
/// # Errors
///
/// A file or folder that can't be read, by name.
pub(crate) fn read(root: &Path) -> Result<Tree, String> {
    let mut tree = Tree::default();
    walk(root, "", &mut tree)?;
    Ok(tree)
}

fn walk(root: &Path, folder: &str, tree: &mut Tree) -> Result<(), String> {
    let full = root.join(folder);
    let failed = |error: std::io::Error| format!("can't read {}: {error}", full.display());
    let mut names = Vec::new();
    for entry in std::fs::read_dir(&full).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let kind = entry.file_type().map_err(failed)?;
        names.push((entry.file_name().to_string_lossy().into_owned(), kind));
    }
    names.sort_by(|a, b| a.0.cmp(&b.0));
    for (name, kind) in names {
        let path = if folder.is_empty() {
            name.clone()
        } else {
            format!("{folder}/{name}")
        };
        if kind.is_dir() {
            if !name.starts_with('.') && !SKIPPED.contains(&name.as_str()) {
                walk(root, &path, tree)?;
            }
            continue;
        }
        let text = || {
            std::fs::read_to_string(root.join(&path)).map_err(|e| format!("can't read {path}: {e}"))
        };
        if name.ends_with(".rs") {
            tree.sources.push(SourceFile::of(&path, &text()?));
        } else if name.ends_with(".md") {
            tree.documents.push((path.clone(), text()?));
        } else if let Some(krate) = path
            .strip_prefix("crates/")
            .and_then(|rest| rest.strip_suffix("/Cargo.toml"))
            && !krate.contains('/')
        {
            tree.manifests.push((krate.to_owned(), text()?));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_no_clone_has_is_known() {
        let git = |path| ignored(&root(), path);
        if git("target") {
            assert!(git("bench/results/wire.jsonl"));
        }
        assert!(!git("bench/results/wire-sample.jsonl"));
        assert!(!git("README.md"));
    }
}
