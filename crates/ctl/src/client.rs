//! The client's side: the instances of this user, and a connection to one.

use std::path::Path;
use std::time::Duration;

use hyper_util::rt::TokioIo;
use tokio::net::UnixStream;
use tonic::transport::{Channel, Endpoint, Uri};
use weir_api::v1::instance_client::InstanceClient;

pub use crate::socket::{Remedy, SocketError, folder, instances, of_coordinator, of_instance};

/// How long an instance may take to answer at all.
const CONNECT: Duration = Duration::from_secs(5);
/// How long for an answer.
const ANSWER: Duration = Duration::from_secs(60);
/// Longest answer: 10,000 flows with many names each.
const MOST_BYTES: usize = 64 << 20;

/// A connection to an instance.
pub type Client = InstanceClient<Channel>;

/// Connects to the instance whose control socket is at this path.
///
/// # Errors
///
/// Nobody listens there, or does not accept within 5 seconds: why.
pub async fn connect(path: &Path) -> Result<Client, String> {
    let owned = path.to_owned();
    let connector = tower::service_fn(move |_: Uri| {
        let path = owned.clone();
        async move { UnixStream::connect(path).await.map(TokioIo::new) }
    });
    // The address is that of the connector; this one is for the protocol.
    let channel = Endpoint::from_static("http://weir")
        .connect_timeout(CONNECT)
        .timeout(ANSWER)
        .connect_with_connector(connector)
        .await
        .map_err(|error| bottom(&error))?;
    Ok(InstanceClient::new(channel).max_decoding_message_size(MOST_BYTES))
}

/// An instance at the other end of a channel that somebody else has made.
pub fn through(channel: Channel) -> Client {
    InstanceClient::new(channel).max_decoding_message_size(MOST_BYTES)
}

/// The innermost cause of an error: it says most.
fn bottom(mut error: &dyn std::error::Error) -> String {
    while let Some(source) = error.source() {
        error = source;
    }
    error.to_string()
}
