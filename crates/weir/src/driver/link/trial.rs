//! A program that is tried, on a thread of its own: the agent has other things to do meanwhile.

use std::fs::File;
use std::sync::mpsc::{Receiver, TryRecvError, channel};

use crate::program::{self, About, OwnAbout, Target};

type Found = Result<(File, About), String>;

/// See the module.
pub(super) struct Trial {
    /// That of the question.
    number: u64,
    found: Receiver<Found>,
}

impl Trial {
    /// Tries a program for a question, beside this one and in its place.
    ///
    /// # Errors
    ///
    /// There is no thread.
    pub(super) fn start(number: u64, own: OwnAbout, target: Target) -> Result<Trial, String> {
        let (sender, found) = channel();
        let thread = std::thread::Builder::new().name("trial".to_owned());
        let started = thread.spawn(move || {
            // The agent may have no use for it any more.
            let _ = sender.send(program::find(&own, &target));
        });
        match started {
            Ok(_) => Ok(Trial { number, found }),
            Err(error) => Err(format!("it can't be tried: {error}")),
        }
    }

    /// The question, and what was found; `None` as long as it is not known.
    pub(super) fn found(&self) -> Option<(u64, Found)> {
        match self.found.try_recv() {
            Ok(found) => Some((self.number, found)),
            Err(TryRecvError::Empty) => None,
            Err(TryRecvError::Disconnected) => {
                Some((self.number, Err("it can't be tried".to_owned())))
            }
        }
    }
}
