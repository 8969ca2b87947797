//! Writes the counts of the gates into the ledger.

use weir_ctl::ledger::Ledger;
use weir_ctl::ledger::count::Bookkeeper;
use weir_nf::host::Stage;
use weir_packet::Time;

use super::Cluster;

/// For the switches of these chains, which begin.
pub(super) fn bookkeeper(ledger: Ledger, stages: &[Stage]) -> Bookkeeper {
    let chains = stages.iter().map(|stage| {
        let functions = stage.nodes.iter().map(|node| node.name.as_str());
        (stage.chain.as_str(), functions.collect())
    });
    Bookkeeper::new(ledger, chains)
}

impl Cluster {
    /// Adds what the switches had let out by the last round: the ports have it by now. A switch that is
    /// killed between the two bills too little, never too much.
    #[inline]
    pub(super) fn bill(&mut self, now: Time) {
        let Some(books) = &mut self.books else { return };
        books.at(now);
        for (chain, at) in self.chains.iter_mut().enumerate() {
            books.add(chain, at.switch.meter());
        }
    }

    /// The same at the end of a run: nothing more is let out.
    pub(super) fn bill_rest(&mut self) {
        let now = self.clock.now();
        self.bill(now);
    }
}
