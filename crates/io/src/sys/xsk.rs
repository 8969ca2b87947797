//! An XDP socket: a queue of an interface, four rings, and the packet memory.
//!
//! # Safety
//!
//! The kernel is told of one range: the small frames of a packet memory, which
//! is page-aligned, a whole number of pages, and kept alive by the socket
//! beyond the kernel's use of it (the fields are dropped in order: first the
//! rings, then the descriptor, after which the kernel lets go, then the
//! memory; the pages are pinned by the kernel besides). Inside the range the
//! kernel reads and writes only chunks that are in one of the rings. A chunk
//! gets there as a frame that was lent ([`weir_packet::Lent`]), of which no
//! reference exists until it is taken back from a ring of the kernel's, or
//! until the socket is closed.

#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use weir_packet::{META_BYTES, PacketMemory};

use super::ring::{Consumer, Producer};
use super::socket;

/// Octets that the kernel keeps in front of a received packet, beside the
/// headroom that it is asked for (`XDP_PACKET_HEADROOM`).
pub(crate) const KERNEL_HEADROOM: u32 = 256;
/// `XDP_MAX_TX_SKB_BUDGET`: packets that one call may send in copy mode.
const MAX_TX_BUDGET: libc::c_int = 9;

/// Octets of packets that the kernel has of ours to send where it copies them, its
/// own overhead included.
const SEND_BUFFER: libc::c_int = 8 << 20;

/// Calls to the kernel after which what is left to send waits for the next
/// flush. Old kernels send 32 packets per call.
const MOST_KICKS: u32 = 80;

/// `SO_PREFER_BUSY_POLL`, `SO_BUSY_POLL_BUDGET`.
const PREFER_BUSY_POLL: libc::c_int = 69;
const BUSY_POLL_BUDGET: libc::c_int = 70;
/// Value of `SO_BUSY_POLL`, in microseconds. Calls that don't wait poll once, with any
/// value above 0.
const BUSY_POLL: libc::c_int = 20;
/// Packets that the driver takes in one call: twice as many come, since the
/// kernel looks again before it leaves.
const BUDGET: libc::c_int = 64;

/// Settings of a socket.
#[derive(Clone, Copy, Debug)]
pub(crate) struct XskSettings {
    pub(crate) interface: u32,
    pub(crate) queue: u32,
    /// Slots of each ring, a power of two.
    pub(crate) slots: u32,
    /// With a way out, not only in.
    pub(crate) transmit: bool,
    /// Frames are copied even if the driver could do without.
    pub(crate) copy: bool,
}

/// An XDP socket.
#[derive(Debug)]
pub(crate) struct Xsk {
    /// Frames for packets to come.
    pub(crate) fill: Producer<u64>,
    /// Frames that were sent.
    pub(crate) completion: Consumer<u64>,
    /// Packets that came.
    pub(crate) receive: Consumer<libc::xdp_desc>,
    /// Packets to go.
    pub(crate) transmit: Option<Producer<libc::xdp_desc>>,
    fd: OwnedFd,
    _memory: Arc<PacketMemory>,
}

