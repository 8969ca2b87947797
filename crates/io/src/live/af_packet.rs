//! `af-packet:IFACE`: a packet socket.

use std::cell::Cell;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use weir_packet::{
    Frame, FrameMeta, FramePool, HEADROOM, LinkType, META_BYTES, NoFrame, PacketMemory, Time,
};

use super::counts::{Counts, Sent, Unsent};
use super::interface::Interface;
use super::segments::{Cut, complete};
use super::{LiveOptions, LivePort, Member};
use crate::port::{InputPort, OutputPort, PortCounters, PortDrop, PortError, PortNotice, Received};
use crate::sys::fanout::Fanout;
use crate::sys::offload::Offload;
use crate::sys::packet_ring::{Arrived, Lying, ReceiveRing, SendRing};
use crate::sys::{socket, whole};

/// Octets of packets that the kernel keeps for us beside the ring, and to send,
/// its own overhead included.
const KERNEL_BUFFER: libc::c_int = 8 << 20;
/// Octets of the largest packet. Segment offloads make up to 64 KiB, "BIG TCP"
/// more.
const LARGEST: usize = 1 << 18;
const TAG_BYTES: usize = 4;
/// Tags that make a packet longer than the MTU: of a provider and a customer.
const MOST_TAGS: usize = 2;
const ADDRESS_BYTES: usize = 12;
const LINK_BYTES: usize = 14;

/// Everything that an interface receives, also for others, and a way to send on
/// it. Packets that the machine or weir itself sends there are not read back.
#[derive(Debug)]
pub struct PacketPort {
    interface: Interface,
    options: LiveOptions,
    member: Member,
    /// The group whose members receive, where there are several.
    fanout: Option<Fanout>,
    /// Packets come by its ring; those that fit no slot are queued.
    receiver: OwnedFd,
    ring: ReceiveRing,
    large: Large,
    /// Bound to send only.
    sender: OwnedFd,
    outgoing: SendRing,
    mode: String,
    sequence: u64,
    input: Counts,
    output: Sent,
    too_large: u64,
    /// Segments that were left of a packet being cut when the port was closed.
    unfinished: u64,
    /// Packets whose checksums were completed, and those that were cut.
    completed: u64,
    cut: u64,
    /// Packets whose checksums could not be completed: receivers drop them.
    incomplete: u64,
    /// Packets that the kernel dropped for want of room: in the ring, as far as it
    /// was asked, and in the queue.
    kernel_dropped: Cell<u64>,
    /// The receiver has had an error: look at the interface.
    had_error: Cell<bool>,
    /// A packet came by the ring since the kernel was last asked what it dropped.
    came: Cell<bool>,
    /// Times that the ring was made anew, since the kernel had jammed it.
    jammed: u64,
}

/// A packet that fits no slot, or is to be cut into segments.
struct Large {
    bytes: Vec<u8>,
    len: usize,
    arrived: Arrived,
    /// How it is cut, while segments of it are left, and the next of them.
    cut: Option<Cut>,
    next: usize,
}

impl std::fmt::Debug for Large {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Large")
            .field("len", &self.len)
            .finish_non_exhaustive()
    }
}

impl Large {
    fn packet(&self) -> &[u8] {
        self.bytes.get(..self.len).unwrap_or_default()
    }
}

/// Result of reading the ring.
enum Step {
    Frame(Frame),
    /// A packet was put aside or dropped: look again.
    Again,
    /// Nothing is there, or no frame to put it in.
    Nothing,
}

impl PacketPort {
    /// Opens one on an interface; `port` is how it was written.
    ///
    /// # Errors
    ///
    /// If the interface is not there, or the kernel refuses.
    pub fn open(port: &str, name: &str, options: LiveOptions) -> Result<PacketPort, PortError> {
        PacketPort::open_member(port, name, options, Member::ONLY, &mut None)
    }

    /// Opens one with so many members (at least one): the kernel gives each packet to
    /// one of them, by a hash of its flow.
    ///
    /// # Errors
    ///
    /// As [`PacketPort::open`].
    pub fn open_members(
        port: &str,
        name: &str,
        options: LiveOptions,
        count: u32,
    ) -> Result<Vec<PacketPort>, PortError> {
        let mut fanout = None;
        (0..count.max(1))
            .map(|index| {
                let member = Member { index, count };
                PacketPort::open_member(port, name, options, member, &mut fanout)
            })
            .collect()
    }

