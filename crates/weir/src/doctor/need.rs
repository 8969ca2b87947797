//! What a run needs of a machine.

use std::path::PathBuf;

use weir_io::live::LiveSpec;
use weir_packet::Prefix;

/// What a run needs; without ports it is the machine as a whole that is asked
/// for.
#[derive(Clone, Debug, Default)]
pub(crate) struct Need {
    /// The run's interfaces; `None` where there is no run in sight.
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
    /// Where its control socket will be; why there is no such place.
    pub(crate) control: Option<Result<PathBuf, String>>,
    /// Cores that threads are to be kept on.
    pub(crate) cores: Vec<usize>,
}

impl Need {
    /// True where the machine as a whole is looked at.
    pub(crate) fn is_everything(&self) -> bool {
        self.ports.is_none()
    }

    /// The run's interfaces.
    pub(crate) fn ports(&self) -> &[LiveSpec] {
        self.ports.as_deref().unwrap_or_default()
    }

    /// Whether a port of this kind is needed; of everything all are.
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

    /// Whether it needs interfaces at all.
    pub(crate) fn live(&self) -> bool {
        self.is_everything() || !self.ports().is_empty()
    }
}
