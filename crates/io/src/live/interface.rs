//! The interface behind a live port.

use std::cell::Cell;
use std::io;

use crate::port::PortError;
use crate::sys::interface::Interfaces;
use crate::sys::link_counts::{Dropped, LinkCounts};

/// An interface as its port knows it.
#[derive(Debug)]
pub(super) struct Interface {
    /// The port as it was written, for errors.
    pub(super) port: String,
    pub(super) name: String,
    pub(super) index: u32,
    pub(super) mtu: u32,
    /// Queues to receive from.
    pub(super) queues: u32,
    /// Queues to send on, when it was found.
    pub(super) transmit_queues: u32,
    ask: Interfaces,
    counts: Option<LinkCounts>,
    /// Packets that it has dropped, as far as is known.
    dropped: Cell<Dropped>,
    /// It was down when it was last looked at.
    down: bool,
}

impl Interface {
    /// Finds it by name.
    pub(super) fn find(port: &str, name: &str) -> Result<Interface, PortError> {
        let wrong = |error: &io::Error| failure(port, name, error);
        let ask = Interfaces::open().map_err(|e| wrong(&e))?;
        if !ask.is_ethernet(name).map_err(|e| wrong(&e))? {
            let message = format!("{name} is no Ethernet interface; its frames can't be forwarded");
            return Err(PortError::new(port, message));
        }
        let queues = ask.queues(name).map_err(|e| wrong(&e))?;
        let interface = Interface {
            port: port.to_owned(),
            name: name.to_owned(),
            index: ask.index(name).map_err(|e| wrong(&e))?,
            mtu: ask.mtu(name).map_err(|e| wrong(&e))?,
            queues: queues.receive,
            transmit_queues: queues.transmit,
            down: !ask.is_up(name).map_err(|e| wrong(&e))?,
            // Without, nothing is noticed.
            counts: LinkCounts::open().ok(),
            dropped: Cell::default(),
            ask,
        };
        Ok(interface)
    }

    #[cfg(test)]
    pub(super) fn has_counts(&self) -> bool {
        let counts = self.counts.as_ref();
        counts.is_some_and(|counts| counts.dropped(self.index).is_some())
    }

    /// Packets that it has dropped; of one that is gone, or in another namespace, the last
    /// count.
    pub(super) fn dropped(&self) -> Dropped {
        let now = self.counts.as_ref();
        if let Some(now) = now.and_then(|counts| counts.dropped(self.index)) {
            self.dropped.set(now);
        }
        self.dropped.get()
    }

    /// Sets it up.
    pub(super) fn set_up(&mut self) -> Result<(), PortError> {
        let set = self.ask.set_up(&self.name);
        set.map_err(|error| self.failure(&error))?;
        self.down = false;
        Ok(())
    }

    /// That it is down, if it is, and what to do.
    pub(super) fn warning(&self) -> Option<String> {
        self.down.then(|| {
            format!(
                "{}: {name} is down: `ip link set {name} up`",
                self.port,
                name = self.name
            )
        })
    }

    /// True where an operator has told the kernel to leave looking for packets
    /// to a program that polls (`napi_defer_hard_irqs`, `gro_flush_timeout`).
    pub(super) fn defers_interrupts(&self) -> bool {
        ["napi_defer_hard_irqs", "gro_flush_timeout"]
            .iter()
            .all(|name| {
                let path = format!("/sys/class/net/{}/{name}", self.name);
                let text = std::fs::read_to_string(path).unwrap_or_default();
                text.trim().parse().is_ok_and(|value: u64| value > 0)
            })
    }

    /// An error where it is not there any more.
    pub(super) fn check(&self) -> Result<(), PortError> {
        if self.ask.name(self.index).is_ok() {
            return Ok(());
        }
        let message = format!(
            "the interface {} is gone: it was deleted or moved to another network namespace",
            self.name
        );
        Err(PortError::new(&self.port, message))
    }

    /// Looks for its name: it may have been given another, and the one that it had
    /// may be another interface's by now. The kernel tells the rest by name only.
    fn follow_name(&mut self) {
        if let Ok(name) = self.ask.name(self.index) {
            self.name = name;
        }
    }

    /// Looks for its MTU: true where it is another than it was.
    pub(super) fn has_another_mtu(&mut self) -> bool {
        self.follow_name();
        let mtu = self.ask.mtu(&self.name).unwrap_or(self.mtu);
        std::mem::replace(&mut self.mtu, mtu) != mtu
    }

    /// Looks for its receive queues: true where there are more than there were.
    pub(super) fn has_more_queues(&mut self) -> bool {
        self.follow_name();
        let asked = self.ask.queues(&self.name);
        let queues = asked.map_or(self.queues, |queues| queues.receive);
        queues > std::mem::replace(&mut self.queues, queues)
    }

    /// An error of a system call as one of the port.
    pub(super) fn failure(&self, error: &io::Error) -> PortError {
        failure(&self.port, &self.name, error)
    }
}

/// The meaning of a kernel error, and its remedy.
pub(super) fn failure(port: &str, name: &str, error: &io::Error) -> PortError {
    let message = match error.raw_os_error() {
        Some(libc::ENODEV | libc::ENXIO) => {
            format!("there is no interface {name} in this network namespace: see `ip link`")
        }
        Some(libc::EPERM | libc::EACCES) => format!(
            "not allowed ({error}): run as root, or with CAP_NET_ADMIN and CAP_NET_RAW, and for xdp \
             with CAP_BPF and CAP_IPC_LOCK"
        ),
        Some(libc::ENOBUFS) => format!(
            "the kernel has no memory for it ({error}): raise the limit of locked memory (`ulimit -l`)"
        ),
        _ => error.to_string(),
    };
    PortError::new(port, message)
}
