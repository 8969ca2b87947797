//! Admits only the user who runs weir, and root.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tonic::transport::server::Connected;

/// Connections at a time.
const CONNECTIONS: usize = 64;
/// How long a new connection may be silent.
const SILENCE: Duration = Duration::from_secs(5);

/// An admitted connection.
pub(super) struct Peer {
    stream: UnixStream,
    _place: OwnedSemaphorePermit,
}

impl Connected for Peer {
    type ConnectInfo = ();
    fn connect_info(&self) {}
}

/// True if this user may connect.
fn may(user: u32) -> bool {
    user == 0 || user == rustix::process::geteuid().as_raw()
}

/// Accepts connections. The mode of the socket keeps other users out; this check is for sockets
/// whose mode was widened.
pub(super) fn accept(listener: UnixListener) -> mpsc::Receiver<std::io::Result<Peer>> {
    let (sender, receiver) = mpsc::channel(1);
    let places = Arc::new(Semaphore::new(CONNECTIONS));
    tokio::spawn(async move {
        loop {
            let stream = tokio::select! {
                accepted = listener.accept() => match accepted {
                    Ok((stream, _)) => stream,
                    // No descriptor is free, say: not for ever.
                    Err(_) => {
                        tokio::time::sleep(Duration::from_millis(50)).await;
                        continue;
                    }
                },
                () = sender.closed() => return,
            };
            let known = stream.peer_cred();
            if !known.is_ok_and(|peer| may(peer.uid())) {
                continue;
            }
            // Beyond the limit connections are closed.
            let Ok(place) = places.clone().try_acquire_owned() else {
                continue;
            };
            let sender = sender.clone();
            tokio::spawn(async move {
                // A silent one does not keep its place.
                let said = tokio::time::timeout(SILENCE, stream.readable()).await;
                if matches!(said, Ok(Ok(()))) {
                    let peer = Peer {
                        stream,
                        _place: place,
                    };
                    drop(sender.send(Ok(peer)).await);
                }
            });
        }
    });
    receiver
}

impl AsyncRead for Peer {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl AsyncWrite for Peer {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<std::io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
