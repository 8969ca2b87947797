//! `tap:NAME`: a TAP interface.

use std::fs::File;
use std::io::{ErrorKind, IoSliceMut, Read as _, Write as _};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use weir_packet::{Frame, FrameMeta, FramePool, HEADROOM, LinkType};

use super::counts::{Counts, Sent, Unsent};
use super::interface::{Interface, failure};
use super::{LiveOptions, LivePort};
use crate::port::{InputPort, OutputPort, PortCounters, PortDrop, PortError, Received};
use crate::sys::tun;

/// Octets beyond a small frame: the largest MTU that a TAP can have, and some.
const SPILL: usize = 1 << 16;

/// The network side of a TAP interface: what the machine sends there comes in.
#[derive(Debug)]
pub struct TapPort {
    interface: Interface,
    options: LiveOptions,
    file: Option<File>,
    mode: String,
    ready: Option<Frame>,
    spill: Vec<u8>,
    sequence: u64,
    input: Counts,
    output: Sent,
    too_large: u64,
    /// Packets that the interface had dropped when the port was opened.
    dropped_before: u64,
}

impl TapPort {
    /// Opens one; `port` is how it was written. An interface that is not there
    /// is made and set up; it goes with the port.
    ///
    /// # Errors
    ///
    /// If the kernel refuses, or the name is that of another interface.
    pub fn open(port: &str, name: &str, options: LiveOptions) -> Result<TapPort, PortError> {
        let there = Interface::find(port, name).is_ok();
        let file = tun::open(name).map_err(|error| match error.raw_os_error() {
            Some(libc::EINVAL) if there => PortError::new(
                port,
                format!("{name} is no TAP interface: use af-packet:{name}, or another name"),
            ),
            Some(libc::EBUSY) => PortError::new(
                port,
                format!("another program has the TAP interface {name} open"),
            ),
            Some(libc::ENOENT) => PortError::new(
                port,
                "there is no /dev/net/tun here: `modprobe tun`, or give the container that device",
            ),
            _ => failure(port, name, &error),
        })?;
        let mut interface = Interface::find(port, name)?;
        if !there {
            interface.set_up()?;
        }
        let made = if there { "" } else { ", made by this run" };
        Ok(TapPort {
            mode: format!("TAP, MTU {}{made}", interface.mtu),
            dropped_before: interface.dropped().transmitted,
            interface,
            options,
            file: Some(file),
            ready: None,
            spill: vec![0; SPILL],
            sequence: 0,
            input: Counts::default(),
            output: Sent::default(),
            too_large: 0,
        })
    }

    /// An error where the interface is gone. One that was moved to another
    /// namespace, where its users are, is not.
    fn there(&self) -> Result<(), PortError> {
        if self.file.as_ref().is_some_and(tun::is_there) {
            return Ok(());
        }
        let message = format!(
            "the interface {} is gone: it was deleted",
            self.interface.name
        );
        Err(PortError::new(&self.interface.port, message))
    }

    fn packet(
        &mut self,
        mut frame: Frame,
        len: usize,
        now: weir_packet::Time,
        pool: &mut FramePool,
    ) -> Option<Frame> {
        let memory = Arc::clone(pool.memory());
        let room = memory.room(&frame) - HEADROOM;
        self.sequence += 1;
        if len > room {
            let Ok(mut large) = pool.take(len) else {
                self.too_large += 1;
                self.input.dropped_bytes += len as u64;
                pool.give(frame);
                return None;
            };
            let (_, from) = memory.split_mut(&mut frame);
            let (_, to) = memory.split_mut(&mut large);
            if let Some((to, rest)) = to
                .get_mut(HEADROOM..HEADROOM + len)
                .and_then(|to| to.split_at_mut_checked(room))
                && let Some(from) = from.get(HEADROOM..HEADROOM + room)
                && let Some(spilled) = self.spill.get(..rest.len())
            {
                to.copy_from_slice(from);
                rest.copy_from_slice(spilled);
            }
            pool.give(frame);
            frame = large;
        }
        let mut meta = FrameMeta::received(now, len as u32);
        meta.link = LinkType::Ethernet;
        meta.sequence = self.sequence;
        meta.port = self.options.number;
        meta.side = self.options.side;
        *memory.meta_mut(&mut frame) = meta;
        self.input.add(len as u64);
        Some(frame)
    }
}

