//! A child of this process, by its number: one that was started before this process became another
//! program is a child still, and has no handle.

use std::io;
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Child, ExitStatus};

use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};

/// See the module. Nobody else waits for it, so its number is no other process's.
#[derive(Debug)]
pub(in super::super) struct Running {
    process: Pid,
    status: Option<ExitStatus>,
}

impl Running {
    /// One that was started.
    pub(in super::super) fn of(child: &Child) -> Running {
        Running {
            process: Pid::from_child(child),
            status: None,
        }
    }

    /// The child with this number; `None` where none has it.
    pub(in super::super) fn with(number: i32) -> Option<Running> {
        let process = (number > 0).then(|| Pid::from_raw(number)).flatten()?;
        Some(Running {
            process,
            status: None,
        })
    }

    /// Its number.
    pub(in super::super) fn number(&self) -> i32 {
        self.process.as_raw_nonzero().get()
    }

    /// How it has ended; `None` while it runs.
    ///
    /// # Errors
    ///
    /// The kernel does not say.
    pub(in super::super) fn ended(&mut self) -> io::Result<Option<ExitStatus>> {
        self.wait(WaitOptions::NOHANG)
    }

    /// Ends it, and waits for that.
    pub(in super::super) fn end(&mut self) {
        if self.status.is_none() {
            // It may have ended by itself.
            let _ = kill_process(self.process, Signal::KILL);
            let _ = self.wait(WaitOptions::empty());
        }
    }

    fn wait(&mut self, how: WaitOptions) -> io::Result<Option<ExitStatus>> {
        if self.status.is_none() {
            self.status = match waitpid(Some(self.process), how) {
                Ok(ended) => ended.map(|(_, status)| ExitStatus::from_raw(status.as_raw())),
                // Somebody has waited for it: where SIGCHLD is ignored, the kernel.
                Err(Errno::CHILD) => Some(ExitStatus::from_raw(0)),
                Err(error) => return Err(error.into()),
            };
        }
        Ok(self.status)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn a_child_is_looked_after_by_its_number() {
        let child = Command::new("sleep").arg("60").spawn().unwrap();
        let number = Running::of(&child).number();
        drop(child);
        let mut running = Running::with(number).unwrap();
        assert_eq!(running.ended().unwrap(), None);
        running.end();
        assert_eq!(running.ended().unwrap().unwrap().signal(), Some(9));
        assert!(Running::with(0).is_none() && Running::with(-4).is_none());
        // Another process's child counts as over.
        assert!(Running::with(1).unwrap().ended().unwrap().is_some());
    }
}
