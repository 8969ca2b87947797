//! Ends of flows that somebody has asked for, on their way to be numbered.

use std::collections::VecDeque;

use weir_packet::FlowKey;
use weir_protocol::UnitId;

/// The end of a flow that a runtime has asked for.
#[derive(Clone, Copy, Debug)]
pub(super) struct EndAsked {
    /// The runtime's place.
    pub(super) by: usize,
    pub(super) chain: usize,
    pub(super) unit: UnitId,
    pub(super) key: FlowKey,
}

/// Those that wait: a unit's flows end one after another. Runtimes ask for no
/// more than so many at a time.
#[derive(Debug, Default)]
pub(super) struct EndsAsked(VecDeque<EndAsked>);

impl EndsAsked {
    pub(super) fn push(&mut self, asked: EndAsked) {
        self.0.push_back(asked);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Ends that the runtime of a place has asked for.
    pub(super) fn of(&self, place: usize) -> usize {
        self.0.iter().filter(|asked| asked.by == place).count()
    }

    /// Has each done, in order; those that can't be yet wait on.
    pub(super) fn each(&mut self, mut done: impl FnMut(&EndAsked) -> bool) {
        self.0.retain(|asked| !done(asked));
    }
}