    fn open_member(
        port: &str,
        name: &str,
        options: LiveOptions,
        member: Member,
        fanout: &mut Option<Fanout>,
    ) -> Result<PacketPort, PortError> {
        let interface = Interface::find(port, name)?;
        let fail = |error: io::Error| interface.failure(&error);
        let (receiver, ring) = open_receiver(&interface, member, fanout).map_err(fail)?;
        let (sender, outgoing) = open_sender(&interface).map_err(fail)?;
        Ok(PacketPort {
            mode: mode(&interface, member),
            interface,
            options,
            member,
            fanout: *fanout,
            receiver,
            ring,
            large: Large {
                bytes: vec![0; LARGEST],
                len: 0,
                arrived: Arrived::default(),
                cut: None,
                next: 0,
            },
            sender,
            outgoing,
            sequence: 0,
            input: Counts::default(),
            output: Sent::default(),
            too_large: 0,
            unfinished: 0,
            completed: 0,
            cut: 0,
            incomplete: 0,
            kernel_dropped: Cell::new(0),
            had_error: Cell::new(false),
            came: Cell::new(false),
            jammed: 0,
        })
    }

    /// Makes the receiver and its ring anew where no packet comes by it any
    /// more: a packet whose offload the kernel can't describe (segments of UDP as
    /// a virtual machine may send them, of SCTP) leaves its slot taken for ever, and
    /// the ring drops all behind it.
    fn mend(&mut self) -> Result<(), PortError> {
        let fail = |error| self.interface.failure(&error);
        let dropped_all = self.ask_drops();
        if dropped_all && self.ring.peek().map_err(fail)?.is_none() {
            // In a group the new socket is a member before the old one leaves it.
            (self.receiver, self.ring) =
                open_receiver(&self.interface, self.member, &mut self.fanout).map_err(fail)?;
            self.jammed += 1;
        }
        Ok(())
    }

    /// Sends by another ring where the interface's MTU has grown.
    fn follow_mtu(&mut self) -> Result<(), PortError> {
        if self.interface.has_another_mtu() {
            self.mode = mode(&self.interface, self.member);
            let needed = longest(&[], self.interface.mtu) + MOST_TAGS * TAG_BYTES;
            if needed > self.outgoing.longest() {
                let opened = open_sender(&self.interface);
                (self.sender, self.outgoing) =
                    opened.map_err(|error| self.interface.failure(&error))?;
            }
        }
        Ok(())
    }

    /// Takes the next packet, or the next segment of the one that is being cut.
    #[inline]
    fn step(
        &mut self,
        now: &mut Option<Time>,
        memory: &PacketMemory,
        pool: &mut FramePool,
    ) -> io::Result<Step> {
        if self.large.cut.is_some() {
            return Ok(self.segment(now, memory, pool));
        }
        let lying = self.ring.peek()?;
        if lying.is_some() {
            self.came.set(true);
        }
        let (arrived, bytes) = match lying {
            None => return Ok(Step::Nothing),
            Some(Lying::Packet(arrived, bytes)) => (arrived, bytes),
            Some(Lying::Queued) => {
                self.ring.release()?;
                return self.queued(now, memory, pool);
            }
            Some(Lying::Lost(len)) => {
                self.ring.release()?;
                self.kernel_dropped.set(self.kernel_dropped.get() + 1);
                self.input.dropped_bytes += len as u64;
                return Ok(Step::Again);
            }
        };
        if let Some(cut) = Cut::of(bytes, arrived.offload) {
            self.large.len = bytes.len();
            if let Some(to) = self.large.bytes.get_mut(..bytes.len()) {
                to.copy_from_slice(bytes);
            }
            self.large.begin(arrived, cut);
            self.cut += 1;
            self.ring.release()?;
            return Ok(Step::Again);
        }
        let len = bytes.len();
        let Ok(mut frame) = pool.take(len) else {
            let small = memory.layout().small_bytes as usize;
            if META_BYTES + HEADROOM + len <= small {
                // It waits in the ring; when that is full the kernel counts.
                return Ok(Step::Nothing);
            }
            self.ring.release()?;
            self.drop_too_large(len);
            return Ok(Step::Again);
        };
        let (_, room) = memory.split_mut(&mut frame);
        if let Some(to) = room.get_mut(HEADROOM..HEADROOM + len) {
            to.copy_from_slice(bytes);
        }
        self.ring.release()?;
        self.finish(&mut frame, len, arrived, now, memory);
        Ok(Step::Frame(frame))
    }

