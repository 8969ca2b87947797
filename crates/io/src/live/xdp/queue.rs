//! One receive queue: its socket, and the frames that the kernel has of ours.

use std::sync::Arc;
use std::time::{Duration, Instant};
use std::{io, thread};

use weir_packet::{FramePool, Internal, Lent, PacketMemory};

use crate::port::PortError;
use crate::sys::xsk::{Xsk, XskSettings};

use super::super::interface::Interface;

/// Frames that wait for packets at first, where the kernel copies. They take
/// turns, so the more there are the longer ago each was touched. Chunks lie 2 KiB
/// apart, which leaves a cache few places for the first lines of each: 512 stay in one of
/// 1 MiB. Each time the kernel has found none, their number is doubled.
const FEW: u32 = 512;
/// How long a queue that another socket has just left may still be taken.
const LEAVING: Duration = Duration::from_secs(2);

/// A queue's socket, and the frames that the kernel has of ours.
#[derive(Debug)]
pub(super) struct Queue {
    pub(super) socket: Xsk,
    /// Frames that wait for packets.
    level: u32,
    /// How often the kernel had found none.
    starved: u64,
    pub(super) filling: Lent,
    pub(super) sending: Lent,
    internal: Internal,
}

/// Opens a socket: without copies where the driver can, and again for a while
/// where the queue is taken, since a socket that was closed leaves its queue late.
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
    /// Opens the socket of a queue, on the frames of `memory`.
    pub(super) fn open(
        interface: &Interface,
        memory: &Arc<PacketMemory>,
        settings: XskSettings,
        warnings: &mut Vec<String>,
    ) -> Result<Queue, PortError> {
        let (port, number, slots) = (&interface.port, settings.queue, settings.slots);
        let socket =
            bind(memory, settings, warnings, port).map_err(|error| match error.raw_os_error() {
                Some(libc::EBUSY) => {
                    let name = &interface.name;
                    PortError::new(
                        port,
                        format!("another program has queue {number} of {name}"),
                    )
                }
                _ => interface.failure(&error),
            })?;
        let copies = !socket.is_zero_copy().unwrap_or(false);
        Ok(Queue {
            level: if copies { FEW.min(slots) } else { slots },
            starved: 0,
            socket,
            filling: Lent::new(memory),
            sending: Lent::new(memory),
            internal: Internal::default(),
        })
    }

    /// States met that cannot occur.
    pub(super) fn internal(&self) -> u64 {
        self.internal.count()
    }

    /// True where fewer than half of the frames wait that are to wait.
    pub(super) fn is_low(&self) -> bool {
        self.filling.count() < (self.level / 2) as usize
    }

    /// Lends the kernel frames for packets to come, up to the level.
    pub(super) fn fill(&mut self, pool: &mut FramePool) -> io::Result<()> {
        let mut filled = false;
        let wanted = self.level.saturating_sub(self.filling.count() as u32);
        for _ in 0..self.socket.fill.free()?.min(wanted) {
            let Ok(frame) = pool.take(0) else { break };
            match self.filling.lend(frame) {
                Ok(offset) => {
                    let written = self.socket.fill.write(offset);
                    self.internal
                        .check(written, "a fill ring had fewer slots than it said");
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

    /// Lends the kernel so many frames, as a driver that copies nothing takes them.
    #[cfg(test)]
    pub(super) fn fill_to(&mut self, level: u32, pool: &mut FramePool) {
        self.level = level;
        self.fill(pool).unwrap();
    }

    /// Raises the level, to `most` at most, where the kernel has found no frame.
    pub(super) fn raise(&mut self, most: u32) {
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
    pub(super) fn has_more_to_send(&mut self) -> bool {
        let ring = self.socket.transmit.as_mut();
        ring.is_some_and(|ring| ring.waiting().is_ok_and(|waiting| waiting > 0))
    }

    /// Takes back the frames that were sent.
    pub(super) fn reap(&mut self, pool: &mut FramePool) -> io::Result<u64> {
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

    pub(super) fn transmit_room(&mut self) -> io::Result<u32> {
        self.socket
            .transmit
            .as_mut()
            .map_or(Ok(0), |ring| ring.free())
    }

    pub(super) fn write(&mut self, descriptor: libc::xdp_desc) -> bool {
        let ring = self.socket.transmit.as_mut();
        ring.is_some_and(|ring| ring.write(descriptor))
    }

    /// Closes the socket and gives all its frames back; the number of packets
    /// that the kernel has not sent.
    pub(super) fn close(mut self, pool: &mut FramePool) -> u64 {
        let transmit = self.socket.transmit.as_mut();
        let unsent = transmit.and_then(|ring| ring.waiting().ok()).unwrap_or(0);
        // From here on the kernel writes no frame of ours.
        drop(self.socket);
        self.sending.take_back_all(pool);
        self.filling.take_back_all(pool);
        u64::from(unsent)
    }
}
