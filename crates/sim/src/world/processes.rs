//! All processes that ever ran, found by number and by name.
//!
//! Every message and every checker looks processes up, and the dead stay in the
//! list: a search through it was a tenth of a run.

use core::ops::{Deref, DerefMut};

use weir_protocol::{Peer, RuntimeId};

use super::links::ProcessNo;
use super::process::Process;

/// Processes in the order in which they started.
#[derive(Default)]
pub(crate) struct Processes {
    list: Vec<Process>,
    /// The number of each runtime's process, by [`RuntimeId`]: ids are given one after another.
    runtimes: Vec<Option<ProcessNo>>,
}

impl Processes {
    /// Adds a process that starts.
    pub(super) fn push(&mut self, process: Process) {
        if let Peer::Runtime(RuntimeId(id)) = process.peer {
            let at = id as usize;
            let room = self.runtimes.len().max(at + 1);
            self.runtimes.resize(room, None);
            if let Some(place) = self.runtimes.get_mut(at) {
                debug_assert!(place.is_none(), "a restarted runtime has another id");
                *place = Some(self.list.len());
            }
        }
        self.list.push(process);
    }

    /// The number of a peer's process.
    pub(super) fn number_of(&self, peer: Peer) -> Option<ProcessNo> {
        match peer {
            Peer::Runtime(RuntimeId(id)) => self.runtimes.get(id as usize).copied().flatten(),
            Peer::Switch(_) => self.list.iter().rposition(|process| process.peer == peer),
            Peer::Coordinator => None,
        }
    }

    /// The process of a runtime.
    pub(super) fn runtime(&self, id: RuntimeId) -> Option<&Process> {
        self.list.get(self.number_of(Peer::Runtime(id))?)
    }
}

impl Deref for Processes {
    type Target = [Process];

    fn deref(&self) -> &[Process] {
        &self.list
    }
}

impl DerefMut for Processes {
    fn deref_mut(&mut self) -> &mut [Process] {
        &mut self.list
    }
}
