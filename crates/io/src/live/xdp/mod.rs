//! `xdp:IFACE[:QUEUES][:MODE]`: XDP sockets on the packet memory.
//!
//! The frames are weir's own: each queue's socket registers the small frames
//! of the packet memory as its "UMEM", in chunks of a frame each (aligned, 2 or
//! 4 KiB, which every driver takes; chunks of odd sizes are refused by some, and
//! may not cross pages where a device reads them). Every socket registers for
//! itself: the sockets share the memory, but no disposition, so that one port may run
//! in another mode than the next. A packet lies where the kernel wrote it until
//! it is sent, by whichever port; the frame's metadata lies in front, where the
//! kernel is asked to keep off (the headroom of the registration).

mod attachment;
mod open;
mod queue;
#[cfg(test)]
mod tests;

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use weir_packet::{
    Frame, FrameMeta, FramePool, HEADROOM, LinkType, META_BYTES, PacketMemory, Time,
};

use super::counts::{Counts, Sent, Unsent};
use super::interface::Interface;
use super::{LiveOptions, LivePort, Member};
use crate::port::{InputPort, OutputPort, PortCounters, PortDrop, PortError, PortNotice, Received};
use crate::sys::socket;
use crate::sys::xsk::KERNEL_HEADROOM;
use attachment::Attachment;
pub use attachment::XdpMode;
use queue::Queue;

/// Slots of each ring: enough for some milliseconds in which the thread does
/// not run.
const SLOTS: u32 = 4_096;
/// Slots of a port's receive rings together; their frames are pinned memory.
const ALL_SLOTS: u32 = 4 * SLOTS;
/// Octets of a chunk in front of the packet.
const FRONT: u32 = META_BYTES as u32 + KERNEL_HEADROOM;
/// Ethernet header with two tags.
const LINK_BYTES: u32 = 14 + 2 * 4;
/// The largest MTU with which packets fit a chunk.
pub const LARGEST_MTU: u32 = 4_096 - FRONT - LINK_BYTES;
/// The queues are counted at one of so many looks at the interface.
const LOOKS: u32 = 10;
/// How soon the kernel is asked again to send what it had no room for.
const AGAIN: Duration = Duration::from_micros(200);
/// How long what was sent last may take to leave.
const DRAIN: Duration = Duration::from_millis(50);

/// The size of chunks that packets of this MTU fit.
pub(super) fn chunk_for(mtu: u32) -> Option<u32> {
    [2_048, 4_096]
        .into_iter()
        .find(|chunk| mtu.saturating_add(LINK_BYTES + FRONT) <= *chunk)
}

/// Most queues of an interface.
pub(super) const MOST_QUEUES: u32 = 64;

/// Queues of an interface that its port receives from.
pub(super) fn used(wanted: Option<u32>, interface: &Interface) -> u32 {
    wanted.unwrap_or(interface.queues).min(MOST_QUEUES)
}

/// Members that a port with so many queues may have. Each owns a receive queue,
/// and sends on the transmit queue of the same number: the kernel sends nothing on
/// one that the interface does not have.
pub(super) fn most_members(queues: u32, interface: &Interface) -> u32 {
    queues.min(interface.transmit_queues).max(1)
}

/// Slots of each ring of a port with so many queues.
pub(super) fn slots_for(queues: u32) -> u32 {
    let share = (ALL_SLOTS / queues.max(1)).min(SLOTS);
    // A power of two that is no more.
    1 << share.max(1).ilog2()
}

/// Frames that one of so many members needs for its rings: those of its receive
/// queues, and one to send.
pub(super) fn frames_for(queues: u32, members: u32) -> u32 {
    (queues.div_ceil(members.max(1)) + 1) * slots_for(queues)
}

/// XDP sockets on queues of an interface: on all that its port has, or on those of
/// one worker. Packets go out on the first of them, so that none overtakes another.
#[derive(Debug)]
pub struct XdpPort {
    interface: Interface,
    options: LiveOptions,
    member: Member,
    mode: String,
    warnings: Vec<String>,
    /// Octets of a frame.
    chunk: u32,
    attachment: Arc<Attachment>,
    queues: Vec<Queue>,
    slots: u32,
    /// The driver looks for packets when it is asked to.
    polled: bool,
    /// The queue that is looked at first next time.
    next: usize,
    /// Packets that came in, for their numbers.
    sequence: u64,
    input: Counts,
    output: Sent,
    bad_descriptors: u64,
    /// Looks at the interface since its queues were counted.
    looks: u32,
    /// The program is to be put on queues that were added, and was not yet.
    pending: bool,
    news: Option<String>,
    /// The interface was down when it was last to send.
    is_down: bool,
    /// The kernel had not taken all that it was last shown.
    waits: bool,
    /// The kernel's counts, once the sockets are closed.
    last: KernelCounts,
    /// Packets that the interface had dropped when the port was opened.
    dropped_before: u64,
}

