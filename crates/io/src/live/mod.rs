//! Live ports: interfaces of this machine, for packets to come in and go out.
//!
//! A live port is both at once, an [`InputPort`] and an [`OutputPort`], on one
//! side of the chain. It never waits by itself: a driver that finds nothing on
//! any of its ports sleeps in [`Waiter::sleep`].

mod af_packet;
mod clock;
mod counts;
mod facts;
mod interface;
#[cfg(test)]
mod members_tests;
mod segments;
mod spec;
mod tap;
#[cfg(test)]
mod tests;
mod turn;
mod waiter;
mod xdp;

use std::os::fd::BorrowedFd;

use weir_packet::{FramePool, Time};

pub use af_packet::PacketPort;
pub use clock::LiveClock;
pub use facts::{InterfaceFacts, interface_facts};
pub use spec::{LiveSpec, live_layout, live_sockets, member_frames};
pub use tap::TapPort;
pub use turn::{go_first, goes_first, take_turns};
pub use waiter::Waiter;
pub use xdp::{LARGEST_MTU as LARGEST_XDP_MTU, XdpMode, XdpPort};

use crate::port::{InputPort, OutputPort, PortError};
pub use crate::sys::signals::{EndSignals, Hangups};

/// A port that is an interface of this machine.
///
/// It may be opened on one thread and used by another.
pub trait LivePort: InputPort + OutputPort + Send {
    /// The kind, the mode that was obtained and the number of queues, for people.
    fn mode(&self) -> &str;

    /// Warnings: fall-backs, an interface that is down.
    fn warnings(&self) -> Vec<String>;

    /// A warning that arose since the port was opened, to be said at once: each is
    /// told one time, and is one of [`LivePort::warnings`], too.
    fn news(&mut self) -> Option<String> {
        None
    }

    /// Descriptors to wait for packets on, to the end of `into`.
    fn descriptors<'a>(&'a self, into: &mut Vec<BorrowedFd<'a>>);

    /// When it has something to do that no descriptor tells of.
    fn next_due(&self) -> Option<Time> {
        None
    }

    /// Looks whether the interface is still there.
    ///
    /// # Errors
    ///
    /// If it is gone: no packet will come or go any more.
    fn check(&mut self) -> Result<(), PortError>;

    /// Puts out what still waits, for at most some tens of milliseconds, and
    /// closes the port: all its frames are back in `pool` then. Counters stay. Of a
    /// port with several members none is closed before all have stopped receiving.
    fn close(&mut self, pool: &mut FramePool);
}

/// Which member of a port this is: a port that several workers own has one for each.
#[derive(Clone, Copy, Debug)]
struct Member {
    index: u32,
    count: u32,
}

impl Member {
    /// The only one of its port.
    const ONLY: Member = Member { index: 0, count: 1 };

    /// True for the member that counts and warns for the interface as a whole.
    fn is_first(self) -> bool {
        self.index == 0
    }

    /// The number, in its port, of the member's packet of number `own` (from 1).
    #[inline]
    fn number(self, own: u64) -> u64 {
        own * u64::from(self.count) - u64::from(self.count - 1 - self.index)
    }
}

/// Options of every live port.
#[derive(Clone, Copy, Debug)]
pub struct LiveOptions {
    /// Number as an ingress port.
    pub number: u8,
    /// Side of the chain.
    pub side: weir_packet::Side,
    /// The clock that ingress times are read from.
    pub clock: LiveClock,
    /// The driver never sleeps: the kernel is asked to leave its queues to it,
    /// where it can (XDP sockets).
    pub busy_poll: bool,
}
