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

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};
use std::{io, thread};

use weir_packet::{
    Frame, FrameMeta, FramePool, HEADROOM, Lent, LinkType, META_BYTES, PacketMemory, Time,
};

use super::counts::{Counts, Sent, Unsent};
use super::interface::Interface;
use super::{LiveOptions, LivePort, XdpMode};
use crate::port::{InputPort, OutputPort, PortCounters, PortError, Received};
use crate::sys::bpf::{Attach, DropCount, Link, Program, SocketMap};
use crate::sys::socket;
use crate::sys::xsk::{KERNEL_HEADROOM, Xsk, XskSettings};

/// Slots of each ring: enough for some milliseconds in which the thread does
/// not run.
const SLOTS: u32 = 4_096;
/// Slots of a port's receive rings together; their frames are pinned memory.
const ALL_SLOTS: u32 = 4 * SLOTS;
/// Frames that wait for packets at first, where the kernel copies. They take
/// turns, so the more there are the longer ago each was touched. Chunks lie 2 KiB
/// apart, which leaves a cache few places for the first lines of each: 512 stay in one of
/// 1 MiB. Twice as many, and so on, wait as soon as the kernel has found none.
const FEW: u32 = 512;
/// Octets of a chunk in front of the packet.
const FRONT: u32 = META_BYTES as u32 + KERNEL_HEADROOM;
/// Ethernet header with two tags.
const LINK_BYTES: u32 = 14 + 2 * 4;
/// The largest MTU with which packets fit a chunk.
pub const LARGEST_MTU: u32 = 4_096 - FRONT - LINK_BYTES;
/// How long a queue that another socket has just left may still be taken.
const LEAVING: Duration = Duration::from_secs(2);
/// How many looks at the interface its queues are counted at one of.
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

/// Slots of each ring of a port with so many queues.
pub(super) fn slots_for(queues: u32) -> u32 {
    let share = (ALL_SLOTS / queues.max(1)).min(SLOTS);
    // A power of two that is no more.
    1 << share.max(1).ilog2()
}

/// A queue's socket, and the frames that the kernel has of us.
#[derive(Debug)]
struct Queue {
    socket: Xsk,
    /// Frames that wait for packets.
    level: u32,
    /// How often the kernel had found none.
    starved: u64,
    filling: Lent,
    sending: Lent,
}

/// XDP sockets on the queues of an interface. Packets go out on the first, so
/// that none overtakes another.
#[derive(Debug)]
pub struct XdpPort {
    interface: Interface,
    options: LiveOptions,
    mode: String,
    warnings: Vec<String>,
    /// Octets of a frame.
    chunk: u32,
    /// What the program has dropped of queues that were added since the port was
    /// opened, where it was to have all; and before it was open.
    strange: Option<(DropCount, u64)>,
    /// Detached first, so that no packet comes for a socket that is gone.
    link: Option<Link>,
    map: SocketMap,
    /// Queues that it has sockets for.
    map_size: u32,
    queues: Vec<Queue>,
    slots: u32,
    /// The driver looks for packets when it is asked to.
    polled: bool,
    /// The queue that is looked at first next time.
    next: usize,
    sequence: u64,
    input: Counts,
    output: Sent,
    bad_descriptors: u64,
    /// How often it was looked at since its queues were counted.
    looks: u32,
    /// The program is to be put on queues that were added, and was not yet.
    pending: bool,
    news: Option<String>,
    /// The interface was down when it was last to send.
    is_down: bool,
    /// The kernel had not taken all that it was last shown.
    waits: bool,
    /// What the kernel counted, once the sockets are closed.
    last: [u64; 2],
    /// As long as this is open the card hands on frames for all stations.
    _promiscuous: OwnedFd,
    /// What the interface had dropped when the port was opened.
    dropped_before: u64,
}

