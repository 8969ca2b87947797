//! `af-packet:IFACE`: a packet socket.

use std::cell::Cell;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use weir_packet::{Frame, FrameMeta, FramePool, HEADROOM, LinkType, PacketMemory};

use super::counts::{Counts, Sent, Unsent};
use super::interface::Interface;
use super::{LiveOptions, LivePort};
use crate::port::{InputPort, OutputPort, PortCounters, PortError, Received};
use crate::sys::burst::{BURST, Burst};
use crate::sys::socket;

/// Octets of packets that the kernel keeps for us, its own overhead included.
const KERNEL_BUFFER: libc::c_int = 8 << 20;
const TAG_BYTES: usize = 4;
const ADDRESS_BYTES: usize = 12;

/// Everything that an interface receives, also for others, and a way to send on
/// it. What the machine or weir itself sends there is not read back.
#[derive(Debug)]
pub struct PacketPort {
    interface: Interface,
    options: LiveOptions,
    socket: OwnedFd,
    burst: Burst,
    mode: String,
    /// Frames that the next packets are read into.
    ready: Vec<Frame>,
    sequence: u64,
    input: Counts,
    output: Sent,
    too_large: u64,
    partial_checksums: u64,
    /// What the kernel dropped for want of room, as far as it was asked.
    kernel_dropped: Cell<u64>,
}

impl PacketPort {
    /// Opens one on an interface; `port` is how it was written.
    ///
    /// # Errors
    ///
    /// Where the interface is not there, or the kernel refuses.
    pub fn open(port: &str, name: &str, options: LiveOptions) -> Result<PacketPort, PortError> {
        let interface = Interface::find(port, name)?;
        let socket = open(&interface).map_err(|error| interface.failure(&error))?;
        let mode = format!("AF_PACKET, promiscuous, MTU {}", interface.mtu);
        Ok(PacketPort {
            interface,
            options,
            socket,
            burst: Burst::new(),
            mode,
            ready: Vec::with_capacity(BURST),
            sequence: 0,
            input: Counts::default(),
            output: Sent::default(),
            too_large: 0,
            partial_checksums: 0,
            kernel_dropped: Cell::new(0),
        })
    }

    /// Makes a packet of what was read into `frame`.
    fn packet(
        &mut self,
        number: usize,
        mut frame: Frame,
        now: weir_packet::Time,
        memory: &PacketMemory,
        pool: &mut FramePool,
        into: &mut Vec<Frame>,
    ) {
        let arrived = self.burst.arrived(number);
        self.sequence += 1;
        let room = memory.room(&frame) - HEADROOM;
        if arrived.len < arrived.whole {
            self.drop_too_large(arrived.whole);
            pool.give(frame);
            return;
        }
        if arrived.len > room {
            // What a segment offload made: into a large frame.
            let Ok(mut large) = pool.take(arrived.len) else {
                self.drop_too_large(arrived.len);
                pool.give(frame);
                return;
            };
            let (_, from) = memory.split_mut(&mut frame);
            let (_, to) = memory.split_mut(&mut large);
            if let Some((to, rest)) = to
                .get_mut(HEADROOM..HEADROOM + arrived.len)
                .and_then(|to| to.split_at_mut_checked(room))
                && let Some(from) = from.get(HEADROOM..HEADROOM + room)
                && let Some(spilled) = self.burst.spilled(number).get(..rest.len())
            {
                to.copy_from_slice(from);
                rest.copy_from_slice(spilled);
            }
            pool.give(frame);
            frame = large;
        }
        let (meta, bytes) = memory.split_mut(&mut frame);
        let mut received = FrameMeta::received(now, arrived.len as u32);
        if let Some((id, tag)) = arrived.vlan
            && arrived.len >= ADDRESS_BYTES
        {
            // The addresses move down; the tag comes back behind them.
            let start = HEADROOM - TAG_BYTES;
            bytes.copy_within(HEADROOM..HEADROOM + ADDRESS_BYTES, start);
            if let Some(place) = bytes.get_mut(start + ADDRESS_BYTES..HEADROOM + ADDRESS_BYTES) {
                let (ids, tags) = (id.to_be_bytes(), tag.to_be_bytes());
                place.copy_from_slice(&[ids[0], ids[1], tags[0], tags[1]]);
            }
            received.start = start as u16;
            received.len += TAG_BYTES as u32;
            received.wire_len = received.len;
        }
        received.link = LinkType::Ethernet;
        received.sequence = self.sequence;
        received.port = self.options.number;
        received.side = self.options.side;
        *meta = received;
        self.input.add(u64::from(received.len));
        self.partial_checksums += u64::from(arrived.partial_checksum);
        into.push(frame);
    }

    fn drop_too_large(&mut self, bytes: usize) {
        self.too_large += 1;
        self.input.dropped_bytes += bytes as u64;
    }

    /// Asks the kernel what it dropped since it was last asked.
    fn ask_drops(&self) {
        let asked: io::Result<libc::tpacket_stats> = socket::get(
            self.socket.as_fd(),
            libc::SOL_PACKET,
            libc::PACKET_STATISTICS,
        );
        if let Ok(statistics) = asked {
            let dropped = u64::from(statistics.tp_drops);
            self.kernel_dropped.set(self.kernel_dropped.get() + dropped);
        }
    }

    /// Counts a packet that the kernel would not send; an end where the
    /// interface is gone.
    fn refused(&mut self, error: &io::Error, bytes: u64) -> Result<(), PortError> {
        let why = Unsent::of(error);
        self.output.drop(why, bytes);
        if why == Unsent::Down {
            self.interface.check()?;
            if error.raw_os_error() != Some(libc::ENETDOWN) {
                return Err(self.interface.failure(error));
            }
        }
        Ok(())
    }
}

