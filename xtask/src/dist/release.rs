//! What a release is called, for what it is, and from when.

use std::path::Path;
use std::process::{Command, Stdio};

use super::output;

/// What a release is called, for what it is, and from when.
#[derive(Clone, Debug)]
pub(super) struct Release {
    /// The package's version, as `0.1.0`. That of a commit without the tag of a release sorts before it:
    /// `0.1.0~git20261128034252.6e0c773e`.
    pub(super) package_version: String,
    /// What it was built for, as rustc says it.
    pub(super) target: String,
    /// Seconds since 1970: the commit's time, or `SOURCE_DATE_EPOCH`.
    pub(super) epoch: u64,
}

impl Release {
    /// That of this workspace and program.
    pub(super) fn of(root: &Path, program: &Path, target: String) -> Result<Release, String> {
        let said = output(Command::new(program).arg("--version")).map_err(|error| {
            format!("{error}; a release is built on a machine that its program runs on")
        })?;
        let version = said.trim().strip_prefix("weir ");
        let version = version.ok_or_else(|| format!("{} is no weir", program.display()))?;
        let given = std::env::var("SOURCE_DATE_EPOCH").ok();
        let committed = || git(root, &["log", "-1", "--format=%ct"]);
        let epoch = given.or_else(committed).and_then(|text| text.parse().ok());
        let epoch = epoch.ok_or("no commit here: give SOURCE_DATE_EPOCH, seconds since 1970")?;
        let tag = format!("v{version}");
        let tags = git(root, &["tag", "--points-at", "HEAD"]).unwrap_or_default();
        let tagged = tags.lines().any(|line| line == tag);
        let changed = git(root, &["status", "--porcelain", "--untracked-files=no"]);
        let changed = changed.is_some_and(|files| !files.is_empty());
        let commit = git(root, &["rev-parse", "--short=8", "HEAD"]);
        let package_version = match commit {
            Some(commit) if !tagged || changed => {
                let time = date(epoch, "%Y%m%d%H%M%S")?;
                let mark = if changed { ".changed" } else { "" };
                format!("{version}~git{time}.{commit}{mark}")
            }
            _ => version.to_owned(),
        };
        Ok(Release {
            package_version,
            target,
            epoch,
        })
    }

    /// Debian's name of the machine.
    pub(super) fn architecture(&self) -> Result<&'static str, String> {
        match self.target.split('-').next() {
            Some("x86_64") => Ok("amd64"),
            Some("aarch64") => Ok("arm64"),
            _ => Err(format!(
                "Debian's name of {} is not known here",
                self.target
            )),
        }
    }

    /// Whether the program brings its C library with it.
    pub(super) fn is_static(&self) -> bool {
        self.target.ends_with("-musl")
    }

    /// The name of the archive's folder, and the beginning of file names.
    pub(super) fn name(&self) -> String {
        format!("weir-{}-{}", self.package_version, self.target)
    }

    /// Its time, as date(1) formats it.
    pub(super) fn date(&self, format: &str) -> Result<String, String> {
        date(self.epoch, format)
    }
}

fn date(epoch: u64, format: &str) -> Result<String, String> {
    let mut command = Command::new("date");
    command.env("LC_ALL", "C").arg("-u");
    let text = output(command.args(["-d", &format!("@{epoch}"), &format!("+{format}")]))?;
    Ok(text.trim().to_owned())
}

/// What git says; nothing without git.
fn git(root: &Path, words: &[&str]) -> Option<String> {
    let mut command = Command::new("git");
    command.arg("-C").arg(root).args(words).stdin(Stdio::null());
    let made = command.output().ok().filter(|made| made.status.success())?;
    Some(String::from_utf8(made.stdout).ok()?.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn machines_have_the_names_that_debian_gives_them() {
        let release = |target: &str| Release {
            package_version: "0.1.0".to_owned(),
            target: target.to_owned(),
            epoch: 0,
        };
        let gnu = release("x86_64-unknown-linux-gnu");
        assert_eq!((gnu.architecture(), gnu.is_static()), (Ok("amd64"), false));
        let musl = release("aarch64-unknown-linux-musl");
        assert_eq!((musl.architecture(), musl.is_static()), (Ok("arm64"), true));
        assert!(
            release("riscv64gc-unknown-linux-gnu")
                .architecture()
                .is_err()
        );
        assert_eq!(gnu.date("%Y-%m-%d").as_deref(), Ok("1970-01-01"));
    }
}