impl XdpPort {
    /// Opens one; `port` is how it was written. All queues without `queues`.
    ///
    /// # Errors
    ///
    /// Where the interface is not there, the kernel refuses, or `mode` is one
    /// that can't be had.
    pub fn open(
        port: &str,
        name: &str,
        queues: Option<u32>,
        mode: XdpMode,
        options: LiveOptions,
        pool: &mut FramePool,
    ) -> Result<XdpPort, PortError> {
        let interface = Interface::find(port, name)?;
        let wanted = used(queues, &interface);
        if wanted > interface.queues {
            let message = format!("{name} has {} queues, not {wanted}", interface.queues);
            return Err(PortError::new(port, message));
        }
        let mut warnings = Vec::new();
        if wanted < interface.queues {
            warnings.push(format!(
                "{port}: packets of queues {wanted} to {} go past weir into the kernel",
                interface.queues - 1
            ));
        }
        let fail = |error: io::Error| interface.failure(&error);
        // It receives nothing: it asks the card for what is for other stations.
        let asks = socket::open(libc::AF_PACKET, libc::SOCK_RAW).map_err(fail)?;
        socket::be_promiscuous(asks.as_fd(), interface.index).map_err(fail)?;
        let map = SocketMap::new(wanted).map_err(fail)?;
        // Who has all queues is to have those that are added later, or nobody is.
        let strange = match wanted < interface.queues {
            true => None,
            false => Some(DropCount::new().map_err(fail)?),
        };
        let program = Program::load(&map, strange.as_ref()).map_err(fail)?;
        let (link, attached) = attach(&interface, &program, mode, &mut warnings)?;
        let slots = slots_for(wanted);
        let mut sockets = Vec::new();
        for number in 0..wanted {
            let settings = XskSettings {
                interface: interface.index,
                queue: number,
                slots,
                transmit: number == 0,
                copy: attached == Attach::Generic,
            };
            let socket =
                bind(pool.memory(), settings, &mut warnings, port).map_err(|error| match error
                    .raw_os_error()
                {
                    Some(libc::EBUSY) => PortError::new(
                        port,
                        format!("another program has queue {number} of {name}"),
                    ),
                    _ => interface.failure(&error),
                })?;
            let copies = !socket.is_zero_copy().unwrap_or(false);
            sockets.push(Queue {
                level: if copies { FEW.min(slots) } else { slots },
                starved: 0,
                socket,
                filling: Lent::new(pool.memory()),
                sending: Lent::new(pool.memory()),
            });
        }
        let polled = (options.busy_poll || interface.defers_interrupts()) && {
            let mut refused = None;
            for queue in &sockets {
                refused = refused.or(queue.socket.prefer_polling().err());
            }
            if let Some(error) = &refused {
                warnings.push(format!("{port}: the driver can't be polled: {error}"));
            }
            refused.is_none()
        };
        let zero_copy = sockets
            .iter()
            .all(|queue| queue.socket.is_zero_copy().unwrap_or(false));
        let mode = format!(
            "AF_XDP {}, {}, {}{wanted} queue{}, promiscuous",
            match attached {
                Attach::Driver => "native",
                Attach::Generic => "generic",
            },
            if zero_copy { "zero copy" } else { "copy" },
            if polled { "polled, " } else { "" },
            if wanted == 1 { "" } else { "s" },
        );
        let mut opened = XdpPort {
            mode: with_mtu(&mode, interface.mtu),
            warnings,
            chunk: pool.memory().layout().small_bytes,
            strange: strange.map(|count| (count, 0)),
            link: Some(link),
            slots,
            polled,
            queues: sockets,
            next: 0,
            sequence: 0,
            input: Counts::default(),
            output: Sent::default(),
            bad_descriptors: 0,
            looks: 0,
            pending: false,
            news: None,
            is_down: false,
            waits: false,
            last: [0; 2],
            _promiscuous: asks,
            dropped_before: interface.dropped().received,
            interface,
            options,
            map,
            map_size: wanted,
        };
        // Frames first, then packets.
        let map = &opened.map;
        let mut queues = opened.queues.iter_mut().zip(0..);
        let began = queues.try_for_each(|(queue, number)| {
            queue.fill(pool)?;
            map.set(number, queue.socket.as_fd())
        });
        if let Err(error) = began {
            let error = opened.interface.failure(&error);
            opened.close(pool);
            return Err(error);
        }
        // Until now no queue was one of ours.
        opened.strange = opened
            .strange
            .map(|(count, _)| (count.read().unwrap_or(0), count))
            .map(|(before, count)| (count, before));
        Ok(opened)
    }