    /// Reads the packet that is next in the socket's queue.
    #[cold]
    fn queued(
        &mut self,
        now: &mut Option<Time>,
        memory: &PacketMemory,
        pool: &mut FramePool,
    ) -> io::Result<Step> {
        let mut received = whole::receive(self.receiver.as_fd(), &mut self.large.bytes);
        if matches!(&received, Err(error) if error.raw_os_error() == Some(libc::ENETDOWN)) {
            // That the interface was set down is told first, and once; the packet
            // is behind it, and its slot is given back.
            self.had_error.set(true);
            received = whole::receive(self.receiver.as_fd(), &mut self.large.bytes);
        }
        let (arrived, len) = match received {
            Ok(received) => received,
            Err(error) if matches!(error.raw_os_error(), Some(libc::EAGAIN | libc::ENETDOWN)) => {
                self.had_error.set(true);
                self.kernel_dropped.set(self.kernel_dropped.get() + 1);
                return Ok(Step::Again);
            }
            Err(error) => return Err(error),
        };
        if len > self.large.bytes.len() {
            self.drop_too_large(len);
            return Ok(Step::Again);
        }
        self.large.len = len;
        if let Some(cut) = Cut::of(self.large.packet(), arrived.offload) {
            self.large.begin(arrived, cut);
            self.cut += 1;
            return Ok(Step::Again);
        }
        let Ok(mut frame) = pool.take(len) else {
            self.drop_too_large(len);
            return Ok(Step::Again);
        };
        let (_, room) = memory.split_mut(&mut frame);
        if let Some(to) = room.get_mut(HEADROOM..HEADROOM + len) {
            to.copy_from_slice(self.large.packet());
        }
        self.finish(&mut frame, len, arrived, now, memory);
        Ok(Step::Frame(frame))
    }

    /// Makes a frame of the next segment of the packet that is being cut.
    fn segment(
        &mut self,
        now: &mut Option<Time>,
        memory: &PacketMemory,
        pool: &mut FramePool,
    ) -> Step {
        let large = &mut self.large;
        let Some(cut) = &large.cut else {
            return Step::Again;
        };
        let packet = large.bytes.get(..large.len).unwrap_or_default();
        let Some(len) = cut.len(packet, large.next) else {
            large.cut = None;
            return Step::Again;
        };
        let mut frame = match pool.take(len) {
            Ok(frame) => frame,
            Err(NoFrame::Exhausted) => return Step::Nothing,
            Err(NoFrame::TooLarge) => {
                large.next += 1;
                self.drop_too_large(len);
                return Step::Again;
            }
        };
        let (_, room) = memory.split_mut(&mut frame);
        let to = room.get_mut(HEADROOM..HEADROOM + len);
        let written = to.is_some_and(|to| cut.write(packet, large.next, to));
        large.next += 1;
        let arrived = Arrived {
            offload: Offload::default(),
            ..large.arrived
        };
        if !written {
            pool.give(frame);
            self.drop_too_large(len);
            return Step::Again;
        }
        self.finish(&mut frame, len, arrived, now, memory);
        Step::Frame(frame)
    }

    /// Makes a packet of `len` octets that were written into `frame`.
    #[inline]
    fn finish(
        &mut self,
        frame: &mut Frame,
        len: usize,
        arrived: Arrived,
        now: &mut Option<Time>,
        memory: &PacketMemory,
    ) {
        self.sequence += 1;
        let now = *now.get_or_insert_with(|| self.options.clock.now());
        let (meta, bytes) = memory.split_mut(frame);
        let mut received = FrameMeta::received(now, len as u32);
        if let Some(checksum) = arrived.offload.checksum
            && let Some(packet) = bytes.get_mut(HEADROOM..HEADROOM + len)
        {
            match complete(packet, checksum) {
                true => self.completed += 1,
                false => self.incomplete += 1,
            }
        }
        if let Some((id, tag)) = arrived.vlan
            && len >= ADDRESS_BYTES
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
        received.sequence = self.member.number(self.sequence);
        received.port = self.options.number;
        received.side = self.options.side;
        *meta = received;
        self.input.add(u64::from(received.len));
    }

    fn drop_too_large(&mut self, bytes: usize) {
        self.too_large += 1;
        self.input.dropped_bytes += bytes as u64;
    }

    /// Asks the kernel what it dropped since it was last asked; true where that is
    /// all that came since then.
    fn ask_drops(&self) -> bool {
        let came = self.came.replace(false);
        let asked: io::Result<libc::tpacket_stats> = socket::get(
            self.receiver.as_fd(),
            libc::SOL_PACKET,
            libc::PACKET_STATISTICS,
        );
        let Ok(statistics) = asked else {
            return false;
        };
        let dropped = u64::from(statistics.tp_drops);
        self.kernel_dropped.set(self.kernel_dropped.get() + dropped);
        // `tp_packets` includes drops. All packets may have come to a full ring.
        !came && statistics.tp_packets > 0 && statistics.tp_drops == statistics.tp_packets
    }

