//! The command channel: how a thread that steps nodes is told something by others.
//!
//! The thread looks for commands between two rounds; the sender waits for a reply
//! elsewhere. So a sender holds no lock that packets need, and a packet costs
//! nothing more while there is no command. A bounded number of commands waits.

use std::fmt;
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};

use rustix::event::{EventfdFlags, eventfd};

/// Commands that may wait for a thread.
const WAITING: usize = 16;
/// Commands that are carried out between two rounds, so that packets wait briefly.
const AT_ONCE: usize = 4;

/// The sending end; clones send to the same thread.
pub struct CommandSender<C> {
    commands: SyncSender<C>,
    wake: Option<Arc<OwnedFd>>,
    open: Arc<AtomicBool>,
}

/// Why a command was not sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotSent {
    /// Too many wait.
    Full,
    /// The thread has not begun, or has ended.
    Away,
}

impl<C> CommandSender<C> {
    /// Sends a command, and wakes the thread if it sleeps.
    ///
    /// # Errors
    ///
    /// See [`NotSent`].
    pub fn send(&self, command: C) -> Result<(), NotSent> {
        if !self.open.load(Ordering::Acquire) {
            return Err(NotSent::Away);
        }
        match self.commands.try_send(command) {
            Ok(()) => {}
            Err(TrySendError::Full(_)) => return Err(NotSent::Full),
            Err(TrySendError::Disconnected(_)) => return Err(NotSent::Away),
        }
        self.wake();
        Ok(())
    }

    /// Wakes the thread if it sleeps.
    pub fn wake(&self) {
        if let Some(wake) = &self.wake {
            // A full counter wakes as well.
            let _ = rustix::io::write(wake, &1u64.to_ne_bytes());
        }
    }
}

impl<C> Clone for CommandSender<C> {
    fn clone(&self) -> CommandSender<C> {
        CommandSender {
            commands: self.commands.clone(),
            wake: self.wake.clone(),
            open: Arc::clone(&self.open),
        }
    }
}

impl<C> fmt::Debug for CommandSender<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CommandSender").finish_non_exhaustive()
    }
}

/// The receiving end, on the thread that carries commands out.
pub struct CommandReceiver<C> {
    commands: Receiver<C>,
    wake: Option<Arc<OwnedFd>>,
    open: Arc<AtomicBool>,
    /// Commands taken less wake-ups taken. Below zero, commands are left whose
    /// wake-ups were taken already.
    unwoken: i64,
}

impl<C> fmt::Debug for CommandReceiver<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CommandReceiver").finish_non_exhaustive()
    }
}

/// A command channel, open. With `sleeps` the receiver has a descriptor
/// ([`CommandReceiver::descriptor`]), for a thread that sleeps on descriptors.
///
/// # Errors
///
/// No file descriptor is left.
pub fn command_channel<C>(sleeps: bool) -> io::Result<(CommandSender<C>, CommandReceiver<C>)> {
    let (sender, receiver) = sync_channel(WAITING);
    let wake = match sleeps {
        true => {
            let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
            Some(Arc::new(eventfd(0, flags)?))
        }
        false => None,
    };
    let open = Arc::new(AtomicBool::new(true));
    let sender = CommandSender {
        commands: sender,
        wake: wake.clone(),
        open: Arc::clone(&open),
    };
    let receiver = CommandReceiver {
        commands: receiver,
        wake,
        open,
        unwoken: 0,
    };
    Ok((sender, receiver))
}

/// The end of a channel that nobody sends to.
impl<C> Default for CommandReceiver<C> {
    fn default() -> CommandReceiver<C> {
        CommandReceiver {
            commands: sync_channel(0).1,
            wake: None,
            open: Arc::default(),
            unwoken: 0,
        }
    }
}

impl<C> CommandReceiver<C> {
    /// Opens or closes the channel: a node that has no thread yet takes no commands,
    /// which its senders are told ([`NotSent::Away`]).
    pub fn set_open(&self, open: bool) {
        self.open.store(open, Ordering::Release);
    }

    /// Can be read from when there is a command.
    pub fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.wake.as_deref().map(|wake| wake.as_fd())
    }

    /// Commands are left that no descriptor tells of: the thread should not sleep.
    pub fn is_busy(&self) -> bool {
        self.unwoken < 0
    }

    /// All commands that wait, for a thread that does nothing else and sleeps until
    /// the next one.
    pub fn take_all(&mut self) -> Vec<C> {
        // First, so that a command that is sent from here on wakes it again.
        if let Some(wake) = &self.wake {
            let _ = rustix::io::read(wake, &mut [0; 8]);
        }
        self.commands.try_iter().collect()
    }

    /// Carries out some commands: as many as packets can wait for.
    pub fn carry_out(&mut self, mut each: impl FnMut(C)) {
        for command in self.commands.try_iter().take(AT_ONCE) {
            self.unwoken += 1;
            each(command);
        }
        self.take_wakes();
    }

    /// A wake-up may come after its command was taken: it is waited for, or the
    /// thread would not sleep any more.
    fn take_wakes(&mut self) {
        if self.unwoken <= 0 {
            return;
        }
        let Some(wake) = &self.wake else {
            self.unwoken = 0;
            return;
        };
        let mut count = [0; 8];
        if let Ok(8) = rustix::io::read(wake, &mut count) {
            let woken = i64::try_from(u64::from_ne_bytes(count)).unwrap_or(i64::MAX);
            self.unwoken = self.unwoken.saturating_sub(woken);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_woken(receiver: &CommandReceiver<usize>) -> bool {
        use rustix::event::{PollFd, PollFlags, poll};
        let fd = receiver.descriptor().unwrap();
        let now = rustix::event::Timespec::default();
        poll(&mut [PollFd::new(&fd, PollFlags::IN)], Some(&now)).unwrap() > 0
    }

    /// All wake-ups are taken with the first commands.
    #[test]
    fn all_commands_are_carried_out_before_the_thread_sleeps() {
        let (sender, mut receiver) = command_channel(true).unwrap();
        for count in [2 * AT_ONCE + 1, 1, AT_ONCE, AT_ONCE + 1] {
            for number in 0..count {
                sender.send(number).unwrap();
            }
            assert!(is_woken(&receiver));
            let mut done = Vec::new();
            while is_woken(&receiver) || receiver.is_busy() {
                let before = done.len();
                receiver.carry_out(|number| done.push(number));
                assert!(done.len() <= before + AT_ONCE);
            }
            assert_eq!(done, (0..count).collect::<Vec<_>>());
        }
    }

    #[test]
    fn a_sender_is_told_why_nothing_was_sent() {
        let (sender, receiver) = command_channel(false).unwrap();
        receiver.set_open(false);
        assert_eq!(sender.send(0), Err(NotSent::Away));
        receiver.set_open(true);
        for number in 0..WAITING {
            assert_eq!(sender.send(number), Ok(()));
        }
        assert_eq!(sender.send(0), Err(NotSent::Full));
        drop(receiver);
        assert_eq!(sender.send(0), Err(NotSent::Away));
    }
}