    /// Sees to it, once a second, that the program is on queues that were added,
    /// too: a veth puts it on those only that are there when it is attached. Asking
    /// takes a lock of the kernel's that whoever sets up interfaces has.
    fn follow_queues(&mut self) {
        self.looks = (self.looks + 1) % LOOKS;
        let (Some((count, _)), Some(link), 0) = (&self.strange, &self.link, self.looks) else {
            return;
        };
        if !self.interface.has_more_queues() && !self.pending {
            return;
        }
        let put = Program::load(&self.map, Some(count)).and_then(|program| link.update(&program));
        let failed_before = std::mem::replace(&mut self.pending, put.is_err());
        // It is tried again at each look, and said once.
        if let (Err(error), false) = (put, failed_before) {
            let said = format!(
                "{}: packets of queues that were added may go past weir: {error}; it is tried again \
                 each second",
                self.interface.port
            );
            self.warnings.push(said.clone());
            self.news = Some(said);
        }
    }

    /// Packets that were dropped since they came on queues that were added.
    fn of_new_queues(&self) -> u64 {
        self.strange.as_ref().map_or(0, |(count, before)| {
            count.read().unwrap_or(0).saturating_sub(*before)
        })
    }

    /// True where packets of its MTU fit no frame any more.
    fn is_outgrown(&self) -> bool {
        self.interface.mtu.saturating_add(LINK_BYTES + FRONT) > self.chunk
    }

