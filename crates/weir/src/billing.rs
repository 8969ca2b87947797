//! The ledger of a run, and the prices of its composition (docs/billing.md).

use std::path::{Path, PathBuf};

use weir_ctl::ledger::names::{BilledChain, DEFAULT_TENANT, Names};
use weir_ctl::ledger::{Ledger, folder};
use weir_graph::{Chain, ChainFile, Prices};

use crate::exit::Failure;
use crate::seed;

/// See the module.
#[derive(Clone, Debug)]
pub(crate) struct Billing {
    /// The ledger that the switches count in.
    pub(crate) ledger: Ledger,
    /// The folder that it is in; without one it goes with the run.
    pub(crate) folder: Option<PathBuf>,
    /// Prices, where there are some.
    pub(crate) prices: Option<Prices>,
}

/// The tenant of a chain; `tenant` where it names none.
fn tenant_of<'a>(chain: &'a Chain, tenant: Option<&'a str>) -> &'a str {
    chain.tenant.as_deref().or(tenant).unwrap_or(DEFAULT_TENANT)
}

/// The tenant of each chain of a file.
pub(crate) fn tenants_of<'a>(file: &'a ChainFile, tenant: Option<&'a str>) -> Vec<&'a str> {
    let chains = file.chains.iter();
    chains.map(|chain| tenant_of(chain, tenant)).collect()
}

/// The rows for a chain file: chains that name no tenant are `tenant`'s.
pub(crate) fn names(run: &str, tenant: Option<&str>, file: &ChainFile) -> Names {
    let chains = file.chains.iter().map(|chain| BilledChain {
        name: &chain.stage.chain,
        tenant: tenant_of(chain, tenant),
        functions: (chain.stage.nodes.iter())
            .map(|node| node.name.as_str())
            .collect(),
    });
    Names::of_chains(run, chains)
}

/// Opens the ledger of a folder; without one makes a ledger that goes with the processes that have it.
///
/// # Errors
///
/// There is no memory or room for it, or another run has the folder: why.
pub(crate) fn open(folder: Option<&Path>, names: Names) -> Result<Ledger, Failure> {
    let id = [seed::random(), seed::random()];
    match folder {
        Some(folder) => folder::open(folder, &names, id).map_err(Failure::outside),
        None => Ledger::create(names, id)
            .map_err(|error| Failure::outside(format!("can't keep a ledger: {error}"))),
    }
}

/// Prices as messages have them.
#[cfg(feature = "control")]
pub(crate) fn message_of(prices: &Prices) -> weir_api::v1::Prices {
    weir_api::v1::Prices {
        currency: prices.currency.clone(),
        packets: prices.packets,
        bytes: prices.bytes,
        compute: prices.compute,
        function_packets: prices.function_packets,
    }
}
