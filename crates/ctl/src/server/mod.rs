//! The server of a run's control interface: gRPC ([`weir_api`]) and metrics on a thread
//! of their own, which sends commands to the threads that move packets
//! ([`crate::command`]).

mod asked;
mod bill;
mod convert;
mod fresh;
mod http;
mod metrics;
mod offer;
mod peers;
mod reasons;
mod reload;
mod reloads;
mod samples;
mod service;
mod set_book;
mod sets;
mod upgrade;
mod watches;

use std::net::TcpListener;
use std::sync::Arc;
use std::thread::JoinHandle;

use tokio::sync::oneshot;

pub use crate::socket::{Socket, SocketError};
use asked::Asked;
pub use bill::{Billed, bill_of};
pub use offer::Offer;

/// A server that runs. When it is dropped its thread ends, and its socket is gone.
#[derive(Debug)]
pub struct Server {
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    /// Answers on a control socket, for metrics, or both, until it is dropped. To be
    /// called once the signals that end a run are blocked: its thread inherits that.
    ///
    /// # Errors
    ///
    /// There is no thread or descriptor for it: why.
    pub fn start(
        socket: Option<Socket>,
        metrics: Option<TcpListener>,
        offer: Offer<'_>,
    ) -> Result<Server, String> {
        let asked = Arc::new(Asked::new(offer)?);
        let (stop, stopped) = oneshot::channel();
        let thread = service::start(socket, metrics, asked, stopped)?;
        Ok(Server {
            stop: Some(stop),
            thread: Some(thread),
        })
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // It ends by itself; a panic of its was printed.
            drop(thread.join());
        }
    }
}