impl InputPort for TapPort {
    fn receive(
        &mut self,
        pool: &mut FramePool,
        into: &mut Vec<Frame>,
        max: usize,
    ) -> Result<Received, PortError> {
        let memory = Arc::clone(pool.memory());
        let mut now = None;
        for _ in 0..max {
            let mut frame = match self.ready.take() {
                Some(frame) => frame,
                None => match pool.take(0) {
                    Ok(frame) => frame,
                    Err(_) => break,
                },
            };
            let read = {
                let (_, room) = memory.split_mut(&mut frame);
                let room = room.get_mut(HEADROOM..).unwrap_or_default();
                let mut rooms = [IoSliceMut::new(room), IoSliceMut::new(&mut self.spill)];
                match &self.file {
                    Some(file) => (&*file).read_vectored(&mut rooms),
                    None => Ok(0),
                }
            };
            match read {
                Ok(len) if len > 0 => {
                    let now = *now.get_or_insert_with(|| self.options.clock.now());
                    into.extend(self.packet(frame, len, now, pool));
                }
                Ok(_) => {
                    self.ready = Some(frame);
                    break;
                }
                Err(error) => {
                    self.ready = Some(frame);
                    match error.kind() {
                        ErrorKind::WouldBlock => break,
                        ErrorKind::Interrupted => {}
                        _ => {
                            self.check()?;
                            return Err(self.interface.failure(&error));
                        }
                    }
                }
            }
        }
        Ok(Received::More)
    }

    fn counters(&self) -> PortCounters {
        let now = self.interface.dropped().transmitted;
        let dropped = now.saturating_sub(self.dropped_before);
        let drops = [
            (PortDrop::KernelDropped, dropped),
            (PortDrop::FrameTooLarge, self.too_large),
        ];
        self.input.counters(&self.mode, drops, [])
    }
}

impl OutputPort for TapPort {
    fn send(&mut self, pool: &mut FramePool, frames: &mut Vec<Frame>) -> Result<(), PortError> {
        let memory = Arc::clone(pool.memory());
        let mut result = Ok(());
        for frame in frames.drain(..) {
            let bytes = memory.bytes(&frame);
            let written = match (&self.file, &result) {
                (Some(file), Ok(())) => (&*file).write(bytes),
                _ => Err(ErrorKind::NotConnected.into()),
            };
            match written {
                Ok(_) => self.output.counts.add(bytes.len() as u64),
                Err(error) => {
                    let why = Unsent::of(&error);
                    self.output.drop(why, bytes.len() as u64);
                    if why == Unsent::Down && result.is_ok() {
                        // It is set down, or gone.
                        result = self.there();
                    }
                }
            }
            pool.give(frame);
        }
        result
    }

    fn counters(&self) -> PortCounters {
        self.output.counters(&self.mode)
    }
}

impl LivePort for TapPort {
    fn mode(&self) -> &str {
        &self.mode
    }

    fn warnings(&self) -> Vec<String> {
        self.interface.warning().into_iter().collect()
    }

    fn descriptors<'a>(&'a self, into: &mut Vec<BorrowedFd<'a>>) {
        into.extend(self.file.as_ref().map(AsFd::as_fd));
    }

    fn check(&mut self) -> Result<(), PortError> {
        self.there()
    }

    fn close(&mut self, pool: &mut FramePool) {
        self.interface.dropped();
        if let Some(frame) = self.ready.take() {
            pool.give(frame);
        }
        // An interface made by the run goes here.
        self.file = None;
    }
}

#[cfg(test)]
mod tests {
    use weir_packet::Side;

    use super::super::af_packet::tests::{in_namespace, ip};
    use super::super::{LiveClock, PacketPort};
    use super::*;

    #[test]
    fn what_was_dropped_is_known_when_the_interface_has_another_name() {
        in_namespace("drops", |pool| {
            let options = LiveOptions {
                number: 0,
                side: Side::Inside,
                busy_poll: false,
                clock: LiveClock::start(),
            };
            let mut port = TapPort::open("tap:drops0", "drops0", options).unwrap();
            let mut host = PacketPort::open("af-packet:drops0", "drops0", options).unwrap();
            // More than its queue takes, and nobody reads it.
            for _ in 0..50 {
                let meta = FrameMeta::default();
                let frame = |_| pool.copy(&[2; 60], meta).unwrap();
                let mut frames: Vec<Frame> = (0..64).map(frame).collect();
                host.send(pool, &mut frames).unwrap();
            }
            let dropped = |port: &TapPort| InputPort::counters(port).dropped();
            let before = dropped(&port);
            assert!(before > 0);
            ip("link set drops0 down");
            ip("link set drops0 name drops1");
            assert!(dropped(&port) >= before);
            ip("link add drops0 type veth peer name drops2");
            assert!(dropped(&port) >= before);
            port.close(pool);
            assert!(dropped(&port) >= before);
        });
    }
}
