//! A program that is tried, on a thread of its own: the agent has other things to do meanwhile.

use std::fs::File;
use std::sync::mpsc::{Receiver, TryRecvError, channel};

use super::programs::Target;
use crate::program::{self, About};

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
    pub(super) fn start(number: u64, own: About, target: Target) -> Result<Trial, String> {
        let (sender, found) = channel();
        let thread = std::thread::Builder::new().name("trial".to_owned());
        let started = thread.spawn(move || {
            // The agent may have no use for it any more.
            let _ = sender.send(find(&own, &target));
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

/// A program that works beside this one and in its place.
fn find(own: &About, target: &Target) -> Result<(File, About), String> {
    let (file, shown) = match target {
        Target::Path(path) => (program::open(path)?, path.display().to_string()),
        Target::Former => {
            let former = program::former().map(File::try_clone);
            let former = former.ok_or("it was no other program before")?;
            let former = former.map_err(|error| error.to_string())?;
            (former, "the program before".to_owned())
        }
    };
    let about = program::ask(&file).map_err(|why| format!("{shown}: {why}"))?;
    if let Some(why) = own.incompatible_with(&about) {
        return Err(why);
    }
    program::try_words(&file).map_err(|why| format!("{shown}: {why}"))?;
    Ok((file, about))
}
