//! The XDP program on an interface: what all members of a port share.

use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::sync::{Mutex, PoisonError};

use super::super::interface::Interface;
use crate::port::PortError;
use crate::sys::bpf::{Attach, DropCount, Link, Program, SocketMap};
use crate::sys::socket;

/// Place where the kernel hands packets to XDP sockets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum XdpMode {
    /// In the driver if it can, else in the general receive path; a fall-back
    /// is warned of.
    #[default]
    Any,
    /// In the driver, or not at all.
    Native,
    /// In the general receive path.
    Generic,
}

/// The program, attached, with its map from queues to sockets.
#[derive(Debug)]
pub(super) struct Attachment {
    /// `None` once the first member has closed: detached before any socket is
    /// gone, so that no packet comes for a closed one. Locked a few times per
    /// second at most, never for a packet.
    link: Mutex<Option<Link>>,
    map: SocketMap,
    /// Queues that have a place in `map`.
    map_size: u32,
    /// Counts packets dropped on queues that were added later; `None` where the
    /// port does not have all queues, and the program passes the others' packets.
    added: Option<DropCount>,
    /// The count of `added` before the sockets were in the map.
    added_before: u64,
    mode: Attach,
    /// As long as this is open the card receives frames for all stations.
    _promiscuous: OwnedFd,
}

impl Attachment {
    /// Attaches the program for queues 0 to `queues` - 1; adds a warning where the
    /// mode is not the best one.
    ///
    /// # Errors
    ///
    /// The kernel refuses, or `mode` cannot be had.
    pub(super) fn open(
        interface: &Interface,
        queues: u32,
        mode: XdpMode,
        warnings: &mut Vec<String>,
    ) -> Result<Attachment, PortError> {
        let fail = |error: io::Error| interface.failure(&error);
        // This socket receives nothing: it makes the card promiscuous.
        let promiscuous = socket::open(libc::AF_PACKET, libc::SOCK_RAW).map_err(fail)?;
        socket::be_promiscuous(promiscuous.as_fd(), interface.index).map_err(fail)?;
        let map = SocketMap::new(queues).map_err(fail)?;
        // A port that has all queues drops, and counts, packets of queues that are
        // added later: they must not pass the chain by.
        let added = match queues < interface.queues {
            true => None,
            false => Some(DropCount::new().map_err(fail)?),
        };
        let program = Program::load(&map, added.as_ref()).map_err(fail)?;
        let (link, mode) = attach(interface, &program, mode, warnings)?;
        Ok(Attachment {
            link: Mutex::new(Some(link)),
            map,
            map_size: queues,
            added,
            added_before: 0,
            mode,
            _promiscuous: promiscuous,
        })
    }

    /// The mode that was obtained.
    pub(super) fn mode(&self) -> Attach {
        self.mode
    }

    /// Queues that the port had when it was opened.
    pub(super) fn queues(&self) -> u32 {
        self.map_size
    }

    /// True where the port has all queues of its interface.
    pub(super) fn has_all_queues(&self) -> bool {
        self.added.is_some()
    }

    /// Directs the packets of `queue` to a socket.
    pub(super) fn direct(&self, queue: u32, socket: BorrowedFd<'_>) -> io::Result<()> {
        self.map.set(queue, socket)
    }

    /// All sockets are in the map: what was dropped until now came before the port
    /// was open.
    pub(super) fn begin(&mut self) {
        self.added_before = self.added_count();
    }

    fn added_count(&self) -> u64 {
        let count = self.added.as_ref();
        count.map_or(0, |count| count.read().unwrap_or(0))
    }

    /// Packets dropped since they came on queues that were added.
    pub(super) fn dropped_on_added_queues(&self) -> u64 {
        self.added_count().saturating_sub(self.added_before)
    }

    /// Puts the program on queues that were added, too: a veth has it only on those
    /// that were there when it was attached.
    pub(super) fn cover_added_queues(&self) -> io::Result<()> {
        let link = self.link.lock().unwrap_or_else(PoisonError::into_inner);
        match (&*link, &self.added) {
            (Some(link), Some(added)) => {
                Program::load(&self.map, Some(added)).and_then(|program| link.update(&program))
            }
            _ => Ok(()),
        }
    }

    /// Takes the program off the interface.
    pub(super) fn detach(&self) {
        let mut link = self.link.lock().unwrap_or_else(PoisonError::into_inner);
        drop(link.take());
    }
}

/// Attaches the program in the best mode allowed; says where that is not the
/// best there is.
fn attach(
    interface: &Interface,
    program: &Program,
    mode: XdpMode,
    warnings: &mut Vec<String>,
) -> Result<(Link, Attach), PortError> {
    let port = interface.port.as_str();
    let busy = |error: &io::Error| {
        matches!(error.raw_os_error(), Some(libc::EBUSY | libc::EEXIST)).then(|| {
            let message = format!(
                "{name} has an XDP program already: `ip link set {name} xdp off` takes it off, if no \
                 other program of this kind runs",
                name = interface.name
            );
            PortError::new(port, message)
        })
    };
    if mode != XdpMode::Generic {
        match program.attach(interface.index, Attach::Driver) {
            Ok(link) => return Ok((link, Attach::Driver)),
            Err(error) => {
                if let Some(busy) = busy(&error) {
                    return Err(busy);
                }
                let why = refusal(&error);
                if mode == XdpMode::Native {
                    let message = format!(
                        "native mode can't be had: {why}; without `:native` generic mode is used"
                    );
                    return Err(PortError::new(port, message));
                }
                warnings.push(format!(
                    "{port}: native mode can't be had: {why}; it runs in generic mode, which is slower"
                ));
            }
        }
    }
    match program.attach(interface.index, Attach::Generic) {
        Ok(link) => Ok((link, Attach::Generic)),
        Err(error) => Err(busy(&error).unwrap_or_else(|| interface.failure(&error))),
    }
}

/// Why a driver would not have a program.
fn refusal(error: &io::Error) -> String {
    match error.raw_os_error() {
        Some(libc::ENOSPC) => {
            "the interface has fewer receive queues than its peer has transmit queues \
             (`ethtool -L`)"
                .to_owned()
        }
        Some(libc::EOPNOTSUPP) => "the driver has no XDP".to_owned(),
        Some(libc::ERANGE | libc::EINVAL) => {
            format!("the driver refuses, perhaps for a large MTU or an offload ({error})")
        }
        _ => error.to_string(),
    }
}
