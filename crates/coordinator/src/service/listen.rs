//! Connections that are let in: those of the owner on a Unix socket, and with TCP those that show a
//! certificate of the cluster.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tonic::transport::server::Connected;
use weir_identity::{Credentials, Secured};

use super::caller::Caller;

/// Connections of a listener at a time.
const CONNECTIONS: usize = 512;
/// Connections that have not shown a certificate yet: each has five seconds for it.
const HANDSHAKES: usize = 128;
/// Interval in which refused peers are told of.
const TELL: Duration = Duration::from_secs(1);

/// Where a coordinator listens.
#[derive(Debug)]
pub enum Listener {
    /// A Unix socket that its owner alone can open.
    Unix(UnixListener),
    /// TCP, for peers with certificates; what refused ones hear is told there.
    Tcp(TcpListener, Credentials, fn(String)),
}

/// A connection that was let in.
pub(super) struct Link {
    stream: Stream,
    caller: Caller,
    _place: OwnedSemaphorePermit,
}

enum Stream {
    Unix(UnixStream),
    Secured(Box<Secured>),
}

impl Connected for Link {
    type ConnectInfo = Caller;

    fn connect_info(&self) -> Caller {
        self.caller.clone()
    }
}

/// Accepts connections of all listeners.
pub(super) fn accept(listeners: Vec<Listener>) -> mpsc::Receiver<io::Result<Link>> {
    let (sender, receiver) = mpsc::channel(1);
    for listener in listeners {
        // Each has places of its own: whoever fills those of one keeps nobody from the other.
        let (sender, places) = (sender.clone(), Arc::new(Semaphore::new(CONNECTIONS)));
        tokio::spawn(async move {
            match listener {
                Listener::Unix(listener) => accept_unix(listener, sender, places).await,
                Listener::Tcp(listener, credentials, tell) => {
                    accept_tcp(listener, (credentials, tell), sender, places).await;
                }
            }
        });
    }
    receiver
}

type Sender = mpsc::Sender<io::Result<Link>>;

/// Waits after an error: no descriptor is free, say, and not for ever.
async fn pause() {
    tokio::time::sleep(Duration::from_millis(50)).await;
}

async fn accept_unix(listener: UnixListener, sender: Sender, places: Arc<Semaphore>) {
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = sender.closed() => return,
        };
        let Ok((stream, _)) = accepted else {
            pause().await;
            continue;
        };
        let own = rustix::process::geteuid().as_raw();
        let is_own = stream
            .peer_cred()
            .is_ok_and(|peer| [0, own].contains(&peer.uid()));
        // Beyond the limit connections are closed.
        let Some(place) = places.clone().try_acquire_owned().ok().filter(|_| is_own) else {
            continue;
        };
        let link = Link {
            stream: Stream::Unix(stream),
            caller: Caller::Owner,
            _place: place,
        };
        drop(sender.send(Ok(link)).await);
    }
}

async fn accept_tcp(
    listener: TcpListener,
    (credentials, tell): (Credentials, fn(String)),
    sender: Sender,
    places: Arc<Semaphore>,
) {
    let refusals = Arc::new(Semaphore::new(1));
    let handshakes = Arc::new(Semaphore::new(HANDSHAKES));
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = sender.closed() => return,
        };
        let Ok((stream, from)) = accepted else {
            pause().await;
            continue;
        };
        let Ok(turn) = handshakes.clone().try_acquire_owned() else {
            continue;
        };
        let (places, credentials, sender, refusals) = (
            places.clone(),
            credentials.clone(),
            sender.clone(),
            refusals.clone(),
        );
        tokio::spawn(async move {
            let let_in = let_in((stream, from), &credentials).await;
            drop(turn);
            let place = places.try_acquire_owned();
            let place = place.map_err(|_| format!("{CONNECTIONS} connections are open already"));
            match let_in.and_then(|it| Ok((it, place?))) {
                Ok(((stream, caller), place)) => {
                    let link = Link {
                        stream,
                        caller,
                        _place: place,
                    };
                    drop(sender.send(Ok(link)).await);
                }
                // Whoever knocks often is told of once a second.
                Err(why) => {
                    if let Ok(turn) = refusals.try_acquire_owned() {
                        tell(format!("{} is refused: {why}", from.ip()));
                        tokio::time::sleep(TELL).await;
                        drop(turn);
                    }
                }
            }
        });
    }
}

async fn let_in(
    (stream, from): (TcpStream, SocketAddr),
    credentials: &Credentials,
) -> Result<(Stream, Caller), String> {
    stream
        .set_nodelay(true)
        .map_err(|error| error.to_string())?;
    let secured = credentials
        .accept(stream)
        .await
        .map_err(|why| why.to_string())?;
    let caller = Caller::Peer(secured.peer().clone(), from, secured.expires());
    Ok((Stream::Secured(Box::new(secured)), caller))
}

/// The end of a connection whose peer has a certificate no longer: calls that go on end, too.
fn expired() -> io::Error {
    io::Error::other("the certificate of the peer has expired")
}

impl AsyncRead for Link {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.caller.is_over() {
            return Poll::Ready(Err(expired()));
        }
        match &mut self.stream {
            Stream::Unix(stream) => Pin::new(stream).poll_read(cx, buf),
            Stream::Secured(stream) => Pin::new(stream.as_mut()).poll_read(cx, buf),
        }
    }
}

impl AsyncWrite for Link {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        if self.caller.is_over() {
            return Poll::Ready(Err(expired()));
        }
        match &mut self.stream {
            Stream::Unix(stream) => Pin::new(stream).poll_write(cx, buf),
            Stream::Secured(stream) => Pin::new(stream.as_mut()).poll_write(cx, buf),
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.stream {
            Stream::Unix(stream) => Pin::new(stream).poll_flush(cx),
            Stream::Secured(stream) => Pin::new(stream.as_mut()).poll_flush(cx),
        }
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.stream {
            Stream::Unix(stream) => Pin::new(stream).poll_shutdown(cx),
            Stream::Secured(stream) => Pin::new(stream.as_mut()).poll_shutdown(cx),
        }
    }
}
