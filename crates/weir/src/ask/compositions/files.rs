//! The files of a composition, as a coordinator gets them: all that it was read from.

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};

use weir_api::v1;

use crate::exit::Failure;
use crate::run::up::Composed;

/// The files of a composition that was read from `path`.
///
/// # Errors
///
/// One is not in its folder, which is all that hosts get.
pub(super) fn of(path: &Path, composed: &Composed) -> Result<v1::Files, Failure> {
    let failed =
        |why: std::io::Error| Failure::outside(format!("can't read {}: {why}", path.display()));
    let whole = std::path::absolute(path).map_err(failed)?;
    let whole = plain(&whole);
    let folder = whole.parent().unwrap_or(Path::new("/"));
    let mut files = BTreeMap::new();
    let mut put = |path: &Path, text: &str| {
        let inside = inside(folder, path).ok_or_else(|| {
            Failure::chain(format!(
                "error: {} is not in the folder of the composition ({}): hosts get that folder alone, so move it \
                 there",
                path.display(),
                folder.display()
            ))
        })?;
        files.insert(inside, text.as_bytes().to_vec());
        Ok::<(), Failure>(())
    };
    let texts = &composed.texts;
    put(&whole, texts.composition.as_deref().unwrap_or_default())?;
    let chain = folder.join(&composed.composition.chain.value);
    put(&chain, &texts.chain)?;
    for (name, text) in &texts.templates {
        let path = std::path::absolute(name).map_err(failed)?;
        put(&path, text)?;
    }
    let beside = chain.parent().unwrap_or(folder);
    for (name, text) in &texts.texts {
        put(&beside.join(name), text)?;
    }
    let name = whole.file_name().unwrap_or_default();
    let files = files
        .into_iter()
        .map(|(path, content)| v1::File { path, content });
    let files = v1::Files {
        composition: name.to_string_lossy().into_owned(),
        files: files.collect(),
    };
    weir_coordinator::files::check(&files).map_err(Failure::usage)?;
    Ok(files)
}

/// A path from a folder on, where it is in it.
fn inside(folder: &Path, path: &Path) -> Option<String> {
    let plain = plain(path);
    let inside = plain.strip_prefix(folder).ok()?;
    Some(inside.to_str()?.to_owned())
}

/// A path without `.` and `..`, as it is written.
fn plain(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => {
                plain.pop();
            }
            part => plain.push(part),
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_those_of_the_folder() {
        let of = |path: &str| inside(Path::new("/a/b"), Path::new(path));
        assert_eq!(of("/a/b/c.yaml").as_deref(), Some("c.yaml"));
        assert_eq!(of("/a/b/./r/../s/x").as_deref(), Some("s/x"));
        assert_eq!(of("/a/b/../c"), None);
        assert_eq!(of("/etc/x"), None);
    }
}
