//! Loading a chain file from disk.

use std::path::{Path, PathBuf};

use weir_graph::{ChainFile, Input, Override};
use weir_nf::Sources;
use weir_nf::host::Kind;

use crate::exit::Failure;

/// Texts beside the chain file.
struct Files {
    folder: PathBuf,
}

impl Sources for Files {
    fn text(&mut self, name: &str) -> Result<String, String> {
        let path = self.folder.join(name);
        std::fs::read_to_string(&path)
            .map_err(|error| format!("can't read {}: {error}", path.display()))
    }
}

/// Loads and checks a chain file; warnings are printed.
pub(crate) fn load(
    path: &Path,
    set: &[Override],
    seed: u64,
    kinds: &[Kind],
) -> Result<ChainFile, Failure> {
    let bytes = std::fs::read(path)
        .map_err(|error| Failure::outside(format!("can't read {}: {error}", path.display())))?;
    let name = path.display().to_string();
    let text = String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        let line = error.as_bytes()[..at]
            .iter()
            .filter(|&&b| b == b'\n')
            .count()
            + 1;
        Failure::chain(format!(
            "{name}:{line}: error: the file is not UTF-8 text; save it as UTF-8"
        ))
    })?;
    let folder = path.parent().unwrap_or(Path::new("")).to_owned();
    let input = Input {
        name: &name,
        text: &text,
        kinds,
        overrides: set,
        seed,
    };
    let file = weir_graph::load(&input, &mut Files { folder })
        .map_err(|diagnostics| Failure::chain(weir_graph::render(&diagnostics)))?;
    if !file.warnings.is_empty() {
        eprintln!("{}", weir_graph::render(&file.warnings).trim_end());
    }
    Ok(file)
}
