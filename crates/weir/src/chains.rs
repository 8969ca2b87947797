//! Loading a chain file from disk.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read as _;
use std::path::{Component, Path, PathBuf};

use weir_graph::{ChainFile, Composition, Input, Override, Script, TemplateDescription, Templates};
use weir_nf::host::Kind;
use weir_nf::{Sets, Sources};

use crate::exit::Failure;
use crate::say::say;
use crate::snapshot::{Loaded, Snapshot};

/// Most bytes of a chain file; the reader of chain files allows less.
const MOST_CHAIN: u64 = 64 << 20;
/// Most bytes of a text that a chain names: all rules there are fit many times.
const MOST_TEXT: u64 = 256 << 20;

/// Which of the files that a configuration names may be read. Pipes and devices may be at the start of
/// a run; later on they may block or be at their end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum From<'a> {
    /// Whatever can be read.
    Anything,
    /// Files alone.
    Files,
    /// Files of this folder alone: the configuration came over the network, and its author may not read
    /// others of this machine.
    Inside(&'a Path),
}

impl From<'_> {
    /// Refuses a path that leads elsewhere, before anything is asked about it.
    ///
    /// # Errors
    ///
    /// Why, for people.
    pub(crate) fn allow(self, path: &Path) -> Result<(), &'static str> {
        let From::Inside(folder) = self else {
            return Ok(());
        };
        // How far below the folder each part is: the folder has no links.
        let deeper = |depth: usize, part: Component<'_>| match part {
            Component::Normal(_) => Some(depth + 1),
            Component::CurDir => Some(depth),
            Component::ParentDir => depth.checked_sub(1),
            Component::RootDir | Component::Prefix(_) => None,
        };
        let inside = path.strip_prefix(folder).ok();
        let stays = inside.and_then(|inside| inside.components().try_fold(0, deeper));
        match stays {
            Some(_) => Ok(()),
            None => Err("it is not in the folder of the composition: hosts get that folder alone"),
        }
    }

    /// Refuses a pattern that may fit paths elsewhere: `.?` fits `..`, and so does `..` behind a `*`.
    fn allow_pattern(self, path: &Path) -> Result<(), &'static str> {
        self.allow(path)?;
        let From::Inside(folder) = self else {
            return Ok(());
        };
        let is_wild = |part: &str| part.contains(['*', '?', '[']);
        let inside = path.strip_prefix(folder).unwrap_or(path);
        let parts = inside
            .components()
            .map(|part| part.as_os_str().to_string_lossy());
        let parts: Vec<_> = parts.collect();
        let first = parts
            .iter()
            .position(|part| is_wild(part))
            .unwrap_or(parts.len());
        let behind = parts.get(first..).unwrap_or_default();
        match behind.iter().any(|part| part.starts_with('.')) {
            true => {
                Err("a part of it begins with a dot, and may lead out of the composition's folder")
            }
            false => Ok(()),
        }
    }
}

/// Reads a file of at most so many bytes: some never end.
fn read(path: &Path, most: u64, from: From<'_>) -> std::io::Result<Vec<u8>> {
    from.allow(path).map_err(std::io::Error::other)?;
    if from != From::Anything && !std::fs::metadata(path)?.is_file() {
        return Err(std::io::Error::other("it is no file, and may block"));
    }
    let mut bytes = Vec::new();
    File::open(path)?.take(most + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > most {
        let message = format!("it has more than {} MiB", most >> 20);
        return Err(std::io::Error::other(message));
    }
    Ok(bytes)
}

/// Texts beside the chain file, and what was read of them.
struct Files<'a> {
    folder: PathBuf,
    from: From<'a>,
    texts: BTreeMap<String, String>,
    names: BTreeMap<String, Vec<String>>,
    /// The sets of the run that reads its file again.
    running: Sets,
}

impl<'a> Files<'a> {
    fn new(folder: PathBuf, from: From<'a>) -> Files<'a> {
        Files {
            folder,
            from,
            texts: BTreeMap::new(),
            names: BTreeMap::new(),
            running: Sets::default(),
        }
    }
}

impl Sources for Files<'_> {
    fn text(&mut self, name: &str) -> Result<String, String> {
        let path = self.folder.join(name);
        let text = read(&path, MOST_TEXT, self.from)
            .and_then(|bytes| String::from_utf8(bytes).map_err(std::io::Error::other))
            .map_err(|error| format!("can't read {}: {error}", path.display()))?;
        self.texts.insert(name.to_owned(), text.clone());
        Ok(text)
    }

    fn names(&mut self, pattern: &str) -> Result<Vec<String>, String> {
        let whole = self.folder.join(pattern);
        let failed = |why: &str| format!("the pattern `{pattern}`: {why}");
        self.from.allow_pattern(&whole).map_err(failed)?;
        let names = expanded(&self.folder, pattern)?;
        self.names.insert(pattern.to_owned(), names.clone());
        Ok(names)
    }

    fn sets(&self) -> Sets {
        self.running.clone()
    }
}

