//! `cargo xtask dist`: weir as software that one installs: a tree of files, and of it a Debian package,
//! an archive, and what `deploy/Containerfile` takes.
//!
//! It is here since it needs what the workspace knows (its dependencies, its licences, its commit) and
//! nothing but cargo to build. Everything in the tree is made of the release program itself: manual
//! pages, completions and schemas are what it prints. The same commit and the same program give the same
//! octets: times are those of the commit, names are sorted, everything is root's.

mod archive;
mod deb;
mod licences;
mod release;
mod stage;

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use release::Release;

/// How it is called.
pub(crate) const USAGE: &str = "cargo xtask dist [--target TRIPLE] [--program PATH] [--out FOLDER]";

/// The words of the command.
#[derive(Debug, Default, PartialEq, Eq)]
struct Words {
    /// What to build for; this machine without it.
    target: Option<String>,
    /// A program that was built already.
    program: Option<PathBuf>,
    /// Where all goes; `target/dist/TRIPLE` without it.
    out: Option<PathBuf>,
}

impl Words {
    fn read(words: &[String]) -> Result<Words, String> {
        let mut read = Words::default();
        let mut rest = words.iter();
        while let Some(word) = rest.next() {
            let value = rest.next().ok_or_else(|| format!("usage: {USAGE}"))?;
            match word.as_str() {
                "--target" => read.target = Some(value.clone()),
                "--program" => read.program = Some(value.into()),
                "--out" => read.out = Some(value.into()),
                _ => return Err(format!("usage: {USAGE}")),
            }
        }
        Ok(read)
    }
}

/// Builds everything; gives the paths of what it made.
pub(crate) fn dist(root: &Path, words: &[String]) -> Result<Vec<PathBuf>, String> {
    let words = Words::read(words)?;
    let target = match words.target {
        Some(target) => target,
        None => host()?,
    };
    let program = match words.program {
        Some(program) => program,
        None => build(root, &target)?,
    };
    let out = words
        .out
        .unwrap_or_else(|| target_folder(root).join("dist").join(&target));
    let release = Release::of(root, &program, target)?;
    // What an earlier call left would be in the sums.
    if out.exists() {
        clear(&out)?;
    }
    make_folder(&out)?;
    let tree = out.join("tree");
    stage::stage(root, &program, &release, &tree)?;
    let made = vec![
        stage::symbols(&program, &release, &out)?,
        deb::build(root, &tree, &release, &out)?,
        archive::pack(&tree, &release, &out)?,
    ];
    let sums = archive::sums(&made, &out)?;
    Ok([made, vec![sums]].concat())
}

/// Removes what a call of this command has left, and no folder that is something else.
fn clear(out: &Path) -> Result<(), String> {
    let ours = out.join("SHA256SUMS").exists() || out.join("tree").exists();
    let empty = std::fs::read_dir(out).is_ok_and(|mut entries| entries.next().is_none());
    if !ours && !empty {
        return Err(format!(
            "{} is there and not of this command",
            out.display()
        ));
    }
    std::fs::remove_dir_all(out).map_err(|error| format!("can't clear {}: {error}", out.display()))
}

/// The folder that cargo builds in.
fn target_folder(root: &Path) -> PathBuf {
    let given = std::env::var_os("CARGO_TARGET_DIR").map(PathBuf::from);
    given.map_or_else(|| root.join("target"), |folder| root.join(folder))
}

/// What this machine is, as rustc calls it.
fn host() -> Result<String, String> {
    let said = output(Command::new("rustc").arg("-vV"))?;
    let line = said.lines().find_map(|line| line.strip_prefix("host: "));
    Ok(line.ok_or("rustc does not say its host")?.to_owned())
}

