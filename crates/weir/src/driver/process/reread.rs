//! The configuration of a process's engines, read again there (`weir reload`).
//!
//! A process loads its chains itself: from the texts that the run keeps, or on another host from its
//! files. So it is first asked whether these say what the main process has read ([`Reread::prepare`]), and builds the functions beside the engines' thread; then
//! it is told to take them ([`Reread::take`]).

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use weir_ctl::command::Replacement;
use weir_ctl::sets::{SetChange, SetCopies};
use weir_nf::Sets;

/// Reads the texts for which a number stands, or else those that there are: the functions that have
/// changed since the last time that they were taken.
pub(crate) type ReadAgain = dyn FnMut(Taken, u64) -> Result<Replacement, String> + Send;

/// Whether what was read last has been taken since.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Taken(pub(crate) bool);

struct State {
    read: Box<ReadAgain>,
    next: Option<Arc<Replacement>>,
    taken: bool,
}

/// The way to a process's configuration; clones share it.
#[derive(Clone)]
pub struct Reread {
    state: Arc<Mutex<State>>,
    /// Its sets, which follow the main process's.
    sets: Arc<Mutex<SetCopies>>,
}

impl fmt::Debug for Reread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reread").finish_non_exhaustive()
    }
}

impl Reread {
    /// One that reads so.
    pub(crate) fn new(read: Box<ReadAgain>, sets: Sets) -> Reread {
        Reread {
            state: Arc::new(Mutex::new(State {
                read,
                next: None,
                taken: false,
            })),
            sets: Arc::new(Mutex::new(SetCopies::new(sets))),
        }
    }

    /// A main process is about to tell what is in the sets; false where there are none.
    pub(super) fn begin_sets(&self) -> bool {
        let mut sets = self.sets.lock().unwrap_or_else(PoisonError::into_inner);
        sets.begin();
        !sets.are_told()
    }

    /// Changes a set. True once all are what the main process's are.
    ///
    /// # Errors
    ///
    /// It can't become what that one's is.
    pub(super) fn change_set(&self, change: SetChange) -> Result<bool, String> {
        let mut sets = self.sets.lock().unwrap_or_else(PoisonError::into_inner);
        sets.take(change)?;
        Ok(sets.are_told())
    }

    /// Reads the files.
    ///
    /// # Errors
    ///
    /// They are wrong, or say something else than what `digest` stands for.
    pub(in super::super) fn prepare(&self, digest: u64) -> Result<(), String> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let taken = Taken(std::mem::take(&mut state.taken));
        state.next = None;
        let replacement = (state.read)(taken, digest)?;
        if replacement.digest() != digest {
            return Err(
                "its chain file, or a text that it names, is another one than the switch's"
                    .to_owned(),
            );
        }
        state.next = Some(Arc::new(replacement));
        Ok(())
    }

    /// The functions that were read, where `digest` stands for them; `None` where none were.
    pub(in super::super) fn take(&self, digest: u64) -> Option<Arc<Replacement>> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let next = state.next.take_if(|next| next.digest() == digest)?;
        state.taken = true;
        Some(next)
    }
}
