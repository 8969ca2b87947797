//! Opens a port: the program, the sockets of all queues, and the members that own
//! them.

use std::os::fd::AsFd as _;
use std::sync::Arc;

use weir_packet::FramePool;

use super::super::counts::{Counts, Sent};
use super::super::interface::Interface;
use super::super::{LiveOptions, LivePort as _, Member};
use super::attachment::Attachment;
use super::attachment::XdpMode;
use super::queue::Queue;
use super::{KernelCounts, XdpPort, frames_for, most_members, slots_for, used, with_mtu};
use crate::port::PortError;
use crate::sys::bpf::Attach;
use crate::sys::xsk::XskSettings;

impl XdpPort {
    /// Opens one on all queues, or on the first `queues`; `port` is how it was
    /// written.
    ///
    /// # Errors
    ///
    /// If the interface is not there, the kernel refuses, or `mode` is one
    /// that can't be had.
    pub fn open(
        port: &str,
        name: &str,
        queues: Option<u32>,
        mode: XdpMode,
        options: LiveOptions,
        pool: &mut FramePool,
    ) -> Result<XdpPort, PortError> {
        let pools = std::slice::from_mut(pool);
        let mut members = XdpPort::open_members(port, name, queues, mode, options, pools)?;
        let only = members.pop();
        only.ok_or_else(|| PortError::new(port, "it was opened without a member"))
    }

    /// Opens one with a member for each of `pools`: queue q belongs to member q
    /// modulo their number. The members share the program on the interface, and
    /// nothing that a packet needs.
    ///
    /// # Errors
    ///
    /// As [`XdpPort::open`]; and where there are more members than queues to
    /// receive from or to send on.
    pub fn open_members(
        port: &str,
        name: &str,
        queues: Option<u32>,
        mode: XdpMode,
        options: LiveOptions,
        pools: &mut [FramePool],
    ) -> Result<Vec<XdpPort>, PortError> {
        let interface = Interface::find(port, name)?;
        let wanted = used(queues, &interface);
        if wanted > interface.queues {
            let message = format!("{name} has {} queues, not {wanted}", interface.queues);
            return Err(PortError::new(port, message));
        }
        let members = pools.len() as u32;
        let most = most_members(wanted, &interface);
        if members > most {
            let message =
                format!("{most} workers at most can have queues of {name}, not {members}");
            return Err(PortError::new(port, message));
        }
        let mut warnings = Vec::new();
        if wanted < interface.queues {
            warnings.push(format!(
                "{port}: packets of queues {wanted} to {} go past weir into the kernel",
                interface.queues - 1
            ));
        }
        let attachment = Attachment::open(&interface, wanted, mode, &mut warnings)?;
        let mut opening = Opening {
            sets: pools.iter().map(|_| Vec::new()).collect(),
            interface,
            attachment,
            warnings,
        };
        let began = opening.begin(pools, wanted);
        if let Err(error) = began {
            opening.attachment.detach();
            for (set, pool) in opening.sets.into_iter().zip(pools) {
                close_all(set, pool);
            }
            return Err(error);
        }
        opening.finish(options, pools)
    }
}

/// Gives back the frames of queues that were not used.
fn close_all(queues: Vec<Queue>, pool: &mut FramePool) {
    for queue in queues {
        queue.close(pool);
    }
}

/// A port on its way to be open.
struct Opening {
    interface: Interface,
    attachment: Attachment,
    /// The queues of each member.
    sets: Vec<Vec<Queue>>,
    warnings: Vec<String>,
}