impl Xsk {
    /// Opens one on `memory`, bound to its queue.
    pub(crate) fn open(memory: &Arc<PacketMemory>, settings: &XskSettings) -> io::Result<Xsk> {
        let socket = socket::open(libc::AF_XDP, libc::SOCK_RAW)?;
        let fd = socket.as_fd();
        let (start, bytes) = memory.small_frames();
        let chunk = memory.layout().small_bytes;
        if !start.addr().is_multiple_of(4_096)
            || !bytes.is_multiple_of(4_096)
            || !matches!(chunk, 2_048 | 4_096)
        {
            return Err(io::Error::other(
                "the packet memory was not laid out for AF_XDP",
            ));
        }
        // SAFETY: a C structure of numbers.
        let mut register: libc::xdp_umem_reg = unsafe { std::mem::zeroed() };
        register.addr = start.expose_provenance() as u64;
        register.len = bytes as u64;
        register.chunk_size = chunk;
        register.headroom = META_BYTES as u32;
        socket::set(fd, libc::SOL_XDP, libc::XDP_UMEM_REG, &register)?;
        let slots = settings.slots as libc::c_int;
        for ring in [libc::XDP_UMEM_FILL_RING, libc::XDP_UMEM_COMPLETION_RING] {
            socket::set(fd, libc::SOL_XDP, ring, &slots)?;
        }
        socket::set(fd, libc::SOL_XDP, libc::XDP_RX_RING, &slots)?;
        if settings.transmit {
            socket::set(fd, libc::SOL_XDP, libc::XDP_TX_RING, &slots)?;
            // If the kernel copies, a burst is not to wait for room. More than the system's limit
            // takes a privilege.
            let _ = socket::set(fd, libc::SOL_SOCKET, libc::SO_SNDBUFFORCE, &SEND_BUFFER)
                .or_else(|_| socket::set(fd, libc::SOL_SOCKET, libc::SO_SNDBUF, &SEND_BUFFER));
            // Kernels before 6.18 have it not: there a call sends 32.
            let _ = socket::set(fd, libc::SOL_XDP, MAX_TX_BUDGET, &slots);
        }
        let at: libc::xdp_mmap_offsets = socket::get(fd, libc::SOL_XDP, libc::XDP_MMAP_OFFSETS)?;
        let slots = settings.slots;
        let xsk = Xsk {
            fill: Producer::new(fd, libc::XDP_UMEM_PGOFF_FILL_RING, &at.fr, slots)?,
            completion: Consumer::new(fd, libc::XDP_UMEM_PGOFF_COMPLETION_RING, &at.cr, slots)?,
            receive: Consumer::new(fd, libc::XDP_PGOFF_RX_RING as u64, &at.rx, slots)?,
            transmit: settings
                .transmit
                .then(|| Producer::new(fd, libc::XDP_PGOFF_TX_RING as u64, &at.tx, slots))
                .transpose()?,
            fd: socket,
            _memory: Arc::clone(memory),
        };
        let copy = if settings.copy { libc::XDP_COPY } else { 0 };
        let flags = libc::XDP_USE_NEED_WAKEUP | copy;
        socket::bind_xdp(xsk.as_fd(), settings.interface, settings.queue, flags)?;
        Ok(xsk)
    }

    /// Shows the kernel what is to be sent, and calls it until it has taken
    /// that, or will not now.
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        let Some(ring) = self.transmit.as_mut() else {
            return Ok(());
        };
        ring.publish();
        let mut waiting = ring.waiting()?;
        for _ in 0..MOST_KICKS {
            if waiting == 0 || !ring.needs_wake_up() {
                break;
            }
            socket::kick(self.fd.as_fd())?;
            let left = ring.waiting()?;
            if left == waiting {
                break;
            }
            waiting = left;
        }
        Ok(())
    }

    /// From now on the driver runs when it is polled ([`Xsk::poll`]), on the
    /// caller's processor, and not when a packet comes.
    pub(crate) fn prefer_polling(&self) -> io::Result<()> {
        let set =
            |name, value: libc::c_int| socket::set(self.as_fd(), libc::SOL_SOCKET, name, &value);
        set(PREFER_BUSY_POLL, 1)?;
        set(BUSY_POLL_BUDGET, BUDGET)?;
        set(libc::SO_BUSY_POLL, BUSY_POLL)
    }

    /// Has the driver look for packets now.
    pub(crate) fn poll(&self) {
        socket::wake_receiver(self.as_fd());
    }

    /// True where the driver reads and writes the frames itself.
    pub(crate) fn is_zero_copy(&self) -> io::Result<bool> {
        let options: libc::xdp_options =
            socket::get(self.as_fd(), libc::SOL_XDP, libc::XDP_OPTIONS)?;
        Ok(options.flags & libc::XDP_OPTIONS_ZEROCOPY != 0)
    }

    /// Counts of the kernel since the socket was opened.
    pub(crate) fn statistics(&self) -> io::Result<libc::xdp_statistics> {
        socket::get(self.as_fd(), libc::SOL_XDP, libc::XDP_STATISTICS)
    }
}

impl AsFd for Xsk {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}
