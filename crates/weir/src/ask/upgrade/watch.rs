//! Drops that begin while a cluster is upgraded: its first rise stops the upgrade.

use std::collections::BTreeMap;
use std::time::Duration;

use weir_api::v1;

use crate::exit::Failure;

use super::super::Client;
use super::patient::patiently;

/// Reasons for which packets are dropped in that time are usual.
const USUAL: Duration = Duration::from_secs(1);

/// Packets dropped for reasons of ports, the network, the engine and the switch, none of functions.
#[derive(Debug, Default)]
pub(super) struct Drops {
    /// Of reasons that are not usual.
    quiet: BTreeMap<String, u64>,
    /// Reasons that are.
    usual: Vec<String>,
}

async fn counts(client: &mut Client, timeout: Duration) -> Result<BTreeMap<String, u64>, Failure> {
    let list = async |client: &mut Client| {
        let request = v1::ListDropReasonsRequest {};
        client.list_drop_reasons(request).await
    };
    let listed = patiently(client, timeout, list).await?;
    let of_weir = listed.reasons.into_iter();
    let of_weir = of_weir.filter(|reason| reason.chain.is_empty());
    let mut counts: BTreeMap<String, u64> = BTreeMap::new();
    for reason in of_weir {
        *counts.entry(reason.name).or_default() += reason.packets;
    }
    let get = async |client: &mut Client| client.get_stats(v1::GetStatsRequest {}).await;
    let stats = patiently(client, timeout, get).await?;
    let lost = stats.switches.iter().map(|switch| switch.lost).sum();
    counts.insert("units lost".to_owned(), lost);
    Ok(counts)
}

impl Drops {
    /// Looks for a while for what is usual.
    pub(super) async fn begin(client: &mut Client, timeout: Duration) -> Result<Drops, Failure> {
        let before = counts(client, timeout).await?;
        tokio::time::sleep(USUAL).await;
        let mut drops = Drops::default();
        for (name, count) in counts(client, timeout).await? {
            match before.get(&name) == Some(&count) {
                true => drops.quiet.insert(name, count).map_or((), drop),
                false => drops.usual.push(name),
            }
        }
        Ok(drops)
    }

    /// A switch that takes over counts from nothing.
    pub(super) fn begin_anew(&mut self) {
        self.quiet.values_mut().for_each(|count| *count = 0);
    }

    /// Stops where packets are dropped for a reason that was quiet.
    pub(super) async fn check(
        &mut self,
        client: &mut Client,
        timeout: Duration,
    ) -> Result<(), Failure> {
        for (name, count) in counts(client, timeout).await? {
            if self.usual.contains(&name) {
                continue;
            }
            let before = self.quiet.insert(name.clone(), count).unwrap_or(0);
            if count > before {
                return Err(Failure::outside(format!(
                    "the upgrade stops: {} more `{name}` since the last step (`weir drops` says what \
                     that is): give the command again to go on, or `weir upgrade --rollback`",
                    count - before
                )));
            }
        }
        Ok(())
    }
}
