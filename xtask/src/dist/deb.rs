//! The Debian package: the tree, what dpkg is told of it, and the scripts that dpkg runs.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::release::Release;
use super::stage::{changelog, kibibytes, mode};
use super::{files, make_folder, output, read, run, write};

/// Scripts that dpkg runs, from `deploy/debian`.
const SCRIPTS: [&str; 3] = ["postinst", "prerm", "postrm"];

/// Builds the package; gives its path.
pub(super) fn build(
    root: &Path,
    tree: &Path,
    release: &Release,
    out: &Path,
) -> Result<PathBuf, String> {
    let debian = root.join("deploy/debian");
    let folder = out.join("deb");
    run(Command::new("cp").arg("-a").arg(tree).arg(&folder))?;
    changelog(root, release, &folder)?;
    if release.is_static() {
        let overrides = folder.join("usr/share/lintian/overrides/weir");
        write(&overrides, read(&debian.join("lintian-overrides.static"))?)?;
    }
    let (size, sums) = (kibibytes(&folder)?, sums(&folder)?);
    let meta = folder.join("DEBIAN");
    make_folder(&meta)?;
    write(&meta.join("md5sums"), sums)?;
    let conffiles: Vec<PathBuf> = files(&folder)?;
    let conffiles = conffiles.iter().filter(|path| path.starts_with("etc"));
    let conffiles: String = conffiles.map(|p| format!("/{}\n", p.display())).collect();
    write(&meta.join("conffiles"), conffiles)?;
    for script in SCRIPTS {
        let path = meta.join(script);
        write(&path, read(&debian.join(script))?)?;
        mode(&path, 0o755)?;
    }
    let depends = depends(&folder, release, out)?;
    let control = control(&read(&debian.join("control.in"))?, release, size, &depends)?;
    write(&meta.join("control"), control)?;
    let name = format!(
        "weir_{}_{}.deb",
        release.package_version,
        release.architecture()?
    );
    let path = out.join(name);
    let mut command = Command::new("dpkg-deb");
    command.env("SOURCE_DATE_EPOCH", release.epoch.to_string());
    // The number of threads would show in the octets.
    command.env("DPKG_DEB_THREADS_MAX", "1");
    command.args(["--root-owner-group", "-Zxz", "--build"]);
    run(command
        .arg(&folder)
        .arg(&path)
        .stdout(std::process::Stdio::null()))?;
    std::fs::remove_dir_all(&folder)
        .map_err(|error| format!("can't remove {}: {error}", folder.display()))?;
    Ok(path)
}

/// What the package is told of: `control.in` with its marks filled.
fn control(text: &str, release: &Release, size: u64, depends: &str) -> Result<String, String> {
    let mut filled = text.to_owned();
    for (mark, value) in [
        ("{{version}}", release.package_version.as_str()),
        ("{{architecture}}", release.architecture()?),
        ("{{size}}", &size.to_string()),
    ] {
        filled = filled.replace(mark, value);
    }
    // A program that needs nothing has no such line.
    Ok(match depends {
        "" => filled.replace("Depends: {{depends}}\n", ""),
        depends => filled.replace("{{depends}}", depends),
    })
}

/// Who looks after the package.
pub(super) fn maintainer(control: &str) -> Result<&str, String> {
    let line = control
        .lines()
        .find_map(|line| line.strip_prefix("Maintainer: "));
    line.ok_or_else(|| "deploy/debian/control.in names no maintainer".to_owned())
}

/// Packages with the shared objects that the program needs, with the oldest versions that have all symbols.
fn depends(tree: &Path, release: &Release, out: &Path) -> Result<String, String> {
    if release.is_static() {
        return Ok(String::new());
    }
    // The program looks for a source package around it.
    let folder = out.join("shlibs");
    write(
        &folder.join("debian/control"),
        "Source: weir\n\nPackage: weir\nArchitecture: any\n",
    )?;
    let program = std::path::absolute(tree.join("usr/bin/weir"))
        .map_err(|error| format!("can't tell where the tree is: {error}"))?;
    let mut command = Command::new("dpkg-shlibdeps");
    command.current_dir(&folder).arg("-O");
    let said = output(command.arg(format!("-e{}", program.display())))?;
    std::fs::remove_dir_all(&folder)
        .map_err(|error| format!("can't remove {}: {error}", folder.display()))?;
    let found = said
        .lines()
        .find_map(|line| line.strip_prefix("shlibs:Depends="));
    Ok(found
        .ok_or("dpkg-shlibdeps says nothing of this program")?
        .to_owned())
}

/// Sums by which dpkg tells that a file was changed.
fn sums(folder: &Path) -> Result<String, String> {
    let mut packed = files(folder)?;
    // dpkg has sums of its own for configuration.
    packed.retain(|path| !path.starts_with("etc"));
    output(Command::new("md5sum").args(&packed).current_dir(folder))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_control_file_is_filled() {
        let text = read(&crate::tree::root().join("deploy/debian/control.in"));
        let text = text.unwrap_or_else(|error| panic!("{error}"));
        let release = Release {
            package_version: "1.2.3~git1.a".to_owned(),
            target: "x86_64-unknown-linux-gnu".to_owned(),
            epoch: 0,
        };
        let filled = control(&text, &release, 42, "libc6 (>= 2.36)");
        let filled = filled.unwrap_or_else(|error| panic!("{error}"));
        for line in [
            "Version: 1.2.3~git1.a",
            "Architecture: amd64",
            "Installed-Size: 42",
            "Depends: libc6 (>= 2.36)",
        ] {
            assert!(filled.lines().any(|l| l == line), "{line}:\n{filled}");
        }
        assert!(!filled.contains("{{"), "{filled}");
        let without = control(&text, &release, 42, "").unwrap_or_else(|error| panic!("{error}"));
        assert!(
            !without.contains("Depends") && !without.contains("{{"),
            "{without}"
        );
        assert!(maintainer(&text).is_ok_and(|name| name.contains('@')));
    }
}
