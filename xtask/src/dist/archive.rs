//! The archive, and sums of all files.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::release::Release;
use super::{gzip, output, run, write};

/// Packs the tree below a folder of the release's name; gives the archive's path.
pub(super) fn pack(tree: &Path, release: &Release, out: &Path) -> Result<PathBuf, String> {
    let path = out.join(format!("{}.tar", release.name()));
    let mut command = Command::new("tar");
    command
        .env("LC_ALL", "C")
        .args(["--sort=name", "--format=ustar", "--owner=0", "--group=0"]);
    command.args(["--numeric-owner", &format!("--mtime=@{}", release.epoch)]);
    command.arg(format!("--transform=s,^\\.,{},", release.name()));
    command.arg("-C").arg(tree).arg("-cf").arg(&path);
    run(command.arg("."))?;
    gzip(&path)?;
    Ok(path.with_extension("tar.gz"))
}

/// Writes `SHA256SUMS` of the files.
pub(super) fn sums(made: &[PathBuf], out: &Path) -> Result<PathBuf, String> {
    let names = made.iter().filter_map(|path| path.file_name());
    let text = output(Command::new("sha256sum").args(names).current_dir(out))?;
    let path = out.join("SHA256SUMS");
    write(&path, text)?;
    Ok(path)
}
