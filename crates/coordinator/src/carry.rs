//! Octets of a connection in messages of a stream: what a coordinator and an agent carry between an
//! operator and an instance.

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::sync::mpsc;
use tokio_stream::StreamExt as _;
use tonic::{Status, Streaming};
use weir_api::v1;

/// Most octets of a message.
const MOST: usize = 16 << 10;
/// Messages that wait: one that is not read holds its sender up.
pub(crate) const WAITING: usize = 8;

/// Where messages go.
pub(crate) trait Outlet: Send + 'static {
    /// Sends one. False where nobody listens any more.
    fn send(&mut self, carried: v1::Carried) -> impl Future<Output = bool> + Send;
}

impl Outlet for mpsc::Sender<v1::Carried> {
    async fn send(&mut self, carried: v1::Carried) -> bool {
        mpsc::Sender::send(self, carried).await.is_ok()
    }
}

impl Outlet for mpsc::Sender<Result<v1::Carried, Status>> {
    async fn send(&mut self, carried: v1::Carried) -> bool {
        mpsc::Sender::send(self, Ok(carried)).await.is_ok()
    }
}

/// Carries octets both ways, until one side is over.
pub(crate) async fn carry(
    stream: impl AsyncRead + AsyncWrite,
    mut messages: Streaming<v1::Carried>,
    mut outlet: impl Outlet,
) {
    let (mut read, mut write) = tokio::io::split(stream);
    let out = async {
        let mut octets = vec![0; MOST];
        while let Ok(count @ 1..) = read.read(&mut octets).await {
            let octets = octets.get(..count).unwrap_or_default().to_vec();
            if !outlet.send(v1::Carried { id: 0, octets }).await {
                return;
            }
        }
    };
    let back = async {
        while let Some(Ok(carried)) = messages.next().await {
            if write.write_all(&carried.octets).await.is_err() {
                return;
            }
        }
    };
    tokio::select! {
        () = out => {}
        () = back => {}
    }
}
