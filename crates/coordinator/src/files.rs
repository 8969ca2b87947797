//! The files of a composition, as they travel: a folder's worth, none of which is outside of it.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Component, Path, PathBuf};

use weir_api::v1;

/// Most octets of all files together: rules of all kinds there are fit.
pub const MOST_OCTETS: usize = 64 << 20;
/// Most octets of a message with them: the files, and what is around them.
pub const MOST_MESSAGE: usize = MOST_OCTETS + (1 << 20);
/// Most files.
pub const MOST_FILES: usize = 10_000;
/// Longest path.
const LONGEST: usize = 1_024;

/// Checks what somebody else has sent: paths stay in their folder, each is there once, none is the folder
/// of another one, and there is the composition.
///
/// # Errors
///
/// The first thing that is wrong, for people.
///
/// ```
/// use weir_api::v1::{File, Files};
/// use weir_coordinator::files;
///
/// let of = |path: &str| Files {
///     composition: "edge.yaml".into(),
///     files: vec![File { path: path.into(), content: vec![] }],
/// };
/// assert_eq!(files::check(&of("edge.yaml")), Ok(()));
/// assert!(files::check(&of("../edge.yaml")).is_err());
/// assert!(files::check(&of("/etc/passwd")).is_err());
/// ```
pub fn check(files: &v1::Files) -> Result<(), String> {
    if files.files.len() > MOST_FILES {
        return Err(format!("there are more than {MOST_FILES} files"));
    }
    let octets: usize = files.files.iter().map(|file| file.content.len()).sum();
    if octets > MOST_OCTETS {
        return Err(format!(
            "the files have more than {} MiB",
            MOST_OCTETS >> 20
        ));
    }
    let mut paths = BTreeSet::new();
    for v1::File { path, .. } in &files.files {
        if !is_inside(path) {
            return Err(format!(
                "the file `{path}` is not in the composition's folder: hosts have that alone"
            ));
        }
        if !paths.insert(Path::new(path)) {
            return Err(format!("the file `{path}` is there twice"));
        }
    }
    for path in &paths {
        let mut folders = path.ancestors().skip(1);
        if let Some(folder) = folders.find(|folder| paths.contains(folder)) {
            return Err(format!("`{}` is a file and a folder", folder.display()));
        }
    }
    match paths.contains(Path::new(&files.composition)) {
        true => Ok(()),
        false => Err(format!(
            "the composition `{}` is not among its files",
            files.composition
        )),
    }
}

/// True of a relative path, written plainly, that does not leave its folder.
pub fn is_inside(path: &str) -> bool {
    let plain = |part: Component<'_>| matches!(part, Component::Normal(_));
    let parts = Path::new(path).components();
    let written: PathBuf = parts.clone().collect();
    (1..=LONGEST).contains(&path.len())
        && !path.contains(['\0', '\n'])
        && parts.clone().all(plain)
        && written.as_os_str() == path
}

/// Writes them into a folder, which is new.
///
/// # Errors
///
/// [`check`] finds something, or they can't be written.
pub fn write(files: &v1::Files, folder: &Path) -> io::Result<()> {
    check(files).map_err(io::Error::other)?;
    fs::create_dir_all(folder)?;
    for v1::File { path, content } in &files.files {
        let path = folder.join(path);
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent)?;
        }
        fs::write(&path, content)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(paths: &[&str]) -> v1::Files {
        let file = |path: &&str| v1::File {
            path: (*path).to_owned(),
            content: path.as_bytes().to_vec(),
        };
        v1::Files {
            composition: "a.yaml".to_owned(),
            files: paths.iter().map(file).collect(),
        }
    }

    #[test]
    fn nothing_is_written_outside() {
        let long = "x/".repeat(600) + "x";
        let evil = [
            "",
            "/",
            ".",
            "..",
            "/etc/x",
            "../x",
            "x/../../y",
            "x/..",
            "./x",
            "x//y",
            "x/",
            "a\0b",
            &long,
        ];
        for path in evil {
            assert!(!is_inside(path), "{path:?}");
            assert!(check(&of(&["a.yaml", path])).is_err(), "{path:?}");
        }
        for path in ["x", "x/y", "x.y/z", "..x", "über.yaml", "a b"] {
            assert!(is_inside(path), "{path}");
        }
        assert!(
            check(&of(&["a.yaml", "b", "b/c"]))
                .unwrap_err()
                .contains("a file and a folder")
        );
        assert!(
            check(&of(&["a.yaml", "a.yaml"]))
                .unwrap_err()
                .contains("twice")
        );
        assert!(check(&of(&["b.yaml"])).unwrap_err().contains("not among"));
    }

    #[test]
    fn what_is_written_is_what_came() {
        let folder = std::env::temp_dir().join(format!("weir-files-{}", std::process::id()));
        write(&of(&["a.yaml", "rules/b.rules"]), &folder).unwrap();
        assert_eq!(
            fs::read(folder.join("rules/b.rules")).unwrap(),
            b"rules/b.rules"
        );
        assert!(write(&of(&["a.yaml", "../b"]), &folder).is_err());
        fs::remove_dir_all(&folder).unwrap();
    }
}
