//! The chains of a run's processes: from the texts that the run keeps, where it does.

use std::path::Path;

use weir_graph::ChainFile;
use weir_nf::Sets;
use weir_nf::host::Kind;

use crate::args::Run;
use crate::exit::Failure;
use crate::say::say;
use crate::snapshot::Snapshot;
use crate::{chains, kept, set_log};

/// Has this process use the texts of the run that has started it.
pub(super) fn inherit() {
    kept::TEXTS.inherit().unwrap_or_else(warn);
    set_log::SET_LOG.inherit().unwrap_or_else(|error| {
        say(format_args!(
            "warning: sets are as the file has them: what commands did with them can't be had ({error})"
        ));
    });
}

fn warn(error: std::io::Error) {
    say(format_args!(
        "warning: the files are read as they are now: the run's texts can't be had ({error})"
    ));
}

/// The texts that run, where they are kept. Where they can't be had, as after an upgrade to a version
/// that keeps others, the files are read.
pub(super) fn current() -> Option<Snapshot> {
    kept::current().unwrap_or_else(|error| {
        warn(error);
        None
    })
}

/// Keeps texts for the processes that this one starts.
pub(super) fn keep(texts: Snapshot) {
    if let Err(error) = set_log::keep() {
        say(format_args!(
            "warning: a process that takes this one's place has sets as the file has them: changes \
             can't be kept ({error})"
        ));
    }
    if let Err(error) = kept::keep(texts) {
        say(format_args!(
            "warning: what starts again reads the files as they are then: the run's texts can't be \
             kept ({error})"
        ));
    }
}

/// Offers texts to the run's processes, which read them when they are asked to.
#[cfg(feature = "control")]
pub(super) fn offer(texts: Snapshot) -> std::io::Result<()> {
    kept::offer(texts)
}

/// Those that were offered run now.
#[cfg(feature = "control")]
pub(super) fn take() -> std::io::Result<()> {
    kept::take()
}

/// Those that were offered are not taken.
#[cfg(feature = "control")]
pub(super) fn forget() {
    // What is left is offered to nobody, and the next offer takes its place.
    let _ = kept::forget();
}

/// The chains that run.
pub(super) fn load(run: &Run, seed: u64, kinds: &[Kind]) -> Result<ChainFile, Failure> {
    match current() {
        Some(texts) => of(&texts, run, (seed, &Sets::default()), kinds),
        None => chains::load(&run.chain, &run.templates, &run.set, seed, kinds),
    }
}

/// The chains that may be meant, with the sets that run, one after another: those that run, those that were read for a reload
/// (first where `next` comes first), and where none are kept, those of the files.
pub(super) fn candidates(
    run: &Run,
    (seed, running): (u64, &Sets),
    kinds: &[Kind],
    next_first: bool,
) -> Vec<Result<ChainFile, Failure>> {
    let next = kept::next().unwrap_or(None);
    let mut texts: Vec<Snapshot> = current().into_iter().chain(next).collect();
    if next_first {
        texts.reverse();
    }
    if !texts.is_empty() {
        let with = (seed, running);
        let all = texts.iter().map(|texts| of(texts, run, with, kinds));
        return all.collect();
    }
    let path = (run.chain.as_path(), chains::From::Files);
    let with = (seed, running);
    let read = chains::read_chains(path, &run.templates, &run.set, with, kinds);
    vec![read.map(|(file, _)| file)]
}

fn of(
    texts: &Snapshot,
    run: &Run,
    with: (u64, &Sets),
    kinds: &[Kind],
) -> Result<ChainFile, Failure> {
    let path: &Path = &run.chain;
    chains::load_snapshot(texts, path, &run.set, with, kinds)
}
