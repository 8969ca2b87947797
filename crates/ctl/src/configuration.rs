//! A run's configuration, for whoever changes it while packets flow (docs/reload.md).

use std::path::Path;
use std::sync::Arc;

use weir_graph::{Change, SetChange, SetDefinition};

use crate::command::Replacement;

/// The configuration of a run. Reading it takes as long as building all functions does: it is
/// called on a thread that may wait.
pub trait Configuration: Send + core::fmt::Debug {
    /// Reads the files again, `file` in the place of the chain file where one is given, and
    /// compares them with what runs.
    ///
    /// # Errors
    ///
    /// They are wrong, or differ in what can't change.
    fn read(&mut self, file: Option<&Path>) -> Result<Arc<NewConfiguration>, NotRead>;

    /// The configuration that was read last has become the one that runs.
    fn taken(&mut self);

    /// Drops the configuration that was read last: it is not to run.
    fn forget(&mut self);

    /// Tells an operator who asked by a signal, and gets no answer otherwise.
    fn tell(&self, text: &str);
}

/// A configuration that can take the place of the one that runs.
#[derive(Debug)]
pub struct NewConfiguration {
    /// The functions that have changed.
    pub changes: Vec<Change>,
    /// The sets of the file.
    pub sets: Vec<SetDefinition>,
    /// Those of them whose entries or time-outs have changed.
    pub set_changes: Vec<SetChange>,
    /// Oddities of the file, for people.
    pub warnings: String,
    /// The functions that have changed, for engines.
    pub replacement: Arc<Replacement>,
}

impl NewConfiguration {
    /// True where it says what runs already.
    pub fn is_nothing(&self) -> bool {
        self.changes.is_empty() && self.set_changes.is_empty()
    }
}

/// Why a configuration can't take the place of the one that runs.
#[derive(Clone, Debug)]
pub enum NotRead {
    /// A file is wrong: for people, with its lines.
    Wrong(String),
    /// Something has changed that takes a restart: each in a sentence.
    Refused(Vec<String>),
    /// This way of running can't be given another configuration.
    Never(String),
}