/// The kernel's counts of sockets.
#[derive(Clone, Copy, Debug, Default)]
struct KernelCounts {
    /// Packets dropped for want of a frame or a slot, or because they fit no frame.
    dropped: u64,
    /// Descriptors refused on the way out.
    refused: u64,
}

impl XdpPort {
    /// Looks once a second for queues that were added, and has the program cover
    /// them. Asking takes the kernel's lock for interfaces (RTNL); one member
    /// asks for all.
    fn follow_queues(&mut self) {
        self.looks = (self.looks + 1) % LOOKS;
        if self.looks != 0 || !self.member.is_first() || !self.attachment.has_all_queues() {
            return;
        }
        if !self.interface.has_more_queues() && !self.pending {
            return;
        }
        let covered = self.attachment.cover_added_queues();
        let failed_before = std::mem::replace(&mut self.pending, covered.is_err());
        // It is tried again at each look, and said once.
        if let (Err(error), false) = (covered, failed_before) {
            let said = format!(
                "{}: packets of queues that were added may go past weir: {error}; it is tried again \
                 each second",
                self.interface.port
            );
            self.warnings.push(said.clone());
            self.news = Some(said);
        }
    }

    /// True where packets of its MTU fit no frame any more.
    fn is_outgrown(&self) -> bool {
        self.interface.mtu.saturating_add(LINK_BYTES + FRONT) > self.chunk
    }

    /// The kernel's counts of the sockets; of closed ones, their last.
    fn kernel_counts(&self) -> KernelCounts {
        if self.queues.is_empty() {
            return self.last;
        }
        let mut sum = KernelCounts::default();
        for queue in &self.queues {
            if let Ok(statistics) = queue.socket.statistics() {
                sum.dropped += statistics.rx_dropped + statistics.rx_ring_full;
                sum.refused += statistics.tx_invalid_descs;
            }
        }
        sum
    }

    fn fail(&self, error: &io::Error) -> PortError {
        match self.interface.check() {
            Err(gone) => gone,
            Ok(()) => self.interface.failure(error),
        }
    }

    /// Has the kernel send what waits. An interface that is down sends when it
    /// is up again.
    fn flush(&mut self) -> io::Result<()> {
        let Some(queue) = self.queues.first_mut() else {
            return Ok(());
        };
        let flushed = queue.socket.flush();
        self.waits = queue.has_more_to_send();
        self.is_down = matches!(&flushed, Err(e) if e.raw_os_error() == Some(libc::ENETDOWN));
        if self.is_down { Ok(()) } else { flushed }
    }

    /// Looks how much room there is to send.
    fn room(&mut self, pool: &mut FramePool) -> io::Result<()> {
        if self.is_down {
            self.flush()?;
        }
        if let Some(queue) = self.queues.first_mut() {
            self.bad_descriptors += queue.reap(pool)?;
            queue.transmit_room()?;
        }
        Ok(())
    }