/// The chains of a snapshot, as they were loaded from the file at `path`.
pub(crate) fn load_snapshot(
    snapshot: &Snapshot,
    path: &Path,
    set: &[Override],
    (seed, running): (u64, &Sets),
    kinds: &[Kind],
) -> Result<ChainFile, Failure> {
    let name = path.display().to_string();
    let input = Input {
        name: &name,
        text: &snapshot.chain,
        kinds,
        overrides: set,
        seed,
    };
    weir_graph::load_with(
        &input,
        &with(&snapshot.templates),
        &mut Loaded(snapshot, running),
    )
    .map_err(|diagnostics| Failure::chain(weir_graph::render(&diagnostics)))
}

/// The files that fit a pattern, sorted, from `folder` on. What has no `*`, `?`
/// or `[`, or is the name of a file as it stands, is no pattern.
pub(crate) fn expanded(folder: &Path, pattern: &str) -> Result<Vec<String>, String> {
    if !pattern.contains(['*', '?', '[']) || folder.join(pattern).is_file() {
        return Ok(vec![pattern.to_owned()]);
    }
    let root = glob::Pattern::escape(&folder.display().to_string());
    let whole = Path::new(&root).join(pattern).display().to_string();
    let found = glob::glob(&whole).map_err(|error| format!("the pattern `{pattern}`: {error}"))?;
    let mut names = Vec::new();
    for path in found {
        let path = path.map_err(|error| format!("the pattern `{pattern}`: {error}"))?;
        if path.is_file() {
            let name = path.strip_prefix(folder).unwrap_or(&path);
            names.push(name.display().to_string());
        }
    }
    if names.is_empty() {
        return Err(format!("no file fits the pattern `{whole}`"));
    }
    names.sort();
    Ok(names)
}

/// A text of at most 256 MiB, as functions are given those that a chain names.
pub(crate) fn named_text(name: &str) -> Result<String, Failure> {
    let folder = PathBuf::new();
    let mut files = Files::new(folder, From::Anything);
    files.text(name).map_err(Failure::outside)
}

/// Gives `work` the files of this machine, by the names of a command line.
pub(crate) fn with_files<T>(work: impl FnOnce(&mut dyn Sources) -> T) -> T {
    work(&mut Files::new(PathBuf::new(), From::Anything))
}

/// The values that rules' variables have in a `suricata.yaml`.
pub(crate) fn suricata_variables(path: &Path) -> Result<BTreeMap<String, String>, Failure> {
    weir_graph::suricata_variables(&path.display().to_string(), &text_of(path, From::Anything)?)
        .map_err(|diagnostics| Failure::chain(weir_graph::render(&diagnostics)))
}

/// The values that rules' variables have in the `ids` functions of a chain file.
pub(crate) fn chain_variables(path: &Path) -> Result<BTreeMap<String, String>, Failure> {
    weir_graph::chain_variables(&path.display().to_string(), &text_of(path, From::Anything)?)
        .map_err(|diagnostics| Failure::chain(weir_graph::render(&diagnostics)))
}

/// Checks that this program may run on the cores that a chain file names; those
/// of a command line were checked before.
pub(crate) fn check_cores(cores: &[usize], chain: &Path) -> Result<(), Failure> {
    weir_exec::check_cores(cores).map_err(|error| {
        Failure::chain(format!(
            "{}: error: `cores` under `threads`: {error}\n  = help: `--cores LIST` names others for one run",
            chain.display()
        ))
    })
}

/// The text of a file that is written by hand.
fn text_of(path: &Path, from: From<'_>) -> Result<String, Failure> {
    let bytes = read(path, MOST_CHAIN, from)
        .map_err(|error| Failure::outside(format!("can't read {}: {error}", path.display())))?;
    let name = path.display().to_string();
    String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        let line = error.as_bytes()[..at]
            .iter()
            .filter(|&&b| b == b'\n')
            .count()
            + 1;
        Failure::chain(format!(
            "{name}:{line}: error: the file is not UTF-8 text; save it as UTF-8"
        ))
    })
}

/// Folder beside a chain file whose templates it may name.
const BESIDE: &str = "templates";

/// The templates that come with weir and those of folders.
fn templates(folders: &[PathBuf]) -> Result<Templates, Failure> {
    texts_of(folders, From::Anything).map(|texts| with(&texts))
}

/// The templates that come with weir and those of these names and texts.
fn with(texts: &[(String, String)]) -> Templates {
    let mut templates = Templates::shipped();
    for (name, text) in texts {
        templates.add(name.clone(), text.clone());
    }
    templates
}