    /// Sends packets: how many of them, and the error of the next, if that is why it
    /// did not send more.
    fn transmit(&mut self, memory: &PacketMemory, frames: &[Frame]) -> (usize, io::Result<()>) {
        let mut written = 0;
        let mut refused = Ok(());
        for frame in frames {
            let bytes = memory.bytes(frame);
            // The kernel would leave these out without a word.
            refused = if bytes.len() < LINK_BYTES {
                Err(io::Error::from_raw_os_error(libc::EINVAL))
            } else if bytes.len() > longest(bytes, self.interface.mtu) {
                Err(io::Error::from_raw_os_error(libc::EMSGSIZE))
            } else {
                self.outgoing.write(bytes)
            };
            if refused.is_err() {
                break;
            }
            written += 1;
        }
        match written {
            0 => (0, refused),
            // Later packets are tried again: there may be room now.
            _ => self.outgoing.flush(self.sender.as_fd()),
        }
    }

    /// Interprets the kernel's refusal to send: an error where the interface is gone.
    fn refused(&self, error: &io::Error) -> Result<Unsent, PortError> {
        let why = Unsent::of(error);
        if why == Unsent::Down {
            self.interface.check()?;
            if error.raw_os_error() != Some(libc::ENETDOWN) {
                return Err(self.interface.failure(error));
            }
        }
        Ok(why)
    }
}

impl Large {
    fn begin(&mut self, arrived: Arrived, cut: Cut) {
        self.arrived = arrived;
        self.cut = Some(cut);
        self.next = 0;
    }
}

fn mode(interface: &Interface, member: Member) -> String {
    let rings = match member.count {
        1 => String::new(),
        count => format!(" over {count} workers"),
    };
    format!("AF_PACKET{rings}, promiscuous, MTU {}", interface.mtu)
}

/// Opens and binds the socket that receives. It is given packets only when all is
/// set, so that none comes otherwise than by the ring, is one of our own, or one that
/// another member of its group has, too. The first member makes the group.
fn open_receiver(
    interface: &Interface,
    member: Member,
    fanout: &mut Option<Fanout>,
) -> io::Result<(OwnedFd, ReceiveRing)> {
    let socket = socket::open(libc::AF_PACKET, libc::SOCK_RAW)?;
    let fd = socket.as_fd();
    let set = |name, value: libc::c_int| socket::set(fd, libc::SOL_PACKET, name, &value);
    set(libc::PACKET_AUXDATA, 1)?;
    set(libc::PACKET_IGNORE_OUTGOING, 1).map_err(|error| {
        io::Error::other(format!(
            "the kernel can't leave out what is sent ({error}): Linux 4.20 or newer is needed"
        ))
    })?;
    buffer(fd, libc::SO_RCVBUFFORCE, libc::SO_RCVBUF)?;
    let ring = ReceiveRing::open(fd, interface.mtu)?;
    socket::be_promiscuous(fd, interface.index)?;
    if member.count == 1 {
        socket::bind_packet(fd, interface.index, true)?;
        return Ok((socket, ring));
    }
    Fanout::close_off(fd)?;
    socket::bind_packet(fd, interface.index, true)?;
    match fanout {
        Some(fanout) => fanout.add(fd)?,
        None => *fanout = Some(Fanout::create(fd)?),
    }
    Ok((socket, ring))
}

/// Opens and binds the socket that sends.
fn open_sender(interface: &Interface) -> io::Result<(OwnedFd, SendRing)> {
    let socket = socket::open(libc::AF_PACKET, libc::SOCK_RAW)?;
    let fd = socket.as_fd();
    buffer(fd, libc::SO_SNDBUFFORCE, libc::SO_SNDBUF)?;
    let ring = SendRing::open(fd, interface.mtu)?;
    socket::bind_packet(fd, interface.index, false)?;
    Ok((socket, ring))
}

/// Octets of a frame that is given to an interface of this MTU: tags of VLANs in
/// front are not counted. The kernel itself counts those of 802.1ad, but not where
/// an offload header is in front of the packet, as in the ring.
fn longest(frame: &[u8], mtu: u32) -> usize {
    let is_tag = |tag: usize| {
        let at = ADDRESS_BYTES + tag * TAG_BYTES;
        matches!(
            frame.get(at..at + 2),
            Some([0x81, 0] | [0x88, 0xa8] | [0x91, 0])
        )
    };
    let tags = (0..MOST_TAGS).take_while(|tag| is_tag(*tag)).count();
    LINK_BYTES + mtu as usize + tags * TAG_BYTES
}

