//! The service: calls in, the state machine's orders out.

mod agents;
mod apply;
mod bill;
mod caller;
mod coordinator;
mod instances;
mod listen;
mod shared;

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::Server;
use weir_api::v1::coordinator_server::CoordinatorServer;

use crate::files;
use crate::state::Taken;
use crate::store::Store;

pub use listen::Listener;
pub use shared::Reader;
use shared::Shared;

/// Calls of a connection at a time.
const CALLS: u32 = 64;

/// Why a coordinator serves no longer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ended {
    /// It was told to stop.
    Stopped,
    /// Another coordinator leads, or may lead: why.
    Deposed(String),
}

/// Serves until `stopped` is ready, or another coordinator leads. Nothing that hosts run depends on it.
/// `kept` is what the store had: the greatest revision, and all compositions.
///
/// # Errors
///
/// A listener fails.
pub async fn serve(
    store: Arc<Store>,
    listeners: Vec<Listener>,
    reader: Arc<dyn Reader>,
    kept: (u64, Vec<Taken>),
    stopped: impl Future<Output = ()>,
) -> Result<Ended, String> {
    let shared = Arc::new(Shared::new(store, reader, kept));
    let service = CoordinatorServer::new(coordinator::Service(shared.clone()))
        .max_decoding_message_size(files::MOST_MESSAGE)
        .max_encoding_message_size(crate::host::MOST_OCTETS);
    let served = Server::builder()
        .max_concurrent_streams(Some(CALLS))
        .http2_keepalive_interval(Some(Duration::from_secs(10)))
        .http2_keepalive_timeout(Some(Duration::from_secs(10)))
        .add_service(service)
        .add_service(instances::Instances::new(shared.clone()))
        .serve_with_incoming(ReceiverStream::new(listen::accept(listeners)));
    tokio::select! {
        served = served => Err(match served {
            Ok(()) => "no listener is left".to_owned(),
            Err(error) => format!("can't serve: {error}"),
        }),
        () = stopped => Ok(Ended::Stopped),
        why = shared.store.over() => Ok(Ended::Deposed(why)),
    }
}