/// Names and texts of the templates in folders, whose files are read in the order of their names:
/// `*.yaml` and `*.yml`.
fn texts_of(folders: &[PathBuf], from: From<'_>) -> Result<Vec<(String, String)>, Failure> {
    let mut texts = Vec::new();
    let mut seen = Vec::new();
    for folder in folders {
        let failed = |error: std::io::Error| {
            Failure::outside(format!("can't read {}: {error}", folder.display()))
        };
        from.allow(folder)
            .map_err(|why| failed(std::io::Error::other(why)))?;
        // The folder beside the chain file may be named as well.
        let whole = folder.canonicalize().map_err(failed)?;
        if seen.contains(&whole) {
            continue;
        }
        seen.push(whole);
        let mut files = Vec::new();
        for entry in folder.read_dir().map_err(failed)? {
            let path = entry.map_err(failed)?.path();
            let known = path.extension().and_then(|e| e.to_str());
            if matches!(known, Some("yaml" | "yml")) && path.is_file() {
                files.push(path);
            }
        }
        files.sort();
        for path in files {
            texts.push((path.display().to_string(), text_of(&path, from)?));
        }
    }
    Ok(texts)
}

/// Descriptions of the templates that come with weir and of those in `folders`.
pub(crate) fn describe_templates(
    folders: &[PathBuf],
    kinds: &[Kind],
) -> Result<Vec<TemplateDescription>, Failure> {
    weir_graph::describe_templates(&templates(folders)?, kinds)
        .map_err(|diagnostics| Failure::chain(weir_graph::render(&diagnostics)))
}

/// Names and texts of the templates of a chain file: those of `folders` and of the folder beside
/// it, if there is one.
fn templates_of(
    chain: &Path,
    folders: &[PathBuf],
    from: From<'_>,
) -> Result<Vec<(String, String)>, Failure> {
    let beside = chain.parent().unwrap_or(Path::new("")).join(BESIDE);
    let mut all = folders.to_vec();
    if beside.is_dir() {
        all.push(beside);
    }
    texts_of(&all, from)
}

/// Loads and checks a chain file; warnings are printed. Beside the templates of
/// `folders` it may name those of the folder `templates` where it is.
pub(crate) fn load(
    path: &Path,
    folders: &[PathBuf],
    set: &[Override],
    seed: u64,
    kinds: &[Kind],
) -> Result<ChainFile, Failure> {
    let from = (path, From::Anything);
    let (file, _) = read_chains(from, folders, set, (seed, &Sets::default()), kinds)?;
    tell_warnings(&file);
    Ok(file)
}

/// Prints the warnings of a file.
pub(crate) fn tell_warnings(file: &ChainFile) {
    if !file.warnings.is_empty() {
        say(weir_graph::render(&file.warnings).trim_end());
    }
}

/// The chains of a file with their warnings, and all texts that they were loaded from. The sets that
/// run go on where the file is read again.
pub(crate) fn read_chains(
    (path, from): (&Path, From<'_>),
    folders: &[PathBuf],
    set: &[Override],
    (seed, running): (u64, &Sets),
    kinds: &[Kind],
) -> Result<(ChainFile, Snapshot), Failure> {
    let text = text_of(path, from)?;
    let name = path.display().to_string();
    let folder = path.parent().unwrap_or(Path::new("")).to_owned();
    let mut files = Files {
        running: running.clone(),
        ..Files::new(folder, from)
    };
    let input = Input {
        name: &name,
        text: &text,
        kinds,
        overrides: set,
        seed,
    };
    let templates = templates_of(path, folders, from)?;
    let file = weir_graph::load_with(&input, &with(&templates), &mut files);
    let file = file.map_err(|diagnostics| match weir_graph::is_composition(&text) {
        // Each of its keys is unknown in a chain file.
        true => Failure::chain(format!(
            "{name}: error: this is a composition, not a chain file\n  = help: run it with \
             `weir up {name}`, or give the chain file that it names"
        )),
        false => Failure::chain(weir_graph::render(&diagnostics)),
    })?;
    let snapshot = Snapshot {
        composition: None,
        chain: text,
        templates,
        texts: files.texts,
        names: files.names,
    };
    Ok((file, snapshot))
}

/// True where a file is meant to be a composition.
pub(crate) fn is_composition(path: &Path) -> bool {
    text_of(path, From::Anything).is_ok_and(|text| weir_graph::is_composition(&text))
}

/// Reads a composition, and gives its text; what it names is not looked at.
pub(crate) fn load_composition(path: &Path) -> Result<(Composition, String), Failure> {
    let text = text_of(path, From::Anything)?;
    composition_of(path, &text).map(|composition| (composition, text))
}

/// That of a text.
pub(crate) fn composition_of(path: &Path, text: &str) -> Result<Composition, Failure> {
    weir_graph::load_composition(&path.display().to_string(), text)
        .map_err(|diagnostics| Failure::chain(weir_graph::render(&diagnostics)))
}

/// Loads and checks a script for a run with so many runtimes.
pub(crate) fn load_script(path: &Path, runtimes: u32, file: &ChainFile) -> Result<Script, Failure> {
    let text = text_of(path, From::Anything)?;
    let chains: Vec<&str> = file.chains.iter().map(|c| c.stage.chain.as_str()).collect();
    weir_graph::load_script(&path.display().to_string(), &text, runtimes, &chains)
        .map_err(|diagnostics| Failure::chain(weir_graph::render(&diagnostics)))
}
