//! The requirements of a run on its machine.

use std::path::PathBuf;

use weir_io::live::LiveSpec;
use weir_packet::Prefix;

/// The requirements of a run. Without ports, the whole machine is checked.
#[derive(Clone, Debug, Default)]
pub(crate) struct Need {
    /// The run's interfaces; `None` without a run.
    pub(crate) ports: Option<Vec<LiveSpec>>,
    /// Packets of an interface leave by an interface.
    pub(crate) forwards: bool,
    /// Addresses that weir answers for as a router: the kernel must not. None of
    /// a bump.
    pub(crate) owned: Vec<Prefix>,
    /// Octets of memory that XDP sockets will pin, all together.
    pub(crate) pinned: u64,
    /// Octets of packet memory.
    pub(crate) memory: u64,
    /// Path of the run's control socket, or the reason why it can't have one.
    pub(crate) control: Option<Result<PathBuf, String>>,
    /// Cores that the run pins threads to.
    pub(crate) cores: Vec<usize>,
}

impl Need {
    /// True if the whole machine is checked, not one run.
    pub(crate) fn is_everything(&self) -> bool {
        self.ports.is_none()
    }

    /// The run's interfaces.
    pub(crate) fn ports(&self) -> &[LiveSpec] {
        self.ports.as_deref().unwrap_or_default()
    }

    /// True if the run has such a port, or the whole machine is checked.
    fn any(&self, of: impl Fn(&LiveSpec) -> bool) -> bool {
        self.is_everything() || self.ports().iter().any(of)
    }

    pub(crate) fn packet(&self) -> bool {
        self.any(|port| matches!(port, LiveSpec::Packet { .. }))
    }

    pub(crate) fn xdp(&self) -> bool {
        self.any(|port| matches!(port, LiveSpec::Xdp { .. }))
    }

    pub(crate) fn tap(&self) -> bool {
        self.any(|port| matches!(port, LiveSpec::Tap { .. }))
    }

    /// True if the run needs an interface of any kind.
    pub(crate) fn live(&self) -> bool {
        self.is_everything() || !self.ports().is_empty()
    }
}
