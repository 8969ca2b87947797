//! A connection between two that know each other.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::SystemTime;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::TlsStream;

use crate::Peer;

/// An encrypted connection, and who is at its other end.
///
/// It reads and writes as a stream does. A peer that goes without saying so (`close_notify`) makes
/// an error of kind `UnexpectedEof`, so that nobody can cut off the end of what it said.
#[derive(Debug)]
pub struct Secured {
    stream: TlsStream<TcpStream>,
    peer: Peer,
    expires: SystemTime,
}

impl Secured {
    pub(crate) fn new(stream: TlsStream<TcpStream>, peer: Peer, expires: SystemTime) -> Secured {
        Secured {
            stream,
            peer,
            expires,
        }
    }

    /// Who is at the other end.
    pub fn peer(&self) -> &Peer {
        &self.peer
    }

    /// When the peer's certificate expires. Nothing happens to the connection then: whoever holds
    /// it may end it.
    pub fn expires(&self) -> SystemTime {
        self.expires
    }

    /// The stream below, for its addresses and options. Bytes that are read from it or written to
    /// it end the connection.
    pub fn tcp(&self) -> &TcpStream {
        self.stream.get_ref().0
    }
}

impl AsyncRead for Secured {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl AsyncWrite for Secured {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, buf)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
