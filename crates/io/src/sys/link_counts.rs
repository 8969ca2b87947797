//! The kernel's counts of a network interface, asked for by its number (`RTM_GETSTATS`): one
//! question and one short answer, whatever its name is by now and however many interfaces there
//! are.

use std::io;
use std::os::fd::OwnedFd;

use super::socket;

const RTM_GETSTATS: u16 = 94;
const RTM_NEWSTATS: u16 = 92;
const REQUEST: u16 = 1;
/// `IFLA_STATS_LINK_64`, and the filter that asks for it alone.
const LINK_64: u16 = 1;
const FILTER: u32 = 1 << (LINK_64 - 1);
/// Octets of `struct nlmsghdr`, `struct if_stats_msg` and an attribute's header.
const HEADER: usize = 16;
const MESSAGE: usize = 12;
const ATTRIBUTE: usize = 4;

/// Packets that an interface dropped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Dropped {
    /// On their way in, before anybody saw them.
    pub(crate) received: u64,
    /// On their way out: of a TAP, those that nobody has read in time.
    pub(crate) transmitted: u64,
}

/// A way to ask the kernel about interfaces of this network namespace.
#[derive(Debug)]
pub(crate) struct LinkCounts(OwnedFd);

impl LinkCounts {
    pub(crate) fn open() -> io::Result<LinkCounts> {
        socket::open(libc::AF_NETLINK, libc::SOCK_RAW).map(LinkCounts)
    }

    /// Packets that the interface of this number has dropped; `None` where there is none.
    pub(crate) fn dropped(&self, index: u32) -> Option<Dropped> {
        let mut question = Vec::with_capacity(HEADER + MESSAGE);
        question.extend(((HEADER + MESSAGE) as u32).to_ne_bytes());
        question.extend(RTM_GETSTATS.to_ne_bytes());
        question.extend(REQUEST.to_ne_bytes());
        // Number of the question, and whose it is: nobody else asks here.
        question.extend([0; 8]);
        question.extend([0; 4]);
        question.extend(index.to_ne_bytes());
        question.extend(FILTER.to_ne_bytes());
        rustix::io::write(&self.0, &question).ok()?;
        // It has answered before it comes back.
        let mut answer = [0; 1_024];
        let len = rustix::io::read(&self.0, &mut answer).ok()?;
        read(answer.get(..len)?)
    }
}

/// Reads an answer.
fn read(answer: &[u8]) -> Option<Dropped> {
    let kind = u16::from_ne_bytes(*answer.get(4..)?.first_chunk()?);
    if kind != RTM_NEWSTATS {
        return None;
    }
    let attribute = answer.get(HEADER + MESSAGE..)?;
    if u16::from_ne_bytes(*attribute.get(2..)?.first_chunk()?) != LINK_64 {
        return None;
    }
    // `struct rtnl_link_stats64`: the seventh and eighth number count drops, the
    // sixteenth what a card had no room for.
    let number = |at: usize| {
        let octets = attribute.get(ATTRIBUTE + 8 * at..)?.first_chunk()?;
        Some(u64::from_ne_bytes(*octets))
    };
    Some(Dropped {
        received: number(6)? + number(15)?,
        transmitted: number(7)?,
    })
}
