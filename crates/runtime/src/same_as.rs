//! Functions whose verdicts another's stand for.
//!
//! A node with [`same_as`](weir_nf::host::Node::same_as) is not called. The
//! earlier one's verdicts on the packets of the burst are kept, and the
//! later one's packets leave by them. The later one's numbers go on as if it had
//! run:
//!
//! - packets, bytes and what its links drop are its own;
//! - its counters grow by what the earlier one's grew by, for bursts in which
//!   exactly the same packets reached both. Other bursts leave them as they
//!   are: what single packets counted is not known, and the graph compiler
//!   lets functions that count merge only where the packets are the same;
//! - it has no states of its own: those of the earlier one stand for them.

use weir_nf::host::{MAX_LABELS, Outcome, Stage};

use crate::stage_error::StageError;

/// The labels and counts that a function which others name gave the burst at hand.
#[derive(Clone, Debug, Default)]
pub(crate) struct Remembered {
    /// Packets that were shown to it.
    given: u64,
    labels: [u64; MAX_LABELS],
    /// Its counters before the burst, then what they grew by.
    grown: Vec<u64>,
    /// Its counters before a state of it ended.
    closing: Vec<u64>,
}

impl Remembered {
    pub(crate) fn new(counters: usize) -> Remembered {
        Remembered {
            grown: vec![0; counters],
            closing: vec![0; counters],
            ..Remembered::default()
        }
    }

    /// The function is about to be called with `given`.
    pub(crate) fn before(&mut self, given: u64, counters: &[u64]) {
        self.given = given;
        self.grown.copy_from_slice(counters);
    }

    /// One of its states is about to end.
    pub(crate) fn before_close(&mut self, counters: &[u64]) {
        self.closing.copy_from_slice(counters);
    }

    /// It was called.
    pub(crate) fn after(&mut self, outcome: &Outcome, counters: &[u64]) {
        self.labels = outcome.labels;
        for (grown, &now) in self.grown.iter_mut().zip(counters) {
            *grown = now - *grown;
        }
    }

    /// The verdicts on `given`, and what to add to the later one's counters.
    /// A packet that was not shown to the earlier one gets none.
    pub(crate) fn of(&self, given: u64) -> ([u64; MAX_LABELS], &[u64]) {
        let labels = self.labels.map(|mask| mask & given);
        let exact = given == self.given;
        (labels, if exact { &self.grown } else { &[] })
    }

    /// A new burst: a function that gets no packet of it is not called.
    pub(crate) fn forget(&mut self) {
        self.given = 0;
        self.labels = [0; MAX_LABELS];
    }

    /// The growth of `counters` since [`Remembered::before_close`].
    pub(crate) fn grown_at_close(&self, counters: &[u64]) -> impl Iterator<Item = u64> {
        counters
            .iter()
            .zip(&self.closing)
            .map(|(now, before)| now - before)
    }
}

/// Refuses a node that names none, a later one, one of another kind, or one
/// that itself names another.
pub(crate) fn check_same(stage: &Stage) -> Result<(), StageError> {
    for (number, node) in stage.nodes.iter().enumerate() {
        let Some(earlier) = node.same_as else {
            continue;
        };
        let fault = |what: &str| {
            Err(StageError(format!(
                "{} can't stand for another: {what}",
                node.name
            )))
        };
        if earlier >= number {
            return fault("the function it is the same as does not come before it");
        }
        let other = &stage.nodes[earlier];
        let (kind, named) = (node.processor.descriptor(), other.processor.descriptor());
        if kind.name != named.name {
            return fault(&format!("{} is of another kind", other.name));
        }
        if other.same_as.is_some() {
            return fault(&format!("{} is not called itself", other.name));
        }
    }
    Ok(())
}
