//! All watches of a runtime, and whether there is one.

use weir_packet::{Depth, Malformed, ParseOptions};
use weir_telemetry::Label as _;

use super::current::Current;
use super::seen::Tracer;
use super::tap::Armed;
use crate::drops::EngineDrop;
use crate::lies::Audit;

/// Most traces of one runtime at a time: bits of a packet's mark.
pub const MOST_TRACES: usize = 8;
/// Most taps of one runtime at a time.
pub const MOST_TAPS: usize = 16;

/// All watches of a runtime.
pub(crate) struct Watches {
    pub(super) tracers: [Option<Box<dyn Tracer>>; MOST_TRACES],
    pub(super) taps: Vec<Armed>,
    /// The packet that is alone in the burst at hand.
    pub(super) current: Option<Box<Current>>,
    /// Packets of the burst at hand that the engine dropped, and why.
    pub(super) dropped: Vec<(u8, Why)>,
    pub(super) options: ParseOptions,
}

/// Every reason for which the engine itself may drop a packet, as in reports.
pub fn engine_drops() -> impl Iterator<Item = String> {
    let malformed = Malformed::ALL.iter();
    let malformed = malformed.map(|fault| format!("malformed.{}", fault.reason()));
    EngineDrop::names().map(str::to_owned).chain(malformed)
}

/// Why the engine itself drops a packet.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Why {
    Engine(EngineDrop),
    Malformed(Malformed),
}

impl Why {
    /// As in the report.
    pub(super) fn name(self) -> String {
        match self {
            Why::Engine(reason) => reason.name().to_owned(),
            Why::Malformed(fault) => format!("malformed.{}", fault.reason()),
        }
    }
}

/// The observers: the audit of descriptors, traces and taps.
pub(crate) struct Observers {
    audit: Option<Box<Audit>>,
    pub(super) watches: Option<Box<Watches>>,
    /// There is one of them.
    any: bool,
    inner: bool,
}

impl Observers {
    /// `inner`: tunnels are opened.
    pub(crate) fn new(audit: bool, inner: bool) -> Observers {
        Observers {
            audit: audit.then(|| Box::new(Audit::new(inner))),
            watches: None,
            any: audit,
            inner,
        }
    }

    #[inline]
    pub(crate) fn are_there(&self) -> bool {
        self.any
    }

    pub(crate) fn audits(&self) -> bool {
        self.audit.is_some()
    }

    pub(crate) fn audit(&self) -> Option<&Audit> {
        self.audit.as_deref()
    }

    pub(crate) fn audit_mut(&mut self) -> Option<&mut Audit> {
        self.audit.as_deref_mut()
    }

    /// The watches, for one more.
    pub(super) fn watches(&mut self) -> &mut Watches {
        self.any = true;
        let inner = self.inner;
        self.watches
            .get_or_insert_with(|| Box::new(Watches::new(inner)))
    }

    /// Without a watch nothing is looked at.
    pub(super) fn put_away(&mut self) {
        if self.watches.as_ref().is_some_and(|w| w.is_empty()) {
            self.watches = None;
        }
        self.any = self.watches.is_some() || self.audit.is_some();
    }
}

impl Watches {
    fn new(inner: bool) -> Watches {
        Watches {
            tracers: Default::default(),
            taps: Vec::new(),
            current: None,
            dropped: Vec::with_capacity(64),
            options: ParseOptions {
                depth: Depth::L4,
                inner,
                lenient: true,
            },
        }
    }

    fn is_empty(&self) -> bool {
        self.taps.is_empty() && self.tracers.iter().all(Option::is_none)
    }

    /// Slots in which there is a trace, as bits.
    pub(super) fn slots(&self) -> u8 {
        let slots = self.tracers.iter().enumerate();
        slots.fold(0, |bits, (slot, tracer)| {
            bits | u8::from(tracer.is_some()) << slot
        })
    }
}
