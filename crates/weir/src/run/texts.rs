//! The chains of a run's processes: from the texts that the run keeps, where it does.

use std::path::Path;

use weir_graph::ChainFile;
use weir_nf::host::Kind;

use crate::args::Run;
use crate::exit::Failure;
use crate::say::say;
use crate::snapshot::Snapshot;
use crate::{chains, kept};

fn failed(error: std::io::Error) -> Failure {
    Failure::outside(format!("can't have the run's texts: {error}"))
}

/// The texts that run, where they are kept. Where they can't be had, as after an upgrade to a version
/// that keeps others, the files are read.
pub(super) fn current() -> Option<Snapshot> {
    kept::current().unwrap_or_else(|error| {
        say(format_args!(
            "warning: the files are read as they are now: the run's texts can't be had ({error})"
        ));
        None
    })
}

/// Keeps texts for the processes that this one starts.
pub(super) fn keep(texts: Snapshot) -> Result<(), Failure> {
    kept::keep(texts).map_err(failed)
}

/// Offers texts to the run's processes, which read them when they are asked to.
#[cfg(feature = "control")]
pub(super) fn offer(texts: Snapshot) -> Result<(), Failure> {
    kept::offer(texts).map_err(failed)
}

/// Those that were offered run now.
#[cfg(feature = "control")]
pub(super) fn take() -> Result<(), Failure> {
    kept::take().map_err(failed)
}

/// The chains that run.
pub(super) fn load(run: &Run, seed: u64, kinds: &[Kind]) -> Result<ChainFile, Failure> {
    of(current(), run, seed, kinds)
}

/// The chains that are to run after a reload.
pub(super) fn load_next(run: &Run, seed: u64, kinds: &[Kind]) -> Result<ChainFile, Failure> {
    let texts = kept::next().map_err(failed)?;
    let texts = texts.or_else(current);
    of(texts, run, seed, kinds)
}

fn of(texts: Option<Snapshot>, run: &Run, seed: u64, kinds: &[Kind]) -> Result<ChainFile, Failure> {
    let path: &Path = &run.chain;
    match texts {
        Some(texts) => chains::load_snapshot(&texts, path, &run.set, seed, kinds),
        None => chains::load(path, &run.templates, &run.set, seed, kinds),
    }
}