/// Sets the size of a socket's buffer. More than the system's limit takes a
/// privilege, less takes none.
fn buffer(fd: BorrowedFd<'_>, force: libc::c_int, plain: libc::c_int) -> io::Result<()> {
    socket::set(fd, libc::SOL_SOCKET, force, &KERNEL_BUFFER)
        .or_else(|_| socket::set(fd, libc::SOL_SOCKET, plain, &KERNEL_BUFFER))
}

impl InputPort for PacketPort {
    fn receive(
        &mut self,
        pool: &mut FramePool,
        into: &mut Vec<Frame>,
        max: usize,
    ) -> Result<Received, PortError> {
        if self.had_error.take() {
            // Set down, or gone; it may be set up again.
            self.interface.check()?;
        }
        let memory = Arc::clone(pool.memory());
        let mut now = None;
        while into.len() < max {
            match self.step(&mut now, &memory, pool) {
                Ok(Step::Frame(frame)) => into.push(frame),
                Ok(Step::Again) => {}
                Ok(Step::Nothing) => break,
                Err(error) => return Err(self.interface.failure(&error)),
            }
        }
        Ok(Received::More)
    }

    fn counters(&self) -> PortCounters {
        self.ask_drops();
        let drops = [
            (PortDrop::KernelDropped, self.kernel_dropped.get()),
            (PortDrop::FrameTooLarge, self.too_large),
            (PortDrop::SegmentUnfinished, self.unfinished),
        ];
        let noticed = [
            (PortNotice::PartialChecksum, self.completed),
            (PortNotice::Segmented, self.cut),
            (PortNotice::BrokenChecksum, self.incomplete),
            (PortNotice::RingMadeAnew, self.jammed),
        ];
        self.input.counters(&self.mode, drops, noticed)
    }
}

impl OutputPort for PacketPort {
    fn send(&mut self, pool: &mut FramePool, frames: &mut Vec<Frame>) -> Result<(), PortError> {
        let memory: Arc<PacketMemory> = Arc::clone(pool.memory());
        let length = |frame: &Frame| u64::from(memory.meta(frame).len);
        let mut rest = frames.as_slice();
        let mut result = Ok(());
        while !rest.is_empty() && result.is_ok() {
            let (sent, next) = self.transmit(&memory, rest);
            let (gone, left) = rest.split_at(sent.min(rest.len()));
            gone.iter()
                .for_each(|frame| self.output.counts.add(length(frame)));
            rest = left;
            let Err(error) = next else { continue };
            match self.refused(&error) {
                Ok(why) => {
                    // An interface that is down is down for all of them.
                    let lost = if why == Unsent::Down { left.len() } else { 1 };
                    let (lost, left) = left.split_at(lost.min(left.len()));
                    lost.iter()
                        .for_each(|frame| self.output.drop(why, length(frame)));
                    rest = left;
                }
                Err(error) => {
                    let failed = |frame| self.output.drop(Unsent::Failed, length(frame));
                    left.iter().for_each(failed);
                    result = Err(error);
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
        let jammed = (self.jammed > 0).then(|| {
            format!(
                "{}: its ring was jammed {} times by a packet whose segments the kernel can't \
                 describe, and made anew; use `xdp`, or have the sender leave no segments to a card",
                self.interface.port, self.jammed
            )
        });
        let first = self.member.is_first();
        let down = self.interface.warning().filter(|_| first);
        down.into_iter().chain(jammed).collect()
    }

    fn descriptors<'a>(&'a self, into: &mut Vec<BorrowedFd<'a>>) {
        let fd = self.receiver.as_fd();
        // That the interface was set down is told until it is asked for; nobody
        // could sleep.
        let error = socket::get::<libc::c_int>(fd, libc::SOL_SOCKET, libc::SO_ERROR);
        if error.map_or(true, |error| error != 0) {
            self.had_error.set(true);
        }
        into.push(fd);
    }

    fn next_due(&self) -> Option<Time> {
        // Segments that found no frame.
        self.large.cut.as_ref().map(|_| self.options.clock.now())
    }

    fn check(&mut self) -> Result<(), PortError> {
        self.mend()?;
        self.interface.check()?;
        self.follow_mtu()
    }

    fn close(&mut self, _pool: &mut FramePool) {
        let Some(cut) = self.large.cut.take() else {
            return;
        };
        let segments = (self.large.next..).map_while(|next| cut.len(self.large.packet(), next));
        for len in segments {
            self.unfinished += 1;
            self.input.dropped_bytes += len as u64;
        }
    }
}

#[cfg(test)]
#[path = "af_packet_tests.rs"]
pub(super) mod tests;
