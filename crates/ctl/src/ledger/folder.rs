//! Ledgers in files: a folder has one for each set of rows that there was.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use weir_io::shared::SharedMapping;

use super::Ledger;
use super::names::Names;

/// Ending of the files.
const ENDING: &str = "ledger";
/// Name of the file that who opens or makes a ledger has locked meanwhile.
const TURN: &str = "turn";
/// Name of one that is not begun to the end.
const BEGUN: &str = "begun";

/// Opens the ledger of a folder for these rows, or makes it. It is this process's, and that of those who
/// are given its file, until all of them are over. The folder is its owner's alone.
///
/// # Errors
///
/// It can't be made or read, or another process counts there: why.
pub fn open(folder: &Path, names: &Names, id: [u64; 2]) -> Result<Ledger, String> {
    let failed = |error: io::Error| format!("can't keep a ledger in {}: {error}", folder.display());
    let mut private = fs::DirBuilder::new();
    private.recursive(true).mode(0o700);
    private.create(folder).map_err(failed)?;
    // Two that begin at a time would make one file, or take one number. Held until this returns.
    let mut options = OpenOptions::new();
    let turn = options.write(true).create(true).truncate(false).mode(0o600);
    let turn = turn.open(folder.join(TURN)).map_err(failed)?;
    turn.lock().map_err(failed)?;
    let files = files(folder).map_err(failed)?;
    for (_, path) in files.iter().rev() {
        // One that can't be opened or read stays as it is; the next one is beside it.
        let Ok(file) = File::options().read(true).write(true).open(path) else {
            continue;
        };
        let kept = file.try_clone().map_err(failed)?;
        let Ok(ledger) = Ledger::attach(file.into()) else {
            continue;
        };
        if ledger.names() == names {
            lock(&kept, path)?;
            return Ok(ledger);
        }
    }
    let number = files.last().map_or(1, |(number, _)| number + 1);
    let path = folder.join(format!("{number:06}.{ENDING}"));
    make(folder, &path, names, id)
        .map_err(failed)
        .and_then(|(ledger, file)| lock(&file, &path).map(|()| ledger))
}

/// Makes a ledger. It has its name once it is whole.
fn make(folder: &Path, path: &Path, names: &Names, id: [u64; 2]) -> io::Result<(Ledger, File)> {
    let begun = folder.join(BEGUN);
    let mut options = OpenOptions::new();
    let options = options.read(true).write(true).create(true).truncate(true);
    let file = options.mode(0o600).open(&begun)?;
    let mapping = SharedMapping::make_file(file.try_clone()?.into(), Ledger::octets(names))?;
    let ledger = Ledger::begin(mapping, names.clone(), id)?;
    file.sync_all()?;
    fs::rename(&begun, path)?;
    File::open(folder)?.sync_all()?;
    Ok((ledger, file))
}

/// One process counts in a ledger, with those that it has started: all have the same open file.
fn lock(file: &File, path: &Path) -> Result<(), String> {
    file.try_lock().map_err(|error| match error {
        fs::TryLockError::WouldBlock => format!(
            "another weir counts in {}: give each run a folder of its own",
            path.display()
        ),
        fs::TryLockError::Error(error) => format!("can't lock {}: {error}", path.display()),
    })
}

/// All ledgers of a folder, in the order in which they were made; none where there is no folder. One that
/// can't be read is left out.
///
/// # Errors
///
/// The folder can't be read.
pub fn read(folder: &Path) -> io::Result<Vec<Ledger>> {
    let files = match files(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        files => files?,
    };
    let ledgers = files.into_iter().filter_map(|(_, path)| {
        let file = File::options().read(true).write(true).open(path).ok()?;
        Ledger::attach(file.into()).ok()
    });
    Ok(ledgers.collect())
}

/// The files, by their numbers.
fn files(folder: &Path) -> io::Result<Vec<(u64, PathBuf)>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let number = path
            .file_stem()
            .and_then(|stem| stem.to_str()?.parse().ok());
        if let (Some(number), true) = (number, path.extension().is_some_and(|it| it == ENDING)) {
            files.push((number, path));
        }
    }
    files.sort();
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::super::PACKETS;
    use super::super::names::BilledChain;
    use super::*;

    fn names(tenant: &str) -> Names {
        let chain = BilledChain {
            name: "edge",
            tenant,
            functions: vec!["nat"],
        };
        Names::of_chains("one", [chain])
    }

    #[test]
    fn a_run_goes_on_with_the_ledger_of_the_one_before() {
        let folder = std::env::temp_dir().join(format!("weir-ledger-{}", std::process::id()));
        assert!(read(&folder).unwrap().is_empty());
        let ledger = open(&folder, &names("a"), [1, 1]).unwrap();
        ledger.begin_hour(9);
        ledger.add(9, 0, PACKETS, 5);
        let why = open(&folder, &names("a"), [2, 2]).unwrap_err();
        assert!(why.contains("another weir counts"), "{why}");
        let other = open(&folder, &names("b"), [3, 3]).unwrap();
        drop((ledger, other));
        fs::write(folder.join("000009.ledger"), [0; 64]).unwrap();
        fs::write(folder.join("notes.txt"), "none").unwrap();
        fs::create_dir(folder.join("000008.ledger")).unwrap();
        let ledger = open(&folder, &names("a"), [4, 4]).unwrap();
        assert_eq!(ledger.id[0], 1);
        ledger.add(9, 0, PACKETS, 2);
        assert_eq!(ledger.records()[0].usage.packets, 7);
        assert_eq!(read(&folder).unwrap().len(), 2);
        let later = open(&folder, &names("c"), [5, 5]).unwrap();
        assert!(folder.join("000010.ledger").is_file());
        drop((ledger, later));
        fs::remove_dir_all(&folder).unwrap();
    }
}