/// Opens and binds the socket. It is given packets only when all is set, so
/// that none comes without its auxiliary data or as one of our own.
fn open(interface: &Interface) -> io::Result<OwnedFd> {
    let socket = socket::open(libc::AF_PACKET, libc::SOCK_RAW)?;
    let fd = socket.as_fd();
    let set = |name, value: libc::c_int| socket::set(fd, libc::SOL_PACKET, name, &value);
    set(libc::PACKET_AUXDATA, 1)?;
    set(libc::PACKET_IGNORE_OUTGOING, 1).map_err(|error| {
        io::Error::other(format!(
            "the kernel can't leave out what is sent ({error}): Linux 4.20 or newer is needed"
        ))
    })?;
    // More than the system's limit takes a privilege, less takes none.
    for (force, plain) in [
        (libc::SO_RCVBUFFORCE, libc::SO_RCVBUF),
        (libc::SO_SNDBUFFORCE, libc::SO_SNDBUF),
    ] {
        socket::set(fd, libc::SOL_SOCKET, force, &KERNEL_BUFFER)
            .or_else(|_| socket::set(fd, libc::SOL_SOCKET, plain, &KERNEL_BUFFER))?;
    }
    let promiscuous = libc::packet_mreq {
        mr_ifindex: interface.index as libc::c_int,
        mr_type: libc::PACKET_MR_PROMISC as u16,
        mr_alen: 0,
        mr_address: [0; 8],
    };
    socket::set(
        fd,
        libc::SOL_PACKET,
        libc::PACKET_ADD_MEMBERSHIP,
        &promiscuous,
    )?;
    socket::bind_packet(fd, interface.index)?;
    Ok(socket)
}

impl InputPort for PacketPort {
    fn receive(
        &mut self,
        pool: &mut FramePool,
        into: &mut Vec<Frame>,
        max: usize,
    ) -> Result<Received, PortError> {
        let want = max.min(BURST);
        while self.ready.len() < want {
            match pool.take(0) {
                Ok(frame) => self.ready.push(frame),
                Err(_) => break,
            }
        }
        if self.ready.is_empty() {
            // What comes waits in the kernel, which counts what it drops.
            return Ok(Received::More);
        }
        let count = self.ready.len().min(want);
        let received = {
            let frames = self.ready.get_mut(..count).unwrap_or_default();
            self.burst
                .receive(self.socket.as_fd(), pool.memory(), frames)
        };
        let received = match received {
            Ok(received) => received,
            Err(error) => match error.raw_os_error() {
                Some(libc::EAGAIN | libc::EINTR) => 0,
                // Set down, or gone; it may be set up again.
                Some(libc::ENETDOWN) => {
                    self.interface.check()?;
                    0
                }
                _ => return Err(self.interface.failure(&error)),
            },
        };
        if received == 0 {
            return Ok(Received::More);
        }
        let now = self.options.clock.now();
        let memory = Arc::clone(pool.memory());
        let mut ready = core::mem::take(&mut self.ready);
        for (number, frame) in ready.drain(..received).enumerate() {
            self.packet(number, frame, now, &memory, pool, into);
        }
        self.ready = ready;
        Ok(Received::More)
    }

    fn counters(&self) -> PortCounters {
        self.ask_drops();
        let drops = [
            ("kernel_dropped", self.kernel_dropped.get()),
            ("frame_too_large", self.too_large),
        ];
        let noticed = [("partial_checksum", self.partial_checksums)];
        self.input.counters(&self.mode, &drops, &noticed)
    }
}

impl OutputPort for PacketPort {
    fn send(&mut self, pool: &mut FramePool, frames: &mut Vec<Frame>) -> Result<(), PortError> {
        let memory: Arc<PacketMemory> = Arc::clone(pool.memory());
        let mut done = 0;
        let mut result = Ok(());
        while let Some(rest) = frames.get(done..).filter(|rest| !rest.is_empty()) {
            let length = |frame: &Frame| u64::from(memory.meta(frame).len);
            match self.burst.send(self.socket.as_fd(), &memory, rest) {
                Ok(sent) => {
                    let sent = sent.clamp(1, rest.len());
                    self.output.counts.packets += sent as u64;
                    self.output.counts.bytes += rest.iter().take(sent).map(length).sum::<u64>();
                    done += sent;
                }
                Err(error) if error.raw_os_error() == Some(libc::EINTR) => {}
                Err(error) => {
                    done += 1;
                    if let Err(error) = self.refused(&error, rest.first().map_or(0, length)) {
                        self.output.failed += frames.len().saturating_sub(done) as u64;
                        result = Err(error);
                        break;
                    }
                }
            }
        }
        pool.give_all(frames);
        result
    }

    fn counters(&self) -> PortCounters {
        self.output.counters(&self.mode)
    }
}

impl LivePort for PacketPort {
    fn mode(&self) -> &str {
        &self.mode
    }

    fn warnings(&self) -> Vec<String> {
        let mut warnings: Vec<String> = self.interface.warning().into_iter().collect();
        if self.partial_checksums > 0 {
            warnings.push(format!(
                "{}: {} packets came without their checksums, which their sender, on this machine, \
                 leaves to a card; receivers will refuse them: `ethtool -K IFACE tx off` on the \
                 sender's interface",
                self.interface.port, self.partial_checksums
            ));
        }
        warnings
    }

    fn descriptors<'a>(&'a self, into: &mut Vec<BorrowedFd<'a>>) {
        into.push(self.socket.as_fd());
    }

    fn check(&mut self) -> Result<(), PortError> {
        self.ask_drops();
        self.interface.check()
    }

    fn close(&mut self, pool: &mut FramePool) {
        pool.give_all(&mut self.ready);
    }
}
