//! Commands to the threads that move packets, over the command channel
//! ([`weir_exec::command_channel`]).
//!
//! A command that visits all flows is carried out in slices, one per round.

mod compare;
mod counts;
mod flowlets;
mod flows;
mod moves;
mod network;
mod part;
mod replace;
mod reply;
mod resize;
mod scaling;
mod target;

use std::collections::VecDeque;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use weir_exec::{CommandReceiver, command_channel};
use weir_packet::filter::Filter;

use crate::observe::Arm;
use crate::sets::SetChange;

pub use compare::{Comparing, Comparison};
pub use counts::ThreadCounts;
pub use flowlets::FlowletCounts;
pub use flows::{
    Ended, FlowParts, FlowQuery, FlowSeen, FlowSort, FlowsFound, FlowsQuery, StatesSeen, in_order,
};
use flows::{Walk, parts_of};
pub use moves::{MoveUnits, Moving};
pub use network::{LayerReport, RouterReport};
pub use part::{
    Counted, Part, PartReport, RuntimePlaceCounts, Site, StageProcessCounts, SwitchCounts, Visit,
    around,
};
pub use replace::Replacement;
pub use reply::Reply;
pub use resize::{HandingOver, Resize, Resized, Resizing};
pub use scaling::{Decided, RuntimeLoad, ScalingCounts};
pub use target::CommandTarget;

/// Sends commands to one thread.
pub type CommandSender = weir_exec::CommandSender<Command>;

/// A command to a thread, with the way of its reply.
pub enum Command {
    /// Tell its counts.
    Counts(Reply<ThreadCounts>),
    /// List the open flows that match.
    Flows(FlowsQuery, Reply<FlowsFound>),
    /// Tell of one flow, and the states that the functions here have of it.
    Flow(FlowQuery, Reply<FlowParts>),
    /// End the flows that match. The reply counts them; it is `None` where the thread
    /// runs no chain whose flows can be ended.
    End(Arc<Filter>, Reply<Option<Ended>>),
    /// Tell how far the comparison of copies is. With `true` one begins, unless one is under way.
    Compare(bool, Reply<Comparing>),
    /// Move units between runtimes. The reply does not wait for them.
    Move(MoveUnits, Reply<Moving>),
    /// Start or drain runtimes. The reply does not wait for them.
    Resize(Resize, Reply<Resizing>),
    /// Let out what is under way, leave the runtimes to the next switch, and end. The reply, which is
    /// `None` where there is no switch, does not wait for that; an error says why not.
    HandOver(Reply<HandingOver>),
    /// Read the files again where engines load them themselves, and build the functions that have
    /// changed. The number stands for what they are to say. An error says what they do say.
    Prepare(u64, Reply<Result<(), String>>),
    /// Put functions in the places of those that run. The reply is the number of engines that
    /// had one of them.
    Replace(Arc<Replacement>, Reply<usize>),
    /// A set has changed in this process: others are told. Without a change they are told all
    /// that is in the sets. An error says why one can't follow.
    Sets(Option<Arc<SetChange>>, Reply<Result<(), String>>),
    /// Arm or disarm a watch in each runtime. The reply is their number.
    Each(Arm, Reply<usize>),
}

/// Carries out the commands to one thread. The default one has no sender.
#[derive(Debug, Default)]
pub struct CommandHandler {
    receiver: CommandReceiver<Command>,
    /// Walks over all flows, in the order of their commands.
    walks: VecDeque<Walk>,
    /// Packets wait as long as this says so.
    held: Option<Arc<AtomicBool>>,
}

impl CommandHandler {
    /// A handler and its sender. `sleeps` is for a thread that sleeps on descriptors:
    /// [`CommandHandler::descriptor`] is one more.
    ///
    /// # Errors
    ///
    /// No file descriptor is left.
    pub fn new(sleeps: bool) -> std::io::Result<(CommandSender, CommandHandler)> {
        let (sender, receiver) = command_channel(sleeps)?;
        let handler = CommandHandler {
            receiver,
            walks: VecDeque::new(),
            held: None,
        };
        Ok((sender, handler))
    }

    /// Has the thread take no packets until what is returned becomes false, and a command comes.
    pub fn hold(&mut self) -> Arc<AtomicBool> {
        let held = Arc::new(AtomicBool::new(true));
        self.held = Some(Arc::clone(&held));
        held
    }

    /// True while the thread must take no packets: what they are judged by is not there yet.
    pub fn is_held(&self) -> bool {
        let held = self.held.as_ref();
        held.is_some_and(|held| held.load(Ordering::Acquire))
    }

    /// See [`CommandReceiver::set_open`].
    pub fn set_open(&self, open: bool) {
        self.receiver.set_open(open);
    }

    /// The thread has ended: callers whose commands it did not carry out are told so.
    /// Another thread may open the channel again.
    pub fn close(&mut self) {
        self.set_open(false);
        self.walks.clear();
        drop(self.receiver.take_all());
    }

    /// Can be read from when there is a command.
    pub fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.receiver.descriptor()
    }

    /// A walk is under way or commands are left: the thread should not sleep, and
    /// call again soon.
    pub fn is_busy(&self) -> bool {
        !self.walks.is_empty() || self.receiver.is_busy()
    }

    /// Carries out some of the commands that wait, and a slice of a walk.
    pub fn carry_out(&mut self, target: &mut dyn CommandTarget) {
        let walks = &mut self.walks;
        self.receiver.carry_out(|command| match command {
            // A reply that can't be sent is for a caller that has gone.
            Command::Counts(reply) => {
                let _ = reply.send(target.counts());
            }
            Command::Move(wanted, reply) => {
                let _ = reply.send(target.move_units(&wanted));
            }
            Command::Resize(wanted, reply) => {
                let _ = reply.send(target.resize(&wanted));
            }
            Command::Compare(begin, reply) => {
                let _ = reply.send(target.compare(begin));
            }
            Command::HandOver(reply) => {
                let _ = reply.send(target.hand_over());
            }
            // Engines of this process are given the functions.
            Command::Prepare(_, reply) => {
                let _ = reply.send(Ok(()));
            }
            // Engines of this process look into the same sets.
            Command::Sets(_, reply) => {
                let _ = reply.send(Ok(()));
            }
            Command::Replace(new, reply) => {
                let mut count = 0;
                target.parts(&mut |part| {
                    let functions = new.of_chain(part.chain);
                    count += usize::from(part.runtime.replace(functions) > 0);
                });
                target.replace(&new);
                let _ = reply.send(count);
            }
            Command::Each(action, reply) => {
                let mut count = 0;
                target.parts(&mut |part| {
                    action.apply(part.runtime);
                    count += 1;
                });
                let _ = reply.send(count);
            }
            Command::Flow(which, reply) => {
                let _ = reply.send(parts_of(which, target));
            }
            Command::End(filter, reply) => walks.push_back(Walk::end(filter, reply)),
            Command::Flows(wanted, reply) => walks.push_back(Walk::list(wanted, reply)),
        });
        if let Some(walk) = self.walks.front_mut()
            && walk.step(target)
        {
            self.walks.pop_front();
        }
    }
}
