//! The tree of files that packages are made of, as it lies under `/`.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::release::Release;
use super::{files, gzip, licences, make_folder, output, read, run, write};

/// Where documents go.
pub(super) const DOC: &str = "usr/share/doc/weir";

/// Shells, as `weir completion` calls them, and the files that they look into.
const COMPLETIONS: [(&str, &str); 3] = [
    ("bash", "usr/share/bash-completion/completions/weir"),
    ("zsh", "usr/share/zsh/vendor-completions/_weir"),
    ("fish", "usr/share/fish/vendor_completions.d/weir.fish"),
];

/// What `weir schema` prints.
const SCHEMAS: [&str; 4] = ["chain", "composition", "script", "template"];

/// Files of the checkout, or all files of folders, and where they go.
const COPIED: [(&str, &str); 8] = [
    ("README.md", "usr/share/doc/weir/README.md"),
    ("ARCHITECTURE.md", "usr/share/doc/weir/ARCHITECTURE.md"),
    ("CHANGELOG.md", "usr/share/doc/weir/CHANGELOG.md"),
    ("docs", "usr/share/doc/weir/docs"),
    ("examples", "usr/share/doc/weir/examples"),
    ("deploy/prometheus", "usr/share/doc/weir/deploy/prometheus"),
    ("deploy/systemd", "usr/lib/systemd/system"),
    // needrestart, which ends what runs an old program, leaves clusters alone.
    (
        "deploy/needrestart.conf",
        "etc/needrestart/conf.d/weir.conf",
    ),
];

/// Folders that are the administrator's to fill.
const EMPTY: [&str; 1] = ["etc/weir"];

/// Makes the tree at `tree`.
pub(super) fn stage(
    root: &Path,
    program: &Path,
    release: &Release,
    tree: &Path,
) -> Result<(), String> {
    let installed = tree.join("usr/bin/weir");
    make_folder(&tree.join("usr/bin"))?;
    let mut strip = Command::new("strip");
    run(strip
        .arg("--strip-all")
        .arg("-o")
        .arg(&installed)
        .arg(program))?;
    for (from, to) in COPIED {
        copy(&root.join(from), &tree.join(to))?;
    }
    for folder in EMPTY {
        make_folder(&tree.join(folder))?;
    }
    for (shell, path) in COMPLETIONS {
        let script = output(Command::new(&installed).args(["completion", shell]))?;
        write(&tree.join(path), script)?;
    }
    for schema in SCHEMAS {
        let text = output(Command::new(&installed).args(["schema", schema]))?;
        write(&tree.join(DOC).join(format!("schema/{schema}.json")), text)?;
    }
    manual(&installed, release, tree)?;
    licences::write_all(root, release, tree)?;
    settle(tree)
}

/// The manual pages, compressed as Debian wants them.
fn manual(program: &Path, release: &Release, tree: &Path) -> Result<(), String> {
    let folder = tree.join("usr/share/man/man1");
    let mut command = Command::new(program);
    command.arg("man").arg(&folder);
    run(command.args(["--date", &release.date("%Y-%m-%d")?]))?;
    for page in files(&folder)? {
        gzip(&folder.join(page))?;
    }
    Ok(())
}

/// Copies a file, or a folder's files.
fn copy(from: &Path, to: &Path) -> Result<(), String> {
    if !from.is_dir() {
        make_folder(to.parent().unwrap_or(to))?;
        return std::fs::copy(from, to).map(drop).map_err(|error| {
            format!("can't copy {} to {}: {error}", from.display(), to.display())
        });
    }
    for path in files(from)? {
        copy(&from.join(&path), &to.join(&path))?;
    }
    Ok(())
}

/// Modes do not depend on the builder's umask and checkout: programs and scripts may be run by all, all
/// may be read by all.
fn settle(tree: &Path) -> Result<(), String> {
    let mut folders = vec![tree.to_owned()];
    for path in files(tree)? {
        let full = tree.join(&path);
        let runs = path.starts_with("usr/bin") || path.extension().is_some_and(|end| end == "sh");
        mode(&full, if runs { 0o755 } else { 0o644 })?;
        let above = path.ancestors().skip(1);
        folders.extend(above.map(|folder| tree.join(folder)));
    }
    folders.extend(EMPTY.map(|folder| tree.join(folder)));
    for folder in folders {
        mode(&folder, 0o755)?;
    }
    Ok(())
}

/// Sets permissions.
pub(super) fn mode(path: &Path, mode: u32) -> Result<(), String> {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode))
        .map_err(|error| format!("can't set the mode of {}: {error}", path.display()))
}

/// Symbols that the installed program was relieved of, for who looks into a crash:
/// `gdb -s weir-….debug /usr/bin/weir`.
pub(super) fn symbols(program: &Path, release: &Release, out: &Path) -> Result<PathBuf, String> {
    let path = out.join(format!("{}.debug", release.name()));
    let mut command = Command::new("objcopy");
    command.args(["--only-keep-debug", "--compress-debug-sections"]);
    run(command.arg(program).arg(&path))?;
    mode(&path, 0o644)?;
    Ok(path)
}

/// The kibibytes that a tree takes, as Debian counts them: whole ones for each file, one for each folder.
pub(super) fn kibibytes(tree: &Path) -> Result<u64, String> {
    let (mut total, mut folders) = (0, std::collections::BTreeSet::new());
    for path in files(tree)? {
        let full = tree.join(&path);
        let length = full
            .metadata()
            .map_err(|e| format!("can't read {}: {e}", full.display()))?;
        total += length.len().div_ceil(1024);
        folders.extend(path.ancestors().skip(1).map(Path::to_owned));
    }
    Ok(total + (folders.len() + EMPTY.len()) as u64)
}

/// Debian's changelog: that of weir is beside it, by versions.
pub(super) fn changelog(root: &Path, release: &Release, tree: &Path) -> Result<(), String> {
    let control = read(&root.join("deploy/debian/control.in"))?;
    let maintainer = super::deb::maintainer(&control)?;
    let text = format!(
        "weir ({}) unstable; urgency=medium\n\n  * {DOC}/CHANGELOG.md says what has changed.\n\n \
         -- {maintainer}  {}\n",
        release.package_version,
        release.date("%a, %d %b %Y %H:%M:%S +0000")?,
    );
    let path = tree.join(DOC).join("changelog");
    write(&path, text)?;
    gzip(&path)?;
    mode(&path.with_extension("gz"), 0o644)
}