impl Opening {
    /// Opens the sockets of `queues` queues, gives them frames, and then packets.
    fn begin(&mut self, pools: &mut [FramePool], queues: u32) -> Result<(), PortError> {
        let slots = slots_for(queues);
        let members = pools.len();
        for number in 0..queues {
            let place = number as usize % members;
            let (Some(set), Some(pool)) = (self.sets.get_mut(place), pools.get(place)) else {
                break;
            };
            let settings = XskSettings {
                interface: self.interface.index,
                queue: number,
                slots,
                transmit: set.is_empty(),
                copy: self.attachment.mode() == Attach::Generic,
            };
            let memory = pool.memory();
            set.push(Queue::open(
                &self.interface,
                memory,
                settings,
                &mut self.warnings,
            )?);
        }
        for (place, (set, pool)) in self.sets.iter_mut().zip(pools).enumerate() {
            for (turn, queue) in set.iter_mut().enumerate() {
                let number = (place + turn * members) as u32;
                let begun = queue.fill(pool);
                begun
                    .and_then(|()| self.attachment.direct(number, queue.socket.as_fd()))
                    .map_err(|error| self.interface.failure(&error))?;
            }
        }
        self.attachment.begin();
        Ok(())
    }

    /// The members of the port, each with its queues.
    fn finish(
        mut self,
        options: LiveOptions,
        pools: &mut [FramePool],
    ) -> Result<Vec<XdpPort>, PortError> {
        let polled = (options.busy_poll || self.interface.defers_interrupts()) && self.is_polled();
        let mode = self.mode(polled);
        let dropped_before = self.interface.dropped().received;
        let (port, name) = (self.interface.port.clone(), self.interface.name.clone());
        let slots = slots_for(self.attachment.queues());
        let frames = frames_for(self.attachment.queues(), self.sets.len() as u32);
        let attachment = Arc::new(self.attachment);
        let count = self.sets.len() as u32;
        let mut interface = Some(self.interface);
        let mut members: Vec<XdpPort> = Vec::new();
        let mut failed = Ok(());
        for ((index, queues), pool) in (0..).zip(self.sets).zip(pools.iter_mut()) {
            // Each asks the kernel by a socket of its own.
            let found = match interface.take() {
                Some(interface) => Ok(interface),
                None => Interface::find(&port, &name),
            };
            let interface = match found {
                Ok(interface) => interface,
                Err(error) => {
                    attachment.detach();
                    close_all(queues, pool);
                    failed = failed.and(Err(error));
                    continue;
                }
            };
            pool.set_aside(frames as i32);
            members.push(XdpPort {
                mode: with_mtu(&mode, interface.mtu),
                member: Member { index, count },
                warnings: std::mem::take(&mut self.warnings),
                chunk: pool.memory().layout().small_bytes,
                attachment: Arc::clone(&attachment),
                queues,
                slots,
                polled,
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
                last: KernelCounts::default(),
                dropped_before,
                interface,
                options,
            });
        }
        if let Err(error) = failed {
            for member in &mut members {
                let pool = pools.get_mut(member.member.index as usize);
                pool.into_iter().for_each(|pool| member.close(pool));
            }
            return Err(error);
        }
        Ok(members)
    }

    /// Has the drivers be polled; says where that can't be.
    fn is_polled(&mut self) -> bool {
        let all = || self.sets.iter().flatten();
        let refused = all().find_map(|queue| queue.socket.prefer_polling().err());
        if let Some(error) = &refused {
            let port = &self.interface.port;
            self.warnings
                .push(format!("{port}: the driver can't be polled: {error}"));
        }
        refused.is_none()
    }

    /// The mode that was obtained, for people, without the MTU.
    fn mode(&self, polled: bool) -> String {
        let mut all = self.sets.iter().flatten();
        let zero_copy = all.all(|queue| queue.socket.is_zero_copy().unwrap_or(false));
        let (queues, members) = (self.attachment.queues(), self.sets.len());
        format!(
            "AF_XDP {}, {}, {}{queues} queue{}{}, promiscuous",
            match self.attachment.mode() {
                Attach::Driver => "native",
                Attach::Generic => "generic",
            },
            if zero_copy { "zero copy" } else { "copy" },
            if polled { "polled, " } else { "" },
            if queues == 1 { "" } else { "s" },
            match members {
                1 => String::new(),
                members => format!(" over {members} workers"),
            },
        )
    }
}
