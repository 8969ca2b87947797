//! An agent's side: what its host has to run comes in, and how that stands goes out.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use tokio::net::UnixStream;
use tokio::sync::{mpsc, watch};
use tokio_stream::StreamExt as _;
use tokio_stream::wrappers::ReceiverStream;
use weir_api::v1;
use weir_api::v1::coordinator_client::CoordinatorClient;
use weir_api::v1::host_said::What as Said;
use weir_api::v1::host_told::What as Told;

use crate::address::{Access, Address};
use crate::carry::{WAITING, carry};
use crate::files;

/// Longest message: the files of all compositions of a host.
pub(crate) const MOST_OCTETS: usize = 16 * files::MOST_OCTETS;

/// Carries out what the coordinator tells this host.
pub trait Work: Send + Sync + 'static {
    /// The host has to run this, and nothing else.
    fn run(&self, shares: v1::Shares);

    /// Asks an instance of this host what a reload of these files would change. It may take long.
    fn try_reload(&self, what: v1::TryReload) -> impl Future<Output = v1::HostTried> + Send;

    /// The control socket of an instance.
    fn socket_of(&self, composition: &str) -> Option<PathBuf>;
}

/// What an agent has to say, whenever it changes.
#[derive(Clone, Debug)]
pub struct Reports {
    /// How its shares stand.
    pub shares: watch::Receiver<v1::HostReport>,
    /// All that its ledgers have.
    pub ledgers: watch::Receiver<v1::LedgerReport>,
}

/// Entries of ledgers in a message.
const MOST_ENTRIES: usize = 1_000;

/// An entry's place in its ledger.
type Place = (Vec<u8>, u64, String, String, String);

/// What a coordinator was told of ledgers over a connection.
#[derive(Default)]
struct ToldOf(BTreeMap<Place, v1::LedgerEntry>);

impl ToldOf {
    /// The entries of which something else was told, or nothing, in messages.
    fn news(&mut self, report: &v1::LedgerReport) -> Vec<v1::LedgerReport> {
        let mut news: Vec<v1::LedgerEntry> = Vec::new();
        for entry in &report.entries {
            let names = (entry.tenant.clone(), entry.chain.clone());
            let place = (
                entry.ledger.clone(),
                entry.hour,
                names.0,
                names.1,
                entry.function.clone(),
            );
            if self.0.get(&place) != Some(entry) {
                self.0.insert(place, entry.clone());
                news.push(entry.clone());
            }
        }
        let messages = news.chunks(MOST_ENTRIES);
        let message = |entries: &[v1::LedgerEntry]| v1::LedgerReport {
            entries: entries.to_vec(),
        };
        messages.map(message).collect()
    }
}

/// The latest of several coordinators that this host has heard.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Latest {
    store: Vec<u8>,
    term: u64,
}

impl Latest {
    /// True unless the word comes from one that leads no longer: another with the same store has led since.
    pub fn takes(&mut self, said: &v1::Shares) -> bool {
        let is_late = said.store == self.store && said.term < self.term;
        if !is_late {
            (self.store, self.term) = (said.store.clone(), said.term);
        }
        !is_late
    }
}

/// Attends the coordinator that leads, until the connection is over: `connected` is called when it
/// stands. Reports are sent as they change.
///
/// # Errors
///
/// It can't be reached, or refuses this agent, or has gone: why.
pub async fn attend<W: Work>(
    access: &Access,
    hello: v1::HostHello,
    mut reports: Reports,
    (work, latest): (Arc<W>, &mut Latest),
    connected: impl FnOnce(&Address),
) -> Result<(), String> {
    let (channel, address) = access.reach(None).await?;
    let mut client = CoordinatorClient::new(channel)
        .max_decoding_message_size(MOST_OCTETS)
        .max_encoding_message_size(MOST_OCTETS);
    let (say, said) = mpsc::channel(WAITING);
    let gone = |_| "the connection is over".to_owned();
    let of = |what: Said| v1::HostSaid { what: Some(what) };
    say.send(of(Said::Hello(hello))).await.map_err(gone)?;
    let told = client.attend(ReceiverStream::new(said)).await;
    let mut told = told
        .map_err(|status| status.message().to_owned())?
        .into_inner();
    connected(&address);
    reports.shares.mark_changed();
    reports.ledgers.mark_changed();
    let mut told_of = ToldOf::default();
    loop {
        let told = tokio::select! {
            told = told.next() => told,
            changed = reports.shares.changed() => {
                changed.map_err(|_| "the agent ends".to_owned())?;
                let report = reports.shares.borrow_and_update().clone();
                say.send(of(Said::Report(report))).await.map_err(gone)?;
                continue;
            }
            changed = reports.ledgers.changed() => {
                changed.map_err(|_| "the agent ends".to_owned())?;
                let news = told_of.news(&reports.ledgers.borrow_and_update());
                for report in news {
                    say.send(of(Said::Ledger(report))).await.map_err(gone)?;
                }
                continue;
            }
        };
        let told = match told {
            Some(Ok(told)) => told,
            Some(Err(status)) => return Err(status.message().to_owned()),
            None => return Err("it has ended the connection".to_owned()),
        };
        match told.what {
            Some(Told::Shares(shares)) if latest.takes(&shares) => work.run(shares),
            Some(Told::Shares(_)) => {
                return Err(format!(
                    "{address} leads no longer: another coordinator does"
                ));
            }
            Some(Told::Try(what)) => {
                let (work, say) = (work.clone(), say.clone());
                tokio::spawn(async move {
                    let tried = work.try_reload(what).await;
                    // Where the connection is over, nobody waits for it.
                    let _ = say.send(of(Said::Tried(tried))).await;
                });
            }
            Some(Told::Open(v1::OpenInstance { id, composition })) => {
                let socket = work.socket_of(&composition);
                tokio::spawn(open(client.clone(), id, socket));
            }
            // A newer coordinator says what this agent does not know.
            None => {}
        }
    }
}

/// Connects to an instance, and carries that connection. Where it can't, the coordinator hears nothing,
/// and gives up.
async fn open(
    mut client: CoordinatorClient<tonic::transport::Channel>,
    id: u64,
    socket: Option<PathBuf>,
) {
    let Some(socket) = socket else {
        return;
    };
    let Ok(instance) = UnixStream::connect(socket).await else {
        return;
    };
    let (outlet, messages) = mpsc::channel(WAITING);
    let first = v1::Carried {
        id,
        octets: Vec::new(),
    };
    if outlet.send(first).await.is_err() {
        return;
    }
    if let Ok(back) = client.carry(ReceiverStream::new(messages)).await {
        carry(instance, back.into_inner(), outlet).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_that_leads_no_longer_is_not_heard() {
        let said = |store: u8, term| v1::Shares {
            store: vec![store; 16],
            term,
            ..v1::Shares::default()
        };
        let mut latest = Latest::default();
        assert!(latest.takes(&said(1, 7)) && latest.takes(&said(1, 7)));
        assert!(latest.takes(&said(1, 9)));
        assert!(!latest.takes(&said(1, 8)));
        assert!(latest.takes(&said(1, 9)));
        // Terms of another store are counted apart; each share knows its own store.
        assert!(latest.takes(&said(2, 1)));
    }
}
