//! Groups of packet sockets on one interface: each packet comes to one of them.
//!
//! Members are picked by the kernel's symmetric hash of the flow, so the packets of a
//! flow come to one member, in their order. A member whose ring is full drops: with
//! roll-over to another member packets of a flow would overtake each other.

use std::io;
use std::os::fd::BorrowedFd;

use super::socket;

/// By hash; what this machine sends is not received. Kernels before 5.18 do not know
/// the flag: there the filter leaves it out ([`Fanout::admit`]).
const KIND: libc::c_uint = libc::PACKET_FANOUT_HASH << 16 | IGNORE_OUTGOING << 16;
const IGNORE_OUTGOING: libc::c_uint = libc::PACKET_FANOUT_FLAG_IGNORE_OUTGOING;
/// The kernel finds a number that no other group has.
const NEW: libc::c_uint = libc::PACKET_FANOUT_FLAG_UNIQUEID << 16;
/// Most members of a group, of which the kernel takes 256.
pub(crate) const MOST_MEMBERS: u32 = 64;
const _: () = assert!(MOST_MEMBERS <= 256);

/// The kernel accepts a filtered packet up to so many octets: all of it.
const WHOLE: u32 = u32::MAX;

/// A group. It is there for as long as one of its members is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fanout {
    number: u16,
}

impl Fanout {
    /// Makes a group of one member: a socket that is bound, and closed by
    /// [`Fanout::close_off`] since before it was.
    pub(crate) fn create(first: BorrowedFd<'_>) -> io::Result<Fanout> {
        join(first, KIND | NEW)?;
        let kind: libc::c_int = socket::get(first, libc::SOL_PACKET, libc::PACKET_FANOUT)?;
        admit(first)?;
        Ok(Fanout {
            number: kind as u16,
        })
    }

    /// Adds a socket of the same interface, likewise bound and closed off.
    pub(crate) fn add(self, member: BorrowedFd<'_>) -> io::Result<()> {
        join(member, KIND | libc::c_uint::from(self.number))?;
        admit(member)
    }

    /// Has a socket receive nothing. One that is bound and not yet in its group
    /// would receive every packet that the members receive, too.
    pub(crate) fn close_off(socket: BorrowedFd<'_>) -> io::Result<()> {
        let nothing = [returns(0)];
        socket::filter(socket, &nothing)
    }
}

fn join(socket: BorrowedFd<'_>, kind: libc::c_uint) -> io::Result<()> {
    let kind = kind as libc::c_int;
    socket::set(socket, libc::SOL_PACKET, libc::PACKET_FANOUT, &kind)
}

/// Has a socket receive what comes in on the interface, and not what is sent there.
fn admit(socket: BorrowedFd<'_>) -> io::Result<()> {
    let kind = libc::SKF_AD_OFF + libc::SKF_AD_PKTTYPE;
    let incoming = [
        instruction(
            libc::BPF_LD | libc::BPF_B | libc::BPF_ABS,
            [0, 0],
            kind as u32,
        ),
        // Outgoing: on to the next instruction; else over it.
        instruction(
            libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K,
            [0, 1],
            u32::from(libc::PACKET_OUTGOING),
        ),
        returns(0),
        returns(WHOLE),
    ];
    socket::filter(socket, &incoming)
}

/// An instruction with the numbers of those to skip: if true, and if false.
fn instruction(code: u32, [jt, jf]: [u8; 2], k: u32) -> libc::sock_filter {
    libc::sock_filter {
        code: code as u16,
        jt,
        jf,
        k,
    }
}

/// Ends the filter: so many octets of the packet are accepted.
fn returns(octets: u32) -> libc::sock_filter {
    instruction(libc::BPF_RET | libc::BPF_K, [0, 0], octets)
}
