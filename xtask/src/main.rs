//! Checks of the house, as `cargo xtask check` and as tests: what may be named
//! below the drivers, who may depend on whom, where `unsafe` may be, how long
//! a file or a function may be, that documents lead somewhere. And
//! `cargo xtask dist`, which makes packages.

mod ambient;
mod circles;
mod dist;
mod docs;
mod functions;
mod layers;
mod paths;
mod source;
mod tree;
mod unsafe_code;

use std::process::ExitCode;

/// Most lines of one source file.
const LONGEST: usize = 800;

/// Something that breaks a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Finding {
    /// The file, from the root of the workspace.
    pub(crate) path: String,
    /// Its line, from 1.
    pub(crate) line: usize,
    /// The message.
    pub(crate) text: String,
}

impl std::fmt::Display for Finding {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}: {}", self.path, self.line, self.text)
    }
}

/// A Rust source, read.
#[derive(Clone, Debug)]
pub(crate) struct SourceFile {
    /// Where it is, from the root of the workspace.
    pub(crate) path: String,
    /// Lines it has.
    pub(crate) lines: usize,
    /// Its text without comments and literals.
    pub(crate) all_code: String,
    /// The same without test-only items.
    pub(crate) code: String,
    /// Files of the modules that are for tests only, as its `mod` items name them.
    pub(crate) test_modules: Vec<String>,
}

impl SourceFile {
    /// Reads a source.
    pub(crate) fn of(path: &str, text: &str) -> SourceFile {
        let all_code = source::blank(text);
        let (code, test_modules) = source::without_tests(&all_code, text);
        SourceFile {
            path: path.to_owned(),
            lines: text.lines().count(),
            all_code,
            code,
            test_modules,
        }
    }
}

/// Everything that breaks a rule in the workspace at `root`.
fn check(root: &std::path::Path) -> Result<Vec<Finding>, String> {
    let tree = tree::read(root)?;
    let mut findings = Vec::new();
    for file in &tree.sources {
        if file.lines > LONGEST {
            findings.push(Finding {
                path: file.path.clone(),
                line: LONGEST + 1,
                text: format!("{} lines; a file has at most {LONGEST}", file.lines),
            });
        }
        findings.extend(unsafe_code::check(file));
    }
    findings.extend(unsafe_code::stale(&tree.sources));
    findings.extend(functions::check(&tree.sources));
    for file in tree.below_drivers() {
        findings.extend(ambient::check(file));
    }
    for (folder, manifest) in &tree.manifests {
        findings.extend(layers::check(folder, manifest));
        let folder = format!("crates/{folder}/src/");
        let circles = circles::check(&folder, &tree.code_of(&folder));
        findings.extend(circles::unlisted(&folder, circles));
    }
    for (path, text) in &tree.documents {
        findings.extend(docs::check(path, text, |target| {
            root.join(target).exists() && !tree::ignored(root, target)
        }));
    }
    let document = |name: &str| tree.documents.iter().find(|(path, _)| path == name);
    if let Some((path, text)) = document("ARCHITECTURE.md") {
        let crates: Vec<String> = tree
            .manifests
            .iter()
            .map(|(f, _)| format!("crates/{f}"))
            .collect();
        findings.extend(docs::mentions(path, text, "crate", &crates));
    }
    findings.sort_by(|a, b| (&a.path, a.line).cmp(&(&b.path, b.line)));
    Ok(findings)
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match words.split_first() {
        Some((command, [])) if command == "check" => check_house(),
        Some((command, rest)) if command == "dist" => {
            let made = dist::dist(&tree::root(), rest);
            said(made.map(|paths| paths.iter().for_each(|path| println!("{}", path.display()))))
        }
        _ => {
            eprintln!("usage: cargo xtask check\n       {}", dist::USAGE);
            ExitCode::from(2)
        }
    }
}

/// Checks the house and says what breaks a rule.
fn check_house() -> ExitCode {
    match check(&tree::root()) {
        Ok(findings) if findings.is_empty() => {
            println!("the house is in order");
            ExitCode::SUCCESS
        }
        Ok(findings) => {
            for finding in &findings {
                println!("{finding}");
            }
            println!("{} findings", findings.len());
            ExitCode::FAILURE
        }
        Err(error) => said(Err(error)),
    }
}

fn said(outcome: Result<(), String>) -> ExitCode {
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_house_is_in_order() {
        let findings = check(&tree::root()).unwrap_or_else(|error| panic!("{error}"));
        let text: String = findings.iter().map(|f| format!("{f}\n")).collect();
        assert!(findings.is_empty(), "\n{text}");
    }

    #[test]
    fn all_crates_below_the_drivers_are_read() {
        let tree = tree::read(&tree::root()).unwrap_or_else(|error| panic!("{error}"));
        for name in ambient::CRATES {
            let folder = format!("crates/{name}/src/");
            assert!(
                tree.below_drivers()
                    .any(|file| file.path.starts_with(&folder)),
                "{name}"
            );
            assert!(
                tree.manifests.iter().any(|(folder, _)| folder == name),
                "{name}"
            );
        }
        // Test modules in files of their own are not part of a crate's code.
        assert!(
            !tree
                .below_drivers()
                .any(|file| file.path.ends_with("/tests.rs"))
        );
    }
}