/// Builds the release program. Its panics name sources from the workspace's root and the registry's, so
/// that it tells nothing of the machine that built it.
fn build(root: &Path, target: &str) -> Result<PathBuf, String> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let home = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = home.or_else(|| std::env::home_dir().map(|home| home.join(".cargo")));
    let mut flags = vec![format!("--remap-path-prefix={}=weir", root.display())];
    if let Some(home) = home {
        flags.push(format!("--remap-path-prefix={}=cargo", home.display()));
    }
    let kept = std::env::var("RUSTFLAGS").unwrap_or_default();
    let kept = kept.split_whitespace().map(str::to_owned);
    let flags: Vec<String> = kept.chain(flags).collect();
    let mut command = Command::new(cargo);
    command.args([
        "build",
        "--release",
        "--locked",
        "-p",
        "weir",
        "--target",
        target,
    ]);
    // Its own folder: other flags would have the developer's programs built anew.
    let folder = target_folder(root).join("dist-build");
    command.arg("--target-dir").arg(&folder);
    command.env("CARGO_ENCODED_RUSTFLAGS", flags.join("\u{1f}"));
    run(command.current_dir(root))?;
    Ok(folder.join(target).join("release/weir"))
}

fn make_folder(folder: &Path) -> Result<(), String> {
    std::fs::create_dir_all(folder).map_err(|e| format!("can't make {}: {e}", folder.display()))
}

fn write(path: &Path, text: impl AsRef<[u8]>) -> Result<(), String> {
    make_folder(path.parent().unwrap_or(path))?;
    std::fs::write(path, text).map_err(|error| format!("can't write {}: {error}", path.display()))
}

fn read(path: &Path) -> Result<String, String> {
    std::fs::read_to_string(path).map_err(|error| format!("can't read {}: {error}", path.display()))
}

/// Runs a program that must succeed.
fn run(command: &mut Command) -> Result<(), String> {
    let name = command.get_program().to_string_lossy().into_owned();
    match command.stdin(Stdio::null()).status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("{name}: {status}")),
        Err(error) => Err(format!("can't start {name}: {error}")),
    }
}

/// What a program that must succeed prints.
fn output(command: &mut Command) -> Result<String, String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let made = command
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output();
    let made = made.map_err(|error| format!("can't start {name}: {error}"))?;
    if !made.status.success() {
        return Err(format!("{name}: {}", made.status));
    }
    String::from_utf8(made.stdout).map_err(|_| format!("{name} printed no text"))
}

/// Files of a folder and those below, as paths from there, in the order of their names.
fn files(folder: &Path) -> Result<Vec<PathBuf>, String> {
    let mut found = Vec::new();
    let mut open = vec![PathBuf::new()];
    while let Some(below) = open.pop() {
        let full = folder.join(&below);
        let failed = |error: std::io::Error| format!("can't read {}: {error}", full.display());
        for entry in std::fs::read_dir(&full).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let path = below.join(entry.file_name());
            if entry.file_type().map_err(failed)?.is_dir() {
                open.push(path);
            } else {
                found.push(path);
            }
        }
    }
    found.sort();
    Ok(found)
}

/// Compresses a file in its place, without its name and time.
fn gzip(path: &Path) -> Result<(), String> {
    run(Command::new("gzip").args([OsStr::new("-9nf"), path.as_os_str()]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Result<Words, String> {
        let all: Vec<String> = text.split_whitespace().map(str::to_owned).collect();
        Words::read(&all)
    }

    #[test]
    fn words_are_read() {
        let read = words("--target x --program a/weir --out b").unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(read.target.as_deref(), Some("x"));
        assert_eq!(read.program, Some("a/weir".into()));
        assert_eq!(read.out, Some("b".into()));
        for wrong in ["--target", "--what x", "x"] {
            assert!(words(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_folder_of_somebody_is_not_cleared() {
        let folder = std::env::temp_dir().join(format!("weir-dist-{}", std::process::id()));
        write(&folder.join("letter.txt"), "dear").unwrap_or_else(|e| panic!("{e}"));
        assert!(clear(&folder).is_err());
        write(&folder.join("SHA256SUMS"), "").unwrap_or_else(|e| panic!("{e}"));
        clear(&folder).unwrap_or_else(|e| panic!("{e}"));
        assert!(!folder.exists());
    }
}