    /// Sockets' counts of packets dropped for want of a frame or a slot, or
    /// because they fit no frame, and of descriptors refused on the way out.
    fn kernel_dropped(&self) -> [u64; 2] {
        if self.queues.is_empty() {
            return self.last;
        }
        let mut sum = [0; 2];
        for queue in &self.queues {
            if let Ok(statistics) = queue.socket.statistics() {
                sum[0] += statistics.rx_dropped + statistics.rx_ring_full;
                sum[1] += statistics.tx_invalid_descs;
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

/// Opens a socket: without copies where the driver can, and again for a while
/// where the queue is taken, since one that was closed lets go of it late.
fn bind(
    memory: &Arc<PacketMemory>,
    mut settings: XskSettings,
    warnings: &mut Vec<String>,
    port: &str,
) -> io::Result<Xsk> {
    let began = Instant::now();
    loop {
        match Xsk::open(memory, &settings) {
            Err(error)
                if error.raw_os_error() == Some(libc::EBUSY) && began.elapsed() < LEAVING =>
            {
                thread::sleep(Duration::from_millis(10));
            }
            Err(error)
                if matches!(
                    error.raw_os_error(),
                    Some(libc::EOPNOTSUPP | libc::EINVAL | libc::EPROTONOSUPPORT)
                ) && !settings.copy =>
            {
                warnings.push(format!(
                    "{port}: queue {} runs with copies: {error}",
                    settings.queue
                ));
                settings.copy = true;
            }
            opened => return opened,
        }
    }
}

impl Queue {
    /// Lends the kernel frames for packets to come, up to the level.
    fn fill(&mut self, pool: &mut FramePool) -> io::Result<()> {
        let mut filled = false;
        let wanted = self.level.saturating_sub(self.filling.count() as u32);
        for _ in 0..self.socket.fill.free()?.min(wanted) {
            let Ok(frame) = pool.take(0) else { break };
            match self.filling.lend(frame) {
                Ok(offset) => {
                    // There is room: it was counted.
                    let _ = self.socket.fill.write(offset);
                    filled = true;
                }
                Err(large) => {
                    pool.give(large);
                    break;
                }
            }
        }
        if filled {
            self.socket.fill.publish();
        }
        Ok(())
    }

    /// Raises the level where the kernel has wanted for frames.
    fn raise(&mut self, most: u32) {
        if self.level >= most {
            return;
        }
        if let Ok(statistics) = self.socket.statistics()
            && statistics.rx_fill_ring_empty_descs > self.starved
        {
            self.starved = statistics.rx_fill_ring_empty_descs;
            self.level = (self.level * 2).min(most);
        }
    }

    /// True where the kernel has not taken all that it was shown.
    fn has_more_to_send(&mut self) -> bool {
        let ring = self.socket.transmit.as_mut();
        ring.is_some_and(|ring| ring.waiting().is_ok_and(|waiting| waiting > 0))
    }

    /// Takes back the frames that were sent.
    fn reap(&mut self, pool: &mut FramePool) -> io::Result<u64> {
        let mut bad = 0;
        let sending = &mut self.sending;
        self.socket
            .completion
            .read(u32::MAX, |offset| match sending.take_back(offset) {
                Some(frame) => pool.give(frame),
                None => bad += 1,
            })?;
        Ok(bad)
    }

    fn transmit_room(&mut self) -> io::Result<u32> {
        self.socket
            .transmit
            .as_mut()
            .map_or(Ok(0), |ring| ring.free())
    }

    fn write(&mut self, descriptor: libc::xdp_desc) -> bool {
        let ring = self.socket.transmit.as_mut();
        ring.is_some_and(|ring| ring.write(descriptor))
    }
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
                let front = frame.offset() as u64 + META_BYTES as u64;
                let start = descriptor.addr.checked_sub(front);
                let start = start.and_then(|start| u16::try_from(start).ok());
                let fits = start.is_some_and(|start| {
                    usize::from(start) + descriptor.len as usize <= memory.room(&frame)
                });
                let (Some(start), true) = (start, fits) else {
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
                meta.sequence = self.sequence;
                *memory.meta_mut(&mut frame) = meta;
                self.input.add(u64::from(descriptor.len));
                into.push(frame);
            });
            self.bad_descriptors += bad;
            let came = into.len() > taken;
            let filled = read.and_then(|_| {
                // Frames for what comes next.
                self.bad_descriptors += queue.reap(pool)?;
                if came || queue.filling.count() < (queue.level / 2) as usize {
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
        // What the kernel has not sent yet.
        failure = failure.or(self.flush().err());
        match failure {
            Some(error) => Err(self.fail(&error)),
            None => Ok(Received::More),
        }
    }

    fn counters(&self) -> PortCounters {
        let [in_sockets, _] = self.kernel_dropped();
        let in_all = self.interface.dropped().received;
        let in_all = in_all.saturating_sub(self.dropped_before);
        let drops = [
            ("kernel_dropped", in_sockets),
            ("bad_descriptor", self.bad_descriptors),
            ("new_queue", self.of_new_queues()),
        ];
        let noticed = [("interface_dropped", in_all)];
        self.input.counters(&self.mode, &drops, &noticed)
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
        let [_, invalid] = self.kernel_dropped();
        // The kernel refused some that it was given.
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
        warnings.extend(self.interface.warning());
        let (port, mtu) = (&self.interface.port, self.interface.mtu);
        if self.is_outgrown() {
            warnings.push(format!(
                "{port}: its MTU is {mtu} by now: packets that fit no frame, of more than {} octets \
                 behind the link header, are dropped until weir is started again",
                self.chunk - FRONT - LINK_BYTES
            ));
        }
        let had = self.map_size;
        if self.strange.is_some() && self.interface.queues > had {
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
        self.link = None;
        let end = Instant::now() + DRAIN;
        while Instant::now() < end
            && self.queues.iter_mut().any(|queue| {
                let flushed = queue.socket.flush().and_then(|()| queue.reap(pool));
                flushed.is_ok() && queue.sending.count() > 0
            })
        {
            thread::sleep(Duration::from_millis(1));
        }
        self.last = self.kernel_dropped();
        let unsent: u64 = self
            .queues
            .iter_mut()
            .filter_map(|queue| queue.socket.transmit.as_mut()?.waiting().ok())
            .map(u64::from)
            .sum();
        self.output.counts.packets = self.output.counts.packets.saturating_sub(unsent);
        self.output.failed += unsent;
        for queue in self.queues.drain(..) {
            let Queue {
                socket,
                mut filling,
                mut sending,
                ..
            } = queue;
            // From here on the kernel writes no frame of ours.
            drop(socket);
            sending.take_back_all(pool);
            filling.take_back_all(pool);
        }
    }
}

#[cfg(test)]
#[path = "xdp_tests.rs"]
mod tests;