    /// Puts one frame into the transmit ring.
    fn put(&mut self, frame: Frame, memory: &PacketMemory, pool: &mut FramePool) -> io::Result<()> {
        let Some(queue) = self.queues.first_mut() else {
            let len = memory.meta(&frame).len;
            self.output.drop(Unsent::Failed, u64::from(len));
            pool.give(frame);
            return Ok(());
        };
        let (meta, bytes) = memory.read(&frame);
        let (start, len) = (u64::from(meta.start), bytes.len() as u32);
        if len > self.interface.mtu.saturating_add(LINK_BYTES) || len == 0 {
            self.output.drop(Unsent::TooLong, u64::from(len));
            pool.give(frame);
            return Ok(());
        }
        let (offset, start) = match queue.sending.lend(frame) {
            Ok(offset) => (offset, start),
            Err(large) => {
                // Sockets know small frames only.
                let meta = *memory.meta(&large);
                let copied = pool.copy(memory.bytes(&large), meta);
                pool.give(large);
                let copy = copied.map(|copy| queue.sending.lend(copy));
                let Ok(copy) = copy else {
                    self.output.drop(Unsent::Full, u64::from(len));
                    return Ok(());
                };
                match copy {
                    Ok(offset) => (offset, HEADROOM as u64),
                    Err(large) => {
                        self.output.drop(Unsent::TooLong, u64::from(len));
                        pool.give(large);
                        return Ok(());
                    }
                }
            }
        };
        let descriptor = libc::xdp_desc {
            addr: offset + META_BYTES as u64 + start,
            len,
            options: 0,
        };
        let mut written = queue.write(descriptor);
        if !written {
            // Full as last looked at: have the kernel send, and look again.
            self.flush()?;
            let Some(queue) = self.queues.first_mut() else {
                return Ok(());
            };
            self.bad_descriptors += queue.reap(pool)?;
            written = queue.transmit_room()? > 0 && queue.write(descriptor);
        }
        if written {
            self.output.counts.add(u64::from(len));
        } else {
            self.output.drop(Unsent::Full, u64::from(len));
            let sending = self.queues.first_mut().map(|queue| &mut queue.sending);
            if let Some(frame) = sending.and_then(|sending| sending.take_back(offset)) {
                pool.give(frame);
            }
        }
        Ok(())
    }
}

/// This mode with another MTU.
fn with_mtu(mode: &str, mtu: u32) -> String {
    let without = mode.split_once(", MTU ").map_or(mode, |(front, _)| front);
    format!("{without}, MTU {mtu}")
}

/// When a port with more to send asks the kernel again. Nothing tells that there is
/// room; where the interface is down there is none.
fn due(waiting: bool, is_down: bool, now: Time) -> Option<Time> {
    (waiting && !is_down).then(|| Time(now.0 + AGAIN.as_nanos() as u64))
}

/// Where a packet of the kernel's begins in its frame; `None` if it does not lie in it.
fn start_in(frame: &Frame, descriptor: &libc::xdp_desc, memory: &PacketMemory) -> Option<u16> {
    let front = frame.offset() as u64 + META_BYTES as u64;
    let start = u16::try_from(descriptor.addr.checked_sub(front)?).ok()?;
    (usize::from(start) + descriptor.len as usize <= memory.room(frame)).then_some(start)
}

impl InputPort for XdpPort {
    fn receive(
        &mut self,
        pool: &mut FramePool,
        into: &mut Vec<Frame>,
        max: usize,
    ) -> Result<Received, PortError> {
        let memory = Arc::clone(pool.memory());
        let mut failure = None;
        for turn in 0..self.queues.len() {
            let number = (self.next + turn) % self.queues.len();
            let Some(queue) = self.queues.get_mut(number) else {
                break;
            };
            if self.polled {
                queue.socket.poll();
            }
            let room = max.saturating_sub(into.len()) as u32;
            let (filling, taken) = (&mut queue.filling, into.len());
            let (mut bad, mut now) = (0, None);
            let clock = &self.options.clock;
            let read = queue.socket.receive.read(room, |descriptor| {
                let now: Time = *now.get_or_insert_with(|| clock.now());
                let Some(mut frame) = filling.take_back(descriptor.addr) else {
                    bad += 1;
                    return;
                };
                let Some(start) = start_in(&frame, &descriptor, &memory) else {
                    bad += 1;
                    pool.give(frame);
                    return;
                };
                let mut meta = FrameMeta::received(now, descriptor.len);
                meta.start = start;
                meta.link = LinkType::Ethernet;
                meta.port = self.options.number;
                meta.side = self.options.side;
                self.sequence += 1;
                meta.sequence = self.member.number(self.sequence);
                *memory.meta_mut(&mut frame) = meta;
                self.input.add(u64::from(descriptor.len));
                into.push(frame);
            });
            self.bad_descriptors += bad;
            let came = into.len() > taken;
            let filled = read.and_then(|_| {
                // Frames for what comes next.
                self.bad_descriptors += queue.reap(pool)?;
                if came || queue.is_low() {
                    queue.fill(pool)?;
                    if queue.socket.fill.needs_wake_up() {
                        socket::wake_receiver(queue.socket.as_fd());
                    }
                }
                Ok(())
            });
            if let Err(error) = filled {
                failure = Some(error);
                break;
            }
        }
        self.next = (self.next + 1) % self.queues.len().max(1);
        // Packets that the kernel has not sent yet.
        failure = failure.or(self.flush().err());
        match failure {
            Some(error) => Err(self.fail(&error)),
            None => Ok(Received::More),
        }
    }

