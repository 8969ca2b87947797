//! Parts of this machine that packets, and the program that moves them, depend on:
//! interfaces and their peers, the kernel, privileges, memory, cores
//! and the clock.
//!
//! Reading changes nothing: no interface is set up, no program attached, no
//! packet sent. Facts that can't be read are left out (`None`, an empty list): a
//! machine may hide them. The doctor judges them.

mod cores;
mod kernel;
mod links;
mod memory;
mod netlink;
mod peers;
mod privileges;
mod text;

pub use cores::{Clock, Cores};
pub use kernel::{Kernel, Probe};
pub use links::{Link, Offload, Peer, Place, Queues, XdpFeatures};
pub use memory::{HugePages, Memory};
pub use privileges::{Capability, Privileges};

/// The facts of a machine, as one process in one network namespace sees it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Machine {
    /// The interfaces of this network namespace.
    pub links: Vec<Link>,
    /// The kernel, and what it grants this process.
    pub kernel: Kernel,
    /// Privileges of this process.
    pub privileges: Privileges,
    /// Its memory.
    pub memory: Memory,
    /// Its cores.
    pub cores: Cores,
    /// Its clock.
    pub clock: Clock,
}

impl Machine {
    /// Reads all of it, in some milliseconds. The other ends of pairs are looked
    /// for where `wanted` says so of an interface: that may take a look into
    /// each network namespace of the machine.
    pub fn read(wanted: impl Fn(&Link) -> bool) -> Machine {
        let mut links = links::links().unwrap_or_default();
        peers::find(&mut links, wanted);
        Machine {
            links,
            kernel: Kernel::read(),
            privileges: Privileges::read(),
            memory: Memory::read(),
            cores: Cores::read(),
            clock: Clock::read(),
        }
    }

    /// The interface of this name.
    pub fn link(&self, name: &str) -> Option<&Link> {
        self.links.iter().find(|link| link.name == name)
    }
}