    fn counters(&self) -> PortCounters {
        // One member counts what belongs to the interface as a whole.
        let (in_all, on_added) = match self.member.is_first() {
            true => (
                self.interface
                    .dropped()
                    .received
                    .saturating_sub(self.dropped_before),
                self.attachment.dropped_on_added_queues(),
            ),
            false => (0, 0),
        };
        let drops = [
            (PortDrop::KernelDropped, self.kernel_counts().dropped),
            (PortDrop::BadDescriptor, self.bad_descriptors),
            (PortDrop::NewQueue, on_added),
        ];
        let internal = self.queues.iter().map(Queue::internal).sum();
        let noticed = [
            (PortNotice::InterfaceDropped, in_all),
            (PortNotice::Internal, internal),
        ];
        self.input.counters(&self.mode, drops, noticed)
    }
}

impl OutputPort for XdpPort {
    fn send(&mut self, pool: &mut FramePool, frames: &mut Vec<Frame>) -> Result<(), PortError> {
        let memory = Arc::clone(pool.memory());
        let mut result = self.room(pool);
        for frame in frames.drain(..) {
            let len = u64::from(memory.meta(&frame).len);
            if result.is_err() {
                self.output.drop(Unsent::Failed, len);
                pool.give(frame);
            } else if self.is_down {
                self.output.drop(Unsent::Down, len);
                pool.give(frame);
            } else {
                result = self.put(frame, &memory, pool);
                if result.is_err() {
                    self.output.drop(Unsent::Failed, len);
                }
            }
        }
        result
            .and_then(|()| self.flush())
            .map_err(|error| self.fail(&error))
    }

    fn counters(&self) -> PortCounters {
        // The kernel refused some that it was given.
        let invalid = self.kernel_counts().refused;
        let mut output = self.output;
        output.counts.packets = output.counts.packets.saturating_sub(invalid);
        output.failed += invalid;
        output.counters(&self.mode)
    }
}

impl LivePort for XdpPort {
    fn mode(&self) -> &str {
        &self.mode
    }

    fn warnings(&self) -> Vec<String> {
        let mut warnings = self.warnings.clone();
        if !self.member.is_first() {
            return warnings;
        }
        warnings.extend(self.interface.warning());
        let (port, mtu) = (&self.interface.port, self.interface.mtu);
        if self.is_outgrown() {
            warnings.push(format!(
                "{port}: its MTU is {mtu} by now: packets that fit no frame, of more than {} octets \
                 behind the link header, are dropped until weir is started again",
                self.chunk - FRONT - LINK_BYTES
            ));
        }
        let had = self.attachment.queues();
        if self.attachment.has_all_queues() && self.interface.queues > had {
            warnings.push(format!(
                "{port}: it has {} queues by now and had {had} when weir was started: packets of the \
                 others are dropped until it is started again",
                self.interface.queues
            ));
        }
        warnings
    }

    fn news(&mut self) -> Option<String> {
        self.news.take()
    }

    fn descriptors<'a>(&'a self, into: &mut Vec<BorrowedFd<'a>>) {
        into.extend(self.queues.iter().map(|queue| queue.socket.as_fd()));
    }

    fn next_due(&self) -> Option<Time> {
        due(self.waits, self.is_down, self.options.clock.now())
    }

    fn check(&mut self) -> Result<(), PortError> {
        for queue in &mut self.queues {
            queue.raise(self.slots);
        }
        self.interface.check()?;
        self.follow_queues();
        if self.interface.has_another_mtu() {
            self.mode = with_mtu(&self.mode, self.interface.mtu);
        }
        Ok(())
    }

    fn close(&mut self, pool: &mut FramePool) {
        // All members have stopped receiving: see `LivePort::close`.
        self.attachment.detach();
        let end = Instant::now() + DRAIN;
        while Instant::now() < end
            && self.queues.iter_mut().any(|queue| {
                let flushed = queue.socket.flush().and_then(|()| queue.reap(pool));
                flushed.is_ok() && queue.sending.count() > 0
            })
        {
            thread::sleep(Duration::from_millis(1));
        }
        if !self.queues.is_empty() {
            let frames = frames_for(self.attachment.queues(), self.member.count);
            pool.set_aside(-(frames as i32));
        }
        self.last = self.kernel_counts();
        let unsent: u64 = self.queues.drain(..).map(|queue| queue.close(pool)).sum();
        self.output.counts.packets = self.output.counts.packets.saturating_sub(unsent);
        self.output.failed += unsent;
    }
}
